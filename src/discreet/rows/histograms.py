"""Counts of the binary exponents of each column's entries: the sizes of numbers, in any unit.

Entry x of a column is in the cell of e where 2^(e−1) ≤ |x| < 2^e; exponents beyond the outermost
cells count as these. Entries of exactly 1 or −1 have a cell of their own (indicators of categories
are recognised by it), and zeros count nowhere. Each row adds at most 1 to one cell per column.
Counts are integers below 2^53, so sums of them are exact.

Proof: docs/proofs/preparation.md.
"""

from __future__ import annotations

import numpy as np

from discreet.rows.bounds import EXPONENTS
from discreet.rows.data import RowData
from discreet.rows.sparse import SparseTable
from discreet.rows.sums import Sum
from discreet.rows.table import KERNELS, read_only, sum_blocks
from discreet.validate import FloatArray


def exponent_counts(data: RowData) -> Sum:
    """Count the entries of mapped rows by column and binary exponent, as one vector.

    Column j has the m + 1 entries of ``values`` from j·(m + 1): m exponents from the first one on,
    then ±1. Rows are not clipped for it; a map's clip comes first.

    *Privacy.* The contract of ``Sum`` with c_i a vector of zeros and ones, at most one 1 per
    column: ‖c_i‖₂² ≤ n_features, and two such vectors differ by at most √(2·n_features). The sum
    is exact: its error is 0.
    """
    first, last = EXPONENTS
    cells = last - first + 2
    table, width = data.table, data.n_features
    stored = table if isinstance(table, SparseTable) and data.map.is_identity else None

    def block_sum(start: int, stop: int) -> FloatArray:
        counts = np.zeros((width, cells), dtype=np.int64)
        if stored is not None:
            at = slice(stored.indptr[start], stored.indptr[stop])
            KERNELS.count_sparse_exponents(stored.data[at], stored.indices[at], first, last, counts)
        else:
            for _, tile in data.tiles(start, stop):
                KERNELS.count_dense_exponents(read_only(tile), first, last, counts)
        return counts.ravel().astype(np.float64)

    size = (data.n_rows, table.n_entries, table.block_rows)
    return Sum(sum_blocks(block_sum, width * cells, *size), 0.0)
