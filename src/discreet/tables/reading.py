"""Reading sources as Arrow columns and as encoded rows, block by block.

A source is never in memory as a whole: while one block is encoded, the next is read. Ids of the
unit's column become small numbers: equal ids get the same, in whatever block or file they are
(`discreet.ids`). No message shows an id.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from discreet.core.bits import Bits
from discreet.errors import TableError
from discreet.ids import MIXED, compared
from discreet.tables.arrays import GrowingArray, GrowingRows, memory_limit
from discreet.tables.cells import arrow, as_number, guarded, plain_array
from discreet.tables.encoding import Encoder
from discreet.tables.matching import Piece, Request, columns_to_read, naming
from discreet.tables.schema import Schema
from discreet.tables.sources import Source, source

Progress: TypeAlias = Callable[[float], None] | None
Sparse: TypeAlias = bool | Literal["auto"]


class Encoded(NamedTuple):
    """A table that is ready for a fit.

    X has one row per record and one column for each of ``schema.feature_names``. y has the target:
    labels, their indices in ``schema.target.labels``, or numbers. groups has the person of each
    row, one number per id of the schema's unit, and is None without a unit.
    """

    X: NDArray[Any] | sp.csr_array
    y: NDArray[Any] | None
    groups: NDArray[np.int32] | None = None


class EncodedBlock(NamedTuple):
    """Some records in turn, as in `Encoded`; ``extra`` has other columns, not encoded."""

    X: NDArray[Any] | sp.csr_array
    y: NDArray[Any] | None
    extra: dict[str, Any]
    groups: NDArray[np.int32] | None = None


def read(
    data: Any,
    schema: Schema,
    *,
    memory: int | str | None = None,
    folder: str | os.PathLike[str] | None = None,
    dtype: str = "float32",
    sparse: Sparse = "auto",
    target: bool | None = None,
    labels: bool = False,
    progress: Progress = None,
    ids: IdCodes | None = None,
) -> Encoded:
    """Encode a source, in memory or in a private file; `Schema.open` with more choices.

    That every record fits the schema is assumed to be public: a source is read as a whole or
    refused with a message that shows no cell.

    Parameters
    ----------
    data, schema, memory, folder, dtype, sparse, progress
        As in `Schema.open`.
    target : bool, optional
        Read the target and the unit. If False, the source may lack them, and y and groups are
        None. By default what the schema has is read.
    labels : bool
        Return y as labels, not as indices in ``schema.target.labels``, which need less memory.
    ids : IdCodes, optional
        Takes the ids of the unit's column.
    """
    limit, encoder = memory_limit(memory), Encoder(schema, sparse, dtype)
    has_target = schema.target is not None if target is None else target
    request = Request(schema, has_target, unit=target is not False)
    found = source(data)
    rows = GrowingRows(schema.width, sparse=encoder.sparse, dtype=encoder.dtype)
    targets, people = GrowingArray(encoder.target_dtype(labels)), GrowingArray(np.int32)
    grouped = schema.unit is not None and request.unit
    per_row = rows.arrays(schema.groups) | {targets: int(has_target), people: int(grouped)}
    row_bytes = sum(array.dtype.itemsize * entries for array, entries in per_row.items())
    expected, in_files = found.n_rows or 0, False
    blocks = encoded_blocks(found, encoder, request, progress, labels=labels, keep=False, ids=ids)
    try:
        with closing(blocks):
            while True:
                if not in_files and max(rows.n_rows, expected) * row_bytes > limit:
                    for array, entries in per_row.items():
                        array.move_to_file(folder, expected * entries)
                    in_files = True
                block = next(blocks, None)
                if block is None:
                    break
                rows.append(block.X)
                if block.y is not None:
                    targets.append(block.y)
                if block.groups is not None:
                    people.append(block.groups)
                del block
        arrow().default_memory_pool().release_unused()  # memory for the fit
        y = targets.finish() if has_target else None
        return Encoded(rows.finish(), y, people.finish() if grouped else None)
    finally:
        for array in per_row:
            array.close()


def batches(
    path: Any,
    schema: Schema,
    *,
    target: bool,
    progress: Progress = None,
    drafting: bool = False,
    unit: bool = False,
) -> Generator[dict[str, Any], None, None]:
    """Yield the records of a source block by block, not encoded: Arrow arrays by column.

    Columns are those that the schema does not ignore, the target if asked for, and with ``unit``
    the unit. Cells of text files are texts without the spaces around them; those of other sources
    keep their types. Missing cells are null. Texts that repeat may be dictionaries. A source that
    does not match the schema in its form or its columns is refused; while ``drafting``, advice must
    not refer to the schema.
    """
    request = Request(schema, target, drafting=drafting, unit=unit)
    with closing(source(path).pieces(request)) as pieces:
        for piece in _shown(pieces, progress):
            yield piece.columns


def encoded_blocks(
    found: Source,
    encoder: Encoder,
    request: Request,
    progress: Progress,
    *,
    labels: bool = True,
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
                    y = texts[y] if labels and own.is_classification else y
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


class TableTransformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encoder of tables by a schema: every column becomes numbers in [0, 1] by a public rule.

    Parameters
    ----------
    schema : Schema
        Content of each column.
    sparse : bool or "auto"
        Return a CSR array; "auto": if it is smaller (``schema.is_wide``).
    dtype : {"float64", "float32"}
        The type of the numbers.

    Notes
    -----
    *Privacy.* Nothing is learned from the rows: `fit` looks at the names of the columns and at no
    cell, and each row is encoded by itself, so no budget is spent. A row has norm at most
    ``schema.max_norm``, once no column is unbounded.

    Examples
    --------
    >>> from discreet.tables import Categorical, Numeric, Schema
    >>> schema = Schema({"age": Numeric(0, 100), "sex": Categorical(["F", "M"], unseen="refuse")})
    >>> schema.transformer(sparse=False).fit_transform({"age": [25, 50], "sex": ["F", "M"]})
    array([[0.25, 1.  , 0.  ],
           [0.5 , 0.  , 1.  ]])
    """

    def __init__(self, schema: Schema, sparse: bool | str = "auto", dtype: str = "float64") -> None:
        self.schema = schema
        self.sparse = sparse
        self.dtype = dtype

    def fit(self, X: Any, y: Any = None) -> TableTransformer:
        """Check that the table has the schema's columns; no cell is read.

        X is any source that ``schema.open`` takes. The target's column, if it has one, is not used.
        """
        self._encoder()
        found = source(X)
        names = found.names or tuple(self.schema.used)  # those of a text file are checked later
        with naming(found.parts[0].where):
            columns_to_read(names, Request(self.schema, target=False))
        self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = len(names)
        return self

    def transform(self, X: Any) -> Any:
        """Encode a table, of the kinds that `fit` takes, as ``schema.width`` columns."""
        encoder = self._encoder()
        rows = GrowingRows(self.schema.width, sparse=encoder.sparse, dtype=encoder.dtype)
        for piece in source(X).pieces(Request(self.schema, target=False), may_be_empty=True):
            with naming(piece.where):
                rows.append(encoder.encode(piece.columns))
        return rows.finish()

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the encoded columns."""
        return np.array(self.schema.feature_names, dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return True  # nothing is learned

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = tags.input_tags.two_d_array = False
        for accepted in ("string", "categorical", "allow_nan"):
            setattr(tags.input_tags, accepted, True)
        return tags

    def _encoder(self) -> Encoder:
        """Check the settings; nothing has been read yet."""
        if not isinstance(self.schema, Schema):
            raise ValueError(f"schema must be a Schema; got {type(self.schema).__name__}.")
        return Encoder(self.schema, self.sparse, self.dtype)


class IdCodes:
    """Numbers of ids in the order of their first appearance; ``markers`` mean a missing cell.

    Memory grows with the number of distinct ids, not of rows.
    """

    def __init__(self, column: str, markers: Iterable[str]) -> None:
        self.column, self._where = column, f"column {column!r}"
        self._missing = {as_number(text) for text in markers} - {None}
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
            kind, own = compared(value)
            if kind != (self.kind or kind):
                raise TableError(f"{self._where}: {MIXED}")
            self.kind = kind
            found[at] = numbers.setdefault(own, len(numbers))
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
