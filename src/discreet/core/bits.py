"""Sources of random bits, and what is made of them: samples of rows, quantiles at uniform numbers.

Noise that protects data is made of :class:`SystemBits`: they come from the operating system at each
call, nothing is kept in the process, so threads, forked children, pickled copies and worker
processes can never repeat one another's bits. :class:`SeededBits` repeats itself on purpose and is
for tests.

Privacy that rests on sampling holds only if nobody can predict the sample, so samples are made of
the same bits as noise, and their probabilities are exact.

Quantiles are inverse distribution functions with error bounds, in double precision and in any
precision. A uniform number U in (0, 1) is written as a half (the top bit of its first 64-bit word:
0 is the lower half) and the distance p in (0, 1/2] to the nearer end, so U = p or U = 1 - p. The
other 63 bits of the word are the leading bits of p: with k their integer, p lies in [k, k + 1] /
2^64. In this form the tails keep their relative precision on both sides.

Two facts carry everything (``docs/proofs/noise.md``):

- each quantile q here satisfies |dq| <= 1.4427 |dp| / p, so bits that were not drawn move q by at
  most 1.5 / k;
- the double-precision evaluation is off by at most ``NUMERIC`` for k >= ``TINY`` (30 times what the
  tests measure).
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from numbers import Integral
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, ndtri_exp

from discreet.accounting.conversions import UNIT
from discreet.validate import FloatArray, integer, number, vector

Index = NDArray[np.intp]

NUMERIC = 6.5e-14  # bound on the error in double precision; two roundings of the caller included
CONDITION = 1.5  # bound on |dq| / (|dp| / p); the true supremum is 1 / ln 2 = 1.4427
TINY = 2**24  # below this k (p < 2^-40) a draw is always refined

_LOW_63 = np.uint64(2**63 - 1)
_ONE = np.uint64(1)

Fast = Callable[[FloatArray, NDArray[np.bool_]], FloatArray]
# (context, p, its bits) -> (quantile, error of the method beyond rounding)
Precise = Callable[[Any, Any, "LazyUniform"], tuple[Any, float]]


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


# ---- quantiles at uniform numbers


_thread = threading.local()


def precise_context(bits: int) -> Any:
    """Return this thread's own mpmath context, set to ``bits`` bits of precision.

    mpmath's default context is shared by all threads, and so is its precision.
    """
    context = getattr(_thread, "context", None)
    if context is None:
        import mpmath  # only the rare refined draw pays for the import

        context = mpmath.MPContext()
        # mpmath updates its cached constants in two steps. Computed once to more bits than any
        # draw asks for, they are never updated while another thread reads them.
        context.prec = 2**12
        _ = +context.pi, +context.ln2
        _thread.context = context
    context.prec = bits
    return context


@lru_cache(maxsize=64)
def _roots(context: Any, bits: int) -> tuple[Any, Any]:
    """Return sqrt(1/2) and sqrt(2 pi) of a context that is set to ``bits`` bits."""
    return context.sqrt(0.5), context.sqrt(2 * context.pi)


class LazyUniform:
    """A uniform number of which only the leading bits are drawn yet: first 64, more on demand."""

    def __init__(self, word: int, bits: Bits) -> None:
        self.word = word
        self.upper = bool(word >> 63)
        self.numerator = word & (2**63 - 1)  # p lies in [numerator, numerator + 1] / 2^length
        self.length = 64
        self._bits = bits

    def extend(self) -> None:
        """Draw 64 more bits, and again until p is known to 64 significant bits."""
        while True:
            self.numerator = (self.numerator << 64) | int(self._bits.words(1)[0])
            self.length += 64
            if self.numerator >> 64:
                return

    @property
    def precision(self) -> int:
        """Number of bits to compute with: rounding is far below the width of p's interval."""
        return self.length + 64


@dataclass(frozen=True)
class Quantile:
    """An inverse distribution function, evaluated fast with an error bound or to any precision."""

    fast: Fast
    precise: Precise

    def approximate(self, words: NDArray[np.uint64]) -> tuple[FloatArray, FloatArray]:
        """Return the quantile at each word as a double, and a bound on its error.

        The bound covers the bits not drawn yet, every rounding here and those of two
        further operations. It is infinite where the draw must be refined.
        """
        odd = (words & _LOW_63) | _ONE  # in [k, k + 1] and never 0
        numerator = odd.astype(np.float64)
        values = self.fast(numerator * 2.0**-64, words > _LOW_63)
        errors = CONDITION / numerator
        errors += NUMERIC
        errors[numerator < TINY] = np.inf
        return values, errors

    def refine(self, uniform: LazyUniform) -> tuple[Any, Any]:
        """Draw more bits of a number; return its quantile and error bound as mpmath numbers."""
        uniform.extend()
        context = precise_context(uniform.precision)
        p = context.ldexp(uniform.numerator, -uniform.length)
        value, method_error = self.precise(context, p, uniform)
        # At least 2 / numerator: 1.5 for the bits not drawn, the rest for rounding.
        error = method_error + context.ldexp(1, 2 - uniform.numerator.bit_length())
        fast, bound = self.approximate(np.array([uniform.word], dtype=np.uint64))
        if not abs(float(value) - fast[0]) <= bound[0]:
            raise ArithmeticError(
                "Two computations of one noise value differ by more than their error bound; "
                "nothing was released. scipy, mpmath or the C library is inaccurate on this "
                "machine: run tests/core/test_noise.py and change their versions."
            )
        return value, error


def _fast_gaussian(p: FloatArray, upper: NDArray[np.bool_]) -> FloatArray:
    values: FloatArray = ndtri(p)
    return np.negative(values, out=values, where=upper)


def _fast_exponential(p: FloatArray, upper: NDArray[np.bool_]) -> FloatArray:
    return -np.log(2.0 * p)


def _fast_laplace(p: FloatArray, upper: NDArray[np.bool_]) -> FloatArray:
    values = np.log(2.0 * p)
    return np.negative(values, out=values, where=upper)


def _fast_gumbel(p: FloatArray, upper: NDArray[np.bool_]) -> FloatArray:
    log_uniform = np.log(p)
    # In the upper half U = 1 - p, and log1p keeps the relative precision.
    np.log1p(-p, out=log_uniform, where=upper)
    return -np.log(-log_uniform)


def _precise_gaussian(context: Any, p: Any, uniform: LazyUniform) -> tuple[Any, float]:
    """Solve Q(z) = p for the upper tail Q by Newton steps with a verified error.

    With t = |Q(z) - p| / phi(z) and t (|z| + 1) <= 1/8, the root is within 2t of z and the next
    iterate is within 4 (|z| + 1) t^2 of the root (``docs/proofs/noise.md``), whatever the start
    was.
    """
    root_half, root_two_pi = _roots(context, context.prec)
    log_p = math.log(uniform.numerator) - uniform.length * math.log(2.0)
    z = context.mpf(-float(ndtri_exp(log_p)))
    tolerance = math.ldexp(1.0, -min(uniform.length // 2, 500))  # its square is still a double
    for _ in range(64):
        x = z * root_half
        step = (context.erfc(x) / 2 - p) * root_two_pi * context.exp(x * x)  # (Q(z) - p) / phi(z)
        t, factor = abs(float(step)), abs(float(z)) + 1
        z += step
        if t * factor <= 0.125 and 4 * factor * t**2 <= tolerance:
            return (z if uniform.upper else -z), tolerance
    raise ArithmeticError(
        "The Gaussian quantile did not converge. Nothing was released; please report this."
    )


def _precise_exponential(context: Any, p: Any, uniform: LazyUniform) -> tuple[Any, float]:
    return -context.log(2 * p), 0.0


def _precise_laplace(context: Any, p: Any, uniform: LazyUniform) -> tuple[Any, float]:
    magnitude = -context.log(2 * p)
    return (magnitude if uniform.upper else -magnitude), 0.0


def _precise_gumbel(context: Any, p: Any, uniform: LazyUniform) -> tuple[Any, float]:
    # 1 - p is exact: it has `length` bits, and the precision is 64 more.
    return -context.log(-context.log(1 - p if uniform.upper else p)), 0.0


GAUSSIAN = Quantile(_fast_gaussian, _precise_gaussian)
LAPLACE = Quantile(_fast_laplace, _precise_laplace)
EXPONENTIAL = Quantile(_fast_exponential, _precise_exponential)
GUMBEL = Quantile(_fast_gumbel, _precise_gumbel)
