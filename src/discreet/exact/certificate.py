"""The certificate of objective perturbation: a proven bound on the gradient at a point.

Privacy of a perturbed minimum rests on this file and on `Rows.perturbed_gradient`, not on the
optimiser that proposed the point: a point is released only if `certify` says that the exact
gradient there is small enough. Proof: docs/proofs/objective_perturbation.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from discreet.objectives import Loss, Problem
from discreet.rows import BLOCK_ROWS, Rows, certificate_allowance
from discreet.validate import FloatArray


class Point(NamedTuple):
    """Weights of twice the working precision: ``weights + rest``."""

    weights: FloatArray
    rest: FloatArray

    def moved(self, step: FloatArray) -> Point:
        """Add a step, by Knuth's exact addition."""
        total = self.weights + step
        part = total - self.weights
        rest = self.rest + ((self.weights - (total - part)) + (step - part))
        weights = total + rest
        return Point(weights, rest - (weights - total))


@dataclass(frozen=True)
class PerturbedObjective:
    """Σℓ(w) + ridge/2·‖w‖² + linear·w over exact rows, for a smooth convex loss of bounded slope.

    ``clip`` is a bound on the norm of every row's gradient, with some slack.
    """

    rows: Rows
    loss: Loss
    clip: float
    ridge: float
    linear: FloatArray

    def __post_init__(self) -> None:
        """Leave out rows that are far too long, in the objective and in its derivatives."""
        object.__setattr__(self, "rows", self.rows.within_reach())

    def gradient(
        self, weights: FloatArray, rest: FloatArray | None = None
    ) -> tuple[FloatArray, float]:
        """Return the gradient as computed, and a bound on the norm of the exact one."""
        terms = (self.loss, self.clip, self.ridge, self.linear)
        return self.rows.perturbed_gradient(weights, *terms, rest)


def certify(objective: PerturbedObjective, point: Point, bound: float) -> bool:
    """Return True if the exact gradient at a point is proven to have norm at most ``bound``.

    Privacy
    -------
    Nothing is assumed of the point: entries that are not finite, a wrong shape, or a ``rest`` that
    is not a rounding of ``weights`` are not certified.
    """
    size = objective.linear.shape
    for part in point:
        if part.shape != size or not np.isfinite(part).all():
            return False
    with np.errstate(all="ignore"):  # a warning would depend on the rows
        return objective.gradient(point.weights, point.rest)[1] <= bound


def certifiable_norm(
    problem: Problem, *, clip: float, ridge: float, weights: float, linear: float
) -> float:
    """Return a gradient norm that can be certified for every table, from public numbers.

    ``weights`` and ``linear`` bound the norms of the minimum and of the linear term. With e the
    certificate's allowance for rounding, Newton's method ends where the exact gradient is about e,
    so the computed one is at most 2e and its certificate at most 3e. The rest is slack for the
    solution of linear systems. The allowance is the larger of those for dense and sparse tables,
    which differ in the size of blocks.
    """
    terms = problem.n_rows * clip + ridge * weights + linear
    return 3.5 * max(
        certificate_allowance(
            problem.loss,
            clip=clip,
            weights=weights,
            terms=terms,
            size=problem.n_rows,
            n_features=problem.n_features,
            block_rows=block_rows,
        )
        for block_rows in {BLOCK_ROWS, max(BLOCK_ROWS, problem.n_features)}
    )
