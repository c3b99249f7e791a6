"""Confidence bounds on how much two unknown distributions differ, from samples or one run.

All bounds are one-sided: with probability at most ``alpha`` a bound is on the wrong side of the
truth, for any distributions. An event must be chosen on samples that are not used again, because a
bound from the samples that selected the event would be too optimistic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, ndtr, ndtri
from scipy.stats import binom

from discreet.accounting.conversions import mu_from_epsilon
from discreet.validate import FloatArray, number

SHARP = 2.0  # an audit is too weak if it would not have refuted this multiple of the stated ε
SEEN = 0.1  # an audit is too weak if it certifies less than this share of the stated ε
LEARNING_SHARE = 0.2  # of the runs, to select a statistic and an event
# Standard deviations by which counts may fall short in a planned audit: 9 in 10 audits have less.
LUCK = 1.3
# The same for Gaussians, where the event is selected among many: the selection varies as well.
GAUSSIAN_LUCK = 2.0
DOUBT = 0.03  # error probability of bounds that compare events: small samples flatter rare events


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
    k = np.asarray(hits, dtype=float)
    n = np.asarray(trials, dtype=float)
    bound = betaincinv(np.maximum(k, 1e-12), n - k + 1, alpha)
    return np.where(k > 0, bound, 0.0)


def upper_rate(hits: ArrayLike, trials: ArrayLike, alpha: float) -> FloatArray:
    """Return the upper Clopper-Pearson bound on a rate, with error probability ``alpha``."""
    k = np.asarray(hits, dtype=float)
    n = np.asarray(trials, dtype=float)
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
    scores: tuple[FloatArray, FloatArray], trials: int, *, alpha: float, delta: float | None
) -> tuple[Event, float]:
    """Choose the event with the best bound on ε (on μ, if ``delta`` is None) in ``trials`` runs.

    ``scores`` is a statistic of runs on each table, which will not be used again. Also return the
    bound at pessimistic rates or, where there would be none, a negative number that increases with
    the difference of the rates.
    """
    thresholds = near_both_ends(np.concatenate(scores), 160)
    ordered = [np.sort(values) for values in scores]
    best: tuple[float, Event] | None = None
    for above in (True, False):
        side: Any = "right" if above else "left"
        hits = [np.searchsorted(values, thresholds, side=side) for values in ordered]
        if above:
            hits = [values.size - below for values, below in zip(ordered, hits, strict=True)]
        for likely in (0, 1):
            size = ordered[likely].size
            other_size = ordered[1 - likely].size
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
        p = ndtr(mu - at)
        q = ndtr(-at)
    else:  # randomised response
        p = np.array([1 / (1 + math.exp(-true_epsilon))])
        q = 1 - p
    luck = GAUSSIAN_LUCK if delta > 0 else LUCK
    low = np.maximum(p * trials - luck * np.sqrt(p * (1 - p) * trials), 0.0)
    high = np.minimum(q * trials + luck * np.sqrt(q * (1 - q) * trials), trials)
    return float(np.max(epsilon_bound(low, high, trials, delta=delta, alpha=alpha)))


def _bisected(holds: Callable[[Any], Any], low: Any, high: Any) -> tuple[Any, Any]:
    """Return ends around the least numbers at which a monotone condition holds, elementwise."""
    for _ in range(50):
        middle = 0.5 * (low + high)
        held = holds(middle)
        low = np.where(held, low, middle)
        high = np.where(held, middle, high)
    return low, high


def least_true(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return the least number at which a monotone condition holds; infinite if above ``high``."""
    return float(_bisected(holds, low, high)[1]) if holds(high) else math.inf


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


def trials_needed(epsilon: float, delta: float, confidence: float) -> int | None:
    """Return the least number of trials that can refute twice the stated ε; None if none can."""
    tested = trials_for(epsilon, delta, alpha=1 - confidence, factor=SHARP)
    # Two tables; 1 % more, because shares and halves of trials are rounded.
    return None if tested is None else math.ceil(2.02 * tested / (1 - LEARNING_SHARE))


def trials_to_see(
    likely: int, other: int, trials: int, *, delta: float, alpha: float, least: float = 0.0
) -> int | None:
    """Return the runs per table that certify more than ``least`` at the measured rates."""
    p = likely / trials
    q = other / trials
    for exponent in range(1, 28):
        more = trials * 2**exponent
        if float(epsilon_bound(p * more, q * more, more, delta=delta, alpha=alpha)) > least:
            return int(more)
    return None


LARGEST_EPSILON = 64.0  # largest ε that an audit of one run takes, and the end of its searches
MOST_CANARIES = 10**8  # largest number of canaries that a plan proposes
ROUNDING = 1e-9  # relative increase of p-values, far above the error of SciPy's binomial tails
SHARES = np.geomspace(0.002, 1.0, 40)  # of canaries to guess; the public rule chooses one


def one_run_p_value(
    canaries: ArrayLike,
    guesses: ArrayLike,
    correct: ArrayLike,
    *,
    epsilon: ArrayLike,
    delta: ArrayLike,
) -> FloatArray:
    """Return the largest probability of this many correct guesses under (ε, δ)-DP; it is attained.

    Conditions: m fair, independent coins S, each of which decides between two versions of one
    row, so that tables whose coins differ in one place are neighbours; the guesses depend on S
    only through the output of one run; exactly r canaries are guessed, r fixed beforehand, and
    which ones may depend on the output.

    At δ = 0 this is the bound of Steinke, Nasr and Jagielski 2023; for δ > 0 it is smaller than
    theirs in the tail where promises are refuted. Proof: docs/proofs/one_run.md.

    Arrays of m ≥ r ≥ v ≥ 0 (``canaries``, ``guesses``, ``correct``), ε and δ are broadcast.
    """
    m, r, v, eps, slack = np.broadcast_arrays(
        *(np.asarray(a, dtype=np.float64) for a in (canaries, guesses, correct, epsilon, delta))
    )
    if not (np.all(v >= 0) and np.all(v <= r) and np.all(r <= m) and np.all(m < 2.0**53)):
        raise ValueError("There must be 0 <= correct <= guesses <= canaries.")
    rate = 1 / (1 + np.exp(-eps))
    tail = binom.sf(v - 1, r, rate)
    below = binom.cdf(v - 1, r, rate)
    at = binom.pmf(v, r, rate)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # where b_v is too small for a double, the tail is at most a geometric series from it
        ratio = np.exp(eps) * (r - v) / (v + 1)
        series = np.where(ratio < 1, 1 / (1 - ratio), np.inf)
        step = np.where(at > 1e-290, tail * below / at, series)
        gain = np.where(slack > 0, m * slack * step / v, 0.0)
    p = np.where(v > 0, (tail + gain) * (1 + ROUNDING), 1.0)
    return np.minimum(np.where(np.isnan(p), 1.0, p), 1.0)


def one_run_bound(
    canaries: int, guesses: ArrayLike, correct: ArrayLike, *, delta: float, confidence: float
) -> FloatArray:
    """Return the largest ε that this many correct guesses reject, or 0, elementwise.

    The conditions are those of `one_run_p_value`, whose p-values increase with ε. It is a lower
    bound with probability ``confidence``.
    """
    number("delta", delta, least=0.0, below=1.0)
    number("confidence", confidence, least=0.5, below=1.0)

    def kept(epsilon: FloatArray) -> NDArray[np.bool_]:
        p = one_run_p_value(canaries, guesses, correct, epsilon=epsilon, delta=delta)
        return p > 1 - confidence

    nothing = np.zeros(np.shape(guesses))
    low, _ = _bisected(kept, nothing, np.full(np.shape(guesses), LARGEST_EPSILON))
    return np.where(kept(nothing), 0.0, low)


def planned_guesses(canaries: int, epsilon: float, delta: float, confidence: float) -> int:
    """Return the number of guesses that certifies most at `SHARP` times the stated ε."""
    numbers = _numbers(canaries)
    seen = _unlucky(canaries, numbers, SHARP * epsilon, delta)
    bounds = one_run_bound(canaries, numbers, seen, delta=delta, confidence=confidence)
    if np.any(bounds > 0):
        return int(numbers[np.argmax(bounds)])
    p = one_run_p_value(canaries, numbers, seen, epsilon=0.0, delta=delta)
    return int(numbers[np.argmin(p)])


def one_run_sharpness(
    canaries: int, guesses: Sequence[int], epsilon: float, delta: float, confidence: float
) -> float:
    """Return the smallest true ε at which one run would refute the guarantee, 9 times in 10.

    For independent Gaussians of that (ε, δ) on each canary (for δ = 0 randomised response),
    guesses of the highest and lowest scores, and a correction for several numbers of guesses;
    infinite if it exceeds 64 times ``epsilon``.
    """
    numbers = np.array(guesses, dtype=np.float64)
    alpha = (1 - confidence) / numbers.size

    def refuted(true_epsilon: float) -> bool:
        seen = _unlucky(canaries, numbers, true_epsilon, delta)
        p = one_run_p_value(canaries, numbers, seen, epsilon=epsilon, delta=delta)
        return bool(np.min(p) <= alpha)

    return least_true(refuted, epsilon, 64 * epsilon)


def canaries_needed(epsilon: float, delta: float, confidence: float) -> int | None:
    """Return about the least number of canaries that refute `SHARP` times the stated ε, or None.

    One event of probability δ may spoil all guesses at once, so more canaries need not help.
    """
    for exact in np.geomspace(10, MOST_CANARIES, 100):
        canaries = math.ceil(float(exact))
        numbers = _numbers(canaries)
        seen = _unlucky(canaries, numbers, SHARP * epsilon, delta)
        p = one_run_p_value(canaries, numbers, seen, epsilon=epsilon, delta=delta)
        if np.min(p) <= 0.5 * (1 - confidence):  # two numbers of guesses are tried by default
            return canaries
    return None


def _numbers(canaries: int) -> FloatArray:
    return np.unique(np.maximum(np.round(SHARES * canaries), 1.0))


def _unlucky(canaries: int, guesses: FloatArray, true_epsilon: float, delta: float) -> FloatArray:
    """Return the number of correct guesses that 9 in 10 audits exceed."""
    if delta > 0:
        right = _accuracy(mu_from_epsilon(true_epsilon, delta), guesses / canaries)
    else:
        right = np.full(guesses.size, 1 / (1 + math.exp(-true_epsilon)))
    seen = guesses * right - LUCK * np.sqrt(guesses * right * (1 - right))
    return np.maximum(np.floor(seen + ROUNDING), 0.0)


def _accuracy(mu: float, shares: FloatArray) -> FloatArray:
    """Return the share of correct guesses if scores are N(0, 1) or N(μ, 1), equally likely.

    Half of the guesses are the highest scores, half the lowest, which is symmetric.
    """
    lowest = ndtri(shares / 4) - 1.0  # brackets the threshold t with P[score > t] = share/2
    low, _ = _bisected(
        lambda t: 0.5 * (ndtr(mu - t) + ndtr(-t)) <= shares / 2,
        np.minimum(lowest, -1.0),
        np.maximum(-lowest, 1.0) + mu,
    )
    hits: FloatArray = ndtr(mu - low)
    misses: FloatArray = ndtr(-low)
    return hits / (hits + misses)
