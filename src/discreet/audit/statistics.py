"""Certified statements about two unknown distributions, from samples of each.

Everything here is a one-sided confidence bound: with probability at most ``alpha`` it is on the
wrong side of the truth, whatever the distributions are. Events are chosen on samples that are not
used again; an event that was looked at cannot be tested on what made it look good.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, ndtr, ndtri

from discreet.accounting.conversions import mu_from_epsilon

__all__ = [
    "Event",
    "choose_event",
    "epsilon_bound",
    "lower_rate",
    "mu_bound",
    "near_both_ends",
    "sharpness",
    "trials_for",
    "trials_to_see",
    "upper_rate",
]

FloatArray = NDArray[np.float64]

LUCK, GAUSSIAN_LUCK = 1.3, 2.0
"""Standard deviations of bad luck that a planned audit should survive: 9 in 10 do. Where the event
has to be found among many, as for Gaussians, some of the luck is in finding it."""

DOUBT = 0.03
"""Rates that choose an event are themselves bounds of this error: rare events look too good."""


@dataclass(frozen=True)
class Event:
    """Something an attacker may see: a statistic above (or below) a threshold.

    Attributes
    ----------
    above
        Whether the statistic lies above the threshold, or below it.
    threshold
        The threshold; a statistic equal to it is not in the event.
    likely
        The world (0 or 1) in which the event is claimed to be likelier.
    """

    above: bool
    threshold: float
    likely: int

    def holds(self, scores: FloatArray) -> NDArray[np.bool_]:
        """For each score, whether it is in the event."""
        return scores > self.threshold if self.above else scores < self.threshold

    def counts(self, scores: tuple[FloatArray, FloatArray]) -> tuple[int, int]:
        """How often the event happens in the world where it is likely, and in the other."""
        hits = [int(np.count_nonzero(self.holds(values))) for values in scores]
        return hits[self.likely], hits[1 - self.likely]


def lower_rate(hits: ArrayLike, trials: ArrayLike, alpha: float) -> FloatArray:
    """Clopper-Pearson: the probability of a hit is at least this, but for chance ``alpha``."""
    k, n = np.asarray(hits, dtype=float), np.asarray(trials, dtype=float)
    bound = betaincinv(np.maximum(k, 1e-12), n - k + 1, alpha)
    return np.where(k > 0, bound, 0.0)


def upper_rate(hits: ArrayLike, trials: ArrayLike, alpha: float) -> FloatArray:
    """Clopper-Pearson: the probability of a hit is at most this, but for chance ``alpha``."""
    k, n = np.asarray(hits, dtype=float), np.asarray(trials, dtype=float)
    bound = betaincinv(k + 1, np.maximum(n - k, 1e-12), 1 - alpha)
    return np.where(k < n, bound, 1.0)


def epsilon_bound(
    likely: ArrayLike, other: ArrayLike, trials: ArrayLike, *, delta: float, alpha: float
) -> FloatArray:
    """No (ε, δ)-DP mechanism has a smaller ε than this, but for chance ``alpha``.

    Parameters
    ----------
    likely, other
        How often one event, fixed in advance, happened in each of two neighbouring worlds.
    trials
        Independent runs in each world.
    delta
        The promised δ.
    alpha
        Probability of a bound above the truth; half of it goes to each rate.

    Returns
    -------
    ndarray
        ln((p − δ)/q), p bounded from below and q from above; 0 where that says nothing.
    """
    p = lower_rate(likely, trials, alpha / 2)
    q = upper_rate(other, trials, alpha / 2)
    gained = np.maximum(p - delta, 0.0)
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(gained / q), 0.0)


def mu_bound(likely: ArrayLike, other: ArrayLike, trials: ArrayLike, *, alpha: float) -> FloatArray:
    """No μ-GDP mechanism has a smaller μ than this, but for chance ``alpha``.

    Φ⁻¹(p) − Φ⁻¹(q), p bounded from below and q from above; 0 where that says nothing.
    """
    p = lower_rate(likely, trials, alpha / 2)
    q = upper_rate(other, trials, alpha / 2)
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
    """The event that promises most when it is tested with ``trials`` new runs in each world.

    Parameters
    ----------
    scores
        A statistic of runs in world 0 and in world 1, which will not be used again.
    trials
        Runs in each world that the event will be tested with.
    alpha
        The error probability of that test.
    delta
        For an ε at this δ; None for a μ.
    points
        Thresholds tried, spread evenly over the ranks near both ends.

    Returns
    -------
    (Event, float)
        And the bound that the test would give if it saw pessimistic rates; a negative number
        that grows with what is seen, where it would give none.
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
            # where nothing would be certified, what is seen most clearly comes first
            gap = hits[likely] / size - hits[1 - likely] / other_size - (delta or 0.0)
            spread = np.sqrt(p * (1 - p) / size + q * (1 - q) / other_size + 1 / size**2)
            merits = np.where(bounds > 0, bounds, -np.exp(np.clip(-gap / spread, -50, 50)))
            at = int(np.argmax(merits))
            if best is None or merits[at] > best[0]:
                best = (float(merits[at]), Event(above, float(thresholds[at]), likely))
    assert best is not None
    return best[1], best[0]


def near_both_ends(scores: FloatArray, points: int) -> FloatArray:
    """Thresholds at ranks that are evenly spaced by factors from either end."""
    ordered = np.sort(scores)
    tail = np.geomspace(1, ordered.size / 2, points // 2)
    ranks = np.unique(np.concatenate([tail, ordered.size - tail]).astype(np.int64))
    lowest = np.nextafter(ordered[0], -np.inf)  # for events that always happen
    return np.unique(np.append(ordered[np.clip(ranks, 0, ordered.size - 1)], lowest))


def _expected_bound(true_epsilon: float, delta: float, trials: float, alpha: float) -> float:
    """What an unlucky audit certifies of the worst mechanism that is exactly (ε, δ)-DP."""
    if delta > 0:
        mu = mu_from_epsilon(true_epsilon, delta)
        at = np.linspace(-1.0, 6.0, 141)
        p, q = ndtr(mu - at), ndtr(-at)
    else:  # an answer that is true with probability e^ε/(1 + e^ε)
        p = np.array([1 / (1 + math.exp(-true_epsilon))])
        q = 1 - p
    luck = GAUSSIAN_LUCK if delta > 0 else LUCK
    low = np.maximum(p * trials - luck * np.sqrt(p * (1 - p) * trials), 0.0)
    high = np.minimum(q * trials + luck * np.sqrt(q * (1 - q) * trials), trials)
    return float(np.max(epsilon_bound(low, high, trials, delta=delta, alpha=alpha)))


def sharpness(epsilon: float, delta: float, trials: int, *, alpha: float) -> float:
    """The smallest true ε at which so many tested runs in each world would refute ``epsilon``.

    For a mechanism that is as bad as its (ε, δ) allows (a Gaussian, or a coin for δ = 0) and the
    best attack on it, 9 times in 10; infinite if no ε below 64 times the promise would do.
    """
    low, high = epsilon, 64 * epsilon
    if trials < 1 or _expected_bound(high, delta, trials, alpha) <= epsilon:
        return math.inf
    for _ in range(30):
        middle = 0.5 * (low + high)
        if _expected_bound(middle, delta, trials, alpha) > epsilon:
            high = middle
        else:
            low = middle
    return high


def trials_for(epsilon: float, delta: float, *, alpha: float, factor: float) -> int | None:
    """Tested runs in each world with which a true ε of ``factor`` times the promise is refuted.

    None if not even 10¹² runs would do it.
    """
    low, high = 0.0, math.log(1e12)
    if _expected_bound(factor * epsilon, delta, math.exp(high), alpha) <= epsilon:
        return None
    for _ in range(30):
        middle = 0.5 * (low + high)
        if _expected_bound(factor * epsilon, delta, math.exp(middle), alpha) > epsilon:
            high = middle
        else:
            low = middle
    return math.ceil(math.exp(high))


def trials_to_see(
    likely: int, other: int, trials: int, *, delta: float, alpha: float, least: float = 0.0
) -> int | None:
    """Runs in each world that would certify more than ``least``, if the rates are as measured."""
    p, q = likely / trials, other / trials
    for exponent in range(1, 28):
        more = trials * 2**exponent
        if float(epsilon_bound(p * more, q * more, more, delta=delta, alpha=alpha)) > least:
            return more
    return None
