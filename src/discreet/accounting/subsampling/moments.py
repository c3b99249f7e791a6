"""Rényi divergences of one step at orders chosen from the target (the moments accountant)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.subsampling.pairs import Pair

__all__ = ["moments_epsilon"]

FloatArray = NDArray[np.float64]

REACH = 14.0
"""How many standard deviations around the means of a tilted step are integrated over."""
LARGEST_SHIFT = 4000.0
"""Orders are at most so many σ, which bounds the number of points."""


def moments_epsilon(pairs: list[Pair], count: int, delta: float) -> float:
    """The ε of ``count`` steps at ``delta`` by the best Rényi order, over all pairs.

    Each order's divergence is an integral over a line, by the trapezoidal rule; for these
    functions, analytic around the line, its relative error is below 1e-12 at the spacing used, and
    1e-9 is added. Conversion: Canonne, Kamath & Steinke 2020, Proposition 12.
    """
    return max(_pair_epsilon(pair, count, delta) for pair in pairs)


def _pair_epsilon(pair: Pair, count: int, delta: float) -> float:
    largest = max(1.0, LARGEST_SHIFT * min(pair.sigma, pair.sigma**2))
    thetas = np.geomspace(1e-2, largest, max(13, math.ceil(6 * math.log10(largest / 1e-2))))
    best = math.inf
    for _ in range(3):
        values = [_bound(pair, float(theta), count, delta) for theta in thetas]
        at = int(np.argmin(values))
        best = min(best, values[at])
        thetas = np.geomspace(thetas[max(at - 1, 0)], thetas[min(at + 1, len(values) - 1)], 9)
    return max(0.0, best)


def _bound(pair: Pair, theta: float, count: int, delta: float) -> float:
    order = theta + 1
    moment = count * log_moment(pair, theta)
    return (moment - math.log(delta) - math.log(order)) / theta + math.log1p(-1 / order)


def log_moment(pair: Pair, theta: float) -> float:
    """Ln E_P[exp(θ·loss)], rounded up."""
    sigma = pair.sigma
    # With means −1, 0 and 1, P^(θ+1)·Q^(−θ) is a mixture, or less than one, of Gaussians whose
    # means lie between −1 − θ and 2θ + 1.
    reach = REACH * sigma
    low, high = -1 - theta - reach, 2 * theta + 1 + reach
    spacing = min(0.25, sigma / 4) * sigma
    x = np.arange(low, high + spacing, spacing)
    loss, weights = pair.sampled_losses(float(x[0]), float(x[-1]), x.size)
    exponents = weights + theta * loss
    top = float(exponents.max())
    total = top + math.log(float(np.exp(exponents - top).sum()))
    rounding = 16 * 2.0**-53 * (1 + theta * float(np.abs(loss).max()))
    return max(0.0, total) * (1 + 1e-9) + rounding
