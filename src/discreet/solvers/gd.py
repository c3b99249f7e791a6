"""Noisy gradient descent on all rows: equally noisy gradients, a heavy ball, a mean at the end.

Each of T iterations measures the sum of all rows' clipped gradients with Gaussian noise. Gaussian
measurements compose exactly in Gaussian DP, so nothing of the budget is lost to an inequality.
Momentum and averaging work on noisy gradients only and cost nothing. Song, Chaudhuri & Sarwate
2013 and Bassily, Smith & Thakurta 2014 have noisy gradients, with rows or batches drawn at random
and the accounting of their time; the heavy ball is Polyak's. See `quasi_newton` for fewer of them.

Proof: docs/proofs/gd.md.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, replace
from typing import ClassVar

import numpy as np

from discreet.accounting.budget import Measure
from discreet.core import Budget, Curator, Gaussian
from discreet.core.questions import ClassCounts, Gradient, TargetSum
from discreet.errors import NotSupported
from discreet.objectives import Hinge, Huber, HuberHinge, Logistic, Loss, MulticlassHinge, Squared
from discreet.objectives.problem import Problem
from discreet.solvers import quasi_newton
from discreet.solvers.base import GradientStep, Plan, Recorder, Solution, Solver, nearest
from discreet.validate import FloatArray, check_fields, flag, integer, number

__all__ = ["GD"]

NOISE_REACH = 0.3
"""The default path, over n·μ/(k·C): noise then moves margins of rows of norm 10/3 by about 1."""

CONVERGED_PATH = 18.0
"""Path per weight of one output after which descent on such rows is done; more only adds noise."""

LEAST_RARE = 0.002
"""Twice the smallest share of a class that intercepts may start from."""

INTERCEPT_STEP = 4.0
"""At momentum m the default step of an intercept is at most this times (1 + m)/(1 − m): the heavy
ball is stable for curvatures below 2(1 + m)/(1 − m)/step, and that along an intercept is up to 1/4,
or 1/2 with several outputs, however many columns share the norm of a row."""

CLIPS = (5 / 3, 10.0)
"""Least and most clip of the rule: half and three times the norm of a usual row."""

CLIP_REACH = 2.0
"""The clip grows between these while the noise limit of the path is this many times what descent
needs: clipping biases the result whatever the budget, so it ends where noise no longer matters."""

CURVATURE = 0.5
"""Times 1/weights: the typical curvature of the loss at such rows, which pulls noise back."""

HINGE_CURVATURE = 1.0
"""The same for hinges, whose curvature is in their kink, where many margins are."""

SPREAD = 1.5
"""Variance of scores over that of rows of norm 10/3: some rows are longer."""

DOUBT = 5.0
"""Squared errors of p weights are multiplied by 1 + 5/p: a small number of them varies much, and
noise would often be taken for a signal."""

MOST_DOUBT = 0.5
"""Largest increase of squared errors by this rule."""

DRAWN = 1.0
"""Variance of the sampling error in a weight, after a long path, over r = width/n."""

MOST_DRAWN = 0.25
"""Ratio r at which this variance falls to 0: descent then ends long before the rows determine the
weights."""


@dataclass(frozen=True)
class GD(Solver):
    """Gradient descent with momentum on noisy gradients of all rows.

    The default step suits rows whose root mean square norm is about 3 and that spread alike in all
    directions; for others scale the rows, or pass ``step_size``. It follows from public numbers
    and has no worst-case guarantee of stability: on rows of a much larger norm, or of one
    direction, descent may oscillate. Clipped gradients keep it from diverging.

    Parameters
    ----------
    iterations : int
        T: number of gradients that are measured, each at the same cost. 0 for a constant: the whole
        budget buys the balance of the classes, or the mean target of least squares or Huber's loss.
    step_size : float, optional
        η: step size for mean gradients. Default: τ/T for a path of length
        τ = min(0.3·n·μ/(k·C), 18·p·max(1, K/2)), and at most 1/alpha; that of an intercept is at
        most 4·(1 + m)/(1 − m) for a momentum m. Here μ is what the budget is in Gaussian DP, k is
        1 under add/remove and 2 under replace, C is the clip, K the number of classes of a softmax
        (else 1) and p that of the weights of each output.
    momentum : float
        m: v ← m·v + gradient, w ← w − η·(1 − m)·v. 0 is plain descent.
    averaging : float
        Share of the last iterations whose weights are averaged; 0 for the last weights.
    start_share : float
        Share of the budget (of μ²) that buys a noisy balance of the classes, from which intercepts
        start: the path may be too short to find a rare one. Nothing is spent without intercepts.
    gradient_clip : float, optional
        C: bound on one row's gradient norm, of all outputs together; a smaller bound known from
        loss and ``data_norm`` replaces it. Default: 0.6·n·μ/(k·18·p·max(1, K/2)), within
        [5/3, 10]: a larger budget clips fewer gradients.
    shrink : bool
        Whether to shrink the weights towards where they started, by as much as noise of a known
        size explains of their norm. For rows as the default step needs them.
    quasi_newton : bool
        Whether to take the steps of L-BFGS, at most T of them, and to end where noise and sampling
        explain the gradient, measured twice without another pass over the rows. For rows as the
        default step needs them, a smooth loss and a budget at which noise hardly matters;
        ``step_size``, ``momentum`` and ``averaging`` are not used.
    """

    iterations: int = 50
    _: KW_ONLY
    step_size: float | None = None
    momentum: float = 0.8
    averaging: float = 0.5
    start_share: float = 0.0
    gradient_clip: float | None = None
    shrink: bool = False
    quasi_newton: bool = False

    name: ClassVar[str] = "gd"
    paper: ClassVar[str] = (
        "Bassily, Smith, Thakurta 2014; Song, Chaudhuri, Sarwate 2013; heavy ball: Polyak 1964; "
        "L-BFGS: Liu, Nocedal 1989"
    )
    demands: ClassVar[tuple[str, ...]] = ("each row's gradient is clipped (gradient_clip)",)
    needs_delta: ClassVar[bool] = True
    takes_outputs: ClassVar[bool] = True
    takes_transformed_rows: ClassVar[bool] = True
    takes_units: ClassVar[bool] = True
    takes_weights: ClassVar[bool] = True
    composes: ClassVar[tuple[Measure, ...]] = ("gdp",)

    def __post_init__(self) -> None:
        check_fields(self, integer, "iterations", least=0, most=10**6)
        check_fields(self, number, "step_size", least=1e-6, most=1e6, optional=True)
        check_fields(self, number, "momentum", least=0.0, most=0.999)
        check_fields(self, number, "averaging", least=0.0, most=1.0)
        check_fields(self, number, "start_share", least=0.0, most=0.9)
        check_fields(self, number, "gradient_clip", least=1e-6, most=1e6, optional=True)
        check_fields(self, flag, "shrink", "quasi_newton")

    def check(self, loss: Loss, budget: Budget, n_models: int = 1) -> None:
        """Refuse pure budgets, and those so extreme that the noise cannot be drawn exactly."""
        super().check(loss, budget, n_models)
        if self.quasi_newton and not loss.smooth:
            raise NotSupported(
                f"quasi_newton=True needs a smooth loss; {loss.name!r} is not. Use "
                "quasi_newton=False."
            )
        known = loss.task == "classification" or isinstance(loss, Squared | Huber)
        if not (self.iterations or known):
            raise NotSupported(f"iterations=0 is not for {loss.name!r}. Use 1 or more.")
        total = budget.to_gdp().mu ** 2 / n_models
        if self.iterations:
            Gaussian.sharing((1 - self.start_share) * total, self.iterations)
        if share := self.start_share if self.iterations else 1.0:
            Gaussian.sharing(share * total)

    def _plan(self, problem: Problem, budget: Budget, n_models: int) -> Plan:
        """Refuse a step under which the penalty alone would make the weights grow for ever."""
        if not self.iterations and not problem.fit_intercept:
            raise ValueError("iterations=0 needs fit_intercept=True: the model is a constant.")
        alpha = problem.penalty.alpha
        if self.step_size is not None and alpha > 0:
            longest = 2 * (1 + self.momentum) / ((1 - self.momentum) * alpha)
            if self.step_size >= longest:
                raise ValueError(
                    f"step_size must be below {longest:.4g} at alpha={alpha:g} and "
                    f"momentum={self.momentum:g}, or the penalty alone makes the weights grow for "
                    f"ever; got {self.step_size:g}. Pass at most {1 / alpha:.4g}, or None."
                )
        return Plan(budget, budget)

    def _solve(self, problem: Problem, curator: Curator, plan: Plan, record: Recorder) -> Solution:
        total = curator.open("gdp")  # μ², which Gaussian measurements share exactly
        weights, balance, total = self._start(problem, curator, total)
        if not self.iterations:
            return Solution(weights, record.trace, balance, deviation=0.0)
        mu = math.sqrt(total)
        changed = curator.relation.rows_changed
        start = weights
        clip, steps, deviation, drawn = self._path(problem, mu, changed)
        if self.quasi_newton:
            settings = (total, self.iterations, clip, start, record)
            weights, noise = quasi_newton.minimise(problem, curator, *settings)
        else:
            mechanism = Gaussian.sharing(total, self.iterations)
            averaged = max(1, round(self.averaging * self.iterations))
            velocity = np.zeros_like(weights)
            ends = np.zeros_like(weights)
            for t in range(1, self.iterations + 1):
                noisy = curator.ask(Gradient(problem.loss, weights, clip), mechanism)
                gradient = noisy.values / problem.n_rows + problem.penalty.gradient(weights)
                velocity = self.momentum * velocity + gradient
                weights = weights - steps * (1 - self.momentum) * velocity
                if t > self.iterations - averaged:
                    ends += weights
                record(GradientStep(float(steps[0]), float(np.linalg.norm(gradient))), weights)
            weights = ends / averaged
            noise = (
                f"Gaussian noise on each of {self.iterations} sums over all rows, of "
                f"{mechanism.noise_multiplier:.6g}"
            )
        conditions = (
            *balance,
            f"each row's gradient is clipped to norm {clip:g}",
            f"{noise} times what one row can move it by, composed exactly in Gaussian DP",
        )
        solution = Solution(weights, record.trace, conditions, clip, deviation)
        if not self.shrink:
            return solution
        kept = _kept(problem, weights - start, math.hypot(deviation, drawn))
        # a random walk, of which the mean of the last weights is taken
        free = changed * clip * float(steps[0]) * self.iterations / (problem.n_rows * mu)
        free *= math.sqrt(1 - 2 / 3 * self.averaging)
        return replace(
            solution,
            weights=start + kept * (weights - start),
            deviation=deviation * math.sqrt(kept),
            kept=kept,
            free_noise=np.array(kept * free),
        )

    def _start(
        self, problem: Problem, curator: Curator, total: float
    ) -> tuple[FloatArray, tuple[str, ...], float]:
        """Return the start, the conditions it rests on, and what is left of the total μ².

        Intercepts are logarithms of the classes' noisy shares; that of one hinge, or of numbers, is
        the mean of the targets, which are in [−1, 1]. That mean is shrunk by its known noise and
        kept off ±1 by as much.
        """
        loss = problem.loss
        n_rows = problem.n_rows
        weights: FloatArray = np.zeros(problem.n_parameters)
        share = self.start_share if self.iterations else 1.0
        known = loss.task == "classification" or not self.iterations
        if not (share and problem.fit_intercept and known):
            return weights, (), total
        mechanism = Gaussian.sharing(share * total)
        constants = weights.reshape(loss.n_outputs, -1)[:, -1]
        if loss.n_outputs > 1:
            noisy = curator.ask(ClassCounts(loss.n_outputs), mechanism)
            logs = np.log(_shares(noisy.values / n_rows, noisy.deviation / n_rows))
            constants[:] = logs - logs.mean()
            text = "the total weight of the rows of each class"
        else:
            noisy = curator.ask(TargetSum(1.0), mechanism)
            mean = float(noisy.values[0]) / n_rows
            noise = noisy.deviation / n_rows
            mean = mean * (1 - (noise / mean) ** 2) if abs(mean) > noise else 0.0
            most = max(1 - max(noise, LEAST_RARE), 0.0)
            mean = min(max(mean, -most), most)
            odds = math.log1p(mean) - math.log1p(-mean)
            constants[:] = odds if isinstance(loss, Logistic) else mean
            text = "the sum of the targets"
        condition = (
            f"{text} was released with Gaussian noise of {mechanism.noise_multiplier:.6g} times "
            "what one row can move it by; intercepts start from it"
        )
        return weights, (condition,), (1 - share) * total

    def _path(
        self, problem: Problem, mu: float, changed: int
    ) -> tuple[float, FloatArray, float, float]:
        """Return the clip, the weights' steps, and the noise and sampling error in a weight.

        All of it by public numbers only. The clip is C, or the smaller bound that is known, but at
        least 1e-6, as settings are. By default the step of an intercept is bounded.
        docs/proofs/gd.md has the reasons.
        """
        outputs = problem.loss.n_outputs
        alpha = problem.penalty.alpha
        width = problem.n_parameters / outputs * problem.loss.slowness
        converged = CONVERGED_PATH * width
        reach = NOISE_REACH * problem.n_rows * mu / changed
        clip = clip_by_rule(reach, converged) if self.gradient_clip is None else self.gradient_clip
        clip = min(clip, max(problem.lipschitz, 1e-6))
        step = self.step_size
        if step is None:
            step = min(reach / clip, converged) / self.iterations
            step = min(step, 1 / alpha) if alpha > 0 else step
        path = step * self.iterations
        free = changed * clip * path / (problem.n_rows * mu)
        hinge = isinstance(problem.loss, Hinge | HuberHinge | MulticlassHinge)
        pull = 2 * (HINGE_CURVATURE if hinge else CURVATURE) * path / width
        variance = -math.expm1(-pull) / pull
        # the mean of the last weights: of a random walk, and where the loss pulls noise back
        variance *= 1 - 2 / 3 * self.averaging * math.exp(-pull)
        window = max(self.averaging * pull / 2, 1e-6)
        variance *= 2 / window * (1 + math.expm1(-window) / window)
        steps = np.full((outputs, problem.n_parameters // outputs), step)
        if problem.fit_intercept and self.step_size is None:
            steps[:, -1] = min(step, INTERCEPT_STEP * (1 + self.momentum) / (1 - self.momentum))
        ratio = min(width / problem.n_rows, MOST_DRAWN)
        drawn = -math.expm1(-pull / 2) * math.sqrt(DRAWN * ratio * (1 - ratio / MOST_DRAWN))
        return clip, steps.ravel(), free * math.sqrt(variance), drawn


def clip_by_rule(reach: float, path: float) -> float:
    """Return C for a path that noise limits to reach/C; ``path`` is what descent needs."""
    return min(max(CLIP_REACH * reach / path, CLIPS[0]), CLIPS[1])


def _shares(seen: FloatArray, noise: float) -> FloatArray:
    """Estimate the shares of several classes from noisy ones; docs/proofs/gd.md has the formula."""
    even = 1 / seen.size
    shares = nearest(seen, 1.0)
    square = max(float(np.sum((seen - even) ** 2)), 1e-300)
    shares += min((seen.size - 1) * noise**2 / square, 0.9) * (even - shares)
    shares = np.maximum(shares, min(max(noise, LEAST_RARE) / 2, even))
    shares /= shares.sum()
    return shares


def _kept(problem: Problem, change: FloatArray, deviation: float) -> float:
    """Return the share of the weights' change that errors do not explain, from released numbers.

    It is 1 − q^1.5, q = p·s²/(1.5·‖change‖²) for errors s in each of p weights, and more for few
    weights; intercepts do not count. James and Stein have 1 − q; but scores of long rows have less
    noise than it says.
    """
    slopes = change.reshape(problem.loss.n_outputs, -1)[:, : problem.n_features]
    noise = slopes.size * (1 + min(DOUBT / slopes.size, MOST_DOUBT)) * deviation**2
    square = SPREAD * float(np.vdot(slopes, slopes))
    return max(1.0 - (noise / square) ** 1.5, 0.0) if square > 0 else 0.0
