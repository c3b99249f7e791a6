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
from discreet.rows.table import KERNELS, LOSS_KERNELS, in_parts, one_thread
from discreet.validate import FloatArray, number

NORM: Any = {"least": ROW_NORM_RANGE[0], "most": ROW_NORM_RANGE[1]}
NORM["remedy"] = "Moments need a public bound on the norm of a row: pass row_norm."
"""Check of the norm that no row in a moment exceeds."""

Factors = Callable[[int, int], tuple[FloatArray, list[FloatArray]]]
"""Returns, for rows start to stop, what they are multiplied by, and further columns."""


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
        own = data.weighted(start, _factors(data, clip, start, stop))
        if mapped:
            values[-1] = own.sum()
            own = own * data.scales[start:stop]
        for at, rows in table.pieces(start, stop):
            KERNELS.add(rows, own[at.start - start : at.stop - start], values[:-1])
        return values

    sums = data.total(block_sum, table.n_features + 1, near=True)
    total = carried_back(data, sums[None, :], 1.0 if mapped else clip)
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
        own = data.weighted(start, _factors(data, clip, start, stop), root=True)
        if map.is_identity:
            return table.mapped_squares(start, own, same, np.ones(stop - start))
        if map.is_diagonal:
            return table.mapped_squares(start, data.scales[start:stop], map, own)
        block = np.zeros(data.n_features)
        for row, tile in data.tiles(start, stop):
            tile *= own[row - start : row - start + len(tile), None]
            block += np.einsum("ij,ij->j", tile, tile)
        return block

    return Sum(data.total(block_sum, data.n_features, near=True), error)


def _scaled(data: RowData, start: int, factors: FloatArray) -> FloatArray:
    """Return factors for rows as tiles have them: with the scales of rows that are stored."""
    if not data.map.is_identity or not data.scales.size:
        return factors
    own = factors * data.scales[start : start + factors.size]
    own[own < SMALLEST_MOMENT_FACTOR] = 0.0
    return own


def gram(data: RowData, factors: Factors, more: int = 0, *, features: bool = True) -> FloatArray:
    """Sum vvᵀ over rows, v the row times its factor and ``more`` columns, as they are given.

    BLAS adds up the rows of a block, in an order that no bound depends on.
    """
    width = data.n_features if features else 0
    size = width + more

    def block_sum(start: int, stop: int) -> FloatArray:
        block, (own, columns) = np.zeros((size, size)), factors(start, stop)
        own = _scaled(data, start, own) if features else own
        nothing = iter([(start, np.empty((stop - start, 0)))])
        for row, tile in data.tiles(start, stop) if features else nothing:
            at = slice(row - start, row - start + len(tile))
            own_tile = features and not more and not data.map.is_identity  # others are X itself
            rows = tile if own_tile else np.empty((len(tile), size))
            np.multiply(tile, own[at, None], out=rows[:, :width])
            for k, column in enumerate(columns):
                rows[:, width + k] = column[at]
            block += rows.T @ rows
        return block

    with one_thread():
        entries = data.n_rows * size * size
        return data.total(block_sum, (size, size), entries=entries, block_rows=OUTER_ROWS)


def triangle(data: RowData, matrix: FloatArray, clip: float, block_rows: int = OUTER_ROWS) -> Sum:
    """Return a sum of outer products within clip²: the upper triangle, row by row.

    Weights of 1 on and √2 off the diagonal make its L2 norm the Frobenius norm of the matrix.
    """
    first, second = np.triu_indices(len(matrix))
    values = matrix[first, second] * np.where(first == second, 1.0, math.sqrt(2.0))
    return Sum(values, gradient_error(data.public_size, block_rows, clip, OUTER_ROUNDINGS) * clip)


def outer_sum(data: RowData) -> Sum:
    """Sum the outer products of the rows, each scaled down to ``row_norm`` if it is longer.

    ``values`` is the upper triangle, row by row, with off-diagonal numbers times √2: its L2 norm
    is the matrix's Frobenius norm.

    *Privacy.* The contract of ``Sum`` with c_i the weighted triangle of yyᵀ, ‖y‖ ≤ row_norm:
    ‖c_i‖₂ ≤ row_norm². Proofs: docs/proofs/preparation.md, docs/proofs/affine.md.
    """
    clip = number("row_norm", data.row_norm, **NORM)
    table, size, stored = data.table, data.n_features, data.map.is_identity

    def own(start: int, stop: int) -> FloatArray:  # scales of stored rows come with their tiles
        factors = np.ones(stop - start) if stored else _factors(data, clip, start, stop)
        return data.weighted(start, factors, root=True)

    if not isinstance(table, SparseTable) or not stored:
        return triangle(data, gram(data, lambda start, stop: (own(start, stop), [])), clip)
    csr, rows = table, max(OUTER_ROWS, size)

    def block_sum(start: int, stop: int) -> FloatArray:
        return csr.outer_sum(start, _scaled(data, start, own(start, stop)))

    entries = table.n_entries * size
    total = data.total(block_sum, (size, size), entries=entries, block_rows=rows)
    return triangle(data, total, clip, rows)


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
    constant, limit = data.fit_intercept or not features, ROUNDING_ROOM * clip

    def factors(start: int, stop: int) -> tuple[FloatArray, list[FloatArray]]:
        with np.errstate(all="ignore"):
            targets = (data.targets[start:stop] - float(target_centre)) * float(target_weight)
            targets = np.clip(targets, -LARGEST_TARGET, LARGEST_TARGET)
            norms = data.bounds(start, stop) if features else 1.0
            joint_norms = np.sqrt(np.square(norms) + np.square(targets))  # each rounded correctly
            own = np.where(joint_norms > limit, limit / joint_norms, 1.0)
        own[own < SMALLEST_MOMENT_FACTOR] = 0.0
        own = data.weighted(start, own, root=True)
        return own, [own, targets * own] if constant else [targets * own]

    return triangle(data, gram(data, factors, 1 + int(constant), features=features), clip)


def target_sum(data: RowData, bound: float) -> Sum:
    """Sum the targets, each cut to [-bound, bound]; ``values`` has one entry.

    *Privacy.* The contract of ``Sum`` with |c_i| ≤ bound: the cut target itself, summed in
    blocks like an entry of a gradient. Proof: docs/proofs/gd.md.
    """
    bound = number("bound", bound, **CLIP)

    cut_sum = LOSS_KERNELS.cut_sum
    values = data.total(
        lambda start, stop: np.array(
            [cut_sum(data.targets[start:stop], data.weights[start:stop], -bound, bound)]
        ),
        1,
        entries=data.n_rows,
        block_rows=BLOCK_ROWS,
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
    table, shape = data.table, (data.n_features, EXPONENTS[1] - EXPONENTS[0] + 3)
    weights = read_only((data.weights * WEIGHT_STEPS).astype(np.int64))

    def part(start: int, stop: int) -> Any:
        counts: Any = np.zeros(shape, dtype=np.int64)
        pieces: Any = table.pieces(start, stop, by_column=False)
        if not data.map.is_identity:
            tiles = data.tiles(start, stop)
            pieces = ((slice(row, row + len(tile)), (read_only(tile),)) for row, tile in tiles)
        for at, rows in pieces:
            KERNELS.count(rows, weights[at], *EXPONENTS, counts)
        return counts

    counts = sum(in_parts(part, data.n_rows, table.n_entries, table.block_rows))
    values = counts[:, :-1].ravel()  # zeros count nowhere
    unit = WEIGHT_STEPS if weights.size else 1
    return Sum(values / unit, gradient_error(data.public_size, 1, math.sqrt(data.n_features)))
