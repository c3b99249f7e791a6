"""Worst-case neighbouring tables for linear models.

In every pair exactly one row differs, or one person with all of their rows. Under add/remove one
table lacks the row. The number of rows is public in every guarantee of this library (for people,
their number), so solvers get that of the larger table in both runs. An estimator counts the rows it
is given; there a row of zeros, in a model without an intercept, replaces the missing one: it
contributes nothing to sums of gradients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core import Relation
from discreet.validate import FloatArray

Table = tuple[FloatArray, NDArray[Any]]

OWN = "the caller's tables"  # name of a pair that is not built in
BEYOND = 1e3  # norm, in units of the bound, of a row that tests whether the bound is enforced
PERSON_ROWS = (40, 5, 1)  # of the person in whom tables differ


@dataclass(frozen=True)
class Pair:
    """Two tables (X, y) that differ in one row; the first may have one row fewer.

    ``direction`` is the unit vector in which the changed row moves the weights (the intercept's
    last, if any). With ``groups``, the person of each row of either table, all rows of person 0
    differ, and the first table may lack them.
    """

    name: str
    relation: Relation
    tables: tuple[Table, Table]
    direction: FloatArray
    fit_intercept: bool = False
    groups: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None

    def __post_init__(self) -> None:
        """Raise if the tables are not neighbours."""
        (X, y), (other, other_y) = self.tables
        if self.groups is not None:
            kept, other_kept = (np.flatnonzero(ids) for ids in self.groups)
            added = self.relation is Relation.ADD_REMOVE and len(kept) == len(y)
            if not (
                np.array_equal(self.groups[0][kept], self.groups[1][other_kept])
                and np.array_equal(X[kept], other[other_kept])
                and np.array_equal(y[kept], other_y[other_kept])
                and len(other_kept) < len(other_y)
                and (added or len(kept) < len(y))
            ):
                raise ValueError("Neighbours differ in the rows of person 0; these do not.")
            return
        if len(y) == len(other_y) - 1 and self.relation is Relation.ADD_REMOVE:
            neighbours = np.array_equal(X, other[1:]) and np.array_equal(y, other_y[1:])
        else:
            same_shape = X.shape == other.shape and y.shape == other_y.shape
            neighbours = same_shape and np.count_nonzero(_changes(*self.tables)) == 1
        if not neighbours:
            raise ValueError(
                "Neighbours have as many rows as each other and differ in exactly one row, or "
                "under add/remove the first lacks row 0 of the second; these do not."
            )

    @property
    def n_rows(self) -> int:
        """Return the public number of rows, or people: that of the larger table."""
        if self.groups is not None:
            return int(self.groups[1].max()) + 1
        return len(self.tables[1][1])

    @property
    def changed(self) -> tuple[tuple[FloatArray, Any], tuple[FloatArray, Any]]:
        """Return both versions of the differing row with labels, for tables of the same height."""
        (X, y), (other, other_y) = self.tables
        at = int(np.argmax(_changes(*self.tables)))
        return (X[at], y[at]), (other[at], other_y[at])

    @property
    def n_features(self) -> int:
        """Return the number of columns."""
        return int(self.tables[0][0].shape[1])


def _changes(table: Table, other: Table) -> NDArray[np.bool_]:
    differs: NDArray[np.bool_] = np.any(other[0] != table[0], axis=1) | (other[1] != table[1])
    return differs


def own(tables: tuple[Any, Any], *, fit_intercept: bool) -> Pair:
    """Return the pair of a caller's own tables; the direction is that of their difference."""
    (X, y), (other, other_y) = ((np.asarray(X, dtype=float), np.asarray(y)) for X, y in tables)
    if X.ndim != 2 or X.shape != other.shape or y.shape != other_y.shape:
        raise ValueError(
            f"The tables must have the same shape, because the number of rows is public; got "
            f"{X.shape} and {other.shape}. Replace a missing row by one without effect."
        )
    at = int(np.argmax(_changes((X, y), (other, other_y))))
    numbers = np.concatenate([y, other_y])
    values, places = np.unique(numbers, return_inverse=True)
    if values.size <= 2 or numbers.dtype.kind not in "iuf":  # classes: from −1 to 1
        numbers = 2 * places / max(values.size - 1, 1) - 1
    sign = numbers[at]
    other_sign = numbers[len(y) + at]
    pull = other_sign * other[at] - sign * X[at]
    if fit_intercept:
        pull = np.append(pull, other_sign - sign)
    length = float(np.linalg.norm(pull))
    direction = pull / length if length else pull
    return Pair(OWN, Relation.REPLACE_ONE, ((X, y), (other, other_y)), direction, fit_intercept)


def worst_cases(
    relation: Relation | str,
    *,
    norm: float,
    n_units: int = 6,
    n_features: int = 2,
    regression: bool = False,
    same_height: bool = False,
) -> list[Pair]:
    """Return all built-in pairs for one relation, the strongest first.

    ``norm`` bounds a row's norm, or is one at which its gradient is clipped. The larger table has
    ``n_units`` rows, of which the first is changed; rows orthogonal to it need two columns.
    Targets are −1 and 1, or for ``regression`` in [−1, 1]. Under add/remove, ``same_height``
    replaces the missing row by zeros; only pairs without an intercept remain.
    """
    relation = Relation(relation)
    y = np.where(np.arange(n_units) % 2 == 0, 1.0, -1.0)
    feature = np.eye(n_features)[0]
    nothing = np.zeros(n_features)
    right = norm * feature
    beyond = BEYOND * norm * feature
    constant = np.append(nothing, 1.0)
    both = np.append(right, 1.0) / np.hypot(norm, 1.0)
    alone = np.zeros((n_units, n_features))
    crowd = alone.copy()
    crowd[1:, 1:] = norm * 0.5  # orthogonal to the changed row, labels of both classes

    def with_row(X: FloatArray, row: FloatArray, label: float) -> Table:
        X = X.copy()
        labels = y.copy()
        X[0] = row
        labels[0] = label
        return X, labels

    def make(name: str, X: FloatArray, row: FloatArray, pull: FloatArray) -> Pair:
        intercept = pull.size > n_features
        if relation is Relation.REPLACE_ONE:  # a negated label negates the intercept, too
            first = with_row(X, row, -1.0) if intercept else with_row(X, -row, 1.0)
        elif same_height:
            first = with_row(X, nothing, 0.0 if regression else 1.0)
        else:
            first = X[1:], y[1:]
        return Pair(name, relation, (first, with_row(X, row, 1.0)), pull, intercept)

    pairs = [
        make("one row alone", alone, right, feature),
        make("one row orthogonal to the others", crowd, right, feature),
        make("one row far beyond the norm bound", crowd, beyond, feature),
    ]
    if n_features == 1:
        del pairs[1]
    if relation is Relation.REPLACE_ONE or not same_height:
        pairs.append(make("one row that moves only the intercept", alone, nothing, constant))
        pairs.append(make("one row with an intercept", alone, right, both))
    if relation is Relation.REPLACE_ONE:
        tables = (with_row(alone, right, -1.0), with_row(alone, right, 1.0))
        pairs.append(Pair("one row's label", relation, tables, feature))
    return pairs


def worst_people(
    relation: Relation | str,
    *,
    norm: float,
    n_units: int = 6,
    n_features: int = 2,
    regression: bool = False,
    same_height: bool = False,
) -> list[Pair]:
    """Return all built-in pairs that differ in one person with several rows, the strongest first.

    The person has 40, 5 or 1 rows: all equal, opposing each other, or orthogonal to each other;
    everybody else has one row of zeros. In the other table the person is missing; or has a row of
    zeros, if ``same_height``; or, if replaced, as many rows of the opposite sign, or a single one.
    """
    relation = Relation(relation)
    y = np.where(np.arange(n_units) % 2 == 0, 1.0, -1.0)
    axes = norm * np.eye(n_features)
    replaced = relation is Relation.REPLACE_ONE

    def table(own: FloatArray) -> tuple[Table, NDArray[np.int64]]:
        X = np.concatenate([own, np.zeros((n_units - 1, n_features))])
        labels = np.concatenate([np.ones(len(own)), y[1:]])
        blank = regression and same_height and not own.any()
        labels[: len(own)] = 0.0 if blank else 1.0
        return (X, labels), np.append(np.zeros(len(own), np.int64), np.arange(1, n_units))

    def make(name: str, own: FloatArray, other: FloatArray) -> Pair:
        first, ids = table(other)
        second, other_ids = table(own)
        pull = own.mean(axis=0) - (other.mean(axis=0) if len(other) else 0.0)
        length = float(np.linalg.norm(pull))
        direction = pull / length if length else axes[0] / norm
        return Pair(name, relation, (first, second), direction, groups=(ids, other_ids))

    pairs = []
    for size in PERSON_ROWS:
        who = f"a person of {size} row{'s' * (size > 1)}"
        equal = np.tile(axes[0], (size, 1))
        nobody = np.zeros((int(same_height), n_features))
        pairs.append(make(f"{who}, all equal", equal, -equal if replaced else nobody))
        if size == 1:
            continue
        if replaced:
            pairs.append(make(f"{who}, for one of a single row", equal, -equal[:1]))
        opposing = equal * np.where(np.arange(size) % 2 == 0, 1.0, -1.0)[:, None]
        pairs.append(make(f"{who}, opposing", opposing, -opposing if replaced else nobody))
        if n_features > 1:
            around = axes[np.arange(size) % n_features]
            pairs.append(make(f"{who}, orthogonal", around, -around if replaced else nobody))
    return pairs


def group_of_two(epsilon: float, delta: float) -> tuple[float, float]:
    """Return the guarantee for tables two steps apart that (ε, δ) for neighbours implies."""
    return 2 * epsilon, delta * (1 + math.exp(epsilon))
