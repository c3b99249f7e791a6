"""Descents on exact rows of which only the end is released: sensitivity, rounding, the run itself.

The end moves little when one row changes, if steps are short. `GradientDescent` is that of output
perturbation (docs/proofs/outpert.md), `PermutationPasses` that of permutation SGD
(docs/proofs/permutation_sgd.md). Every property is a function of public numbers; the constructors
refuse what the proofs do not cover.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.budget import Relation
from discreet.core.questions import Gradient
from discreet.errors import NotSupported, PrivacyError
from discreet.objectives import Huber, HuberHinge, Logistic, Loss, Problem, Squared
from discreet.rows import UNIT_ROUNDOFF, Rows, descent_error
from discreet.rows.bounds import CONTRACTION_ROUNDING, UNDERFLOW
from discreet.validate import FloatArray

SLACK = 1 + 2.0**-20
"""Factor above bounds on norms that is far more than what computing them rounds."""

MOST_UPDATES = 10**8
"""Updates of a run; their step sizes are held in memory."""

_EVALUATED = (Logistic, HuberHinge, Huber, Squared)
"""Losses whose computed slope has the error bound that the proofs use."""

_MOST = 1e20
"""Steps, clips and bounds on rows beyond this, or below its inverse, are refused: no overflow."""


@dataclass(frozen=True)
class GradientDescent:
    """T steps w ← w − η∇F(w) from 0 on all exact rows, for η at most 2/(β + α)."""

    problem: Problem
    iterations: int
    step: float

    def __post_init__(self) -> None:
        """Refuse what the proof does not cover."""
        problem = self.problem
        check_evaluated("outpert", problem.loss)
        _check_sizes(problem.row_norm_bound, problem.lipschitz, self.smoothness)
        _check_sizes(self.step, self.weight_bound)
        check_step(self.step, 2 / (self.smoothness + problem.penalty.alpha))

    @property
    def smoothness(self) -> float:
        """β."""
        return smoothness_of(self.problem)

    @property
    def weight_bound(self) -> float:
        """Bound on the norm of every iterate: each step adds at most η·L."""
        return self.iterations * self.step * self.problem.lipschitz * SLACK

    def sensitivity(self, relation: Relation) -> float:
        """Bound the change of the end: Σ_t (1 − ηα)^t · η · (rows changed) · L/n, and rounding."""
        problem = self.problem
        iterations = self.iterations
        shrink = self.step * problem.penalty.alpha
        steps = 1.0 if shrink >= 1 else float(iterations)
        if 0 < shrink < 1:
            steps = -math.expm1(iterations * math.log1p(-shrink)) / shrink
        moves = relation.rows_changed * problem.lipschitz * self.step * steps / problem.n_rows
        return (moves + 2 * iterations * self.rounding) * (1 + 2.0**-40)

    @property
    def rounding(self) -> float:
        """Bound on the distance of one computed step from the exact one."""
        problem = self.problem
        reached = self.iterations * self.step * problem.lipschitz
        length = problem.n_parameters + 16
        margins = 2 * length * UNIT_ROUNDOFF * self.smoothness * reached  # slopes at these
        slopes = 32 * UNIT_ROUNDOFF * problem.lipschitz
        sums = descent_error(problem.n_parameters, problem.lipschitz)
        return self.step * (margins + slopes + sums) + 8 * UNIT_ROUNDOFF * reached

    def run(self, rows: Rows) -> FloatArray:
        """Descend on the exact rows.

        Privacy
        -------
        The end has L2 sensitivity `sensitivity` and norm at most `weight_bound`. Rows whose margins
        could overflow are left out, which depends on each row alone.
        """
        problem = self.problem
        rows = rows.within_reach()
        weights: FloatArray = np.zeros(problem.n_parameters)
        clip = problem.lipschitz * SLACK  # above what computed gradients come to
        for _ in range(self.iterations):
            question = Gradient(problem.loss, weights, clip)
            gradient = rows.answer([question])[0].values / problem.n_rows
            weights = weights - self.step * (gradient + problem.penalty.gradient(weights))
        return weights


@dataclass(frozen=True, eq=False)
class PermutationPasses:
    """Passes over batches of exact rows, in one order that does not depend on the rows.

    ``batch`` rows (k) per batch; rows left over after the last whole batch are not used. ``steps``
    has one row per pass: the step size of each update, at most 2/β. Rows' gradients are clipped to
    ``lipschitz`` (L), and weights are projected on the ball of a ``radius`` after each step.
    """

    problem: Problem
    batch: int
    steps: FloatArray
    lipschitz: float
    radius: float | None = None

    def __post_init__(self) -> None:
        """Refuse what the proof does not cover."""
        problem = self.problem
        check_evaluated("permutation-sgd", problem.loss)
        if self.steps.ndim != 2 or self.steps.shape[1] != problem.n_rows // self.batch:
            raise PrivacyError("Passes need one step size for each whole batch of each pass.")
        _check_sizes(problem.row_norm_bound, self.lipschitz, self.smoothness)
        check_step(float(self.steps.max()), 2 / self.smoothness)
        _check_sizes(float(self.steps.min()), self.weight_bound)

    @property
    def smoothness(self) -> float:
        """β."""
        return smoothness_of(self.problem)

    @property
    def weight_bound(self) -> float:
        """Bound on the norm of every iterate: a step adds at most η·L and never takes away."""
        bound = float(self.steps.ravel().sum()) * self.lipschitz
        if self.radius is not None:
            bound = min(bound, self.radius)
        return bound * SLACK

    @cached_property
    def stability(self) -> float:
        """Bound on the distance of two exact ends, for the worst place of the replaced row.

        Its batch at update t adds 2Lη_t/k, and each later step shrinks that by 1 − αη_s where it is
        at most 2/(β + α), and never widens it.
        """
        steps = self.steps.ravel()
        alpha = self.problem.penalty.alpha
        moved = 2 * self.lipschitz * steps / self.batch
        if alpha > 0:
            short = steps <= 2 / (self.smoothness + alpha)
            # 2^-48 is more than these factors can round
            kept = np.where(short, np.minimum(1 - alpha * steps + CONTRACTION_ROUNDING, 1.0), 1.0)
            moved[:-1] *= np.cumprod(kept[:0:-1])[::-1]
        return float(moved.reshape(self.steps.shape).sum(axis=0).max()) * SLACK

    @property
    def rounding(self) -> float:
        """Bound on the distance of the computed end from the exact one."""
        problem = self.problem
        steps = self.steps.ravel()
        size = problem.n_parameters
        alpha = problem.penalty.alpha
        norm = problem.row_norm_bound
        reached = self.weight_bound
        margin = 4 * (size + 16) * UNIT_ROUNDOFF * (1 + norm * reached)
        slope = (problem.loss.curvature_bound or 0.0) * norm * margin
        gradient = slope + (2 * self.batch + 256) * UNIT_ROUNDOFF * self.lipschitz
        moving = steps * (self.lipschitz + alpha * reached) + reached
        moving = 8 * (size + 16) * UNIT_ROUNDOFF * moving
        return float((steps * gradient + moving).sum()) + UNDERFLOW

    @property
    def sensitivity(self) -> float:
        """Bound on the change of the computed end when one row is replaced."""
        return self.stability + 2 * self.rounding

    def run(self, rows: Rows, order: NDArray[np.int64]) -> FloatArray:
        """Run all passes on the exact rows, in an order that does not depend on them.

        Privacy
        -------
        The end has L2 sensitivity `sensitivity` under replace-one and norm at most `weight_bound`:
        a row is in one batch of each pass.
        """
        if np.bincount(order, minlength=1).max() > 1:
            raise PrivacyError("A pass must use every row once.")
        batches = order[: self.steps.shape[1] * self.batch].reshape(-1, self.batch)
        weights: FloatArray = np.zeros(self.problem.n_parameters)
        for steps in self.steps:
            weights = rows.descend(
                weights,
                self.problem.loss,
                order=batches,
                steps=steps,
                clip=self.lipschitz,
                alpha=self.problem.penalty.alpha,
                radius=self.radius,
            ).weights
        return weights


def check_evaluated(name: str, loss: Loss) -> None:
    """Refuse losses whose slopes have no proven error bound."""
    if type(loss) not in _EVALUATED:  # exact type: a subclass may compute something else
        raise NotSupported(
            f"solver={name!r} releases the end of a descent on exact rows, so it needs a bound on "
            f"the rounding error of the loss's slope; {loss.name!r} has none. Use the logistic, "
            "huber-hinge, huber or squared loss."
        )


def check_step(step: float, limit: float) -> None:
    """Refuse a step that is too long for the descent to be stable."""
    if not step <= limit:
        raise ValueError(
            f"step_size={step:g} is too long: descent on this problem is stable for steps up to "
            f"{limit:g}, and the privacy of the result rests on it. Pass a shorter one, or None."
        )


def smoothness_of(problem: Problem) -> float:
    """Return β, for methods that take smooth losses only."""
    smoothness = problem.smoothness
    if smoothness is None:
        raise NotSupported(f"a smooth loss is needed; {problem.loss.name!r} is not.")
    return smoothness


def _check_sizes(*sizes: float) -> None:
    """Refuse problems whose norms, constants and steps could overflow or vanish."""
    if not all(1 / _MOST <= size <= _MOST for size in sizes):  # also for what is not a number
        raise ValueError(
            "constants of this problem (norms of rows and gradients, smoothness, step sizes, "
            f"length of the descent) are not between {1 / _MOST:g} and {_MOST:g}: rescale the "
            "columns."
        )
