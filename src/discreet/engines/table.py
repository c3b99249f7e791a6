"""The table that estimators take when rows are in blocks on workers, its target and its units.

Each privacy unit counts once, and no id leaves a worker. A worker keeps, for each block, the unit
of each row as a number and a keyed hash of each unit's id. The client gets hashes with numbers of
rows, adds up those of units that have rows in several blocks, and sends their totals back; a worker
gives each row of a unit of m rows the weight 1/m. Proof: docs/proofs/partitions.md, part 8.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from discreet.engines.blocks import Part
from discreet.errors import PrivacyError
from discreet.ids import MIXED, compared
from discreet.rows import Units
from discreet.rows.partitions import Block, Engine, PartitionedRows, partitioned_rows

Rule = Callable[[NDArray[Any]], NDArray[Any]]  # can be pickled: from targets of rows to others


@dataclass(frozen=True, eq=False)
class BlockTable:
    """A table in blocks on workers, each with its targets; made by an engine.

    Attributes
    ----------
    engine, place
        What asks the blocks, and the name of it for people.
    parts
        Handles of the blocks.
    shape
        Number of rows, of all blocks together, and of columns: public. Where rows belong to units,
        the number of units takes the place of the first.
    dtype
        Type of the numbers.
    header
        A table without rows that has the same columns.
    has_units
        True if blocks know whose row each row is.
    whole_units
        True if all rows of a unit are in one block, so that sums over a unit's rows can be squared.
    """

    whole_units: ClassVar[bool] = False

    engine: Engine
    place: str
    parts: tuple[Part, ...]
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    header: Any
    has_units: bool = False

    def by_units(self) -> Self:
        """Return the table with weights by which each unit counts once, whatever rows it has.

        *Privacy.* A unit whose rows in one block were left out, or counted by another question,
        would get weights that are too large: each block must answer, once.
        """
        ticket = secrets.token_hex(8)
        found = sorted(self.engine.map(partial(sizes_of, ticket), self.parts))
        if [id for id, _ in found] != list(range(len(self.parts))):
            raise PrivacyError("A block of rows did not answer once; nothing was released.")
        if any(sizes.ticket != ticket for _, sizes in found):
            raise PrivacyError("A block's answer is not to this question.")
        totals = Totals.of(sizes for _, sizes in found)
        made = self.made(partial(weighed, totals))
        return replace(made, shape=(totals.count, self.shape[1]))

    def rows(self, *, fit_intercept: bool = True, row_norm: float | None = None) -> PartitionedRows:
        """Return the rows, as `discreet.rows.as_rows` does for a table in memory."""
        return partitioned_rows(
            self.engine,
            self.parts,
            public_size=self.shape[0],
            fit_intercept=fit_intercept,
            row_norm=row_norm,
        )

    def with_targets(self, rule: Rule) -> Self:
        """Return the table with what a rule makes of its targets."""
        return self.made(partial(_changed, "y", rule))

    def applied(self, step: Any) -> Self:
        """Return the table that a fitted step of a preparation makes of this one."""
        return self.made(partial(_changed, "X", step.apply))

    def expanded(self, expansion: Any, width: int) -> Self:
        """Return the table of ``width`` features that an expansion makes of the columns."""
        made = self.made(partial(_changed, "X", expansion.transform))
        return replace(made, shape=(self.shape[0], width))

    def made(self, task: Callable[[Block], Block]) -> Self:
        """Return the table that a task makes of each block, row by row; it can be pickled."""
        return replace(self, parts=tuple(self.engine.derive(task, self.parts)))


def _changed(name: str, rule: Rule, block: Block) -> Block:
    """Apply a rule to the table or the targets of a block; runs on a worker."""
    changed: Any = {name: rule(getattr(block, name))}
    return block._replace(**changed)


@dataclass(frozen=True, eq=False)
class BlockTarget:
    """The target of a table in blocks; ``fit`` takes it with the table that it belongs to."""

    table: BlockTable


@dataclass(frozen=True, eq=False)
class BlockUnits:
    """Whose row each row of a table in blocks is: ``fit`` takes it as groups."""

    table: BlockTable


Opened = tuple[BlockTable, BlockTarget, BlockUnits | None]  # what ``fit`` takes: X, y and groups


def opened(
    engine: Engine, place: str, parts: Sequence[Part], n_rows: int, schema: Any, dtype: str
) -> Opened:
    """Return what ``fit`` takes of blocks that were encoded by a schema."""
    header, has_units = np.empty((0, schema.width), dtype=dtype), schema.unit is not None
    shape = (n_rows, schema.width)
    table = BlockTable(engine, place, tuple(parts), shape, header.dtype, header, has_units)
    return table, BlockTarget(table), BlockUnits(table) if has_units else None


def check_schema(schema: Any) -> None:
    """Refuse a schema by which rows cannot be encoded on workers, before anything is read."""
    if schema.target is None:
        raise ValueError("the schema names no target; give it one with schema.with_target(…).")


Hashes = NDArray[np.void]  # hashes of 16 bytes, which can be compared and sorted
_HASH = np.dtype([("first", "<u8"), ("last", "<u8")])


class UnitsOfBlock(NamedTuple):
    """Whose row each row of a block is: a number below ``len(hashes)``; and the kind of the ids."""

    codes: NDArray[np.int32]
    hashes: Hashes
    kind: str

    @classmethod
    def of(cls, ids: Any, n_rows: int, key: bytes) -> Self:
        """Return the units that ids name, one for each row."""
        found = Units.of(ids, n_rows)
        first = np.zeros(found.count, dtype=np.intp)
        first[found.codes[::-1]] = np.arange(n_rows - 1, -1, -1)
        names = [compared(value) for value in _picked(ids, first)]
        if len({name.kind for name in names}) > 1:
            raise ValueError(f"groups {MIXED}")
        kind = names[0].kind if names else ""
        return cls.named(found.codes, kind, [name.value for name in names], key)

    @classmethod
    def named(
        cls, codes: NDArray[Any], kind: Hashable, ids: Iterable[Hashable], key: bytes
    ) -> Self:
        """Return the units that have these numbers and, in their order, these compared ids."""
        made = b"".join(
            hashlib.blake2b(_bytes(kind, value), key=key, digest_size=_HASH.itemsize).digest()
            for value in ids
        )
        hashes = np.frombuffer(made, dtype=_HASH)
        return cls(codes.astype(np.int32, copy=False), hashes, str(kind))


class Sizes(NamedTuple):
    """Numbers of rows of the units of a block (private), with the ticket of the question."""

    ticket: str
    kind: str
    hashes: Hashes
    rows: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Totals:
    """Number of units (public), and the sizes of those that have rows in several blocks."""

    count: int
    hashes: Hashes
    rows: NDArray[np.int64]

    @classmethod
    def of(cls, found: Iterable[Sizes]) -> Self:
        """Add up what all blocks told, one answer each."""
        answers = list(found)
        if len({answer.kind for answer in answers}) > 1:
            raise ValueError(f"groups {MIXED}")
        hashes, places = np.unique(
            np.concatenate([answer.hashes for answer in answers]), return_inverse=True
        )
        rows = np.zeros(len(hashes), dtype=np.int64)
        np.add.at(rows, places, np.concatenate([answer.rows for answer in answers]))
        several = np.bincount(places, minlength=len(hashes)) > 1
        return cls(len(hashes), hashes[several], rows[several])


def sizes_of(ticket: str, block: Block) -> Sizes:
    """Count the rows of each unit of a block; runs on a worker."""
    codes, hashes, kind = block.units
    return Sizes(ticket, kind, hashes, np.bincount(codes, minlength=len(hashes)))


def weighed(totals: Totals, block: Block) -> Block:
    """Give each row of a unit of m rows, in all blocks, the weight 1/m; runs on a worker."""
    codes, hashes, _ = block.units
    rows = np.bincount(codes, minlength=len(hashes))
    if len(totals.hashes):
        at = np.minimum(np.searchsorted(totals.hashes, hashes), len(totals.hashes) - 1)
        rows = np.where(totals.hashes[at] == hashes, totals.rows[at], rows)
    return block._replace(weights=(1.0 / rows)[codes], units=None)


def _picked(ids: Any, at: NDArray[np.intp]) -> list[Any]:
    """Return the ids at some places as objects; times of NumPy stay what they are."""
    if isinstance(ids, list):
        return [ids[place] for place in at.tolist()]
    picked = ids.iloc[at] if hasattr(ids, "iloc") else ids[at]
    if isinstance(picked, np.ndarray) and picked.dtype.kind == "M":
        return list(picked)
    return list(picked.tolist())


def _bytes(kind: Hashable, value: Any) -> bytes:
    """Return bytes that compared ids of one kind share if they are equal."""
    if kind == "text":
        return bytes(value.encode("utf-8", "surrogatepass"))
    if kind == "number" and not isinstance(value, complex):
        whole = int(value)
        return str(whole if whole == value else repr(float(value))).encode()
    if kind == "bytes":
        return bytes(value)
    if kind in ("time", "time with a zone"):
        return str(value).encode()
    raise ValueError("ids of rows on workers must be numbers, texts or dates.")
