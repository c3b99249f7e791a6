"""Sums of clipped rows, their squares and outer products, and rows moved by what was released.

The sums have the contract of every sum here (docs/proofs/summation.md): a row's part is a function
of that row and public arguments, within the clip, and the rounding error has a public bound. Moved
rows are private like the rows themselves. Proof: docs/proofs/preparation.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from discreet.blas import one_thread
from discreet.rows.bounds import SLACK, gamma, gradient_error
from discreet.rows.checks import Vector, check_vector
from discreet.rows.parts import in_parts

__all__ = ["Moments", "outer_error", "triangle", "triangle_size"]

OUTER_ROWS = 4096
"""Rows whose outer products are summed before the sum is added to the total."""

TILE_ENTRIES = 2**20
"""Entries of a sparse table (8 MB) that are made dense at a time, to move its rows."""


def triangle_size(n_features: int) -> int:
    """Numbers in the upper triangle of a symmetric matrix, diagonal included."""
    return n_features * (n_features + 1) // 2


def triangle(n_features: int) -> tuple[NDArray[np.intp], NDArray[np.intp], Vector]:
    """Return the places of the upper triangle, row by row, and each number's weight.

    Weights of 1 on and √2 off the diagonal make the L2 norm of the weighted triangle the Frobenius
    norm of the matrix.
    """
    first, second = np.triu_indices(n_features)
    return first, second, np.where(first == second, 1.0, math.sqrt(2.0))


def outer_error(n_rows: int, block_rows: int, clip: float) -> float:
    """Bound the L2 error of the weighted triangle of a sum of yyᵀ with ‖y‖ ≤ clip.

    Parameters
    ----------
    n_rows : int
        Public number of rows; the bound holds for one more as well.
    block_rows : int
        Rows whose products are summed before the sum is added to the total.
    clip : float
        Bound on the norm of a row.
    """
    rows = n_rows + 1
    depth = min(block_rows, rows) + math.ceil(rows / block_rows) + 12
    return SLACK * gamma(depth) * rows * clip * clip


class Moments:
    """First and second moments of rows that are clipped to a public norm, and moved rows."""

    if TYPE_CHECKING:
        n_rows: int
        n_features: int
        block_rows: int
        row_norm: float | None
        fit_intercept: bool
        dense: bool
        _norms: Vector
        _public_rows: int
        _n_entries: int
        _scales: Vector
        _table: Any
        _tiles: Any
        _data: Any
        _indices: Any
        _indptr: Any
        _weighted_sum: Any

    def row_sum(self) -> Any:
        """Sum the rows, each scaled down to ``row_norm`` where it is longer; no constant feature.

        Returns
        -------
        Sum
            ``values`` has n_features entries.

        Notes
        -----
        *Privacy.* The contract of ``Sum`` with ‖c_i‖₂ ≤ row_norm. Proof:
        docs/proofs/preparation.md.
        """
        from discreet.rows.base import Sum

        clip = self._clip()

        def part(first: int, last: int) -> Vector:
            values = np.zeros(self.n_features)
            for start in range(first, last, self.block_rows):
                stop = min(start + self.block_rows, last)
                values += self._weighted_sum(start, self._scales[start:stop])
            return values

        parts = in_parts(part, self.n_rows, self._n_entries, self.block_rows)
        values = np.add.reduce(parts)
        return Sum(values, gradient_error(self._public_rows, self.block_rows, clip))

    def outer_sum(self) -> Any:
        """Sum the outer products of the rows, each scaled down to ``row_norm`` if it is longer.

        Returns
        -------
        Sum
            ``values`` is the upper triangle, row by row, with off-diagonal numbers times √2 (see
            `triangle`): its L2 norm is the matrix's Frobenius norm.

        Notes
        -----
        *Privacy.* The contract of ``Sum`` with c_i the weighted triangle of yyᵀ, ‖y‖ ≤ row_norm:
        ‖c_i‖₂ ≤ row_norm². Proof: docs/proofs/preparation.md.
        """
        from discreet.rows.base import Sum

        clip, size = self._clip(), self.n_features
        block_rows = OUTER_ROWS if self.dense else max(OUTER_ROWS, size)

        def part(first: int, last: int) -> Vector:
            total = np.zeros((size, size))
            for start in range(first, last, block_rows):
                total += self._outer_block(start, min(start + block_rows, last))
            return total

        with one_thread():
            parts = in_parts(part, self.n_rows, self._n_entries * size, block_rows)
        rows, columns, weights = triangle(size)
        total = parts[0]
        for other in parts[1:]:
            total += other
        values = total[rows, columns] * weights
        return Sum(values, outer_error(self._public_rows, block_rows, clip))

    def square_sum(self) -> Any:
        """Sum the squares of the rows' entries, each row scaled down to ``row_norm`` if longer.

        Returns
        -------
        Sum
            ``values`` has n_features entries: the diagonal of what `outer_sum` computes.

        Notes
        -----
        *Privacy.* The contract of ``Sum`` with c_i = y∘y, ‖y‖ ≤ row_norm: entries of c_i are not
        negative and ‖c_i‖₂ ≤ row_norm². Proof: docs/proofs/preparation.md.
        """
        from discreet.rows.base import Sum

        clip = self._clip()

        def part(first: int, last: int) -> Vector:
            values = np.zeros(self.n_features)
            for start in range(first, last, self.block_rows):
                values += self._square_block(start, min(start + self.block_rows, last))
            return values

        parts = in_parts(part, self.n_rows, self._n_entries, self.block_rows)
        values = np.add.reduce(parts)
        return Sum(values, outer_error(self._public_rows, self.block_rows, clip))

    def _square_block(self, start: int, stop: int) -> Vector:
        from discreet.rows import moment_kernels as kernels

        total = np.zeros(self.n_features)
        if self.dense:
            for row, tile in self._tiles(start, stop):
                kernels.dense_square_add(tile, self._scales[row : row + len(tile)], total)
        else:
            table = (self._indptr, self._indices, self._data)
            kernels.sparse_square_add(*table, self._scales, start, stop, total)
        return total

    def norms(self) -> Vector:
        """Return the rows' norms, at most ``row_norm`` where there is one (private; a new array).

        They are upper bounds on the true norms, by a few roundings, and computed from each row
        alone. A constant feature is taken out of them again, which rounds short ones.
        """
        if self.fit_intercept:
            with np.errstate(all="ignore"):  # a warning about one row would be about that row
                return np.sqrt(np.maximum(np.square(self._norms) - 1.0, 0.0))
        return self._norms.copy()

    def _outer_block(self, start: int, stop: int) -> Vector:
        from discreet.rows import moment_kernels as kernels

        total = np.zeros((self.n_features, self.n_features))
        if self.dense:
            for row, tile in self._tiles(start, stop):
                scaled = tile * self._scales[row : row + len(tile), None]
                total += scaled.T @ scaled
        else:
            table = (self._indptr, self._indices, self._data)
            kernels.sparse_outer_add(*table, self._scales, start, stop, total)
        return total

    def column(self, index: int) -> Vector:
        """Return one column as stored, without any scaling, as a new array (private)."""
        if not 0 <= index < self.n_features:
            raise ValueError(f"column must be from 0 to {self.n_features - 1}, not {index!r}.")
        if self.dense:
            return np.array(self._table[:, index], dtype=np.float64)
        values = np.zeros(self.n_rows)
        found = np.flatnonzero(self._indices == index)
        values[np.searchsorted(self._indptr, found, side="right") - 1] = self._data[found]
        return values

    def scaled(self, factor: float, out: NDArray[Any] | None = None) -> Any:
        """Return the rows, scaled down to ``row_norm``, times ``factor``; a sparse table stays so.

        ``out``, for a dense table, and privacy are as in `shifted`.
        """
        self._clip()
        factors = self._scales * float(factor)
        if self.dense:
            if out is None:
                out = np.empty(self._table.shape, dtype=self._table.dtype)
            return np.multiply(self._table, factors[:, None], out=out, casting="same_kind")
        data = np.repeat(factors, np.diff(self._indptr))
        data *= self._data[: data.size]
        parts = (data.astype(self._data.dtype, copy=False), self._indices[: data.size])
        return sp.csr_array((*parts, self._indptr), shape=(self.n_rows, self.n_features))

    def shifted(self, shift: ArrayLike, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return the rows, scaled down to ``row_norm``, minus ``shift``, as a dense array.

        Rows without a ``row_norm`` are moved as they are.
        ``out``, if given, is written to; it may be the table itself, which then is lost.

        Notes
        -----
        *Privacy.* Private, like the rows. A row of the result is a function of that row, the
        arguments and the type of the table alone.
        """
        from discreet.rows import moment_kernels as kernels

        vector = check_vector("shift", shift, self.n_features)
        return self._moved(kernels.shift_rows, vector, out)

    def rotated(self, matrix: ArrayLike, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return ``matrix`` times each row, scaled down to ``row_norm``, as a dense array.

        ``out`` and privacy are as in `shifted`.
        """
        from discreet.rows import moment_kernels as kernels

        square = np.array(matrix, dtype=np.float64, order="C")
        if square.shape != (self.n_features, self.n_features) or not np.isfinite(square).all():
            raise ValueError(
                f"matrix must be {self.n_features} × {self.n_features} finite numbers."
            )
        return self._moved(kernels.turn_rows, square, out)

    def _moved(self, kernel: Any, argument: Vector, out: NDArray[Any] | None) -> NDArray[Any]:
        scales = self._scales if self._scales.size else np.ones(self.n_rows)
        if out is None:
            kind = self._table.dtype if self.dense else self._data.dtype
            out = np.empty((self.n_rows, self.n_features), dtype=kind)
        argument.flags.writeable = False

        def part(first: int, last: int) -> None:
            for start, tile in self._dense_tiles(first, last):
                block = slice(start, start + len(tile))
                kernel(tile, scales[block], argument, out[block])

        in_parts(part, self.n_rows, self.n_rows * self.n_features, self.block_rows)
        return out

    def _dense_tiles(self, start: int, stop: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (first row, rows as a dense array of float64)."""
        if self.dense:
            yield from self._tiles(start, stop)
            return
        height = max(1, TILE_ENTRIES // self.n_features)
        for first in range(start, stop, height):
            last = min(first + height, stop)
            pointers = self._indptr[first : last + 1]
            entries = slice(pointers[0], pointers[-1])
            parts = (self._data[entries], self._indices[entries], pointers - pointers[0])
            tile = sp.csr_array(parts, shape=(last - first, self.n_features)).toarray()
            yield first, np.ascontiguousarray(tile, dtype=np.float64)

    def _clip(self) -> float:
        if self.row_norm is None:
            raise ValueError(
                "moments of rows need a public bound on the norm of a row; pass row_norm."
            )
        return float(self.row_norm)
