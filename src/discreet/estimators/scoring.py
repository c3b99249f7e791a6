"""Score a model on private rows within a budget.

An exact accuracy on private rows is itself a release about them. Here the counts behind it are
released with noise: counts of pairs of true and predicted label, or sums of a regressor's errors.
Predictions are computed here, row by row: the matrix products of `predict` round a row by its
position, so that one row more could change the predictions of others.

Proof: docs/proofs/scoring.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from discreet.core import Budget, Guarantee, Laplace
from discreet.core.score_questions import CellCounts, ErrorSums, TotalQuestion
from discreet.core.session import Session
from discreet.estimators.base import PrivateLinearModel
from discreet.estimators.classifiers import LinearClassifier, label_codes
from discreet.estimators.levels import OrdinalClassifier
from discreet.estimators.regressors import LinearRegressor
from discreet.ledger import Dataset, check_dataset
from discreet.log import note
from discreet.rows.scored import ScoredRows, scored_rows
from discreet.validate import FloatArray, check_target, number

_PUBLIC = (
    "that all rows are valid (they match the schema, known labels)",
    "the model",
    "the class labels or the bounds of the target",
)


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


def classified_rows(
    model: LinearClassifier | OrdinalClassifier, X: Any, y: ArrayLike, groups: Any = None
) -> ScoredRows:
    """Return labelled rows whose scores are the codes of the classes that a model predicts.

    Labels that are not in ``model.classes_`` are refused.
    """

    def predicted(table: Any) -> NDArray[Any]:
        codes: NDArray[Any] = model._codes_of(model._margins(table, by_row=True))
        return codes

    table = _table(model, X)
    truth = label_codes(_targets(y, table.shape[0]), model.classes_)
    return scored_rows(table, truth, predicted, groups)


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
    rows = classified_rows(model, X, y, groups)
    size = len(model.classes_)
    counts, guarantee = _totals(rows, CellCounts.confusion(size), budget, ledger)
    matrix = np.maximum(counts, 0.0).reshape(size, size)
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
    truth = label_codes(_targets(y, table.shape[0]), model.classes_)
    rows = scored_rows(table, truth, partial(_margins, model), groups)
    if inner is None:
        return _exact_histogram(rows)
    question = CellCounts(2, inner)
    counts, guarantee = _totals(rows, question, budget, ledger)
    ends = np.concatenate([[2 * inner[0] - inner[1]], inner, [2 * inner[-1] - inner[-2]]])
    points = 0.5 * (ends[1:] + ends[:-1])
    ends[[0, -1]] = (-np.inf, np.inf)
    scale = 0.0 if budget is None else question.sensitivity(budget.relation) / budget.epsilon
    size = rows.public_size
    return ScoreHistogram(points, ends, counts.reshape(2, -1), size, scale, guarantee)


def _exact_histogram(rows: ScoredRows) -> ScoreHistogram:
    """Return the exact histogram with a bin for each distinct score, not private."""
    scores = np.unique(rows.scores())
    ends = np.append(scores[:1], scores)
    n_bins = scores.size + 1
    counts = rows.weight_of_cells(2, scores).values.reshape(2, n_bins)
    below = counts[:, :-1]  # nothing is above the largest score
    return ScoreHistogram(scores, ends, below, rows.public_size, 0.0, None)


def _margins(model: PrivateLinearModel, table: Any) -> FloatArray:
    """Return the score of each row by a model of one output."""
    margins: FloatArray = model._margins(table, by_row=True)[:, 0]
    return margins


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

    def predicted(table: Any) -> FloatArray:
        found: FloatArray = model._predicted(_margins(model, table))
        return found

    rows = scored_rows(table, truth, predicted, groups)
    sums, guarantee = _totals(rows, ErrorSums(low, high), budget, ledger)
    mean_absolute, mean_square = np.clip(sums, 0.0, rows.public_size) / rows.public_size
    return RegressorScores(
        float(width * mean_absolute), float(width * np.sqrt(mean_square)), guarantee
    )


Release = tuple[FloatArray, Guarantee | None]
"""Totals, exact or with noise, and the guarantee of noisy ones."""


def _totals(
    rows: ScoredRows, question: TotalQuestion, budget: Budget | None, ledger: Dataset | None
) -> Release:
    """Answer a question exactly, or within a budget: a curator charges all of it, then reads."""
    if budget is None:
        [exact] = rows.answer([question])
        return exact.values, None
    check_dataset(ledger)
    payer = None if ledger is None else ledger.noting(solver="evaluation")
    session = Session(budget, rows.unit, ledger=payer)
    curator = session.curator(rows)
    curator.open("pure")
    note("Evaluation: ε = %g, %s, one %s.", budget.epsilon, budget.relation, rows.unit)
    noisy = curator.ask(question, Laplace(budget.epsilon)).values
    counted = f"each {rows.unit} counts once, by predictions that depend on single rows alone"
    units = "rows" if rows.unit == "row" else "people"
    return noisy, session.account.guarantee(
        conditions=(counted,),
        public=(f"the number of {units}", *_PUBLIC),
        secure=session.secure,
    )


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0 else float("nan")
