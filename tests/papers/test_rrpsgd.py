"""RRPSGD: published noise by hand, the plan, the random round, stationary points, refusals."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from discreet.accounting.subsampling import SampledGaussian
from discreet.core import Account, Budget, Curator
from discreet.core.bits import SeededBits
from discreet.core.noise import Noise
from discreet.errors import BudgetExceeded, NotSupported, PrivacyError
from discreet.objectives import L2, Hinge, HuberHinge, Logistic, Problem, Sigmoid, Squared
from discreet.papers.smooth_objectives import MOST_ROUNDS, RRPSGD, chances
from discreet.rows import as_rows
from tests.solvers.conftest import LOGISTIC, projected_table, solve

N, D = 1000, 5
BUDGET = Budget(1.0, 1e-6, "replace_one")

DATA = projected_table(N)


def make_problem(n=N, loss=None, alpha=0.0):
    return Problem(loss or Logistic(), L2(alpha), n, D, row_norm=1.0)


def run(solver, budget=BUDGET, loss=LOGISTIC, data=DATA, **more):
    return solve(solver, budget, loss, data, fits=1, row_norm=1.0, **more)


def test_published_noise_by_hand():
    # Algorithm 2: variance 4L² ln(3n/δ) ln(2/δ)/ε² with L = √2, n = 1000, δ = 1e-6, ε = 0.5:
    # 8·ln(3e9)·ln(2e6)/0.25 = 8·21.82188·14.50866/0.25 = 10131.4, deviation 100.655.
    solver = RRPSGD(calibration="published", max_rounds=2000)
    solution, guarantee, _ = run(solver, Budget(0.5, 1e-6, "replace_one"))
    assert solution.trace[0].noise_scale == pytest.approx(100.655, rel=1e-5)
    assert guarantee.epsilon == 0.5


def test_published_noise_is_held_to_its_claim():
    """It is for n² rounds; with more of them it does not hold."""
    problem = make_problem(20)
    few = RRPSGD(calibration="published", max_rounds=400)
    assert few.plan(problem, BUDGET).spends == BUDGET
    many = RRPSGD(calibration="published", max_rounds=10**6)
    unsafe = RRPSGD(calibration="published", max_rounds=10**6, unsafe=True).plan(problem, BUDGET)
    true = unsafe.mechanism.epsilon(10**6, 1e-6)
    assert true > 1
    assert unsafe.spends.epsilon == pytest.approx(true, rel=1e-6)
    with pytest.raises(PrivacyError, match=f"{true:.4g}"):
        many.plan(problem, BUDGET)


def test_tight_noise_is_enough_and_not_more():
    solver = RRPSGD(max_rounds=5000)
    mechanism = solver.plan(make_problem(), BUDGET).mechanism
    assert mechanism == SampledGaussian(
        mechanism.noise_multiplier, 1 / N, BUDGET.relation, "one_row"
    )
    assert mechanism.epsilon(5000, 1e-6) <= 1
    less = SampledGaussian(0.99 * mechanism.noise_multiplier, 1 / N, BUDGET.relation, "one_row")
    assert less.epsilon(5000, 1e-6) > 1


def test_one_round_against_the_closed_form():
    # One round: with probability 1/n a row is drawn whose gradient moves by at most 2L, so
    # δ(ε) ≤ δ_G(ln(1 + n(e^ε − 1)))/n for the Gaussian mechanism (amplification by sampling).
    mechanism = RRPSGD(max_rounds=1).plan(make_problem(), BUDGET).mechanism
    mu = 2 / mechanism.noise_multiplier
    inner = math.log1p(N * math.expm1(1.0))
    normal = stats.norm
    delta = normal.cdf(mu / 2 - inner / mu) - math.exp(inner) * normal.cdf(-mu / 2 - inner / mu)
    assert delta / N == pytest.approx(1e-6, rel=0.02)


def test_the_plan_covers_all_rounds_and_the_drawn_ones_are_charged():
    solution, guarantee, curator = run(RRPSGD(max_rounds=3000))
    rounds = sum(entry.rounds for entry in solution.trace)
    assert 1 <= rounds <= 3000
    (use,) = guarantee.mechanisms
    assert use.count == rounds
    assert curator.spent_share == pytest.approx(rounds / 3000)
    assert guarantee.epsilon == 1.0
    # one model's round is in its trace; the conditions hold for all models of a fit
    other, _, _ = run(RRPSGD(max_rounds=3000), seed=1)
    assert sum(entry.rounds for entry in other.trace) != rounds
    assert other.conditions == solution.conditions


def test_models_share_one_plan():
    solution, _, _ = run(RRPSGD(max_rounds=500), n_models=3)
    alone, _, _ = run(RRPSGD(max_rounds=1500))
    assert solution.trace[0].noise_scale == pytest.approx(alone.trace[0].noise_scale, rel=1e-6)
    problem = make_problem()
    mechanism = RRPSGD(max_rounds=500).plan(problem, BUDGET).mechanism
    curator = Curator(as_rows(*DATA), Account(BUDGET), Noise(SeededBits(0)), Fraction(1, 3))
    with pytest.raises(BudgetExceeded):
        curator.open_plan(mechanism, 500)


def test_the_round_is_drawn_as_the_theorem_says():
    # P(R = k + 1) ∝ 2η_k − βη_k²; by hand for β = 2 and η = 0.5, 0.25: 0.5 and 0.375.
    assert chances(np.array([0.5, 0.25]), 2.0) == pytest.approx([0.5, 0.375])
    drawn = []
    for seed in range(400):
        solution, _, _ = run(RRPSGD(max_rounds=8, step_size=0.5), seed=seed)
        drawn.append(sum(entry.rounds for entry in solution.trace))
    # constant steps: uniform on 1, …, 8; chi-square at p > 1e-7
    assert stats.chisquare(np.bincount(drawn, minlength=9)[1:]).pvalue > 1e-7


def test_default_steps_by_hand():
    # L = √2, β = 2/4 = 0.5, D = √(2 ln 2/β) = 1.665109; σ² = 4L² + 6·(σ_z·L)²
    problem, solver = make_problem(), RRPSGD(max_rounds=10_000)
    clip = math.sqrt(2)
    expected = 1.665109 / (math.sqrt(8 + 6 * 18) * 100)
    assert solver._steps(problem, 10_000, clip, 3.0) == pytest.approx(
        np.full(10_000, expected), rel=1e-6
    )
    falling = RRPSGD(max_rounds=4, step_size=1.0, schedule="sqrt")._steps(problem, 4, clip, 3.0)
    assert falling == pytest.approx([1, 1 / math.sqrt(2), 1 / math.sqrt(3), 0.5])
    assert RRPSGD().plan(make_problem(30), BUDGET).steps.size == 900
    assert RRPSGD().plan(make_problem(10**6), BUDGET).steps.size == MOST_ROUNDS
    # 20 million numbers of noise at most, but 200 rounds
    for features, rounds in ((1999, 10_000), (10**6, 200)):
        wide = Problem(Logistic(), L2(0.0), 500, features, row_norm=1.0)
        assert RRPSGD().plan(wide, BUDGET).steps.size == rounds


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(), Sigmoid()], ids=lambda loss: loss.name)
def test_gradients_become_small(make, loss):
    """Theorem 5: the mean squared gradient norm is within its bound, and far below the start's.

    The bound holds in expectation; it exceeds what is seen here eight times, and the seeds are
    fixed.
    """
    X, y = DATA
    full = np.column_stack([X, np.ones(N)])
    solver = RRPSGD(max_rounds=100_000, distance=10.0)
    budget = Budget(1e6, 1e-6, "replace_one")

    def squared_gradient(w):
        return float(np.sum((full.T @ loss.derivative(full @ w, y) / N) ** 2))

    seen, start = [], squared_gradient(np.zeros(D + 1))
    for seed in range(8):
        solution, _, _ = run(solver, budget, loss, (make(X), y), seed=seed)
        seen.append(squared_gradient(solution.weights))
    problem = make_problem(loss=loss)
    plan = solver.plan(problem, budget)
    mechanism, steps, beta = plan.mechanism, plan.steps, problem.smoothness
    noise = problem.lipschitz**2 * (4 + (D + 1) * mechanism.noise_multiplier**2)
    distance = 2 * float(loss.value(0.0, 1.0)) / beta
    bound = beta * (distance + noise * np.sum(steps**2)) / np.sum(chances(steps, beta))
    assert np.mean(seen) < bound
    assert np.median(seen) < 0.1 * start


def test_progress_shows_parts():
    seen = []
    solution, _, _ = run(RRPSGD(max_rounds=3000), progress=seen.append)
    assert [p.entry for p in seen] == list(solution.trace)
    assert len(solution.trace) == 10
    assert [p.spent_share for p in seen] == sorted(p.spent_share for p in seen)
    assert np.array_equal(seen[-1].weights, solution.weights)


def test_what_it_refuses():
    solver, problem = RRPSGD(max_rounds=100), make_problem()
    with pytest.raises(NotSupported, match="replace_one"):
        solver.check(Logistic(), Budget(1.0, 1e-6, "add_remove"))
    with pytest.raises(NotSupported, match="delta > 0"):
        solver.check(Logistic(), Budget(1.0, 0.0, "replace_one"))
    with pytest.raises(NotSupported, match="smooth"):
        solver.check(Hinge(), BUDGET)
    with pytest.raises(NotSupported, match="up to 1"):
        RRPSGD(calibration="published").plan(problem, Budget(1.5, 1e-6, "replace_one"))
    RRPSGD("published", max_rounds=100).plan(problem, Budget(1.5, 1e-6, "replace_one"), 2)
    with pytest.raises(ValueError, match="data_norm"):
        solver.plan(Problem(Logistic(), L2(0.0), N, D), BUDGET)
    with pytest.raises(ValueError, match="gradient_clip"):
        solver.plan(make_problem(loss=Squared()), BUDGET)
    with pytest.raises(ValueError, match="below 2/β"):
        RRPSGD(max_rounds=100, step_size=2 / problem.smoothness).plan(problem, BUDGET)
    RRPSGD(max_rounds=100, gradient_clip=1.0).plan(make_problem(loss=Squared()), BUDGET)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("calibration", "loose"),
        ("unsafe", None),
        ("schedule", "linear"),
        ("max_rounds", 0),
        ("max_rounds", 1.5),
        ("max_rounds", 10**9),
        ("step_size", 0.0),
        ("distance", math.nan),
        ("gradient_clip", -1.0),
    ],
)
def test_bad_settings(field, value):
    with pytest.raises(ValueError, match=field):
        RRPSGD(**{field: value})
