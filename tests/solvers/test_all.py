"""What every solver must do, whatever its method: work from its name, promise, and keep quiet."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

from discreet import HuberRegressor, LinearSVC, LogisticRegression, solvers
from discreet.accounting.recompute import recomputed_epsilon
from discreet.errors import NotSupported

rng = np.random.default_rng(0)
N = 3000
X = rng.uniform(-1, 1, size=(N, 4))
SCORE = X @ [1.0, -2.0, 0.5, 0.0] + 0.2
Y = np.where(SCORE + 0.2 * rng.logistic(size=N) > 0, "yes", "no")
THREE = np.digitize(SCORE, [-0.5, 0.8])

NAMES = solvers.names()
CLASSIFY = [name for name in NAMES if name != "newton"]  # its own tests have regression instead
PRIVATE = [name for name in CLASSIFY if solvers.describe(name).private]

pytestmark = pytest.mark.filterwarnings("ignore::discreet.errors.PrivacyLeakWarning")


def settings(name, **changes):
    """Budget and relation that the solver of that name takes."""
    return {
        "solver": name,
        "epsilon": 2.0,
        "delta": 1e-6,
        "data_norm": 1.0,
        "relation": type(solvers.resolve(name)).relations[0],
        "random_state": 0,
        **changes,
    }


@pytest.mark.parametrize("table", [X, sp.csr_array(X), np.asfortranarray(X), X.astype(np.float32)])
@pytest.mark.parametrize("name", CLASSIFY)
def test_fits_and_learns_by_name(name, table):
    model = LogisticRegression(**settings(name)).fit(table, Y)
    majority = max(np.mean(Y == "yes"), np.mean(Y == "no"))
    assert model.score(table, Y) >= (majority if name == "majority" else 0.75)
    assert model.trace_
    guarantee = model.guarantee_
    json.loads(guarantee.to_json())
    if name in PRIVATE:
        assert guarantee.epsilon == 2.0
        assert guarantee.relation == solvers.describe(name).relations[0]
        assert guarantee.conditions
        assert guarantee.mechanisms
        assert guarantee.event is not None


@pytest.mark.parametrize("name", CLASSIFY)
def test_fits_several_classes_on_one_budget(name):
    model = LogisticRegression(**settings(name, epsilon=20.0)).fit(X, THREE)
    assert model.coef_.shape == (3, 4)
    assert {entry.model for entry in model.trace_} == ({0} if model.multinomial_ else {0, 1, 2})
    if name in PRIVATE:
        assert model.guarantee_.epsilon == 20.0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "estimator", [LinearSVC(loss="huber"), HuberRegressor(threshold=0.5, target_bounds=(-3, 3))]
)
def test_takes_other_smooth_losses(name, estimator):
    regression = isinstance(estimator, HuberRegressor)
    estimator.set_params(**settings(name))
    if name == ("shrunk-gd" if regression else "newton"):
        with pytest.raises(NotSupported, match="is for classes" if regression else "regression"):
            estimator.check_settings()
        return
    estimator.fit(X, SCORE if regression else Y)
    assert np.isfinite(estimator.coef_).all()


@pytest.mark.parametrize("name", PRIVATE)
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_the_other_relation_is_kept_or_refused(name, relation):
    described = solvers.describe(name)
    model = LogisticRegression(**settings(name, relation=relation))
    if relation in described.relations:
        assert model.fit(X, Y).guarantee_.relation == relation
    else:
        with pytest.raises(NotSupported, match=f"relation='{described.relations[0]}'"):
            model.fit(X, Y)


@pytest.mark.parametrize("name", PRIVATE)
def test_pure_budgets_are_kept_or_refused(name):
    model = LogisticRegression(**settings(name, delta=0.0))
    if type(solvers.resolve(name)).needs_delta:
        with pytest.raises(NotSupported, match="delta"):
            model.fit(X, Y)
    else:
        assert model.fit(X, Y).guarantee_.delta == 0
        assert model.guarantee_.measure == "pure" or model.guarantee_.mechanisms


@pytest.mark.parametrize("name", PRIVATE)
def test_two_secure_fits_differ_and_two_seeded_ones_do_not(name):
    def fit(seed):
        return LogisticRegression(**settings(name, random_state=seed)).fit(X, Y).coef_

    assert not np.array_equal(fit(None), fit(None))
    assert np.array_equal(fit(3), fit(3))


@pytest.mark.parametrize("name", PRIVATE)
def test_progress_reports_every_entry_of_the_trace(name):
    seen = []
    model = LogisticRegression(**settings(name, progress=seen.append)).fit(X, Y)
    assert [at.entry for at in seen] == list(model.trace_)
    assert 0 < seen[-1].spent_share <= 1


CALIBRATED = [
    (name, calibration)
    for name in PRIVATE
    if name != "auto"
    for calibration in (
        ("tight", "published") if "calibration" in solvers.describe(name).parameters else ("tight",)
    )
]


@pytest.mark.parametrize(("name", "calibration"), CALIBRATED)
def test_guarantees_recomputed_by_another_accountant(name, calibration):
    described = solvers.describe(name)
    # Published objective perturbation keeps its promise under add/remove only.
    relation = "add_remove" if name == "objpert" else described.relations[0]
    solver = solvers.resolve(name)
    if "calibration" in described.parameters:
        solver = type(solver)(calibration)
    model = LogisticRegression(**settings(solver, epsilon=1.0, relation=relation)).fit(X, Y)
    epsilon = recomputed_epsilon(model.guarantee_)
    assert epsilon <= model.guarantee_.epsilon * 1.003  # its grid is coarser than ours
    if calibration == "tight" and name != "rrpsgd":  # which stops at a random round
        assert epsilon >= 0.9 * model.guarantee_.epsilon
