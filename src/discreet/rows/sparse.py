"""Rows in a scipy CSR matrix."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from discreet.rows.base import BLOCK_ROWS, Rows
from discreet.rows.bounds import norm_inflation
from discreet.rows.checks import Vector, check_targets

__all__ = ["SparseRows"]


class SparseRows(Rows):
    """Rows of a CSR matrix; only stored entries are touched.

    A matrix whose rows have unsorted or repeated entries is put in order on a copy: with repeated
    entries the norm of a row would be wrong, and with it the clipping. The entries themselves are
    checked, not scipy's ``has_canonical_format``, which may be out of date.

    Parameters
    ----------
    X : csr_array or csr_matrix of float32 or float64, shape (n_rows, n_features)
        The table. It must not change while the rows are in use.
    y : array of n_rows numbers
        Targets, copied.
    fit_intercept : bool
        Whether rows have a constant last feature 1.
    row_norm : float or None
        Norm that longer rows are scaled down to.
    """

    def __init__(
        self, X: Any, y: ArrayLike, *, fit_intercept: bool, row_norm: float | None
    ) -> None:
        from discreet.rows import kernels

        targets = check_targets(y, X.shape[0])
        super().__init__(X.shape[0], X.shape[1], targets, fit_intercept, row_norm)
        # A block's sum is a dense vector: blocks of at least n_features rows keep its cost below
        # that of the entries. (The size of a block is public; the number of entries is not.)
        self.block_rows = max(BLOCK_ROWS, self.n_features)
        self._set_table(X)
        verdict = kernels.sparse_shape(
            self._indptr, self._indices, self.n_features, min(self._data.size, self._indices.size)
        )
        if verdict == 2 or self._indptr.size != self.n_rows + 1:
            raise ValueError(
                "X is not a valid CSR matrix: its indices or indptr are out of range. "
                "Build it anew, for example with scipy.sparse.csr_array(X.tocoo())."
            )
        if verdict == 1:
            ordered = sp.csr_array((X.data, X.indices, X.indptr), shape=X.shape, copy=True)
            with np.errstate(all="ignore"):
                ordered.sum_duplicates()
            self._set_table(ordered)
        if not kernels.sparse_norms(
            self._indptr, self._data, norm_inflation(self.n_features), self._norms
        ):
            raise ValueError(
                "X must be finite; it has NaN or infinite entries. "
                "Impute them or remove those rows."
            )
        self._scale_norms()

    def _set_table(self, X: Any) -> None:
        self._data, self._indices = _read_only(X.data), _read_only(X.indices)
        same = X.indptr.dtype == X.indices.dtype
        self._indptr = _read_only(X.indptr if same else X.indptr.astype(np.int64))

    @property
    def _n_entries(self) -> int:
        return self._data.size

    def _pieces(self, start: int, stop: int) -> Iterator[tuple[int, int, Any]]:
        yield start, stop, self._indptr[start : stop + 1]

    def _piece_products(self, piece: Any, vector: Vector, out: Vector) -> None:
        from discreet.rows import kernels

        kernels.sparse_products(piece, self._indices, self._data, vector, out)

    def _piece_add(self, piece: Any, coefficients: Vector, total: Vector) -> None:
        from discreet.rows import kernels

        kernels.sparse_add(piece, self._indices, self._data, 0, coefficients, total)

    def _take(self, index: NDArray[np.intp]) -> Self:
        whole = sp.csr_array(
            (self._data, self._indices, self._indptr), shape=(self.n_rows, self.n_features)
        )
        drawn = copy.copy(self)
        drawn._set_table(whole[index])
        return drawn


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view that cannot be written, in the one layout that kernels are compiled for."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
