"""Pairs of columns in a fitted model: a table of numbers for each, added to the score.

Everything here is made of released and public numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from discreet.preparation.pair_cells import CellColumn, values_of
from discreet.validate import FloatArray, number, vector

__all__ = ["PairSearch", "PairTerm", "PairTerms"]

Cells = NDArray[np.intp]
"""Cell of each value of a column."""


@dataclass(frozen=True)
class PairSearch:
    """Released results of the search for pairs, and the cost of the search.

    Attributes
    ----------
    chosen : tuple of (str, str)
        Columns of the pairs that were chosen, whether they were kept or not.
    scores, chance : tuple of float
        Noisy score of each chosen pair, and the score that chance alone would give it.
    threshold : float
        Sum of the scores that had to be exceeded; without any interaction it is in about one fit of
        twenty.
    share : float
        Share of the fit's μ² that the search cost.
    pairs : int
        Number of pairs that were compared.
    reason : str
        Why the model has no pairs; empty if it has some.
    """

    chosen: tuple[tuple[str, str], ...] = ()
    scores: tuple[float, ...] = ()
    chance: tuple[float, ...] = ()
    threshold: float = 0.0
    share: float = 0.0
    pairs: int = 0
    reason: str = ""


@dataclass(frozen=True, eq=False)
class PairTerm:
    """The table of one pair: what a row adds to the score, by the cells of two columns.

    Attributes
    ----------
    first, second : int
        Numbers of the columns among those of `PairTerms`.
    values : array
        Numbers of the cells, one row per cell of the first column; with several classes, one such
        table for each class.
    deviation : array
        Standard deviation of the known noise in each cell, about; that of all classes.
    kept : float
        Share of the fitted numbers that noise and sampling do not explain.
    """

    first: int
    second: int
    values: FloatArray
    deviation: FloatArray
    kept: float


@dataclass(frozen=True, eq=False)
class PairTerms:
    """Pairs of columns of a model, with the cells of their columns.

    Attributes
    ----------
    columns : tuple of CellColumn
        The columns, with the values of a row.
    cells : tuple of array
        Cell of each value.
    shares : tuple of array
        Noisy share of the rows in each cell of each column.
    labels : tuple of tuple of str
        Names of the cells.
    terms : tuple of PairTerm
        The pairs.
    search : PairSearch
        How they were found.
    """

    columns: tuple[CellColumn, ...] = ()
    cells: tuple[Cells, ...] = ()
    shares: tuple[FloatArray, ...] = ()
    labels: tuple[tuple[str, ...], ...] = ()
    terms: tuple[PairTerm, ...] = ()
    search: PairSearch = PairSearch()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the pairs, such as "age × job"."""
        return tuple(" × ".join(self.columns_of(term)) for term in self.terms)

    def columns_of(self, term: PairTerm) -> tuple[str, str]:
        """Return the names of the columns of a pair."""
        return self.columns[term.first].name, self.columns[term.second].name

    @property
    def outputs(self) -> int:
        """Number of scores of a row: 1, or the number of classes if there are more than two."""
        return len(self.terms[0].values) if self.terms and self.terms[0].values.ndim == 3 else 1

    def contributions(self, X: Any) -> FloatArray:
        """Return what each pair adds to the scores of encoded rows, (n_rows, n_pairs, outputs)."""
        found = np.zeros((X.shape[0], len(self.terms), self.outputs))
        values = values_of(self.columns, X, np.intp)
        for p, term in enumerate(self.terms):
            one = self.cells[term.first][values[:, term.first]]
            two = self.cells[term.second][values[:, term.second]]
            found[:, p] = np.atleast_2d(term.values[..., one, two]).T
        return found

    def scores(self, X: Any) -> FloatArray:
        """Return what all pairs together add to the scores of encoded rows, each by itself."""
        total = np.zeros((X.shape[0], self.outputs))
        found = self.contributions(X)
        for p in range(len(self.terms)):
            total += found[:, p]
        return total

    def cell_names(self, X: Any) -> tuple[str, ...]:
        """Return the names of the cells of each pair, for one encoded row."""
        values = values_of(self.columns, X)[0].astype(np.intp) if self.terms else ()
        own = [
            labels[cells[value]]
            for labels, cells, value in zip(self.labels, self.cells, values, strict=True)
        ]
        return tuple(f"{own[term.first]}, {own[term.second]}" for term in self.terms)

    def means(self) -> FloatArray:
        """Return the mean of each pair's numbers, (n_pairs, outputs), as of independent columns."""
        found = [self.mean_of(term) for term in self.terms]
        return np.array(found, dtype=np.float64).reshape(len(found), self.outputs)

    def mean_of(self, term: PairTerm) -> FloatArray:
        """Return the mean of a pair's numbers over rows, as if its columns were independent."""
        half = term.values @ self.shares[term.second]
        return np.asarray(half @ self.shares[term.first])

    @property
    def cost(self) -> str:
        """Sentence about the search: what was compared, and its share of the budget."""
        found = self.search
        if not found.share:
            return "No pairs of columns were looked for."
        return (
            f"Pairs of columns: {len(self.terms)} of {found.pairs:,} are in the model; the search "
            f"cost {100 * found.share:.2g} % of the budget (μ²)."
        )

    def summary(self) -> list[str]:
        """Return sentences about the pairs, for the table of a model."""
        lines = [self.cost]
        if self.search.reason:
            lines.append(self.search.reason)
        if self.terms:
            lines.append(
                f"In the model: {', '.join(self.names)}. Coefficients are those of single columns; "
                "plot_effects draws the pairs."
            )
        return lines

    def text(self) -> str:
        """Return the chosen pairs, what they add and what the search cost, as text."""
        lines = [self.cost]
        if self.search.reason:
            lines.append(self.search.reason)
        width = max((len(name) for name in self.names), default=0)
        for name, term in zip(self.names, self.terms, strict=True):
            low = term.values.min()
            high = term.values.max()
            lines.append(
                f"  {name:<{width}}  {low:+.3f} to {high:+.3f}, "
                f"noise {np.median(term.deviation):.3f}"
            )
        return "\n".join(lines)

    def plain(self) -> dict[str, Any]:
        """Return the pairs as plain data, for model files."""
        columns = [
            {
                "name": column.name,
                "first": column.first,
                "levels": column.levels,
                "edges": np.asarray(column.edges).tolist(),
                "mark": column.mark,
                "cells": np.asarray(cells).tolist(),
                "shares": np.asarray(shares).tolist(),
                "labels": list(labels),
            }
            for column, cells, shares, labels in zip(
                self.columns, self.cells, self.shares, self.labels, strict=True
            )
        ]
        terms = [
            {
                "first": term.first,
                "second": term.second,
                "values": np.asarray(term.values).tolist(),
                "deviation": np.asarray(term.deviation).tolist(),
                "kept": float(term.kept),
            }
            for term in self.terms
        ]
        found = self.search
        search = {
            "chosen": [list(pair) for pair in found.chosen],
            "scores": list(found.scores),
            "chance": list(found.chance),
            "threshold": found.threshold,
            "share": found.share,
            "pairs": found.pairs,
            "reason": found.reason,
        }
        return {"columns": columns, "terms": terms, "search": search}

    @classmethod
    def from_plain(cls, data: Any, width: int, outputs: int = 1) -> Self:
        """Return the pairs that `plain` was called on; anything else is a ``ValueError``.

        ``width`` is the number of encoded columns, ``outputs`` that of a row's scores.
        """
        several = (outputs,) if outputs > 1 else ()
        try:
            parts = [_column(entry, width) for entry in data["columns"]]
            found = dict(data["search"])
            found["chosen"] = tuple((str(one), str(two)) for one, two in found["chosen"])
            found["scores"] = tuple(number("scores", each) for each in found["scores"])
            found["chance"] = tuple(number("chance", each) for each in found["chance"])
            search = PairSearch(**found)
            counts = [len(labels) for _, _, _, labels in parts]
            terms = tuple(_term(entry, counts, several) for entry in data["terms"])
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError("pairs must have columns, terms and search.") from error
        columns, cells, shares, labels = zip(*parts, strict=True) if parts else ((), (), (), ())
        return cls(columns, cells, shares, labels, terms, search)


def _column(
    entry: Mapping[str, Any], width: int
) -> tuple[CellColumn, Cells, FloatArray, tuple[str, ...]]:
    """Return a column, its cells, their shares and their labels from plain data, checked."""
    own = CellColumn(
        str(entry["name"]), entry["first"], entry["levels"], entry["edges"], entry["mark"]
    )
    cells = np.array(entry["cells"])
    shares = vector("shares", entry["shares"])
    labels = tuple(str(label) for label in entry["labels"])
    last = max(own.first + max(own.levels, 1) - 1, own.mark or 0)
    sound = cells.shape == (own.count,) and cells.dtype.kind == "i" and last < width
    sound = sound and cells.min() >= 0 and cells.max() < len(labels) == len(shares)
    if not sound:
        raise ValueError(f"the cells of {own.name!r} are not those of its values.")
    return own, cells.astype(np.intp), shares, labels


def _term(entry: Mapping[str, Any], counts: list[int], outputs: tuple[int, ...]) -> PairTerm:
    """Return the table of a pair from plain data, checked."""
    first, second = entry["first"], entry["second"]
    known = range(len(counts))
    if type(first) is not int or type(second) is not int or not {first, second} <= set(known):
        raise ValueError("a pair must name two of its columns.")
    shape = (counts[first], counts[second])
    tables = []
    for name, before in (("values", outputs), ("deviation", ())):
        table = np.array(entry[name], dtype=np.float64)
        if table.shape != (*before, *shape) or not np.isfinite(table).all():
            raise ValueError(f"{name} of a pair must be finite numbers of the shape {shape}.")
        tables.append(table)
    kept = number("kept", entry["kept"], least=0.0, most=1.0)
    return PairTerm(first, second, tables[0], tables[1], kept)
