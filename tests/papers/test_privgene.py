"""PrivGene: what a choice costs, what it finds in low dimension, what it refuses."""

import math
import time

import numpy as np
import pytest
from scipy.optimize import minimize

from discreet.accounting.conversions import epsilon_from_rho
from discreet.core import Budget, ExponentialMechanism
from discreet.errors import NotSupported
from discreet.objectives import L2, HuberHinge, Logistic, Problem, Softmax
from discreet.papers.privgene import PrivGene
from tests.solvers.conftest import LOGISTIC, solve, table

BUDGET = Budget(1.0, 1e-6, "add_remove")
DATA = table(n=2000, d=3)


def run(solver, budget=BUDGET, loss=LOGISTIC, data=DATA, **more):
    return solve(solver, budget, loss, data, **more)


def test_published_costs_by_hand():
    # ε/T for each choice; scores move apart by 2·C (a row added), so noise of scale 2·C·T/ε.
    solution, guarantee, _ = run(PrivGene(calibration="published", generations=40, seed=0))
    (use,) = guarantee.mechanisms
    assert guarantee.measure == "pure"
    assert use.count == len(solution.trace) == 40
    assert use.mechanism.epsilon == pytest.approx(1 / 40, rel=1e-9)
    assert use.mechanism.scale(0.3) == pytest.approx(2 * 0.3 * 40, rel=1e-9)


def test_tight_costs_by_hand():
    # T·ε'²/8 = ρ if δ > 0; ε/T without
    _, guarantee, _ = run(PrivGene(generations=40, seed=0))
    (use,) = guarantee.mechanisms
    assert isinstance(use.mechanism, ExponentialMechanism)
    assert use.mechanism.epsilon == pytest.approx(math.sqrt(8 * guarantee.rho / 40), rel=1e-9)
    _, guarantee, _ = run(PrivGene(generations=40, seed=0), Budget(1.0, 0.0, "add_remove"))
    assert guarantee.mechanisms[0].mechanism.epsilon == pytest.approx(1 / 40, rel=1e-9)


@pytest.mark.parametrize("calibration", ["tight", "published"])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("n_models", [1, 3])
def test_an_independent_accountant_agrees(calibration, relation, n_models):
    from dp_accounting import rdp

    budget = Budget(0.5, 1e-6, relation)
    solver = PrivGene(calibration=calibration, generations=30, population=10, seed=0)
    _, guarantee, curator = run(solver, budget, n_models=n_models)
    uses = guarantee.mechanisms
    assert sum(use.count for use in uses) == 30 * n_models
    assert 1 - 1e-9 < curator.spent_share <= 1
    if calibration == "published":
        assert sum(use.count * use.mechanism.epsilon for use in uses) <= 0.5
        return
    accountant = rdp.RdpAccountant(orders=np.concatenate([[1.5, 2, 4, 8], np.arange(10, 1200, 5)]))
    accountant.compose(guarantee.event)
    assert 0.48 < accountant.get_epsilon(1e-6) <= 0.5 * 1.001
    rho = sum(use.count * use.mechanism.epsilon**2 / 8 for use in uses)
    assert epsilon_from_rho(rho, 1e-6) <= 0.5 * (1 + 1e-9)


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge()], ids=lambda loss: loss.name)
@pytest.mark.parametrize("alpha", [0.0, 0.2])
def test_large_budgets_come_close_to_the_optimum(loss, alpha):
    X, y = DATA
    full = np.column_stack([X, np.ones(len(X))])

    def objective(w):
        return loss.value(full @ w, y).mean() + alpha / 2 * w @ w

    best = minimize(objective, np.zeros(4)).fun
    solution, _, _ = run(
        PrivGene(generations=60, seed=1), Budget(1e6, 1e-6, "replace_one"), loss, alpha=alpha
    )
    assert objective(solution.weights) < best + 0.005


def test_moderate_budgets_learn():
    X, y = table(n=10_000, d=3)
    full = np.column_stack([X, np.ones(len(X))])
    solution, _, _ = run(PrivGene(seed=1), Budget(2.0, 1e-6, "add_remove"), data=(X, y))
    assert Logistic().value(full @ solution.weights, y).mean() < 0.55  # ln 2 = 0.693 at the start


def test_generations_grow_with_rows_and_budget_within_limits():
    def generations(n, epsilon):
        problem = Problem(Logistic(), L2(0.0), n, 5)
        return PrivGene()._plan(problem, Budget(epsilon, 1e-6, "add_remove"), 1).count

    assert generations(100, 0.1) == 20
    assert generations(40_000, 1.0) == 50  # 1.25e-3·n·ε
    assert generations(10**7, 1.0) == 100


def test_mutations_and_clips_shrink_together():
    solution, _, _ = run(
        PrivGene(generations=11, mutation=1.0, last_mutation=0.1, objective_clip=2.0)
    )
    mutations = [entry.mutation for entry in solution.trace]
    assert mutations[0] == 1.0
    assert mutations[-1] == pytest.approx(0.1)
    assert mutations[5] == pytest.approx(math.sqrt(0.1))
    assert [entry.clip for entry in solution.trace] == pytest.approx(2 * np.array(mutations))


def test_candidates_are_the_parent_and_its_children():
    solver = PrivGene(population=500)
    first, last = np.zeros(4), np.ones(4)
    candidates = solver._breed([first, last], 0.25, np.random.default_rng(0))
    assert candidates.shape == (500, 4)
    assert np.array_equal(candidates[0], last)
    from_winners = np.minimum(np.abs(candidates), np.abs(candidates - 1))
    assert from_winners.max() <= 0.25
    assert np.all((from_winners > 0).sum(axis=1) <= 1)  # one weight is mutated
    crossed = np.abs(candidates - 1).max(axis=1) > 0.5
    assert 0.3 < crossed.mean() < 0.6


def test_wide_tables_breed_fast():
    """A generation of 100 candidates with 20,000 weights takes about 15 ms."""
    pool = [np.zeros(20_000), np.ones(20_000)]
    start = time.process_time()
    for _ in range(10):
        candidates = PrivGene()._breed(pool, 0.25, np.random.default_rng(0))
    assert time.process_time() - start < 2.0
    crossed = np.abs(candidates - 1).max(axis=1) > 0.5
    share = (candidates[crossed] < 0.5).mean()  # of a fair coin: 0.5 ± 0.0005
    assert 0.49 < share < 0.51


def test_candidates_beyond_memory_are_refused():
    problem = Problem(Logistic(), L2(0.0), 100, 10**4)
    with pytest.raises(ValueError, match="smaller population"):
        PrivGene(population=10**5).plan(problem, BUDGET)


def test_several_margins_a_row_are_refused():
    with pytest.raises(NotSupported, match="one margin"):
        PrivGene().check(Softmax(3), BUDGET)


def test_a_seed_fixes_the_candidates_only():
    one, _, _ = run(PrivGene(generations=5, seed=3), seed=1)
    same, _, _ = run(PrivGene(generations=5, seed=3), seed=1)
    other, _, _ = run(PrivGene(generations=5, seed=3), seed=2)
    assert np.array_equal(one.weights, same.weights)
    assert not np.array_equal(one.weights, other.weights)


def test_progress_shows_paid_for_things_only():
    seen = []
    solution, _, _ = run(PrivGene(generations=8, seed=0), progress=seen.append)
    assert [p.entry for p in seen] == list(solution.trace)
    assert [p.spent_share for p in seen] == pytest.approx(np.arange(1, 9) / 8)
    assert np.array_equal(seen[-1].weights, solution.weights)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("calibration", "loose"),
        ("generations", 0),
        ("growth", 0.0),
        ("population", 1),
        ("population", 10**5 + 1),
        ("winners", 0),
        ("mutation", math.nan),
        ("last_mutation", 5.0),
        ("objective_clip", math.inf),
        ("seed", -1),
    ],
)
def test_bad_settings(field, value):
    with pytest.raises(ValueError, match=field):
        PrivGene(**{field: value})
