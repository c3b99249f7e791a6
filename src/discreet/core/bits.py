"""Sources of random bits, and exact random samples of rows that are made of them.

Noise that protects data is made of :class:`SystemBits`: they come from the operating system at each
call, nothing is kept in the process, so threads, forked children, pickled copies and worker
processes can never repeat one another's bits. :class:`SeededBits` repeats itself on purpose and is
for tests.

Privacy that rests on sampling holds only if nobody can predict the sample, so samples are made of
the same bits as noise, and their probabilities are exact.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.conversions import UNIT
from discreet.validate import FloatArray, integer, number, vector

Index = NDArray[np.intp]


class Bits(Protocol):
    """A source of independent, uniform 64-bit words."""

    @property
    def secure(self) -> bool:
        """True if the bits may protect data."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """Draw ``count`` uniform 64-bit words."""

    def spawn(self, count: int) -> Sequence[Bits]:
        """Return ``count`` sources independent of each other, one per task."""


@dataclass(frozen=True)
class SystemBits:
    """Bits of the operating system's cryptographic generator: no state, fork- and pickle-safe."""

    secure: ClassVar[bool] = True
    """Nobody can predict or repeat these bits."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """Draw ``count`` uniform 64-bit words."""
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)

    def spawn(self, count: int) -> list[SystemBits]:
        """Return this source ``count`` times: it has no state, so sharing it is safe."""
        return [self] * count


class SeededBits:
    """Reproducible bits, for tests: **not private**, whoever knows the seed can subtract the noise.

    A pickled or forked copy repeats the stream of the original. Give each task its own stream with
    :meth:`spawn`. The seed is an integer of at least 0, or a ``numpy.random.SeedSequence``.
    """

    secure: ClassVar[bool] = False
    """The stream can be repeated."""

    def __init__(self, seed: int | np.random.SeedSequence) -> None:
        if not isinstance(seed, np.random.SeedSequence):
            if not isinstance(seed, Integral) or isinstance(seed, bool) or seed < 0:
                raise ValueError(
                    f"seed must be an integer of at least 0; got {seed!r}. Use for example seed=0."
                )
            seed = np.random.SeedSequence(int(seed))
        self._sequence = seed
        self._generator = np.random.Philox(seed)

    def words(self, count: int) -> NDArray[np.uint64]:
        """Draw the next ``count`` words of the stream."""
        drawn: NDArray[np.uint64] = self._generator.random_raw(count)
        return drawn

    def spawn(self, count: int) -> list[SeededBits]:
        """Return ``count`` new streams, independent of this one and of each other."""
        return [SeededBits(child) for child in self._sequence.spawn(count)]


def poisson_index(n: int, rate: float, bits: Bits) -> Index:
    """Draw a Poisson sample of range(n): every index independently with probability ``rate``.

    The probability is exactly ``rate`` rounded down to a multiple of 2⁻⁶⁴. Each index gets 8
    bits; the one in 256 that they do not decide gets 56 more.

    Privacy
    -------
    Never more likely than ``rate``, which is what amplification assumes. The number of bits drawn
    depends on bits alone.
    """
    n = integer("n", n, least=0, most=2**62)
    rate = number("rate", rate, least=0.0, most=1.0)
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
    count = integer("count", count, least=0, most=2**62)
    n = integer("n", n, most=2**62 - 1)
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


def permutation(n: int, bits: Bits) -> NDArray[np.int64]:
    """Draw a uniformly random permutation of 0, …, n − 1, exactly.

    The order of n different uniform words; words that are not all different are drawn again.
    """
    while True:
        words = bits.words(n)
        order = np.argsort(words).astype(np.int64)
        ranked = words[order]
        if not np.any(ranked[1:] == ranked[:-1]):
            return order


def weighted_index(chances: FloatArray, bits: Bits) -> int:
    """Draw an index with probability proportional to ``chances``, up to rounding."""
    ends = np.cumsum(vector("chances", chances))
    if ends.size < 1 or not ends[-1] > 0 or np.min(chances) < 0:
        raise ValueError("chances must be a vector of numbers >= 0 that are not all 0.")
    share = int(bits.words(1)[0] >> np.uint64(11)) * UNIT
    return int(np.searchsorted(ends, share * ends[-1], side="right"))
