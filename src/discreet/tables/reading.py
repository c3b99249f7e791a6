"""Reading files as Arrow batches and as encoded rows, block by block.

Text files (CSV and its relatives, plain or packed) and Parquet give the same arrays for the same
cells. The text of a whole file is never in memory. Every error names the file, the column where
there is one, and the rule; none shows a cell, a row's number or how many rows break a rule.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.errors import TableError
from discreet.tables.cells import arrow
from discreet.tables.csv_files import cleaned, columns_to_read, text_batches
from discreet.tables.encoding import Encoder, GrowingArray, GrowingRows
from discreet.tables.schema import Schema

__all__ = ["Encoded", "batches", "is_parquet", "naming", "opened_parquet", "read"]

PARQUET_BATCH = 1 << 15  # rows that are decoded at a time
_PARQUET = b"PAR1"
_DAMAGED = "is cut off or damaged. Copy it again."
_NOT_TABLES = {  # problems with a file, by its first bytes
    b"": "is empty. Choose the file that holds the records.",
    b"PK\x03\x04": "is a zip archive or an Excel workbook. Unpack it, or save the sheet as CSV.",
    b"\xd0\xcf\x11\xe0": "is an old Excel workbook (.xls). Save the sheet as CSV.",
}


class Encoded(NamedTuple):
    """A table that is ready for a fit.

    X has one row for each record and one column for each of ``schema.feature_names``; y has indices
    in ``schema.target.labels``, or the numbers of a numeric target.
    """

    X: NDArray[Any] | sp.csr_array
    y: NDArray[Any] | None


def read(
    path: str | os.PathLike[str],
    schema: Schema,
    *,
    dtype: str = "float32",
    sparse: bool | Literal["auto"] = "auto",
    target: bool = True,
    progress: Callable[[float], None] | None = None,
) -> Encoded:
    """Read a file and encode it by a schema.

    Memory stays near the size of the encoded table: records are encoded block by block, straight
    into the arrays that are returned.

    Parameters
    ----------
    path : path
        A text file (also packed by gzip, xz or bzip2), or Parquet, recognised by its first bytes,
        not by its name.
    schema : Schema
        Content of the file, and its encoding.
    dtype : {"float32", "float64"}
        Type of the encoded numbers.
    sparse : bool or "auto"
        Return X as a CSR matrix; "auto": if that is smaller, which depends on the schema alone.
    target : bool
        Read the target. If False, the file may lack it, and y is None.
    progress : callable, optional
        Called with the share of the file that was read, between 0 and 1.

    Returns
    -------
    Encoded

    Raises
    ------
    TableError
        If the file does not match the schema.

    Notes
    -----
    *Privacy.* X and y are the rows: hand them to an estimator, show them to nobody. Their width
    and bounds are the schema's. That every record fits the schema is assumed to be public: a file
    is read as a whole or refused with a message that shows no cell.
    """
    encoder = Encoder(schema, sparse, dtype)
    rows = GrowingRows(schema.width, sparse=encoder.sparse, dtype=dtype)
    labels: GrowingArray | None = None
    with closing(batches(path, schema, target=target, progress=progress)) as records:
        for batch in records:
            with naming(path):
                if schema.target is not None and target:
                    y = encoder.encode_target(batch.pop(schema.target.column))
                    labels = GrowingArray(y.dtype) if labels is None else labels
                    labels.append(y)
                rows.append(encoder.encode(batch))
    arrow().default_memory_pool().release_unused()  # memory for the fit
    return Encoded(rows.finish(), None if labels is None else labels.finish())


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Put the name of a file before the text of a `TableError`."""
    try:
        yield
    except TableError as error:
        error.args = (f"{os.fspath(path)}: {error}",)
        raise


def batches(
    path: str | os.PathLike[str],
    schema: Schema,
    *,
    target: bool,
    progress: Callable[[float], None] | None = None,
    drafting: bool = False,
) -> Generator[dict[str, Any], None, None]:
    """Yield the records of a file block by block.

    Parameters
    ----------
    path, schema, target, progress
        As in `read`.
    drafting : bool
        True if the schema is still to be written, so that advice must not refer to it.

    Yields
    ------
    dict of str to pyarrow.Array
        The cells of each column that the schema does not ignore, and of the target if asked for.
        Cells of text files are texts without the spaces around them; those of Parquet keep their
        types. Missing cells are null. Texts that repeat may be dictionaries.

    Raises
    ------
    TableError
        If the file does not match the schema in its form or its columns. Cells are checked when
        they are encoded.
    """
    arrow()
    path = Path(path)
    with naming(path):
        if is_parquet(path):
            yield from _parquet_batches(path, schema, target, progress)
        else:
            yield from text_batches(path, schema, target, progress, drafting)


def is_parquet(path: Path) -> bool:
    """Return True for Parquet and False for text, by the first bytes; refuse anything else."""
    problem, start = None, b""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            problem = "is a folder. Choose a file in it."
        elif not stat.S_ISREG(mode):
            # Opening a pipe could wait for ever, and it cannot be read from the start again.
            problem = "is not a regular file (a pipe or a device); save it to a file first."
        else:
            with path.open("rb") as file:
                start = file.read(4)
            problem = _NOT_TABLES.get(start)
            if not problem and start != _PARQUET and path.suffix.lower() in (".parquet", ".pq"):
                problem = "is no Parquet file, or was cut off. Copy it again."
    except FileNotFoundError:
        problem = "there is no such file. Check the path."
    except OSError as error:
        problem = f"cannot be opened ({error.strerror})."
    if problem is not None:
        raise TableError(problem)
    return start == _PARQUET


def _parquet_batches(
    path: Path, schema: Schema, target: bool, progress: Callable[[float], None] | None
) -> Iterator[dict[str, Any]]:
    """Yield the records of a Parquet file."""
    with opened_parquet(path) as file:
        wanted = columns_to_read(file.schema_arrow.names, schema, target)
        _check_types(file.schema_arrow, wanted, schema)
        total, done = file.metadata.num_rows, 0
        if not total:
            raise TableError("has no records. Choose the file that holds them.")
        stream = file.iter_batches(PARQUET_BATCH, columns=wanted, use_threads=False)
        while done < total:
            batch = None
            with suppress(arrow().ArrowException, OSError):
                batch = next(stream, None)
            if batch is None:
                raise TableError(_DAMAGED)
            done += batch.num_rows
            if progress is not None:
                progress(done / total)
            yield cleaned(batch, wanted, schema)


def opened_parquet(path: Path) -> Any:
    """Open a Parquet file; Arrow's own error could quote its content."""
    import pyarrow.parquet as pq

    file = None
    with suppress(arrow().ArrowException, OSError):
        # Buffered: columns are read piece by piece, not a whole group of rows at once.
        file = pq.ParquetFile(path, buffer_size=1 << 18, pre_buffer=False)
    if file is None:
        raise TableError(_DAMAGED)
    return file


def _check_types(fields: Any, wanted: list[str], schema: Schema) -> None:
    """Refuse columns whose cells are of a type that the schema's kind cannot hold."""
    from pyarrow import types

    never = (types.is_nested, types.is_binary, types.is_large_binary, types.is_fixed_size_binary)
    problems = []
    for name in wanted:
        found = fields.field(name).type
        inner = found.value_type if types.is_dictionary(found) else found
        is_time = schema.holds_numbers(name) and types.is_temporal(inner)
        if is_time or any(test(inner) for test in never):
            problems.append(f"column {name!r} is of type {found}")
    if problems:
        raise TableError(
            f"{'; '.join(problems)}. A column must hold numbers, or texts and what can be written "
            'as one: convert it in the file, or set kind = "ignored" in the schema.'
        )
