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

    Notes
    -----
    *Privacy.* Two private selections per column among public candidates. The chosen bounds are
    released.
    """

    columns: Sequence[int]
    share: Share = 0.1
    coverage: Annotated[float, partial(number, least=0.5, most=0.9999)] = 0.98
    whole: Sequence[int] = ()
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

    More generally, a number is clip((x − origin)/unit) to ``limits``.
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

    def apply(self, X: Any) -> Any:
        """Return a table with the columns in [0, 1]; a sparse table stays sparse."""
        if sp.issparse(X):
            return self._apply_sparse(X)
        out = np.array(X, order="C")
        for at, column in enumerate(self.columns):
            out[:, column] = self._scaled(at, X[:, column])
        return out

    def _scaled(self, at: int, values: NDArray[Any]) -> FloatArray:
        with np.errstate(over="ignore"):
            moved = np.asarray(values, dtype=np.float64) - self.origin[at]
            scaled: FloatArray = moved / self.unit[at]
        return np.clip(scaled, *self.limits, out=scaled)

    def _apply_sparse(self, X: Any) -> Any:
        """Replace the columns. Zeros may change, so the columns are made dense on the way.

        A table that stores every entry of the columns, zeros too, keeps its structure.
        """
        ours = np.zeros(X.shape[1], dtype=bool)
        ours[list(self.columns)] = True
        stored = ours[X.indices]
        if np.count_nonzero(stored) == X.shape[0] * len(self.columns) and X.has_canonical_format:
            data = X.data.copy()
            own = X.indices[stored]
            cells = X.data[stored]
            for at, column in enumerate(self.columns):
                here = own == column
                cells[here] = self._scaled(at, cells[here])
            data[stored] = cells
            return sp.csr_array((data, X.indices, X.indptr), shape=X.shape)
        kept = X.tocsr(copy=True)
        kept.data[ours[kept.indices]] = 0
        kept.eliminate_zeros()
        dense = np.empty((X.shape[0], len(self.columns)), dtype=X.dtype)
        for at, column in enumerate(self.columns):
            dense[:, at] = self._scaled(at, np.asarray(X[:, [column]].toarray())[:, 0])
        new = sp.csr_array(dense)
        new = sp.csr_array(
            (new.data, np.array(self.columns, dtype=new.indices.dtype)[new.indices], new.indptr),
            shape=X.shape,
        )
        total = sp.csr_array(kept) + new
        total.sort_indices()
        return total.astype(X.dtype, copy=False)


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
