"""Measurements of ``inference=True``: noisy Hessians and scores, and the estimate from them.

A model that was fitted for predictions is biased: rows and gradients are clipped, weights are
shrunk. So a reserved share of the budget buys, on rows that are weighted by their norm instead of
clipped, Hessians and Newton steps whose noise is known exactly. The weights depend on a row's
features alone, hence the steps aim at the model's true coefficients, without a penalty.

The loss offers `Loss.scored`, `Loss.of_residuals` and `Loss.dispersion`; nothing here knows a
family. docs/inference.md describes the method, docs/proofs/inference.md has the proof.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.budget import Budget, Measure
from discreet.core import Curator, ExponentialMechanism, Gaussian
from discreet.core.questions import (
    CurvatureSum,
    MedianNorm,
    MedianSlope,
    ScoreSquareSum,
    ScoreSum,
    ScoreVariances,
)
from discreet.inference.checks import (
    AtBound,
    BeyondCut,
    Checks,
    CutSlopes,
    LargeCurvature,
    LargeSlope,
    Moment,
    Tails,
    Variances,
)
from discreet.objectives import Loss, Problem, Scored, Squared
from discreet.validate import FloatArray, check_fields, number

__all__ = ["Evidence", "Inference", "expected_error"]

SHARE = 0.8
"""Share that ``inference=True`` takes of what preparation and balance leave of the budget."""

MEDIAN_PRECISION = 40.0
"""Part of the share for a median, of norms or of slopes, is (this/(n·μ))²."""

MEDIAN_SHARES = (0.002, 0.05)
"""Smallest and largest part of the share for a median."""

FIRST_SHARE = 0.06
"""Of the share: what buys a Hessian at the fitted weights, where a second one follows anyway."""

SCORES = (3, 2)
"""Numbers of scores that are measured before and after the second Hessian. All but the first enter
the estimate, at the same cost each."""

SURE_ERROR = 0.07
"""If all of the share would buy a Hessian of a smaller error than this, at typical curvature, there
is one Hessian, at the fitted weights, and one score beside the first."""

FIRST_SCORE = 0.15
"""Part of what is left that the first score takes then."""

NEAR = 0.1
"""If the first score moves the weights by more than this (in units of `LONGEST_STEP`), or the
Hessian has twice the error that it should have, another Hessian and three scores follow."""

FEW_ERROR = 0.012
"""Hessians are those of a sample, if there is one, if all of the share would buy one of a smaller
error than this: the clip is then 2√p at least."""

SURE_SQUARES = 100.0
"""Squared scores are those of a sample if their noise is below one over this, times the squared
clip over √p."""

DISPERSION_SHARE = 0.05
"""Part of the share for the mean squared score, where it is measured."""

DISPERSION_NOISE = 0.06
"""It is measured where the loss does not state it, or where its expected relative noise is below
this."""

HESSIAN_SHARES = (0.08, 0.4)
"""Smallest and largest part of the share for the second Hessian."""

HESSIAN_ERROR = 0.1
"""Between these limits, the second Hessian has this relative error."""

GUESS_ERROR = 0.35
"""Relative error of a mean squared slope that is guessed from the median slope."""

MOST_DOUBT = 0.2
"""Expected relative noise in a measured dispersion; the clip is chosen for it."""

LEAST_CURVATURE = 0.02
"""Mean curvature over its bound that is assumed at least."""

LEAST_EIGENVALUES = (0.7, 3.0)
"""A direction is determined if the Hessian's eigenvalue is above the first times what noise moves
it by, and above the second times the noise in one entry."""

STUDENT = 3.8
"""If a standard error has a relative error r, 95 % intervals need a variance of 1 + this·r² times
as much, as with Student's t: 1.96² to first order."""

MOST_NOISE = 0.4
"""No intervals at all where the Hessian's noise is more than this many median eigenvalues."""

HOPELESS_ERROR = 0.6
"""Beyond this expected error nothing is measured: no direction would be determined."""

CLIP_FACTORS = (1.3, 3.0)
"""Smallest and largest clip of norms over √p."""

CLIP_NOISE = 0.3
"""Between these limits, the noise in a score is this share of its sampling error."""

KEPT_SHARE = 0.02
"""Part of the share for the second moment of rows as they are clipped. Rows of a rare category are
long in whitened rows, and clipping leaves little of them."""

KEPT_ERROR = 0.2
"""This moment is measured where its relative error would be below this."""

KEPT_CLIP = 1.3
"""Clip of the norms in this moment, over √p."""

KEPT_QUANTILE = 0.75
"""Quantile of the moment's eigenvalues that others are compared with."""

KEPT_FACTOR = 0.95
"""Rows are multiplied by this times the root of an eigenvalue over that quantile, in directions in
which that is below 1."""

SHORTEST = 0.2
"""Least factor that rows are multiplied by in a direction."""

RARE = 0.6
"""Factor of a direction below which rows of a rare category were shortened."""

RARE_CLIP = 1.9
"""Least clip over √p then: noise is less where rows are nearly as long as the clip, and a rare
category is in a small share of the rows."""

CUTS = (1.345, 30.0)
"""Smallest and largest cut of residuals, over their scale. With normal errors the first has 95 % of
the efficiency of least squares. Between them, noise in a score is `CLIP_NOISE` of its sampling
error: a wider cut biases less where errors are skewed and their spread depends on a column."""

CUT_NOISE = 0.1
"""Relative noise in the dispersion beyond which the cut of residuals is not wider."""

USUAL_CUT = 3.5
"""Cut of residuals beyond which a larger clip of norms comes first."""

WIDE_CUT_NOISE = 0.1
"""The widest cut is one with which noise in a score is this share of its sampling error."""

CUT_CANDIDATES = 8
"""Number of cuts from `USUAL_CUT` to the widest, of which the smallest is taken that is not known
to cut residuals, and of parts of a bound on slopes or on curvatures."""

COUNTS = 3
"""Counts that find one of so many candidates by halving."""

CUT_STEP = math.sqrt(2.0)
"""Ratio of these parts of a bound."""

COUNT_SHARE = 0.004
"""Part of the share for each count of rows beyond a candidate."""

LEAST_CUT = 0.05
"""So many rows, times √n, may be beyond a cut of slopes: they move no coefficient by more than a
few hundredths of its standard error for each unit of their excess."""

LEAST_STEEP = 0.002
"""Share of the rows that may have a larger curvature than its narrower bound."""

SCALE_SHARE = 0.01
"""Part of the share for the variance of residuals."""

MEDIAN_VARIANCE_ERROR = 0.1
"""Relative error of a variance by the median size of residuals."""

UNWEIGHTED = 1e9
"""Clip of norms that makes no row weigh less, where a row's part is one number within a bound."""

CANDIDATE_MIDDLE = 2.0**-0.03125
"""A median is the upper end of an interval of sizes whose ends have the ratio 2^(1/16)."""

INSIDE_SHARE = 0.01
"""Part of the share for the share of residuals within the cut, where that is below `USUAL_CUT`."""

INSIDE_ERROR = 0.05
"""Relative error of that share as normal residuals have it."""

TAIL_SHARE = 0.02
"""Part of the share for the sum of rows with residuals beyond the cut, by the residuals' sign."""

LEAST_BEYOND = 0.05
"""Share of residuals that are taken to be beyond the cut at least, for the sampling error of the
difference between both sides: normal residuals of unequal spread have as many beyond 2.5 scales."""

BOUND_SHARE = 0.01
"""Part of the share for the share of targets at a bound."""

VARIANCE_SHARES = (0.01, 0.1)
"""Smallest and largest part of the share for the variances of single coefficients: as much as their
noise calls for at the widest cut."""

VARIANCE_CUTS = (2.5, 8.0)
"""Smallest and largest norm of a unit's standardised scores over √p, beyond which it is cut."""

VARIANCE_NOISE = 0.05
"""Between these limits, the noise in a variance is this share of it."""

MOST_VARIANCE_NOISE = (0.15, 0.35)
"""Variances are measured where their noise is below the first, or below the second if they were
asked for, or if units are given."""

LEAST_RATIO = 0.1
"""A variance is at least this times that of the model: noise can make it negative."""

SMALLEST_FACTOR = 2.0**-40
"""Factor of a column that is not to count beside the constant."""

MEDIAN_OF_NORMAL = 0.6745
"""Median size of a standard normal number."""

LONGEST_STEP = 0.5
"""The last points and the estimate may be apart by this many units of the linear predictor (of
residuals, in regression): beyond, the Hessian at the estimate is not known."""

LONGEST_MOVE = 3.0
"""A step on the way there is no longer than this many units."""


@dataclass(frozen=True)
class Evidence:
    """Released numbers of one model, and what follows from them, in units of prepared rows.

    Attributes
    ----------
    weights : ndarray
        The estimate, the intercept last.
    sampling, noise, bias : ndarray
        Covariances of its sampling error and of the privacy noise in it, and a bound, as a mean
        square, on what directions that are not determined do to the others.
    blind : ndarray
        Orthonormal directions of weights that are not determined, in units of prepared rows.
    floor : ndarray
        c·floor·c is what noise alone makes of the squared part of a combination c in ``blind``.
    usual : float
        Usual squared weight in a direction.
    dispersion : float
        Mean squared score over mean curvature; the residuals' variance in least squares.
    reason : str
        Why there are no intervals; empty if there are.
    checks : Checks
        What was measured beside the estimate.
    """

    weights: FloatArray
    sampling: FloatArray
    noise: FloatArray
    bias: FloatArray
    blind: FloatArray
    floor: FloatArray
    usual: float
    dispersion: float
    reason: str = ""
    checks: Checks = field(default_factory=Checks)

    def with_mean_variance(self, doubt: float) -> Evidence:
        """Return the evidence with the dispersion that variances of coefficients have on average.

        ``doubt`` is what noise in the mean squared score has added to the sampling variance, whose
        bound grows with the cut. It is replaced by that of the mean variance, if that is less.
        """
        found = self.checks.variances
        if found is None:
            return self
        mean = float(np.mean(found.ratio))
        own = _doubt(found.error / (mean * math.sqrt(found.ratio.size)))
        if own >= doubt:
            return self
        variances = Variances(found.ratio / mean, found.error / mean)
        checks = replace(self.checks, variances=variances)
        sampling = mean * (1 + own) / (1 + doubt) * self.sampling
        return replace(self, sampling=sampling, dispersion=mean * self.dispersion, checks=checks)


class Wanted(NamedTuple):
    """What a caller wants to know beside the coefficients.

    ``basis`` makes coefficients of weights of prepared rows, None if they are those weights.
    ``robust`` is True if variances of single coefficients were asked for, False if they are not
    wanted, None if they are bought where they cost little. ``ends`` are bounds of scaled targets.
    """

    basis: FloatArray | None = None
    robust: bool | None = None
    ends: tuple[float, float] | None = None


@dataclass(frozen=True)
class Inference:
    """The share of the budget that is reserved for inference about one model.

    It has the interface of a preparation's step, as far as the division of a budget needs it.
    """

    share: float = SHARE
    _: KW_ONLY
    name: ClassVar[str] = "inference"

    def __post_init__(self) -> None:
        check_fields(self, number, "share", least=1e-6, most=1 - 1e-6)

    def mechanism(self, measure: Measure, total: Fraction) -> Gaussian:
        """Return a mechanism that would spend all of the share; parts of it are what is used."""
        return Gaussian.sharing(float(total))

    @property
    def condition(self) -> str:
        """Statement of what its privacy rests on."""
        return (
            f"{100 * self.share:.3g} % of the budget were reserved for inference: private medians, "
            "noisy scores and Hessians of rows weighted by their norm"
        )

    @staticmethod
    def measure(
        curator: Curator,
        few: Curator | None,
        total: float,
        problem: Problem,
        pilot: FloatArray,
        *,
        weighted: bool,
        mapped: bool = False,
        wanted: Wanted = Wanted(),  # noqa: B008  it is immutable
    ) -> Evidence:
        """Measure with a curator whose reserved share, ``total`` in μ², is open.

        ``few`` is one for a sample of the rows, if there is one. ``pilot`` are fitted weights of
        prepared rows; rows are ``weighted`` if they do not all count one unit each, and ``mapped``
        if they are under an affine map, so that they can be turned.
        """
        rows = _Source(curator, problem.n_rows)
        sample = rows if few is None else _Source(few, few.n_rows, drawn=True)
        return _Stage(rows, sample, problem, weighted, mapped, wanted).run(pilot, total)


def expected_error(
    n_rows: int, n_parameters: int, budget: Budget, share: float = SHARE, *, even: bool = False
) -> float:
    """Return the relative error of the Hessian that public numbers predict, at its largest share.

    Beyond `HOPELESS_ERROR` a fit reserves nothing for inference. An ``even`` curvature is that of
    least squares: 1, and not about half of its bound.
    """
    mu = budget.to_gdp().mu * math.sqrt(share * HESSIAN_SHARES[1])
    apart = math.sqrt(budget.relation.rows_changed)
    curvature = 1.0 if even else _Usual().curvature
    return _hessian_error(n_rows, n_parameters, mu / apart, curvature)


def _hessian_error(n_rows: int, size: int, mu: float, curvature: float) -> float:
    """Return the largest eigenvalue of the Hessian's noise over its usual eigenvalue.

    In units of the bound on curvature; rows have norm √p, and the clip is the smallest.
    """
    noise = CLIP_FACTORS[0] ** 2 * size * math.sqrt(2 * size) / (max(n_rows, 1) * mu)
    return noise / curvature


@dataclass(frozen=True)
class _Usual:
    """Mean curvature and root mean squared slope, over their bounds: before they are known."""

    curvature: float = 0.5
    slope: float = 0.35

    @classmethod
    def at(cls, loss: Loss, weights: FloatArray, *, intercept: bool) -> _Usual:
        """Return them with the curvature at weights of rows that are normal and spread alike.

        Targets are 1 for classes, else means with a logarithm for a link.
        """
        slopes, constant = (weights[:-1], weights[-1]) if intercept else (weights, 0.0)
        points, shares = np.polynomial.hermite_e.hermegauss(9)
        margins = np.clip(constant + float(np.linalg.norm(slopes)) * points, -50.0, 50.0)
        targets = np.exp(margins) if loss.task == "regression" else np.ones(margins.size)
        curvature = loss.second_derivative(margins, targets) @ shares / shares.sum()
        bound = loss.curvature_bound or 1.0
        return cls(curvature=_within(float(curvature) / bound, (LEAST_CURVATURE, 1.0)))


class _Source(NamedTuple):
    """Rows that are asked about, and by what number sums are divided; ``drawn``: a sample."""

    curator: Curator
    n_rows: int
    drawn: bool = False

    def turned(self, factor: float, matrix: FloatArray | None, n_features: int) -> _Source:
        """Return the rows times a factor, and a matrix if there is one."""
        every = np.arange(n_features)
        return self._replace(curator=self.curator.columns(every, factor=factor, matrix=matrix))


class _Turned(NamedTuple):
    """Prepared rows times a symmetric matrix, so that they are about √p long in most directions.

    ``few`` are a sample of ``rows``, or all of them. ``factor`` is the part of the matrix that is
    the same for all columns, ``nearest`` the smallest clip over √p, ``shorter`` the factor of
    curvatures in the direction that was shortened most, and ``left`` the share that is left.
    """

    rows: _Source
    few: _Source
    matrix: FloatArray
    factor: float
    nearest: float
    shorter: float
    left: float


class _Slopes(NamedTuple):
    """The size of residuals, and of slopes over their bound, as far as it is known.

    ``square`` is a guess at the mean squared score, 0 if there is none; ``asked`` is True if a
    median was asked for.
    """

    unit: float
    usual: _Usual
    square: float
    asked: bool


class _Dispersion(NamedTuple):
    """Public rules for the dispersion: whether the likelihood states it, and who measures it.

    ``squares`` are the rows that are asked for squared scores, ``most`` is the largest clip over √p
    at which the answer is precise enough.
    """

    squares: _Source
    stated: bool
    measured: bool
    most: float


class _Extras(NamedTuple):
    """Parts of the share for what is measured beside the coefficients; 0 for what is not."""

    inside: float
    tails: float
    bound: float
    variances: float
    cuts: float
    scale: float

    @property
    def total(self) -> float:
        """All parts together."""
        return sum(self)


@dataclass(frozen=True)
class _Stage:
    """The measurements of one model, all on one budget: on its rows, or on a sample of them."""

    rows: _Source
    few: _Source
    problem: Problem
    weighted: bool
    mapped: bool
    wanted: Wanted = field(default_factory=Wanted)

    def run(self, pilot: FloatArray, total: float) -> Evidence:
        """Ask for medians, a first Hessian, corrections, the second Hessian and the last score."""
        loss = self.problem.loss
        size = pilot.size
        mu = math.sqrt(total)
        median = _within((MEDIAN_PRECISION / (self.few.n_rows * mu)) ** 2, MEDIAN_SHARES)
        choice = ExponentialMechanism.sharing(median * total)
        turned = self._turned(size, total, 1.0 - median, choice)
        weights = np.asarray(np.linalg.solve(turned.matrix, pilot), dtype=np.float64)
        slopes = self._slopes(turned.few, weights, choice)
        even = loss.scored(slopes.unit).even
        extras = self._extras(turned.rows, mu, size, even)
        left = turned.left - (median if slopes.asked else 0.0) - extras.total
        cut = self._cut(mu, left, size, math.inf) if even else 0.0
        scored = loss.scored(slopes.unit, cut) if even else loss.scored(slopes.unit)
        usual = replace(slopes.usual, slope=_slope_of(cut)) if even else slopes.usual
        if extras.cuts and not even:
            scored, usual = self._narrowed(turned.rows, weights, scored, usual, total)
        plan = self._dispersion_plan(turned, usual.slope, mu)
        left -= DISPERSION_SHARE if plan.measured else 0.0
        expected = replace(usual, curvature=turned.shorter * usual.curvature)
        enough = self._error(turned.few, mu, size, expected) < FEW_ERROR
        hessians = turned.few if enough else turned.rows
        smallest = turned.nearest * math.sqrt(size)
        asked = _Asked(turned.rows, hessians, plan.squares, scored, smallest, total, slopes.unit)
        longer = turned.matrix / np.where(
            np.arange(size) < self.problem.n_features, turned.factor, 1.0
        )
        walk = _Walk(asked, weights, _Path([], [], slopes.unit, longer), left, not even)
        precise = self._error(turned.rows, mu, size, expected) < SURE_ERROR
        precise = precise and turned.nearest < RARE_CLIP
        if not even and not precise:
            walk.measure(FIRST_SHARE)
            curvature = turned.shorter * asked.curvature(walk.hessian)
            expected = replace(expected, curvature=curvature)
        share, factor = self._clip(hessians, mu, walk.left, size, expected)
        factor = max(turned.nearest, min(factor, plan.most))
        if even:
            widest = self._cut(mu, left - share, size, factor)
            cut = self._unreached(turned.rows, weights, slopes.unit, (cut, widest), total)
            scored = loss.scored(slopes.unit, cut)
            plan = self._dispersion_plan(turned, _slope_of(cut), mu)
        clip = math.sqrt(size) * factor
        walk.asked = replace(asked, clip=clip, scored=scored, squared=plan.squares)
        (walk.short if precise else walk.long)(share)
        dispersion, doubt = self._dispersion(walk, plan, slopes.square)
        sampling = (1 + doubt) * dispersion / turned.rows.n_rows
        found = walk.hessian.evidence(
            walk.path, walk.deviation, dispersion, sampling, turned.matrix
        )
        found = replace(found, checks=self._checks(walk, extras, dispersion, turned))
        return found if plan.stated else found.with_mean_variance(doubt)

    def _turned(
        self, size: int, total: float, left: float, choice: ExponentialMechanism
    ) -> _Turned:
        """Bring rows to norm √p by their median norm; shorten directions of which little is kept.

        The second moment that says how much is kept is asked for only where it would be precise.
        """
        n_features = self.problem.n_features
        norm = self.few.curator.ask(MedianNorm(), choice)
        factor = math.sqrt(n_features) / norm
        rows, few = self._both(factor, None)
        matrix: FloatArray = np.eye(size)
        matrix[:n_features, :n_features] *= factor
        bought: Any = (math.sqrt(total) * math.sqrt(KEPT_SHARE), size, _Usual(curvature=1.0))
        error = self._error(few, *bought)
        if not self.mapped or error >= KEPT_ERROR:
            return _Turned(rows, few, matrix, factor, CLIP_FACTORS[0], 1.0, left)
        of = few if error < KEPT_ERROR / 4 else rows
        short = _shortening(self._kept(of, KEPT_SHARE * total)[:n_features, :n_features])
        rows, few = self._both(factor, short)
        matrix[:n_features, :n_features] = factor * short
        nearest = CLIP_FACTORS[0]
        shortest = 1.0
        if (least := float(np.linalg.eigvalsh(short)[0])) < RARE:
            nearest = RARE_CLIP
            shortest = least
        shorter = (shortest * CLIP_FACTORS[0] / nearest) ** 2
        return _Turned(rows, few, matrix, factor, nearest, shorter, left - KEPT_SHARE)

    def _both(self, factor: float, matrix: FloatArray | None) -> tuple[_Source, _Source]:
        """Return all rows and the sample, if there is one, times a factor and a matrix."""
        rows = self.rows.turned(factor, matrix, self.problem.n_features)
        if not self.few.drawn:
            return rows, rows
        return rows, self.few.turned(factor, matrix, self.problem.n_features)

    def _slopes(self, few: _Source, weights: FloatArray, choice: ExponentialMechanism) -> _Slopes:
        """Ask for the median size of residuals or slopes, unless the likelihood states it."""
        loss = self.problem.loss
        if loss.of_residuals:
            unit = few.curator.ask(MedianSlope(Squared(), weights), choice) / MEDIAN_OF_NORMAL
            return _Slopes(unit, _Usual(), 0.0, asked=True)
        usual = _Usual.at(loss, weights, intercept=self.problem.fit_intercept)
        if loss.dispersion is not None:
            return _Slopes(1.0, usual, 0.0, asked=False)
        slope = few.curator.ask(MedianSlope(loss, weights), choice) / MEDIAN_OF_NORMAL
        usual = replace(usual, slope=min(slope / loss.slope_bound, 1.0))
        # the mean squared score, if slopes are nearly normal
        return _Slopes(1.0, usual, weights.size * slope**2, asked=True)

    def _extras(self, rows: _Source, mu: float, size: int, even: bool) -> _Extras:
        """Return what is measured beside the coefficients, by public numbers alone."""
        apart = math.sqrt(rows.curator.relation.rows_changed)
        noise = apart * VARIANCE_CUTS[0] ** 2 * size / (rows.n_rows * mu)
        wide = (VARIANCE_CUTS[1] / VARIANCE_CUTS[0]) ** 2
        wanted = self.wanted.robust
        limit = MOST_VARIANCE_NOISE[1 if wanted or self.weighted else 0]
        limit *= math.sqrt(VARIANCE_SHARES[1])
        robust = wanted is not False and self.wanted.basis is not None and noise < limit
        constant = self.problem.fit_intercept
        bound = self.wanted.ends is not None and constant and self.mapped
        narrows = not even and self.problem.loss.narrowed(0.5) is not None
        counts = COUNTS * (even + 2 * narrows) * constant
        return _Extras(
            inside=INSIDE_SHARE * even,
            tails=TAIL_SHARE * even,
            bound=BOUND_SHARE * bound,
            variances=_within((noise * wide / VARIANCE_NOISE) ** 2, VARIANCE_SHARES) * robust,
            cuts=COUNT_SHARE * counts,
            scale=SCALE_SHARE * (even and constant and not self.weighted),
        )

    def _narrowed(
        self, rows: _Source, weights: FloatArray, scored: Scored, usual: _Usual, total: float
    ) -> tuple[Scored, _Usual]:
        """Return losses of smaller bounds, where hardly a row has larger slopes or curvatures.

        Noise is in proportion to these bounds, which the bounds of the target state: for counts,
        the largest.
        """
        loss = self.problem.loss
        parts = CUT_STEP ** np.arange(1.0 - CUT_CANDIDATES, 1.0)
        bound = loss.curvature_bound or 1.0
        steep = [LargeCurvature(loss, part * bound) for part in parts]
        flat = float(parts[self._first(rows, weights, steep, LEAST_STEEP, total)])
        far = [LargeSlope(loss, part * loss.slope_bound) for part in parts]
        first = self._first(rows, weights, far, LEAST_CUT / math.sqrt(rows.n_rows), total)
        # one-sided tails: the next candidate is beyond what a count could miss
        near = float(parts[min(first + 1, parts.size - 1)])
        made = scored._replace(slopes=CutSlopes(loss, near * loss.slope_bound))
        made = made._replace(curvature=loss.narrowed(flat) or loss)
        slope = min(usual.slope / near, 1.0)
        return made, _Usual(min(usual.curvature / flat, 1.0), slope)

    def _unreached(
        self,
        rows: _Source,
        weights: FloatArray,
        unit: float,
        ends: tuple[float, float],
        total: float,
    ) -> float:
        """Return the smallest cut of residuals between two ends beyond which hardly a row is."""
        narrow, wide = ends
        if not self.problem.fit_intercept or wide <= max(narrow, USUAL_CUT):
            return wide
        cuts = np.geomspace(max(narrow, USUAL_CUT), wide, CUT_CANDIDATES)
        far = [LargeSlope(Squared(), cut * unit) for cut in cuts]
        return float(
            cuts[self._first(rows, weights, far, LEAST_CUT / math.sqrt(rows.n_rows), total)]
        )

    def _first(
        self,
        rows: _Source,
        weights: FloatArray,
        indicators: Sequence[Loss],
        least: float,
        total: float,
    ) -> int:
        """Return which indicator is the first that hardly a row has; the last needs no count.

        Shares fall from each to the next, so halving the list finds it with `COUNTS` counts.
        """
        low = 0
        high = len(indicators) - 1
        while low < high:
            middle = (low + high) // 2
            share, deviation = self._share(rows, weights, indicators[middle], COUNT_SHARE * total)
            if share <= least + deviation:
                high = middle
            else:
                low = middle + 1
        return low

    def _share(
        self, rows: _Source, weights: FloatArray, indicator: Loss, total: float
    ) -> tuple[float, float]:
        """Return the noisy share of units whose rows have an indicator, and its deviation.

        Squares of weighted indicators would be less than the share, so there the constant's entry
        of a score is asked for, among all others.
        """
        mechanism = Gaussian.sharing(total)
        if self.weighted:
            clip = CLIP_FACTORS[0] * math.sqrt(weights.size)
            sums = rows.curator.ask(ScoreSum(indicator, weights, clip), mechanism)
            found = float(sums.values[-1])
        else:
            constant = np.eye(weights.size)[-1:]
            question = ScoreVariances(indicator, weights, UNWEIGHTED, constant, 1.0)
            sums = rows.curator.ask(question, mechanism)
            found = float(sums.values[0])
        return found / rows.n_rows, sums.deviation / rows.n_rows

    def _scale(self, walk: _Walk, total: float) -> float:
        """Return the scale of residuals, by their noisy mean square and by their median size."""
        asked = walk.asked
        unit = asked.unit * CANDIDATE_MIDDLE
        if not total:
            return unit
        window = asked.scored.curvature
        bound = window.slope_bound
        constant = np.eye(walk.weights.size)[-1:] / bound
        rows = asked.scores
        question = ScoreVariances(window, walk.path.points[-1], UNWEIGHTED, constant, 1.0)
        sums = rows.curator.ask(question, Gaussian.sharing(total))
        found = bound**2 * float(sums.values[0]) / rows.n_rows
        noise = bound**2 * sums.deviation / rows.n_rows
        found, _ = _together(found, noise, unit**2, MEDIAN_VARIANCE_ERROR)
        return math.sqrt(max(found, unit**2 / 4))

    def _cut(self, mu: float, left: float, size: int, factor: float) -> float:
        """Return the cut of residuals over their scale, at a clip of norms over √p.

        Without a clip, it is the cut with which the smallest clip is to be chosen.
        """
        rows = self.rows
        first = not math.isfinite(factor)
        factor = CLIP_FACTORS[0] if first else factor
        changed = rows.curator.relation.rows_changed
        noise = changed * factor * math.sqrt(size) / (math.sqrt(rows.n_rows * left) * mu)
        # squared scores have noise in proportion to the squared cut
        squares = rows.n_rows * mu * math.sqrt(DISPERSION_SHARE) / factor**2
        usual = _within(CLIP_NOISE / noise, (CUTS[0], USUAL_CUT))
        if first:
            return usual
        wide = min(WIDE_CUT_NOISE / noise, math.sqrt(CUT_NOISE * squares))
        return _within(wide, (usual, CUTS[1]))

    def _checks(self, walk: _Walk, extras: _Extras, dispersion: float, turned: _Turned) -> Checks:
        """Ask for what is measured beside the coefficients, at the last point."""
        asked = walk.asked
        at = walk.path.points[-1]
        checks = Checks()
        if extras.bound:
            share, error = self._at_bound(extras.bound * asked.total)
            checks = replace(checks, at_bound=share, at_bound_error=error)
        if walk.hessian.error > MOST_NOISE:
            return checks
        whole = walk.hessian.times(1.0 / walk.inside)
        unit = self._scale(walk, extras.scale * asked.total)
        moment = Moment(whole.matrix, np.eye(at.size), whole.deviation, unit)
        checks = replace(checks, moment=moment)
        if extras.tails:
            tails = asked.tails(at, extras.tails, walk.hessian, 1.0 - walk.inside)
            cut = asked.scored.slopes.slope_bound
            checks = replace(checks, cut=cut, tails=tails)
        checks = checks.carried(turned.matrix, 1.0)
        if extras.variances and self.wanted.basis is not None:
            basis = self.wanted.basis @ turned.matrix
            found = asked.variances(at, extras.variances, walk.hessian, basis, dispersion)
            checks = replace(checks, variances=found)
        return checks

    def _at_bound(self, total: float) -> tuple[float, float]:
        """Return the noisy share of targets at a bound, and its deviation.

        It is asked of rows with hardly more than their constant, whose norm is 1.
        """
        assert self.wanted.ends is not None
        rows = self.rows.curator.columns(np.arange(1), factor=SMALLEST_FACTOR)
        question = ScoreSum(AtBound(*self.wanted.ends), np.zeros(2), 1.0)
        noisy = rows.ask(question, Gaussian.sharing(total))
        return float(noisy.values[-1]) / self.rows.n_rows, noisy.deviation / self.rows.n_rows

    def _dispersion_plan(self, turned: _Turned, slope: float, mu: float) -> _Dispersion:
        """Return which rows are asked for squared scores, and whether they are."""
        signal = slope**2 * mu * math.sqrt(DISPERSION_SHARE)
        squares = turned.few if turned.few.n_rows * signal > SURE_SQUARES else turned.rows
        known = squares.n_rows * signal
        stated = self.problem.loss.dispersion is not None and not self.weighted
        measured = not stated or known * DISPERSION_NOISE > 1.0
        most = CLIP_FACTORS[1] if stated else math.sqrt(known * MOST_DOUBT)
        return _Dispersion(squares, stated, measured, most)

    def _dispersion(self, walk: _Walk, plan: _Dispersion, guess: float) -> tuple[float, float]:
        """Return the dispersion, and what its noise adds to a variance, as a share."""
        stated = self.problem.loss.dispersion or 1.0
        if not plan.measured:
            return stated, 0.0
        found, noise = walk.asked.squares(walk.path.points[-1], DISPERSION_SHARE)
        if guess:
            found, noise = _together(found, noise, guess)
        found = max(found, noise)
        doubt = _doubt(noise / found)
        # one that the likelihood states is replaced only by one that is less beyond the noise
        found += 2 * noise if plan.stated else 0.0
        found /= max(float(np.trace(walk.hessian.matrix)), 1e-300)
        return (min(found, stated) if plan.stated else found), doubt

    @staticmethod
    def _kept(of: _Source, total: float) -> FloatArray:
        """Return the noisy second moment of rows as they are weighted, at the smallest clip."""
        clip = KEPT_CLIP * math.sqrt(of.curator.n_parameters)
        size = of.curator.n_parameters
        mechanism = Gaussian.sharing(total)
        noisy = of.curator.ask(CurvatureSum(Squared(), np.zeros(size), clip), mechanism)
        return noisy.matrix() / of.n_rows

    @staticmethod
    def _error(of: _Source, mu: float, size: int, usual: _Usual) -> float:
        """Return the relative error of a Hessian that takes all of the share."""
        apart = math.sqrt(of.curator.relation.rows_changed)
        return _hessian_error(of.n_rows, size, mu / apart, usual.curvature)

    def _clip(
        self, hessians: _Source, mu: float, left: float, size: int, usual: _Usual
    ) -> tuple[float, float]:
        """Return the share of the last Hessian, and the clip of norms over √p."""
        changed = self.rows.curator.relation.rows_changed
        n_rows = self.rows.n_rows
        error = self._error(hessians, mu, size, usual)
        share = _within((error / HESSIAN_ERROR) ** 2, HESSIAN_SHARES)
        noise = changed * math.sqrt(size) / (usual.slope * math.sqrt(n_rows * (left - share)) * mu)
        by_hessian = HESSIAN_ERROR * math.sqrt(share) / error * CLIP_FACTORS[0] ** 2
        return share, min(CLIP_NOISE / noise, math.sqrt(by_hessian), CLIP_FACTORS[1])


def _shortening(kept: FloatArray) -> FloatArray:
    """Return a matrix that makes directions shorter in which little of the rows' moment is kept."""
    values, vectors = np.linalg.eigh(kept)
    most = max(float(np.quantile(values, KEPT_QUANTILE)), 1e-300)
    shorter = np.clip(KEPT_FACTOR * np.sqrt(np.maximum(values / most, 0.0)), SHORTEST, 1.0)
    return np.asarray((vectors * shorter) @ vectors.T)


def _doubt(error: float) -> float:
    """Return what a variance of this relative error needs more, as with Student's t."""
    return STUDENT / 4 * error**2


def _slope_of(cut: float) -> float:
    """Return the root mean square of normal numbers that are cut to a size, over that size."""
    inside = math.erf(cut / math.sqrt(2.0))
    density = math.exp(-0.5 * cut * cut) / math.sqrt(2.0 * math.pi)
    square = inside - 2.0 * cut * density + cut * cut * (1.0 - inside)
    return math.sqrt(square) / cut


def _together(
    found: float, noise: float, guess: float, error: float = GUESS_ERROR
) -> tuple[float, float]:
    """Return the weighted mean of a noisy number and a guess at it, and its error.

    The guess has a relative ``error``.
    """
    own, other = noise**-2.0, (error * guess) ** -2.0
    return (own * found + other * guess) / (own + other), (own + other) ** -0.5


def _within(value: float, limits: tuple[float, float]) -> float:
    return min(max(value, limits[0]), limits[1])


@dataclass(frozen=True)
class _Path:
    """Points at which scores were measured, and the scores; ``unit`` is that of residuals.

    ``turn`` is what rows that are alike in all directions were multiplied by.
    """

    points: list[FloatArray]
    scores: list[FloatArray]
    unit: float
    turn: FloatArray | None = None

    def length(self, change: FloatArray) -> float:
        """Return about what a change of weights does to scores: rows may have been turned."""
        return float(np.linalg.norm(change if self.turn is None else self.turn @ change))

    def add(self, point: FloatArray, score: FloatArray) -> None:
        """Add a point and its score."""
        self.points.append(point)
        self.scores.append(score)

    def next(self, hessian: _Hessian) -> FloatArray:
        """Return the mean of where Newton's steps from all points but the first lead."""
        point, score = self.means()
        step = hessian.solve(score, least=2 * hessian.noise)
        longest = LONGEST_MOVE * self.unit
        return point - step * min(1.0, longest / max(self.length(step), 1e-300))

    def means(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean point and the mean score, without the first if there are others."""
        first = min(1, len(self.points) - 1)
        return np.mean(self.points[first:], axis=0), np.mean(self.scores[first:], axis=0)


@dataclass(frozen=True)
class _Asked:
    """Means that curators are asked for, each for a share of a total in μ²."""

    scores: _Source
    hessians: _Source
    squared: _Source
    scored: Scored
    clip: float
    total: float
    unit: float = 1.0

    def score(self, weights: FloatArray, share: float) -> tuple[FloatArray, float]:
        """Return the noisy mean score, and the deviation of its noise."""
        mechanism = Gaussian.sharing(share * self.total)
        loss = self.scored.slopes
        curator, n_rows, _ = self.scores
        noisy = curator.ask(ScoreSum(loss, weights, self.clip), mechanism)
        return noisy.values / n_rows, noisy.deviation / n_rows

    def hessian(self, weights: FloatArray, share: float) -> _Hessian:
        """Return the noisy mean Hessian; that of a sample has its sampling error for noise, too."""
        mechanism = Gaussian.sharing(share * self.total)
        loss = self.scored.curvature
        (curator, n_rows, drawn) = self.hessians
        noisy = curator.ask(CurvatureSum(loss, weights, self.clip), mechanism)
        bound = self.scored.factor * (loss.curvature_bound or 1.0) / n_rows
        matrix = bound * noisy.matrix()
        deviation = bound * noisy.deviation
        if drawn:
            mean = float(np.trace(matrix)) / len(matrix)
            deviation = math.hypot(deviation, mean * math.sqrt(2 / n_rows))
        return _Hessian.of(matrix, deviation)

    def inside(self, weights: FloatArray, share: float, hessian: _Hessian) -> float:
        """Return the share of the curvature that is within the cut of slopes.

        It is the ratio of two traces, together with what normal residuals would have.
        """
        bound = self.scored.slopes.slope_bound
        narrow = self.scored._replace(curvature=self.scored.slopes)
        inner = replace(self, scored=narrow).hessian(weights, share)
        whole = float(np.trace(hessian.matrix))
        guess = math.erf(bound / (math.sqrt(2.0) * self.unit))
        if whole <= 0.0:
            return guess
        size = len(hessian.values)
        noise = math.sqrt(size) * math.hypot(inner.deviation, hessian.deviation) / whole
        ratio = float(np.trace(inner.matrix)) / whole
        own, other = noise**-2.0, (INSIDE_ERROR * guess) ** -2.0
        found = (own * ratio + other * guess) / (own + other)
        return _within(float(found), (0.5 * guess, 1.0))

    def tails(self, weights: FloatArray, share: float, hessian: _Hessian, beyond: float) -> Tails:
        """Return what one-sided tails of residuals do to the weights, for each unit of excess.

        ``beyond`` is the measured share of residuals beyond the cut, 0 where it was not measured.
        """
        curator, n_rows, _ = self.scores
        loss = BeyondCut(self.scored.slopes.slope_bound)
        mechanism = Gaussian.sharing(share * self.total)
        noisy = curator.ask(ScoreSum(loss, weights, self.clip), mechanism)
        inverse = hessian.inverse()
        normal = 1.0 - math.erf(loss.cut / (math.sqrt(2.0) * self.unit))
        beyond = max(beyond, normal, LEAST_BEYOND)
        deviation = noisy.deviation / n_rows
        values = noisy.values / n_rows
        covariance = deviation**2 * (inverse @ inverse) + beyond / n_rows * inverse
        one = math.hypot(deviation, math.sqrt(beyond / n_rows))
        return Tails(-inverse @ values, covariance, float(values[-1]), one)

    def variances(
        self,
        weights: FloatArray,
        share: float,
        hessian: _Hessian,
        basis: FloatArray,
        dispersion: float,
    ) -> Variances:
        """Return variances of coefficients, ``basis`` times weights, over those of the model."""
        curator, n_rows, _ = self.scores
        inverse = hessian.inverse()
        turned = basis @ inverse
        scale = np.sqrt(dispersion * np.maximum((turned * basis).sum(axis=1), 0.0))
        made = turned / np.where(scale > 0.0, scale, np.inf)[:, None]
        size = len(made)
        mechanism = Gaussian.sharing(share * self.total)
        apart = math.sqrt(curator.relation.rows_changed)
        wide = VARIANCE_NOISE * n_rows / (mechanism.noise_multiplier * apart * size)
        cut = math.sqrt(size) * _within(math.sqrt(wide), VARIANCE_CUTS)
        question = ScoreVariances(self.scored.slopes, weights, self.clip, made, cut)
        noisy = curator.ask(question, mechanism)
        ratio = np.maximum(noisy.values / n_rows, LEAST_RATIO)
        return Variances(np.where(scale > 0.0, ratio, 1.0), noisy.deviation / n_rows)

    def curvature(self, hessian: _Hessian) -> float:
        """Return the mean curvature over its bound, at least `LEAST_CURVATURE`."""
        bound = self.scored.factor * (self.scored.curvature.curvature_bound or 1.0)
        mean = float(np.trace(hessian.matrix)) / (len(hessian.values) * bound)
        return _within(mean, (LEAST_CURVATURE, 1.0))

    def squares(self, weights: FloatArray, share: float) -> tuple[float, float]:
        """Return the noisy mean squared norm of scores, and the deviation of its noise."""
        mechanism = Gaussian.sharing(share * self.total)
        loss = self.scored.slopes
        curator, n_rows, _ = self.squared
        noisy = curator.ask(ScoreSquareSum(loss, weights, self.clip), mechanism)
        bound = (loss.slope_bound * self.clip) ** 2 / n_rows
        return bound * float(noisy.values[0]), bound * noisy.deviation


@dataclass
class _Walk:
    """Newton's steps from the fitted weights to the estimate, on a share that is ``left``.

    ``bent``: the curvature depends on the weights, as it does but in least squares.
    """

    asked: _Asked
    weights: FloatArray
    path: _Path
    left: float
    bent: bool
    hessian: _Hessian = field(init=False)
    deviation: float = math.inf
    inside: float = 1.0

    def measure(self, share: float) -> None:
        """Measure the Hessian at the weights; ask what the cut of slopes leaves of it."""
        self.hessian = self.asked.hessian(self.weights, share)
        self.left = self.left - share
        if self.asked.scored.inside:
            self.inside = self.asked.inside(self.weights, INSIDE_SHARE, self.hessian)
            self.hessian = self.hessian.times(self.inside)

    def step(self, share: float) -> None:
        """Measure a score and go where it leads."""
        score, self.deviation = self.asked.score(self.weights, share)
        self.path.add(self.weights, score)
        self.weights = self.path.next(self.hessian)
        self.left = self.left - share

    def short(self, share: float) -> None:
        """Take two steps, where much is known; more, with another Hessian, if that was too far."""
        start = self.weights
        steps = 1
        self.measure(share)
        self.step(FIRST_SCORE * self.left)
        moved = self.path.length(self.weights - start)
        if moved > NEAR * self.path.unit or self.hessian.error > 2 * HESSIAN_ERROR:
            steps = SCORES[0]
            if self.bent:
                self.measure(min(share, 0.5 * self.left))
        each = self.left / steps
        for _ in range(steps):
            self.step(each)

    def long(self, share: float) -> None:
        """Take all steps; the Hessian at the fitted weights is known, but in least squares."""
        if not self.bent:
            self.measure(share)
        spent = self.bent * share
        self.step(FIRST_SCORE / 2 * (self.left - spent))
        each = (self.left - spent) / (sum(SCORES) - 1)
        for _ in range(SCORES[0] - 1):
            self.step(each)
        if self.bent:
            self.measure(share)
        for _ in range(SCORES[1]):
            self.step(each)


@dataclass(frozen=True)
class _Hessian:
    """A noisy mean Hessian: its eigenvalues and eigenvectors, and the noise in its entries."""

    matrix: FloatArray
    values: FloatArray
    vectors: FloatArray
    deviation: float

    @classmethod
    def of(cls, matrix: FloatArray, deviation: float) -> _Hessian:
        return cls(matrix, *np.linalg.eigh(matrix), deviation)

    @property
    def noise(self) -> float:
        """Largest eigenvalue of the noise, about."""
        return self.deviation * math.sqrt(2 * len(self.values))

    @property
    def error(self) -> float:
        """The noise over the median eigenvalue."""
        median = float(np.median(self.values))
        return self.noise / median if median > 0 else math.inf

    def times(self, factor: float) -> _Hessian:
        """Return the Hessian times a factor."""
        values = factor * self.values
        return _Hessian(factor * self.matrix, values, self.vectors, factor * self.deviation)

    def inverse(self) -> FloatArray:
        """Return the inverse in the directions that are determined."""
        known = self._known()
        vectors = self.vectors[:, known]
        return np.asarray((vectors / self.values[known]) @ vectors.T)

    def solve(self, score: FloatArray, *, least: float) -> FloatArray:
        """Return H⁻¹·score, eigenvalues raised to ``least``."""
        moved = (score @ self.vectors) / np.maximum(self.values, least)
        return np.asarray(self.vectors @ moved)

    def evidence(
        self, path: _Path, deviation: float, dispersion: float, drawn: float, turn: FloatArray
    ) -> Evidence:
        """Take the last step and return what is known of its end, in units of prepared rows.

        ``turn`` is the symmetric matrix that these were multiplied by. ``drawn`` is the sampling
        variance along a direction of curvature 1. The inverse of a noisy matrix is too large on
        average: eigenvalues are raised by what makes up for it (docs/inference.md).
        """
        start, score = path.means()
        deviation /= math.sqrt(len(path.points) - 1)
        known = self._known()
        size = start.size
        blind = self.vectors[:, ~known]
        if self.error > MOST_NOISE:
            no: FloatArray = np.full((size, size), np.nan)
            last = (blind.T @ turn, no, 1.0, dispersion, _HIDDEN)
            return Evidence(turn @ start, no, no, no, *last)
        values = self.values[known]
        vectors = self.vectors[:, known]
        inverse = 1.0 / values
        values = values + 0.5 * self.deviation**2 * (inverse + inverse.sum())
        step = -vectors @ ((score @ vectors) / values)
        end = start + step
        # noise in the score, and noise in the Hessian times the step
        half = 0.5 * self.deviation**2
        doubt = STUDENT * (self.deviation / values) ** 2
        spread = (deviation**2 + half * float(step @ step)) * (1 + doubt)
        noise = (vectors * (spread / values**2)) @ vectors.T
        moved = vectors @ ((step @ vectors) / values)
        noise += half * np.outer(moved, moved)
        sampling = (vectors * (drawn * (1 + doubt / 4) / values)) @ vectors.T
        usual = max(float(np.mean((start @ each) ** 2)) for each in (vectors, blind) if each.size)
        hidden = np.square(np.maximum(self.values[~known], 0.0) + self.deviation).sum()
        bias = (vectors * (half * usual * hidden / values**4)) @ vectors.T
        # what noise alone makes of the part of a combination in directions that are not known
        floor = (vectors * (half * blind.shape[1] / values**2)) @ vectors.T
        ends = path.points[2:] or path.points[1:]
        apart = math.sqrt(np.mean([path.length(at - end) ** 2 for at in ends]))
        reason = _FAR if apart > LONGEST_STEP * path.unit else ""
        return Evidence(
            weights=turn @ end,
            sampling=turn @ sampling @ turn,
            noise=turn @ noise @ turn,
            bias=turn @ bias @ turn,
            blind=blind.T @ turn,
            floor=turn @ floor @ turn,
            usual=usual,
            dispersion=dispersion,
            reason=reason,
        )

    def _known(self) -> NDArray[np.bool_]:
        """Return which eigenvalues are above their noise.

        Noise moves an eigenvalue by about √(2k) times that of an entry, k the number of eigenvalues
        that are not much larger.
        """
        least, each = LEAST_EIGENVALUES
        near = np.searchsorted(self.values, 2 * np.maximum(self.values, 0.0), side="right")
        limit = self.deviation * np.maximum(least * np.sqrt(2.0 * near), each)
        return np.asarray(self.values > limit)


_HIDDEN = (
    "the Hessian is hidden by its noise: the budget is too small for intervals at this number of "
    "rows and columns"
)
_FAR = (
    "noise keeps the last points too far from the estimate: the budget is too small for intervals "
    "at this number of rows and columns"
)
