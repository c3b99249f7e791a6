"""Output perturbation: gradient descent on the exact rows, and noise on where it ends.

Zhang, Zheng, Mou & Wang, "Efficient Private ERM for Smooth Objectives", IJCAI 2017, Algorithm 1.
Descent with short steps moves little when one row changes, so its last point can be released with
little noise. Nothing before it is released.

Trusted: the descent sees exact rows. Proof: docs/proofs/outpert.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from discreet.accounting.budget import Measure
from discreet.core import Budget, Curator, Relation
from discreet.objectives import Loss, Problem
from discreet.solvers import settings
from discreet.solvers.base import FloatArray, Progress, Solution, Solver, TraceEntry, part_of
from discreet.solvers.stability import (
    UNIT,
    check_evaluated,
    check_sizes,
    descent_length,
    mechanism_for,
    noise_to_signal,
    published_budget,
    smoothness_of,
    weight_norm_for,
)

__all__ = ["Descent", "OutPert"]

_ROUNDED = 1e-9
"""Slack for steps that callers computed; the proof has a factor of 2 to spare there."""


@dataclass(frozen=True)
class Descent(TraceEntry):
    """A descent that was released once, at its end.

    Attributes
    ----------
    iterations, step
        How many steps were taken, and how long they were.
    sensitivity
        How far the end can move when one row changes, rounding included.
    noise_scale
        Scale of the noise: the standard deviation, or Δ/ε when pure.
    """

    iterations: int
    step: float
    sensitivity: float
    noise_scale: float


@dataclass(frozen=True)
class OutPert(Solver):
    """Descends on all exact rows and releases where it ends, with noise.

    Parameters
    ----------
    calibration : {"tight", "published"}
        ``"published"``: the paper's sensitivities and its Gaussian constant √(2 ln(2/δ))/ε.
        ``"tight"``: the sensitivity that the same argument gives without slack, and exactly as
        much Gaussian noise as needed.
    unsafe : bool
        Run published constants that do not keep their promise; the guarantee has the true ε.
    iterations : int, optional
        T. By default from the paper's theorems 2 (strongly convex) and 3, which need
        ``weight_norm``.
    step_size : float, optional
        η, at most 2/(β + α) for a β-smooth objective with penalty α. By default 1/β, or
        1/(β + α) where the penalty decides T.
    weight_norm : float, optional
        D: a guess of the norm of the best weights, for choosing T. It is public, and a wrong
        guess costs accuracy only. By default 10 for classification and 1 for regression.
    """

    calibration: Literal["tight", "published"] = "tight"
    _: KW_ONLY
    unsafe: bool = False
    iterations: int | None = None
    step_size: float | None = None
    weight_norm: float | None = None

    name: ClassVar[str] = "outpert"
    paper: ClassVar[str] = (
        "Zhang, Zheng, Mou, Wang: Efficient Private ERM for Smooth Objectives (IJCAI 2017), "
        "Algorithm 1"
    )
    relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE_ONE, Relation.ADD_REMOVE)
    demands: ClassVar[tuple[str, ...]] = (
        "the step is at most 2/(β + α), and when published at most 1/β",
        "the loss is one of logistic, huber-hinge and huber",
    )
    composes: ClassVar[tuple[Measure, ...]] = ("gdp",)
    needs_smooth_loss: ClassVar[bool] = True
    needs_convex_loss: ClassVar[bool] = True
    needs_row_bound: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        settings.choice(self, "calibration", ("tight", "published"))
        settings.flags(self, "unsafe")
        settings.wholes(self, "iterations", most=10**7, optional=True)
        settings.numbers(self, "step_size", "weight_norm", least=1e-12, most=1e12, optional=True)

    def check(self, loss: Loss, budget: Budget, n_models: int = 1) -> None:
        """Refuse losses whose slopes have no proven error bound, too."""
        super().check(loss, budget, n_models)
        check_evaluated(self.name, loss)

    def plan(self, problem: Problem, budget: Budget, n_models: int = 1) -> Budget:
        """Refuse steps that are too long, and published noise that breaks its promise."""
        super().plan(problem, budget, n_models)
        plan = _plan(self, problem, budget, n_models)
        limit = 2 / (plan.smoothness + problem.penalty.alpha)
        if self.calibration == "published":
            limit = min(limit, (1 + _ROUNDED) / plan.smoothness)
        if plan.step > limit:
            raise ValueError(
                f"step_size={plan.step:g} is too long: descent on this problem is stable for "
                f"steps up to {limit:g}, and the privacy of the result rests on it."
            )
        if self.calibration == "tight":
            return budget
        return published_budget(
            self.name, budget, n_models, plan.sensitivity, plan.published_sensitivity, self.unsafe
        )

    def solve(
        self,
        problem: Problem,
        curator: Curator,
        budget: Budget,
        progress: Callable[[Progress], None] | None = None,
    ) -> Solution:
        """Descend inside the curator and release the end."""
        self.plan(problem, budget, curator.n_models)
        plan = _plan(self, problem, budget, curator.n_models)
        published = plan.published_sensitivity if self.calibration == "published" else None
        mechanism = mechanism_for(curator, budget, plan.sensitivity, published)
        weights = curator.release(
            plan.descend,
            size=problem.n_parameters,
            sensitivity=plan.sensitivity,
            proven_for=budget.relation,
            magnitude=plan.reach,
            mechanism=mechanism,
        )
        entry = Descent(
            plan.iterations, plan.step, plan.sensitivity, mechanism.scale(plan.sensitivity)
        )
        if progress is not None:
            progress(Progress(entry, weights.copy(), curator.spent_share))
        conditions = (
            f"every row's gradient has norm at most {problem.lipschitz:g}, because rows are scaled "
            f"to norm {problem.row_norm:g} and the loss has a bounded slope",
            f"the loss is convex, its mean plus penalty {plan.smoothness:g}-smooth, and the step "
            f"{plan.step:g} at most 2/(β + α)",
            f"only the end of {plan.iterations} steps is released; it moves by at most "
            f"{plan.sensitivity:.3g}",
        )
        return Solution(weights, (entry,), conditions)


@dataclass(frozen=True)
class _Plan:
    """What a run does, all of it from public numbers."""

    problem: Problem
    smoothness: float
    iterations: int
    step: float
    sensitivity: float
    published_sensitivity: float

    @property
    def reach(self) -> float:
        """Bound on the norm of every iterate: each step adds at most η·L."""
        return self.iterations * self.step * self.problem.lipschitz * (1 + 2.0**-20)

    def descend(self, rows: Any) -> FloatArray:
        """Gradient descent on the exact rows."""
        problem = self.problem
        rows = rows.within_reach()  # margins of the others could overflow
        weights = np.zeros(problem.n_parameters)
        clip = problem.lipschitz * (1 + 2.0**-20)  # above what computed gradients come to
        for _ in range(self.iterations):
            gradient = rows.gradient_sum(weights, problem.loss, clip).values / problem.n_rows
            weights = weights - self.step * (gradient + problem.penalty.gradient(weights))
        return weights


def _plan(solver: OutPert, problem: Problem, budget: Budget, n_models: int) -> _Plan:
    """Settings and sensitivity of a run."""
    smoothness = smoothness_of(problem)
    check_sizes(problem.row_norm_bound, problem.lipschitz, smoothness)
    iterations, step = _theorems(solver, problem, part_of(budget, n_models), smoothness)
    iterations = solver.iterations or iterations
    step = solver.step_size or step
    plan = _Plan(
        problem=problem,
        smoothness=smoothness,
        iterations=iterations,
        step=step,
        sensitivity=_sensitivity(problem, budget.relation, smoothness, iterations, step),
        published_sensitivity=_published_sensitivity(problem, smoothness, iterations, step),
    )
    check_sizes(step, plan.reach)
    return plan


def _theorems(
    solver: OutPert, problem: Problem, budget: Budget, smoothness: float
) -> tuple[int, float]:
    """T and η by theorem 2 or 3, whichever promises the smaller error; Θ(·) has the constant 1."""
    alpha, norm = problem.penalty.alpha, weight_norm_for(solver.weight_norm, problem.loss)
    noise = noise_to_signal(problem, budget, norm, problem.lipschitz)
    gain = alpha**2 / noise
    error = (smoothness * norm**6 * noise) ** (1 / 3)  # of theorem 3
    if gain > math.e and smoothness * norm**2 / gain < error:
        rate = (alpha**2 + smoothness**2) / (alpha * smoothness)
        iterations, step = rate * math.log(gain), 1 / (alpha + smoothness)
    else:
        step = 1 / smoothness
        iterations = descent_length(problem, budget, norm, problem.lipschitz) / step
    return max(1, min(math.ceil(iterations), _MOST_ITERATIONS)), step


_MOST_ITERATIONS = 10_000
"""Cap on the T of the theorems, which grows without bound with ε."""


def _published_sensitivity(
    problem: Problem, smoothness: float, iterations: int, step: float
) -> float:
    """The paper's lemma 2, or lemma 3 where its condition holds and it is smaller."""
    alpha = problem.penalty.alpha
    convex = 3 * problem.lipschitz * iterations * step / problem.n_rows
    if alpha == 0 or step > (1 + _ROUNDED) / (alpha + smoothness):
        return convex
    strongly = 5 * problem.lipschitz * (alpha + smoothness) / (problem.n_rows * alpha * smoothness)
    return min(convex, strongly)


def _sensitivity(
    problem: Problem, relation: Relation, smoothness: float, iterations: int, step: float
) -> float:
    """How far the end moves: Σ_t (1 − ηα)^t · η · (rows changed) · L/n, and rounding."""
    shrink = step * problem.penalty.alpha
    if shrink > 0:
        steps = -math.expm1(iterations * math.log1p(-shrink)) / shrink if shrink < 1 else 1.0
    else:
        steps = float(iterations)
    moves = relation.rows_changed * problem.lipschitz * step * steps / problem.n_rows
    return (moves + 2 * iterations * _rounding(problem, smoothness, iterations, step)) * (
        1 + 2.0**-40
    )


def _rounding(problem: Problem, smoothness: float, iterations: int, step: float) -> float:
    """Bound on what one computed step differs from the exact one: docs/proofs/outpert.md."""
    reach = iterations * step * problem.lipschitz
    length = problem.n_parameters + 16
    margins = 2 * length * UNIT * smoothness * reach  # slopes at rounded margins
    slopes = 32 * UNIT * problem.lipschitz
    sums = 4 * (problem.n_rows / 4096 + 4096 + length) * UNIT * problem.lipschitz
    return step * (margins + slopes + sums) + 8 * UNIT * reach
