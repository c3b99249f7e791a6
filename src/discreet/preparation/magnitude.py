"""`Magnitude`: bring columns of any unit to one scale, by private counts of binary exponents.

Other steps clip whole rows: a column of timestamps would decide what happens to all. Proof:
docs/proofs/preparation.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from discreet.core import Curator
from discreet.core.questions import ExponentCounts
from discreet.preparation.steps import FittedStep, Known, RowNorms, Share, Step
from discreet.rows import EXPONENTS, OCTAVES, AffineMap
from discreet.validate import FloatArray, Positive, integer, vector

WINDOW = 4
"""Neighbouring exponents that are counted together to find a column: three quarters of a normal
column's numbers have one of four exponents."""

TAIL_WINDOW = 8
"""Number of neighbouring exponents, from a large one upwards, whose counts are added up."""

LEAST_TAIL = 0.01
"""Share of rows that a large exponent needs, alone or with the next larger ones."""

FALSE_ALARM = 1e-3
"""Largest probability that noise alone is taken for entries of any column."""

DISTANT = 20
"""Distance of a unit from the typical one, in powers of two, that needs the most reliable count."""

DISTANT_ALARM = 1e-9
"""Probability of a false detection at this distance and beyond; it falls towards it. A column that
is scaled on a false detection is lost."""

TAIL = 0.1
"""Share of rows whose entries around the mean may be larger than a column's, if noise shows it."""

SMALL_DEVIATIONS = 7.0
"""Deviations of one count, or of four, that show a column to be of a smaller unit than typical: one
that was scaled up on a false detection would be longer than all others."""

IMPRECISE = 20.0
"""Counts are imprecise if the deviation of their noise is above one over this of the rows."""

LIKELY = 2.5
"""Deviations of the count of four neighbours at which a column is likely to be there, if counts are
imprecise and its unit is near those of columns that were detected."""

DENSE = 0.5
"""Share of the rows with an entry other than 0 and ±1 above which a column may have a large mean
compared with its spread."""

CONSTANT = 0.7
"""Share of the rows with one exponent above which a column may be a constant with exceptions."""

CONSTANT_POWER = 6
"""Largest power of two by which such a column is scaled up around its mean, once."""

EXCEPTIONS = 4.0
"""If that exponent is above this many deviations of the noise in the mean, there are exceptions:
only they move the mean of a constant away from it. Then the column is not scaled up."""

SAME = 3
"""Columns whose exponents differ by at most this are left as they are: later steps suffice."""

LARGEST_POWER = 12
"""Largest power of two by which columns of rows of a known norm are scaled up."""

FALSE_LARGEST = 0.01
"""Largest probability of a false detection in counts of rows by their largest entry. A column that
is scaled down on a false detection is lost; one that is not detected makes the rows that have it
unusable."""


@dataclass(frozen=True)
class Magnitude(Step):
    """Multiply each column by a power of two, so that their large numbers are of similar size.

    The first time it measures columns as they are. After `Centre` it measures columns whose mean
    may be large compared with their spread (years, timestamps): around their mean they are smaller.
    Columns of zeros and ones are left as they are, and so are unresolved columns: those of which no
    count exceeds the noise.

    Parameters
    ----------
    share : float
        Share of the budget.
    known : int
        Number of last columns that are known to be in [0, 1], such as splines. They are left as
        they are, and others are brought to them.

    Notes
    -----
    *Privacy.* One noisy count of entries by column and binary exponent. The factors are computed
    from it, and released.
    """

    share: Share = 0.02
    known: Annotated[int, partial(integer, least=0)] = 0
    name: ClassVar[str] = "magnitude"
    bounded: ClassVar[bool] = False

    def fit(self, curator: Curator, mechanism: Any, norms: Known) -> tuple[FittedMagnitude, Known]:
        """Ask for the counts.

        The first time unresolved columns are taken to be of the typical unit, and so are nearly
        constant ones of a smaller unit: their exceptions may be much larger. Columns around their
        mean are scaled up to the largest of them.
        """
        noisy = curator.ask(ExponentCounts(curator.n_features), mechanism)
        cells = noisy.values.reshape(curator.n_features, -1)
        dense = _windows(cells[:, :-1]).max(axis=1) > DENSE * curator.n_rows
        counts = cells[:, :-1].copy()
        counts[:, 1 - EXPONENTS[0]] += cells[:, -1]
        found = exponents(counts, noisy.deviation, curator.n_rows)
        ours = np.arange(found.size) < found.size - self.known
        dense &= np.isfinite(found) & ours
        constant = counts.max(axis=1) > CONSTANT * curator.n_rows
        threshold = -float(ndtri(FALSE_ALARM / cells.size))  # in deviations of the noise
        if norms is None or norms.raw:
            factors = np.ones(found.size)
            resolved = np.isfinite(found) & ours
            varied = resolved & ~constant
            if resolved.any():
                median = np.round(np.median(found[varied if varied.any() else resolved]))
                distances = np.where(resolved, np.abs(found - median), 0.0)
                for distance in np.unique(distances[distances > SAME]):
                    alarm = _alarm(FALSE_ALARM, distance)
                    certain = exponents(counts, noisy.deviation, curator.n_rows, alarm)
                    found = np.where(distances == distance, certain, found)
                resolved &= np.isfinite(found)
                powers = np.where(resolved, found, median)
                powers = np.where(constant & varied.any(), np.maximum(powers, median), powers)
                powers[~ours] = 0.0
                factors = 2.0**-powers if np.ptp(powers) > SAME else factors
            changed = bool((factors != 1.0).any())
            unknown = RowNorms(*3 * (math.inf,), raw=True, dense=dense, in_units=changed)
            indicators = _windows(cells[:, :-1]).max(axis=1) <= threshold * 2 * noisy.deviation
            known = replace(unknown, resolved=resolved, indicators=indicators & ours)
            return FittedMagnitude(factors, noisy.deviation), known
        tails, likely = upper_exponents(counts, noisy.deviation, curator.n_rows, 2 * norms.clip)
        fullest = 2.0 ** (counts.argmax(axis=1) + EXPONENTS[0] - 1.0)
        chosen = np.isfinite(tails) & (dense if norms.dense is None else norms.dense)
        rare = fullest > EXCEPTIONS * norms.mean_noise
        chosen &= ours & ~(constant & (rare if norms.constant is None else rare | norms.constant))
        factors = np.ones(found.size)
        if chosen.any():
            largest = tails[chosen].max()
            powers = np.minimum(largest - likely, np.where(constant, CONSTANT_POWER, LARGEST_POWER))
            factors[chosen] = 2.0 ** np.where(powers > SAME, powers, 0.0)[chosen]
            norm = math.hypot(norms.clip, 2.0**largest * math.sqrt(chosen.sum()))
            norms = replace(norms, clip=norm, typical=norm, median=0.0)
            norms = replace(norms, dense=chosen, constant=constant)
        return FittedMagnitude(factors, noisy.deviation), norms


@dataclass(frozen=True)
class Largest(Magnitude):
    """Shrink columns that hold the largest entries of many rows, by powers of two.

    A rare column, such as gains in dollars, may be too rare for `Magnitude` to detect, and makes
    the rows that have it much longer than others. Columns that are detected are left aside in later
    steps of this kind, and brought to the typical size of the others' largest entries. It comes
    before `Radius`.

    Parameters
    ----------
    share, known
        As in `Magnitude`.

    Notes
    -----
    *Privacy.* One noisy count of rows by the column and the size of their largest entry. The
    factors are computed from it, and released.
    """

    name: ClassVar[str] = "largest"

    def fit(self, curator: Curator, mechanism: Any, norms: Known) -> tuple[FittedMagnitude, Known]:
        """Ask for the counts; nothing is scaled where noise exceeds that of the typical size."""
        norms = norms or RowNorms(*3 * (math.inf,), raw=True)
        columns = curator.n_features
        ours = np.arange(columns) < columns - self.known
        factors = np.ones(columns)
        sizes = np.full(columns, np.nan) if norms.sizes is None else norms.sizes
        left = ours & np.isnan(sizes)
        among = left if left.any() else ours
        noisy = curator.ask(ExponentCounts(columns, among), mechanism)
        cells = noisy.values.reshape(columns + 1, -1)
        clear = np.maximum(cells, _windows(cells, 2) / math.sqrt(2)) / noisy.deviation
        threshold = -float(ndtri(FALSE_LARGEST / (2 * cells.size)))
        typical = int(cells[-1].argmax())
        one = (1 - EXPONENTS[0]) // OCTAVES
        if self.known:
            typical = one
        elif norms.in_units:
            typical = min(typical, one)
        if clear[-1].max() > threshold:
            found = among & (clear[:-1].max(axis=1) > threshold)
            largest = clear[:-1].argmax(axis=1)
            certain = -float(ndtri(DISTANT_ALARM / (2 * cells.size)))
            doubtful = OCTAVES * (largest - typical) > DISTANT
            if norms.resolved is not None:  # a measured unit is contradicted by certain counts only
                doubtful |= norms.resolved & (largest > typical + 1)
            found &= ~doubtful | (clear[:-1].max(axis=1) > certain)
            sizes = np.where(found, largest, sizes)
            larger = sizes > typical + 1
            factors[larger] = 2.0 ** (OCTAVES * (typical - sizes[larger]))
            norms = replace(norms, sizes=np.where(larger, typical, sizes))
        return FittedMagnitude(factors, noisy.deviation), norms


def powers_of_two(name: str, value: ArrayLike) -> FloatArray:
    """Return a new one-dimensional float64 array of powers of two."""
    array = vector(name, value)
    if not (np.frexp(array)[0] == 0.5).all():
        raise ValueError(f"{name} must be powers of two.")
    return array


@dataclass(frozen=True, eq=False)
class FittedMagnitude(FittedStep):
    """A power of two per column, which entries are multiplied by."""

    factors: Annotated[FloatArray, powers_of_two]
    deviation: Positive
    name: ClassVar[str] = "magnitude"
    multiplies: ClassVar[str] = "factors"
    condition_text: ClassVar[str] = (
        "entries were counted by column and binary exponent, the counts released with noise of "
        "standard deviation {deviation:.4g}, and columns scaled by them"
    )

    def distant(self) -> NDArray[np.intp]:
        """Return the columns whose factor is beyond 2^±20 of the median one."""
        powers = np.log2(self.factors)
        return np.flatnonzero(np.abs(powers - np.median(powers)) > DISTANT)

    def affine_map(self, before: AffineMap | None, n_features: int) -> AffineMap:
        """Return the map of the steps before, then times the factors; units, if it is the first."""
        start = before or AffineMap.to_norm(math.inf, n_features)
        if math.isinf(start.row_norm) and start.starts(start) and (self.factors != 1.0).any():
            return AffineMap.in_units(start.units * self.factors)
        return start.then(self.factors)


def exponents(
    counts: FloatArray, deviation: float, n_rows: int, false_alarm: float = FALSE_ALARM
) -> FloatArray:
    """Return the exponent of the large numbers of each column; NaN for unresolved columns.

    ``counts`` has one row per column and one entry per exponent; that of 1 is the sum of two noisy
    counts. A column is detected if a count, or the sum of four or eight neighbours, is more than
    noise makes anywhere in the table. Its exponent is the largest that a hundredth of the rows
    reach, where noise does not explain it. It is at least that of the fullest four neighbours, if
    four or eight detect the column: the uppermost of them, or of the first overlapping four that
    are as full up to noise. (Of eight, the first may be much below the column's large numbers.)

    Where counts are imprecise, columns that are not detected have the fullest exponent of all of
    them together, if that exceeds the noise, or the larger one of their likely four, if it is near
    those of detected columns. ``false_alarm`` bounds the probability that noise alone detects any
    column of the table.
    """
    threshold = -float(ndtri(false_alarm / (3 * counts.size)))
    places = np.arange(counts.shape[1])
    variances = np.full((1, counts.shape[1]), deviation**2)
    variances[0, 1 - EXPONENTS[0]] *= 2
    tails, tail_variances = (
        _windows(cells[:, ::-1], TAIL_WINDOW)[:, ::-1] for cells in (counts, variances)
    )
    single = counts > np.maximum(threshold * np.sqrt(variances), LEAST_TAIL * n_rows)
    wide = tails > np.maximum(threshold * np.sqrt(tail_variances), LEAST_TAIL * n_rows)
    reached = np.where(single | wide, places, -1).max(axis=1)
    windows = _windows(counts)
    noise = np.sqrt(_windows(variances))
    fullest = windows.argmax(axis=1)
    near = places > fullest[:, None] - WINDOW
    first = (near & (windows >= windows.max(axis=1)[:, None] - 2 * noise)).argmax(axis=1)
    clear = (windows > threshold * noise).any(axis=1)
    around = np.where(clear, first, np.where(wide.any(axis=1), fullest, -1))
    best = np.maximum(reached, around)
    found = best >= 0
    imprecise = IMPRECISE * deviation > n_rows
    if found.any() and not imprecise:
        deviations = np.maximum(counts / np.sqrt(variances), windows / noise).max(axis=1)
        small = best < np.median(best[found]) - SAME
        best[found & small & (deviations < SMALL_DEVIATIONS)] = -1
    if found.any() and imprecise:
        reach = (best[found].min() - WINDOW, best[found].max() + WINDOW)
        sums = counts[~found].sum(axis=0)
        together = deviation * math.sqrt(2 * (~found).sum())
        shown = sums.max() > -float(ndtri(false_alarm / sums.size)) * together
        common = sums.argmax() if shown else -1  # of all that were not detected
        likely = (windows > LIKELY * noise).any(axis=1) & (first > common)
        likely &= (reach[0] <= first) & (first <= reach[1])
        best = np.where(found, best, np.where(likely, first, common))
    return np.where(best >= 0, best + float(EXPONENTS[0]), np.nan)


def upper_exponents(
    counts: FloatArray, deviation: float, n_rows: int, largest: float
) -> tuple[FloatArray, FloatArray]:
    """Return the largest exponent that a tenth of a column's entries reach: reliable, and likely.

    Entries are at most ``largest``, so larger exponents are left out: their counts are noise. Where
    noise is large, up to a third of the entries has to reach the exponent; beyond, nothing is
    detected. The more columns there are, the more deviations a count needs: one that noise alone
    made would decide for all. Likely exponents need two deviations, so that those of similar
    columns seldom differ. Columns that reach no exponent that can be detected are smaller, and get
    the last of them; NaN if there is none, or if all exponents can be detected and the column has
    no entry but 0.
    """
    top = min(max(math.frexp(largest)[1] - EXPONENTS[0], 0), counts.shape[1] - 1)
    threshold = max(2.5, math.sqrt(2 * math.log(len(counts))) + 0.45)
    noise = deviation * np.sqrt(np.arange(1, top + 2))
    visible = int((threshold * noise < 0.25 * n_rows).sum())
    if not visible:
        return (np.full(len(counts), np.nan),) * 2
    sums = np.cumsum(counts[:, top::-1], axis=1)[:, :visible]
    noise = noise[:visible]
    below = top - visible + 1.0 if visible <= top else np.nan
    reached = (sums > TAIL * n_rows + times * noise for times in (threshold, 2.0))
    first, second = (np.where(r.any(axis=1), top - r.argmax(axis=1), below) for r in reached)
    return first + EXPONENTS[0], second + EXPONENTS[0]


def _alarm(near: float, distance: Any) -> Any:
    """Return the probability of a false detection at a distance of units, in powers of two."""
    return near * (DISTANT_ALARM / near) ** np.minimum(distance / DISTANT, 1.0) ** 3


def _windows(counts: FloatArray, width: int = WINDOW) -> FloatArray:
    """Return the sum of each count and those of the next smaller exponents."""
    before = np.zeros((len(counts), width))
    sums = np.cumsum(np.hstack([before, counts]), axis=1)
    return np.asarray(sums[:, width:] - sums[:, :-width])
