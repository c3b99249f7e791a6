"""How good a model is, without giving away the rows it is tried on.

An exact accuracy on private rows is itself a release about them. Here the counts it is made of
are released with noise: of each pair of true and predicted label, or of the errors of a regressor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core import Account, Accountant, Budget, Guarantee
from discreet.core.bits import SystemBits
from discreet.core.mechanisms import Laplace
from discreet.core.noise import Noise

__all__ = ["ClassifierScores", "RegressorScores", "score_classes", "score_numbers"]

FloatArray = NDArray[np.float64]

_PUBLIC = (
    "the number of rows",
    "that all rows are valid (they match the schema, known labels)",
    "the model",
    "the class labels or the bounds of the target",
)

_UNITS = 2**20
"""Errors are rounded to multiples of 2^-20, so that their sums are exact."""


@dataclass(frozen=True)
class ClassifierScores:
    """Counts of true (rows) against predicted (columns) labels, and what follows from them.

    ``guarantee`` is None if the counts are exact.
    """

    labels: tuple[Any, ...]
    counts: FloatArray
    guarantee: Guarantee | None

    @property
    def accuracy(self) -> float:
        """Share of rows whose label was predicted."""
        return _ratio(float(np.trace(self.counts)), float(self.counts.sum()))

    @property
    def recalls(self) -> tuple[float, ...]:
        """Of each label's rows, the share that was found."""
        return tuple(
            _ratio(float(self.counts[k, k]), float(self.counts[k].sum()))
            for k in range(len(self.labels))
        )

    @property
    def balanced_accuracy(self) -> float:
        """Mean of the recalls of labels that occur."""
        recalls = [recall for recall in self.recalls if not np.isnan(recall)]
        return float(np.mean(recalls)) if recalls else float("nan")


@dataclass(frozen=True)
class RegressorScores:
    """Errors of a regressor, each row's cut to the width of the target's bounds.

    ``guarantee`` is None if they are exact.
    """

    mean_absolute_error: float
    root_mean_squared_error: float
    guarantee: Guarantee | None


def score_classes(
    truth: NDArray[Any],
    predicted: NDArray[Any],
    labels: tuple[Any, ...],
    budget: Budget | None = None,
    accountant: Accountant | None = None,
) -> ClassifierScores:
    """Compare codes (indices into ``labels``); with a budget, through noisy counts.

    Privacy
    -------
    A row counts in one cell. Adding or removing it moves one count by 1, replacing it moves two, so
    the L1 sensitivity of all counts is 1 or 2; Laplace noise makes them ε-DP. Everything else is
    computed from the noisy counts, which are not below 0 (post-processing).
    """
    account = None if budget is None else _charged(budget, accountant)
    size = len(labels)
    cells = np.bincount(truth.astype(np.intp) * size + predicted, minlength=size * size)
    counts = cells.astype(np.float64)
    guarantee = None
    if account is not None:
        sensitivity = float(account.budget.relation.rows_changed)
        noisy, guarantee = _release(counts, sensitivity, len(truth), account)
        counts = np.maximum(noisy, 0.0)
    return ClassifierScores(labels, counts.reshape(size, size), guarantee)


def score_numbers(
    truth: FloatArray,
    predicted: FloatArray,
    bounds: tuple[float, float],
    budget: Budget | None = None,
    accountant: Accountant | None = None,
) -> RegressorScores:
    """Compare numbers within public bounds; with a budget, through two noisy sums.

    Privacy
    -------
    In units of the bounds' width each row adds at most 1 to the sum of absolute errors and at most
    1 to that of squares, under either relation, so the L1 sensitivity of both is 2. Each row's
    terms are rounded to a grid and added as integers: the sums have no rounding of their own. An
    error that is not a number counts as the whole width.
    """
    account = None if budget is None else _charged(budget, accountant)
    low, high = bounds
    width = high - low
    error = np.abs(np.clip(truth, low, high) - np.clip(predicted, low, high)) / width
    error = np.minimum(np.nan_to_num(error, nan=1.0), 1.0)
    terms = (np.rint(error * _UNITS), np.rint(error * error * _UNITS))
    sums = np.array([float(term.astype(np.int64).sum()) / _UNITS for term in terms])
    guarantee = None
    if account is not None:
        noisy, guarantee = _release(sums, 2.0, len(truth), account)
        sums = np.clip(noisy, 0.0, len(truth))
    mean_absolute, mean_square = sums / len(truth)
    return RegressorScores(
        float(width * mean_absolute), float(width * np.sqrt(mean_square)), guarantee
    )


def _charged(budget: Budget, accountant: Accountant | None) -> Account:
    """An account whose whole budget is charged for one release, before a row is looked at."""
    account = Account(budget, accountant)
    account.open("pure").charge(Laplace(budget.epsilon))
    return account


def _release(
    values: FloatArray, sensitivity: float, n_rows: int, account: Account
) -> tuple[FloatArray, Guarantee]:
    """The values with the Laplace noise that was charged for, and the promise for them."""
    bits = SystemBits()
    noisy, _ = Laplace(account.budget.epsilon).release(
        values, sensitivity=sensitivity, magnitude=float(max(n_rows, 1)), noise=Noise(bits)
    )
    return noisy, account.guarantee(
        conditions=("each row counts once",), public=_PUBLIC, secure=bits.secure
    )


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else float("nan")
