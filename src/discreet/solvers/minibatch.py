"""What the private SGD methods share: Poisson batches, clipped noisy gradients, one plan.

The methods differ in the noise that their papers prescribe; the run is the same. In each of T
iterations every row is in the batch independently with probability q = batch_size/n, gradients of
its rows are clipped and summed, and Gaussian noise is added. Proof: docs/proofs/sgd.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal

import numpy as np

from discreet.accounting.subsampling import SampledGaussian, noise_multiplier_for
from discreet.core import Budget, Curator, Relation
from discreet.objectives import Problem
from discreet.solvers.base import (
    FloatArray,
    Progress,
    Solution,
    Solver,
    TraceEntry,
    part_of,
    true_budget,
)
from discreet.solvers.settings import choice, flags, numbers, wholes

__all__ = ["BatchStep", "MinibatchSolver", "Plan"]

LONGEST = {"classification": 4.0, "regression": 1.0}
"""How far noise moves the weights over a run by default. Long weights do a classifier no harm, as
only their direction counts; predictions of a target within ±1 would be far off."""

STEEPEST = {"classification": 4.0, "regression": 1.0}
"""The default step times the clip is at most this: how far one batch may move the weights."""


@dataclass(frozen=True)
class BatchStep(TraceEntry):
    """One iteration; all of it was paid for.

    Attributes
    ----------
    step
        The step size.
    gradient_norm
        Norm of the noisy mean gradient, penalty included.
    """

    step: float
    gradient_norm: float


@dataclass(frozen=True)
class Plan:
    """What a run does, from public numbers only.

    Attributes
    ----------
    batch, rate, iterations
        k, q and T.
    step
        The step size at the start.
    clip
        Bound on a row's gradient.
    mechanism
        One noisy sum over one batch.
    """

    batch: float
    rate: float
    iterations: int
    step: float
    clip: float
    mechanism: SampledGaussian


@dataclass(frozen=True)
class MinibatchSolver(Solver):
    """Base of the SGD methods; its fields are theirs.

    Parameters
    ----------
    calibration : {"tight", "published"}
        ``"tight"``: the least noise that exact composition allows. ``"published"``: the paper's.
    unsafe : bool
        With ``"published"``: run even where the paper's noise does not keep the budget; the
        guarantee then states the true ε.
    batch_size : int, optional
        k: expected number of rows in a batch. Default: from n, d and the budget.
    iterations : int, optional
        T. Default: from n, d and the budget.
    step_size : float, optional
        η: step size for mean gradients. Default: from n, d and the budget, and never so long that
        descent without noise would diverge.
    schedule : {"constant", "sqrt", "strong"}
        η, η/√t, or 1/(alpha·t) (which needs a penalty) in iteration t.
    gradient_clip : float
        Bound on one row's gradient norm; a smaller bound known from loss and ``data_norm``
        replaces it.
    averaging : bool
        Return the mean of the weights of the last half of the iterations, not the last weights.
    radius : float, optional
        Project the weights on the ball of this radius after each step.
    """

    calibration: Literal["tight", "published"] = "tight"
    _: KW_ONLY
    unsafe: bool = False
    batch_size: int | None = None
    iterations: int | None = None
    step_size: float | None = None
    schedule: Literal["constant", "sqrt", "strong"] = "constant"
    gradient_clip: float = 1.0
    averaging: bool = True
    radius: float | None = None

    demands: ClassVar[tuple[str, ...]] = (
        "batches are Poisson samples drawn from secure bits, with the rate that is accounted",
        "each row's gradient is clipped",
    )
    needs_delta: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        choice(self, "calibration", ("tight", "published"))
        choice(self, "schedule", ("constant", "sqrt", "strong"))
        flags(self, "unsafe", "averaging")
        wholes(self, "batch_size", optional=True)
        wholes(self, "iterations", most=10**7, optional=True)
        numbers(self, "gradient_clip", least=1e-6, most=1e6)
        numbers(self, "step_size", "radius", least=1e-6, most=1e6, optional=True)

    def plan(self, problem: Problem, budget: Budget, n_models: int = 1) -> Budget:
        """Plan the run; with ``"published"``, hold the paper's noise to its claim."""
        super().plan(problem, budget, n_models)
        if self.schedule == "strong" and problem.strong_convexity <= 0:
            raise ValueError("schedule='strong' needs a penalty: pass alpha > 0.")
        plan = self._schedule(problem, budget, n_models)
        if self.calibration == "tight":
            return budget
        epsilon = plan.mechanism.epsilon(plan.iterations * n_models, budget.delta)
        return true_budget(self.name, budget, epsilon, self.unsafe)

    def _schedule(self, problem: Problem, budget: Budget, n_models: int = 1) -> Plan:
        """Batch size, iterations, step and noise for ``problem``: public numbers in and out."""
        n, clip = problem.n_rows, min(self.gradient_clip, problem.lipschitz)
        share = part_of(budget, n_models)
        reach = n * share.to_gdp().mu  # rows that a whole pass tells apart from noise
        batch = self._default_batch(n) if self.batch_size is None else float(self.batch_size)
        iterations = self.iterations
        if iterations is None:
            # Batches then vary less than the noise does.
            wanted = reach**2 / (problem.n_parameters * batch)
            iterations = math.ceil(min(1000.0, max(300.0, wanted)))
        if self.batch_size is None:
            # Below a noise multiplier of about 2 sampling gains little: take larger batches.
            batch = max(batch, 2 * reach / math.sqrt(iterations))
        rate = min(1.0, batch / n)
        step = self.step_size
        if step is None:
            step = self._default_step(problem, clip, reach / iterations)
        if self.calibration == "published":
            multiplier = self._published(n, rate, iterations, budget, n_models)
        else:
            multiplier = noise_multiplier_for(budget, rate, iterations * n_models)
        mechanism = SampledGaussian(multiplier, rate, budget.relation)
        return Plan(rate * n, rate, iterations, step, clip, mechanism)

    def _default_batch(self, n: int) -> float:
        return min(float(n), max(64.0, 4 * math.sqrt(n)))

    @staticmethod
    def _default_step(problem: Problem, clip: float, reach: float) -> float:
        """The longest step that noise allows (``reach`` is that of one iteration) and is stable."""
        task = problem.loss.task
        # All steps together, noise moves the weights by step·√d·clip/reach.
        noise = LONGEST[task] * reach / (math.sqrt(problem.n_parameters) * clip)
        longest = [STEEPEST[task] / clip, noise]
        bounded = task == "classification"  # slopes that never grow: long steps do no harm
        if not bounded and problem.smoothness is not None and math.isfinite(problem.smoothness):
            longest.append(2 / problem.smoothness)
        if problem.penalty.alpha > 0:
            longest.append(1 / problem.penalty.alpha)
        return min(longest)

    def _published(
        self, n: int, rate: float, iterations: int, budget: Budget, n_models: int
    ) -> float:
        """The paper's noise on the sum over a batch, in units of one row's clip.

        ``budget`` is that of all ``n_models`` models together.
        """
        raise NotImplementedError

    def solve(
        self,
        problem: Problem,
        curator: Curator,
        budget: Budget,
        progress: Callable[[Progress], None] | None = None,
    ) -> Solution:
        """Run T iterations."""
        self.plan(problem, budget, curator.n_models)
        plan = self._schedule(problem, budget, curator.n_models)
        curator.open_plan(plan.mechanism, plan.iterations)
        weights: FloatArray = np.zeros(problem.n_parameters)
        total, counted = np.zeros(problem.n_parameters), 0
        trace: list[BatchStep] = []
        for t in range(1, plan.iterations + 1):
            noisy = curator.sampled_gradient(
                problem.loss, weights, clip=plan.clip, mechanism=plan.mechanism
            )
            gradient = noisy.values / plan.batch + problem.penalty.gradient(weights)
            step = self._step(plan, problem, t)
            weights = self._project(weights - step * gradient)
            trace.append(BatchStep(step=step, gradient_norm=float(np.linalg.norm(gradient))))
            if 2 * t > plan.iterations:
                total, counted = total + weights, counted + 1
            if progress is not None:
                progress(Progress(trace[-1], weights.copy(), curator.spent_share))
        if self.averaging:
            weights = total / counted
        return Solution(weights, tuple(trace), self._conditions(plan))

    def _step(self, plan: Plan, problem: Problem, t: int) -> float:
        if self.schedule == "sqrt":
            return plan.step / math.sqrt(t)
        if self.schedule == "strong":
            return min(plan.step, 1 / (problem.strong_convexity * t))
        return plan.step

    def _project(self, weights: FloatArray) -> FloatArray:
        if self.radius is None:
            return weights
        norm = float(np.linalg.norm(weights))
        return weights if norm <= self.radius else weights * (self.radius / norm)

    def _conditions(self, plan: Plan) -> tuple[str, ...]:
        changed = (
            "one row more or fewer"
            if plan.mechanism.relation is Relation.ADD_REMOVE
            else "one row replaced"
        )
        return (
            f"each row's gradient is clipped to norm {plan.clip:g}",
            f"in each of {plan.iterations} iterations every row is sampled independently with "
            f"probability {plan.rate:.6g}, by bits that nobody can predict",
            f"noise of {plan.mechanism.noise_multiplier:.6g} times the clip on each sum, "
            f"accounted for {changed} as a whole",
        )
