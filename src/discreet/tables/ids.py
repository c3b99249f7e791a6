"""Ids of a table's unit column, as small numbers.

Equal ids get the same number, in whatever block or file they are. Ids of numbers are compared by
value, texts without the spaces around them. No message shows an id.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import TableError
from discreet.tables.cells import arrow, as_number, plain_array

__all__ = ["IdCodes"]


class IdCodes:
    """Numbers of ids in the order of their first appearance; ``markers`` mean a missing cell.

    Memory grows with the number of distinct ids, not of rows.
    """

    def __init__(self, column: str, markers: Iterable[str]) -> None:
        self.column, self._where = column, f"column {column!r}"
        self._missing = {as_number(text) for text in markers} - {None}
        self._numbers: dict[Hashable, int] = {}

    @property
    def count(self) -> int:
        """Number of distinct ids so far."""
        return len(self._numbers)

    def codes(self, cells: Any) -> NDArray[np.int32]:
        """Return the number of each cell's id; refuse missing ids."""
        pa = arrow()
        array = plain_array(cells)
        if array.null_count or pa.types.is_null(array.type):
            self._refuse()
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        if array.indices.null_count:
            self._refuse()
        indices = array.indices.to_numpy(zero_copy_only=False)
        distinct = self._values(plain_array(array.dictionary))
        occurs = np.zeros(len(distinct), dtype=bool)
        occurs[indices] = True  # a dictionary may hold texts of other blocks, or null
        found = np.full(len(distinct), -1, dtype=np.int32)
        numbers = self._numbers
        for at in np.flatnonzero(occurs).tolist():
            value = distinct[at]
            if value is None or value != value or value in self._missing:
                self._refuse()
            found[at] = numbers.setdefault(value, len(numbers))
        return np.asarray(found[indices])

    def _values(self, distinct: Any) -> list[Any]:
        try:
            return list(distinct.to_pylist())
        except (ValueError, OverflowError):  # times that Python cannot hold, quoted in the text
            problem = f"{self._where}: its ids cannot be compared; store them as texts or numbers."
        raise TableError(problem)

    def _refuse(self) -> None:
        raise TableError(
            f"{self._where}: an id is missing, so it is not known whose row this is. Leave such "
            "rows out, or give each an id of its own if they belong to different people."
        )
