"""The independent accountant agrees with ours, and sees when a guarantee says too little."""

import dataclasses
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import PLDAccountant
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import binom

from discreet import Centre, Guarantee, LogisticRegression, NotSupported, PrivacyError
from discreet.accounting.objective_perturbation import ObjectivePerturbation
from discreet.accounting.recompute import recomputed_epsilon
from discreet.core import (
    Account,
    Budget,
    ExponentialMechanism,
    L2Norm,
    Laplace,
    PermuteAndFlip,
    Relation,
)
from discreet.core.mechanisms import Gaussian
from discreet.solvers import describe, names, resolve
from discreet_bench.promise import check
from discreet_bench.synthetic import plane

X, Y = plane(1000, 5)
THREE = X[:, :3].argmax(axis=1)
PRIVATE = [name for name in names() if name not in ("majority", "nonprivate", "newton")]


def fitted(name, epsilon, relation, y, *, preparation=None, delta=1e-6, **settings):
    solver = name
    if name != "auto":
        solver = dataclasses.replace(resolve(name), **settings)
    norm = None if name in ("auto", "frank-wolfe") and preparation is None else 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return LogisticRegression(
            epsilon,
            delta,
            relation=relation,
            solver=solver,
            classes=np.unique(y),
            data_norm=norm,
            preparation=preparation,
        ).fit(X, y)


PROVED = [
    (name, str(relation))
    for name in PRIVATE
    for relation in resolve("gd" if name == "auto" else name).relations
]


@pytest.mark.parametrize(
    ("name", "relation", "epsilon", "classes"),
    [
        (*case, (0.1, 3.0)[(number + number // 2) % 2], (2, 3)[number % 2])
        for number, case in enumerate(PROVED)
    ],
)
def test_tight_guarantees_are_found_again(name, relation, epsilon, classes):
    guarantee = fitted(name, epsilon, relation, Y if classes == 2 else THREE).guarantee_
    recomputed = check(guarantee, epsilon, 1e-6)
    if name in ("gd", "frank-wolfe"):  # one that is recomputed quickly is enough
        assert guarantee.recompute() == recomputed
    # Not far below either: an accountant that is far too kind would pass everything. The last
    # of agd's budget may be left over, and rrpsgd stops at a random round, perhaps the first.
    assert recomputed > (0.0 if name == "rrpsgd" else 0.9) * epsilon


@pytest.mark.parametrize(
    ("name", "relation", "least"),
    [
        ("gd", "replace_one", 0.999),
        ("agd", "add_remove", 0.95),
        ("frank-wolfe", "add_remove", 0.8),
        ("sgd", "add_remove", 0.8),
        ("sgd", "replace_one", 0.8),
        ("objpert", "add_remove", 0.99),
        ("amp", "replace_one", 0.99),
        ("laplace-sgd", "replace_one", 0.95),
        ("rrpsgd", "replace_one", 0.0),
    ],
)
def test_fits_with_a_preparation_are_found_again(name, relation, least):
    guarantee = fitted(name, 1.0, relation, Y, preparation=[Centre(0.1)]).guarantee_
    assert len(guarantee.mechanisms) > 1
    assert least <= check(guarantee, 1.0, 1e-6)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_the_default_is_checked_with_dp_accounting_alone(relation, capsys):
    """The code of docs/proofs/recompute.md, as it is there."""
    model = fitted("auto", 1.0, relation, Y)
    assert {use.mechanism.name for use in model.guarantee_.mechanisms} == {
        "exponential",
        "gaussian",
    }
    page = Path(__file__).parents[2] / "docs" / "proofs" / "recompute.md"
    first, second = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    names = {"model": model}
    exec(first, names)
    found, word, stated = capsys.readouterr().out.split()
    assert word == "against"
    assert float(stated) == 1.0
    assert float(found) == pytest.approx(1.0, rel=1e-3)
    assert model.guarantee_.recompute() == pytest.approx(float(found), rel=1e-3)

    guarantee = fitted("agd", 1.0, relation, Y).guarantee_
    exec(second, names)
    names["accountant"].compose(guarantee.event)
    assert 0.9 < names["accountant"].get_epsilon(1e-6) <= 1.01


def test_events_of_sampled_steps_count_rows():
    # Under replace-one all of the event is relative to one row's clip, the preparation too.
    guarantee = fitted("sgd", 1.0, "replace_one", Y, preparation=[Centre(0.2)]).guarantee_
    accountant = PLDAccountant(NeighboringRelation.REPLACE_ONE, value_discretization_interval=1e-4)
    accountant.compose(guarantee.event)
    found = accountant.get_epsilon(1e-6)
    assert found == pytest.approx(guarantee.recompute(), rel=1e-3)
    assert 0.5 < found <= 1.0


def test_pure_budgets_add_up():
    guarantee = fitted(
        "outpert", 1.0, "add_remove", THREE, preparation=[Centre(0.1)], delta=0.0
    ).guarantee_
    assert guarantee.recompute() == pytest.approx(1.0, rel=1e-9)


def binary_epsilon(p, q, count, delta):
    """ε at δ of ``count`` answers that are yes with probability p or q, by the binomial sum."""
    yes = np.arange(count + 1)
    first, second = (binom.logpmf(yes, count, chance) for chance in (p, q))

    def excess(epsilon):
        ways = ((first, second), (second, first))
        return max(float(np.exp(a).clip(1e-300) @ gain(a, b, epsilon)) for a, b in ways) - delta

    def gain(a, b, epsilon):
        return np.maximum(0.0, -np.expm1(np.minimum(0.0, epsilon + b - a)))

    return brentq(excess, 0.0, 100.0)


def answers(mechanism):
    """Chances of one answer on two neighbouring tables, as far apart as the mechanism allows.

    Laplace noise, in one dimension L2 noise as well, on 0 or 1: is the result above 1? A choice
    between two scores that may each move by 1: they are equal, or 2 apart (permute and flip); or
    1 apart either way (exponential).
    """
    if mechanism.name == "exponential":
        return expit(mechanism.epsilon / 2), expit(-mechanism.epsilon / 2)
    return 0.5, 0.5 * np.exp(-mechanism.epsilon)


@pytest.mark.parametrize("measure", ["gdp", "approximate"])
@pytest.mark.parametrize(
    "mechanism",
    [
        Laplace(0.1),
        L2Norm(0.1),
        PermuteAndFlip(0.1, monotone=False),
        ExponentialMechanism(0.1, monotone=False),
    ],
    ids=lambda mechanism: mechanism.name,
)
def test_pure_mechanisms_are_found_to_cost_what_they_can(mechanism, measure):
    """Only a choice by the exponential mechanism has a bounded range, hence half the odds."""
    count, delta = 100, 1e-6
    account = Account(Budget(20.0, delta, "add_remove"))
    account.open(measure).charge(mechanism, count)
    found = account.guarantee(secure=True).recompute()
    least = binary_epsilon(*answers(mechanism), count, delta)
    assert least <= found <= 1.5 * least


def test_unknown_mechanisms_are_refused():
    guarantee = fitted("gd", 1.0, "add_remove", Y).guarantee_
    data = guarantee.to_dict()
    data["mechanisms"].append({"name": "third_party", "count": 1})
    with pytest.raises(NotSupported, match="third_party"):
        Guarantee.from_dict(data).recompute()


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


def test_very_many_steps_on_single_rows_against_a_fine_grid():
    from dp_accounting.pld import privacy_loss_distribution as pld

    from discreet.accounting.recompute import _single_rows

    noise, rate, count = 8.0, 1 / 2000, 30_000
    grid = {"value_discretization_interval": 8e-6}
    steps = pld.from_gaussian_mechanism(noise / 2, sampling_prob=rate, **grid).self_compose(count)
    for before in (0.0, 0.02):
        whole = steps
        if before:
            whole = steps.compose(pld.from_gaussian_mechanism(before**-0.5, **grid))
        epsilon = whole.get_epsilon_for_delta(1e-6)
        for stated in (epsilon, 20 * epsilon):  # far from what was promised as well
            found = _single_rows(2 / noise, rate, count, 1e-6, stated, before)
            assert found == pytest.approx(epsilon, rel=1e-3)


def test_nothing_run_promises_nothing():
    guarantee = fitted("majority", 1.0, "add_remove", Y).guarantee_
    assert recomputed_epsilon(guarantee) == np.inf


def test_every_private_solver_was_looked_at():
    assert {name for name in names() if name == "auto" or describe(name).private} == {
        *PRIVATE,
        "newton",
    }
