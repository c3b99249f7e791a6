"""Newton steps from a noisy moment: what they spend, which noise, and what they find."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from discreet import Ledger
from discreet.core import Account, Budget, Curator, Gaussian, NoisySum
from discreet.core.bits import SeededBits
from discreet.core.noise import Noise
from discreet.core.questions import TargetMoment
from discreet.errors import NotSupported
from discreet.objectives import L2, Hinge, Huber, Logistic, Problem, Sigmoid, Softmax, Squared
from discreet.rows import as_rows
from discreet.solvers.newton import CLEAR, Newton, _corrected
from discreet.solvers.second_moment import Descent, SecondMoment, Spectrum, Target

from .conftest import solve

BUDGET = Budget(1.0, 1e-6, "add_remove")
RICH = Budget(1e6, 1e-6, "add_remove")
RELATIONS = ["add_remove", "replace_one"]
SQUARED = Squared()


def make_rows(n=3000, d=5, seed=0, noise=0.1, centre=0.3):
    """Rows of root mean square norm 10/3 with correlated columns, targets within [-1, 1]."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + rng.normal(size=(n, 1))
    X *= 10 / 3 / math.sqrt(2 * d)
    score = X @ np.linspace(-1, 1, d)
    score *= 0.15 / score.std()
    return X, np.clip(score + centre + noise * rng.normal(size=n), -1, 1)


DATA = make_rows()


def run(solver, budget=BUDGET, loss=SQUARED, data=DATA, **more):
    return solve(solver, budget, loss, data, **more)


def excess(solution, data, loss, alpha=0.0, intercept=True):
    """The objective at the solution, minus its minimum."""
    X, y = data
    full = np.column_stack([X, np.ones(len(X))]) if intercept else X

    def objective(w):
        value = loss.value(full @ w, y).mean() + alpha / 2 * w @ w
        return value, full.T @ loss.derivative(full @ w, y) / len(y) + alpha * w

    best = minimize(objective, np.zeros(full.shape[1]), jac=True, method="BFGS", tol=1e-9).fun
    return objective(solution.weights)[0] - best


@pytest.mark.parametrize("n_models", [1, 3])
@pytest.mark.parametrize("relation", RELATIONS)
def test_another_accountant_recomputes_the_guarantee(relation, n_models):
    from dp_accounting import ComposedDpEvent, GaussianDpEvent, NeighboringRelation
    from dp_accounting.pld import PLDAccountant

    budget = Budget(1.0, 1e-6, relation)
    solver = Newton(7, target_share=0.1, moment_share=0.3)
    _, guarantee, curator = run(solver, budget, n_models=n_models)
    multipliers = [
        use.mechanism.noise_multiplier for use in guarantee.mechanisms for _ in range(use.count)
    ]
    assert len(multipliers) == 9 * n_models
    costs = sorted(1 / z**2 * n_models / budget.to_gdp().mu ** 2 for z in multipliers)
    assert costs[: 7 * n_models] == pytest.approx([0.6 / 7] * 7 * n_models, rel=1e-9)
    assert costs[7 * n_models :] == pytest.approx([0.1] * n_models + [0.3] * n_models, rel=1e-9)
    # Noise is in units of what one row can move, so each is a Gaussian of sensitivity 1.
    event = ComposedDpEvent([GaussianDpEvent(z) for z in multipliers])
    for found in (event, guarantee.event):
        accountant = PLDAccountant(
            NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=1e-4
        )
        accountant.compose(ComposedDpEvent([found]))
        assert 0.995 < accountant.get_epsilon(1e-6) < 1.002
    assert guarantee.measure == "gdp"
    assert sum(1 / z**2 for z in multipliers) <= budget.to_gdp().mu ** 2
    assert curator.spent_share == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("alpha", [0.0, 0.5])
@pytest.mark.parametrize("loss", [Squared(), Huber(0.5), Huber(0.1)], ids=repr)
def test_huge_budgets_reach_the_optimum(loss, alpha, intercept, sparse):
    X, y = make_rows(centre=0.3 if intercept else 0.0)
    data = (sp.csr_array(X) if sparse else X), y
    solution, _, _ = run(Newton(40), RICH, loss, data, alpha=alpha, fit_intercept=intercept)
    assert excess(solution, (X, y), loss, alpha, intercept) < 2e-5


def test_rows_of_a_known_bound_are_used_as_they_are():
    X, y = make_rows()
    X = X / np.linalg.norm(X, axis=1).max()
    solution, _, _ = run(Newton(40), RICH, Huber(0.5), (X, y), alpha=0.5, row_norm=1.0)
    assert excess(solution, (X, y), Huber(0.5), 0.5) < 1e-7


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("centre", [0.0, -0.6])
@pytest.mark.parametrize("loss", [Squared(), Huber(0.5)], ids=repr)
def test_defaults_learn(loss, centre, relation):
    data = make_rows(5000, centre=centre)
    solution, _, _ = run(Newton(), Budget(1.0, 1e-6, relation), loss, data)
    # half of the variance of residuals is 0.005, that of what can be explained 0.011
    assert excess(solution, data, loss) < 5e-4


def test_a_wide_table_of_correlated_columns():
    data = make_rows(20_000, d=200)
    solution, _, _ = run(Newton(), BUDGET, Squared(), data)
    assert excess(solution, data, Squared()) < 1.5e-3


def test_iterations_follow_from_public_numbers():
    """10, or more where the moment's noise, σ√(2p), is above twice the mean eigenvalue, L²/p."""
    length2, found = (10 / 3) ** 2 + 1, []
    mu = BUDGET.to_gdp().mu
    for n, d in ((3000, 5), (1000, 60), (3000, 60), (10_000, 400)):
        largest = 1.44 * length2 * math.sqrt(2 * (d + 1)) / (n * mu * math.sqrt(0.2))
        expected = 10
        if largest > 2 * length2 / (d + 1):
            expected = round(min(max((n * mu * math.sqrt(0.72) / 30) ** 2, 10), 40))
        problem = Problem(Squared(), L2(0.0), n, d)
        found.append(Newton()._iterations(problem, mu**2, BUDGET.relation))
        assert found[-1] == expected
        assert Newton().doubt(n, d + 1, math.sqrt(length2), BUDGET) == pytest.approx(largest / 2)
    assert found[0] == 10
    assert found[-1] == 40
    assert 10 < max(found[1:3]) < 41
    assert len(run(Newton(), data=make_rows(1000, 60))[0].trace) == found[1]
    replaced = Budget(1.0, 1e-6, "replace_one")
    one, other = (Newton().doubt(100, 5, 1.0, budget) for budget in (BUDGET, replaced))
    assert other / one * replaced.to_gdp().mu / BUDGET.to_gdp().mu == pytest.approx(math.sqrt(2))


def test_clips_follow_residuals_and_known_bounds():
    data = make_rows(50_000, noise=0.05)
    few = run(Newton(), data=data)[0].trace[0].clip
    many = run(Newton(), data=make_rows(50_000, noise=0.3))[0].trace[0].clip
    assert 3 < many / few < 7
    capped = run(Newton(), loss=Huber(0.01), data=data, row_norm=2.0)[0].trace[0].clip
    assert capped == pytest.approx(0.01 * math.sqrt(5))


def test_long_rows_and_wild_targets_do_no_harm_to_numbers():
    X, y = make_rows()
    for table, targets in ((X * 1e6, y), (X * 1e-9, y), (X, y * 1e9), (X * 0.0, y * 0.0)):
        solution, _, _ = run(Newton(), data=(table, targets))
        assert np.isfinite(solution.weights).all()


def test_steps_that_grow_are_taken_back():
    """Most of the curvature is in rows that the moment scales down: plain steps diverge on them."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(4000, 5)) * (10 / 3 / math.sqrt(5))
    X[::10] *= 30.0
    y = np.clip(X @ np.full(5, 0.1 / 30) + 0.1 * rng.normal(size=4000), -1, 1)
    solution, _, _ = run(Newton(20), RICH, data=(X, y))
    full = np.column_stack([X, np.ones(4000)])
    least = np.mean((full @ np.linalg.lstsq(full, y, rcond=None)[0] - y) ** 2)
    assert np.mean((full @ solution.weights - y) ** 2) < 1.01 * least  # 1.06 without


def test_averaging_and_progress():
    seen = []
    last, _, _ = run(Newton(20, averaging=0.0), progress=seen.append, alpha=0.1)
    path = np.array([at.weights for at in seen])
    np.testing.assert_array_equal(last.weights, path[-1])
    assert [at.entry for at in seen] == list(last.trace)
    spent = 0.28 + 0.72 * np.arange(1, 21) / 20
    assert [at.spent_share for at in seen] == pytest.approx(spent, abs=1e-9)
    mean, _, _ = run(Newton(20, averaging=0.25), alpha=0.1)
    np.testing.assert_allclose(mean.weights, path[-5:].mean(axis=0), rtol=1e-12)


def test_steps_that_are_taken_back_are_left_out_of_the_mean():
    """A tenth of the rows is far longer than the moment's clip: the first steps are too long."""
    rng, seen = np.random.default_rng(0), []
    X = make_rows()[0].copy()
    X[rng.random(len(X)) < 0.1] *= 12
    y = np.clip(X @ np.linspace(-0.05, 0.05, 5) + 0.1 * rng.normal(size=len(X)), -1, 1)
    solution, _, _ = run(Newton(10), RICH, data=(X, y), progress=seen.append)
    plain = np.mean([at.weights for at in seen[-8:]], axis=0)
    assert np.abs(solution.weights - plain).max() > 1e-6
    averaged = SimpleNamespace(weights=plain)
    assert excess(solution, (X, y), SQUARED) < excess(averaged, (X, y), SQUARED)


def test_clear_gradients_correct_the_curvature():
    """Where most targets are at a bound, most rows have none: 0.0075 by the moment's alone."""
    X, y = make_rows(noise=0.02, centre=0.0)
    data, loss = (X, np.clip(12 * y, -1, 1)), Squared(limit=1.0)
    assert excess(run(Newton(10), RICH, loss, data)[0], data, loss) < 2e-4


def test_changes_of_gradients_that_noise_explains_correct_nothing():
    rng = np.random.default_rng(2)
    curvature = np.diag([1.0, 0.5, 0.25])
    inverse, step = np.linalg.inv(2 * curvature), rng.normal(size=3)
    change = curvature @ step
    found = _corrected(inverse, 2 * curvature, step, change, 0.0)
    assert found @ change == pytest.approx(step)
    assert found == pytest.approx(found.T)
    assert np.linalg.eigvalsh(found).min() > 0
    edge = step @ change / (CLEAR * np.linalg.norm(step))
    assert _corrected(inverse, 2 * curvature, step, change, 1.01 * edge) is inverse
    assert _corrected(inverse, 2 * curvature, step, change, 0.99 * edge) is not inverse
    assert _corrected(inverse, 21 * curvature, step, change, 0.0) is inverse
    assert _corrected(inverse, 2 * curvature, step, -change, 0.0) is inverse


@pytest.mark.parametrize("mean", [0.0, 0.6])
@pytest.mark.parametrize("deviation", [1e-4, 0.01, 0.3])
def test_noise_alone_does_not_make_the_spread_collapse(deviation, mean):
    """A variance below its noise counts as that noise, or as a usual one if that is smaller."""

    class Answer:
        def __init__(self, variance):
            self.square = variance + mean**2

        def ask(self, question, mechanism):
            assert isinstance(question, TargetMoment)
            assert not question.features
            means = np.array([1.0, math.sqrt(2.0) * mean, self.square])
            return NoisySum(100 * means, 100 * deviation, mechanism)

    problem = Problem(Squared(), L2(0.0), 100, 5)
    centre = mean * 0.09 / (0.09 + deviation**2 / 2)  # as if means were usually 0.3
    noise = deviation * math.sqrt(1 + 2 * centre**2)
    trust = 0.01 / (0.01 + noise**2)
    usual = (1 - trust) * 0.06
    for variance in (-2 * deviation, -(centre**2)):
        found = Newton()._target(problem, Answer(variance), Gaussian(1.0))
        assert found.centre == pytest.approx(centre)
        assert found.spread**2 == pytest.approx(trust * min(noise, 0.06) + usual)
    large = Newton()._target(problem, Answer(0.5), Gaussian(1.0))
    assert large.spread**2 == pytest.approx(trust * (0.5 + mean**2 - centre**2) + usual)


@pytest.mark.parametrize("loss", [Squared(), Huber(0.5)], ids=repr)
@pytest.mark.parametrize("centre", [-0.7, 0.7])
def test_penalties_may_keep_the_constant_far_from_the_targets(centre, loss):
    """Residuals are then larger than the spread of the target, and so must the clip be."""
    X, y = make_rows(20_000, noise=0.02, centre=0.0)
    data = X, 0.3 * y + centre
    for budget, most in ((BUDGET, 2e-4), (Budget(100.0, 1e-6, "add_remove"), 1e-5)):
        solution, _, _ = run(Newton(), budget, loss, data, alpha=0.5)
        assert excess(solution, data, loss, 0.5) < most


def test_conditions_name_clips_and_noise():
    solution, guarantee, _ = run(Newton(5))
    text = " ".join(solution.conditions)
    for use in guarantee.mechanisms:
        assert f"{use.mechanism.noise_multiplier:.6g}" in text
    assert f"clipped to norm {solution.trace[0].clip:.4g}" in text


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("iterations", 0),
        ("iterations", 2.5),
        ("moment_share", 0.0),
        ("moment_share", 0.95),
        ("target_share", 1.0),
        ("averaging", 1.1),
        ("row_norm", 0.0),
        ("row_norm", math.nan),
    ],
)
def test_bad_settings(field, value):
    with pytest.raises(ValueError, match=field):
        Newton(**{field: value})


def test_what_is_refused_costs_nothing():
    problem = Problem(Squared(), L2(0.0), 100, 5)
    with pytest.raises(NotSupported, match="delta > 0"):
        Newton().plan(problem, Budget(1.0, 0.0, "add_remove"))
    for loss in (Hinge(), Sigmoid()):
        with pytest.raises(NotSupported):
            Newton().check(loss, BUDGET)
    with pytest.raises(NotSupported, match=r"for regression.*Use solver='gd' or 'auto'"):
        Newton().check(Logistic(), BUDGET)
    with pytest.raises(NotSupported, match="one margin"):
        Newton().check(Softmax(3), BUDGET)
    with pytest.raises(NotSupported, match="2048"):
        Newton().plan(Problem(Squared(), L2(0.0), 100, 2048), BUDGET)
    tiny = Budget(1e-9, 1e-12, "add_remove")
    ledger = Ledger().create("rows")
    X, y = make_rows(100)
    curator = Curator(as_rows(X, y), Account(tiny, ledger), Noise(SeededBits(0)))
    with pytest.raises(ValueError, match="noise_multiplier"):
        Newton(10**6).solve(problem, curator, Newton(10**6).plan(problem, tiny))
    assert ledger.entries == 0


def test_slopes_that_noise_explains_are_shrunk():
    """Targets without a signal: little is left of the slopes; with one, nearly all."""
    X, y = make_rows(2000)
    noise = np.random.default_rng(0).permutation(y)
    poor = Budget(0.1, 1e-6, "add_remove")
    sizes = [
        [
            np.linalg.norm(run(Newton(shrink=on), poor, SQUARED, (X, noise))[0].weights[:-1])
            for _ in range(20)
        ]
        for on in (False, True)
    ]
    assert np.mean(sizes[1]) < 0.8 * np.mean(sizes[0])
    plain, shrunk = (
        run(Newton(shrink=on), RICH, SQUARED, (X, y))[0].weights for on in (False, True)
    )
    assert np.linalg.norm(shrunk) > 0.99 * np.linalg.norm(plain)


def test_the_curvature_along_a_constant_is_known():
    """Doubt slows slopes down, but the constant at most twofold; without one it is for all."""
    for doubt in (0.0, 0.1, 10.0):
        settings = {"product": np.zeros(3), "square": 1.0, "doubt": doubt, "deviation": 0.1}
        matrix = np.diag([2.0, 1.0, 0.4]) + 0.3
        found = SecondMoment(matrix=matrix, intercept=True, **settings).cautious()
        assert 1 <= found[-1, -1] <= 2
        assert found[0, 0] == 2.3 + doubt
        assert found[0, 2] == pytest.approx(0.3 / (1 + doubt))
        assert np.linalg.eigvalsh(found)[0] > 0
        plain = SecondMoment(matrix=matrix, intercept=False, **settings).cautious()
        np.testing.assert_allclose(plain, matrix + doubt * np.eye(3))


def moment_of(matrix, product, square=0.05, doubt=0.0, deviation=0.0):
    return SecondMoment(
        matrix=np.asarray(matrix, dtype=float),
        product=np.asarray(product, dtype=float),
        square=square,
        doubt=doubt,
        deviation=deviation,
        intercept=True,
    )


def test_what_is_left_is_a_share_of_the_spread_and_noise_explains_nothing():
    """The moment scales rows with their targets down, so its square alone would be too small."""
    target, size = Target(0.0, 0.4), 20
    matrix = np.diag([0.5] * size + [1.0])
    product = np.append(np.full(size, math.sqrt(0.5 * 0.04 / size)), 0.0)  # explains 0.04 of 0.1
    left = moment_of(matrix, product, square=0.1).least_squares(0.0, target)[1]
    assert left**2 == pytest.approx(0.6 * 0.16)
    rng, noise = np.random.default_rng(0), 0.05
    found = [
        moment_of(matrix, noise * rng.normal(size=size + 1), 0.1, 0.2, noise).least_squares(
            0.0, target
        )[1]
        for _ in range(50)
    ]
    assert np.mean(found) > 0.95 * 0.4  # weights of noise seem to explain 0.07 of 0.1
    doubted = replace(moment_of(matrix, product, square=-0.1), square_deviation=0.1)
    collapsed = doubted.least_squares(0.0, target)[1]
    assert collapsed**2 == pytest.approx(0.5 * 0.16)  # 0.04 of at least half of 0.16
    # where the moment's square is precise, a spread that is far larger was made by noise
    wide = moment_of(matrix, product, square=0.1).least_squares(0.0, Target(0.0, 2.0))[1]
    assert wide**2 == pytest.approx(0.6 * 0.2)


def test_the_noise_of_a_descent_is_that_of_many_runs():
    """Simulate w ← w − 0.8·(slope·w + noise)/divisor; 4,000 runs are off by at most 12 %."""
    rng, runs = np.random.default_rng(1), 4000
    likely, doubt = np.array([0.02, 0.3, 1.5]), 0.4
    descent = Descent(12, 9, 1.0, 0.7, 0.05, noise=0.1, start_noise=0.3)
    expected = descent.variances(Spectrum(likely + doubt, likely, np.eye(3)))
    divisor = likely + doubt + 0.05
    weights = 0.3 / divisor * rng.normal(size=(runs, 3))
    last = []
    for _ in range(12):
        noise = 0.1 * math.sqrt(12) * rng.normal(size=(runs, 3))
        weights = weights - 0.8 * ((0.7 * likely + 0.05) * weights + noise) / divisor
        last.append(weights)
    # the variance of 4,000 normal numbers has a deviation of 2.2 %: 12 % is beyond 5 of them
    np.testing.assert_allclose(np.mean(last[-9:], axis=0).var(axis=0), expected, rtol=0.12)
    drawn = descent._replace(noise=0.0, start_noise=0.0, sampling=0.01)
    found = drawn.variances(Spectrum(likely + doubt, likely, np.eye(3)))
    np.testing.assert_allclose(found, 0.01 * likely / (likely + 0.05) ** 2)


def test_likely_eigenvalues_keep_their_sum():
    matrix = np.diag([3.0, 1.0, 0.0, 0.0, 1.0])
    for doubt in (0.0, 0.1, 5.0):
        found = moment_of(matrix, np.zeros(5), doubt=doubt).spectrum()
        assert found.likely.sum() == pytest.approx(4.0)
        np.testing.assert_allclose(
            found.cautious, np.array([0.0, 0.0, 1.0, 3.0]) + doubt, atol=1e-9
        )
    assert found.likely.min() == pytest.approx(0.5)  # noise hides all: half of the mean, at least


def test_shrunk_slopes_leave_the_mean_of_predictions():
    """Rows of mean (0.5, 0): what slopes add to the mean prediction goes to the constant."""
    matrix = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.0], [0.5, 0.0, 1.0]])
    moment, weights = moment_of(matrix, np.zeros(3)), np.array([0.2, 0.1, 0.3])
    descent = Descent(10, 8, 1.0, 1.0, 0.0, noise=1.0)
    found, share = moment.shrunk(weights, moment.spectrum(), descent)
    np.testing.assert_allclose(found, [0.0, 0.0, 0.4])
    assert share == 0
    quiet, share = moment.shrunk(weights, moment.spectrum(), descent._replace(noise=0.0))
    assert share == 1
    np.testing.assert_allclose(quiet, weights)
    # a mean that noise explains is none
    doubtful = moment_of(matrix, np.zeros(3), doubt=1.0)
    found, _ = doubtful.shrunk(weights, doubtful.spectrum(), descent)
    assert found[2] == pytest.approx(0.3)


def test_tables_without_signal_give_the_mean():
    X = make_rows(3000, 20)[0]
    y = np.clip(0.3 + 0.25 * np.random.default_rng(5).normal(size=3000), -1, 1)
    full = np.column_stack([X, np.ones(3000)])
    budget = Budget(0.3, 1e-7, "add_remove")
    fits = [run(Newton(shrink=True), budget, data=(X, y), seed=seed)[0] for seed in range(10)]
    worse = [np.mean((full @ fit.weights - y) ** 2) / y.var() - 1 for fit in fits]
    assert np.mean(worse) < 0.02  # 0.1 with slopes as they come out
