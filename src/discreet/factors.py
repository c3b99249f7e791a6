"""Factors of the terms of a formula, with the columns of a schema that they are made of.

A factor has one or several columns, each a function of one encoded row by declarations alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.interpolate import BSpline

from discreet.errors import NotSupported
from discreet.expressions import Interval
from discreet.formula import Factor
from discreet.tables import Boolean, Categorical, Discovered, Numeric, Ordinal
from discreet.tables.columns import nearest
from discreet.validate import FloatArray

__all__ = ["Part", "Place", "check_numbers", "check_spline", "reference_of"]

UNKNOWN = Interval(-math.inf, math.inf)


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
            low, high = self.column.low, self.column.high
            return UNKNOWN if low is None or high is None else Interval(low, high)
        return Interval(0.0, self.steps)

    @property
    def scaled_interval(self) -> Interval:
        """Public bounds after the declared scale of the column."""
        if isinstance(self.column, Numeric) and self.column.is_bounded:
            return Interval(*map(float, self.column.scaled([self.column.low, self.column.high])))
        return self.interval

    def encoded(self, coded: Any, *, filled: bool = True) -> FloatArray:
        """Return the encoded number of each row; a missing one is in the middle of its bounds."""
        cells: Any = coded[:, [self.start]]
        sparse: bool = sp.issparse(cells)
        found = np.array((cells.toarray() if sparse else cells)[:, 0], dtype=np.float64)
        if filled and self.interval.is_finite:
            found[np.isnan(found)] = 0.5
        return found

    def scaled(self, coded: Any) -> FloatArray:
        """Return the numbers after the declared scale."""
        low, high = self.scaled_interval
        found = self.encoded(coded)
        return low + found * (high - low) if math.isfinite(low) else found

    def own(self, coded: Any) -> FloatArray:
        """Return the numbers in the column's own units."""
        if isinstance(self.column, Numeric):
            return self.column.decoded(self.encoded(coded))
        return self.encoded(coded) * self.steps

    def indicators(self, coded: Any) -> FloatArray:
        """Return the indicators of the levels; a cell of none of them is even over those listed."""
        cells: Any = coded[:, self.start : self.stop]
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

    def values(self, coded: Any) -> FloatArray:
        """Return the factor's columns for encoded rows, each from its own row alone."""
        if self.has_levels:
            every = self.places[0].levels
            return self.places[0].indicators(coded)[:, [every.index(each) for each in self.levels]]
        if self.factor.expression is None:
            return self.places[0].scaled(coded)[:, None]
        found = self.factor.expression.values({each.name: each.own(coded) for each in self.places})
        if not self.is_spline:
            return found[:, None]
        within = np.clip(np.nan_to_num(found, nan=sum(self.interval) / 2), *self.interval)
        basis: Any = BSpline.design_matrix(within, self.knots, self.factor.degree)
        return np.asarray(basis.toarray()[:, 1:], dtype=np.float64)

    def centred(self, coded: Any, centre: bool) -> FloatArray:
        """Return the columns in [-1, 1]; numbers are from the middle of their bounds, if asked."""
        found = self.values(coded)
        if self.has_levels or self.is_spline or not self.interval.is_finite:
            return found
        low, high = self.interval
        middle = (low + high) / 2 if centre else 0.0
        return (found - middle) / max(abs(low - middle), abs(high - middle))


def check_numbers(factor: Factor, places: Sequence[Place]) -> None:
    """Refuse columns that are no numbers, and marks of missing cells in formulas."""
    for place in places:
        column = place.column
        if not isinstance(column, Numeric | Boolean | Ordinal):
            kind = (
                "to be found" if isinstance(column, Discovered) else f"{column.kind}, not a number"
            )
            raise ValueError(
                f"{factor.text!r} in the formula: the column {place.name!r} is {kind}. List the "
                f'levels of a category, columns={{{place.name!r}: ["…", "…"]}}, or find them: '
                "discover()."
            )
        if column.missing:
            raise NotSupported(
                f"the column {place.name!r} marks missing cells in a feature of its own "
                "(missing = true), which formulas do not have. Leave that out: missing cells are "
                "then in the middle of the bounds."
            )


def check_spline(part: Part) -> None:
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


def reference_of(column: Categorical, factor: Factor, references: Mapping[str, str]) -> str:
    """Return the reference level of a column, which must be one of its levels."""
    wanted = references.get(factor.columns[0], column.reference_level)
    if wanted not in column.values and column.values != ("?",):
        raise ValueError(
            f"the reference level {wanted!r} of {factor.columns[0]!r} is not among its levels; "
            f"{nearest(wanted, column.values)}"
        )
    return wanted
