"""Worst-case neighbouring tables for linear models.

In every pair one row differs and nothing else does. Under add/remove one table lacks the row; the
number of rows is public in every guarantee of this library, so what runs on it is told the number
of the other. Where that cannot be told (an estimator counts what it is given), a row of zeros in a
model without an intercept stands for the missing one: sums of gradients do not see it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core import Relation

__all__ = ["Pair", "own", "two_steps", "worst_cases"]

FloatArray = NDArray[np.float64]
Table = tuple[FloatArray, NDArray[Any]]

BEYOND = 1e3
"""How many times longer than any bound a row is that shows whether bounds are kept."""


@dataclass(frozen=True)
class Pair:
    """Two tables that differ in one row.

    Attributes
    ----------
    name
        What is special about them.
    relation
        The relation under which they are neighbours.
    tables
        (X, y) of world 0 and of world 1; the first may have one row fewer.
    direction
        Where the changed row pulls the weights (the intercept's last, if there is one).
    fit_intercept
        Whether the model is to have an intercept.
    """

    name: str
    relation: Relation
    tables: tuple[Table, Table]
    direction: FloatArray
    fit_intercept: bool = False

    def __post_init__(self) -> None:
        """Refuse tables that are not neighbours."""
        (X, y), (other, other_y) = self.tables
        if len(y) == len(other_y) - 1 and self.relation is Relation.ADD_REMOVE:
            same = np.array_equal(X, other[1:]) and np.array_equal(y, other_y[1:])
            changed = 1 if same else 2
        elif X.shape == other.shape and y.shape == other_y.shape:
            changed = int(np.count_nonzero(np.any(other != X, axis=1) | (other_y != y)))
        else:
            raise ValueError("The tables of a pair have as many rows, or one lacks the first.")
        if changed != 1:
            raise ValueError("Neighbours differ in exactly one row; these do not.")

    @property
    def n_rows(self) -> int:
        """The public number of rows: that of the larger table."""
        return len(self.tables[1][1])

    @property
    def changed(self) -> tuple[tuple[FloatArray, Any], tuple[FloatArray, Any]]:
        """Both versions of the row that differs, with labels; the tables must have one height."""
        (X, y), (other, other_y) = self.tables
        at = int(np.argmax(np.any(other != X, axis=1) | (other_y != y)))
        return (X[at], y[at]), (other[at], other_y[at])

    @property
    def n_features(self) -> int:
        """Columns of each table."""
        return int(self.tables[0][0].shape[1])


def own(tables: tuple[Any, Any], *, fit_intercept: bool) -> Pair:
    """The pair of a caller's own tables of one height; the direction is that of the difference."""
    (X, y), (other, other_y) = ((np.asarray(X, dtype=float), np.asarray(y)) for X, y in tables)
    if X.ndim != 2 or X.shape != other.shape or y.shape != other_y.shape:
        raise ValueError(
            "The tables must have the same shape, because the number of rows is public. Put a row "
            "that does nothing in the place of one that is missing."
        )
    at = int(np.argmax(np.any(other != X, axis=1) | (other_y != y)))
    numbers = np.concatenate([y, other_y])
    values, places = np.unique(numbers, return_inverse=True)
    if values.size <= 2 or numbers.dtype.kind not in "iuf":  # classes: from −1 to 1
        numbers = 2 * places / max(values.size - 1, 1) - 1
    sign, other_sign = numbers[at], numbers[len(y) + at]
    pull = other_sign * other[at] - sign * X[at]
    if fit_intercept:
        pull = np.append(pull, other_sign - sign)
    length = float(np.linalg.norm(pull))
    direction = pull / length if length else pull
    name = "the caller's tables"
    return Pair(name, Relation.REPLACE_ONE, ((X, y), (other, other_y)), direction, fit_intercept)


def worst_cases(
    relation: Relation | str,
    *,
    norm: float,
    n_rows: int = 6,
    n_features: int = 2,
    regression: bool = False,
    same_height: bool = False,
) -> list[Pair]:
    """All built-in pairs for one relation, the most telling first.

    Parameters
    ----------
    relation : Relation
        Which neighbours.
    norm : float
        The bound on a row's norm, or a length at which its gradient is clipped.
    n_rows : int
        Rows in the larger table; the changed one is the first.
    n_features : int
        Columns: with one alone, no noise goes elsewhere; only with more there are other rows at
        right angles.
    regression : bool
        Whether targets are numbers in [-1, 1] instead of −1 and 1.
    same_height : bool
        Under add/remove: put zeros in the place of the missing row. Then only pairs without an
        intercept remain.
    """
    relation = Relation.parse(relation)
    y = np.where(np.arange(n_rows) % 2 == 0, 1.0, -1.0)
    feature, nothing = np.eye(n_features)[0], np.zeros(n_features)
    right, far = norm * feature, BEYOND * norm * feature
    constant, both = np.append(nothing, 1.0), np.append(right, 1.0) / np.hypot(norm, 1.0)
    alone = np.zeros((n_rows, n_features))
    crowd = alone.copy()
    crowd[1:, 1:] = norm * 0.5  # at right angles to the changed row, labels of both kinds

    def with_row(X: FloatArray, row: FloatArray, label: float) -> Table:
        X, labels = X.copy(), y.copy()
        X[0], labels[0] = row, label
        return X, labels

    def without(X: FloatArray) -> Table:
        if same_height:
            return with_row(X, nothing, 0.0 if regression else 1.0)
        return X[1:], y[1:]

    def added(name: str, X: FloatArray, row: FloatArray, pull: FloatArray) -> Pair:
        tables = (without(X), with_row(X, row, 1.0))
        return Pair(name, relation, tables, pull, fit_intercept=pull.size > n_features)

    def rotated(name: str, X: FloatArray, row: FloatArray, pull: FloatArray) -> Pair:
        """The row turned round; with an intercept its label instead, which turns that, too."""
        other = (-row, 1.0) if pull.size == n_features else (row, -1.0)
        tables = (with_row(X, *other), with_row(X, row, 1.0))
        return Pair(name, relation, tables, pull, fit_intercept=pull.size > n_features)

    make = added if relation is Relation.ADD_REMOVE else rotated
    pairs = [
        make("one row alone", alone, right, feature),
        make("one row at right angles to the others", crowd, right, feature),
        make("one row far beyond the bound", crowd, far, feature),
    ]
    if n_features == 1:
        del pairs[1]
    if relation is Relation.REPLACE_ONE or not same_height:
        pairs.append(make("one row where only the intercept matters", alone, nothing, constant))
        pairs.append(make("one row with an intercept", alone, right, both))
    if relation is Relation.REPLACE_ONE:
        tables = (with_row(alone, right, -1.0), with_row(alone, right, 1.0))
        pairs.append(Pair("one row's label", relation, tables, feature))
    return pairs


def two_steps(epsilon: float, delta: float) -> tuple[float, float]:
    """What an (ε, δ) promise for neighbours says of tables two steps apart."""
    return 2 * epsilon, delta * (1 + math.exp(epsilon))
