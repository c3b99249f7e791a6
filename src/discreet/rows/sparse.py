"""Tables in a SciPy CSR matrix: only stored entries are touched."""

# ruff: noqa: D102  the primitives are documented in DenseTable

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.objectives.compile import KernelModule
from discreet.rows.affine import AffineMap, read_only
from discreet.rows.bounds import BLOCK_ROWS, UNIT_ROUNDOFF, gamma, norm_inflation
from discreet.rows.table import (
    BAD_NUMBERS,
    PRODUCT_KERNELS,
    Batches,
    DenseTable,
    Halves,
    Piece,
    check_columns,
)
from discreet.validate import FloatArray

KERNELS = KernelModule("discreet.rows.sparse_kernels")

TILE_ENTRIES = 2**20
"""Entries (8 MB) that are made dense at a time."""


class SparseTable:
    """Rows of a CSR matrix, with the primitives that are documented in `DenseTable`.

    A matrix whose rows have unsorted or repeated entries is put in order on a copy: with repeated
    entries the norm of a row would be wrong, and with it the clipping. The entries themselves are
    checked, not scipy's ``has_canonical_format``, which may be out of date. The matrix must not
    change while it is in use.
    """

    dense = False
    n_rows: int
    n_features: int

    def __init__(self, X: Any) -> None:
        self._read(X)
        verdict = KERNELS.sparse_shape(
            self.indptr, self.indices, self.n_features, min(self.data.size, self.indices.size)
        )
        if verdict == 2 or self.indptr.size != self.n_rows + 1:
            raise ValueError(
                "X is not a valid CSR matrix: its indices or indptr are out of range. "
                "Build it anew, for example with scipy.sparse.csr_array(X.tocoo())."
            )
        if verdict == 1:
            ordered = sp.csr_array((X.data, X.indices, X.indptr), shape=X.shape, copy=True)
            with np.errstate(all="ignore"):
                ordered.sum_duplicates()
            self._read(ordered)

    def _read(self, X: Any) -> None:
        self.n_rows, self.n_features = X.shape
        self.data, self.indices = read_only(X.data), read_only(X.indices)
        same = X.indptr.dtype == X.indices.dtype
        self.indptr = read_only(X.indptr if same else X.indptr.astype(np.int64))
        self.arrays = (self.indptr, self.indices, self.data)
        self.n_entries, self.dtype = self.data.size, self.data.dtype
        # A block's sum is a dense vector: blocks of at least n_features rows keep its cost below
        # that of the entries. (The size of a block is public; the number of entries is not.)
        self.block_rows = max(BLOCK_ROWS, self.n_features)

    def _matrix(self, data: NDArray[Any]) -> Any:
        parts = (data, self.indices[: data.size], self.indptr)
        return sp.csr_array(parts, shape=(self.n_rows, self.n_features))

    def _like(self, X: Any) -> Self:
        """Return a table of a matrix that is known to be in order."""
        table = type(self).__new__(type(self))
        table._read(X)
        return table

    def norms(self, units: FloatArray | None = None) -> FloatArray:
        out = np.empty(self.n_rows)
        with np.errstate(all="ignore"):  # a warning about one row would be about that row
            data = self.data if units is None else self.data * units[self.indices]
        finite = KERNELS.sparse_norms(
            self.indptr, read_only(data), norm_inflation(self.n_features), out
        )
        if units is None and not finite:
            raise ValueError(BAD_NUMBERS)
        return out

    def tiles(
        self, start: int, stop: int, *, single: bool = False
    ) -> Iterator[tuple[int, FloatArray]]:
        height = max(1, TILE_ENTRIES // self.n_features)
        for first in range(start, stop, height):
            last = min(first + height, stop)
            pointers = self.indptr[first : last + 1]
            entries = slice(pointers[0], pointers[-1])
            parts = (self.data[entries], self.indices[entries], pointers - pointers[0])
            tile = sp.csr_array(parts, shape=(last - first, self.n_features)).toarray()
            yield first, read_only(np.ascontiguousarray(tile, dtype=np.float64))

    def pieces(self, start: int, stop: int) -> Iterator[Piece]:
        yield Piece(start, stop, self.block(start, stop))

    def block(self, start: int, stop: int) -> tuple[NDArray[Any], ...]:
        """Return the CSR arrays of rows start to stop."""
        return self.indptr[start : stop + 1], self.indices, self.data

    def products(self, piece: Piece, vector: FloatArray, out: FloatArray) -> None:
        KERNELS.sparse_products(*piece.data, vector, out)

    def few_products(
        self, start: int, stop: int, vector: FloatArray, used: NDArray[np.bool_], out: FloatArray
    ) -> None:
        """Write X[start:stop] @ vector to out, for a vector that is 0 where ``used`` is False."""
        KERNELS.few_products(*self.block(start, stop), vector, used, out)

    def add(self, piece: Piece, coefficients: FloatArray, total: FloatArray) -> None:
        KERNELS.sparse_add(*piece.data, coefficients, total)

    def output_products(self, start: int, stop: int, weights: FloatArray, out: FloatArray) -> None:
        columns = np.ascontiguousarray(weights.T)
        PRODUCT_KERNELS.sparse_output_products(*self.block(start, stop), columns, out)

    def output_sum(self, start: int, factors: FloatArray) -> FloatArray:
        total = np.zeros((self.n_features, factors.shape[1]))
        block = self.block(start, start + len(factors))
        PRODUCT_KERNELS.sparse_output_add(*block, factors, total)
        return total.T

    def accurate_products(self, start: int, stop: int, weights: Halves, out: Halves) -> None:
        PRODUCT_KERNELS.accurate_sparse_products(*self.block(start, stop), *weights, *out)

    def outer_sum(self, start: int, scales: FloatArray) -> FloatArray:
        """Return the upper triangle of Σ yyᵀ, y = scale·x, over rows start and on."""
        total = np.zeros((self.n_features, self.n_features))
        KERNELS.sparse_outer_add(*self.block(start, start + scales.size), scales, total)
        return total

    def mapped_squared_norms(
        self, start: int, scales: FloatArray, map: AffineMap, out: FloatArray
    ) -> None:
        """Write the squared norms of L·(s·x) − b of rows start and on to out; L is a diagonal."""
        numbers = (scales, map.linear, map.offset, float(map.offset @ map.offset))
        KERNELS.sparse_mapped_norms(*self.block(start, start + scales.size), *numbers, out)

    def mapped_norms(self, start: int, scales: FloatArray, map: AffineMap, out: FloatArray) -> None:
        if not map.is_diagonal:
            for row, tile in self.tiles(start, start + scales.size):
                at = slice(row - start, row - start + len(tile))
                PRODUCT_KERNELS.triangle_norms(tile, scales[at], *map.packed, out[at])
            return
        self.mapped_squared_norms(start, scales, map, out)
        bound = map.bound  # squares are differences of larger numbers: slack for cancellation
        out += 16 * gamma(2 * self.n_features + 32) * bound**2
        np.sqrt(out, out=out)
        out *= 1 + 16 * UNIT_ROUNDOFF

    def mapped_squares(
        self, start: int, scales: FloatArray, map: AffineMap, factors: FloatArray
    ) -> FloatArray:
        total, offset = np.zeros(self.n_features), map.offset
        numbers = (scales, map.linear, offset, factors)
        KERNELS.sparse_squares(*self.block(start, start + scales.size), *numbers, total)
        total += offset**2 * np.sum(factors**2)
        return total

    def weighted_squares(self, factors: FloatArray) -> FloatArray:
        squares = np.asarray(self.data, dtype=np.float64) ** 2
        total: FloatArray = (self._matrix(squares).T @ factors).T
        return total

    def largest_entries(self) -> FloatArray:
        out = np.empty(self.n_rows)
        KERNELS.sparse_largest(self.indptr, self.data, out)
        return out

    def column(self, index: int, start: int, stop: int) -> FloatArray:
        values, pointers = np.zeros(stop - start), self.indptr[start : stop + 1]
        found = np.flatnonzero(self.indices[pointers[0] : pointers[-1]] == index) + pointers[0]
        values[np.searchsorted(pointers, found, side="right") - 1] = self.data[found]
        return values

    def take(self, index: NDArray[np.intp]) -> Self:
        return self._like(self._matrix(self.data)[index])

    def columns(self, index: NDArray[np.intp]) -> Self:
        table = self._matrix(self.data)[:, check_columns(self.n_features, index)]
        table.sort_indices()
        return self._like(table)

    def scaled(
        self, factors: FloatArray, *, largest: float | None = None, out: Any | None = None
    ) -> Any:
        data = np.repeat(factors, np.diff(self.indptr))
        data *= self.data[: data.size]
        if largest is not None:
            np.clip(data, -largest, largest, out=data)
        else:
            data = data.astype(self.dtype, copy=False)
        return self._matrix(data)

    def batches(self, order: NDArray[np.int64]) -> Iterator[Batches]:
        everything = slice(None)
        yield Batches(everything, (*self.arrays, self.n_features), order, everything)


Table = DenseTable | SparseTable
"""A table; what computes on one does not ask which it is, but for what only sparse tables have."""


def weighted_sum(table: Table, start: int, coefficients: FloatArray) -> FloatArray:
    """Return coefficients @ X[start : start + coefficients.size]."""
    total = np.zeros(table.n_features)
    for piece in table.pieces(start, start + coefficients.size):
        table.add(piece, coefficients[piece.start - start : piece.stop - start], total)
    return total
