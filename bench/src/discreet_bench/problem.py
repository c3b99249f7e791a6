"""What a solver of the benchmark gets, and what it returns."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Problem", "Result"]


@dataclass(frozen=True)
class Problem:
    """What a solver gets.

    Attributes
    ----------
    X, y
        Training rows (dense or CSR), and class codes 0, 1, … or real targets.
    X_test
        Test rows, to be scored.
    n_classes
        Number of classes; 0 for a real target.
    epsilon, delta, relation
        What may be spent, and on which neighbours.
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
    """What a solver returns.

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
        A `discreet.core.Guarantee`; None where there is none. Without one a run is not
        private, whatever it says.
    published
        Whether the method's published constants were used, whatever they cost.
    variant
        Kind of run (`discreet_bench.runs.VARIANTS`) where there is no guarantee to tell it.
    claim, epsilon_spent
        What is known of the promise where there is no guarantee.
    row_norm
        The norm that rows were scaled down to before they were scored, if they were.
    calibration, tuning
        As in `discreet_bench.runs.COLUMNS`.
    iterates
        Stations on the way: dicts with ``at``, ``weights`` and, if known,
        ``noisy_gradient_norm``; each becomes a line of its own.
    at
        Updates done, where the run is one station of a curve.
    seconds, peak_mb
        Where the method measured them itself.
    problem
        Why there is no result.
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
        """For benchopt."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}

    @classmethod
    def of_model(cls, model: Any, problem: Problem, **more: Any) -> Result:
        """What a fitted estimator of this library has to say."""
        real = problem.n_classes == 0
        score = model.predict if real else model.decision_function
        found: dict[str, Any] = {"scores": score(problem.X_test), "guarantee": model.guarantee_}
        if hasattr(model, "predict_proba"):
            found["probabilities"] = model.predict_proba(problem.X_test)
        # The weights of a model with a preparation belong to other columns, so their length cannot
        # be compared; without a penalty it need not be.
        if problem.n_classes <= 2 and not (model.preparation_ and problem.alpha):
            found["row_norm"] = None if model.preparation_ else model.row_norm_
            found["train_scores"] = score(problem.X)
            weights = np.ravel(model.coef_)
            if problem.intercept:
                weights = np.append(weights, model.intercept_)
            found["weights"] = weights
        return cls(**found, **more)
