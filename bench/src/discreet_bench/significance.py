"""Tests of differences between two lines.

Repeats are random splits of the same rows, so their training sets overlap and their results are
correlated. A plain t test takes such repeats for independent, and would call any difference
significant if only enough of them were run. Nadeau & Bengio (2003) replace the variance of the
mean, s²/k for k repeats, by s²·(1/k + test rows/training rows), which does not go to zero as k
grows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats

__all__ = ["OVERLAP", "Difference", "apart", "holm", "interval", "paired"]

OVERLAP = 0.25
"""Test rows per training row, for splits that test a fifth."""

_LEVEL = 0.95
_ROUNDING = 1e-9  # a standard deviation this small relative to the values is rounding


class Difference(NamedTuple):
    """A difference of means, its 95 % confidence interval and the two-sided p-value.

    Interval and p-value are NaN where there are too few repeats.
    """

    mean: float
    low: float
    high: float
    p_value: float
    repeats: int


def paired(first: np.ndarray, second: np.ndarray, overlap: float = OVERLAP) -> Difference:
    """Test the mean of ``second - first`` over shared repeats by a corrected paired t test.

    Parameters
    ----------
    first, second
        A value per repeat, in the same order; NaN where one is missing.
    overlap
        Test rows per training row; 0 for independent repeats.

    Notes
    -----
    If all differences are equal, the interval is that point. The p-value is then 1 if they are all
    zero and missing otherwise, since the test is not defined.
    """
    both = np.isfinite(first) & np.isfinite(second)
    first, second = first[both], second[both]
    k = len(first)
    if k < 2:
        mean = float(np.mean(second - first)) if k else np.nan
        return Difference(mean, np.nan, np.nan, np.nan, k)
    differences = second - first
    mean, deviation = float(differences.mean()), float(differences.std(ddof=1))
    if deviation <= _ROUNDING * max(np.abs(first).max(), np.abs(second).max()):
        return Difference(mean, mean, mean, 1.0 if abs(mean) <= deviation else np.nan, k)
    error = deviation * np.sqrt(1 / k + overlap)
    half = stats.t.ppf((1 + _LEVEL) / 2, k - 1) * error
    p_value = float(2 * stats.t.sf(abs(mean) / error, k - 1))
    return Difference(mean, mean - half, mean + half, p_value, k)


def apart(first: np.ndarray, second: np.ndarray) -> Difference:
    """Test the difference of the means of two sets of runs without a common repeat (Welch)."""
    first, second = first[np.isfinite(first)], second[np.isfinite(second)]
    k = min(len(first), len(second))
    mean = float(second.mean() - first.mean()) if k else np.nan
    if k < 2:
        return Difference(mean, np.nan, np.nan, np.nan, k)
    error = np.sqrt(first.var(ddof=1) / len(first) + second.var(ddof=1) / len(second))
    if error <= _ROUNDING * max(np.abs(first).max(), np.abs(second).max()):
        return Difference(mean, mean, mean, 1.0 if abs(mean) <= error else np.nan, k)
    test = stats.ttest_ind(second, first, equal_var=False)
    low, high = test.confidence_interval(_LEVEL)
    return Difference(mean, float(low), float(high), float(test.pvalue), k)


def interval(sd: np.ndarray, repeats: np.ndarray) -> np.ndarray:
    """Return half the width of the 95 % interval of a mean (Student's t); NaN below 2 repeats."""
    enough = repeats > 1
    freedom = np.where(enough, repeats - 1, 1)
    half = stats.t.ppf((1 + _LEVEL) / 2, freedom) * sd / np.sqrt(np.maximum(repeats, 1))
    return np.where(enough, half, np.nan)


def holm(p_values: np.ndarray) -> np.ndarray:
    """Return Holm-adjusted p-values; NaNs are ignored and returned as NaN."""
    from statsmodels.stats.multitest import multipletests  # slow to import

    adjusted = np.full(len(p_values), np.nan)
    known = ~np.isnan(p_values)
    if known.any():
        adjusted[known] = multipletests(p_values[known], method="holm")[1]
    return adjusted
