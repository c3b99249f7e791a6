"""Values and cells of columns, for pairs of columns: each is a function of a row's own cells.

A column has values first, counted from 0: fine parts of its range, levels, and one more for cells
that are missing or not listed. Released counts of the values then say which of them are one cell.

Proof: docs/proofs/pairs.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.validate import CheckedFields, Vector, integer

__all__ = ["CellColumn", "values_of"]

BLOCK_ROWS = 2**14
"""Rows whose values are computed at a time."""


@dataclass(frozen=True, eq=False)
class CellColumn(CheckedFields):
    """Values of one column, by its features in an encoded row.

    Parameters
    ----------
    name : str
        Name of the column.
    first : int
        Its first feature.
    levels : int
        Number of features that are 1 for a level each; 0 for a number.
    edges : array
        Increasing edges between the values of a number; none for levels.
    mark : int, optional
        Feature that is 1 for a missing cell of a number.
    """

    name: str
    first: Annotated[int, partial(integer, least=0)]
    levels: Annotated[int, partial(integer, least=0)]
    edges: Vector
    mark: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mark is not None:
            object.__setattr__(self, "mark", integer("mark", self.mark, least=0))
        if not (np.diff(self.edges) > 0).all():
            raise ValueError("edges must be increasing.")

    @property
    def count(self) -> int:
        """Number of values; the last is that of missing and of unlisted cells."""
        return (self.levels or len(self.edges) + 1) + 1

    def values(self, block: NDArray[Any]) -> NDArray[np.intp]:
        """Return the value of each row of a block of encoded rows."""
        if self.levels:
            own = block[:, self.first : self.first + self.levels] == 1.0
            return np.where(own.any(axis=1), own.argmax(axis=1), self.levels)
        numbers = np.asarray(block[:, self.first], dtype=np.float64)
        missing = np.isnan(numbers)
        if self.mark is not None:
            missing |= block[:, self.mark] == 1.0
        found = np.searchsorted(self.edges, numbers, side="right")
        return np.where(missing, self.count - 1, found)


def values_of(columns: Sequence[CellColumn], X: Any, dtype: type = np.float32) -> NDArray[Any]:
    """Return the values of columns of encoded rows, (n_rows, n_columns), as a table."""
    out = np.empty((X.shape[0], len(columns)), dtype=dtype)
    for start in range(0, X.shape[0], BLOCK_ROWS):
        block = X[start : start + BLOCK_ROWS]
        sparse: bool = sp.issparse(block)
        rows = block.toarray() if sparse else block
        for j, column in enumerate(columns):
            out[start : start + BLOCK_ROWS, j] = column.values(rows)
    return out


def cell_table(
    values: NDArray[Any],
    cells: Sequence[NDArray[np.intp]],
    pairs: Sequence[tuple[int, int]],
) -> sp.csr_array:
    """Return indicators of the cells of pairs, one entry of 1 in each pair's columns, as CSR."""
    n_rows = len(values)
    counts = [int(max(known)) + 1 for known in cells]
    index = np.empty((n_rows, len(pairs)), dtype=np.int32)
    width = 0
    for p, (first, second) in enumerate(pairs):
        one = cells[first][values[:, first].astype(np.intp)]
        two = cells[second][values[:, second].astype(np.intp)]
        index[:, p] = width + one * counts[second] + two
        width += counts[first] * counts[second]
    ends = np.arange(0, n_rows * len(pairs) + 1, len(pairs), dtype=np.int64)
    data = np.ones(n_rows * len(pairs), dtype=np.float32)
    return sp.csr_array((data, index.ravel(), ends), shape=(n_rows, width))
