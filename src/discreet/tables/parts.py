"""Parts of a source, and the columns that a schema needs of them.

A part is a file, or a table of another library, as Arrow batches of records. All cells of a record
are in the same batch: a part yields the batches of one reading. Columns are checked before a record
is read. Every error names the file, the column where there is one, and the rule; none shows a cell,
a row's number or how many rows break a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from discreet.tables.alignment import Records
from discreet.tables.columns import Date, repeated
from discreet.tables.dates import is_date
from discreet.tables.encoder import family
from discreet.tables.messages import Place, Refusal, instead, is_header, joined
from discreet.tables.schema import Schema

DAMAGED = "is cut off or damaged. Copy it again."
"""Refusal of a file that a library cannot read."""

BLOCK_CELLS = 1 << 23
"""Cells, read or encoded, of a block of records: a bound on its memory."""

MOST_ROWS = 1 << 16
"""Most records of a block."""

FEWEST_ROWS = 1 << 8
"""Fewest records of a block, however many columns there are."""


@dataclass(frozen=True)
class Request:
    """Columns that are read: those that the schema uses, target and unit if asked for, extra ones.

    While ``drafting`` a schema, advice must not refer to it.
    """

    schema: Schema
    target: bool
    extra: tuple[str, ...] = ()
    drafting: bool = False
    unit: bool = False

    @property
    def needed(self) -> list[str]:
        """Names of the columns that are encoded."""
        target = self.schema.target
        unit = self.schema.unit
        names = list(self.schema.used)
        if target is not None and self.target:
            names.append(target.column)
        if unit is not None and self.unit:
            names.append(unit)
        return names

    @property
    def block_rows(self) -> int:
        """Number of records in a block, so that its memory does not grow with the columns."""
        cells = max(len(self.needed) + len(self.extra), self.schema.width)
        return min(max(BLOCK_CELLS // cells, FEWEST_ROWS), MOST_ROWS)


def columns_to_read(found: Sequence[str], request: Request) -> list[str]:
    """Check the names of a table's columns, and return those that have to be read, in its order.

    If few of the schema's names were found, the first line may be a record. Then other names are
    not shown, neither here nor by a `door`.
    """
    needed = request.needed
    schema = request.schema
    if request.target and schema.target is None:
        raise Refusal(
            "the schema names no target. Add [target] to the schema, or read without it "
            "(target=False)."
        )
    known = set(schema.file_names)
    present = set(found)
    problems = []
    if missing := [name for name in needed if name not in present]:
        text = (
            "lacks columns of the schema: {names}. Add them to the file, or take them out of the "
            "schema."
        )
        problems.append(Refusal(text, names=missing))
    if missing and not is_header(found, known):
        hint = Refusal("If the file has no header, set header = false in [file].")
        raise joined([*problems, hint], " ")
    if absent := [name for name in request.extra if name not in present]:
        text = "lacks columns that were asked for: {names}. Check their names."
        problems.append(Refusal(text, names=absent))
    known.update(request.extra)
    extra = [name for name in dict.fromkeys(found) if name not in known]
    if extra and schema.extra == "refuse":
        text = (
            "has columns that are not in the schema: {names}. Add them to the schema, with kind = "
            '"ignored" if they are not to be used, or write extra = "ignore" at its top '
            "(--ignore-extra) to leave out all such columns."
        )
        problems.append(Refusal(text, names=extra, header=found))
    if twice := sorted(repeated(found)):
        text = "has columns of the same name: {names}. Rename them."
        problems.append(Refusal(text, names=twice, header=found))
    if problems:
        raise joined(problems, " It ")
    wanted = {*needed, *request.extra}
    return [name for name in found if name in wanted]


def check_types(fields: Any, request: Request) -> dict[str, str]:
    """Refuse columns whose cells are of a type that the schema's kind cannot hold.

    Returns what the cells of each column are: numbers, texts, truth values, times or nothing.
    Widths do not matter, because the schema says what a cell means.
    """
    families: dict[str, str] = {}
    problems = []
    for name in request.needed:
        kind = fields.field(name).type
        families[name] = family(kind)
        held = families[name]
        is_time = held == "times" and request.schema.holds_numbers(name)
        if isinstance(request.schema.columns.get(name), Date):
            is_time = not (held in ("texts", "nothing") or is_date(kind))
        if is_time or held == "other":
            problems.append(Refusal("column {name} is of type {kind}", name=name, kind=kind))
    if problems:
        rule = Refusal(
            "A column must hold numbers, or texts and what can be written as one, and a column of "
            "dates must hold dates, times with a date, or texts: convert it in the file, or "
            'set kind = "ignored" in the schema.'
        )
        raise joined([joined(problems, "; "), rule], ". ")
    return families


class Stamp(NamedTuple):
    """Identity and state of a file when it was listed."""

    path: Path
    device: int
    inode: int
    size: int
    modified: int

    @classmethod
    def of(cls, path: Path) -> Stamp:
        """Record a file; refuse what is not a regular one."""
        try:
            found = path.stat()
        except FileNotFoundError:
            raise Refusal("there is no such file. Check the path.") from None
        except OSError as error:
            raise Refusal("cannot be opened ({error}).", error=error) from None
        if path.is_dir():
            raise Refusal("is a folder. Choose a file in it.")
        if not path.is_file():
            # Opening a pipe could wait for ever, and it cannot be read from the start again.
            raise Refusal("is not a regular file (a pipe or a device); save it to a file first.")
        return cls(path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)

    def check(self) -> None:
        """Refuse a file that is not as it was."""
        found = None
        with suppress(Refusal):
            found = Stamp.of(self.path)
        with instead(place=self.path):
            if found is None:
                raise Refusal("has disappeared since it was listed. Put it back, and start again.")
            if found != self:
                raise Refusal(
                    "has changed since it was listed (its size, its time, or it is another file). "
                    "Wait until nothing writes to it, and start again."
                )


@dataclass(frozen=True)
class ArrowPart:
    """Anything that gives Arrow batches: ``stream`` takes the columns to read and the request.

    ``fields`` returns the Arrow schema without reading a record.
    """

    place: Place
    names: tuple[str, ...]
    fields: Callable[[], Any]
    stream: Callable[[list[str], Request], Iterable[Any]]
    n_rows: int | None = None
    stamps: tuple[Stamp, ...] = ()

    @classmethod
    def of(cls, place: Place, schema: Any, stream: Any, *known: Any) -> ArrowPart:
        """Make a part whose Arrow schema is at hand."""
        return cls(place, tuple(schema.names), lambda: schema, stream, *known)

    def check(self, request: Request) -> dict[str, str]:
        """Check the names of the columns, and their types."""
        columns_to_read(self.names, request)
        with instead(self._damaged):
            fields = self.fields()
        return check_types(fields, request)

    def records(self, request: Request) -> Iterator[Records]:
        """Yield the records block by block."""
        wanted = columns_to_read(self.names, request)
        done = 0
        with instead(self._damaged):
            batches = iter(self.stream(wanted, request))
        while True:
            with instead(self._damaged):
                batch = next(batches, None)
            if batch is None:
                break
            for start in range(0, batch.num_rows, request.block_rows):
                block = batch.slice(start, request.block_rows)
                done += block.num_rows
                yield Records(block, self.place, done / self.n_rows if self.n_rows else 0.0)
        if self.n_rows is not None and done != self.n_rows:
            raise Refusal(DAMAGED)

    @property
    def _damaged(self) -> str:
        """Refusal of a file that a library cannot read; a door knows what to say of a table."""
        return DAMAGED if self.stamps else ""
