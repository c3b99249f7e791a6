"""Exact random samples of rows from secure bits.

Privacy that rests on sampling holds only as far as nobody can predict the sample, so samples are
made of the same bits as noise, and their probabilities are exact.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.core.bits import Bits

__all__ = ["poisson_index", "uniform_index"]

Index = NDArray[np.intp]


def poisson_index(n: int, rate: float, bits: Bits) -> Index:
    """Draw a Poisson sample of range(n): every index independently with probability ``rate``.

    The probability is exactly ``rate`` rounded down to a multiple of 2⁻⁶⁴. Each index gets 8
    bits; the one in 256 that they do not decide gets 56 more.

    Privacy
    -------
    Never more likely than ``rate``, which is what amplification assumes. How many bits are drawn
    depends on bits alone.
    """
    if n < 0 or not 0 <= rate <= 1:
        raise ValueError(f"n must be >= 0 and rate in [0, 1]; got n={n!r}, rate={rate!r}.")
    if rate == 1:
        return np.arange(n)
    threshold = int(Fraction(rate) * 2**64)
    first, rest = divmod(threshold, 2**56)
    drawn = bits.words(-(-n // 8)).view(np.uint8)[:n]
    candidates = np.flatnonzero(drawn <= first)
    undecided = np.flatnonzero(drawn[candidates] == first)
    more = bits.words(undecided.size) >> np.uint64(8)
    return np.delete(candidates, undecided[more >= np.uint64(rest)])


def uniform_index(count: int, n: int, bits: Bits) -> Index:
    """Draw ``count`` independent integers, exactly uniform on range(n)."""
    if not (count >= 0 and 1 <= n < 2**62):
        raise ValueError(f"count must be >= 0 and n from 1 to 2^62; got {count!r}, {n!r}.")
    limit = 2**64 // n * n  # words from here on would make small results more likely
    parts: list[NDArray[np.uint64]] = []
    missing = count
    while missing:
        words = bits.words(missing)
        if limit < 2**64:
            words = words[words < np.uint64(limit)]
        parts.append(words % np.uint64(n))
        missing -= words.size
    return np.concatenate(parts).astype(np.intp) if parts else np.empty(0, dtype=np.intp)
