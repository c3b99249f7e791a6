"""Results of SQL queries as tables: DuckDB files and queries about files, and ADBC databases."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from discreet.errors import TableError

__all__ = ["query"]

_DRIVERS = {
    "postgresql": "adbc_driver_postgresql",
    "postgres": "adbc_driver_postgresql",
    "sqlite": "adbc_driver_sqlite",
    "snowflake": "adbc_driver_snowflake",
    "grpc": "adbc_driver_flightsql",
    "grpc+tls": "adbc_driver_flightsql",
}
"""Packages with an ADBC driver, by the start of an address."""


def query(sql: str, database: str | os.PathLike[str] = "") -> Any:
    """Run a query, and return its result as a stream of Arrow batches, which may be read once.

    The result takes the place of a table in `discreet.fit`, ``Schema.open`` and others. What is
    read more than once, as by `draft_private`, needs ``query(…).read_all()``.

    Parameters
    ----------
    sql : str
        A query that yields one row per row of the table. Its form is public.
    database : path or address
        A DuckDB file, which is opened for reading only; an address such as ``postgresql://…``, for
        which the package of its ADBC driver is needed; or "": a query about files, which DuckDB
        reads, such as ``SELECT * FROM 'visits/*.parquet'``.

    Notes
    -----
    *Privacy.* Whatever the query does to rows happens before the fit, and no budget covers it. A
    choice of columns, a condition on public values and a join that keeps each row apart are
    harmless; a query that aggregates rows or ranks them is a release of its own.

    Examples
    --------
    >>> from discreet.tables import query
    >>> query("SELECT 3 AS age, 'A' AS ward").read_all().to_pylist()
    [{'age': 3, 'ward': 'A'}]
    """
    place = os.fspath(database)
    scheme = place.partition(":")[0] if "://" in place or place.startswith("sqlite:") else ""
    name = _DRIVERS.get(scheme, "") if scheme else "duckdb"
    if not name:
        known = ", ".join(sorted(_DRIVERS))
        raise TableError(f"no driver for addresses of {scheme!r} is known; known: {known}.")
    try:
        driver = import_module(f"{name}.dbapi" if scheme else name)
    except ImportError:
        package = name.replace("_", "-")
        raise TableError(
            f"this query needs the package {package}: pip install {package}."
        ) from None
    try:
        if scheme:
            cursor = driver.connect(place).cursor()
            cursor.execute(sql)
            return cursor.fetch_record_batch()
        opened = driver.connect(place, read_only=True) if place else driver.connect()
        relation = opened.sql(sql)
        read = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
        return read()
    except Exception as problem:  # its text may quote cells, or the password of an address
        raise TableError(
            f"the query could not be run ({type(problem).__name__}). Try it in the database's own "
            "shell, which shows the reason: it may quote cells, and is not shown here."
        ) from None
