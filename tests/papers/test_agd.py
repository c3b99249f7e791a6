"""DP-AGD: the paper's constants, what it spends, what it finds, and what it refuses."""

import math

import numpy as np
import pytest

from discreet.accounting.conversions import epsilon_from_rho
from discreet.core import (
    Budget,
    Curator,
    ExponentialMechanism,
    Gaussian,
    PermuteAndFlip,
)
from discreet.core.questions import Gradient
from discreet.errors import NotSupported
from discreet.objectives import Hinge, Huber, HuberHinge, Logistic, Squared
from discreet.solvers import AGD
from tests.solvers.conftest import LOGISTIC, solve, table

BUDGET = Budget(1.0, 1e-8, "add_remove")
DATA = table(n=4000)


def run(solver, budget=BUDGET, loss=LOGISTIC, data=DATA, **more):
    return solve(solver, budget, loss, data, **more)


def test_published_costs_by_hand():
    # ε = 1, δ = 1e-8, splits = 60: ε_ng = ε_nmax = 1/120.
    # Section 6.2: ρ_ng = ε_ng²/(4 ln(1.25/δ)) = 9.3125e-07; lemma 3.7: ρ_nmax ≤ ε_nmax²/2 =
    # 3.4722e-05; equation 5: √ρ = √(ln(1/δ)+ε) − √ln(1/δ) gives ρ = 0.0132154.
    solution, guarantee, _ = run(AGD(calibration="published", max_iterations=1))
    assert guarantee.rho == pytest.approx(0.0132154, rel=1e-5)
    first = solution.trace[0]
    assert first.rho_gradient == pytest.approx(9.3125e-07, rel=1e-3)
    assert first.rho_selection / (1 + first.refinements) == pytest.approx(3.4722e-05, rel=1e-4)
    kinds = {type(use.mechanism) for use in guarantee.mechanisms}
    assert kinds == {Gaussian, PermuteAndFlip}


def test_tight_costs_by_hand():
    # ρ/60 an iteration, half of it for each part; Gumbel selection at ε²/8.
    solution, guarantee, _ = run(AGD(max_iterations=1))
    part = guarantee.rho / 120
    assert solution.trace[0].rho_gradient == pytest.approx(part, rel=1e-9)
    selection = next(
        u.mechanism for u in guarantee.mechanisms if isinstance(u.mechanism, ExponentialMechanism)
    )
    assert selection.epsilon == pytest.approx(math.sqrt(8 * part), rel=1e-9)
    assert epsilon_from_rho(guarantee.rho, 1e-8) <= 1.0


def test_published_needs_about_350_iterations():
    solution, _, _ = run(AGD(calibration="published"))
    assert 250 < len(solution.trace) < 400


@pytest.mark.parametrize("calibration", ["published", "tight"])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_the_trace_adds_up_to_what_was_charged(calibration, relation):
    budget = Budget(0.5, 1e-6, relation)
    solution, guarantee, curator = run(AGD(calibration=calibration), budget)
    traced = sum(entry.rho_gradient + entry.rho_selection for entry in solution.trace)
    charged = sum(use.count * use.mechanism.loss.rho for use in guarantee.mechanisms)
    assert traced == pytest.approx(charged, rel=1e-9)
    assert charged <= guarantee.rho
    assert curator.spent_share > 0.95
    refinements = sum(entry.refinements for entry in solution.trace)
    gaussians = sum(u.count for u in guarantee.mechanisms if isinstance(u.mechanism, Gaussian))
    assert gaussians == refinements + len(solution.trace)


@pytest.mark.parametrize("calibration", ["published", "tight"])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_an_independent_accountant_agrees(calibration, relation):
    from dp_accounting import rdp

    budget = Budget(0.5, 1e-6, relation)
    _, guarantee, _ = run(AGD(calibration=calibration), budget)
    accountant = rdp.RdpAccountant(orders=np.concatenate([[1.5, 2, 4, 8], np.arange(10, 1200, 5)]))
    accountant.compose(guarantee.event)
    recomputed = accountant.get_epsilon(1e-6)
    assert recomputed <= 0.5 * 1.001
    if calibration == "tight":
        assert recomputed > 0.45  # and the budget was used


@pytest.mark.parametrize(
    ("loss", "task"),
    [
        (Logistic(), "classification"),
        (Hinge(), "classification"),
        (HuberHinge(), "classification"),
        (Huber(1.0), "regression"),
        (Squared(), "regression"),
    ],
)
def test_large_budgets_come_close_to_the_optimum(loss, task):
    from scipy.optimize import minimize

    X, y = table(loss, 4000)
    full = np.column_stack([X, np.ones(len(X))])
    solution, _, _ = run(
        AGD(splits=400, objective_clip=20.0, gradient_clip=20.0),
        Budget(1e5, 1e-6, "add_remove"),
        loss,
        (X, y),
    )

    def objective(w):
        return loss.value(full @ w, y).mean()

    best = minimize(objective, np.zeros(6), method="BFGS").fun
    assert objective(solution.weights) < best + 0.01


def test_more_budget_helps():
    X, y = table(n=20_000)
    full = np.column_stack([X, np.ones(len(X))])

    def objective(epsilon):
        budget = Budget(epsilon, 1e-8, "add_remove")
        values = [
            Logistic().value(full @ run(AGD(), budget, data=(X, y), seed=s)[0].weights, y).mean()
            for s in range(3)
        ]
        return np.mean(values)

    assert objective(10.0) < objective(0.1) < math.log(2)


def test_the_penalty_shrinks_weights():
    free, _, _ = run(AGD(), Budget(50.0, 1e-6, "add_remove"))
    held, _, _ = run(AGD(), Budget(50.0, 1e-6, "add_remove"), alpha=1.0)
    assert np.linalg.norm(held.weights) < 0.5 * np.linalg.norm(free.weights)


def test_candidate_steps_shrink_to_what_is_chosen():
    solution, _, _ = run(AGD(splits=100), Budget(50.0, 1e-6, "add_remove"))
    steps = [entry.step for entry in solution.trace]
    assert max(steps) <= 2.0
    for block in range(10, len(steps) - 10, 10):
        assert max(steps[block : block + 10]) <= 1.1 * max(steps[block - 10 : block]) + 1e-12


def test_mini_batches_cost_the_same_and_still_learn():
    data = table(n=20_000)
    whole, _, _ = run(AGD(), Budget(3.0, 1e-8, "add_remove"), data=data)
    parts, guarantee, _ = run(AGD(sampling_rate=0.2), Budget(3.0, 1e-8, "add_remove"), data=data)
    assert parts.trace[0].rho_gradient == whole.trace[0].rho_gradient
    assert "no amplification" in parts.conditions[-1]
    full = np.column_stack([data[0], np.ones(20_000)])
    loss = Logistic().value(full @ parts.weights, data[1]).mean()
    assert loss < 0.58  # ln 2 = 0.693 at the start
    assert guarantee.epsilon == 3.0


def test_a_run_that_is_stopped_by_max_iterations():
    solution, _, curator = run(AGD(max_iterations=3))
    assert len(solution.trace) == 3
    assert curator.spent_share < 0.2


def test_progress_shows_paid_for_things_only():
    seen = []
    solution, _, _ = run(AGD(), progress=seen.append)
    assert [p.entry for p in seen] == list(solution.trace)
    shares = [p.spent_share for p in seen]
    assert shares == sorted(shares)
    assert shares[-1] <= 1
    assert np.array_equal(seen[-1].weights, solution.weights)


def test_tight_clips_no_further_out_than_gradients_can_be(monkeypatch):
    # unit rows and a constant: no gradient of the logistic loss is longer than √2 = 1.41421
    used = []
    original = Curator.ask_all

    def ask_all(self, asked):
        used.extend(question.clip for question, _ in asked if isinstance(question, Gradient))
        return original(self, asked)

    monkeypatch.setattr(Curator, "ask_all", ask_all)
    for solver, row_norm, clip, words in (
        (AGD(max_iterations=1), 1.0, 2**0.5, "norm 1.41421 "),
        (AGD(max_iterations=1, gradient_clip=0.5), 1.0, 0.5, "norm 0.5 "),
        (AGD(max_iterations=1), None, 3.0, "norm 3 "),
        (AGD("published", max_iterations=1), 1.0, 3.0, "norm 3 "),
    ):
        solution, _, _ = run(solver, row_norm=row_norm)
        assert used[-1] == pytest.approx(clip)
        assert words in solution.conditions[0]


def test_pure_budgets_are_refused():
    with pytest.raises(NotSupported, match="delta > 0"):
        AGD().check(Logistic(), Budget(1.0, 0.0, "add_remove"))


def test_a_budget_too_small_for_one_iteration_names_the_smallest_that_works():
    with pytest.raises(ValueError, match="smallest that works here is splits=") as caught:
        AGD(calibration="published", splits=1).check(Logistic(), BUDGET)
    enough = int(str(caught.value).rsplit("=", 1)[1].rstrip("."))
    AGD(calibration="published", splits=enough).check(Logistic(), BUDGET)
    with pytest.raises(ValueError, match="smallest"):
        AGD(calibration="published", splits=enough - 1).check(Logistic(), BUDGET)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("calibration", "loose"),
        ("splits", 0),
        ("splits", 1.5),
        ("n_steps", 0),
        ("adjust_every", 0),
        ("max_iterations", 0),
        ("gamma", 0.0),
        ("gradient_clip", math.nan),
        ("objective_clip", -1.0),
        ("max_step", math.inf),
        ("step_growth", 0.0),
        ("sampling_rate", 0.0),
        ("sampling_rate", 1.5),
        ("sampling_rate", 1e-13),
        ("smoothing", -0.1),
        ("smoothing", 1e-300),
        ("step_shrink", 1.5),
    ],
)
def test_bad_settings(field, value):
    with pytest.raises(ValueError, match=field):
        AGD(**{field: value})


def test_one_split_buys_one_iteration():
    solution, _, curator = run(AGD(splits=1), Budget(1000.0, 1e-6, "add_remove"))
    assert solution.trace[0].step > 0
    assert np.any(solution.weights)
    assert curator.spent_share > 0.99


@pytest.mark.parametrize("calibration", ["published", "tight"])
def test_budgets_too_extreme_to_serve_are_refused_before_anything(calibration):
    with pytest.raises(ValueError, match="noise_multiplier"):
        AGD(calibration=calibration).check(Logistic(), Budget(1e-12, 1e-30, "add_remove"))


@pytest.mark.parametrize("calibration", ["published", "tight"])
def test_weights_stay_in_the_ball(calibration):
    """A projection is a function of released weights: it changes no cost."""
    seen = []
    solver = AGD(calibration=calibration, radius=0.3, max_iterations=30)
    solution, guarantee, _ = run(solver, Budget(8.0, 1e-8, "add_remove"), progress=seen.append)
    assert max(np.linalg.norm(one.weights) for one in seen) <= 0.3 * (1 + 1e-12)
    assert np.linalg.norm(solution.weights) == pytest.approx(0.3, rel=1e-6)  # 0.3 is too small
    free, other, _ = run(
        AGD(calibration=calibration, max_iterations=30), Budget(8.0, 1e-8, "add_remove")
    )
    assert np.linalg.norm(free.weights) > 0.5
    assert guarantee.rho == other.rho
    assert solution.trace[0].rho_gradient == free.trace[0].rho_gradient
