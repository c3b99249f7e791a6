"""The table that estimators take when rows are in blocks on workers, and its target."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from discreet.engines.blocks import Part
from discreet.engines.units import Totals, sizes_of, weighed
from discreet.errors import PrivacyError
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
    """

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
        made = self._derived(partial(weighed, totals))
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
        return self._derived(partial(_new_targets, rule))

    def applied(self, step: Any) -> Self:
        """Return the table that a fitted step of a preparation makes of this one."""
        return self._derived(partial(_new_table, step))

    def expanded(self, expansion: Any, width: int) -> Self:
        """Return the table of ``width`` features that an expansion makes of the columns."""
        made = self._derived(partial(_new_features, expansion))
        return replace(made, shape=(self.shape[0], width))

    def _derived(self, task: Callable[[Block], Block]) -> Self:
        return replace(self, parts=tuple(self.engine.derive(task, self.parts)))


def _new_targets(rule: Rule, block: Block) -> Block:
    return block._replace(y=rule(block.y))


def _new_table(step: Any, block: Block) -> Block:
    return block._replace(X=step.apply(block.X))


def _new_features(expansion: Any, block: Block) -> Block:
    return block._replace(X=expansion.transform(block.X))


@dataclass(frozen=True, eq=False)
class BlockTarget:
    """The target of a table in blocks; ``fit`` takes it with the table that it belongs to."""

    table: BlockTable


@dataclass(frozen=True, eq=False)
class BlockUnits:
    """Whose row each row of a table in blocks is: ``fit`` takes it as groups."""

    table: BlockTable


def opened(table: BlockTable) -> tuple[BlockTable, BlockTarget, BlockUnits | None]:
    """Return what ``fit`` takes: X, y and groups."""
    return table, BlockTarget(table), BlockUnits(table) if table.has_units else None


def check_schema(schema: Any) -> None:
    """Refuse a schema by which rows cannot be encoded on workers, before anything is read."""
    if schema.target is None:
        raise ValueError("the schema names no target; give it one with schema.with_target(…).")
