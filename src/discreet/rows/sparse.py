"""Tables in a SciPy CSR matrix: only stored entries are touched."""

# ruff: noqa: D102  methods are documented in DenseTable

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.rows.affine import AffineMap, read_only
from discreet.rows.bounds import BLOCK_ROWS, UNIT_ROUNDOFF, gamma
from discreet.rows.table import KERNELS, BaseTable, DenseTable
from discreet.validate import FloatArray


class SparseTable(BaseTable):
    """Rows of a CSR matrix.

    A matrix whose rows have unsorted or repeated entries is put in order on a copy: with repeated
    entries the norm of a row would be wrong, and with it the clipping. The entries themselves are
    checked, not scipy's ``has_canonical_format``, which may be out of date. The matrix must not
    change while it is in use.
    """

    dense = False

    def __init__(self, X: Any, *, in_order: bool = False) -> None:
        self.n_rows, self.n_features = X.shape
        self.data, self.indices = read_only(X.data), read_only(X.indices)
        same = X.indptr.dtype == X.indices.dtype
        self.indptr = read_only(X.indptr if same else X.indptr.astype(np.int64))
        self.n_entries, self.dtype = self.data.size, self.data.dtype
        # A block's sum is a dense vector: blocks of at least n_features rows keep its cost below
        # that of the entries. (The size of a block is public; the number of entries is not.)
        self.block_rows = max(BLOCK_ROWS, self.n_features)
        self.height = max(self.n_rows, 1)
        if in_order:
            return
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
            self.__init__(ordered, in_order=True)  # type: ignore[misc]

    def _matrix(self, data: NDArray[Any]) -> Any:
        parts = (data, self.indices[: data.size], self.indptr)
        return sp.csr_array(parts, shape=(self.n_rows, self.n_features))

    def block(self, at: slice) -> tuple[Any, ...]:
        return self.indptr[at.start : at.stop + 1], self.indices, self.data

    def tile(self, at: slice) -> NDArray[Any]:
        pointers = self.indptr[at.start : at.stop + 1]
        entries = slice(pointers[0], pointers[-1])
        parts = (self.data[entries], self.indices[entries], pointers - pointers[0])
        tile = sp.csr_array(parts, shape=(len(pointers) - 1, self.n_features)).toarray()
        return read_only(np.ascontiguousarray(tile))

    def mapped_norms(self, at: slice, scales: FloatArray, map: AffineMap, out: FloatArray) -> None:
        numbers = (scales, map.linear, map.offset, float(map.offset @ map.offset))
        KERNELS.sparse_mapped_squares(self.block(at), *numbers, out)
        bound = map.bound  # squares are differences of larger numbers: slack for cancellation
        out += 16 * gamma(2 * self.n_features + 32) * bound**2
        np.sqrt(out, out=out)
        out *= 1 + 16 * UNIT_ROUNDOFF

    def outer_sum(self, at: slice, scales: FloatArray) -> FloatArray:
        """Return the upper triangle of Σ yyᵀ, y = scale·x, over rows."""
        total = np.zeros((self.n_features, self.n_features))
        KERNELS.sparse_outer_add(self.block(at), scales, total)
        return total

    def values(self, at: slice, columns: Sequence[int]) -> FloatArray:
        places = np.full(self.n_features, -1)
        places[list(columns)] = np.arange(len(columns))
        out = np.zeros((len(columns), at.stop - at.start))
        KERNELS.sparse_values(self.block(at), read_only(places), out)
        return out

    def take(self, index: NDArray[np.intp]) -> Self:
        return type(self)(self._matrix(self.data)[index], in_order=True)

    def columns(self, index: NDArray[np.intp]) -> Self:
        table = self._matrix(self.data)[:, index]
        table.sort_indices()
        return type(self)(table, in_order=True)

    def scaled(
        self, factors: FloatArray, *, largest: float | None = None, out: Any | None = None
    ) -> Any:
        data = np.repeat(factors, np.diff(self.indptr))
        data *= self.data[: data.size]
        if largest is not None:
            return self._matrix(np.clip(data, -largest, largest, out=data))
        return self._matrix(data.astype(self.dtype, copy=False))


Table = DenseTable | SparseTable
"""A table; what computes on one does not ask which it is, but for what only sparse tables have."""
