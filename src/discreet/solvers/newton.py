"""Descent along a noisy second moment: two releases of moments, then a few noisy gradients.

A small part of the budget buys mean and standard deviation of the target, another the second
moment of the rows with their targets. That gives a first solution (that of least squares with a
ridge), the size of its residuals, hence a clip, and the curvature. The rest buys T gradients, and
each step divides by the curvature, as Newton's does. Where gradients are clear of their noise, they
correct it (BFGS). Noise in the moment only slows the descent down; noise in the result is that of
clipped gradients of residuals, which is far smaller.

Wang 2018 has least squares from noisy moments with a ridge that follows from their noise. Avella-
Medina, Bradshaw & Loh 2023 and Ganesh et al. 2023 have private Newton steps and noisy Hessians.

Proof: docs/proofs/newton.md.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from discreet.accounting.budget import Measure
from discreet.core import Budget, Curator, Gaussian, Relation
from discreet.core.questions import Gradient, TargetMoment
from discreet.errors import NotSupported
from discreet.objectives import Loss, Problem
from discreet.solvers.base import Plan, Recorder, Solution, Solver, TraceEntry
from discreet.solvers.second_moment import MOMENT_CLIP, STEP, Descent, SecondMoment, Target
from discreet.solvers.second_moment import doubt as moment_doubt
from discreet.validate import FloatArray, check_fields, flag, integer, number

__all__ = ["Newton", "NewtonStep"]

USUAL_NORM = 10 / 3
"""Root mean square norm of rows of which nothing is known; `Scale` brings rows to it."""

TARGET_NORM = 0.6
"""Norm that usual targets are given in the moment, over that of a row with its constant."""

USUAL_VARIANCE = 0.06
"""Variance of a target in [-1, 1] that is assumed while noise exceeds it."""

VARIANCE_DEVIATION = 0.1
"""Standard deviation of that variance over tables."""

USUAL_MEAN = 0.3
"""Usual size of the mean of a target in [-1, 1]: a noisy mean is shrunk as if it were that."""

CLIPS = (0.75, 4.0, 8.0)
"""Least, usual, most clip of a gradient, over the usual residual times the usual norm of a row."""

NOISE_SHARES = (0.07, 0.025)
"""The clip grows to the usual one while noise adds less than the square of the first to the mean
squared residual, and beyond it while that is less than the square of the second: rows are left as
they are where that is cheap."""

GROWN = 2.0
"""A step is taken back if the squared gradient, in units of the curvature, grew by this factor:
then the moment says too little about the curvature."""

GROWN_NOISE = 4.0
"""A step is kept if the squared gradient grew by less than this many times its noise."""

CLEAR = 6.0
"""The change of the gradient along a step corrects the curvature if it is above this many
deviations of its noise."""

LEAST_CURVATURE = 0.05
"""The change must be above this share of the curvature of the moment, too."""

ITERATIONS = (10, 40)
"""Least and most gradients; the least do where the second moment is known well."""

GRADIENT_NOISE = 1 / 30
"""Noise in one mean gradient, over the clip, beyond which more of them are no better."""


@dataclass(frozen=True)
class NewtonStep(TraceEntry):
    """Clip and norm of the noisy mean gradient, penalty included, of one iteration."""

    clip: float
    gradient_norm: float


@dataclass(frozen=True)
class Newton(Solver):
    """Noisy second moments of rows and targets, then noisy gradients divided by them.

    For regression, on targets within about [-1, 1] and rows whose norm is known: bounded by
    ``data_norm``, or brought to a root mean square of 10/3 by a `Scale`. It minimises the mean loss
    plus alpha/2·‖w‖², or more than alpha where noise calls for a larger ridge.

    Parameters
    ----------
    iterations : int, optional
        T: number of gradients that are measured, each at the same cost. Default: 10, or up to 40 if
        noise in the second moment is larger than twice its mean eigenvalue, or if the loss curves
        unevenly, so that the second moment says less about its curvature.
    target_share : float
        Share of the budget (of μ²) that buys mean and standard deviation of the target.
    moment_share : float
        Share that buys the second moment.
    averaging : float
        The result is the mean of the weights after the last iterations, this share of all of
        them, but for steps that were taken back; 0 for the last weights.
    row_norm : float, optional
        Root mean square norm of the rows, without a constant. Default: ``data_norm``, else 10/3.
        It decides what is clipped, nothing else.
    shrink : bool
        Whether to shrink the slopes by as much as noise explains of the variance of scores. The
        result is then not the minimum of the objective, but never much worse than a constant.
    """

    iterations: int | None = None
    _: KW_ONLY
    target_share: float = 0.08
    moment_share: float = 0.2
    averaging: float = 0.8
    row_norm: float | None = None
    shrink: bool = False

    name: ClassVar[str] = "newton"
    paper: ClassVar[str] = (
        "this library; noisy moments: Wang 2018; private Newton steps: Avella-Medina, Bradshaw, "
        "Loh 2023, Ganesh et al. 2023"
    )
    demands: ClassVar[tuple[str, ...]] = (
        "rows with their targets are scaled down to a norm in the moments, and each row's "
        "gradient is clipped",
    )
    needs_delta: ClassVar[bool] = True
    needs_smooth_loss: ClassVar[bool] = True
    needs_convex_loss: ClassVar[bool] = True
    takes_transformed_rows: ClassVar[bool] = True
    takes_units: ClassVar[bool] = True
    takes_weights: ClassVar[bool] = True
    composes: ClassVar[tuple[Measure, ...]] = ("gdp",)
    widest: ClassVar[int] = 2048
    """Weights that it takes at most: the moment has about half their square."""

    def __post_init__(self) -> None:
        check_fields(self, integer, "iterations", most=10**6, optional=True)
        check_fields(self, number, "target_share", "moment_share", least=1e-3, most=1 - 1e-3)
        check_fields(self, number, "averaging", least=0.0, most=1.0)
        check_fields(self, number, "row_norm", least=1e-6, most=1e6, optional=True)
        check_fields(self, flag, "shrink")
        if self.target_share + self.moment_share > 1 - 1e-3:
            raise ValueError(
                "target_share and moment_share must leave a part of the budget to gradients; got "
                f"{self.target_share:g} and {self.moment_share:g}. Usual are 0.08 and 0.2."
            )

    def check(self, loss: Loss, budget: Budget, n_models: int = 1) -> None:
        """Refuse classes, pure budgets, and those too extreme for noise to be drawn exactly."""
        super().check(loss, budget, n_models)
        if loss.task != "regression":
            what = f"solver={self.name!r} is for regression; {loss.name!r} is a loss for classes."
            raise NotSupported(f"{what} Use solver='gd' or 'auto'.")
        self._mechanisms(budget.to_gdp().mu ** 2 / n_models, self.iterations or max(ITERATIONS))

    def _plan(self, problem: Problem, budget: Budget, n_models: int) -> Plan:
        """Refuse tables that are too wide."""
        if problem.n_parameters > self.widest:
            raise NotSupported(
                f"solver={self.name!r} takes at most {self.widest} weights; the table has "
                f"{problem.n_parameters}. Use fewer columns, or solver='gd'."
            )
        return Plan(budget, budget)

    def _solve(self, problem: Problem, curator: Curator, plan: Plan, record: Recorder) -> Solution:
        """Ask for the moments, then measure and step T times."""
        total = curator.open("gdp")  # μ², which Gaussian measurements share exactly
        length = self._length(problem)
        alpha = problem.penalty.alpha
        iterations = self.iterations or self._iterations(problem, total, curator.relation)
        for_target, for_moment, for_gradient = self._mechanisms(total, iterations)
        target = self._target(problem, curator, for_target)
        weight = TARGET_NORM * length / target.spread
        question = TargetMoment(MOMENT_CLIP * length, weight, target.centre)
        noisy = curator.ask(question, for_moment)
        mean = noisy.matrix() / problem.n_rows
        deviation = noisy.deviation / problem.n_rows
        moment = SecondMoment.of(mean, deviation, problem, weight, length)
        weights, left = moment.least_squares(alpha, target)
        shape = problem.loss.local(target.centre, left)
        weights = moment.start(weights, shape)
        noise = for_gradient.noise_multiplier / math.sqrt(iterations) / problem.n_rows
        noise *= curator.relation.rows_changed  # in the mean of all gradients, over their clip
        spectrum = moment.spectrum()
        curved = shape.curvature
        descent = Descent(iterations, iterations, curved, curved, alpha, noise=1.0)
        # the deviation that noise 1 in mean gradients adds to scores, at most
        gain = math.sqrt(float(spectrum.likely @ descent.variances(spectrum)))
        cheap, cheaper = (share / (noise * gain * length) for share in NOISE_SHARES)
        factor = max(CLIPS[0], min(cheap, CLIPS[1]), min(cheaper, CLIPS[2]))
        clip = max(min(factor * (shape.slope * length), problem.lipschitz), 1e-6)
        ridge = moment.ridge(alpha, noise * clip, min(shape.scale * target.spread, 1.0))
        averaged = max(1, round(self.averaging * iterations))
        steps = _Steps(
            divisor=curved * moment.cautious() + np.diag(ridge),
            ridge=ridge,
            clip=clip,
            noise=noise,
            count=iterations,
            averaged=averaged,
            corrects=moment.doubt * problem.n_parameters < length**2,
        )
        weights = steps.run(problem, curator, for_gradient, weights, record)
        conditions = (
            "in the second moments, each row with its target is scaled down to norm "
            f"{MOMENT_CLIP * length:.4g}, and a target with a constant 1 to √2",
            f"each row's gradient is clipped to norm {clip:.4g}",
            _stated(for_target, for_moment, for_gradient, iterations),
        )
        if not self.shrink:
            return Solution(weights, record.trace, conditions)
        unclipped = math.erf(clip / (math.sqrt(2.0) * shape.slope * length))
        descent = descent._replace(
            averaged=averaged,
            curvature=curved * unclipped,
            ridge=float(ridge[0]),
            noise=noise * clip,
            start_noise=shape.scale * moment.deviation,
            sampling=shape.slope**2 / problem.n_rows,
        )
        weights, share = moment.shrunk(weights, spectrum, descent)
        free = share * moment.free_noise(spectrum, descent)
        resolved = mean[: problem.n_features, : problem.n_features] / deviation
        return Solution(weights, record.trace, conditions, free_noise=free, moment=resolved)

    def doubt(self, n_rows: int, n_parameters: int, length: float, budget: Budget) -> float:
        """Return half of the largest eigenvalue of the noise in the second moment; a public number.

        ``length`` is the usual norm of a row with its constant, or a bound on it.
        """
        mu = budget.to_gdp().mu * math.sqrt(self.moment_share)
        return moment_doubt(n_parameters, budget.relation, length) / (max(n_rows, 1) * mu)

    @property
    def gradient_share(self) -> float:
        """Share of the budget that buys gradients."""
        return 1 - self.target_share - self.moment_share

    def _iterations(self, problem: Problem, total: float, relation: Relation) -> int:
        """Return T, from public numbers only."""
        largest = 2 * moment_doubt(problem.n_parameters, relation, length := self._length(problem))
        largest /= problem.n_rows * math.sqrt(self.moment_share * total)
        least, most = ITERATIONS
        if largest < 2 * length**2 / problem.n_parameters and not problem.loss.curves_unevenly:
            return least
        reach = problem.n_rows * math.sqrt(self.gradient_share * total)
        known = (GRADIENT_NOISE * reach / relation.rows_changed) ** 2
        return round(min(max(known, least), most))

    def _mechanisms(self, total: float, iterations: int) -> list[Gaussian]:
        """Return the noise of target, moment and gradients, at most the total μ² together."""
        parts = (self.target_share, self.moment_share, self.gradient_share / iterations)
        return [Gaussian.sharing(part * total) for part in parts]

    def _length(self, problem: Problem) -> float:
        """Return the usual norm of a row with its constant."""
        norm = self.row_norm or problem.row_norm or USUAL_NORM
        return math.hypot(norm, 1.0) if problem.fit_intercept else norm

    def _target(self, problem: Problem, curator: Curator, mechanism: Gaussian) -> Target:
        """Estimate mean and deviation of the target, shrunk by their noise towards usual values."""
        question = TargetMoment(math.sqrt(2.0), target_weight=1.0, features=False)
        noisy = curator.ask(question, mechanism)
        _, mean, square = noisy.values / problem.n_rows
        deviation = noisy.deviation / problem.n_rows
        mean = float(mean) / math.sqrt(2.0)
        noise = deviation / math.sqrt(2.0)
        if not problem.fit_intercept:
            mean = 0.0
        mean = float(np.clip(mean, -1.0, 1.0)) * USUAL_MEAN**2 / (USUAL_MEAN**2 + noise**2)
        deviation *= math.sqrt(1 + 2 * mean**2)  # of a mean square less a squared mean
        least = min(deviation, USUAL_VARIANCE)  # noise alone must not make the spread collapse
        found = min(max(float(square) - mean**2, least), 1.0)
        trust = VARIANCE_DEVIATION**2 / (VARIANCE_DEVIATION**2 + deviation**2)
        return Target(mean, math.sqrt(trust * found + (1 - trust) * USUAL_VARIANCE))


def _stated(
    for_target: Gaussian, for_moment: Gaussian, for_gradient: Gaussian, iterations: int
) -> str:
    """State the noise of all measurements."""
    return (
        "Gaussian noise, as a multiple of what one row can change: "
        f"{for_target.noise_multiplier:.6g} on the moments of the target, "
        f"{for_moment.noise_multiplier:.6g} on the second moment and "
        f"{for_gradient.noise_multiplier:.6g} on each of {iterations} gradients, "
        "composed exactly in Gaussian DP"
    )


class _Accepted(NamedTuple):
    """The last weights with a gradient that had not grown, its step, and the least squared size."""

    weights: FloatArray
    direction: FloatArray
    gradient: FloatArray
    least: float


@dataclass(frozen=True, eq=False)
class _Steps:
    """Newton's steps by noisy gradients; returns the mean of the last ones.

    ``divisor`` is the curvature that steps divide by, ``noise`` the deviation in the mean of all
    gradients over their ``clip``. The inverse of the curvature is corrected along the way if the
    divisor ``corrects``, that is, if it is known better than its own noise.
    """

    divisor: FloatArray
    ridge: FloatArray
    clip: float
    noise: float
    count: int
    averaged: int
    corrects: bool

    def run(
        self,
        problem: Problem,
        curator: Curator,
        mechanism: Gaussian,
        weights: FloatArray,
        record: Recorder,
    ) -> FloatArray:
        """Measure and step ``count`` times; halve the step where a gradient has grown."""
        inverse: FloatArray = np.asarray(STEP * np.linalg.inv(self.divisor), dtype=np.float64)
        trace = float(np.trace(inverse))
        bearable = GROWN_NOISE * self.count * (self.noise * self.clip) ** 2 * trace
        unsure = math.sqrt(2 * self.count) * self.noise * self.clip
        last = _Accepted(weights, weights, weights, math.inf)
        kept: list[tuple[int, FloatArray]] = []
        step = 1.0
        for t in range(1, self.count + 1):
            measured = curator.ask(Gradient(problem.loss, weights, self.clip), mechanism)
            gradient: FloatArray = measured.values / problem.n_rows + self.ridge * weights
            square = float(gradient @ inverse @ gradient)
            if square > GROWN * last.least + bearable:
                step *= 0.5
            else:
                if kept and self.corrects:
                    pair = weights - last.weights, gradient - last.gradient
                    inverse = _corrected(inverse, self.divisor, *pair, unsure)
                last = _Accepted(weights, inverse @ gradient, gradient, min(square, last.least))
                kept.append((t, weights))
            weights = last.weights - step * last.direction
            record(NewtonStep(self.clip, float(np.linalg.norm(gradient))), weights)
        ends = [at for t, at in kept if t > self.count - self.averaged + 1]
        if kept[-1][0] == self.count:  # its step is as good as those that were accepted
            ends.append(weights)
        return np.asarray(np.mean(ends or [last.weights], axis=0))


def _corrected(
    inverse: FloatArray, divisor: FloatArray, step: FloatArray, change: FloatArray, noise: float
) -> FloatArray:
    """Correct the inverse curvature by the change of the noisy gradient along a step (BFGS).

    ``noise`` is the deviation in each entry of the change. Unless the change is clear of it, the
    inverse stays as it is.
    """
    product = float(step @ change)
    found = inverse @ change
    least = LEAST_CURVATURE * float(step @ divisor @ step)
    if product <= max(CLEAR * noise * float(np.linalg.norm(step)), least):
        return inverse
    outer = np.outer(found / product, step)
    own = (1 + float(change @ found) / product) / product
    return np.asarray(inverse - outer - outer.T + own * np.outer(step, step))
