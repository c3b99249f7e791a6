"""Covariances of coefficients in units of X, split by source, from the evidence of a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.stats import norm

from discreet.inference.measure import Evidence
from discreet.rows import AffineMap
from discreet.validate import FloatArray, number

__all__ = ["Covariance", "Intervals", "Parts", "p_values", "quantile", "score_intervals"]

LARGEST_BLIND = 0.02
"""A coefficient has no interval if more than this share of its squared weights lies in directions
that are not determined."""

NOT_DETERMINED = (
    "leans on directions that rows and budget do not determine: it is (nearly) a combination of "
    "other columns, or too rare"
)


class Parts(NamedTuple):
    """Variances of some linear combinations of the coefficients, by source."""

    sampling: FloatArray
    noise: FloatArray

    @property
    def errors(self) -> FloatArray:
        """Standard errors: roots of the sum of both."""
        return np.sqrt(self.sampling + self.noise)

    @property
    def noise_share(self) -> FloatArray:
        """Share of the privacy noise in the variance."""
        with np.errstate(invalid="ignore"):
            return self.noise / (self.sampling + self.noise)


@dataclass(frozen=True, eq=False)
class Covariance:
    """Covariance of one model's coefficients, its intercept last if there is one.

    Attributes
    ----------
    sampling, noise : ndarray
        Covariance of what another sample of people would change, and of the privacy noise.
    refused : ndarray of bool
        Coefficients without an interval.
    reason : str
        Why; empty if there are none.
    dispersion : float
        Estimated variance of residuals in units of the target; for other losses, the mean squared
        score over the mean curvature.
    """

    sampling: FloatArray
    noise: FloatArray
    refused: Any
    reason: str
    dispersion: float

    @classmethod
    def of(cls, evidence: Evidence, affine: AffineMap, *, intercept: bool, scale: float) -> Self:
        """Carry the evidence through the map of a preparation; targets were divided by a scale."""
        size = len(evidence.weights)
        basis = np.eye(size, size if intercept else size + 1)  # a constant that may be missing
        to_x = scale * affine.adjoint(basis)[:, :size].T  # coefficients of X from those of rows
        blind = np.square(to_x @ evidence.blind.T).sum(axis=1)
        whole = np.square(to_x * evidence.scales).sum(axis=1)
        refused = blind > LARGEST_BLIND * whole
        reason = NOT_DETERMINED if refused.any() else ""
        if evidence.reason:
            refused, reason = np.ones(size, dtype=bool), evidence.reason
        covariances = [to_x @ part @ to_x.T for part in (evidence.sampling, evidence.noise)]
        return cls(*covariances, refused, reason, evidence.dispersion * scale**2)

    @property
    def total(self) -> FloatArray:
        """The covariance matrix; rows and columns of refused coefficients are NaN."""
        whole = self.sampling + self.noise
        whole[self.refused] = np.nan
        whole[:, self.refused] = np.nan
        return whole

    def parts(self, combinations: FloatArray | None = None) -> Parts:
        """Return variances of the coefficients, or of rows of linear combinations of them.

        A combination with a refused coefficient has none.
        """
        if combinations is None:
            variances = [np.diag(part).copy() for part in (self.sampling, self.noise)]
            for part in variances:
                part[self.refused] = np.nan
            return Parts(*variances)
        rows = np.atleast_2d(combinations)
        found = [((rows @ part) * rows).sum(axis=1) for part in (self.sampling, self.noise)]
        touched = (rows[:, self.refused] != 0).any(axis=1)
        return Parts(*(np.where(touched, np.nan, part) for part in found))


def quantile(level: float) -> float:
    """Return the normal quantile of a two-sided interval of this level."""
    level = number("level", level, above=0.0, below=1.0, remedy="Usual is 0.95.")
    return float(norm.ppf(0.5 + level / 2))


def p_values(z: FloatArray) -> FloatArray:
    """Return two-sided p-values of normal statistics."""
    return np.asarray(2 * norm.sf(np.abs(z)), dtype=np.float64)


class Intervals(NamedTuple):
    """Intervals of predictions, and the variances they are made of.

    ``low`` and ``high`` are in units of the prediction. The variances are those of the linear
    predictor: of its sampling error, of the privacy noise and, for a new target, of its residual.
    """

    low: FloatArray
    high: FloatArray
    sampling: FloatArray
    noise: FloatArray
    residual: float


def score_intervals(
    covariance: Covariance, rows: FloatArray, scores: FloatArray, level: float, residual: float
) -> Intervals:
    """Return intervals around linear scores of rows, a constant 1 last if the model has one."""
    parts = covariance.parts(rows)
    half = quantile(level) * np.sqrt(parts.sampling + parts.noise + residual)
    return Intervals(scores - half, scores + half, *parts, residual)
