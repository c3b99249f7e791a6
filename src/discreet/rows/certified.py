"""Gradients on exact rows with a proven bound on their rounding, which certificates rest on.

Everything here is private. Proof: docs/proofs/objective_perturbation.md.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import PrivacyError
from discreet.objectives import Huber, Loss
from discreet.rows.bounds import (
    LARGEST_WEIGHTS,
    SMALLEST_SCALE,
    UNIT_ROUNDOFF,
    certificate_allowance,
    gamma,
    term_allowance,
)
from discreet.rows.data import Point, RowData
from discreet.rows.sums import Sum, gradient_sum
from discreet.rows.table import PRODUCT_KERNELS
from discreet.validate import FloatArray, vector


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
