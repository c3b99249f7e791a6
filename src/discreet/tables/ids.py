"""Ids of a table's unit column, as small numbers.

Equal ids get the same number, in whatever block or file they are. Ids of numbers are compared by
value, texts without the spaces around them. No message shows an id.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core.bits import Bits
from discreet.errors import TableError
from discreet.tables.cells import arrow, as_number, guarded, plain_array


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

    @property
    def values(self) -> list[Hashable]:
        """The ids, in the order of their numbers."""
        return list(self._numbers)

    def codes(self, cells: Any) -> NDArray[np.int32]:
        """Return the number of each cell's id; refuse missing ids."""
        pa = arrow()
        array = plain_array(cells)
        if pa.types.is_null(array.type):
            self._refuse()
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        if array.indices.null_count:
            self._refuse()
        indices = array.indices.to_numpy(zero_copy_only=False)
        problem = f"{self._where}: its ids cannot be compared; store them as texts or numbers."
        # Times that Python cannot hold would be quoted.
        distinct = guarded(plain_array(array.dictionary).to_pylist, problem)
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

    def _refuse(self) -> None:
        raise TableError(
            f"{self._where}: an id is missing, so it is not known whose row this is. Leave such "
            "rows out, or give each an id of its own if they belong to different people."
        )


class OneRowEach:
    """A choice of one row of each person, for passes over the same table.

    Which of a person's rows is used depends on bits of that person alone, and no pass uses two of
    them, in whatever order rows come. So neighbouring tables that differ in one person become
    neighbouring tables that differ in one row.
    """

    def __init__(self, ids: IdCodes) -> None:
        self._ids = ids
        self._chosen: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    @property
    def count(self) -> int:
        """Number of people: public."""
        return len(self._chosen)

    def choose(self, cells: Iterable[Any], bits: Bits) -> None:
        """Count the rows of each person in a first pass, and draw one."""
        sizes = np.zeros(0, dtype=np.int64)
        for block in cells:
            found = np.bincount(self._ids.codes(block), minlength=self._ids.count)
            found[: len(sizes)] += sizes
            sizes = found
        # The draw is even but for 2^-64 times the number of rows; privacy does not need that.
        self._chosen = (bits.words(len(sizes)) % sizes.astype(np.uint64)).astype(np.int64)

    def kept(self) -> Callable[[Any], NDArray[np.intp]]:
        """Start a pass: return a function from the ids of its blocks to the rows to use."""
        seen = np.zeros(self.count, dtype=np.int64)

        def rows(cells: Any) -> NDArray[np.intp]:
            codes = self._ids.codes(cells)
            if self._ids.count > self.count:
                raise TableError("has other ids than when it was read before. Start again.")
            order = np.argsort(codes, kind="stable")
            ordered = codes[order]
            starts = np.flatnonzero(np.diff(ordered, prepend=-1))
            lengths = np.diff(starts, append=len(codes))
            place = np.arange(len(codes)) - np.repeat(starts, lengths) + seen[ordered]
            seen[ordered[starts]] += lengths
            return np.sort(order[place == self._chosen[ordered]])

        return rows
