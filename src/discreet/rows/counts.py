"""Exact counts of numbers between public candidates: norms of rows, a column, sizes of slopes.

Counts are integers, so that counts of blocks add up without rounding. They are for private
selections, which score the candidates by them (`discreet.core.ranges`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.objectives import Loss
from discreet.rows.data import RowData
from discreet.rows.sums import one_output
from discreet.validate import FloatArray

COUNTED = 2**16
"""Number of values that are counted at a time: sums of their weights are exact in a double."""


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
