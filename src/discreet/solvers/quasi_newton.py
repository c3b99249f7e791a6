"""L-BFGS on noisy gradients, for `GD` at budgets where noise hardly matters.

Differences of noisy gradients show the curvature along the steps (Liu & Nocedal 1989), so few steps
are needed where rows are well prepared. Where noise and the sampling of rows explain a gradient, it
is measured again, without another pass over the rows, and descent ends if they still do. All
decisions are made by released and public numbers.

Proof: docs/proofs/gd.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from discreet.core import Curator, Gaussian, NoisySum
from discreet.core.questions import Gradient
from discreet.objectives import Problem
from discreet.solvers.base import GradientStep, Recorder
from discreet.validate import FloatArray

__all__ = ["minimise"]

FIRST_STEP = 0.5
"""First step over the norm of the gradient, in units in which typical curvatures are about 1.
Whitened rows have curvatures of up to 1.4, or twice that."""

LONGEST_STEP = 4.0
"""Longest step over the norm of the gradient, in these units."""

SCALES = (0.1, 3.0)
"""Limits of the scale of L-BFGS, one over the curvature along the last step, in these units."""

PAIRS = 10
"""Number of last steps whose curvature is used."""

CLEAR = 2.0
"""A step's curvature is used if it is above this many deviations of its noise."""

LEAST_CURVATURE = 0.05
"""Least curvature of a step that is used."""

GROWTH = 2.0
"""A step is taken back if the gradient's norm has grown by this factor and by four times its noise;
later ones are halved."""

EXPLAINED = 1.2
"""Descent ends where the squared norm of the gradient is at most this times what noise explains,
plus what `TOLERANCE` allows."""

TOLERANCE = 0.02
"""Share of the squared norm that the mean gradient of n rows has where the expected one is 0: the
rows themselves do not determine the weights any further."""

USUAL_GRADIENT = 5 / 3
"""Norm of the gradient of a usual row, of norm 10/3, at a slope of 1/2."""

INTERCEPT_SCALE = 4.0
"""One over the curvature of the logistic loss along an intercept, at most."""

UNITS = 8
"""Number of parts of the budget that a gradient costs at first."""

CLOSER = 8
"""Where noise explains a gradient, one over this of what is left refines it; if that shows it,
later gradients cost as much."""


def minimise(
    problem: Problem,
    curator: Curator,
    total: float,
    iterations: int,
    clip: float,
    start: FloatArray,
    record: Recorder,
) -> tuple[FloatArray, str]:
    """Spend the total μ² on at most this many gradients; return weights, and the noise as text."""
    scales = _scales(problem)
    weights = start
    factor = 1.0
    width = problem.n_parameters * max(1.0, problem.loss.n_outputs / 2) / problem.loss.n_outputs
    sampling = TOLERANCE * USUAL_GRADIENT**2 * width / problem.n_rows
    pairs: list[tuple[FloatArray, FloatArray]] = []
    at = weights
    seen = np.zeros_like(weights)
    least = math.inf  # where the gradient was least
    left = iterations * UNITS
    cost = UNITS
    passes = 0
    noises: list[float] = []

    def buys(units: int) -> Gaussian:
        mechanism = Gaussian.sharing(total * units / (iterations * UNITS))
        noises.append(mechanism.noise_multiplier)
        return mechanism

    while left:
        cost = left if left < 2 * cost else cost
        noisy = curator.ask(Gradient(problem.loss, weights, clip), buys(cost))
        left = left - cost
        passes = passes + 1
        gradient, noise, norm, unsure = _scaled(problem, noisy, weights, scales)
        if norm > max(GROWTH * least, least + 4 * unsure):
            weights = at
            gradient = seen
            norm = least
            factor = factor / 2
            pairs = []
        else:
            for part in (CLOSER, 1):  # a part of what is left, and all of it if that shows nothing
                if not left or norm**2 > EXPLAINED * unsure**2 + sampling:
                    break
                more = max(left // part, 1)
                noisy = curator.refine(noisy, mechanism=buys(more))
                left = left - more
                gradient, noise, norm, unsure = _scaled(problem, noisy, weights, scales)
                cost = max(cost, left // CLOSER)
            step = (weights - at) / scales
            change = gradient - seen
            product = float(step @ change)
            clear = CLEAR * math.sqrt(2) * float(np.linalg.norm(step * noise))
            if product > max(clear, LEAST_CURVATURE * float(step @ step)):
                pairs = [*pairs, (step, change)][-PAIRS:]
            at = weights
            seen = gradient
            least = norm
        moved = factor * _direction(gradient, pairs)
        moved *= min(1.0, LONGEST_STEP * factor * norm / max(float(np.linalg.norm(moved)), 1e-300))
        weights = weights - scales * moved
        size = float(np.linalg.norm(moved)) / max(norm, 1e-300)
        record(GradientStep(size * width, float(np.linalg.norm(gradient / scales))), weights)
    text = f"{len(noises)} measurements of {passes} sums over all rows, of {max(noises):.6g}"
    return weights, f"Gaussian noise on {text} to {min(noises):.6g}"


def _scaled(
    problem: Problem, noisy: NoisySum, weights: FloatArray, scales: FloatArray
) -> tuple[FloatArray, FloatArray, float, float]:
    """Return the mean gradient and its noise in the units of the scales, and the norms of both."""
    gradient = scales * (noisy.values / problem.n_rows + problem.penalty.gradient(weights))
    noise = scales * noisy.deviation / problem.n_rows
    return gradient, noise, float(np.linalg.norm(gradient)), float(np.linalg.norm(noise))


def _scales(problem: Problem) -> FloatArray:
    """Return roots of usual inverse curvatures along the weights: weights over them are alike."""
    outputs = problem.loss.n_outputs
    alpha = problem.penalty.alpha
    width = problem.n_parameters // outputs
    inverse = np.full((outputs, width), width * max(1.0, outputs / 2))
    if problem.fit_intercept:
        inverse[:, -1] = np.minimum(inverse[:, -1], INTERCEPT_SCALE)
    scales: FloatArray = np.sqrt(1 / (1 / inverse + alpha)).ravel()
    return scales


def _direction(gradient: FloatArray, pairs: Sequence[tuple[FloatArray, FloatArray]]) -> FloatArray:
    """Return the step of L-BFGS: an inverse Hessian, by steps and changes, times the gradient."""
    found = gradient.copy()
    shares = []
    for step, change in reversed(pairs):
        shares.append(float(step @ found) / float(step @ change))
        found -= shares[-1] * change
    scale = FIRST_STEP
    if pairs:
        step, change = pairs[-1]
        scale = min(max(float(step @ change) / float(change @ change), SCALES[0]), SCALES[1])
    found *= scale
    for (step, change), share in zip(pairs, reversed(shares), strict=True):
        found += step * (share - float(change @ found) / float(step @ change))
    return found
