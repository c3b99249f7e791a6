"""Private SGD: published constants and their truth, what is spent, what is found."""

import math
import time
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.accounting.calibration import noise_multiplier_for
from discreet.accounting.subsampling import SampledGaussian
from discreet.core import Account, Budget, Curator, Relation
from discreet.core.bits import SeededBits
from discreet.core.noise import Noise
from discreet.core.questions import Gradient
from discreet.errors import NotSupported, PrivacyError
from discreet.objectives import L2, Hinge, Huber, HuberHinge, Logistic, Problem, Squared
from discreet.papers.sgd import SGD
from discreet.rows import as_rows
from discreet.rows.sums import gradient_sum
from tests.solvers.conftest import LOGISTIC, excess, solve, table

BUDGET = Budget(1.0, 1e-6, "add_remove")
DATA = table(n=4000)
PAPERS = ["iyengar", "bassily", "abadi"]


def run(solver, budget=BUDGET, loss=LOGISTIC, data=DATA, **more):
    return solve(solver, budget, loss, data, **more)


def problem_of(n, d=10, alpha=0.0):
    return Problem(Logistic(), L2(alpha), n, d)


@pytest.mark.parametrize(
    ("iterations", "multiplier", "true"),
    [(5, 0.5664, 3.68), (10, 0.8010, 0.933), (100, 2.533, 0.0306)],
)
def test_the_published_constant_of_sgd_and_its_truth(iterations, multiplier, true):
    # n = 36,176, k = 50, claimed ε = 0.1, δ = 1/n². On the sum of a batch, in units of the clip,
    # the published noise is 4·(k/n)·√(T ln(1/δ))/ε. The true ε is for add/remove.
    n = 36_176
    budget = Budget(0.1, 1 / n**2, "add_remove")
    solver = SGD(calibration="published", iterations=iterations, batch_size=50)
    insisted = replace(solver, unsafe=True)
    plan = insisted._plan(problem_of(n), budget, 1)
    assert plan.mechanism.noise_multiplier == pytest.approx(multiplier, rel=1e-3)
    assert plan.mechanism.epsilon(iterations, budget.delta) == pytest.approx(true, rel=5e-3)
    if true <= 0.1:
        assert solver.plan(problem_of(n), budget).spends == budget
        return
    with pytest.raises(PrivacyError, match="do not keep the promise"):
        solver.plan(problem_of(n), budget)
    assert insisted.plan(problem_of(n), budget).spends.epsilon == pytest.approx(true, rel=5e-3)


def test_unsafe_runs_state_the_true_epsilon():
    budget = Budget(0.1, 1e-7, "add_remove")
    solver = SGD("published", unsafe=True, iterations=5, batch_size=10)
    _, guarantee, _ = run(solver, budget)
    assert guarantee.epsilon > 0.2
    recomputed = SampledGaussian(
        guarantee.mechanisms[0].mechanism.noise_multiplier, 10 / 4000, Relation.ADD_REMOVE
    ).epsilon(5, 1e-7)
    assert guarantee.epsilon == pytest.approx(recomputed, rel=1e-6)


def test_the_published_constant_of_sgd_adv_by_hand():
    # n = 10^4, k = 100, T = 200, ε = 1, δ = 1e-6: ε_it = 1/(2√(400·ln 2e6))/(0.02) = 0.32816,
    # δ_it = 2.5e-9, noise √(2 ln(5e8))/ε_it = 19.287.
    budget = Budget(1.0, 1e-6, "add_remove")
    solver = SGD(published="bassily", calibration="published", iterations=200, batch_size=100)
    plan = solver._plan(problem_of(10_000), budget, 1)
    assert plan.mechanism.noise_multiplier == pytest.approx(19.287, rel=1e-3)
    spent = plan.mechanism.epsilon(200, 1e-6)
    assert spent < 0.2  # what advanced composition wastes
    assert solver.plan(problem_of(10_000), budget).spends == budget
    twice = solver._plan(problem_of(10_000), Budget(1.0, 1e-6, "replace_one"), 1)
    assert twice.mechanism.noise_multiplier == pytest.approx(2 * 19.287, rel=1e-3)


def test_sgd_adv_refuses_where_its_proof_does_not_hold():
    with pytest.raises(NotSupported, match="below 1"):
        SGD(published="bassily", calibration="published", iterations=10, batch_size=10).plan(
            problem_of(10_000), BUDGET
        )


def test_bassily_has_batches_of_root_n():
    solver = SGD(published="bassily", iterations=500)
    plan = solver._plan(problem_of(40_000), Budget(0.1, 1e-8, "add_remove"), 1)
    assert plan.rate == pytest.approx(200 / 40_000)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_sgd_ma_uses_moments_when_published(relation):
    budget = Budget(0.5, 1e-6, relation)
    settings = {"iterations": 200, "batch_size": 100}
    tight = SGD(published="abadi", **settings)._plan(problem_of(10_000), budget, 1).mechanism
    solver = SGD("published", published="abadi", **settings)
    published = solver._plan(problem_of(10_000), budget, 1).mechanism
    assert tight.noise_multiplier < published.noise_multiplier < 1.3 * tight.noise_multiplier
    assert published.epsilon(200, 1e-6, "rdp") <= 0.5
    assert published.epsilon(200, 1e-6, "rdp") > 0.499


def test_the_papers_differ_in_published_noise_and_default_batches_only():
    settings = {"iterations": 20, "batch_size": 200}
    tight = [run(SGD(published=paper, **settings))[0].weights for paper in PAPERS]
    assert np.array_equal(tight[0], tight[1])
    assert np.array_equal(tight[0], tight[2])
    plans = [SGD("published", published=p, **settings, unsafe=True) for p in PAPERS]
    multipliers = {p._plan(problem_of(4000), BUDGET, 1).mechanism.noise_multiplier for p in plans}
    assert len(multipliers) == 3


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_tight_spends_the_budget_and_no_more(relation):
    budget = Budget(0.5, 1e-6, relation)
    solution, guarantee, curator = run(SGD(iterations=40, batch_size=200), budget)
    (use,) = guarantee.mechanisms
    assert use.count == 40
    assert len(solution.trace) == 40
    assert curator.spent_share == 1
    assert 0.49 < use.mechanism.epsilon(40, 1e-6) <= 0.5
    assert use.mechanism.relation is Relation(relation)


def test_an_independent_accountant_recomputes_the_guarantee():
    from dp_accounting import pld

    _, guarantee, _ = run(SGD(iterations=40, batch_size=200), Budget(2.0, 1e-5, "add_remove"))
    accountant = pld.PLDAccountant(value_discretization_interval=2e-4)
    accountant.compose(guarantee.event)
    assert 1.99 < accountant.get_epsilon(1e-5) < 2.0 * 1.002


@pytest.mark.parametrize(
    ("calibration", "paper"),
    [("tight", "iyengar"), *(("published", paper) for paper in PAPERS)],
)
def test_one_model_per_class_shares_the_budget(calibration, paper):
    budget = Budget(1.0, 1e-6, "add_remove")
    solver = SGD(calibration, published=paper, iterations=100, batch_size=400)
    _, guarantee, _ = run(solver, budget, n_models=3)
    (use,) = guarantee.mechanisms
    assert use.count == 300
    assert use.mechanism.epsilon(300, 1e-6) <= 1.0
    if calibration == "tight":
        alone = noise_multiplier_for(budget, 0.1, 100)
        assert use.mechanism.noise_multiplier == pytest.approx(math.sqrt(3) * alone, rel=0.05)


@pytest.mark.parametrize(
    ("loss", "sparse", "batch", "within"),
    [
        (Logistic(), False, 4000, 1e-4),
        (Logistic(), True, 1000, 5e-3),
        (HuberHinge(), True, 4000, 1e-4),
        (HuberHinge(), False, 1000, 5e-3),
    ],
)
def test_huge_budgets_reach_the_optimum(loss, sparse, batch, within):
    """All rows in every step: within 1e-4. Batches of a quarter of them: within 5e-3."""
    X, y = DATA
    solver = SGD(iterations=400, batch_size=batch, step_size=1.0, gradient_clip=20.0)
    table = sp.csr_array(X) if sparse else X
    solution, _, _ = run(solver, Budget(1e6, 1e-6, "add_remove"), loss, (table, y), alpha=0.01)
    assert excess(solution.weights, (X, y), loss, alpha=0.01) < within


@pytest.mark.parametrize(
    ("loss", "paper"),
    [
        (Logistic(), "iyengar"),
        (Logistic(), "bassily"),
        (Hinge(), "iyengar"),
        (HuberHinge(), "bassily"),
        (Huber(1.0), "iyengar"),
        (Squared(), "bassily"),
    ],
)
def test_every_loss_learns_with_sampling(loss, paper):
    data = table(loss, 10_000)
    budget = Budget(3.0, 1e-6, "add_remove")
    weights = run(SGD(published=paper), budget, loss, data)[0].weights
    start = excess(np.zeros(6), data, loss)
    assert excess(weights, data, loss) < 0.15 * start


def test_more_budget_helps():
    data = table(n=10_000)
    full = np.column_stack([data[0], np.ones(10_000)])

    def objective(epsilon):
        budget = Budget(epsilon, 1e-8, "add_remove")
        solver = SGD(iterations=300)
        runs = (run(solver, budget, data=data, seed=s)[0].weights for s in range(2))
        return np.mean([Logistic().value(full @ w, data[1]).mean() for w in runs])

    assert objective(5.0) < objective(0.05) < math.log(2)


def test_batches_vary_around_their_expected_size():
    # The mean gradient of a batch is right on average: without noise to speak of, 200 estimates
    # of one gradient differ from the exact one by less than 6 standard errors in each coordinate
    # (probability of more: 6 · 2e-9).
    X, y = DATA
    rows = as_rows(X, y)
    budget = Budget(1e6, 1e-6, "add_remove")
    step = SampledGaussian(noise_multiplier_for(budget, 0.05, 200), 0.05, Relation.ADD_REMOVE)
    curator = Curator(rows, Account(budget), Noise(SeededBits(0)))
    curator.open_plan(step, 200)
    weights = np.full(6, 0.1)
    drawn = np.array(
        [
            curator.sampled_gradient(Gradient(Logistic(), weights, clip=3.0), step).values / 0.05
            for _ in range(200)
        ]
    )
    exact = gradient_sum(rows, weights, Logistic(), 3.0).values
    assert np.all(np.abs(drawn.mean(axis=0) - exact) < 6 * drawn.std(axis=0) / math.sqrt(200))
    assert np.all(drawn.std(axis=0) > 10 * 3.0 * step.noise_multiplier)  # samples do differ


def test_the_question_checks_before_it_charges():
    X, y = DATA
    rows = as_rows(X, y)
    budget = Budget(1.0, 1e-6, "replace_one")
    good = SampledGaussian(noise_multiplier_for(budget, 0.1, 5), 0.1, Relation.REPLACE_ONE)
    curator = Curator(rows, Account(budget), Noise(SeededBits(0)))
    curator.open_plan(good, 5)
    weights = np.zeros(6)
    for bad in (
        SampledGaussian(9.0, 0.1, Relation.ADD_REMOVE),
        SampledGaussian(9.0, 0.1, Relation.REPLACE_ONE),
        SampledGaussian(good.noise_multiplier, 0.1, Relation.REPLACE_ONE, "one_row"),
    ):
        with pytest.raises(PrivacyError):
            curator.sampled_gradient(Gradient(Logistic(), weights, clip=1.0), bad)
    with pytest.raises(TypeError, match="SampledGaussian"):
        curator.sampled_gradient(Gradient(Logistic(), weights, clip=1.0), "gaussian")
    with pytest.raises(ValueError, match="clip"):
        curator.sampled_gradient(Gradient(Logistic(), weights, clip=0.0), good)
    assert curator.spent_share == 0
    noisy = curator.sampled_gradient(Gradient(Logistic(), weights, clip=1.0), good)
    assert curator.spent_share == pytest.approx(0.2)
    assert noisy.deviation == pytest.approx(good.noise_multiplier, rel=1e-3)
    assert noisy.deviation > good.noise_multiplier


def test_schedules_averages_and_projections():
    settings = {"iterations": 20, "batch_size": 400, "step_size": 0.5}
    seen = []
    plain, _, _ = run(SGD(averaging=False, **settings), progress=seen.append)
    assert np.array_equal(seen[-1].weights, plain.weights)
    assert [p.entry for p in seen] == list(plain.trace)
    assert seen[-1].spent_share == 1
    averaged, _, _ = run(SGD(**settings))
    assert np.allclose(averaged.weights, np.mean([p.weights for p in seen[10:]], axis=0))
    root, _, _ = run(SGD(schedule="sqrt", **settings))
    assert [e.step for e in root.trace] == pytest.approx([0.5 / math.sqrt(t) for t in range(1, 21)])
    strong, _, _ = run(SGD(schedule="strong", **settings), alpha=1.0)
    assert strong.trace[9].step == pytest.approx(0.1)
    held, _, _ = run(SGD(radius=0.01, averaging=False, **settings))
    assert np.linalg.norm(held.weights) <= 0.01 * (1 + 1e-12)


def test_a_known_bound_replaces_a_larger_clip():
    problem = Problem(Logistic(), L2(0.0), 1000, 5, fit_intercept=False, row_norm=0.25)
    assert SGD()._plan(problem, BUDGET, 1).clip == 0.25
    assert SGD(gradient_clip=0.1)._plan(problem, BUDGET, 1).clip == 0.1


def test_the_default_step_is_stable():
    rich = Budget(100.0, 1e-6, "add_remove")  # noise does not limit the step

    def step(loss, alpha=0.0, row_norm=None, **settings):
        problem = Problem(loss, L2(alpha), 10**6, 5, row_norm=row_norm)
        return SGD(**settings)._plan(problem, rich, 1).step

    assert step(Logistic()) == 4.0  # 4/clip
    # slopes of classification are bounded, so smoothness does not limit its steps
    assert step(HuberHinge(), row_norm=1.0) == 4.0
    assert step(Logistic(), alpha=1.0) == 1.0
    assert step(Logistic(), alpha=10.0) == pytest.approx(0.1)
    assert step(Logistic(), alpha=1.5, row_norm=1.0) == pytest.approx(1 / 1.5)
    assert step(Hinge(), alpha=2.0, row_norm=1.0) == 0.5  # no smoothness: the penalty's only
    assert step(Squared()) == 1.0
    # β = 9 + 1 on rows of norm 3 with an intercept
    assert step(Squared(), row_norm=3.0) == pytest.approx(2 / 10)
    assert step(Logistic(), alpha=10.0, row_norm=3.0, step_size=7.0) == 7.0  # as it is given


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("paper", ["iyengar", "bassily"])
def test_a_strong_penalty_learns(paper):
    """The optimum at alpha = 1 is short; noise of ε = 2 leaves most of the way to it."""
    data, budget = table(n=10_000), Budget(2.0, 1e-6, "add_remove")
    solver = SGD(published=paper)
    weights = run(solver, budget, data=data, alpha=1.0, row_norm=2.0)[0].weights
    start = excess(np.zeros(6), data, alpha=1.0)
    assert excess(weights, data, alpha=1.0) < 0.2 * start


@pytest.mark.parametrize(
    ("loss", "row_norm"),
    [(Huber(0.1), None), (Huber(0.1), 4.0), (Huber(1.0), 1.0), (Squared(), None), (Squared(), 1.0)],
)
def test_regression_is_better_than_the_mean(loss, row_norm):
    """Targets within ±1 that a small part of the rows' spread decides on, as in real tables."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, size=(5000, 12))
    y = (X - 0.5) @ np.linspace(-0.3, 0.3, 12) + 0.1 + 0.1 * rng.normal(size=5000)
    rows = as_rows(X, y, row_norm=row_norm)
    problem = Problem(loss, L2(1e-4), rows.n_rows, rows.n_features, row_norm=row_norm)
    budget = Budget(2.0, 1e-6, "add_remove")
    curator = Curator(rows, Account(budget), Noise(SeededBits(0)))
    weights = SGD().solve(problem, curator, SGD().plan(problem, budget)).weights
    margins = rows.margins(weights)
    assert np.mean((margins - y) ** 2) < 0.8 * np.var(y)


def test_large_batches_take_all_rows():
    assert SGD(batch_size=10**6, iterations=5)._plan(problem_of(1000), BUDGET, 1).rate == 1
    solution, guarantee, _ = run(SGD(batch_size=10**6, iterations=5))
    assert len(solution.trace) == 5
    assert guarantee.epsilon == 1.0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("calibration", "loose"),
        ("published", "published"),
        ("schedule", "cosine"),
        ("batch_size", 0),
        ("batch_size", 1.5),
        ("iterations", 0),
        ("step_size", 0.0),
        ("unsafe", 1),
        ("averaging", "no"),
        ("gradient_clip", math.nan),
        ("radius", -1.0),
    ],
)
def test_bad_settings(field, value):
    with pytest.raises(ValueError, match=field):
        SGD(**{field: value})


def test_what_is_refused():
    with pytest.raises(NotSupported, match="delta > 0"):
        SGD().plan(problem_of(1000), Budget(1.0, 0.0, "add_remove"))
    with pytest.raises(ValueError, match="alpha > 0"):
        SGD(schedule="strong").plan(problem_of(1000), BUDGET)


@pytest.mark.slow
def test_an_iteration_is_quick():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(39_000, 105))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    solver = SGD(iterations=500, batch_size=200)
    run(solver, data=(X, y))
    start = time.process_time()
    run(solver, data=(X, y))
    assert (time.process_time() - start) / 500 < 3e-3
