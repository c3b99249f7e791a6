"""Rule behind ``solver="auto"``: choose the method by public numbers alone.

The rule sees the size of the table, the budget, the loss and other settings, never a row. What it
needs to know about the rows (norm, mean, variance of the columns) is estimated privately, by steps
of a preparation that share the budget with the model. docs/auto.md has the rule in formulas and the
experiments behind it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from discreet.core import Budget
from discreet.objectives import Huber, Logistic, Loss, Problem, Squared
from discreet.preparation import WIDEST, Bounds, Centre, Radius, Scale, Spread, Step, Whiten
from discreet.preparation.magnitude import Largest, Magnitude
from discreet.solvers import GD, Newton, ShrunkGD, Solver
from discreet.solvers.gd import CLIPS, CONVERGED_PATH, NOISE_REACH, clip_by_rule

__all__ = ["Choice", "choose"]

CENTRE_SHARE = SCALE_SHARE = 0.05
TWICE_SHARE = 0.03
"""The share of each of two `Centre` and of two `Scale`, where the first mean is precise enough."""

CENTRE_PRECISION = 0.15
"""The first mean is precise enough for a second one while its noise is this share of the radius."""

MAGNITUDE_SHARES = (0.004, 0.057)
MAGNITUDE_PRECISION, NARROW_PRECISION = 24.0, 14.0
FINE_PRECISION, FINE_SHARE = 48.0, 0.02
"""The share of a look at units is (this·√(k·d)/(n·μ))², at which a column of numbers other than 0
is seen for certain. Tables of few columns have one at the largest share, down to the second. Up to
the last share looks are of the third precision, which sees long tails and columns of many zeros."""

COARSE_PRECISIONS, COARSE_SHARES = (12.0, 18.0), (0.2, 0.3)
"""In regression the first look is then a coarse one, of the second precision at up to the first
share, or of the first at up to the second: columns of other units would be lost. For two classes
and few columns it is one of the first precision at up to the first share."""

LONG_SHARES, LONG_PRECISION, LONG_SIGNAL = (0.01, 0.06, 0.12), 250.0, 200.0
PEELED = (1 / 6, 1 / 6, 2 / 3)
"""The share of a look at rows' largest entries is (250·√k/(n·μ))², at least the first of these and
at most the second, or the third in regression; below this n·μ/√k it would see too little. Where
there is no look at units, and at most `MANY_COLUMNS`, all of any unit, three looks have these parts
of it, up to the third: columns of large units would hide all others."""

AGAIN_SHARE = 0.03
AGAIN_PRECISION = 35.0
"""The same for looks around the mean, which have to see how many entries are larger."""

RARES, MANY_COLUMNS = (0.1, 0.4), 300
"""Floor of the scales, over their mean, where units are known: columns of small variance are then
rare categories, and stretching them would make their rows many times longer than usual. The second
is for two classes, a smooth loss and more columns than these."""

SQUARES, FLOORS, LONGER, SHORT_CLIP = 2.0, (0.1, 0.3, 2.0), 5.0, 1.25
"""For two classes, where noise hides units, the squares of a row in `Scale` are scaled down to norm
2/√d of the largest: entries of most rows are alike in size, and moments have √d/2 times less noise.
Rows get the norm 5, and their gradients are clipped to 1.25. Narrow tables have a second `Scale`,
which brings columns of different units closer together, and the first floor; others the second,
or the third if they have many columns."""

WHITEN_SHARE = 0.10
RADIUS_SHARES, RADIUS_PRECISIONS = (0.005, 0.25), (30.0, 44.0)
"""Smallest and largest share of μ² for a median norm; in between (30/(n·μ))², or 44 for replace."""

SURE_SHARE, SURE_PRECISION = 0.5, 13.5
"""The share is at least (13.5·k/(n·μ))², up to 0.5: predictions grow as the radius falls."""

LEAST_SIGNAL = SURE_PRECISION / math.sqrt(SURE_SHARE)
"""Below this n·μ/k the norm of rows would be a guess, so the model is a constant."""

SCALE_NOISE = 0.15
"""Rows are clipped to a multiple of their median norm that keeps the noise in the columns' second
moments below this share of their mean, within the next limits."""

RADIUS_FACTORS = (1.1, 2.2)
REGRESSION_FACTORS = (3.0, 8.0)
CAUTIOUS_FACTOR, CAUTIOUS_COLUMNS = 2.0, 100
LARGEST_FACTOR = 50.0
STEADY_SHARE = 0.5
CENTRE_NOISE = 50.0
"""In regression the multiple is n·μ/(k·√d) over this, which keeps the noise in the mean below a
tenth of it. Only moments clip rows to it: the model gets rows up to the largest multiple, as
clipping changes a row while its target stays. Multiples above these limits are used where second
moments allow twice as much. The cautious one is the least for classes if there are at most that
many columns, none of a known unit."""

START_SHARES, START_PRECISIONS = (0.002, 0.3), (20.0, 3.0)
"""Smallest and largest share of the model's μ² for the balance of the classes; in between, that at
which noise in a class's frequency is a 20th, or a third of 1/K."""

ITERATIONS, MOST_ITERATIONS = (20, 24), 50
DAMPING = (8.0, 10.0)
WHITE_STEP, STEP = 0.5, 10.0
"""Descent takes as few iterations T, within these limits, as keep its steps stable, and has
momentum 1 − 8/T. Steps are at most 0.5 per weight on whitened rows, where no direction has much
more curvature than others; on other rows, of which nothing is known, at most 10. The second of two
numbers is for K > 2 classes. Steps of a softmax are √(K/2) times as long, as curvature is less
between most of its classes. Noise does not depend on T."""

QUASI_ITERATIONS = 30
"""Most iterations of descent by L-BFGS, for two classes and the logistic loss, where noise does not
limit the path: hinges have all of their curvature in kinks."""

WIDE = 20.0
"""Tables with more columns than this many times n·μ/k, or than rows, are for shrunk descent: noise
would hide nearly all of their weights if all were measured at once."""

SHRUNK_ITERATIONS, SHRUNK_SIGNAL = (30, 120), 100.0
"""Least and most iterations of shrunk descent, whose steps are short: n·μ/k over the last."""

WHITEN_NOISES = (4.0, 1.0)
"""Whitening pays while its noise is below the first times the mean eigenvalue, or the second of a
table with splines or many columns: many of them are rare, and it makes them long."""

SAMPLE_ROWS, SAMPLE_NOISE, SAMPLE_PRECISION = 20_000, 0.06, 600.0
LARGEST_RATE, LARGEST_SAMPLE, SAMPLE_SHARE = 0.5, 2**26, 0.4
"""If noise does not limit the path, the preparation sees a sample if half of the rows are
enough: this many, noise of the whitening of this share of the mean eigenvalue, and a signal of this
times √(k·d), at which looks at columns need no more than their smallest share. A sample has at most
this many entries, and the whitening by it this share of the budget: the model can do with less."""

NARROW = 1024
"""Largest number of weights for Newton's steps: the moment has about half its square."""

CONSTANT_NOISE = 0.04
"""Rows for Newton's steps are so long that noise in the constant is a 20th of a usual residual, as
far as that is between 1/2 and 10/3: the constant is a part of each row's clipped gradient."""

WIDE_STEP = 1.5
WIDE_PATH = 0.03
"""Step of descent for regression on tables too wide for a second moment, and its path over
n·μ/(k·C): noise then moves a usual row's prediction by about a tenth of the target's bounds."""


class Choice(NamedTuple):
    """A preparation, which sees a sample of the rows at ``rate``, and a solver for all of them."""

    steps: tuple[Step, ...]
    solver: Solver
    rate: float = 1.0


def choose(
    problem: Problem,
    budget: Budget,
    given: Sequence[Step] = (),
    n_known: int = 0,
    may_sample: bool = True,
) -> Choice:
    """Choose the steps and the solver for a problem on rows that are not prepared yet.

    ``given`` are steps that the caller wants first. If they do more than bound columns, nothing is
    added to them. The last ``n_known`` columns are known to be numbers of about 1 at most. The
    preparation may see a sample with ``may_sample``: rows that share units are not sampled. The
    budget is that of the whole fit; every argument is public.
    """
    loss, n_features = problem.loss, problem.n_features
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
    mean_noise = changed * math.sqrt(n_features) / (signal * math.sqrt(TWICE_SHARE))
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
        price=changed * n_features / signal**2,
        precise=mean_noise < CENTRE_PRECISION,
        narrow=not n_known and n_features <= CAUTIOUS_COLUMNS,
        n_known=n_known,
        may_sample=may_sample,
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
    the norm of rows says nothing about units. ``price`` is the share that a measurement of units of
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
    price: float
    precise: bool
    narrow: bool
    n_known: int
    may_sample: bool

    def steps(self, radius: Radius, *, coarse: bool = False, two: bool = False) -> list[Step]:
        """Return steps for unit, norm, mean and scale; the radius gets its share.

        With ``coarse``, look at units coarsely where a sure look is too dear, and scale twice where
        it is not repeated. With ``two``, do so for few columns where noise hides units, and shrink
        scales towards each other there.
        """
        precision, least = RADIUS_PRECISIONS[self.changed - 1], SURE_PRECISION * self.changed
        share = float(np.clip((precision / self.signal) ** 2, *RADIUS_SHARES))
        share = self.left * max(share, min((least / self.signal) ** 2, SURE_SHARE))
        radius, spread = replace(radius, share=share), Spread(share=share)
        twice, once = self.left * TWICE_SHARE, self.left * CENTRE_SHARE
        rare = RARES[two and self.n_features > MANY_COLUMNS]
        centre, scale = Centre(share=twice), Scale(share=twice, floor=rare)
        first, looks = self.units(coarse=coarse, two=two)
        one_unit = self.n_known == self.n_features
        scales = [scale] if one_unit else [Scale(share=twice)] * 2
        hidden = two and MAGNITUDE_PRECISION**2 * self.price >= MAGNITUDE_SHARES[1]
        if hidden and not (one_unit or first == MAGNITUDE_SHARES[1]):
            squares = max(min(SQUARES / math.sqrt(self.n_features), 1.0), 1e-3)
            floor = FLOORS[(not self.narrow) + (self.n_features > MANY_COLUMNS)]
            scale = Scale(twice, LONGER, floor, squares=squares, shrink=True)
            scales = [scale] * (1 + self.narrow)
        if first:
            if not self.fit_intercept:
                return [*looks, radius, scale]
            look = AGAIN_PRECISION**2 * self.price
            if look > AGAIN_SHARE:
                scales = [scale] * (1 + (coarse or hidden))
                return [*looks, radius, centre, spread, centre, *scales]
            again = Magnitude(self.left * max(look, MAGNITUDE_SHARES[0]), self.n_known)
            return [*looks, radius, centre, again, spread, centre, again, scale]
        if not self.fit_intercept:  # nothing could make up for a mean that was subtracted
            return [*looks, radius, *scales]
        if self.precise:
            return [*looks, radius, centre, spread, centre, *scales]
        scale = replace(scales[0], share=self.left * SCALE_SHARE)
        return [*looks, radius, Centre(share=once), scale]

    def units(self, *, coarse: bool = False, two: bool = False) -> tuple[float, list[Step]]:
        """Return the share of the first look at units, 0 if there is none, and all looks."""
        least, most = MAGNITUDE_SHARES
        precisions = (MAGNITUDE_PRECISION, NARROW_PRECISION, *COARSE_PRECISIONS)
        sure, unsure, low, high = (precision**2 * self.price for precision in precisions)
        first = 0.0
        if not self.any_unit:
            return first, []
        if sure < most:
            first = max(sure, least, min(FINE_PRECISION**2 * self.price, FINE_SHARE))
        elif coarse and low < COARSE_SHARES[1]:
            first = max(low, min(high, COARSE_SHARES[0]))
        elif self.narrow and unsure < most:
            first = most
        elif self.narrow and two and low < COARSE_SHARES[0]:
            first = max(low, most)
        looks: list[Step] = [Magnitude(self.left * first, self.n_known)] if first else []
        few = not self.n_known and self.n_features <= MANY_COLUMNS
        if self.signal >= LONG_SIGNAL * math.sqrt(self.changed) and (first or few):
            needed, (floor, usual, more) = (LONG_PRECISION / self.signal) ** 2, LONG_SHARES
            share = min(max(self.changed * needed, floor), more if coarse or not first else usual)
            parts = (1.0,) if first else PEELED
            looks += [Largest(self.left * part * share, self.n_known) for part in parts]
        return first, looks


def _classification(table: _Table, loss: Loss) -> Choice:
    """Choose descent, and steps that bring columns to one scale and whiten them if noise allows."""
    precision = max(START_PRECISIONS[0], START_PRECISIONS[1] * loss.n_outputs)
    start = float(np.clip((precision / table.signal) ** 2, *START_SHARES))
    wide = table.n_features > min(WIDE * table.signal / table.changed, table.n_rows)
    count = math.ceil(np.clip(table.signal / (SHRUNK_SIGNAL * table.changed), *SHRUNK_ITERATIONS))
    shrunk_descent = ShrunkGD(count, start_share=start)
    descent = GD(start_share=start, shrink=True)
    if table.complete:
        return Choice(table.given, shrunk_descent if wide else descent)
    steps = _steps_for_classes(table, loss)
    noise = math.sqrt(2 * table.changed / WHITEN_SHARE) * table.n_features**1.5 / table.signal
    bearable = WHITEN_NOISES[table.n_known > 0 or table.n_features > MANY_COLUMNS]
    whitens = 1 < table.n_features <= WIDEST and noise < bearable
    shrunk = isinstance(steps[-1], Scale) and steps[-1].shrink
    if whitens:
        steps.append(Whiten(share=table.left * WHITEN_SHARE))
    if wide:
        return Choice((*table.given, *steps), shrunk_descent)
    left = (1 - start) * (table.left - sum(step.share for step in steps)) / table.left
    reach = NOISE_REACH * table.signal * math.sqrt(left) / table.changed
    width = table.n_features + int(table.fit_intercept)
    converged = CONVERGED_PATH * width * loss.slowness
    clip = SHORT_CLIP if shrunk else clip_by_rule(reach, converged)
    path = min(reach / clip, converged)
    descent = replace(descent, gradient_clip=clip) if shrunk else descent
    if path == converged and isinstance(loss, Logistic):
        descent = replace(descent, iterations=QUASI_ITERATIONS, quasi_newton=True)
        rate = _sample_rate(table, noise)
        if rate is not None and whitens:
            steps[-1] = Whiten(share=table.left * SAMPLE_SHARE)
        return Choice((*table.given, *steps), descent, 1.0 if rate is None else rate)
    several = loss.n_outputs > 1
    longest = math.sqrt(loss.slowness) * (WHITE_STEP * width if whitens else STEP)
    count = math.ceil(np.clip(path / longest, ITERATIONS[several], MOST_ITERATIONS))
    descent = replace(descent, iterations=count, momentum=1 - DAMPING[several] / count)
    return Choice((*table.given, *steps), descent)


def _steps_for_classes(table: _Table, loss: Loss) -> list[Step]:
    """Return steps for unit, norm, mean and scale of a table with classes for targets."""
    far = min(STEADY_SHARE * table.steady_factor, LARGEST_FACTOR)
    least = CAUTIOUS_FACTOR if table.narrow else RADIUS_FACTORS[0]
    factor = max(float(np.clip(table.steady_factor, least, RADIUS_FACTORS[1])), far)
    two = loss.smooth and loss.n_outputs == 1 and table.n_features <= table.signal / table.changed
    known = table.precise and (table.units(two=two)[0] > 0 or not table.any_unit)
    nearer = factor / LARGEST_FACTOR if known else 1.0
    return table.steps(Radius(factor=factor / nearer, nearer=nearer), two=two)


def _sample_rate(table: _Table, whitening_noise: float) -> float | None:
    """Return the rate of a sample that is enough for the preparation; None if none is."""
    needed = SAMPLE_PRECISION * math.sqrt(table.changed * table.n_features) / table.signal
    noise = whitening_noise * (math.sqrt(WHITEN_SHARE / SAMPLE_SHARE) / SAMPLE_NOISE)
    needed = max(needed, noise, SAMPLE_ROWS / table.n_rows)
    if not table.may_sample or needed > LARGEST_RATE:
        return None
    return min(needed, LARGEST_SAMPLE / (table.n_features * table.n_rows))


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
    far = min(factor, STEADY_SHARE * table.steady_factor, LARGEST_FACTOR)
    near = max(float(np.clip(factor, *REGRESSION_FACTORS)), far)
    radius = Radius(factor=LARGEST_FACTOR, nearer=near / LARGEST_FACTOR)
    steps = table.steps(radius, coarse=narrow)
    if narrow:
        left = 1 - sum(step.share for step in steps) / table.left
        reach = table.signal * math.sqrt(Newton().gradient_share * left) / table.changed
        norm = math.sqrt(float(np.clip((CONSTANT_NOISE * reach) ** 2 - 1, 0.25, Scale.norm**2)))
        solver = Newton(row_norm=norm, shrink=True)
        steps = [replace(step, norm=norm) if isinstance(step, Scale) else step for step in steps]
    return Choice((*table.given, *steps), solver)
