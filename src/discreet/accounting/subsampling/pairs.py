"""The worst pairs of outputs of one sampled Gaussian step, and their privacy loss.

One step adds Gaussian noise of standard deviation σ to a sum of sampled vectors of norm at most 1.
What it tells apart best is a pair (P, Q) of mixtures of normal distributions on a line, whose
privacy loss ln(dP/dQ) increases along the line. Proof: docs/proofs/subsampling.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from discreet.accounting.budget import Relation

__all__ = ["Pair", "Sampling", "pairs_of"]

FloatArray = NDArray[np.float64]
Sampling = Literal["poisson", "one_row"]
Mixture = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Pair:
    """Two mixtures of N(mean, σ²), each given as (weight, mean), with increasing loss.

    Attributes
    ----------
    sigma
        Standard deviation of every part.
    first, second
        P and Q.
    position
        The inverse of the loss: where it reaches a value (-inf or inf if it never does).
    mirrored
        Only the part with positive loss counts; the rest is its mirror image: P's mass at loss −l
        is Q's at l, and what remains of both has loss 0.
    """

    sigma: float
    first: Mixture
    second: Mixture
    position: Callable[[FloatArray], FloatArray]
    mirrored: bool = False

    def loss(self, x: FloatArray) -> FloatArray:
        """The privacy loss ln(dP/dQ) at x."""
        return self._log_density(self.first, x) - self._log_density(self.second, x)

    def _log_density(self, mixture: Mixture, x: FloatArray) -> FloatArray:
        """Log density relative to that of N(0, σ²)."""
        total = np.full_like(x, -math.inf)
        for weight, mean in mixture:
            part = math.log(weight) + mean * (2 * x - mean) / (2 * self.sigma**2)
            total = np.logaddexp(total, part)
        return total

    def masses(self, mixture: Mixture, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Masses between consecutive points of x, and bounds on their rounding errors."""
        masses, errors = np.zeros(x.size - 1), np.zeros(x.size - 1)
        for weight, mean in mixture:
            z = (x - mean) / self.sigma
            tails = ndtr(-np.abs(z))
            same_side = np.signbit(z[1:]) == np.signbit(z[:-1])
            masses += weight * np.where(
                same_side, np.abs(np.diff(tails)), 1.0 - tails[1:] - tails[:-1]
            )
            with np.errstate(invalid="ignore"):
                relative = 2.0**-53 * (16.0 + 3.0 * np.minimum(z * z, 1600.0))
            rough = relative * tails
            errors += weight * (rough[1:] + rough[:-1])
        return masses, errors + 2.0**-51 * masses

    def above(self, mixture: Mixture, x: float) -> float:
        """Mass above x."""
        return sum(weight * float(ndtr((mean - x) / self.sigma)) for weight, mean in mixture)

    def delta(self, epsilon: float) -> float:
        """The δ of one step at ε ≥ 0: P(loss > ε) − e^ε·Q(loss > ε), rounded up."""
        x = float(self.position(np.array([epsilon]))[0])
        if math.isinf(x):
            return 0.0 if x > 0 else 1.0
        p = self.above(self.first, x)
        if epsilon > 700:
            return min(1.0, p * (1 + 2.0**-30))
        q = math.exp(epsilon) * self.above(self.second, x)
        z = abs(x) / self.sigma + 1 / self.sigma
        return min(1.0, max(0.0, p - q) + 2.0**-53 * (64 + 8 * z * z) * (p + q))

    def high(self, mass: float) -> float:
        """A point above which P has at most about ``mass``."""
        return max(
            mean + self.sigma * float(-ndtri(min(0.5, mass / (2 * weight))))
            for weight, mean in self.first
        )

    def low(self, mass: float) -> float:
        """A point below which P has at most about ``mass``."""
        return min(
            mean - self.sigma * float(-ndtri(min(0.5, mass / (2 * weight))))
            for weight, mean in self.first
        )

    def sampled_losses(self, low: float, high: float, points: int) -> tuple[FloatArray, FloatArray]:
        """Losses and logarithms of their masses under P on a plain grid (an estimate)."""
        x = np.linspace(low, high, points)
        loss = self.loss(x)
        base = -0.5 * (x / self.sigma) ** 2 + math.log(
            (high - low) / ((points - 1) * self.sigma * math.sqrt(2 * math.pi))
        )
        weights = self._log_density(self.first, x) + base
        if not self.mirrored:
            return loss, weights
        positive = loss > 0
        loss, weights = loss[positive], weights[positive]
        mirror = weights - loss
        rest = max(1e-300, 1.0 - float(np.exp(weights).sum() + np.exp(mirror).sum()))
        return (
            np.concatenate([-loss, [0.0], loss]),
            np.concatenate([mirror, [math.log(rest)], weights]),
        )


def pairs_of(sigma: float, rate: float, relation: Relation, sampling: Sampling) -> list[Pair]:
    """The pairs that together dominate one step: every neighbour, both ways round."""
    if sampling == "one_row":
        # Means 2 apart at σ are means 1 apart at σ/2.
        half = _removed(sigma / 2, rate)
        return [Pair(half.sigma, half.first, half.second, half.position, mirrored=True)]
    if relation is Relation.REPLACE_ONE:
        return [_replaced(sigma, rate)]
    return [_removed(sigma, rate), _added(sigma, rate)]


def _removed(sigma: float, rate: float) -> Pair:
    def position(loss: FloatArray) -> FloatArray:
        with np.errstate(all="ignore"):
            inner = np.maximum(np.expm1(loss) / rate, -1.0)
            return 0.5 + sigma**2 * np.log1p(inner)

    return Pair(sigma, ((1 - rate, 0.0), (rate, 1.0)), ((1.0, 0.0),), position)


def _added(sigma: float, rate: float) -> Pair:
    def position(loss: FloatArray) -> FloatArray:
        with np.errstate(all="ignore"):
            inner = np.maximum(np.expm1(-loss) / rate, -1.0)
            return -0.5 - sigma**2 * np.log1p(inner)

    return Pair(sigma, ((1.0, 0.0),), ((1 - rate, 0.0), (rate, -1.0)), position)


def _replaced(sigma: float, rate: float) -> Pair:
    # Solves (r + kw)/(r + k/w) = e^l for w = exp(x/σ²), with r = 1 − q, k = q·exp(−1/(2σ²)).
    factor = (1 - rate) / rate * math.exp(min(700.0, 0.5 / sigma**2))

    def position(loss: FloatArray) -> FloatArray:
        with np.errstate(all="ignore"):
            return sigma**2 * (0.5 * loss + np.arcsinh(factor * np.sinh(0.5 * loss)))

    return Pair(
        sigma,
        ((1 - rate, 0.0), (rate, 1.0)),
        ((1 - rate, 0.0), (rate, -1.0)),
        position,
    )
