"""The question about some columns only: the same rows, narrower."""

from __future__ import annotations

from typing import Protocol, Self, cast

import numpy as np
from numpy.typing import NDArray

from discreet.core.curator.base import CuratorBase
from discreet.core.curator.checks import positive
from discreet.core.curator.protocols import Rows

__all__ = ["Columns"]


class _Narrowed(Protocol):
    """What this question needs of rows, beyond what every question does."""

    def columns(self, index: NDArray[np.intp], factor: float) -> Rows:
        """The same rows and targets with the named columns only, multiplied by a number."""
        ...


class Columns(CuratorBase):
    """Narrower tables on the same budget."""

    def columns(self, index: NDArray[np.intp], *, factor: float = 1.0) -> Self:
        """A curator for some columns of the rows, multiplied by ``factor``, on the same budget.

        A constant feature stays, as it is. ``index`` and ``factor`` may depend on anything that
        is not private: public numbers, and earlier answers.

        Privacy
        -------
        Nothing is released and nothing spent. A row's new self is a function of that row and of
        numbers that are not private, so tables that differ in one row still do, and every answer
        has the sensitivity it has on any table. Proof: docs/proofs/shrunk_gd.md.
        """
        filter_ = self._open_filter
        chosen = np.asarray(index, dtype=np.intp)
        inside = chosen.ndim == 1 and chosen.size > 0 and bool(np.all(np.diff(chosen) > 0))
        if not inside or chosen[0] < 0 or chosen[-1] >= self.n_parameters:
            raise ValueError("index must name at least one column, each once, in rising order.")
        factor = positive("factor", factor)
        rows = cast(_Narrowed, self._rows).columns(chosen, factor)
        part = type(self)(rows, self._account, self._noise, self._share)
        part._filter = filter_
        part._n_rows = self._n_rows
        return part
