"""Interface of the benchmark's solvers: the problem they get and the result they return."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet_bench.data import scaled_down

__all__ = ["CHOICES", "Problem", "Result", "one_of"]

CHOICES = {
    "test": ("80/20", "5-fold", "train"),
    "rows": ("encoded", "unit"),
    "relation": ("add_remove", "replace_one"),
    "loss": ("logistic", "huber-hinge", "hinge", "sigmoid", "huber", "squared"),
}
"""Values of the objective's parameters that are one of a few words."""


def one_of(name: str, given: str) -> None:
    """Refuse a value that is not one of a parameter's choices."""
    if given not in CHOICES[name]:
        raise ValueError(f"{name} must be one of {', '.join(CHOICES[name])}; got {given!r}.")


@dataclass(frozen=True)
class Problem:
    """Training rows, test rows, budget and objective of one run.

    Attributes
    ----------
    X, y
        Training rows (dense or CSR), and class codes 0, 1, … or real targets.
    X_test
        Test rows, to be scored.
    n_classes
        Number of classes; 0 for a real target.
    epsilon, delta, relation
        The budget, and the neighbouring relation.
    loss, alpha, intercept
        The objective: its loss, penalty, and whether there is a constant term.
    bounds, max_norm, target_bounds
        Public: bounds of the columns (d, 2), of a row's norm, and of a real target.
    repeat
        Number of the split, and the seed of whatever else a method draws.
    """

    X: Any
    y: NDArray[Any]
    X_test: Any
    n_classes: int
    epsilon: float
    delta: float
    relation: str
    loss: str
    alpha: float
    intercept: bool
    bounds: NDArray[np.float64]
    max_norm: float
    target_bounds: tuple[float, float] | None
    repeat: int


@dataclass(frozen=True)
class Result:
    """Scores of the test rows, guarantee and costs of one run.

    Attributes
    ----------
    scores
        Of the test rows: (n,) for two classes (positive for the second) or a real target, else
        (n, K).
    probabilities
        (n, K), where the model has them.
    train_scores, weights
        Scores of the training rows and all weights, the intercept last, for the objective; of two
        classes or a real target, and of models on the problem's own columns.
    guarantee
        A `discreet.core.Guarantee`, or None. A run without one is not called private.
    published
        Whether the method's published constants were used, whatever they cost.
    variant
        Kind of run (`discreet_bench.runs.VARIANTS`) where there is no guarantee to tell it.
    claim, epsilon_spent
        The claim and its ε where there is no guarantee.
    row_norm
        The norm that rows were scaled down to before they were scored, if they were.
    calibration, tuning
        As in `discreet_bench.runs.COLUMNS`.
    iterates
        Checkpoints: dicts with ``at``, ``weights`` and, if known, ``noisy_gradient_norm``; each
        becomes a line of its own.
    at
        Updates done, where the run is one checkpoint of a curve.
    seconds, peak_mb
        Set by methods that measure them themselves.
    problem
        Reason why there is no result.
    """

    scores: NDArray[Any] | None = None
    probabilities: NDArray[Any] | None = None
    train_scores: NDArray[Any] | None = None
    weights: NDArray[Any] | None = None
    guarantee: Any = None
    published: bool = False
    variant: str = "not private"
    claim: str = ""
    epsilon_spent: float = math.nan
    calibration: str = ""
    tuning: str = ""
    row_norm: float | None = None
    iterates: list[dict[str, Any]] = field(default_factory=list)
    at: float = math.nan
    seconds: float = math.nan
    peak_mb: float = math.nan
    problem: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return all fields, for benchopt."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}

    @classmethod
    def of_model(cls, model: Any, problem: Problem, **more: Any) -> Result:
        """Make the result of a fitted estimator of this library."""
        real = problem.n_classes == 0
        score = model.predict if real else model.decision_function
        found: dict[str, Any] = {"scores": score(problem.X_test), "guarantee": model.guarantee_}
        if hasattr(model, "predict_proba"):
            found["probabilities"] = model.predict_proba(problem.X_test)
        # A model with a preparation has its penalty on the weights of prepared rows, so objectives
        # cannot be compared; without a penalty they can.
        if problem.n_classes <= 2 and not (model.preparation_ and problem.alpha):
            found["row_norm"] = None if model.preparation_ else model.row_norm_
            norm = found["row_norm"]  # predictions scale no row down, the objective does
            found["train_scores"] = score(
                problem.X if norm is None else scaled_down(problem.X, norm)
            )
            weights = np.ravel(model.coef_)
            if problem.intercept:
                weights = np.append(weights, model.intercept_)
            found["weights"] = weights
        return cls(**found, **more)
