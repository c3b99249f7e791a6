"""Bounds on ε from one run with m canaries, and the planning of guesses.

The idea is from Steinke, Nasr and Jagielski, "Privacy auditing with one (1) training run", 2023;
the bound used here is not theirs but an exact one, derived in `one_run_p_value`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from discreet.accounting.conversions import mu_from_epsilon
from discreet.audit.result import SHARP
from discreet.audit.statistics import LUCK, least_true
from discreet.validate import FloatArray, number

LARGEST_EPSILON = 64.0
MOST_CANARIES = 10**8

ROUNDING = 1e-9
"""Relative increase of p-values, far more than the error of SciPy's binomial tails."""

SHARES = np.geomspace(0.002, 1.0, 40)
"""Shares of canaries to guess, among which the public rule chooses."""


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

    Proof. Let T in {−1, 0, 1}^m be the guesses (0: none) and V the number of places where T = S.
    Multiplying coins and guesses by the same random signs, and permuting both by the same random
    permutation, changes neither the law of V (S stays uniform) nor the promise (a mixture of
    (ε, δ)-DP mechanisms is one). So let T = S·Z, with Z independent of S, all orders of Z equally
    likely, and r of its places not 0. Then V is the number of +1 in Z, and the promise says that Z
    and Z with the sign of one place changed are (ε, δ)-close. With π_k = P[V = k] that reads

        Σ_j [(j + 1)·π_(j+1) − e^ε·(r − j)·π_j]₊ ≤ m·δ,  j = 0, …, r − 1

    (and the same with the two terms exchanged). Let b be the probabilities of a binomial
    distribution of r trials with success rate e^ε/(1 + e^ε), for which every bracket is 0, and
    write π = b·h: the brackets are (j + 1)·b_(j+1)·[h_(j+1) − h_j]₊. Given v, the h that makes
    P[V ≥ v] largest does not decrease, so it is a constant plus steps up; a step of height d at u
    costs u·b_u·d and adds (B_max(u,v) − B_v·B_u)·d to P[V ≥ v], where B_u = P[W ≥ u] for W of
    law b. As b is log-concave, gain over cost is largest at u = v. All of m·δ goes there:

        P[V ≥ v] ≤ β + m·δ·β·(1 − β)/(v·b_v),  β = P[W ≥ v],  and ≤ 1.

    At δ = 0 this is the bound of Steinke, Nasr and Jagielski 2023. For δ > 0 theirs is another
    one; in the tail where promises are refuted this one is smaller.

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
    canaries: int, guesses: int, correct: int, *, delta: float, confidence: float
) -> float:
    """Return the largest ε that this many correct guesses reject, or 0, under these conditions.

    Those of `one_run_p_value`; it is a lower bound with probability ``confidence``.
    """
    number("delta", delta, least=0.0, below=1.0)
    number("confidence", confidence, least=0.5, below=1.0)
    return float(_bounds(canaries, np.array([guesses]), np.array([correct]), delta, confidence)[0])


def _bounds(
    canaries: int, guesses: FloatArray, correct: FloatArray, delta: float, confidence: float
) -> FloatArray:
    """Return `one_run_bound` for several numbers of guesses; p-values increase with ε."""

    def rejected(epsilon: FloatArray) -> NDArray[np.bool_]:
        p = one_run_p_value(canaries, guesses, correct, epsilon=epsilon, delta=delta)
        return p <= 1 - confidence

    low, high = np.zeros(guesses.size), np.full(guesses.size, LARGEST_EPSILON)
    any_at_all = rejected(low)
    for _ in range(50):
        middle = 0.5 * (low + high)
        refuted = rejected(middle)
        low, high = np.where(refuted, middle, low), np.where(refuted, high, middle)
    return np.where(any_at_all, low, 0.0)


def usual_guesses(canaries: int, epsilon: float, delta: float, confidence: float) -> int:
    """Return the number of guesses that certifies most at `SHARP` times the stated ε."""
    numbers = _numbers(canaries)
    seen = _unlucky(canaries, numbers, SHARP * epsilon, delta)
    bounds = _bounds(canaries, numbers, seen, delta, confidence)
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

    One event of probability δ may spoil all guesses at once, so beyond some number more canaries
    do not help.
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
    low = ndtri(shares / 4) - 1.0  # brackets the threshold t with P[score > t] = share/2
    low, high = np.minimum(low, -1.0), np.maximum(-low, 1.0) + mu
    for _ in range(50):
        middle = 0.5 * (low + high)
        above = 0.5 * (ndtr(mu - middle) + ndtr(-middle)) > shares / 2
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    hits, misses = ndtr(mu - low), ndtr(-low)
    return hits / (hits + misses)
