"""Noisy means over rows that inference asks for: scores, curvatures, squares, counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from discreet.core import Curator, Gaussian
from discreet.core.questions import CurvatureSum, ScoreSquareSum, ScoreSum, ScoreVariances
from discreet.inference.checks import AtBound, BeyondCut, Tails, Variances
from discreet.inference.hessian import CLIPS, Hessian
from discreet.inference.shares import COUNTS, PRECISION, few_beyond, together, within
from discreet.objectives import Loss, Scored
from discreet.objectives.advice import LIMIT
from discreet.validate import FloatArray

__all__ = ["Means", "Source", "first_beyond", "share_at_bound", "share_with", "slope_of"]

UNWEIGHTED = float(2**30)
"""Clip of norms that makes no row weigh less, where a row's part is one number within a bound."""

LIKELY = 0.5
"""Rows beyond a bound are likelier than not where a count is this many deviations above what may be
beyond it. With 1, slopes of counts were cut by too much: 650 fits covered 0.94."""

SMALLEST_FACTOR = float(2**-40)
"""Factor of a column that is not to count beside the constant."""


class Source(NamedTuple):
    """Rows that are asked about, and by what number sums are divided; ``drawn``: a sample."""

    curator: Curator
    n_rows: int
    drawn: bool = False

    def turned(self, factor: float, matrix: FloatArray | None, n_features: int) -> Source:
        """Return the rows times a factor, and a matrix if there is one."""
        every = np.arange(n_features)
        return self._replace(curator=self.curator.columns(every, factor=factor, matrix=matrix))


@dataclass(frozen=True)
class Means:
    """Means that curators are asked for, each for a share of a total in μ²."""

    scores: Source
    hessians: Source
    squared: Source
    scored: Scored
    clip: float
    total: float
    unit: float = 1.0

    def score(self, weights: FloatArray, share: float) -> tuple[FloatArray, float]:
        """Return the noisy mean score, and the deviation of its noise."""
        mechanism = Gaussian.sharing(share * self.total)
        loss = self.scored.slopes
        curator, n_rows, _ = self.scores
        noisy = curator.ask(ScoreSum(loss, weights, self.clip), mechanism)
        return noisy.values / n_rows, noisy.deviation / n_rows

    def hessian(self, weights: FloatArray, share: float) -> Hessian:
        """Return the noisy mean Hessian; that of a sample has its sampling error for noise, too."""
        mechanism = Gaussian.sharing(share * self.total)
        loss = self.scored.curvature
        (curator, n_rows, drawn) = self.hessians
        noisy = curator.ask(CurvatureSum(loss, weights, self.clip), mechanism)
        bound = self.scored.factor * (loss.curvature_bound or 1.0) / n_rows
        matrix = bound * noisy.matrix()
        deviation = bound * noisy.deviation
        if drawn:
            mean = float(np.trace(matrix)) / len(matrix)
            deviation = math.hypot(deviation, mean * math.sqrt(2 / n_rows))
        return Hessian.of(matrix, deviation)

    def inside(self, weights: FloatArray, share: float, hessian: Hessian) -> float:
        """Return the share of the curvature that is within the cut of slopes.

        It is the ratio of two traces, together with what normal residuals would have.
        """
        bound = self.scored.slopes.slope_bound
        narrow = self.scored._replace(curvature=self.scored.slopes)
        inner = replace(self, scored=narrow).hessian(weights, share)
        whole = float(np.trace(hessian.matrix))
        guess = math.erf(bound / (math.sqrt(2.0) * self.unit))
        if whole <= 0.0:
            return guess
        size = len(hessian.values)
        noise = math.sqrt(size) * math.hypot(inner.deviation, hessian.deviation) / whole
        ratio = float(np.trace(inner.matrix)) / whole
        found, _ = together(ratio, noise, guess)
        return within(found, (0.5 * guess, 1.0))

    def tails(self, weights: FloatArray, share: float, hessian: Hessian, beyond: float) -> Tails:
        """Return what one-sided tails of residuals do to the weights, for each unit of excess.

        ``beyond`` is the measured share of residuals beyond the cut, 0 where it was not measured.
        """
        curator, n_rows, _ = self.scores
        loss = BeyondCut(self.scored.slopes.slope_bound)
        mechanism = Gaussian.sharing(share * self.total)
        noisy = curator.ask(ScoreSum(loss, weights, self.clip), mechanism)
        inverse = hessian.inverse()
        normal = 1.0 - math.erf(loss.cut / (math.sqrt(2.0) * self.unit))
        beyond = max(beyond, normal, PRECISION)
        deviation = noisy.deviation / n_rows
        values = noisy.values / n_rows
        covariance = deviation**2 * (inverse @ inverse) + beyond / n_rows * inverse
        one = math.hypot(deviation, math.sqrt(beyond / n_rows))
        return Tails(-inverse @ values, covariance, float(values[-1]), one)

    def variances(
        self,
        weights: FloatArray,
        share: float,
        hessian: Hessian,
        basis: FloatArray,
        dispersion: float,
    ) -> Variances:
        """Return variances of coefficients, ``basis`` times weights, over those of the model."""
        curator, n_rows, _ = self.scores
        inverse = hessian.inverse()
        turned = basis @ inverse
        scale = np.sqrt(dispersion * np.maximum((turned * basis).sum(axis=1), 0.0))
        made = turned / np.where(scale > 0.0, scale, np.inf)[:, None]
        size = len(made)
        mechanism = Gaussian.sharing(share * self.total)
        apart = math.sqrt(curator.relation.rows_changed)
        wide = PRECISION * n_rows / (mechanism.noise_multiplier * apart * size)
        cut = math.sqrt(size) * within(math.sqrt(wide), (CLIPS[1], LIMIT * CLIPS[1]))
        question = ScoreVariances(self.scored.slopes, weights, self.clip, made, cut)
        noisy = curator.ask(question, mechanism)
        deviation = noisy.deviation / n_rows
        ratio = np.maximum(noisy.values / n_rows, max(deviation, PRECISION))
        return Variances(np.where(scale > 0.0, ratio, 1.0), deviation)

    def curvature(self, hessian: Hessian) -> float:
        """Return the mean curvature over its bound, at least its noise."""
        bound = self.scored.factor * (self.scored.curvature.curvature_bound or 1.0)
        size = len(hessian.values)
        mean = float(np.trace(hessian.matrix)) / size
        return within(max(mean, hessian.deviation / math.sqrt(size)) / bound, (0.0, 1.0))

    def squares(self, weights: FloatArray, share: float) -> tuple[float, float]:
        """Return the noisy mean squared norm of scores, and the deviation of its noise."""
        mechanism = Gaussian.sharing(share * self.total)
        loss = self.scored.slopes
        curator, n_rows, _ = self.squared
        noisy = curator.ask(ScoreSquareSum(loss, weights, self.clip), mechanism)
        bound = (loss.slope_bound * self.clip) ** 2 / n_rows
        return bound * float(noisy.values[0]), bound * noisy.deviation


def slope_of(cut: float) -> float:
    """Return the root mean square of normal numbers that are cut to a size, over that size."""
    inside = math.erf(cut / math.sqrt(2.0))
    density = math.exp(-0.5 * cut * cut) / math.sqrt(2.0 * math.pi)
    square = inside - 2.0 * cut * density + cut * cut * (1.0 - inside)
    return math.sqrt(square) / cut


def share_with(
    rows: Source, weights: FloatArray, indicator: Loss, total: float, *, weighted: bool
) -> tuple[float, float]:
    """Return the noisy share of units whose rows have an indicator, and its deviation.

    Squares of weighted indicators would be less than the share, so there the constant's entry of a
    score is asked for, among all others.
    """
    mechanism = Gaussian.sharing(total)
    if weighted:
        clip = CLIPS[0] * math.sqrt(weights.size)
        sums = rows.curator.ask(ScoreSum(indicator, weights, clip), mechanism)
        found = float(sums.values[-1])
    else:
        constant = np.eye(weights.size)[-1:]
        question = ScoreVariances(indicator, weights, UNWEIGHTED, constant, 1.0)
        sums = rows.curator.ask(question, mechanism)
        found = float(sums.values[0])
    return found / rows.n_rows, sums.deviation / rows.n_rows


def first_beyond(
    rows: Source,
    weights: FloatArray,
    indicators: Sequence[Loss],
    total: float,
    *,
    weighted: bool,
) -> int:
    """Return the first indicator that hardly any row has; the last one needs no count.

    More rows than that have an indicator if its share exceeds `few_beyond` by two standard
    deviations of the noise. Shares fall from each indicator to the next, so halving the list finds
    the first with `COUNTS` counts, which cost ``total`` together. If the share of the one that was
    found exceeds the limit by `LIKELY` deviations, the next is returned: a mistake costs one
    candidate there, and up to half of them on the way.
    """
    least = few_beyond(rows.n_rows)
    low = 0
    high = len(indicators) - 1
    likely = False
    while low < high:
        middle = (low + high) // 2
        share, deviation = share_with(
            rows, weights, indicators[middle], total / COUNTS, weighted=weighted
        )
        if share <= least + 2 * deviation:
            high = middle
            likely = share > least + LIKELY * deviation
        else:
            low = middle + 1
    return low + likely


def share_at_bound(rows: Source, ends: tuple[float, float], total: float) -> tuple[float, float]:
    """Return the noisy share of targets at a bound, and its deviation.

    It is asked of rows with hardly more than their constant, whose norm is 1.
    """
    curator = rows.curator.columns(np.arange(1), factor=SMALLEST_FACTOR)
    question = ScoreSum(AtBound(*ends), np.zeros(2), 1.0)
    noisy = curator.ask(question, Gaussian.sharing(total))
    return float(noisy.values[-1]) / rows.n_rows, noisy.deviation / rows.n_rows
