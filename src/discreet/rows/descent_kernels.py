# mypy: ignore-errors
"""Compiled loops of gradient descent over small batches.

What a row contributes to a batch's sum is computed from that row, the weights and public arguments
alone, by the operations of ``discreet.rows.kernels`` and ``sparse_kernels`` in the same order: see
docs/proofs/summation.md. With noise, everything after the noisy sum is computed from it alone.
"""

import math

import numpy as np

from discreet.objectives.compile import kernel
from discreet.objectives.kernels import slopes
from discreet.rows.kernels import clip_slopes, dense_product
from discreet.rows.sparse_kernels import sparse_product


@kernel
def dense_margins(table, rows, weights, scales, intercept, out):
    """Write the margins of the named rows to out; table is C-contiguous float64."""
    for k in range(rows.size):
        margin = dense_product(table, rows[k], weights)
        if scales.size > 0:
            margin *= scales[rows[k]]
        out[k] = margin + weights[table.shape[1]] if intercept else margin


@kernel
def dense_sum(table, rows, coefficients, out):
    """Add coefficients @ table[rows] to out."""
    n_columns = table.shape[1]
    for k in range(rows.size):
        row, factor = table[rows[k]], coefficients[k]
        for j in range(n_columns):
            out[j] += factor * row[j]


@kernel
def sparse_margins(indptr, indices, data, rows, weights, n_columns, scales, intercept, out):
    """Write the margins of the named rows to out, for X in CSR."""
    for k in range(rows.size):
        i = rows[k]
        margin = sparse_product(indices[indptr[i] : indptr[i + 1]], data[indptr[i] :], weights)
        if scales.size > 0:
            margin *= scales[i]
        out[k] = margin + weights[n_columns] if intercept else margin


@kernel
def sparse_sum(indptr, indices, data, rows, coefficients, out):
    """Add coefficients @ X[rows] to out, for X in CSR."""
    for k in range(rows.size):
        factor = coefficients[k]
        row = slice(indptr[rows[k]], indptr[rows[k] + 1])
        columns, values = indices[row], data[row]
        for e in range(columns.size):
            out[np.uint64(columns[e])] += factor * values[e]


@kernel
def batch_slopes(code, parameter, margins, rows, targets, norms, scales, clip, work, out):
    """Write the factors of the named rows in their clipped gradients; return the intercept's sum.

    ``work`` has three rows of room for what belongs to these rows.
    """
    b = rows.size
    for k in range(b):
        work[0, k] = targets[rows[k]]
        work[1, k] = norms[rows[k]]
    if scales.size > 0:
        for k in range(b):
            work[2, k] = scales[rows[k]]
    slopes(code, parameter, margins, work[0], out)
    return clip_slopes(work[1], work[2, : b if scales.size > 0 else 0], work[2, :0], clip, out)


@kernel
def take_step(total, noise, t, grid, magnitude, batch, step, alpha, radius, weights, path):
    """Move the weights by a batch's sum, which is made noisy on its grid if there is noise.

    ``noise[t]`` belongs to this sum, and ``grid`` is (2^-grid, 2^grid). ``path`` collects the sum
    of the weights.
    """
    size = weights.size
    if noise.shape[0] > 0:
        for j in range(size):
            value = min(max(total[j], -magnitude), magnitude)
            integer = np.int64(np.rint(value * grid[0])) + noise[t, j]
            total[j] = np.float64(integer) * grid[1]
    for j in range(size):
        weights[j] -= step * (total[j] / batch + alpha * weights[j])
    if radius < math.inf:
        squares = 0.0
        for j in range(size):
            squares += weights[j] * weights[j]
        norm = math.sqrt(squares)
        if norm > radius:
            for j in range(size):
                weights[j] *= radius / norm
    for j in range(path.size):
        path[j] += weights[j]


@kernel
def descent(table, arrays, order, loss, numbers, path):
    """Descend over the batches that are the rows of ``order``; weights are updated in place.

    ``table`` has the array of X, or those of a CSR matrix and its number of columns (one branch of
    each ``if`` is compiled); ``arrays`` are (targets, norms, scales), ``loss`` is (code,
    parameter), ``numbers`` are public, ``path`` has the weights and their sum.
    """
    targets, norms, scales = arrays
    code, parameter = loss
    clip, steps, alpha, radius, noise, grid, magnitude, intercept = numbers
    weights, sums = path
    b = order.shape[1]
    margins, factors, work = np.empty(b), np.empty(b), np.empty((3, b))
    total = np.empty(weights.size)
    for t in range(order.shape[0]):
        rows = order[t]
        if len(table) == 1:
            dense_margins(table[0], rows, weights, scales, intercept, margins)
        else:
            indptr, indices, data, n_columns = table
            sparse_margins(
                indptr, indices, data, rows, weights, n_columns, scales, intercept, margins
            )
        constant = batch_slopes(
            code, parameter, margins, rows, targets, norms, scales, clip, work, factors
        )
        total[:] = 0.0
        if len(table) == 1:
            dense_sum(table[0], rows, factors, total)
        else:
            sparse_sum(indptr, indices, data, rows, factors, total)
        if intercept:
            total[-1] = constant
        take_step(total, noise, t, grid, magnitude, b, steps[t], alpha, radius, weights, sums)
