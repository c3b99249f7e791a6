"""Noisy full-batch gradient descent, as an example of a solver in a package of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from discreet.accounting.budget import Measure
from discreet.core import Curator, Gaussian
from discreet.core.questions import Gradient
from discreet.objectives import Problem
from discreet.solvers import Plan, Recorder, Solution, Solver, TraceEntry
from discreet.validate import check_fields, integer, number

__all__ = ["NoisyDescent"]


@dataclass(frozen=True)
class NoisyDescent(Solver):
    """Gradient descent with a fixed number of equally noisy gradients.

    Parameters
    ----------
    iterations : int
        Number of gradients to measure.
    step_size : float
        Step size for gradients of the mean loss.
    gradient_clip : float
        Bound on the norm of a row's gradient.
    """

    iterations: int = 30
    step_size: float = 1.0
    gradient_clip: float = 1.0

    name: ClassVar[str] = "noisy-descent"
    paper: ClassVar[str] = "none: an example"
    demands: ClassVar[tuple[str, ...]] = ("gradients are clipped row by row",)
    needs_delta: ClassVar[bool] = True
    composes: ClassVar[tuple[Measure, ...]] = ("gdp",)

    def __post_init__(self) -> None:
        """Refuse settings that make no sense, before any data is read."""
        check_fields(self, integer, "iterations", most=10**6)
        check_fields(self, number, "step_size", "gradient_clip", least=1e-6, most=1e6)

    def _solve(self, problem: Problem, curator: Curator, plan: Plan, record: Recorder) -> Solution:
        """Measure, step, repeat."""
        total = curator.open("gdp")  # μ², which Gaussian measurements share exactly
        mechanism = Gaussian(math.sqrt(self.iterations / total) * (1 + 1e-12))
        weights = np.zeros(problem.n_parameters)
        for _ in range(self.iterations):
            gradient = curator.ask(
                Gradient(problem.loss, weights, clip=self.gradient_clip), mechanism
            )
            mean = gradient.values / problem.n_rows + problem.penalty.gradient(weights)
            weights = weights - self.step_size * mean
            record(TraceEntry(), weights)
        conditions = (f"each row's gradient is clipped to norm {self.gradient_clip:g}",)
        return Solution(weights, record.trace, conditions)
