"""Exact composition of many steps by one Fourier transform of the tilted privacy loss.

A plain transform leaves an absolute error of about 1e-16 per step in every mass, too much for small
δ. So masses are multiplied by exp(θ·loss) first, with θ such that the composed loss is centred
where δ is decided, and divided by it afterwards: the error is then relative to δ, and a short
window of the composed loss suffices. All errors are bounded and added.
Proof: docs/proofs/subsampling.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from discreet.accounting.conversions import UNIT
from discreet.accounting.subsampling.dominating_pairs import DominatingPair
from discreet.accounting.subsampling.estimates import estimate
from discreet.validate import FloatArray

LONGEST = 2**19  # most points of the grid, which bounds time and memory
WIDEST = 500.0  # widest window of the composed loss whose exponential does not overflow
SHORTEST = 2**15  # fewest points of the grid
INFLATION = 1e-4  # relative rise of the variance of the composed loss that the grid may cause
NEGLIGIBLE = -80.0  # log below which entries of the composed spectrum are dropped (as errors)


@dataclass(frozen=True, eq=False)
class DeltaCurve:
    """Upper bounds on δ at increasing ε."""

    epsilons: FloatArray
    deltas: FloatArray

    def epsilon(self, delta: float) -> float:
        """Find the smallest ε ≥ 0 at which δ is proven; between points by convexity in e^ε."""
        fits = np.flatnonzero(self.deltas <= delta)
        if fits.size == 0:
            return math.inf
        at = int(fits[0])
        if at == 0:
            return max(0.0, float(self.epsilons[0]))
        before = float(self.deltas[at - 1])
        after = float(self.deltas[at])
        width = float(self.epsilons[at] - self.epsilons[at - 1])
        share = (before - delta) / (before - after)
        found = float(self.epsilons[at - 1]) + math.log1p(share * math.expm1(width))
        return max(0.0, found * (1 + 2.0**-50))


def compose(pair: DominatingPair, count: int, delta: float) -> DeltaCurve | None:
    """Bound δ(ε) of ``count`` steps around the ε where it is ``delta``.

    None if the grid that this would need is too long. The bounds hold for every estimate with a
    tilt above 0; a poor one makes them loose.
    """
    guess = estimate(pair, count, delta)
    if not (math.isfinite(guess.epsilon) and guess.spread > 0 and guess.theta > 0):
        return None
    bottom = min(guess.centre - 8 * guess.spread, guess.epsilon - 2 * guess.spread)
    top = max(guess.centre + 6 * guess.spread, guess.quantile, guess.epsilon + 2 * guess.spread)
    width = max(top - bottom, 1.1 * (guess.high - guess.low))
    if not 0 < width < WIDEST:
        return None
    wanted = width / (guess.spread * math.sqrt(6 * INFLATION / count))
    size = min(LONGEST, max(SHORTEST, 2 ** math.ceil(math.log2(wanted))))
    interval = width / size
    step = discretise(pair, interval, guess.low, guess.high)
    if step.masses.size > size:
        return None
    first = math.floor(bottom / interval)
    return _transform(step, count, guess.theta, first, size, guess.epsilon)


def _transform(
    step: LossDistribution, count: int, theta: float, first: int, size: int, middle: float
) -> DeltaCurve:
    interval = step.interval
    losses = step.losses
    log_moment = step.log_moment(theta)
    growth = np.exp(theta * losses - log_moment)
    tilted = step.masses * growth
    error = float(step.errors @ growth) + 8 * math.log2(size) * UNIT
    shift = round(float(tilted @ losses) / interval)
    placed = np.zeros(size)
    index = (step.start + np.arange(tilted.size) - shift) % size
    placed[index] = tilted
    spectrum = np.fft.rfft(placed)
    absolute = np.abs(spectrum)
    with np.errstate(all="ignore"):
        heights = count * np.log(absolute)
        share = 2.0 / size * float(np.exp((count - 1) * np.log(absolute + error)).sum())
    seen = heights > NEGLIGIBLE
    powers = np.zeros_like(spectrum)
    powers[seen] = np.exp(count * np.log(spectrum[seen]))
    composed = np.fft.irfft(powers, size)
    rounding = share * (count * (error + 32 * UNIT) + 8 * math.log2(size) * UNIT)
    rounding += 2 * math.exp(NEGLIGIBLE)
    composed = np.roll(composed, count * shift - first)  # entry 0 is the loss first · interval
    composed = np.maximum(composed, 0.0) + rounding

    points = interval * np.arange(first, first + size, dtype=np.float64)
    exponents = -theta * (points - middle)
    weights = composed * np.exp(np.clip(exponents, -700.0, 700.0))
    log_scale = count * log_moment - theta * middle
    slack = count * UNIT * (64 + 4 * theta * float(np.abs(losses).max()))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        masses = np.cumsum(weights[::-1])[::-1]
        reduced = np.cumsum((weights * np.exp(middle - points))[::-1])[::-1]
        differences = masses - reduced * np.exp(points - middle)
        gaps = np.maximum(differences, 0.0) + 4 * size * UNIT * masses
        deltas = np.exp(np.log(gaps) + log_scale + slack)
    deltas[~np.isfinite(differences)] = 1.0  # a sum overflowed, far below the ε of the search
    lost = _above(step, count, theta, interval * (first + size))
    deltas = np.minimum(1.0, deltas + lost + count * step.infinite)
    deltas[exponents > 700.0] = 1.0
    deltas = np.minimum.accumulate(deltas)
    # Grid points are off by the rounding of their positions, once a step.
    drift = count * 2.0**-48 * float(np.abs(losses).max())
    return DeltaCurve(points + drift, deltas)


def _above(step: LossDistribution, count: int, theta: float, top: float) -> float:
    """Bound the probability that the composed loss exceeds ``top`` (Chernoff)."""
    best = 0.0
    for factor in (1.0, 1.5, 2.0, 3.0, 5.0):
        tilt = factor * theta
        moment = step.log_moment(tilt, rounded_up=True)
        exponent = count * moment - tilt * top
        best = min(best, exponent + 2.0**-46 * (count * (1 + abs(moment)) + abs(tilt * top)))
    return math.exp(best)


@dataclass(frozen=True, eq=False)
class LossDistribution:
    """A privacy loss on a grid: P's mass at each loss (start + k)·interval.

    ``errors`` bound the rounding errors of the masses; ``infinite`` is P's mass at losses beyond
    the grid, counted as infinite.
    """

    interval: float
    start: int
    masses: FloatArray
    errors: FloatArray
    infinite: float

    @property
    def losses(self) -> FloatArray:
        """Losses that the masses belong to."""
        steps = np.arange(self.start, self.start + self.masses.size, dtype=np.float64)
        return self.interval * steps

    def log_moment(self, theta: float, rounded_up: bool = False) -> float:
        """Compute ln E[exp(θ·loss)] of the finite part, as computed or with its masses' errors."""
        masses = self.masses + self.errors if rounded_up else self.masses
        exponents = theta * self.losses
        top = float(exponents.max())
        return top + math.log(float((masses * np.exp(exponents - top)).sum()))


def discretise(pair: DominatingPair, interval: float, low: float, high: float) -> LossDistribution:
    """Put the loss of ``pair`` between ``low`` and ``high`` on a grid.

    Within each cell, e^−loss is spread to the cell's two ends such that its mean under P stays.
    Mass below the grid moves up to its first point, mass above it counts as infinite.
    """
    first = 0 if pair.mirrored else math.floor(low / interval)
    last = max(first + 1, math.ceil(high / interval))
    edges: FloatArray = interval * np.arange(first, last + 1, dtype=np.float64)
    x = pair.position(edges)
    if np.isinf(x[-1]):
        last_finite = int(np.flatnonzero(np.isfinite(x))[-1]) + 1
        edges = edges[: last_finite + 1]
        x = x[: last_finite + 1]
    p, p_errors = pair.masses(pair.first, x)
    q, q_errors = pair.masses(pair.second, x)
    infinite = pair.above(pair.first, float(x[-1])) * (1 + 2.0**-30)
    up = _upper_share(p, q, p_errors, q_errors, edges[:-1], interval)
    masses = np.append(p * (1 - up), 0.0)
    masses[1:] += p * up
    errors = np.append(p_errors, 0.0)
    errors[1:] += p_errors
    if not pair.mirrored:
        below = sum(w * float(ndtr((x[0] - mean) / pair.sigma)) for w, mean in pair.first)
        masses[0] += below
        errors[0] += 2.0**-45 * below
        return LossDistribution(interval, first, masses, errors, infinite)
    up = _upper_share(q, p, q_errors, p_errors, -edges[1:], interval)
    size = masses.size
    whole = np.zeros(2 * size - 1)
    all_errors = np.zeros(2 * size - 1)
    whole[size - 1 :] += masses
    all_errors[size - 1 :] += errors
    # Cell i, mirrored, lies between the points −i−1 and −i.
    whole[size - 2 :: -1] += q * (1 - up)
    whole[size - 1 : 0 : -1] += q * up
    all_errors[size - 2 :: -1] += q_errors
    all_errors[size - 1 : 0 : -1] += q_errors
    beyond = pair.above(pair.second, float(x[-1]))
    whole[0] += beyond
    whole[size - 1] += max(0.0, 1.0 - float(p.sum()) - float(q.sum()) - beyond - infinite)
    all_errors[size - 1] += 2.0**-48
    start = max(1 - size, math.floor(low / interval))
    cut = start - (1 - size)
    whole[cut] += float(whole[:cut].sum())
    all_errors[cut] += float(all_errors[:cut].sum())
    return LossDistribution(interval, start, whole[cut:], all_errors[cut:], infinite)


def _upper_share(
    p: FloatArray,
    q: FloatArray,
    p_errors: FloatArray,
    q_errors: FloatArray,
    lower_edges: FloatArray,
    interval: float,
) -> FloatArray:
    """Return the share of a cell's P-mass that goes to its upper end, rounded up."""
    with np.errstate(all="ignore"):
        ratio = q / p * np.exp(lower_edges)
        doubt = ratio * (p_errors / p + q_errors / q + 2.0**-50) + 2.0**-50
        share = (1.0 - ratio + doubt) / -math.expm1(-interval)
    share = np.where(np.isfinite(share), share, 1.0)
    return np.clip(share, 0.0, 1.0)
