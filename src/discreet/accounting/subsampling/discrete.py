"""One step's privacy loss on a grid, never smaller than it is.

Proof: docs/proofs/subsampling.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from discreet.accounting.subsampling.pairs import Pair

__all__ = ["DiscreteLoss", "discretise"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DiscreteLoss:
    """A privacy loss with values on a grid.

    Attributes
    ----------
    interval
        Spacing of the grid.
    start
        The first loss is start · interval.
    masses
        P's mass at each loss.
    errors
        Bounds on the rounding errors of the masses.
    infinite
        P's mass at losses beyond the grid, counted as infinite.
    """

    interval: float
    start: int
    masses: FloatArray
    errors: FloatArray
    infinite: float

    @property
    def losses(self) -> FloatArray:
        """The losses that the masses belong to."""
        return self.interval * np.arange(
            self.start, self.start + self.masses.size, dtype=np.float64
        )

    def log_moment(self, theta: float, rounded_up: bool = False) -> float:
        """Ln E[exp(θ·loss)] of the finite part, as computed or with its masses' errors."""
        masses = self.masses + self.errors if rounded_up else self.masses
        exponents = theta * self.losses
        top = float(exponents.max())
        return top + math.log(float((masses * np.exp(exponents - top)).sum()))


def discretise(pair: Pair, interval: float, low: float, high: float) -> DiscreteLoss:
    """Put the loss of ``pair`` between ``low`` and ``high`` on a grid.

    Within each cell, e^−loss is spread to the cell's two ends such that its mean under P stays.
    Mass below the grid moves up to its first point, mass above it counts as infinite.
    """
    first = 0 if pair.mirrored else math.floor(low / interval)
    last = max(first + 1, math.ceil(high / interval))
    edges: FloatArray = interval * np.arange(first, last + 1, dtype=np.float64)
    x = pair.position(edges)
    if np.isinf(x[-1]):
        last_finite = int(np.flatnonzero(np.isfinite(x))[-1]) + 1
        edges, x = edges[: last_finite + 1], x[: last_finite + 1]
    p, p_errors = pair.masses(pair.first, x)
    q, q_errors = pair.masses(pair.second, x)
    infinite = pair.above(pair.first, float(x[-1])) * (1 + 2.0**-30)
    up = _upper_share(p, q, p_errors, q_errors, edges[:-1], interval)
    masses = np.append(p * (1 - up), 0.0)
    masses[1:] += p * up
    errors = np.append(p_errors, 0.0)
    errors[1:] += p_errors
    if not pair.mirrored:
        below = _below(pair, float(x[0]))
        masses[0] += below
        errors[0] += 2.0**-45 * below
        return DiscreteLoss(interval, first, masses, errors, infinite)
    up = _upper_share(q, p, q_errors, p_errors, -edges[1:], interval)
    size = masses.size
    whole, all_errors = np.zeros(2 * size - 1), np.zeros(2 * size - 1)
    whole[size - 1 :] += masses
    all_errors[size - 1 :] += errors
    # Cell i, mirrored, lies between the points −i−1 and −i.
    whole[size - 2 :: -1] += q * (1 - up)
    whole[size - 1 : 0 : -1] += q * up
    all_errors[size - 2 :: -1] += q_errors
    all_errors[size - 1 : 0 : -1] += q_errors
    beyond = pair.above(pair.second, float(x[-1]))
    whole[0] += beyond
    whole[size - 1] += max(0.0, 1.0 - float(p.sum()) - float(q.sum()) - beyond - infinite)
    all_errors[size - 1] += 2.0**-48
    start = max(1 - size, math.floor(low / interval))
    cut = start - (1 - size)
    whole[cut] += float(whole[:cut].sum())
    all_errors[cut] += float(all_errors[:cut].sum())
    return DiscreteLoss(interval, start, whole[cut:], all_errors[cut:], infinite)


def _below(pair: Pair, x: float) -> float:
    return sum(weight * float(ndtr((x - mean) / pair.sigma)) for weight, mean in pair.first)


def _upper_share(
    p: FloatArray,
    q: FloatArray,
    p_errors: FloatArray,
    q_errors: FloatArray,
    lower_edges: FloatArray,
    interval: float,
) -> FloatArray:
    """Which share of a cell's P-mass goes to its upper end; rounded up, which is the safe side."""
    with np.errstate(all="ignore"):
        ratio = q / p * np.exp(lower_edges)
        doubt = ratio * (p_errors / p + q_errors / q + 2.0**-50) + 2.0**-50
        share = (1.0 - ratio + doubt) / -math.expm1(-interval)
    share = np.where(np.isfinite(share), share, 1.0)
    return np.clip(share, 0.0, 1.0)
