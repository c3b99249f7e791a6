"""Shares of noise: what one site adds so that the sum over all sites has the noise that is charged.

Each site puts its exact sum on a public grid and adds a Gaussian that is rounded to the grid. The
sum of K such numbers is within a negligible distance of a randomised rounding of the pooled sum
with ideal Gaussian noise, so it has the privacy of the Gaussian mechanism.

Proof: docs/proofs/sites.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.core import ExponentialMechanism, Gaussian, Noise
from discreet.core.noise import Integers, on_grid
from discreet.core.questions import MedianNorm, MedianSlope, Public, SumQuestion
from discreet.errors import NotSupported, PrivacyError
from discreet.rows import UNIT_ROUNDOFF, Rows, Sum
from discreet.rows.moments import norm_candidates
from discreet.validate import FloatArray, integer

LEAST_RATIO = 2.0**10
"""Least standard deviation of a site's noise in steps of the grid: docs/proofs/sites.md, part 2."""

BLOCK = 27
"""Neighbouring candidates that are counted together: about the root of the number of candidates, so
that a count of all below one adds up as few noisy numbers as possible."""


class Share(NamedTuple):
    """A site's part of an answer: multiples of 2^grid, and the scale of the noise of all sites."""

    values: Integers
    grid: int
    scale: float


@dataclass(frozen=True)
class GaussianShare(Gaussian):
    """A part of the noise of a Gaussian mechanism: ``parts`` of them add up to all of it.

    Privacy
    -------
    The sum of at least ``parts`` shares with the same grid, added to a sum on the grid, has the
    cost of one release by ``Gaussian(noise_multiplier)``. Proof: docs/proofs/sites.md, part 2.
    """

    parts: int = 1
    name: ClassVar[str] = "gaussian share"

    def __post_init__(self) -> None:
        super().__post_init__()
        integer("parts", self.parts, most=1000)

    def _draw(self, noise: Noise, count: int, size: int, scale: float, grid: int) -> Integers:
        own = scale / math.sqrt(self.parts) * (1 + 2.0**-50)
        if not own >= LEAST_RATIO * 2.0**grid:
            raise PrivacyError(
                f"A site's noise would have a standard deviation of {own / 2.0**grid:g} steps of "
                f"the grid, and the proof needs {LEAST_RATIO:g}. Nothing was released. Use fewer "
                "sites, a smaller clip or a smaller budget."
            )
        return super()._draw(noise, count, size, own, grid)


def share_of(
    exact: Sum,
    question: SumQuestion,
    mechanism: Gaussian,
    public: Public,
    *,
    sites: int,
    sharing: int,
    noise: Noise,
) -> Share:
    """Return a site's exact sum on the grid with its share of the noise.

    Each coordinate is cut to its public bound, which never takes two vectors apart. The grid leaves
    room for the sum of all sites.
    """
    sensitivity, magnitude = question.limits(exact, public)
    part = GaussianShare(mechanism.noise_multiplier, sharing)
    drawn, grid, scale = part.draw_block(
        noise, 1, exact.values.size, sensitivity=sensitivity, magnitude=sites * magnitude
    )
    protected = on_grid(np.clip(exact.values, -magnitude, magnitude), grid)
    return Share(protected + drawn[0], grid, scale)


# ---- medians by noisy counts: a choice by Gumbel noise cannot be divided among sites


@dataclass(frozen=True, eq=False)
class MedianCounts(SumQuestion):
    """Numbers of rows by the candidate that their size is at, and by blocks of candidates.

    It takes the place of a choice of a median, whose noise cannot be divided. ``median`` is that
    question; a unit adds at most 1 in all to the counts of candidates, and to those of blocks.
    """

    median: MedianNorm | MedianSlope
    acute: ClassVar[bool] = True
    largest: ClassVar[float | None] = 1.0
    protected: ClassVar[str] = "counts of rows by size, and by blocks of sizes"
    proof: ClassVar[str] = "sites"

    @property
    def bound(self) -> float:
        """L2 norm that no unit's vector exceeds."""
        return math.sqrt(2.0)

    def check(self, public: Public, mechanism: Any) -> None:
        """Raise if the median does not fit the rows."""
        self.median.check(public, ExponentialMechanism(1.0, monotone=False))
        super().check(public, mechanism)

    def on(self, rows: Rows) -> Sum:
        """Return the exact counts; sums of weights are exact up to a rounding of each total."""
        counts = self.median.on(rows)
        pairs = counts.values[:-1].reshape(-1, 2).sum(axis=1)
        pairs[-1] += counts.values[-1]  # beyond the last candidate
        blocks = np.add.reduceat(pairs, np.arange(0, pairs.size, BLOCK))
        both = np.concatenate([pairs, blocks]).astype(np.float64) / counts.unit
        rounding = 2 * UNIT_ROUNDOFF * (rows.public_size + 1) * math.sqrt(both.size)
        return Sum(both, rounding if counts.unit > 1 else 0.0)

    def chosen(self, noisy: FloatArray) -> float:
        """Return the smallest candidate that about half of the noisy count does not exceed."""
        candidates = norm_candidates(self.median.largest)
        cells, blocks = noisy[: candidates.size], noisy[candidates.size :]
        half = blocks.sum() / 2
        below = np.cumsum(blocks)
        block = min(int(np.searchsorted(np.maximum.accumulate(below), half)), blocks.size - 1)
        first = block * BLOCK
        within = (below[block] - blocks[block]) + np.cumsum(cells[first : first + BLOCK])
        place = int(np.searchsorted(np.maximum.accumulate(within), half))
        return float(candidates[first + min(place, within.size - 1)])


def divided(question: Any, mechanism: Any) -> tuple[SumQuestion, Gaussian]:
    """Return the question and mechanism by which sites that add noise themselves can answer.

    The choice of a median becomes a noisy count of the same cost in Gaussian DP or less. All else
    must be a sum with Gaussian noise.
    """
    if isinstance(question, MedianNorm | MedianSlope) and isinstance(
        mechanism, ExponentialMechanism
    ):
        mu = mechanism.loss.mu * (1 - 2.0**-50)
        return MedianCounts(question), Gaussian(1 / mu)
    if not is_divisible(question, mechanism):
        raise NotSupported(
            f"{type(question).__name__} with {type(mechanism).__name__} noise cannot be divided "
            "among sites that add noise themselves: only sums with Gaussian noise can. Use "
            "solver='gd' or 'auto' with public bounds, or a trusted aggregator."
        )
    return question, mechanism


def is_divisible(question: Any, mechanism: Any) -> bool:
    """Return True for a sum with Gaussian noise, which sites can add by shares."""
    plain = isinstance(question, SumQuestion) and type(question).release is SumQuestion.release
    return plain and type(mechanism) is Gaussian


def summed(values: NDArray[np.uint64]) -> Integers:
    """Add up vectors of integers modulo 2^64, one row per site, as signed numbers."""
    total: NDArray[np.uint64] = np.add.reduce(values, axis=0, dtype=np.uint64)
    return total.view(np.int64)


def log2_distance(sites: int, ratio: float) -> float:
    """Bound the distance of K rounded Gaussians to the ideal, for one coordinate, as a power of 2.

    ``ratio`` is the standard deviation of one in steps of the grid. Docs/proofs/sites.md, part 2.
    """
    exponent = math.pi**2 * ratio**2 / 2
    alias = 2.01 * math.exp(-exponent)
    reach = 2 * math.pi * ratio**2 * math.sqrt(sites) + sites + 1
    growth = sites * math.log2(1 + alias)
    return math.log2(1.01 * reach * (sites + 1) + 2) + growth - exponent * math.log2(math.e)
