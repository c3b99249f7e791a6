"""Compiled loops of gradient descent over small batches. Import this when a loop is about to run.

What a row contributes to a batch's sum is computed from that row, the weights and public arguments
alone, by the operations of ``discreet.rows.kernels`` and ``loss_kernels`` in the same order: see
docs/proofs/summation.md. With noise, everything after the noisy sum is computed from it alone.
"""

import math

import numpy as np
from numba import njit

from discreet.rows.kernels import OPTIONS, _eight_sums
from discreet.rows.loss_kernels import clipped_slopes


@njit(**OPTIONS)
def dense_margins(table, rows, weights, scales, intercept, out):
    """Write the margins of the named rows to out; table is C-contiguous float64."""
    n_columns = table.shape[1]
    whole = n_columns - n_columns % 8
    for k in range(rows.size):
        i = rows[k]
        a0, a1, a2, a3, a4, a5, a6, a7 = _eight_sums(table, i * n_columns, weights, whole // 8)
        for j in range(whole, n_columns):
            a0 += table[i, j] * weights[j]
        margin = ((a0 + a1) + (a2 + a3)) + ((a4 + a5) + (a6 + a7))
        if scales.size > 0:
            margin *= scales[i]
        out[k] = margin + weights[n_columns] if intercept else margin


@njit(**OPTIONS)
def dense_sum(table, rows, coefficients, out):
    """Add coefficients @ table[rows] to out."""
    n_columns = table.shape[1]
    for k in range(rows.size):
        row, factor = table[rows[k]], coefficients[k]
        for j in range(n_columns):
            out[j] += factor * row[j]


@njit(**OPTIONS)
def sparse_margins(indptr, indices, data, rows, weights, n_columns, scales, intercept, out):
    """Write the margins of the named rows to out, for X in CSR."""
    for k in range(rows.size):
        i = rows[k]
        row = slice(indptr[i], indptr[i + 1])
        columns, values = indices[row], data[row]
        whole = columns.size - columns.size % 4
        a0 = a1 = a2 = a3 = 0.0
        for e in range(0, whole, 4):  # unsigned: an index is not counted from the end
            a0 += values[e] * weights[np.uint64(columns[e])]
            a1 += values[e + 1] * weights[np.uint64(columns[e + 1])]
            a2 += values[e + 2] * weights[np.uint64(columns[e + 2])]
            a3 += values[e + 3] * weights[np.uint64(columns[e + 3])]
        for e in range(whole, columns.size):
            a0 += values[e] * weights[np.uint64(columns[e])]
        margin = (a0 + a1) + (a2 + a3)
        if scales.size > 0:
            margin *= scales[i]
        out[k] = margin + weights[n_columns] if intercept else margin


@njit(**OPTIONS)
def sparse_sum(indptr, indices, data, rows, coefficients, out):
    """Add coefficients @ X[rows] to out, for X in CSR."""
    for k in range(rows.size):
        factor = coefficients[k]
        row = slice(indptr[rows[k]], indptr[rows[k] + 1])
        columns, values = indices[row], data[row]
        for e in range(columns.size):
            out[np.uint64(columns[e])] += factor * values[e]


@njit(**OPTIONS)
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
    factors = work[2, : b if scales.size > 0 else 0]
    return clipped_slopes(code, parameter, margins, work[0], work[1], factors, clip, out)


@njit(**OPTIONS)
def take_step(total, noise, grid, magnitude, batch, step, alpha, radius, weights, path):
    """Move the weights by a batch's sum, which is made noisy on its grid if there is noise.

    ``grid`` is (2^-grid, 2^grid). ``path`` collects the sum of the weights, if it has room.
    """
    size = weights.size
    if noise.size > 0:
        for j in range(size):
            value = min(max(total[j], -magnitude), magnitude)
            integer = np.int64(np.rint(value * grid[0])) + noise[j]
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


@njit(**OPTIONS)
def dense_descent(
    table,
    targets,
    norms,
    scales,
    order,
    code,
    parameter,
    clip,
    steps,
    alpha,
    radius,
    noise,
    grid,
    magnitude,
    intercept,
    weights,
    path,
):
    """Descend over the batches that are the rows of ``order``; ``weights`` are moved in place."""
    b = order.shape[1]
    margins, factors, work = np.empty(b), np.empty(b), np.empty((3, b))
    total = np.empty(weights.size)
    for t in range(order.shape[0]):
        rows = order[t]
        dense_margins(table, rows, weights, scales, intercept, margins)
        constant = batch_slopes(
            code, parameter, margins, rows, targets, norms, scales, clip, work, factors
        )
        total[:] = 0.0
        dense_sum(table, rows, factors, total)
        if intercept:
            total[-1] = constant
        drawn = noise[t] if noise.shape[0] > 0 else noise[:0].ravel()
        take_step(total, drawn, grid, magnitude, b, steps[t], alpha, radius, weights, path)


@njit(**OPTIONS)
def sparse_descent(
    indptr,
    indices,
    data,
    n_columns,
    targets,
    norms,
    scales,
    order,
    code,
    parameter,
    clip,
    steps,
    alpha,
    radius,
    noise,
    grid,
    magnitude,
    intercept,
    weights,
    path,
):
    """Descend as `dense_descent` does, for X in CSR."""
    b = order.shape[1]
    margins, factors, work = np.empty(b), np.empty(b), np.empty((3, b))
    total = np.empty(weights.size)
    for t in range(order.shape[0]):
        rows = order[t]
        sparse_margins(indptr, indices, data, rows, weights, n_columns, scales, intercept, margins)
        constant = batch_slopes(
            code, parameter, margins, rows, targets, norms, scales, clip, work, factors
        )
        total[:] = 0.0
        sparse_sum(indptr, indices, data, rows, factors, total)
        if intercept:
            total[-1] = constant
        drawn = noise[t] if noise.shape[0] > 0 else noise[:0].ravel()
        take_step(total, drawn, grid, magnitude, b, steps[t], alpha, radius, weights, path)
