"""Features of a fitted model by column: which of them belong to a column, and what they mean.

A column is a number with a straight line or a curve, or a list of levels; either may have a mark of
missing cells. Tables, figures and explanations of a model are by column, and all use this list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from discreet.design import Design, Group
from discreet.errors import NotSupported
from discreet.preparation.features import Splines
from discreet.tables import Boolean, Column, Numeric, Ordinal
from discreet.tables.columns import MISSING
from discreet.terms import Made
from discreet.validate import FloatArray

__all__ = ["ColumnFeatures", "column_names", "feature_names", "layout", "records"]


@dataclass(frozen=True)
class ColumnFeatures:
    """Features of one column, by their places among the features of a model.

    Attributes
    ----------
    name : str
        Name of the column.
    column : Column or None
        What is declared of it; None for a column of an array.
    encoded : int
        First encoded column: the column of X, unless a design makes others of it.
    number : int or None
        The feature that is the number itself.
    curve : range
        Features of a curve of the number; empty without one.
    levels, places : tuple
        Levels with their features. A reference level that has none is not among them.
    mark : int or None
        The feature that marks missing cells of a number.
    reference : str or None
        The level that others are compared with.
    contrasts : bool
        True if the reference has no feature.
    made : range
        Features of a term of a formula that is no single column: a product or a spline.
    """

    name: str
    column: Column | None
    encoded: int
    number: int | None = None
    curve: range = range(0)
    levels: tuple[str, ...] = ()
    places: tuple[int, ...] = ()
    mark: int | None = None
    reference: str | None = None
    contrasts: bool = False
    made: range = range(0)

    @property
    def features(self) -> list[int]:
        """All features of the column."""
        own = [] if self.number is None else [self.number]
        mark = [] if self.mark is None else [self.mark]
        return [*own, *self.curve, *self.places, *mark, *self.made]

    @property
    def kind(self) -> str:
        """Kind of the column, as a schema names it; "made" for a term of a formula."""
        if self.column is not None:
            return self.column.kind
        return "categorical" if self.places else "numeric"


def column_names(
    model: Any, names: Sequence[str] | None = None, design: Design | None = None
) -> list[str]:
    """Return the given names of encoded columns, those of a design or of X, or x0, x1 and so on."""
    design = model.design_ if design is None else design
    if names is None and design is not None:
        names = design.feature_names
    elif names is None:
        names = getattr(model, "feature_names_in_", None)
    wide = model.n_encoded_
    columns = [f"x{j}" for j in range(wide)] if names is None else [str(name) for name in names]
    if len(columns) != wide:
        raise ValueError(f"names must have one entry per column of X, {wide}; got {len(columns)}.")
    return columns


def feature_names(
    model: Any, names: Sequence[str] | None = None, design: Design | None = None
) -> list[str]:
    """Return the names of the features that the coefficients belong to."""
    found: list[str] = model.features_.names(column_names(model, names, design))
    return found


def layout(
    model: Any, names: Sequence[str] | None = None, design: Design | None = None
) -> tuple[ColumnFeatures, ...]:
    """Return the columns of a model with their features.

    ``names`` are those of the encoded columns; ``column=category`` is a category of a column, and
    ``column=(missing)`` marks missing cells. A design knows its columns by itself; ``design`` is
    one that made the rows of a model which has none.
    """
    design = model.design_ if design is None else design
    made = model.features_.expansion
    if made is not None and not isinstance(made, Splines):
        raise NotSupported(
            'a model with features="kernel" has no effects of single columns. Use '
            'features="additive".'
        )
    columns = column_names(model, names, design)
    places, curves = _places(made, len(columns))
    if design is not None and names is None:
        return tuple(_of_group(group, places, curves) for group in design.groups)
    return _of_names(columns, places, curves)


def _places(made: Splines | None, wide: int) -> tuple[dict[int, int], dict[int, range]]:
    """Return the feature of each encoded column that stays, and the features of each curve."""
    kept = range(wide) if made is None else made.kept(wide)
    places = {int(column): feature for feature, column in enumerate(kept)}
    curves: dict[int, range] = {}
    first = len(places)
    if made is not None:
        for column, width in zip(made.columns, made.widths, strict=True):
            curves[column] = range(first, first + width)
            first += width
    return places, curves


def _of_group(group: Group, places: dict[int, int], curves: dict[int, range]) -> ColumnFeatures:
    """Return the features of a column of a design."""
    found = ColumnFeatures(group.name, group.column, group.start, reference=group.reference)
    if group.has_levels:
        own = tuple(places[j] for j in range(group.start, group.stop))
        return replace(found, levels=group.levels, places=own, contrasts=group.contrasts)
    if isinstance(group.column, Made):
        return replace(found, made=range(group.start, group.stop))
    mark = places[group.stop - 1] if group.has_mark else None
    number = places.get(group.start)
    return replace(found, number=number, curve=curves.get(group.start, range(0)), mark=mark)


def _of_names(
    columns: Sequence[str], places: dict[int, int], curves: dict[int, range]
) -> tuple[ColumnFeatures, ...]:
    """Return the features of columns that are known by names alone, those with curves last."""
    numbers: dict[str, ColumnFeatures] = {}
    levels: dict[str, list[tuple[str, int, int]]] = {}
    for at in [*places, *curves]:
        name, mark, level = columns[at].partition("=")
        if mark and at in places:
            levels.setdefault(name, []).append((level, places[at], at))
        else:
            curve = curves.get(at, range(0))
            numbers[columns[at]] = ColumnFeatures(
                columns[at], None, at, number=places.get(at), curve=curve
            )
    found: dict[str, ColumnFeatures] = {}
    for name, members in levels.items():
        texts, own, first = zip(*members, strict=True)
        if texts == (MISSING,) and name in numbers:
            numbers[name] = replace(numbers[name], mark=own[0])
        else:
            found[f"{name}="] = ColumnFeatures(name, None, first[0], levels=texts, places=own)
    found |= numbers
    order = sorted(found.values(), key=lambda each: (bool(each.curve), min(each.features)))
    return tuple(order)


def records(model: Any) -> list[dict[str, Any]]:
    """Return what a model knows of its columns, as plain data: one record for each."""
    names = feature_names(model)
    made = model.features_.expansion
    if made is not None and not isinstance(made, Splines):  # features of several columns
        return [{"name": name, "kind": "numeric"} | _declared(None) for name in column_names(model)]
    return [
        {"name": each.name, "kind": each.kind}
        | _declared(each.column)
        | {"features": [names[k] for k in each.features]}
        for each in layout(model)
    ]


def _declared(column: Column | None) -> dict[str, Any]:
    """Return bounds or levels of a column, and the unit of its coefficient."""
    about: dict[str, Any] = {"bounds": None, "levels": None, "reference": None, "unit": "1"}
    if isinstance(column, Numeric):
        bounds = (column.low, column.high) if column.is_bounded else None
        return about | {"bounds": bounds, "unit": scaled_name("1", column)}
    if isinstance(column, Boolean):
        return about | {"levels": ["no", "yes"], "reference": "no", "unit": "yes"}
    if isinstance(column, Ordinal):
        return about | {"levels": list(column.values), "unit": "step"}
    values = getattr(column, "values", None)
    if values is None:
        return about
    reference = getattr(column, "reference_level", None)
    return about | {"levels": list(values), "reference": reference, "unit": "level"}


def scaled_name(name: str, column: Column | None) -> str:
    """Return the name of a number after its scale: log(1 + income), sqrt(income)."""
    scale = getattr(column, "scale", "linear")
    if scale == "log":
        return f"log(1 + {name})" if name != "1" else "1 of log(1 + x)"
    if scale == "sqrt":
        return f"sqrt({name})" if name != "1" else "1 of sqrt(x)"
    return name


def unit_of(model: Any, part: ColumnFeatures) -> tuple[float, float]:
    """Return the number at which the feature of a number is 0, and the width of its unit.

    Both are after the scale of the column; a step of an ordinal column is 1.
    """
    low, span = 0.0, 1.0
    if isinstance(part.column, Numeric) and part.column.is_bounded:
        ends: FloatArray = part.column.scaled([part.column.low, part.column.high])
        low = float(ends[0])
        span = float(ends[1] - ends[0])
    elif isinstance(part.column, Ordinal):
        span = float(len(part.column.values) - 1)
    bounds = model.features_.bounds
    if bounds is not None and part.encoded in bounds.columns:
        j = bounds.columns.index(part.encoded)
        low += span * float(bounds.origin[j])
        span *= float(bounds.unit[j])
    return low, span
