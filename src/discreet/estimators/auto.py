"""The rule behind ``solver="auto"``: what to run, decided by public numbers alone.

It sees the size of the table, the budget, the loss and other settings, never a row. What it wants
to know about the rows (how long they are, where they lie, how they vary) is asked for privately, by
steps of a preparation that share the budget with the model. docs/auto.md has the rule in formulas
and the experiments behind it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from discreet.core import Budget, Relation
from discreet.objectives import Logistic, Loss
from discreet.preparation.pipeline import (
    WIDEST,
    Bounds,
    Centre,
    Radius,
    Scale,
    Spread,
    Step,
    Whiten,
)
from discreet.solvers import AGD, GD, Newton, ShrunkGD, Solver

__all__ = ["Choice", "choose"]

CENTRE_SHARE = SCALE_SHARE = 0.05
TWICE_SHARE = 0.03
"""The share of each of two `Centre` and of two `Scale`, where the first mean is precise enough."""

CENTRE_PRECISION = 0.15
"""It is while its noise is below this part of the radius: then rows may turn out to be far shorter
around it, and what is asked for a second time has far less noise."""

WHITEN_SHARE = 0.10
RADIUS_SHARES = (0.005, 0.1)
"""Least and most of μ² that goes to the median length of the rows."""

RADIUS_PRECISION = 30.0
"""The median is off by about n·μ·√share/this of its noise: the share falls as n·μ grows."""

SCALE_NOISE = 0.15
"""Rows are clipped to a multiple of their median length that keeps the noise in the columns' second
moments below this part of their mean, within the next limits."""

RADIUS_FACTORS = (1.1, 2.2)
REGRESSION_FACTORS = (1.1, 2.0)
LARGEST_FACTOR = 10.0
CENTRE_NOISE = 50.0
"""In regression the multiple is n·μ/(k·√d) over this, which keeps the noise in the mean below a
tenth of it: a row that is scaled down no longer lies where its target says. Beyond 2, and up to the
largest, it is so only where second moments allow it, too."""

START_SHARES = (0.002, 0.05)
START_PRECISION = 10.0
"""Least and most of the model's μ² that goes to the balance of two classes; in between, what makes
the noise in a class's share about a twentieth."""

WIDE = 2.0
"""Tables with more columns than this many times n·μ/k, or than rows, are for shrunk descent: of all
their weights next to nothing could be seen at once."""

WHITEN_NOISE = 4.0
"""Whitening pays while its noise is below this many times the mean eigenvalue."""

NARROW = 1024
"""Weights that Newton's steps are taken for: its moment has about half their square."""

WIDE_STEP = 1.5
WIDE_REACH = 0.03
"""Step of descent for regression on tables too wide for a second moment, and its path over
n·μ/(k·C): noise then moves a usual row's prediction by about a tenth of the target's bounds."""


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
    alpha: float = 0.0,
    data_norm: float | None = None,
    fit_intercept: bool = True,
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
    alpha : float
        The penalty.
    data_norm : float, optional
        Public bound on a row's norm.
    fit_intercept : bool
        Whether there is a constant.
    """
    if budget.pure:
        return Choice(tuple(given), AGD())
    table = _Table(n_rows, n_features, budget, tuple(given), fit_intercept)
    if loss.task == "regression":
        return _regression(table, alpha, data_norm)
    return _classification(table, loss)


@dataclass(frozen=True)
class _Table:
    """Public numbers, and what follows from them."""

    n_rows: int
    n_features: int
    budget: Budget
    given: tuple[Step, ...]
    fit_intercept: bool

    @property
    def complete(self) -> bool:
        """Whether the caller has decided how rows are prepared."""
        return not all(isinstance(step, Bounds) for step in self.given)

    @property
    def left(self) -> float:
        """The share of the budget that the caller's steps leave."""
        return 1.0 - sum(step.share for step in self.given)

    @property
    def reach(self) -> float:
        """n·μ for what is left: one over the noise in the mean of numbers in [0, 1]."""
        return max(self.n_rows, 1) * self.budget.to_gdp().mu * math.sqrt(self.left)

    @property
    def apart(self) -> float:
        """How far second moments of two rows can be apart, over that of one."""
        return 1.0 if self.budget.relation is Relation.ADD_REMOVE else math.sqrt(2.0)

    def usual(self, factor: float) -> list[Step]:
        """Length, place and scale: rows are clipped to so many times their median length."""
        share = self.left * _within((RADIUS_PRECISION / self.reach) ** 2, RADIUS_SHARES)
        radius, twice = Radius(share=share, factor=factor), self.left * TWICE_SHARE
        if not self.fit_intercept:  # nothing could make up for a mean that was subtracted
            return [radius, Scale(share=twice), Scale(share=twice)]
        noise = self.budget.relation.rows_changed * math.sqrt(self.n_features)
        if noise < CENTRE_PRECISION * self.reach * math.sqrt(TWICE_SHARE):
            around = [Centre(share=twice), Spread(share=share), Centre(share=twice)]
            return [radius, *around, Scale(share=twice), Scale(share=twice)]
        once = self.left * CENTRE_SHARE
        return [radius, Centre(share=once), Scale(share=self.left * SCALE_SHARE)]

    @property
    def steady_factor(self) -> float:
        """The multiple of the median length that keeps noise in second moments small enough."""
        noise = self.apart * self.n_features / (self.reach * math.sqrt(SCALE_SHARE))
        return math.sqrt(SCALE_NOISE / noise)


def _classification(table: _Table, loss: Loss) -> Choice:
    share = _within((START_PRECISION / table.reach) ** 2, START_SHARES)
    known = {"start_share": share} if isinstance(loss, Logistic) else {}
    seen = min(WIDE * table.reach / table.budget.relation.rows_changed, table.n_rows)
    wide = table.n_features > seen
    solver = ShrunkGD(**known) if wide else GD(**known)
    if table.complete:
        return Choice(table.given, solver)
    steps = table.usual(_within(table.steady_factor, RADIUS_FACTORS))
    noise = table.apart * math.sqrt(2.0) * table.n_features**1.5
    noise /= table.reach * math.sqrt(WHITEN_SHARE)
    if 1 < table.n_features <= WIDEST and noise < WHITEN_NOISE:
        steps.append(Whiten(share=table.left * WHITEN_SHARE))
    return Choice((*table.given, *steps), solver)


def _regression(table: _Table, alpha: float, data_norm: float | None) -> Choice:
    """Newton's steps, where the table is narrow enough for a second moment.

    A penalty that is larger than what the noise in a second moment of the rows *as they are* calls
    for is taken at its word: rows are scaled down to ``data_norm`` and not prepared, and the model
    is the minimum of the objective on them. Otherwise rows are prepared, and the penalty is on the
    weights of prepared rows.
    """
    size = table.n_features + int(table.fit_intercept)
    narrow = size <= NARROW
    if data_norm is not None and not table.given and narrow:
        length = math.hypot(data_norm, 1.0) if table.fit_intercept else data_norm
        if alpha >= Newton().doubt(table.n_rows, size, length, table.budget):
            return Choice((), Newton())
    changed = table.budget.relation.rows_changed
    solver: Solver = Newton()
    if not narrow:
        plain = GD()
        path = WIDE_REACH * table.reach / (changed * plain.gradient_clip)
        solver = GD(step_size=max(min(WIDE_STEP, path / plain.iterations), 1e-6))
    if table.complete:
        return Choice(table.given, solver)
    factor = table.reach / (CENTRE_NOISE * changed * math.sqrt(table.n_features))
    usual = _within(factor, REGRESSION_FACTORS)
    steps = table.usual(max(usual, min(factor, table.steady_factor, LARGEST_FACTOR)))
    return Choice((*table.given, *steps), solver)


def _within(value: float, limits: tuple[float, float]) -> float:
    return min(max(value, limits[0]), limits[1])
