"""Compiled loops for moments of rows, and for rows that are moved. Import when a loop runs.

As in ``discreet.rows.kernels``, what a row becomes is computed from that row and public arguments
alone, to the last bit: a matrix product by BLAS would round a row by where it stands.
"""

import numpy as np
from numba import njit

from discreet.rows.kernels import OPTIONS, dense_products


@njit(**OPTIONS)
def sparse_outer_add(indptr, indices, data, scales, start, stop, out):
    """Add the upper triangles of yyᵀ, y = scale·x, of rows start to stop of a CSR matrix to out."""
    buffer = np.empty(out.shape[0])
    for i in range(start, stop):
        row = slice(indptr[i], indptr[i + 1])
        columns, values = indices[row], data[row]
        for a in range(columns.size):
            buffer[a] = scales[i] * values[a]
        for a in range(columns.size):
            target, factor = out[np.uint64(columns[a])], buffer[a]
            for b in range(a, columns.size):
                target[np.uint64(columns[b])] += factor * buffer[b]


@njit(**OPTIONS)
def dense_square_add(rows, scales, out):
    """Add the squares of the entries of scale·x to out, over rows."""
    for i in range(rows.shape[0]):
        row, scale = rows[i], scales[i]
        for j in range(row.size):
            value = scale * row[j]
            out[j] += value * value


@njit(**OPTIONS)
def sparse_square_add(indptr, indices, data, scales, start, stop, out):
    """Add the squares of the entries of scale·x to out, over rows start to stop of a CSR matrix."""
    for i in range(start, stop):
        row = slice(indptr[i], indptr[i + 1])
        columns, values = indices[row], data[row]
        for k in range(columns.size):
            value = scales[i] * values[k]
            out[np.uint64(columns[k])] += value * value


@njit(**OPTIONS)
def shift_rows(rows, scales, shift, out):
    """Write scale·x − shift to out, row by row; out may be rows."""
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            out[i, j] = scales[i] * rows[i, j] - shift[j]


@njit(**OPTIONS)
def turn_rows(rows, scales, matrix, out):
    """Write matrix @ (scale·x) to out, row by row; out may be rows."""
    n_columns = rows.shape[1]
    scaled, turned = np.empty(n_columns), np.empty(matrix.shape[0])
    for i in range(rows.shape[0]):
        for j in range(n_columns):
            scaled[j] = scales[i] * rows[i, j]
        dense_products(matrix, scaled, turned)
        for j in range(turned.size):
            out[i, j] = turned[j]
