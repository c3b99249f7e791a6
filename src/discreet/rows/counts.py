"""Exact counts of numbers between public candidates: norms of rows, a column, sizes of slopes.

Counts are integers, so that counts of blocks add up without rounding. They are for private
selections, which score the candidates by them (`discreet.core.ranges`).
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.objectives import Loss
from discreet.rows.data import RowData
from discreet.rows.sums import one_output
from discreet.validate import FloatArray

COUNTED = 2**16
"""Number of values that are counted at a time: sums of their weights are exact in a double."""

_EXPONENTS = range(-9, 12)  # candidates run from 1.0e-9 to 9.9e11, and 1e12


@cache
def edges(whole: bool = False) -> FloatArray:
    """Return the public candidates, increasing: 0, and ± numbers of two significant digits.

    They go from 1e-9 to 1e12 in steps of 1 to 10 %, and are what a person would write. Integers up
    to 100 and the ends of most scales are among them exactly: 3783 in all, read-only. With
    ``whole`` only the whole numbers among them, 2001: for a column of counts, of which most may be
    0, the others lie between two values that occur, where noise alone would decide.
    """
    digits = [float(f"{number}e{power - 1}") for power in _EXPONENTS for number in range(10, 100)]
    positive = np.array([*digits, 1e12])
    positive = positive[positive % 1 == 0] if whole else positive
    result = np.concatenate([-positive[::-1], [0.0], positive])
    result.flags.writeable = False
    return result


@cache
def norm_candidates(largest: float | None = None) -> FloatArray:
    """Return the public candidates for a norm: 2^(j/16) from 2^-20 to 2^20, increasing.

    Beyond, the powers of 2 from 2^-64 to 2^64: few, as each candidate makes the choice harder; 729
    in all, read-only. Each is larger by a factor 1 + 2^-16, so that rows that were scaled to norm 1
    in single precision do not exceed the candidate at 1. Candidates above ``largest``, a public
    number, are left out (but for the smallest).
    """
    exponents = np.concatenate(
        [np.arange(-64.0, -20.0), np.arange(-320, 321) / 16.0, np.arange(21.0, 65.0)]
    )
    result: FloatArray = np.exp2(exponents) * (1 + 2.0**-16)
    if largest is not None:
        result = result[: max(1, np.searchsorted(result, largest, side="right"))]
    result.flags.writeable = False
    return result


class Counts(NamedTuple):
    """Exact counts of rows; where rows have weights w, exact sums of the integers w·unit."""

    values: NDArray[np.int64]
    unit: int


def cell_counts(
    values: FloatArray, candidates: FloatArray, weights: FloatArray | None = None
) -> NDArray[np.int64]:
    """Count values between K increasing candidates; NaN, which marks a missing value, is skipped.

    Entry 2k + 1 counts the values equal to candidate k, entry 2k those just below it. Values beyond
    the outermost candidates are clipped to them. With ``weights``, if there are entries, these are
    added up instead: whole numbers of at most 2^30, whose sums over a block are exact.

    *Privacy.* The counts are exact: they are for selections only.
    """
    totals = np.zeros(2 * candidates.size + 1, dtype=np.int64)
    values = np.asarray(values, dtype=np.float64)
    for start in range(0, values.size, COUNTED):
        block = values[start : start + COUNTED]
        given = ~np.isnan(block)
        present = np.clip(block[given], candidates[0], candidates[-1])
        if weights is None or not weights.size:  # sorting first is several times as fast
            present.sort()
            below = np.empty(2 * candidates.size, dtype=np.int64)
            below[::2] = np.searchsorted(present, candidates, side="left")
            below[1::2] = np.searchsorted(present, candidates, side="right")
            totals += np.diff(below, prepend=0, append=present.size)
        else:
            above = np.searchsorted(candidates, present)  # the first candidate >= the value
            cells = 2 * above + (candidates[above] == present)
            own = weights[start : start + COUNTED][given]
            totals += np.bincount(cells, own, minlength=totals.size).astype(np.int64)
    return totals


def norm_counts(data: RowData, candidates: FloatArray) -> Counts:
    """Count the norms of rows, without a constant feature, between public candidates."""
    values = cell_counts(data.norms(), candidates, data.weights * data.weight_unit)
    return Counts(values, data.weight_unit)


def column_counts(data: RowData, index: int, edges: FloatArray) -> Counts:
    """Count the numbers of a column, as they are stored, between public edges."""
    data.need_stored("a column")
    if not 0 <= index < data.n_features:
        raise ValueError(f"column must be from 0 to {data.n_features - 1}, not {index!r}.")
    values = cell_counts(data.table.column(index), edges, data.weights * data.weight_unit)
    return Counts(values, data.weight_unit)


def slope_counts(data: RowData, weights: FloatArray, loss: Loss, candidates: FloatArray) -> Counts:
    """Count the sizes of the loss's slopes at weights, between public candidates."""
    one_output(loss, "slopes")
    margins = data.margins_at(weights)
    with np.errstate(all="ignore"):
        sizes = np.abs(loss.derivative(margins, data.targets))
    values = cell_counts(sizes, candidates, data.weights * data.weight_unit)
    return Counts(values, data.weight_unit)
