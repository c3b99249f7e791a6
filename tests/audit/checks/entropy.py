"""Seeds of low entropy: how many different noises there are.

Noise from a seed of b bits comes again after about 2^(b/2) outputs, by the birthday paradox. What N
outputs say is certified both ways: without a collision there are at least so many noises, with one
an attacker guesses the noise with at least such a chance.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .result import CheckResult
from .fits import Table, fresh, observe
from discreet.audit.statistics import lower_rate

__all__ = ["Entropy", "entropy", "low_entropy", "low_entropy_of_fits"]


@dataclass(frozen=True)
class Entropy:
    """What N outputs say about the seeds behind them.

    Attributes
    ----------
    outputs, different
        How many there were, and how many different ones.
    at_least
        Without a collision: log2 of the number of noises is at least that; else 0.
    at_most
        With a collision: the noise has at most so many bits of entropy; else infinite. Of
        min-entropy, but for a few collisions in many outputs, where it is of collision entropy.
    confidence
        Of either bound.
    """

    outputs: int
    different: int
    at_least: float
    at_most: float
    confidence: float


def entropy(outputs: ArrayLike, *, confidence: float = 0.999) -> Entropy:
    """Bound the entropy of the noise behind independent outputs of shape (count, numbers).

    Notes
    -----
    *No collision.* Of all sources with S values the uniform one is the least likely to repeat, and
    it gives N different values with probability Π(1 − i/S) ≤ exp(−N(N−1)/(2S)). So S ≥
    N(N−1)/(2 ln(1/α)).

    *Collisions.* The first half of the outputs shows a set of D values; how many of the second
    half fall into it bounds its probability M from below (Clopper-Pearson), and the likeliest of D
    values has at least M/D. And if two outputs are equal with probability c, the expected number of
    equal pairs is cN(N−1)/2, so by Markov C pairs or more have at most C⁻¹ times that. Each of the
    two bounds has half of the error.
    """
    numbers = np.asarray(outputs)
    numbers = np.ascontiguousarray(numbers.reshape(len(numbers), -1))
    keys = [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in numbers]
    count, alpha = len(keys), 1 - confidence
    if count < 2:
        raise ValueError(f"a birthday test needs at least 2 outputs; got {count}.")
    tally: dict[bytes, int] = {}
    for key in keys:
        tally[key] = tally.get(key, 0) + 1
    pairs = count * (count - 1) / 2
    if len(tally) == count:
        bits = math.log2(max(pairs / math.log(1 / alpha), 1.0))
        return Entropy(count, count, bits, math.inf, confidence)
    equal = sum(times * (times - 1) // 2 for times in tally.values())
    at_most = math.log2(pairs / (equal * alpha / 2))
    known = set(keys[: count // 2])
    hits = sum(key in known for key in keys[count // 2 :])
    mass = float(lower_rate(hits, count - count // 2, alpha / 2))
    if mass > 0:
        at_most = min(at_most, math.log2(len(known) / mass))
    return Entropy(count, len(tally), 0.0, at_most, confidence)


def low_entropy(
    mechanism: Callable[[Any, int], ArrayLike],
    table: Any,
    *,
    outputs: int = 20_000,
    confidence: float = 0.999,
) -> CheckResult:
    """A birthday test of a mechanism with continuous noise.

    Parameters
    ----------
    mechanism : callable
        ``mechanism(table, count)``: ``count`` outputs of independent runs, each with a seed of its
        own, of shape (count, numbers).
    table : Any
        Any table.
    outputs : int
        How many to draw. A seed of b bits is found 999 times in 1000 by 3.8·2^(b/2) outputs.
    confidence : float
        Of the certified bounds.
    """
    return _judged(entropy(mechanism(table, outputs), confidence=confidence), "outputs")


def low_entropy_of_fits(
    estimator: Any, table: Table, *, fits: int = 100, confidence: float = 0.999
) -> CheckResult:
    """A birthday test of whole fits, and of the random words behind them where they can be watched.

    So few fits find seeds of 9 bits for sure, and of 14 bits as often as not.
    """
    seen = [observe(fresh(estimator), table) for _ in range(fits)]
    started = [one.words[:2] for one in seen if one.words.size >= 2]
    if len(started) == fits:
        found = entropy(np.array(started), confidence=confidence)
        if found.different < found.outputs:
            return _judged(found, "beginnings of the noise")
    outputs = [one.output for one in seen if one.output is not None]
    if len(outputs) >= 2:
        return _judged(entropy(np.array(outputs, dtype="S64"), confidence=confidence), "outputs")
    if len(started) == fits:
        return _judged(found, "beginnings of the noise")
    return CheckResult("entropy of seeds", True, "Not checked: no output says anything about noise.")


def _judged(found: Entropy, what: str) -> CheckResult:
    sure = f"with confidence {100 * found.confidence:g} %"
    if found.different == found.outputs:
        words = f"{found.outputs} {what}, all different: {sure} there are at least "
        words += f"2^{found.at_least:.1f} noises."
        return CheckResult("entropy of seeds", True, words)
    words = f"{found.outputs} {what}, only {found.different} different: {sure} the noise has at "
    words += f"most {found.at_most:.1f} bits of entropy. Whoever tries all seeds can subtract it."
    return CheckResult("entropy of seeds", False, words)
