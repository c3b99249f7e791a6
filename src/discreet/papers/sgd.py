"""Private SGD: Poisson batches, clipped noisy gradients, one plan.

In each of T iterations every row is in the batch independently with probability q = batch_size/n,
gradients of its rows are clipped and summed, and Gaussian noise is added. Three papers prescribe
the noise differently (``published``); with ``calibration="tight"`` they are one method.

Differences from the paper:

- batches are Poisson samples, which the accountants assume; the papers' code draws fixed sizes;
- published noise that does not keep its promise is refused, or runs with its true ε.

Proof, and the constants of the papers: docs/proofs/sgd.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from discreet.accounting.calibration import noise_multiplier_for
from discreet.accounting.subsampling import SampledGaussian
from discreet.core import Budget, Curator, Relation
from discreet.core.questions import Gradient
from discreet.errors import NotSupported
from discreet.objectives import Problem
from discreet.solvers import base
from discreet.solvers.base import GradientStep
from discreet.validate import FloatArray

LONGEST = {"classification": 4.0, "regression": 1.0}
"""Norm of the noise in the weights after a run by default. Long weights do a classifier no harm, as
only their direction matters; predictions of a target within ±1 would be wrong."""

STEEPEST = {"classification": 4.0, "regression": 1.0}
"""Largest default step times the clip: the distance that one batch may move the weights."""


@dataclass(frozen=True)
class BatchPlan(base.Plan):
    """k, q and T, the step size at the start, the bound on a row's gradient, and one noisy sum."""

    batch: float
    rate: float
    iterations: int
    step: float
    clip: float
    mechanism: SampledGaussian


@dataclass(frozen=True, kw_only=True)
class SGD(base.PaperSolver):
    """Gradient descent on noisy batches of secretly sampled rows.

    Parameters
    ----------
    calibration : {"tight", "published"}
        ``"tight"``: the least noise that exact composition allows. ``"published"``: the paper's.
    published : {"iyengar", "abadi", "bassily"}
        The paper whose noise ``calibration="published"`` has. Its default batch is used in either
        calibration: 4√n rows, and √n for ``"bassily"``.
    unsafe : bool
        Run published constants that do not keep their promise; the guarantee has the true ε.
    batch_size, iterations : int, optional
        k: expected number of rows in a batch, and T. Default: from n, d and the budget.
    step_size : float, optional
        η: step size for mean gradients. Default: from n, d and the budget, and never so long that
        descent without noise would diverge.
    schedule : {"constant", "sqrt", "strong"}
        η, η/√t, or 1/(alpha·t) (which needs a penalty) in iteration t.
    gradient_clip : float
        Bound on one row's gradient norm, unless loss and ``data_norm`` imply a smaller one.
    averaging : bool
        Return the mean of the weights of the last half of the iterations, not the last weights.
    radius : float, optional
        Project the weights on the ball of this radius after each step.
    """

    published: Literal["iyengar", "abadi", "bassily"] = "iyengar"
    unsafe: bool = False
    batch_size: base.Count | None = None
    iterations: base.Iterations | None = None
    step_size: base.Size | None = None
    schedule: Literal["constant", "sqrt", "strong"] = "constant"
    gradient_clip: base.Size = 1.0
    averaging: bool = True
    radius: base.Size | None = None

    name: ClassVar[str] = "sgd"
    paper: ClassVar[str] = (
        "published='iyengar': Iyengar et al., Towards Practical Differentially Private Convex "
        "Optimization, 2019, Algorithm 2; 'abadi': Abadi et al., Deep Learning with Differential "
        "Privacy, 2016, Algorithm 1; 'bassily': Bassily, Smith & Thakurta, Private Empirical Risk "
        "Minimization: Efficient Algorithms and Tight Error Bounds, 2014, Algorithm 1"
    )
    takes_blocks: ClassVar[bool] = False
    relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE_ONE, Relation.ADD_REMOVE)
    demands: ClassVar[tuple[str, ...]] = (
        "batches are Poisson samples drawn from secure bits, with the rate that is accounted",
        "each row's gradient is clipped",
        "with calibration='published', published='bassily': the ε of a step before sampling is "
        "below 1",
    )
    needs_delta: ClassVar[bool] = True
    takes_units: ClassVar[bool] = True
    takes_weights: ClassVar[bool] = True

    def _plan(self, problem: Problem, budget: Budget, n_models: int) -> BatchPlan:
        if self.schedule == "strong" and problem.strong_convexity <= 0:
            raise ValueError("schedule='strong' needs a penalty: pass alpha > 0.")
        n = problem.n_rows
        clip = min(self.gradient_clip, problem.lipschitz)
        share = base.part_of(budget, n_models)
        signal = n * share.to_gdp().mu  # rows that a whole pass tells apart from noise
        batch: float = self.batch_size or (
            math.sqrt(n) if self.published == "bassily" else min(n, max(64.0, 4 * math.sqrt(n)))
        )
        iterations = self.iterations
        if iterations is None:
            # Batches then vary less than the noise does.
            wanted = signal**2 / (problem.n_parameters * batch)
            iterations = math.ceil(min(1000.0, max(300.0, wanted)))
        if self.batch_size is None:
            # Below a noise multiplier of about 2 sampling gains little: take larger batches.
            batch = max(batch, 2 * signal / math.sqrt(iterations))
        rate = min(1.0, batch / n)
        step = self.step_size or self._default_step(problem, clip, signal / iterations)
        uses = iterations * n_models
        if self.calibration == "tight":
            multiplier = noise_multiplier_for(budget, rate, uses)
        elif self.published == "abadi":
            multiplier = noise_multiplier_for(budget, rate, uses, method="rdp")
        else:
            multiplier = _published(self.published, share, n, rate, iterations)
        mechanism = SampledGaussian(multiplier, rate, budget.relation)
        spends = budget
        if self.calibration == "published":
            epsilon = mechanism.epsilon(uses, budget.delta)
            spends = base.true_budget(self.name, budget, epsilon, self.unsafe)
        return BatchPlan(budget, spends, rate * n, rate, iterations, step, clip, mechanism)

    @staticmethod
    def _default_step(problem: Problem, clip: float, signal: float) -> float:
        """Return the longest step that is stable and noise allows; ``signal`` per iteration."""
        task = problem.loss.task
        # All steps together, noise moves the weights by step·√d·clip/signal.
        noise = LONGEST[task] * signal / (math.sqrt(problem.n_parameters) * clip)
        longest = [STEEPEST[task] / clip, noise]
        bounded = task == "classification"  # slopes that never grow: long steps do no harm
        if not bounded and problem.smoothness is not None and math.isfinite(problem.smoothness):
            longest.append(2 / problem.smoothness)
        if problem.penalty.alpha > 0:
            longest.append(1 / problem.penalty.alpha)
        return min(longest)

    def _solve(
        self, problem: Problem, curator: Curator, plan: BatchPlan, record: base.Recorder
    ) -> base.Solution:
        curator.open_plan(plan.mechanism, plan.iterations)
        weights: FloatArray = np.zeros(problem.n_parameters)
        total = np.zeros(problem.n_parameters)
        counted = 0
        for t in range(1, plan.iterations + 1):
            noisy = curator.sampled_gradient(
                Gradient(problem.loss, weights, plan.clip), plan.mechanism
            )
            gradient = noisy.values / plan.batch + problem.penalty.gradient(weights)
            step = plan.step
            if self.schedule == "sqrt":
                step /= math.sqrt(t)
            elif self.schedule == "strong":
                step = min(step, 1 / (problem.strong_convexity * t))
            weights = weights - step * gradient
            if self.radius is not None and (norm := float(np.linalg.norm(weights))) > self.radius:
                weights = weights * (self.radius / norm)
            if 2 * t > plan.iterations:
                total = total + weights
                counted = counted + 1
            record(GradientStep(step, float(np.linalg.norm(gradient))), weights)
        if self.averaging:
            weights = total / counted
        added = curator.relation is Relation.ADD_REMOVE
        conditions = (
            f"each row's gradient is clipped to norm {plan.clip:g}",
            f"in each of {plan.iterations} iterations every row is sampled independently with "
            f"probability {plan.rate:.6g}, by bits that nobody can predict",
            f"noise of {plan.mechanism.noise_multiplier:.6g} times the clip on each sum, accounted "
            f"for {'one row more or fewer' if added else 'one row replaced'} as a whole",
        )
        return base.Solution(weights, record.trace, conditions)


def _published(paper: str, share: Budget, n: int, rate: float, iterations: int) -> float:
    """Return a paper's noise on the sum over a batch, in units of one row's clip."""
    if paper == "iyengar":
        deviation = 4 * math.sqrt(iterations * -math.log(share.delta)) / (n * share.epsilon)
        return rate * n * deviation
    divisor = 2 * math.sqrt(2 * iterations * math.log(2 / share.delta))
    epsilon = share.epsilon / divisor / (2 * rate)
    if not epsilon < 1:
        raise NotSupported(
            "published='bassily' with calibration='published' needs a step's ε below 1; at these "
            f"settings it is {epsilon:.4g}. Use more iterations, larger batches, or "
            "calibration='tight'."
        )
    log = math.log(1.25 * 2 * iterations / share.delta)
    return share.relation.rows_changed * math.sqrt(2 * log) / epsilon
