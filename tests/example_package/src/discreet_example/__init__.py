"""Noisy full-batch gradient descent, as an example of a solver in a package of its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from discreet.accounting.budget import Measure
from discreet.core import Budget, Curator, Gaussian
from discreet.objectives import Problem
from discreet.solvers import Progress, Solution, Solver, TraceEntry, settings

__all__ = ["NoisyDescent"]


@dataclass(frozen=True)
class NoisyDescent(Solver):
    """Gradient descent with a fixed number of equally noisy gradients.

    Parameters
    ----------
    iterations : int
        How many gradients to measure.
    step_size : float
        Length of a step, relative to the gradient of the mean loss.
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
        settings.wholes(self, "iterations", most=10**6)
        settings.numbers(self, "step_size", "gradient_clip", least=1e-6, most=1e6)

    def solve(
        self,
        problem: Problem,
        curator: Curator,
        budget: Budget,
        progress: Callable[[Progress], None] | None = None,
    ) -> Solution:
        """Measure, step, repeat."""
        total = curator.open("gdp")  # μ², which Gaussian measurements share exactly
        mechanism = Gaussian(math.sqrt(self.iterations / total) * (1 + 1e-12))
        weights = np.zeros(problem.n_parameters)
        trace = []
        for _ in range(self.iterations):
            gradient = curator.gradient(
                problem.loss, weights, clip=self.gradient_clip, mechanism=mechanism
            )
            mean = gradient.values / problem.n_rows + problem.penalty.gradient(weights)
            weights = weights - self.step_size * mean
            trace.append(TraceEntry())
            if progress is not None:
                progress(Progress(trace[-1], weights.copy(), curator.spent_share))
        conditions = (f"each row's gradient is clipped to norm {self.gradient_clip:g}",)
        return Solution(weights, tuple(trace), conditions)
