"""Exact noise on a public grid.

:class:`Noise` draws continuous noise of a given scale *as if* with real numbers, rounded to the
nearest multiple of 2^grid and returned as integers. A value that lies on the same grid plus such
noise is the rounding of value + ideal noise, so a release is post-processing of the ideal mechanism
and has its guarantee, with no floating-point residue in the low bits. How a draw works and why it
is exact: ``docs/proofs/noise.md``.

A draw takes no protected value, so its time cannot depend on one: it depends on the noise alone
(about 2 draws in 10,000 are refined). :meth:`Noise.select` compares noisy scores, and does extra
work when two of them almost tie.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partialmethod
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.core.bits import (
    EXPONENTIAL,
    GAUSSIAN,
    GUMBEL,
    LAPLACE,
    Bits,
    LazyUniform,
    Quantile,
    SystemBits,
    precise_context,
)
from discreet.validate import FloatArray, choice, integer, number

Integers = NDArray[np.int64]
NoiseKind = Literal["gumbel", "exponential"]

_SCALE: dict[str, Any] = {  # no product or quotient of such scales over- or underflows
    "least": 2.0**-900,
    "most": 2.0**900,
    "remedy": "Rescale the values if they are in extreme units.",
}
_GRID: dict[str, Any] = {
    "least": -1000,
    "most": 1000,
    "remedy": "The spacing is 2^grid: choose it with grid_exponent(scale, magnitude).",
}
_RATIO_EXPONENTS = (-100, 41)  # scale / 2^grid lies in [2^-101, 2^41)
_VALUE_LIMIT = 2.0**62  # a value and a noise below it cannot overflow in their int64 sum
_HALF = 0.5 - 2.0**-50  # one half, less the rounding of the comparison itself
_BLOCK = 2**16  # numbers of vectors that are worked on at a time: they stay in the cache


def grid_exponent(scale: float, magnitude: float) -> int:
    """Choose the public grid for noise of this scale on values of at most this magnitude.

    It is about 2^-30 of the scale, and coarser where (magnitude + 64 scale) / 2^grid would reach
    2^61. ``magnitude`` bounds the absolute values (or their sum) that will be put on the grid.

    Privacy
    -------
    Both arguments must be public. Rounding d coordinates to the grid adds up to 2^grid sqrt(d) to
    the L2 sensitivity and 2^grid d to the L1 sensitivity.
    """
    scale = number("scale", scale, **_SCALE)
    remedy = "Pass a public bound on the values."
    magnitude = number("magnitude", magnitude, least=0.0, remedy=remedy)
    finest = math.frexp(magnitude + 64.0 * scale)[1] - 61
    return max(math.frexp(scale)[1] - 1 - 30, finest)


def on_grid(values: ArrayLike, grid: int) -> Integers:
    """Round values to the nearest multiple of 2^grid (ties to even), exactly; return multiples."""
    grid = integer("grid", grid, **_GRID)
    numbers = np.asarray(values, dtype=np.float64)
    with np.errstate(over="ignore", under="ignore"):
        multiples = np.rint(np.ldexp(numbers, -grid))  # exact, or out of range and refused
    if not np.all(np.abs(multiples) < _VALUE_LIMIT):  # also catches NaN
        raise ValueError(
            f"values must be finite and below 2^62 grid steps (grid=2^{grid}). "
            "Clip them to a public bound and choose the grid with grid_exponent(scale, magnitude)."
        )
    return multiples.astype(np.int64)


def from_grid(integers: ArrayLike, grid: int) -> FloatArray:
    """Turn integer multiples of 2^grid into floats (nearest double: this is post-processing)."""
    grid = integer("grid", grid, **_GRID)
    multiples = np.asarray(integers)
    if multiples.dtype.kind not in "iu":
        raise ValueError(
            f"integers must be an integer array, got dtype {multiples.dtype}. Use on_grid first."
        )
    floats: FloatArray = np.ldexp(multiples.astype(np.float64), grid)
    return floats


@dataclass(frozen=True)
class Noise:
    """Exact noise from a source of bits; the default, the operating system, protects data.

    ``gaussian``, ``laplace``, ``exponential`` and ``gumbel`` take (size, scale, grid) and draw
    ``size`` numbers, as multiples of 2^grid. ``force_refinement`` sends every draw through the
    high-precision path (for tests: same bits, same result, slower).

    Privacy
    -------
    Every integer returned has exactly the distribution of round(scale * Z / 2^grid) for the ideal
    continuous Z. ``scale`` and ``grid`` must be public. Proof: ``docs/proofs/noise.md``.
    """

    bits: Bits = field(default_factory=SystemBits)
    force_refinement: bool = False

    def _rounded(self, quantile: Quantile, size: int, scale: float, grid: int) -> Integers:
        """Draw ``size`` numbers of a distribution times ``scale``, as multiples of 2^grid."""
        size = integer("size", size, most=2**40)
        ratio = _check_ratio(scale, grid)
        words = self.bits.words(size)
        values, errors = quantile.approximate(words)
        values *= ratio
        errors *= ratio
        nearest = np.rint(values)
        values -= nearest  # exact
        errors += np.abs(values, out=values)
        result = nearest.astype(np.int64)
        undecided = np.arange(size) if self.force_refinement else np.flatnonzero(errors >= _HALF)
        for index in undecided:
            result[index] = self._round_precisely(quantile, int(words[index]), ratio)
        return result

    gaussian = partialmethod(_rounded, GAUSSIAN)  # standard deviation ``scale``
    laplace = partialmethod(_rounded, LAPLACE)  # density exp(-|x| / scale) / (2 scale)
    exponential = partialmethod(_rounded, EXPONENTIAL)  # positive, of mean ``scale``
    gumbel = partialmethod(_rounded, GUMBEL)  # P(x <= t) = exp(-exp(-t / scale))

    def l2_norm(self, size: int, scale: float, grid: int, count: int | None = None) -> Integers:
        """Draw a vector of density proportional to exp(-||z||_2 / scale), as multiples of 2^grid.

        Its norm has the Gamma(size, scale) distribution, its direction is uniform on the unit
        sphere. With ``count``, an array of this many independent vectors. On a grid of 2^-30 of the
        scale, a vector of more than 200 coordinates is nearly always refined, at 0.2 ms per
        coordinate; a grid of 2^-20 avoids this.
        """
        size = integer("size", size, most=2**40)
        vectors = 1 if count is None else integer("count", count, most=2**40)
        ratio = _check_ratio(scale, grid)
        result = np.empty((vectors, size), dtype=np.int64)
        height = max(1, _BLOCK // size)
        for start in range(0, vectors, height):
            part = result[start : start + height]
            words = self.bits.words(2 * part.size).reshape(len(part), 2, size)
            self._round_vectors(words, ratio, part)
        return result[0] if count is None else result

    def select(self, scores: ArrayLike, scale: float, kind: NoiseKind = "gumbel") -> int:
        """Return the index of the largest scores[i] + scale * noise[i], for ideal continuous noise.

        Scores are taken as the exact numbers that the doubles are. Gumbel noise is the exponential
        mechanism; positive exponential noise is permute-and-flip.
        """
        quantiles = {"gumbel": GUMBEL, "exponential": EXPONENTIAL}
        quantile = quantiles[choice("kind", kind, quantiles)]
        scale = number("scale", scale, **_SCALE)
        numbers = np.asarray(scores, dtype=np.float64)
        if numbers.ndim != 1 or numbers.size == 0 or not np.isfinite(numbers).all():
            raise ValueError(
                f"scores must be a vector of at least one finite number, got shape {numbers.shape} "
                "or a value that is not finite. Clip the scores to a public range."
            )
        words = self.bits.words(numbers.size)
        noise, errors = quantile.approximate(words)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            gaps = (numbers - numbers.max()) / scale  # at most 0, relative error below 2^-51
            highest = gaps * (1 - 2.0**-50) + noise + errors
            lowest = gaps * (1 + 2.0**-50) + noise - errors
        out = highest < lowest.max()  # False where NaN: such a candidate stays in
        contenders = np.arange(numbers.size) if self.force_refinement else np.flatnonzero(~out)
        if contenders.size == 1 and not self.force_refinement:
            return int(contenders[0])
        return self._select_precisely(quantile, numbers, words, scale, contenders)

    def _round_precisely(self, quantile: Quantile, word: int, ratio: float) -> int:
        """Draw bits until the rounding of ratio * quantile is the same all over the interval."""
        uniform = LazyUniform(word, self.bits)
        while True:
            value, error = quantile.refine(uniform)
            context = precise_context(uniform.precision)
            scaled = value * ratio
            nearest = context.nint(scaled)
            if abs(scaled - nearest) + error * ratio < 0.5:
                return int(nearest)

    def _select_precisely(
        self,
        quantile: Quantile,
        scores: FloatArray,
        words: NDArray[np.uint64],
        scale: float,
        contenders: NDArray[np.intp],
    ) -> int:
        """Draw bits of the contenders' noise until one of them is certain to be the largest."""
        top = float(scores.max())
        pool = {int(index): LazyUniform(int(words[index]), self.bits) for index in contenders}
        while True:
            noise = {index: quantile.refine(uniform) for index, uniform in pool.items()}
            precision = max(uniform.precision for uniform in pool.values())
            context = precise_context(precision)
            lowest, highest = {}, {}
            for index, (value, error) in noise.items():
                gap = (context.mpf(float(scores[index])) - top) / scale
                reach = error + abs(gap) * context.ldexp(1, 4 - precision)
                lowest[index], highest[index] = value + gap - reach, value + gap + reach
            best = max(lowest.values())
            pool = {index: uniform for index, uniform in pool.items() if highest[index] >= best}
            if len(pool) == 1:
                return next(iter(pool))

    def _round_vectors(self, words: NDArray[np.uint64], ratio: float, out: Integers) -> None:
        """Write ratio * length * direction, rounded, to out; one vector per row.

        ``words`` has shape (vectors, 2, size): those of the Gaussians that make the direction, and
        those of the exponentials that add up to the length.
        """
        size = out.shape[1]
        normals, normal_errors = GAUSSIAN.approximate(words[:, 0])
        steps, step_errors = EXPONENTIAL.approximate(words[:, 1])
        norms = np.sqrt(_row_sums(normals * normals))
        lengths = _row_sums(steps)
        reach = _VectorReach(
            norms,
            lengths,
            normal_errors.max(axis=1),
            np.linalg.norm(normal_errors, axis=1),
            step_errors.sum(axis=1),
        )
        with np.errstate(all="ignore"):  # a vector without finite bounds is refined below
            largest = np.maximum(normals.max(axis=1), -normals.min(axis=1)) / norms
            normals *= (ratio * lengths / norms)[:, None]
            rounding = (size.bit_length() + 4) * 2.0**-51 * ratio * lengths * largest
            errors = ratio * reach.of(largest) + rounding
            nearest = np.rint(normals)
            normals -= nearest  # exact
            decided = errors + np.maximum(normals.max(axis=1), -normals.min(axis=1)) < _HALF
            decided &= reach.valid
            out[:] = nearest.astype(np.int64)
        undecided = range(len(out)) if self.force_refinement else np.flatnonzero(~decided)
        for index in undecided:
            if not self.force_refinement and reach.valid[index]:
                # Most coordinates are far smaller than the largest, and so are their errors.
                units = np.abs(nearest[index] + normals[index]) / (ratio * lengths[index])
                bounds = ratio * reach.at(int(index)).of(units) + rounding[index]
                if np.all(np.abs(normals[index]) + bounds < _HALF):
                    continue
            out[index] = self._vector_precisely(words[index, 0], words[index, 1], ratio)

    def _vector_precisely(
        self, normal_words: NDArray[np.uint64], step_words: NDArray[np.uint64], ratio: float
    ) -> Integers:
        """Draw bits of all the vector's parts until every coordinate's rounding is certain."""
        size = normal_words.size
        normal_uniforms = [LazyUniform(int(word), self.bits) for word in normal_words]
        step_uniforms = [LazyUniform(int(word), self.bits) for word in step_words]
        while True:
            normals, normal_errors = zip(*map(GAUSSIAN.refine, normal_uniforms), strict=True)
            steps, step_errors = zip(*map(EXPONENTIAL.refine, step_uniforms), strict=True)
            precision = max(uniform.precision for uniform in normal_uniforms + step_uniforms)
            context = precise_context(precision + size.bit_length())
            norm = context.sqrt(context.fsum(value * value for value in normals))
            length = context.fsum(steps)
            reach = _VectorReach(
                norm,
                length,
                max(normal_errors),
                context.sqrt(context.fsum(error * error for error in normal_errors)),
                context.fsum(step_errors),
            )
            if not reach.valid:
                continue
            units = [value / norm for value in normals]
            values = [unit * (ratio * length) for unit in units]
            nearest = [context.nint(value) for value in values]
            rounding = context.ldexp(1, 8 - precision)
            if all(
                abs(value - integer) + ratio * reach.of(abs(unit)) + rounding * abs(value) < 0.5
                for unit, value, integer in zip(units, values, nearest, strict=True)
            ):
                return np.array([int(integer) for integer in nearest], dtype=np.int64)


@dataclass(frozen=True)
class _VectorReach:
    """Error bounds of length * direction against the ideal vector (arrays or mpmath numbers).

    ``normal_error`` bounds the error of each Gaussian and ``normal_errors`` the norm of all of
    them, ``length_error`` the sum of those of the exponentials.
    """

    norm: Any
    length: Any
    normal_error: Any
    normal_errors: Any
    length_error: Any

    @property
    def valid(self) -> Any:
        """True if the errors are small enough that 1 % covers the bound's second-order terms."""
        direction = 1000 * self.normal_errors <= self.norm
        length = 1000 * self.length_error <= self.length
        return direction & length

    def at(self, index: int) -> _VectorReach:
        """Return the bounds of one of several vectors."""
        parts = (self.norm, self.length, self.normal_error, self.normal_errors, self.length_error)
        return _VectorReach(*(part[index] for part in parts))

    def of(self, unit: Any) -> Any:
        """Bound the error of a coordinate of which the direction has absolute value ``unit``."""
        direction_error = (self.normal_error + unit * self.normal_errors) / self.norm
        return 1.01 * (unit * self.length_error + self.length * direction_error)


def _row_sums(values: FloatArray) -> FloatArray:
    """Add up each row by halves: no number is rounded more than 2 log2(size) times."""
    while (half := values.shape[1] // 2) > 0:
        sums = values[:, :half] + values[:, half : 2 * half]
        if values.shape[1] % 2:
            sums[:, 0] += values[:, -1]
        values = sums
    return values[:, 0]


def _check_ratio(scale: float, grid: int) -> float:
    """Return scale / 2^grid, which is exact."""
    scale, grid = number("scale", scale, **_SCALE), integer("grid", grid, **_GRID)
    smallest, largest = _RATIO_EXPONENTS
    if not smallest <= math.frexp(scale)[1] - grid <= largest:
        raise ValueError(
            f"scale / 2^grid must lie between 2^{smallest - 1} and 2^{largest}, "
            f"got scale={scale!r}, grid={grid!r}. "
            "Choose the grid with grid_exponent(scale, magnitude)."
        )
    return math.ldexp(scale, -grid)
