"""Permutation-based SGD: noiseless passes over the rows, and noise on their end.

Wu, Li, Kumar, Chaudhuri, Jha & Naughton, SIGMOD 2017; Algorithms 3 (convex) and 4 (strongly convex)
of Iyengar et al., IEEE S&P 2019. A step of at most 2/β on a convex β-smooth function takes no two
points further apart, so a changed row moves the end by no more than what its own batches do.

Differences from the papers:

- steps above 2/β, which the grid of Iyengar et al. has, are refused: they have no proof;
- every batch has k rows; a smaller last batch would have a larger sensitivity.

The passes and their sensitivity: `discreet.exact.PermutationPasses`. Proof:
docs/proofs/permutation_sgd.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal

import numpy as np

from discreet.core import Budget, Curator, Relation
from discreet.exact import PermutationPasses, smoothness_of
from discreet.exact.output_perturbation import MOST_UPDATES
from discreet.objectives import Problem
from discreet.papers.smooth_objectives import DescentPlan, DescentSolver
from discreet.solvers import base
from discreet.validate import FloatArray, integer, number


@dataclass(frozen=True)
class Passes(base.TraceEntry):
    """All passes of a run; only their end was released.

    ``sensitivity`` is the largest change of the end when one row is replaced, rounding included;
    ``noise_scale`` the standard deviation of the noise, or Δ/ε when pure.
    """

    updates: int
    first_step: float
    last_step: float
    sensitivity: float
    noise_scale: float


@dataclass(frozen=True, kw_only=True)
class PermutationSGD(DescentSolver):
    """Passes over the exact rows in one random order and releases the last weights, with noise.

    Parameters
    ----------
    calibration : {"tight", "published"}
        ``"published"``: the sensitivities 2TLη/k and 2(L + λC)/(λn) where the schedule has one of
        them, and the Gaussian constant √(2 ln(2/δ))/ε. ``"tight"``: the exact worst case over the
        place of the changed row, and exactly as much Gaussian noise as needed.
    unsafe, weight_norm
        As in `OutPert`; the second is for choosing η.
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
        k, at most 50 by default; rows left over after the last whole batch are not used.
    radius : float, optional
        C, the ball of the strongly convex mode. By default L/λ, which the weights never leave.
    gradient_clip : float, optional
        Clip rows' gradients to this norm. By default what the loss and ``data_norm`` imply.
    """

    mode: Literal["convex", "strongly-convex"] = "convex"
    schedule: Literal["constant", "decreasing", "sqrt"] = "constant"
    step_size: base.Length | None = None
    exponent: Annotated[float, partial(number, least=0.0, most=0.999999)] = 0.5
    passes: Annotated[int, partial(integer, most=10**6)] = 10
    batch_size: base.Count | None = None
    radius: base.Length | None = None
    gradient_clip: base.Length | None = None

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
    takes_blocks: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        strong = self.mode == "strongly-convex"
        if self.step_size is not None and (strong or self.schedule != "constant"):
            raise ValueError("step_size is for mode='convex' with schedule='constant' only.")
        if strong and self.schedule != "constant":
            raise ValueError("schedule is for mode='convex' only; the other mode has its own.")
        if self.radius is not None and not strong:
            raise ValueError("radius is for mode='strongly-convex' only.")

    def _plan(self, problem: Problem, budget: Budget, n_models: int) -> DescentPlan:
        lipschitz = min(problem.lipschitz, self.gradient_clip or math.inf)
        base.check_row_norm(self.name, problem)
        if not math.isfinite(lipschitz):
            raise ValueError(
                f"the slope of {problem.loss.name!r} is not bounded: pass gradient_clip, for "
                "example gradient_clip=1.0."
            )
        batch = self.batch_size or min(50, problem.n_rows)
        batches = problem.n_rows // batch
        if batches < 1:
            raise ValueError(
                f"batch_size must be at most the number of rows, {problem.n_rows}; got {batch}."
            )
        if batches * self.passes > MOST_UPDATES:
            raise ValueError(
                f"{self.passes} passes of {batches} batches are more than {MOST_UPDATES:,} "
                "updates. Pass fewer passes or a larger batch_size."
            )
        radius = None
        alpha = problem.penalty.alpha
        if self.mode == "strongly-convex":
            if alpha == 0:
                raise ValueError("mode='strongly-convex' needs a penalty alpha > 0; use 'convex'.")
            radius = self.radius or lipschitz / alpha
        step = self.step_size
        if step is None:  # balances progress and noise
            length = self._length(problem, base.part_of(budget, n_models), lipschitz)
            step = min(length / (self.passes * batches), 1 / smoothness_of(problem))
            step = min(max(step, 1e-12), 1e12)
        steps = self._steps(problem, batches, step)
        passes = PermutationPasses(problem, batch, steps, lipschitz, radius)
        published = self._published_sensitivity(passes)
        return self._held(budget, n_models, passes, passes.sensitivity, published)

    def _solve(
        self, problem: Problem, curator: Curator, plan: DescentPlan, record: base.Recorder
    ) -> base.Solution:
        passes = plan.descent
        steps = plan.descent.steps.ravel()
        sensitivity = plan.sensitivity
        mechanism = self._mechanism(curator, plan)
        weights = curator.release(
            partial(passes.run, order=curator.permutation()),
            size=problem.n_parameters,
            sensitivity=sensitivity,
            proven_for=Relation.REPLACE_ONE,
            magnitude=passes.weight_bound,
            mechanism=mechanism,
        )
        ends = (float(steps[0]), float(steps[-1]))
        scale = mechanism.scale(sensitivity)
        record(Passes(steps.size, *ends, sensitivity, scale), weights)
        limit = "2/β" if passes.radius is None else "1/β"
        conditions = (
            f"each row's gradient has norm at most {passes.lipschitz:g}, and the objective is "
            f"convex and {passes.smoothness:g}-smooth for every table",
            f"steps are at most {limit}; the largest is {steps.max():.4g}",
            f"rows are used in batches of exactly {passes.batch}; only the end of "
            f"{self.passes} passes is released, which moves by at most {sensitivity:.4g}",
        )
        return base.Solution(weights, record.trace, conditions)

    def _steps(self, problem: Problem, batches: int, constant: float) -> FloatArray:
        beta = smoothness_of(problem)
        t = np.arange(1, batches * self.passes + 1, dtype=np.float64)
        offset = batches**self.exponent
        if self.mode == "strongly-convex":
            steps = np.minimum(1 / beta, 1 / (problem.penalty.alpha * t))
        elif self.schedule == "decreasing":
            steps = 2 / (beta * (t + offset))
        elif self.schedule == "sqrt":
            steps = 2 / (beta * (np.sqrt(t) + offset))
        else:
            steps = np.full(t.size, constant)
        return steps.reshape(self.passes, batches)

    def _published_sensitivity(self, passes: PermutationPasses) -> float:
        """Return the papers' closed form; the exact worst case where no sound one is known."""
        alpha = passes.problem.penalty.alpha
        if passes.radius is not None:
            lipschitz = passes.lipschitz + alpha * passes.radius
            return 2 * lipschitz / (alpha * passes.problem.n_rows)
        if self.schedule == "constant":
            return 2 * self.passes * passes.lipschitz * float(passes.steps[0, 0]) / passes.batch
        return passes.stability
