"""Rows of a table as cells, for a curator: what one cell counts for, and one row of each person.

A private draft asks about cells before there is a schema that encodes them, and so does a fit that
has to find the levels of a column. All questions that are
asked together are answered in one pass, block by block. What a cell counts for depends on that cell
and on public settings alone, and a row has one cell in a column, so that neighbouring tables differ
in one cell of each column. Proof: docs/proofs/histogram.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core.bits import Bits
from discreet.exact.cell_questions import CellBounds, CellKind
from discreet.rows import cell_counts
from discreet.rows.units import Unit, Units
from discreet.tables.alignment import IdCodes, OneRowEach
from discreet.tables.cell_rules import whole_text
from discreet.tables.columns import SPACES, Boolean, Column, Date, Ignored, Numeric
from discreet.tables.encoder import dates, distinct_cells, numbers, written
from discreet.tables.messages import arrow
from discreet.tables.parts import Request
from discreet.tables.reader import ShowShare, batches
from discreet.tables.schema import Schema
from discreet.tables.source import Source, source
from discreet.validate import FloatArray

LONGEST_TEXT = 200
"""Letters beyond which a text is not counted, which bounds memory."""

ID_SHARE = 0.2
"""Share of the progress that is shown for a pass over the ids: it reads one column."""


class CellBlock:
    """The cells of some rows, as `discreet.exact.cell_questions.Cells` describes them."""

    def __init__(self, cells: Mapping[str, Any]) -> None:
        self._cells = cells

    def margin(self, column: str, of: CellKind, form: str | None = None) -> int:
        """Return the number of cells of a kind, less that of others; missing ones count nowhere."""
        cells = self._cells[column]
        if of == "whole":
            found = lenient_numbers(cells)
            found = found[np.isfinite(found)]
            return 2 * int(np.count_nonzero(found % 1 == 0)) - found.size
        found = lenient_numbers(cells) if of == "number" else lenient_dates(cells, form)
        count = int(np.count_nonzero(~np.isnan(found)))
        return 2 * count - (len(cells) - int(cells.null_count))

    def number_counts(self, column: str, candidates: FloatArray) -> NDArray[np.int64]:
        """Count the numbers between candidates."""
        return cell_counts(lenient_numbers(self._cells[column]), candidates)

    def text_counts(self, column: str, prefix: int | None) -> Mapping[str, int]:
        """Count the rows that hold each text, or each start of texts of ``prefix`` letters."""
        distinct, indices = distinct_cells(self._cells[column])
        held = np.bincount(indices[indices >= 0], minlength=len(distinct)).tolist()
        is_float = arrow().types.is_floating(distinct.type)
        found: Counter[str] = Counter()
        for text, value, count in zip(*written(distinct), held, strict=True):
            whole = None if text is None else whole_text(text, value if is_float else None)
            if whole is not None and count > 0 and len(whole) <= LONGEST_TEXT:
                found[whole[:prefix].strip(SPACES)] += count
        return found


def lenient_numbers(cells: Any) -> FloatArray:
    """Return cells as numbers; NaN where a cell is missing or holds other text."""
    found = numbers(cells, (), lenient=True)
    assert found is not None  # columns of other types are left out
    return found


def lenient_dates(cells: Any, form: str | None) -> FloatArray:
    """Return cells as days; NaN where a cell is missing or no date of this form."""
    found = dates(cells, Date(missing=True, invalid="missing", format=form), ())
    assert found is not None  # no cell is refused
    return found.numbers("day")


def _taken(batch: Mapping[str, Any], rows: NDArray[np.intp]) -> dict[str, Any]:
    """Return the cells of some rows of a batch."""
    chosen = arrow().array(rows)
    return {name: cells.take(chosen) for name, cells in batch.items()}


def _added(exact: list[Any], questions: Sequence[Any], batch: Mapping[str, Any]) -> list[Any]:
    """Return the exact answers with the rows of another batch."""
    block = CellBlock(batch)
    return [question.add(found, block) for question, found in zip(questions, exact, strict=True)]


class TableCells:
    """Rows of a table in memory for a curator, as cells; nothing is read before the first answer.

    Parameters
    ----------
    table : DataFrame or Arrow table
        The table.
    schema : Schema
        Its columns, with the target and the unit if the table has them, and the texts that mean a
        missing cell.
    units : Units, optional
        The person of each row: one row of each person is read then. None if each row is a unit.
    bits : Bits
        They choose that row.

    Privacy
    -------
    A row adds one cell to each column. With units a person does, because one of their rows is drawn
    by bits of their own and no other is read (`Units.draw`). The number of units is public.
    """

    row_norm = None
    n_features = 0
    n_parameters = 0

    def __init__(self, table: Any, schema: Schema, units: Units | None, bits: Bits) -> None:
        self._source = source(table)
        self._schema = schema
        self._units = units
        self._bits = bits
        self.unit: Unit = "row" if units is None else units.unit
        size = self._source.n_rows if units is None else units.count
        self.public_size: int = size or 0

    def answer(self, questions: Sequence[Any]) -> list[Any]:
        """Return the exact answers to all questions about cells, from one pass over the rows."""
        asked = {question.column for question in questions}
        columns = self._schema.columns
        read = {name: Boolean() if name in asked else Ignored() for name in columns}
        schema = replace(self._schema, columns=read)
        request = Request(schema, target=False, drafting=True)
        drawn = None if self._units is None else self._units.draw(self._bits)
        exact = [question.start() for question in questions]
        start = 0
        options: Any = {"target": False, "drafting": True}
        with closing(batches(self._source, schema, **options)) as blocks:
            for batch in blocks:
                with self._source.door(request):
                    stop = start + len(next(iter(batch.values())))
                    if drawn is not None:
                        own = drawn[np.searchsorted(drawn, start) : np.searchsorted(drawn, stop)]
                        batch = _taken(batch, own - start)
                    exact = _added(exact, questions, batch)
                    start = stop
        return exact


class CellRows:
    """Rows of a source for a curator; nothing is read before the first answer.

    Parameters
    ----------
    found : Source
        The table.
    reading : callable
        Returns a schema that reads some columns, given as kinds by name, and the unit.
    unit : str, optional
        The column that says whose row a row is: one row of each person is read then.
    bits : Bits
        They choose that row.
    passes : int
        Number of passes over the rows to come, for ``progress``.

    Privacy
    -------
    A row adds one cell to each column. With a unit a person does, because one of their rows is
    chosen by bits of their own and no other is read (`OneRowEach`). The number of rows, or of
    people, is public.
    """

    row_norm = None
    n_features = 0
    n_parameters = 0

    def __init__(
        self,
        found: Source,
        reading: Callable[[dict[str, Column]], Schema],
        unit: str | None,
        bits: Bits,
        *,
        passes: int = 1,
        progress: ShowShare = None,
    ) -> None:
        self.unit: Unit = "row" if unit is None else "person"
        self.grouped = unit is not None
        self._source = found
        self._reading = reading
        self._id_column = unit
        self._bits = bits
        self._people: OneRowEach | None = None
        self._size = found.n_rows if unit is None else None
        self._progress = progress
        self._done = 0.0
        self._step = (1.0 if unit is None else 1.0 - ID_SHARE) / passes

    @property
    def public_size(self) -> int:
        """Number of rows, or of people; 0 if it is not known before a pass."""
        return self._size or 0

    def answer(self, questions: Sequence[Any]) -> list[Any]:
        """Return the exact answers to all questions about cells, from one pass over the rows."""
        if not questions:
            return []
        wanted: dict[str, Column] = {}
        for question in questions:
            of_numbers = isinstance(question, CellBounds)
            read_as_text = isinstance(wanted.get(question.column), Boolean)
            wanted[question.column] = Numeric() if of_numbers and not read_as_text else Boolean()
        schema = self._reading(wanted)
        request = Request(schema, target=False, drafting=True, unit=True)
        column = self._id_column
        if column is not None and self._people is None:
            self._people = self._choose_rows(request, column)
        keep = None if self._people is None else self._people.kept()
        exact = [question.start() for question in questions]
        size = 0
        for batch in self._pass(schema, self._step):
            with self._source.door(request):
                if keep is not None and column is not None:
                    batch = _taken(batch, keep(batch.pop(column)))
                size += len(next(iter(batch.values())))
                exact = _added(exact, questions, batch)
        self._size = size
        return exact

    def _choose_rows(self, request: Request, column: str) -> OneRowEach:
        """Choose the row of each person that is read, in a pass of its own."""
        people = OneRowEach(IdCodes(column, request.schema.file.missing))
        with self._source.door(request):
            blocks = self._pass(request.schema, ID_SHARE)
            people.choose((batch[column] for batch in blocks), self._bits)
        return people

    def _pass(self, schema: Schema, share: float) -> Iterator[dict[str, Any]]:
        """Yield all blocks of cells, and show a share of the progress."""
        show = self._progress
        start = self._done
        self._done += share
        part = None if show is None else lambda found: show(start + share * found)
        options: Any = {"target": False, "progress": part, "drafting": True, "unit": True}
        with closing(batches(self._source, schema, **options)) as blocks:
            yield from blocks
