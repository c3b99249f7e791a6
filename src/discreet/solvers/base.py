"""Base class of solvers: declared needs, one plan per fit, and a template method.

A solver never sees rows: it asks a curator. `Solver.plan` checks the arguments and calibrates the
run; `Solver.solve` checks that the plan is for this run and calls `_solve` once. A method
implements `_solve` and, where it calibrates anything, `_plan`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from discreet.accounting.budget import Measure
from discreet.core import Budget, Curator, Relation, SelectionMechanism
from discreet.errors import NotSupported, PrivacyError
from discreet.objectives import Loss, Problem
from discreet.validate import FloatArray, check_declared, integer, number


@dataclass(frozen=True, kw_only=True)
class TraceEntry:
    """One entry of a trace; ``model`` is the index of the model, or of its class in one-vs-rest."""

    model: int = 0


@dataclass(frozen=True)
class GradientStep(TraceEntry):
    """Step size and norm of the noisy mean gradient, penalty included, of one iteration."""

    step: float
    gradient_norm: float


@dataclass(frozen=True)
class Progress:
    """State of a running solver after an iteration, for a callback: all of it is paid for."""

    entry: TraceEntry
    weights: FloatArray
    spent_share: float


@dataclass(frozen=True)
class Solution:
    """Result of a solver; all of it is safe to publish.

    The intercept, if any, is the last weight. ``conditions`` are what the privacy proof rests on,
    ``clip`` is the bound that gradients of rows were clipped to, and ``deviation`` the approximate
    standard deviation of the noise in each weight; both are None where they do not apply. ``kept``
    is the share of the weights' change that was kept, where they were shrunk towards their start.
    ``free_noise`` is the noise that slopes would have if no row determined them, a deviation or a
    root of its covariance, and ``moment`` the columns' noisy second moment over the deviation of
    its noise, where the solver knows them.
    """

    weights: FloatArray
    trace: Sequence[TraceEntry]
    conditions: tuple[str, ...]
    clip: float | None = None
    deviation: float | None = None
    kept: float = 1.0
    free_noise: FloatArray | None = None
    moment: FloatArray | None = None


@dataclass(frozen=True)
class Plan:
    """Numbers of a run that follow from settings, problem and budget; solvers add their own.

    All of them are public and fixed before a row is read. ``budget`` is what the caller asked for,
    ``spends`` what the fit really spends: the same, or one with the true ε where published
    constants give less privacy than they claim and the caller insists. `Solver.plan` notes in
    ``made_for`` the solver, the problem and the number of models that share the budget.
    """

    budget: Budget
    spends: Budget
    made_for: tuple[Solver, Problem, int] | None = field(default=None, repr=False, kw_only=True)


@dataclass(frozen=True)
class Recorder:
    """Trace of a run, passed on to the caller's progress callback entry by entry."""

    _curator: Curator
    _progress: Callable[[Progress], None] | None
    trace: list[Any] = field(default_factory=list)

    def __call__(
        self, entry: TraceEntry, weights: FloatArray, spent_share: float | None = None
    ) -> None:
        """Record an entry and the weights after it; the share spent is the curator's by default."""
        self.trace.append(entry)
        if self._progress is not None:
            share = self._curator.spent_share if spent_share is None else spent_share
            self._progress(Progress(entry, weights.copy(), share))


class Solver:
    """Base class of solvers: frozen dataclasses with the method `_solve`.

    A solver declares what it is and what its privacy proof needs; `check` and `plan` enforce it
    before a row is read, and `discreet.solvers.describe` shows it.

    Attributes
    ----------
    name, paper
        Name of the solver in settings, and the source of the method, down to the algorithm.
    relations
        The relations it can be accounted under; the first is that of the paper's own proof.
    demands
        Conditions of the proof that the flags below do not say, as text.
    private
        False for baselines, which protect nobody.
    needs_delta, needs_smooth_loss, needs_convex_loss, needs_row_bound
        True if it needs δ > 0, a smooth or convex loss, or a finite bound on the norm of every
        row's gradient without clipping gradients (a bounded slope and ``data_norm``).
    default_row_norm
        The bound on a row's norm if ``data_norm`` is not given; None if there is none.
    takes_outputs
        True if it takes losses with several margins per row (`Softmax`).
    takes_transformed_rows
        True if it asks for gradients alone, so that prepared rows need no table of their own.
    takes_blocks
        False if it needs single rows or their order, so that rows cannot be in blocks on workers.
    takes_units
        True if it asks for sums over rows, or over samples of units, only: their sensitivity holds
        for units of several rows. Other solvers get one row of each unit.
    takes_weights
        True if rows may have weights from 0 to 1.
    composes
        Measures that it may open for δ > 0 (for δ = 0 it is pure privacy), where a preparation has
        a part of the budget. A plan is ``"approximate"``, or ``"profile"`` if its steps have one.
    """

    name: ClassVar[str]
    paper: ClassVar[str] = ""
    relations: ClassVar[tuple[Relation, ...]] = (Relation.ADD_REMOVE, Relation.REPLACE_ONE)
    demands: ClassVar[tuple[str, ...]] = ()
    private: ClassVar[bool] = True
    needs_delta: ClassVar[bool] = False
    needs_smooth_loss: ClassVar[bool] = False
    needs_convex_loss: ClassVar[bool] = False
    needs_row_bound: ClassVar[bool] = False
    default_row_norm: ClassVar[float | None] = None
    takes_outputs: ClassVar[bool] = False
    takes_transformed_rows: ClassVar[bool] = False
    takes_blocks: ClassVar[bool] = True
    takes_units: ClassVar[bool] = False
    takes_weights: ClassVar[bool] = False
    composes: ClassVar[tuple[Measure, ...]] = ("approximate",)

    def fits_jointly(self) -> bool:
        """Tell whether it fits more than two classes by one model of all."""
        return self.takes_outputs

    def check(self, loss: Loss, budget: Budget, n_models: int = 1) -> None:
        """Refuse what cannot work, for ``n_models`` that share the budget, before data is read."""
        if self.needs_smooth_loss and not loss.smooth:
            raise NotSupported(
                f"solver={self.name!r} needs a smooth loss; {loss.name!r} is not. "
                "Use loss='huber' (smoothed hinge) or solver='agd'."
            )
        if self.needs_convex_loss and not loss.convex:
            raise NotSupported(
                f"solver={self.name!r} needs a convex loss; {loss.name!r} is not. "
                "Use solver='rrpsgd' or 'agd'."
            )
        if self.needs_row_bound and not math.isfinite(loss.slope_bound):
            raise NotSupported(
                f"solver={self.name!r} needs a loss of bounded slope; that of {loss.name!r} is "
                "not. Use the Huber loss, or a solver that clips gradients such as 'agd'."
            )
        if loss.n_outputs > 1 and not self.takes_outputs:
            raise NotSupported(
                f"solver={self.name!r} takes losses of one margin per row; {loss.name!r} has "
                f"{loss.n_outputs}. Use 'gd', 'amp' or 'objpert', or one model per class."
            )
        if self.needs_delta and budget.pure:
            raise NotSupported(
                f"solver={self.name!r} needs delta > 0; got delta=0. Give a delta well below 1/n, "
                "for example 1e-6."
            )
        if budget.relation not in self.relations:
            known = " or ".join(repr(str(relation)) for relation in self.relations)
            raise NotSupported(
                f"solver={self.name!r} has a proof for relation={known} only, not for "
                f"{str(budget.relation)!r}. Pass relation={str(self.relations[0])!r} or use "
                "another solver."
            )

    def plan(self, problem: Problem, budget: Budget, n_models: int = 1) -> Any:
        """Check and calibrate before a row is read; return the `Plan` that `solve` needs.

        ``budget`` is what the caller asked for, for all of ``n_models``.
        """
        self.check(problem.loss, budget, n_models)
        if self.needs_row_bound:
            check_row_norm(self.name, problem)
        made = self._plan(problem, budget, n_models)
        return replace(made, made_for=(self, problem, n_models))

    def solve(
        self,
        problem: Problem,
        curator: Curator,
        plan: Plan,
        progress: Callable[[Progress], None] | None = None,
    ) -> Solution:
        """Find private weights for ``problem`` by asking ``curator``, as ``plan`` says.

        The curator holds what the plan spends, and serves one of ``curator.n_models`` models. A
        plan of another solver, problem, number of models or budget is refused.
        """
        remedy = "Pass what this solver's `plan` returns for this problem, budget and number."
        if plan.made_for is None:
            raise PrivacyError(f"This plan was not made by `Solver.plan`. {remedy}")
        solver, planned, n_models = plan.made_for
        if solver != self:
            raise PrivacyError(f"This plan was made by {solver!r}, not by {self!r}. {remedy}")
        if planned != problem:
            raise PrivacyError(f"This plan was made for another problem. {remedy}")
        if n_models != curator.n_models:
            raise PrivacyError(
                f"This plan was made for {n_models} models that share a budget; the curator serves "
                f"one of {curator.n_models}. {remedy}"
            )
        held = curator.budget
        spends = plan.spends
        if spends != held:
            raise PrivacyError(
                f"This plan spends ε = {spends.epsilon:g}, δ = {spends.delta:g} under "
                f"{str(spends.relation)!r}; the curator holds ε = {held.epsilon:g}, δ = "
                f"{held.delta:g} under {str(held.relation)!r}. Open the account for what the plan "
                "spends."
            )
        return self._solve(problem, curator, plan, Recorder(curator, progress))

    def _plan(self, problem: Problem, budget: Budget, n_models: int) -> Plan:
        """Calibrate the run, or refuse it; after `check`, and before a row is read."""
        return Plan(budget, budget)

    def _solve(self, problem: Problem, curator: Curator, plan: Any, record: Recorder) -> Solution:
        """Run the method as planned: open the curator's budget, ask, and record each iteration."""
        raise NotImplementedError


Count = Annotated[int, integer]
Iterations = Annotated[int, partial(integer, most=10**7)]
Size = Annotated[float, partial(number, least=1e-6, most=1e6)]
Length = Annotated[float, partial(number, least=1e-12, most=1e12)]
"""Settings with bounds: numbers of things and of iterations, clips and factors, steps and norms."""


@dataclass(frozen=True)
class PaperSolver(Solver):
    """Base of the methods of papers: each has two calibrations, and checks what it declares."""

    calibration: Literal["tight", "published"] = "tight"

    def __post_init__(self) -> None:
        check_declared(self)


def check_row_norm(name: str, problem: Problem) -> None:
    """Refuse problems without a public bound on the norm of a row."""
    if problem.row_norm is None:
        raise ValueError(
            f"solver={name!r} needs a public bound on the norm of a row. Pass data_norm, for "
            "example data_norm=1.0: longer rows are scaled down to it."
        )


@dataclass(frozen=True)
class ChoicePlan(Plan):
    """Measure, mechanism of one private choice, and number of choices of each model."""

    measure: Measure
    mechanism: SelectionMechanism
    count: int


def part_of(budget: Budget, n_models: int) -> Budget:
    """Return what each of several models gets when ε and δ are split evenly, as in the papers."""
    return replace(budget, epsilon=budget.epsilon / n_models, delta=budget.delta / n_models)


def true_budget(name: str, budget: Budget, epsilon: float, unsafe: bool) -> Budget:
    """Hold published constants to their claim, given the true ε of their noise at its δ.

    Returns the claim if it is true; else, for unsafe runs, the same budget with the true ε.
    """
    if epsilon <= budget.epsilon:
        return budget
    if not (unsafe and math.isfinite(epsilon)):
        raise PrivacyError(
            f"The published constants of {name!r} do not keep the promise at these settings: they "
            f"are ({epsilon:.4g}, {budget.delta:g})-DP, not ({budget.epsilon:g}, "
            f"{budget.delta:g})-DP. Use calibration='tight'. To reproduce old figures, pass "
            "unsafe=True: the guarantee then states the true ε."
        )
    return replace(budget, epsilon=epsilon * (1 + 2.0**-30))  # above its rounding


def nearest(values: FloatArray, total: float) -> FloatArray:
    """Project on {v ≥ 0, Σv = total}: second moments that rows could have."""
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, values.size + 1)
    kept = np.flatnonzero(ordered > excess)
    found: FloatArray = np.maximum(values - excess[kept[-1] if kept.size else 0], 0.0)
    return found
