"""Tables of other libraries as Arrow batches.

Libraries are recognised by the module of a table's type, and never imported here. Tables in memory
are converted block by block, lazy ones are computed that way.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from discreet.tables.columns import repeated
from discreet.tables.messages import Refusal, arrow, instead
from discreet.tables.parts import ArrowPart, Request, Stamp


def table_part(data: Any) -> ArrowPart:
    """Recognise a table; no record is read."""
    pa = arrow()
    library = type(data).__module__.partition(".")[0].lstrip("_")
    make: Callable[[type, Any], ArrowPart] | None = None
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
        raise Refusal(
            "a {kind} is computed elsewhere. Save it as Parquet and open the folder, or call its "
            "collect() first.",
            kind=type(data),
        )
    elif isinstance(data, Mapping) or (hasattr(data, "columns") and hasattr(data, "dtypes")):
        make = _columns
    elif hasattr(data, "__arrow_c_stream__") and not isinstance(data, pa.ChunkedArray):
        make = _stream
    elif isinstance(data, Iterator):
        make = _chunks
    if make is None:
        raise Refusal(
            "a {kind} has no names of columns; give a path, a pandas or polars DataFrame, a "
            "pyarrow Table, a dict of arrays, or a generator of such tables.",
            kind=type(data),
        )
    with instead(place=type(data)):
        made = make(type(data), data)
    if twice := repeated(made.names):
        raise Refusal("the table has more than one column {names}; rename them.", names=twice)
    return made


def _arrow_table(place: type, data: Any) -> ArrowPart:
    table = data if isinstance(data, arrow().Table) else arrow().Table.from_batches([data])

    def stream(wanted: list[str], request: Request) -> Iterator[Any]:
        yield from table.select(wanted).to_batches(request.block_rows)

    return ArrowPart.of(place, table.schema, stream, table.num_rows)


def _stream(place: type, data: Any) -> ArrowPart:
    """Anything with Arrow's interface, which may be read once."""
    reader = arrow().RecordBatchReader.from_stream(data)
    return ArrowPart.of(place, reader.schema, _once(reader, reader.schema.names))


def _chunks(place: type, data: Iterator[Any]) -> ArrowPart:
    """Tables from a generator, such as pandas' ``read_sql(chunksize=…)``, which is read once.

    The first one is taken at once, for the names and types of its columns.
    """
    first = next(data, None)
    if first is None:
        raise Refusal("yields no table. Make it anew if it was read before.")
    named = table_part(first)
    return ArrowPart(place, named.names, named.fields, _once(chain([first], data), named.names))


def _once(tables: Iterable[Any], names: Iterable[str]) -> Callable[..., Iterator[Any]]:
    """Return the stream of a part whose tables, all of these columns, may be read once."""
    unread = [tables]

    def stream(wanted: list[str], request: Request) -> Iterator[Any]:
        if not unread:
            raise Refusal("can be read once, and was read before. Make it anew.")
        for each in unread.pop():
            part = table_part(each)
            if set(part.names) != set(names):
                raise Refusal("yields tables of other columns than the first. Make them alike.")
            yield from part.stream(wanted, request)

    return stream


def _dataset(place: type, data: Any) -> ArrowPart:
    from pyarrow import dataset, fs

    is_local = isinstance(getattr(data, "filesystem", None), fs.LocalFileSystem)
    paths = data.files if is_local and isinstance(data, dataset.FileSystemDataset) else ()
    options: dict[str, Any] = {"batch_readahead": 2, "fragment_readahead": 1}
    if isinstance(getattr(data, "format", None), dataset.ParquetFileFormat):
        scan = dataset.ParquetFragmentScanOptions(use_buffered_stream=True, pre_buffer=False)
        options["fragment_scan_options"] = scan

    def stream(wanted: list[str], request: Request) -> Iterator[Any]:
        yield from data.scanner(
            columns=wanted, batch_size=request.block_rows, **options
        ).to_batches()

    stamps = tuple(Stamp.of(Path(path)) for path in paths)
    return ArrowPart.of(place, data.schema, stream, None, stamps)


def _polars_lazy(place: type, data: Any) -> ArrowPart:
    names = tuple(data.collect_schema().names())

    def stream(wanted: list[str], request: Request) -> Iterator[Any]:
        chosen = data.select(wanted)
        in_blocks = getattr(chosen, "collect_batches", None)  # polars 1.34
        for frame in in_blocks(chunk_size=request.block_rows) if in_blocks else [chosen.collect()]:
            yield from frame.to_arrow().combine_chunks().to_batches(request.block_rows)

    return ArrowPart(place, names, lambda: data.limit(0).collect().to_arrow().schema, stream)


def _duckdb(place: type, data: Any) -> ArrowPart:
    def stream(wanted: list[str], request: Request) -> Iterator[Any]:
        names = (name.replace('"', '""') for name in wanted)
        chosen = data.project(", ".join(f'"{name}"' for name in names))
        read = getattr(chosen, "to_arrow_reader", None) or chosen.fetch_record_batch
        yield from read(request.block_rows)

    def fields() -> Any:
        return arrow().table(data.limit(0)).schema

    return ArrowPart(place, tuple(data.columns), fields, stream)


def _dask(place: type, data: Any) -> ArrowPart:
    names = tuple(data.columns)

    def stream(wanted: list[str], request: Request) -> Iterator[Any]:
        for index in range(data.npartitions):
            yield from _columns(place, data.partitions[index].compute()).stream(wanted, request)

    return ArrowPart(place, names, lambda: _types(data._meta, names), stream)


def _columns(place: type, data: Any) -> ArrowPart:
    names = tuple(data) if isinstance(data, Mapping) else tuple(data.columns)

    def stream(wanted: list[str], request: Request) -> Iterator[Any]:
        columns = {name: _checked(data[name], name) for name in wanted}
        n_rows = len(columns[wanted[0]])
        if other := [name for name in wanted if len(columns[name]) != n_rows]:
            raise Refusal(
                "all columns of a table must be of one length; check {names} and {first}.",
                names=other,
                first=wanted[0],
            )
        for start in range(0, n_rows, request.block_rows):
            stop = start + request.block_rows
            block = {name: as_arrow(_cut(columns[name], start, stop), name) for name in wanted}
            yield from arrow().table(block).combine_chunks().to_batches()

    known = None if isinstance(data, Mapping) else len(data)
    return ArrowPart(place, names, lambda: _types(data, names), stream, known)


def _types(data: Any, names: Iterable[str]) -> Any:
    """Return the Arrow schema of a table in memory; cells of any type count as texts."""
    pa = arrow()
    data = data.iloc[:0] if hasattr(data, "iloc") else data  # one cut is faster than many
    kinds = {name: as_arrow(_cut(_checked(data[name], name), 0, 0), name).type for name in names}
    untyped = {name: pa.string() for name, kind in kinds.items() if pa.types.is_null(kind)}
    return pa.schema(kinds | untyped)


def _checked(values: Any, name: str) -> Any:
    is_list = hasattr(values, "__len__") and not isinstance(values, (str, bytes, Mapping))
    if not is_list or getattr(values, "ndim", 1) != 1:
        raise Refusal(
            "column {name}: must be a list or a one-dimensional array of cells.", name=name
        )
    return values


def _cut(values: Any, start: int, stop: int) -> Any:
    by_place = hasattr(type(values), "iloc")  # of pandas' series: asking these is slow
    return values.iloc[start:stop] if by_place else values[start:stop]


def as_arrow(values: Any, name: str) -> Any:
    """Convert a column of any library to an Arrow array; no error quotes a cell."""
    pa = arrow()
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    try:
        if hasattr(type(values), "to_arrow"):
            return values.to_arrow()
        return pa.array(values, from_pandas=True)
    except Exception:  # of whatever library; its text may quote a cell
        texts = [_text(value) for value in values]
    if any(text is NotImplemented for text in texts):
        raise Refusal(
            "column {name}: a cell is neither a text nor a number; convert the column to either.",
            name=name,
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
