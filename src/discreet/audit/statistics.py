"""Confidence bounds on how much two unknown distributions differ, from samples of each.

All bounds are one-sided: with probability at most ``alpha`` a bound is on the wrong side of the
truth, for any distributions. An event must be chosen on samples that are not used again, because a
bound from the samples that selected the event would be too optimistic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, ndtr, ndtri

from discreet.accounting.conversions import mu_from_epsilon
from discreet.validate import FloatArray

LUCK, GAUSSIAN_LUCK = 1.3, 2.0
"""Standard deviations by which counts may fall short in a planned audit: 9 in 10 audits have less.
For Gaussians, where the event is selected among many, the selection varies as well."""

DOUBT = 0.03
"""Error probability of the bounds by which events are compared; rare events look too good."""


@dataclass(frozen=True)
class Event:
    """An event: a statistic above (or below) a threshold, claimed to be likelier in one world."""

    above: bool
    threshold: float
    likely: int

    def counts(self, scores: tuple[FloatArray, FloatArray]) -> tuple[int, int]:
        """Count the event in the world where it is likely, and in the other."""
        inside = np.greater if self.above else np.less
        hits = [int(np.count_nonzero(inside(values, self.threshold))) for values in scores]
        return hits[self.likely], hits[1 - self.likely]


def lower_rate(hits: ArrayLike, trials: ArrayLike, alpha: float) -> FloatArray:
    """Return the lower Clopper-Pearson bound on a rate, with error probability ``alpha``."""
    k, n = np.asarray(hits, dtype=float), np.asarray(trials, dtype=float)
    bound = betaincinv(np.maximum(k, 1e-12), n - k + 1, alpha)
    return np.where(k > 0, bound, 0.0)


def upper_rate(hits: ArrayLike, trials: ArrayLike, alpha: float) -> FloatArray:
    """Return the upper Clopper-Pearson bound on a rate, with error probability ``alpha``."""
    k, n = np.asarray(hits, dtype=float), np.asarray(trials, dtype=float)
    bound = betaincinv(k + 1, np.maximum(n - k, 1e-12), 1 - alpha)
    return np.where(k < n, bound, 1.0)


def epsilon_bound(
    likely: ArrayLike, other: ArrayLike, trials: ArrayLike, *, delta: float, alpha: float
) -> FloatArray:
    """Return a lower bound on the ε of a mechanism, with error probability ``alpha``.

    ``likely`` and ``other`` count one event, fixed in advance, in ``trials`` runs on each table.
    The bound is ln((p − δ)/q) for a lower bound p and an upper bound q on the rates; 0 if negative.
    """
    p = lower_rate(likely, trials, alpha / 2)
    q = upper_rate(other, trials, alpha / 2)
    gained = np.maximum(p - delta, 0.0)
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(gained / q), 0.0)


def mu_bound(
    likely: ArrayLike,
    other: ArrayLike,
    trials: ArrayLike,
    other_trials: ArrayLike | None = None,
    *,
    alpha: float,
) -> FloatArray:
    """Return a lower bound on the μ of a mechanism in Gaussian DP, with error ``alpha``.

    Φ⁻¹(p) − Φ⁻¹(q) for a lower bound p and an upper bound q on the rates; 0 if negative.
    """
    p = lower_rate(likely, trials, alpha / 2)
    q = upper_rate(other, trials if other_trials is None else other_trials, alpha / 2)
    with np.errstate(invalid="ignore"):
        gap = ndtri(p) - ndtri(q)
    return np.where(np.isfinite(gap), np.maximum(gap, 0.0), 0.0)


def choose_event(
    scores: tuple[FloatArray, FloatArray],
    trials: int,
    *,
    alpha: float,
    delta: float | None,
    points: int = 160,
) -> tuple[Event, float]:
    """Choose the event with the best bound on ε (on μ, if ``delta`` is None) in ``trials`` runs.

    ``scores`` is a statistic of runs on each table, which will not be used again. Also return the
    bound at pessimistic rates or, where there would be none, a negative number that increases with
    the difference of the rates.
    """
    thresholds = near_both_ends(np.concatenate(scores), points)
    ordered = [np.sort(values) for values in scores]
    best: tuple[float, Event] | None = None
    for above in (True, False):
        hits = [
            values.size - np.searchsorted(values, thresholds, side="right")
            if above
            else np.searchsorted(values, thresholds, side="left")
            for values in ordered
        ]
        for likely in (0, 1):
            size, other_size = ordered[likely].size, ordered[1 - likely].size
            p = lower_rate(hits[likely], size, DOUBT)
            q = upper_rate(hits[1 - likely], other_size, DOUBT)
            if delta is None:
                bounds = mu_bound(p * trials, q * trials, trials, alpha=alpha)
            else:
                bounds = epsilon_bound(p * trials, q * trials, trials, delta=delta, alpha=alpha)
            # where nothing would be certified, the clearest difference comes first
            gap = hits[likely] / size - hits[1 - likely] / other_size - (delta or 0.0)
            spread = np.sqrt(p * (1 - p) / size + q * (1 - q) / other_size + 1 / size**2)
            merits = np.where(bounds > 0, bounds, -np.exp(np.clip(-gap / spread, -50, 50)))
            at = int(np.argmax(merits))
            if best is None or merits[at] > best[0]:
                best = (float(merits[at]), Event(above, float(thresholds[at]), likely))
    assert best is not None
    return best[1], best[0]


def near_both_ends(scores: FloatArray, points: int) -> FloatArray:
    """Return thresholds at ranks that are geometrically spaced from either end."""
    ordered = np.sort(scores)
    tail = np.geomspace(1, ordered.size / 2, points // 2)
    ranks = np.unique(np.concatenate([tail, ordered.size - tail]).astype(np.int64))
    lowest = np.nextafter(ordered[0], -np.inf)  # for events that always occur
    return np.unique(np.append(ordered[np.clip(ranks, 0, ordered.size - 1)], lowest))


def _expected_bound(true_epsilon: float, delta: float, trials: float, alpha: float) -> float:
    """Return what an unlucky audit certifies for the worst (ε, δ)-DP mechanism."""
    if delta > 0:
        mu = mu_from_epsilon(true_epsilon, delta)
        at = np.linspace(-1.0, 6.0, 141)
        p, q = ndtr(mu - at), ndtr(-at)
    else:  # randomised response
        p = np.array([1 / (1 + math.exp(-true_epsilon))])
        q = 1 - p
    luck = GAUSSIAN_LUCK if delta > 0 else LUCK
    low = np.maximum(p * trials - luck * np.sqrt(p * (1 - p) * trials), 0.0)
    high = np.minimum(q * trials + luck * np.sqrt(q * (1 - q) * trials), trials)
    return float(np.max(epsilon_bound(low, high, trials, delta=delta, alpha=alpha)))


def least_true(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return the least number at which a monotone condition holds; infinite if above ``high``."""
    if not holds(high):
        return math.inf
    for _ in range(30):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def sharpness(epsilon: float, delta: float, trials: int, *, alpha: float) -> float:
    """Return the smallest true ε at which this many runs on each table would refute ``epsilon``.

    For a worst-case mechanism (a Gaussian, or randomised response for δ = 0) and the best attack
    on it, 9 times in 10; infinite if it exceeds 64 times ``epsilon``.
    """
    if trials < 1:
        return math.inf
    return least_true(
        lambda true: _expected_bound(true, delta, trials, alpha) > epsilon, epsilon, 64 * epsilon
    )


def trials_for(epsilon: float, delta: float, *, alpha: float, factor: float) -> int | None:
    """Return the runs per table that refute ``factor`` times the stated ε; None if above 10¹²."""
    true = factor * epsilon
    found = least_true(
        lambda size: _expected_bound(true, delta, math.exp(size), alpha) > epsilon,
        0.0,
        math.log(1e12),
    )
    return math.ceil(math.exp(found)) if math.isfinite(found) else None


def trials_to_see(
    likely: int, other: int, trials: int, *, delta: float, alpha: float, least: float = 0.0
) -> int | None:
    """Return the runs per table that certify more than ``least`` at the measured rates."""
    p, q = likely / trials, other / trials
    for exponent in range(1, 28):
        more = trials * 2**exponent
        if float(epsilon_bound(p * more, q * more, more, delta=delta, alpha=alpha)) > least:
            return more
    return None
