"""What baselines share: they compute on exact rows, protect nobody, and say so."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, ClassVar

from discreet.core import Budget, Curator
from discreet.errors import PrivacyLeakWarning
from discreet.objectives import Problem
from discreet.solvers.base import FloatArray, Progress, Solution, Solver, TraceEntry

__all__ = ["NO_CLIP", "Baseline"]

NO_CLIP = 1e100
"""A clip that no gradient reaches."""


class Baseline(Solver):
    """A computation on exact rows whose result is handed out as it is."""

    private: ClassVar[bool] = False
    demands: ClassVar[tuple[str, ...]] = ("NOT PRIVATE: for comparison on public data only",)

    def compute(self, problem: Problem, rows: Any) -> FloatArray:
        """The weights, from exact rows."""
        raise NotImplementedError

    def plan(self, problem: Problem, budget: Budget, n_models: int = 1) -> Budget:
        """Warn that nothing is protected."""
        self.refuse(problem, budget, n_models)
        warnings.warn(
            f"solver={self.name!r} is a baseline without any privacy, whatever epsilon says.",
            PrivacyLeakWarning,
            stacklevel=5,
        )
        return budget

    def refuse(self, problem: Problem, budget: Budget, n_models: int) -> None:
        """Refuse what cannot work, without a warning: once a fit is enough."""
        super().plan(problem, budget, n_models)

    def solve(
        self,
        problem: Problem,
        curator: Curator,
        budget: Budget,
        progress: Callable[[Progress], None] | None = None,
    ) -> Solution:
        """Compute on exact rows; the guarantee says that nothing is protected."""
        self.refuse(problem, budget, curator.n_models)
        weights = curator.reveal(
            lambda rows: self.compute(problem, rows), size=problem.n_parameters
        )
        entry = TraceEntry()
        if progress is not None:
            progress(Progress(entry, weights.copy(), spent_share=1.0))
        return Solution(weights, (entry,), ())
