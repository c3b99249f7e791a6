"""Rows in Dask arrays and dataframes: blocks stay on the workers, one small task per question.

Blocks are persisted by the active `distributed` client, or by the threads of this process if there
is none. A block that a cluster lost is computed again from its source; its mark then shows whether
it has the same rows (`discreet.engines.blocks`).

One task makes a block of its X, y and groups, which must belong to the same rows. If all three come
from the same tasks that read (columns of one dataframe, say), these tasks run once, in one graph.
Otherwise the order of the rows must be fixed, and blocks are read twice to see that it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice, repeat
from typing import Any, Literal

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp
from dask.core import flatten, istask
from dask.delayed import Delayed, delayed
from dask.optimization import cull
from distributed import get_client
from numpy.typing import NDArray

from discreet.engines.blocks import Answer, Held, Marks, Part, Task, count_rows, lost
from discreet.engines.table import BlockTable, Opened, UnitsOfBlock, check_schema, opened
from discreet.rows.partitions import Block
from discreet.tables.reader import BlockReader
from discreet.tables.schema import Schema
from discreet.tables.source import source
from discreet.tables.storage import memory_limit


@dataclass(frozen=True, eq=False)
class DaskEngine:
    """Ask blocks on the workers of a `distributed` client, or in this process if it is None.

    A block is a future, or a `Delayed` that was computed. The tasks of a question go to the
    scheduler in one message; each depends on one block, so it runs on the worker that has it.
    """

    client: Any
    marks: Marks = field(default_factory=Marks)

    def open(
        self, blocks: Sequence[Delayed], again: Sequence[Delayed] = ()
    ) -> tuple[list[Part], int]:
        """Read the blocks; return those that have rows, and the number of rows.

        ``again`` are other tasks that read the same blocks. They run when the first are done, and
        what they read is not kept: it must be the same rows in the same order.
        """
        kept = self._computed(blocks) if self.client is None else self.client.compute(list(blocks))
        first = list(self._ask(count_rows, kept))
        sizes = self.marks.open(first, self._answers(again))
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
        return self._gathered(self._each(Held.answer, blocks, repeat(task)))

    def _answers(self, blocks: Sequence[Delayed]) -> list[Answer]:
        """Make blocks, of which nothing but their marks and numbers of rows is kept."""
        call = delayed(Held.answer, pure=False, traverse=False)
        answers = [call(block, count_rows) for block in blocks]
        return self._gathered(answers if self.client is None else self.client.compute(answers))

    def _gathered(self, answers: Sequence[Any]) -> list[Answer]:
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
        own = list(islice(arguments, len(blocks)))
        if self.client is None:
            call = delayed(method, pure=False, traverse=False)
            return self._computed([call(*pair) for pair in zip(blocks, own, strict=True)])
        return list(self.client.map(method, blocks, own, pure=False))

    @staticmethod
    def _computed(blocks: Sequence[Delayed]) -> list[Delayed]:
        try:
            return list(dask.persist(*blocks, scheduler="threads"))
        except Exception as error:
            raise lost("Dask", error) from None


def header_of(X: Any) -> Any:
    """Return a table without rows that has the columns of a Dask array or frame."""
    return X._meta if is_frame(X) else np.empty((0, *X.shape[1:]), dtype=X.dtype)


def open_table(X: Any, y: Any, groups: Any = None) -> BlockTable:
    """Return the table of a Dask array or dataframe, its targets and units, read into blocks.

    Blocks are those of X; where narrow columns are read, Dask may make one of several. Sizes that
    Dask does not know are asked for, once: the number of rows is public, and how they are divided
    into blocks stays on the client.

    *Privacy.* Each block has X, y and groups of the same rows, if these come from the same tasks
    that read, or if reading gives a fixed order; otherwise, as a second reading shows, no block is
    used (docs/proofs/partitions.md, part 3).
    """
    header = header_of(X)
    types = header.dtypes if hasattr(header, "dtypes") else [header.dtype]
    single = all(dtype == np.float32 for dtype in types)
    engine, read = DaskEngine(_client()), delayed(_read, pure=False)
    about = (header.shape[1], "float32" if single else "float64")
    whole = whole_of(X)
    beside = {"y": y} if groups is None else {"y": y, "groups": groups}
    tables = [whole, *(_beside(name, whole, given) for name, given in beside.items())]
    together = _read_together(tables)
    pieces = list(zip(*map(_parts, tables), strict=True)) if together is None else together

    def blocks() -> list[Delayed]:
        return [read(id, engine.marks.key, of, *about) for id, of in enumerate(pieces)]

    one_reading = together is not None or len(set(map(_readers, tables))) == 1
    parts, size = engine.open(blocks(), () if one_reading else blocks())
    shape, dtype = (size, header.shape[1]), np.dtype(about[1])
    return BlockTable(engine, "Dask", tuple(parts), shape, dtype, header, groups is not None)


def open(
    data: Any,
    schema: Schema,
    *,
    dtype: str = "float32",
    sparse: bool | Literal["auto"] = "auto",
    labels: bool = True,
) -> Opened:
    """Encode files or a Dask dataframe by a schema into blocks on the workers.

    Parameters
    ----------
    data : path, list of paths, or Dask dataframe
        Files as in ``schema.open``: a worker reads each into one block, so all workers must see
        them under the same path. Or a dataframe, one block for each of its partitions.
    schema, dtype, sparse
        As in `discreet.tables.read`; the schema names the target.
    labels : bool
        Make y of labels, as ``schema.open`` does; if False, of indices in ``schema.target.labels``,
        which need less memory.

    Returns
    -------
    X, y, groups
        What the ``fit`` of every estimator takes. y has the target's labels or numbers; groups is
        None if the schema has no unit.
    """
    check_schema(schema)
    parts = data.to_delayed() if is_frame(data) else [file.path for file in source(data).files]
    if not parts:
        raise TypeError("data must be files that workers can read, or a Dask dataframe.")
    engine, encode = DaskEngine(_client()), delayed(_encode, pure=False)
    form = {"dtype": dtype, "sparse": sparse, "labels": labels}
    rest = (delayed(schema, pure=False, traverse=False), form)
    blocks = [encode(id, engine.marks.key, part, *rest) for id, part in enumerate(parts)]
    return opened(engine, "Dask", *engine.open(blocks), schema, dtype)


def _encode(id: int, key: bytes, part: Any, schema: Schema, form: dict[str, Any]) -> Held:
    """Make a block of a file or of a part of a dataframe, on a worker."""

    def make() -> Block:
        blocks = BlockReader(part, schema, True, unit=True, **form)
        X, y, codes = blocks.joined(memory_limit(None))
        ids = blocks.ids
        if ids is None or codes is None:
            return Block(id, X, y)
        return Block(id, X, y, units=UnitsOfBlock.named(codes, ids.kind, ids.values, key))

    return Held.read(id, key, make)


def _read(id: int, key: bytes, pieces: tuple[Any, ...], width: int, dtype: str) -> Held:
    """Make a block of a part of X, y and, if there are any, groups, on a worker."""

    def make() -> Block:
        X, y, *ids = pieces
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
        units = UnitsOfBlock.of(ids[0], len(target), key) if ids else None
        return Block(id, table.astype(dtype, copy=False), target, units=units)

    return Held.read(id, key, make)


def _client() -> Any:
    try:
        return get_client()
    except ValueError:
        return None


def is_frame(X: Any) -> bool:
    """Return whether X is a dataframe or a series: its parts have sizes that nobody knows."""
    return hasattr(X, "to_delayed") and hasattr(X, "npartitions") and not hasattr(X, "numblocks")


def whole_of(X: Any) -> Any:
    """Return an array or frame with all of its columns in each block."""
    if is_frame(X) or X.ndim == 1 or X.numblocks[1] == 1:
        return X
    return X.rechunk({1: -1})


def _parts(X: Any) -> list[Delayed]:
    """Return the blocks of an array or frame.

    Tasks keep their names, which Dask's optimiser would change: so the blocks of several columns of
    one table, in one graph, share the task that reads it.
    """
    return list(np.ravel(X.to_delayed(optimize_graph=False)))


def _readers(X: Any) -> frozenset[Any]:
    """Return the names of the tasks that a table begins with; data in the graph are not tasks."""
    graph, needs = cull(dict(X.__dask_graph__()), list(flatten(X.__dask_keys__())))
    return frozenset(key for key, found in needs.items() if not found and istask(graph[key]))


def _read_together(tables: Sequence[Any]) -> list[Delayed] | None:
    """Return one task for each block, with the tuple of its pieces, or None.

    This is for frames of one reading, which Dask may then optimise as a whole: it reads the columns
    that are needed, and makes one task of all steps of a block.
    """
    if not all(is_frame(table) and hasattr(table, "expr") for table in tables):
        return None
    if len(set(map(_readers, tables))) > 1:
        return None
    first, *others = tables
    form = {"meta": ("block", object), "enforce_metadata": False, "align_dataframes": False}
    joined = first.map_partitions(_pieces, *others, **form)
    optimised = joined.optimize(fuse=False).expr.dependencies()
    if len(optimised) != len(tables) or len(set(map(_readers, optimised))) > 1:
        return None
    return list(joined.to_delayed())


def _pieces(*pieces: Any) -> tuple[Any, ...]:
    return pieces


def _beside(name: str, X: Any, y: Any) -> Any:
    """Return targets or groups, divided as X is."""
    if not is_frame(X) and not np.isnan(X.shape[0]) and not is_frame(y):
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
    y = whole_of(y)
    if _count(y) != _count(X):
        raise ValueError(
            f"X and {name} must be divided into the same blocks; got {_count(X)} and {_count(y)}. "
            f"Take both from one dataframe, or rechunk {name} as X."
        )
    return y


def _count(X: Any) -> int:
    return int(X.npartitions)
