"""A solver runs by the plan that it is handed, and refuses one that was made for something else."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from discreet import LogisticRegression
from discreet.core import Account, Budget, Curator
from discreet.core.bits import SeededBits
from discreet.core.noise import Noise
from discreet.errors import PrivacyError
from discreet.ledger import Ledger
from discreet.objectives import L2, Logistic, Problem
from discreet.rows import as_rows
from discreet.solvers import GD, SGD, ObjPert

from .conftest import bounded_table

BUDGET = Budget(1.0, 1e-6, "add_remove")
X, Y = bounded_table(n=400)
ROWS = as_rows(X, Y, row_norm=1.0)
PROBLEM = Problem(Logistic(), L2(1e-3), ROWS.n_rows, ROWS.n_features, row_norm=1.0)

SOLVERS = [GD(4), SGD(iterations=3, batch_size=50), ObjPert()]


def curator_of(budget=BUDGET, share=Fraction(1), ledger=None):
    return Curator(ROWS, Account(budget, ledger), Noise(SeededBits(0)), share)


def name_of(solver):
    return solver.name


@pytest.mark.parametrize("solver", SOLVERS, ids=name_of)
@pytest.mark.parametrize(
    ("maker", "problem", "budget", "n_models", "words"),
    [
        ({}, replace(PROBLEM, n_rows=500), BUDGET, 1, "another problem"),
        ({}, replace(PROBLEM, row_norm=2.0), BUDGET, 1, "another problem"),
        ({}, PROBLEM, BUDGET, 2, "2 models"),
        ({}, PROBLEM, Budget(2.0, 1e-6, "add_remove"), 1, "ε = 2, δ = 1e-06"),
        ({}, PROBLEM, Budget(1.0, 1e-5, "add_remove"), 1, "ε = 1, δ = 1e-05"),
        ({}, PROBLEM, Budget(1.0, 1e-6, "replace_one"), 1, "replace_one"),
        ("other settings", PROBLEM, BUDGET, 1, "made by"),
    ],
)
def test_a_plan_for_something_else_is_refused(solver, maker, problem, budget, n_models, words):
    other = {GD: GD(5), SGD: SGD(iterations=4, batch_size=50), ObjPert: ObjPert(ridge=9.0)}
    planner = other[type(solver)] if maker else solver
    plan = planner.plan(problem, budget, n_models)
    ledger = Ledger().create("rows")
    curator = curator_of(ledger=ledger)
    with pytest.raises(PrivacyError, match=words):
        solver.solve(PROBLEM, curator, plan)
    assert curator.spent_share == 0
    assert ledger.entries == 0


@pytest.mark.parametrize("solver", SOLVERS, ids=name_of)
def test_a_plan_holds_for_equal_objects_and_is_not_made_again(monkeypatch, solver):
    plan = solver.plan(PROBLEM, BUDGET, 2)

    def refuse(self, problem, budget, n_models):
        raise AssertionError("planned again")

    monkeypatch.setattr(type(solver), "_plan", refuse)
    account = Account(plan.spends)
    for seed in range(2):
        curator = Curator(ROWS, account, Noise(SeededBits(seed)), Fraction(1, 2))
        solution = replace(solver).solve(replace(PROBLEM), curator, plan)
        assert np.isfinite(solution.weights).all()


def planned_sizes(monkeypatch):
    """Number of rows of each plan that is made from now on."""
    sizes = []
    plan = GD._plan

    def watched(self, problem, budget, n_models):
        sizes.append(problem.n_rows)
        return plan(self, problem, budget, n_models)

    monkeypatch.setattr(GD, "_plan", watched)
    return sizes


@pytest.mark.filterwarnings("ignore::discreet.errors.PrivacyLeakWarning")
def test_a_fit_plans_once_for_all_models_and_again_for_a_measured_size(monkeypatch):
    sizes = planned_sizes(monkeypatch)
    labels = np.digitize(X[:, 0], [-0.2, 0.2])
    settings = {"epsilon": 1.0, "solver": GD(4), "classes": [0, 1, 2], "random_state": 0}
    LogisticRegression(**settings).fit(X, labels)
    assert sizes == [400]
    LogisticRegression(**settings).fit(X, labels, sample_weight=np.tile([0.2, 0.8, 1.0, 0.0], 100))
    assert sizes[:2] == [400, 400]
    assert len(sizes) == 3
    assert 100 < sizes[2] < 300
