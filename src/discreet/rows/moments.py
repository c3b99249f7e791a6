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

from discreet.rows.affine import AffineMap
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
from discreet.rows.table import one_thread, sum_blocks
from discreet.validate import FloatArray


def triangle(n_features: int) -> tuple[NDArray[np.intp], NDArray[np.intp], FloatArray]:
    """Return the places of the upper triangle, row by row, and each number's weight.

    Weights of 1 on and √2 off the diagonal make the L2 norm of the weighted triangle the Frobenius
    norm of the matrix.
    """
    first, second = np.triu_indices(n_features)
    return first, second, np.where(first == second, 1.0, math.sqrt(2.0))


def _clip(data: RowData) -> float:
    """Return the norm that no row in a moment exceeds."""
    if data.row_norm is None:
        raise ValueError("moments of rows need a public bound on the norm of a row; pass row_norm.")
    return float(data.row_norm)


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
    clip, table, mapped = _clip(data), data.table, not data.map.is_identity

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
    clip, table, map = _clip(data), data.table, data.map
    error = outer_error(data.public_size, table.block_rows, clip)
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

    ``values`` is the upper triangle, row by row, with off-diagonal numbers times √2 (see
    `discreet.rows.moments.triangle`): its L2 norm is the matrix's Frobenius norm.

    *Privacy.* The contract of ``Sum`` with c_i the weighted triangle of yyᵀ, ‖y‖ ≤ row_norm:
    ‖c_i‖₂ ≤ row_norm². Proofs: docs/proofs/preparation.md, docs/proofs/affine.md.
    """
    clip, table, size = _clip(data), data.table, data.n_features
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
    return Sum(total, outer_error(data.public_size, block_rows, clip))


def triangle_sum(
    block_sum: Callable[[int, int], FloatArray], size: int, *numbers: int
) -> FloatArray:
    """Add up the matrices of blocks, as `sum_blocks` does; return the weighted triangle."""
    with one_thread():
        total = sum_blocks(block_sum, (size, size), *numbers)
    rows, columns, weights = triangle(size)
    return np.asarray(total[rows, columns] * weights)


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
    clip = check_clip(clip)
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
    return Sum(values, outer_error(data.public_size, OUTER_ROWS, clip))


def target_sum(data: RowData, bound: float) -> Sum:
    """Sum the targets, each cut to [-bound, bound]; ``values`` has one entry.

    *Privacy.* The contract of ``Sum`` with |c_i| ≤ bound: the cut target itself, summed in
    blocks like an entry of a gradient. Proof: docs/proofs/gd.md.
    """
    bound = check_clip(bound, "bound")

    cut = np.clip(data.targets, -bound, bound)
    values = sum_blocks(
        lambda start, stop: data.weighted(start, cut[start:stop]).sum(keepdims=True),
        1,
        data.n_rows,
        data.n_rows,
        BLOCK_ROWS,
    )
    return Sum(values, gradient_error(data.public_size, BLOCK_ROWS, bound))
