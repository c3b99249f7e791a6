"""What the benchmark's files for other libraries share."""

from __future__ import annotations

from typing import Any, ClassVar

from benchopt import BaseSolver

from discreet_bench.problem import Problem, Result
from discreet_bench.rivals.call import Answer, fit
from discreet_bench.rivals.catalogue import RIVALS, Rival
from discreet_bench.rivals.environments import ready

__all__ = ["RivalSolver"]

PASSED_ON = (
    "epsilon", "delta", "relation", "loss", "alpha", "intercept", "bounds", "max_norm",
)  # fmt: skip
"""What the library is told of the objective, beside the rows."""


class RivalSolver(BaseSolver):
    """Fits another library's model in a process of its own.

    Attributes
    ----------
    rival : str
        A name of `discreet_bench.rivals.RIVALS`.
    timeout : float
        Seconds for a fit.
    """

    sampling_strategy = "run_once"
    requirements: ClassVar[list[str]] = []
    rival: ClassVar[str] = ""
    timeout: ClassVar[float] = 600.0

    def skip(self, **objective: Any) -> tuple[bool, str | None]:
        """Skip what the library does not claim, and a library that is not installed."""
        rival = self._rival()
        reason = rival.refusal(objective) or ready(rival)
        return reason is not None, reason

    def set_objective(self, **objective: Any) -> None:
        """Keep the problem; nothing is read yet."""
        self.problem = Problem(**objective)

    def run(self, _: Any) -> None:
        """Fit; an error becomes the run's result, so that a table can show it."""
        self.answer: Answer | None = None
        self.error = ""
        problem = self.problem
        try:
            self.answer = fit(
                self._rival(),
                problem.X,
                problem.y,
                problem.X_test,
                classes=problem.n_classes,
                seed=problem.repeat,
                timeout=self.timeout,
                **{name: getattr(problem, name) for name in PASSED_ON},
            )
        except (RuntimeError, TimeoutError) as error:
            self.error = (str(error).splitlines() or [""])[0]
        except Exception as error:
            self.error = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"

    def get_result(self) -> dict[str, Any]:
        """What the objective evaluates."""
        variant = "rival" if self._rival().private else "not private"
        answer = self.answer
        if answer is None:
            return Result(problem=self.error, variant=variant).as_dict()
        chances = answer.scores
        spent = answer.claim.epsilon
        return Result(
            scores=chances[:, 1] - chances[:, 0] if chances.shape[1] == 2 else chances,
            probabilities=chances,
            variant=variant,
            claim=_told(answer),
            epsilon_spent=float("nan") if spent is None else spent,
            seconds=answer.seconds,
            peak_mb=answer.peak_mb,
        ).as_dict()

    def _rival(self) -> Rival:
        return RIVALS[self.rival]


def _told(answer: Answer) -> str:
    """What the library claims, and what was set and installed."""
    settings, versions = (
        ", ".join(f"{name} = {value}" for name, value in found.items())
        for found in (answer.settings, answer.versions)
    )
    return f"{answer.claim.words} Settings: {settings}. Versions: {versions}."
