"""Rows in Dask arrays and dataframes: blocks stay on the workers, one small task per question.

Blocks are persisted by the active `distributed` client, or by the threads of this process if there
is none. A block that a cluster lost is computed again from its source; its mark then shows whether
it has the same rows (`discreet.engines.blocks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Literal

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp
from dask.delayed import Delayed, delayed
from distributed import get_client
from numpy.typing import NDArray

from discreet.engines.blocks import Answer, Held, Marks, Part, Task, count_rows, lost
from discreet.engines.table import BlockTable, Opened, UnitsOfBlock, check_schema, opened
from discreet.rows.partitions import Block
from discreet.tables.reading import IdCodes, read
from discreet.tables.schema import Schema
from discreet.tables.sources import source


@dataclass(frozen=True, eq=False)
class DaskEngine:
    """Ask blocks on the workers of a `distributed` client, or in this process if it is None.

    A block is a future, or a `Delayed` that was computed. A task goes to each block by itself, so
    that the only thing a scheduler looks for is the worker that has the block.
    """

    client: Any
    marks: Marks = field(default_factory=Marks)

    def open(self, blocks: Sequence[Delayed]) -> tuple[list[Part], int]:
        """Read the blocks once; return those that have rows, and the number of rows."""
        kept = self._computed(blocks) if self.client is None else self.client.compute(list(blocks))
        sizes = self.marks.open(self._ask(count_rows, kept))
        filled = [kept[id] for id, size in sorted(sizes.items()) if size]
        if len(filled) < len(kept):
            filled = self._each(Held.numbered, filled, range(len(filled)))
        return [Part(*each) for each in enumerate(filled)], sum(sizes.values())

    def map(self, task: Task, parts: Sequence[Part]) -> list[tuple[int, Any]]:
        """Run a task on each block; return (id, small result)."""
        return self.marks.accept(self._ask(task, [part.value for part in parts]))

    def derive(self, task: Task, parts: Sequence[Part]) -> list[Part]:
        """Make new blocks, which stay on the workers; problems show in the next answer."""
        kept = self._each(Held.derived, [part.value for part in parts], repeat(task))
        return [Part(part.id, value) for part, value in zip(parts, kept, strict=True)]

    def release(self, parts: Sequence[Part]) -> None:
        """Do nothing: a cluster forgets blocks when the last handle of them is gone."""

    def _ask(self, task: Task, blocks: Sequence[Any]) -> Iterable[Answer]:
        answers = self._each(Held.answer, blocks, repeat(task))
        try:
            if self.client is None:
                return list(dask.compute(*answers, scheduler="threads"))
            return list(self.client.gather(answers))
        except Exception as error:  # tasks raise nothing: a source, or the cluster itself
            raise lost("Dask", error) from None

    def _each(
        self, method: Callable[..., Any], blocks: Sequence[Any], arguments: Iterable[Any]
    ) -> list[Any]:
        """Call a method of each block with an argument, where the block is."""
        pairs = zip(blocks, arguments, strict=False)
        if self.client is None:
            call = delayed(method, pure=False, traverse=False)
            return self._computed([call(*pair) for pair in pairs])
        return [self.client.submit(method, *pair, pure=False) for pair in pairs]

    @staticmethod
    def _computed(blocks: Sequence[Delayed]) -> list[Delayed]:
        try:
            return list(dask.persist(*blocks, scheduler="threads"))
        except Exception as error:
            raise lost("Dask", error) from None


def header_of(X: Any) -> Any:
    """Return a table without rows that has the columns of a Dask array or frame."""
    return X._meta if _is_frame(X) else np.empty((0, *X.shape[1:]), dtype=X.dtype)


def open_table(X: Any, y: Any, groups: Any = None) -> BlockTable:
    """Return the table of a Dask array or dataframe, its targets and units, read into blocks.

    Blocks are those of X. Sizes that Dask does not know are asked for, once: the number of rows is
    public, and how they are divided into blocks stays on the client.
    """
    header = header_of(X)
    types = header.dtypes if hasattr(header, "dtypes") else [header.dtype]
    single = all(dtype == np.float32 for dtype in types)
    engine, read = DaskEngine(_client()), delayed(_read, pure=False)
    about = (header.shape[1], "float32" if single else "float64")
    tables = _parts(X)
    targets = _beside("y", X, y, len(tables))
    ids = repeat(None) if groups is None else _beside("groups", X, groups, len(tables))
    each = zip(tables, targets, ids, strict=False)
    blocks = [read(id, engine.marks.key, *of, *about) for id, of in enumerate(each)]
    parts, size = engine.open(blocks)
    shape, dtype = (size, header.shape[1]), np.dtype(about[1])
    return BlockTable(engine, "Dask", tuple(parts), shape, dtype, header, groups is not None)


def open(
    data: Any, schema: Schema, *, dtype: str = "float32", sparse: bool | Literal["auto"] = "auto"
) -> Opened:
    """Encode files or a Dask dataframe by a schema into blocks on the workers.

    Parameters
    ----------
    data : path, list of paths, or Dask dataframe
        Files as in ``schema.open``: a worker reads each into one block, so all workers must see
        them under the same path. Or a dataframe, one block for each of its partitions.
    schema, dtype, sparse
        As in `discreet.tables.read`; the schema names the target.

    Returns
    -------
    X, y, groups
        What the ``fit`` of every estimator takes. y has indices in ``schema.target.labels``, or the
        numbers of a numeric target; groups is None if the schema has no unit.
    """
    check_schema(schema)
    parts = _parts(data) if _is_frame(data) else [file.path for file in source(data).files]
    if not parts:
        raise TypeError("data must be files that workers can read, or a Dask dataframe.")
    engine, encode = DaskEngine(_client()), delayed(_encode, pure=False)
    rest = (delayed(schema, pure=False, traverse=False), dtype, sparse)
    blocks = [encode(id, engine.marks.key, part, *rest) for id, part in enumerate(parts)]
    return opened(engine, "Dask", *engine.open(blocks), schema, dtype)


def _encode(id: int, key: bytes, part: Any, schema: Schema, dtype: str, sparse: Any) -> Held:
    """Make a block of a file or of a part of a dataframe, on a worker."""

    def make() -> Block:
        ids = None if schema.unit is None else IdCodes(schema.unit, schema.file.missing)
        X, y, codes = read(part, schema, dtype=dtype, sparse=sparse, ids=ids)
        if ids is None or codes is None:
            return Block(id, X, y)
        return Block(id, X, y, units=UnitsOfBlock.named(codes, ids.values, key))

    return Held.read(id, key, make)


def _read(id: int, key: bytes, X: Any, y: Any, ids: Any, width: int, dtype: str) -> Held:
    """Make a block of a part of X, y and groups, on a worker."""

    def make() -> Block:
        table: Any = X if sp.issparse(X) else np.asarray(X)
        if table.ndim != 2 or table.shape[1] != width:
            raise ValueError(f"A block of X has not the {width} columns that X declares.")
        target: NDArray[Any] = np.asarray(y)
        if target.ndim == 2 and target.shape[1] == 1:
            target = target[:, 0]
        if target.shape != table.shape[:1]:
            raise ValueError(
                "X and y must have the same rows, block by block; a block of y has another number "
                "of rows than that of X. Take both from one dataframe, or rechunk y as X."
            )
        units = None if ids is None else UnitsOfBlock.of(ids, len(target), key)
        return Block(id, table.astype(dtype, copy=False), target, units=units)

    return Held.read(id, key, make)


def _client() -> Any:
    try:
        return get_client()
    except ValueError:
        return None


def _is_frame(X: Any) -> bool:
    """Return whether X is a dataframe or a series: its parts have sizes that nobody knows."""
    return hasattr(X, "to_delayed") and hasattr(X, "npartitions") and not hasattr(X, "numblocks")


def _parts(X: Any) -> list[Delayed]:
    """Return the parts of an array or frame, all of its columns in each."""
    if _is_frame(X):
        return list(X.to_delayed())
    whole = X if X.ndim == 1 or X.numblocks[1] == 1 else X.rechunk({1: -1})
    return list(whole.to_delayed().ravel())


def _beside(name: str, X: Any, y: Any, count: int) -> list[Delayed]:
    """Return the parts of targets or groups by the blocks of X."""
    if not _is_frame(X) and not np.isnan(X.shape[0]) and not _is_frame(y):
        y = y if hasattr(y, "numblocks") else da.from_array(np.asarray(y), chunks=-1)
        if not np.isnan(y.shape[0]):
            if y.shape[0] != X.shape[0]:
                sizes = f"X has {X.shape[0]} and {name} {y.shape[0]}"
                raise ValueError(f"X and {name} must have the same rows; {sizes}.")
            y = y.rechunk({0: X.chunks[0]})
    if not hasattr(y, "to_delayed"):
        raise TypeError(
            f"{name} must be a Dask array or series like X, divided in the same way; got "
            f"{type(y).__name__}. Take both from one dataframe."
        )
    parts = _parts(y)
    if len(parts) != count:
        raise ValueError(
            f"X and {name} must be divided into the same blocks; got {count} and {len(parts)}. "
            f"Take both from one dataframe, or rechunk {name} as X."
        )
    return parts


def predicted(X: Any, method: Any) -> Any:
    """Return what ``method`` predicts for an array or frame: a Dask array, computed by need."""
    parts, frame = _parts(X), _is_frame(X)
    sizes = (np.nan,) * len(parts) if frame else X.chunks[0]
    like = method(X._meta_nonempty if frame else np.zeros((1, X.shape[1])))[:0]
    run = delayed(_predict, pure=False)
    model = delayed(method, pure=False, traverse=False)
    return da.concatenate(
        [
            da.from_delayed(run(model, part, like), (size, *like.shape[1:]), dtype=like.dtype)
            for part, size in zip(parts, sizes, strict=True)
        ]
    )


def _predict(method: Any, part: Any, empty: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(method(part)) if len(part) else empty
