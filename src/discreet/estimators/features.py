"""Rule behind ``features``: choose the features of a model by public numbers alone.

The rule sees the declared numeric columns, the size of the table and the budget, never a row.
docs/features.md has the rule in formulas and the experiments behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.core import Budget
from discreet.preparation.bounds import Bounds
from discreet.preparation.features import DEGREES, Expansion, Fourier, Splines
from discreet.preparation.steps import Step
from discreet.validate import FloatArray

KINDS = ("auto", "linear", "additive", "kernel", "pairs")
"""Values of ``features``."""

OF_COLUMNS = {"pairs": "auto"}
"""Features of single columns, by the value of ``features`` if it has more than these."""

PIECES = {8: 12.0, 5: 12.0, 3: 12.0, 2: 12.0, 1: 10.0}
"""Numbers of pieces of a column's splines, of which the rule takes the first that it can afford:
n·μ/k must be this many times the number of splines that are added."""

REGRESSION = 1.25
"""For regression, this many times as much: its second moment has noise in each pair of splines."""

ROWS_PER_FEATURE = 50.0
"""Rows per feature, at least: fewer would overfit, whatever the budget."""

BINS = 8
"""Bins of a column of shape "bins"."""

BOUNDS_SHARE = 0.1
"""Share of the budget for bounds of columns without public ones."""

SIGNAL_PER_COSINE = 20.0
"""n·μ/k per Fourier feature."""

COSINES = (20, 500)
"""Smallest and largest number of Fourier features."""

WIDTH_OF_KERNEL = 6.0
"""γ of the kernel times the number of columns, which are brought to [0, 1]."""

SEED = 20070912
"""Public seed of the frequencies."""


@dataclass(frozen=True)
class NumericColumn:
    """A declared numeric column: its number or name, public bounds if there are any, its shape."""

    key: int | str
    low: float | None
    high: float | None
    shape: str


@dataclass(frozen=True)
class TableFacts:
    """Public numbers of a table: its size, and its columns' names and types, if they have any."""

    n_rows: int
    n_features: int
    names: Sequence[str] | None = None
    booleans: tuple[int, ...] = ()

    @property
    def numbers(self) -> tuple[NumericColumn, ...]:
        """All columns but the booleans, without public bounds."""
        every = range(self.n_features)
        return tuple(
            NumericColumn(j, None, None, "smooth") for j in every if j not in self.booleans
        )


@dataclass(frozen=True)
class FeatureChoice:
    """Chosen features: their number, an expansion of columns, a step that bounds some before.

    The last ``known`` features are known to be numbers of about 1 at most.
    """

    width: int
    expansion: Expansion | None = None
    bounds: Bounds | None = None
    known: int = 0


def choose(
    features: str,
    numeric: Mapping[int | str, tuple[Any, ...]] | None,
    table: TableFacts,
    budget: Budget,
    *,
    given: Sequence[Step] = (),
    regression: bool = False,
) -> FeatureChoice:
    """Choose the features for a table of this size.

    ``given`` are the steps of the caller's preparation. If no column is declared, ``"additive"``
    and ``"kernel"`` take all of them but the booleans.
    """
    linear = FeatureChoice(table.n_features)
    features = OF_COLUMNS.get(features, features)
    if features == "linear" or (features == "auto" and (numeric is None or budget.pure)):
        return linear
    columns = _declared(numeric) or table.numbers
    if not columns:
        return linear
    at = [_index(column.key, table.names, table.n_features) for column in columns]
    if len(set(at)) < len(at):
        raise ValueError("columns names a column twice, by number and by name.")
    bounded = {j for step in given if isinstance(step, Bounds) for j in step.columns}
    bounds = _bounds(dict(zip(at, columns, strict=True)), bounded)
    left = 1.0 if bounds is None else 1.0 - BOUNDS_SHARE
    strength = signal(table.n_rows, budget) * left**0.5
    low, high = _ends(columns, [j in bounded for j in at])
    kept = table.n_features - len(at)
    if features == "kernel":
        count = int(np.clip(strength / SIGNAL_PER_COSINE, *COSINES))
        gamma = WIDTH_OF_KERNEL / len(at)
        cosines = Fourier.draw(at, low, high, count=count, gamma=gamma, seed=SEED)
        return FeatureChoice(kept + cosines.count, cosines, bounds)
    strength /= REGRESSION if regression else 1.0
    size = (table.n_rows, table.n_features, len(at))
    pieces = pieces_for(*size, strength, least=features == "additive")
    if pieces == 0:
        return linear
    counts = tuple(max(pieces, BINS) if column.shape == "bins" else pieces for column in columns)
    degrees = tuple(DEGREES[column.shape] for column in columns)
    splines = Splines(tuple(at), low, high, counts, degrees)
    return FeatureChoice(kept + splines.count, splines, bounds, known=splines.count)


def numeric_columns(
    numeric: Mapping[int | str, tuple[Any, ...]] | None, table: TableFacts
) -> dict[int, tuple[float | None, float | None]]:
    """Return the bounds of the declared numeric columns of an array, by their numbers."""
    return {
        _index(each.key, table.names, table.n_features): (each.low, each.high)
        for each in _declared(numeric)
    }


def _declared(
    numeric: Mapping[int | str, tuple[Any, ...]] | None,
) -> tuple[NumericColumn, ...]:
    """Return the declared columns: bounds, or None for both, and the shape of each."""
    if numeric is None:
        return ()
    return tuple(NumericColumn(key, *known) for key, known in numeric.items())


def _ends(
    columns: Sequence[NumericColumn], bounded: Sequence[bool]
) -> tuple[FloatArray, FloatArray]:
    """Return the bounds of columns: public ones, or 0 and 1 where a `Bounds` step brings them."""
    ends = [
        (0.0, 1.0) if column.low is None or by_step else (column.low, column.high)
        for column, by_step in zip(columns, bounded, strict=True)
    ]
    low, high = np.array(ends, dtype=np.float64).T
    return low, high


def _bounds(columns: Mapping[int, NumericColumn], bounded: set[int]) -> Bounds | None:
    """Return a step that bounds the columns without public bounds, if there are any.

    ``bounded`` are those that a step of the caller's preparation bounds.
    """
    unbounded = [j for j, each in columns.items() if each.low is None and j not in bounded]
    if unbounded and bounded:
        raise ValueError(
            f"columns {unbounded[:10]} have no bounds, and the preparation has a Bounds step "
            "for others. Name them in it, or give them public bounds in columns."
        )
    return Bounds(unbounded, share=BOUNDS_SHARE) if unbounded else None


def pieces_for(
    n_rows: int, n_features: int, columns: int, signal: float, *, least: bool = False
) -> int:
    """Return the number of pieces that each column's splines can have; 0 if they would not pay.

    A column of K pieces adds K + 2 features. With ``least`` there is one piece at least.
    """
    for pieces, least_signal in PIECES.items():
        added = columns * (pieces + 2)
        if signal >= least_signal * added and n_rows >= ROWS_PER_FEATURE * (n_features + added):
            return pieces
    return 1 if least else 0


def signal(n_rows: int, budget: Budget) -> float:
    """Return n·μ/k; of a pure budget n·ε/k."""
    mu = budget.epsilon if budget.pure else budget.to_gdp().mu
    return n_rows * mu / budget.relation.rows_changed


def _index(key: int | str, names: Sequence[str] | None, n_features: int) -> int:
    """Return the number of a column."""
    if isinstance(key, str):
        known = [] if names is None else list(names)
        if key not in known:
            raise ValueError(
                f"columns names the column {key!r}, which X does not have. Names need a DataFrame; "
                "otherwise give the number of the column, counted from 0."
            )
        return known.index(key)
    if not 0 <= key < n_features:
        raise ValueError(
            f"columns names column {key}, but X has {n_features} columns, counted from 0."
        )
    return key
