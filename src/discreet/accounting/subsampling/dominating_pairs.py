"""The worst pairs of outputs of one sampled Gaussian step, and their privacy loss.

One step adds Gaussian noise of standard deviation σ to a sum of sampled vectors of norm at most 1.
The outputs on neighbouring data sets that are easiest to tell apart are a pair (P, Q) of mixtures
of normal distributions on a line, whose privacy loss ln(dP/dQ) increases along the line. Proof:
docs/proofs/subsampling.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import ndtr

from discreet.accounting.budget import Relation
from discreet.accounting.conversions import UNIT
from discreet.validate import FloatArray

Sampling = Literal["poisson", "one_row"]
Mixture = tuple[tuple[float, float], ...]

LARGE_LOSS = 600.0  # above it, positions are computed from logarithms: e^loss/rate overflows
REACH = 14.0  # standard deviations around the means of a tilted step that are integrated over
LARGEST_SHIFT = 4000.0  # largest order in units of σ, which bounds the number of points


@dataclass(frozen=True)
class DominatingPair:
    """Two mixtures P and Q of N(mean, σ²), each given as (weight, mean), with increasing loss.

    ``position`` is the inverse of the loss: where it reaches a value (-inf or inf if it never
    does). If ``mirrored``, only the part with positive loss counts; the rest is its mirror image:
    P's mass at loss −l is Q's at l, and what remains of both has loss 0.
    """

    sigma: float
    first: Mixture
    second: Mixture
    position: Callable[[FloatArray], FloatArray]
    mirrored: bool = False

    def loss(self, x: FloatArray) -> FloatArray:
        """Return the privacy loss ln(dP/dQ) at x."""
        return self._log_density(self.first, x) - self._log_density(self.second, x)

    def _log_density(self, mixture: Mixture, x: FloatArray) -> FloatArray:
        """Return the log density relative to that of N(0, σ²)."""
        total = np.full_like(x, -math.inf)
        for weight, mean in mixture:
            part = math.log(weight) + mean * (2 * x - mean) / (2 * self.sigma**2)
            total = np.logaddexp(total, part)
        return total

    def masses(self, mixture: Mixture, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return masses between consecutive points of x, and bounds on their rounding errors."""
        masses = np.zeros(x.size - 1)
        errors = np.zeros(x.size - 1)
        for weight, mean in mixture:
            z = (x - mean) / self.sigma
            tails = ndtr(-np.abs(z))
            same_side = np.signbit(z[1:]) == np.signbit(z[:-1])
            masses += weight * np.where(
                same_side, np.abs(np.diff(tails)), 1.0 - tails[1:] - tails[:-1]
            )
            with np.errstate(invalid="ignore"):
                relative = UNIT * (16.0 + 3.0 * np.minimum(z * z, 1600.0))
            rough = relative * tails
            errors += weight * (rough[1:] + rough[:-1])
        return masses, errors + 2.0**-51 * masses

    def above(self, mixture: Mixture, x: float) -> float:
        """Return the mass above x."""
        return sum(weight * float(ndtr((mean - x) / self.sigma)) for weight, mean in mixture)

    def delta(self, epsilon: float) -> float:
        """Bound the δ of one step at ε ≥ 0: P(loss > ε) − e^ε·Q(loss > ε), rounded up."""
        x = float(self.position(np.array([epsilon]))[0])
        if math.isinf(x):
            return 0.0 if x > 0 else 1.0
        p = self.above(self.first, x)
        if epsilon > 700:
            return min(1.0, p * (1 + 2.0**-30))
        q = math.exp(epsilon) * self.above(self.second, x)
        z = abs(x) / self.sigma + 1 / self.sigma
        return min(1.0, max(0.0, p - q) + UNIT * (64 + 8 * z * z) * (p + q))

    def sampled_losses(self, low: float, high: float, points: int) -> tuple[FloatArray, FloatArray]:
        """Estimate losses and logarithms of their masses under P on a plain grid."""
        x = np.linspace(low, high, points)
        loss = self.loss(x)
        base = -0.5 * (x / self.sigma) ** 2 + math.log(
            (high - low) / ((points - 1) * self.sigma * math.sqrt(2 * math.pi))
        )
        weights = self._log_density(self.first, x) + base
        if not self.mirrored:
            return loss, weights
        positive = loss > 0
        loss = loss[positive]
        weights = weights[positive]
        mirror = weights - loss
        rest = max(1e-300, 1.0 - float(np.exp(weights).sum() + np.exp(mirror).sum()))
        return (
            np.concatenate([-loss, [0.0], loss]),
            np.concatenate([mirror, [math.log(rest)], weights]),
        )


def pairs_of(
    sigma: float, rate: float, relation: Relation, sampling: Sampling
) -> list[DominatingPair]:
    """Return the pairs that together dominate one step: every neighbour, both ways round."""
    if sampling == "one_row":
        return [replace(_removed(own_sigma(sigma, sampling), rate), mirrored=True)]
    if relation is Relation.REPLACE_ONE:
        return [_replaced(sigma, rate)]
    return [_removed(sigma, rate), _added(sigma, rate)]


def own_sigma(sigma: float, sampling: Sampling) -> float:
    """Return the σ of a step's pairs: means 2 apart at σ are means 1 apart at σ/2."""
    return sigma / 2 if sampling == "one_row" else sigma


def _removed(sigma: float, rate: float) -> DominatingPair:
    """(1 − q)·N(0, σ²) + q·N(1, σ²) against N(0, σ²): a row that only the first table has."""

    def position(loss: FloatArray) -> FloatArray:
        return 0.5 + sigma**2 * _log_ratio(loss, rate)

    return DominatingPair(sigma, ((1 - rate, 0.0), (rate, 1.0)), ((1.0, 0.0),), position)


def _added(sigma: float, rate: float) -> DominatingPair:
    """N(0, σ²) against (1 − q)·N(0, σ²) + q·N(−1, σ²): a row that only the second table has."""

    def position(loss: FloatArray) -> FloatArray:
        return -0.5 - sigma**2 * _log_ratio(-loss, rate)

    return DominatingPair(sigma, ((1.0, 0.0),), ((1 - rate, 0.0), (rate, -1.0)), position)


def _log_ratio(loss: FloatArray, rate: float) -> FloatArray:
    """Solve ln(1 − q + q·e^r) = loss for r; −∞ where the loss is below ln(1 − q)."""
    with np.errstate(all="ignore"):
        plain = np.log1p(np.maximum(np.expm1(loss) / rate, -1.0))
        large = loss - math.log(rate) + np.log1p((rate - 1) * np.exp(-loss))
    return np.where(loss > LARGE_LOSS, large, plain)


def _replaced(sigma: float, rate: float) -> DominatingPair:
    """(1 − q)·N(0, σ²) + q·N(1, σ²) against (1 − q)·N(0, σ²) + q·N(−1, σ²): a replaced row."""
    # Solves (r + kw)/(r + k/w) = e^l for w = exp(x/σ²), with r = 1 − q, k = q·exp(−1/(2σ²)):
    # ln w = l/2 + arsinh(r/k·sinh(l/2)), and arsinh(t) is ln 2t for large t.
    odds = (1 - rate) / rate
    factor = odds * math.exp(min(700.0, 0.5 / sigma**2))
    log_factor = math.log(odds) + 0.5 / sigma**2 if odds > 0 else -math.inf

    def position(loss: FloatArray) -> FloatArray:
        half = np.abs(0.5 * loss)
        with np.errstate(all="ignore"):
            log_sinh = half + np.log(-0.5 * np.expm1(-2 * half))
            plain = np.arcsinh(factor * np.sinh(half))
        large = log_factor + log_sinh > LARGE_LOSS
        found = np.where(large, log_factor + log_sinh + math.log(2), plain)
        return sigma**2 * (0.5 * loss + np.copysign(found, loss))

    first = ((1 - rate, 0.0), (rate, 1.0))
    second = ((1 - rate, 0.0), (rate, -1.0))
    return DominatingPair(sigma, first, second, position)


def moments_epsilon(pairs: list[DominatingPair], count: int, delta: float) -> float:
    """Bound the ε of ``count`` steps at ``delta`` by the best Rényi order, over all pairs.

    Each order's divergence is an integral over a line, by the trapezoidal rule; for these
    functions, analytic around the line, its relative error is below 1e-12 at the spacing used, and
    1e-9 is added. Conversion: Canonne, Kamath & Steinke 2020, Proposition 12.
    """
    return max(_best_order(pair, count, delta) for pair in pairs)


def _best_order(pair: DominatingPair, count: int, delta: float) -> float:
    def bound(theta: float) -> float:
        order = theta + 1
        moment = count * log_moment(pair, theta)
        return (moment - math.log(delta) - math.log(order)) / theta + math.log1p(-1 / order)

    largest = max(1.0, LARGEST_SHIFT * min(pair.sigma, pair.sigma**2))
    thetas = np.geomspace(1e-2, largest, max(13, math.ceil(6 * math.log10(largest / 1e-2))))
    best = math.inf
    for _ in range(3):
        values = [bound(float(theta)) for theta in thetas]
        at = int(np.argmin(values))
        best = min(best, values[at])
        thetas = np.geomspace(thetas[max(at - 1, 0)], thetas[min(at + 1, len(values) - 1)], 9)
    return max(0.0, best)


def log_moment(pair: DominatingPair, theta: float) -> float:
    """Bound ln E_P[exp(θ·loss)] from above."""
    sigma = pair.sigma
    # With means −1, 0 and 1, P^(θ+1)·Q^(−θ) is a mixture, or less than one, of Gaussians whose
    # means lie between −1 − θ and 2θ + 1.
    reach = REACH * sigma
    low = -1 - theta - reach
    high = 2 * theta + 1 + reach
    spacing = min(0.25, sigma / 4) * sigma
    x = np.arange(low, high + spacing, spacing)
    loss, weights = pair.sampled_losses(float(x[0]), float(x[-1]), x.size)
    exponents = weights + theta * loss
    top = float(exponents.max())
    total = top + math.log(float(np.exp(exponents - top).sum()))
    rounding = 16 * UNIT * (1 + theta * float(np.abs(loss).max()))
    return max(0.0, total) * (1 + 1e-9) + rounding
