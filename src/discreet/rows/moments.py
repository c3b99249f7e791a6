"""First and second moments of rows that are clipped to a public norm, and counts of exponents.

The sums have the contract of every sum here (docs/proofs/summation.md): a row's part is a function
of that row and public arguments, within the clip, and the rounding error has a public bound.
Proofs: docs/proofs/preparation.md, affine.md for mapped rows, newton.md for rows with targets.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from discreet.rows.affine import AffineMap, read_only
from discreet.rows.bounds import (
    BLOCK_ROWS,
    EXPONENTS,
    LARGEST_TARGET,
    OUTER_ROUNDINGS,
    OUTER_ROWS,
    ROUNDING_ROOM,
    ROW_NORM_RANGE,
    SMALLEST_MOMENT_FACTOR,
    WEIGHT_STEPS,
    gradient_error,
    mapped_square_error,
)
from discreet.rows.data import RowData
from discreet.rows.sparse import SparseTable
from discreet.rows.sums import CLIP, Sum, carried_back
from discreet.rows.table import KERNELS, in_parts, one_thread, sum_blocks
from discreet.validate import FloatArray, number

NORM: Any = {"least": ROW_NORM_RANGE[0], "most": ROW_NORM_RANGE[1]}
NORM["remedy"] = "Moments need a public bound on the norm of a row: pass row_norm."
"""Check of the norm that no row in a moment exceeds."""


def _factors(data: RowData, clip: float, start: int, stop: int) -> FloatArray:
    """Return what rows are multiplied by so that none is longer than the clip: s, mapped rows κ."""
    if data.map.is_identity:
        return data.scales[start:stop]
    return np.minimum(clip / data.bounds(start, stop), 1.0)  # bounds are above 0


def row_sum(data: RowData) -> Sum:
    """Sum the rows, each scaled down to ``row_norm`` where it is longer; no constant feature.

    *Privacy.* The contract of ``Sum`` with ‖c_i‖₂ ≤ row_norm. Proofs:
    docs/proofs/preparation.md, docs/proofs/affine.md.
    """
    clip = number("row_norm", data.row_norm, **NORM)
    table, mapped = data.table, not data.map.is_identity

    def block_sum(start: int, stop: int) -> FloatArray:
        values = np.zeros(table.n_features + 1)
        for piece in table.pieces(start, stop):  # norms are computed while a piece is in cache
            own = data.weighted(piece.start, _factors(data, clip, piece.start, piece.stop))
            if mapped:
                values[-1] += own.sum()
                own = own * data.scales[piece.start : piece.stop]
            table.add(piece, own, values[:-1])
        return values

    size = (data.n_rows, table.n_entries, table.block_rows)
    sums = sum_blocks(block_sum, table.n_features + 1, *size)[None, :]
    total = carried_back(data, sums, 1.0 if mapped else clip)
    return Sum(total.values[: data.n_features], total.error)


def square_sum(data: RowData) -> Sum:
    """Sum the squares of the rows' entries, each row scaled down to ``row_norm`` if longer.

    ``values`` has n_features entries: the diagonal of what `outer_sum` computes.

    *Privacy.* The contract of ``Sum`` with c_i = y∘y, ‖y‖ ≤ row_norm: entries of c_i are not
    negative and ‖c_i‖₂ ≤ row_norm². Proofs: docs/proofs/preparation.md, docs/proofs/affine.md.
    """
    clip = number("row_norm", data.row_norm, **NORM)
    table, map = data.table, data.map
    error = gradient_error(data.public_size, table.block_rows, clip, OUTER_ROUNDINGS) * clip
    if map.is_diagonal and not table.dense:
        error = mapped_square_error(data.public_size, table.block_rows, clip, map.bound)
    same = AffineMap.to_norm(np.inf, table.n_features)

    def block_sum(start: int, stop: int) -> FloatArray:
        block = np.zeros(data.n_features)
        for piece in table.pieces(start, stop):
            at, size = piece.start, piece.stop - piece.start
            own = data.weighted(at, _factors(data, clip, at, piece.stop), root=True)
            if map.is_identity:
                block += table.mapped_squares(at, own, same, np.ones(size))
            elif map.is_diagonal:
                block += table.mapped_squares(at, data.scales[at : piece.stop], map, own)
            else:
                for row, tile in data.tiles(at, piece.stop):
                    tile *= own[row - at : row - at + len(tile), None]
                    block += np.einsum("ij,ij->j", tile, tile)
        return block

    size = (data.n_rows, table.n_entries, table.block_rows)
    return Sum(sum_blocks(block_sum, data.n_features, *size), error)


def outer_sum(data: RowData) -> Sum:
    """Sum the outer products of the rows, each scaled down to ``row_norm`` if it is longer.

    ``values`` is the upper triangle, row by row, with off-diagonal numbers times √2: its L2 norm
    is the matrix's Frobenius norm.

    *Privacy.* The contract of ``Sum`` with c_i the weighted triangle of yyᵀ, ‖y‖ ≤ row_norm:
    ‖c_i‖₂ ≤ row_norm². Proofs: docs/proofs/preparation.md, docs/proofs/affine.md.
    """
    clip = number("row_norm", data.row_norm, **NORM)
    table, size = data.table, data.n_features
    block_rows, entries = OUTER_ROWS, data.n_rows * size * size
    csr = table if isinstance(table, SparseTable) and data.map.is_identity else None
    if csr is not None:
        block_rows, entries = max(OUTER_ROWS, size), table.n_entries * size

    def block_sum(start: int, stop: int) -> FloatArray:
        own = data.weighted(start, _factors(data, clip, start, stop), root=True)
        block = np.zeros((size, size))
        if csr is not None:
            return csr.outer_sum(start, own)
        for row, tile in data.tiles(start, stop):
            factors = own[row - start : row - start + len(tile), None]
            scaled = np.multiply(tile, factors, out=None if data.map.is_identity else tile)
            block += scaled.T @ scaled
        return block

    total = triangle_sum(block_sum, size, data.n_rows, entries, block_rows)
    error = gradient_error(data.public_size, block_rows, clip, OUTER_ROUNDINGS) * clip
    return Sum(total, error)


def triangle_sum(
    block_sum: Callable[[int, int], FloatArray], size: int, *numbers: int
) -> FloatArray:
    """Add up the matrices of blocks, as `sum_blocks` does; return the weighted triangle.

    It is the upper triangle, row by row. Weights of 1 on and √2 off the diagonal make its L2 norm
    the Frobenius norm of the matrix.
    """
    with one_thread():
        total = sum_blocks(block_sum, (size, size), *numbers)
    first, second = np.triu_indices(size)
    return np.asarray(total[first, second] * np.where(first == second, 1.0, math.sqrt(2.0)))


def xy_moment_sum(
    data: RowData,
    clip: float,
    target_weight: float = 1.0,
    target_centre: float = 0.0,
    *,
    features: bool = True,
) -> Sum:
    """Sum vvᵀ over rows, v = (x, 1, t·(y − c)), scaled down to norm ``clip`` if it is longer.

    Without a constant feature v has no 1; without ``features`` it is (1, t·(y − c)), constant
    or not. With ``row_norm``, x is scaled down to it first. ``target_weight`` and
    ``target_centre`` are t and c; ``values`` is a weighted triangle as in `outer_sum`. All of v is
    scaled down *together*: that leaves a linear relation between its parts as it is, and only takes
    weight from the row.

    *Privacy.* The contract of ``Sum`` with c_i the weighted triangle of vvᵀ: ‖c_i‖₂ ≤ clip².
    Proof: docs/proofs/newton.md.
    """
    clip = number("clip", clip, **CLIP)
    constant = data.fit_intercept or not features
    width = data.n_features if features else 0
    size = width + int(constant) + 1
    limit, scaled = ROUNDING_ROOM * clip, features and data.map.is_identity and data.scales.size

    def block_sum(start: int, stop: int) -> FloatArray:
        with np.errstate(all="ignore"):
            targets = (data.targets[start:stop] - float(target_centre)) * float(target_weight)
            targets = np.clip(targets, -LARGEST_TARGET, LARGEST_TARGET)
            norms = data.bounds(start, stop) if features else 1.0
            joint_norms = np.sqrt(np.square(norms) + np.square(targets))  # each rounded correctly
            factors = np.where(joint_norms > limit, limit / joint_norms, 1.0)
        factors[factors < SMALLEST_MOMENT_FACTOR] = 0.0
        factors = scales = data.weighted(start, factors, root=True)
        if scaled:  # tiles are not scaled yet
            scales = factors * data.scales[start:stop]
            scales[scales < SMALLEST_MOMENT_FACTOR] = 0.0
        block = np.zeros((size, size))
        nothing = iter([(start, np.empty((stop - start, 0)))])
        for row, tile in data.tiles(start, stop) if features else nothing:
            at = slice(row - start, row - start + len(tile))
            joint = np.empty((len(tile), size))
            np.multiply(tile, scales[at, None], out=joint[:, :width])
            if constant:
                joint[:, width] = factors[at]
            np.multiply(targets[at], factors[at], out=joint[:, -1])
            block += joint.T @ joint
        return block

    entries = data.n_rows * size * size
    values = triangle_sum(block_sum, size, data.n_rows, entries, OUTER_ROWS)
    error = gradient_error(data.public_size, OUTER_ROWS, clip, OUTER_ROUNDINGS) * clip
    return Sum(values, error)


def target_sum(data: RowData, bound: float) -> Sum:
    """Sum the targets, each cut to [-bound, bound]; ``values`` has one entry.

    *Privacy.* The contract of ``Sum`` with |c_i| ≤ bound: the cut target itself, summed in
    blocks like an entry of a gradient. Proof: docs/proofs/gd.md.
    """
    bound = number("bound", bound, **CLIP)

    cut = np.clip(data.targets, -bound, bound)
    values = sum_blocks(
        lambda start, stop: data.weighted(start, cut[start:stop]).sum(keepdims=True),
        1,
        data.n_rows,
        data.n_rows,
        BLOCK_ROWS,
    )
    return Sum(values, gradient_error(data.public_size, BLOCK_ROWS, bound))


def exponent_counts(data: RowData) -> Sum:
    """Count the entries of mapped rows by column and binary exponent, as one vector.

    Entry x is in the cell of e where 2^(e−1) ≤ |x| < 2^e; exponents beyond the outermost cells
    count as these. Entries of exactly ±1 have a cell of their own (indicators of categories are
    recognised by it), and zeros count nowhere. Column j has the m + 1 entries of ``values`` from
    j·(m + 1): m exponents from the first one on, then ±1. Rows are not clipped for it; a map's clip
    comes first.

    *Privacy.* The contract of ``Sum``: of each column, a row adds its weight to one cell at most.
    Units whose weights add up to 1 add a vector of norm at most 1 per column, so of norm
    √n_features, and two such vectors differ by at most √(2·n_features). Integers are summed, and
    divided at the end: the error is that of adding up partitions.
    """
    table, shape = data.table, (data.n_features, EXPONENTS[1] - EXPONENTS[0] + 2)
    stored = table if isinstance(table, SparseTable) and data.map.is_identity else None
    weights = read_only((data.weights * WEIGHT_STEPS).astype(np.int64))

    def part(start: int, stop: int) -> Any:
        counts = np.zeros(shape, dtype=np.int64)
        if stored is not None:
            KERNELS.count_sparse(
                *stored.block(start, stop), weights[start:stop], *EXPONENTS, counts
            )
            return counts
        for row, tile in data.tiles(start, stop, single=True):
            own = weights[row : row + len(tile)]
            KERNELS.count_dense(read_only(tile), own, *EXPONENTS, counts)
        return counts

    values = sum(in_parts(part, data.n_rows, table.n_entries, table.block_rows)).ravel()
    unit = WEIGHT_STEPS if weights.size else 1
    return Sum(values / unit, gradient_error(data.public_size, 1, math.sqrt(data.n_features)))
