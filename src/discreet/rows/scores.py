"""Sums of scores for inference: slopes and curvatures of a loss over rows weighted by their norm.

A row v (with its constant) of norm N counts a = min(1, (C/N)²). The weight does not depend on the
target, so weighted estimating equations have the same solution on average as unweighted ones, and
all of aφ'v, aφ''vvᵀ have bounded norms: C times the bound on φ', and C² times that on φ''.

The sums have the contract of every sum here (docs/proofs/summation.md). Proof:
docs/proofs/inference.md.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import NotSupported
from discreet.objectives import Loss
from discreet.rows.affine import Split
from discreet.rows.bounds import (
    BLOCK_ROWS,
    OUTER_ROUNDINGS,
    OUTER_ROWS,
    ROUNDING_ROOM,
    SMALLEST_MOMENT_FACTOR,
    WEIGHT_STEPS,
    gamma,
    gradient_error,
)
from discreet.rows.data import RowData
from discreet.rows.moments import gram, triangle
from discreet.rows.sums import CLIP, Sum, clipped_sum, one_output
from discreet.rows.table import LOSS_KERNELS, blocks, tree_total
from discreet.validate import FloatArray, number, vector

SPLIT_ERROR = 0.01
"""Largest error, over what a row adds, at which the map of rows is applied in two parts."""

ALL_ONE = np.empty(0)
"""Weights of rows or units that are all 1."""


def _weights(data: RowData, clip: float, longer: float = 0.0) -> FloatArray:
    """Return each row's weight times (clip/N)² where it is longer than the clip, on their grid.

    Norms N are taken to be ``longer`` by that much.
    """
    with np.errstate(all="ignore"):  # a warning about one row would be about that row
        values: FloatArray = clip / (data.bounds() + longer)
        values = np.minimum(values, 1.0, out=values) ** 2 * ROUNDING_ROOM
    if data.weights.size:
        values *= data.weights
    np.floor(values * WEIGHT_STEPS, out=values)
    return values / WEIGHT_STEPS


def _slope_bound(loss: Loss) -> float:
    """Return the bound on slopes, without which a score has none."""
    one_output(loss, "scores")
    if not math.isfinite(loss.slope_bound):
        raise NotSupported(
            f"scores need a loss of bounded slope; {loss.name!r} has none. Use loss.scored(…)."
        )
    return float(loss.slope_bound)


def score_sum(data: RowData, weights: ArrayLike, loss: Loss, clip: float) -> Sum:
    """Sum aφ'(margin, target)·v over rows, a = min(1, (clip/‖v‖)²), φ' within the loss's bound.

    *Privacy.* The contract of ``Sum`` with ‖c_i‖₂ ≤ slope_bound·clip. ``clip`` is at least 1.
    """
    clip, slope = number("clip", clip, **CLIP), _slope_bound(loss)
    at = vector("weights", weights, data.n_parameters)
    weighted = replace(data, weights=_weights(data, clip))
    sizes = np.ones(data.n_rows)
    return clipped_sum(weighted, at, loss, slope, sizes, within=slope * clip)


def curvature_sum(data: RowData, weights: ArrayLike, loss: Loss, clip: float) -> Sum:
    """Sum a·φ''/κ·vvᵀ over rows, a as in `score_sum`, κ the loss's bound on φ'': a triangle.

    *Privacy.* The contract of ``Sum`` with c_i the weighted triangle of huuᵀ, h in [0, 1] and
    ‖u‖ ≤ clip: ‖c_i‖₂ ≤ clip².
    """
    clip = number("clip", clip, **CLIP)
    one_output(loss, "curvatures")
    if loss.curvature_bound is None:
        raise NotSupported(f"{loss.name!r} has a kink, so it has no curvature to sum.")
    split, error = _split(data, clip)
    own = _weights(data, clip, 0.0 if split is None else split.error)
    bound, margins = float(loss.curvature_bound), data.margins_at(weights)

    def factors(at: slice) -> tuple[FloatArray, list[FloatArray]]:
        with np.errstate(all="ignore"):
            second = loss.second_derivative(margins[at], data.targets[at])
            share = np.nan_to_num(np.clip(second / bound, 0.0, 1.0), nan=0.0)
            values = np.sqrt(own[at] * share) * ROUNDING_ROOM
        values[values < SMALLEST_MOMENT_FACTOR] = 0.0
        return values, [values] if data.fit_intercept or split is not None else []

    if split is None:
        return triangle(data, gram(data, factors, int(data.fit_intercept)), clip)
    near = replace(data, map=split.diagonal)
    total = gram(near, factors, 1)
    turned = (split.basis @ total @ split.basis.T)[: data.n_parameters, : data.n_parameters]
    return Sum(triangle(data, turned, clip).values, error)


def _split(data: RowData, clip: float) -> tuple[Split | None, float]:
    """Return the map in two parts, and the error of a sum of outer products by it, if that is low.

    Rows then go through a diagonal, and their sum through a matrix: d times less work.
    """
    split = None if data.map.is_identity else data.map.split
    if split is None:
        return None, 0.0
    size, longest = data.public_size, split.inverse * (clip + 1.0)
    error = split.norm**2 * gradient_error(size, OUTER_ROWS, longest, OUTER_ROUNDINGS) * longest
    products = gamma(8 * (data.n_features + 3)) * float(np.linalg.norm(split.basis)) ** 2
    error = 1.02 * (error + products * (size + 1) * longest**2)
    error = 2.0 ** math.ceil(math.log2(error))  # the same on all machines
    return (split, error) if error < SPLIT_ERROR * clip**2 else (None, 0.0)


def score_square_sum(data: RowData, weights: ArrayLike, loss: Loss, clip: float) -> Sum:
    """Sum ‖Σ aφ'v/(sC)‖² over units, the inner sum over rows; s the bound on φ', C the clip.

    *Privacy.* The contract of ``Sum`` with 0 ≤ c_i ≤ 1 for the unit i.
    """
    clip, slope = number("clip", clip, **CLIP), _slope_bound(loss)
    margins = data.margins_at(weights)
    own = _weights(data, clip)
    with np.errstate(all="ignore"):
        slopes = loss.derivative(margins, data.targets) / slope
        slopes = np.nan_to_num(np.clip(slopes, -1.0, 1.0), nan=0.0) * own
    if data.grouped:
        parts = np.square(_unit_sums(data, slopes / clip)).sum(axis=1)
    else:
        with np.errstate(all="ignore"):
            parts = np.nan_to_num(np.square(slopes * np.minimum(data.bounds() / clip, 2.0**60)))
    sums = [
        np.array([LOSS_KERNELS.cut_sum(parts[at], ALL_ONE, 0.0, 1.0)])
        for at in blocks(slice(0, len(parts)), BLOCK_ROWS)
    ]
    values = tree_total((0, k, block) for k, block in enumerate(sums)) if sums else np.zeros(1)
    return Sum(values, gradient_error(data.public_size, BLOCK_ROWS, 1.0))


def score_variances(
    data: RowData, weights: ArrayLike, loss: Loss, clip: float, matrix: FloatArray, cut: float
) -> Sum:
    """Sum (A·s)² by entry over units, A·s cut to a norm; s = Σ aφ'v over a unit's rows.

    *Privacy.* The contract of ``Sum`` with c_i ≥ 0 and ‖c_i‖₂ ≤ ‖c_i‖₁ ≤ cut² for the unit i.
    """
    clip, slope = number("clip", clip, **CLIP), _slope_bound(loss)
    cut = number("cut", cut, **CLIP)
    margins = data.margins_at(weights)
    with np.errstate(all="ignore"):
        slopes = np.clip(loss.derivative(margins, data.targets), -slope, slope)
        slopes = np.nan_to_num(slopes, nan=0.0) * _weights(data, clip)
    whole = _unit_sums(data, slopes) if data.grouped else None
    total = np.zeros(len(matrix))
    for at in blocks(slice(0, data.n_rows if whole is None else len(whole)), BLOCK_ROWS):
        sums = _row_parts(data, slopes, at) if whole is None else whole[at]
        made = np.zeros((len(sums), len(matrix)))
        with np.errstate(all="ignore"):
            for j, column in enumerate(matrix.T):  # entry by entry: a unit's part is its own
                made += sums[:, j : j + 1] * column
            squares = np.square(made)
            shrink = np.minimum(cut * cut / squares.sum(axis=1), 1.0) * ROUNDING_ROOM
            total += np.nan_to_num(squares * shrink[:, None], nan=0.0).sum(axis=0)
    return Sum(total, gradient_error(data.public_size, BLOCK_ROWS, cut * cut))


def _row_parts(data: RowData, factors: FloatArray, part: slice) -> FloatArray:
    """Return some rows, with their constant, times factors."""
    found = np.empty((part.stop - part.start, data.n_parameters))
    found[:, data.n_features :] = factors[part, None]
    scaled = data.map.is_identity and data.scales.size
    for at, tile in data.tiles(part):
        scales = factors[at] * data.scales[at] if scaled else factors[at]
        own = slice(at.start - part.start, at.stop - part.start)
        found[own, : data.n_features] = tile * scales[:, None]
    return found


def _unit_sums(data: RowData, factors: FloatArray) -> FloatArray:
    """Return the sum of each unit's rows, with their constant, times factors."""
    if data.units.size != data.n_rows:
        raise NotSupported("sums over rows that share units need to know the units.")
    sums = np.zeros((data.public_size, data.n_parameters))
    scaled = data.map.is_identity and data.scales.size
    for at, tile in data.tiles(slice(0, data.n_rows)):
        scales = factors[at] * data.scales[at] if scaled else factors[at]
        np.add.at(sums[:, : data.n_features], data.units[at], tile * scales[:, None])
    if data.fit_intercept:
        np.add.at(sums[:, -1], data.units, factors)
    return sums
