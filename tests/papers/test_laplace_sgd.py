"""Laplace SGD: noise by hand, what passes cost, what it finds, and what it refuses."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from discreet.accounting.conversions import mu_from_epsilon, rho_from_epsilon
from discreet.core import Budget, L2Norm
from discreet.errors import NotSupported
from discreet.objectives import L2, Hinge, HuberHinge, Logistic, Problem, Squared
from discreet.papers.laplace_sgd import LaplaceSGD
from tests.solvers.conftest import LOGISTIC, projected_table, solve

N, D = 2000, 5

DATA = projected_table(N)


def run(solver, budget, loss=LOGISTIC, data=DATA, **more):
    return solve(solver, budget, loss, data, fits=1, row_norm=1.0, **more)


def pure(epsilon):
    return Budget(epsilon, 0.0, "replace_one")


@pytest.mark.parametrize("calibration", ["tight", "published"])
def test_pure_noise_by_hand(calibration):
    # Two passes on ε = 1: density ∝ exp(−(0.5/2)‖z‖/L) a batch, a length of mean 6·(2·√2/0.5)
    # over b = 100 rows: 0.339411.
    solver = LaplaceSGD(calibration=calibration, passes=2, batch_size=100)
    solution, guarantee, curator = run(solver, pure(1.0))
    assert [use.count for use in guarantee.mechanisms] == [2]
    assert guarantee.mechanisms[0].mechanism.epsilon == pytest.approx(0.5, rel=1e-9)
    assert guarantee.measure == "pure"
    assert curator.spent_share == pytest.approx(1.0, abs=1e-9)
    assert len(solution.trace) == 2
    assert solution.trace[0].noise_norm == pytest.approx(0.339411, rel=1e-5)
    assert solution.trace[0].updates == 20


def test_published_passes_cost_p_times_one():
    budget = Budget(1.0, 1e-6, "replace_one")
    _, guarantee, _ = run(LaplaceSGD(calibration="published", passes=40), budget)
    assert guarantee.mechanisms[0].mechanism.epsilon == pytest.approx(1 / 40, rel=1e-9)


@pytest.mark.parametrize(("epsilon", "passes"), [(1.0, 100), (2.0, 400), (0.3, 1000)])
def test_many_tight_passes_are_composed_and_an_independent_accountant_agrees(epsilon, passes):
    from dp_accounting.pld import common, privacy_loss_distribution

    solver = LaplaceSGD(passes=passes)
    measure, each = solver._spending(Budget(epsilon, 1e-6, "replace_one"), 1)
    assert measure in ("zcdp", "gdp")
    assert each > 1.05 * epsilon / passes
    # closed forms: ε tanh(ε/2) adds up to ρ, and μ = −2Φ⁻¹(1/(1 + e^ε)) squared to μ²
    loss = L2Norm(each).loss
    assert loss.rho == pytest.approx(each * math.tanh(each / 2), rel=1e-6)
    fits = {
        "zcdp": passes * loss.rho / rho_from_epsilon(epsilon, 1e-6),
        "gdp": passes * loss.mu**2 / mu_from_epsilon(epsilon, 1e-6) ** 2,
    }
    assert 0.999 < fits[measure] <= 1
    # the worst of all ε-DP mechanisms, composed exactly (a grid that holds ±ε)
    distribution = privacy_loss_distribution.from_privacy_parameters(
        common.DifferentialPrivacyParameters(each, 0.0), value_discretization_interval=each
    ).self_compose(passes)
    assert distribution.get_epsilon_for_delta(1e-6) <= epsilon


def test_few_tight_passes_stay_pure():
    measure, each = LaplaceSGD(passes=2)._spending(Budget(1.0, 1e-6, "replace_one"), 1)
    assert measure == "pure"
    assert each == pytest.approx(0.5, rel=1e-9)


def test_one_of_several_models_spends_its_share():
    _, guarantee, curator = run(LaplaceSGD(passes=2), pure(1.0), n_models=4)
    assert guarantee.mechanisms[0].mechanism.epsilon == pytest.approx(1 / 8, rel=1e-9)
    assert curator.spent_share == pytest.approx(1.0, abs=1e-9)
    _, guarantee, curator = run(LaplaceSGD(passes=50), Budget(1.0, 1e-6, "replace_one"), n_models=4)
    assert guarantee.measure != "pure"
    assert 0.99 < curator.spent_share <= 1


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("loss", [Logistic(), HuberHinge()], ids=lambda loss: loss.name)
@pytest.mark.parametrize(
    ("alpha", "settings", "tolerance"),
    [
        (0.0, {"step_size": 5.0}, 2e-3),
        (0.02, {"schedule": "strong"}, 1e-4),
        (0.0, {"step_size": 5.0, "averaging": True}, 2e-3),
    ],
)
def test_without_noise_it_comes_to_the_optimum(make, loss, alpha, settings, tolerance):
    X, y = DATA
    full = np.column_stack([X, np.ones(N)])

    def objective(w):
        return loss.value(full @ w, y).mean() + alpha / 2 * w @ w

    best = minimize(objective, np.zeros(D + 1), method="BFGS").fun
    solver = LaplaceSGD(passes=60, batch_size=20, **settings)
    solution, _, _ = run(solver, pure(1e6), loss, (make(X), y), alpha=alpha)
    assert best - 1e-9 <= objective(solution.weights) < best + tolerance


def test_defaults_learn_at_a_usual_budget():
    X, y = projected_table(20_000)
    full = np.column_stack([X, np.ones(len(X))])
    for budget in (pure(1.0), Budget(1.0, 1e-6, "replace_one")):
        solution, _, _ = run(LaplaceSGD(), budget, data=(X, y))
        assert Logistic().value(full @ solution.weights, y).mean() < 0.45  # 0.693 at the start


def test_progress_shows_each_pass():
    seen = []
    solution, _, _ = run(LaplaceSGD(passes=3), pure(1.0), progress=seen.append)
    assert [p.entry for p in seen] == list(solution.trace)
    assert [p.spent_share for p in seen] == pytest.approx([1 / 3, 2 / 3, 1])
    assert np.array_equal(seen[-1].weights, solution.weights)


def test_steps():
    problem = Problem(Logistic(), L2(0.1), N, D)
    assert LaplaceSGD(step_size=6.0)._steps(problem, 3, 2) == pytest.approx([3, 6 / 5**0.5])
    assert LaplaceSGD(schedule="strong")._steps(problem, 3, 2) == pytest.approx([2.5, 2.0])


def test_steps_are_capped_at_one_over_the_smoothness():
    # unit rows and a constant: β = 2/4 + 0.1, so steps are at most 1/0.6 = 1.666667
    problem = Problem(Logistic(), L2(0.1), N, D, row_norm=1.0)
    steps = LaplaceSGD(step_size=3.0)._steps(problem, 0, 4)
    assert steps == pytest.approx([1.666667, 1.666667, 1.666667, 1.5], rel=1e-6)
    assert LaplaceSGD(schedule="strong")._steps(problem, 0, 7)[[0, 6]] == pytest.approx(
        [1.666667, 10 / 7], rel=1e-6
    )
    # without β: 1/alpha, and no cap without a penalty
    kinked = Problem(Hinge(), L2(2.0), N, D, row_norm=1.0)
    assert LaplaceSGD()._steps(kinked, 0, 2) == pytest.approx([0.5, 0.5])
    free = Problem(Hinge(), L2(0.0), N, D, row_norm=1.0)
    assert LaplaceSGD()._steps(free, 0, 1) == pytest.approx([3.0])


@pytest.mark.parametrize("loss", [Logistic(), Hinge()], ids=lambda loss: loss.name)
def test_default_steps_do_not_diverge_under_a_strong_penalty(loss):
    # The minimum has norm at most L/alpha = √2/5; uncapped, the first steps multiply weights by
    # 1 − 3·5 = −14, −9.6, −7.7, …
    solution, _, _ = run(LaplaceSGD(batch_size=20), pure(1e6), loss, alpha=5.0)
    assert np.linalg.norm(solution.weights) < 2**0.5 / 5


def test_the_clip_is_no_longer_than_gradients_can_be():
    problem = Problem(Logistic(), L2(0.0), N, D, row_norm=1.0)
    assert LaplaceSGD(gradient_clip=5.0)._clip(problem) == pytest.approx(2**0.5)
    assert LaplaceSGD(gradient_clip=0.5)._clip(problem) == 0.5
    assert LaplaceSGD()._clip(Problem(Squared(), L2(0.0), N, D)) == 1.0


def test_what_it_refuses():
    budget = pure(1.0)
    with pytest.raises(NotSupported, match="replace_one"):
        LaplaceSGD().check(Logistic(), Budget(1.0, 0.0, "add_remove"))
    problem = Problem(Logistic(), L2(0.0), 100, D, row_norm=1.0)
    with pytest.raises(ValueError, match="at most the number of rows, 100"):
        LaplaceSGD(batch_size=101).plan(problem, budget)
    with pytest.raises(ValueError, match="alpha > 0"):
        LaplaceSGD(schedule="strong").plan(problem, budget)
    with pytest.raises(ValueError, match="epsilon"):
        LaplaceSGD(passes=10**6).check(Logistic(), pure(1e-4))
    for loss in (Hinge(), Squared()):
        LaplaceSGD().plan(Problem(loss, L2(0.0), 100, D), budget)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("calibration", "loose"),
        ("schedule", "cosine"),
        ("schedule", "linear"),
        ("averaging", None),
        ("batch_size", 0),
        ("batch_size", 2.5),
        ("passes", 0),
        ("passes", True),
        ("passes", None),
        ("step_size", math.nan),
        ("gradient_clip", 0.0),
        ("radius", -1.0),
    ],
)
def test_bad_settings(field, value):
    with pytest.raises(ValueError, match=field):
        LaplaceSGD(**{field: value})


def test_steps_are_the_papers_without_the_cut():
    problem = Problem(Logistic(), L2(1e-4), N, D, row_norm=1.0)
    steps = LaplaceSGD(schedule="strong", cut_steps=False)._steps(problem, 0, 3)
    assert steps == pytest.approx([10_000, 5000, 10_000 / 3])
    assert LaplaceSGD(step_size=10.0, cut_steps=False)._steps(problem, 0, 1) == pytest.approx([10])


def test_the_cut_changes_neither_noise_nor_cost():
    for cut in (True, False):
        solver = LaplaceSGD(schedule="strong", cut_steps=cut, batch_size=100)
        solution, guarantee, curator = run(solver, pure(1.0), alpha=1e-4)
        assert guarantee.epsilon == pytest.approx(1.0, rel=1e-9)
        assert curator.spent_share == pytest.approx(1.0, abs=1e-9)
        # density ∝ exp(−(1/2)‖z‖/L) a batch with L = √2: mean norm 6·2√2/100
        assert solution.trace[0].noise_norm == pytest.approx(0.169706, rel=1e-5)
        assert np.isfinite(solution.weights).all()
