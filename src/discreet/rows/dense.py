"""Tables in a NumPy array of any layout: in memory, read-only or memory-mapped."""

# ruff: noqa: D102  the primitives are documented in Table

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from discreet.rows.bounds import BLOCK_ROWS, norm_inflation
from discreet.rows.table import (
    ACCURATE_KERNELS,
    BAD_NUMBERS,
    KERNELS,
    OUTPUT_KERNELS,
    Batches,
    Halves,
    Piece,
    Table,
    in_parts,
    read_only,
)
from discreet.validate import FloatArray

__all__ = ["DenseTable"]

TILE_ENTRIES = 2**16
"""Entries of X (half a megabyte) that are converted at a time."""

PIECE_ENTRIES = 2**17
"""Entries of X that are used at a time: few enough to be read from cache twice."""

WIDE_ROWS, WIDE_ENTRIES = 64, 2**18
"""Rows per tile of a wide table, as long as a tile has at most this many entries (2 MB)."""


class DenseTable(Table):
    """Rows of a NumPy array. Layouts other than C and F are read in small tiles.

    Parameters
    ----------
    X : ndarray of float32 or float64, shape (n_rows, n_features)
        The table, not copied. It must not change while it is in use.
    """

    dense = True

    def __init__(self, X: NDArray[Any]) -> None:
        self.array = X.view()
        self.array.flags.writeable = False
        self.n_rows, self.n_features = X.shape
        self.n_entries = X.size
        double = X.dtype == np.float64 and X.flags.aligned
        self._by_row = double and X.flags.c_contiguous
        self._as_stored = X.flags.aligned and X.flags.c_contiguous  # kernels take single precision
        self._by_column = double and X.flags.f_contiguous and not X.flags.c_contiguous
        columns = max(1, X.shape[1])
        self._height = max(1, TILE_ENTRIES // columns, min(WIDE_ROWS, WIDE_ENTRIES // columns))

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype

    def norms(self) -> FloatArray:
        inflation, out = norm_inflation(self.n_features), np.empty(self.n_rows)

        def part(first: int, last: int) -> bool:
            finite = True
            for start, tile in self.tiles(first, last):
                finite &= KERNELS.dense_norms(tile, inflation, out[start : start + len(tile)])
            return finite

        if not all(in_parts(part, self.n_rows, self.n_entries, self.block_rows)):
            raise ValueError(BAD_NUMBERS)
        return out

    def tiles(self, start: int, stop: int) -> Iterator[tuple[int, FloatArray]]:
        if self._by_row:
            yield start, self.array[start:stop]
            return
        buffer = np.empty((min(self._height, stop - start), self.n_features))
        for first in range(start, stop, self._height):
            tile = buffer[: min(self._height, stop - first)]
            np.copyto(tile, self.array[first : first + len(tile)])
            yield first, read_only(tile)

    def pieces(self, start: int, stop: int) -> Iterator[Piece]:
        if self._by_column:
            yield Piece(start, stop, self.array[start:stop])
        elif self._as_stored:
            height = max(self._height, PIECE_ENTRIES // self.n_features)
            for first in range(start, stop, height):
                last = min(first + height, stop)
                yield Piece(first, last, self.array[first:last])
        else:
            for first, tile in self.tiles(start, stop):
                yield Piece(first, first + len(tile), tile)

    def products(self, piece: Piece, vector: FloatArray, out: FloatArray) -> None:
        if self._by_column:
            KERNELS.column_products(piece.data, vector, out)
        else:
            KERNELS.dense_products(piece.data, vector, out)

    def add(self, piece: Piece, coefficients: FloatArray, total: FloatArray) -> None:
        if self._by_column:
            total += coefficients @ piece.data
        else:
            KERNELS.dense_add(piece.data, coefficients, total)

    def output_products(self, weights: FloatArray) -> Callable[[int, int, FloatArray], None]:
        missing = -len(weights) % OUTPUT_KERNELS.TOGETHER
        padded = np.zeros((len(weights) + missing, self.n_features))
        padded[: len(weights)] = weights

        def write(start: int, stop: int, out: FloatArray) -> None:
            for first, tile in self.tiles(start, stop):
                here = out[first - start : first - start + len(tile)]
                OUTPUT_KERNELS.dense_output_products(tile, padded, here)

        return write

    def output_sum(self, start: int, factors: FloatArray) -> FloatArray:
        total = np.zeros((factors.shape[1], self.n_features))
        for first, tile in self.tiles(start, start + len(factors)):
            here = factors[first - start : first - start + len(tile)]
            OUTPUT_KERNELS.dense_output_add(tile, here, total)
        return total

    def accurate_products(self, start: int, stop: int, weights: Halves, out: Halves) -> None:
        for first, tile in self.tiles(start, stop):
            at = slice(first - start, first - start + len(tile))
            parts = (out[0][at], out[1][at])
            ACCURATE_KERNELS.accurate_dense_products(tile, *weights, *parts)

    def square_sum(self, start: int, stop: int, scales: FloatArray) -> FloatArray:
        total = np.zeros(self.n_features)
        for row, tile in self.tiles(start, stop):
            KERNELS.dense_square_add(tile, scales[row : row + len(tile)], total)
        return total

    def weighted_squares(self, factors: FloatArray) -> FloatArray:
        total = np.zeros((factors.shape[1], self.n_features))
        for start in range(0, self.n_rows, BLOCK_ROWS):
            for first, tile in self.tiles(start, min(start + BLOCK_ROWS, self.n_rows)):
                total += factors[first : first + len(tile)].T @ (tile * tile)
        return total

    def largest_entries(self) -> FloatArray:
        out = np.empty(self.n_rows)
        for start, tile in self.tiles(0, self.n_rows):
            KERNELS.dense_largest(tile, out[start : start + len(tile)])
        return out

    def column(self, index: int) -> FloatArray:
        return np.array(self.array[:, index], dtype=np.float64)

    def take(self, index: NDArray[np.intp]) -> Self:
        return type(self)(self.array[index])

    def columns(self, index: NDArray[np.intp]) -> Self:
        return type(self)(np.ascontiguousarray(self.array[:, self.check_columns(index)]))

    def scaled(
        self, factors: FloatArray, *, largest: float | None = None, out: Any | None = None
    ) -> NDArray[Any]:
        if largest is not None:
            values = self.array.astype(np.float64)
            values *= factors[:, None]
            return np.clip(values, -largest, largest, out=values)
        if out is None:
            out = np.empty(self.array.shape, dtype=self.dtype)
        written: NDArray[Any] = np.multiply(
            self.array, factors[:, None], out=out, casting="same_kind"
        )
        return written

    def batches(self, order: NDArray[np.int64]) -> Iterator[Batches]:
        everything = slice(None)
        if self._by_row:
            yield Batches(everything, (self.array,), order, everything)
            return
        height = max(1, PIECE_ENTRIES // max(1, order.shape[1] * self.n_features))
        for first in range(0, len(order), height):
            part = order[first : first + height]
            tile = read_only(np.ascontiguousarray(self.array[part.ravel()], dtype=np.float64))
            index = np.arange(part.size, dtype=np.int64).reshape(part.shape)
            yield Batches(slice(first, first + height), (tile,), index, part.ravel())
