"""Columns that pairs are made of: their values by public bounds, their cells by released counts.

Nothing here reads a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.column_kinds import check_columns, number_columns
from discreet.design import Group
from discreet.estimators.features import TableFacts, numeric_columns
from discreet.estimators.units import Inputs
from discreet.preparation import FittedBounds
from discreet.preparation.pair_cells import CellColumn
from discreet.tables import Boolean, Numeric, Ordinal
from discreet.validate import FloatArray

__all__ = ["Celled", "candidates", "cell_columns", "celled"]

PARTS = 64
"""Equal parts of the bounds of a number, between which its quantiles are found."""

FINEST = 16
"""The smallest parts, at the ends of the bounds and around 0, are 2^-16 of them wide."""

CLEAR = 5.0
"""Deviations of the noise that the count of a level must exceed for a cell of its own."""

LEAST_LEVEL = 8.0
"""A level has a cell of its own if its share of the rows is at least 1/8 of that of a bin."""

LEVELS_PER_BIN = 2
"""Largest number of levels with cells of their own, over the number of bins of a number."""

OTHER = "(rest)"
"""Name of the cell of all levels that have none of their own; "(other)" is a level of schemas."""

MISSING = "(missing)"
"""Name of the cell of missing numbers."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A column that pairs may be made of; the bounds of its numbers may be found in the fit.

    ``texts`` are the names of the values between public ``edges``.
    """

    name: str
    first: int
    levels: tuple[str, ...] = ()
    bounds: tuple[float, float] | None = None
    edges: tuple[float, ...] = ()
    texts: tuple[str, ...] = ()
    mark: int | None = None


@dataclass(frozen=True, eq=False)
class Celled:
    """Cell of each value of a column, shares of the rows in them, and their names."""

    cells: NDArray[np.intp]
    shares: FloatArray
    labels: tuple[str, ...]


def candidates(inputs: Inputs, declared: Any) -> tuple[Candidate, ...]:
    """Return the columns that pairs may be made of, by what is public about them.

    ``declared`` is the estimator's setting ``columns``, for arrays.
    """
    if inputs.design is not None:
        return tuple(_of_group(group) for group in inputs.design.groups)
    width = inputs.X.shape[1]
    facts = TableFacts(inputs.units.size, width, inputs.names, inputs.booleans)
    names = inputs.names or [f"x{j}" for j in range(width)]
    found = {
        j: Candidate(str(names[j]), j, edges=(0.5,), texts=("no", "yes")) for j in inputs.booleans
    }
    if declared is not None:
        numbers = numeric_columns(number_columns(check_columns(declared)), facts)
        for j, (low, high) in numbers.items():
            public = None if low is None or high is None else (low, high)
            found[j] = Candidate(str(names[j]), j, bounds=public)
    return tuple(found[j] for j in sorted(found))


def _of_group(group: Group) -> Candidate:
    """Return the column of a design's group of features."""
    mark = group.stop - 1 if group.has_mark and not group.has_levels else None
    if group.has_levels:
        return Candidate(group.name, group.start, levels=group.levels)
    if isinstance(group.column, Boolean):
        return Candidate(group.name, group.start, edges=(0.5,), texts=("no", "yes"), mark=mark)
    if isinstance(group.column, Ordinal):
        last = max(len(group.column.values) - 1, 1)
        between = tuple((k + 0.5) / last for k in range(last))
        return Candidate(
            group.name, group.start, edges=between, texts=group.column.values, mark=mark
        )
    known = isinstance(group.column, Numeric) and group.column.is_bounded
    bounds = (0.0, 1.0) if known else None
    return Candidate(group.name, group.start, bounds=bounds, mark=mark)


def cell_columns(found: Sequence[Candidate], fitted: FittedBounds | None) -> tuple[CellColumn, ...]:
    """Return the values of the columns, with edges within public or privately chosen bounds.

    A number without either is left out.
    """
    known: dict[int, tuple[float, float]] = {}
    if fitted is not None:
        ends = zip(fitted.low.tolist(), fitted.high.tolist(), strict=True)
        known = dict(zip(fitted.columns, ends, strict=True))
    columns = []
    for each in found:
        edges: FloatArray = np.array(each.edges)
        if not each.levels and not each.edges:
            bounds = known.get(each.first, each.bounds)
            if bounds is None:
                continue
            edges = number_edges(*bounds)
        columns.append(CellColumn(each.name, each.first, len(each.levels), edges, each.mark))
    return tuple(columns)


def number_edges(low: float, high: float) -> FloatArray:
    """Return edges within bounds: equal parts, and smaller ones at the ends and around 0."""
    width = high - low
    fine = width * np.exp2(-np.arange(6.0, FINEST + 1.0))
    found = [np.linspace(low, high, PARTS + 1)[1:-1], low + fine, high - fine]
    if low < 0.0 < high:
        found += [-fine, fine]
    edges = np.unique(np.concatenate(found))
    return edges[(edges > low) & (edges < high)]


def celled(
    column: CellColumn,
    names: Sequence[str],
    counts: FloatArray,
    deviation: float,
    bins: int,
    decoded: Callable[[FloatArray], FloatArray] | None = None,
) -> Celled:
    """Return the cells that noisy counts of a column's values make of it.

    ``names`` are those of its levels or of the values between public edges; ``decoded`` brings
    numbers to the column's own units.
    """
    if column.levels:
        return _of_levels(names, counts, deviation, bins)
    return _of_numbers(column, names, counts, deviation, bins, decoded)


def _of_levels(names: Sequence[str], counts: FloatArray, deviation: float, bins: int) -> Celled:
    """Return one cell for each frequent level, and one for all others."""
    own = np.maximum(counts, 0.0)
    total = max(float(own.sum()), 1.0)
    least = max(CLEAR * deviation, total / (LEAST_LEVEL * bins))
    order = np.argsort(-counts[:-1], kind="stable")[: LEVELS_PER_BIN * bins]
    frequent = sorted(int(level) for level in order if counts[level] >= least)
    cells = np.full(len(counts), len(frequent), dtype=np.intp)
    cells[frequent] = np.arange(len(frequent))
    labels = (*(str(names[level]) for level in frequent), OTHER)
    return Celled(cells, _shares(own, cells), labels)


def _of_numbers(
    column: CellColumn,
    names: Sequence[str],
    counts: FloatArray,
    deviation: float,
    bins: int,
    decoded: Callable[[FloatArray], FloatArray] | None,
) -> Celled:
    """Return cells between quantiles, and one for missing numbers if they are seen."""
    own = np.maximum(counts, 0.0)
    sums = np.cumsum(own[:-1])
    total = max(float(sums[-1]), 1.0)
    aims = total * np.arange(1, bins) / bins
    ends = np.concatenate([[0.0], sums])
    nearest = np.abs(ends - aims[:, None]).argmin(axis=1)
    inner = nearest[(nearest > 0) & (nearest < len(sums))]
    cuts = np.unique(inner)
    cells = np.searchsorted(cuts, np.arange(len(counts)), side="right").astype(np.intp)
    labels = _interval_names(column.edges, cuts, decoded)
    if names:
        parts = np.split(np.arange(len(names)), cuts)
        labels = tuple(" to ".join(dict.fromkeys((names[k[0]], names[k[-1]]))) for k in parts)
    seen = float(own[-1]) > max(CLEAR * deviation, total / (LEAST_LEVEL * bins))
    if seen:
        cells[-1] = len(cuts) + 1
        labels = (*labels, MISSING)
    else:
        own[-1] = 0.0
        cells[-1] = int(np.bincount(cells[:-1], own[:-1]).argmax())
    return Celled(cells, _shares(own, cells), labels)


def _shares(own: FloatArray, cells: NDArray[np.intp]) -> FloatArray:
    """Return the share of the rows in each cell, none of them quite 0."""
    found = np.bincount(cells, own, minlength=int(cells.max()) + 1)
    found = np.maximum(found, 1e-4 * max(float(found.sum()), 1.0))
    return np.asarray(found / found.sum())


def _interval_names(
    edges: FloatArray, cuts: NDArray[np.intp], decoded: Callable[[FloatArray], FloatArray] | None
) -> tuple[str, ...]:
    """Return the names of the intervals between cuts, to a thousandth of the whole width."""
    if not len(cuts):
        return ("(all)",)
    own = edges if decoded is None else decoded(edges)
    digits = 3 - math.floor(math.log10(max(float(own[-1] - own[0]), 1e-300)))
    texts = [f"{np.round(edge, digits) + 0.0:.6g}" for edge in own[cuts - 1]]
    between = [f"{one} to {two}" for one, two in pairwise(texts)]
    return (f"≤ {texts[0]}", *between, f"> {texts[-1]}")
