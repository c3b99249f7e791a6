"""Evidence of one model: points and their scores, the estimate, and covariances of its errors."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from discreet.inference.checks import Checks, Variances
from discreet.inference.shares import widening
from discreet.validate import FloatArray

__all__ = ["Evidence", "Points"]


@dataclass(frozen=True)
class Points:
    """Points at which scores were measured, and the scores; ``unit`` is that of residuals.

    ``turn`` is the matrix that rows were multiplied by to whiten them.
    """

    points: list[FloatArray]
    scores: list[FloatArray]
    unit: float
    turn: FloatArray | None = None

    def length(self, change: FloatArray) -> float:
        """Return about what a change of weights does to scores: rows may have been turned."""
        return float(np.linalg.norm(change if self.turn is None else self.turn @ change))

    def add(self, point: FloatArray, score: FloatArray) -> None:
        """Add a point and its score."""
        self.points.append(point)
        self.scores.append(score)

    def means(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean point and the mean score, without the first if there are others."""
        first = min(1, len(self.points) - 1)
        return np.mean(self.points[first:], axis=0), np.mean(self.scores[first:], axis=0)


@dataclass(frozen=True)
class Evidence:
    """Released numbers of one model, and what follows from them, in units of prepared rows.

    Attributes
    ----------
    weights : ndarray
        The estimate, the intercept last.
    sampling, noise, bias : ndarray
        Covariances of its sampling error and of the privacy noise in it, and a bound, as a mean
        square, on what directions that are not determined do to the others.
    blind : ndarray
        Orthonormal directions of weights that are not determined, in units of prepared rows.
    floor : ndarray
        c·floor·c is what noise alone makes of the squared part of a combination c in ``blind``.
    usual : float
        Usual squared weight in a direction.
    dispersion : float
        Mean squared score over mean curvature; the residuals' variance in least squares.
    reason : str
        Why there are no intervals; empty if there are.
    checks : Checks
        What was measured beside the estimate.
    """

    weights: FloatArray
    sampling: FloatArray
    noise: FloatArray
    bias: FloatArray
    blind: FloatArray
    floor: FloatArray
    usual: float
    dispersion: float
    reason: str = ""
    checks: Checks = field(default_factory=Checks)

    def with_mean_variance(self, doubt: float) -> Evidence:
        """Return the evidence with the dispersion that variances of coefficients have on average.

        ``doubt`` is what noise in the mean squared score has added to the sampling variance, whose
        bound grows with the cut. It is replaced by that of the mean variance, if that is less.
        """
        found = self.checks.variances
        if found is None:
            return self
        mean = float(np.mean(found.ratio))
        own = widening(found.error / (mean * math.sqrt(found.ratio.size)))
        if own >= doubt:
            return self
        variances = Variances(found.ratio / mean, found.error / mean)
        checks = replace(self.checks, variances=variances)
        sampling = mean * (1 + own) / (1 + doubt) * self.sampling
        return replace(self, sampling=sampling, dispersion=mean * self.dispersion, checks=checks)
