"""Effects and margins of the columns of a formula, each through all of the terms that it is in.

A column may be in a curve, in products and in transformations at once. Its effect is what the score
does while this column moves and all others stay: at a typical row, or at given rows. A column that
interacts with a category has one effect for each level of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from discreet.estimators.effects import Effect, deviation_of, released_means, released_spread
from discreet.factors import Place
from discreet.tables import Boolean, Categorical, Numeric, Ordinal
from discreet.terms import Terms
from discreet.validate import FloatArray

__all__ = ["Change", "changes", "encoded_rows", "term_effects", "typical_row"]

POINTS = 101
"""Points of a line or a curve."""

FINE = 401
"""Points among which the typical value of a number is found."""

MOST_LEVELS = 6
"""Levels of a category for which the effect of another column is drawn."""

QUARTERS = (0.25, 0.75)
"""Places in the bounds of a number at which the effect of another one is drawn."""

STEP = 1e-4
"""Half the change of an encoded number over which slopes are taken."""

Response = Callable[[FloatArray], tuple[FloatArray, FloatArray, FloatArray]]
"""Prediction of scores, with its first and its second derivative."""


class Change(NamedTuple):
    """Average change of the prediction with a column: its name, value and gradient."""

    name: str
    effect: float
    gradient: FloatArray


def encoded_rows(model: Any, table: Any) -> tuple[FloatArray, FloatArray | None]:
    """Return the columns of a table's rows as the schema encodes them, and their offset."""
    found: Any = model.design_.encode_columns(table)
    sparse: bool = sp.issparse(found)
    rows = np.array(found.toarray() if sparse else found, dtype=np.float64)
    return rows, model.design_.offsets(table)


def typical_row(model: Any) -> FloatArray:
    """Return one encoded row at the released means: shares of levels, and a value of each number.

    The value of a number is that at which its features are nearest to their means. Without
    released means it is in the middle of its bounds, and levels are even.
    """
    terms: Terms = model.design_.terms
    means = released_means(model)
    row = np.zeros((1, terms.schema.width))
    for place in terms.places.values():
        own = [
            (term, group)
            for term, group in zip(terms.bound, terms.groups, strict=True)
            if {each.name for part in term.parts for each in part.places} == {place.name}
        ]
        if isinstance(place.column, Categorical):
            row[0, place.start : place.stop] = _typical_shares(place, own, means)
        elif means is not None and own:
            row[0, place.start] = _typical_number(terms, place, own, means)
        else:
            row[0, place.start] = 0.5 if place.interval.is_finite else 0.0
    return row


def _typical_shares(place: Place, own: list[Any], means: FloatArray | None) -> FloatArray:
    """Return the shares of a category's levels."""
    shares = np.full(len(place.levels), 1.0 / len(place.levels))
    if means is None or not own:
        return shares
    term, group = own[0]
    part = term.parts[0]
    shares[:] = 0.0
    for level, mean in zip(part.levels, means[group.start : group.stop], strict=True):
        shares[place.levels.index(level)] = max(float(mean), 0.0)
    if not part.full:
        shares[place.levels.index(str(part.reference))] = max(0.0, 1.0 - shares.sum())
    return np.asarray(shares / shares.sum())


def _typical_number(terms: Terms, place: Place, own: list[Any], means: FloatArray) -> float:
    """Return the encoded number whose features are nearest to their means."""
    known = np.concatenate([means[group.start : group.stop] for _, group in own])
    if not place.interval.is_finite:
        return float(known[0]) if own[0][0].parts[0].factor.expression is None else 0.0
    grid = np.zeros((FINE, terms.schema.width))
    grid[:, place.start] = np.linspace(0.0, 1.0, FINE)
    features = np.hstack([term.features(grid) for term, _ in own])
    spread = np.maximum(np.ptp(features, axis=0), 1e-12)
    distances = np.square((features - known) / spread).sum(axis=1)
    return float(grid[np.argmin(distances), place.start])


def term_effects(model: Any) -> tuple[Effect, ...]:
    """Return the effects of the columns at a typical row, in the order of the table."""
    terms: Terms = model.design_.terms
    row = typical_row(model)
    found = []
    for place in _used(terms):
        for text, start in _settings(terms, place, row):
            name = f"{place.name} ({text})" if text else place.name
            found.append(_effect(model, terms, place, name, start))
    return tuple(found)


def _used(terms: Terms) -> list[Place]:
    """Return the columns that are in a term, not only in an offset."""
    names = {each.name for term in terms.bound for part in term.parts for each in part.places}
    return [place for place in terms.places.values() if place.name in names]


def _settings(terms: Terms, place: Place, row: FloatArray) -> Iterator[tuple[str, FloatArray]]:
    """Yield rows at which the effect of a column is drawn: at levels of what it interacts with."""
    partners = {
        other.name: other
        for term in terms.bound
        if len(term.parts) > 1
        for part in term.parts
        for other in part.places
        if other.name != place.name
        and place.name in {each.name for own in term.parts for each in own.places}
    }
    categories = [each for each in partners.values() if isinstance(each.column, Categorical)]
    numbers = [each for each in partners.values() if isinstance(each.column, Numeric)]
    if categories:
        partner = categories[0]
        for k, level in enumerate(partner.levels[:MOST_LEVELS]):
            moved = row.copy()
            moved[0, partner.start : partner.stop] = np.eye(len(partner.levels))[k]
            yield f"{partner.name}={level}", moved
    elif numbers and numbers[0].interval.is_finite:
        partner = numbers[0]
        for quarter in QUARTERS:
            moved = row.copy()
            moved[0, partner.start] = quarter
            yield f"{partner.name}={float(partner.own(moved)[0]):.4g}", moved
    else:
        yield "", row


def _effect(model: Any, terms: Terms, place: Place, name: str, row: FloatArray) -> Effect:
    """Return the effect of one column from a row, around its mean or from the reference level."""
    column = place.column
    at: FloatArray | tuple[str, ...]
    if isinstance(column, Categorical):
        at = place.levels
        rows = np.repeat(row, len(at), axis=0)
        rows[:, place.start : place.stop] = np.eye(len(at))
    elif isinstance(column, Boolean | Ordinal):
        at = ("no", "yes") if isinstance(column, Boolean) else column.values
        rows = np.repeat(row, len(at), axis=0)
        rows[:, place.start] = np.linspace(0.0, 1.0, len(at))
    else:
        rows = np.repeat(row, POINTS, axis=0)
        rows[:, place.start] = _reach(model, terms, place)
        at = place.own(rows)
    basis = terms.features(rows)
    middle = basis.mean(axis=0)
    if isinstance(at, tuple):
        middle = basis[_reference(terms, place)]
    values = np.atleast_2d(model.coef_) @ (basis - middle).T
    every = np.ones(len(basis))
    noise = deviation_of(model, basis - middle)
    return Effect(name, at, values, noise, np.ones(len(basis), dtype=bool), every)


def _reference(terms: Terms, place: Place) -> int:
    """Return the number of the level that others are compared with."""
    parts = [part for term in terms.bound for part in term.parts if part.has_levels]
    own = [part.reference for part in parts if part.places[0].name == place.name]
    return place.levels.index(str(own[0])) if own and own[0] in place.levels else 0


def _reach(model: Any, terms: Terms, place: Place) -> FloatArray:
    """Return encoded numbers from one end of the bounds to the other, or where rows are."""
    if place.interval.is_finite:
        return np.linspace(0.0, 1.0, POINTS)
    known = released_spread(model)
    for term, group in zip(terms.bound, terms.groups, strict=True):
        bare = len(term.parts) == 1 and term.parts[0].factor.kind == "column"
        if known is not None and bare and term.parts[0].places[0].name == place.name:
            mean, deviation = (float(each[group.start]) for each in known)
            return np.linspace(mean - 2.5 * deviation, mean + 2.5 * deviation, POINTS)
    return np.linspace(0.0, 1.0, POINTS)


def changes(
    model: Any,
    rows: FloatArray,
    offset: FloatArray | None,
    weights: FloatArray,
    response: Response,
) -> Iterator[Change]:
    """Yield average changes of the prediction over encoded rows, for each column of the formula.

    Numbers change by one unit, by their slope; levels are in place of the reference level.
    ``weights`` have the constant last.
    """
    terms: Terms = model.design_.terms
    known = 0.0 if offset is None else offset

    def mean(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        made = np.column_stack([terms.features(rows), np.ones(len(rows))])
        value, first, _ = response(made @ weights + known)
        return value, first[:, None] * made

    for place in _used(terms):
        if isinstance(place.column, Categorical):
            reference = _reference(terms, place)
            found = [mean(_at_level(place, rows, k)) for k in range(len(place.levels))]
            base, base_gradient = found[reference]
            for k, level in enumerate(place.levels):
                if k != reference:
                    gradient = (found[k][1] - base_gradient).mean(axis=0)
                    effect = float((found[k][0] - base).mean())
                    yield Change(f"{place.name}={level}", effect, gradient)
            continue
        low = rows.copy()
        high = rows.copy()
        own = place.encoded(rows)
        least, most = (0.0, 1.0) if place.interval.is_finite else (-np.inf, np.inf)
        step = 0.5 if isinstance(place.column, Boolean) else STEP
        middle = np.full(len(rows), 0.5) if isinstance(place.column, Boolean) else own
        low[:, place.start] = np.clip(middle - step, least, most)
        high[:, place.start] = np.clip(middle + step, least, most)
        apart = place.own(high) - place.own(low)
        below, below_gradient = mean(low)
        above, above_gradient = mean(high)
        gradient = ((above_gradient - below_gradient) / apart[:, None]).mean(axis=0)
        yield Change(place.name, float(((above - below) / apart).mean()), gradient)


def _at_level(place: Place, rows: FloatArray, level: int) -> FloatArray:
    """Return rows with one level of a category."""
    found = rows.copy()
    found[:, place.start : place.stop] = np.eye(len(place.levels))[level]
    return found
