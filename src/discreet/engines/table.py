"""The table that estimators take when rows are in blocks on workers, and its target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from discreet.engines.blocks import Part
from discreet.errors import NotSupported
from discreet.rows.partitions import Block, Engine, PartitionedRows, partitioned_rows

__all__ = ["BlockTable", "BlockTarget", "check_schema"]

Rule = Callable[[NDArray[Any]], NDArray[Any]]
"""A function that can be pickled, from the targets of some rows to others."""


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
        Number of rows, of all blocks together, and of columns: public.
    dtype
        Type of the numbers.
    header
        A table without rows that has the same columns.
    """

    engine: Engine
    place: str
    parts: tuple[Part, ...]
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    header: Any

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


def check_schema(schema: Any) -> None:
    """Refuse a schema by which rows cannot be encoded on workers, before anything is read."""
    if schema.target is None:
        raise ValueError("the schema names no target; give it one with schema.with_target(…).")
    if schema.unit is not None:
        raise NotSupported(
            f"the schema has unit = {schema.unit!r}, and rows on workers have no units. Read them "
            "with schema.open(files), which needs little memory."
        )
