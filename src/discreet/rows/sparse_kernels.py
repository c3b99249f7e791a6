# mypy: ignore-errors
"""Compiled loops over the rows of a CSR matrix, with the property stated in ``kernels.py``."""

import numpy as np

from discreet.objectives.compile import inlined, kernel
from discreet.rows.bounds import SMALLEST_NORM
from discreet.rows.kernels import safe_norm


@inlined
def sparse_product(columns, values, vector):
    """Return the product of a sparse row with a vector."""
    whole = columns.size - columns.size % 4
    a0 = a1 = a2 = a3 = 0.0
    for k in range(0, whole, 4):  # unsigned: an index is not counted from the end
        a0 += values[k] * vector[np.uint64(columns[k])]
        a1 += values[k + 1] * vector[np.uint64(columns[k + 1])]
        a2 += values[k + 2] * vector[np.uint64(columns[k + 2])]
        a3 += values[k + 3] * vector[np.uint64(columns[k + 3])]
    for k in range(whole, columns.size):
        a0 += values[k] * vector[np.uint64(columns[k])]
    return (a0 + a1) + (a2 + a3)


@kernel
def sparse_products(indptr, indices, data, vector, out):
    """Write X @ vector to out, for X in CSR."""
    for i in range(out.size):
        row = slice(indptr[i], indptr[i + 1])
        out[i] = sparse_product(indices[row], data[row], vector)


@kernel
def few_products(indptr, indices, data, vector, used, out):
    """Write X @ vector to out, for X in CSR and a vector that is zero where ``used`` is.

    Values of other columns are not read, which is most of the memory of X.
    """
    for i in range(out.size):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            column = np.uint64(indices[k])
            if used[column]:
                total += data[k] * vector[column]
        out[i] = total


@kernel
def sparse_add(indptr, indices, data, coefficients, out):
    """Add coefficients @ X to out, for X in CSR."""
    for i in range(coefficients.size):
        factor = coefficients[i]
        row = slice(indptr[i], indptr[i + 1])
        columns, values = indices[row], data[row]
        for k in range(columns.size):
            out[np.uint64(columns[k])] += factor * values[k]


@kernel
def sparse_shape(indptr, indices, n_columns, n_stored):
    """Return 0 for a canonical CSR, 1 for unsorted or repeated entries, 2 for an invalid one."""
    if indptr[0] != 0 or indptr[-1] > n_stored:
        return 2
    verdict = 0
    for i in range(indptr.size - 1):
        if indptr[i] > indptr[i + 1]:
            return 2
    for i in range(indptr.size - 1):
        before = -1
        for k in range(indptr[i], indptr[i + 1]):
            if indices[k] < 0 or indices[k] >= n_columns:
                return 2
            if indices[k] <= before:
                verdict = 1
            before = indices[k]
    return verdict


@kernel
def sparse_norms(indptr, data, inflation, out):
    """Write upper bounds on the norms of rows to out; return whether all entries are finite."""
    finite = True
    for i in range(out.size):
        norm, good = safe_norm(data[indptr[i] : indptr[i + 1]])
        finite = finite and good
        bound = norm * inflation
        out[i] = bound if bound > SMALLEST_NORM else SMALLEST_NORM
    return finite


@kernel
def sparse_mapped_norms(indptr, indices, data, scales, factors, offset, square, out):
    """Write the squared norms of the mapped rows of a CSR matrix, not below 0.

    ``square`` is that of the offset. Columns without an entry are left at minus the offset, so only
    entries change it.
    """
    for i in range(scales.size):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            j = np.uint64(indices[k])
            value = factors[j] * (scales[i] * data[k]) - offset[j]
            total += value * value - offset[j] * offset[j]
        out[i] = max(square + total, 0.0)


@kernel
def sparse_squares(indptr, indices, data, scales, factors, offset, row_factors, out):
    """Add to out, column by column, by how much entries change the squares of mapped rows.

    Each row is multiplied by its row factor before squaring.
    """
    for i in range(scales.size):
        weight = row_factors[i] * row_factors[i]
        for k in range(indptr[i], indptr[i + 1]):
            j = np.uint64(indices[k])
            value = factors[j] * (scales[i] * data[k]) - offset[j]
            out[j] += weight * (value * value - offset[j] * offset[j])


@kernel
def sparse_outer_add(indptr, indices, data, scales, out):
    """Add the upper triangles of yyᵀ, y = scale·x, of the rows of a CSR matrix to out."""
    buffer = np.empty(out.shape[0])
    for i in range(scales.size):
        row = slice(indptr[i], indptr[i + 1])
        columns, values = indices[row], data[row]
        for a in range(columns.size):
            buffer[a] = scales[i] * values[a]
        for a in range(columns.size):
            target, factor = out[np.uint64(columns[a])], buffer[a]
            for b in range(a, columns.size):
                target[np.uint64(columns[b])] += factor * buffer[b]


@kernel
def sparse_largest(indptr, data, out):
    """Write the largest absolute entry of each row to out, for X in CSR."""
    for i in range(out.size):
        largest = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            largest = max(largest, abs(np.float64(data[k])))
        out[i] = largest
