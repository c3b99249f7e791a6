"""Score a model on private rows within a budget.

An exact accuracy on private rows is itself a release about them. Here the counts behind it are
released with noise: counts of pairs of true and predicted label, or sums of a regressor's errors.
Predictions are computed here, row by row: the matrix products of `predict` round a row by its
position, so that one row more could change the predictions of others.

Proof: docs/proofs/scoring.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from discreet.core import Budget, Guarantee, Laplace
from discreet.core.noise import Noise
from discreet.core.session import Session
from discreet.estimators.base import PrivateLinearModel
from discreet.estimators.classifiers import LinearClassifier, label_codes
from discreet.estimators.levels import OrdinalClassifier
from discreet.estimators.regressors import LinearRegressor
from discreet.ledger import Dataset, check_dataset
from discreet.log import note
from discreet.rows import Unit, Units
from discreet.validate import FloatArray, check_target, number

_PUBLIC = (
    "that all rows are valid (they match the schema, known labels)",
    "the model",
    "the class labels or the bounds of the target",
)

_STEPS = 2**30
"""Weights of rows and errors times them are rounded down to multiples of 2^-30: sums are exact."""

_BLOCK = 2**16
"""Rows that are counted at a time: whole numbers below 2^53, which are exact as doubles."""


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
    return model._margins(_table(model, X), by_row=True)


def _table(model: PrivateLinearModel, X: Any) -> Any:
    """Return rows that the model can score; an invalid table is an error."""
    check_is_fitted(model, "coef_")
    return model._read_new(X)


def _targets(y: ArrayLike, n_rows: int) -> NDArray[Any]:
    """Return one target for each row; the wrong number of them is an error."""
    targets = np.asarray(y)
    if targets.shape != (n_rows,):
        raise ValueError(
            f"y must have one number or label for each of the {n_rows:,} rows; got an array of "
            f"shape {targets.shape}."
        )
    return targets


def score_classifier(
    model: LinearClassifier | OrdinalClassifier,
    X: Any,
    y: ArrayLike,
    budget: Budget | None = None,
    ledger: Dataset | None = None,
    groups: Any = None,
) -> ClassifierScores:
    """Score a classifier: exactly, or with a budget through a noisy confusion matrix.

    All labels in y must be in ``model.classes_``; others are refused before anything is spent. Of
    the budget ε is spent, δ is not used; without one the scores are exact and not private.
    ``ledger`` counts what is spent. ``groups`` says whose
    row each row is: then each person has a total weight of 1, and the guarantee is for people.

    Notes
    -----
    *Privacy.* A row counts in one cell. Adding or removing it changes one count by 1, replacing it
    changes two, so the L1 sensitivity of all counts is 1 or 2; Laplace noise makes them ε-DP.
    The same holds for a person whose rows have weights that add up to at most 1. All scores are
    computed from the noisy counts, clipped to 0 (post-processing).
    """
    table = _table(model, X)
    truth = label_codes(_targets(y, table.shape[0]), model.classes_).astype(np.intp)
    scored = _Scored.of(table.shape[0], groups, budget, ledger)
    size = len(model.classes_)
    predicted = model._codes_of(model._margins(table, by_row=True))
    counts = scored.counts(truth * size + predicted, size * size)
    noisy, guarantee = scored.release(counts, scored.rows_changed)
    matrix = np.maximum(noisy, 0.0).reshape(size, size)
    return ClassifierScores(tuple(model.classes_.tolist()), matrix, guarantee)


@dataclass(frozen=True)
class ScoreHistogram:
    """Counts of rows by true class and by bin of the score, for a model of two classes.

    ``points`` has a score that represents each bin, increasing; ``edges`` the ends of the bins (the
    first is -inf and the last inf, unless each bin is one score). Noisy counts, of shape (2,
    n_bins), may be negative and are not clipped: sums of them are unbiased. ``size`` is the public
    number of rows, or of people; ``scale`` that of the Laplace noise in each count, 0 if they are
    exact (then there is no guarantee).
    """

    points: FloatArray
    edges: FloatArray
    counts: FloatArray
    size: int
    scale: float
    guarantee: Guarantee | None


def score_histogram(
    model: LinearClassifier,
    X: Any,
    y: ArrayLike,
    edges: FloatArray | None = None,
    budget: Budget | None = None,
    ledger: Dataset | None = None,
    groups: Any = None,
) -> ScoreHistogram:
    """Count rows by true class and score: exactly, or with a budget in bins of public edges.

    A bin holds the scores above one edge and up to the next; ``edges``, finite and increasing, must
    be given with a budget, and must not depend on the rows. Without one, every distinct score is a
    bin of its own by default. The rest is as in `score_classifier`.

    Notes
    -----
    *Privacy.* A row counts in one cell (its class, the bin of its own score), so the L1 sensitivity
    of all counts together is that of a confusion matrix: 1 or 2. Whatever is computed from the
    noisy counts is post-processing.
    """
    if len(model.classes_) != 2:
        raise ValueError(f"a score histogram is for two classes; got {len(model.classes_)}.")
    inner = None if edges is None else np.asarray(edges, dtype=np.float64)
    if inner is None and budget is not None:
        raise ValueError("edges must be public numbers: pass them together with the budget.")
    if inner is not None and not (
        inner.size > 1 and np.isfinite(inner).all() and (np.diff(inner) > 0).all()
    ):
        raise ValueError("edges must be two or more finite numbers, increasing.")
    table = _table(model, X)
    truth = label_codes(_targets(y, table.shape[0]), model.classes_).astype(np.intp)
    scored = _Scored.of(table.shape[0], groups, budget, ledger)
    scores = model._margins(table, by_row=True)[:, 0]
    inner = np.unique(scores) if inner is None else inner
    n_bins = inner.size + 1
    counts = scored.counts(truth * n_bins + np.searchsorted(inner, scores), 2 * n_bins)
    if edges is None:  # nothing is above the largest score
        ends = np.append(inner[:1], inner)
        exact = counts.reshape(2, n_bins)[:, :-1]
        return ScoreHistogram(inner, ends, exact, scored.size, 0.0, None)
    noisy, guarantee = scored.release(counts, scored.rows_changed)
    outer = np.concatenate([[2 * inner[0] - inner[1]], inner, [2 * inner[-1] - inner[-2]]])
    points = 0.5 * (outer[1:] + outer[:-1])
    outer[[0, -1]] = -np.inf, np.inf
    scale = 0.0 if budget is None else scored.rows_changed / budget.epsilon
    return ScoreHistogram(points, outer, noisy.reshape(2, n_bins), scored.size, scale, guarantee)


def score_regressor(
    model: LinearRegressor,
    X: Any,
    y: ArrayLike,
    bounds: tuple[float, float],
    budget: Budget | None = None,
    ledger: Dataset | None = None,
    groups: Any = None,
) -> RegressorScores:
    """Score a regressor: exactly, or with a budget through two noisy sums.

    Targets and predictions are clipped to ``bounds``, public bounds of the target; the rest is as
    in `score_classifier`.

    Notes
    -----
    *Privacy.* In units of the bounds' width each person (without groups, row) adds at most 1 to the
    sum of absolute errors and at most 1 to that of squares, under either relation, so the L1
    sensitivity of both is 2. Each row's terms are rounded down to a grid and added as integers: the
    sums have no rounding error. An error that is not a number is taken as the whole width.
    """
    low = number("low of bounds", bounds[0])
    high = number("high of bounds", bounds[1], above=low)
    width = high - low
    table = _table(model, X)
    check_target(y, numbers=True)
    truth = _targets(y, table.shape[0]).astype(np.float64)
    scored = _Scored.of(table.shape[0], groups, budget, ledger)
    predicted = model._predicted(model._margins(table, by_row=True)[:, 0])
    error = np.abs(np.clip(truth, low, high) - np.clip(predicted, low, high)) / width
    error = np.minimum(np.nan_to_num(error, nan=1.0), 1.0)
    sums = np.array([scored.total(error), scored.total(error * error)])
    noisy, guarantee = scored.release(sums, 2.0)
    mean_absolute, mean_square = np.clip(noisy, 0.0, scored.size) / scored.size
    return RegressorScores(
        float(width * mean_absolute), float(width * np.sqrt(mean_square)), guarantee
    )


@dataclass(frozen=True, eq=False)
class _Scored:
    """Units whose rows are scored, the weight of each row, and the session of one release.

    Without weights every row has the weight 1. Without a session nothing is released, and all
    numbers are exact.
    """

    size: int
    weights: FloatArray | None
    unit: Unit
    plural: str
    session: Session | None

    @classmethod
    def of(cls, size: int, groups: Any, budget: Budget | None, ledger: Dataset | None) -> _Scored:
        """Charge the whole budget for one release about ``size`` rows, before one is scored."""
        scored = cls(size, None, "row", "rows", None)
        if groups is not None:
            own = Units.of(groups, size).weights()
            scored = cls(own.size, own.values, "person", "people", None)
        if budget is None:
            return scored
        check_dataset(ledger)
        payer = None if ledger is None else ledger.noting(solver="evaluation")
        session = Session(budget, scored.unit, ledger=payer)
        session.account.open("pure").charge(Laplace(budget.epsilon))
        note("Evaluation: ε = %g, %s, one %s.", budget.epsilon, budget.relation, scored.unit)
        return replace(scored, session=session)

    @property
    def rows_changed(self) -> float:
        """Return the L1 sensitivity of counts."""
        if self.session is None:
            return 0.0
        return float(self.session.account.budget.relation.rows_changed)

    def release(
        self, values: FloatArray, sensitivity: float
    ) -> tuple[FloatArray, Guarantee | None]:
        """Return the values with the Laplace noise that was charged for, and their guarantee."""
        if self.session is None:
            return values, None
        account = self.session.account
        noise = Noise(self.session.bits)
        noisy, _ = Laplace(account.budget.epsilon).release(
            values, sensitivity=sensitivity, magnitude=float(max(self.size, 1)), noise=noise
        )
        counted = f"each {self.unit} counts once, by predictions that depend on single rows alone"
        return noisy, account.guarantee(
            conditions=(counted,),
            public=(f"the number of {self.plural}", *_PUBLIC),
            secure=self.session.secure,
        )

    def counts(self, cells: NDArray[np.intp], size: int) -> FloatArray:
        """Count the rows in each cell by their weights, exactly."""
        if self.weights is None:
            return np.bincount(cells, minlength=size).astype(np.float64)
        total = np.zeros(size, dtype=np.int64)
        for start in range(0, len(cells), _BLOCK):
            at = slice(start, start + _BLOCK)
            own = np.bincount(cells[at], self.weights[at] * _STEPS, minlength=size)
            total += own.astype(np.int64)
        return total / _STEPS

    def total(self, terms: FloatArray) -> float:
        """Add up numbers from 0 to 1 by weight, each term rounded down to the grid."""
        scaled = terms if self.weights is None else terms * self.weights
        return float(np.floor(scaled * _STEPS).astype(np.int64).sum()) / _STEPS


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0 else float("nan")
