"""Scores of pairs of columns: how far residuals add up in the cells of two columns together.

The rows have cells in place of features, whole numbers from 0, and residuals in place of targets. A
residual r counts as its nearest number in [−1, 1], times the row's weight w. All of it is added up
in integers, so the sums of a table are exact. Proof: docs/proofs/pairs.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.rows.bounds import UNIT_ROUNDOFF, WEIGHT_STEPS
from discreet.rows.data import RowData
from discreet.rows.sums import Sum
from discreet.rows.table import blocks
from discreet.validate import FloatArray

COUNTED = 2**20
"""Rows of a block: their parts, of size at most 2^30, add up in doubles without rounding."""

LARGEST_SIZE = 2**32
"""Public bound on the number of units: their parts add up in integers of 64 bits."""


def pair_scores(
    data: RowData, cells: Sequence[NDArray[np.intp]], pairs: Sequence[tuple[int, int]]
) -> Sum:
    """Compute Σ over cells of |Σ w·r over the rows in the cell|, for each pair of columns.

    Entry v of ``cells[j]`` is the cell of the value v in column j; other values count as the
    nearest that has one.

    *Privacy.* A unit's parts w·r are of size at most 1 in all, and each is in one cell of a pair.
    So a unit that is added or removed moves each score by at most 1, one that is replaced by at
    most 2. The scores are integers over 2^30, which are rounded once: by ``error`` at most, in all.
    """
    with np.errstate(all="ignore"):  # a warning about one row would be about that row
        residuals = np.nan_to_num(np.clip(data.targets, -1.0, 1.0), nan=0.0)
    own = data.weights if data.weights.size else 1.0
    parts = np.trunc(residuals * own * WEIGHT_STEPS)
    places: list[Any] = []
    for j, known in enumerate(cells):
        seen = np.clip(data.table.column(j), 0, len(known) - 1).astype(np.intp)
        places.append(np.asarray(known, dtype=np.int32)[seen])
    counts = [int(max(known)) + 1 for known in cells]
    totals: list[Any] = []
    for first, second in pairs:
        found = np.zeros(counts[first] * counts[second], dtype=np.int64)
        for at in blocks(slice(0, data.n_rows), COUNTED):
            both = places[first][at] * np.int32(counts[second]) + places[second][at]
            found += np.bincount(both, parts[at], found.size).astype(np.int64)
        totals.append(np.abs(found).sum())
    values: FloatArray = np.array(totals, dtype=np.float64) / WEIGHT_STEPS
    error = math.sqrt(len(pairs)) * (data.public_size + 1) * UNIT_ROUNDOFF
    return Sum(values, error)
