"""Objectives and second derivatives on exact rows, which steer an optimiser inside the curator.

Everything here is private, and no promise rests on it: what an optimiser finds is released only if
`discreet.rows.certified` certifies its gradient, or by a baseline that promises nothing.
"""

from __future__ import annotations

from itertools import combinations_with_replacement, product

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import NotSupported
from discreet.objectives import Loss
from discreet.rows.affine import AffineMap
from discreet.rows.bounds import BLOCK_ROWS
from discreet.rows.data import RowData
from discreet.rows.sums import losses
from discreet.rows.table import KERNELS, one_thread
from discreet.validate import FloatArray, vector


def _curvatures(data: RowData, margins: FloatArray, loss: Loss, at: slice) -> FloatArray:
    """Return the second derivatives of rows at their margins, K × K each, times their weights."""
    found = np.asarray(loss.second_derivative(margins[at], data.targets[at]))
    return data.weighted(at, found.reshape(-1, loss.n_outputs, loss.n_outputs))


def objective_sum(data: RowData, weights: ArrayLike, loss: Loss) -> float:
    """Return the sum of the rows' losses at ``weights``; not clipped, without the penalty."""
    margins = data.margins_at(weights, loss.n_outputs)

    def block_sum(at: slice) -> FloatArray:
        with np.errstate(all="ignore"):
            values = losses(loss, margins[at], data.targets[at])
            return np.array([data.weighted(at, values).sum()])

    return float(data.total(block_sum, 1, block_rows=BLOCK_ROWS)[0])


def hessian_sum(data: RowData, weights: ArrayLike, loss: Loss) -> FloatArray:
    """Return the sum of the rows' Hessians, a square matrix; dense tables only."""
    data.need_stored("a sum of Hessians")
    if not data.table.dense:
        raise NotSupported("a sum of Hessians needs a dense table; use hessian_product.")
    count, size = loss.n_outputs, data.n_parameters
    margins = data.margins_at(weights, count)
    shape, pairs = (count, size, count, size), list(combinations_with_replacement(range(count), 2))

    def block_sum(at: slice) -> FloatArray:
        total = np.zeros(shape)
        for some, tile in data.tiles(at):
            rows, bends = np.ones((len(tile), size)), _curvatures(data, margins, loss, some)
            scales = data.scales[some, None] if data.scales.size else 1.0
            np.multiply(tile, scales, out=rows[:, : data.n_features])
            for k, other in pairs:
                factors = bends[:, k, other]
                sign = 1.0 if factors.min(initial=0.0) >= 0.0 else -1.0
                if (sign * factors).min(initial=0.0) < 0.0:
                    total[k, :, other] += (rows * factors[:, None]).T @ rows
                else:  # by a product that is symmetric
                    weighted = rows * np.sqrt(np.abs(factors))[:, None]
                    total[k, :, other] += sign * (weighted.T @ weighted)
        return total

    with one_thread():
        entries = data.table.n_entries * size
        total = data.total(block_sum, shape, entries=entries, block_rows=BLOCK_ROWS)
    for k, other in pairs:
        total[other, :, k] = total[k, :, other].T
    return total.reshape(count * size, count * size)


def hessian_product(
    data: RowData, weights: ArrayLike, loss: Loss, direction: ArrayLike
) -> FloatArray:
    """Return the sum of the rows' Hessians times a vector, without forming a matrix."""
    data.need_stored("a product with Hessians")
    count = loss.n_outputs
    margins = data.margins_at(weights, count)
    along = vector("vector", direction, count * data.n_parameters)
    changes = data.computed_margins(along, count).reshape(-1, count)
    shape = (count, data.n_features + 1)

    def block_sum(at: slice) -> FloatArray:
        bends, values = _curvatures(data, margins, loss, at), np.zeros(shape)
        factors = np.einsum("ikl,il->ki", bends, changes[at])
        KERNELS.output_add(data.table.block(at), data.scales[at], factors, values)
        return values

    return data.total(block_sum, shape)[:, : data.n_parameters].ravel()


def hessian_diagonal(data: RowData, weights: ArrayLike, loss: Loss) -> FloatArray:
    """Return the diagonal of the sum of the rows' Hessians."""
    data.need_stored("a diagonal of Hessians")
    margins, shape = data.margins_at(weights, loss.n_outputs), (loss.n_outputs, data.n_parameters)
    same = AffineMap.to_norm(np.inf, data.n_features)

    def block_sum(at: slice) -> FloatArray:
        values, bends = np.zeros(shape), _curvatures(data, margins, loss, at)
        scales = data.scales[at] if data.scales.size else np.ones(len(bends))
        for (k, bend), sign in product(enumerate(np.einsum("ikk->ki", bends)), (1.0, -1.0)):
            roots = np.sqrt(np.maximum(sign * bend, 0.0))
            if roots.any():  # of convex losses, for one sign only
                squares = data.table.squares(at, scales, same, roots)
                values[k, : data.n_features] += sign * squares
                values[k, data.n_features :] += sign * (roots @ roots)
        return values

    return data.total(block_sum, shape).ravel()
