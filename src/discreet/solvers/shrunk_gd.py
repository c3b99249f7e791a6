"""Noisy gradient descent whose weights are shrunk by what their noise calls for: for wide tables.

Descent as in `discreet.solvers.gd`, with gradients measured not at the sum z of all steps so
far, but at an estimate of what z would be without its noise. Each coordinate of z is a
number of interest plus Gaussian noise of one known deviation, so how many of these numbers are
large, small or zero can be read off z itself (empirical Bayes), and each is replaced by its
posterior mean. Where few columns matter, nearly all noise is taken out; where all matter, next to
nothing changes. It is computed from noisy gradients alone and costs nothing.

Half-way, columns that look like noise are left out. Rows are shorter without them, so they can be
stretched, and the second half measures the other columns with less noise: distilled sensing (Haupt,
Castro & Nowak 2011). The estimate is adaptive shrinkage (Stephens, "False discovery rates: a new
deal", Biostatistics 2017) with normal components; its use on a sum of gradients is dual averaging
(Nesterov 2009) with that shrinkage as the map from sums to weights.

Proof: docs/proofs/shrunk_gd.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.core import Budget, Curator, ExponentialMechanism, Gaussian
from discreet.core.questions import Gradient, MedianNorm
from discreet.errors import NotSupported
from discreet.objectives import L2, Loss, Problem
from discreet.solvers.base import GradientStep, Plan, Recorder, Solution
from discreet.solvers.gd import CLIPS, CONVERGED_PATH, GD
from discreet.validate import FloatArray, check_fields, number

__all__ = ["Shrinkage", "ShrunkGD", "ShrunkStep", "worth_measuring"]

LONGEST_STEP = 36.0
"""Longest default step: stable for curvatures below a half at momentum 0.8."""

NOISE_REACH = 0.6
"""The default path is this many times n·μ/(k·C), twice that of `GD`: most of the noise is taken out
of the weights, and where none is, margins of rows of norm 10/3 move by about 2."""

NORM = 10 / 3
"""Median norm that rows are scaled to when columns are left out."""

LENGTH_SHARES = (0.005, 0.1)
LENGTH_PRECISION = 30.0
"""The share of μ² for that median is (this/(n·μ))², within these limits."""

DEVIATIONS = np.concatenate([[0.0], 2.0 ** np.arange(-3, 11)])
"""Components of the prior: their deviations, over that of the noise. The first is exactly 0."""

KNOTS = 2.0 ** (np.arange(-6 * 16, 12 * 16 + 1) / 16)
"""Sizes, over the noise's deviation, that coordinates are counted at."""

CLEARLY_LESS = 0.9
"""Columns are left out if that loses less than this share of what is lost with all of them."""

ROUNDS = 30
"""Rounds of expectation–maximisation after each gradient, from where the last ones ended."""


@dataclass(frozen=True)
class ShrunkStep(GradientStep):
    """One iteration: columns measured, deviation of the noise in a sum of steps, shrinkage.

    ``kept`` is the norm of the weights over that of the sum of steps, without intercepts.
    """

    columns: int
    deviation: float
    kept: float


@dataclass(frozen=True)
class ShrunkGD(GD):
    """Gradient descent on noisy gradients of all rows, at weights that are shrunk by their noise.

    For tables with more columns than n·μ/k, of which few or many may matter: n rows, μ the budget
    in Gaussian DP, k = 1 under add/remove and 2 under replace. Columns should be scaled alike, as
    a weight's size is compared with that of all others. Intercepts are shrunk towards where they
    started: what is noise in a weight is noise in them.

    The notes on the default step of `GD` hold here too.

    Parameters
    ----------
    iterations : int
        T: number of gradients that are measured, the same in each stage.
    step_size : float, optional
        η, as in `GD`, but by default τ = min(0.6·n·μ/(k·C), 18·p) in a stage of T iterations and
        budget μ.
    momentum : float
        m: v ← m·v + gradient, z ← z − η·(1 − m)·v; the weights are z, shrunk.
    averaging, start_share, gradient_clip : float
        As in `GD`; None for a clip of 5/3.
    first_share : float
        Share of μ² for the first half of the iterations, after which columns that look like noise
        are left out and rows are scaled to a median norm of 10/3. 1: one stage, on all columns.
    """

    iterations: int = 30
    averaging: float = 0.2
    first_share: float = 0.7

    name: ClassVar[str] = "shrunk-gd"
    paper: ClassVar[str] = (
        "as gd; shrinkage: Stephens, False discovery rates: a new deal, 2017; dual averaging: "
        "Nesterov 2009; distilled sensing: Haupt, Castro & Nowak 2011"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, number, "first_share", least=0.05, most=1.0)
        if 0.85 < self.first_share < 1:
            raise ValueError(
                "first_share must leave something to the second stage: at most 0.85, or 1 for one "
                f"stage only; got {self.first_share!r}."
            )
        if self.iterations < 1 + (self.first_share < 1):
            raise ValueError("iterations must be at least 2, or 1 for one stage (first_share=1).")

    def check(self, loss: Loss, budget: Budget, n_models: int = 1) -> None:
        """Refuse regression, pure budgets, and those too extreme for noise to be drawn exactly."""
        super().check(loss, budget, n_models)
        if loss.task != "classification":
            raise NotSupported(
                f"solver={self.name!r} is for classes; {loss.name!r} is a loss for regression. Use "
                "solver='newton', 'gd' or 'auto'."
            )
        total = budget.to_gdp().mu ** 2 / n_models
        for share in (self.first_share, 0.5 * (1 - self.first_share)):
            if share > 0:
                Gaussian.sharing(share * total, self.iterations)
        if self.first_share < 1:
            ExponentialMechanism.sharing(LENGTH_SHARES[0] * total)

    def _solve(self, problem: Problem, curator: Curator, plan: Plan, record: Recorder) -> Solution:
        """Measure, step, shrink; leave columns out; measure, step, shrink."""
        total = curator.open("gdp")  # μ², which Gaussian measurements share exactly
        start, balance, total = self._start(problem, curator, total)
        outputs = problem.loss.n_outputs

        one_stage = self.first_share == 1
        half = self.iterations if one_stage else self.iterations // 2
        first = _Stage(self, problem, curator, self.first_share * total, half, start)
        first.run(record)
        if one_stage:
            return Solution(first.result, record.trace, balance + first.conditions)

        precise = (LENGTH_PRECISION / problem.n_rows) ** 2 / total
        length = min(max(precise, LENGTH_SHARES[0]), LENGTH_SHARES[1]) * (1 - self.first_share)
        left = 1 - self.first_share - length
        keep = worth_measuring(first.squares(), self.first_share, left)
        if keep.size == problem.n_features:
            first.extend((1 - self.first_share) * total, self.iterations - half)
            first.run(record)
            return Solution(first.result, record.trace, balance + first.conditions)
        median = curator.columns(keep).ask(
            MedianNorm(), ExponentialMechanism.sharing(length * total)
        )
        factor = NORM / median
        penalty = L2(problem.penalty.alpha * factor**2)  # on weights of rows as they were
        narrow = replace(problem, n_features=keep.size, row_norm=None, penalty=penalty)

        def whole(weights: FloatArray) -> FloatArray:
            """Weights of all columns: those that were left out keep what they had."""
            all_weights = first.result.reshape(outputs, -1).copy()
            found = weights.reshape(outputs, -1)
            all_weights[:, keep] = factor * found[:, : keep.size]
            all_weights[:, problem.n_features :] = found[:, keep.size :]
            return all_weights.ravel()

        stretched = curator.columns(keep, factor=factor)
        again = np.zeros(narrow.n_parameters)
        begun = start.reshape(outputs, -1)[:, problem.n_features :]
        again.reshape(outputs, -1)[:, keep.size :] = begun
        second = _Stage(self, narrow, stretched, left * total, self.iterations - half, again)
        second.run(lambda entry, weights: record(entry, whole(weights)))
        conditions = (
            *balance,
            *first.conditions,
            f"then, on {keep.size} of {problem.n_features} columns that were chosen by what had "
            "been released: one private choice of the rows' median norm, gradients clipped to "
            f"norm {second.clip:g}, and {second.conditions[1]}",
        )
        return Solution(whole(second.result), record.trace, conditions)


class _Stage:
    """Some iterations on some columns, with a part of the budget; `run` sets ``result``."""

    def __init__(
        self,
        solver: ShrunkGD,
        problem: Problem,
        curator: Curator,
        total: float,
        iterations: int,
        start: FloatArray,
    ) -> None:
        self._solver = solver
        self._problem = problem
        self._curator = curator
        self.clip = min(solver.gradient_clip or CLIPS[0], max(problem.lipschitz, 1e-6))
        self._shrinkage = Shrinkage()
        self._total = 0.0
        self._path = 0.0
        self._start = start
        self._steps = start  # z: the sum of all steps
        self._velocity: FloatArray = np.zeros(problem.n_parameters)
        # of the noise of each measurement: its deviation, and its factors in the velocity and in z
        self._noises: FloatArray = np.zeros((0, 3))
        self._weights = self.result = self._steps
        self._multipliers: list[float] = []  # of the noise in each measurement
        self.extend(total, iterations)

    def extend(self, total: float, iterations: int) -> None:
        """Plan further iterations, with a further part of the budget.

        The path is then that of all of them together, and at least 0.4 of the first ones' again.
        """
        self._iterations = iterations
        self._mechanism = Gaussian.sharing(total, iterations)
        self._total += total
        # τ, from public numbers only; docs/proofs/shrunk_gd.md has the reasons
        reach = NOISE_REACH * self._problem.n_rows * math.sqrt(self._total)
        longest = reach / (self._curator.relation.rows_changed * self.clip)
        width = self._problem.n_parameters / self._problem.loss.n_outputs
        path = max(min(longest, CONVERGED_PATH * width) - self._path, 0.4 * self._path)
        self._path += path
        step = self._solver.step_size or min(path / iterations, LONGEST_STEP)
        alpha = self._problem.penalty.alpha
        self._step = min(step, 1 / alpha) if alpha > 0 else step
        self._multipliers += [self._mechanism.noise_multiplier] * iterations

    @property
    def conditions(self) -> tuple[str, str]:
        """Conditions that the privacy of all iterations rests on: a clip, and noise."""
        counts = Counter(f"{multiplier:.6g}" for multiplier in self._multipliers)
        (first, times), *more = counts.items()
        noise = (
            f"Gaussian noise on each of {times} sums over all rows, of {first} times what one row "
            "can move it by"
        )
        for multiplier, further in more:
            noise += f", and on each of {further} more, of {multiplier} times that"
        return (
            f"each row's gradient is clipped to norm {self.clip:g}",
            f"{noise}, composed exactly in Gaussian DP",
        )

    def run(self, record: Callable[[ShrunkStep, FloatArray], None]) -> None:
        """Measure, step, shrink, as often as planned."""
        problem = self._problem
        momentum = self._solver.momentum
        averaged = max(1, round(self._solver.averaging * self._iterations))
        weights = self._weights
        ends = np.zeros_like(self._steps)
        for t in range(1, self._iterations + 1):
            noisy = self._curator.ask(Gradient(problem.loss, weights, self.clip), self._mechanism)
            gradient = noisy.values / problem.n_rows + problem.penalty.gradient(weights)
            self._velocity = momentum * self._velocity + gradient
            self._steps = self._steps - self._step * (1 - momentum) * self._velocity
            self._noises[:, 1] *= momentum
            new = (noisy.deviation / problem.n_rows, 1.0, 0.0)
            self._noises = np.vstack([self._noises, new])
            self._noises[:, 2] += self._step * (1 - momentum) * self._noises[:, 1]
            weights, kept = self._shrunk()
            if t > self._iterations - averaged:
                ends += weights
            norm = float(np.linalg.norm(gradient))
            deviation = self._deviation
            record(ShrunkStep(self._step, norm, problem.n_features, deviation, kept), weights)
        self._weights = weights
        self.result = ends / averaged

    @property
    def _deviation(self) -> float:
        """Standard deviation of the noise in each coordinate of z."""
        return float(np.linalg.norm(self._noises[:, 0] * self._noises[:, 2]))

    def squares(self) -> FloatArray:
        """Return each column's mean expected squared weight, over the noise's variance."""
        seen, _ = self._views(self._steps)
        squares: FloatArray = self._shrinkage.squares(seen, self._deviation).mean(axis=0)
        return squares

    def _shrunk(self) -> tuple[FloatArray, float]:
        """Return the shrunk weights, and their norm over that of the sum of steps."""
        weights = self._steps.copy()
        shrinkage = self._shrinkage
        (seen, _) = self._views(self._steps)
        (table, constants) = self._views(weights)
        _, begun = self._views(self._start)
        table[:] = shrinkage.means(seen, self._deviation)
        constants[:] = begun + shrinkage.others(constants - begun, self._deviation)
        before, after = np.linalg.norm(seen), np.linalg.norm(table)
        return weights, float(after / before) if before > 0 else 1.0

    def _views(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return views of the weights without intercepts and of these, one row per output."""
        table = weights.reshape(self._problem.loss.n_outputs, -1)
        return table[:, : self._problem.n_features], table[:, self._problem.n_features :]


class Shrinkage:
    """Empirical Bayes estimate of many numbers, each seen in Gaussian noise of a known deviation.

    The numbers' own distribution is a mixture of a point at 0 and of normals around 0
    (`DEVIATIONS`), with shares that are fitted to what is seen. The point at 0 is given √m further
    numbers, m their count: this many may seem to be more than noise by chance.

    A new fit starts from the shares that the last one found.
    """

    def __init__(self) -> None:
        self.shares: FloatArray = np.full(DEVIATIONS.size, 1 / DEVIATIONS.size)
        variances = 1 + DEVIATIONS**2
        logs = -0.5 * (np.log(variances) + KNOTS[:, None] ** 2 / variances)
        self._likelihoods = np.exp(logs - logs.max(axis=1, keepdims=True))
        self._factors = DEVIATIONS**2 / variances

    def means(self, seen: FloatArray, deviation: float) -> FloatArray:
        """Fit the shares and return the posterior means."""
        if deviation <= 0:
            return seen
        sizes = _sizes(seen, deviation)
        nearest = np.rint((np.log2(sizes) + 6) * 16).astype(np.intp)
        counts = np.bincount(nearest.ravel(), minlength=KNOTS.size)
        for _ in range(ROUNDS):
            mixed = self._likelihoods @ self.shares  # what each knot's counts are divided among
            shares = self.shares * ((counts / mixed) @ self._likelihoods)
            shares[0] += math.sqrt(seen.size)
            # none is ever lost for good: weights of later iterations may need it
            self.shares = np.maximum(shares / shares.sum(), 1e-9)
        return self.others(seen, deviation)

    def others(self, seen: FloatArray, deviation: float) -> FloatArray:
        """Return posterior means of numbers that the shares were not fitted to."""
        if deviation <= 0:
            return seen
        kept = np.interp(_sizes(seen, deviation), KNOTS, self._posteriors() @ self._factors)
        means: FloatArray = seen * kept
        return means

    def squares(self, seen: FloatArray, deviation: float) -> FloatArray:
        """Return posterior means of the numbers' squares, over deviation²."""
        sizes = _sizes(seen, deviation)
        posteriors = self._posteriors()
        squares: FloatArray = np.interp(sizes, KNOTS, posteriors @ self._factors**2) * sizes**2
        squares += np.interp(sizes, KNOTS, posteriors @ self._factors)  # the variances
        return squares

    def _posteriors(self) -> FloatArray:
        """Return the probabilities of the components for each knot."""
        joint = self._likelihoods * self.shares
        posteriors: FloatArray = joint / joint.sum(axis=1, keepdims=True)
        return posteriors


def _sizes(seen: FloatArray, deviation: float) -> FloatArray:
    sizes: FloatArray = np.clip(np.abs(seen) / deviation, KNOTS[0], KNOTS[-1])
    return sizes


def worth_measuring(squares: FloatArray, first: float, second: float) -> NDArray[np.intp]:
    """Choose the columns to measure again, in rising order, so that the least is lost.

    ``squares`` are the columns' expected squared weights over the noise's variance; ``first`` and
    ``second`` the shares of μ² that all were and some will be measured with. Of the m columns with
    the largest squares q, each is lost up to q·v/(q + v) for noise of variance
    v = (m/d)·first/second, as rows of m alike columns of d are √(d/m) times shorter; of all others
    q is lost. m is a power of 2^(1/4) below d. Or all columns: then both measurements count, and
    v = first/(first + second). Fewer are chosen if that loses `CLEARLY_LESS`: where nothing was
    found, all are as good as any.
    """
    d = squares.size
    order = np.argsort(-squares, kind="stable")
    ordered = squares[order]
    found = np.cumsum(ordered)
    best = d
    least = CLEARLY_LESS * _lost(ordered, first / (first + second))
    for m in sorted({round(2 ** (k / 4)) for k in range(math.ceil(4 * math.log2(d)))}):
        lost = float(found[-1] - found[m - 1]) + _lost(ordered[:m], first / second * m / d)
        if m < d and lost < least:
            best = m
            least = lost
    return np.sort(order[:best]).astype(np.intp)


def _lost(squares: FloatArray, variance: float) -> float:
    """Return what the best linear estimates lose of numbers with such squares, in such noise."""
    return float(np.sum(squares * variance / (squares + variance)))
