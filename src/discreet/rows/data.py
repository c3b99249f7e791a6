"""Rows as sums see them: a table, scaled and mapped by public numbers, with targets and memory.

`Memory` keeps margins between calls, under keys that are public: the weights, directions and
steps that callers passed. A remembered margin is a function of its row and of that history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import NotSupported
from discreet.rows.affine import AffineMap
from discreet.rows.bounds import (
    LARGEST_MAPPED_NORM,
    ROOT_LIFT,
    ROOT_ROOM,
    SMALLEST_FACTOR,
    SMALLEST_MAPPED_SCALE,
    WEIGHT_STEPS,
    mapped_norm_error,
)
from discreet.rows.sparse import Table
from discreet.rows.table import (
    KERNELS,
    PRODUCT_KERNELS,
    TILE_ENTRIES,
    Node,
    blocks,
    in_parts,
    joined,
    tree_total,
)
from discreet.rows.units import Codes, RowWeights, Unit
from discreet.validate import FloatArray, vector

SOLVERS_OF_SUMS = "Use a solver that takes sums over all rows: 'gd', 'agd' or 'newton'."


Carried = tuple[FloatArray, FloatArray]
"""Weights (K, d) and constants, of which there may be none, for rows as they are stored."""


class Point(NamedTuple):
    """Weights, and the margins of all rows at them."""

    weights: FloatArray
    margins: FloatArray


class Line(NamedTuple):
    """A line of weights, and how the margins of all rows change along it."""

    start: Point
    steps: FloatArray
    direction: FloatArray
    changes: FloatArray

    def find(self, weights: FloatArray) -> int | None:
        """Return k such that ``weights`` is exactly the point at ``steps[k]``, if there is one."""
        at = np.argmax(np.abs(self.direction))  # one coordinate rules out most steps
        along = self.start.weights[at] - self.steps * self.direction[at]
        likely = np.flatnonzero(along == weights[at])
        points = self.start.weights - self.steps[likely, None] * self.direction
        hits = likely[(points == weights).all(axis=1)]
        return int(hits[0]) if hits.size else None


@dataclass(eq=False)
class Memory:
    """The last margins of rows, their changes along the last line, and their largest entries.

    Each is replaced, never modified, so copies may share them. ``mapped``: rows under the last map.
    """

    point: Point | None = None
    line: Line | None = None
    largest: FloatArray | None = None
    mapped: RowData | None = None

    def known(self, weights: FloatArray) -> FloatArray | None:
        """Return the margins at ``weights`` if they are remembered or lie on the last line."""
        point, line = self.point, self.line
        if point is not None and np.array_equal(weights, point.weights):
            return point.margins
        if line is None or line.direction.size != weights.size:
            return None
        with np.errstate(all="ignore"):
            k = line.find(weights)
            if k is None:
                return None
            margins: FloatArray = line.changes * -line.steps[k]
            margins += line.start.margins
        self.point = Point(weights, margins)
        return margins


@dataclass(eq=False)
class RowData:
    """A table, and what makes rows of it. No field is ever changed.

    Attributes
    ----------
    table, targets
        The table as it is stored, and one target per row.
    fit_intercept : bool
        True if rows have a constant last feature 1 (never stored).
    row_norm : float or None
        Norm that longer rows are scaled down to; of mapped rows, in moments only.
    map : AffineMap
        The map that rows go through, the identity by default.
    public_size : int
        Public bound on the total weight (without weights, number) of the rows of the whole table,
        of which this may be a part. That of a neighbour is at most one more.
    scales : ndarray
        s of each row; no entries if no row is scaled.
    norm_bounds : ndarray
        Upper bounds on the norm of each mapped row, with its constant, from that row alone; 0 if
        not computed yet. Read them through `bounds`.
    weights : ndarray
        What a row's part in every sum is multiplied by: from 0 to 1, in multiples of 2^-30. No
        entries if all are 1.
    unit : {"row", "person"}
        Privacy unit that every answer about these rows protects.
    units, grouped
        The unit of each row, a number below ``public_size`` (no entries if that is not known, or if
        each row is a unit), and True if rows may share units, whose weights add up to at most 1.
    gaps : bool
        True if entries may be missing: such rows answer counts of their columns alone.
    weight_unit : int
        Weights times this are integers: 1 if all weights are 1.
    smallest : float
        Norms below this count as this where gradients are clipped: 1 for mapped rows without a
        constant feature, whose factor is then at most the clip (docs/proofs/affine.md), else 0.
    n_rows, n_features, n_parameters, dense
        Size and kind; parameters count the intercept. ``n_rows`` of a sample is private.
    """

    table: Table
    targets: FloatArray
    fit_intercept: bool
    row_norm: float | None
    map: AffineMap
    public_size: int
    scales: FloatArray
    norm_bounds: FloatArray
    weights: FloatArray
    units: Codes = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    grouped: bool = False
    unit: Unit = "row"
    gaps: bool = False
    memory: Memory = field(init=False, default_factory=Memory)

    def __post_init__(self) -> None:
        table, map = self.table, self.map
        self.n_rows, self.dense = table.n_rows, table.dense
        self.n_features = table.n_features if map.is_identity else map.offset.size
        self.n_parameters = self.n_features + int(self.fit_intercept)
        self.weight_unit = WEIGHT_STEPS if self.weights.size else 1
        self.smallest = 0.0 if map.is_identity or self.fit_intercept else 1.0

    def with_row_norm(self, row_norm: float) -> Self:
        """Return the same rows, scaled down to a norm. Norms are not computed again."""
        if row_norm == self.row_norm:
            return self
        if self.row_norm is not None or self.fit_intercept or not self.map.starts(self.map):
            raise ValueError("rows must be those of the table, without row_norm and intercept.")
        with np.errstate(all="ignore"):  # a warning about one row would be about that row
            scales = np.minimum(row_norm / self.norm_bounds, 1.0)
        scales[scales <= SMALLEST_FACTOR] = 0.0
        norms, start = np.minimum(self.norm_bounds, row_norm), replace(self.map, row_norm=row_norm)
        return replace(self, row_norm=row_norm, map=start, scales=scales, norm_bounds=norms)

    def with_units(self, units: FloatArray) -> Self:
        """Return the rows of the table with columns times powers of two; norms are theirs.

        Rows whose norm is not a number any more count as infinitely long: scaled down, they are 0.
        """
        if self.row_norm is not None or self.fit_intercept or not self.map.is_identity:
            raise ValueError("rows must be those of the table, without row_norm and intercept.")
        if units.size != self.n_features or not (np.frexp(units)[0] == 0.5).all():
            raise ValueError("units must be a power of two for each column.")
        norms = self.table.norms(units)
        return replace(self, map=AffineMap.in_units(units), norm_bounds=norms)

    def transformed(
        self, map: AffineMap, *, fit_intercept: bool, row_norm: float | None = None
    ) -> Self:
        """Return the rows, scaled down to the map's ``row_norm`` already, under the affine map.

        Mapped rows answer questions about margins, gradients, losses and moments. ``row_norm`` is
        the norm that longer mapped rows are scaled down to in moments; gradients are clipped
        anyway.
        """
        if not self.map.starts(map):
            raise ValueError(
                "rows to be mapped must have the row norm and units of the map and no map before; "
                f"got {self.map.row_norm:g}, and the map has {map.row_norm:g}."
            )
        if not map.bound <= LARGEST_MAPPED_NORM:  # also if it is not made of finite numbers
            raise ValueError(
                f"rows can be mapped to norms of at most {LARGEST_MAPPED_NORM:g}; this map allows "
                f"{map.bound:g}. Scale the columns down first."
            )
        last = self.memory.mapped
        norms = np.zeros(self.n_rows)
        if last is not None and last.map is map and last.fit_intercept == fit_intercept:
            norms = last.norm_bounds
        public: Any = {"fit_intercept": fit_intercept, "row_norm": row_norm, "map": map}
        self.memory.mapped = mapped = replace(self, norm_bounds=norms, **public)
        return mapped

    def bounds(self, at: slice | None = None) -> FloatArray:
        """Return upper bounds on the norms of rows, by default of all, with their constants.

        Those of mapped rows are computed when they are first asked for, and kept
        (docs/proofs/affine.md).
        """
        if at is None:
            self.table.each(self.bounds, 1 if self.map.is_diagonal else self.n_features)
            return self.norm_bounds
        norms, map, table = self.norm_bounds[at], self.map, self.table
        if map.is_identity or norms.min(initial=1.0) > 0.0:
            return norms
        found, scales = np.empty(norms.size), self.scales[at]
        if map.is_diagonal:
            table.mapped_norms(at, scales, map, found)
        else:
            for some, tile in self.tiles(at, stored=True):
                out = found[some.start - at.start : some.stop - at.start]
                PRODUCT_KERNELS.triangle_norms(tile, self.scales[some], *map.packed, out)
        found += mapped_norm_error(table.n_features, map.bound, turned=not map.is_diagonal)
        found[scales < SMALLEST_MAPPED_SCALE] = 2 * map.bound + 1
        if self.fit_intercept:
            add_constant(found, True)
        norms[:] = found
        return norms

    def norms(self) -> FloatArray:
        """Return upper bounds on the norms of rows, without a constant feature (private).

        Taking the constant out again rounds short ones.
        """
        norms = self.bounds()
        if self.fit_intercept:
            with np.errstate(all="ignore"):  # a warning about one row would be about that row
                return np.sqrt(np.maximum(np.square(norms) - 1.0, 0.0))
        return norms.copy()

    def take(self, index: NDArray[np.intp]) -> Self:
        """Return the named rows, as rows; the public size stays that of the whole table."""
        return replace(
            self,
            table=self.table.take(index),
            targets=self.targets[index],
            scales=self.scales[index] if self.scales.size else self.scales,
            norm_bounds=self.norm_bounds[index],
            weights=self.weights[index] if self.weights.size else self.weights,
            units=self.units[index] if self.units.size else self.units,
        )

    @property
    def n_units(self) -> int:
        """Number of units that can be drawn: public where rows share units."""
        return self.public_size if self.grouped else self.n_rows

    def take_units(self, index: NDArray[np.intp]) -> Self:
        """Return all rows of the named units."""
        if not self.grouped:
            return self.take(index)
        drawn = np.zeros(self.public_size, dtype=bool)
        drawn[index] = True
        return self.take(np.flatnonzero(drawn[self.units]))

    def weighted(self, at: slice, parts: FloatArray, *, root: bool = False) -> FloatArray:
        """Return the parts of rows times the rows' weights: themselves, or new.

        With ``root``, times roots of the weights, for parts that are squared.
        """
        if not self.weights.size:
            return parts
        own = np.sqrt(self.weights[at]) * ROOT_ROOM if root else self.weights[at]
        return parts * own.reshape(-1, *(1,) * (parts.ndim - 1))

    def total(
        self,
        block_sum: Callable[[slice], FloatArray],
        shape: int | tuple[int, ...],
        *,
        entries: int = 0,
        block_rows: int = 0,
        stacked: bool = False,
    ) -> FloatArray:
        """Add up ``block_sum(at)`` over blocks of rows, pairwise, in parts.

        One binary tree over all blocks, whatever the threads: the same bits (summation.md, part 3).
        ``entries`` are those that are computed with, by default those of the table, and
        ``block_rows`` the rows of a block in the error bound, which a block may have fewer of. With
        ``stacked``, ``block_sum`` returns an array of the sums of its blocks: rows that need not be
        copied are summed by one call per thread.
        """
        if not self.n_rows:
            return np.zeros(shape)
        height = min(block_rows or self.table.block_rows, self.table.height)
        together = self.n_rows if stacked and self.table.height >= self.n_rows else height

        def nodes(part: slice) -> list[Node]:
            calls = (block_sum(at) for at in blocks(part, together))
            sums = chain.from_iterable(calls) if stacked else calls
            return joined((0, k, values) for k, values in enumerate(sums, part.start // height))

        parts = in_parts(nodes, self.n_rows, entries or self.table.n_entries, height)
        return tree_total(chain.from_iterable(parts))

    @property
    def public_facts(self) -> dict[str, Any]:
        """Public attributes of the rows."""
        names = ("public_size", "row_norm", "fit_intercept", "n_features", "n_parameters", "dense")
        return {name: getattr(self, name) for name in (*names, "unit")}

    @property
    def total_weight(self) -> float:
        """The sum of the rows' weights (private)."""
        return float(self.weights.sum()) if self.weights.size else float(self.n_rows)

    @property
    def row_weights(self) -> RowWeights:
        """The weights with their units, as `RowWeights`."""
        return RowWeights(self.weights, self.public_size, self.unit, self.grouped, self.units)

    def check_sampling(self) -> None:
        """Refuse samples of units where it is not known which rows are theirs."""
        if self.grouped and self.units.size != self.n_rows:
            raise NotSupported(f"Samples of rows with weights need their units. {SOLVERS_OF_SUMS}")

    def check_batches(self) -> None:
        """Refuse batches of rows that have weights: rows of a unit are not drawn together."""
        if self.grouped or self.weights.size:
            raise NotSupported(f"Batches of rows with weights are not supported. {SOLVERS_OF_SUMS}")

    def need_stored(self, what: str) -> None:
        """Refuse a question that only rows as they are stored can answer."""
        if not self.map.is_identity:
            raise NotSupported(
                f"{what} of rows under an affine map is not supported; write the table first."
            )

    def carried(self, weights: FloatArray, count: int = 1) -> Carried:
        """Return weights (K, d) and constants (K, or none) for the table as it is stored.

        They give stored rows the margins that mapped rows have: a computation on public numbers.
        """
        given = weights.reshape(count, self.n_parameters)
        if self.map.is_identity:
            return given[:, : self.n_features], given[:, self.n_features :].ravel()
        if not self.fit_intercept:
            given = np.column_stack([given, np.zeros(count)])
        with np.errstate(all="ignore"):
            carried = np.nan_to_num(self.map.adjoint(given))
        return carried[:, :-1], carried[:, -1]

    def block_margins(self, at: slice, carried: Carried, out: FloatArray) -> None:
        """Write the margins of rows, one or K each, to out."""
        weights, constants = carried
        if out.ndim == 1:
            KERNELS.products(self.table.block(at), weights[0], out)
        else:
            KERNELS.output_products(self.table.block(at), np.ascontiguousarray(weights), out)
        self.finish_margins(out, at, constants)

    def finish_margins(self, products: FloatArray, at: slice, constants: FloatArray) -> None:
        """Turn products with stored rows into margins, in place."""
        with np.errstate(all="ignore"):
            if self.scales.size:
                products *= self.scales[at].reshape(-1, *(1,) * (products.ndim - 1))
            if constants.size:
                products += constants

    def computed_margins(self, weights: FloatArray, count: int = 1) -> FloatArray:
        """Return the n margins at a vector of weights; n × K at K rows of weights, one by one."""
        carried = self.carried(weights, count)
        values = np.empty(self.n_rows if count == 1 else (self.n_rows, count))
        self.table.each(lambda at: self.block_margins(at, carried, values[at]), count)
        return values

    def margins_at(self, weights: ArrayLike, count: int = 1) -> FloatArray:
        """Return the same margins: remembered, moved along the last line, or computed."""
        at = vector("weights", weights, count * self.n_parameters)
        margins = self.memory.known(at)
        if margins is None:
            margins = self.computed_margins(at, count)
            self.memory.point = Point(at, margins)
        return margins

    def tiles(self, at: slice, *, stored: bool = False) -> Iterator[tuple[slice, NDArray[Any]]]:
        """Yield places and dense rows, a few at a time: mapped, or as they are stored, not scaled.

        Rows without a map are always those that are ``stored``.
        """
        for some in blocks(at, max(16, TILE_ENTRIES // self.table.n_features)):
            tile = self.table.tile(some)
            if stored or self.map.is_identity:
                yield some, tile
            else:
                mapped = np.empty((len(tile), self.n_features))
                numbers = (self.scales[some], self.map.linear, self.map.offset)
                KERNELS.map_rows(tile, *numbers, mapped)
                yield some, mapped


def add_constant(norms: FloatArray, where: Any) -> None:
    """Turn bounds on ‖x‖ into bounds on ‖(x, 1)‖, in place; the root only for some rows."""
    with np.errstate(all="ignore"):
        np.multiply(norms, norms, out=norms, where=where)
        np.add(norms, 1.0, out=norms, where=where)
        np.sqrt(norms, out=norms, where=where)
        norms *= ROOT_LIFT
