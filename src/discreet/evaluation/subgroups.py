"""Subgroups of rows by a column of public levels, from arrays and columns of DataFrames.

Messages name the column and what to pass; none shows a cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.estimators.scoring import Subgroups
from discreet.tables import Boolean, Categorical, LevelCodes, Ordinal, Schema
from discreet.tables.libraries import as_arrow

UNNAMED = "subgroup"
"""Name of subgroups that are given as an array."""

_UNLISTED = (
    "by: a row has a {name} that is not one of the levels, or has none. List every value that can "
    "occur, with None for a missing one, or leave those rows out."
)


def split(by: Any) -> tuple[Any, tuple[Any, ...] | None]:
    """Return what subgroups are made of, and their levels if they are listed.

    A pair ``(column, levels)`` lists them; levels may be the keys of a mapping.
    """
    if not isinstance(by, tuple):
        return by, None
    listed: Any = by[1] if len(by) == 2 else None
    if isinstance(listed, str | bytes) or not isinstance(listed, Iterable):
        raise ValueError(
            'by as a tuple must be a column and the list of its levels, such as ("sex", '
            '["F", "M"]); pass one value per row as an array.'
        )
    return by[0], tuple(listed)


def of_rows(by: Any, X: Any, schema: Schema | None = None) -> tuple[Subgroups, str | None]:
    """Return the subgroups of rows in memory, and the column of X that they were taken from.

    If neither the caller nor the type of the column lists the levels, the schema does.
    """
    column, levels = split(by)
    if not isinstance(column, str):
        name = getattr(column, "name", None)
        return of_values(column, str(name or UNNAMED), levels), None
    if not hasattr(X, "columns") or column not in list(X.columns):
        raise ValueError(
            f"by={column!r} names a column of X, and X is no DataFrame with this column. Pass the "
            'values instead, one per row, with their levels: by=(values, ["F", "M"]).'
        )
    values = X[column]
    listed = () if schema is None else schema.columns
    if levels is None and schema is not None and column in listed and _declared(values) is None:
        found = of_table(column, schema)
        assert isinstance(found, LevelCodes)  # of a name
        found.append(as_arrow(values, column))
        return Subgroups(column, found.levels, found.codes()), column
    return of_values(values, column, levels), column


def of_values(values: Any, name: str, levels: tuple[Any, ...] | None) -> Subgroups:
    """Return subgroups by values, one per row, of listed levels or of a type that declares them."""
    if levels is not None:
        return Subgroups(name, levels, _listed_codes(values, name, levels))
    found = _declared(values)
    if found is None:
        raise ValueError(
            f"the levels of {name} must be public, and a list of those that occur would be about "
            f'the rows. Pass by=("{name}", [every level]), or make it a pandas category, a polars '
            "Enum or booleans."
        )
    levels, codes = found
    if codes.size and codes.min() < 0:
        raise ValueError(_UNLISTED.format(name=name))
    return Subgroups(name, levels, codes)


def of_table(by: Any, schema: Schema) -> LevelCodes | Subgroups:
    """Return a collector of a table's column, or subgroups by values that are given."""
    column, levels = split(by)
    if not isinstance(column, str):
        name = getattr(column, "name", None)
        return of_values(column, str(name or UNNAMED), levels)
    declared = schema.columns.get(column)
    if levels is not None:
        texts = tuple(str(level) for level in levels if level is not None)
        declared = Categorical(texts, unseen="refuse", missing=len(texts) < len(levels))
    if not isinstance(declared, Boolean | Categorical | Ordinal):
        raise ValueError(
            f"the schema has no list of values of {column!r}, and the levels of subgroups must be "
            f'public. Pass by=("{column}", [every level]).'
        )
    return LevelCodes(column, declared, schema.file.missing)


def _listed_codes(values: Any, name: str, levels: tuple[Any, ...]) -> NDArray[np.intp]:
    """Return the index of each value among the levels."""
    index = {_plain(level): code for code, level in enumerate(levels)}
    cells = values.tolist() if hasattr(values, "tolist") else list(values)
    try:
        codes = np.array([index.get(_plain(cell), -1) for cell in cells], dtype=np.intp)
    except TypeError:
        raise ValueError(f"by: the values of {name} must be texts, numbers or booleans.") from None
    if codes.size and codes.min() < 0:
        raise ValueError(_UNLISTED.format(name=name))
    return codes


def _plain(cell: Any) -> Any:
    """Return a cell that can be compared; None for a missing one."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return None
    return None if isinstance(cell, float) and cell != cell else cell


def _declared(values: Any) -> tuple[tuple[Any, ...], NDArray[np.intp]] | None:
    """Return the levels that the type of values declares, and codes; -1 for a missing value."""
    kind = getattr(values, "dtype", None)
    categories = getattr(kind, "categories", None)
    if categories is not None and type(kind).__name__ in ("CategoricalDtype", "Enum"):
        if hasattr(values, "to_physical"):  # polars
            codes = values.to_physical().cast(int).fill_null(-1).to_numpy()
            return tuple(categories.to_list()), codes.astype(np.intp)
        codes = getattr(values, "cat", values).codes
        return tuple(categories.tolist()), np.asarray(codes, dtype=np.intp)
    if str(kind).lower() not in ("bool", "boolean"):
        return None
    cells = values.tolist() if hasattr(values, "tolist") else values.to_list()
    codes_of: Mapping[Any, int] = {False: 0, True: 1}
    return (False, True), np.array([codes_of.get(_plain(cell), -1) for cell in cells], np.intp)
