"""What every solver is: settings in, and one method that asks a curator.

A solver never sees rows. It declares what it needs of a loss and of a budget, and `check` refuses
what it cannot take before any data is read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.errors import NotSupported
from discreet.objectives import Loss, Problem
from discreet.privacy import Budget, Curator

__all__ = ["Progress", "Solution", "Solver", "TraceEntry"]

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
    """

    weights: FloatArray
    trace: tuple[TraceEntry, ...]
    conditions: tuple[str, ...]


class Solver:
    """Base class of solvers: frozen dataclasses with the method `solve`."""

    name: ClassVar[str]
    needs_smooth_loss: ClassVar[bool] = False
    needs_delta: ClassVar[bool] = False

    def check(self, loss: Loss, budget: Budget, parts: int = 1) -> None:
        """Refuse what cannot work, before any data is read.

        Parameters
        ----------
        loss : Loss
            The row loss.
        budget : Budget
            The budget of the whole fit.
        parts : int
            Among how many models (one-vs-rest) the budget is shared.
        """
        if self.needs_smooth_loss and not loss.smooth:
            raise NotSupported(
                f"{self.name} needs a smooth loss; {loss.name!r} is not. "
                "Use loss='huber' (smoothed hinge) or solver='agd'."
            )
        if self.needs_delta and budget.pure:
            raise NotSupported(
                f"solver={self.name!r} needs delta > 0; got delta=0. Give a delta well below 1/n, "
                "for example 1e-6."
            )

    def solve(
        self,
        problem: Problem,
        curator: Curator,
        budget: Budget,
        progress: Callable[[Progress], None] | None = None,
    ) -> Solution:
        """Find private weights for ``problem`` by asking ``curator``."""
        raise NotImplementedError
