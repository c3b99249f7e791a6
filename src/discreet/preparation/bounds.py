"""`Bounds`: bring columns to [0, 1], by bounds that are chosen privately among round numbers.

Proof: docs/proofs/preparation.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.core import Curator
from discreet.core.questions import ColumnBounds
from discreet.preparation.steps import FittedStep, Known, Share, Step
from discreet.validate import FloatArray, check_fields, integer, number, vector

_BLOCK = 2**15
"""Numbers that are replaced at a time."""


@dataclass(frozen=True)
class Bounds(Step):
    """Bring columns without public bounds to [0, 1], by bounds that are chosen privately.

    Each of the columns becomes clip((x − low)/(high − low), 0, 1), where low and high are round
    numbers between which about ``coverage`` of its values lie.

    Parameters
    ----------
    columns : sequence of int
        Columns of X, counted from 0.
    share : float
        Share of the budget, for all of the columns together.
    coverage : float
        Share of a column's values that should lie within its bounds.
    whole : sequence of int
        Those of the columns that hold whole numbers, such as counts: so are their bounds.
    takes_gaps : bool
        True if numbers may be missing: they are not counted, and become the middle of the bounds.

    Notes
    -----
    *Privacy.* Two private selections per column among public candidates. The chosen bounds are
    released.
    """

    columns: Sequence[int]
    share: Share = 0.1
    coverage: Annotated[float, partial(number, least=0.5, most=0.9999)] = 0.98
    whole: Sequence[int] = ()
    takes_gaps: bool = False
    name: ClassVar[str] = "bounds"
    bounded: ClassVar[bool] = False
    of_columns: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "columns", distinct(self.columns))
        object.__setattr__(self, "selections", 2 * len(self.columns))
        object.__setattr__(self, "whole", distinct(self.whole) if len(self.whole) else ())
        if not set(self.whole) <= set(self.columns):
            raise ValueError(f"whole must name some of the columns; got {list(self.whole)}.")

    def fit(self, curator: Curator, mechanism: Any, norms: Known) -> tuple[FittedBounds, Known]:
        """Ask for both bounds of each column."""
        pairs = [
            curator.ask(ColumnBounds(j, self.coverage, j in self.whole), mechanism)
            for j in self.columns
        ]
        low, high = np.array(pairs, dtype=np.float64).T
        return FittedBounds(tuple(self.columns), low, high), norms


@dataclass(frozen=True, eq=False)
class FittedBounds(FittedStep):
    """Columns and their bounds: x becomes clip((x − low)/(high − low), 0, 1).

    More generally, a number is clip((x − origin)/unit) to ``limits``. A missing number becomes the
    middle of the bounds.
    """

    columns: tuple[int, ...]
    low: FloatArray
    high: FloatArray
    name: ClassVar[str] = "bounds"
    limits: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", distinct(self.columns))
        check_fields(self, vector, "low", "high", size=len(self.columns))
        if not (self.low < self.high).all():
            raise ValueError("bounds of a column must have low < high.")

    @property
    def condition(self) -> str:
        """Statement of what the privacy of the step rests on."""
        return (
            f"bounds of {len(self.columns)} columns were chosen privately among public round "
            "numbers, and values cut to them"
        )

    @property
    def ends(self) -> tuple[float, float]:
        """Image of the bounds of a column."""
        return 0.0, 1.0

    @property
    def origin(self) -> FloatArray:
        """Number of each column that becomes 0."""
        return self.low

    @property
    def unit(self) -> FloatArray:
        """Difference of numbers of each column that becomes 1."""
        return self.high - self.low

    def accepts(self, n_features: int) -> bool:
        """Return whether the table has all of the columns."""
        return max(self.columns) < n_features

    def apply(self, X: Any, *, overwrite: bool = False) -> Any:
        """Return a table with the columns in [0, 1]; a sparse table stays sparse.

        With ``overwrite`` the numbers of X are replaced where its form allows it.
        """
        sparse: bool = sp.issparse(X)
        ours = np.zeros(X.shape[1], dtype=bool)
        ours[list(self.columns)] = True
        if sparse and not _all_stored(X, ours):
            return self._with_new_entries(X, ours)
        cells = X.data if sparse else X
        if not (overwrite and cells.flags.c_contiguous and cells.flags.writeable):
            cells = np.array(cells, order="C")
        if not sparse:
            height = max(_BLOCK // len(self.columns), 1)
            for start in range(0, len(cells), height):
                block = cells[start : start + height]
                block[:, list(self.columns)] = self._scaled(block[:, list(self.columns)])
            return cells
        places = np.zeros(X.shape[1], dtype=np.intp)
        places[list(self.columns)] = np.arange(len(self.columns))
        for start in range(0, cells.size, _BLOCK):
            own = start + np.flatnonzero(ours[X.indices[start : start + _BLOCK]])
            cells[own] = self._scaled(cells[own], places[X.indices[own]])
        return sp.csr_array((cells, X.indices, X.indptr), shape=X.shape)

    def _scaled(
        self, values: NDArray[Any], of: NDArray[np.intp] | slice = slice(None)
    ) -> FloatArray:
        """Return numbers after the map: rows of all the columns, or numbers ``of`` columns."""
        with np.errstate(over="ignore"):
            moved = np.asarray(values, dtype=np.float64) - self.origin[of]
            scaled: FloatArray = moved / self.unit[of]
        np.clip(scaled, *self.limits, out=scaled)
        return np.nan_to_num(scaled, copy=False, nan=sum(self.ends) / 2)

    def _with_new_entries(self, X: Any, ours: NDArray[np.bool_]) -> Any:
        """Replace columns of a sparse table: entries of 0 are not stored, and may change."""
        kept = X.tocsr(copy=True)
        kept.data[ours[kept.indices]] = 0
        kept.eliminate_zeros()
        dense = self._scaled(X[:, list(self.columns)].toarray()).astype(X.dtype)
        new = sp.csr_array(dense)
        new = sp.csr_array(
            (new.data, np.array(self.columns, dtype=new.indices.dtype)[new.indices], new.indptr),
            shape=X.shape,
        )
        total = sp.csr_array(kept) + new
        total.sort_indices()
        return total.astype(X.dtype, copy=False)


def _all_stored(X: Any, ours: NDArray[np.bool_]) -> bool:
    """Return whether all rows of a sparse table store an entry of each of some columns."""
    if not X.has_canonical_format:  # then a row may store two entries of a column
        return False
    stored = 0
    for start in range(0, X.indices.size, _BLOCK):
        stored += int(np.count_nonzero(ours[X.indices[start : start + _BLOCK]]))
    return bool(stored == X.shape[0] * np.count_nonzero(ours))


def distinct(columns: Any) -> tuple[int, ...]:
    """Return numbers of columns, each once."""
    given = tuple(columns) if np.iterable(columns) else ()
    numbers = tuple(integer("columns", column, least=0) for column in given)
    if not numbers or len(set(numbers)) < len(numbers):
        raise ValueError(
            "columns must name at least one column of X by its number, counted from 0, each once; "
            f"got {columns!r}."
        )
    return numbers
