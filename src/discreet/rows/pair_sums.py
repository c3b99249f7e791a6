"""Scores of pairs of columns: how far residuals add up in the cells of two columns together.

The rows have cells in place of features, whole numbers from 0, and residuals in place of targets:
one each, or several, one for each output of a model. They are clipped to [−1, 1], scaled down where
the sum of their sizes is above 1, and multiplied by the row's weight w. All of it is added up in
integers, so the sums of a table are exact. Proof: docs/proofs/pairs.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.rows.bounds import UNIT_ROUNDOFF, WEIGHT_STEPS
from discreet.rows.data import RowData
from discreet.rows.moments import Counts
from discreet.rows.sums import Sum
from discreet.rows.table import blocks
from discreet.validate import FloatArray

COUNTED = 2**20
"""Rows of a block: their parts, of size at most 2^30, add up in doubles without rounding."""

MOST_OUTPUTS = 2**16
"""Residuals of a row: with fewer than 2^20, their rounding adds up to less than one step."""

LARGEST_SIZE = 2**30
"""Public bound on the number of units: their parts add up in integers of 64 bits."""


def pair_sums(
    data: RowData, cells: Sequence[NDArray[np.intp]], pairs: Sequence[tuple[int, int]]
) -> Counts:
    """Compute Σ w·r over the rows in each cell, for each pair and output: exact integers over 2^30.

    Entry v of ``cells[j]`` is the cell of the value v in column j; other values count as the
    nearest that has one.

    *Privacy.* A unit's parts w·r are of size at most 1 in all, and those of a row in one cell.
    So a unit that is added or removed moves the sums of each pair by at most 1 in the L1 norm.
    """
    targets = data.targets if data.targets.ndim == 2 else data.targets[:, None]
    if targets.shape[1] > MOST_OUTPUTS:
        raise ValueError(f"pairs are scored by at most {MOST_OUTPUTS} residuals of a row.")
    with np.errstate(all="ignore"):  # a warning about one row would be about that row
        residuals = np.nan_to_num(np.clip(targets, -1.0, 1.0), nan=0.0)
    residuals /= np.maximum(np.abs(residuals).sum(axis=1, keepdims=True), 1.0)
    weights = data.weights[:, None] if data.weights.size else 1.0
    parts = np.asfortranarray(np.trunc(residuals * weights * WEIGHT_STEPS))
    places: list[Any] = []
    for j, known in enumerate(cells):
        seen = np.clip(data.table.column(j), 0, len(known) - 1).astype(np.intp)
        places.append(np.asarray(known, dtype=np.int32)[seen])
    counts = [int(max(known)) + 1 for known in cells]
    sums: list[NDArray[np.int64]] = []
    for first, second in pairs:
        found = np.zeros((parts.shape[1], counts[first] * counts[second]), dtype=np.int64)
        for at in blocks(slice(0, data.n_rows), COUNTED):
            both = places[first][at] * np.int32(counts[second]) + places[second][at]
            for k, own in enumerate(found):
                own += np.bincount(both, parts[at, k], own.size).astype(np.int64)
        sums.append(found.ravel())
    return Counts(np.concatenate(sums), WEIGHT_STEPS)


def pair_scores(
    sums: Counts, cells: Sequence[NDArray[np.intp]], pairs: Sequence[tuple[int, int]]
) -> Sum:
    """Add up the sizes of the sums of each pair: its score, rounded by ``error`` at most, in all.

    *Privacy.* A unit moves each score by at most 1 under add/remove, 2 under replace.
    """
    counts = [int(max(known)) + 1 for known in cells]
    sizes = [counts[first] * counts[second] for first, second in pairs]
    starts = np.cumsum([0, *sizes[:-1]]) * (sums.values.size // sum(sizes))
    values: FloatArray = np.add.reduceat(np.abs(sums.values), starts) / WEIGHT_STEPS
    return Sum(values, math.sqrt(len(pairs)) * LARGEST_SIZE * UNIT_ROUNDOFF)
