"""Some columns of a table, as rows of their own.

What becomes of a row is a function of that row and of public arguments, so a narrower table keeps
every contract. Proof: docs/proofs/shrunk_gd.md.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.rows.checks import Vector

__all__ = ["Columns"]

LARGEST = 1e150
"""What entries of narrower rows are cut to."""


class Columns:
    """Narrower tables."""

    if TYPE_CHECKING:
        n_rows: int
        n_features: int
        fit_intercept: bool
        dense: bool
        _targets: Vector
        _scales: Vector
        _public_rows: int
        _point: Any
        _line: Any
        _table: Any
        _data: Any
        _indices: Any
        _indptr: Any
        _set_table: Any

    def columns(self, index: NDArray[np.intp], factor: float) -> Self:
        """Return the rows with the named columns only, multiplied by ``factor``, as rows.

        Rows that are scaled down to ``row_norm`` keep the scale of the whole row; the new rows have
        no ``row_norm``. A constant feature stays as it is. Numbers beyond `LARGEST` are cut to it:
        no row can make it fail.
        """
        table = self._some_columns(index).astype(np.float64)
        factors = np.full(self.n_rows, float(factor))
        with np.errstate(all="ignore"):  # a warning about one row would be about that row
            if self._scales.size:
                factors *= self._scales
            values = table if self.dense else table.data
            values *= factors[:, None] if self.dense else np.repeat(factors, np.diff(table.indptr))
            np.clip(values, -LARGEST, LARGEST, out=values)
        new: Any = type(self)
        narrow: Self = new(table, self._targets, fit_intercept=self.fit_intercept, row_norm=None)
        narrow._public_rows = self._public_rows
        return narrow

    def _narrowed(self, index: NDArray[np.intp]) -> Self:
        """The named columns with everything else as it was: scales are those of whole rows.

        Norms are wrong then: only for rows that are moved, whose lengths are computed anew.
        """
        narrow = copy.copy(self)
        narrow.n_features = len(index)
        narrow._point = narrow._line = None
        narrow._set_table(self._some_columns(index))
        return narrow

    def _some_columns(self, index: NDArray[np.intp]) -> Any:
        index = np.asarray(index, dtype=np.intp)
        if index.ndim != 1 or not index.size or index.min() < 0 or index.max() >= self.n_features:
            raise ValueError(f"columns must be from 0 to {self.n_features - 1}.")
        if self.dense:
            return np.ascontiguousarray(self._table[:, index])
        parts = (self._data, self._indices, self._indptr)
        table = sp.csr_array(parts, shape=(self.n_rows, self.n_features))[:, index]
        table.sort_indices()
        return table
