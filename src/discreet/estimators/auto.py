"""Rule behind ``solver="auto"``: choose the method by public numbers alone.

The rule sees the size of the table, the budget, the loss and other settings, never a row. What it
needs to know about the rows (norm, mean, variance of the columns) is estimated privately, by steps
of a preparation that share the budget with the model. docs/auto.md describes it, and
bench/default.md has it in formulas, with the experiments behind it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from discreet.core import Budget
from discreet.objectives import Huber, Logistic, Loss, Problem, Squared
from discreet.preparation import (
    WIDEST,
    Bounds,
    Centre,
    Radius,
    Scale,
    Spread,
    Step,
    Whiten,
    Windows,
    share_for,
)
from discreet.preparation.magnitude import Largest, Magnitude
from discreet.solvers import GD, Newton, ShrunkGD, Solver
from discreet.solvers.gd import CLIPS, CONVERGED_PATH, NOISE_REACH, clip_by_rule

__all__ = ["Choice", "choose"]

# ---- mean and scale

CENTRE_SHARE = 0.05
"""Share of the budget for one `Centre`, where there is one."""

SCALE_SHARE = 0.05
"""Share of the budget for one `Scale`, where there is one."""

REPEATED_SHARE = 0.03
"""Share of each of two `Centre` and of two `Scale`, where the first mean is precise enough."""

CENTRE_PRECISION = 0.15
"""The first mean is precise enough for a second one while its noise is this share of the radius."""

SCALE_NOISE = 0.15
"""Largest noise in the columns' second moments, over their mean, at the norm that rows are clipped
to. The multiple of the median norm that keeps it is limited by the factors of the radius."""

RARE_FLOOR = 0.1
"""Floor of the scales, over their mean, where units are known: columns of small variance are then
rare categories, and a large scale would make their rows many times longer than typical ones."""

RARE_FLOOR_OF_MANY = 0.4
"""The same floor for two classes, a smooth loss and more than `MANY_COLUMNS`."""

MANY_COLUMNS = 300
"""Number of columns above which many of them are taken to be rare categories."""

# ---- units of columns (`Magnitude`): the share of a measurement of precision a is a²·k·d/(n·μ)²

UNIT_LEAST_SHARE = 0.004
"""Smallest share of a measurement of units."""

UNIT_MOST_SHARE = 0.057
"""Largest share of a measurement of units that detects all columns reliably."""

UNIT_PRECISION = 24.0
"""Precision at which a column of numbers other than 0 is detected reliably."""

NARROW_PRECISION = 14.0
"""Precision down to which narrow tables have a measurement at its largest share."""

FINE_PRECISION = 48.0
"""Precision that detects long tails and columns of many zeros, where `FINE_SHARE` pays for it."""

FINE_SHARE = 0.02
"""Largest share for a precision above `UNIT_PRECISION`."""

IMPRECISE_LEAST = 12.0
"""Least precision of a measurement in regression, where columns of other units would be lost, and
for two classes on narrow tables."""

IMPRECISE_LEAST_SHARE = 0.3
"""Largest share for this least precision, in regression."""

IMPRECISE = 18.0
"""Precision that an imprecise measurement has where `IMPRECISE_SHARE` pays for it."""

IMPRECISE_SHARE = 0.2
"""Largest share for this precision in regression, and for the least one in classification."""

CENTRED_PRECISION = 35.0
"""Precision of measurements around the mean, which have to detect how many entries are larger."""

CENTRED_SHARE = 0.03
"""Largest share of each measurement around the mean."""

# ---- largest entries of rows (`Largest`): the share is k·(a/(n·μ))² for the precision a

LARGEST_PRECISION = 250.0
"""Precision of a measurement of the rows' largest entries."""

LARGEST_LEAST_SHARE = 0.01
"""Smallest share of measurements of the largest entries."""

LARGEST_SHARE = 0.06
"""Largest share of these measurements in classification, where units are measured."""

LARGEST_MOST_SHARE = 0.12
"""Largest share of these measurements in regression, and where units are not measured."""

LARGEST_SIGNAL = 200.0
"""Least n·μ/√k for these measurements: below it, noise exceeds most counts."""

LARGEST_PARTS = (1 / 6, 1 / 6, 2 / 3)
"""Parts of the share of three measurements in turn, where units are not measured and there are at
most `MANY_COLUMNS`: each leaves the columns of large units aside that the ones before detected."""

# ---- scales of two classes where noise exceeds the counts of units

SQUARES_CLIP = 2.0
"""The squares of a row in `Scale` are scaled down to norm 2/√d of the largest: most entries of a
typical row are similar in size, and moments have √d/2 times less noise."""

SHRUNK_NORM = 5.0
"""Norm of rows after these scales."""

SHRUNK_CLIP = 1.25
"""Clip of gradients of rows of this norm."""

SHRUNK_FLOORS = (0.1, 0.3, 2.0)
"""Floors of these scales: for narrow tables, which have a second `Scale` that brings columns of
different units closer together; for others; and for more than `MANY_COLUMNS`."""

# ---- median norm (`Radius`, `Spread`)

RADIUS_SHARES = (0.005, 0.25)
"""Smallest and largest share of μ² for a median norm."""

RADIUS_PRECISIONS = (30.0, 44.0)
"""Between these limits, the share is (a/(n·μ))²: a for add or remove, and for replace."""

RADIUS_LEAST_PRECISION = 13.5
"""The share is at least (a·k/(n·μ))² for this a: predictions grow as the radius falls."""

RADIUS_MOST_SHARE = 0.5
"""Largest share for the least precision."""

LEAST_SIGNAL = RADIUS_LEAST_PRECISION / math.sqrt(RADIUS_MOST_SHARE)
"""Below this n·μ/k the norm of rows would be a guess, so the model is a constant."""

RADIUS_FACTORS = (1.1, 2.2)
"""Limits of the norm that rows are clipped to over their median norm, in classification."""

CAUTIOUS_FACTOR = 2.0
"""The lower limit for tables of at most `CAUTIOUS_COLUMNS`, none of a known unit."""

CAUTIOUS_COLUMNS = 100
"""Largest number of columns of a narrow table."""

REGRESSION_FACTORS = (3.0, 8.0)
"""Limits of this factor in regression. Only moments clip rows to it: the model gets rows up to
`LARGEST_FACTOR`, as clipping changes a row while its target stays."""

CENTRE_NOISE = 50.0
"""In regression the factor is n·μ/(k·√d) over this, which keeps the noise in the mean below a tenth
of it."""

LARGEST_FACTOR = 50.0
"""Largest norm of a row that is not clipped, over the median norm."""

STEADY_SHARE = 0.5
"""Factors above the limits are used up to this share of the one that second moments allow."""

# ---- whitening

WHITEN_SHARE = 0.10
"""Share of the budget for `Whiten`."""

WHITEN_NOISES = (4.0, 1.0)
"""Whitening pays while its noise is below the first times the mean eigenvalue, or the second of a
table with splines or many columns: many of them are rare, and it makes them long."""

# ---- descent, for classes

ITERATIONS = (20, 24)
"""Least iterations T of descent for two classes, and for more: as few as keep its steps stable.
Noise does not depend on T."""

MOST_ITERATIONS = 50
"""Most iterations of descent."""

DAMPING = (8.0, 10.0)
"""The momentum is 1 less this over T, for two classes and for more."""

WHITE_STEP = 0.5
"""Largest step per weight on whitened rows, where no direction has much more curvature than others.
Steps of a softmax are √(K/2) times as long, as curvature is less between most of its classes."""

STEP = 10.0
"""Largest step on other rows, of which nothing is known."""

QUASI_ITERATIONS = 30
"""Most iterations of descent by L-BFGS, for two classes and the logistic loss, where noise does not
limit the path: hinges have all of their curvature in kinks."""

WIDE = 20.0
"""Tables with more columns than this many times n·μ/k, or than rows, are for shrunk descent: noise
would exceed nearly all of their weights if all were measured at once."""

SHRUNK_ITERATIONS = (30, 120)
"""Least and most iterations of shrunk descent, whose steps are short."""

SHRUNK_SIGNAL = 100.0
"""Between these limits, the number of iterations is n·μ/k over this."""

# ---- Newton's steps, for numbers

NARROW = 1024
"""Largest number of weights for Newton's steps: the moment has about half its square."""

WIDE_STEP = 1.5
"""Step of descent for regression on tables too wide for a second moment."""

WIDE_PATH = 0.03
"""Its path over n·μ/(k·C): noise then moves a typical row's prediction by about a tenth of the
target's bounds."""


class Choice(NamedTuple):
    """A preparation, and a solver for the rows that it makes."""

    steps: tuple[Step, ...]
    solver: Solver


def choose(
    problem: Problem,
    budget: Budget,
    given: Sequence[Step] = (),
    n_known: int = 0,
    windows: Windows | None = None,
) -> Choice:
    """Choose the steps and the solver for a problem on rows that are not prepared yet.

    ``given`` are steps that the caller wants first. If they do more than bound columns, nothing is
    added to them. The last ``n_known`` columns are known to be numbers of about 1 at most. The
    budget is that of the whole fit; every argument is public.
    """
    loss = problem.loss
    n_features = problem.n_features
    left = 1.0 - sum(step.share for step in given)
    signal = problem.n_rows * budget.to_gdp().mu * math.sqrt(left)
    complete = not all(isinstance(step, Bounds) for step in given)
    changed = budget.relation.rows_changed
    numbers = isinstance(loss, Squared | Huber)
    constant = problem.fit_intercept and (numbers or loss.task == "classification")
    if constant and not complete and signal < LEAST_SIGNAL * changed:
        return Choice(tuple(given), GD(0))
    # the second moments of two rows differ by up to √2 times that of one
    noise = math.sqrt(changed) * n_features / (signal * math.sqrt(SCALE_SHARE))
    mean_noise = changed * math.sqrt(n_features) / (signal * math.sqrt(REPEATED_SHARE))
    table = _Table(
        n_rows=problem.n_rows,
        n_features=n_features,
        changed=changed,
        given=tuple(given),
        complete=complete,
        fit_intercept=problem.fit_intercept,
        left=left,
        signal=signal,
        steady_factor=math.sqrt(SCALE_NOISE / noise),
        any_unit=n_known < n_features,
        cost=changed * n_features / signal**2,
        precise=mean_noise < CENTRE_PRECISION,
        narrow=not n_known and n_features <= CAUTIOUS_COLUMNS,
        n_known=n_known,
        windows=windows,
    )
    if loss.task == "regression":
        return _regression(table, budget, problem.penalty.alpha, problem.row_norm)
    return _classification(table, loss)


@dataclass(frozen=True)
class _Table:
    """Public numbers of a fit.

    A neighbouring data set has ``changed`` rows changed. The preparation is ``complete`` if the
    caller's steps do more than bound columns; ``left`` is the share of the budget that they leave,
    ``signal`` n·μ of it: one over the noise in the mean of numbers in [0, 1]. ``steady_factor`` is
    the multiple of the median norm that keeps noise in second moments small enough. Columns have
    ``any_unit`` unless all are known to have the unit 1, as the last ``n_known`` have; a bound on
    the norm of rows says nothing about units. ``cost`` is the share that a measurement of units of
    precision 1 costs. A mean is ``precise`` if it is good enough for a second one to be better. A
    ``narrow`` table has few columns, none of a known unit.
    """

    n_rows: int
    n_features: int
    changed: int
    given: tuple[Step, ...]
    complete: bool
    fit_intercept: bool
    left: float
    signal: float
    steady_factor: float
    any_unit: bool
    cost: float
    precise: bool
    narrow: bool
    n_known: int
    windows: Windows | None

    def column_steps(self) -> list[Step]:
        """Return steps for a table whose columns are known: windows, mean and scale."""
        assert self.windows is not None
        windows = self.windows
        count = len(windows.columns)
        parts = windows.others + count
        signal = self.signal / self.changed
        counts = 2 * share_for(count, signal)
        steps: list[Step] = [replace(windows, share=self.left * counts)]
        share = self.left * share_for(parts, signal)
        scale = Scale(share, floor=RARE_FLOOR, squares=max(1 / math.sqrt(parts), 1e-3), shrink=True)
        if self.fit_intercept:
            steps.append(Centre(share=share))
        return [*steps, scale]

    def steps(self, radius: Radius, *, numbers: bool = False, binary: bool = False) -> list[Step]:
        """Return steps for unit, norm, mean and scale; the radius gets its share.

        ``numbers`` is True in regression: units are measured imprecisely where a reliable
        measurement is too costly, and columns are scaled twice where units are not measured again.
        ``binary`` is True for two classes: the same holds for narrow tables where noise exceeds the
        counts, and scales are shrunk towards each other there.
        """
        precision = RADIUS_PRECISIONS[self.changed - 1]
        least = RADIUS_LEAST_PRECISION * self.changed
        share = float(np.clip((precision / self.signal) ** 2, *RADIUS_SHARES))
        share = self.left * max(share, min((least / self.signal) ** 2, RADIUS_MOST_SHARE))
        radius = replace(radius, share=share)
        spread = Spread(share=share)
        repeated = self.left * REPEATED_SHARE
        many = self.n_features > MANY_COLUMNS
        centre = Centre(share=repeated)
        scale = Scale(share=repeated, floor=RARE_FLOOR_OF_MANY if binary and many else RARE_FLOOR)
        first, measured = self.units(numbers=numbers, binary=binary)
        one_unit = self.n_known == self.n_features
        scales = [scale] if one_unit else [Scale(share=repeated)] * 2
        unreliable = binary and UNIT_PRECISION**2 * self.cost >= UNIT_MOST_SHARE
        if unreliable and not (one_unit or first == UNIT_MOST_SHARE):
            squares = max(min(SQUARES_CLIP / math.sqrt(self.n_features), 1.0), 1e-3)
            floor = SHRUNK_FLOORS[(not self.narrow) + many]
            scale = Scale(repeated, SHRUNK_NORM, floor, squares=squares, shrink=True)
            scales = [scale] * (1 + self.narrow)
        if first:
            if not self.fit_intercept:
                return [*measured, radius, scale]
            around_mean = CENTRED_PRECISION**2 * self.cost
            if around_mean > CENTRED_SHARE:
                scales = [scale] * (1 + (numbers or unreliable))
                return [*measured, radius, centre, spread, centre, *scales]
            centred = Magnitude(self.left * max(around_mean, UNIT_LEAST_SHARE), self.n_known)
            return [*measured, radius, centre, centred, spread, centre, centred, scale]
        if not self.fit_intercept:  # nothing could make up for a mean that was subtracted
            return [*measured, radius, *scales]
        if self.precise:
            return [*measured, radius, centre, spread, centre, *scales]
        scale = replace(scales[0], share=self.left * SCALE_SHARE)
        return [*measured, radius, Centre(share=self.left * CENTRE_SHARE), scale]

    def units(self, *, numbers: bool = False, binary: bool = False) -> tuple[float, list[Step]]:
        """Return the share of the measurement of units, 0 if there is none, and all measurements.

        Those of the rows' largest entries come after it.
        """
        if not self.any_unit:
            return 0.0, []
        reliable = UNIT_PRECISION**2 * self.cost
        imprecise = IMPRECISE_LEAST**2 * self.cost
        share = 0.0
        if reliable < UNIT_MOST_SHARE:
            fine = min(FINE_PRECISION**2 * self.cost, FINE_SHARE)
            share = max(reliable, UNIT_LEAST_SHARE, fine)
        elif numbers and imprecise < IMPRECISE_LEAST_SHARE:
            share = max(imprecise, min(IMPRECISE**2 * self.cost, IMPRECISE_SHARE))
        elif self.narrow and NARROW_PRECISION**2 * self.cost < UNIT_MOST_SHARE:
            share = UNIT_MOST_SHARE
        elif self.narrow and binary and imprecise < IMPRECISE_SHARE:
            share = max(imprecise, UNIT_MOST_SHARE)
        measured: list[Step] = [Magnitude(self.left * share, self.n_known)] if share else []
        unknown = not self.n_known and self.n_features <= MANY_COLUMNS
        enough = self.signal >= LARGEST_SIGNAL * math.sqrt(self.changed)
        if enough and (share or unknown):
            needed = self.changed * (LARGEST_PRECISION / self.signal) ** 2
            most = LARGEST_MOST_SHARE if numbers or not share else LARGEST_SHARE
            largest = min(max(needed, LARGEST_LEAST_SHARE), most)
            parts = (1.0,) if share else LARGEST_PARTS
            measured += [Largest(self.left * part * largest, self.n_known) for part in parts]
        return share, measured


def _classification(table: _Table, loss: Loss) -> Choice:
    """Choose descent, and steps that bring columns to one scale and whiten them if noise allows."""
    start = share_for(loss.n_outputs, table.signal / table.changed)
    wide = table.n_features > min(WIDE * table.signal / table.changed, table.n_rows)
    count = math.ceil(np.clip(table.signal / (SHRUNK_SIGNAL * table.changed), *SHRUNK_ITERATIONS))
    shrunk_descent = ShrunkGD(count, start_share=start)
    descent = GD(start_share=start, shrink=True)
    if table.complete:
        return Choice(table.given, shrunk_descent if wide else descent)
    steps = table.column_steps() if table.windows else _steps_for_classes(table, loss)
    noise = math.sqrt(2 * table.changed / WHITEN_SHARE) * table.n_features**1.5 / table.signal
    bearable = WHITEN_NOISES[table.n_known > 0 or table.n_features > MANY_COLUMNS]
    whitens = 1 < table.n_features <= WIDEST and noise < bearable
    shrunk = isinstance(steps[-1], Scale) and steps[-1].shrink and not table.windows
    if whitens:
        steps.append(Whiten(share=table.left * WHITEN_SHARE))
    if wide:
        return Choice((*table.given, *steps), shrunk_descent)
    left = (1 - start) * (table.left - sum(step.share for step in steps)) / table.left
    reach = NOISE_REACH * table.signal * math.sqrt(left) / table.changed
    width = table.n_features + int(table.fit_intercept)
    converged = CONVERGED_PATH * width * loss.slowness
    clip = SHRUNK_CLIP if shrunk else clip_by_rule(reach, converged)
    path = min(reach / clip, converged)
    descent = replace(descent, gradient_clip=clip) if shrunk else descent
    if path == converged and isinstance(loss, Logistic):
        descent = replace(descent, iterations=QUASI_ITERATIONS, quasi_newton=True)
        return Choice((*table.given, *steps), descent)
    several = loss.n_outputs > 1
    longest = math.sqrt(loss.slowness) * (WHITE_STEP * width if whitens else STEP)
    count = math.ceil(np.clip(path / longest, ITERATIONS[several], MOST_ITERATIONS))
    descent = replace(descent, iterations=count, momentum=1 - DAMPING[several] / count)
    return Choice((*table.given, *steps), descent)


def _steps_for_classes(table: _Table, loss: Loss) -> list[Step]:
    """Return steps for unit, norm, mean and scale of a table with classes for targets."""
    steady = min(STEADY_SHARE * table.steady_factor, LARGEST_FACTOR)
    least = CAUTIOUS_FACTOR if table.narrow else RADIUS_FACTORS[0]
    factor = max(float(np.clip(table.steady_factor, least, RADIUS_FACTORS[1])), steady)
    enough = table.n_features <= table.signal / table.changed
    binary = loss.smooth and loss.n_outputs == 1 and enough
    known = table.precise and (table.units(binary=binary)[0] > 0 or not table.any_unit)
    clip = factor / LARGEST_FACTOR if known else 1.0
    return table.steps(Radius(factor=factor / clip, moment_clip=clip), binary=binary)


def _regression(table: _Table, budget: Budget, alpha: float, data_norm: float | None) -> Choice:
    """Choose Newton's steps, where the table is narrow enough for a second moment.

    If the penalty is larger than the noise in a second moment of the *raw* rows calls for, rows are
    clipped to ``data_norm`` and not prepared, and the model is the minimum of the objective on
    them. Otherwise rows are prepared, and the penalty is on the weights of prepared rows.
    """
    size = table.n_features + int(table.fit_intercept)
    narrow = size <= NARROW
    if data_norm is not None and not table.given and narrow:
        norm = math.hypot(data_norm, 1.0) if table.fit_intercept else data_norm
        if alpha >= Newton().doubt(table.n_rows, size, norm, budget):
            return Choice((), Newton())
    solver: Solver = Newton()
    if not narrow:
        path = WIDE_PATH * table.signal / (table.changed * CLIPS[0])
        step = max(min(WIDE_STEP, path / GD.iterations), 1e-6)
        solver = GD(step_size=step, gradient_clip=CLIPS[0])
    if table.complete:
        return Choice(table.given, solver)
    factor = table.signal / (CENTRE_NOISE * table.changed * math.sqrt(table.n_features))
    steady = min(factor, STEADY_SHARE * table.steady_factor, LARGEST_FACTOR)
    factor = max(float(np.clip(factor, *REGRESSION_FACTORS)), steady)
    radius = Radius(factor=LARGEST_FACTOR, moment_clip=factor / LARGEST_FACTOR)
    steps = table.column_steps() if table.windows else table.steps(radius, numbers=narrow)
    if narrow:
        solver = Newton(shrink=True)
    return Choice((*table.given, *steps), solver)
