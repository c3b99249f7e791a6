"""The design of a model: the columns of a table, what is declared of them, and their features.

A design stands between a table and the rows of a fit. Each column has a kind, which follows from
the type of the column and from what the caller declares; both are public, and no row is read for
it. The features of a row depend on its own cells and the design alone. A fitted model keeps its
design, so that it takes tables of the same columns, and its answers can speak of columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.column_kinds import (
    ColumnType,
    Key,
    by_name,
    columns_of,
    has_names,
    is_table,
    listed,
    with_texts,
)
from discreet.errors import TableError
from discreet.formula import Formula
from discreet.tables import (
    Categorical,
    Column,
    Date,
    Discovered,
    Hashed,
    Ignored,
    Numeric,
    Ordinal,
    Schema,
)
from discreet.tables.libraries import table_part
from discreet.terms import Made, Terms
from discreet.validate import FloatArray

__all__ = [
    "Design",
    "EncodedRows",
    "Group",
    "number_of_table",
]


_BLOCK = 2**14
"""Rows that are copied at a time when features are left out."""


@dataclass(frozen=True)
class Group:
    """Features of one column: numbers ``start`` to ``stop`` of an encoded row.

    A date with parts has a group for its trend, which is a number, and one for the levels of each
    part, such as "admitted.month". ``source`` is the column of the table that all of them encode.
    With ``contrasts`` the feature of the reference level is left out.
    """

    name: str
    column: Column
    start: int
    stop: int
    source: str
    contrasts: bool = False

    @property
    def has_levels(self) -> bool:
        """True if the features are 1 for a level or bucket each, and 0 for all others."""
        return isinstance(self.column, Categorical | Hashed)

    @property
    def has_mark(self) -> bool:
        """True if the last feature marks missing cells."""
        return self.column.missing

    @property
    def reference(self) -> str | None:
        """The level that others are compared with; None for columns without listed levels."""
        return self.column.reference_level if isinstance(self.column, Categorical) else None

    @property
    def levels(self) -> tuple[str, ...]:
        """Names of the levels or buckets that the features are for, in their order."""
        if not self.has_levels:
            return ()
        whole = (name[1:] for name in self.column.feature_names(""))
        left_out = self.reference if self.contrasts else None
        return tuple(name for name in whole if name != left_out)

    @property
    def listed(self) -> int:
        """Number of the first features that are for listed levels."""
        if not isinstance(self.column, Categorical):
            return 0
        return len(self.column.values) - int(self.contrasts)

    @property
    def feature_names(self) -> list[str]:
        """Names of the features."""
        if self.contrasts:
            return [f"{self.name}={level}" for level in self.levels]
        return self.column.feature_names(self.name)


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Rows of a table that its schema has encoded, as an estimator with a design takes them.

    A table larger than memory, or one that is predicted block by block, is encoded when it is read.
    If they are the estimator's own, a fit may overwrite them.
    """

    encoded: Any
    schema: Schema
    is_own: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, and of columns that the schema encodes them as."""
        return int(self.encoded.shape[0]), self.schema.width


@dataclass(frozen=True, eq=False)
class Design:
    """Columns of a table with their kinds, and the features that they become.

    Parameters
    ----------
    schema : Schema
        The columns. Target and unit, if it names them, are columns that a table may have besides.
    contrasts : bool
        Leave out the feature of each category's reference level, as models with intervals do. A
        cell that is not among the levels is then 1/k in the features of all k levels but the
        reference: the middle of the levels, which no level has.
    formula : Formula, optional
        Terms that the features are made of, in place of one for each column.

    Attributes
    ----------
    names : list of str
        Names of the columns, in the order of the table.
    feature_names : list of str
        Names of the features: those of numbers, or ``column=level``.
    width : int
        Number of features.
    groups : tuple of Group
        The columns that are used, with their features.

    Examples
    --------
    >>> from discreet.design import Design
    >>> from discreet.tables import Categorical, Numeric, Schema
    >>> design = Design(Schema({"age": Numeric(0, 110), "ward": Categorical(["A", "B"])}))
    >>> design.feature_names
    ['age', 'ward=A', 'ward=B']
    >>> design.for_inference().feature_names
    ['age', 'ward=B']
    """

    schema: Schema
    contrasts: bool = False
    formula: Formula | None = None

    @classmethod
    def of(
        cls, X: Any, declared: Mapping[Key, Column], formula: Formula | None = None
    ) -> Self | None:
        """Return the design of a table; None for arrays, and for plain tables of numbers.

        Only names and types of the columns are read. A table of numbers about which nothing is
        declared is used as it is, like an array, unless there is a formula.
        """
        if isinstance(X, EncodedRows):
            return cls(X.schema)
        if formula is not None and not is_table(X):
            raise ValueError(
                f"a formula is for tables with names of columns; got {type(X).__name__}. Pass a "
                "pandas, polars or Arrow table."
            )
        if not is_table(X) or (formula is None and not declared and not has_names(X)):
            return None
        given = by_name(declared, table_part(X).names)
        X = with_texts(X)
        part = table_part(X)
        given = {str(name): column for name, column in given.items()}
        types = part.fields()
        names = part.names if formula is None else formula.sources(part.names)
        typed = [ColumnType.of(X, name, types.field(name).type) for name in names]
        given = {name: column for name, column in given.items() if name in names}
        found = cls(Schema(columns_of(typed, given)))
        return found if formula is None else found.with_formula(formula)

    def with_formula(self, formula: Formula) -> Self:
        """Return the design of a formula's terms, of the columns that it names; it is checked."""
        names = formula.sources([*self.schema.columns])
        columns = {
            name: column if name in names else Ignored("not in the formula")
            for name, column in self.schema.columns.items()
        }
        schema = replace(self.schema, columns=columns, extra="ignore")
        made = replace(self, schema=schema, formula=formula).for_inference()
        made.terms.check()
        return made

    @cached_property
    def terms(self) -> Terms:
        """Terms of the formula, with the columns that are known."""
        assert self.formula is not None  # callers ask designs with a formula
        return Terms(self.formula, self.schema)

    def for_inference(self) -> Self:
        """Return the design of a model with intervals: linear in numbers, with reference levels.

        With an indicator of each level the intercept and the levels would not be determined.
        """
        columns = _linear(self.schema.columns)
        return replace(self, schema=replace(self.schema, columns=columns), contrasts=True)

    @property
    def names(self) -> list[str]:
        """Names of the columns, in the order of the table."""
        return list(self.schema.columns)

    @property
    def feature_names(self) -> list[str]:
        """Names of the features."""
        return [name for group in self._grouped() for name in group.feature_names]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the features, as scikit-learn asks for them."""
        return np.array(self.feature_names, dtype=object)

    @property
    def width(self) -> int:
        """Number of features."""
        return self.groups[-1].stop

    @property
    def groups(self) -> tuple[Group, ...]:
        """The columns that are used, with their features."""
        return tuple(self._grouped())

    def _grouped(self) -> Iterator[Group]:
        if self.formula is not None:
            yield from (Group(*each) for each in self.terms.groups)
            return
        start = 0
        for source, piece in self.schema.pieces:
            left_out = self.contrasts and _has_contrasts(piece.column)
            stop = start + piece.column.width - int(left_out)
            yield Group(piece.name, piece.column, start, stop, source, left_out)
            start = stop

    @property
    def numbers(self) -> dict[int, Numeric]:
        """Features that are numbers, with their columns; those with public bounds are in [0, 1]."""
        found = {}
        for group in self._grouped():
            if isinstance(group.column, Numeric):
                found[group.start] = group.column
            elif isinstance(group.column, Made) and not group.column.bounded:
                free = Numeric(shape="linear", gaps="average")
                found |= dict.fromkeys(range(group.start, group.stop), free)
        return found

    @property
    def with_gaps(self) -> dict[int, Column]:
        """Features that are NaN where a cell is missing, with their columns."""
        return {
            group.start: group.column
            for group in self._grouped()
            if getattr(group.column, "gaps", "refuse") == "average"
            and not (group.has_mark or group.has_levels)
        }

    @property
    def accepting_any(self) -> tuple[int, ...]:
        """Numbers without public bounds that may be any cell, as drafts have them."""
        return tuple(
            at
            for at, column in self.with_gaps.items()
            if isinstance(column, Numeric) and column.invalid == "missing" and not column.is_bounded
        )

    @property
    def indicators(self) -> tuple[int, ...]:
        """Features that are 0 or 1: levels, truth values and marks of missing cells."""
        found: list[int] = []
        for group in self._grouped():
            column = group.column
            if isinstance(column, Made) and not column.indicators:
                continue
            first = group.start + 1 if isinstance(column, Numeric | Ordinal) else group.start
            found += range(first, group.stop)
        return tuple(found)

    @property
    def units(self) -> dict[str, Callable[[Any], FloatArray]]:
        """Functions that bring numbers of encoded rows to the unit of their column, by its name."""
        return {
            group.name: group.column.decoded
            for group in self._grouped()
            if isinstance(group.column, Numeric)
        }

    @property
    def public(self) -> tuple[str, ...]:
        """Statements of what a fit treats as public because of the design."""
        declared = "the kinds of the columns, with the bounds and levels that were declared"
        if self.formula is not None:
            declared += f", and the formula {self.formula.text!r}"
        cost = self.schema.spent
        if cost is None:
            return (declared,)
        spent = f"ε = {cost.epsilon:g}, δ = {cost.delta:g}"
        return (declared, f"what was estimated for the schema, which spent {spent} before the fit")

    @property
    def discovered(self) -> dict[str, Discovered]:
        """Columns whose levels have yet to be found."""
        columns = self.schema.columns.items()
        return {name: each for name, each in columns if isinstance(each, Discovered)}

    def with_columns(self, found: Mapping[str, Column]) -> Design:
        """Return the design with other kinds for some of its columns."""
        columns = {**self.schema.columns, **found}
        return replace(self, schema=replace(self.schema, columns=columns))

    def check(self, X: Any) -> None:
        """Refuse cells that the design does not allow, of all columns whose levels are known."""
        hidden: dict[str, Column] = {name: Ignored() for name in self.discovered}
        if any(name not in hidden for name in self.schema.used):
            replace(self.with_columns(hidden), formula=None).encode(X)

    def encode(self, X: Any) -> NDArray[Any] | sp.csr_array:
        """Return the features of a table's rows.

        Privacy
        -------
        Each row is encoded by itself. A cell that the design does not allow is a `TableError` that
        names its column and shows nothing of it.
        """
        if self.formula is not None:
            made: NDArray[Any] | sp.csr_array = self.terms.features(self.encode_columns(X))
            return made
        if isinstance(X, EncodedRows):
            made = self.encode_columns(X)
            return self._without_references(made.copy()) if self.contrasts else made
        encoded = self.encode_columns(X)
        return self._without_references(encoded) if self.contrasts else encoded

    def encode_columns(self, X: Any) -> NDArray[Any] | sp.csr_array:
        """Return the columns of a table's rows as the schema encodes them, each row by itself."""
        if isinstance(X, EncodedRows):
            return self._own_columns(X)
        if not is_table(X) and not isinstance(X, Mapping):
            raise TableError(
                f"this model was fitted to a table with names, and a {type(X).__name__} has none. "
                f"Pass a table with the columns {listed(self.names)}."
            )
        X = with_texts(X)
        encoded: NDArray[Any] | sp.csr_array = self.schema.transformer().transform(X)
        return encoded

    def _own_columns(self, X: EncodedRows) -> NDArray[Any] | sp.csr_array:
        """Return rows that were encoded by the schema, or the formula's columns of them."""
        # the shape of an effect does not change how a number is encoded
        used = _linear(X.schema.used)
        own = _linear(self.schema.used)
        made: NDArray[Any] | sp.csr_array = X.encoded
        if used == own:
            return made
        if self.formula is None or any(used.get(name) != column for name, column in own.items()):
            raise ValueError("these rows were encoded by another schema than the model's.")
        places: dict[str, list[int]] = {}
        start = 0
        for source, piece in X.schema.pieces:
            stop = start + piece.column.width
            places.setdefault(source, []).extend(range(start, stop))
            start = stop
        whole: Any = made
        kept: NDArray[Any] | sp.csr_array
        kept = whole[:, [place for name in own for place in places[name]]]
        return kept

    def offsets(self, X: Any) -> FloatArray | None:
        """Return the offset of each row of a table by the formula; None without one.

        Privacy
        -------
        An offset depends on its own row and on public bounds.
        """
        if not self.has_offset:
            return None
        assert self.formula is not None  # of has_offset
        alone = replace(self.formula, terms=())
        needed = alone.sources([*self.schema.columns])
        columns = {
            name: column if name in needed else Ignored()
            for name, column in self.schema.columns.items()
        }
        schema = replace(self.schema, columns=columns)
        own = replace(self, formula=alone, schema=schema)
        return own.terms.offsets(own.encode_columns(X))

    @property
    def has_offset(self) -> bool:
        """True if the formula has an offset."""
        return self.formula is not None and bool(self.formula.offsets)

    def encode_new(self, X: Any) -> NDArray[Any] | sp.csr_array:
        """Return the features of rows to predict on, with their offset as last column, if any."""
        encoded = self.encode(X)
        known = self.offsets(X)
        if known is None:
            return encoded
        column = known[:, None].astype(encoded.dtype)
        if sp.issparse(encoded):
            return sp.csr_array(sp.hstack([encoded, sp.csr_array(column)], format="csr"))
        return np.hstack([encoded, column])

    def check_gaps(self, encoded: Any, windows: Sequence[int]) -> None:
        """Refuse missing numbers that a fit has neither public bounds nor a window for."""
        sparse: bool = sp.issparse(encoded)
        if not (sparse or isinstance(encoded, np.ndarray)):
            return
        for at, column in self.with_gaps.items():
            if at in windows or getattr(column, "is_bounded", True):
                continue
            cells: Any = encoded[:, [at]]
            if np.isnan(cells.data if sparse else cells).any():
                name = self.feature_names[at]
                raise TableError(
                    f"column {name!r}: a cell is missing, and this fit does not find the range of "
                    f"the column, in whose middle it would be. Give public bounds, columns="
                    f"{{{name!r}: (low, high)}}, or fit with the default solver, without inference."
                )

    def with_middles(self, encoded: Any, windows: Sequence[int], *, overwrite: bool = False) -> Any:
        """Return encoded rows in which missing numbers are in the middle of their public bounds.

        Columns in ``windows``, whose missing numbers are filled there, are left as they are, and so
        are columns after those of the design. With ``overwrite`` the rows themselves are changed.
        """
        own = np.zeros(encoded.shape[1], dtype=bool)
        gaps = self.with_gaps.items()
        own[[at for at, column in gaps if getattr(column, "is_bounded", True)]] = True
        own[list(windows)] = False
        sparse: bool = sp.issparse(encoded)
        if not own.any() or not (sparse or isinstance(encoded, np.ndarray)):
            return encoded
        filled = encoded
        copied = overwrite
        cells = encoded.data if sparse else encoded
        for at in _in_blocks(len(cells)):
            absent = np.isnan(cells[at]) & (own[encoded.indices[at]] if sparse else own)
            if not absent.any():
                continue
            if not copied:
                filled = encoded.copy()
                cells = filled.data if sparse else filled
                copied = True
            cells[at][absent] = 0.5
        return filled

    def contrasted(self, encoded: Any, *, overwrite: bool = False) -> Any:
        """Return rows of this design without the features of reference levels.

        With ``overwrite`` the memory of the rows is used for them, and the rows are lost.
        """
        design = self.for_inference()
        if design.width == self.width:
            return encoded
        overwrite = overwrite and _may_overwrite(encoded)
        return design._without_references(encoded if overwrite else encoded.copy())

    def _without_references(self, encoded: Any) -> NDArray[Any] | sp.csr_array:
        """Leave the features of reference levels out of rows that have those of all levels.

        The memory of the rows is used for them.
        """
        if sp.issparse(encoded) and self._all_listed(encoded):
            return _compacted_entries(encoded, self._kept())
        averaged = []
        kept = self._kept()
        fill = np.zeros((len(self.groups), self.width))
        whole = 0
        for number, group in enumerate(self.groups):
            column = group.column
            if isinstance(column, Categorical) and group.contrasts:
                cells: Any = encoded[:, whole : whole + column.width]
                none = np.asarray(cells.sum(axis=1)).ravel() == 0.0
                averaged.append(none)
                fill[number, group.start : group.start + group.listed] = 1 / len(column.values)
            else:
                averaged.append(np.zeros(encoded.shape[0], dtype=bool))
            whole += column.width
        sparse: bool = sp.issparse(encoded)
        if sparse:
            rows = sp.csr_array(encoded[:, np.flatnonzero(kept)])
            cells = sp.csr_array(np.column_stack(averaged).astype(encoded.dtype))
            filled = cells @ sp.csr_array(fill.astype(encoded.dtype))
            return sp.csr_array(rows + filled)
        left = _compacted(encoded, kept)
        for group, rows_of, numbers in zip(self.groups, averaged, fill, strict=True):
            if group.contrasts and rows_of.any():
                own = slice(group.start, group.start + group.listed)
                left[rows_of, own] = numbers[own]
        return left

    def _kept(self) -> NDArray[np.bool_]:
        """Return which features of encoded rows are not those of reference levels left out."""
        kept = np.ones(self.schema.width, dtype=bool)
        whole = 0
        for group in self.groups:
            if group.contrasts and isinstance(group.column, Categorical):
                level = group.column.values.index(group.column.reference_level)
                kept[whole + level] = False
            whole += group.column.width
        return kept

    def _all_listed(self, encoded: Any) -> bool:
        """Return whether each sparse row has a level in all columns whose reference is left out."""
        counts = np.zeros(encoded.shape[1], dtype=np.int64)
        for at in _in_blocks(encoded.indices.size):
            used = encoded.indices[at][encoded.data[at] != 0]
            counts += np.bincount(used, minlength=counts.size)
        whole = 0
        for group in self.groups:
            stop = whole + group.column.width
            if group.contrasts and counts[whole:stop].sum() != encoded.shape[0]:
                return False
            whole = stop
        return True

    def to_dict(self) -> dict[str, Any]:
        """Return the design as plain data."""
        stated: dict[str, Any] = {"contrasts": True} if self.contrasts else {}
        if self.formula is not None:
            stated["formula"] = self.formula.to_dict()
        return stated | self.schema.to_dict()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the design that `to_dict` was called on; anything else is a ``ValueError``."""
        plain = dict(data)
        contrasts = plain.pop("contrasts", False)
        if not isinstance(contrasts, bool):
            raise ValueError("contrasts of a design must be true or false.")
        formula = plain.pop("formula", None)
        own = None if formula is None else Formula.from_dict(formula)
        return cls(Schema.from_dict(plain, "design"), contrasts, own)


def _linear(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Return columns whose numbers have straight lines for effects."""
    return {
        name: replace(column, shape="linear") if isinstance(column, Date | Numeric) else column
        for name, column in columns.items()
    }


def _has_contrasts(column: Column) -> bool:
    """Return whether a reference level can be left out of a column's features."""
    return isinstance(column, Categorical) and len(column.values) > 1


def _compacted(rows: NDArray[Any], kept: NDArray[np.bool_]) -> NDArray[Any]:
    """Return some columns of rows, in the memory of the rows: a table is not copied."""
    width = int(kept.sum())
    index = np.flatnonzero(kept)
    out: NDArray[Any] = rows.reshape(-1)[: len(rows) * width].reshape(len(rows), width)
    for start in range(0, len(rows), _BLOCK):
        # what is overwritten are this block, of which a copy is made, and blocks before it
        out[start : start + _BLOCK] = rows[start : start + _BLOCK][:, index]
    return out


def _compacted_entries(table: Any, kept: NDArray[np.bool_]) -> sp.csr_array:
    """Return some columns of a sparse table, in its own memory: it is not copied."""
    places = np.where(kept, np.cumsum(kept) - 1, -1).astype(table.indices.dtype)
    starts = np.zeros_like(table.indptr)
    stop = 0
    for at in _in_blocks(table.shape[0]):
        old = table.indptr[at.start : at.stop + 1]
        own = slice(old[0], old[-1])
        moved = places[table.indices[own]]
        left = moved >= 0
        ends = np.concatenate([[0], np.cumsum(left)])[old - old[0]]
        new = slice(stop, stop + ends[-1])
        # what is overwritten are this block, of which a copy is made, and blocks before it
        table.indices[new] = moved[left]
        table.data[new] = table.data[own][left]
        starts[at.start + 1 : at.stop + 1] = stop + ends[1:]
        stop = new.stop
    shape = (table.shape[0], int(kept.sum()))
    return sp.csr_array((table.data[:stop], table.indices[:stop], starts), shape=shape)


def _in_blocks(size: int) -> Iterator[slice]:
    """Yield the places of rows, or of entries, a block at a time."""
    for start in range(0, size, _BLOCK):
        yield slice(start, min(start + _BLOCK, size))


def _may_overwrite(table: Any) -> bool:
    """Return whether rows are in memory of this process that can be written to, in their order."""
    if isinstance(table, np.ndarray):
        return bool(table.flags.writeable and table.flags.c_contiguous)
    sparse: bool = sp.issparse(table)
    return sparse and bool(table.data.flags.writeable and table.indices.flags.writeable)


def unit_of_table(X: Any, unit: str | None, groups: Any) -> Any:
    """Return the ids in the column ``unit`` of a table, if it has one; else ``groups``."""
    if unit is None or unit not in table_part(X).names:
        return groups
    if groups is not None:
        raise ValueError(
            f"X has the column {unit!r}, which the schema names as the unit, and groups were given "
            "as well. Leave out groups."
        )
    ids = X[unit]
    return ids.to_pylist() if hasattr(ids, "to_pylist") else ids


def number_of_table(X: Any, keyword: str, values: Any) -> Any:
    """Return the column that ``values`` names, of a table; other values are returned as they are.

    ``keyword`` is the argument of `fit` that they were given for.
    """
    if not isinstance(values, str):
        return values
    if isinstance(X, EncodedRows) or not is_table(X):
        raise ValueError(
            f"{keyword}={values!r} names a column, and X is a {type(X).__name__} without names. "
            "Pass one number for each row."
        )
    names = table_part(X).names
    if values not in names:
        raise ValueError(f"{keyword}: the table has no column {values!r}. It has {listed(names)}.")
    cells = X[values]
    return cells.to_numpy() if hasattr(type(cells), "to_numpy") else np.asarray(cells)
