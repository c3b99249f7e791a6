"""Approximate minima perturbation: constants by hand, what is refused, what it finds."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from discreet.accounting.conversions import epsilon_from_mu, mu_from_epsilon
from discreet.accounting.objective_perturbation import profile
from discreet.accounting.planning import divide
from discreet.accounting.profiles import Profile
from discreet.core import Account, Budget, Curator
from discreet.core.bits import SeededBits
from discreet.core.noise import Noise
from discreet.errors import NotSupported, PrivacyError
from discreet.objectives import L2, Hinge, Huber, HuberHinge, Logistic, Problem, Sigmoid, Softmax
from discreet.papers.amp import AMP, AMPHF
from discreet.rows import as_rows
from tests.solvers.conftest import LOGISTIC, bounded_table, excess, solve

REPLACE, ADD = Budget(0.1, 1e-6, "replace_one"), Budget(0.1, 1e-6, "add_remove")
ROOT = math.sqrt(2)


def run(solver, budget, loss=LOGISTIC, data=None, **more):
    data = bounded_table(loss, 2000) if data is None else data
    return solve(solver, budget, loss, data, fits=1, row_norm=1.0, **more)


def test_published_constants_by_hand():
    # ε = 0.1, δ = 1e-6, f = 0.01, f₁ = 0.9: ε₁ = 0.099, ε₂ = 0.001, ε₃ = 0.0891, δ₁ = 0.99e-6,
    # δ₂ = 1e-8. Rows of norm 1 and an intercept: L = √2; the paper's β = L² = 2; r = 2.
    # Λ = 4/0.0099 = 404.0404.
    # n·σ₁ = 2√2·(1 + √(2 ln(1/0.99e-6)))/0.0891 = 198.670.
    # σ₂ = (nγ/Λ)(1 + √(2 ln 1e8))/0.001 with nγ = 1/2000: 0.00874870.
    entry = run(AMP(calibration="published"), REPLACE)[0].trace[0]
    assert entry.ridge == pytest.approx(404.0404, rel=1e-6)
    by_hand = 2 * ROOT * (1 + math.sqrt(2 * math.log(1 / 0.99e-6))) / 0.0891
    assert entry.noise_scale == pytest.approx(by_hand, rel=1e-9) == pytest.approx(198.67, rel=1e-4)
    output = (1 / 2000 / 404.0404) * (1 + math.sqrt(2 * math.log(1e8))) / 0.001
    assert entry.output_noise == pytest.approx(output, rel=1e-3) == pytest.approx(0.0087487, 1e-4)
    assert entry.gradient_bound == pytest.approx(1 / 2000**2)
    half = run(AMP(calibration="published"), ADD)[0].trace[0]
    assert half.noise_scale == pytest.approx(by_hand / 2)


def test_published_smoothness_is_that_of_the_loss():
    # Smoothed hinge with h = 0.1: β = L²/(2h) = 10, Λ = 2·10/0.0099.
    entry = run(AMP(calibration="published"), REPLACE, HuberHinge())[0].trace[0]
    assert entry.ridge == pytest.approx(20 / 0.0099)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 5.0])
@pytest.mark.parametrize("solver", [AMP, AMPHF])
def test_published_constants_keep_their_promise_thanks_to_slack(solver, epsilon):
    """The printed output noise is for half the true distance; the first part makes up for it."""
    budget = Budget(epsilon, 1e-6, "replace_one")
    settings = {"objective_fraction": 0.9} if solver is AMP else {}
    _, guarantee, _ = run(solver(calibration="published", **settings), budget)
    assert guarantee.epsilon == epsilon


def test_published_constants_that_break_the_promise_are_refused():
    """Nearly all of the budget for the output, whose noise is half of what it must be."""
    solver = AMP(calibration="published", output_fraction=0.9)
    with pytest.raises(PrivacyError, match="do not keep the promise") as caught:
        run(solver, Budget(8.0, 1e-2, "replace_one"))
    # By hand: σ₂ over the distance 2nγ/Λ is z = (1 + √(2 ln(1/δ₂)))/(2ε₂), ε₂ = 7.2, δ₂ = 0.009.
    z = (1 + math.sqrt(2 * math.log(1 / 0.009))) / 14.4
    assert epsilon_from_mu(1 / z, 1e-2) > 8
    assert "unsafe=True" in str(caught.value)
    unsafe = AMP(calibration="published", output_fraction=0.9, unsafe=True)
    _, guarantee, _ = run(unsafe, Budget(8.0, 1e-2, "replace_one"))
    assert guarantee.epsilon > epsilon_from_mu(1 / z, 1e-2)


def test_tight_constants_by_hand():
    # Same split; c = ε₁ − ε₃ = ln(1 + t/Λ) with t = 2/4, so Λ = 0.5/(e^0.0099 − 1) = 50.2555.
    # Part 2: 2nγ/Λ over the μ of (0.001, 1e-8); nγ = 1e-6·L, which is below 1/n.
    entry = run(AMP(), REPLACE)[0].trace[0]
    ridge = 0.5 / math.expm1(0.0099)
    assert entry.ridge == pytest.approx(ridge, rel=1e-6)
    output = mu_from_epsilon(0.001, 1e-8)
    assert entry.output_noise == pytest.approx(2 * 1e-6 * ROOT / ridge / output, rel=1e-3)
    # Part 1: what the squares leave of a Gaussian at ε − c; the terms of one row alone are small.
    mu = math.sqrt(mu_from_epsilon(0.0901, 1e-6) ** 2 - output**2)
    assert entry.noise_scale == pytest.approx(2 * ROOT / mu, rel=1e-3)


@pytest.mark.parametrize("budget", [REPLACE, ADD])
@pytest.mark.parametrize("n_models", [1, 3])
@pytest.mark.parametrize("loss", [Logistic(), Huber(0.5), Softmax(3)], ids=repr)
def test_both_parts_together_keep_the_budget(budget, n_models, loss):
    solution, guarantee, curator = run(AMP(), budget, loss, n_models=n_models)
    entry = solution.trace[0]
    rank = loss.hessian_rank
    cost = rank * math.log1p(2 * loss.hessian_trace_bound / (rank * entry.ridge))
    distance = 2 * entry.gradient_bound * 2000 / entry.ridge
    one = profile(
        noise_ratio=loss.slope_bound * ROOT / entry.noise_scale,
        curvature_cost=cost,
        relation=budget.relation,
        corners=loss.gradient_corners,
        output_mu=distance / entry.output_noise,
    )
    assert 0.999e-6 < one.times(n_models).delta(0.1) <= 1e-6 * (1 + 1e-6)
    (use,) = guarantee.mechanisms
    assert use.mechanism.loss.epsilon <= 0.1
    assert use.mechanism.profile.times(n_models).delta(0.1) <= 1e-6
    assert curator.spent_share == pytest.approx(1)


@pytest.mark.parametrize("solver", [AMP(), AMPHF(), AMP("published")], ids=repr)
def test_after_a_preparation_everything_together_keeps_the_budget(solver):
    X, y = bounded_table(n=2000)
    rows = as_rows(X, y, row_norm=1.0)
    problem = Problem(LOGISTIC, L2(), rows.n_rows, rows.n_features, row_norm=1.0)
    account = Account(ADD)
    models = account.reserve(divide(account.budget, [("centre", 0.05)], solver.composes))
    plan = solver.plan(problem, models)
    assert plan.spends == models
    before = account.open_reserved(0).total
    solver.solve(problem, Curator(rows, account, Noise(SeededBits(0))), plan)
    (use,) = account.guarantee(secure=False).mechanisms
    delta = Profile.gaussian(before).then(use.mechanism.profile).delta(0.1)
    assert delta <= 1e-6
    if solver.calibration == "tight":
        assert delta > 0.999e-6


def test_rules_without_hyper_parameters_by_hand():
    problem = Problem(Logistic(), L2(), 2000, 5, row_norm=1.0)
    # ε = 1: ε₁ = 0.99, f₁ = 0.887 + 0.019/0.99^0.373 = 0.906071; ε = 0.01: 0.887 + 0.019/0.0099^
    # 0.373 = 0.993 is cut to 0.99; ε = 20: ε₁ = 19.8, f₁ = 1 − 0.99/19.8 = 0.95.
    for epsilon, fraction in ((1.0, 0.906071), (0.01, 0.99), (20.0, 0.95)):
        output, noise = AMPHF()._fractions(problem, epsilon)
        assert output == 0.01
        assert noise == pytest.approx(fraction, rel=1e-6)
    wide = Problem(Logistic(), L2(), 5, 2000, row_norm=1.0)
    assert AMPHF()._fractions(wide, 1.0)[1] == pytest.approx(0.97)
    assert AMPHF(dimensions="low")._fractions(wide, 1.0)[1] == pytest.approx(0.906071)
    noise = AMPHF(dimensions="high")._fractions(problem, 50.0)[1]
    assert (1 - noise) * 0.99 * 50.0 == pytest.approx(0.99)


def test_curvature_beyond_one_is_refused_or_avoided():
    with pytest.raises(ValueError, match=r"below 1; it is 1\.98.*objective_fraction >= 0\.95"):
        run(AMP(calibration="published"), Budget(20.0, 1e-6, "replace_one"))
    output, noise = AMP()._fractions(Problem(Logistic(), L2(), 10, 2, row_norm=1.0), 20.0)
    assert (1 - noise) * (1 - output) * 20.0 == pytest.approx(0.99)


def test_the_default_gradient_bound():
    """1/n² as published; when tight at most 1e-6·L/n, which is less for n below 7e5."""

    def bound(n, **settings):
        problem = Problem(Logistic(), L2(), n, 5, row_norm=1.0)
        return [kind(**settings)._gradient_bound(problem) for kind in (AMP, AMPHF)]

    assert bound(100) == pytest.approx(2 * [1e-6 * ROOT / 100])
    assert bound(10**6) == pytest.approx(2 * [1e-12])
    assert bound(100, calibration="published") == pytest.approx(2 * [1e-4])
    assert bound(100, gradient_bound=0.5) == [0.5, 0.5]


@pytest.mark.parametrize("solver", [AMP(), AMPHF(), AMP("published")])
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("loss", [LOGISTIC, Softmax(3)], ids=repr)
def test_one_huge_row_counts_as_nothing(solver, convert, loss):
    X, y = bounded_table(loss, 2000)
    X[0, 0] = 1e155
    solution = run(solver, REPLACE, loss, (convert(X), y))[0]
    X[0, 0] = 1e300
    again = run(solver, REPLACE, loss, (convert(X), y))[0]
    np.testing.assert_allclose(solution.weights, again.weights, atol=1e-9)


def test_the_gradient_bound_scales_the_output_noise():
    fine = run(AMP(gradient_bound=1e-8), REPLACE)[0].trace[0]
    coarse = run(AMP(gradient_bound=1e-5), REPLACE)[0].trace[0]
    assert coarse.output_noise == pytest.approx(1000 * fine.output_noise, rel=1e-2)
    floor = run(AMP(gradient_bound=1e-30), REPLACE)[0].trace[0]
    assert 1e-13 < floor.gradient_bound < 1e-10  # what rounding lets be certified


@pytest.mark.parametrize(
    ("loss", "convert", "solver"),
    [
        (Logistic(), np.asarray, AMP()),
        (Logistic(), sp.csr_array, AMPHF()),
        (HuberHinge(), sp.csr_array, AMP()),
        (Huber(0.5), np.asarray, AMPHF()),
        (Softmax(3), np.asarray, AMP()),
        (Softmax(3), sp.csr_array, AMPHF()),
    ],
    ids=repr,
)
def test_large_budgets_find_the_optimum(loss, convert, solver):
    X, y = bounded_table(loss, 4000)
    budget = Budget(1e6, 1e-6, "replace_one")
    solution, _, _ = run(solver, budget, loss, (convert(X), y), alpha=0.01)
    assert solution.weights.size == 6 * loss.n_outputs
    assert excess(solution.weights, (X, y), loss, alpha=0.01) < 1e-6


def test_more_budget_helps():
    X, y = bounded_table(n=2000)
    full = np.column_stack([X, np.ones(len(X))])

    def objective(epsilon):
        budget = Budget(epsilon, 1e-6, "replace_one")
        found = [run(AMPHF(), budget, data=(X, y), seed=s)[0].weights for s in range(3)]
        return np.mean([Logistic().value(full @ weights, y).mean() for weights in found])

    assert objective(10.0) < objective(0.05) < 0.75


def test_any_optimiser_may_be_named_or_passed():
    """With the same seed all are certified near the same minimum and have the same noise."""
    calls = []

    def own(objective, start):
        calls.append(objective.n_parameters)
        settings = {"jac": objective.gradient, "method": "BFGS", "tol": 1e-12}
        return minimize(objective.value, start, **settings).x

    usual = run(AMP(), REPLACE)[0].weights
    for optimizer in (own, "trust-ncg"):
        ours = run(AMP(optimizer=optimizer), REPLACE)[0].weights
        np.testing.assert_allclose(ours, usual, rtol=1e-6)
    assert calls == [6]
    assert AMP(optimizer="l-bfgs-b") == AMP(optimizer="L-BFGS-B")


def test_nothing_is_released_without_a_certificate(monkeypatch):
    from discreet.exact import minimise

    monkeypatch.setattr(minimise, "NEWTON_STEPS", 0)
    monkeypatch.setattr(minimise, "DESCENT_ROUNDS", 0)
    with pytest.raises(PrivacyError, match="nothing was released"):
        run(AMP(), REPLACE)


class Unknown(Softmax):
    """Several outputs, and nothing known of their gradients."""

    gradient_corners = None


def test_what_the_proof_does_not_cover_is_refused():
    for loss, words in (
        (Hinge(), "smooth"),
        (Sigmoid(), "convex"),
        (Unknown(3), "gradient_corners"),
    ):
        with pytest.raises(NotSupported, match=words):
            AMP().check(loss, REPLACE)
    with pytest.raises(NotSupported, match="delta > 0"):
        AMP().check(Logistic(), Budget(1.0, 0.0, "replace_one"))
    with pytest.raises(ValueError, match="data_norm"):
        AMPHF().plan(Problem(Logistic(), L2(), 10, 2), REPLACE)


@pytest.mark.parametrize(
    ("solver", "field", "value"),
    [
        (AMP, "calibration", "loose"),
        (AMP, "output_fraction", 0.0),
        (AMP, "objective_fraction", 1.0),
        (AMP, "gradient_bound", 0.0),
        (AMP, "optimizer", "a"),
        (AMPHF, "unsafe", None),
        (AMPHF, "calibration", "loose"),
        (AMPHF, "dimensions", "wide"),
        (AMPHF, "gradient_bound", math.nan),
    ],
)
def test_bad_settings(solver, field, value):
    with pytest.raises(ValueError, match=field):
        solver(**{field: value})


@pytest.mark.filterwarnings("ignore::discreet.errors.PrivacyLeakWarning")
def test_the_variant_without_hyper_parameters_needs_a_budget_alone():
    from discreet import LogisticRegression

    X, y = bounded_table(LOGISTIC, 2000)
    long = np.vstack([X, np.full((1, X.shape[1]), 50.0)])
    targets = np.append(y, 1.0)
    settings = {"epsilon": 1.0, "delta": 1e-6, "solver": "amp-hf", "random_state": 0}
    alone = LogisticRegression(**settings).fit(long, targets)
    given = LogisticRegression(**settings, data_norm=1.0).fit(long, targets)
    assert alone.row_norm_ == 1.0  # the paper's L: the long row is clipped
    np.testing.assert_array_equal(alone.coef_, given.coef_)
    with pytest.raises(ValueError, match="data_norm"):
        LogisticRegression(**{**settings, "solver": "amp"}).fit(long, targets)


@pytest.mark.filterwarnings("ignore::discreet.errors.PrivacyLeakWarning")
@pytest.mark.parametrize("calibration", ["tight", "published"])
def test_one_model_per_class_shares_the_budget(calibration):
    """As in the paper: K models on ε/K and δ/K each; together they keep the budget."""
    from discreet import LogisticRegression
    from discreet.accounting.recompute import recomputed_epsilon

    generator = np.random.default_rng(0)
    X = generator.normal(size=(3000, 4)) / 4
    y = X[:, :3].argmax(axis=1)
    solver = AMP(calibration=calibration, one_vs_rest=True)
    settings = {"delta": 1e-6, "relation": "replace_one", "data_norm": 1.0, "random_state": 0}
    model = LogisticRegression(3.0, solver=solver, classes=[0, 1, 2], **settings).fit(X, y)
    assert not model.multinomial_
    assert {entry.model for entry in model.trace_} == {0, 1, 2}
    assert model.score(X, y) > 0.6  # a third by chance
    assert recomputed_epsilon(model.guarantee_) <= 3.0 * 1.001
    if calibration == "published":  # the constants of one model at ε = 1 and δ/3, by hand
        one = run(
            AMP(calibration="published"),
            Budget(1.0, 1e-6 / 3, "replace_one"),
            data=(X, np.where(y == 0, 1.0, -1.0)),
        )[0]
        assert model.trace_[0].ridge == pytest.approx(one.trace[0].ridge, rel=1e-9)
        assert model.trace_[0].noise_scale == pytest.approx(one.trace[0].noise_scale, rel=1e-9)
    joint = LogisticRegression(3.0, solver=AMP(), classes=[0, 1, 2], **settings).fit(X, y)
    assert joint.multinomial_
