"""`Windows`: bring each column of numbers to the window in which nearly all of its numbers lie.

Numbers are first counted by their sign and binary exponent, then in equal parts of the window that
these counts give. It is narrowed to the parts that hold nearly all rows, if noise leaves no doubt
that they do. Public bounds limit a window. A number is clipped at twice the width of its column's
window, so a wrong window costs that column its signal and no other.

Proof: docs/proofs/preparation.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from discreet.accounting.budget import Measure
from discreet.core import Curator, Gaussian
from discreet.core.questions import EdgeCounts, NoisySum
from discreet.preparation.bounds import FittedBounds, distinct
from discreet.preparation.steps import Known, RowNorms, Share, Step
from discreet.validate import FloatArray, Positive, integer

__all__ = ["FittedWindows", "Numbers", "Windows"]

EXPONENTS = (-30, 60)
"""Powers of two between which numbers are told apart: 1e-9 to 1e18."""

PARTS = 64
"""Equal parts of a window in which numbers are counted."""

REACH = 2.0
"""Numbers are clipped at this many times the half-width of the window, from its middle."""

TEMPLATES = ((0.2, 0.3, 0.22, 0.13, 0.07, 0.04), (1.0,))
"""Shares of the rows by exponent, from that of the largest numbers downwards: of numbers that are
spread around 0, and of numbers far from 0."""

AMOUNTS = (1.0, 0.3, 0.1, 0.01)
"""Shares of the rows that have a number other than 0."""

TYPICAL = 4
"""Exponent around which units are the most likely, before any count."""

SPREAD = 5.0
"""Distance of exponents over which they become less likely by a factor e."""

POOLED = 10
"""Times that the posterior of the columns becomes their prior."""

EXCEEDED = 0.2
"""Posterior probability that the exponent of a column's large numbers is larger than the chosen."""

CERTAIN = 0.95
"""Posterior probability, near the chosen exponent, at which counts say something about a column of
whole numbers."""

CERTAIN_WITHIN = 2
"""Distance of exponents that are near."""

LEAST_SIDE = 0.5
"""Posterior probability of numbers on a side of 0, at which the window has that side."""

FALSE_ALARM = 1e-5
"""Probability that noise alone extends any window, at twice its size."""

LEAST_TAIL = 0.001
"""Share of the rows that numbers of one size must have, to be worth a larger window."""

NEARLY_ALL = 0.999
"""Share of a column's numbers that a narrowed window holds."""

SLACK = 2.0
"""Deviations of the noise in one count by which the count of a narrowed window may be less."""

DOUBT = 0.07
"""Largest noise in the count of a narrowed window, as a share of the rows."""


class Numbers(NamedTuple):
    """Public knowledge about columns of numbers, an entry for each.

    Those that are ``bounded`` are in [0, 1]. ``step`` is the difference of neighbouring numbers of
    a column of whole numbers, else 0.
    """

    bounded: tuple[bool, ...]
    step: tuple[float, ...]


@dataclass(frozen=True)
class Windows(Step):
    """Bring columns of numbers to windows: a number x becomes (x − middle)/half-width.

    Parameters
    ----------
    columns : sequence of int
        Columns of X, counted from 0.
    known : Numbers
        What is public about them.
    others : int
        Number of other parts of a row, each of norm at most 1: the categories and truth values.
    share : float
        Share of the budget, for all of the columns together.

    Notes
    -----
    *Privacy.* Two noisy counts of the columns' entries between edges that are public or follow from
    the first one. The windows are computed from the counts, and released.
    """

    columns: Sequence[int]
    known: Numbers
    others: Annotated[int, partial(integer, least=0)] = 0
    share: Share = 0.05
    name: ClassVar[str] = "windows"
    bounded: ClassVar[bool] = False
    of_columns: ClassVar[bool] = True
    sets_norm: ClassVar[bool] = True
    takes_gaps = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "columns", distinct(self.columns))
        object.__setattr__(self, "known", Numbers._make(tuple(each) for each in self.known))
        if any(len(each) != len(self.columns) for each in self.known):
            raise ValueError("known must have one entry for each of the columns.")

    def mechanism(self, measure: Measure, total: Fraction) -> Any:
        """Return the mechanism whose two uses cost at most ``total``."""
        if measure == "gdp":
            return Gaussian.sharing(float(total), 2)
        return super().mechanism(measure, total / 2)

    def fit(self, curator: Curator, mechanism: Any, norms: Known) -> tuple[FittedWindows, Known]:
        """Ask for the counts; rows of a norm above that of their parts are rare then."""
        columns = tuple(self.columns)
        edges = np.tile(exponent_edges(), (len(columns), 1))
        noisy = curator.ask(EdgeCounts(columns, edges), mechanism)
        low, high = measured_windows(noisy, np.array(self.known.step), curator.n_rows)
        bounded = np.array(self.known.bounded)
        low = np.where(bounded, np.maximum(low, 0.0), low)
        high = np.where(bounded, np.minimum(high, 1.0), high)
        empty = ~(low < high)  # all of it is beyond the bounds, by noise
        low = np.where(empty, 0.0, low)
        high = np.where(empty, 1.0, high)
        parts = np.linspace(low, high, PARTS + 1, axis=1)
        noisy = curator.ask(EdgeCounts(columns, parts), mechanism)
        low, high = narrowed_windows(noisy, parts, np.array(self.known.step), curator.n_rows)
        norm = math.sqrt(self.others + len(columns))
        fitted = FittedWindows(columns, low, high, noisy.deviation)
        return fitted, RowNorms.raw_up_to(norm)


@dataclass(frozen=True, eq=False)
class FittedWindows(FittedBounds):
    """Columns and their windows: x becomes (x − middle)/half-width, clipped to ±`REACH`.

    A missing number becomes 0, the middle of its window.
    """

    columns: tuple[int, ...]
    low: FloatArray
    high: FloatArray
    deviation: Positive
    name: ClassVar[str] = "windows"
    limits: ClassVar[tuple[float, float]] = (-REACH, REACH)

    @property
    def condition(self) -> str:
        """Statement of what the privacy of the step rests on."""
        return (
            f"numbers of {len(self.columns)} columns were counted between edges that are public or "
            "follow from earlier counts, the counts released with noise of standard deviation "
            f"{self.deviation:.4g}, and columns clipped and scaled by them"
        )

    @property
    def ends(self) -> tuple[float, float]:
        """Image of the ends of a window."""
        return -1.0, 1.0

    @property
    def origin(self) -> FloatArray:
        """Middle of each window."""
        return self.low / 2 + self.high / 2

    @property
    def unit(self) -> FloatArray:
        """Half of the width of each window."""
        return self.high / 2 - self.low / 2


def exponent_edges() -> FloatArray:
    """Return 0 and ± the powers of two between which numbers are told apart, increasing."""
    powers = np.exp2(np.arange(EXPONENTS[0], EXPONENTS[1] + 1.0))
    return np.concatenate([-powers[::-1], [0.0], powers])


def measured_windows(
    noisy: NoisySum, steps: FloatArray, n_rows: int
) -> tuple[FloatArray, FloatArray]:
    """Return the window of each column around its 0, from noisy counts by sign and exponent.

    The exponent of a column's large numbers follows from its posterior: of all shifts of
    `TEMPLATES`, each with all or a part of the rows and on either side of 0 or on both, by their
    likelihood under the noise. The prior of a column is the mean posterior of the others. It is the
    exponent that is exceeded with a probability of `EXCEEDED`, as a window that is too wide costs
    less. Larger numbers that are detected extend the window. That of whole numbers has at least one
    of their steps; it has one if the posterior says nothing.
    """
    counts = noisy.values.reshape(len(steps), -1)[:, :-1]
    cells = counts.shape[1] // 2
    powers = exponent_edges()[cells + 1 :]
    least = np.searchsorted(powers, steps * (1 - 2.0**-40))
    sides = np.stack([counts[:, cells - 1 :: -1], counts[:, cells:]], axis=1)
    found = np.zeros((len(steps), 2))
    tops, weights = exponent_posterior(sides, least, noisy.deviation, n_rows)
    for k, step in enumerate(steps):
        here = weights[k].sum(axis=1)
        main = int(here.argmax())
        largest = int(tops[_quantile(weights[k, main])])
        near = np.abs(tops - largest) <= CERTAIN_WITHIN
        if step and weights[k, main, near].sum() < CERTAIN * here[main]:
            found[k, 1] = powers[least[k]]
            continue
        for side in range(2):
            top = int(tops[_quantile(weights[k, side])]) if here[side] > LEAST_SIDE else 0
            top = max(top, _detected(sides[k, side], top, largest, noisy.deviation, n_rows))
            below = step if powers[top] > step else 0.0  # whole numbers below a power of two
            found[k, side] = powers[top] - below if top else 0.0
    found[~found.any(axis=1)] = powers[-1]
    return -found[:, 0], found[:, 1]


def _quantile(weights: FloatArray) -> int:
    """Return the first place beyond which at most `EXCEEDED` of the weights lie."""
    sums = np.cumsum(weights)
    return min(int(np.searchsorted(sums, (1 - EXCEEDED) * sums[-1])), weights.size - 1)


def exponent_posterior(
    sides: FloatArray, least: NDArray[np.intp], deviation: float, n_rows: int
) -> tuple[FloatArray, FloatArray]:
    """Return exponents, and the posterior weight of each by column and side of 0.

    ``least`` is the least exponent that a column can have. Weights of the two sides add up to 1
    where numbers are on one side, to 2 where on both.
    """
    columns, _, cells = sides.shape
    shapes = []
    for template in TEMPLATES:
        table = np.zeros((cells, cells))  # by exponent of the largest, and cell
        for place, share in enumerate(template):
            for top in range(max(place + 1, 1), cells):
                table[top, top - place] = share
        shapes.append(table[1:])
    tops = np.arange(1.0, cells)
    logs = []
    kinds = []
    for shape in shapes:
        for amount in AMOUNTS:
            for pattern in ((0.0, 1.0), (1.0, 0.0), (0.5, 0.5)):
                mean = amount * n_rows * shape  # (tops, cells)
                dot = sum(part * sides[:, side] @ mean.T for side, part in enumerate(pattern))
                square = sum(part**2 for part in pattern) * (mean**2).sum(axis=1)
                logs.append((dot - square / 2) / deviation**2)
                kinds.append(pattern)
    table = np.stack(logs, axis=1)  # (columns, kinds, tops)
    table[np.broadcast_to((tops < least[:, None])[:, None], table.shape)] = -np.inf
    before = np.exp(-np.abs(tops + EXPONENTS[0] - TYPICAL) / SPREAD)
    before /= before.sum()
    prior = np.tile(before, (columns, 1))
    for _ in range(POOLED):
        scores = table + np.log(prior)[:, None]
        scores -= scores.max(axis=(1, 2), keepdims=True)
        posterior = np.exp(scores)
        posterior /= posterior.sum(axis=(1, 2), keepdims=True)
        own = posterior.sum(axis=1)
        prior = (before + own.sum(axis=0) - own) / columns  # that of a column is from the others
    weights = np.zeros((columns, 2, tops.size))
    for kind, pattern in enumerate(kinds):
        for side in range(2):
            weights[:, side] += (pattern[side] > 0) * posterior[:, kind]
    return tops, weights


def _detected(counts: FloatArray, top: int, near: int, deviation: float, n_rows: int) -> int:
    """Return the largest exponent above ``top`` of which numbers are detected; 0 if none is.

    The farther it is from ``near``, the less likely noise alone may show it: by half for each power
    of two.
    """
    places = np.arange(top + 1, counts.size)
    alarms = FALSE_ALARM * 2.0 ** -np.abs(places - near)
    least = np.maximum(-ndtri(alarms) * deviation, LEAST_TAIL * n_rows)
    found = places[counts[places] > least]
    return int(found[-1]) if found.size else 0


def narrowed_windows(
    noisy: NoisySum, parts: FloatArray, steps: FloatArray, n_rows: int
) -> tuple[FloatArray, FloatArray]:
    """Return windows narrowed to the fewest neighbouring parts that hold nearly all rows.

    Where noise is too large to tell, the window stays as it is. Windows of whole numbers have at
    least one of their ``steps``.
    """
    counts = noisy.values.reshape(len(parts), -1)
    low = parts[:, 0].copy()
    high = parts[:, -1].copy()
    for k, own in enumerate(counts[:, :-1]):
        present = n_rows - max(float(counts[k, -1]), 0.0)
        sums = np.concatenate([[0.0], np.cumsum(own)])
        for width in range(1, PARTS):
            if noisy.deviation * math.sqrt(width) > DOUBT * n_rows:
                break
            inside = sums[width:] - sums[:-width]
            first = int(inside.argmax())
            if inside[first] >= NEARLY_ALL * present - SLACK * noisy.deviation:
                low[k] = parts[k, first]
                high[k] = max(parts[k, first + width], low[k] + steps[k])
                break
    return low, high
