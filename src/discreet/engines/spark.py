"""Rows in Spark dataframes: encoded once into cached blocks, questions run by ``mapInArrow``.

One row of the cached dataframe is one block: its number, and the block as a binary cell. A cell is
moved as a whole, which is several times as fast as columns of numbers.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from discreet.engines.blocks import Answer, Held, Marks, Part, Task, count_rows, lost
from discreet.engines.table import Opened, UnitsOfBlock, check_schema, opened
from discreet.rows.partitions import Block
from discreet.tables.alignment import IdCodes, encoded
from discreet.tables.encoder import Encoder
from discreet.tables.schema import Schema
from discreet.tables.storage import GrowingTable

ADVICE = " Workers need discreet installed for their Python, which PYSPARK_PYTHON names."


@dataclass(frozen=True, eq=False)
class SparkEngine:
    """Ask blocks in a cached Spark dataframe.

    What is derived from a block is computed anew for each question: that takes less time than
    moving the block from Spark's memory to Python.
    """

    frame: Any
    marks: Marks = field(default_factory=Marks)
    ids: dict[int, int] = field(default_factory=dict)

    def open(self) -> tuple[list[Part], int]:
        """Encode the rows, once; return the blocks, and the number of rows."""
        sizes = self.marks.open(self._ask((), count_rows))
        self.ids.update({place: id for id, place in enumerate(sorted(sizes))})
        return [Part(id, ()) for id in range(len(sizes))], sum(sizes.values())

    def map(self, task: Task, parts: Sequence[Part]) -> list[tuple[int, Any]]:
        """Run a task on each block; return (id, small result)."""
        return self.marks.accept(self._ask(parts[0].value, task))

    def derive(self, task: Task, parts: Sequence[Part]) -> list[Part]:
        """Return handles of new blocks, which are made for each question."""
        return [Part(part.id, (*part.value, task)) for part in parts]

    def release(self, parts: Sequence[Part]) -> None:
        """Free Spark's memory, if these are the blocks as they were read."""
        if parts and not parts[0].value:
            self.frame.unpersist()

    def _ask(self, chain: tuple[Task, ...], task: Task) -> Iterable[Answer]:
        work = partial(_answers, chain, task, self.ids)
        try:
            found = self.frame.mapInArrow(work, "answer binary").collect()
        except Exception as error:  # tasks raise nothing: a source, or the cluster itself
            raise lost("Spark", error, ADVICE) from None
        return [pickle.loads(row[0]) for row in found]


def open(
    frame: Any,
    schema: Schema,
    *,
    dtype: str = "float32",
    sparse: bool | Literal["auto"] = "auto",
    labels: bool = True,
    block_rows: int = 2**17,
) -> Opened:
    """Encode a Spark dataframe by a schema into blocks of rows that Spark caches.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The records, the target among the columns. Reading a part of it twice must give the same
        rows in the same order, as it does from files; otherwise a fit may be refused.
    schema : Schema
        Content of the columns, and their encoding; it names the target.
    dtype, sparse, labels
        As in `discreet.engines.dask.open`.
    block_rows : int
        Rows of a block: between this and twice this many, the last of a partition fewer.

    Returns
    -------
    X, y, groups
        As in `discreet.engines.dask.open`.

    Notes
    -----
    *Privacy.* Each record is encoded by itself, by a public rule. Executors hold the rows, in
    memory and, where that is full, on their disks: they are inside the trust boundary.
    """
    check_schema(schema)
    assert schema.target is not None  # checked
    encoder, marks = Encoder(schema, sparse, dtype), Marks()
    names = [*schema.used, schema.target.column, *(() if schema.unit is None else [schema.unit])]
    if absent := [name for name in names if name not in frame.columns]:
        raise ValueError(f"the table has no column {', '.join(map(repr, absent))}.")
    encode = partial(_blocks, encoder, marks.key, labels, block_rows)
    cached = frame.select(*(f"`{name}`" for name in names)).mapInArrow(encode, "block binary")
    engine = SparkEngine(cached.persist(), marks)
    return opened(engine, "Spark", *engine.open(), schema, dtype)


def _blocks(
    encoder: Encoder, key: bytes, labels: bool, height: int, batches: Iterable[Any]
) -> Iterator[Any]:
    """Encode the records of one of Spark's partitions, on a worker: a binary cell per block."""
    from pyspark import TaskContext

    first = TaskContext.get().partitionId() << 32
    waiting: list[Any] = []
    count = number = 0
    for batch in batches:
        for start in range(0, batch.num_rows, height):
            part = batch.slice(start, height)
            waiting.append(part)
            count += part.num_rows
            if count >= height:
                yield _cell(_block(first + number, key, encoder, labels, waiting))
                waiting, count, number = [], 0, number + 1
    if count:
        yield _cell(_block(first + number, key, encoder, labels, waiting))


def _block(id: int, key: bytes, encoder: Encoder, labels: bool, batches: list[Any]) -> Held:
    def make() -> Block:
        schema = encoder.schema
        ids = None if schema.unit is None else IdCodes(schema.unit, schema.file.missing)
        table = GrowingTable(
            schema.width,
            schema.groups,
            sparse=encoder.sparse,
            dtype=encoder.dtype,
            target=encoder.target_dtype(labels),
            grouped=ids is not None,
        )
        for batch in batches:
            made = encoded(batch, encoder, target=True, labels=labels, ids=ids)
            table.append(made.X, made.y, made.groups)
        X, y, codes = table.finish()
        units = None if ids is None else UnitsOfBlock.named(codes, ids.kind, ids.values, key)
        return Block(id, X, y, units=units)

    return Held.read(id, key, make)


def _answers(
    chain: tuple[Task, ...], task: Task, ids: dict[int, int], batches: Iterable[Any]
) -> Iterator[Any]:
    """Answer a question for each block of one of Spark's partitions, on a worker."""
    for batch in batches:
        for cell in batch.column(0):
            held = pickle.loads(cell.as_buffer())
            held = held.numbered(ids.get(held.id, -1)) if ids else held
            for step in chain:
                held = held.derived(step)
            yield _cell(held.answer(task))


def _cell(value: Any) -> Any:
    """Return a batch of Arrow with one row, which is the value as bytes."""
    import pyarrow as pa

    cell = pa.array([pickle.dumps(value, protocol=5)], type=pa.binary())
    return pa.RecordBatch.from_arrays([cell], names=["value"])
