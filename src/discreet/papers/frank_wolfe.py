"""Private Frank–Wolfe: sparse weights in an L1 ball, one private choice of a corner per step.

Talwar, Thakurta & Zhang, "Nearly Optimal Private LASSO", NIPS 2015; Algorithm 5 of Iyengar et al.,
"Towards Practical Differentially Private Convex Optimization", IEEE S&P 2019. A step moves the
weights towards the corner ±C·e_j of the ball that points most against the gradient. Only which
corner that is is private, so the noise grows with the logarithm of the number of weights.

Differences from the paper:

- a row's gradient is scaled until no entry exceeds L; Iyengar et al. cut the entries of the row;
- the least-noise form selects by the exponential mechanism, composed by bounded range.

Proof: docs/proofs/frank_wolfe.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from discreet.accounting import conversions
from discreet.accounting.budget import Measure
from discreet.accounting.planning import affordable_selection
from discreet.core import Budget, Curator, ExponentialMechanism, LaplaceNoisyMax, Relation
from discreet.core.questions import CornerGradient
from discreet.errors import NotSupported
from discreet.objectives import Loss, Problem
from discreet.solvers import base
from discreet.validate import FloatArray, integer

MOST_ITERATIONS = 1000  # the default number of steps does not exceed this, whatever the budget


@dataclass(frozen=True)
class CornerStep(base.TraceEntry):
    """The chosen corner sign·radius·e_coordinate, the share of the way moved to it, and its ε."""

    coordinate: int
    sign: int
    step: float
    epsilon: float


@dataclass(frozen=True, kw_only=True)
class FrankWolfe(base.PaperSolver):
    """Finds sparse weights in an L1 ball, by one private choice of a coordinate per step.

    Parameters
    ----------
    calibration : {"tight", "published"}
        ``"tight"``: the exponential mechanism, composed by bounded range. ``"published"``: Laplace
        noise of scale L·C·√(32·T·ln(1/δ))/(n·ε) on the scores of corners, T − 1 steps.
    unsafe : bool
        Run published constants that do not keep their promise; the guarantee has the true ε.
    radius : float
        C: bound on the sum of the absolute weights, the intercept's included.
    iterations : int, optional
        T. By default about (n·C·L·√ρ/ln(2d))^(2/3), which balances the error of few steps
        against that of many noisy ones, and at most 1,000.
    gradient_clip : float
        L: bound on an entry of a row's gradient. A row with a larger one is scaled down.
    schedule : {"average", "decreasing"}
        ``"average"``: 1/(t + 1) for t = 1, 2, …, as in the papers, which weighs all corners alike.
        ``"decreasing"``: 2/(t + 2) for t = 0, 1, …, which forgets early corners faster.
    """

    unsafe: bool = False
    radius: base.Size = 20.0
    iterations: base.Iterations | None = None
    gradient_clip: base.Size = 1.0
    schedule: Literal["average", "decreasing"] = "average"

    name: ClassVar[str] = "frank-wolfe"
    paper: ClassVar[str] = (
        "Talwar, Thakurta & Zhang, Nearly Optimal Private LASSO, 2015; Iyengar et al., Towards "
        "Practical Differentially Private Convex Optimization, 2019, Algorithm 5"
    )
    relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE_ONE, Relation.ADD_REMOVE)
    takes_units: ClassVar[bool] = True
    takes_weights: ClassVar[bool] = True
    composes: ClassVar[tuple[Measure, ...]] = ("pure", "zcdp", "gdp")
    demands: ClassVar[tuple[str, ...]] = (
        "each row's gradient is scaled down until no entry exceeds the clip",
        "with calibration='published', delta > 0; the default takes delta=0 as well",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.calibration == "published" and self.iterations is not None:
            integer("iterations", self.iterations, least=2, most=10**7)

    def check(self, loss: Loss, budget: Budget, n_models: int = 1) -> None:
        """Refuse published constants without δ."""
        super().check(loss, budget, n_models)
        if self.calibration == "published" and budget.pure:
            raise NotSupported(
                "The published noise of 'frank-wolfe' grows with ln(1/δ): it needs delta > 0. Use "
                "calibration='tight' for pure privacy."
            )

    def _solve(
        self, problem: Problem, curator: Curator, plan: base.ChoicePlan, record: base.Recorder
    ) -> base.Solution:
        mechanism = plan.mechanism
        curator.open(plan.measure)
        weights: FloatArray = np.zeros(problem.n_parameters)
        for t in range(plan.count):
            slopes = problem.n_rows * problem.penalty.gradient(weights)
            question = CornerGradient(problem.loss, weights, self.gradient_clip, slopes)
            coordinate, sign = curator.ask(question, mechanism)
            step = 1 / (t + 2) if self.schedule == "average" else 2 / (t + 2)
            weights = (1 - step) * weights
            weights[coordinate] += step * sign * self.radius
            record(CornerStep(coordinate, sign, step, mechanism.epsilon), weights)
        conditions = (
            f"each row's gradient is scaled down until no entry exceeds {self.gradient_clip:g}",
            f"{plan.count} private choices of a corner, each {mechanism.epsilon:.4g}-DP; "
            "everything else in a step is public",
        )
        return base.Solution(weights, record.trace, conditions)

    def _plan(self, problem: Problem, budget: Budget, n_models: int) -> base.ChoicePlan:
        iterations = self.iterations or self._default_iterations(problem, budget, n_models)
        if self.calibration == "tight":
            measure, epsilon = affordable_selection(budget, iterations * n_models)
            exponential = ExponentialMechanism(epsilon, monotone=False)
            return base.ChoicePlan(budget, budget, measure, exponential, iterations)
        part = base.part_of(budget, n_models)
        # Scores ⟨s, mean gradient⟩ of corners of norm C move by k·L·C/n, k = 1 or 2 rows changed.
        # Two of them may move apart by twice that, against Laplace noise of the published scale.
        scale = math.sqrt(32 * iterations * math.log(1 / part.delta)) / part.epsilon  # of L·C/n
        mechanism = LaplaceNoisyMax(2 * budget.relation.rows_changed / scale, monotone=False)
        count = iterations - 1
        loss = mechanism.loss
        uses = count * n_models
        mu = math.sqrt(uses) * loss.mu
        rho = uses * loss.rho
        candidates: list[tuple[float, Measure]] = [  # the least of them is true as well
            (uses * loss.epsilon * (1 + 2.0**-50), "pure"),
            (conversions.epsilon_from_rho(rho * (1 + 2.0**-50), budget.delta), "zcdp"),
            (conversions.epsilon_from_mu(mu * (1 + 2.0**-50), budget.delta), "gdp"),
        ]
        epsilon, measure = min(candidates, key=lambda candidate: candidate[0])
        spends = base.true_budget(self.name, budget, epsilon, self.unsafe)
        return base.ChoicePlan(budget, spends, measure, mechanism, count)

    def _default_iterations(self, problem: Problem, budget: Budget, n_models: int) -> int:
        """Balance the error of T steps, of the order C²L²/T, against that of T noisy choices.

        A choice among 2d corners loses about b·ln(2d) on the sum of gradients, where b = 2kL/ε' and
        ε'²·T/8 is the budget's ρ (k rows changed): C·2kL·ln(2d)·√T/(n·√(8ρ)) on the mean.
        The factor 1/6 is what did best on synthetic tables.
        """
        # pure: the ρ of all of ε in one choice
        rho = budget.epsilon**2 / 8 if budget.pure else budget.to_zcdp().rho
        noise = 2 * budget.relation.rows_changed * math.log(2 * problem.n_parameters)
        signal = problem.n_rows * math.sqrt(8 * rho / n_models)
        signal = signal * self.radius * self.gradient_clip / 6
        best = min(float((signal / noise) ** (2 / 3)), float(MOST_ITERATIONS))
        return max(round(best), 2)
