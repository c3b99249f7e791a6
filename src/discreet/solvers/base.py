"""Base class of solvers: declared needs, one plan per fit, and a template method.

A solver never sees rows: it asks a curator. `Solver.solve` checks the arguments, plans the run and
calls `_solve` once; a method implements `_solve` and, where it calibrates anything, `_plan`.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from discreet.accounting.budget import Measure
from discreet.core import Budget, Curator, Relation
from discreet.errors import NotSupported, PrivacyError
from discreet.objectives import Loss, Problem
from discreet.validate import FloatArray

__all__ = [
    "Plan",
    "Progress",
    "Recorder",
    "Solution",
    "Solver",
    "TraceEntry",
    "part_of",
    "true_budget",
]


@dataclass(frozen=True, kw_only=True)
class TraceEntry:
    """One entry of a trace; solvers add their own fields.

    Attributes
    ----------
    model
        Index of the linear model in the fit: 0, or the index of the class in one-vs-rest.
    """

    model: int = 0


@dataclass(frozen=True)
class Progress:
    """State of a running solver for a callback: everything in it is already paid for.

    Attributes
    ----------
    entry
        The trace entry of the iteration that just ended.
    weights
        The weights after it.
    spent_share
        Share of the budget that is spent.
    """

    entry: TraceEntry
    weights: FloatArray
    spent_share: float


@dataclass(frozen=True)
class Solution:
    """Result of a solver.

    Attributes
    ----------
    weights
        The private weights; the intercept, if any, is the last.
    trace
        One entry per iteration, safe to publish.
    conditions
        Conditions that the solver's privacy proof rests on, as text.
    clip
        Bound that the gradients of rows were clipped to, if they were. Public, like the next.
    deviation
        Approximate standard deviation of the noise in each weight, if the solver can tell.
    """

    weights: FloatArray
    trace: tuple[TraceEntry, ...]
    conditions: tuple[str, ...]
    clip: float | None = None
    deviation: float | None = None


@dataclass(frozen=True)
class Plan:
    """Numbers of a run that follow from settings, problem and budget; solvers add their own.

    All of them are public and fixed before a row is read.

    Attributes
    ----------
    budget
        Budget that the caller asked for.
    spends
        Budget that the fit really spends: the same, or one with the true ε where published
        constants give less privacy than they claim and the caller insists.
    """

    budget: Budget
    spends: Budget


class Recorder:
    """Trace of a run, passed on to the caller's progress callback entry by entry."""

    def __init__(self, curator: Curator, progress: Callable[[Progress], None] | None) -> None:
        self._curator, self._progress = curator, progress
        self._entries: list[TraceEntry] = []

    def __call__(
        self, entry: TraceEntry, weights: FloatArray, spent_share: float | None = None
    ) -> None:
        """Record an entry and the weights after it; the share spent is the curator's by default."""
        self._entries.append(entry)
        if self._progress is not None:
            share = self._curator.spent_share if spent_share is None else spent_share
            self._progress(Progress(entry, weights.copy(), share))

    @property
    def trace(self) -> tuple[Any, ...]:
        """Entries so far."""
        return tuple(self._entries)


class _Last(threading.local):
    """The last plan of this thread, with the solver, problem, budget and number of models."""

    made: tuple[Solver, Problem, Budget, int, Plan] | None = None


_LAST = _Last()


class Solver:
    """Base class of solvers: frozen dataclasses with the method `_solve`.

    A solver declares what it is and what its privacy proof needs; `check` and `plan` enforce it
    before a row is read, and `discreet.solvers.describe` shows it.

    Attributes
    ----------
    name
        Name of the solver in settings.
    paper
        Source of the method, down to the algorithm.
    relations
        The relations it can be accounted under; the first is that of the paper's own proof.
    demands
        Conditions of the proof that the flags below do not say, as text.
    private
        False for baselines, which protect nobody.
    needs_delta, needs_smooth_loss, needs_convex_loss, needs_row_bound
        True if it needs δ > 0, a smooth or convex loss, or a finite bound on the norm of every
        row's gradient that does not come from clipping gradients (a bounded slope and
        ``data_norm``).
    takes_outputs
        True if it takes losses with several margins per row (`Softmax`).
    takes_transformed_rows
        True if it asks for gradients alone, so that prepared rows need no table of their own
        (`Rows.transformed`).
    composes
        Measures that it may open for δ > 0, where a preparation of the rows has a part of the
        budget. A plan counts as ``"approximate"``, or as ``"profile"`` if its steps have one. With
        δ = 0 that is pure privacy.
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
    takes_outputs: ClassVar[bool] = False
    takes_transformed_rows: ClassVar[bool] = False
    composes: ClassVar[tuple[Measure, ...]] = ("approximate",)

    def check(self, loss: Loss, budget: Budget, n_models: int = 1) -> None:
        """Refuse what cannot work, before any data is read.

        Parameters
        ----------
        loss : Loss
            The row loss.
        budget : Budget
            The budget of the whole fit.
        n_models : int
            Number of models (one-vs-rest) that share the budget.
        """
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

    def plan(self, problem: Problem, budget: Budget, n_models: int = 1) -> Budget:
        """Check everything that can be checked before a row is read.

        Returns the budget that the fit really spends (`Plan.spends`).
        """
        spends: Budget = self._planned(problem, budget, n_models).spends
        return spends

    def solve(
        self,
        problem: Problem,
        curator: Curator,
        budget: Budget,
        progress: Callable[[Progress], None] | None = None,
    ) -> Solution:
        """Find private weights for ``problem`` by asking ``curator``.

        ``budget`` is what the caller asked for, for the whole fit; the curator holds what
        `plan` returned, and serves one of ``curator.n_models`` models.
        """
        plan = self._planned(problem, budget, curator.n_models)
        return self._solve(problem, curator, plan, Recorder(curator, progress))

    def _planned(self, problem: Problem, budget: Budget, n_models: int) -> Any:
        """Return the plan; it is not made again for the same objects, as in `plan` then `solve`."""
        if _LAST.made is not None:
            solver, of, spent, models, plan = _LAST.made
            if solver is self and of is problem and spent is budget and models == n_models:
                return plan
        self.check(problem.loss, budget, n_models)
        if self.needs_row_bound and problem.row_norm is None:
            raise ValueError(
                f"solver={self.name!r} needs a public bound on the norm of a row. Pass data_norm, "
                "for example data_norm=1.0: longer rows are scaled down to it."
            )
        plan = self._plan(problem, budget, n_models)
        _LAST.made = (self, problem, budget, n_models, plan)
        return plan

    def _plan(self, problem: Problem, budget: Budget, n_models: int) -> Plan:
        """Calibrate the run, or refuse it; after `check`, and before a row is read."""
        return Plan(budget, budget)

    def _solve(self, problem: Problem, curator: Curator, plan: Any, record: Recorder) -> Solution:
        """Run the method as planned.

        Parameters
        ----------
        problem : Problem
            What to minimise.
        curator : Curator
            What to ask; its budget is opened here.
        plan : Plan
            What `_plan` returned.
        record : Recorder
            Called with a trace entry and the weights after each iteration.
        """
        raise NotImplementedError


def part_of(budget: Budget, n_models: int) -> Budget:
    """Return what each of several models gets when ε and δ are split evenly, as in the papers."""
    return replace(budget, epsilon=budget.epsilon / n_models, delta=budget.delta / n_models)


def true_budget(name: str, budget: Budget, epsilon: float, unsafe: bool) -> Budget:
    """Hold published constants to their claim.

    Parameters
    ----------
    name : str
        The solver.
    budget : Budget
        The claim.
    epsilon : float
        The ε that a sound accountant gives for the published noise at the budget's δ.
    unsafe : bool
        Run it although the claim is false.

    Returns
    -------
    Budget
        The claim if it is true; else, for unsafe runs, the same budget with the true ε.
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
