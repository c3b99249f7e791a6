"""Rules that divide the share of one model: clips, cuts, and parts for each measurement.

They see public numbers and what was released before: numbers of rows and weights, the budget, and
the usual size of slopes and curvatures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from discreet.inference.hessian import CLIPS, HESSIAN_SHARE, Usual, hessian_error
from discreet.inference.means import Source
from discreet.inference.shares import PRECISION, SHARES, share_for, within
from discreet.objectives.advice import LIMIT

__all__ = ["Allocation", "Clip", "Dispersion", "Extras"]

SCORE_NOISE = 0.3
"""The clip of norms, and then the cut of residuals, are as large as they can be while the noise in
a score is this share of its sampling error: intervals are 5 % wider by it."""

SMALLEST_CUT = 1.345
"""Smallest cut of residuals, over their scale. With normal errors it has 95 % of the efficiency of
least squares."""

MOST_VARIANCE_NOISE = 0.35
"""Variances of single coefficients are measured where their noise is at most this share of them."""


class Extras(NamedTuple):
    """Parts of the share for what is measured beside the coefficients; 0 for what is not."""

    inside: float = 0.0
    tails: float = 0.0
    bound: float = 0.0
    variances: float = 0.0
    cuts: float = 0.0
    scale: float = 0.0


class Clip(NamedTuple):
    """Share of the last Hessian, and clip of norms over √p."""

    share: float
    factor: float


@dataclass(frozen=True)
class Dispersion:
    """Rules for the mean squared score, by what is known of slopes.

    ``squares`` are the rows that are asked for it, for a ``share`` (0 if the likelihood states it
    and noise would hide it), and ``most`` is the largest clip over √p at which it is precise.
    """

    squares: Source
    stated: bool
    share: float
    most: float


@dataclass(frozen=True)
class Allocation:
    """Rules for ``size`` weights of some rows, on a budget of μ = ``mu``.

    ``nearest`` is the smallest clip of norms over √p.
    """

    rows: Source
    few: Source
    size: int
    mu: float
    nearest: float = CLIPS[0]

    @property
    def changed(self) -> int:
        """Rows that differ between neighbours: 1 or 2."""
        return self.rows.curator.relation.rows_changed

    def error(self, of: Source, usual: Usual) -> float:
        """Return the relative error of a Hessian that takes all of the share, at `nearest`."""
        mu = self.mu / math.sqrt(self.changed)
        wider = (self.nearest / CLIPS[0]) ** 2
        return wider * hessian_error(of.n_rows, self.size, mu, usual.curvature)

    def hessian_rows(self, usual: Usual) -> Source:
        """Return the sample, if its Hessian is precise for the least share at the largest clip."""
        error = self.error(self.few, usual) * (CLIPS[1] / self.nearest) ** 2
        return self.few if error < PRECISION * math.sqrt(SHARES[1]) else self.rows

    def score_noise(self, left: float, factor: float) -> float:
        """Return the noise in a score over its sampling error, for slopes of the size 1.

        It is for a bound of 1 on slopes, and a clip of norms over √p.
        """
        signal = math.sqrt(self.rows.n_rows * left) * self.mu
        return self.changed * factor * math.sqrt(self.size) / signal

    def variance_share(self) -> float:
        """Return the part for variances of single coefficients, 0 if noise would hide them.

        Units are cut at the largest norm that a row has at the clip and a residual at the limit, or
        at the clip at least.
        """
        n_rows = self.rows.n_rows
        noise = math.sqrt(self.changed) * (LIMIT * CLIPS[1]) ** 2 * self.size / (n_rows * self.mu)
        share = share_for(noise)
        least = noise / (LIMIT**2 * math.sqrt(share))
        return share if least < MOST_VARIANCE_NOISE else 0.0

    def dispersion(self, slope: float, *, stated: bool) -> Dispersion:
        """Return which rows are asked for squared scores, and for which share."""
        noise = CLIPS[1] ** 2 / (slope**2 * self.few.n_rows * self.mu)
        squares = self.few if share_for(noise) == SHARES[0] else self.rows
        noise *= self.few.n_rows / squares.n_rows
        share = share_for(noise)
        if stated and noise > PRECISION * math.sqrt(share):
            share = 0.0
        precise = 1.0 if stated else PRECISION * math.sqrt(share) / noise
        return Dispersion(squares, stated, share, CLIPS[1] * math.sqrt(min(precise, 1.0)))

    def clip(self, hessians: Source, left: float, usual: Usual, most: float) -> Clip:
        """Return the share of the last Hessian, and the clip of norms over √p, at ``most``."""
        error = self.error(hessians, usual)
        share = share_for(error, (SHARES[1], HESSIAN_SHARE))
        noise = self.score_noise(left - share, 1.0) / usual.slope
        by_hessian = self.nearest * math.sqrt(PRECISION * math.sqrt(share) / error)
        return Clip(share, max(self.nearest, min(SCORE_NOISE / noise, by_hessian, most)))

    def cut(self, left: float, factor: float) -> float:
        """Return the cut of residuals over their scale, at a clip of norms over √p."""
        noise = self.score_noise(left, factor)
        return within(SCORE_NOISE / noise, (SMALLEST_CUT, LIMIT))

    def widest_cut(self, left: float, factor: float, share: float) -> float:
        """Return the widest cut, beyond `LIMIT` if scores and their squares stay precise.

        A wider cut biases less where errors are skewed and their spread depends on a column.
        """
        # squared scores have noise in proportion to the squared cut
        squares = self.rows.n_rows * self.mu * math.sqrt(share) / factor**2
        wide = min(PRECISION / self.score_noise(left, factor), math.sqrt(PRECISION * squares))
        return max(wide, self.cut(left, factor))
