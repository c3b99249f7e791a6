"""Whether a difference between two lines is more than chance.

Repeats are random splits of the same rows, so their training sets overlap and their results are
alike: two splits that leave out a fifth each share most of what they learn from. A plain t test
takes such repeats for independent, and would call any difference certain if only enough of them
were run. Nadeau & Bengio (2003) replace the variance of the mean, s²/k for k repeats, by
s²·(1/k + rows tested/rows trained on), which does not go to zero as k grows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats

__all__ = ["OVERLAP", "Difference", "apart", "holm", "interval", "paired"]

OVERLAP = 0.25
"""Rows tested over rows trained on, for splits that test a fifth."""

_LEVEL = 0.95
_ROUNDING = 1e-9  # a spread this small beside the values is rounding


class Difference(NamedTuple):
    """A difference of means, its 95 % confidence interval and the two-sided p value.

    Interval and p value are NaN where there are too few repeats to tell.
    """

    mean: float
    low: float
    high: float
    p_value: float
    repeats: int


def paired(first: np.ndarray, second: np.ndarray, overlap: float = OVERLAP) -> Difference:
    """The mean of ``second - first`` over repeats that both have, by a corrected paired t test.

    Parameters
    ----------
    first, second
        A value for each repeat, in the same order; NaN where one is missing.
    overlap
        Rows tested over rows trained on; 0 for repeats that are independent.

    Notes
    -----
    If all differences are the same, the interval is that point. The p value is then 1 if they are
    all zero and missing otherwise, since the test is not defined.
    """
    both = np.isfinite(first) & np.isfinite(second)
    first, second = first[both], second[both]
    k = len(first)
    if k == 0:
        return Difference(np.nan, np.nan, np.nan, np.nan, 0)
    differences = second - first
    mean = float(differences.mean())
    if k == 1:
        return Difference(mean, np.nan, np.nan, np.nan, 1)
    spread = float(differences.std(ddof=1))
    if spread <= _ROUNDING * max(np.abs(first).max(), np.abs(second).max()):
        same = abs(mean) <= spread
        return Difference(mean, mean, mean, 1.0 if same else np.nan, k)
    error = spread * np.sqrt(1 / k + overlap)
    half = stats.t.ppf((1 + _LEVEL) / 2, k - 1) * error
    p_value = float(2 * stats.t.sf(abs(mean) / error, k - 1))
    return Difference(mean, mean - half, mean + half, p_value, k)


def apart(first: np.ndarray, second: np.ndarray) -> Difference:
    """The difference of the means of two sets of runs that have no repeat in common (Welch)."""
    first, second = first[np.isfinite(first)], second[np.isfinite(second)]
    sizes = len(first), len(second)
    if min(sizes) == 0:
        return Difference(np.nan, np.nan, np.nan, np.nan, 0)
    mean = float(second.mean() - first.mean())
    repeats = min(sizes)
    if repeats == 1:
        return Difference(mean, np.nan, np.nan, np.nan, repeats)
    parts = np.array([first.var(ddof=1) / sizes[0], second.var(ddof=1) / sizes[1]])
    error = float(np.sqrt(parts.sum()))
    if error <= _ROUNDING * max(np.abs(first).max(), np.abs(second).max()):
        return Difference(mean, mean, mean, 1.0 if abs(mean) <= error else np.nan, repeats)
    freedom = parts.sum() ** 2 / (parts**2 / (np.array(sizes) - 1)).sum()
    half = stats.t.ppf((1 + _LEVEL) / 2, freedom) * error
    p_value = float(2 * stats.t.sf(abs(mean) / error, freedom))
    return Difference(mean, mean - half, mean + half, p_value, repeats)


def interval(sd: np.ndarray, repeats: np.ndarray) -> np.ndarray:
    """Half the width of the 95 % interval of a mean (Student's t); NaN for fewer than two."""
    enough = repeats > 1
    freedom = np.where(enough, repeats - 1, 1)
    half = stats.t.ppf((1 + _LEVEL) / 2, freedom) * sd / np.sqrt(np.maximum(repeats, 1))
    return np.where(enough, half, np.nan)


def holm(p_values: np.ndarray) -> np.ndarray:
    """P values adjusted for being many (Holm 1979); those that are missing stay so and count not.

    Calling significant what is below 0.05 after this is wrong about any of them at most once in
    twenty such families.
    """
    adjusted = np.full(len(p_values), np.nan)
    known = np.flatnonzero(~np.isnan(p_values))
    order = known[np.argsort(p_values[known], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    steps = np.minimum(np.maximum.accumulate(p_values[order] * factors), 1.0)
    adjusted[order] = steps
    return adjusted
