"""Engines: where rows live that are not in this process's memory, one small file each.

An engine holds blocks of rows on workers and runs a small task on each (``blocks.py`` has the rule
that every block counts exactly once). Inputs are recognised by the name of their type, so neither
Dask nor Spark is imported before it is used.
"""

from __future__ import annotations

from typing import Any

from discreet.engines.table import BlockTable, BlockTarget

__all__ = ["BlockTable", "BlockTarget", "header_of", "is_lazy", "open_table", "predicted"]


def is_lazy(X: Any) -> bool:
    """Return whether X is a table whose rows are elsewhere: in blocks, or to be read into them."""
    return isinstance(X, BlockTable) or _library(X) in ("dask", "pyspark")


def header_of(X: Any) -> Any:
    """Return a table without rows that has the columns of a lazy one; nothing is read."""
    if isinstance(X, BlockTable):
        return X.header
    if _library(X) == "pyspark":
        raise TypeError(
            "A Spark dataframe is read with a schema: X, y = discreet.engines.spark.open(frame, "
            "schema), then fit(X, y)."
        )
    from discreet.engines import dask

    return dask.header_of(X)


def open_table(X: Any, y: Any) -> BlockTable:
    """Read a lazy table with its targets into blocks on workers."""
    if isinstance(X, BlockTable):
        if not isinstance(y, BlockTarget) or y.table is not X:
            raise TypeError("y must be the target that was opened together with X.")
        return X
    from discreet.engines import dask

    return dask.open_table(X, y)


def predicted(X: Any, method: Any) -> Any:
    """Return what ``method`` predicts for the rows of a lazy table, as a lazy array."""
    if isinstance(X, BlockTable) or _library(X) == "pyspark":
        raise TypeError(
            "Predictions for a Spark dataframe are made where its rows are: encode batches with "
            "schema.transformer() and call the model in frame.mapInArrow(…)."
        )
    from discreet.engines import dask

    return dask.predicted(X, method)


def _library(X: Any) -> str:
    return type(X).__module__.partition(".")[0].replace("dask_expr", "dask")
