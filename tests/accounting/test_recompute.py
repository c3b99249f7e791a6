"""The independent accountant agrees with ours, and sees when a guarantee says too little."""

import dataclasses
import warnings

import numpy as np
import pytest

from discreet import LogisticRegression, PrivacyError
from discreet.accounting.objective_perturbation import ObjectivePerturbation
from discreet.accounting.recompute import check, recomputed_epsilon
from discreet.core import Relation
from discreet.core.mechanisms import Gaussian
from discreet.solvers import describe, names, resolve
from discreet_bench.synthetic import synthetic_low

X, Y = synthetic_low(1000, 5)
THREE = X[:, :3].argmax(axis=1)
PRIVATE = [name for name in names() if name not in ("majority", "nonprivate", "newton")]


def fitted(name, epsilon, relation, y, **settings):
    solver = name
    if name != "auto":
        solver = dataclasses.replace(resolve(name), **settings)
    norm = None if name in ("auto", "frank-wolfe") else 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return LogisticRegression(
            epsilon, 1e-6, relation=relation, solver=solver, classes=np.unique(y), data_norm=norm
        ).fit(X, y)


PROVED = [
    (name, str(relation))
    for name in PRIVATE
    for relation in resolve("gd" if name == "auto" else name).relations
]


@pytest.mark.parametrize("epsilon", [0.1, 3.0])
@pytest.mark.parametrize(("name", "relation"), PROVED)
def test_tight_guarantees_are_found_again(name, relation, epsilon):
    for y in (Y, THREE):
        guarantee = fitted(name, epsilon, relation, y).guarantee_
        recomputed = check(guarantee, epsilon, 1e-6)
        # Not far below either: an accountant that is far too kind would pass everything. The last
        # of agd's budget may be left over, and rrpsgd stops at a random round, perhaps the first.
        assert recomputed > (0.0 if name == "rrpsgd" else 0.9) * epsilon


def test_published_constants_that_break_their_promise_are_seen():
    guarantee = fitted(
        "objpert", 1.0, "replace_one", Y, calibration="published", unsafe=True
    ).guarantee_
    assert recomputed_epsilon(guarantee) == pytest.approx(guarantee.epsilon, rel=1e-6)
    with pytest.raises(PrivacyError, match="the objective allows"):
        check(guarantee, 1.0, 1e-6)


def test_a_guarantee_that_understates_its_noise_is_refused():
    guarantee = fitted("gd", 1.0, "add_remove", Y).guarantee_
    use = guarantee.mechanisms[0]
    louder = dataclasses.replace(use, mechanism=Gaussian(use.mechanism.noise_multiplier / 1.1))
    lying = dataclasses.replace(guarantee, mechanisms=(louder, *guarantee.mechanisms[1:]))
    with pytest.raises(PrivacyError, match="recomputing it gives"):
        check(lying, 1.0, 1e-6)


def test_more_delta_than_allowed_is_refused():
    guarantee = fitted("gd", 1.0, "add_remove", Y).guarantee_
    with pytest.raises(PrivacyError, match="δ"):
        check(guarantee, 1.0, 1e-7)


@pytest.mark.parametrize("relation", list(Relation))
def test_objective_perturbation_against_a_numerical_integral(relation):
    """One dimension, one corner: the profile holds for the worst pair of tilted minima.

    With a linear loss the mechanism is a Gaussian mechanism, which the bound must cover.
    """
    from scipy.stats import norm

    ratio = 0.4
    mechanism = ObjectivePerturbation(
        epsilon=4.0, delta=1e-3, noise_ratio=ratio, curvature_cost=0.05, corners=1,
        output_mu=0.0, relation=relation,
    )  # fmt: skip
    guarantee = dataclasses.replace(fitted("objpert", 1.0, str(relation), Y).guarantee_, delta=1e-3)
    use = dataclasses.replace(guarantee.mechanisms[0], mechanism=mechanism, count=1)
    epsilon = recomputed_epsilon(dataclasses.replace(guarantee, mechanisms=(use,)))
    mu = ratio * (2 if relation is Relation.REPLACE_ONE else 1)
    gaussian = norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    assert gaussian <= 1e-3


@pytest.mark.parametrize(
    ("noise", "rate", "count"), [(2.7, 1 / 2000, 179_385), (8.0, 1 / 2000, 30_000)]
)
def test_very_many_steps_on_single_rows_against_a_fine_grid(noise, rate, count):
    from dp_accounting.pld import privacy_loss_distribution as pld

    from discreet.accounting.recompute import _single_rows

    one = pld.from_gaussian_mechanism(
        noise / 2, sampling_prob=rate, value_discretization_interval=2e-6
    )
    grid = one.self_compose(count).get_epsilon_for_delta(1e-6)
    for stated in (grid, 20 * grid):  # far from what was promised as well
        assert _single_rows(2 / noise, rate, count, 1e-6, stated) == pytest.approx(grid, rel=1e-3)


def test_nothing_run_promises_nothing():
    guarantee = fitted("majority", 1.0, "add_remove", Y).guarantee_
    assert recomputed_epsilon(guarantee) == np.inf


def test_every_private_solver_was_looked_at():
    assert {name for name in names() if name == "auto" or describe(name).private} == {
        *PRIVATE,
        "newton",
    }
