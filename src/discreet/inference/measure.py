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
from typing import ClassVar, NamedTuple

import numpy as np

from discreet.accounting.budget import Measure
from discreet.core import Curator, ExponentialMechanism, Gaussian
from discreet.core.questions import CurvatureSum, MedianNorm, MedianSlope, ScoreVariances
from discreet.inference.allocation import Allocation, Dispersion, Extras
from discreet.inference.checks import Checks, CutSlopes, LargeCurvature, LargeSlope, Moment
from discreet.inference.evidence import Evidence, Points
from discreet.inference.hessian import CLIPS, MOST_NOISE, TYPICAL_CURVATURE, Usual, is_precise
from discreet.inference.means import (
    UNWEIGHTED,
    Means,
    Source,
    first_beyond,
    share_at_bound,
    slope_of,
)
from discreet.inference.shares import (
    CHOICE_NOISE,
    MEDIAN_OF_NORMAL,
    PRECISION,
    SHARE,
    SHARES,
    candidates,
    share_for,
    together,
    widening,
)
from discreet.inference.walk import Walk
from discreet.objectives import Loss, Problem, Scored, Squared
from discreet.objectives.advice import LIMIT
from discreet.validate import FloatArray, check_fields, number

__all__ = ["Inference", "Wanted"]


class Wanted(NamedTuple):
    """What a caller wants to know beside the coefficients.

    ``basis`` makes coefficients of weights of prepared rows, None if they are those weights.
    ``robust`` is True if variances of single coefficients are wanted where noise allows them.
    ``ends`` are bounds of scaled targets.
    """

    basis: FloatArray | None = None
    robust: bool = True
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
        rows = Source(curator, problem.n_rows)
        sample = rows if few is None else Source(few, few.n_rows, drawn=True)
        return Stage(rows, sample, problem, weighted, mapped, wanted).run(pilot, total)


@dataclass(frozen=True)
class _Turned:
    """Prepared rows times a symmetric matrix, so that they are about √p long in most directions.

    ``few`` are a sample of ``rows``, or all of them. ``factor`` is the part of the matrix that is
    the same for all columns, ``nearest`` the smallest clip over √p, and ``left`` the share that is
    left.
    """

    rows: Source
    few: Source
    matrix: FloatArray
    factor: float
    nearest: float
    left: float

    @property
    def longer(self) -> FloatArray:
        """The part of the matrix that is not the same for all columns."""
        size = len(self.matrix)
        factors = np.full(size, self.factor)
        factors[self.rows.curator.n_features :] = 1.0
        return np.asarray(self.matrix / factors)


@dataclass(frozen=True)
class _Slopes:
    """The size of residuals, and of slopes over their bound, as far as it is known.

    ``asked`` is True if a median was asked for.
    """

    unit: float
    usual: Usual
    asked: bool


@dataclass(frozen=True)
class Stage:
    """The measurements of one model, all on one budget: on its rows, or on a sample of them."""

    rows: Source
    few: Source
    problem: Problem
    weighted: bool
    mapped: bool
    wanted: Wanted = field(default_factory=Wanted)

    def run(self, pilot: FloatArray, total: float) -> Evidence:
        """Ask for medians, a first Hessian, corrections, the second Hessian and the last score."""
        loss = self.problem.loss
        size = pilot.size
        median = share_for(CHOICE_NOISE / (self.few.n_rows * math.sqrt(total)))
        choice = ExponentialMechanism.sharing(median * total)
        turned = self._turned(size, total, 1.0 - median, choice)
        rows = turned.rows
        rules = Allocation(rows, turned.few, size, math.sqrt(total), turned.nearest)
        weights = np.asarray(np.linalg.solve(turned.matrix, pilot), dtype=np.float64)
        slopes = self._slopes(turned.few, weights, choice)
        even = loss.scored(slopes.unit).even
        extras = self._extras(rules, even)
        left = turned.left - (median if slopes.asked else 0.0) - sum(extras)
        scored = loss.scored(slopes.unit)
        usual = slopes.usual
        if even:
            cut = rules.cut(left, rules.nearest)
            scored = loss.scored(slopes.unit, cut)
            usual = Usual(1.0, slope_of(cut))
        elif extras.cuts:
            scored, usual = self._narrowed(rows, weights, scored, usual, extras.cuts * total)
        stated = loss.dispersion is not None and not self.weighted
        plan = rules.dispersion(usual.slope, stated=stated)
        left -= plan.share
        hessians = rules.hessian_rows(usual)
        smallest = rules.nearest * math.sqrt(size)
        asked = Means(rows, hessians, plan.squares, scored, smallest, total, slopes.unit)
        walk = Walk(asked, weights, Points([], [], slopes.unit, turned.longer), left, not even)
        error = rules.error(rows, usual)
        if not even and not is_precise(error):
            walk.measure(share_for(error))
            usual = replace(usual, curvature=asked.curvature(walk.hessian))
        share, factor = rules.clip(hessians, walk.left, usual, plan.most)
        if even:
            ends = cut, rules.widest_cut(left - share, factor, plan.share)
            cut = self._unreached(rows, weights, slopes.unit, ends, extras.cuts * total)
            scored = loss.scored(slopes.unit, cut)
        walk.asked = replace(asked, clip=math.sqrt(size) * factor, scored=scored)
        (walk.short if is_precise(error) else walk.long)(share)
        dispersion, doubt = self._dispersion(walk, plan)
        sampling = (1 + doubt) * dispersion / rows.n_rows
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
        Rows of a rare category are long in whitened rows, and weights leave little of them. A
        larger clip leaves more of them, while noise grows in other directions: the clip is at least
        the middle of `CLIPS`, as ratios, where a direction is shortened most.
        """
        n_features = self.problem.n_features
        norm = self.few.curator.ask(MedianNorm(), choice)
        factor = math.sqrt(n_features) / norm
        rows, few = self._both(factor, None)
        matrix: FloatArray = np.eye(size)
        matrix[:n_features, :n_features] *= factor
        error = Allocation(rows, few, size, math.sqrt(total)).error(few, Usual(1.0, 1.0))
        share = share_for(error)
        if not self.mapped or error > PRECISION * math.sqrt(share):
            return _Turned(rows, few, matrix, factor, CLIPS[0], left)
        of = few if share == SHARES[0] else rows
        short = _shortening(self._kept(of, share * total)[:n_features, :n_features])
        rows, few = self._both(factor, short)
        matrix[:n_features, :n_features] = factor * short
        nearest = CLIPS[0] / float(np.linalg.eigvalsh(short)[0]) ** 0.25
        return _Turned(rows, few, matrix, factor, nearest, left - share)

    def _both(self, factor: float, matrix: FloatArray | None) -> tuple[Source, Source]:
        """Return all rows and the sample, if there is one, times a factor and a matrix."""
        rows = self.rows.turned(factor, matrix, self.problem.n_features)
        if not self.few.drawn:
            return rows, rows
        return rows, self.few.turned(factor, matrix, self.problem.n_features)

    def _slopes(self, few: Source, weights: FloatArray, choice: ExponentialMechanism) -> _Slopes:
        """Ask for the median size of residuals or slopes, unless the likelihood states it."""
        loss = self.problem.loss
        if loss.of_residuals:
            unit = few.curator.ask(MedianSlope(Squared(), weights), choice) / MEDIAN_OF_NORMAL
            typical = Usual(TYPICAL_CURVATURE, math.sqrt(TYPICAL_CURVATURE) / 2)
            return _Slopes(unit, typical, asked=True)
        usual = Usual.at(loss, weights, intercept=self.problem.fit_intercept)
        if loss.dispersion is not None:
            return _Slopes(1.0, usual, asked=False)
        slope = few.curator.ask(MedianSlope(loss, weights), choice) / MEDIAN_OF_NORMAL
        return _Slopes(1.0, replace(usual, slope=min(slope / loss.slope_bound, 1.0)), asked=True)

    def _extras(self, rules: Allocation, even: bool) -> Extras:
        """Return what is measured beside the coefficients, by public numbers alone."""
        constant = self.problem.fit_intercept
        robust = self.wanted.robust and self.wanted.basis is not None
        bound = self.wanted.ends is not None and constant and self.mapped
        narrows = not even and self.problem.loss.narrowed(0.5) is not None
        return Extras(
            inside=SHARES[0] * even,
            tails=SHARES[0] * even,
            bound=SHARES[0] * bound,
            variances=rules.variance_share() * robust,
            cuts=SHARES[0] * (even + 2 * narrows) * constant,
            scale=SHARES[0] * (even and constant and not self.weighted),
        )

    def _narrowed(
        self, rows: Source, weights: FloatArray, scored: Scored, usual: Usual, total: float
    ) -> tuple[Scored, Usual]:
        """Return losses of smaller bounds, where hardly a row has larger slopes or curvatures.

        Noise is in proportion to these bounds, which the bounds of the target state: for counts,
        the largest.
        """
        loss = self.problem.loss
        parts = candidates(1.0)
        bound = loss.curvature_bound or 1.0
        steep = [LargeCurvature(loss, part * bound) for part in parts]
        flat = float(parts[self._first(rows, weights, steep, total / 2)])
        far = [LargeSlope(loss, part * loss.slope_bound) for part in parts]
        first = self._first(rows, weights, far, total / 2)
        # one-sided tails: the next candidate is beyond what a count could miss
        near = float(parts[min(first + 1, parts.size - 1)])
        made = scored._replace(slopes=CutSlopes(loss, near * loss.slope_bound))
        made = made._replace(curvature=loss.narrowed(flat) or loss)
        slope = min(usual.slope / near, 1.0)
        return made, Usual(min(usual.curvature / flat, 1.0), slope)

    def _unreached(
        self,
        rows: Source,
        weights: FloatArray,
        unit: float,
        ends: tuple[float, float],
        total: float,
    ) -> float:
        """Return the smallest cut of residuals between two ends beyond which hardly a row is."""
        narrow, wide = ends
        if not total or wide <= max(narrow, LIMIT):
            return wide
        cuts = candidates(wide, max(narrow, LIMIT))
        far = [LargeSlope(Squared(), cut * unit) for cut in cuts]
        return float(cuts[self._first(rows, weights, far, total)])

    def _first(
        self, rows: Source, weights: FloatArray, indicators: Sequence[Loss], total: float
    ) -> int:
        return first_beyond(rows, weights, indicators, total, weighted=self.weighted)

    def _scale(self, walk: Walk, total: float) -> float:
        """Return the scale of residuals, by their noisy mean square and by their median size."""
        asked = walk.asked
        unit: float = asked.unit * 2.0 ** (
            -1 / 32
        )  # a median is the upper of two sizes apart by 2^(1/16)
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
        found, _ = together(found, noise, unit**2)
        return math.sqrt(max(found, unit**2 / 4))

    def _checks(self, walk: Walk, extras: Extras, dispersion: float, turned: _Turned) -> Checks:
        """Ask for what is measured beside the coefficients, at the last point."""
        asked = walk.asked
        at = walk.path.points[-1]
        checks = Checks()
        if extras.bound and self.wanted.ends is not None:
            total = extras.bound * asked.total
            share, error = share_at_bound(self.rows, self.wanted.ends, total)
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

    def _dispersion(self, walk: Walk, plan: Dispersion) -> tuple[float, float]:
        """Return the dispersion, and what its noise adds to a variance, as a share."""
        stated = self.problem.loss.dispersion or 1.0
        if not plan.share:
            return stated, 0.0
        found, noise = walk.asked.squares(walk.path.points[-1], plan.share)
        found = max(found, noise)
        doubt = widening(noise / found)
        # one that the likelihood states is replaced only by one that is less beyond the noise
        found += 2 * noise if plan.stated else 0.0
        found /= max(float(np.trace(walk.hessian.matrix)), 1e-300)
        return (min(found, stated) if plan.stated else found), doubt

    @staticmethod
    def _kept(of: Source, total: float) -> FloatArray:
        """Return the noisy second moment of rows as they are weighted, at the smallest clip."""
        size = of.curator.n_parameters
        clip = CLIPS[0] * math.sqrt(size)
        mechanism = Gaussian.sharing(total)
        noisy = of.curator.ask(CurvatureSum(Squared(), np.zeros(size), clip), mechanism)
        return noisy.matrix() / of.n_rows


def _shortening(kept: FloatArray) -> FloatArray:
    """Return a matrix that makes directions shorter in which less than usual is kept of the rows.

    They are shortened by no more than weights of long rows could grow with the clip.
    """
    values, vectors = np.linalg.eigh(kept)
    usual = max(float(np.median(values)), 1e-300)
    parts = np.sqrt(np.maximum(values / usual, 0.0))
    shorter = np.clip(parts, (CLIPS[0] / CLIPS[1]) ** 2, 1.0)
    return np.asarray((vectors * shorter) @ vectors.T)
