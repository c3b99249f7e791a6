"""Kinds of columns: what the type of a column tells, and what a caller declares of it.

Both are public, and no row is read for them. What neither tells is refused, with a message that
says what to add.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self, TypeAlias

import numpy as np
import scipy.sparse as sp

from discreet.tables import Boolean, Categorical, Column, Date, Discovered, Numeric
from discreet.tables.dates import is_date
from discreet.tables.encoder import family
from discreet.validate import display, is_number

__all__ = [
    "SHOWN",
    "ColumnType",
    "Key",
    "by_name",
    "check_columns",
    "columns_of",
    "discover",
    "has_names",
    "is_table",
    "level_texts",
    "listed",
    "number_columns",
    "with_texts",
]

Key: TypeAlias = int | str
"""Number or name of a column."""

SHOWN = 10
"""Columns that a message names."""

_FORMS = (
    "columns must map names or numbers of columns to what is public about them: (low, high) or "
    '(low, high, "smooth", "linear" or "bins") for numbers, a list of levels for texts, None for '
    "numbers whose bounds are chosen privately, discover() for texts whose levels are found within "
    "the budget, or a kind of discreet.tables; or list columns of numbers"
)


def discover(share: float = 0.05, prefix: int | None = None, most: int | None = None) -> Discovered:
    """Declare that a fit finds the levels of a column within its own budget.

    A level is found if enough rows hold it, or enough people where people are protected. Others are
    scored as the average over the levels, as texts are that the fit never saw.

    Parameters
    ----------
    share : float
        Share of the fit's μ² and of its δ that is spent on the levels of this column.
    prefix : int, optional
        Number of letters of a cell that are compared: with 3, "250.83" is read as "250".
    most : int, optional
        Number of levels to keep: those with the largest noisy counts. By default all are kept.

    Returns
    -------
    Discovered
        A value for ``columns`` of an estimator.

    Examples
    --------
    >>> from discreet import LogisticRegression, discover
    >>> columns = {"diag_1": discover(share=0.05, prefix=3)}
    >>> model = LogisticRegression(epsilon=1.0, delta=1e-6, columns=columns)

    Notes
    -----
    *Privacy.* The texts of a column get Gaussian noise on their counts, and those above a threshold
    are released. This is charged to the account of the fit before a cell is read; what is left of
    the budget is for everything else, which is chosen once the levels are known. One row of each
    person is read, drawn at random. docs/tables.md has the numbers, docs/proofs/histogram.md the
    proof.
    """
    return Discovered(share, prefix, most)


@dataclass(frozen=True)
class ColumnType:
    """Type of a column: its Arrow type, and the levels that it declares, if any.

    ``kind`` is None for the columns of a text file.
    """

    name: Any
    kind: Any
    levels: tuple[Any, ...] | None = None

    @classmethod
    def of(cls, data: Any, name: Any, kind: Any) -> Self:
        """Return the type of a column of ``data``, whose Arrow type is ``kind``."""
        return cls(name, kind, _declared_levels(data, name))

    @property
    def held(self) -> str:
        """Content of the cells: numbers, texts, truth values, times, nothing or other."""
        return "texts" if self.kind is None else family(self.kind)

    @property
    def coded(self) -> bool:
        """True if cells are stored as codes of values that come from the rows."""
        return hasattr(self.kind, "value_type")

    @property
    def is_whole(self) -> bool:
        """True if cells are whole numbers."""
        return str(self.kind).startswith(("int", "uint"))

    def column(self) -> Column | None:
        """Return the kind of column that the type tells; None if it has to be declared."""
        if self.held == "truth values" and not self.coded:
            return Boolean(gaps="average")
        if self.levels is not None:
            try:
                return Categorical(level_texts(self.levels), unseen="average")
            except ValueError as problem:
                raise ValueError(
                    f"the categories of column {str(self.name)!r}: {problem}"
                ) from None
        if self.kind is not None and is_date(self.kind):
            return Date(gaps="average")
        if self.held == "numbers" and not self.coded:
            return Numeric(shape="linear", integer=self.is_whole, gaps="average")
        return None


def columns_of(typed: Iterable[ColumnType], declared: Mapping[Any, Column]) -> dict[str, Column]:
    """Return the kinds of columns by their declarations, or else by their types.

    Texts that are not declared, and times of day, are a ``ValueError``, which says what to add.
    """
    types = list(typed)
    _check_discovered(declared, {each.name: each.held for each in types})
    columns: dict[str, Column] = {}
    undeclared: dict[str, str] = {}
    for each in types:
        found = declared.get(each.name) or each.column()
        if found is None:
            undeclared[each.name] = each.held
        else:
            columns[str(each.name)] = found
    if undeclared:
        raise ValueError(_advice(undeclared))
    return columns


def by_name(declared: Mapping[Key, Column], names: Sequence[Any]) -> dict[Any, Column]:
    """Return declarations by the names of the columns; numbers count the names."""
    given: dict[Any, Column] = {}
    for key, column in declared.items():
        name = _name(key, names)
        if name in given:
            raise ValueError(f"columns names {name!r} twice, by its number and by its name.")
        given[name] = column
    return given


def is_table(X: Any) -> bool:
    """Return whether X is a table whose columns have names: pandas, polars or Arrow."""
    if isinstance(X, np.ndarray) or sp.issparse(X):
        return False
    frame = hasattr(X, "columns") and hasattr(X, "dtypes")
    return frame or (hasattr(X, "column_names") and hasattr(X, "schema"))


def with_texts(X: Any) -> Any:
    """Return a table whose columns have texts for names: those of pandas may be numbers."""
    names = getattr(X, "columns", ())
    if not hasattr(X, "set_axis") or all(isinstance(name, str) for name in names):
        return X
    return X.set_axis([str(name) for name in names], axis=1)


def has_names(X: Any) -> bool:
    """Return whether a table has names; numbers for names and nothing but numbers are an array."""
    kinds = X.dtypes if hasattr(X, "dtypes") else ()
    if any(isinstance(name, str) for name in getattr(X, "columns", ("",))):
        return True
    return not all(is_number(kind) for kind in kinds)


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
    shares = sum(each.share for each in found.values() if isinstance(each, Discovered))
    if shares >= 1.0:
        raise ValueError(
            f"the shares of discover() add up to {shares:g}, which leaves nothing for the model. "
            "Leave most of the budget to it: shares of 0.05, or list levels that are public."
        )
    return found


def number_columns(declared: Mapping[Key, Column]) -> dict[Key, tuple[Any, ...]] | None:
    """Return declared columns of an array, which has numbers only: bounds and shape of each."""
    others = [str(key) for key, column in declared.items() if not isinstance(column, Numeric)]
    if others:
        raise ValueError(
            f"columns declares {listed(others)} to be something else than numbers. Arrays and "
            "plain tables hold numbers; pass a table with names to have levels."
        )
    found: dict[Key, tuple[Any, ...]] = {}
    for key, column in declared.items():
        assert isinstance(column, Numeric)
        if column.shape != "linear":
            found[key] = (column.low, column.high, column.shape)
    return found or None


def _check_discovered(given: Mapping[Any, Column], held: Mapping[Any, str]) -> None:
    """Refuse to find levels of columns that hold no texts, and shares that leave nothing."""
    known = ("texts", "numbers", "truth values", "nothing")
    for name, column in given.items():
        if isinstance(column, Discovered) and held[name] not in known:
            raise ValueError(f"column {str(name)!r} holds {held[name]}; levels are texts.")


def _column(key: Key, value: Any) -> Column:
    """Return the kind of a column from what a caller wrote."""
    if isinstance(value, Column):
        return value
    if value is None:
        return Numeric(gaps="average")
    try:
        if isinstance(value, tuple) and len(value) in (2, 3) and not isinstance(value[0], str):
            shape: Any = value[2] if len(value) == 3 else "smooth"
            return Numeric(value[0], value[1], shape=shape, gaps="average")
        if isinstance(value, list | np.ndarray):
            return Categorical(level_texts(value), unseen="average")
    except ValueError as problem:
        raise ValueError(f"columns[{key!r}]: {problem}") from None
    raise ValueError(f"{_FORMS}; got {display(value)} for column {key!r}.")


def level_texts(levels: Iterable[Any]) -> tuple[str, ...]:
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
        f"columns names {key!r}, which the table does not have. Its columns: {listed(names)}."
    )


def _declared_levels(data: Any, name: Any) -> tuple[Any, ...] | None:
    """Return the levels that a type declares: those of pandas' category, and of polars' Enum."""
    frame = data._meta if hasattr(type(data), "_meta") else data  # of dask: without rows
    dtype = None
    if hasattr(type(frame), "collect_schema"):  # polars, also lazy
        dtype = frame.collect_schema()[name]
    elif isinstance(frame, Mapping) or is_table(frame):
        dtype = getattr(frame[name], "dtype", None)
    levels = getattr(dtype, "categories", None)
    if levels is None or str(dtype).startswith("Categorical"):
        return None
    return tuple(levels)


def _advice(undeclared: Mapping[Any, str]) -> str:
    """Return what to add for columns whose levels or bounds have to be declared."""
    times = [str(name) for name, held in undeclared.items() if held == "times"]
    if times:
        return (
            f"The table has columns of times of day or durations: {listed(times)}. Make numbers "
            "of them, such as minutes, or leave them out: columns={"
            f"{times[0]!r}: Ignored()}} (of discreet.tables)."
        )
    names = [str(name) for name in undeclared]
    shown = names[:SHOWN]
    lines = ", ".join(f'{name!r}: ["…", "…"]' for name in shown)
    kinds = " and ".join(dict.fromkeys(undeclared.values()))
    return (
        f"The table has columns of {kinds} that are not declared: {listed(names)}. List the "
        f"levels of each if they are public: columns={{{lines}}}. If they are not, the fit can "
        f"find them within its budget, {shown[0]!r}: discover() (of discreet). A column "
        f"of many texts can be hashed, {shown[0]!r}: Hashed(64), and one that is not to be used "
        "is Ignored() (both of discreet.tables). A pandas category column declares its levels by "
        "its type."
    )


def listed(names: Sequence[Any]) -> str:
    """Return the first names, as a message has them, and how many more there are."""
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(str(name) for name in names[:SHOWN]) + more
