"""Laplace SGD: each batch's gradient gets noise of density ∝ exp(−ε‖z‖/2).

Song, Chaudhuri & Sarwate, "Stochastic gradient descent with differentially private updates",
GlobalSIP 2013. In one pass every row is used once, so the pass costs what one noisy batch costs.

Differences from the paper:

- directions of the noise are uniform on the sphere, which the density needs, not in the ball;
- every batch has the same number of rows, and gradients are clipped instead of assumed bounded;
- steps are cut at 1/β unless ``cut_steps=False``.

Proof: docs/proofs/laplace_sgd.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal

import numpy as np

from discreet.accounting.budget import Measure
from discreet.core import Budget, Curator, L2Norm, Relation
from discreet.exact import Descent
from discreet.objectives import Loss, Problem
from discreet.solvers import base
from discreet.validate import FloatArray, integer


@dataclass(frozen=True)
class Pass(base.TraceEntry):
    """One noisy pass: pure ε, batches, mean norm of the noise in a batch's mean, last step size."""

    epsilon: float
    updates: int
    noise_norm: float
    last_step: float


@dataclass(frozen=True, kw_only=True)
class LaplaceSGD(base.PaperSolver):
    """Passes over the rows in batches, with noise of gamma-distributed norm on each gradient.

    Parameters
    ----------
    calibration : {"tight", "published"}
        ``"published"``: p passes cost p times what one costs, so each gets ε/p. ``"tight"``: with
        δ > 0, passes (and models) are composed in the measure that allows them most.
    batch_size : int, optional
        b. By default so that noise in a batch's mean gradient has about a third of the norm of a
        clipped gradient, and at least 20, but no more than a 20th of the rows.
    passes : int
        p.
    schedule : {"sqrt", "strong"}
        Steps ``step_size``/√t, or 1/(alpha·t), where t counts updates over all passes.
    cut_steps : bool
        Whether no step is longer than 1/β for a β-smooth objective (a smooth loss and
        ``data_norm``), nor than 1/alpha where β is not known. Longer steps, which the paper has,
        can make the weights grow without bound; privacy does not depend on them.
    step_size : float
        Step size of the first update.
    gradient_clip : float, optional
        Bound on a row's gradient norm. By default what loss and ``data_norm`` imply, or 1.
    radius : float, optional
        Stay in the ball of this radius.
    averaging : bool
        Use the mean of the last pass's weights rather than the last ones.
    """

    batch_size: base.Count | None = None
    passes: Annotated[int, partial(integer, most=10**6)] = 1
    schedule: Literal["sqrt", "strong"] = "sqrt"
    cut_steps: bool = True
    step_size: base.Length = 3.0
    gradient_clip: base.Size | None = None
    radius: base.Size | None = None
    averaging: bool = False

    name: ClassVar[str] = "laplace-sgd"
    paper: ClassVar[str] = (
        "Song, Chaudhuri, Sarwate: Stochastic gradient descent with differentially private "
        "updates (GlobalSIP 2013)"
    )
    relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE_ONE,)
    takes_blocks: ClassVar[bool] = False
    composes: ClassVar[tuple[Measure, ...]] = ("pure", "zcdp", "gdp")
    demands: ClassVar[tuple[str, ...]] = (
        "every batch of a pass has the same number of rows",
        "schedule='strong' needs a penalty",
    )

    def check(self, loss: Loss, budget: Budget, n_models: int = 1) -> None:
        """Refuse budgets whose parts are too extreme to serve."""
        super().check(loss, budget, n_models)
        self._spending(budget, n_models)

    def _plan(self, problem: Problem, budget: Budget, n_models: int) -> base.Plan:
        if self.batch_size is not None and self.batch_size > problem.n_rows:
            raise ValueError(
                f"batch_size must be at most the number of rows, {problem.n_rows}; got "
                f"{self.batch_size}."
            )
        if self.schedule == "strong" and problem.penalty.alpha == 0:
            raise ValueError(
                "schedule='strong' has steps 1/(alpha·t) and needs a penalty alpha > 0; use "
                "schedule='sqrt'."
            )
        if not 1e-6 <= self._clip(problem) <= 1e6:
            raise ValueError(
                "bounds on gradient norms from 1e-6 to 1e6 are served: pass another data_norm or "
                "gradient_clip."
            )
        return base.Plan(budget, budget)

    def _solve(
        self, problem: Problem, curator: Curator, plan: base.Plan, record: base.Recorder
    ) -> base.Solution:
        measure, epsilon = self._spending(plan.budget, curator.n_models)
        curator.open(measure)
        mechanism = L2Norm(epsilon)
        batch = self.batch_size
        clip = self._clip(problem)
        if batch is None:  # the noise of a sum has norm about 2d·clip/ε: 6d/ε rows make it a third
            most = max(1, problem.n_rows // 20)
            batch = min(most, max(20, math.ceil(min(6 * problem.n_parameters / epsilon, most))))
        updates = problem.n_rows // batch
        noise_norm = problem.n_parameters * mechanism.scale(2 * clip) / batch
        weights: FloatArray = np.zeros(problem.n_parameters)
        for index in range(self.passes):
            steps = self._steps(problem, index * updates, updates)
            descent = Descent(
                problem.loss,
                weights,
                clip,
                steps,
                order="pass",
                batch_size=batch,
                alpha=problem.penalty.alpha,
                radius=self.radius,
                average=self.averaging and index == self.passes - 1,
            )
            weights = curator.descend(descent, mechanism)
            record(Pass(epsilon, updates, noise_norm, float(steps[-1])), weights)
        conditions = (
            f"each row's gradient is clipped to norm {clip:g}",
            f"a pass cuts a random order of the rows into batches of exactly {batch}; rows left "
            "over sit out, so a row is used at most once per pass",
            f"each of {self.passes} passes costs ε = {epsilon:.6g}, composed in {measure!r}",
        )
        return base.Solution(weights, record.trace, conditions)

    def _spending(self, budget: Budget, n_models: int) -> tuple[Measure, float]:
        """Return the measure to compose in, and the ε of each pass of each model."""
        uses = self.passes * n_models
        keep = 1 - 2.0**-40  # costs are rounded up
        choices: list[tuple[float, Measure]] = [(budget.epsilon / uses * keep, "pure")]
        if self.calibration == "tight" and not budget.pure and uses > 1:
            rho = budget.to_zcdp().rho / uses
            mu = budget.to_gdp().mu / math.sqrt(uses)
            choices.append((_inverse(lambda epsilon: L2Norm(epsilon).loss.rho, rho * keep), "zcdp"))
            choices.append((_inverse(lambda epsilon: L2Norm(epsilon).loss.mu, mu * keep), "gdp"))
        epsilon, measure = max(choices)
        L2Norm(epsilon)  # refuses what is too extreme
        return measure, epsilon

    def _clip(self, problem: Problem) -> float:
        usual = problem.lipschitz if math.isfinite(problem.lipschitz) else 1.0
        return min(self.gradient_clip or usual, problem.lipschitz)

    def _steps(self, problem: Problem, before: int, updates: int) -> FloatArray:
        t = np.arange(before + 1, before + updates + 1, dtype=np.float64)
        alpha = problem.penalty.alpha
        steps = 1 / (alpha * t) if self.schedule == "strong" else self.step_size / np.sqrt(t)
        if not self.cut_steps:
            return steps
        smoothness = problem.smoothness
        if smoothness is None or not math.isfinite(smoothness):
            smoothness = alpha  # beyond 1/alpha, the penalty alone makes weights grow
        return np.minimum(steps, 1 / smoothness if smoothness > 0 else math.inf)


def _inverse(cost: Callable[[float], float], most: float) -> float:
    """Find the largest ε of one pass whose cost is at most ``most``, by bisection."""
    low, high = 1e-9, 1e9
    if cost(low) > most:
        return 0.0
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if cost(middle) <= most else (low, middle)
    return low
