"""Records of one reading: whose row a row is, and its features and target from the same batch.

A block of records is one Arrow batch. X, y and groups of a block are made of the columns of that
batch, cell by cell and in its order, so a row keeps its own target and its own id. Ids of the
unit's column become small numbers: equal ids get the same, in whatever block or file they are
(`discreet.ids`). No message shows an id. Proofs: docs/proofs/unit.md, docs/proofs/cells.md.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.core.bits import Bits
from discreet.ids import MIXED, compared
from discreet.tables.cell_rules import MISSING, UNLISTED, as_number, column_rule
from discreet.tables.columns import MISSING as MISSING_LEVEL
from discreet.tables.columns import OTHER, SPACES, Boolean, Categorical, Column, Ordinal
from discreet.tables.encoder import ColumnEncoder, Encoder, Space, distinct_cells
from discreet.tables.messages import Place, Refusal, instead


class Records(NamedTuple):
    """Some records of a source: an Arrow batch, its origin, and the share of the source so far."""

    batch: Any
    place: Place = None
    share: float = 0.0


class EncodedBlock(NamedTuple):
    """Some records in turn, as in `Encoded`; ``extra`` has other columns, not encoded."""

    X: NDArray[Any] | sp.csr_array
    y: NDArray[Any] | None
    extra: dict[str, Any]
    groups: NDArray[np.int32] | None = None


def encoded(
    batch: Any,
    encoder: Encoder,
    *,
    target: bool,
    labels: bool = False,
    ids: IdCodes | None = None,
    extra: Iterable[str] = (),
    out: Space | None = None,
) -> EncodedBlock:
    """Encode the records of a batch: X and, if asked for, y, groups and other columns as they are.

    Privacy
    -------
    All of it comes from the same batch, in its order. A result of another length is refused.
    """
    schema = encoder.schema
    y: NDArray[Any] | None = None
    groups: NDArray[np.int32] | None = None
    if target and schema.target is not None:
        y = encoder.encode_target(batch.column(schema.target.column))
        y = np.array(schema.target.labels)[y] if labels and schema.target.is_classification else y
    if ids is not None:
        groups = ids.codes(batch.column(ids.column))
    X = encoder.encode({name: batch.column(name) for name in schema.used}, out)
    passed = {name: batch.column(name) for name in extra}
    check_aligned(batch.num_rows, X, y, groups, *passed.values())
    return EncodedBlock(X, y, passed, groups)


def check_aligned(n_rows: int, X: Any, *columns: Any) -> None:
    """Refuse rows, targets and ids that are not of one length; None stands for no column."""
    lengths = [X.shape[0], *(len(column) for column in columns if column is not None)]
    if any(length != n_rows for length in lengths):
        raise Refusal("its rows, targets and ids do not belong together. Nothing was encoded.")


class IdCodes:
    """Numbers of ids in the order of their first appearance; ``markers`` mean a missing cell.

    Memory grows with the number of distinct ids, not of rows.
    """

    def __init__(self, column: str, markers: Iterable[str]) -> None:
        self.column = column
        self._missing: set[Any] = set(markers)
        self._missing |= {as_number(text) for text in self._missing}
        self._numbers: dict[Hashable, int] = {}
        self.kind: Hashable = ""

    @property
    def count(self) -> int:
        """Number of distinct ids so far."""
        return len(self._numbers)

    @property
    def values(self) -> list[Hashable]:
        """The ids as they are compared, in the order of their numbers; all are of one ``kind``."""
        return list(self._numbers)

    def codes(self, cells: Any) -> NDArray[np.int32]:
        """Return the number of each cell's id; refuse missing ids, and ids of another kind."""
        text = "column {name}: its ids cannot be compared; store them as texts or numbers."
        with instead(text, name=self.column):
            distinct, indices = distinct_cells(cells)
            values = distinct.to_pylist()
            found = np.full(len(values) + 1, -1, dtype=np.int32)
            # A dictionary may list texts of other blocks; the last place is that of null.
            for at in np.unique(indices).tolist():
                value = None if at < 0 else values[at]
                found[at] = self._number(value.strip(SPACES) if isinstance(value, str) else value)
        return np.asarray(found[indices])

    def _number(self, value: Any) -> int:
        if value is None or value != value or value in self._missing:
            raise Refusal(
                "column {name}: an id is missing, so it is not known whose row this is. Leave such "
                "rows out, or give each an id of its own if they belong to different people.",
                name=self.column,
            )
        kind, own = compared(value)
        if kind != (self.kind or kind):
            raise Refusal("column {name}: " + MIXED, name=self.column)
        self.kind = kind
        return self._numbers.setdefault(own, len(self._numbers))


class LevelCodes:
    """Codes of the levels of a column, one per record, for a column of a public list of values.

    Cells are compared as the encoder compares them. A column that accepts missing or unlisted cells
    has a level for each of these kinds; others refuse them.

    Parameters
    ----------
    name : str
        Name of the column.
    column : Categorical, Boolean or Ordinal
        Declaration of the column.
    markers : iterable of str
        Texts that mean a missing cell.
    """

    def __init__(self, name: str, column: Column, markers: Iterable[str]) -> None:
        self.name = name
        self._encoder = ColumnEncoder(column_rule(name, column, tuple(markers)))
        self._found: list[NDArray[np.intp]] = []
        if isinstance(column, Boolean):
            levels = ["false", "true"]
            places = np.repeat([0, 1], [len(column.false), len(column.true)])
        elif isinstance(column, Categorical | Ordinal):
            levels = list(column.values)
            places = np.arange(len(levels))
        else:
            raise ValueError(f"column {name!r} has no public list of values.")
        ends = [0, 0]  # the last two places are those of the negative codes
        for at, added in ((UNLISTED, OTHER), (MISSING, MISSING_LEVEL)):
            if at not in self._encoder.rule.refused:
                ends[at] = len(levels)
                levels.append(added)
        self.levels = tuple(levels)
        self._places = np.append(places, ends).astype(np.intp)

    def append(self, cells: Any) -> None:
        """Add the cells of a block of records."""
        self._found.append(self._places[self._encoder.codes(cells)])

    def codes(self) -> NDArray[np.intp]:
        """Return the index of each record's level, in the order of the records."""
        return np.concatenate([np.empty(0, dtype=np.intp), *self._found])


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
                raise Refusal("has other ids than when it was read before. Start again.")
            order = np.argsort(codes, kind="stable")
            ordered = codes[order]
            starts = np.flatnonzero(np.diff(ordered, prepend=-1))
            lengths = np.diff(starts, append=len(codes))
            place = np.arange(len(codes)) - np.repeat(starts, lengths) + seen[ordered]
            seen[ordered[starts]] += lengths
            return np.sort(order[place == self._chosen[ordered]])

        return rows
