"""The most frequent class: what takes no learning at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from discreet.core import Budget
from discreet.objectives import Problem, Squared
from discreet.solvers.base import FloatArray
from discreet.solvers.baseline import NO_CLIP, Baseline

__all__ = ["Majority"]


@dataclass(frozen=True)
class Majority(Baseline):
    """Predicts the most frequent class (the mean target in regression) for every row."""

    name: ClassVar[str] = "majority"
    paper: ClassVar[str] = "the baseline of Lee, Kifer (KDD 2018)"

    def refuse(self, problem: Problem, budget: Budget, n_models: int) -> None:
        """Refuse models without an intercept, which cannot predict a constant."""
        if not problem.fit_intercept:
            raise ValueError("solver='majority' needs fit_intercept=True.")
        super().refuse(problem, budget, n_models)

    def compute(self, problem: Problem, rows: Any) -> FloatArray:
        """All weights 0, and the mean target as the intercept.

        The gradient of half the squared error at 0 is −Σ y·x, and the intercept's feature is 1.
        """
        weights = np.zeros(problem.n_parameters)
        gradient = rows.gradient_sum(weights, Squared(), NO_CLIP).values
        weights[-1] = -gradient[-1] / problem.n_rows
        return weights
