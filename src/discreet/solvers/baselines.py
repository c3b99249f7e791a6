"""Baselines without privacy: the minimum of the objective, and the most frequent class.

They compute on exact rows, protect nobody, and say so.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

from discreet.core import Budget, Curator
from discreet.errors import PrivacyLeakWarning
from discreet.exact import Rows, mean_target, nonprivate_minimum
from discreet.objectives import Problem
from discreet.solvers import base
from discreet.validate import FloatArray, check_declared, number


class Baseline(base.Solver):
    """A computation on exact rows whose result is released as it is."""

    private: ClassVar[bool] = False
    takes_units: ClassVar[bool] = True
    takes_weights: ClassVar[bool] = True
    demands: ClassVar[tuple[str, ...]] = ("NOT PRIVATE: for comparison on public data only",)
    constant: ClassVar[bool] = False  # True if it predicts a constant

    def _plan(self, problem: Problem, budget: Budget, n_models: int) -> base.Plan:
        if self.constant and not problem.fit_intercept:
            raise ValueError(f"solver={self.name!r} needs fit_intercept=True.")
        warnings.warn(
            f"solver={self.name!r} is a baseline without any privacy, whatever epsilon says.",
            PrivacyLeakWarning,
            stacklevel=5,
        )
        return base.Plan(budget, budget)

    def _compute(self, rows: Rows, problem: Problem) -> FloatArray:
        """Return the weights, from exact rows."""
        raise NotImplementedError

    def _solve(
        self, problem: Problem, curator: Curator, plan: base.Plan, record: base.Recorder
    ) -> base.Solution:
        compute = partial(self._compute, problem=problem)
        weights = curator.reveal(compute, size=problem.n_parameters)
        record(base.TraceEntry(), weights, spent_share=1.0)
        return base.Solution(weights, record.trace, ())


@dataclass(frozen=True, kw_only=True)
class NonPrivate(Baseline):
    """Finds the minimum of the objective by L-BFGS, without any privacy.

    Parameters
    ----------
    tolerance : float
        Stop when no coordinate of the mean gradient is larger.
    max_iterations : int
        Stop after this many iterations anyway.
    smoothing : float
        A loss with a kink is rounded off over this width, since L-BFGS needs a gradient.
    """

    tolerance: Annotated[float, partial(number, least=1e-16, most=1e6)] = 1e-8
    max_iterations: base.Iterations = 2000
    smoothing: base.Size = 0.01

    name: ClassVar[str] = "nonprivate"
    paper: ClassVar[str] = "Liu, Nocedal: On the limited memory BFGS method (1989)"

    def __post_init__(self) -> None:
        check_declared(self)

    def _compute(self, rows: Rows, problem: Problem) -> FloatArray:
        loss = problem.loss.smoothed(self.smoothing)
        tolerance = self.tolerance
        most = self.max_iterations
        return nonprivate_minimum(rows, problem, loss, tolerance=tolerance, max_iterations=most)


@dataclass(frozen=True)
class Majority(Baseline):
    """Predicts the most frequent class (the mean target in regression) for every row."""

    name: ClassVar[str] = "majority"
    paper: ClassVar[str] = "the baseline of Lee, Kifer (KDD 2018)"
    constant: ClassVar[bool] = True

    def _compute(self, rows: Rows, problem: Problem) -> FloatArray:
        return mean_target(rows, problem)
