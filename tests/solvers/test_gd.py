"""Noisy gradient descent: what it spends, how much noise, which step, and what it finds."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from discreet import Ledger
from discreet.core import Account, Budget, Curator
from discreet.core.bits import SeededBits
from discreet.core.noise import Noise
from discreet.errors import NotSupported
from discreet.objectives import (
    L2,
    Hinge,
    Huber,
    HuberHinge,
    Logistic,
    MulticlassHinge,
    Poisson,
    Problem,
    Softmax,
    Squared,
)
from discreet.rows import as_rows
from discreet.solvers import GD
from discreet.solvers.gd import _kept, _shares

from .conftest import LOGISTIC, solve

BUDGET = Budget(1.0, 1e-6, "add_remove")
RICH = Budget(1e6, 1e-6, "add_remove")
RELATIONS = ["add_remove", "replace_one"]


def make_rows(n=3000, d=5, seed=0, task="classification"):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (10 / 3 / math.sqrt(d))
    score = X @ np.linspace(-1, 1, d) + 0.5
    if task == "classification":
        return X, np.where(score + rng.logistic(size=n) > 0, 1.0, -1.0)
    if task == "classes":
        return X, np.digitize(score + 0.5 * rng.logistic(size=n), [-1.0, 1.0]).astype(float)
    return X, score + 0.1 * rng.normal(size=n)


DATA = make_rows()


def run(solver, budget=BUDGET, loss=LOGISTIC, data=DATA, **more):
    return solve(solver, budget, loss, data, **more)


@pytest.mark.parametrize("n_models", [1, 3])
@pytest.mark.parametrize("relation", RELATIONS)
def test_another_accountant_recomputes_the_guarantee(relation, n_models):
    from dp_accounting import GaussianDpEvent, NeighboringRelation, SelfComposedDpEvent
    from dp_accounting.pld import PLDAccountant

    budget = Budget(1.0, 1e-6, relation)
    _, guarantee, curator = run(GD(20), budget, n_models=n_models)
    (use,) = guarantee.mechanisms
    assert use.count == 20 * n_models
    assert guarantee.measure == "gdp"
    assert guarantee.epsilon == 1.0
    # Noise is in units of what one row can move (2·clip under replace), so under both relations
    # one use is a Gaussian mechanism of sensitivity 1.
    event = SelfComposedDpEvent(GaussianDpEvent(use.mechanism.noise_multiplier), use.count)
    for found in (event, guarantee.event):
        accountant = PLDAccountant(
            NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=1e-4
        )
        accountant.compose(SelfComposedDpEvent(found, 1))
        assert 0.995 < accountant.get_epsilon(1e-6) < 1.002
    assert use.count / use.mechanism.noise_multiplier**2 <= budget.to_gdp().mu ** 2
    assert curator.spent_share == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("relation", RELATIONS)
def test_noise_scale_by_relation(relation):
    """With rows of zeros the sums are noise alone (but for the intercept): clip·k·σ a coordinate.

    40·200 draws; their variance is within 12 % of it but for a probability of 3e-14 (7.6
    standard deviations of √(2/8000)).
    """
    iterations, d, n, clip = 40, 200, 50, 0.7
    budget = Budget(1.0, 1e-6, relation)
    seen = []
    solver = GD(iterations, step_size=1.0, momentum=0.0, averaging=0.0, gradient_clip=clip)
    data = np.zeros((n, d)), np.zeros(n)
    run(solver, budget, Squared(), data, progress=seen.append)
    path = np.array([np.zeros(d + 1), *(at.weights for at in seen)])
    drawn = np.diff(path, axis=0)[:, :d]
    changed = 1 if relation == "add_remove" else 2
    expected = changed * clip * math.sqrt(iterations) / (budget.to_gdp().mu * n)
    assert np.mean(drawn**2) == pytest.approx(expected**2, rel=0.12)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("n_models", [1, 4])
def test_the_default_step_by_hand(relation, n_models):
    k = 1 if relation == "add_remove" else 2
    data = make_rows(400)
    budget = Budget(0.5, 1e-6, relation)
    mu = budget.to_gdp().mu / math.sqrt(n_models)
    solution, _, _ = run(GD(25), budget, data=data, n_models=n_models)
    path = min(0.3 * 400 * mu / (k * 5 / 3), 18 * 6)
    assert solution.trace[0].step == pytest.approx(path / 25, rel=1e-9)
    # Plenty of budget: 18 for each weight; 1/alpha if that is shorter; what is given, as it is.
    assert run(GD(25), RICH, data=data)[0].trace[0].step == pytest.approx(18 * 6 / 25)
    assert run(GD(25), RICH, data=data, alpha=2.0)[0].trace[0].step == 0.5
    assert run(GD(5, step_size=0.3), RICH, data=data)[0].trace[0].step == 0.3


def test_a_known_bound_replaces_a_larger_clip():
    problem = Problem(Logistic(), L2(0.0), 1000, 5, fit_intercept=False, row_norm=0.25)
    assert GD()._path(problem, 1.0, 1)[0] == 0.25
    assert GD(gradient_clip=0.1)._path(problem, 1.0, 1)[0] == 0.1


@pytest.mark.parametrize("changed", [1, 2])
def test_the_clip_grows_with_the_budget(changed):
    """0.6·n·μ/(k·18·p) within [5/3, 10]; K classes need a path of K/2 times that length."""
    problem = Problem(Logistic(), L2(0.0), 10_000, 29)
    assert GD()._path(problem, 0.1, changed)[0] == 5 / 3
    assert GD()._path(problem, 1e3, changed)[0] == 10.0
    expected = 0.6 * 10_000 * 0.6 / (changed * 18 * 30)
    assert GD()._path(problem, 0.6, changed)[0] == pytest.approx(expected)
    classes = Problem(Softmax(3), L2(0.0), 10_000, 29)
    assert GD()._path(classes, 0.6, changed)[0] == pytest.approx(expected / 1.5)


def test_steps_are_stable_for_the_intercept():
    """Many columns, a large budget: the intercept's curvature of 1/4 limits its step, not p."""
    rng = np.random.default_rng(0)
    data = rng.normal(size=(2000, 400)) / 6, np.where(rng.random(2000) < 0.6, 1.0, -1.0)
    solution, _, _ = run(GD(), RICH, data=data)
    assert solution.trace[0].step == pytest.approx(18 * 401 / 50)
    norms = [entry.gradient_norm for entry in solution.trace]
    assert norms[-1] < norms[0] / 10  # with one step for all weights the intercept swings


def test_only_the_default_step_of_intercepts_is_bounded():
    """4·(1 + m)/(1 − m): 36 at the default momentum, 4 without one; 18·p·max(1, K/2) for others."""

    def steps(solver, problem, mu=1e3):
        return solver._path(problem, mu, 1)[1].tolist()

    two, three = (Problem(loss, L2(0.0), 1000, 2) for loss in (Logistic(), Softmax(3)))
    assert steps(GD(1), two) == [54, 54, pytest.approx(36)]
    assert steps(GD(1, momentum=0.0), three) == [81, 81, 4] * 3
    assert steps(GD(10), two) == pytest.approx([5.4, 5.4, 5.4])
    assert steps(GD(1, step_size=50.0), two) == [50, 50, 50]
    without = Problem(Logistic(), L2(0.0), 1000, 2, fit_intercept=False)
    assert steps(GD(1, momentum=0.0), without) == [36, 36]


def test_shrinking_keeps_what_noise_does_not_explain():
    """Rows without a signal: little is left of the weights; with one, nearly all. 7 deviations."""
    n = 4000
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 60)) * (10 / 3 / math.sqrt(60))
    noise = X, np.where(rng.random(n) < 0.5, 1.0, -1.0)
    budget = Budget(0.1, 1e-6, "add_remove")
    plain, shrunk = (run(GD(shrink=on), budget, data=noise)[0].weights for on in (False, True))
    assert np.linalg.norm(shrunk) < 0.75 * np.linalg.norm(plain)
    signal = X, np.where(X[:, 0] + X[:, 1] > 0, 1.0, -1.0)
    plain, shrunk = (run(GD(shrink=on), data=signal)[0].weights for on in (False, True))
    assert np.linalg.norm(shrunk) > 0.9 * np.linalg.norm(plain)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(), Huber(1.0), Squared()], ids=repr)
def test_huge_budgets_reach_the_optimum(loss, sparse):
    X, y = make_rows(task=loss.task)
    full = np.column_stack([X, np.ones(len(X))])

    def objective(w):
        return loss.value(full @ w, y).mean() + 0.005 * w @ w

    solver = GD(300, step_size=1.0, gradient_clip=100.0)
    data = (sp.csr_array(X) if sparse else X), y
    solution, _, _ = run(solver, RICH, loss, data, alpha=0.01)
    best = minimize(objective, np.zeros(6), method="BFGS", tol=1e-10).fun
    assert objective(solution.weights) < best + 1e-4


@pytest.mark.parametrize("sparse", [False, True])
def test_softmax_reaches_its_optimum(sparse):
    X, y = make_rows(task="classes")
    full, loss = np.column_stack([X, np.ones(len(X))]), Softmax(3)

    def objective(w):
        return loss.value(full @ w.reshape(3, -1).T, y).mean() + 0.005 * w @ w

    solver = GD(300, step_size=1.0, gradient_clip=100.0)
    data = (sp.csr_array(X) if sparse else X), y
    solution, guarantee, _ = run(solver, RICH, loss, data, alpha=0.01)
    assert solution.weights.shape == (18,)
    assert guarantee.mechanisms[0].count == 300
    best = minimize(objective, np.zeros(18), method="BFGS", tol=1e-10).fun
    assert objective(solution.weights) < best + 1e-4


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("loss", [Logistic(), Hinge(), HuberHinge()], ids=repr)
def test_defaults_learn(loss, relation):
    data = make_rows(20_000)
    full = np.column_stack([data[0], np.ones(20_000)])
    solution, _, _ = run(GD(), Budget(1.0, 1e-6, relation), loss, data)
    right = np.mean(np.sign(full @ solution.weights) == data[1])
    optimum = minimize(lambda w: loss.value(full @ w, data[1]).mean(), np.zeros(6)).x
    assert right > np.mean(np.sign(full @ optimum) == data[1]) - 0.01


def test_defaults_learn_classes():
    data = make_rows(20_000, task="classes")
    full = np.column_stack([data[0], np.ones(20_000)])
    solution, _, _ = run(GD(), BUDGET, Softmax(3), data)
    best, _, _ = run(GD(300, step_size=1.0, gradient_clip=100.0), RICH, Softmax(3), data)

    def right(weights):
        return np.mean(np.argmax(full @ weights.reshape(3, -1).T, axis=1) == data[1])

    assert right(solution.weights) > right(best.weights) - 0.01


def test_momentum_averaging_and_progress():
    seen = []
    settings = {"step_size": 0.5, "momentum": 0.6}
    last, _, _ = run(GD(20, averaging=0.0, **settings), progress=seen.append, alpha=0.1)
    path = np.array([at.weights for at in seen])
    np.testing.assert_array_equal(last.weights, path[-1])
    assert [at.entry for at in seen] == list(last.trace)
    assert [at.spent_share for at in seen] == pytest.approx(np.arange(1, 21) / 20, abs=1e-9)
    # v = (w_t − w_{t+1})/(η(1 − m)), and the gradient is what is new in it.
    velocity = -np.diff(path, axis=0, prepend=0.0) / (0.5 * 0.4)
    gradients = velocity - 0.6 * np.vstack([np.zeros(6), velocity[:-1]])
    norms = [entry.gradient_norm for entry in last.trace]
    np.testing.assert_allclose(np.linalg.norm(gradients, axis=1), norms, rtol=1e-9)
    mean, _, _ = run(GD(20, averaging=0.25, **settings), alpha=0.1)
    np.testing.assert_allclose(mean.weights, path[-5:].mean(axis=0), rtol=1e-12)
    whole, _, _ = run(GD(20, averaging=1.0, **settings), alpha=0.1)
    np.testing.assert_allclose(whole.weights, path.mean(axis=0), rtol=1e-12)


def test_weights_cannot_run_away():
    """Long rows, the longest steps: clipped gradients move the weights by a bounded length."""
    X, y = make_rows()
    solver = GD(200, step_size=1e6, gradient_clip=1.0, momentum=0.999)
    solution, _, _ = run(solver, loss=Squared(), data=(X * 1e6, y))
    assert np.isfinite(solution.weights).all()
    bound = 2 * (1 + 0.8) / (0.2 * 4.0)
    problem = Problem(Logistic(), L2(4.0), 100, 5)
    GD(step_size=0.99 * bound).plan(problem, BUDGET)
    with pytest.raises(ValueError, match=r"step_size must be below 4\.5 at alpha=4"):
        GD(step_size=1.01 * bound).plan(problem, BUDGET)
    held, _, _ = run(GD(500), alpha=1e6)
    assert np.linalg.norm(held.weights) < 1e-3


def test_conditions_name_clip_and_noise():
    solution, guarantee, _ = run(GD(10, gradient_clip=0.5))
    assert "clipped to norm 0.5" in solution.conditions[0]
    assert f"{guarantee.mechanisms[0].mechanism.noise_multiplier:.6g}" in solution.conditions[1]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("iterations", -1),
        ("iterations", 2.5),
        ("iterations", "tight"),
        ("step_size", 0.0),
        ("momentum", 1.0),
        ("momentum", -0.1),
        ("averaging", 1.1),
        ("averaging", True),
        ("gradient_clip", math.nan),
    ],
)
def test_bad_settings(field, value):
    with pytest.raises(ValueError, match=field):
        GD(**{field: value})


def test_what_is_refused_costs_nothing():
    problem = Problem(Logistic(), L2(0.0), 100, 5)
    with pytest.raises(NotSupported, match="delta > 0"):
        GD().plan(problem, Budget(1.0, 0.0, "add_remove"))
    tiny = Budget(1e-9, 1e-12, "add_remove")
    ledger = Ledger().create("rows")
    X, y = make_rows(100)
    curator = Curator(as_rows(X, y), Account(tiny, ledger), Noise(SeededBits(0)))
    with pytest.raises(ValueError, match="noise_multiplier"):
        GD(10**6).solve(problem, curator, GD(10**6).plan(problem, tiny))
    assert ledger.entries == 0


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_intercept_starts_from_the_balance_of_the_classes(relation):
    budget = Budget(1.0, 1e-6, relation)
    X, _ = make_rows(4000)
    y = np.where(np.arange(4000) < 400, 1.0, -1.0)
    short = GD(1, step_size=1e-6, averaging=0.0, start_share=0.1)  # descent does nothing
    solution, guarantee, curator = run(short, budget, data=(X, y))
    assert solution.weights[-1] == pytest.approx(math.log(0.1 / 0.9), abs=0.2)
    assert np.abs(solution.weights[:-1]).max() < 1e-3
    start, gradients = guarantee.mechanisms
    square = budget.to_gdp().mu ** 2
    assert start.mechanism.noise_multiplier**-2 == pytest.approx(0.1 * square)
    assert gradients.mechanism.noise_multiplier**-2 == pytest.approx(0.9 * square)
    assert curator.spent_share == pytest.approx(1.0, abs=1e-9)
    assert "the sum of the targets was released" in solution.conditions[0]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    ("loss", "targets", "expected"),
    [
        (Logistic(), [1.0, -1.0, -1.0, -1.0], [math.log(1 / 3)]),
        (HuberHinge(), [1.0, -1.0, -1.0, -1.0], [-0.5]),
        (Softmax(3), [0.0, 1.0, 2.0, 2.0], [-0.231, -0.231, 0.462]),
        (Squared(), [0.5, 0.5, -0.25, 0.75], [0.375]),
        (Huber(), [0.5, 0.5, -0.25, 0.75], [0.375]),
    ],
    ids=repr,
)
def test_without_a_gradient_the_whole_budget_buys_a_constant(loss, targets, expected, relation):
    """Noise in a mean is k/(n·μ): 0.001 or 0.002 at this budget, so 0.03 is 15 deviations."""
    X, _ = make_rows(4000)
    budget = Budget(1.0, 1e-6, relation)
    solution, guarantee, curator = run(GD(0), budget, loss, (X, np.tile(targets, 1000)))
    weights = solution.weights.reshape(len(expected), -1)
    assert not weights[:, :-1].any()
    np.testing.assert_allclose(weights[:, -1], expected, atol=0.03)
    (only,) = guarantee.mechanisms
    assert only.mechanism.noise_multiplier == pytest.approx(1 / budget.to_gdp().mu, rel=1e-6)
    assert curator.spent_share == pytest.approx(1.0, abs=1e-9)
    assert len(solution.conditions) == 1
    assert (solution.clip, solution.deviation) == (None, 0.0)


def test_a_constant_needs_an_intercept_and_a_loss_whose_constant_is_known():
    problem = Problem(Logistic(), L2(0.0), 100, 5, fit_intercept=False)
    with pytest.raises(ValueError, match="fit_intercept=True"):
        GD(0).plan(problem, RICH)
    with pytest.raises(NotSupported, match="iterations=0"):
        GD(0).check(Poisson(), RICH)


def test_a_class_that_may_not_be_there_is_not_ruled_out():
    X, _ = make_rows(1000)
    solution, _, _ = run(
        GD(1, step_size=1e-6, averaging=0.0, start_share=0.5), RICH, data=(X, -np.ones(1000))
    )
    assert solution.weights[-1] == pytest.approx(math.log(0.001 / 0.999), rel=1e-3)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("loss", [Softmax(4), MulticlassHinge(4, Hinge())], ids=repr)
def test_intercepts_start_from_the_shares_of_several_classes(loss, relation):
    """Noise in a share is √k/(n·μ·√0.1): 0.0018 or 0.0025, a twentieth of the smallest share.

    So a logarithm is off by 0.4 with a probability below 1e-10.
    """
    budget = Budget(1.0, 1e-6, relation)
    X, _ = make_rows(8000)
    y = np.repeat([0.0, 1.0, 2.0, 3.0], [4800, 800, 2000, 400])
    short = GD(1, step_size=1e-6, averaging=0.0, start_share=0.1)  # descent does nothing
    solution, guarantee, curator = run(short, budget, loss, (X, y))
    weights = solution.weights.reshape(4, -1)
    logs = np.log([0.6, 0.1, 0.25, 0.05])
    np.testing.assert_allclose(weights[:, -1], logs - logs.mean(), atol=0.4)
    assert np.abs(weights[:, :-1]).max() < 1e-3
    start, gradients = guarantee.mechanisms
    square = budget.to_gdp().mu ** 2
    assert (start.count, start.mechanism.noise_multiplier**-2) == (1, pytest.approx(0.1 * square))
    assert gradients.mechanism.noise_multiplier**-2 == pytest.approx(0.9 * square)
    assert curator.spent_share == pytest.approx(1.0, abs=1e-9)
    assert 0.99 < guarantee.recompute() <= 1 + 1e-6  # by an independent accountant
    text = "the total weight of the rows of each class was released with Gaussian noise"
    assert text in solution.conditions[0]
    assert f"{start.mechanism.noise_multiplier:.6g} times" in solution.conditions[0]


def test_shares_of_classes_are_shrunk_by_their_noise_and_kept_off_zero():
    seen = np.array([0.5, 0.3, 0.2])
    np.testing.assert_allclose(_shares(seen, 0.0), seen, rtol=1e-12)
    shrunk = _shares(seen, 0.1)
    part = 2 * 0.1**2 / np.sum((seen - 1 / 3) ** 2)
    np.testing.assert_allclose(shrunk, seen + part * (1 / 3 - seen), rtol=1e-12)
    hidden = _shares(seen, 1.0)  # noise explains all of it, but the order stays
    assert hidden.argmax() == 0
    assert 0 < hidden[0] - hidden[1] < 0.05
    rare = _shares(np.array([1.02, -0.01, -0.01]), 0.01)
    assert rare.sum() == pytest.approx(1.0)
    assert rare[1] == rare[2] == pytest.approx(0.005, rel=0.05)
    assert _shares(np.array([1.0, 0.0, 0.0]), 0.0)[2] == pytest.approx(0.001, rel=0.01)
    np.testing.assert_allclose(_shares(np.full(3, 1 / 3), 0.2), 1 / 3)


@pytest.mark.parametrize("loss", [Hinge(), HuberHinge()], ids=repr)
def test_a_hinge_starts_from_the_mean_target(loss):
    X, _ = make_rows(4000)
    y = np.where(np.arange(4000) < 400, 1.0, -1.0)
    short = GD(1, step_size=1e-6, averaging=0.0, start_share=0.1)
    solution, guarantee, _ = run(short, loss=loss, data=(X, y))
    assert solution.weights[-1] == pytest.approx(-0.8, abs=0.05)
    assert len(guarantee.mechanisms) == 2


def test_sampling_errors_grow_with_the_path():
    """Up to r·(1 − 4r) in the variance of a weight, r = p/n: few rows are shrunk at any budget."""
    problem = Problem(Logistic(), L2(0.0), 400, 9)
    short, long = GD()._path(problem, 1e-3, 1)[3], GD()._path(problem, 1e4, 1)[3]
    assert short < 1e-3
    assert long == pytest.approx(np.sqrt(10 / 400 * (1 - 4 * 10 / 400)), rel=1e-3)
    for n_features in (99, 399, 3999):  # rows do not determine so many weights
        assert GD()._path(Problem(Logistic(), L2(0.0), 400, n_features), 1e6, 1)[3] == 0


@pytest.mark.parametrize(("n_features", "factor"), [(2, 1.5), (10, 1.5), (50, 1.1), (500, 1.01)])
def test_errors_of_few_weights_count_more(n_features, factor):
    problem = Problem(Logistic(), L2(0.0), 100, n_features)
    change = np.append(np.ones(n_features), 7.0)  # the intercept does not count
    expected = 1 - (factor * 0.5**2 / 1.5) ** 1.5
    assert _kept(problem, change, 0.5) == pytest.approx(expected)
    assert _kept(problem, 0.1 * change, 0.5) == 0
    assert _kept(problem, 0 * change, 0.5) == 0


def test_intercepts_of_several_classes_are_shrunk_to_their_start():
    """Rows of zeros: slopes are noise, and no more of the intercepts' change is kept than of them.

    Without shrinkage intercepts would move back from a start at a wrong balance.
    """
    rng = np.random.default_rng(0)
    X, y = np.zeros((3000, 40)), rng.integers(0, 3, 3000).astype(float)
    problem = Problem(Softmax(3), L2(0.0), 3000, 40)
    solver = GD(20, start_share=0.5, shrink=True)
    budget = Budget(0.05, 1e-6, "add_remove")
    found, _, _ = run(solver, budget, Softmax(3), (X, y))
    plain, _, _ = run(replace(solver, shrink=False), budget, Softmax(3), (X, y))
    begun, _, _ = run(GD(1, step_size=1e-6, start_share=0.5), budget, Softmax(3), (X, y))
    start, deviation = begun.weights.copy(), plain.deviation
    start.reshape(3, -1)[:, :-1] = 0.0
    change = plain.weights - start
    slopes = change.reshape(3, -1)[:, :-1]
    path = 0.3 * 3000 * np.sqrt(0.5) * budget.to_gdp().mu / (5 / 3)  # that noise allows
    ratio = 41 * 1.5 / 3000
    drawn = (1 - np.exp(-0.5 * path / (41 * 1.5))) ** 2 * ratio * (1 - 4 * ratio)
    errors = slopes.size * (1 + 5 / 120) * (deviation**2 + drawn)
    kept = max(0.0, 1 - (errors / (1.5 * np.vdot(slopes, slopes))) ** 1.5)
    np.testing.assert_allclose(found.weights, start + kept * change, atol=1e-4)
    assert kept < 0.7
    assert problem.n_parameters == start.size


def test_where_there_is_no_balance_nothing_is_spent_on_it():
    settings = ((Squared(), True), (Logistic(), False), (HuberHinge(), False), (Softmax(3), False))
    for loss, intercept in settings:
        data = make_rows(task="classes" if loss.n_outputs > 1 else loss.task)
        more = {"data": data, "fit_intercept": intercept}
        _, guarantee, curator = run(GD(5, start_share=0.3), loss=loss, **more)
        assert len(guarantee.mechanisms) == 1
        assert curator.spent_share == pytest.approx(1.0, abs=1e-9)


def test_hinges_need_no_longer_path_for_more_classes_and_pull_noise_back():
    """One path for any number of classes; noise is less than the logistic loss leaves."""
    two, hinge, many = (
        GD(10)._path(Problem(loss, L2(0.0), 10_000, 29), 1e3, 1)
        for loss in (Logistic(), Hinge(), MulticlassHinge(5, Hinge()))
    )
    assert two[1][0] == hinge[1][0] == many[1][0] == pytest.approx(18 * 30 / 10)
    assert hinge[2] == many[2] < 0.8 * two[2]


def test_rare_classes_are_learnt_with_little_budget():
    """Without a start the path is too short for the intercept, and everything looks even."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(1000, 5)) * (10 / 3 / math.sqrt(5))
    y = np.where(rng.random(1000) < 0.05, 1.0, -1.0)
    budget = Budget(0.1, 1e-6, "replace_one")
    rates = []
    for share in (0.0, 0.05):
        scores = []
        for seed in range(10):
            solution, _, _ = run(GD(start_share=share), budget, data=(X, y), seed=seed)
            scores.append(
                np.mean((X @ solution.weights[:-1] + solution.weights[-1] > 0) == (y > 0))
            )
        rates.append(np.mean(scores))
    assert rates[0] < 0.85 < 0.9 < rates[1]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("n_models", [1, 3])
def test_quasi_newton_spends_all_and_no_more(relation, n_models):
    """Gradients are bought again with a part of what is left, the last one with all of it."""
    budget = Budget(20.0, 1e-6, relation)
    solver = GD(30, quasi_newton=True, start_share=0.01)
    solution, guarantee, curator = run(solver, budget, data=make_rows(20_000), n_models=n_models)
    used = [(use.count, use.mechanism.noise_multiplier) for use in guarantee.mechanisms]
    total = sum(count / multiplier**2 for count, multiplier in used)
    assert total <= budget.to_gdp().mu ** 2 * (1 + 1e-12)
    assert curator.spent_share == pytest.approx(1.0, abs=1e-9)
    (first, _), (gradients, noise), *others = used  # models may stop at different times
    assert first == n_models
    assert gradients <= 20 * n_models
    assert len(others) >= n_models
    assert min(rest for _, rest in others) < noise / 2
    text = solution.conditions[-1]
    assert any(f" to {rest:.6g} times" in text for _, rest in others)
    assert f"measurements of {len(solution.trace)} sums" in text
    assert 19.8 < guarantee.recompute() <= 20.0 * (1 + 1e-6)


def test_quasi_newton_stops_where_noise_explains_the_gradient():
    """Noise that hides everything ends descent at once; with a clear signal it takes a few."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30_000, 40)) * (10 / 3 / math.sqrt(40))
    signal = X, np.where(X @ np.linspace(-2, 2, 40) + rng.logistic(size=30_000) > 0, 1.0, -1.0)
    solver, budgets = GD(30, quasi_newton=True), [Budget(e, 1e-6, "add_remove") for e in (1e-3, 2)]
    counts = [len(run(solver, budget, data=signal)[0].trace) for budget in budgets]
    assert counts[0] <= 8 < counts[1] < 25  # 40 squares are above 1.2 times their mean by chance
    few, guarantee, curator = run(GD(3, quasi_newton=True), RICH, data=signal)
    assert len(few.trace) == guarantee.mechanisms[0].count == 3
    assert curator.spent_share == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(), Softmax(3)], ids=repr)
def test_quasi_newton_reaches_the_optimum(loss):
    """The objective is within what 3000 rows determine: a tenth of p/(2·n) for each output."""
    task = "classes" if loss.n_outputs > 1 else "classification"
    X, y = make_rows(task=task)
    full = np.column_stack([X, np.ones(len(X))])

    def objective(w):
        margins = full @ w.reshape(loss.n_outputs, -1).T
        values = loss.value(margins if loss.n_outputs > 1 else margins[:, 0], y)
        return values.mean() + 0.005 * w @ w

    solver = GD(30, quasi_newton=True, gradient_clip=100.0)
    solution, _, _ = run(solver, RICH, loss, (X, y), alpha=0.01)
    best = minimize(objective, np.zeros(solution.weights.size), method="BFGS", tol=1e-10).fun
    assert objective(solution.weights) < best + 0.1 * solution.weights.size / (2 * len(X))
    assert len(solution.trace) < 20


def test_quasi_newton_takes_steps_back_that_make_the_gradient_grow():
    """Rows ten times as long as the first step is for: it is halved until descent is stable."""
    X, y = make_rows(5000)
    solution, _, _ = run(GD(30, quasi_newton=True, gradient_clip=1e3), RICH, data=(10 * X, y))
    norms = [entry.gradient_norm for entry in solution.trace]
    assert min(norms) < 0.05 * norms[0]
    held, _, _ = run(GD(30, quasi_newton=True), alpha=1e6)
    assert np.linalg.norm(held.weights) < 1e-3


def test_quasi_newton_needs_a_smooth_loss():
    with pytest.raises(NotSupported, match="quasi_newton=True needs a smooth loss"):
        run(GD(quasi_newton=True), loss=Hinge())
