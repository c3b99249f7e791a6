"""Engines: where rows live that are not in this process's memory, one small file each.

An engine holds blocks of rows on workers and runs a small task on each (``blocks.py`` has the rule
that every block counts exactly once). Inputs are recognised by the name of their type, so neither
Dask nor Spark is imported before it is used.
"""

from __future__ import annotations

from typing import Any

from discreet.engines.predictions import library, predicted, refuse_sites
from discreet.engines.table import BlockTable, BlockTarget, BlockUnits

__all__ = [
    "BlockTable", "BlockTarget", "BlockUnits", "header_of", "is_lazy", "open_table",
    "predicted",
    "refuse_sites",
]  # fmt: skip


def is_lazy(X: Any) -> bool:
    """Return whether X is a table whose rows are elsewhere: in blocks, or to be read into them."""
    return isinstance(X, BlockTable) or library(X) in ("dask", "pyspark")


def header_of(X: Any) -> Any:
    """Return a table without rows that has the columns of a lazy one; nothing is read."""
    if isinstance(X, BlockTable):
        return X.header
    if library(X) == "pyspark":
        raise TypeError(
            "A Spark dataframe is read with a schema: X, y, groups = "
            "discreet.engines.spark.open(frame, schema), then fit(X, y, groups)."
        )
    from discreet.engines import dask

    return dask.header_of(X)


def open_table(X: Any, y: Any, groups: Any = None) -> BlockTable:
    """Read a lazy table with its targets into blocks on workers; with groups, units count once."""
    if isinstance(X, BlockTable):
        if not isinstance(y, BlockTarget) or y.table is not X:
            raise TypeError("y must be the target that was opened together with X.")
        opened = isinstance(groups, BlockUnits) and groups.table is X
        if X.has_units != opened or (groups is not None and not opened):
            raise TypeError(
                "groups must be the third that was opened together with X and y; it is None if the "
                "schema has no unit."
            )
        return X if groups is None else X.by_units()
    from discreet.engines import dask

    table = dask.open_table(X, y, groups)
    return table if groups is None else table.by_units()
