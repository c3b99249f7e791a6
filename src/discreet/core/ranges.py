"""Private bounds of a column: selections among public candidates.

The candidates are the numbers of two significant digits, of either sign. A lower bound is the
largest candidate that cuts no more than a share of the rows, an upper bound the smallest; each is
found by a private selection. A column's values enter as counts between candidates, which add up
over blocks, so a file of any size is read once and only blocks are sorted.

Proof: docs/proofs/ranges.md.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from discreet.core.mechanisms import SelectionMechanism
from discreet.core.noise import Noise
from discreet.errors import PrivacyError
from discreet.rows.moments import edges
from discreet.validate import FloatArray, integer, number

SENSITIVITY = 1.0
"""Bound on the change of any score by one row, or rows of total weight 1, under either relation."""

SCORE_ROUNDING = 2.0**-49
"""Rounding of two scores made of sums of weights, if there are any, per row. ranges.md."""

_SHARE_STEPS = 2**20  # shares are multiples of 2^-20, so that scores are exact
_MOST_ROWS = 2**32  # share * rows < 2^52: every score is a double without rounding
_LARGEST_TAIL = 0.25
_FAR_OFF = 0.001  # the chance that noise picks a bound beyond the data is at most about this


def tail_share(coverage: float, n_rows: int, mechanism: SelectionMechanism) -> float:
    """Return the share of the rows that each bound may cut: (1 − coverage)/2 or more.

    Candidates beyond the data all miss their aim by this share of the rows. If that is less than
    the noise of the selection, such a candidate (up to ±1e12) is likely to win. So the share is
    raised, by what is public only, until the chance of that is about 0.1 %; never beyond 1/4, where
    the bounds of a table that is too small for the budget may come out anywhere. It is a multiple
    of 2^-20 in (0, 1/2).
    """
    coverage = _check(coverage, n_rows, mechanism)
    wanted = (1 - coverage) / 2
    reach = mechanism.scale(SENSITIVITY) * math.log(edges().size / _FAR_OFF)
    share = max(wanted, min(reach / n_rows, _LARGEST_TAIL))
    steps = min(max(math.ceil(share * _SHARE_STEPS), 1), _SHARE_STEPS // 2 - 1)
    return steps / _SHARE_STEPS


def select_bounds_from_counts(
    counts: NDArray[np.int64],
    n_rows: int,
    coverage: float,
    mechanism: SelectionMechanism,
    noise: Noise,
    unit: int = 1,
    *,
    whole: bool = False,
) -> tuple[float, float]:
    """Choose bounds ``low < high`` that hold about ``coverage`` of a column's values, privately.

    ``counts`` are those of `discreet.rows.cell_counts` between the candidates ``edges(whole)``, in
    multiples of 1/``unit``. The column has at most one value per row. The mechanism, not monotone,
    is used twice; the curator charges for both uses before the values are read.

    Privacy
    -------
    Two uses of the mechanism, and nothing else of the values. Scores need no count of the values
    that are present: one row moves each by at most 1, under both relations. Only ``n_rows``,
    ``coverage`` and the mechanism, all public, decide the share that is aimed at (`tail_share`).
    Proof: docs/proofs/ranges.md.
    """
    share = tail_share(coverage, n_rows, mechanism)
    sensitivity = SENSITIVITY + (unit > 1) * SCORE_ROUNDING * (n_rows + 1)
    first, second = (
        mechanism.select(scores, sensitivity=sensitivity, noise=noise)
        for scores in _scores(counts, share, unit)
    )
    candidates = edges(whole)
    low, high = min(first, second), max(first, second)
    if low == high:  # one step wider; what is mostly 0 is hardly ever negative
        low, high = max(low - (candidates[low] != 0), 0), min(high + 1, candidates.size - 1)
    return float(candidates[low]), float(candidates[high])


def _scores(
    counts: NDArray[np.int64], share: float, unit: int = 1
) -> tuple[FloatArray, FloatArray]:
    """Score every candidate as lower and as upper bound.

    A bound is right if it cuts at most ``share`` of the values and the next tighter one would cut
    more: the score is 0 then, and otherwise minus the number of values by which that fails.
    """
    below = np.cumsum(counts)[:-1:2] / unit  # values < candidate k
    above = np.cumsum(counts[::-1])[:-1:2][::-1] / unit  # values > candidate k
    present = float(counts.sum()) / unit
    allowed = share * present  # exact without weights: see _SHARE_STEPS
    tighter_below = np.append(below[1:], present)
    tighter_above = np.insert(above[:-1], 0, present)
    return (
        -np.maximum(0.0, np.maximum(below - allowed, allowed - tighter_below)),
        -np.maximum(0.0, np.maximum(above - allowed, allowed - tighter_above)),
    )


def _check(coverage: float, n_rows: int, mechanism: SelectionMechanism) -> float:
    """Refuse what the proof does not cover; returns the coverage as a double."""
    integer("n_rows", n_rows, most=_MOST_ROWS - 1)
    refuse_monotone(mechanism)
    return number("coverage", coverage, above=0.0, below=1.0, remedy="Typical: 0.9 to 0.99.")


def refuse_monotone(mechanism: object, scores: str = "Scores of bounds") -> None:
    """Refuse a mechanism that counts on all scores moving the same way."""
    if getattr(mechanism, "monotone", False):
        raise PrivacyError(
            f"{scores} are not monotone: a row can raise one and lower another. Use a mechanism "
            "with monotone=False, which adds twice the noise."
        )
