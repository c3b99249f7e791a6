"""Permutation SGD: sensitivities by hand, by brute force and attained; noise; refusals."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.accounting.conversions import delta_from_mu, epsilon_from_mu
from discreet.core import Budget, Gaussian, L2Norm
from discreet.errors import NotSupported, PrivacyError
from discreet.objectives import L2, Hinge, Huber, HuberHinge, Logistic, Problem, Squared
from discreet.papers.permutation_sgd import PermutationSGD
from tests.solvers.conftest import LOGISTIC, excess, projected_table, solve

N, D = 1000, 5
BUDGET = Budget(1.0, 1e-6, "replace_one")
STRONG = {"mode": "strongly-convex"}
DATA = projected_table(N)


def make_problem(n=N, alpha=0.0, loss=LOGISTIC):
    return Problem(loss, L2(alpha), n, D, row_norm=1.0)


def run(solver, budget=BUDGET, loss=LOGISTIC, data=DATA, **more):
    return solve(solver, budget, loss, data, fits=1, row_norm=1.0, **more)


def passes_of(solver, problem):
    return solver._plan(problem, BUDGET, 1).descent


def brute_force(solver, problem):
    """Carry the distance through every update, for each place of the changed row."""
    passes = passes_of(solver, problem)
    lipschitz, k = passes.lipschitz, solver.batch_size
    m = problem.n_rows // k
    alpha = problem.penalty.alpha
    worst = 0.0
    for place in range(m):
        apart = 0.0
        for t, step in enumerate(passes.steps.ravel()):
            kept = 1 - alpha * step if step <= 2 / (problem.smoothness + alpha) else 1.0
            apart = kept * apart + (2 * lipschitz * step / k) * (t % m == place)
        worst = max(worst, apart)
    return worst


def test_constant_steps_by_hand():
    # Algorithm 3: Δ = 2TLη/k = 2·5·√2·0.1/50 = 0.02828427; published σ = Δ√(2 ln(2/δ))/ε =
    # Δ·√(2 ln 2e6) = Δ·5.386776 = 0.1523610, the square root of 8T²L²η²ln(2/δ)/(k²ε²).
    settings = {"passes": 5, "step_size": 0.1, "batch_size": 50}
    solution, guarantee, _ = run(PermutationSGD(calibration="published", **settings))
    entry = solution.trace[0]
    assert entry.sensitivity == pytest.approx(0.02828427, rel=2e-6)
    assert entry.noise_scale == pytest.approx(0.1523610, rel=1e-5)
    assert math.sqrt(8 * 25 * 2 * 0.01 * math.log(2e6) / 2500) == pytest.approx(0.1523610, rel=1e-5)
    assert entry.updates == 100
    # tight: δ(ε = 1) of Gaussian noise at that sensitivity is exactly δ
    solution, guarantee, curator = run(PermutationSGD(**settings))
    entry = solution.trace[0]
    mu = entry.sensitivity / entry.noise_scale
    assert delta_from_mu(mu, 1.0) == pytest.approx(1e-6, rel=1e-3)
    assert guarantee.mu == pytest.approx(mu, rel=1e-9)
    assert entry.noise_scale < 0.1523610
    assert curator.spent_share == pytest.approx(1.0, abs=1e-9)


def test_an_independent_accountant_agrees():
    from dp_accounting import pld

    _, guarantee, _ = run(PermutationSGD())
    accountant = pld.PLDAccountant(value_discretization_interval=1e-4)
    accountant.compose(guarantee.event)
    assert 0.99 < accountant.get_epsilon(1e-6) <= 1.001


def test_strongly_convex_by_hand():
    # Algorithm 4 with Δ = 2L/(λn): 2·√2/(0.1·1000) = 0.0282843, rows all used; published has
    # L + λC for L, and C = L/λ here: twice that.
    problem = make_problem(alpha=0.1)
    plan = PermutationSGD("published", passes=10, **STRONG)._plan(problem, BUDGET, 1)
    assert plan.descent.stability <= 0.0282843 * (1 + 1e-5)
    assert plan.published == pytest.approx(2 * 0.0282843, rel=1e-5)
    plan = PermutationSGD("published", passes=10, radius=3.0, **STRONG)._plan(problem, BUDGET, 1)
    assert plan.published == pytest.approx(2 * (2**0.5 + 0.3) / 100, rel=1e-9)


def test_a_penalty_contracts_convex_passes_by_hand():
    # n = 100, k = 50, T = 2, L = √2, α = 0.1, η = 0.5: an update moves by 2Lη/k = 0.02828427 and
    # each later step shrinks that by 1 − αη = 0.95. Updates 2 and 4 are the worst: 0.02828427 ·
    # (1 + 0.95²) = 0.05381083. β = 2/4 + 0.1 = 0.6: above 2/(β + α) = 2.857, as η = 3 is, steps
    # are only known not to expand: 2TLη/k = 0.3394113.
    problem = make_problem(100, 0.1)
    short = PermutationSGD("published", passes=2, step_size=0.5)._plan(problem, BUDGET, 1)
    assert short.descent.stability == pytest.approx(0.05381083, rel=2e-6)
    assert short.published == pytest.approx(0.05656854, rel=1e-6)
    long = passes_of(PermutationSGD(passes=2, step_size=3.0), problem)
    assert long.stability == pytest.approx(0.3394113, rel=2e-6)


@pytest.mark.parametrize(
    ("settings", "alpha"),
    [
        ({"step_size": 0.3}, 0.0),
        ({"step_size": 0.3}, 0.5),
        ({"step_size": 2.6}, 0.2),
        ({"schedule": "decreasing", "exponent": 0.0}, 0.4),
        ({"schedule": "decreasing", "exponent": 0.3}, 0.0),
        ({"schedule": "sqrt", "exponent": 0.0}, 0.0),
        ({"schedule": "sqrt"}, 0.2),
        (STRONG, 0.01),
        (STRONG, 1.0),
    ],
)
@pytest.mark.parametrize(("passes", "batch"), [(1, 10), (4, 10), (3, 7)])
def test_stability_is_the_worst_place_by_brute_force(settings, alpha, passes, batch):
    problem = make_problem(200, alpha)
    solver = PermutationSGD(passes=passes, batch_size=batch, **settings)
    expected = brute_force(solver, problem)
    stability = passes_of(solver, problem).stability
    assert stability == pytest.approx(expected, rel=1e-5)
    assert stability >= expected
    if alpha and "mode" in settings:
        used = 200 // batch * batch
        assert expected <= 2 * 2**0.5 / (alpha * used) * (1 + 1e-9)


def test_pure_budgets_get_vector_noise():
    solution, guarantee, _ = run(PermutationSGD(), Budget(2.0, 0.0, "replace_one"))
    (use,) = guarantee.mechanisms
    assert isinstance(use.mechanism, L2Norm)
    assert use.mechanism.epsilon == pytest.approx(2.0, rel=1e-9)
    assert solution.trace[0].noise_scale == pytest.approx(solution.trace[0].sensitivity / 2)


def test_published_constants_are_held_to_their_claim():
    # At ε = 20 the classical σ = Δ√(2 ln(2/δ))/ε gives μ = 20/5.386776 = 3.7128.
    budget = Budget(20.0, 1e-6, "replace_one")
    true = epsilon_from_mu(20 / math.sqrt(2 * math.log(2e6)), 1e-6)
    assert true > 20
    solver = PermutationSGD(calibration="published")
    with pytest.raises(PrivacyError, match=f"{true:.3g}"):
        solver.plan(make_problem(), budget)
    _, guarantee, _ = run(PermutationSGD(calibration="published", unsafe=True), budget)
    assert guarantee.epsilon == pytest.approx(true, rel=1e-4)


def test_published_strong_convexity_holds_if_rows_are_left_over():
    """2(L + λC)/(λn) counts all n rows although 49 of 149 sit out; L + λC makes up for it here."""
    problem = make_problem(149, 0.1)
    solver = PermutationSGD(calibration="published", batch_size=100, **STRONG)
    passes = passes_of(solver, problem)
    assert passes.stability > 2 * passes.lipschitz / (0.1 * 149)
    small = PermutationSGD(calibration="published", batch_size=100, radius=1e-3, **STRONG)
    budget = Budget(20.0, 1e-6, "replace_one")
    with pytest.raises(PrivacyError):
        small.plan(problem, budget)


def test_models_share():
    solution, _, curator = run(PermutationSGD(step_size=0.1), n_models=4)
    alone, _, _ = run(PermutationSGD(step_size=0.1))
    assert solution.trace[0].noise_scale == pytest.approx(2 * alone.trace[0].noise_scale, rel=1e-6)
    assert curator.spent_share == pytest.approx(1.0, abs=1e-9)
    split, _, _ = run(PermutationSGD(calibration="published"), n_models=4)
    expected = math.sqrt(2 * math.log(8 / 1e-6)) / 0.25 * split.trace[0].sensitivity
    assert split.trace[0].noise_scale == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("make", "loss", "alpha", "settings", "tolerance"),
    [
        (np.asarray, Logistic(), 0.0, {"passes": 200}, 2e-3),
        (sp.csr_array, Logistic(), 0.02, {"passes": 50, **STRONG}, 1e-3),
        (np.asarray, HuberHinge(), 0.02, {"passes": 50, **STRONG}, 1e-3),
        (sp.csr_array, HuberHinge(), 0.02, {"passes": 1000, "schedule": "sqrt"}, 1e-3),
    ],
)
def test_without_noise_it_comes_to_the_optimum(make, loss, alpha, settings, tolerance):
    X, y = DATA
    budget, solver = Budget(1e6, 1e-6, "replace_one"), PermutationSGD(**settings)
    solution, guarantee, _ = run(solver, budget, loss, (make(X), y), alpha=alpha)
    assert isinstance(guarantee.mechanisms[0].mechanism, Gaussian)
    assert -1e-9 <= excess(solution.weights, (X, y), loss, alpha=alpha) < tolerance


def test_what_it_refuses():
    with pytest.raises(NotSupported, match="replace_one"):
        PermutationSGD().check(Logistic(), Budget(1.0, 1e-6, "add_remove"))
    with pytest.raises(NotSupported, match="smooth"):
        PermutationSGD().check(Hinge(), BUDGET)

    class Other(Logistic):
        pass

    with pytest.raises(NotSupported, match="rounding error"):
        PermutationSGD().check(Other(), BUDGET)
    problem = make_problem()
    smoothness = problem.smoothness
    PermutationSGD(step_size=2 / smoothness).plan(problem, BUDGET)
    with pytest.raises(ValueError, match="too long"):
        PermutationSGD(step_size=2.0001 / smoothness).plan(problem, BUDGET)
    with pytest.raises(ValueError, match="alpha > 0"):
        PermutationSGD(**STRONG).plan(problem, BUDGET)
    with pytest.raises(ValueError, match="100,000,000 updates"):
        PermutationSGD(batch_size=1, passes=100_001).plan(problem, BUDGET)
    with pytest.raises(ValueError, match="rescale"):
        PermutationSGD().plan(Problem(Logistic(), L2(0.0), N, D, row_norm=1e30), BUDGET)
    with pytest.raises(ValueError, match="number of rows, 1000"):
        PermutationSGD(batch_size=1001).plan(problem, BUDGET)
    with pytest.raises(ValueError, match="data_norm"):
        PermutationSGD().plan(Problem(Logistic(), L2(0.0), N, D), BUDGET)
    with pytest.raises(ValueError, match="gradient_clip"):
        PermutationSGD().plan(make_problem(loss=Squared()), BUDGET)


def test_defaults_that_depend_on_the_problem():
    assert passes_of(PermutationSGD(), make_problem(1000)).batch == 50
    assert passes_of(PermutationSGD(), make_problem(30)).batch == 30
    # the default step goes with D^(2/3), and D is 10 for classification and 1 for regression
    for loss, norm in ((Logistic(), 10.0), (Huber(1.0), 1.0)):
        problem = make_problem(loss=loss)
        steps = [
            passes_of(PermutationSGD(weight_norm=guess), problem).steps[0, 0]
            for guess in (None, norm, norm / 8)
        ]
        assert steps[0] == steps[1] == pytest.approx(4 * steps[2])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"step_size": 0.1, "schedule": "sqrt"}, "step_size is for"),
        ({"step_size": 0.1, **STRONG}, "step_size is for"),
        ({"schedule": "sqrt", **STRONG}, "schedule is for"),
        ({"radius": 1.0}, "radius is for"),
    ],
)
def test_settings_that_would_be_ignored_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        PermutationSGD(**settings)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("calibration", "loose"),
        ("unsafe", 1),
        ("passes", 10**7),
        ("weight_norm", "10"),
        ("mode", "concave"),
        ("schedule", "linear"),
        ("passes", 0),
        ("batch_size", 1.5),
        ("step_size", 0.0),
        ("radius", math.inf),
        ("gradient_clip", -1.0),
        ("exponent", 1.0),
    ],
)
def test_bad_settings(field, value):
    with pytest.raises(ValueError, match=field):
        PermutationSGD(**{field: value})
