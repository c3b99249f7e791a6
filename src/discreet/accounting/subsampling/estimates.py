"""Estimates, by a plain quadrature, of where the composed loss of many steps decides δ.

Nothing here is trusted. An estimate chooses the grid, the tilt and the window of an exact
composition, whose error bounds hold for any of them: a poor estimate costs tightness.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from discreet.accounting.subsampling.dominating_pairs import DominatingPair
from discreet.validate import FloatArray

TAIL_SHARE = 1e-4  # share of δ that each truncation may cost
POINTS = 2**12  # of the quadrature that chooses the grid


@dataclass(frozen=True)
class LossEstimate:
    """Estimate of where the composed loss decides δ.

    The tilt θ, the ε that moments give, mean and standard deviation of the tilted composed loss, a
    loss that the composed one exceeds with a probability far below δ, and the range of one step's
    loss that matters.
    """

    theta: float
    epsilon: float
    centre: float
    spread: float
    quantile: float
    low: float
    high: float


def estimate(pair: DominatingPair, count: int, delta: float, points: int = POINTS) -> LossEstimate:
    """Estimate the ε of ``count`` steps at ``delta``, and where it is decided."""
    mass = max(TAIL_SHARE * delta / count, 1e-280)
    ends = _ends(pair, max(mass, 1e-18), mass)
    low, high = (float(value) for value in pair.loss(ends))
    if pair.mirrored:
        low = -high
    losses, weights = pair.sampled_losses(float(ends[0]), float(ends[1]), points)

    def moments(thetas: FloatArray) -> FloatArray:
        exponents = weights + thetas[:, None] * losses
        top = exponents.max(axis=1)
        sums: FloatArray = count * (top + np.log(np.exp(exponents - top[:, None]).sum(axis=1)))
        return sums

    def bounds(thetas: FloatArray) -> FloatArray:
        """Convert Rényi divergences of order θ + 1 to ε (Canonne et al. 2020)."""
        orders = thetas + 1
        found: FloatArray = moments(thetas) - math.log(delta) - np.log(orders)
        return found / thetas + np.log1p(-1 / orders)

    thetas = np.geomspace(1e-2, 1e10, 73)
    for _ in range(2):
        at = int(np.argmin(bounds(thetas)))
        around = thetas[[max(at - 1, 0), min(at + 1, thetas.size - 1)]]
        thetas = np.geomspace(around[0], around[1], 13)
    values = bounds(thetas)
    theta = float(thetas[np.argmin(values)])
    exponents = weights + theta * losses
    tilted = np.exp(exponents - exponents.max())
    tilted /= tilted.sum()
    mean = float(tilted @ losses)
    spread = math.sqrt(count * float(tilted @ (losses - mean) ** 2))
    # Lower losses hardly count under the tilt: they may as well be raised to this.
    low = max(low, -math.log(1e6 * count) / theta)
    beyond = theta * np.geomspace(1.0, 8.0, 13)
    goal = math.log(TAIL_SHARE * delta)
    quantile = float(np.min((moments(beyond) - goal) / beyond))
    return LossEstimate(theta, float(values.min()), count * mean, spread, quantile, low, high)


def _ends(pair: DominatingPair, below: float, above: float) -> FloatArray:
    """Return points below and above which P has at most about these masses."""

    def distance(mass: float, weight: float) -> float:
        return pair.sigma * float(-ndtri(min(0.5, mass / (2 * weight))))

    low = min(mean - distance(below, weight) for weight, mean in pair.first)
    return np.array([low, max(mean + distance(above, weight) for weight, mean in pair.first)])
