"""The fitted step that brings columns to [0, 1], by bounds that were chosen privately."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.preparation.fitted_step import FittedStep, FloatArray, vector, whole

__all__ = ["FittedBounds"]


@dataclass(frozen=True, eq=False)
class FittedBounds(FittedStep):
    """Columns and their bounds: x becomes clip((x − low)/(high − low), 0, 1).

    Attributes
    ----------
    columns
        Which columns.
    low, high
        Their bounds.
    """

    columns: tuple[int, ...]
    low: FloatArray
    high: FloatArray
    name: ClassVar[str] = "bounds"

    def __post_init__(self) -> None:
        """Refuse what no fit could have released."""
        columns = tuple(whole(column) for column in self.columns)
        object.__setattr__(self, "columns", columns)
        for name in ("low", "high"):
            object.__setattr__(self, name, vector(name, getattr(self, name), len(columns)))
        if not (columns and len(set(columns)) == len(columns) and (self.low < self.high).all()):
            raise ValueError("bounds must name each column once, with low < high.")

    def fits(self, columns: int) -> bool:
        """Whether it is for a table of so many columns."""
        return max(self.columns) < columns

    def apply(self, X: Any, *, in_place: bool = False) -> Any:
        """Bring the columns to [0, 1]."""
        if sp.issparse(X):
            return self._apply_sparse(X)
        out = X if in_place else np.array(X, order="C")
        for at, column in enumerate(self.columns):
            out[:, column] = self._moved(at, X[:, column])
        return out

    def _moved(self, at: int, values: NDArray[Any]) -> FloatArray:
        low, high = self.low[at], self.high[at]
        with np.errstate(over="ignore"):
            moved = (np.asarray(values, dtype=np.float64) - low) / (high - low)
        return np.clip(moved, 0.0, 1.0, out=moved)

    def _apply_sparse(self, X: Any) -> Any:
        """Replace the columns: 0 may become something else, so they are made dense on the way."""
        kept = X.tocsr(copy=True)
        ours = np.zeros(X.shape[1], dtype=bool)
        ours[list(self.columns)] = True
        kept.data[ours[kept.indices]] = 0
        kept.eliminate_zeros()
        dense = np.empty((X.shape[0], len(self.columns)), dtype=X.dtype)
        for at, column in enumerate(self.columns):
            dense[:, at] = self._moved(at, np.asarray(X[:, [column]].toarray())[:, 0])
        new = sp.csr_array(dense)
        new = sp.csr_array(
            (new.data, np.array(self.columns, dtype=new.indices.dtype)[new.indices], new.indptr),
            shape=X.shape,
        )
        total = sp.csr_array(kept) + new
        total.sort_indices()
        return total.astype(X.dtype, copy=False)

    @property
    def condition(self) -> str:
        """What the privacy of the step rests on, in words."""
        return (
            f"bounds of {len(self.columns)} columns were chosen privately among public round "
            "numbers, and values cut to them"
        )
