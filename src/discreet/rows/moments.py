"""First and second moments of rows that are clipped to a public norm, alone or with targets.

The sums have the contract of every sum here (docs/proofs/summation.md): a row's part is a function
of that row and public arguments, within the clip, and the rounding error has a public bound.
Proofs: docs/proofs/preparation.md, affine.md for mapped rows, newton.md for rows with targets.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from discreet.blas import one_thread
from discreet.rows.bounds import (
    BLOCK_ROWS,
    LARGEST_TARGET,
    OUTER_ROWS,
    ROUNDING_ROOM,
    SMALLEST_MOMENT_FACTOR,
    gradient_error,
    mapped_square_error,
    outer_error,
)
from discreet.rows.data import RowData
from discreet.rows.sparse import SparseTable
from discreet.rows.sums import Sum, carried_back, check_clip
from discreet.rows.table import add_up, in_parts
from discreet.validate import FloatArray

__all__ = [
    "outer_sum",
    "row_sum",
    "square_sum",
    "target_sum",
    "triangle",
    "triangle_size",
    "xy_moment_sum",
]


def triangle_size(n_features: int) -> int:
    """Return the count of numbers in the upper triangle of a symmetric matrix, with diagonal."""
    return n_features * (n_features + 1) // 2


def triangle(n_features: int) -> tuple[NDArray[np.intp], NDArray[np.intp], FloatArray]:
    """Return the places of the upper triangle, row by row, and each number's weight.

    Weights of 1 on and √2 off the diagonal make the L2 norm of the weighted triangle the Frobenius
    norm of the matrix.
    """
    first, second = np.triu_indices(n_features)
    return first, second, np.where(first == second, 1.0, math.sqrt(2.0))


def clip_factors(data: RowData) -> FloatArray:
    """Return κ: what mapped rows are multiplied by, so that none is longer than the clip."""
    factors = data.clip / data.norms  # norms are above 0, and with a constant above 1
    return np.minimum(factors, 1.0, out=factors)


def row_sum(data: RowData) -> Sum:
    """Sum the rows, each scaled down to ``row_norm`` where it is longer; no constant feature."""
    clip, table = data.clip, data.table
    factors = None if data.map.is_identity else clip_factors(data)
    scaled = data.scales if factors is None else factors * data.scales

    def part(first: int, last: int) -> FloatArray:
        values = np.zeros(table.n_features + 1)
        for start in range(first, last, table.block_rows):
            block = slice(start, min(start + table.block_rows, last))
            values[:-1] += table.weighted_sum(start, scaled[block])
            if factors is not None:
                values[-1] += factors[block].sum()
        return values

    parts = in_parts(part, data.n_rows, table.n_entries, table.block_rows)
    total = carried_back(data, add_up(parts)[None, :], clip if factors is None else 1.0)
    return Sum(total.values[: data.n_features], total.error)


def square_sum(data: RowData) -> Sum:
    """Sum the squares of the rows' entries, each row scaled down to ``row_norm`` if longer."""
    clip, table, map = data.clip, data.table, data.map
    error = outer_error(data.public_rows, table.block_rows, clip)
    if map.is_identity:

        def block_sum(start: int, stop: int) -> FloatArray:
            return table.square_sum(start, stop, data.scales)

    elif isinstance(table, SparseTable) and map.is_diagonal:
        factors, csr = clip_factors(data), table
        error = mapped_square_error(data.public_rows, table.block_rows, clip, map.bound)

        def block_sum(start: int, stop: int) -> FloatArray:
            return csr.mapped_squares(start, stop, data.scales, map.linear, map.offset, factors)

    else:
        factors = clip_factors(data)

        def block_sum(start: int, stop: int) -> FloatArray:
            block = np.zeros(data.n_features)
            for row, tile in data.tiles(start, stop):
                tile *= factors[row : row + len(tile), None]
                block += np.einsum("ij,ij->j", tile, tile)
            return block

    def part(first: int, last: int) -> FloatArray:
        values = np.zeros(data.n_features)
        for start in range(first, last, table.block_rows):
            values += block_sum(start, min(start + table.block_rows, last))
        return values

    parts = in_parts(part, data.n_rows, table.n_entries, table.block_rows)
    return Sum(add_up(parts), error)


def outer_sum(data: RowData) -> Sum:
    """Sum the outer products of the rows, each scaled down to ``row_norm`` if it is longer."""
    clip, table, size = data.clip, data.table, data.n_features
    block_rows, entries = OUTER_ROWS, data.n_rows * size * size
    if isinstance(table, SparseTable) and data.map.is_identity:
        block_rows, entries = max(OUTER_ROWS, size), table.n_entries * size
        csr = table

        def block_sum(start: int, stop: int) -> FloatArray:
            return csr.outer_sum(start, stop, data.scales)

    else:
        # rows as they are stored are scaled down to the clip by their scales
        multipliers = data.scales if data.map.is_identity else clip_factors(data)

        def block_sum(start: int, stop: int) -> FloatArray:
            block = np.zeros((size, size))
            for row, tile in data.tiles(start, stop):
                scaled = tile * multipliers[row : row + len(tile), None]
                block += scaled.T @ scaled
            return block

    total = _matrix_sum(block_sum, data.n_rows, size, entries, block_rows)
    return Sum(total, outer_error(data.public_rows, block_rows, clip))


def _matrix_sum(
    block_sum: Callable[[int, int], FloatArray],
    n_rows: int,
    size: int,
    n_entries: int,
    block_rows: int,
) -> FloatArray:
    """Add up the matrices of blocks; return the weighted triangle."""

    def part(first: int, last: int) -> FloatArray:
        total = np.zeros((size, size))
        for start in range(first, last, block_rows):
            total += block_sum(start, min(start + block_rows, last))
        return total

    with one_thread():
        total = add_up(in_parts(part, n_rows, n_entries, block_rows))
    rows, columns, weights = triangle(size)
    return np.asarray(total[rows, columns] * weights)


def xy_moment_sum(
    data: RowData,
    clip: float,
    target_weight: float,
    target_centre: float,
    *,
    features: bool,
) -> Sum:
    """Sum vvᵀ over rows, v = (x, 1, t·(y − c)), scaled down to norm ``clip`` if it is longer.

    A row, its constant and its weighted target are scaled down *together*: that leaves a linear
    relation between them as it is, and only takes weight from the row.
    """
    clip = check_clip(clip)
    constant = data.fit_intercept or not features
    width = data.n_features if features else 0
    size = width + int(constant) + 1
    with np.errstate(all="ignore"):
        targets = (data.targets - float(target_centre)) * float(target_weight)
        targets = np.clip(targets, -LARGEST_TARGET, LARGEST_TARGET)
        norms = data.norms if features else 1.0
        joint_norms = np.sqrt(np.square(norms) + np.square(targets))  # each rounded correctly
        limit = ROUNDING_ROOM * clip
        factors = np.where(joint_norms > limit, limit / joint_norms, 1.0)
    factors[factors < SMALLEST_MOMENT_FACTOR] = 0.0
    scales = factors
    if features and data.map.is_identity and data.scales.size:  # tiles are not scaled yet
        scales = factors * data.scales
        scales[scales < SMALLEST_MOMENT_FACTOR] = 0.0

    def block_sum(start: int, stop: int) -> FloatArray:
        block = np.zeros((size, size))
        nothing = iter([(start, np.empty((stop - start, 0)))])
        for row, tile in data.tiles(start, stop) if features else nothing:
            at = slice(row, row + len(tile))
            joint = np.empty((len(tile), size))
            np.multiply(tile, scales[at, None], out=joint[:, :width])
            if constant:
                joint[:, width] = factors[at]
            np.multiply(targets[at], factors[at], out=joint[:, -1])
            block += joint.T @ joint
        return block

    values = _matrix_sum(block_sum, data.n_rows, size, data.n_rows * size * size, OUTER_ROWS)
    return Sum(values, outer_error(data.public_rows, OUTER_ROWS, clip))


def target_sum(data: RowData, bound: float) -> Sum:
    """Sum the targets, each cut to [-bound, bound]."""
    bound = check_clip(bound, "bound")
    cut = np.clip(data.targets, -bound, bound)
    blocks = np.add.reduceat(cut, np.arange(0, cut.size, BLOCK_ROWS)) if cut.size else cut
    error = gradient_error(data.public_rows, BLOCK_ROWS, bound)
    return Sum(np.array([blocks.sum()]), error)
