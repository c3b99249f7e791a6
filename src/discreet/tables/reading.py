"""Reading sources as Arrow columns and as encoded rows, block by block.

Text files (CSV and its relatives, plain or packed), Parquet and tables of other libraries give the
same arrays for the same cells. A source is never in memory as a whole: while one block is encoded,
the next is read. Every error names the file, the column where there is one, and the rule; none
shows a cell, a row's number or how many rows break a rule.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.tables.block_file import FileArray, memory_limit
from discreet.tables.cells import arrow
from discreet.tables.columns import check_texts
from discreet.tables.encoding import Encoder, GrowingArray, GrowingRows, moved
from discreet.tables.ids import IdCodes
from discreet.tables.matching import Piece, Request, naming
from discreet.tables.schema import Schema
from discreet.tables.sources import Source, source

__all__ = [
    "Encoded",
    "EncodedBlock",
    "batches",
    "blocks",
    "naming",
    "open_table",
    "read",
]

Progress: TypeAlias = Callable[[float], None] | None
Sparse: TypeAlias = bool | Literal["auto"]


class Encoded(NamedTuple):
    """A table that is ready for a fit.

    X has one row for each record and one column for each of ``schema.feature_names``. y has the
    target: from `read` indices in ``schema.target.labels``, from ``schema.open`` the labels
    themselves; in both the numbers of a numeric target. groups has the person of each row, as a
    number for each id of the schema's unit, and is None if it has no unit: ``fit`` takes all three.
    """

    X: NDArray[Any] | sp.csr_array
    y: NDArray[Any] | None
    groups: NDArray[np.int32] | None = None


class EncodedBlock(NamedTuple):
    """Some records in turn: encoded rows, labels or numbers of the target, and other columns.

    ``extra`` has the columns that were asked for as Arrow arrays, as the source holds them;
    ``groups`` the numbers of ids, where they are read.
    """

    X: NDArray[Any] | sp.csr_array
    y: NDArray[Any] | None
    extra: dict[str, Any]
    groups: NDArray[np.int32] | None = None


def read(
    path: Any,
    schema: Schema,
    *,
    dtype: str = "float32",
    sparse: Sparse = "auto",
    target: bool = True,
    progress: Progress = None,
    ids: IdCodes | None = None,
) -> Encoded:
    """Read a file and encode it by a schema.

    Memory stays near the size of the encoded table: records are encoded block by block, straight
    into the arrays that are returned.

    Parameters
    ----------
    path : path or table
        A text file (also packed by gzip, xz or bzip2), Parquet or Feather, recognised by its first
        bytes, not by its name; or any other source that ``schema.open`` takes.
    schema : Schema
        Content of the file, and its encoding.
    dtype : {"float32", "float64"}
        Type of the encoded numbers.
    sparse : bool or "auto"
        Return X as a CSR matrix; "auto": if that is smaller, which depends on the schema alone.
    target : bool
        Read the target and the unit. If False, the file may lack them, and y and groups are None.
    progress : callable, optional
        Called with the share of the file that was read, between 0 and 1.
    ids : IdCodes, optional
        Takes the ids of the unit's column.

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
    request = Request(schema, target, unit=target)
    return _collected(source(path), encoder, request, progress, as_labels=False, ids=ids)


def open_table(
    data: Any,
    schema: Schema,
    *,
    memory: int | str | None = None,
    folder: str | os.PathLike[str] | None = None,
    dtype: str = "float32",
    sparse: Sparse = "auto",
    as_labels: bool = True,
    progress: Progress = None,
) -> Encoded:
    """Encode a source, in memory or in a private file; see ``Schema.open``.

    Unless ``as_labels``, y has indices in ``schema.target.labels``, which need less memory.
    """
    encoder = Encoder(schema, sparse, dtype)
    request = Request(schema, schema.target is not None, unit=True)
    places: Any = {"limit": memory_limit(memory), "folder": folder}
    return _collected(source(data), encoder, request, progress, as_labels=as_labels, **places)


def blocks(
    data: Any,
    schema: Schema,
    *,
    extra: Sequence[str] = (),
    target: bool = False,
    dtype: str = "float32",
    sparse: Sparse = "auto",
    progress: Progress = None,
) -> Generator[EncodedBlock, None, None]:
    """Encode a source block by block; see ``Schema.batches``."""
    encoder, names = Encoder(schema, sparse, dtype), check_texts("extra", extra, stripped=False)
    return _encoded(source(data), encoder, Request(schema, target, names), progress)


def batches(
    path: Any,
    schema: Schema,
    *,
    target: bool,
    progress: Progress = None,
    drafting: bool = False,
    unit: bool = False,
) -> Generator[dict[str, Any], None, None]:
    """Yield the records of a source block by block, not encoded.

    Parameters
    ----------
    path, schema, target, progress
        As in `read`.
    drafting : bool
        True if the schema is still to be written, so that advice must not refer to it.
    unit : bool
        Yield the unit's cells too.

    Yields
    ------
    dict of str to pyarrow.Array
        The cells of each column that the schema does not ignore, and of the target if asked for.
        Cells of text files are texts without the spaces around them; those of other sources keep
        their types. Missing cells are null. Texts that repeat may be dictionaries.

    Raises
    ------
    TableError
        If the source does not match the schema in its form or its columns. Cells are checked when
        they are encoded.
    """
    request = Request(schema, target, drafting=drafting, unit=unit)
    with closing(source(path).pieces(request)) as pieces:
        for piece in _shown(pieces, progress):
            yield piece.columns


def _collected(
    found: Source,
    encoder: Encoder,
    request: Request,
    progress: Progress,
    *,
    as_labels: bool = True,
    limit: float = math.inf,
    folder: str | os.PathLike[str] | None = None,
    ids: IdCodes | None = None,
) -> Encoded:
    """Encode a source into arrays: in memory up to a limit, in files beyond it."""
    schema, target, unit = encoder.schema, request.target, encoder.schema.unit
    rows = GrowingRows(schema.width, sparse=encoder.sparse, dtype=encoder.dtype)
    labels: GrowingArray | FileArray = GrowingArray(encoder.target_dtype(as_labels))
    people: GrowingArray | FileArray = GrowingArray(np.int32)
    grouped = unit is not None and request.unit
    each = rows.row_bytes(schema.groups) + encoder.target_dtype(as_labels).itemsize
    each += np.dtype(np.int32).itemsize * grouped
    expected, in_files = found.n_rows or 0, False
    options: Any = {"as_labels": as_labels, "keep": False, "ids": ids}
    encoding = _encoded(found, encoder, request, progress, **options)
    try:
        with closing(encoding) as encoded:
            while True:
                if not in_files and max(rows.n_rows, expected) * each > limit:
                    rows.move_to_files(folder, expected, schema.groups)
                    labels = moved(labels, folder, expected * target)
                    people = moved(people, folder, expected * grouped)
                    in_files = True
                block = next(encoded, None)
                if block is None:
                    break
                rows.append(block.X)
                if block.y is not None:
                    labels.append(block.y)
                if block.groups is not None:
                    people.append(block.groups)
                del block
        arrow().default_memory_pool().release_unused()  # memory for the fit
        y = labels.finish() if target else None
        return Encoded(rows.finish(), y, people.finish() if grouped else None)
    finally:
        for array in (rows, labels, people):
            array.close()


def _encoded(
    found: Source,
    encoder: Encoder,
    request: Request,
    progress: Progress,
    *,
    as_labels: bool = True,
    keep: bool = True,
    ids: IdCodes | None = None,
) -> Generator[EncodedBlock, None, None]:
    """Encode one block while the next is read; unless ``keep``, a block replaces the one before."""
    own, unit = request.schema.target, request.schema.unit if request.unit else None
    if ids is None and unit is not None:
        ids = IdCodes(unit, request.schema.file.missing)
    out: NDArray[Any] | None = None
    texts = np.array(own.labels if own is not None and own.is_classification else ())
    with closing(_ahead(found.pieces(request))) as pieces:
        for piece in _shown(pieces, progress):
            y, groups = None, None
            with naming(piece.where):
                if own is not None and request.target:
                    y = encoder.encode_target(piece.columns.pop(own.column))
                    y = texts[y] if as_labels and own.is_classification else y
                if ids is not None:
                    groups = ids.codes(piece.columns.pop(ids.column))
                X = encoder.encode(piece.columns, out)
            if isinstance(X, np.ndarray) and not keep:
                out = X if out is None or len(X) > len(out) else out
            yield EncodedBlock(X, y, piece.extra, groups)


def _ahead(pieces: Generator[Piece, None, None]) -> Generator[Piece, None, None]:
    """Read the next block in a thread of its own while the caller uses this one."""
    with closing(pieces), ThreadPoolExecutor(1) as pool:
        reading = pool.submit(next, pieces, None)
        while (piece := reading.result()) is not None:
            reading = pool.submit(next, pieces, None)
            yield piece


def _shown(pieces: Iterator[Piece], progress: Progress) -> Iterator[Piece]:
    """Report the share that was read, and 1 at the end."""
    share = 0.0
    for piece in pieces:
        if progress is not None and piece.share > share:
            share = piece.share
            progress(share)
        yield piece
    if progress is not None and share < 1.0:
        progress(1.0)
