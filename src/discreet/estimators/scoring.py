"""Score a model on private rows within a budget.

An exact accuracy on private rows is itself a release about them. Here the counts behind it are
released with noise: counts of pairs of true and predicted label, of scores or of errors, for each
subgroup of the rows if there are any, or sums of a regressor's errors.
Predictions are computed here, row by row: the matrix products of `predict` round a row by its
position, so that one row more could change the predictions of others.

Proof: docs/proofs/scoring.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
from discreet.rows.units import Units
from discreet.statement import MODEL_PUBLIC
from discreet.validate import FloatArray, check_target, number

_PUBLIC = (
    "that all rows are valid (they match the schema, known labels)",
    MODEL_PUBLIC,
    "the class labels or the bounds of the target",
)


@dataclass(frozen=True, eq=False)
class Subgroups:
    """Subgroups of rows by the levels of a column.

    The name of the column and its levels are public; ``codes``, the index of each row's level, is
    private like the rows. A row belongs to one subgroup, a person to one or several.
    """

    name: str
    levels: tuple[Any, ...]
    codes: NDArray[Any]

    def __post_init__(self) -> None:
        if not self.levels or len(set(self.levels)) != len(self.levels):
            raise ValueError(f"the levels of {self.name} must be listed, each of them once.")


@dataclass(frozen=True, eq=False)
class Terms:
    """Terms of an evaluation: the budget, the payer, and whose rows are counted where.

    Parameters
    ----------
    budget : Budget, optional
        ε is spent, δ is not used. Without a budget the counts are exact and not private.
    ledger : Dataset, optional
        Data set of a ledger that is charged.
    groups : sequence of ids, optional
        Whose row each row is: then each person has a total weight of 1.
    subgroups : Subgroups, optional
        Subgroups that are counted apart, within one release.
    """

    budget: Budget | None = None
    ledger: Dataset | None = None
    groups: Any = None
    subgroups: Subgroups | None = None

    @property
    def n_levels(self) -> int:
        """Number of subgroups; 1 if all rows are counted together."""
        return 1 if self.subgroups is None else len(self.subgroups.levels)

    def size(self, n_rows: int) -> int:
        """Return the public number of units: rows, or people."""
        return n_rows if self.groups is None else Units.of(self.groups, n_rows).count

    def cell_codes(self, truth: NDArray[Any], n_classes: int) -> NDArray[np.intp]:
        """Return one code for each row's subgroup and true class together."""
        if self.subgroups is None:
            return truth.astype(np.intp)
        own = np.asarray(self.subgroups.codes)
        if own.shape != truth.shape or own.dtype.kind not in "iu":
            raise ValueError(
                f"there must be one {self.subgroups.name} for each of the {len(truth):,} rows."
            )
        if own.size and not (own.min() >= 0 and own.max() < self.n_levels):
            raise ValueError(f"{self.subgroups.name} of a row is not one of the listed levels.")
        return own.astype(np.intp) * n_classes + truth.astype(np.intp)


@dataclass(frozen=True, eq=False)
class CellRelease:
    """Counts of rows by subgroup, true class and bin, of shape (n_levels, n_classes, n_bins).

    Noisy counts may be negative and are not clipped: sums of them are unbiased. ``size`` is the
    public number of rows, or of people; ``scale`` that of the Laplace noise in each count, 0 if
    they are exact (then there is no guarantee).
    """

    counts: FloatArray
    size: int
    scale: float
    guarantee: Guarantee | None


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
    model: LinearClassifier | OrdinalClassifier,
    X: Any,
    y: ArrayLike,
    groups: Any = None,
    subgroups: Subgroups | None = None,
) -> ScoredRows:
    """Return labelled rows whose scores are the codes of the classes that a model predicts.

    Labels that are not in ``model.classes_`` are refused. With subgroups, the class of a row is its
    subgroup and its label together.
    """

    def predicted(table: Any) -> NDArray[Any]:
        codes: NDArray[Any] = model._codes_of(model._margins(table, by_row=True))
        return codes

    table = _table(model, X)
    truth = label_codes(_targets(y, table.shape[0]), model.classes_)
    if subgroups is not None:
        truth = Terms(subgroups=subgroups).cell_codes(truth, len(model.classes_))
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
    found = count_confusion(model, X, y, Terms(budget, ledger, groups))
    matrix = np.maximum(found.counts[0], 0.0)
    return ClassifierScores(tuple(model.classes_.tolist()), matrix, found.guarantee)


def count_confusion(
    model: LinearClassifier | OrdinalClassifier, X: Any, y: ArrayLike, terms: Terms
) -> CellRelease:
    """Count rows by subgroup, true and predicted label: exactly, or with a budget.

    Notes
    -----
    *Privacy.* A row counts in one cell, so the L1 sensitivity of the counts of all subgroups
    together is that of one confusion matrix: 1 if a row is added or removed, and 2 if it is
    replaced, in the same subgroup or by one of another.
    """
    rows = classified_rows(model, X, y, terms.groups, terms.subgroups)
    size = len(model.classes_)
    return _cell_counts(rows, size, CellCounts.confusion(size).edges, terms)


@dataclass(frozen=True, eq=False)
class ScoreHistogram(CellRelease):
    """Counts of rows by subgroup, true class and bin of a number: a score, or an error.

    ``points`` has a number that represents each bin, increasing; ``edges`` the ends of the bins
    (the first is -inf and the last inf, unless each bin is one number).
    """

    points: FloatArray
    edges: FloatArray


def score_histogram(
    model: LinearClassifier,
    X: Any,
    y: ArrayLike,
    edges: FloatArray | None = None,
    budget: Budget | None = None,
    ledger: Dataset | None = None,
    groups: Any = None,
) -> ScoreHistogram:
    """Count rows by true class and score, as `count_scores` does; counts are (2, n_bins)."""
    found = count_scores(model, X, y, edges, Terms(budget, ledger, groups))
    return replace(found, counts=found.counts[0])


def count_scores(
    model: LinearClassifier, X: Any, y: ArrayLike, edges: FloatArray | None, terms: Terms
) -> ScoreHistogram:
    """Count rows by subgroup, true class and score: exactly, or with a budget in public bins.

    A bin holds the scores above one edge and up to the next; ``edges``, finite and increasing, must
    be given with a budget, and must not depend on the rows. If they are None, every distinct score
    is a bin of its own. The rest is as in `score_classifier`.

    Notes
    -----
    *Privacy.* A row counts in one cell (its subgroup, its class, the bin of its own score), so the
    L1 sensitivity of all counts together is that of a confusion matrix: 1 or 2. Whatever is
    computed from the noisy counts is post-processing.
    """
    if len(model.classes_) != 2:
        raise ValueError(f"a score histogram is for two classes; got {len(model.classes_)}.")
    inner = _checked_edges(edges, terms)
    table = _table(model, X)
    truth = label_codes(_targets(y, table.shape[0]), model.classes_)
    rows = scored_rows(table, terms.cell_codes(truth, 2), partial(_margins, model), terms.groups)
    return _histogram(rows, 2, inner, terms)


def _checked_edges(edges: FloatArray | None, terms: Terms) -> FloatArray | None:
    """Refuse edges that are no public bins."""
    if edges is None:
        if terms.budget is not None:
            raise ValueError("edges must be public numbers: pass them together with the budget.")
        return None
    inner = np.asarray(edges, dtype=np.float64)
    if not (inner.size > 1 and np.isfinite(inner).all() and (np.diff(inner) > 0).all()):
        raise ValueError("edges must be two or more finite numbers, increasing.")
    return inner


def _histogram(
    rows: ScoredRows, n_classes: int, edges: FloatArray | None, terms: Terms
) -> ScoreHistogram:
    """Count rows in bins of public edges, or exactly with a bin for each distinct score."""
    if edges is None:
        points = np.unique(rows.scores())
        ends = np.append(points[:1], points)
        found = _cell_counts(rows, n_classes, points, terms)
        counts = found.counts[:, :, :-1]  # nothing is above the largest score
        return ScoreHistogram(counts, found.size, 0.0, None, points, ends)
    found = _cell_counts(rows, n_classes, edges, terms)
    ends = np.concatenate([[2 * edges[0] - edges[1]], edges, [2 * edges[-1] - edges[-2]]])
    points = 0.5 * (ends[1:] + ends[:-1])
    ends[[0, -1]] = (-np.inf, np.inf)
    return ScoreHistogram(found.counts, found.size, found.scale, found.guarantee, points, ends)


def _cell_counts(rows: ScoredRows, n_classes: int, edges: FloatArray, terms: Terms) -> CellRelease:
    """Ask for the counts of rows whose true classes are codes of subgroup and class together."""
    question = CellCounts(terms.n_levels * n_classes, edges)
    counts, guarantee = _totals(rows, question, terms)
    budget = terms.budget
    scale = 0.0 if budget is None else question.sensitivity(budget.relation) / budget.epsilon
    cells = counts.reshape(terms.n_levels, n_classes, -1)
    return CellRelease(cells, rows.public_size, scale, guarantee)


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
    low, high = _checked_bounds(bounds)
    table, truth = _numeric(model, X, y)
    rows = scored_rows(table, truth, partial(_predictions, model), groups)
    sums, guarantee = _totals(rows, ErrorSums(low, high), Terms(budget, ledger, groups))
    mean_absolute, mean_square = np.clip(sums, 0.0, rows.public_size) / rows.public_size
    width = high - low
    return RegressorScores(
        float(width * mean_absolute), float(width * np.sqrt(mean_square)), guarantee
    )


def count_errors(
    model: LinearRegressor,
    X: Any,
    y: ArrayLike,
    bounds: tuple[float, float],
    edges: FloatArray | None,
    terms: Terms,
) -> ScoreHistogram:
    """Count rows by subgroup and by absolute error, as a share of the width of the bounds.

    Targets and predictions are clipped to ``bounds``, public bounds of the target; ``edges`` are as
    in `count_scores`.

    Notes
    -----
    *Privacy.* The error of a row depends on that row, the model and public numbers. So a row counts
    in one cell, and the L1 sensitivity of all counts together is 1 or 2.
    """
    low, high = _checked_bounds(bounds)
    inner = _checked_edges(edges, terms)
    table, truth = _numeric(model, X, y)
    target = np.clip(truth, low, high)

    def errors(table: Any) -> FloatArray:
        distance = np.abs(target - np.clip(_predictions(model, table), low, high)) / (high - low)
        return np.minimum(np.nan_to_num(distance, nan=1.0), 1.0)

    codes = terms.cell_codes(np.zeros(len(truth), dtype=np.intp), 1)
    return _histogram(scored_rows(table, codes, errors, terms.groups), 1, inner, terms)


def _checked_bounds(bounds: tuple[float, float]) -> tuple[float, float]:
    low = number("low of bounds", bounds[0])
    return low, number("high of bounds", bounds[1], above=low)


def _numeric(model: LinearRegressor, X: Any, y: ArrayLike) -> tuple[Any, FloatArray]:
    """Return rows that a regressor can score, and their targets as numbers."""
    table = _table(model, X)
    check_target(y, numbers=True)
    return table, _targets(y, table.shape[0]).astype(np.float64)


def _predictions(model: LinearRegressor, table: Any) -> FloatArray:
    """Return the prediction for each row, which depends on that row and the model alone."""
    return model._predicted(_margins(model, table))


Release = tuple[FloatArray, Guarantee | None]
"""Totals, exact or with noise, and the guarantee of noisy ones."""


def _totals(rows: ScoredRows, question: TotalQuestion, terms: Terms) -> Release:
    """Answer a question exactly, or within a budget: a curator charges all of it, then reads."""
    budget = terms.budget
    if budget is None:
        [exact] = rows.answer([question])
        return exact.values, None
    check_dataset(terms.ledger)
    payer = None if terms.ledger is None else terms.ledger.noting(solver="evaluation")
    session = Session(budget, rows.unit, ledger=payer)
    curator = session.curator(rows)
    curator.open("pure")
    note("Evaluation: ε = %g, %s, one %s.", budget.epsilon, budget.relation, rows.unit)
    noisy = curator.ask(question, Laplace(budget.epsilon)).values
    counted = f"each {rows.unit} counts once, by predictions that depend on single rows alone"
    units = "rows" if rows.unit == "row" else "people"
    levels = () if terms.subgroups is None else (f"the levels of {terms.subgroups.name}",)
    return noisy, session.account.guarantee(
        conditions=(counted,),
        public=(f"the number of {units}", *_PUBLIC, *levels),
        secure=session.secure,
    )


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0 else float("nan")
