"""Seeds of low entropy: bounds on the number of different noise values.

Noise from a seed of b bits repeats after about 2^(b/2) outputs, by the birthday paradox. N outputs
certify a bound either way: without a collision a least number of noise values, with one a least
probability of guessing the noise.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from discreet.audit.statistics import lower_rate

from .fits import CheckResult, Table, fresh, observe

__all__ = ["Entropy", "entropy", "low_entropy", "low_entropy_of_fits"]


@dataclass(frozen=True)
class Entropy:
    """Bounds on the entropy of the seeds behind N outputs.

    Attributes
    ----------
    outputs, different
        Number of outputs, and of different ones.
    at_least
        Without a collision: lower bound on log2 of the number of noise values; else 0.
    at_most
        With a collision: upper bound on the entropy of the noise in bits; else infinite. Of
        min-entropy, but for a few collisions in many outputs, where it is of collision entropy.
    confidence
        Confidence of either bound.
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
    """Apply a birthday test to a mechanism with continuous noise.

    Parameters
    ----------
    mechanism : callable
        ``mechanism(table, count)``: ``count`` outputs of independent runs, each with a seed of its
        own, of shape (count, numbers).
    table : Any
        Any table.
    outputs : int
        Number of outputs. A seed of b bits is found 999 times in 1000 by 3.8·2^(b/2) outputs.
    confidence : float
        Confidence of the certified bounds.
    """
    return _judged(entropy(mechanism(table, outputs), confidence=confidence), "outputs")


def low_entropy_of_fits(
    estimator: Any, table: Table, *, fits: int = 100, confidence: float = 0.999
) -> CheckResult:
    """Apply a birthday test to whole fits and to the random words that they draw.

    This few fits find seeds of 9 bits almost surely, and of 14 bits in half of the cases.
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
    return CheckResult("entropy of seeds", True, "Not checked: no output depends on noise.")


def _judged(found: Entropy, what: str) -> CheckResult:
    sure = f"with confidence {100 * found.confidence:g} %"
    if found.different == found.outputs:
        text = f"{found.outputs} {what}, all different: {sure} there are at least "
        text += f"2^{found.at_least:.1f} noise values."
        return CheckResult("entropy of seeds", True, text)
    text = f"{found.outputs} {what}, only {found.different} different: {sure} the noise has at "
    text += f"most {found.at_most:.1f} bits of entropy. Whoever tries all seeds can subtract it."
    return CheckResult("entropy of seeds", False, text)
