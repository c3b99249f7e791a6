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

from discreet.expressions import Interval
from discreet.factors import Part, Place, check_numbers, check_spline, reference_of
from discreet.formula import Factor, Formula
from discreet.tables import Boolean, Categorical, Column, Numeric, Ordinal, Schema
from discreet.tables.columns import nearest
from discreet.validate import FloatArray

__all__ = ["FeatureGroup", "Line", "Made", "Terms"]

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

    def values(self, coded: Any) -> FloatArray:
        """Return the columns of the lines."""
        return _products([part.values(coded) for part in self.parts])

    @property
    def column(self) -> Column:
        """Kind of the features: that of a single column, or features that were made."""
        (first, *others) = self.parts
        own: Column = first.places[0].column
        if not others and first.has_levels and first.reference is not None:
            assert isinstance(own, Categorical)  # of has_levels
            return replace(own, reference=first.reference)
        if not others and first.factor.kind != "number" and not first.is_spline:
            return own
        if not others and not first.is_spline:
            low, high = first.interval if first.interval.is_finite else (None, None)
            return Numeric(low, high, shape="linear", gaps="average")
        bounded = all(part.has_levels or part.interval.is_finite for part in self.parts)
        levels = all(part.has_levels for part in self.parts)
        names = tuple(line.name for line in self.lines)
        return Made(names, indicators=levels, bounded=bounded)

    def features(self, coded: Any) -> FloatArray:
        """Return the features of encoded rows, each from its own row alone."""
        column = self.column
        if isinstance(column, Made):
            return _products([part.centred(coded, self.centre) for part in self.parts])
        (part,) = self.parts
        if part.has_levels:
            return part.values(coded)
        if part.factor.expression is None:  # as the schema encodes it, with its gaps
            return part.places[0].encoded(coded, filled=False)[:, None]
        found = part.values(coded)
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
        grid = self._grid(terms)
        self._check_rank(terms, grid)
        plain = self._with_constant(np.hstack([term.values(grid) for term in terms]))
        found = []
        for term in terms:
            own = term.features(grid)
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
        grid = self._grid(self.bound)
        plain = self._with_constant(np.hstack([term.values(grid) for term in self.bound]))
        own = self._with_constant(np.hstack([term.features(grid) for term in self.bound]))
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
            check_numbers(factor, places)
            part = Part(factor, places)
            if factor.kind == "spline":
                check_spline(part)
            elif part.interval.low == part.interval.high:
                raise ValueError(f"{factor.text!r} has one value, by its declared bounds.")
            return part
        if isinstance(column, Categorical):
            return Part(factor, places, reference=reference_of(column, factor, references))
        if factor.kind == "levels":
            raise ValueError(
                f"{factor.text} needs the levels of {factor.columns[0]!r}, which is not declared "
                f'to have some: columns={{{factor.columns[0]!r}: ["…", "…"]}}, or discover().'
            )
        check_numbers(factor, places)
        return Part(factor, places)

    def _with_constant(self, columns: FloatArray) -> FloatArray:
        if not self.formula.intercept:
            return columns
        return np.column_stack([np.ones(len(columns)), columns])

    def _check_rank(self, terms: Sequence[BoundTerm], grid: FloatArray) -> None:
        """Refuse a term that those before it determine, whatever the rows are."""
        made = [term.features(grid) for term in terms]
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
