"""Permutation SGD: sensitivities by hand, by brute force and attained; noise; refusals."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from discreet.accounting.conversions import delta_from_mu, epsilon_from_mu
from discreet.core import Account, Budget, Curator, Gaussian, L2Norm
from discreet.core.bits import SeededBits
from discreet.core.noise import Noise
from discreet.errors import NotSupported, PrivacyError
from discreet.objectives import L2, Hinge, Huber, HuberHinge, Logistic, Problem, Squared
from discreet.rows import as_rows
from discreet.solvers.permutation_sgd import PermutationSGD, _Plan

N, D = 1000, 5
BUDGET = Budget(1.0, 1e-6, "replace_one")
STRONG = {"mode": "strongly-convex"}


def make_data(n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, D))
    X /= np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    y = np.where(X @ np.linspace(-4, 4, D) + 0.5 + rng.logistic(size=n) > 0, 1.0, -1.0)
    return X, y


def make_problem(n=N, alpha=0.0, loss=None, fit_intercept=True):
    return Problem(loss or Logistic(), L2(alpha), n, D, fit_intercept, row_norm=1.0)


def run(solver, budget=BUDGET, loss=None, data=None, seed=0, alpha=0.0, n_models=1):
    X, y = make_data() if data is None else data
    problem = make_problem(X.shape[0], alpha, loss)
    account = Account(solver.plan(problem, budget, n_models))
    curator = Curator(
        as_rows(X, y, row_norm=1.0), account, Noise(SeededBits(seed)), Fraction(1, n_models)
    )
    solution = solver.solve(problem, curator, budget)
    return solution, account.guarantee(secure=False), curator


def brute_force(solver, problem):
    """Carry the distance through every update, for each place of the changed row."""
    plan = _Plan(solver, problem)
    lipschitz, k = plan.lipschitz, solver.batch_size
    m = problem.n_rows // k
    alpha = problem.penalty.alpha
    worst = 0.0
    for place in range(m):
        apart = 0.0
        for t, step in enumerate(plan.steps):
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
    plan = _Plan(PermutationSGD(passes=10, **STRONG), problem)
    assert plan.stability <= 0.0282843 * (1 + 1e-5)
    assert plan.published_sensitivity == pytest.approx(2 * 0.0282843, rel=1e-5)
    plan = _Plan(PermutationSGD(passes=10, radius=3.0, **STRONG), problem)
    assert plan.published_sensitivity == pytest.approx(2 * (2**0.5 + 0.3) / 100, rel=1e-9)


def test_a_penalty_contracts_convex_passes_by_hand():
    # n = 100, k = 50, T = 2, L = √2, α = 0.1, η = 0.5: an update moves by 2Lη/k = 0.02828427 and
    # each later step shrinks that by 1 − αη = 0.95. Updates 2 and 4 are the worst: 0.02828427 ·
    # (1 + 0.95²) = 0.05381083. β = 2/4 + 0.1 = 0.6: above 2/(β + α) = 2.857, as η = 3 is, steps
    # are only known not to expand: 2TLη/k = 0.3394113.
    problem = make_problem(100, 0.1)
    short = _Plan(PermutationSGD(passes=2, step_size=0.5), problem)
    assert short.stability == pytest.approx(0.05381083, rel=2e-6)
    assert short.published_sensitivity == pytest.approx(0.05656854, rel=1e-6)
    long = _Plan(PermutationSGD(passes=2, step_size=3.0), problem)
    assert long.stability == pytest.approx(0.3394113, rel=2e-6)


def test_longest_steps_contract_as_stated():
    """Squared loss of rows of one direction: 1 − ηα and 1 − ηβ at once, where they are −1 apart."""
    alpha = 0.5
    problem = Problem(Squared(), L2(alpha), 40, 2, False, row_norm=1.0)
    step = 2 / (problem.smoothness + alpha)
    solver = PermutationSGD(passes=3, batch_size=4, step_size=step, gradient_clip=1.0)
    plan = _Plan(solver, problem)
    plan.check()
    worst = 0.0
    for place in range(0, 40, 4):
        ends = []
        for target in (1.0, -1.0):
            X, y = np.tile([1.0, 0.0], (40, 1)), np.zeros(40)
            X[place], y[place] = (0.0, 1.0), 50 * target
            order = plan.cut(np.arange(40))
            ends.append(plan.descend(as_rows(X, y, fit_intercept=False, row_norm=1.0), order))
        worst = max(worst, float(np.linalg.norm(ends[0] - ends[1])))
    assert 0.9 * plan.stability < worst <= plan.sensitivity


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
    assert _Plan(solver, problem).stability == pytest.approx(expected, rel=1e-5)
    assert _Plan(solver, problem).stability >= expected
    if alpha and "mode" in settings:
        used = 200 // batch * batch
        assert expected <= 2 * 2**0.5 / (alpha * used) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("settings", "alpha"),
    [
        ({"step_size": 0.01}, 0.0),
        ({"step_size": 0.01}, 4.0),
        ({"schedule": "decreasing", "exponent": 0.9}, 0.0),
        ({"schedule": "sqrt", "exponent": 0.9}, 0.0),
        (STRONG, 4.0),
    ],
)
def test_the_sensitivity_is_attained(settings, alpha):
    """Rows of zeros, and one that is far from the kink with either sign: nothing can be saved."""
    n, k = 40, 4
    solver = PermutationSGD(passes=3, batch_size=k, **settings)
    problem = make_problem(n, alpha, HuberHinge(0.5), fit_intercept=False)
    plan = _Plan(solver, problem)
    plan.check()
    order = plan.cut(np.arange(n))
    worst = 0.0
    for place in range(0, n, k):
        ends = []
        for sign in (1.0, -1.0):
            X = np.zeros((n, D))
            X[place, 0] = sign
            rows = as_rows(X, np.ones(n), fit_intercept=False, row_norm=1.0)
            ends.append(plan.descend(rows, order))
        worst = max(worst, float(np.linalg.norm(ends[0] - ends[1])))
    assert worst <= plan.sensitivity
    assert worst > 0.999 * plan.stability


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(0.5), Huber(0.5), Squared()])
@pytest.mark.parametrize(
    ("settings", "alpha"),
    [({"step_size": 0.2}, 0.0), ({"schedule": "sqrt"}, 0.1), (STRONG, 0.1)],
)
def test_neighbours_end_within_the_sensitivity(loss, settings, alpha):
    solver = PermutationSGD(passes=4, batch_size=5, gradient_clip=0.8, **settings)
    n = 30
    problem = make_problem(n, alpha, loss)
    plan = _Plan(solver, problem)
    plan.check()
    rng = np.random.default_rng(5)
    largest = 0.0
    for _ in range(40):
        X, y = rng.normal(size=(n, D)), np.where(rng.random(n) < 0.5, 1.0, -1.0)
        other, targets = X.copy(), y.copy()
        row = rng.integers(n)
        other[row], targets[row] = -X[row] * rng.choice([1, 100]), rng.choice([-1.0, 1.0])
        order = plan.cut(rng.permutation(n))
        ends = [
            plan.descend(as_rows(table, labels, row_norm=1.0), order)
            for table, labels in ((X, y), (other, targets))
        ]
        assert all(np.linalg.norm(end) <= plan.reach for end in ends)
        largest = max(largest, float(np.linalg.norm(ends[0] - ends[1])))
    assert 0 < largest <= plan.sensitivity


@pytest.mark.parametrize("mode", ["convex", "strongly-convex"])
def test_rounding_stays_within_its_bound(mode):
    """Against the same passes in 80-bit numbers."""
    alpha = 0.05
    X, y = make_data(200)
    radius = 0.5 if mode == "strongly-convex" else None
    solver = PermutationSGD(mode=mode, passes=20, batch_size=10, radius=radius)
    problem = make_problem(200, alpha)
    plan = _Plan(solver, problem)
    order = plan.cut(np.arange(200))
    rows = np.column_stack([X, np.ones(200)]).astype(np.longdouble)
    w = np.zeros(D + 1, dtype=np.longdouble)
    for step, batch in zip(plan.steps, np.tile(order, (20, 1)), strict=True):
        slope = -y[batch] / (1 + np.exp(y[batch] * (rows[batch] @ w)))
        w = w - np.longdouble(step) * (slope @ rows[batch] / 10 + np.longdouble(alpha) * w)
        if mode == "strongly-convex":
            w = w * min(1, 0.5 / np.sqrt((w * w).sum()))
    ours = plan.descend(as_rows(X, y, row_norm=1.0), order)
    distance = float(np.sqrt(((ours - w) ** 2).sum()))
    assert 0 < distance <= plan.rounding < 1e-4 * plan.stability


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
    plan = _Plan(solver, problem)
    assert plan.stability > 2 * plan.lipschitz / (0.1 * 149)
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


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("loss", [Logistic(), HuberHinge()], ids=lambda loss: loss.name)
@pytest.mark.parametrize(
    ("alpha", "settings", "tolerance"),
    [
        (0.0, {"passes": 200}, 2e-3),
        (0.02, {"passes": 50, **STRONG}, 1e-3),
        (0.02, {"passes": 1000, "schedule": "sqrt"}, 1e-3),
    ],
)
def test_without_noise_it_comes_to_the_optimum(make, loss, alpha, settings, tolerance):
    X, y = make_data()
    full = np.column_stack([X, np.ones(N)])

    def objective(w):
        return loss.value(full @ w, y).mean() + alpha / 2 * w @ w

    best = minimize(objective, np.zeros(D + 1), method="BFGS").fun
    budget = Budget(1e6, 1e-6, "replace_one")
    solution, guarantee, _ = run(
        PermutationSGD(**settings), budget, loss, (make(X), y), alpha=alpha
    )
    assert isinstance(guarantee.mechanisms[0].mechanism, Gaussian)
    assert best - 1e-9 <= objective(solution.weights) < best + tolerance


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
    assert _Plan(PermutationSGD(), make_problem(1000)).batch == 50
    assert _Plan(PermutationSGD(), make_problem(30)).batch == 30
    # the default step goes with D^(2/3), and D is 10 for classification and 1 for regression
    for loss, norm in ((Logistic(), 10.0), (Huber(1.0), 1.0)):
        problem = make_problem(loss=loss)
        steps = [
            PermutationSGD(weight_norm=guess)._plan(problem, BUDGET, 1).steps[0]
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
