"""Shares of the budget of inference, and the precision that each measurement is to have.

Every measurement takes the part of the share that gives its answer a relative noise of `PRECISION`,
within `SHARES` (`share_for`). Where a bound is larger than a table needs, the smaller one is found
among `candidates`, by counts of the rows beyond them.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TypeVar

import numpy as np

from discreet.validate import FloatArray

__all__ = [
    "CANDIDATES",
    "CHOICE_NOISE",
    "COUNTS",
    "MEDIAN_OF_NORMAL",
    "PRECISION",
    "SHARE",
    "SHARES",
    "STUDENT",
    "candidates",
    "few_beyond",
    "share_for",
    "together",
    "widening",
    "within",
]

Number = TypeVar("Number", float, FloatArray)

SHARE = 0.8
"""Share that ``inference=True`` takes of what preparation and balance leave of the budget."""

SHARES = (0.01, 0.1)
"""Smallest and largest part of the share for a measurement beside scores and Hessians. A smaller
part saves hardly anything, a larger one costs precision of the coefficients."""

PRECISION = 0.1
"""Relative noise that a measurement is to have. It adds less than a percent to standard errors."""

CANDIDATES = 8
"""Number of candidates for a bound; each is √2 times the one before."""

COUNTS = (CANDIDATES - 1).bit_length()
"""Counts that find one of the candidates by halving."""

BEYOND = 0.05
"""So many rows, times √n, may be beyond a bound: they move no coefficient by more than a few
hundredths of its standard error for each unit of their excess."""

CHOICE_NOISE = math.log(729)
"""Rank of a private median, over that of the median, is apart by about this over n·μ: the logarithm
of the number of candidates."""

STUDENT = NormalDist().inv_cdf(0.975) ** 2
"""If a standard error has a relative error r, 95 % intervals need a variance of 1 + this·r² times
as much, as with Student's t to first order."""

MEDIAN_OF_NORMAL = NormalDist().inv_cdf(0.75)
"""Median size of a standard normal number."""


def within(value: float, limits: tuple[float, float]) -> float:
    """Return a value, or the limit that it is beyond."""
    return min(max(value, limits[0]), limits[1])


def share_for(noise: float, limits: tuple[float, float] = SHARES) -> float:
    """Return the part of the share for an answer that has a relative ``noise`` by all of it."""
    return within((noise / PRECISION) ** 2, limits)


def candidates(most: float, least: float = 0.0) -> FloatArray:
    """Return candidates for a bound, increasing to ``most``; none is below ``least``."""
    parts = np.sqrt(2.0) ** np.arange(1.0 - CANDIDATES, 1.0)
    return np.asarray(np.maximum(most * parts, least))


def few_beyond(n_rows: int) -> float:
    """Return the share of the rows that may be beyond a bound."""
    return BEYOND / math.sqrt(n_rows)


def together(
    found: float, noise: float, guess: float, error: float = PRECISION
) -> tuple[float, float]:
    """Return the weighted mean of a noisy number and a guess at it, and its error.

    The guess has a relative ``error``.
    """
    own = noise**-2.0
    other = (error * guess) ** -2.0
    return (own * found + other * guess) / (own + other), (own + other) ** -0.5


def widening(error: Number) -> Number:
    """Return what a variance of this relative error needs more, as with Student's t."""
    return STUDENT / 4 * error**2
