"""Shrunk descent: what it spends, how it shrinks, which columns it keeps, and what it finds."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from discreet import Ledger
from discreet.core import Account, Budget, Curator, Gaussian
from discreet.core.bits import SeededBits
from discreet.core.noise import Noise
from discreet.core.questions import Gradient
from discreet.errors import NotSupported
from discreet.objectives import L2, Huber, Logistic, Problem, Softmax, Squared
from discreet.rows import as_rows
from discreet.solvers import GD
from discreet.solvers.shrunk_gd import DEVIATIONS, Shrinkage, ShrunkGD, worth_measuring

from .conftest import LOGISTIC, solve

BUDGET = Budget(1.0, 1e-6, "add_remove")
RICH = Budget(1e6, 1e-6, "add_remove")
RELATIONS = ["add_remove", "replace_one"]


def make_rows(n=2000, d=60, matter=3, seed=0, classes=2):
    """Rows of norm about 10/3; ``matter`` columns have different means in the classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n).astype(float)
    X = rng.normal(size=(n, d))
    for j in range(matter):
        X[:, j] += 2.0 * (y == j % classes) - 1.0
    X *= 10 / 3 / math.sqrt(d)
    return X, (2 * y - 1 if classes == 2 else y)


DATA = make_rows()


def run(solver, budget=BUDGET, loss=LOGISTIC, data=DATA, **more):
    return solve(solver, budget, loss, data, **more)


@pytest.mark.parametrize("n_models", [1, 3])
@pytest.mark.parametrize("relation", RELATIONS)
def test_two_stages_and_a_choice_cost_the_budget(relation, n_models):
    budget = Budget(1.0, 1e-6, relation)
    _, guarantee, curator = run(ShrunkGD(20), budget, n_models=n_models)
    assert guarantee.measure == "gdp"
    assert guarantee.epsilon == 1.0
    total = 0.0
    for use in guarantee.mechanisms:
        if hasattr(use.mechanism, "noise_multiplier"):
            assert use.count == 10 * n_models
            total += use.count / use.mechanism.noise_multiplier**2
        else:
            assert use.count == n_models
            # an ε-bounded-range choice, by the formula of docs/proofs/selection.md
            total += use.count * (2 * norm.ppf(1 / (1 + math.exp(-use.mechanism.epsilon / 2)))) ** 2
    assert len(guarantee.mechanisms) == 3
    assert total == pytest.approx(budget.to_gdp().mu ** 2, rel=1e-6)
    assert total <= budget.to_gdp().mu ** 2
    assert curator.spent_share == pytest.approx(1.0, abs=1e-6)


def test_one_stage_costs_what_gd_does():
    _, guarantee, _ = run(ShrunkGD(20, first_share=1.0))
    _, usual, _ = run(GD(20))
    assert guarantee.mechanisms == usual.mechanisms


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_deviation_of_the_sum_of_steps(relation):
    """Rows of zeros: sums are noise alone, and it must have the deviation that is shrunk by.

    2000 coordinates: their mean square is within 24 % but for a probability of 1e-12 (7.6 standard
    deviations of √(2/2000), normal to good accuracy so far out for so many).
    """
    n, d, T, m = 50, 2000, 12, 0.8
    budget = Budget(1.0, 1e-6, relation)
    seen = []
    solver = ShrunkGD(T, step_size=1.0, momentum=m, averaging=0.0, first_share=1.0)
    solution, guarantee, _ = run(
        solver, budget, data=(np.zeros((n, d)), np.ones(n)), progress=seen.append
    )
    k = 1 if relation == "add_remove" else 2
    one = k * 5 / 3 * guarantee.mechanisms[0].mechanism.noise_multiplier / n
    # step by step: z = −Σ_t (1 − m)·v_t, v_t = m·v_(t−1) + noise_t
    weights = np.zeros(T)
    for t in range(T):
        for later in range(t, T):
            weights[t] += (1 - m) * m ** (later - t)
    assert solution.trace[-1].deviation == pytest.approx(one * np.linalg.norm(weights), rel=1e-6)
    # what is kept, before shrinking
    kept = np.linalg.norm(seen[-1].weights[:d]) / solution.trace[-1].kept
    assert kept**2 / d == pytest.approx(solution.trace[-1].deviation ** 2, rel=0.24)


def test_posterior_means_and_squares_by_hand():
    rng = np.random.default_rng(0)
    seen = rng.normal(size=3000) * 0.5
    seen[:30] += 4.0
    shrinkage = Shrinkage()
    means = shrinkage.means(seen, 0.5)
    x = seen[:60] / 0.5
    density = shrinkage.shares * norm.pdf(x[:, None], scale=np.sqrt(1 + DEVIATIONS**2))
    density /= density.sum(axis=1, keepdims=True)
    factors = DEVIATIONS**2 / (1 + DEVIATIONS**2)
    np.testing.assert_allclose(means[:60], 0.5 * x * (density @ factors), rtol=0.02, atol=2e-3)
    squares = (density * (np.outer(x, factors) ** 2 + factors)).sum(axis=1)
    np.testing.assert_allclose(shrinkage.squares(seen[:60], 0.5), squares, rtol=0.03, atol=2e-3)
    # few matter: these are kept, the others go
    assert means[:30].mean() > 3.3
    assert np.abs(means[30:]).mean() < 0.05
    np.testing.assert_array_equal(Shrinkage().means(seen, 0.0), seen)


@pytest.mark.parametrize("share", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("size", [0.5, 2.0, 30.0])
def test_shrinking_adapts_to_sparse_and_dense(share, size):
    """Never worse than the noisy numbers, nor (by more than 5 %) than the best linear shrinkage."""
    rng = np.random.default_rng(1)
    truth = size * rng.normal(size=5000) * (rng.random(5000) < share)
    seen = truth + rng.normal(size=5000)
    shrinkage = Shrinkage()
    for _ in range(10):
        means = shrinkage.means(seen, 1.0)
    lost = np.mean((means - truth) ** 2)
    power = np.mean(truth**2)
    assert lost <= 1.05 * power / (1 + power)


def test_which_columns_are_worth_measuring():
    few = np.full(1000, 1e-3)
    few[[5, 700, 900]] = 30.0
    kept = worth_measuring(few, 0.5, 0.5)
    assert {5, 700, 900} <= set(kept)
    assert kept.size < 30
    assert np.all(np.diff(kept) > 0)
    assert worth_measuring(np.full(1000, 25.0), 0.5, 0.5).size == 1000
    assert worth_measuring(np.full(1000, 1e-5), 0.5, 0.5).size == 1000  # nothing was found
    np.testing.assert_array_equal(worth_measuring(np.array([2.0]), 0.5, 0.5), [0])


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_the_columns_that_lose_least_by_hand(scale):
    squares = scale * np.array([9.0, 0.2, 4.0, 0.1, 0.1, 0.1, 0.1, 0.1])
    ordered = np.sort(squares)[::-1]

    def lost(m):
        noise = 0.6 / 0.3 * m / 8 if m < 8 else 0.6 / 0.9
        total = ordered[m:].sum() + (ordered[:m] * noise / (ordered[:m] + noise)).sum()
        return total if m < 8 else 0.9 * total

    assert worth_measuring(squares, 0.6, 0.3).size == min((8, 1, 2, 3, 4, 5, 6, 7), key=lost)


def test_where_all_columns_matter_none_is_left_out():
    """The second half then adds to the first: all of the budget on one sum of steps."""
    X, y = make_rows(20_000, 8, matter=8)
    solution, guarantee, curator = run(ShrunkGD(20, first_share=0.5), data=(X, y))
    assert [entry.columns for entry in solution.trace] == [8] * 20
    assert sum(use.count for use in guarantee.mechanisms) == 20
    assert curator.spent_share == pytest.approx(1.0, abs=1e-9)
    assert [text.split()[0] for text in solution.conditions] == ["each", "Gaussian"]
    assert "each of 20 sums" in solution.conditions[1]
    odd, guarantee, _ = run(ShrunkGD(21), data=(X, y))
    assert [text.split()[0] for text in odd.conditions] == ["each", "Gaussian"]
    for use in guarantee.mechanisms:
        assert f"each of {use.count}" in odd.conditions[1]
        assert f"{use.mechanism.noise_multiplier:.6g} times" in odd.conditions[1]
    deviations = [entry.deviation for entry in solution.trace]
    assert deviations == sorted(deviations)


@pytest.mark.parametrize("relation", RELATIONS)
def test_finds_the_columns_that_matter(relation):
    data = make_rows(3000, 600, matter=4)
    full = np.column_stack([data[0], np.ones(3000)])
    budget = Budget(1.0, 1e-6, relation)
    wide = np.mean(np.sign(full @ run(GD(), budget, data=data)[0].weights) == data[1])
    solution, _, _ = run(ShrunkGD(), budget, data=data)
    shrunk = np.mean(np.sign(full @ solution.weights) == data[1])
    assert shrunk > 0.9  # the four columns are right in 97.7 % of rows
    assert shrunk > wide + 0.02
    assert set(np.argsort(-np.abs(solution.weights[:600]))[:4]) == {0, 1, 2, 3}
    columns = [entry.columns for entry in solution.trace]
    assert columns[:15] == [600] * 15
    assert len(set(columns[15:])) == 1
    assert columns[-1] < 200
    clipped, noise, then = solution.conditions
    assert clipped == "each row's gradient is clipped to norm 1.66667"
    assert noise.startswith("Gaussian noise on each of 15 sums")
    assert then.startswith(f"then, on {columns[-1]} of 600 columns")
    assert "gradients clipped to norm 1.66667, and Gaussian noise on each of 15 sums" in then


def test_classes_are_one_model():
    data = make_rows(4000, 300, matter=6, classes=3)
    full = np.column_stack([data[0], np.ones(4000)])
    solution, _, _ = run(ShrunkGD(), Budget(2.0, 1e-6, "add_remove"), Softmax(3), data)
    table = solution.weights.reshape(3, -1)
    assert np.mean(np.argmax(full @ table.T, axis=1) == data[1]) > 0.85
    size = np.linalg.norm(table[:, :300], axis=0)
    assert set(np.argsort(-size)[:6]) == set(range(6))


def test_huge_budgets_are_plain_descent():
    """Nothing to shrink: the same weights as GD's on the same path."""
    settings = {"step_size": 1.0, "gradient_clip": 100.0, "averaging": 0.2}
    shrunk, _, _ = run(ShrunkGD(40, first_share=1.0, **settings), RICH, alpha=0.01)
    plain, _, _ = run(GD(40, **settings), RICH, alpha=0.01)
    np.testing.assert_allclose(shrunk.weights, plain.weights, atol=0.02)
    assert shrunk.trace[-1].kept > 0.99


def test_progress_shows_the_weights_of_all_columns():
    seen = []
    solution, _, _ = run(ShrunkGD(10, averaging=0.0), progress=seen.append)
    assert [at.entry for at in seen] == list(solution.trace)
    assert {at.weights.shape for at in seen} == {(61,)}
    np.testing.assert_array_equal(seen[-1].weights, solution.weights)
    shares = [at.spent_share for at in seen]
    assert shares == sorted(shares)
    assert shares[4] == pytest.approx(0.7, abs=1e-9)
    assert shares[-1] == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_default_step_by_hand(relation):
    k = 1 if relation == "add_remove" else 2
    budget = Budget(0.1, 1e-6, relation)
    solution, _, _ = run(ShrunkGD(20), budget)
    mu = budget.to_gdp().mu
    path = min(0.6 * 2000 * mu * math.sqrt(0.7) / (k * 5 / 3), 18 * 61)
    assert solution.trace[0].step == pytest.approx(path / 10, rel=1e-9)
    one, _, _ = run(ShrunkGD(20, first_share=1.0), budget, alpha=4.0)
    assert one.trace[0].step == 0.25
    rich = Budget(100.0, 1e-6, relation)
    assert run(ShrunkGD(20), rich)[0].trace[0].step == 36.0  # stable for any intercept


def test_intercepts_that_are_noise_stay_where_they_started():
    """A constant that is twice as noisy as it is large would decide for one class everywhere."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(1000, 800)) * (10 / 3 / math.sqrt(800))
    y = np.where(np.arange(1000) % 2, 1.0, -1.0)
    budget = Budget(0.1, 1e-6, "replace_one")
    moved, free = [], []
    for seed in range(8):
        solution, _, _ = run(ShrunkGD(10, first_share=1.0), budget, data=(X, y), seed=seed)
        moved.append(solution.weights[-1])
        free.append(run(GD(10), budget, data=(X, y), seed=seed)[0].weights[-1])
    assert np.abs(moved).mean() < 0.25 * np.abs(free).mean()


def test_a_curator_of_columns():
    X, y = make_rows(200, 6)
    rows = as_rows(X, y)
    curator = Curator(rows, Account(RICH), Noise(SeededBits(0)))
    curator.open("gdp")
    part = curator.columns(np.array([1, 4]), factor=2.0)
    assert (part.n_parameters, part.n_rows, part.spent_share) == (3, 200, 0.0)
    weights = np.array([0.3, -0.2, 0.1])
    found = part.ask(Gradient(Logistic(), weights, clip=50.0), Gaussian(0.01)).values
    assert curator.spent_share == part.spent_share > 0
    narrow = np.column_stack([2 * X[:, [1, 4]], np.ones(200)])
    exact = narrow.T @ (-y / (1 + np.exp(y * (narrow @ weights))))
    # noise of deviation 0.5: three draws exceed 7.5 deviations twice in 1e13
    assert np.abs(found - exact).max() < 3.75 < np.abs(exact).max()
    for index in ([], [1, 1], [4, 1], [-1, 2], [3, 9]):
        with pytest.raises(ValueError, match="index"):
            curator.columns(np.array(index, dtype=int))
    with pytest.raises(ValueError, match="factor"):
        curator.columns(np.array([1]), factor=math.inf)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("first_share", 0.0),
        ("first_share", 0.9),
        ("first_share", True),
        ("momentum", 1.0),
        ("gradient_clip", math.nan),
    ],
)
def test_bad_settings(field, value):
    with pytest.raises(ValueError, match=field):
        ShrunkGD(**{field: value})


def test_what_is_refused_costs_nothing():
    for settings in ({"iterations": 1}, {"iterations": 0, "first_share": 1.0}):
        with pytest.raises(ValueError, match="iterations must be at least 2"):
            ShrunkGD(**settings)
    problem = Problem(Logistic(), L2(0.0), 100, 5)
    with pytest.raises(NotSupported, match="delta > 0"):
        ShrunkGD().plan(problem, Budget(1.0, 0.0, "add_remove"))
    for loss in (Squared(), Huber(0.5)):
        with pytest.raises(NotSupported, match="'newton', 'gd' or 'auto'"):
            ShrunkGD().check(loss, BUDGET)
    tiny = Budget(1e-9, 1e-12, "add_remove")
    ledger = Ledger().create("rows")
    X, y = make_rows(100, 5)
    rows = as_rows(X, y)
    curator = Curator(rows, Account(tiny, ledger), Noise(SeededBits(0)))
    with pytest.raises(ValueError, match="noise_multiplier"):
        ShrunkGD(10**6).solve(problem, curator, ShrunkGD(10**6).plan(problem, tiny))
    assert ledger.entries == 0
