"""Rows in a numpy array of any layout: in memory, read-only or memory-mapped."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.rows.base import Rows
from discreet.rows.bounds import norm_inflation
from discreet.rows.checks import Vector, check_targets
from discreet.rows.parts import in_parts

__all__ = ["DenseRows"]

TILE_ENTRIES = 2**16
"""Entries of X (half a megabyte) that are converted at a time."""

PIECE_ENTRIES = 2**17
"""Entries of X that are used at a time: few enough to be read from cache twice."""

WIDE_ROWS, WIDE_ENTRIES = 64, 2**18
"""Wide tables have as many rows at a time, if that is at most so many entries (2 MB)."""


class DenseRows(Rows):
    """Rows of a numpy array. X is read in place, layouts other than C and F in small tiles.

    Parameters
    ----------
    X : ndarray of float32 or float64, shape (n_rows, n_features)
        The table, not copied. It must not change while the rows are in use.
    y : array of n_rows numbers
        Targets, copied.
    fit_intercept : bool
        Whether rows have a constant last feature 1.
    row_norm : float or None
        Norm that longer rows are scaled down to.
    """

    def __init__(
        self, X: NDArray[Any], y: ArrayLike, *, fit_intercept: bool, row_norm: float | None
    ) -> None:
        from discreet.rows import kernels

        targets = check_targets(y, X.shape[0])
        super().__init__(X.shape[0], X.shape[1], targets, fit_intercept, row_norm)
        self._set_table(X)
        inflation = norm_inflation(self.n_features)

        def part(first: int, last: int) -> bool:
            finite = True
            for start, tile in self._tiles(first, last):
                norms = self._norms[start : start + len(tile)]
                finite &= kernels.dense_norms(tile, inflation, norms)
            return finite

        if not all(in_parts(part, self.n_rows, self._n_entries, self.block_rows)):
            raise ValueError(
                "X must be finite; it has NaN or infinite entries. "
                "Impute them or remove those rows."
            )
        self._scale_norms()

    def _set_table(self, X: NDArray[Any]) -> None:
        self._table = X.view()
        self._table.flags.writeable = False
        plain = X.dtype == np.float64 and X.flags.aligned
        self._by_row = plain and X.flags.c_contiguous
        self._as_stored = X.flags.aligned and X.flags.c_contiguous  # kernels take single precision
        columns = max(1, X.shape[1])
        self._height = max(1, TILE_ENTRIES // columns, min(WIDE_ROWS, WIDE_ENTRIES // columns))
        self._by_column = plain and X.flags.f_contiguous and not X.flags.c_contiguous

    def _tiles(self, start: int, stop: int) -> Any:
        """Yield (first row, C-contiguous float64 rows), without copies where X is so already."""
        if self._by_row:
            yield start, self._table[start:stop]
            return
        height = self._height
        buffer = np.empty((min(height, stop - start), self.n_features))
        for first in range(start, stop, height):
            tile = buffer[: min(height, stop - first)]
            np.copyto(tile, self._table[first : first + len(tile)])
            view = tile.view()
            view.flags.writeable = False  # the type that the kernels are compiled for
            yield first, view

    @property
    def _n_entries(self) -> int:
        return self._table.size

    def _pieces(self, start: int, stop: int) -> Iterator[tuple[int, int, Any]]:
        if self._by_column:
            yield start, stop, self._table[start:stop]
        elif self._as_stored:
            height = max(self._height, PIECE_ENTRIES // self.n_features)
            for first in range(start, stop, height):
                last = min(first + height, stop)
                yield first, last, self._table[first:last]
        else:
            for first, tile in self._tiles(start, stop):
                yield first, first + len(tile), tile

    def _piece_products(self, piece: Any, vector: Vector, out: Vector) -> None:
        from discreet.rows import kernels

        (kernels.column_products if self._by_column else kernels.dense_products)(piece, vector, out)

    def _piece_add(self, piece: Any, coefficients: Vector, total: Vector) -> None:
        from discreet.rows import kernels

        if self._by_column:
            total += coefficients @ piece
        else:
            kernels.dense_add(piece, coefficients, total)

    def _take(self, index: NDArray[np.intp]) -> Self:
        drawn = copy.copy(self)
        drawn._set_table(self._table[index])
        return drawn
