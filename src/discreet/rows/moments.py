"""First and second moments of rows that are clipped to a public norm, and counts of rows.

The sums have the contract of every sum here (docs/proofs/summation.md): a row's part is a function
of that row and public arguments, within the clip, and the rounding error has a public bound.
Proofs: docs/proofs/preparation.md, affine.md for mapped rows, newton.md for rows with targets.

Counts of numbers between public candidates (norms of rows, a column, sizes of slopes) are exact
integers, so that counts of blocks add up without rounding. They are for private selections, which
score the candidates by them (`discreet.core.ranges`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.objectives import Loss
from discreet.rows.affine import AffineMap, read_only
from discreet.rows.bounds import (
    BLOCK_ROWS,
    EXPONENTS,
    LARGEST_TARGET,
    OCTAVES,
    OUTER_ROUNDINGS,
    OUTER_ROWS,
    ROUNDING_ROOM,
    ROW_NORM_RANGE,
    SMALLEST_MOMENT_FACTOR,
    gradient_error,
    mapped_square_error,
    norm_inflation,
)
from discreet.rows.data import RowData
from discreet.rows.sparse import SparseTable
from discreet.rows.sums import CLIP, Sum, carried_back, one_output
from discreet.rows.table import KERNELS, LOSS_KERNELS, blocks, one_thread
from discreet.validate import FloatArray, integer, number

NORM: Any = {"least": ROW_NORM_RANGE[0], "most": ROW_NORM_RANGE[1]}
NORM["remedy"] = "Moments need a public bound on the norm of a row: pass row_norm."
"""Check of the norm that no row in a moment exceeds."""

COUNTED = 2**16
"""Number of values that are counted at a time: sums of their weights are exact in a double."""

_EXPONENTS = range(-9, 12)  # candidates run from 1.0e-9 to 9.9e11, and 1e12

Factors = Callable[[slice], tuple[FloatArray, list[FloatArray]]]
"""Returns what rows are multiplied by, and further columns."""


def _factors(data: RowData, at: slice, clip: float, *, root: bool = True) -> FloatArray:
    """Return what rows are multiplied by so that none is longer than the clip, with their weights.

    That is κ for mapped rows, 1 for stored ones, whose scales see to it.
    """
    if data.map.is_identity:
        return data.weighted(at, np.ones(at.stop - at.start), root=root)
    return data.weighted(at, np.minimum(clip / data.bounds(at), 1.0), root=root)  # bounds > 0


def row_sum(data: RowData) -> Sum:
    """Sum the rows, each scaled down to ``row_norm`` where it is longer; no constant feature.

    *Privacy.* The contract of ``Sum`` with ‖c_i‖₂ ≤ row_norm.
    """
    clip = number("row_norm", data.row_norm, **NORM)
    shape = (1, data.table.n_features + 1)

    def block_sum(at: slice) -> FloatArray:
        values = np.zeros(shape)
        factors = _factors(data, at, clip, root=False)
        KERNELS.scaled_row_sum(data.table.block(at), data.scales[at], factors, values[0])
        return values

    total = carried_back(data, data.total(block_sum, shape), clip if data.map.is_identity else 1.0)
    return Sum(total.values[: data.n_features], total.error)


def square_sum(data: RowData, share: float = 1.0) -> Sum:
    """Sum the squares of the rows' entries: the diagonal of what `outer_sum` computes.

    With a ``share`` below 1, those of each row are scaled down to norm share·row_norm².

    *Privacy.* The contract of ``Sum`` with c_i = y∘y, ‖y‖ ≤ row_norm: entries of c_i are not
    negative and ‖c_i‖₂ ≤ share·row_norm².
    """
    clip, share = number("row_norm", data.row_norm, **NORM), number("share", share, above=0, most=1)
    table, size, limit = data.table, data.public_size, ROUNDING_ROOM * share * clip * clip
    map = AffineMap.to_norm(np.inf, table.n_features) if data.map.is_identity else data.map
    error = gradient_error(size, table.block_rows, clip, OUTER_ROUNDINGS) * clip
    if data.map.is_diagonal and not table.dense:
        error = mapped_square_error(size, table.block_rows, clip, map.bound)
    width = data.n_features
    plain = (np.empty(0), read_only(np.ones(width)), read_only(np.zeros(width)))

    def block_sum(at: slice) -> FloatArray:
        if map.is_diagonal and share == 1:
            return table.squares(at, data.scales[at], map, _factors(data, at, clip))
        block = np.zeros(width)
        for some, tile in data.tiles(at):
            squares = tile * _scaled(data, some, _factors(data, some, clip))[:, None]
            np.square(squares, out=squares)
            if share < 1:
                norms = np.empty(len(tile))
                KERNELS.norms((read_only(squares),), *plain, norm_inflation(width), norms)  # > 0
                most = data.weighted(some, np.full(len(tile), limit))
                squares *= (most / np.maximum(norms, most))[:, None]
            block += squares.sum(axis=0)
        return block

    return Sum(data.total(block_sum, data.n_features), error)


def _scaled(data: RowData, at: slice, factors: FloatArray) -> FloatArray:
    """Return factors for rows as tiles have them: with the scales of rows that are stored."""
    if not data.map.is_identity or not data.scales.size:
        return factors
    own = factors * data.scales[at]
    own[own < SMALLEST_MOMENT_FACTOR] = 0.0
    return own


def gram(data: RowData, factors: Factors, more: int = 0, *, features: bool = True) -> FloatArray:
    """Sum vvᵀ over rows, v the row times its factor and ``more`` columns, as they are given.

    BLAS adds up the rows of a block, in an order that no bound depends on.
    """
    width = data.n_features if features else 0
    size = width + more

    def block_sum(at: slice) -> FloatArray:
        block, nothing = np.zeros((size, size)), [(at, np.empty((at.stop - at.start, 0)))]
        for some, tile in data.tiles(at) if features else nothing:
            own, columns = factors(some)
            own_tile = tile.flags.writeable and not more  # mapped rows, that nobody else reads
            rows = tile if own_tile else np.empty((len(tile), size))
            np.multiply(tile, _scaled(data, some, own)[:, None], out=rows[:, :width])
            for k, column in enumerate(columns):
                rows[:, width + k] = column
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
    """Sum the outer products of the rows, each scaled down to ``row_norm``: a `triangle`.

    *Privacy.* The contract of ``Sum`` with c_i the weighted triangle of yyᵀ, ‖y‖ ≤ row_norm:
    ‖c_i‖₂ ≤ row_norm².
    """
    clip = number("row_norm", data.row_norm, **NORM)
    table, size = data.table, data.n_features
    if not isinstance(table, SparseTable) or not data.map.is_identity:
        return triangle(data, gram(data, lambda at: (_factors(data, at, clip), [])), clip)

    def block_sum(at: slice) -> FloatArray:
        return table.outer_sum(at, _scaled(data, at, _factors(data, at, clip)))

    entries, rows = table.n_entries * size, max(OUTER_ROWS, size)
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
    """Sum vvᵀ over rows, v = (x, 1, t·(y − c)), scaled down to norm ``clip``: a `triangle`.

    Without a constant feature v has no 1; without ``features`` it is (1, t·(y − c)), constant
    or not. With ``row_norm``, x is scaled down to it first. ``target_weight`` and
    ``target_centre`` are t and c. All of v is scaled down *together*: that leaves a linear relation
    between its parts as it is, and only takes weight from the row.

    *Privacy.* The contract of ``Sum`` with c_i the weighted triangle of vvᵀ: ‖c_i‖₂ ≤ clip².
    """
    clip = number("clip", clip, **CLIP)
    constant, limit = data.fit_intercept or not features, ROUNDING_ROOM * clip

    def factors(at: slice) -> tuple[FloatArray, list[FloatArray]]:
        with np.errstate(all="ignore"):
            targets = (data.targets[at] - float(target_centre)) * float(target_weight)
            targets = np.clip(targets, -LARGEST_TARGET, LARGEST_TARGET)
            norms = data.bounds(at) if features else 1.0
            joint_norms = np.sqrt(np.square(norms) + np.square(targets))  # each rounded correctly
            own = np.where(joint_norms > limit, limit / joint_norms, 1.0)
        own = data.weighted(at, own, root=True)
        return own, [own, targets * own] if constant else [targets * own]

    return triangle(data, gram(data, factors, 1 + int(constant), features=features), clip)


def target_sum(data: RowData, bound: float) -> Sum:
    """Sum the targets, each cut to [-bound, bound]; ``values`` has one entry.

    A target is the first number of a row that has several, such as a target and its offset.

    *Privacy.* The contract of ``Sum`` with |c_i| ≤ bound. Proof: docs/proofs/gd.md.
    """
    bound = number("bound", bound, **CLIP)
    targets = data.targets if data.targets.ndim == 1 else data.targets[:, 0].copy()
    weights = data.weights
    values = data.total(
        lambda at: np.array([LOSS_KERNELS.cut_sum(targets[at], weights[at], -bound, bound)]),
        shape=1,
        entries=data.n_rows,
        block_rows=BLOCK_ROWS,
    )
    return Sum(values, gradient_error(data.public_size, BLOCK_ROWS, bound))


def class_counts(data: RowData, n_classes: int) -> Sum:
    """Sum the rows' weights by class: targets 0, 1, …, n_classes − 1. Others count nowhere.

    *Privacy.* The contract of ``Sum`` with c_i a unit vector or 0. So units add vectors of entries
    ≥ 0 and norm at most 1, which differ by at most √2. Proof: docs/proofs/gd.md.
    """
    n_classes = integer("n_classes", n_classes)

    def block_sum(at: slice) -> FloatArray:
        targets, weights = data.targets[at], data.weights[at]
        known = (targets >= 0) & (targets < n_classes)
        codes = np.where(known, targets, n_classes).astype(np.intp)
        counts = np.bincount(codes, weights if weights.size else None, n_classes + 1)
        return counts[:n_classes].astype(np.float64)

    values = data.total(block_sum, n_classes, entries=data.n_rows, block_rows=BLOCK_ROWS)
    return Sum(values, gradient_error(data.public_size, BLOCK_ROWS, 1.0))


def exponent_counts(data: RowData, among: NDArray[np.bool_] | None = None) -> Sum:
    """Count the entries of mapped rows by column and binary exponent, as one vector.

    Entry x is in the cell of e where 2^(e−1) ≤ |x| < 2^e; exponents beyond the outermost cells
    count as these. Entries of exactly ±1 have a cell of their own (indicators of categories are
    recognised by it), and zeros count nowhere. Column j has the m + 1 entries of ``values`` from
    j·(m + 1): m exponents from the first one on, then ±1. A map's clip comes first.

    Of columns ``among`` some, only the largest entry of a row counts: in its column, and in one
    more of all together. Cells are then of `OCTAVES` exponents each, and ±1 has none.

    *Privacy.* The contract of ``Sum``: of each column, a row adds its weight to one cell at most.
    So units add vectors of norm at most √c, which differ by at most √(2c); c is n_features, or 2
    where the largest entry counts. Integers are summed, and divided at the end: the error is that
    of adding up partitions.
    """
    largest = among is not None
    shape = (data.n_features + int(largest), EXPONENTS[1] - EXPONENTS[0] + 3)
    weights = read_only((data.weights * data.weight_unit).astype(np.int64))
    table, map, nothing = data.table, data.map, read_only(np.empty(0))
    in_place = table.dense and map.is_diagonal
    numbers = (map.linear, map.offset) if in_place else (nothing, nothing)
    chosen = read_only(-np.array(among if largest else [], dtype=np.int64).astype(np.uint64))

    def block_counts(at: slice) -> Any:
        counts: Any = np.zeros(shape, dtype=np.int64)
        blocks: Any = [(at, table.block(at))]
        if not map.is_identity and not in_place:
            blocks = ((some, (read_only(tile),)) for some, tile in data.tiles(at))
        for some, rows in blocks:
            size, by = some.stop - some.start, (data.scales[some], *numbers)
            KERNELS.count(rows, size, weights[some], by, *EXPONENTS, chosen, counts)
        return counts

    counts: Any = sum(data.table.each(block_counts), np.zeros(shape, dtype=np.int64))
    counts = counts[:, :-1]  # zeros count nowhere
    if largest:
        counts[:, 1 - EXPONENTS[0]] += counts[:, -1]
        counts = np.add.reduceat(counts[:, :-1], np.arange(0, shape[1] - 2, OCTAVES), axis=1)
    values = counts.ravel() / data.weight_unit
    columns = 2 if largest else data.n_features
    return Sum(values, gradient_error(data.public_size, 1, math.sqrt(columns)))


def edge_counts(data: RowData, columns: Sequence[int], edges: FloatArray) -> Sum:
    """Count the entries of columns, as they are stored, between public edges, as one vector.

    Row k of ``edges`` has the increasing edges of column ``columns[k]``. Its cell i counts the
    entries from edge i to below edge i + 1, and entries beyond the outermost edges count in the
    outermost cells. One more cell, the last, counts missing entries (NaN).

    *Privacy.* The contract of ``Sum``: of each column, a row adds its weight to one cell at most.
    So units add vectors of norm at most √c for c columns, whose entries are not negative. Integers
    are summed, and divided at the end: the error is that of adding up partitions.
    """
    data.need_stored("columns")
    weights = data.weights * data.weight_unit
    total = data.n_rows
    if weights.size:
        total = int(weights.astype(np.int64).sum())
    cells = np.zeros((len(columns), 2 * edges.shape[1] + 1), dtype=np.int64)
    for at in blocks(slice(0, data.n_rows), max(COUNTED // len(columns), 1)):
        for own, values, between in zip(cells, data.table.values(at, columns), edges, strict=True):
            own += cell_counts(values, between, weights[at])
    counts = cells[:, 1:-1:2] + cells[:, 2::2]  # at an edge, and from there to the next one
    counts[:, -2] += counts[:, -1]
    counts[:, -1] = total - cells.sum(axis=1)
    values = counts.ravel() / data.weight_unit
    return Sum(values, gradient_error(data.public_size, 1, math.sqrt(len(columns))))


# ---- counts between public candidates


@cache
def edges(whole: bool = False) -> FloatArray:
    """Return the public candidates, increasing: 0, and ± numbers of two significant digits.

    They go from 1e-9 to 1e12 in steps of 1 to 10 %, and are what a person would write. Integers up
    to 100 and the ends of most scales are among them exactly: 3783 in all, read-only. With
    ``whole`` only the whole numbers among them, 2001: for a column of counts, of which most may be
    0, the others lie between two values that occur, where noise alone would decide.
    """
    digits = [float(f"{number}e{power - 1}") for power in _EXPONENTS for number in range(10, 100)]
    positive = np.array([*digits, 1e12])
    positive = positive[positive % 1 == 0] if whole else positive
    result = np.concatenate([-positive[::-1], [0.0], positive])
    result.flags.writeable = False
    return result


@cache
def norm_candidates(largest: float | None = None) -> FloatArray:
    """Return the public candidates for a norm: 2^(j/16) from 2^-20 to 2^20, increasing.

    Beyond, the powers of 2 from 2^-64 to 2^64: few, as each candidate makes the choice harder; 729
    in all, read-only. Each is larger by a factor 1 + 2^-16, so that rows that were scaled to norm 1
    in single precision do not exceed the candidate at 1. Candidates above ``largest``, a public
    number, are left out (but for the smallest).
    """
    exponents = np.concatenate(
        [np.arange(-64.0, -20.0), np.arange(-320, 321) / 16.0, np.arange(21.0, 65.0)]
    )
    result: FloatArray = np.exp2(exponents) * (1 + 2.0**-16)
    if largest is not None:
        result = result[: max(1, np.searchsorted(result, largest, side="right"))]
    result.flags.writeable = False
    return result


class Counts(NamedTuple):
    """Exact counts of rows; where rows have weights w, exact sums of the integers w·unit."""

    values: NDArray[np.int64]
    unit: int


def cell_counts(
    values: FloatArray, candidates: FloatArray, weights: FloatArray | None = None
) -> NDArray[np.int64]:
    """Count values between K increasing candidates; NaN, which marks a missing value, is skipped.

    Entry 2k + 1 counts the values equal to candidate k, entry 2k those just below it. Values beyond
    the outermost candidates are clipped to them. With ``weights``, if there are entries, these are
    added up instead: whole numbers of at most 2^30, whose sums over a block are exact.

    *Privacy.* The counts are exact: they are for selections only.
    """
    totals = np.zeros(2 * candidates.size + 1, dtype=np.int64)
    values = np.asarray(values, dtype=np.float64)
    for start in range(0, values.size, COUNTED):
        block = values[start : start + COUNTED]
        given = ~np.isnan(block)
        present = np.clip(block[given], candidates[0], candidates[-1])
        if weights is None or not weights.size:  # sorting first is several times as fast
            present.sort()
            below = np.empty(2 * candidates.size, dtype=np.int64)
            below[::2] = np.searchsorted(present, candidates, side="left")
            below[1::2] = np.searchsorted(present, candidates, side="right")
            totals += np.diff(below, prepend=0, append=present.size)
        else:
            above = np.searchsorted(candidates, present)  # the first candidate >= the value
            cells = 2 * above + (candidates[above] == present)
            own = weights[start : start + COUNTED][given]
            totals += np.bincount(cells, own, minlength=totals.size).astype(np.int64)
    return totals


def norm_counts(data: RowData, candidates: FloatArray) -> Counts:
    """Count the norms of rows, without a constant feature, between public candidates."""
    values = cell_counts(data.norms(), candidates, data.weights * data.weight_unit)
    return Counts(values, data.weight_unit)


def column_counts(data: RowData, index: int, edges: FloatArray) -> Counts:
    """Count the numbers of a column, as they are stored, between public edges."""
    data.need_stored("a column")
    if not 0 <= index < data.n_features:
        raise ValueError(f"column must be from 0 to {data.n_features - 1}, not {index!r}.")
    values = cell_counts(data.table.column(index), edges, data.weights * data.weight_unit)
    return Counts(values, data.weight_unit)


def slope_counts(data: RowData, weights: FloatArray, loss: Loss, candidates: FloatArray) -> Counts:
    """Count the sizes of the loss's slopes at weights, between public candidates."""
    one_output(loss, "slopes")
    margins = data.margins_at(weights)
    with np.errstate(all="ignore"):
        sizes = np.abs(loss.derivative(margins, data.targets))
    values = cell_counts(sizes, candidates, data.weights * data.weight_unit)
    return Counts(values, data.weight_unit)
