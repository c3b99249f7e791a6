"""DP-AGD: gradient descent that adapts the budget of each gradient as it goes.

Lee & Kifer, "Concentrated Differentially Private Gradient Descent with Adaptive per-Iteration
Privacy Budget", KDD 2018, Algorithm 2. Each iteration measures a noisy clipped gradient, then
lets a private selection choose among equally spaced steps along it, zero included. If zero wins,
the gradient was too noisy: it is measured again with more budget, and the mean is used.

Differences from the paper:

- noise of selections is added, not subtracted as in the authors' code;
- an answer that the budget does not cover is not asked for, instead of discarded afterwards;
- refined gradients are averages of all measurements, weighted by their ρ;
- the largest step never exceeds its first value; the least-noise form also shrinks it.

Proof: docs/proofs/agd.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

import numpy as np

from discreet.accounting import conversions
from discreet.accounting.budget import Measure
from discreet.core import Budget, Curator, ExponentialMechanism, Gaussian, PermuteAndFlip, Relation
from discreet.core.questions import Gradient, LineLosses
from discreet.errors import BudgetExceeded
from discreet.objectives import Loss, Problem
from discreet.solvers import base
from discreet.validate import FloatArray, integer, number

Selection = ExponentialMechanism | PermuteAndFlip


@dataclass(frozen=True)
class Iteration(base.TraceEntry):
    """One iteration: its zCDP costs, the step along the normalised noisy gradient, and more.

    ``step`` is 0 if the budget ended before one was chosen; ``refinements`` counts how often the
    gradient was measured again, and ``gradient_norm`` is the norm of the mean that was used.
    """

    rho_gradient: float
    rho_selection: float
    step: float
    refinements: int
    gradient_norm: float


@dataclass(frozen=True, kw_only=True)
class AGD(base.PaperSolver):
    """DP-AGD: descends along noisy gradients and adapts the budget of each as it goes.

    Parameters
    ----------
    calibration : {"tight", "published"}
        ``"published"``: the paper's conversion (Bun & Steinke) and costs, with exponential noise
        in the selection. ``"tight"``: the best zCDP conversion and Gumbel selection.
    splits : int
        Number of parts that the budget is notionally split into: ε/(2·splits) for the first
        gradient and for each choice of a step when ``"published"`` (about 350 iterations by
        default), ρ/(2·splits) when ``"tight"``.
    gamma : float
        Share by which the gradient's budget grows when zero is chosen.
    gradient_clip, objective_clip : float
        C_grad and C_obj: bounds on one row's gradient norm and loss. Where the loss and
        ``data_norm`` imply a smaller bound on gradients, ``"tight"`` uses that one.
    n_steps, max_step : int, float
        m: number of candidates besides zero, and the largest of them, at first and ever.
    step_growth, adjust_every : float, int
        η and τ: every τ iterations the largest candidate becomes 1 + η times the largest step
        chosen in them.
    smoothing : float, optional
        Width over which a kink of the loss, in which descent could get stuck, is rounded off in
        gradients; steps are chosen by the loss itself. 0 (as in the paper) when ``"published"`` and
        0.5 when ``"tight"`` by default.
    step_shrink : float, optional
        Factor by which the largest candidate shrinks when zero is chosen, as it may have been too
        long. The paper has none: 1 when ``"published"`` and 0.7 when ``"tight"`` by default.
    sampling_rate : float, optional
        Use a fresh Poisson sample of the rows with this rate in each iteration (for very large
        data). No privacy amplification is claimed.
    max_iterations : int, optional
        Stop after this many iterations even if budget is left.
    radius : float, optional
        Project the weights onto the ball of this radius after each step: the convex set of the
        paper's problem. By default all weights are allowed.
    """

    splits: base.Count = 60
    gamma: base.Size = 0.1
    gradient_clip: base.Size = 3.0
    objective_clip: base.Size = 3.0
    n_steps: Annotated[int, partial(integer, most=10**5)] = 20
    max_step: base.Size = 2.0
    step_growth: base.Size = 0.1
    adjust_every: base.Count = 10
    smoothing: Annotated[float, partial(number, least=0.0, most=1e6)] | None = None
    step_shrink: Annotated[float, partial(number, least=1e-6, most=1.0)] | None = None
    sampling_rate: Annotated[float, partial(number, least=1e-12, most=1.0)] | None = None
    max_iterations: base.Count | None = None
    radius: base.Size | None = None

    name: ClassVar[str] = "agd"
    paper: ClassVar[str] = (
        "Lee, Kifer: Concentrated Differentially Private Gradient Descent with Adaptive "
        "per-Iteration Privacy Budget (KDD 2018), Algorithm 2"
    )
    demands: ClassVar[tuple[str, ...]] = (
        "gradients and losses are clipped row by row (gradient_clip, objective_clip)",
        "the budget is enough for one iteration",
    )
    needs_delta: ClassVar[bool] = True
    takes_units: ClassVar[bool] = True
    takes_weights: ClassVar[bool] = True
    composes: ClassVar[tuple[Measure, ...]] = ("zcdp",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.smoothing:  # a kink rounded off over less is a kink
            number("smoothing", self.smoothing, least=1e-6, most=1e6)

    def check(self, loss: Loss, budget: Budget, n_models: int = 1) -> None:
        """Refuse pure budgets, and settings under which not one iteration fits."""
        super().check(loss, budget, n_models)
        total = budget.to_zcdp(self.calibration).rho / n_models
        gradient, selection = self._mechanisms(total, budget)
        _more(gradient, self.gamma)  # may be out of range, and must not be so half-way
        first = gradient.loss.rho + selection.loss.rho
        if first > total:
            # Only for "published": both costs go with 1/splits², the total does not.
            enough = math.ceil(self.splits * math.sqrt(first / total) * (1 + 1e-9))
            raise ValueError(
                f"The budget is too small for one iteration: with splits={self.splits} it "
                f"costs ρ = {first:.4g} of {total:.4g}. The smallest that works here is "
                f"splits={enough}."
            )

    def _solve(
        self, problem: Problem, curator: Curator, plan: base.Plan, record: base.Recorder
    ) -> base.Solution:
        total = curator.open("zcdp", self.calibration)
        run = _Run(self, problem, *self._mechanisms(total, plan.budget))
        while self.max_iterations is None or len(run.trace) < self.max_iterations:
            rows = curator if self.sampling_rate is None else curator.sample(self.sampling_rate)
            affordable = run.iterate(rows)
            record(run.trace[-1], run.weights)
            if not affordable:
                break
        conditions: tuple[str, ...] = (
            f"each row's gradient is clipped to norm {run.gradient_clip:g} and its loss to "
            f"[0, {self.objective_clip:g}]",
            "costs are charged to a zCDP filter before each answer, so they may depend on all "
            "earlier ones",
        )
        if self.sampling_rate is not None:
            conditions += ("rows are sampled independently of their values; no amplification",)
        return base.Solution(run.weights, record.trace, conditions)

    def _mechanisms(self, total: float, budget: Budget) -> tuple[Gaussian, Selection]:
        """Return the first iteration's measurement and choice, for a total ρ.

        ``"published"`` is the paper's section 6.2: ε_ng = ε_nmax = ε/(2·splits), by lemmas 3.6 and
        3.7. ``"tight"`` spends ρ/splits per iteration, half for each.
        """
        monotone = budget.relation is Relation.ADD_REMOVE
        if self.calibration == "published":
            epsilon = conversions.epsilon_from_rho(total, budget.delta, "published")
            part = epsilon / (2 * self.splits)
            gradient = Gaussian(math.sqrt(2 * math.log(1.25 / budget.delta)) / part)
            return gradient, PermuteAndFlip(part, monotone=monotone)
        part = total / (2 * self.splits) * (1 - 2.0**-40)  # costs are rounded up
        return Gaussian.from_rho(part), ExponentialMechanism(math.sqrt(8 * part), monotone=monotone)


class _Run:
    """The state of one run: weights, the gradient's current price, and the candidate steps."""

    def __init__(
        self, solver: AGD, problem: Problem, gradient: Gaussian, selection: Selection
    ) -> None:
        self.solver = solver
        self.problem = problem
        self.gradient_mechanism = gradient
        self.selection = selection
        self.weights: FloatArray = np.zeros(problem.n_parameters)
        self.trace: list[Iteration] = []
        self.max_step = solver.max_step
        self.gradient_clip = solver.gradient_clip
        smoothing = 0.0
        self.step_shrink = 1.0
        if solver.calibration == "tight":
            smoothing = 0.5
            self.step_shrink = 0.7
            # gradients of a smaller norm need no noise for a larger one; the paper has C_grad
            self.gradient_clip = min(solver.gradient_clip, max(problem.lipschitz, 1e-6))
        if solver.smoothing is not None:
            smoothing = solver.smoothing
        if solver.step_shrink is not None:
            self.step_shrink = solver.step_shrink
        self.direction_loss = problem.loss.smoothed(smoothing) if smoothing else problem.loss
        # The penalty is per row: a sample of the rows carries its part of it.
        self.penalty_weight = problem.n_rows * (solver.sampling_rate or 1.0)

    def iterate(self, curator: Curator) -> bool:
        """Run one iteration; return False if the budget ended before a step was chosen."""
        spent_gradient = spent_selection = step = norm = 0.0
        refinements = 0
        try:
            mechanism = self.gradient_mechanism
            question = Gradient(self.direction_loss, self.weights, self.gradient_clip)
            gradient = curator.ask(question, mechanism)
            spent_gradient += mechanism.loss.rho
            while True:
                direction, norm = self._direction(gradient.values)
                steps = np.linspace(0.0, self.max_step, self.solver.n_steps + 1)
                penalty = self.problem.penalty.line(self.weights, direction, steps)
                line = LineLosses(
                    self.problem.loss,
                    self.weights,
                    direction,
                    steps,
                    clip=self.solver.objective_clip,
                    public_losses=self.penalty_weight * penalty,
                )
                chosen = curator.ask(line, self.selection)
                spent_selection += self.selection.loss.rho
                if chosen > 0:
                    break
                extra = _more(self.gradient_mechanism, self.solver.gamma)
                gradient = curator.refine(gradient, mechanism=extra)
                spent_gradient += extra.loss.rho
                assert isinstance(gradient.mechanism, Gaussian)
                self.gradient_mechanism = gradient.mechanism
                refinements += 1
                self.max_step *= self.step_shrink
            step = float(steps[chosen])
            self.weights = self._projected(self.weights - steps[chosen] * direction)
        except BudgetExceeded:
            pass  # what is left does not buy the next answer: the weights stay as they are
        self.trace.append(Iteration(spent_gradient, spent_selection, step, refinements, norm))
        every = self.solver.adjust_every
        if len(self.trace) % every == 0:
            largest = max(entry.step for entry in self.trace[-every:])
            if largest > 0:
                self.max_step = min((1 + self.solver.step_growth) * largest, self.solver.max_step)
        return step > 0

    def _projected(self, weights: FloatArray) -> FloatArray:
        """Return the nearest weights in the ball of the solver's radius."""
        radius = self.solver.radius
        norm = float(np.linalg.norm(weights))
        if radius is None or norm <= radius:
            return weights
        return weights * (radius / norm)

    def _direction(self, gradient: FloatArray) -> tuple[FloatArray, float]:
        """Return the normalised noisy gradient of the penalised objective, and its mean's norm."""
        total = gradient + self.penalty_weight * self.problem.penalty.gradient(self.weights)
        norm = float(np.linalg.norm(total))
        if norm == 0:
            return total, 0.0
        return total / norm, norm / self.penalty_weight


def _more(gradient: Gaussian, gamma: float) -> Gaussian:
    """Return a measurement that raises the ρ of a gradient by the share γ."""
    return Gaussian(gradient.noise_multiplier / math.sqrt(gamma))
