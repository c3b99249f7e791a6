"""Reading a source as encoded rows, or as Arrow columns, block by block.

A source is never in memory as a whole: while one block is encoded, the next is read. Both happen
behind a `door`, so that no error shows a cell.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from discreet.tables.alignment import (
    EncodedBlock,
    IdCodes,
    LevelCodes,
    Records,
    check_aligned,
    encoded,
)
from discreet.tables.encoder import Encoder, Space, trimmed
from discreet.tables.messages import arrow
from discreet.tables.parts import Request, columns_to_read
from discreet.tables.schema import Schema, check_schema
from discreet.tables.source import Source, source
from discreet.tables.storage import GrowingTable, memory_limit

ShowShare: TypeAlias = Callable[[float], None] | None
"""Function that is called with the share of a source that was read, or None."""

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
    levels: LevelCodes | None = None,
    progress: ShowShare = None,
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
    levels : LevelCodes, optional
        A column whose levels are collected from the same records.
    """
    limit = memory_limit(memory)
    has_target = schema.target is not None if target is None else target
    blocks = BlockReader(
        data,
        schema,
        has_target,
        unit=target is not False,
        dtype=dtype,
        sparse=sparse,
        labels=labels,
    )
    if levels is not None:
        blocks.collect(levels)
    return blocks.joined(limit, folder, progress)


class BlockReader:
    """A source that is encoded block by block; no record is read before the first block.

    ``ids`` holds the unit's ids, if asked for.
    """

    def __init__(
        self,
        data: Any,
        schema: Schema,
        target: bool,
        extra: tuple[str, ...] = (),
        *,
        unit: bool = False,
        dtype: str = "float32",
        sparse: Sparse = "auto",
        labels: bool = False,
    ) -> None:
        self._encoder = Encoder(schema, sparse, dtype)
        self._request = Request(schema, target, extra, unit=unit)
        self._source = source(data)
        self._labels = labels
        self._levels: LevelCodes | None = None
        self.ids: IdCodes | None = None
        if schema.unit is not None and unit:
            self.ids = IdCodes(schema.unit, schema.file.missing)

    def collect(self, levels: LevelCodes) -> None:
        """Read another column, too, and collect the levels of its cells."""
        self._levels = levels
        self._request = replace(self._request, extra=(*self._request.extra, levels.name))

    def blocks(
        self, progress: ShowShare = None, *, keep: bool = True
    ) -> Generator[EncodedBlock, None, None]:
        """Encode one block while the next is read; unless ``keep``, it replaces the one before."""
        request = self._request
        out: Space | None = None
        with closing(_ahead(records(self._source, request))) as read_ahead:
            for block in _shown(read_ahead, progress):
                with self._source.door(request, block.place):
                    made = encoded(
                        block.batch,
                        self._encoder,
                        target=request.target,
                        labels=self._labels,
                        ids=self.ids,
                        extra=request.extra,
                        out=out,
                    )
                    if self._levels is not None:
                        self._levels.append(block.batch.column(self._levels.name))
                if isinstance(made.X, np.ndarray) and not keep:
                    larger = out is None or len(made.X) > len(out.data)
                    out = Space(made.X, None, made.X.shape[1]) if larger else out
                yield made

    def joined(
        self,
        limit: int,
        folder: str | os.PathLike[str] | None = None,
        progress: ShowShare = None,
    ) -> Encoded:
        """Encode all records as one table, in memory up to ``limit`` bytes, else in a file."""
        encoder = self._encoder
        schema = encoder.schema
        table = GrowingTable(
            schema.width,
            schema.groups,
            sparse=encoder.sparse,
            dtype=encoder.dtype,
            target=encoder.target_dtype(self._labels) if self._request.target else None,
            grouped=self.ids is not None,
        )
        with closing(table):
            table.reserve(self._source.n_rows or 0, limit, folder)
            with closing(self.blocks(progress, keep=False)) as blocks:
                for block in blocks:
                    table.append(block.X, block.y, block.groups)
                    del block
            arrow().default_memory_pool().release_unused()  # memory for the fit
            X, y, groups = table.finish()
        levels = None if self._levels is None else self._levels.codes()
        check_aligned(X.shape[0], X, y, groups, levels)
        return Encoded(X, y, groups)


def gathered(data: Any, schema: Schema) -> Any:
    """Return the columns of a source that a schema reads, not encoded, as an Arrow table.

    Levels of texts that a fit finds are read from it, so it is in memory as a whole. All columns
    come from one pass: another one over a relation could have the records in another order.
    """
    pa = arrow()
    found = source(data)
    request = Request(schema, target=schema.target is not None, unit=True)
    tables = []
    with closing(records(found, request)) as blocks:
        for block in blocks:
            cells = {name: _decoded(block.batch.column(name)) for name in request.needed}
            tables.append(pa.table(cells))
    return pa.concat_tables(tables, promote_options="permissive")


def _decoded(cells: Any) -> Any:
    """Return cells that are stored as codes of texts as these texts."""
    return cells.dictionary_decode() if arrow().types.is_dictionary(cells.type) else cells


def records(
    found: Source, request: Request, *, may_be_empty: bool = False
) -> Generator[Records, None, None]:
    """Yield the records of a source block by block, behind a door."""
    with closing(found.records(request, may_be_empty=may_be_empty)) as blocks:
        while True:
            with found.door(request):
                block = next(blocks, None)
            if block is None:
                return
            yield block


def batches(
    path: Any,
    schema: Schema,
    *,
    target: bool,
    progress: ShowShare = None,
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
    found = source(path)
    request = Request(schema, target, drafting=drafting, unit=unit)
    with closing(records(found, request)) as blocks:
        for block in _shown(blocks, progress):
            with found.door(request, block.place):
                cells = {
                    name: _without_markers(block.batch.column(name), schema.missing_markers(name))
                    for name in request.needed
                }
            yield cells


def _without_markers(cells: Any, markers: list[str]) -> Any:
    """Strip the spaces around texts, and make those that mean a missing cell null."""
    pa = arrow()
    compute = pa.compute
    coded = pa.types.is_dictionary(cells.type)
    texts = cells.dictionary if coded else cells
    if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        return cells
    stripped = trimmed(texts)
    absent = compute.is_in(stripped, value_set=pa.array(markers, stripped.type), skip_nulls=True)
    if not coded:
        return compute.if_else(absent, pa.scalar(None, type=stripped.type), stripped)
    indices = cells.indices
    if compute.any(absent).as_py():
        nothing = pa.scalar(None, type=indices.type)
        indices = compute.if_else(compute.take(absent, indices), nothing, indices)
    return pa.DictionaryArray.from_arrays(indices, stripped)


def _ahead(blocks: Generator[Records, None, None]) -> Generator[Records, None, None]:
    """Read the next block in a thread of its own while the caller uses this one."""
    with closing(blocks), ThreadPoolExecutor(1) as pool:
        reading = pool.submit(next, blocks, None)
        while (block := reading.result()) is not None:
            reading = pool.submit(next, blocks, None)
            yield block


def _shown(blocks: Iterator[Records], progress: ShowShare) -> Iterator[Records]:
    """Report the share that was read, and 1 at the end."""
    share = 0.0
    for block in blocks:
        if progress is not None and block.share > share:
            share = block.share
            progress(share)
        yield block
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
    *Privacy.* Nothing is learned from the rows: `fit` reads the names of the columns and no
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
        request = Request(self.schema, target=False)
        names = found.names or tuple(self.schema.used)  # those of a text file are checked later
        with found.door(request, found.parts[0].place):
            columns_to_read(names, request)
        self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = len(names)
        return self

    def transform(self, X: Any) -> Any:
        """Encode a table, of the kinds that `fit` takes, as ``schema.width`` columns."""
        encoder = self._encoder()
        found = source(X)
        request = Request(self.schema, target=False)
        blocks = records(found, request, may_be_empty=True)
        if found.n_rows is not None:
            space = encoder.space(found.n_rows)
            done = 0
            for block in blocks:
                with found.door(request, block.place):
                    encoded(block.batch, encoder, target=False, out=space.cut(done))
                done += block.batch.num_rows
            if done != found.n_rows:
                raise ValueError("the table changed while it was read: it has other rows now.")
            return space.rows()
        form: Any = {"sparse": encoder.sparse, "dtype": encoder.dtype}
        table = GrowingTable(self.schema.width, self.schema.groups, **form)
        for block in blocks:
            with found.door(request, block.place):
                made = encoded(block.batch, encoder, target=False)
            table.append(made.X)
        rows, _, _ = table.finish()
        return rows

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
        return Encoder(check_schema(self.schema), self.sparse, self.dtype)
