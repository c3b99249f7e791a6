"""Parts of a source: a file, or a table of another library, as Arrow batches of records.

All cells of a record are in the same batch: a part yields the batches of one reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from discreet.tables.alignment import Records
from discreet.tables.csv_files import check_header, text_records
from discreet.tables.messages import Place, Refusal, instead
from discreet.tables.request import Request, check_types, columns_to_read

DAMAGED = "is cut off or damaged. Copy it again."
"""Refusal of a file that a library cannot read."""


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
        if found is None:
            raise Refusal("has disappeared since it was listed. Put it back, and start again.")
        if found != self:
            raise Refusal(
                "has changed since it was listed (its size, its time, or it is another file). Wait "
                "until nothing writes to it, and start again."
            )


@dataclass(frozen=True)
class TextPart:
    """A text file. Its names and its form depend on the schema."""

    place: Path
    stamps: tuple[Stamp, ...]
    names: tuple[str, ...] = ()
    n_rows: int | None = None

    def check(self, request: Request) -> dict[str, str]:
        """Check the names of the columns; text has no types."""
        check_header(self.place, request)
        return {}

    def records(self, request: Request) -> Iterator[Records]:
        """Yield the records block by block."""
        return text_records(self.place, request)


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


Part: TypeAlias = TextPart | ArrowPart
