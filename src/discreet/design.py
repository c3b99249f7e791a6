"""The design of a model: the columns of a table, what is declared of them, and their features.

A design stands between a table and the rows of a fit. Each column has a kind, which follows from
the type of the column and from what the caller declares; both are public, and no row is read for
it. The features of a row depend on its own cells and the design alone. A fitted model keeps its
design, so that it takes tables of the same columns, and its answers can speak of columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.errors import TableError
from discreet.tables import Boolean, Categorical, Column, Hashed, Numeric, Ordinal, Schema
from discreet.tables.encoder import family
from discreet.tables.libraries import table_part
from discreet.validate import FloatArray, display, is_number

__all__ = ["Design", "Group", "check_columns", "is_table", "number_columns"]

Key: TypeAlias = int | str
"""Number or name of a column."""

SHOWN = 10
"""Columns that a message names."""

_FORMS = (
    "columns must map names or numbers of columns to what is public about them: (low, high) or "
    '(low, high, "smooth", "linear" or "bins") for numbers, a list of levels for texts, None for '
    "numbers whose bounds are chosen privately, or a kind of discreet.tables; or list columns of "
    "numbers"
)


@dataclass(frozen=True)
class Group:
    """Features of one column: numbers ``start`` to ``stop`` of an encoded row."""

    name: str
    column: Column
    start: int
    stop: int

    @property
    def has_levels(self) -> bool:
        """True if the features are 1 for a level or bucket each, and 0 for all others."""
        return isinstance(self.column, Categorical | Hashed)


@dataclass(frozen=True, eq=False)
class Design:
    """Columns of a table with their kinds, and the features that they become.

    Parameters
    ----------
    schema : Schema
        The columns. A design has no target and no unit: they are arguments of a fit.

    Attributes
    ----------
    names : list of str
        Names of the columns, in the order of the table.
    feature_names : list of str
        Names of the features: those of numbers, or ``column=level``.
    groups : tuple of Group
        The columns that are used, with their features.
    """

    schema: Schema

    @classmethod
    def of(cls, X: Any, declared: Mapping[Key, Column]) -> Self | None:
        """Return the design of a table; None for arrays, and for plain tables of numbers.

        Only names and types of the columns are read. A table of numbers about which nothing is
        declared is used as it is, like an array.
        """
        if not is_table(X) or (not declared and _is_plain(X)):
            return None
        part = table_part(X)
        given: dict[Any, Column] = {}
        for key, column in declared.items():
            name = _name(key, part.names)
            if name in given:
                raise ValueError(f"columns names {name!r} twice, by its number and by its name.")
            given[name] = column
        types = part.fields()
        held = {name: family(types.field(name).type) for name in part.names}
        columns: dict[str, Column] = {}
        undeclared: dict[str, str] = {}
        for name in part.names:
            found = given.get(name) or _by_type(X, name, held[name], types.field(name).type)
            if found is None:
                undeclared[name] = held[name]
            else:
                columns[str(name)] = found
        if undeclared:
            raise ValueError(_advice(undeclared))
        return cls(Schema(columns))

    @property
    def names(self) -> list[str]:
        """Names of the columns, in the order of the table."""
        return list(self.schema.columns)

    @property
    def feature_names(self) -> list[str]:
        """Names of the features."""
        return self.schema.feature_names

    @property
    def groups(self) -> tuple[Group, ...]:
        """The columns that are used, with their features."""
        return tuple(self._grouped())

    def _grouped(self) -> Iterator[Group]:
        start = 0
        for name, column in self.schema.used.items():
            yield Group(name, column, start, start + column.width)
            start += column.width

    @property
    def indicators(self) -> tuple[int, ...]:
        """Features that are 0 or 1: levels, truth values and marks of missing cells."""
        found: list[int] = []
        for group in self._grouped():
            first = group.start + 1 if isinstance(group.column, Numeric | Ordinal) else group.start
            found += range(first, group.stop)
        return tuple(found)

    @property
    def units(self) -> dict[str, Callable[[Any], FloatArray]]:
        """Functions that bring numbers of encoded rows to the unit of their column, by its name."""
        columns = self.schema.used.items()
        return {name: each.decoded for name, each in columns if isinstance(each, Numeric)}

    @property
    def public(self) -> tuple[str, ...]:
        """Statement of what a fit treats as public because of the design."""
        return ("the kinds of the columns, with the bounds and levels that were declared",)

    def encode(self, X: Any) -> NDArray[Any] | sp.csr_array:
        """Return the features of a table's rows.

        Privacy
        -------
        Each row is encoded by itself. A cell that the design does not allow is a `TableError` that
        names its column and shows nothing of it.
        """
        if not is_table(X):
            raise TableError(
                f"this model was fitted to a table with names, and a {type(X).__name__} has none. "
                f"Pass a table with the columns {_listed(self.names)}."
            )
        encoded: NDArray[Any] | sp.csr_array = self.schema.transformer().transform(X)
        return encoded

    def to_dict(self) -> dict[str, Any]:
        """Return the design as plain data."""
        return self.schema.to_dict()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the design that `to_dict` was called on; anything else is a ``ValueError``."""
        schema = Schema.from_dict(data, "design")
        if schema.target is not None or schema.unit is not None:
            raise ValueError("a design has neither a target nor a unit.")
        return cls(schema)


def is_table(X: Any) -> bool:
    """Return whether X is a table whose columns have names: pandas, polars or Arrow."""
    if isinstance(X, np.ndarray) or sp.issparse(X):
        return False
    frame = hasattr(X, "columns") and hasattr(X, "dtypes")
    return frame or (hasattr(X, "column_names") and hasattr(X, "schema"))


def _is_plain(X: Any) -> bool:
    """Return whether all columns of a table are stored as numbers or truth values."""
    kinds = X.dtypes if hasattr(X, "dtypes") else ()
    return len(kinds) > 0 and all(is_number(kind) for kind in kinds)


def check_columns(columns: Any) -> dict[Key, Column]:
    """Return what is declared of each column, before any data is read."""
    if columns is None:
        return {}
    if isinstance(columns, str | bytes) or not np.iterable(columns):
        raise ValueError(f"{_FORMS}; got {display(columns)}.")
    pairs = columns.items() if isinstance(columns, Mapping) else ((key, None) for key in columns)
    found: dict[Key, Column] = {}
    count = 0
    for key, value in pairs:
        if isinstance(key, bool | np.bool_) or not isinstance(key, Integral | str):
            raise ValueError(f"{_FORMS}; got the column {display(key)}.")
        known = key if isinstance(key, str) else int(key)
        found[known] = _column(known, value)
        count += 1
    if not found or len(found) < count:
        raise ValueError(f"columns must name at least one column, each once; got {columns!r}.")
    return found


def number_columns(declared: Mapping[Key, Column]) -> dict[Key, tuple[Any, ...]] | None:
    """Return declared columns of an array, which has numbers only: bounds and shape of each."""
    others = [str(key) for key, column in declared.items() if not isinstance(column, Numeric)]
    if others:
        raise ValueError(
            f"columns declares {_listed(others)} to be something else than numbers. Arrays and "
            "plain tables hold numbers; pass a table with names to have levels."
        )
    found: dict[Key, tuple[Any, ...]] = {}
    for key, column in declared.items():
        assert isinstance(column, Numeric)
        if column.shape != "linear":
            found[key] = (column.low, column.high, column.shape)
    return found or None


def _column(key: Key, value: Any) -> Column:
    """Return the kind of a column from what a caller wrote."""
    if isinstance(value, Column):
        return value
    if value is None:
        return Numeric()
    try:
        if isinstance(value, tuple) and len(value) in (2, 3) and not isinstance(value[0], str):
            return Numeric(*value[:2], **({"shape": value[2]} if len(value) == 3 else {}))
        if isinstance(value, list | np.ndarray):
            return Categorical(_texts(value), unseen="average")
    except ValueError as problem:
        raise ValueError(f"columns[{key!r}]: {problem}") from None
    raise ValueError(f"{_FORMS}; got {display(value)} for column {key!r}.")


def _texts(levels: Iterable[Any]) -> tuple[str, ...]:
    """Return levels as texts: True is "true", 3 is "3"."""
    found = []
    for level in levels:
        plain = level.item() if isinstance(level, np.generic) else level
        if isinstance(plain, bool):
            found.append("true" if plain else "false")
        elif isinstance(plain, str | int | float):
            found.append(str(plain))
        else:
            raise ValueError(f"levels must be texts or numbers; got a {type(plain).__name__}.")
    return tuple(found)


def _name(key: Key, names: Sequence[Any]) -> Any:
    """Return the name of a declared column."""
    if isinstance(key, str) and key in names:
        return key
    if not isinstance(key, str) and 0 <= key < len(names):
        return names[key]
    raise ValueError(
        f"columns names {key!r}, which X does not have. Its columns: {_listed(names)}."
    )


def _by_type(X: Any, name: Any, held: str, kind: Any) -> Column | None:
    """Return the kind of a column that its type tells; None if it has to be declared."""
    if held == "truth values" and not hasattr(kind, "value_type"):
        return Boolean()
    levels = _declared_levels(X, name)
    if levels is not None:
        try:
            return Categorical(_texts(levels), unseen="average")
        except ValueError as problem:
            raise ValueError(f"the categories of column {str(name)!r}: {problem}") from None
    if held == "numbers" and not hasattr(kind, "value_type"):
        return Numeric(shape="linear", integer=str(kind).startswith(("int", "uint")))
    return None


def _declared_levels(X: Any, name: Any) -> list[Any] | None:
    """Return the levels that a type declares: those of pandas' category, and of polars' Enum."""
    dtype = getattr(X[name], "dtype", None)
    levels = getattr(dtype, "categories", None)
    if levels is None or str(dtype).startswith("Categorical"):
        return None
    return list(levels)


def _advice(undeclared: Mapping[Any, str]) -> str:
    """Return what to add for columns whose levels or bounds have to be declared."""
    times = [str(name) for name, held in undeclared.items() if held == "times"]
    if times:
        return (
            f"X has columns of dates or times: {_listed(times)}. Make numbers of them, such as "
            "days since a public date, or leave them out: columns={"
            f"{times[0]!r}: Ignored()}} (of discreet.tables)."
        )
    names = [str(name) for name in undeclared]
    shown = names[:SHOWN]
    lines = ", ".join(f'{name!r}: ["…", "…"]' for name in shown)
    kinds = " and ".join(dict.fromkeys(undeclared.values()))
    return (
        f"X has columns of {kinds} that are not declared: {_listed(names)}. List the levels of "
        f"each if they are public: columns={{{lines}}}. A column of many texts can be hashed, "
        f"{shown[0]!r}: Hashed(64), and one that is not to be used is Ignored() (both of "
        "discreet.tables). A pandas category column declares its levels by its type. "
        "discreet.tables.draft_private(X, epsilon, delta) finds frequent levels within a budget."
    )


def _listed(names: Sequence[Any]) -> str:
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(str(name) for name in names[:SHOWN]) + more
