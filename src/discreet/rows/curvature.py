"""Objectives and second derivatives on exact rows, for methods that minimise inside the curator.

Everything here is private. Most of it only steers an optimiser, so its rounding does not matter;
`perturbed_gradient` comes with a proven bound, which is what privacy rests on
(docs/proofs/objective_perturbation.md).
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations_with_replacement, product
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import NotSupported, PrivacyError
from discreet.objectives import Huber, Loss
from discreet.rows.affine import AffineMap
from discreet.rows.bounds import (
    BLOCK_ROWS,
    LARGEST_WEIGHTS,
    SMALLEST_SCALE,
    UNIT_ROUNDOFF,
    certificate_allowance,
    gamma,
    term_allowance,
)
from discreet.rows.data import Point, RowData
from discreet.rows.sums import Sum, gradient_sum, losses
from discreet.rows.table import KERNELS, PRODUCT_KERNELS, one_thread
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


def certified_sum(
    data: RowData, weights: ArrayLike, rest: ArrayLike | None, loss: Loss, clip: float
) -> Sum:
    """Sum the rows' gradients at ``weights + rest``; `perturbed_gradient` has the conditions.

    ``error`` bounds the distance from the sum of exact gradients: of real arithmetic on the doubles
    that are given, for rows that are the stored rows times their stored scales. It depends on
    public numbers and the norm of ``weights``, and is infinite if these are too large.
    """
    data.need_stored("a certified gradient")
    if (data.scales < SMALLEST_SCALE).any():
        raise PrivacyError("Gradients are certified for rows within reach only.")
    longest = float(data.norm_bounds.max(initial=0.0))
    if loss.curvature_bound is None or not loss.slope_bound * longest <= clip:
        raise PrivacyError("Rows are longer than the problem says; nothing was released.")
    at = vector("weights", weights, loss.n_outputs * data.n_parameters)
    rest = np.zeros(at.size) if rest is None else vector("rest", rest, at.size)
    size = float(np.linalg.norm(at))
    if not size <= LARGEST_WEIGHTS or not (np.abs(rest) <= 2 * UNIT_ROUNDOFF * np.abs(at)).all():
        return Sum(gradient_sum(replace(data), at, loss, clip).values, math.inf)
    # Margins in twice the working precision, rounded; for Huber's loss residuals, and targets 0.
    count, residuals = loss.n_outputs, type(loss) is Huber
    rows = replace(data, targets=np.zeros(data.n_rows) if residuals else data.targets)
    offsets = data.targets if residuals else np.empty(0)
    halves = zip(at.reshape(count, -1), rest.reshape(count, -1), strict=True)
    margins = [accurate_margins(data, large, small, offsets) for large, small in halves]
    rows.memory.point = Point(at, margins[0] if count == 1 else np.stack(margins, axis=1))
    return Sum(gradient_sum(rows, at, loss, clip).values, allowance(data, loss, clip, size, 0.0))


class Certifiable(Protocol):
    """Rows that add up certified gradients, in one place or in partitions."""

    def certified_sum(
        self, weights: FloatArray, rest: FloatArray | None, loss: Loss, clip: float
    ) -> Sum:
        """Sum the rows' gradients at ``weights + rest``."""


def perturbed_gradient(
    rows: Certifiable,
    weights: FloatArray,
    loss: Loss,
    clip: float,
    ridge: float,
    linear: FloatArray,
    rest: FloatArray | None = None,
) -> tuple[FloatArray, float]:
    """Return the gradient of Σℓ(w) + ridge/2·‖w‖² + linear·w, and a bound on its true norm.

    The loss has bounded slope and curvature. ``clip`` bounds the norm of every row's gradient, with
    some room: gradients are not clipped. With ``rest``, the gradient is that at ``weights + rest``,
    each at most a rounding of ``weights``: large weights need it. The bound is private. It is at
    least the norm of the exact gradient, exceeds the computed norm by an allowance that depends on
    public numbers and the norms of the three terms and of ``weights``, and is infinite if weights
    are too large to certify anything. For rows `within_reach` only.
    """
    values, error = rows.certified_sum(weights, rest, loss, clip)
    at = vector("weights", weights, values.size)
    gradient = (values + ridge * at) + linear
    if math.isinf(error):
        return gradient, math.inf
    if rest is not None:
        gradient += ridge * rest
    terms = [float(np.linalg.norm(term)) for term in (values, ridge * at, linear)]
    bound = float(np.linalg.norm(gradient)) + error + term_allowance(sum(terms))
    bound *= 1 + 2 * gamma(at.size + 16)
    return gradient, bound if math.isfinite(bound) else math.inf


def allowance(data: RowData, loss: Loss, clip: float, weights: float, terms: float) -> float:
    """Bound the rounding of a gradient, from public numbers and the sizes that are given."""
    table: Any = {"n_features": data.n_features, "block_rows": data.table.block_rows}
    table |= {"size": data.public_size, "clip": clip}
    return certificate_allowance(loss, weights=weights, terms=terms, **table)


def accurate_margins(
    data: RowData, weights: FloatArray, rest: FloatArray, offsets: FloatArray
) -> FloatArray:
    """Return the margins at ``weights + rest``, less offsets if there are any, rounded once."""
    large = np.ascontiguousarray(weights[: data.n_features])
    small = np.ascontiguousarray(rest[: data.n_features])
    constants = (weights[-1], rest[-1]) if data.fit_intercept else (0.0, 0.0)
    totals, errors, out = np.empty((3, data.n_rows))
    numbers, table = (large, small), data.table
    table.each(
        lambda at: PRODUCT_KERNELS.accurate_products(
            table.block(at), *numbers, totals[at], errors[at]
        )
    )
    PRODUCT_KERNELS.accurate_margins(totals, errors, data.scales, *constants, offsets, out)
    return out
