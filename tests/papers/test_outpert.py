"""Output perturbation: the paper's constants, its sensitivity, and what it refuses."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.core import Budget, Gaussian, L2Norm
from discreet.errors import NotSupported, PrivacyError
from discreet.exact import GradientDescent
from discreet.objectives import L2, Hinge, Huber, HuberHinge, Logistic, Problem, Squared
from discreet.rows import as_rows
from discreet.solvers import OutPert
from tests.solvers.conftest import LOGISTIC, excess, solve

REPLACE = Budget(1.0, 1e-6, "replace_one")


def table(n=2000, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, d))
    y = np.where(X @ np.linspace(-2, 2, d) + 0.3 + 0.5 * rng.logistic(size=n) > 0, 1.0, -1.0)
    return X, y


DATA = table()


def problem_of(X, loss=LOGISTIC, alpha=0.0, row_norm=1.0):
    return Problem(loss, L2(alpha), *X.shape, row_norm=row_norm)


def run(solver, budget=REPLACE, loss=LOGISTIC, data=DATA, **more):
    return solve(solver, budget, loss, data, row_norm=1.0, **more)


def test_published_gaussian_scale_by_hand():
    # Lemma 2: Δ = 3LTη/n with L = √2 (unit rows and the constant), T = 10, β = 2·1/4 = 0.5, η =
    # 1/β = 2, n = 2000: 3·1.41421356·10·2/2000 = 0.0424264. Algorithm 1: density ∝
    # exp(−ε²‖z‖²/(4 ln(2/δ)Δ²)), so σ = Δ√(2 ln(2/δ))/ε = 0.0424264·√(2·14.508658) = 0.2285414.
    solution, guarantee, _ = run(OutPert("published", iterations=10))
    assert solution.trace[0].noise_scale == pytest.approx(0.2285414, rel=1e-6)
    assert guarantee.epsilon == 1.0


def test_published_strongly_convex_scale_by_hand():
    # Lemma 3: Δ = 5L(μ+β)/(nμβ), μ = 0.1, β = 0.5 + 0.1: 5·1.41421356·0.7/(2000·0.06) =
    # 0.0412479 (lemma 2 gives more at T = 100); σ = Δ·√(2·14.508658)/1 = 0.2221930.
    solution, _, _ = run(OutPert("published", iterations=100, step_size=1 / 0.7), alpha=0.1)
    assert solution.trace[0].noise_scale == pytest.approx(0.2221930, rel=1e-6)


def test_published_pure_scale_by_hand():
    # Density ∝ exp(−ε‖z‖/Δ), Δ = 0.0424264 as above, ε = 0.5: scale Δ/ε = 0.0848528.
    solution, guarantee, _ = run(
        OutPert("published", iterations=10), Budget(0.5, 0.0, "replace_one")
    )
    assert solution.trace[0].noise_scale == pytest.approx(0.0848528, rel=1e-5)
    assert isinstance(guarantee.mechanisms[0].mechanism, L2Norm)


@pytest.mark.parametrize(("relation", "rows_changed"), [("replace_one", 2), ("add_remove", 1)])
def test_tight_sensitivity_by_hand(relation, rows_changed):
    # (rows changed)·LTη/n = 2·√2·10·2/2000 = 0.0282843 under replace, half of it under add/remove;
    # with α: (rows changed)·(L/(nα))(1 − (1−ηα)^T), α = 0.1, η = 1/0.6, T = 10:
    # 2·√2/200·(1 − 0.83333^10) = 0.0118582.
    budget = Budget(1.0, 1e-6, relation)
    solution, _, _ = run(OutPert(iterations=10), budget)
    assert solution.trace[0].sensitivity == pytest.approx(0.0141421 * rows_changed, rel=1e-5)
    solution, _, _ = run(OutPert(iterations=10, step_size=1 / 0.6), budget, alpha=0.1)
    assert solution.trace[0].sensitivity == pytest.approx(0.0059291 * rows_changed, rel=1e-4)


def test_guarantee_recomputed_by_another_accountant():
    from dp_accounting.pld import PLDAccountant

    for solver in (OutPert(iterations=20), OutPert("published", iterations=20)):
        _, guarantee, _ = run(solver)
        accountant = PLDAccountant(value_discretization_interval=1e-4)
        accountant.compose(guarantee.event)
        epsilon = accountant.get_epsilon(guarantee.delta)
        assert epsilon <= guarantee.epsilon * 1.001
        if solver.calibration == "tight":
            assert epsilon == pytest.approx(guarantee.epsilon, rel=5e-3)


def test_published_noise_that_breaks_its_promise_is_refused_with_the_true_epsilon():
    # The constant √(2 ln(2/δ))/ε is for small ε: at ε = 60 it is too little even with the slack of
    # 3/2 in the sensitivity. μ = (2/3)·60/√(2 ln(2e6)) = 7.4256.
    budget = Budget(60.0, 1e-6, "replace_one")
    with pytest.raises(PrivacyError, match="calibration='tight'") as caught:
        run(OutPert("published", iterations=10), budget)
    from discreet.accounting.conversions import epsilon_from_mu

    true = epsilon_from_mu(2 / 3 * 60 / math.sqrt(2 * math.log(2 / 1e-6)), 1e-6)
    assert true > 60
    assert f"({true:.4g}, 1e-06)-DP" in str(caught.value)
    _, guarantee, _ = run(OutPert("published", iterations=10, unsafe=True), budget)
    assert guarantee.epsilon == pytest.approx(true, rel=1e-6)


@pytest.mark.parametrize(
    ("loss", "make"),
    [(Logistic(), np.asarray), (HuberHinge(), sp.csr_array), (Huber(threshold=1.0), np.asarray)],
)
def test_reaches_the_optimum_when_privacy_costs_nothing(loss, make):
    # ε = 10^6: noise is negligible, and T = 10,000 steps of descent remain: within 1e-4 of F*.
    X, y = table(n=1000)
    X /= np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    budget = Budget(1e6, 1e-6, "replace_one")
    solution, _, _ = run(OutPert(), budget, loss, (make(X), y), alpha=1e-3)
    assert excess(solution.weights, (X, y), loss, alpha=1e-3) <= 1e-4


def test_theorem_three_number_of_steps_by_hand():
    # T = [β²n²ε²D²/(L²d ln(1/δ))]^(1/3): β = 0.5, n = 2000, ε = 1, D = 10, L² = 2, d = 5,
    # ln(1/δ) = 13.8155: (0.25·4e6·100/138.155)^(1/3) = 89.8, so 90 steps.
    solution, _, _ = run(OutPert())
    assert solution.trace[0].iterations == 90
    assert solution.trace[0].step == pytest.approx(2.0)


def test_theorem_two_number_of_steps_by_hand():
    # α = 0.1, β = 0.6: T = (α²+β²)/(αβ)·ln(α²n²ε²D²/(L²d ln(1/δ))) = (0.37/0.06)·ln(0.01·4e8 /
    # 138.155) = 6.16667·10.2735 = 63.4, so 64 steps of 1/(α+β).
    solution, _, _ = run(OutPert(), alpha=0.1)
    assert solution.trace[0].iterations == 64
    assert solution.trace[0].step == pytest.approx(1 / 0.7)


def test_the_guess_of_the_weights_depends_on_the_task():
    # T goes with D^(2/3), and D is 10 for classification and 1 for regression
    X, _ = table()
    for loss, norm in ((Logistic(), 10.0), (Huber(), 1.0)):
        problem = problem_of(X, loss)
        steps = [
            OutPert(weight_norm=guess)._plan(problem, REPLACE, 1).descent.iterations
            for guess in (None, norm, 8 * norm)
        ]
        assert steps[0] == steps[1]
        assert steps[2] == pytest.approx(4 * steps[0], rel=0.1)


@pytest.mark.parametrize("calibration", ["tight", "published"])
def test_several_models_share_the_budget(calibration):
    _, guarantee, _ = run(OutPert(calibration, iterations=10), n_models=3)
    uses = guarantee.mechanisms
    mu = sum(use.count / use.mechanism.noise_multiplier**2 for use in uses)
    assert mu <= REPLACE.to_gdp().mu ** 2


class Other(Logistic):
    """A loss whose slope could be computed in any way."""


@pytest.mark.parametrize(
    ("solver", "loss", "message"),
    [
        (OutPert(step_size=5.0), Logistic(), "too long"),
        (OutPert("published", step_size=3.0), Logistic(), "too long"),
        (OutPert(), Hinge(), "smooth"),
        (OutPert(), Squared(), "bounded slope"),
        (OutPert(), Other(), "rounding error"),
    ],
)
def test_conditions_are_enforced_before_anything_is_read(solver, loss, message):
    X, _ = table()
    with pytest.raises((ValueError, NotSupported), match=message):
        solver.plan(problem_of(X, loss), REPLACE)


def test_needs_a_bound_on_rows():
    X, _ = table()
    with pytest.raises(ValueError, match=r"data_norm=1\.0"):
        OutPert().plan(problem_of(X, row_norm=None), REPLACE)
    with pytest.raises(ValueError, match="rescale"):
        OutPert().plan(problem_of(X, row_norm=1e30), REPLACE)


@pytest.mark.parametrize(
    "settings",
    [
        {"calibration": "loose"},
        {"unsafe": "no"},
        {"iterations": 0},
        {"iterations": 2.0},
        {"iterations": 10**8},
        {"step_size": -1.0},
        {"step_size": 1e-300},
        {"weight_norm": math.inf},
    ],
)
def test_senseless_settings_are_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        OutPert(**settings)


def test_gaussian_noise_is_what_the_trace_says():
    """Sample variance over 5 coordinates × 400 runs; false alarm below 1e-6 (5σ of a χ²)."""
    X, y = table(n=200)
    solver, problem = OutPert(iterations=2), problem_of(X)
    exact = GradientDescent(problem, 2, 2.0).run(as_rows(X, y, row_norm=1.0))
    runs = [run(solver, data=(X, y), seed=seed) for seed in range(400)]
    ends = np.array([solution.weights - exact for solution, _, _ in runs])
    solution, guarantee, _ = runs[0]
    scale = solution.trace[0].noise_scale
    assert isinstance(guarantee.mechanisms[0].mechanism, Gaussian)
    assert abs(np.mean(ends**2) / scale**2 - 1) < 5 * math.sqrt(2 / ends.size)


def test_the_penalty_for_generalization_by_hand():
    # μ = √2·L^(1/2)·(βd)^(1/4)/(√(nεγ)·R): L = 1, β = 1/4, d = 16, n = 10,000, ε = 1, γ = 0.1 and
    # R = 10 give √2·4^(1/4)/(√1000·10) = 2/316.2278 = 0.00632456.
    chosen = OutPert().generalization_penalty(Logistic(), 1.0, n_rows=10_000, n_weights=16)
    assert chosen == pytest.approx(0.00632456, rel=1e-6)
    # Rows of norm 2: L = 2 and β = 1, so μ grows by √2·√2; R = 5 and ε = 4 cancel.
    more = OutPert(weight_norm=5.0).generalization_penalty(
        Logistic(), 4.0, n_rows=10_000, n_weights=16, row_norm=2.0
    )
    assert more == pytest.approx(2 * chosen, rel=1e-12)
    certain = OutPert().generalization_penalty(
        Logistic(), 1.0, n_rows=10_000, n_weights=16, failure=0.4
    )
    assert certain == pytest.approx(chosen / 2, rel=1e-12)


@pytest.mark.parametrize("loss", [Hinge(), Squared()])
def test_the_penalty_for_generalization_needs_a_smooth_loss_with_a_bounded_slope(loss):
    with pytest.raises(NotSupported, match="smooth"):
        OutPert().generalization_penalty(loss, 1.0, n_rows=100, n_weights=3)
    with pytest.raises(ValueError, match="failure"):
        OutPert().generalization_penalty(Logistic(), 1.0, n_rows=100, n_weights=3, failure=2.0)
