"""Features of the terms of a formula: functions of one encoded row, by declarations alone.

A term is a product of factors: numbers, levels as contrasts with a reference level, and B-splines.
Its *lines* are the columns that statsmodels would have for it. The *features* of a fit span the
same space and are easier to fit privately: numbers in products are centred in their bounds. A
matrix of public numbers carries the weights of the features to the coefficients of the lines.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.interpolate import BSpline

from discreet.errors import NotSupported
from discreet.expressions import Interval
from discreet.formula import Factor, Formula
from discreet.tables import Boolean, Categorical, Column, Discovered, Numeric, Ordinal, Schema
from discreet.tables.columns import nearest
from discreet.validate import FloatArray

__all__ = ["FeatureGroup", "Line", "Made", "Terms"]

UNKNOWN = Interval(-math.inf, math.inf)

ALIKE = 1e-7
"""Largest error, over the largest feature, of features that are in the span of others: that of
rounding, where columns have bounds that are far from 0."""

_BLOCK = 2**14
"""Rows whose features are made at a time where rows are sparse."""


@dataclass(frozen=True)
class Made(Column):
    """Features of a term that is no single column: products, splines.

    ``indicators`` says that they are 0 or 1, ``bounded`` that their size is at most 1.
    """

    names: tuple[str, ...]
    indicators: bool = False
    bounded: bool = True

    def _encoded_names(self, name: str) -> list[str]:
        return list(self.names)


class Line(NamedTuple):
    """A column of the model as statsmodels has it, of the term ``term``."""

    name: str
    term: str
    level: str | None = None
    reference: str | None = None


class FeatureGroup(NamedTuple):
    """Features of one term: ``start`` to ``stop``."""

    name: str
    column: Column
    start: int
    stop: int
    source: str
    contrasts: bool


@dataclass(frozen=True, eq=False)
class Place:
    """One column of the formula among the encoded ones: its kind, and where it begins."""

    name: str
    source: str
    column: Any
    start: int

    @property
    def stop(self) -> int:
        """End of the encoded columns."""
        return self.start + int(self.column.width)

    @property
    def levels(self) -> tuple[str, ...]:
        """Levels of a category, without that of missing cells of a number."""
        return tuple(name[1:] for name in self.column.feature_names(""))

    @property
    def steps(self) -> float:
        """Own units of a column of an order, or of truth values, over the encoded number."""
        return float(len(self.column.values) - 1) if isinstance(self.column, Ordinal) else 1.0

    @property
    def interval(self) -> Interval:
        """Public bounds in the column's own units."""
        if isinstance(self.column, Numeric):
            known = self.column.is_bounded
            return Interval(self.column.low, self.column.high) if known else UNKNOWN
        return Interval(0.0, self.steps)

    @property
    def scaled_interval(self) -> Interval:
        """Public bounds after the declared scale of the column."""
        if isinstance(self.column, Numeric) and self.column.is_bounded:
            return Interval(*map(float, self.column.scaled([self.column.low, self.column.high])))
        return self.interval

    def encoded(self, rows: Any, *, filled: bool = True) -> FloatArray:
        """Return the encoded number of each row; a missing one is in the middle of its bounds."""
        cells: Any = rows[:, [self.start]]
        sparse: bool = sp.issparse(cells)
        found = np.array((cells.toarray() if sparse else cells)[:, 0], dtype=np.float64)
        if filled and self.interval.is_finite:
            found[np.isnan(found)] = 0.5
        return found

    def scaled(self, rows: Any) -> FloatArray:
        """Return the numbers after the declared scale."""
        low, high = self.scaled_interval
        found = self.encoded(rows)
        return low + found * (high - low) if math.isfinite(low) else found

    def own(self, rows: Any) -> FloatArray:
        """Return the numbers in the column's own units."""
        if isinstance(self.column, Numeric):
            return self.column.decoded(self.encoded(rows))
        return self.encoded(rows) * self.steps

    def indicators(self, rows: Any) -> FloatArray:
        """Return the indicators of the levels; a cell of none of them is even over those listed."""
        cells: Any = rows[:, self.start : self.stop]
        sparse: bool = sp.issparse(cells)
        found = np.array(cells.toarray() if sparse else cells, dtype=np.float64)
        listed = len(self.column.values)
        found[found.sum(axis=1) == 0.0, :listed] = 1.0 / listed
        return found


@dataclass(frozen=True, eq=False)
class Part:
    """One factor of a term, with its columns; ``full`` levels have no reference level left out."""

    factor: Factor
    places: tuple[Place, ...]
    full: bool = False
    reference: str | None = None

    @property
    def name(self) -> str:
        """Name of the factor."""
        return self.factor.name

    @property
    def has_levels(self) -> bool:
        """True if the factor has levels, as a column of texts does."""
        return self.factor.kind != "number" and isinstance(self.places[0].column, Categorical)

    @property
    def is_spline(self) -> bool:
        """True for B-splines."""
        return self.factor.kind == "spline"

    @property
    def levels(self) -> tuple[str, ...]:
        """Levels that have a line."""
        own = self.places[0].levels
        if self.full or len(own) < 2:
            return own if self.full else ()
        return tuple(level for level in own if level != self.reference)

    @cached_property
    def interval(self) -> Interval:
        """Public bounds of a number, or of the argument of a spline."""
        if self.factor.bounds is not None:
            return Interval(*self.factor.bounds)
        if self.factor.expression is None:
            return self.places[0].scaled_interval
        return self.factor.expression.bounds({each.name: each.interval for each in self.places})

    @cached_property
    def knots(self) -> FloatArray:
        """Knots of a spline: its bounds, and inner knots as declared, else evenly spaced."""
        low, high = self.interval
        degree = self.factor.degree
        inner: Any = self.factor.knots
        if self.factor.df is not None:
            inner = np.linspace(low, high, self.factor.df - degree + 2)[1:-1]
        return np.concatenate([np.full(degree + 1, low), inner, np.full(degree + 1, high)])

    @property
    def lines(self) -> list[str]:
        """Names of the factor's columns."""
        if self.is_spline:
            count = len(self.knots) - self.factor.degree - 2
            return [f"{self.name}[{k + 1}]" for k in range(count)]
        return [f"{self.name}={level}" for level in self.levels] if self.has_levels else [self.name]

    def values(self, rows: Any) -> FloatArray:
        """Return the factor's columns for encoded rows, each from its own row alone."""
        if self.has_levels:
            every = self.places[0].levels
            return self.places[0].indicators(rows)[:, [every.index(each) for each in self.levels]]
        if self.factor.expression is None:
            return self.places[0].scaled(rows)[:, None]
        found = self.factor.expression.values({each.name: each.own(rows) for each in self.places})
        if not self.is_spline:
            return found[:, None]
        within = np.clip(np.nan_to_num(found, nan=sum(self.interval) / 2), *self.interval)
        basis: Any = BSpline.design_matrix(within, self.knots, self.factor.degree)
        return np.asarray(basis.toarray()[:, 1:], dtype=np.float64)

    def centred(self, rows: Any, centre: bool) -> FloatArray:
        """Return the columns in [-1, 1]; numbers are from the middle of their bounds, if asked."""
        found = self.values(rows)
        if self.has_levels or self.is_spline or not self.interval.is_finite:
            return found
        low, high = self.interval
        middle = (low + high) / 2 if centre else 0.0
        return (found - middle) / max(abs(low - middle), abs(high - middle))


@dataclass(frozen=True, eq=False)
class BoundTerm:
    """A term with the columns of a schema; ``centre`` says that numbers in products are centred."""

    parts: tuple[Part, ...]
    centre: bool = True

    @property
    def name(self) -> str:
        """Name of the term: "age", or "age:sex"."""
        return ":".join(part.name for part in self.parts)

    @property
    def lines(self) -> list[Line]:
        """The columns that statsmodels would have."""
        found = []
        for names in itertools.product(*(part.lines for part in self.parts)):
            level = reference = None
            if len(self.parts) == 1 and self.parts[0].has_levels:
                level = names[0].removeprefix(f"{self.name}=")
                reference = None if self.parts[0].full else self.parts[0].reference
            found.append(Line(":".join(names), self.name, level, reference))
        return found

    def values(self, rows: Any) -> FloatArray:
        """Return the columns of the lines."""
        return _products([part.values(rows) for part in self.parts])

    @property
    def column(self) -> Column:
        """Kind of the features: that of a single column, or features that were made."""
        (first, *others) = self.parts
        if not others and first.has_levels:
            return first.places[0].column if first.reference is None else replace(
                first.places[0].column, reference=first.reference
            )  # fmt: skip
        if not others and first.factor.kind != "number" and not first.is_spline:
            column: Column = first.places[0].column
            return column
        if not others and not first.is_spline:
            known = first.interval if first.interval.is_finite else (None, None)
            return Numeric(*known, shape="linear", gaps="average")
        bounded = all(part.has_levels or part.interval.is_finite for part in self.parts)
        levels = all(part.has_levels for part in self.parts)
        names = tuple(line.name for line in self.lines)
        return Made(names, indicators=levels, bounded=bounded)

    def features(self, rows: Any) -> FloatArray:
        """Return the features of encoded rows, each from its own row alone."""
        column = self.column
        if isinstance(column, Made):
            return _products([part.centred(rows, self.centre) for part in self.parts])
        (part,) = self.parts
        if part.has_levels:
            return part.values(rows)
        if part.factor.expression is None:  # as the schema encodes it, with its gaps
            return part.places[0].encoded(rows, filled=False)[:, None]
        found = part.values(rows)
        low, high = part.interval
        return np.clip((found - low) / (high - low), 0.0, 1.0) if math.isfinite(low) else found


@dataclass(frozen=True, eq=False)
class Terms:
    """Terms of a formula for the columns of a schema, whose levels and bounds are known.

    Everything is made of the formula and the schema, which are public or were released. Wrong
    columns are a ``ValueError`` that says what to declare.
    """

    formula: Formula
    schema: Schema

    @cached_property
    def places(self) -> dict[str, Place]:
        """The columns by name, with their encoded columns."""
        found = {}
        start = 0
        for source, piece in self.schema.pieces:
            found[piece.name] = Place(piece.name, source, piece.column, start)
            start += piece.column.width
        return found

    @cached_property
    def bound(self) -> tuple[BoundTerm, ...]:
        """The terms, with the coding of their levels and centred where that is the same model."""
        coded = _coded(self._parts(), self.formula.intercept)
        terms = [term for term in coded if term.lines]
        rows = self._grid(terms)
        self._check_rank(terms, rows)
        plain = self._with_constant(np.hstack([term.values(rows) for term in terms]))
        found = []
        for term in terms:
            own = term.features(rows)
            _, error = _solved(plain, own)
            found.append(replace(term, centre=error <= ALIKE))
        return tuple(found)

    @cached_property
    def groups(self) -> tuple[FeatureGroup, ...]:
        """Features of each term."""
        found = []
        start = 0
        for term in self.bound:
            first = term.parts[0]
            contrasts = len(term.parts) == 1 and first.has_levels and not first.full
            stop = start + len(term.lines)
            source = first.places[0].source
            found.append(FeatureGroup(term.name, term.column, start, stop, source, contrasts))
            start = stop
        return tuple(found)

    @property
    def lines(self) -> list[Line]:
        """The columns that statsmodels would have, without the constant."""
        return [line for term in self.bound for line in term.lines]

    @cached_property
    def matrix(self) -> FloatArray:
        """Coefficients of the lines from weights of the features; a constant comes first in both.

        Both are functions of a row and span the same space, so that a grid of public rows, on which
        all of them differ, determines the matrix.
        """
        rows = self._grid(self.bound)
        plain = self._with_constant(np.hstack([term.values(rows) for term in self.bound]))
        own = self._with_constant(np.hstack([term.features(rows) for term in self.bound]))
        found, error = _solved(plain, own)
        assert error <= ALIKE
        return found

    def features(self, encoded: Any) -> Any:
        """Return the features of rows that the schema has encoded, each from its own row alone."""
        sparse: bool = sp.issparse(encoded)
        if not sparse:
            return self._dense(encoded)
        made = [
            sp.csr_array(self._dense(encoded[start : start + _BLOCK]))
            for start in range(0, max(encoded.shape[0], 1), _BLOCK)
        ]
        return sp.csr_array(sp.vstack(made, format="csr"))

    def _dense(self, encoded: Any) -> NDArray[Any]:
        out = np.empty((encoded.shape[0], self.groups[-1].stop), dtype=encoded.dtype)
        for term, group in zip(self.bound, self.groups, strict=True):
            out[:, group.start : group.stop] = term.features(encoded)
        return out

    @cached_property
    def offset_interval(self) -> Interval:
        """Public bounds of the offset; those of all its columns must be declared."""
        total = Interval(0.0, 0.0)
        for each in self.formula.offsets:
            own = each.bounds({name: self._place(name).interval for name in each.columns})
            if not own.is_finite:
                raise ValueError(
                    f"offset({each.text}) needs public bounds of "
                    f"{', '.join(map(repr, each.columns))}: columns="
                    f"{{{each.columns[0]!r}: (low, high)}}."
                )
            total = total.plus(own)
        return total

    def offsets(self, encoded: Any) -> FloatArray:
        """Return the offset of each row that the schema has encoded, from its own cells alone."""
        total = np.zeros(encoded.shape[0])
        for each in self.formula.offsets:
            own = {name: self._place(name).own(encoded) for name in each.columns}
            total += each.values(own)
        return np.clip(total, *self.offset_interval)

    def check(self) -> None:
        """Refuse what the formula says of columns whose kinds do not allow it."""
        _ = self.offset_interval
        _ = self.groups

    # ---- parts

    def _place(self, name: str) -> Place:
        if name not in self.places:
            raise ValueError(
                f"the formula names {name!r}, which the table does not have; "
                f"{nearest(name, self.places)}"
            )
        return self.places[name]

    def _parts(self) -> list[tuple[Part, ...]]:
        """Return the factors of each term with their columns, checked."""
        references: dict[str, str] = {}
        for factor in (factor for term in self.formula.terms for factor in term):
            old = references.get(factor.columns[0], factor.reference)
            if factor.reference is not None:
                if old != factor.reference:
                    raise ValueError(
                        f"the formula gives {factor.columns[0]!r} two reference levels: {old!r} "
                        f"and {factor.reference!r}."
                    )
                references[factor.columns[0]] = factor.reference
        return [
            tuple(self._part(factor, references) for factor in term)
            for term in self.formula.terms
        ]  # fmt: skip

    def _part(self, factor: Factor, references: Mapping[str, str]) -> Part:
        places = tuple(self._place(name) for name in factor.columns)
        column = places[0].column
        if factor.kind in ("number", "spline"):
            _check_numbers(factor, places)
            part = Part(factor, places)
            if factor.kind == "spline":
                _check_spline(part)
            elif part.interval.low == part.interval.high:
                raise ValueError(f"{factor.text!r} has one value, by its declared bounds.")
            return part
        if isinstance(column, Categorical):
            return Part(factor, places, reference=_reference(column, factor, references))
        if factor.kind == "levels":
            raise ValueError(
                f"{factor.text} needs the levels of {factor.columns[0]!r}, which is not declared "
                f"to have some: columns={{{factor.columns[0]!r}: [\"…\", \"…\"]}}, or discover()."
            )
        _check_numbers(factor, places)
        return Part(factor, places)

    def _with_constant(self, columns: FloatArray) -> FloatArray:
        if not self.formula.intercept:
            return columns
        return np.column_stack([np.ones(len(columns)), columns])

    def _check_rank(self, terms: Sequence[BoundTerm], rows: FloatArray) -> None:
        """Refuse a term that those before it determine, whatever the rows are."""
        made = [term.features(rows) for term in terms]
        own = self._with_constant(np.hstack(made))
        last = np.abs(np.diag(np.linalg.qr(own / np.linalg.norm(own, axis=0), mode="r")))
        owners = [term.name for term, part in zip(terms, made, strict=True) for _ in part.T]
        for name, left in zip(owners, last[int(self.formula.intercept) :], strict=True):
            if left <= ALIKE:
                raise ValueError(
                    f"the term {name!r} says what other terms of {self.formula.text!r} say "
                    "already. Leave it out."
                )

    def _grid(self, terms: Sequence[BoundTerm]) -> FloatArray:
        """Return public encoded rows: for each term, all combinations of points of its columns.

        Other columns are at a reference level, or in the middle of their bounds. A number has two
        points more than there are features of it.
        """
        counts = dict.fromkeys(self.places, 2)
        for part in {part.name: part for term in terms for part in term.parts}.values():
            for place in part.places:
                counts[place.name] += len(part.lines)
        rest = np.zeros(self.schema.width)
        for place in self.places.values():
            rest[place.start] = 1.0 if isinstance(place.column, Categorical) else 0.5
        rows = [rest[None]]
        for term in terms:
            places = {each.name: each for part in term.parts for each in part.places}
            points = [_points(each, counts[each.name]) for each in places.values()]
            for combined in itertools.product(*points):
                row = rest.copy()
                for place, values in zip(places.values(), combined, strict=True):
                    row[place.start : place.stop] = values
                rows.append(row[None])
        return np.concatenate(rows)


def _products(columns: Sequence[FloatArray]) -> FloatArray:
    """Return all products of columns of each matrix; the last runs fastest."""
    found = columns[0]
    for other in columns[1:]:
        found = (found[:, :, None] * other[:, None, :]).reshape(len(found), -1)
    return found


def _points(place: Place, count: int) -> Iterator[FloatArray]:
    """Yield encoded cells of a column: each level, or numbers within its bounds."""
    column = place.column
    if isinstance(column, Categorical):
        yield from np.eye(column.width)
        return
    if isinstance(column, Boolean | Ordinal):
        inside = np.linspace(0.0, 1.0, 2 if isinstance(column, Boolean) else len(column.values))
    else:
        inside = (1.0 - np.cos(np.pi * (np.arange(count) + 0.5) / count)) / 2.0
    for value in inside:
        row = np.zeros(column.width)
        row[0] = value
        yield row


def _solved(plain: FloatArray, own: FloatArray) -> tuple[FloatArray, float]:
    """Return the matrix by which ``plain`` gives ``own``, and the largest relative error."""
    scale = np.maximum(np.abs(plain).max(axis=0), 1e-300)
    found = np.linalg.lstsq(plain / scale, own, rcond=None)[0]
    error = np.abs(plain / scale @ found - own).max(initial=0.0)
    found[np.abs(found) <= ALIKE * np.abs(found).max(axis=0)] = 0.0
    return found / scale[:, None], float(error / max(np.abs(own).max(initial=0.0), 1e-300))


def _coded(terms: Sequence[tuple[Part, ...]], intercept: bool) -> list[BoundTerm]:
    """Return terms with the coding of their levels, by what other terms span.

    Levels are contrasts with the reference where the term without them is in the model, and have
    a line each where it is not.
    """
    covered: set[tuple[frozenset[str], frozenset[str]]] = set()
    if intercept:
        covered.add((frozenset(), frozenset()))
    found = []
    for parts in terms:
        numbers = frozenset(part.name for part in parts if not part.has_levels)
        levels = [part.name for part in parts if part.has_levels]
        subsets = [
            frozenset(each)
            for size in range(len(levels) + 1)
            for each in itertools.combinations(levels, size)
        ]
        needed = [each for each in subsets if (numbers, each) not in covered]
        reduced = frozenset.intersection(*needed)
        if set(needed) != {each for each in subsets if reduced <= each}:
            name = ":".join(part.name for part in parts)
            raise ValueError(
                f"the term {name!r} needs the effects of its columns in the model. Write "
                f"{name.replace(':', '*')}."
            )
        covered |= {(numbers, each) for each in subsets}
        own = (
            replace(part, full=True) if part.name in levels and part.name not in reduced else part
            for part in parts
        )
        found.append(BoundTerm(tuple(own)))
    return found


def _check_numbers(factor: Factor, places: Sequence[Place]) -> None:
    """Refuse columns that are no numbers, and marks of missing cells in formulas."""
    for place in places:
        column = place.column
        if not isinstance(column, Numeric | Boolean | Ordinal):
            kind = "to be found" if isinstance(column, Discovered) else f"{column.kind}, not a number"
            raise ValueError(
                f"{factor.text!r} in the formula: the column {place.name!r} is {kind}. List the "
                f"levels of a category, columns={{{place.name!r}: [\"…\", \"…\"]}}, or find them: "
                "discover()."
            )
        if column.missing:
            raise NotSupported(
                f"the column {place.name!r} marks missing cells in a feature of its own "
                "(missing = true), which formulas do not have. Leave that out: missing cells are "
                "then in the middle of the bounds."
            )


def _check_spline(part: Part) -> None:
    """Refuse a spline without bounds, and knots outside of them."""
    name = part.places[0].name
    if not part.interval.is_finite:
        raise ValueError(
            f"{part.factor.text} needs public bounds of {name!r}, as its knots may not come from "
            f"the rows: columns={{{name!r}: (low, high)}}."
        )
    low, high = part.interval
    if any(not low < knot < high for knot in part.factor.knots):
        raise ValueError(f"{part.factor.text}: knots must be between {low:g} and {high:g}.")


def _reference(column: Categorical, factor: Factor, references: Mapping[str, str]) -> str:
    """Return the reference level of a column, which must be one of its levels."""
    wanted = references.get(factor.columns[0], column.reference_level)
    if wanted not in column.values and column.values != ("?",):
        raise ValueError(
            f"the reference level {wanted!r} of {factor.columns[0]!r} is not among its levels; "
            f"{nearest(wanted, column.values)}"
        )
    return wanted
