"""Parts of a source: a file, or a table of another library, as records block by block.

Libraries are recognised by the module of a table's type, and never imported here. Tables in memory
are converted block by block, lazy ones are computed that way; no error quotes a cell.
"""

from __future__ import annotations

import datetime
import decimal
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from discreet.errors import TableError
from discreet.tables.cells import Made, arrow, guarded
from discreet.tables.columns import quoted, repeated
from discreet.tables.csv_files import check_header, text_pieces
from discreet.tables.matching import Piece, Request, check_types, columns_to_read, naming

DAMAGED = "is cut off or damaged. Copy it again."


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
        return text_pieces(self.path, request)


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

    @classmethod
    def of(cls, where: str, schema: Any, stream: Any, *known: Any) -> ArrowPart:
        """Make a part whose Arrow schema is at hand."""
        return cls(where, tuple(schema.names), lambda: schema, stream, *known)

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


def table_part(data: Any) -> ArrowPart:
    """Recognise a table; no record is read."""
    pa = arrow()
    library = type(data).__module__.partition(".")[0].lstrip("_")
    where = f"the {type(data).__name__}"
    make: Callable[[str, Any], ArrowPart] | None = None
    if isinstance(data, (pa.Table, pa.RecordBatch)):
        make = _arrow_table
    elif library == "pyarrow" and hasattr(data, "scanner"):
        make = _dataset
    elif library == "polars" and hasattr(data, "collect_schema") and hasattr(data, "collect"):
        make = _polars_lazy
    elif library == "duckdb" and hasattr(data, "project"):
        make = _duckdb
    elif library.startswith("dask") and hasattr(data, "partitions"):
        make = _dask
    elif hasattr(data, "collect"):
        raise TableError(
            f"a {type(data).__module__}.{type(data).__name__} is computed elsewhere. Save it as "
            "Parquet and open the folder, or call its collect() first."
        )
    elif isinstance(data, Mapping) or (hasattr(data, "columns") and hasattr(data, "dtypes")):
        make = _columns
    elif hasattr(data, "__arrow_c_stream__") and not isinstance(data, pa.ChunkedArray):
        make = _stream
    if make is None:
        raise TableError(
            f"a {type(data).__name__} has no names of columns; give a path, a pandas or polars "
            "DataFrame, a pyarrow Table, or a dict of arrays."
        )
    with naming(where):
        made = guarded(partial(make, where, data))
    if twice := repeated(made.names):
        raise TableError(f"the table has more than one column {quoted(twice)}; rename them.")
    return made


def _arrow_table(where: str, data: Any) -> ArrowPart:
    table = data if isinstance(data, arrow().Table) else arrow().Table.from_batches([data])

    def stream(wanted: list[str], request: Request) -> Iterator[Any]:
        yield from table.select(wanted).to_batches(request.block_rows)

    return ArrowPart.of(where, table.schema, stream, table.num_rows)


def _stream(where: str, data: Any) -> ArrowPart:
    """Anything with Arrow's interface, which may be read once."""
    reader = arrow().RecordBatchReader.from_stream(data)
    unread = [reader]

    def stream(wanted: list[str], request: Request) -> Iterator[Any]:
        if not unread:
            raise TableError("can be read once, and was read before. Make it anew.")
        for batch in unread.pop():
            yield batch.select(wanted)

    return ArrowPart.of(where, reader.schema, stream)


def _dataset(where: str, data: Any) -> ArrowPart:
    from pyarrow import dataset, fs

    paths, options = [], {}
    if isinstance(data, dataset.FileSystemDataset):
        if isinstance(data.filesystem, fs.LocalFileSystem):
            paths = data.files
        if isinstance(data.format, dataset.ParquetFileFormat):
            scan = dataset.ParquetFragmentScanOptions(use_buffered_stream=True, pre_buffer=False)
            options["fragment_scan_options"] = scan

    def stream(wanted: list[str], request: Request) -> Iterator[Any]:
        rows = request.block_rows
        scanner = data.scanner(
            columns=wanted, batch_size=rows, batch_readahead=2, fragment_readahead=1, **options
        )
        yield from scanner.to_batches()

    stamps = tuple(Stamp.of(Path(path)) for path in paths)
    return ArrowPart.of(where, data.schema, stream, None, stamps)


def _polars_lazy(where: str, data: Any) -> ArrowPart:
    names = tuple(data.collect_schema().names())

    def stream(wanted: list[str], request: Request) -> Iterator[Any]:
        chosen = data.select(wanted)
        in_blocks = getattr(chosen, "collect_batches", None)  # polars 1.34
        for frame in in_blocks(chunk_size=request.block_rows) if in_blocks else [chosen.collect()]:
            yield from frame.to_arrow().combine_chunks().to_batches(request.block_rows)

    return ArrowPart(where, names, lambda: data.limit(0).collect().to_arrow().schema, stream)


def _duckdb(where: str, data: Any) -> ArrowPart:
    def stream(wanted: list[str], request: Request) -> Iterator[Any]:
        names = (name.replace('"', '""') for name in wanted)
        chosen = data.project(", ".join(f'"{name}"' for name in names))
        read = getattr(chosen, "to_arrow_reader", None) or chosen.fetch_record_batch
        yield from read(request.block_rows)

    def fields() -> Any:
        return arrow().table(data.limit(0)).schema

    return ArrowPart(where, tuple(data.columns), fields, stream)


def _dask(where: str, data: Any) -> ArrowPart:
    names = tuple(data.columns)

    def stream(wanted: list[str], request: Request) -> Iterator[Any]:
        for index in range(data.npartitions):
            yield from _columns(where, data.partitions[index].compute()).stream(wanted, request)

    return ArrowPart(where, names, lambda: _types(data._meta, names), stream)


def _columns(where: str, data: Any) -> ArrowPart:
    names = tuple(data) if isinstance(data, Mapping) else tuple(data.columns)

    def stream(wanted: list[str], request: Request) -> Iterator[Any]:
        columns = {name: _checked(data[name], name) for name in wanted}
        if len({len(values) for values in columns.values()}) > 1:
            raise TableError("the columns of a table must be of one length.")
        for start in range(0, len(columns[wanted[0]]), request.block_rows):
            stop = start + request.block_rows
            block = {name: as_arrow(_cut(columns[name], start, stop), name) for name in wanted}
            yield from arrow().table(block).combine_chunks().to_batches()

    n_rows = None if isinstance(data, Mapping) else len(data)
    return ArrowPart(where, names, lambda: _types(data, names), stream, n_rows)


def _types(data: Any, names: Iterable[str]) -> Any:
    """Return the Arrow schema of a table in memory; cells of any type count as texts."""
    pa = arrow()
    kinds = {name: as_arrow(_cut(_checked(data[name], name), 0, 0), name).type for name in names}
    untyped = {name: pa.string() for name, kind in kinds.items() if pa.types.is_null(kind)}
    return pa.schema(kinds | untyped)


def _checked(values: Any, name: str) -> Any:
    is_list = hasattr(values, "__len__") and not isinstance(values, (str, bytes, Mapping))
    if not is_list or getattr(values, "ndim", 1) != 1:
        raise TableError(f"column {name!r}: must be a list or a one-dimensional array of cells.")
    return values


def _cut(values: Any, start: int, stop: int) -> Any:
    return values.iloc[start:stop] if hasattr(values, "iloc") else values[start:stop]


def as_arrow(values: Any, name: str) -> Any:
    """Convert a column of any library to an Arrow array; no error quotes a cell."""
    pa = arrow()
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    try:
        if hasattr(values, "to_arrow"):
            return values.to_arrow()
        return pa.array(values, from_pandas=True)
    except Exception:  # of whatever library; its text may quote a cell
        texts = [_text(value) for value in values]
    if any(text is NotImplemented for text in texts):
        raise TableError(
            f"column {name!r}: a cell is neither a text nor a number; convert the column to either."
        )
    return pa.array(texts, type=pa.string())


def _text(value: Any) -> Any:
    """Return the text of a cell in a column of mixed types, as Arrow would write it."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (str, Integral, datetime.date)):
        return str(value)
    if not isinstance(value, (Real, decimal.Decimal)):
        return NotImplemented
    number = float(value)
    if np.isnan(number):
        return None
    return str(int(number)) if number.is_integer() else repr(number)
