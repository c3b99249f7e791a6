"""The minimum of the objective without any privacy: what there is to reach."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize

from discreet.objectives import Problem
from discreet.solvers import settings
from discreet.solvers.base import FloatArray
from discreet.solvers.baseline import NO_CLIP, Baseline

__all__ = ["NonPrivate"]


@dataclass(frozen=True)
class NonPrivate(Baseline):
    """Finds the minimum of the objective by L-BFGS, without any privacy.

    Parameters
    ----------
    tolerance : float
        Stop when no coordinate of the mean gradient is larger.
    max_iterations : int
        Stop after so many iterations anyway.
    smoothing : float
        A loss with a kink is rounded off over this width, since L-BFGS needs a gradient.
    """

    _: KW_ONLY
    tolerance: float = 1e-8
    max_iterations: int = 2000
    smoothing: float = 0.01

    name: ClassVar[str] = "nonprivate"
    paper: ClassVar[str] = "Liu, Nocedal: On the limited memory BFGS method (1989)"

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        settings.numbers(self, "tolerance", least=1e-16, most=1e6)
        settings.wholes(self, "max_iterations", most=10**7)
        settings.numbers(self, "smoothing", least=1e-6, most=1e6)

    def compute(self, problem: Problem, rows: Any) -> FloatArray:
        """Minimise the objective on exact rows."""
        rows = rows.within_reach()  # rows that overflow would make the objective NaN
        loss = problem.loss.smoothed(self.smoothing)

        def objective(weights: FloatArray) -> tuple[float, FloatArray]:
            gradient = rows.gradient_sum(weights, loss, NO_CLIP).values / problem.n_rows
            value = rows.objective_sum(weights, loss) / problem.n_rows
            return (
                value + problem.penalty.value(weights),
                gradient + problem.penalty.gradient(weights),
            )

        found = minimize(
            objective,
            np.zeros(problem.n_parameters),
            jac=True,
            method="L-BFGS-B",
            options={
                "maxiter": self.max_iterations,
                "maxfun": 10 * self.max_iterations,
                "gtol": self.tolerance,
                "ftol": 0.0,
                "maxcor": 30,
            },
        )
        return np.asarray(found.x, dtype=np.float64)
