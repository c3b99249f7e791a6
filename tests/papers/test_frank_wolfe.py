"""Private Frank–Wolfe: the paper's constants, what it spends, what it finds, what it refuses."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from discreet.accounting.conversions import epsilon_from_rho
from discreet.core import Budget, ExponentialMechanism, LaplaceNoisyMax
from discreet.errors import NotSupported, PrivacyError
from discreet.objectives import L2, Hinge, HuberHinge, Logistic, Problem, Softmax, Squared
from discreet.papers.frank_wolfe import FrankWolfe
from tests.solvers.conftest import LOGISTIC, solve, table

BUDGET = Budget(1.0, 1e-6, "replace_one")
HUGE = Budget(1e6, 1e-6, "replace_one")
DATA = table()


def run(solver, budget=BUDGET, loss=LOGISTIC, data=DATA, **more):
    return solve(solver, budget, loss, data, **more)


def constrained_optimum(loss, X, y, radius, alpha=0.0):
    """The least objective over the L1 ball, by splitting weights into positive n_models."""
    full = np.column_stack([X, np.ones(len(X))])
    d = full.shape[1]

    def objective(n_models):
        w = n_models[:d] - n_models[d:]
        slopes = loss.derivative(full @ w, y) @ full / len(y) + alpha * w
        value = loss.value(full @ w, y).mean() + alpha / 2 * w @ w
        return value, np.concatenate([slopes, -slopes])

    result = minimize(
        objective,
        np.full(2 * d, radius / (4 * d)),
        jac=True,
        method="SLSQP",
        bounds=[(0, None)] * (2 * d),
        constraints={
            "type": "ineq",
            "fun": lambda p: radius - p.sum(),
            "jac": lambda p: -np.ones(2 * d),
        },
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert result.success
    return result.fun


def test_published_noise_by_hand():
    # Scale of the Laplace noise on ⟨s, mean gradient⟩: λ = L·C·√(32·T·ln(1/δ))/(n·ε), and two
    # scores move apart by 2·2·L·C/n when a row is replaced: ε_0 = 4·ε/√(32·T·ln(1/δ)).
    # T = 50, ε = 1, δ = 1e-6: √(32·50·13.8155) = 148.676, so ε_0 = 0.0269041.
    solution, guarantee, _ = run(FrankWolfe(calibration="published", iterations=50))
    (use,) = guarantee.mechanisms
    assert isinstance(use.mechanism, LaplaceNoisyMax)
    assert use.mechanism.epsilon == pytest.approx(0.0269041, rel=1e-5)
    # the sum of gradients is n/C times the published score: the noise on it is λ·n/C
    published = math.sqrt(32 * 50 * math.log(1e6)) / 1.0
    assert use.mechanism.scale(2 * 1.0) == pytest.approx(published, rel=1e-9)
    assert use.count == len(solution.trace) == 49  # t = 1 … T − 1
    assert [entry.step for entry in solution.trace[:3]] == [1 / 2, 1 / 3, 1 / 4]


def test_published_noise_is_worth_more_under_add_remove():
    _, guarantee, _ = run(
        FrankWolfe(calibration="published", iterations=50), Budget(1.0, 1e-6, "add_remove")
    )
    assert guarantee.mechanisms[0].mechanism.epsilon == pytest.approx(0.0269041 / 2, rel=1e-5)


def test_tight_noise_by_hand():
    # T·ε'²/8 = ρ
    _, guarantee, curator = run(FrankWolfe(iterations=50))
    (use,) = guarantee.mechanisms
    assert isinstance(use.mechanism, ExponentialMechanism)
    assert guarantee.measure == "zcdp"
    assert use.count == 50
    assert use.mechanism.epsilon == pytest.approx(math.sqrt(8 * guarantee.rho / 50), rel=1e-9)
    assert 1 - 1e-9 < curator.spent_share <= 1


def test_pure_budgets_are_split_evenly():
    _, guarantee, _ = run(FrankWolfe(iterations=20), Budget(2.0, 0.0, "add_remove"))
    assert guarantee.measure == "pure"
    assert guarantee.mechanisms[0].mechanism.epsilon == pytest.approx(0.1, rel=1e-9)


@pytest.mark.parametrize("calibration", ["tight", "published"])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("n_models", [1, 3])
def test_an_independent_accountant_agrees(calibration, relation, n_models):
    from dp_accounting import rdp

    budget = Budget(0.5, 1e-6, relation)
    _, guarantee, _ = run(
        FrankWolfe(calibration=calibration, iterations=30), budget, n_models=n_models
    )
    accountant = rdp.RdpAccountant(orders=np.concatenate([[1.5, 2, 4, 8], np.arange(10, 1200, 5)]))
    accountant.compose(guarantee.event)
    recomputed = accountant.get_epsilon(1e-6)
    assert recomputed <= 0.5 * 1.001
    assert guarantee.epsilon == 0.5
    if calibration == "tight":
        assert recomputed > 0.48
    # closed form: ρ = count·ε²/8 (bounded range) or at most count·ε²/2 (pure)
    factor = 8 if calibration == "tight" else 2
    rho = sum(use.count * use.mechanism.epsilon**2 / factor for use in guarantee.mechanisms)
    assert epsilon_from_rho(rho, 1e-6) <= 0.5 * (1 + 1e-9)


def test_published_constants_that_break_the_promise_are_refused():
    # ρ = (T − 1)·ε_0·tanh(ε_0/2) is about ε²/(4·ln(1/δ)); for ε = 20 that is worth more than 20.
    budget = Budget(20.0, 1e-6, "replace_one")
    problem = Problem(Logistic(), L2(0.0), 3000, 5)
    with pytest.raises(PrivacyError, match="do not keep the promise"):
        FrankWolfe(calibration="published", iterations=500).plan(problem, budget)
    solver = FrankWolfe(calibration="published", iterations=500, unsafe=True)
    _, guarantee, _ = run(solver, budget)
    assert guarantee.epsilon > 20
    charged = sum(use.count * use.mechanism.loss.rho for use in guarantee.mechanisms)
    assert guarantee.epsilon <= epsilon_from_rho(charged, 1e-6) * (1 + 1e-6)
    assert guarantee.measure in ("zcdp", "gdp")


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge()], ids=lambda loss: loss.name)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("radius", "schedule"), [(2.0, "average"), (2.0, "decreasing"), (10.0, "average")]
)
def test_large_budgets_reach_the_constrained_optimum(loss, sparse, radius, schedule):
    X, y = DATA
    data = (sp.csr_array(X), y) if sparse else (X, y)
    solver = FrankWolfe(radius=radius, iterations=400, schedule=schedule)
    solution, _, _ = run(solver, HUGE, loss, data)
    full = np.column_stack([X, np.ones(len(X))])
    reached = loss.value(full @ solution.weights, y).mean()
    best = constrained_optimum(loss, X, y, radius)
    assert best - 1e-6 <= reached < best + 0.005
    assert np.abs(solution.weights).sum() <= radius * (1 + 1e-12)


def test_published_steps_reach_it_too():
    X, y = DATA
    solver = FrankWolfe(calibration="published", unsafe=True, radius=3.0, iterations=400)
    solution, _, _ = run(solver, HUGE)
    full = np.column_stack([X, np.ones(len(X))])
    reached = Logistic().value(full @ solution.weights, y).mean()
    assert reached < constrained_optimum(Logistic(), X, y, 3.0) + 0.005


def test_the_penalty_takes_part():
    X, y = DATA
    solution, _, _ = run(FrankWolfe(radius=5.0, iterations=400), HUGE, alpha=0.3)
    full = np.column_stack([X, np.ones(len(X))])
    w = solution.weights
    reached = Logistic().value(full @ w, y).mean() + 0.15 * w @ w
    assert reached < constrained_optimum(Logistic(), X, y, 5.0, alpha=0.3) + 0.005


@pytest.mark.parametrize("loss", [Hinge(), Squared()])
def test_losses_without_smoothness_or_bounded_slopes_are_taken(loss):
    X, y = DATA
    solution, _, _ = run(FrankWolfe(radius=5.0, iterations=200), HUGE, loss)
    full = np.column_stack([X, np.ones(len(X))])
    assert (
        loss.value(full @ solution.weights, y).mean() < 0.9 * loss.value(np.zeros(len(y)), y).mean()
    )


def test_wide_sparse_tables_find_the_few_columns_that_matter():
    rng = np.random.default_rng(0)
    X = sp.random_array((4000, 3000), density=0.01, rng=rng, format="csr")
    decisive = rng.uniform(-1, 1, size=(4000, 1))
    X = sp.csr_array(sp.hstack([X[:, :7], decisive, X[:, 7:]]))
    y = np.where(decisive.ravel() > 0, 1.0, -1.0)
    solution, _, _ = run(FrankWolfe(iterations=10), Budget(5.0, 1e-6, "add_remove"), data=(X, y))
    assert np.argmax(np.abs(solution.weights)) == 7
    assert solution.weights[7] > 5


def test_the_default_number_of_steps_grows_with_rows_and_budget_up_to_a_limit():
    def steps(n, budget, n_models=1):
        return FrankWolfe()._plan(Problem(Logistic(), L2(0.0), n, 20), budget, n_models).count

    assert steps(10, BUDGET) >= 2
    assert steps(1000, BUDGET) < steps(10_000, BUDGET) < steps(100_000, BUDGET) <= 1000
    assert steps(10_000, Budget(0.1, 1e-6, "replace_one")) < steps(10_000, BUDGET)
    assert steps(10_000, BUDGET, n_models=10) < steps(10_000, BUDGET)
    assert steps(10**9, HUGE) == 1000


def test_progress_shows_paid_for_things_only():
    seen = []
    solution, _, _ = run(FrankWolfe(iterations=12), progress=seen.append)
    assert [p.entry for p in seen] == list(solution.trace)
    assert [p.spent_share for p in seen] == pytest.approx(np.arange(1, 13) / 12)
    assert np.array_equal(seen[-1].weights, solution.weights)
    assert "12 private choices" in solution.conditions[1]


def test_only_published_noise_needs_delta():
    FrankWolfe().check(Logistic(), Budget(1.0, 0.0, "add_remove"))
    assert not FrankWolfe.needs_delta
    with pytest.raises(NotSupported, match="delta > 0"):
        FrankWolfe(calibration="published").check(Logistic(), Budget(1.0, 0.0, "add_remove"))


def test_several_margins_a_row_are_refused():
    with pytest.raises(NotSupported, match="one margin"):
        FrankWolfe().check(Softmax(3), BUDGET)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("calibration", "loose"),
        ("radius", 0.0),
        ("radius", math.inf),
        ("gradient_clip", math.nan),
        ("gradient_clip", -1.0),
        ("iterations", 0),
        ("iterations", 1.5),
        ("iterations", True),
        ("schedule", "long"),
        ("unsafe", 0),
    ],
)
def test_bad_settings(field, value):
    with pytest.raises(ValueError, match=field):
        FrankWolfe(**{field: value})
    with pytest.raises(ValueError, match="iterations"):
        FrankWolfe(calibration="published", iterations=1)
