"""Parts of a source: a file, or a table in memory, as records block by block."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from discreet.errors import TableError
from discreet.tables.csv_files import check_header, text_pieces
from discreet.tables.matching import Piece, Request, check_types, columns_to_read

DAMAGED = "is cut off or damaged. Copy it again."

Made = TypeVar("Made")


def guarded(call: Callable[[], Made], problem: str = "") -> Made:
    """Call a library; the text of its own error could quote a cell."""
    failed = ""
    try:
        return call()
    except (TableError, MemoryError):
        raise
    except Exception as error:
        failed = type(error).__name__
    raise TableError(
        problem
        or f"cannot be read: the library that holds it failed ({failed}; its text is withheld, "
        "because it may quote a cell). Save the table as Parquet, and open that."
    )


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
        problem = None
        try:
            found = path.stat()
        except FileNotFoundError:
            problem = "there is no such file. Check the path."
        except OSError as error:
            problem = f"cannot be opened ({error.strerror})."
        if problem is not None:
            raise TableError(problem)
        if path.is_dir():
            raise TableError("is a folder. Choose a file in it.")
        if not path.is_file():
            # Opening a pipe could wait for ever, and it cannot be read from the start again.
            raise TableError("is not a regular file (a pipe or a device); save it to a file first.")
        return cls(path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)

    def check(self) -> None:
        """Refuse a file that is not as it was."""
        found = None
        with suppress(TableError):
            found = Stamp.of(self.path)
        if found is None:
            raise TableError("has disappeared since it was listed. Put it back, and start again.")
        if found != self:
            raise TableError(
                "has changed since it was listed (its size, its time, or it is another file). Wait "
                "until nothing writes to it, and start again."
            )


@dataclass(frozen=True)
class TextPart:
    """A text file. Its names and its form depend on the schema."""

    path: Path
    stamps: tuple[Stamp, ...]
    alone: bool = True
    names: tuple[str, ...] = ()
    n_rows: int | None = None

    @property
    def where(self) -> str:
        """Name in messages."""
        return os.fspath(self.path)

    def check(self, request: Request) -> dict[str, str]:
        """Check the names of the columns; text has no types."""
        check_header(self.path, request)
        return {}

    def pieces(self, request: Request) -> Iterator[Piece]:
        """Yield the records block by block."""
        return text_pieces(self.path, request, may_be_empty=not self.alone)


@dataclass(frozen=True)
class ArrowPart:
    """Anything that gives Arrow batches: ``stream`` takes the columns to read and the block size.

    ``fields`` returns the Arrow schema without reading a record.
    """

    where: str
    names: tuple[str, ...]
    fields: Callable[[], Any]
    stream: Callable[[list[str], Request], Iterable[Any]]
    n_rows: int | None = None
    stamps: tuple[Stamp, ...] = ()

    def check(self, request: Request) -> dict[str, str]:
        """Check the names of the columns, and their types."""
        columns_to_read(self.names, request)
        return check_types(self._call(self.fields), request)

    def pieces(self, request: Request) -> Iterator[Piece]:
        """Yield the records block by block."""
        wanted, done = columns_to_read(self.names, request), 0
        batches = self._call(lambda: iter(self.stream(wanted, request)))
        while (batch := self._call(lambda: next(batches, None))) is not None:
            for start in range(0, batch.num_rows, request.block_rows):
                block = batch.slice(start, request.block_rows)
                done += block.num_rows
                yield request.piece(block, done / self.n_rows if self.n_rows else 0.0)
        if self.n_rows is not None and done != self.n_rows:
            raise TableError(DAMAGED)

    def _call(self, call: Callable[[], Made]) -> Made:
        return guarded(call, DAMAGED if self.stamps else "")


Part: TypeAlias = TextPart | ArrowPart
