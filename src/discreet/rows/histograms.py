"""Counts of the binary exponents of each column's entries: the sizes of numbers, in any unit.

Entry x of a column is in the cell of e where 2^(e−1) ≤ |x| < 2^e; exponents beyond the outermost
cells count as these. Entries of exactly 1 or −1 have a cell of their own (indicators of categories
are recognised by it), and zeros count nowhere.

Proof: docs/proofs/preparation.md.
"""

from __future__ import annotations

import math

import numpy as np

from discreet.rows.affine import read_only
from discreet.rows.bounds import EXPONENTS, WEIGHT_STEPS, gradient_error
from discreet.rows.data import RowData
from discreet.rows.sparse import SparseTable
from discreet.rows.sums import Sum
from discreet.rows.table import KERNELS, in_parts


def exponent_counts(data: RowData) -> Sum:
    """Count the entries of mapped rows by column and binary exponent, as one vector.

    Column j has the m + 1 entries of ``values`` from j·(m + 1): m exponents from the first one on,
    then ±1. Rows are not clipped for it; a map's clip comes first.

    *Privacy.* The contract of ``Sum``: of each column, a row adds its weight to one cell at most.
    Units whose weights add up to 1 add a vector of norm at most 1 per column, so of norm
    √n_features, and two such vectors differ by at most √(2·n_features). Integers are summed, and
    divided at the end: the error is that of adding up partitions.
    """
    first, last = EXPONENTS
    table, shape = data.table, (data.n_features, last - first + 2)
    stored = table if isinstance(table, SparseTable) and data.map.is_identity else None
    weights = (data.weights * WEIGHT_STEPS).astype(np.int64)

    def part(start: int, stop: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        counts = np.zeros(shape, dtype=np.int64)
        if stored is not None:
            own = read_only(weights[start:stop])
            KERNELS.count_sparse_exponents(*stored.block(start, stop), own, first, last, counts)
            return counts
        for row, tile in data.tiles(start, stop):
            own = read_only(weights[row : row + len(tile)])
            KERNELS.count_dense_exponents(read_only(tile), own, first, last, counts)
        return counts

    parts = in_parts(part, data.n_rows, table.n_entries, table.block_rows)
    values = sum(parts, start=np.zeros(shape, dtype=np.int64)).ravel()
    unit = WEIGHT_STEPS if weights.size else 1
    return Sum(values / unit, gradient_error(data.public_size, 1, math.sqrt(data.n_features)))
