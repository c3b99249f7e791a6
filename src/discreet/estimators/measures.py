"""Measures of a model from counts of its scores or errors: AUC, log loss, calibration, deviations.

Everything here is computed from the counts that `discreet.estimators.scoring` releases, exact or
noisy, and public numbers: post-processing. So one release, on the whole budget, serves all
measures. Definitions: docs/proofs/scoring.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit

from discreet.core import Budget
from discreet.core.score_questions import ErrorSums
from discreet.estimators.classifiers import LinearClassifier, LogisticRegression
from discreet.estimators.scoring import (
    CellRelease,
    ClassifierScores,
    ScoreHistogram,
    Terms,
    count_scores,
)
from discreet.ledger import Dataset
from discreet.validate import FloatArray

LARGEST_LOGIT = 6.0
"""Bins are even in the log odds up to here, a probability of 0.9975; beyond is one bin."""

_WIDTHS = ((20_000.0, 0.125), (1_000.0, 0.25), (100.0, 0.5), (0.0, 1.0))
"""Width of a bin in log odds, by the least number of rows per noise scale."""

_BINS_PER_OCTAVE = 4
"""Bins of errors per factor of 2: more of them add noise to the number of rows, fewer add bias."""

_ERROR_BINS = 40
"""Bins of errors above the first, which ends at 2^-10 of the width of the target's bounds."""

_GROUPS = 10  # of a calibration table, at most
_REDRAWN = 200  # times that noise is drawn again, to measure its effect

ERRORS = ("mean absolute error", "root mean squared error")
"""Names of the measures of a regressor."""


@dataclass(frozen=True)
class Calibration:
    """Rows whose predicted probability lies between two numbers.

    ``predicted`` is their mean predicted probability of the second class, ``observed`` the share
    of that class among them, ``count`` their number.
    """

    low: float
    high: float
    predicted: float
    observed: float
    count: float


@dataclass(frozen=True)
class TwoClassScores:
    """Measures of a classifier of two classes; the second class is the positive one.

    ``auc`` is NaN if a class has no rows. ``log_loss`` and ``calibration`` (predicted against
    observed, in up to ten groups of rows) are None and empty for models without probabilities. A
    row's loss is at most ``log_loss_bound``: with noise, predicted log odds beyond ±6 count as
    little more than that; exact losses are bounded by about 36. ``deviations`` are those due to
    noise alone, by measure; empty if the counts are exact.
    """

    confusion: ClassifierScores
    auc: float
    log_loss: float | None
    calibration: tuple[Calibration, ...]
    log_loss_bound: float
    deviations: Mapping[str, float]

    @property
    def guarantee(self) -> Any:
        """Guarantee of the release; None if it is exact."""
        return self.confusion.guarantee

    def measures(self) -> dict[str, float]:
        """Return all single numbers by name."""
        found = confusion_measures(self.confusion) | {"AUC": self.auc}
        return found if self.log_loss is None else found | {"log loss": self.log_loss}


def confusion_measures(scores: ClassifierScores) -> dict[str, float]:
    """Return accuracy, balanced accuracy, and recall and precision of each label, by name."""
    found = {"accuracy": scores.accuracy, "balanced accuracy": scores.balanced_accuracy}
    precisions = replace(scores, counts=scores.counts.T).recalls
    for label, recall, precision in zip(scores.labels, scores.recalls, precisions, strict=True):
        found |= {f"recall of {label}": recall, f"precision of {label}": precision}
    return found


def score_edges(model: LinearClassifier, size: int, budget: Budget, cut: float) -> FloatArray:
    """Return the edges of the bins of scores, by public numbers only.

    They are even in the log odds of the predicted probability (for models without probabilities, in
    the score), finer if there are many rows for the noise. The score ``cut``, above which the
    second class is predicted, is one of them.
    """
    rows_per_scale = size * budget.epsilon / budget.relation.rows_changed
    width = next(width for least, width in _WIDTHS if rows_per_scale >= least)
    grid = np.arange(-LARGEST_LOGIT, LARGEST_LOGIT + width / 2, width)
    if isinstance(model, LogisticRegression):
        grid = np.array([model.link_.score(float(expit(each))) for each in grid])
    apart = np.abs(grid - cut) > 0.1 * width  # a bin much narrower than others is mostly noise
    edges: FloatArray = np.sort(np.append(grid[apart], cut))
    return edges


def score_two_classes(
    model: LinearClassifier,
    X: Any,
    y: Any,
    budget: Budget | None = None,
    ledger: Dataset | None = None,
    groups: Any = None,
    *,
    size: int | None = None,
    threshold: float | None = None,
) -> TwoClassScores:
    """Measure a classifier of two classes: exactly, or with a budget by a noisy histogram.

    The first arguments are those of `score_classifier`. ``size`` is the public number of rows or
    people, by default counted; above the probability ``threshold`` the second class is predicted.

    Privacy
    -------
    One histogram is released on the whole budget; all measures are computed from it.
    """
    terms = Terms(budget, ledger, groups)
    whole, _ = measure_two_classes(model, X, y, terms, size=size, threshold=threshold)
    return whole


def measure_two_classes(
    model: LinearClassifier,
    X: Any,
    y: Any,
    terms: Terms,
    *,
    size: int | None = None,
    threshold: float | None = None,
) -> tuple[TwoClassScores, list[TwoClassScores]]:
    """Measure a classifier of two classes on all rows, and on each subgroup if there are any.

    One histogram by subgroup, class and bin is released on the whole budget. Everything is computed
    from it: the histogram of all rows is the sum over subgroups.
    """
    cut = 0.0
    if threshold is not None:
        if not isinstance(model, LogisticRegression):
            raise ValueError("threshold is for models with probabilities (LogisticRegression).")
        cut = model.link_.score(threshold)
    edges = None
    if terms.budget is not None:
        if size is None:
            size = terms.size(X.shape[0])
        edges = score_edges(model, size // terms.n_levels, terms.budget, cut)
    found = count_scores(model, X, y, edges, terms)
    labels = tuple(model.classes_.tolist())
    probabilities = model.link_.positive if isinstance(model, LogisticRegression) else None
    rule = _TwoClassRule(labels, cut, probabilities)
    parts = []
    if terms.subgroups is not None:
        parts = [rule.measured(part, None) for part in _parts(found)]
    return rule.measured(found, found.size), parts


def _parts(found: ScoreHistogram) -> Iterator[ScoreHistogram]:
    """Yield the histogram of each subgroup; an exact one has no bins without rows."""
    for k in range(len(found.counts)):
        own = found.counts[k : k + 1]
        if found.scale:
            yield replace(found, counts=own)
            continue
        held = own[0].sum(axis=0) > 0
        points = found.points[held]
        ends = np.append(points[:1], points)
        yield replace(found, counts=own[:, :, held], points=points, edges=ends)


def deviations_of(
    measure: Callable[[FloatArray], Mapping[str, float]], counts: FloatArray, scale: float
) -> dict[str, float]:
    """Return the standard deviation of each measure if noise is added to the counts once more."""
    if not scale:
        return {}
    rng = np.random.default_rng(0)  # this noise protects nobody: equal counts, equal deviations
    again = [measure(counts + rng.laplace(0.0, scale, counts.shape)) for _ in range(_REDRAWN)]
    deviations = {}
    for name in again[0]:
        values = np.array([each[name] for each in again])
        deviations[name] = float(np.nanstd(values)) if np.isfinite(values).any() else float("nan")
    return deviations


@dataclass(frozen=True)
class _TwoClassRule:
    """Public numbers by which counts by class and bin become measures."""

    labels: tuple[Any, ...]
    cut: float
    probabilities: Callable[[FloatArray], FloatArray] | None

    def measured(self, found: ScoreHistogram, size: int | None) -> TwoClassScores:
        """Measure the sum of all histograms; without a public ``size`` rows are their counts."""

        def single_numbers(counts: FloatArray) -> dict[str, float]:
            return self._scores(found, counts, size, grouped=False).measures()

        scores = self._scores(found, found.counts, size, grouped=True)
        return replace(scores, deviations=deviations_of(single_numbers, found.counts, found.scale))

    def _scores(
        self, found: ScoreHistogram, cells: FloatArray, size: int | None, *, grouped: bool
    ) -> TwoClassScores:
        """Compute all measures from counts by subgroup, class and bin; groups if ``grouped``."""
        counts = cells.sum(axis=0)
        above = found.points > self.cut
        matrix = np.array([[row[~above].sum(), row[above].sum()] for row in counts])
        confusion = ClassifierScores(self.labels, np.maximum(matrix, 0.0), found.guarantee)
        auc = area_under_curve(counts)
        if self.probabilities is None:
            return TwoClassScores(confusion, auc, None, (), 0.0, {})
        least = np.finfo(np.float64).eps
        second = np.clip(self.probabilities(found.points), least, 1 - least)
        losses = -np.log(np.stack([1 - second, second]))
        bound = float(losses.max(initial=0.0))
        number = counts.sum() if size is None else size
        mean = float((counts * losses).sum()) / max(number, 1)
        groups: tuple[Calibration, ...] = ()
        if grouped:
            scale = found.scale * math.sqrt(len(cells))
            groups = calibration_groups(second, self.probabilities(found.edges), counts, scale)
        return TwoClassScores(confusion, auc, min(max(mean, 0.0), bound), groups, bound, {})


def confusion_scores(
    found: CellRelease, labels: tuple[Any, ...]
) -> tuple[ClassifierScores, dict[str, float]]:
    """Return the confusion matrix of all subgroups together, and the deviations due to noise."""

    def single_numbers(cells: FloatArray) -> dict[str, float]:
        matrix = np.maximum(cells.sum(axis=0), 0.0)
        return confusion_measures(ClassifierScores(labels, matrix, None))

    matrix = np.maximum(found.counts.sum(axis=0), 0.0)
    deviations = deviations_of(single_numbers, found.counts, found.scale)
    return ClassifierScores(labels, matrix, found.guarantee), deviations


def error_edges() -> FloatArray:
    """Return the edges of the bins of errors, as shares of the width of the target's bounds.

    They are even in the logarithm: a bin is 19 % wide, and errors below 1/1000 share one. So the
    binned errors of a smooth density are within about 1 % of the exact ones.
    """
    edges: FloatArray = np.exp2(-np.arange(_ERROR_BINS, 0, -1.0) / _BINS_PER_OCTAVE)
    return edges


def error_measures(
    found: ScoreHistogram, width: float
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the errors of all subgroups together, in units of the target; and deviations.

    Means are over the noisy number of rows. The square of a bin is the mean square of numbers that
    are evenly spread over it.
    """
    low = found.edges[:-1]
    high = found.edges[1:]
    absolute = found.points
    squares = found.points**2
    if np.isinf(found.edges[-1]):  # public bins, the first of which starts at 0; the last ends at 1
        low = np.append(0.0, low[1:])
        high = np.append(high[:-1], 1.0)
        absolute = (low + high) / 2
        squares = (low * low + low * high + high * high) / 3

    def single_numbers(cells: FloatArray) -> dict[str, float]:
        counts = cells.sum(axis=(0, 1))
        number = counts.sum()
        if not number > 0:
            return dict.fromkeys(ERRORS, float("nan"))
        means = np.clip([counts @ absolute / number, counts @ squares / number], 0.0, 1.0)
        values = (width * means[0], width * np.sqrt(means[1]))
        return dict(zip(ERRORS, map(float, values), strict=True))

    return single_numbers(found.counts), deviations_of(single_numbers, found.counts, found.scale)


def sum_deviations(
    found: Mapping[str, float], bounds: tuple[float, float], size: int, budget: Budget
) -> dict[str, float]:
    """Return the deviations due to noise of errors that were computed from two noisy sums."""
    low, high = bounds
    width = high - low
    means = np.array([found[name] / width for name in ERRORS])
    sums = size * means ** [1, 2]
    scale = ErrorSums(low, high).sensitivity(budget.relation) / budget.epsilon

    def single_numbers(sums: FloatArray) -> dict[str, float]:
        absolute, square = np.clip(sums, 0.0, size) / size
        return dict(zip(ERRORS, (width * absolute, width * math.sqrt(square)), strict=True))

    return deviations_of(single_numbers, sums, scale)


def area_under_curve(counts: FloatArray) -> float:
    """Return the AUC of counts by class and bin: the chance that scores order two rows rightly.

    Two rows in one bin count half.
    """
    first, second = counts
    pairs = first.sum() * second.sum()
    if not (first.sum() > 0 and second.sum() > 0):
        return float("nan")
    right = (second * (np.cumsum(first) - 0.5 * first)).sum()
    return float(np.clip(right / pairs, 0.0, 1.0))


def calibration_groups(
    probability: FloatArray, ends: FloatArray, counts: FloatArray, scale: float
) -> tuple[Calibration, ...]:
    """Join neighbouring bins until each group has a tenth of the rows, and far more than noise."""
    total = counts.sum(axis=0)
    groups: list[Calibration] = []
    start = 0
    for stop in range(1, total.size + 1):
        of_noise = 10 * scale * np.sqrt(2.0 * (stop - start))
        enough = max(total.sum() / _GROUPS, of_noise, 1e-9)
        last = stop == total.size
        if not last and min(total[start:stop].sum(), total[stop:].sum()) < enough:
            continue
        own = slice(start, stop)
        weights = np.maximum(total[own], 0.0)
        size = float(total[own].sum())
        hits = float(counts[1, own].sum())
        if size > 0 and weights.sum() > 0:
            mean = float(np.average(probability[own], weights=weights))
            share = min(max(hits / size, 0.0), 1.0)
            low, high = float(ends[start]), float(ends[stop])
            groups.append(Calibration(low, high, mean, share, size))
        start = stop
    return tuple(groups)
