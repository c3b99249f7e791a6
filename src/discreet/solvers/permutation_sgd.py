"""Permutation-based SGD: noiseless passes over the rows, and noise on where they end.

Wu, Li, Kumar, Chaudhuri, Jha & Naughton, "Bolt-on Differential Privacy for Scalable Stochastic
Gradient Descent-based Analytics", SIGMOD 2017; Algorithms 3 (convex) and 4 (strongly convex) of
Iyengar et al., "Towards Practical Differentially Private Convex Optimization", IEEE S&P 2019.

A step of at most 2/β on a convex β-smooth function takes no two points further apart, so a changed
row moves the end by no more than what its own batches do.

Trusted: the passes see exact rows. Proof: docs/proofs/permutation_sgd.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
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
    published_budget,
    smoothness_of,
    weight_norm_for,
)

__all__ = ["Passes", "PermutationSGD"]

_MOST_UPDATES = 10**8
"""Steps of a run; their sizes are held in memory."""


@dataclass(frozen=True)
class Passes(TraceEntry):
    """All passes of a run; only their end was released.

    Attributes
    ----------
    updates
        How many steps were taken.
    first_step, last_step
        Their sizes.
    sensitivity
        How far the end can move when one row is replaced, rounding included.
    noise_scale
        Scale of the noise: the standard deviation, or Δ/ε when pure.
    """

    updates: int
    first_step: float
    last_step: float
    sensitivity: float
    noise_scale: float


@dataclass(frozen=True)
class PermutationSGD(Solver):
    """Passes over the exact rows in one random order and releases the last weights, with noise.

    Parameters
    ----------
    calibration : {"tight", "published"}
        ``"published"``: the sensitivities 2TLη/k and 2(L + λC)/(λn) where the schedule has one of
        them, and the Gaussian constant √(2 ln(2/δ))/ε. ``"tight"``: the exact worst case over the
        place of the changed row, and exactly as much Gaussian noise as needed.
    unsafe : bool
        Run published constants that do not keep their promise; the guarantee has the true ε.
    mode : {"convex", "strongly-convex"}
        The second needs a penalty λ, projects to a ball after each step, and has steps
        min(1/β, 1/(λt)).
    schedule : {"constant", "decreasing", "sqrt"}
        Steps of the convex mode: ``step_size``, 2/(β(t + m^c)) or 2/(β(√t + m^c)), where t counts
        updates and m is the number of updates in a pass.
    step_size : float, optional
        η of the constant schedule, at most 2/β. By default such that all steps together have the
        length that balances progress and noise, but at most 1/β.
    exponent : float
        c, in [0, 1), of the other schedules.
    passes : int
        T.
    batch_size : int, optional
        k; rows left over after the last whole batch are not used. By default 50, or all rows if
        there are fewer.
    radius : float, optional
        C, the ball of the strongly convex mode. By default L/λ, which the weights never leave.
    gradient_clip : float, optional
        Clip rows' gradients to this norm. By default what the loss and ``data_norm`` imply.
    weight_norm : float, optional
        A guess of the norm of the best weights, for choosing η. It is public, and a wrong guess
        costs accuracy only. By default 10 for classification and 1 for regression.
    """

    calibration: Literal["tight", "published"] = "tight"
    _: KW_ONLY
    unsafe: bool = False
    mode: Literal["convex", "strongly-convex"] = "convex"
    schedule: Literal["constant", "decreasing", "sqrt"] = "constant"
    step_size: float | None = None
    exponent: float = 0.5
    passes: int = 10
    batch_size: int | None = None
    radius: float | None = None
    gradient_clip: float | None = None
    weight_norm: float | None = None

    name: ClassVar[str] = "permutation-sgd"
    paper: ClassVar[str] = (
        "Wu, Li, Kumar, Chaudhuri, Jha, Naughton: Bolt-on Differential Privacy for Scalable "
        "Stochastic Gradient Descent-based Analytics (SIGMOD 2017); Algorithms 3 and 4 of Iyengar "
        "et al. (IEEE S&P 2019)"
    )
    relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE_ONE,)
    demands: ClassVar[tuple[str, ...]] = (
        "steps are at most 2/β (1/β when strongly convex)",
        "every batch has the same number of rows",
        "data_norm is given, and gradient_clip where the slope of the loss is not bounded",
        "the loss is one of logistic, huber-hinge, huber and squared",
    )
    composes: ClassVar[tuple[Measure, ...]] = ("gdp",)
    needs_smooth_loss: ClassVar[bool] = True
    needs_convex_loss: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        settings.choice(self, "calibration", ("tight", "published"))
        settings.flags(self, "unsafe")
        settings.choice(self, "mode", ("convex", "strongly-convex"))
        settings.choice(self, "schedule", ("constant", "decreasing", "sqrt"))
        settings.wholes(self, "passes", most=10**6)
        settings.wholes(self, "batch_size", optional=True)
        settings.numbers(
            self,
            *("step_size", "radius", "gradient_clip", "weight_norm"),
            least=1e-12,
            most=1e12,
            optional=True,
        )
        settings.numbers(self, "exponent", least=0.0, most=0.999999)
        strong = self.mode == "strongly-convex"
        if self.step_size is not None and (strong or self.schedule != "constant"):
            raise ValueError("step_size is for mode='convex' with schedule='constant' only.")
        if strong and self.schedule != "constant":
            raise ValueError("schedule is for mode='convex' only; the other mode has its own.")
        if self.radius is not None and not strong:
            raise ValueError("radius is for mode='strongly-convex' only.")

    def check(self, loss: Loss, budget: Budget, n_models: int = 1) -> None:
        """Refuse losses whose slopes have no proven error bound, too."""
        super().check(loss, budget, n_models)
        check_evaluated(self.name, loss)

    def plan(self, problem: Problem, budget: Budget, n_models: int = 1) -> Budget:
        """Refuse steps that are too long, and published noise that breaks its promise."""
        super().plan(problem, budget, n_models)
        plan = self._plan(problem, budget, n_models)
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
        """Run the passes inside the curator and release their end."""
        self.plan(problem, budget, curator.n_models)
        plan = self._plan(problem, budget, curator.n_models)
        published = plan.published_sensitivity if self.calibration == "published" else None
        mechanism = mechanism_for(curator, budget, plan.sensitivity, published)
        order = plan.cut(curator.permutation())
        weights = curator.release(
            lambda rows: plan.descend(rows, order),
            size=problem.n_parameters,
            sensitivity=plan.sensitivity,
            proven_for=Relation.REPLACE_ONE,
            magnitude=plan.reach,
            mechanism=mechanism,
        )
        entry = Passes(
            plan.steps.size,
            float(plan.steps[0]),
            float(plan.steps[-1]),
            plan.sensitivity,
            mechanism.scale(plan.sensitivity),
        )
        if progress is not None:
            progress(Progress(entry, weights.copy(), curator.spent_share))
        return Solution(weights, (entry,), self._conditions(plan))

    def _plan(self, problem: Problem, budget: Budget, n_models: int) -> _Plan:
        """The run, with the default step for this budget."""
        plan = _Plan(self, problem)
        plan.check()
        if plan.strong or self.schedule != "constant" or self.step_size is not None:
            return plan
        norm = weight_norm_for(self.weight_norm, problem.loss)
        length = descent_length(problem, part_of(budget, n_models), norm, plan.lipschitz)
        step = min(length / (self.passes * plan.batches), 1 / plan.smoothness)
        plan = _Plan(replace(self, step_size=min(max(step, 1e-12), 1e12)), problem)
        plan.check()
        return plan

    def _conditions(self, plan: _Plan) -> tuple[str, ...]:
        strong = self.mode == "strongly-convex"
        return (
            f"each row's gradient has norm at most {plan.lipschitz:g}, and the objective is convex "
            f"and {plan.smoothness:g}-smooth for every table",
            f"steps are at most {'1/β' if strong else '2/β'}; the largest is "
            f"{plan.steps.max():.4g}",
            f"rows are used in batches of exactly {plan.batch}; only the end of "
            f"{self.passes} passes is released, which moves by at most {plan.sensitivity:.4g}",
        )


class _Plan:
    """What a run does, all of it from public numbers."""

    def __init__(self, solver: PermutationSGD, problem: Problem) -> None:
        self.solver = solver
        self.problem = problem
        self.strong = solver.mode == "strongly-convex"
        self.alpha = problem.penalty.alpha
        self.batch = solver.batch_size or min(50, problem.n_rows)
        self.batches = problem.n_rows // self.batch
        self.smoothness = smoothness_of(problem)
        self.lipschitz = min(problem.lipschitz, solver.gradient_clip or math.inf)

    def check(self) -> None:
        """Refuse what the proof does not cover."""
        solver, problem = self.solver, self.problem
        if problem.row_norm is None:
            raise ValueError(
                f"solver={solver.name!r} needs a public bound on the norm of a row. Pass "
                "data_norm, for example data_norm=1.0: longer rows are scaled down to it."
            )
        if not math.isfinite(self.lipschitz):
            raise ValueError(
                f"the slope of {problem.loss.name!r} is not bounded: pass gradient_clip, for "
                "example gradient_clip=1.0."
            )
        if self.batches < 1:
            raise ValueError(
                f"batch_size must be at most the number of rows, {problem.n_rows}; got "
                f"{self.batch}."
            )
        if self.batches * solver.passes > _MOST_UPDATES:
            raise ValueError(
                f"{solver.passes} passes of {self.batches} batches are more than "
                f"{_MOST_UPDATES:,} updates. Pass fewer passes or a larger batch_size."
            )
        if self.strong and self.alpha == 0:
            raise ValueError("mode='strongly-convex' needs a penalty alpha > 0; use 'convex'.")
        check_sizes(problem.row_norm_bound, self.lipschitz, self.smoothness)
        limit = 2 / self.smoothness
        if self.steps.max() > limit:
            raise ValueError(
                f"step_size={solver.step_size!r} is too long: the passes are stable for steps up "
                f"to 2/β = {limit:g}, and the privacy of the result rests on it."
            )
        check_sizes(float(self.steps.min()), self.reach)

    @cached_property
    def steps(self) -> FloatArray:
        """The step size of each update, over all passes."""
        solver, beta = self.solver, self.smoothness
        t = np.arange(1, self.batches * solver.passes + 1, dtype=np.float64)
        if self.strong:
            return np.minimum(1 / beta, 1 / (self.alpha * t))
        offset = self.batches**solver.exponent
        if solver.schedule == "decreasing":
            return 2 / (beta * (t + offset))
        if solver.schedule == "sqrt":
            return 2 / (beta * (np.sqrt(t) + offset))
        return np.full(t.size, solver.step_size or 1 / beta)

    @property
    def reach(self) -> float:
        """Bound on the norm of every iterate: a step adds at most η·L and never takes away."""
        reach = float(self.steps.sum()) * self.lipschitz
        if self.strong:
            reach = min(reach, self.radius)
        return reach * (1 + 2.0**-20)

    @property
    def radius(self) -> float:
        """C of the strongly convex mode."""
        return self.solver.radius or self.lipschitz / self.alpha

    @cached_property
    def stability(self) -> float:
        """How far exact passes can end apart: the worst place of the changed row.

        Its batch at update t adds 2Lη_t/k, and each later step shrinks that by 1 − αη_s where it is
        at most 2/(β + α), and never widens it.
        """
        moved = 2 * self.lipschitz * self.steps / self.batch
        if self.alpha > 0:
            short = self.steps <= 2 / (self.smoothness + self.alpha)
            # 2^-48 is more than these factors can round
            kept = np.where(short, np.minimum(1 - self.alpha * self.steps + 2.0**-48, 1.0), 1.0)
            moved[:-1] *= np.cumprod(kept[:0:-1])[::-1]
        worst = moved.reshape(self.solver.passes, self.batches).sum(axis=0).max()
        return float(worst) * (1 + 2.0**-20)  # far more than these sums can round

    @property
    def rounding(self) -> float:
        """Bound on how far computed passes end from exact ones (docs/proofs/permutation_sgd.md)."""
        problem, steps = self.problem, self.steps
        size, batch = problem.n_parameters, self.batch
        norm, reach = problem.row_norm_bound, self.reach
        margin = 4 * (size + 16) * UNIT * (1 + norm * reach)
        slope = (problem.loss.curvature_bound or 0.0) * norm * margin
        gradient = slope + (2 * batch + 256) * UNIT * self.lipschitz
        moving = 8 * (size + 16) * UNIT * (reach + steps * (self.lipschitz + self.alpha * reach))
        return float((steps * gradient + moving).sum()) + 2.0**-900

    @property
    def sensitivity(self) -> float:
        """How far the computed end can move when one row is replaced."""
        return self.stability + 2 * self.rounding

    @property
    def published_sensitivity(self) -> float:
        """The papers' closed forms; the exact worst case where no sound one is known to us."""
        solver = self.solver
        if self.strong:
            lipschitz = self.lipschitz + self.alpha * self.radius
            return 2 * lipschitz / (self.alpha * self.problem.n_rows)
        if solver.schedule == "constant":
            return 2 * solver.passes * self.lipschitz * float(self.steps[0]) / self.batch
        return self.stability

    def cut(self, order: Any) -> Any:
        """The rows of each batch of one pass."""
        return order[: self.batches * self.batch].reshape(self.batches, self.batch)

    def descend(self, rows: Any, order: Any) -> FloatArray:
        """All passes on the exact rows."""
        weights: FloatArray = np.zeros(self.problem.n_parameters)
        for steps in self.steps.reshape(self.solver.passes, self.batches):
            weights = rows.descend(
                weights,
                self.problem.loss,
                order=order,
                steps=steps,
                clip=self.lipschitz,
                alpha=self.alpha,
                radius=self.radius if self.strong else None,
            ).weights
        return weights
