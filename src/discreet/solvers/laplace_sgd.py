"""Laplace SGD: each batch's gradient gets noise of density ∝ exp(−ε‖z‖/2).

Song, Chaudhuri & Sarwate, "Stochastic gradient descent with differentially private updates",
GlobalSIP 2013. In one pass every row is used once, so the pass costs what one noisy batch costs.

Where this differs from descriptions of the method: the direction of the noise is uniform on the
unit sphere (drawn from the ball, it would not have the stated density), every batch has the same
number of rows, and a row's gradient is clipped instead of assumed to be short.

Proof: docs/proofs/laplace_sgd.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from discreet.objectives import Loss, Problem
from discreet.privacy import Budget, Curator, L2Norm, Relation
from discreet.privacy.filters import Measure
from discreet.solvers.base import FloatArray, Progress, Solution, Solver, TraceEntry

__all__ = ["LaplaceSGD", "Pass"]


@dataclass(frozen=True)
class Pass(TraceEntry):
    """One noisy pass over the rows.

    Attributes
    ----------
    epsilon
        What the pass cost, as pure privacy.
    updates
        How many batches it had.
    noise_length
        Mean norm of the noise in the mean gradient of a batch.
    last_step
        The step size at its end.
    """

    epsilon: float
    updates: int
    noise_length: float
    last_step: float


@dataclass(frozen=True)
class LaplaceSGD(Solver):
    """Mini-batch descent with noise of gamma-distributed length on each batch.

    Parameters
    ----------
    calibration : {"tight", "published"}
        ``"published"``: p passes cost p times what one costs, so each gets ε/p. ``"tight"``: with
        δ > 0, passes (and models) are composed in the measure that allows them most.
    batch_size : int, optional
        b. By default so that noise in a batch's mean gradient is about a third as long as a
        clipped gradient, and at least 20, but no more than a 20th of the rows.
    passes : int
        p.
    schedule : {"sqrt", "linear"}
        Steps ``step_scale``/√t, or 1/(alpha·t), where t counts updates over all passes.
    step_scale : float
        c.
    gradient_clip : float, optional
        Bound on a row's gradient norm. By default what the loss and ``data_norm`` imply, or 1
        where they imply none.
    radius : float, optional
        Stay in the ball of this radius.
    average : bool
        Use the mean of the last pass's weights rather than the last ones.
    """

    calibration: Literal["tight", "published"] = "tight"
    batch_size: int | None = None
    passes: int = 1
    schedule: Literal["sqrt", "linear"] = "sqrt"
    step_scale: float = 3.0
    gradient_clip: float | None = None
    radius: float | None = None
    average: bool = False

    name: ClassVar[str] = "laplace-sgd"
    paper: ClassVar[str] = (
        "Song, Chaudhuri, Sarwate: Stochastic gradient descent with differentially private "
        "updates (GlobalSIP 2013)"
    )
    relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE_ONE,)
    demands: ClassVar[tuple[str, ...]] = (
        "every batch of a pass has the same number of rows",
        "schedule='linear' needs a penalty",
    )

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        for name, known in (
            ("calibration", ("tight", "published")),
            ("schedule", ("sqrt", "linear")),
        ):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {known}; got {getattr(self, name)!r}.")
        for name in ("batch_size", "passes"):
            count = getattr(self, name)
            if count is None and name == "batch_size":
                continue
            if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 1:
                raise ValueError(f"{name} must be a whole number >= 1; got {count!r}.")
            object.__setattr__(self, name, int(count))
        for name in ("step_scale", "gradient_clip", "radius"):
            value = getattr(self, name)
            if value is not None and not 1e-6 <= value <= 1e6:
                raise ValueError(f"{name} must be between 1e-6 and 1e6; got {value!r}.")

    def check(self, loss: Loss, budget: Budget, parts: int = 1) -> None:
        """Refuse budgets whose parts are too extreme to serve."""
        super().check(loss, budget, parts)
        self._spending(budget, parts)

    def prepare(self, problem: Problem, budget: Budget, parts: int = 1) -> Budget:
        """Refuse batches larger than the table, and 1/(alpha·t) without a penalty."""
        super().prepare(problem, budget, parts)
        if self.batch_size is not None and self.batch_size > problem.n_rows:
            raise ValueError(
                f"batch_size must be at most the number of rows, {problem.n_rows}; got "
                f"{self.batch_size}."
            )
        if self.schedule == "linear" and problem.penalty.alpha == 0:
            raise ValueError(
                "schedule='linear' has steps 1/(alpha·t) and needs a penalty alpha > 0; use "
                "schedule='sqrt'."
            )
        if not 1e-6 <= self._clip(problem) <= 1e6:
            raise ValueError("gradient norms up to 1e-6 … 1e6 are served; pass gradient_clip.")
        return budget

    def solve(
        self,
        problem: Problem,
        curator: Curator,
        budget: Budget,
        progress: Callable[[Progress], None] | None = None,
    ) -> Solution:
        """Run the passes, each a question of its own."""
        self.prepare(problem, budget, curator.parts)
        measure, epsilon = self._spending(budget, curator.parts)
        curator.open(measure)
        mechanism = L2Norm(epsilon)
        batch, clip = self._batch(problem, epsilon), self._clip(problem)
        updates = problem.n_rows // batch
        noise_length = problem.n_parameters * mechanism.scale(2 * clip) / batch
        weights: FloatArray = np.zeros(problem.n_parameters)
        trace: list[Pass] = []
        for index in range(self.passes):
            steps = self._steps(problem, index * updates, updates)
            last = index == self.passes - 1
            weights = curator.descend(
                problem.loss,
                weights,
                clip=clip,
                step_sizes=steps,
                mechanism=mechanism,
                order="pass",
                batch_size=batch,
                alpha=problem.penalty.alpha,
                radius=self.radius,
                average=self.average and last,
            )
            trace.append(Pass(epsilon, updates, noise_length, float(steps[-1])))
            if progress is not None:
                progress(Progress(trace[-1], weights.copy(), curator.spent_share))
        return Solution(weights, tuple(trace), self._conditions(measure, epsilon, batch, clip))

    def _spending(self, budget: Budget, parts: int) -> tuple[Measure, float]:
        """The measure to compose in, and the ε of each pass of each model."""
        uses = self.passes * parts
        choices: list[tuple[float, Measure]] = [(_each("pure", budget.epsilon, uses), "pure")]
        if self.calibration == "tight" and not budget.pure and uses > 1:
            choices.append((_each("zcdp", budget.to_zcdp().rho, uses), "zcdp"))
            choices.append((_each("gdp", budget.to_gdp().mu ** 2, uses), "gdp"))
        epsilon, measure = max(choices)
        L2Norm(epsilon)  # refuses what is too extreme
        return measure, epsilon

    def _clip(self, problem: Problem) -> float:
        if self.gradient_clip is not None:
            return float(self.gradient_clip)
        return problem.lipschitz if math.isfinite(problem.lipschitz) else 1.0

    def _batch(self, problem: Problem, epsilon: float) -> int:
        """The noise of a sum is about 2d·clip/ε long, so six d/ε rows make it a third."""
        if self.batch_size is not None:
            return self.batch_size
        most = max(1, problem.n_rows // 20)
        return min(most, max(20, math.ceil(min(6 * problem.n_parameters / epsilon, most))))

    def _steps(self, problem: Problem, before: int, updates: int) -> FloatArray:
        t = np.arange(before + 1, before + updates + 1, dtype=np.float64)
        if self.schedule == "linear":
            return 1 / (problem.penalty.alpha * t)
        return self.step_scale / np.sqrt(t)

    def _conditions(self, measure: str, epsilon: float, batch: int, clip: float) -> tuple[str, ...]:
        return (
            f"each row's gradient is clipped to norm {clip:g}",
            f"a pass cuts a random order of the rows into batches of exactly {batch}; rows left "
            "over sit out, so a row is used at most once a pass",
            f"each of {self.passes} passes costs ε = {epsilon:.6g}, composed in {measure!r}",
        )


def _each(measure: Measure, total: float, uses: int) -> float:
    """The largest ε of which ``uses`` fit into a total, by bisection; the costs are rounded up."""
    share = total / uses * (1 - 2.0**-40)
    if measure == "pure":
        return share

    def cost(epsilon: float) -> float:
        loss = L2Norm(epsilon).loss
        return loss.rho if measure == "zcdp" else loss.mu**2

    low, high = 1e-9, 1e9
    if cost(low) > share:
        return 0.0
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if cost(middle) <= share else (low, middle)
    return low
