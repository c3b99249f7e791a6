"""A method of one file: noisy descent whose gradients become more accurate as it goes.

discreet bench run auto-table --quick --solver-file bench/examples/growing_descent.py
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from discreet.core import Gaussian
from discreet.core.questions import Gradient
from discreet.solvers import Solution, Solver, TraceEntry


@dataclass(frozen=True)
class GrowingDescent(Solver):
    """Noisy descent with budgets of gradients that grow by a factor."""

    iterations: int = 30
    growth: float = 1.05
    step_size: float = 2.0

    name: ClassVar[str] = "growing-descent"
    needs_delta: ClassVar[bool] = True
    composes: ClassVar[tuple[str, ...]] = ("gdp",)

    def _solve(self, problem, curator, plan, record):
        """Measure a gradient, step, and give the next one a larger part of μ²."""
        total = curator.open("gdp")
        shares = self.growth ** np.arange(self.iterations)
        shares *= total * (1 - 1e-9) / shares.sum()
        weights = np.zeros(problem.n_parameters)
        for share in shares:
            question = Gradient(problem.loss, weights, clip=1.0)
            answer = curator.ask(question, Gaussian(1 / math.sqrt(share)))
            mean = answer.values / problem.n_rows + problem.penalty.gradient(weights)
            weights = weights - self.step_size * mean
            record(TraceEntry(), weights)
        return Solution(weights, record.trace, ("gradients are clipped to norm 1",))
