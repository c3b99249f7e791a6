"""Noisy Hessians: what is expected of them by public numbers, and the estimate that they give."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.budget import Budget
from discreet.inference.evidence import Evidence, Points
from discreet.inference.shares import PRECISION, SHARE, STUDENT
from discreet.objectives import Loss
from discreet.objectives.offset import WithOffset
from discreet.validate import FloatArray

__all__ = [
    "CLIPS",
    "HESSIAN_SHARE",
    "LONGEST_STEP",
    "MOST_NOISE",
    "Hessian",
    "Usual",
    "expected_error",
    "hessian_error",
    "is_precise",
]

CLIPS = (1.3, 3.0)
"""Smallest and largest clip of norms over √p: noise falls with it, and so do the weights of long
rows."""

TYPICAL_CURVATURE = 0.5
"""Mean curvature over its bound, where public numbers alone decide."""

HESSIAN_SHARE = 0.4
"""Largest part of the share for the Hessian of the estimate; the smallest is `SHARES[1]`."""

LEAST_EIGENVALUE = 3.0
"""A direction is determined if the Hessian's eigenvalue is above this times the noise in one entry,
and above √k times that noise, for k eigenvalues that are not much larger."""

MOST_NOISE = 0.4
"""No intervals at all where the Hessian's noise is more than this many median eigenvalues: with 20
columns, intervals beyond covered 0.81 to 0.91."""

LONGEST_STEP = 0.5
"""The last points and the estimate may be apart by this many units of the linear predictor (of
residuals, in regression): beyond, the Hessian at the estimate is not known."""


def expected_error(
    n_rows: int, n_parameters: int, budget: Budget, share: float = SHARE, *, even: bool = False
) -> float:
    """Return the relative error of the Hessian that public numbers predict, at its largest share.

    An ``even`` curvature is that of least squares: 1, and not `TYPICAL_CURVATURE`.
    """
    mu = budget.to_gdp().mu * math.sqrt(share * HESSIAN_SHARE)
    apart = math.sqrt(budget.relation.rows_changed)
    curvature = 1.0 if even else TYPICAL_CURVATURE
    return hessian_error(n_rows, n_parameters, mu / apart, curvature)


def is_precise(error: float) -> bool:
    """Return whether the largest share for a Hessian buys one as precise as it should be.

    ``error`` is what all of the share would buy.
    """
    return error < PRECISION * math.sqrt(HESSIAN_SHARE)


def hessian_error(n_rows: int, size: int, mu: float, curvature: float) -> float:
    """Return the largest eigenvalue of the Hessian's noise over its usual eigenvalue.

    In units of the bound on curvature; rows have norm √p, and the clip is the smallest.
    """
    noise = CLIPS[0] ** 2 * size * math.sqrt(2 * size) / (max(n_rows, 1) * mu)
    return noise / curvature


@dataclass(frozen=True)
class Usual:
    """Mean curvature and root mean squared slope, over their bounds: before they are known."""

    curvature: float
    slope: float

    @classmethod
    def at(cls, loss: Loss, weights: FloatArray, *, intercept: bool) -> Usual:
        """Return them for normal rows of the same variance in all directions, at some weights.

        Targets are 1 for classes, else means with a logarithm for a link.
        """
        loss = loss.base if isinstance(loss, WithOffset) else loss  # for an offset of 0
        slopes, constant = (weights[:-1], weights[-1]) if intercept else (weights, 0.0)
        points, shares = np.polynomial.hermite_e.hermegauss(9)
        margins = np.clip(constant + float(np.linalg.norm(slopes)) * points, -50.0, 50.0)
        targets = np.exp(margins) if loss.task == "regression" else np.ones(margins.size)
        curvature = loss.second_derivative(margins, targets) @ shares / shares.sum()
        bound = loss.curvature_bound or 1.0
        # squared slopes and curvatures of a likelihood have one mean
        slope = math.sqrt(max(float(curvature), 0.0)) / loss.slope_bound
        return cls(min(float(curvature) / bound, 1.0), min(slope, 1.0))


@dataclass(frozen=True)
class Hessian:
    """A noisy mean Hessian: its eigenvalues and eigenvectors, and the noise in its entries."""

    matrix: FloatArray
    values: FloatArray
    vectors: FloatArray
    deviation: float

    @classmethod
    def of(cls, matrix: FloatArray, deviation: float) -> Hessian:
        """Return a matrix with its eigenvalues."""
        return cls(matrix, *np.linalg.eigh(matrix), deviation)

    @property
    def noise(self) -> float:
        """Largest eigenvalue of the noise, about."""
        return self.deviation * math.sqrt(2 * len(self.values))

    @property
    def error(self) -> float:
        """The noise over the median eigenvalue."""
        median = float(np.median(self.values))
        return self.noise / median if median > 0 else math.inf

    def times(self, factor: float) -> Hessian:
        """Return the Hessian times a factor."""
        values = factor * self.values
        return Hessian(factor * self.matrix, values, self.vectors, factor * self.deviation)

    def inverse(self) -> FloatArray:
        """Return the inverse in the directions that are determined."""
        known = self._known()
        vectors = self.vectors[:, known]
        return np.asarray((vectors / self.values[known]) @ vectors.T)

    def solve(self, score: FloatArray, *, least: float) -> FloatArray:
        """Return H⁻¹·score, eigenvalues raised to ``least``."""
        moved = (score @ self.vectors) / np.maximum(self.values, least)
        return np.asarray(self.vectors @ moved)

    def evidence(
        self, path: Points, deviation: float, dispersion: float, drawn: float, turn: FloatArray
    ) -> Evidence:
        """Take the last step and return what is known of its end, in units of prepared rows.

        ``turn`` is the symmetric matrix that these were multiplied by. ``drawn`` is the sampling
        variance along a direction of curvature 1. The inverse of a noisy matrix is too large on
        average: eigenvalues are raised by what makes up for it (docs/inference.md).
        """
        start, score = path.means()
        deviation /= math.sqrt(len(path.points) - 1)
        known = self._known()
        size = start.size
        blind = self.vectors[:, ~known]
        if self.error > MOST_NOISE:
            no: FloatArray = np.full((size, size), np.nan)
            last = (blind.T @ turn, no, 1.0, dispersion, _HIDDEN)
            return Evidence(turn @ start, no, no, no, *last)
        values = self.values[known]
        vectors = self.vectors[:, known]
        inverse = 1.0 / values
        values = values + 0.5 * self.deviation**2 * (inverse + inverse.sum())
        step = -vectors @ ((score @ vectors) / values)
        end = start + step
        # noise in the score, and noise in the Hessian times the step
        half = 0.5 * self.deviation**2
        doubt = STUDENT * (self.deviation / values) ** 2
        spread = (deviation**2 + half * float(step @ step)) * (1 + doubt)
        noise = (vectors * (spread / values**2)) @ vectors.T
        moved = vectors @ ((step @ vectors) / values)
        noise += half * np.outer(moved, moved)
        sampling = (vectors * (drawn * (1 + doubt / 4) / values)) @ vectors.T
        usual = max(float(np.mean((start @ each) ** 2)) for each in (vectors, blind) if each.size)
        hidden = np.square(np.maximum(self.values[~known], 0.0) + self.deviation).sum()
        bias = (vectors * (half * usual * hidden / values**4)) @ vectors.T
        # what noise alone makes of the part of a combination in directions that are not known
        floor = (vectors * (half * blind.shape[1] / values**2)) @ vectors.T
        ends = path.points[2:] or path.points[1:]
        apart = math.sqrt(np.mean([path.length(at - end) ** 2 for at in ends]))
        reason = _FAR if apart > LONGEST_STEP * path.unit else ""
        return Evidence(
            weights=turn @ end,
            sampling=turn @ sampling @ turn,
            noise=turn @ noise @ turn,
            bias=turn @ bias @ turn,
            blind=blind.T @ turn,
            floor=turn @ floor @ turn,
            usual=usual,
            dispersion=dispersion,
            reason=reason,
        )

    def _known(self) -> NDArray[np.bool_]:
        """Return which eigenvalues are above their noise.

        Noise moves an eigenvalue by at most about √(2k) times that of an entry, k the number of
        eigenvalues that are not much larger.
        """
        near = np.searchsorted(self.values, 2 * np.maximum(self.values, 0.0), side="right")
        limit = self.deviation * np.maximum(np.sqrt(near), LEAST_EIGENVALUE)
        return np.asarray(self.values > limit)


_HIDDEN = (
    "the Hessian is hidden by its noise: the budget is too small for intervals at this number of "
    "rows and columns"
)
_FAR = (
    "noise keeps the last points too far from the estimate: the budget is too small for intervals "
    "at this number of rows and columns"
)
