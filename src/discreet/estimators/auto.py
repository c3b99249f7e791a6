"""The rule behind ``solver="auto"``: what to run, decided by public numbers alone.

It sees the size of the table, the number of classes, the budget and the loss, never a row. What
it wants to know about the rows (how long they are, where they lie, how they vary) is asked for
privately, by steps of a preparation that share the budget with the model. docs/auto.md has the
rule in formulas and the experiments behind it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from discreet.estimators.preparation import (
    WIDEST,
    Bounds,
    Centre,
    Radius,
    Scale,
    Step,
    Whiten,
)
from discreet.objectives import Loss
from discreet.privacy import Budget, Relation
from discreet.solvers import AGD, GD, Solver

__all__ = ["Choice", "choose"]

CENTRE_SHARE = SCALE_SHARE = 0.05
WHITEN_SHARE = 0.10
RADIUS_SHARES = (0.005, 0.1)
"""Least and most of μ² that goes to the median length of the rows."""

RADIUS_PRECISION = 30.0
"""The median is off by about n·μ·√share/this of its noise: the share falls as n·μ grows."""

WHITEN_NOISE = 4.0
"""Whitening pays while its noise is below this many times the mean eigenvalue."""


@dataclass(frozen=True)
class Choice:
    """What to run: a preparation of the rows, and a solver on what it makes of them."""

    steps: tuple[Step, ...]
    solver: Solver


def choose(
    *,
    n_rows: int,
    n_features: int,
    loss: Loss,
    budget: Budget,
    given: Sequence[Step] = (),
) -> Choice:
    """Choose the steps and the solver for a table of this size.

    Parameters
    ----------
    n_rows, n_features : int
        The size of the table (public).
    loss : Loss
        The row loss.
    budget : Budget
        The budget of all of it.
    given : sequence of Step
        Steps that the caller wants first. If they do more than bound columns, nothing is added to
        them.
    """
    if loss.task != "classification" or budget.pure:
        return Choice(tuple(given), AGD())
    if not all(isinstance(step, Bounds) for step in given):
        return Choice(tuple(given), GD())
    left = 1.0 - sum(step.share for step in given)
    reach = max(n_rows, 1) * budget.to_gdp().mu * math.sqrt(left)
    least, most = RADIUS_SHARES
    radius = min(max((RADIUS_PRECISION / reach) ** 2, least), most)
    steps: list[Step] = [
        Radius(share=left * radius),
        Centre(share=left * CENTRE_SHARE),
        Scale(share=left * SCALE_SHARE),
    ]
    if 1 < n_features <= WIDEST and _whitening_noise(n_features, reach, budget) < WHITEN_NOISE:
        steps.append(Whiten(share=left * WHITEN_SHARE))
    return Choice((*given, *steps), GD())


def _whitening_noise(n_features: int, reach: float, budget: Budget) -> float:
    """The largest eigenvalue of the noise on the second moment, over the moment's mean one."""
    apart = 1.0 if budget.relation is Relation.ADD_REMOVE else math.sqrt(2.0)
    return apart * math.sqrt(2.0) * n_features**1.5 / (reach * math.sqrt(WHITEN_SHARE))
