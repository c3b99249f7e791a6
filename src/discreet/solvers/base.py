"""What every solver is: settings in, and one method that asks a curator.

A solver never sees rows. It declares what it needs of a loss and of a budget, and `check` refuses
what it cannot take before any data is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.budget import Measure
from discreet.core import Budget, Curator, Relation
from discreet.errors import NotSupported, PrivacyError
from discreet.objectives import Loss, Problem

__all__ = ["Progress", "Solution", "Solver", "TraceEntry", "part_of", "true_budget"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class TraceEntry:
    """What every entry of a trace says; solvers add their own fields.

    Attributes
    ----------
    model
        Which linear model of the fit: 0, or the index of the class in one-vs-rest.
    """

    model: int = 0


@dataclass(frozen=True)
class Progress:
    """What a running solver shows: everything in it is already paid for.

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
    """What a solver found.

    Attributes
    ----------
    weights
        The private weights; the intercept, if any, is the last.
    trace
        One entry per iteration, safe to publish.
    conditions
        What the solver's privacy proof rests on, in words.
    clip
        What the gradients of rows were clipped to, if they were. Public, like the next.
    deviation
        About how far noise has moved each weight (standard deviation), if the solver can tell.
    """

    weights: FloatArray
    trace: tuple[TraceEntry, ...]
    conditions: tuple[str, ...]
    clip: float | None = None
    deviation: float | None = None


class Solver:
    """Base class of solvers: frozen dataclasses with the method `solve`.

    A solver declares what it is and what its privacy proof needs; `check` and `plan` enforce it
    before a row is read, and `discreet.solvers.describe` shows it.

    Attributes
    ----------
    name
        How it is called in settings.
    paper
        Where it comes from, down to the algorithm.
    relations
        The relations it can be accounted under; the first is that of the paper's own proof.
    demands
        Conditions of the proof that the flags below do not say, in words.
    private
        False for baselines, which protect nobody.
    needs_delta, needs_smooth_loss, needs_convex_loss, needs_row_bound
        Whether it needs δ > 0, a smooth or convex loss, or a finite bound on the norm of every
        row's gradient that does not come from clipping gradients (a bounded slope and
        ``data_norm``).
    takes_outputs
        Whether it takes losses with several margins a row (`Softmax`).
    takes_transformed_rows
        Whether it asks for gradients alone, so that prepared rows need no table of their own
        (`Rows.transformed`).
    composes
        Which measures it may open for δ > 0, where a preparation of the rows has a part of the
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
            Among how many models (one-vs-rest) the budget is shared.
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
                f"solver={self.name!r} takes losses of one margin a row; {loss.name!r} has "
                f"{loss.n_outputs}. Use 'gd', 'amp' or 'objpert', or one model a class."
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
        """Refuse what the size of the table rules out, before a row is read.

        Returns the budget that the fit really spends: ``budget`` itself, or one with the true ε
        where published constants give less privacy than they claim and the caller insists.
        """
        self.check(problem.loss, budget, n_models)
        if self.needs_row_bound and problem.row_norm is None:
            raise ValueError(
                f"solver={self.name!r} needs a public bound on the norm of a row. Pass data_norm, "
                "for example data_norm=1.0: longer rows are scaled down to it."
            )
        return budget

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
        raise NotImplementedError


def part_of(budget: Budget, n_models: int) -> Budget:
    """What each of several models gets when ε and δ are split evenly, as the papers do."""
    return replace(budget, epsilon=budget.epsilon / n_models, delta=budget.delta / n_models)


def true_budget(name: str, budget: Budget, epsilon: float, unsafe: bool) -> Budget:
    """Hold published constants to their claim.

    Parameters
    ----------
    name : str
        The solver.
    budget : Budget
        What was claimed.
    epsilon : float
        The ε that a sound accountant gives for the published noise at the budget's δ.
    unsafe : bool
        Whether the caller wants to run it all the same.

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
    return replace(budget, epsilon=epsilon * (1 + 2.0**-30))  # a hair above its rounding
