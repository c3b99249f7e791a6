"""What many numbers are, seen in Gaussian noise of a known deviation, and which to measure again.

Everything here is computed from released and public numbers: post-processing, nothing private.
Reasons: docs/proofs/shrunk_gd.md.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from discreet.solvers.base import FloatArray

__all__ = ["Shrinkage", "nearest", "worth_measuring"]

DEVIATIONS = np.concatenate([[0.0], 2.0 ** np.arange(-3, 11)])
"""Components of the prior: their deviations, over that of the noise. The first is exactly 0."""

KNOTS = 2.0 ** (np.arange(-6 * 16, 12 * 16 + 1) / 16)
"""Sizes, over the noise's deviation, that coordinates are counted at."""

CLEARLY_LESS = 0.9
"""Columns are left out if that loses less than this share of what is lost with all of them."""

ROUNDS = 30
"""Rounds of expectation–maximisation after each gradient, from where the last ones ended."""


class Shrinkage:
    """What many numbers are, given that each was seen in Gaussian noise of a known deviation.

    The numbers' own distribution is a mixture of a point at 0 and of normals around 0
    (`DEVIATIONS`), with shares that are fitted to what is seen. The point at 0 is given √m further
    numbers, m how many there are: so many may seem to be more than noise by chance.

    A new fit starts from the shares that the last one found.
    """

    def __init__(self) -> None:
        self.shares: FloatArray = np.full(DEVIATIONS.size, 1 / DEVIATIONS.size)
        variances = 1 + DEVIATIONS**2
        logs = -0.5 * (np.log(variances) + KNOTS[:, None] ** 2 / variances)
        self._likelihoods = np.exp(logs - logs.max(axis=1, keepdims=True))
        self._factors = DEVIATIONS**2 / variances

    def means(self, seen: FloatArray, deviation: float) -> FloatArray:
        """Fit the shares; the posterior means."""
        if deviation <= 0:
            return seen
        sizes = _sizes(seen, deviation)
        nearest = np.rint((np.log2(sizes) + 6) * 16).astype(np.intp)
        counts = np.bincount(nearest.ravel(), minlength=KNOTS.size)
        for _ in range(ROUNDS):
            mixed = self._likelihoods @ self.shares  # what each knot's counts are divided among
            shares = self.shares * ((counts / mixed) @ self._likelihoods)
            shares[0] += math.sqrt(seen.size)
            # none is ever lost for good: weights of later iterations may need it
            self.shares = np.maximum(shares / shares.sum(), 1e-9)
        return self.others(seen, deviation)

    def others(self, seen: FloatArray, deviation: float) -> FloatArray:
        """The posterior means of numbers that shares were not fitted to, as last fitted."""
        if deviation <= 0:
            return seen
        kept = np.interp(_sizes(seen, deviation), KNOTS, self._posteriors() @ self._factors)
        means: FloatArray = seen * kept
        return means

    def squares(self, seen: FloatArray, deviation: float) -> FloatArray:
        """The posterior means of the numbers' squares, over deviation², as last fitted."""
        sizes, posteriors = _sizes(seen, deviation), self._posteriors()
        variances = np.interp(sizes, KNOTS, posteriors @ self._factors)
        squares: FloatArray = np.interp(sizes, KNOTS, posteriors @ self._factors**2) * sizes**2
        squares += variances
        return squares

    def _posteriors(self) -> FloatArray:
        """For each knot, the probabilities of the components."""
        joint = self._likelihoods * self.shares
        posteriors: FloatArray = joint / joint.sum(axis=1, keepdims=True)
        return posteriors


def _sizes(seen: FloatArray, deviation: float) -> FloatArray:
    sizes: FloatArray = np.clip(np.abs(seen) / deviation, KNOTS[0], KNOTS[-1])
    return sizes


def worth_measuring(squares: FloatArray, first: float, second: float) -> NDArray[np.intp]:
    """Which columns to measure again, so that the least is lost.

    Parameters
    ----------
    squares : ndarray
        For each column, what its squared weight is expected to be, over the noise's variance.
    first, second : float
        Shares of μ² that the columns were measured with, and that some will be measured with.

    Returns
    -------
    ndarray of int
        Columns in rising order. Of the m with the largest squares q, each is lost up to
        q·v/(q + v) for noise of variance v = (m/d)·first/second, as rows of m alike columns of d
        are √(d/m) times shorter; of all others q is lost. m is a power of 2^(1/4) below d. Or all
        columns: then both measurements count, and v = first/(first + second). Fewer are chosen
        if that loses `CLEARLY_LESS`: where nothing was found, all are as good as any.
    """
    d = squares.size
    order = np.argsort(-squares, kind="stable")
    ordered = squares[order]
    found = np.cumsum(ordered)
    best, least = d, CLEARLY_LESS * _lost(ordered, first / (first + second))
    for m in sorted({round(2 ** (k / 4)) for k in range(math.ceil(4 * math.log2(d)))}):
        lost = float(found[-1] - found[m - 1]) + _lost(ordered[:m], first / second * m / d)
        if m < d and lost < least:
            best, least = m, lost
    return np.sort(order[:best]).astype(np.intp)


def _lost(squares: FloatArray, variance: float) -> float:
    """What the best linear estimates lose of numbers with such squares, in such noise."""
    return float(np.sum(squares * variance / (squares + variance)))


def nearest(values: FloatArray, total: float) -> FloatArray:
    """The Euclidean projection on {v ≥ 0, Σv = total}: second moments that rows could have."""
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, values.size + 1)
    kept = np.flatnonzero(ordered > excess)
    found: FloatArray = np.maximum(values - excess[kept[-1] if kept.size else 0], 0.0)
    return found
