"""Where random bits come from.

Noise that protects data is made of :class:`SystemBits`: they come from the operating system at each
call, nothing is kept in the process, so threads, forked children, pickled copies and worker
processes can never repeat one another's bits. :class:`SeededBits` repeats itself on purpose and is
for tests.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bits", "SeededBits", "SystemBits"]


class Bits(Protocol):
    """A source of independent, uniform 64-bit words."""

    @property
    def secure(self) -> bool:
        """Whether the bits may protect data."""
        ...

    def words(self, count: int) -> NDArray[np.uint64]:
        """Draw ``count`` uniform 64-bit words."""
        ...

    def spawn(self, count: int) -> Sequence[Bits]:
        """Return ``count`` sources independent of each other, one for each task."""
        ...


@dataclass(frozen=True)
class SystemBits:
    """Bits of the operating system's cryptographic generator: no state, fork- and pickle-safe."""

    @property
    def secure(self) -> bool:
        """True: nobody can predict or repeat these bits."""
        return True

    def words(self, count: int) -> NDArray[np.uint64]:
        """Draw ``count`` uniform 64-bit words."""
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)

    def spawn(self, count: int) -> list[SystemBits]:
        """Return this source ``count`` times: it has no state, so sharing it is safe."""
        return [self] * count


class SeededBits:
    """Reproducible bits, for tests: **not private**, whoever knows the seed can subtract the noise.

    A pickled or forked copy repeats the stream of the original. Give each task its own stream with
    :meth:`spawn`.

    Parameters
    ----------
    seed : int or numpy.random.SeedSequence
        Non-negative integer, or an entropy source that was spawned from one.
    """

    def __init__(self, seed: int | np.random.SeedSequence) -> None:
        if not isinstance(seed, np.random.SeedSequence):
            try:
                number = operator.index(seed)
            except TypeError:
                number = -1
            if number < 0 or isinstance(seed, bool):
                raise ValueError(
                    f"seed must be an integer of at least 0, got {seed!r}. Use for example seed=0."
                )
            seed = np.random.SeedSequence(number)
        self._sequence = seed
        self._generator = np.random.Philox(seed)

    @property
    def secure(self) -> bool:
        """False: the stream can be repeated."""
        return False

    def words(self, count: int) -> NDArray[np.uint64]:
        """Draw the next ``count`` words of the stream."""
        drawn: NDArray[np.uint64] = self._generator.random_raw(count)
        return drawn

    def spawn(self, count: int) -> list[SeededBits]:
        """Return ``count`` new streams, independent of this one and of each other."""
        return [SeededBits(child) for child in self._sequence.spawn(count)]
