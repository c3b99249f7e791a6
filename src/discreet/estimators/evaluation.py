"""Measures of a classifier from counts of its scores: AUC, log loss, calibration, deviations.

Everything here is computed from the counts that `discreet.estimators.scoring` releases, exact or
noisy, and public numbers: post-processing. So one release, on the whole budget, serves all
measures. Definitions: docs/proofs/scoring.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit

from discreet.core import Budget
from discreet.estimators.classifiers import LinearClassifier, LogisticRegression
from discreet.estimators.scoring import ClassifierScores, ScoreHistogram, score_histogram
from discreet.ledger import Dataset
from discreet.validate import FloatArray

LARGEST_LOGIT = 6.0
"""Bins are even in the log odds up to here, a probability of 0.9975; beyond is one bin."""

_WIDTHS = ((20_000.0, 0.125), (1_000.0, 0.25), (100.0, 0.5), (0.0, 1.0))
"""Width of a bin in log odds, by the least number of rows per noise scale."""

_GROUPS = 10  # of a calibration table, at most
_REDRAWN = 200  # times that noise is drawn again, to measure its effect


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
    cut = 0.0
    if threshold is not None:
        if not isinstance(model, LogisticRegression):
            raise ValueError("threshold is for models with probabilities (LogisticRegression).")
        cut = model.link_.score(threshold)
    edges = None
    if budget is not None:
        if size is None:
            size = X.shape[0] if groups is None else len(set(np.asarray(groups).tolist()))
        edges = score_edges(model, size, budget, cut)
    found = score_histogram(model, X, y, edges, budget, ledger, groups)
    labels = tuple(model.classes_.tolist())
    probabilities = model.link_.positive if isinstance(model, LogisticRegression) else None
    measured = _measured(found, found.counts, labels, cut, probabilities)
    if not found.scale:
        return measured
    rng = np.random.default_rng()  # this noise protects nothing: it shows what the other did
    noise = rng.laplace(0.0, found.scale, (_REDRAWN, *found.counts.shape))
    again = [
        _measured(found, found.counts + each, labels, cut, probabilities, grouped=False).measures()
        for each in noise
    ]
    deviations = {}
    for name in measured.measures():
        values = np.array([each[name] for each in again])
        deviations[name] = float(np.nanstd(values)) if np.isfinite(values).any() else float("nan")
    return replace(measured, deviations=deviations)


def _measured(
    found: ScoreHistogram,
    counts: FloatArray,
    labels: tuple[Any, ...],
    cut: float,
    probabilities: Callable[[FloatArray], FloatArray] | None,
    *,
    grouped: bool = True,
) -> TwoClassScores:
    """Compute all measures from counts by class and bin, and groups of rows if ``grouped``."""
    above = found.points > cut
    matrix = np.array([[row[~above].sum(), row[above].sum()] for row in counts])
    confusion = ClassifierScores(labels, np.maximum(matrix, 0.0), found.guarantee)
    auc = area_under_curve(counts)
    if probabilities is None:
        return TwoClassScores(confusion, auc, None, (), 0.0, {})
    least = np.finfo(np.float64).eps
    second = np.clip(probabilities(found.points), least, 1 - least)
    losses = -np.log(np.stack([1 - second, second]))
    bound = float(losses.max(initial=0.0))
    mean = float((counts * losses).sum()) / max(found.size, 1)
    groups: tuple[Calibration, ...] = ()
    if grouped:
        groups = calibration_groups(second, probabilities(found.edges), counts, found.scale)
    return TwoClassScores(confusion, auc, min(max(mean, 0.0), bound), groups, bound, {})


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
