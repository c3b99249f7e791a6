"""Compiled loops over rows that are moved by public numbers. Import when a loop runs.

As in ``discreet.rows.kernels``, what a row becomes is computed from that row and public arguments
alone, to the last bit.
"""

import numpy as np
from numba import njit

from discreet.rows.kernels import OPTIONS


@njit(**OPTIONS)
def move_rows(rows, scales, factors, offset, out):
    """Write factors·(scale·x) − offset to out, row by row."""
    for i in range(rows.shape[0]):
        scale = scales[i]
        for j in range(rows.shape[1]):
            out[i, j] = factors[j] * (scale * rows[i, j]) - offset[j]


@njit(**OPTIONS)
def sparse_lengths(indptr, indices, data, scales, factors, offset, square, start, stop, out):
    """Write the squared lengths of moved rows start to stop of a CSR matrix, not below 0.

    ``square`` is that of the offset. Columns without an entry are left at minus the offset, so only
    entries change it.
    """
    for i in range(start, stop):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            j = np.uint64(indices[k])
            value = factors[j] * (scales[i] * data[k]) - offset[j]
            total += value * value - offset[j] * offset[j]
        out[i] = max(square + total, 0.0)


@njit(**OPTIONS)
def sparse_squares(indptr, indices, data, scales, factors, offset, row_factors, start, stop, out):
    """Add to out, column by column, by how much entries change the squares of moved rows.

    Each row is multiplied by its row factor before squaring.
    """
    for i in range(start, stop):
        weight = row_factors[i] * row_factors[i]
        for k in range(indptr[i], indptr[i + 1]):
            j = np.uint64(indices[k])
            value = factors[j] * (scales[i] * data[k]) - offset[j]
            out[j] += weight * (value * value - offset[j] * offset[j])
