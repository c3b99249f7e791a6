"""What every solver must do, whatever its method: work from its name, promise, and keep quiet."""

import json
from dataclasses import replace

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

FEW, FEW_Y = X[:600], Y[:600]

ALIASES = ["sgd-adv", "sgd-ma"]
NAMES = [name for name in solvers.names() if name not in ALIASES]
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
        "relation": solvers.resolve(name).relations[0],
        "random_state": 0,
        **changes,
    }


LAYOUTS = [np.asfortranarray, sp.csr_array, lambda X: X.astype(np.float32)]
PAIRS = [  # every solver on a table in C order and on one of the others
    *((name, np.asarray) for name in [*CLASSIFY, *ALIASES]),
    *((name, LAYOUTS[k % 3]) for k, name in enumerate(CLASSIFY)),
]


@pytest.mark.parametrize(("name", "layout"), PAIRS)
def test_fits_and_learns_by_name(name, layout):
    table = layout(X)
    model = LogisticRegression(**settings(name)).fit(table, Y)
    majority = max(np.mean(Y == "yes"), np.mean(Y == "no"))
    assert model.score(table, Y) >= (majority if name == "majority" else 0.75)
    assert model.trace_
    guarantee = model.guarantee_
    json.loads(guarantee.to_json())
    if name not in ("majority", "nonprivate"):
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
    estimator.fit(FEW, SCORE[:600] if regression else FEW_Y)
    assert np.isfinite(estimator.coef_).all()


@pytest.mark.parametrize("name", PRIVATE)
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_the_other_relation_is_kept_or_refused(name, relation):
    described = solvers.describe(name)
    model = LogisticRegression(**settings(name, relation=relation))
    if relation in described.relations:
        assert model.fit(FEW, FEW_Y).guarantee_.relation == relation
    else:
        with pytest.raises(NotSupported, match=f"relation='{described.relations[0]}'"):
            model.fit(FEW, FEW_Y)


@pytest.mark.parametrize("name", PRIVATE)
def test_pure_budgets_are_kept_or_refused(name):
    model = LogisticRegression(**settings(name, delta=0.0))
    if solvers.resolve(name).needs_delta:
        with pytest.raises(NotSupported, match="delta"):
            model.fit(FEW, FEW_Y)
    else:
        assert model.fit(FEW, FEW_Y).guarantee_.delta == 0
        assert model.guarantee_.measure == "pure" or model.guarantee_.mechanisms


@pytest.mark.parametrize("name", PRIVATE)
def test_secure_fits_differ_seeded_ones_do_not_and_both_show_progress(name):
    def fit(seed):
        seen = []
        changes = {"random_state": seed, "progress": seen.append}
        model = LogisticRegression(**settings(name, **changes)).fit(FEW, FEW_Y)
        assert [at.entry for at in seen] == list(model.trace_)
        assert 0 < seen[-1].spent_share <= 1
        return model.coef_

    assert not np.array_equal(fit(None), fit(None))
    assert np.array_equal(fit(3), fit(3))


PUBLISHED = [name for name in PRIVATE if "calibration" in solvers.describe(name).parameters]


@pytest.mark.parametrize("name", [*PUBLISHED, *ALIASES])
def test_published_guarantees_recomputed_by_another_accountant(name):
    """Of tight ones tests/accounting/test_recompute.py does so."""
    solver = replace(solvers.resolve(name), calibration="published")
    if name == "rrpsgd":
        solver = replace(solver, max_rounds=2000)
    # Published objective perturbation keeps its promise under add/remove only.
    relation = "add_remove" if name == "objpert" else solver.relations[0]
    model = LogisticRegression(**settings(solver, epsilon=1.0, relation=relation)).fit(X, Y)
    epsilon = recomputed_epsilon(model.guarantee_)
    assert epsilon <= model.guarantee_.epsilon * 1.003  # its grid is coarser than ours


def test_a_fit_plans_once(monkeypatch):
    """The plan of `Solver.plan` serves all models of a fit; another fit has its own."""
    calls = []
    calibrate = solvers.ObjPert._calibrate

    def counted(self, problem, budget, n_models):
        calls.append((budget.epsilon, n_models))
        return calibrate(self, problem, budget, n_models)

    monkeypatch.setattr(solvers.ObjPert, "_calibrate", counted)
    solver = solvers.ObjPert()
    LinearSVC(**settings(solver), loss="huber").fit(FEW, THREE[:600])
    assert calls == [(2.0, 3)]
    LinearSVC(**settings(solver, epsilon=3.0), loss="huber").fit(FEW, FEW_Y)
    LinearSVC(**settings(solver, epsilon=3.0), loss="huber").fit(FEW, FEW_Y)
    assert calls == [(2.0, 3), (3.0, 1), (3.0, 1)]
