"""Score a model on private rows within a budget.

An exact accuracy on private rows is itself a release about them. Here the counts behind it are
released with noise: counts of pairs of true and predicted label, or sums of a regressor's errors.
Predictions are computed here, row by row: the matrix products of `predict` round a row by its
position, so that one row more could change the predictions of others.

Proof: docs/proofs/scoring.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from discreet.core import Account, Budget, Guarantee, Laplace
from discreet.core.bits import SystemBits
from discreet.core.noise import Noise
from discreet.estimators.base import PrivateLinearModel
from discreet.estimators.classifiers import LinearClassifier, label_codes
from discreet.estimators.regressors import LinearRegressor
from discreet.ledger import Dataset, check_dataset
from discreet.validate import FloatArray

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
    """Confusion matrix (true labels in rows, predicted ones in columns) and scores from it.

    ``guarantee`` is None if the counts are exact.
    """

    labels: tuple[Any, ...]
    counts: FloatArray
    guarantee: Guarantee | None

    @property
    def accuracy(self) -> float:
        """Share of rows whose predicted label is the true one."""
        return _ratio(np.trace(self.counts), self.counts.sum())

    @property
    def recalls(self) -> tuple[float, ...]:
        """Recall of each label; NaN for a label without rows."""
        sums = self.counts.sum(axis=1)
        return tuple(_ratio(self.counts[k, k], sums[k]) for k in range(len(sums)))

    @property
    def balanced_accuracy(self) -> float:
        """Mean recall over the labels that occur."""
        recalls = [recall for recall in self.recalls if not np.isnan(recall)]
        return float(np.mean(recalls)) if recalls else float("nan")


@dataclass(frozen=True)
class RegressorScores:
    """Errors of a regressor, each clipped to the width of the target's bounds.

    ``guarantee`` is None if they are exact.
    """

    mean_absolute_error: float
    root_mean_squared_error: float
    guarantee: Guarantee | None


def row_scores(model: PrivateLinearModel, X: Any) -> FloatArray:
    """Return scores of shape (n_rows, n_models), private like the rows.

    To the last bit, a row's scores do not depend on other rows, their number, the row's position or
    the number of threads.
    """
    check_is_fitted(model, "coef_")
    return model._margins(model._read_new(X), by_row=True)


def score_classifier(
    model: LinearClassifier,
    X: Any,
    y: ArrayLike,
    budget: Budget | None = None,
    ledger: Dataset | None = None,
) -> ClassifierScores:
    """Score a classifier: exactly, or with a budget through a noisy confusion matrix.

    All labels in y must be in ``model.classes_``. Of the budget ε is spent, δ is not used; without
    one the scores are exact and private. ``ledger`` counts what is spent.

    Notes
    -----
    *Privacy.* A row counts in one cell. Adding or removing it changes one count by 1, replacing it
    changes two, so the L1 sensitivity of all counts is 1 or 2; Laplace noise makes them ε-DP.
    All scores are computed from the noisy counts, clipped to 0 (post-processing).
    """
    account = None if budget is None else _charged(budget, ledger)
    size = len(model.classes_)
    predicted = model._codes_of(row_scores(model, X))
    truth = label_codes(np.asarray(y), model.classes_).astype(np.intp)
    counts = np.bincount(truth * size + predicted, minlength=size * size).astype(np.float64)
    guarantee = None
    if account is not None:
        sensitivity = float(account.budget.relation.rows_changed)
        noisy, guarantee = _release(counts, sensitivity, len(truth), account)
        counts = np.maximum(noisy, 0.0)
    return ClassifierScores(tuple(model.classes_.tolist()), counts.reshape(size, size), guarantee)


def score_regressor(
    model: LinearRegressor,
    X: Any,
    y: ArrayLike,
    bounds: tuple[float, float],
    budget: Budget | None = None,
    ledger: Dataset | None = None,
) -> RegressorScores:
    """Score a regressor: exactly, or with a budget through two noisy sums.

    Targets and predictions are clipped to ``bounds``, public bounds of the target; the rest is as
    in `score_classifier`.

    Notes
    -----
    *Privacy.* In units of the bounds' width each row adds at most 1 to the sum of absolute errors
    and at most 1 to that of squares, under either relation, so the L1 sensitivity of both is 2.
    Each row's terms are rounded to a grid and added as integers: the sums have no rounding error.
    An error that is not a number counts as the whole width.
    """
    account = None if budget is None else _charged(budget, ledger)
    low, high = bounds
    width = high - low
    predicted = model._clipped(row_scores(model, X)[:, 0])
    truth = np.asarray(y, dtype=np.float64)
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


def _charged(budget: Budget, ledger: Dataset | None) -> Account:
    """Return an account whose whole budget is charged for one release, before a row is read."""
    check_dataset(ledger)
    account = Account(budget, None if ledger is None else ledger.noting(solver="evaluation"))
    account.open("pure").charge(Laplace(budget.epsilon))
    return account


def _release(
    values: FloatArray, sensitivity: float, n_rows: int, account: Account
) -> tuple[FloatArray, Guarantee]:
    """Return the values with the Laplace noise that was charged for, and their guarantee."""
    bits = SystemBits()
    noisy, _ = Laplace(account.budget.epsilon).release(
        values, sensitivity=sensitivity, magnitude=float(max(n_rows, 1)), noise=Noise(bits)
    )
    return noisy, account.guarantee(
        conditions=("each row counts once, by a prediction that depends on that row alone",),
        public=_PUBLIC,
        secure=bits.secure,
    )


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0 else float("nan")
