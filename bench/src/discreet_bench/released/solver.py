"""The released methods as solvers of the benchmark."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from benchopt import BaseSolver
from numpy.typing import NDArray

from discreet_bench.memory import peak_memory
from discreet_bench.problem import Problem, Result
from discreet_bench.released.result import Released
from discreet_bench.solver import in_a_cell

__all__ = ["ReleasedSolver"]


class ReleasedSolver(BaseSolver):
    """Runs ``method``, one of the modules next to this one; several classes one against the rest.

    With K > 2 classes each model gets ε/K and δ/K, as in the papers. What goes wrong in a run is
    the ``problem`` of its result.
    """

    sampling_strategy = "run_once"
    requirements: ClassVar[list[str]] = []
    method: ClassVar[ModuleType]

    def skip(self, **objective: Any) -> tuple[bool, str | None]:
        """Skip losses that the method does not take, and relations that its claim is not about."""
        problem = Problem(**objective)
        if problem.loss not in self.method.LOSSES:
            return True, f"takes {', '.join(self.method.LOSSES)}, not {problem.loss}"
        if problem.relation != self.method.RELATION:
            return True, f"its claim is for {self.method.RELATION}, not {problem.relation}"
        if not problem.intercept:
            return True, "always has an intercept"
        return False, None

    def set_objective(self, **objective: Any) -> None:
        """Keep the problem."""
        self.problem = Problem(**objective)

    def run(self, _: Any) -> None:
        """Fit one model, or one a class; an error becomes the run's result."""
        self.models: list[Released] = []
        self.error = ""
        with peak_memory() as peak:
            try:
                self.models = self._fit()
            except Exception as error:
                self.error = in_a_cell(error)
        self.peak = peak.mebibytes

    def get_result(self) -> dict[str, Any]:
        """What the objective evaluates."""
        if not self.models:
            return Result(variant="as released", problem=self.error).as_dict()
        problem = self.problem
        weights = np.array([model.weights for model in self.models])
        found: dict[str, Any] = {"scores": _scores(problem.X_test, weights)}
        if problem.n_classes == 2:
            found |= {"train_scores": _scores(problem.X, weights), "weights": weights[0]}
        return Result(
            **found,
            variant="as released",
            claim=self._claim(),
            epsilon_spent=self._spent(),
            peak_mb=self.peak,
        ).as_dict()

    def _fit(self) -> list[Released]:
        problem = self.problem
        codes = [1] if problem.n_classes == 2 else range(problem.n_classes)
        settings = {name: getattr(self, name) for name in self.parameters}
        return [
            self.method.fit(
                problem.X,
                np.where(problem.y == code, 1.0, -1.0),
                epsilon=problem.epsilon / len(codes),
                delta=problem.delta / len(codes),
                loss=problem.loss,
                alpha=problem.alpha,
                seed=_seed_of(problem.repeat, code),
                **settings,
            )
            for code in codes
        ]

    def _spent(self) -> float:
        """The ε of all models added up, as the papers add them; nan if it is not known."""
        spent = [model.true_epsilon for model in self.models]
        return math.nan if None in spent else float(sum(e for e in spent if e is not None))

    def _claim(self) -> str:
        first, epsilon = self.models[0], self.problem.epsilon
        if len(self.models) == 1:
            return first.claim(epsilon)
        each = first.claim(epsilon / len(self.models))
        return f"{len(self.models)} models, one a class, of which the first: {each}"


def _scores(X: Any, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Margins of the rows as they came: (rows,), or (rows, models)."""
    scores = np.asarray(X @ weights[:, :-1].T) + weights[:, -1]
    return scores[:, 0] if scores.shape[1] == 1 else scores


def _seed_of(repeat: int, code: int) -> int:
    """A seed for each model."""
    return int(np.random.SeedSequence([repeat, code]).generate_state(1)[0])
