"""Scorers for cross-validation and searches of scikit-learn, with noise and a ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn.utils.metadata_routing import MetadataRequest

from discreet.core import Budget
from discreet.errors import PrivacyLeakWarning
from discreet.estimators.classifiers import LinearClassifier, LogisticRegression
from discreet.estimators.familiar import warn
from discreet.estimators.measures import ERRORS
from discreet.estimators.regressors import LinearRegressor
from discreet.evaluation.model import evaluate, last_step
from discreet.ledger import Dataset, check_dataset
from discreet.validate import choice

_MEASURES = {
    "accuracy": ("accuracy", 1.0),
    "balanced_accuracy": ("balanced accuracy", 1.0),
    "roc_auc": ("AUC", 1.0),
    "neg_log_loss": ("log loss", -1.0),
    "recall": ("recall of {}", 1.0),
    "precision": ("precision of {}", 1.0),
    "neg_mean_absolute_error": ("mean absolute error", -1.0),
    "neg_root_mean_squared_error": ("root mean squared error", -1.0),
}
"""Measure of each name that scikit-learn has for a scorer, and its sign: larger is better."""


@dataclass(frozen=True)
class PrivateScorer:
    """A scorer of scikit-learn that releases a measure with noise; `private_scorer` makes it."""

    scoring: str
    epsilon: float
    relation: str = "add_remove"
    ledger: Dataset | None = None
    threshold: float | None = None
    target_bounds: tuple[float, float] | None = None

    def __call__(self, estimator: Any, X: Any, y: Any, groups: Any = None) -> float:
        """Return a noisy score of a fitted estimator; the ledger is charged before rows are read.

        ``groups`` says whose row each row is; scikit-learn passes it if metadata routing is
        enabled.
        """
        name, sign = self._measure(estimator)
        found = evaluate(
            estimator,
            X,
            y,
            epsilon=self.epsilon,
            relation=self.relation,
            groups=groups,
            threshold=self.threshold,
            target_bounds=self.target_bounds,
            ledger=self.ledger,
        )
        return sign * found.measures[name]

    def _measure(self, estimator: Any) -> tuple[str, float]:
        """Return the name and the sign of the measure; refuse a model that does not have it."""
        model = last_step(estimator)
        name, sign = _MEASURES[self.scoring]
        two = isinstance(model, LinearClassifier) and len(model.classes_) == 2
        known = name in ERRORS
        if not isinstance(model, LinearRegressor):
            known = name in ("accuracy", "balanced accuracy") or (two and name not in ERRORS)
            known &= name != "log loss" or isinstance(model, LogisticRegression)
        if not known:
            raise ValueError(
                f"scoring={self.scoring!r} is no measure of this {type(model).__name__}: nothing "
                "was spent. docs/evaluate.md lists the measures of each kind of model."
            )
        return (name.format(model.classes_[1]) if two else name), sign

    def get_metadata_routing(self) -> MetadataRequest:
        """Ask scikit-learn for the groups of the rows that are scored."""
        request = MetadataRequest(owner=self)
        request.score.add_request(param="groups", alias=True)
        return request


def private_scorer(
    scoring: str,
    *,
    epsilon: float,
    relation: str = "add_remove",
    ledger: Dataset | None = None,
    threshold: float | None = None,
    target_bounds: tuple[float, float] | None = None,
) -> PrivateScorer:
    """Make a scorer for ``cross_val_score`` and ``GridSearchCV`` that adds noise to each score.

    Parameters
    ----------
    scoring : str
        Name of a scorer of scikit-learn: "accuracy", "balanced_accuracy", "roc_auc",
        "neg_log_loss", "recall" or "precision" (of the second of two classes),
        "neg_mean_absolute_error" or "neg_root_mean_squared_error".
    epsilon : float
        Privacy budget of each score.
    ledger : Dataset, optional
        Data set of a ledger that is charged at every call. Without one, a `PrivacyLeakWarning` says
        that the scores of several folds and candidates add up.
    relation, threshold, target_bounds
        As in `evaluate`.

    Notes
    -----
    *Privacy.* Each call is a release of its own, on its whole ε. The fits of a cross-validation are
    releases, too. For people with several rows, enable scikit-learn's metadata routing and pass
    ``params={"groups": ids}``: then models, splitter and scorer get them.

    Examples
    --------
    >>> import discreet
    >>> dataset = discreet.Ledger().create("rows", limit=discreet.Budget(5.0, 1e-5, "add_remove"))
    >>> scorer = discreet.private_scorer("roc_auc", epsilon=0.1, ledger=dataset)
    """
    choice("scoring", scoring, tuple(_MEASURES))
    Budget(epsilon, 0.0, relation)
    check_dataset(ledger)
    if ledger is None:
        warn(
            f"No ledger counts the scores of this scorer. Each costs ε = {epsilon:g}, and those "
            "of several folds and candidates add up, with each other and with the fits. Pass "
            "ledger=Ledger('visits.sqlite').open('visits').",
            PrivacyLeakWarning,
        )
    return PrivateScorer(scoring, epsilon, relation, ledger, threshold, target_bounds)
