"""Steps of a preparation, each beside its fitted form, and what a step is.

A `Step` is a setting: its share of the budget and what it asks the curator for. A `FittedStep`
holds the numbers that were released, and the affine map that they stand for: what becomes of a row
in a fit depends on that row and the released numbers.

`Radius` and `Spread` choose among public candidates; `Centre`, `Scale` and `Whiten` use noisy
moments. A moment needs a public bound on the norm of rows, which travels from step to step
(`RowNorms`): first it is ``data_norm``, after `Radius` it is 1, and each step states what it
leaves. What follows from a noisy moment is computed from released and public numbers:
post-processing.

Proof: docs/proofs/preparation.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import partial
from typing import Annotated, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet.accounting import conversions
from discreet.accounting.budget import Measure
from discreet.core import Curator, ExponentialMechanism, Gaussian, L2Norm
from discreet.core.questions import MedianNorm, OuterSum, RowSum, SquareSum
from discreet.rows import AffineMap
from discreet.solvers.base import nearest
from discreet.validate import (
    CheckedFields,
    FloatArray,
    Positive,
    Vector,
    number,
    square_matrix,
    vector,
)

Mechanism = ExponentialMechanism | Gaussian | L2Norm
AnyStep = TypeVar("AnyStep", bound="Step | FittedStep")

LEAST_SPREAD = 1e-6
"""Share of their norm that rows are assumed to keep at least when a mean is subtracted."""

WIDEST = 2048
"""Largest number of columns that can be whitened: the second moment has about half its square."""

MARGIN = 1.2
"""After Scale or Whiten: the norm that rows are clipped to in moments, over the typical one."""

LEAST_LEFT = 0.05
"""Share of their squared norm that rows are assumed to keep when their mean is subtracted."""

LEAST_SHARE = 0.05
"""Share of the largest possible mean squared norm that rows are assumed to have at least."""

RADII = (1e-21, 1e21)
"""Range of a radius: beyond it single precision would overflow."""

PRECISION = 17.0
"""Size of what is measured over its noise, for each of the columns of a measurement."""

LEAST_COST = 0.005
"""Smallest share of the budget for a measurement: more precision than this buys is of no use."""

MOST_COST = 0.1
"""Largest share of the budget for a measurement: the model needs the rest."""

Share = Annotated[float, partial(number, least=1e-6, most=1 - 1e-6)]
"""Field that is a share of the budget."""


def share_for(n_columns: int, signal: float) -> float:
    """Return the share of the budget (of μ²) for a measurement of so many columns.

    ``signal`` is n·μ/k, one over the noise in the mean of numbers in [0, 1]. The noise of c columns
    together is √c/(signal·√share). The share makes that one over `PRECISION`, within limits.
    """
    needed = PRECISION**2 * n_columns / signal**2
    return min(max(needed, LEAST_COST), MOST_COST)


@dataclass(frozen=True)
class RowNorms:
    """Public knowledge of the norm of rows between two steps of a preparation.

    Norms are infinite before anything is known of them.

    Attributes
    ----------
    clip
        Norm that rows are clipped to in the next moment that is asked for.
    typical
        Upper bound on the root of the rows' mean squared norm, as far as is known.
    target
        Root mean squared norm that `Whiten` brings rows to.
    raw
        True until a step has clipped the rows. The next step that transforms them then clips them
        first; later steps clip rows in their moments only.
    dense, constant
        Columns that had a small number of zeros, and columns that were nearly constant, where that
        was measured.
    mean_noise
        Deviation of the noise in each column's mean, which was subtracted last.
    median
        Approximate median norm of the rows; 0 if it is not known.
    sizes
        Sizes of the columns that `Largest` detected, NaN for others.
    in_units
        True if `Magnitude` brought columns to entries of about 1 at most.
    resolved, indicators
        Columns whose unit `Magnitude` detected, and columns in which it detected no entry but 0 and
        ±1.
    moment
        Noisy second moment of the columns that `Whiten` was given, over the deviation of its noise.
    """

    clip: float
    typical: float
    target: float
    raw: bool = False
    dense: NDArray[np.bool_] | None = None
    constant: NDArray[np.bool_] | None = None
    mean_noise: float = 0.0
    median: float = 0.0
    sizes: FloatArray | None = None
    in_units: bool = False
    resolved: NDArray[np.bool_] | None = None
    indicators: NDArray[np.bool_] | None = None
    moment: FloatArray | None = None

    @classmethod
    def raw_up_to(cls, norm: float) -> RowNorms:
        """Return what a public bound on the norm says of rows that no step has clipped."""
        return cls(float(norm), float(norm), float(norm), raw=True)


Known = RowNorms | None

STEPS: dict[str, type[Step]] = {}
"""Classes of steps by name."""

FITTED_STEPS: dict[str, type[FittedStep]] = {}
"""Classes of fitted steps by name."""


class Step(CheckedFields):
    """Base class of steps: frozen dataclasses with a share of the budget.

    A step is ``dense`` if it makes a dense table of a sparse one, and ``bounded`` if it needs a
    public bound on the norm of the rows it reads. ``selections`` is its number of selections among
    public candidates; 0 for a step that asks for one sum. ``widest`` is the largest number of
    columns, if there is one. A step ``of_columns`` changes single columns of X and comes first;
    it ``takes_gaps`` if it asks for counts alone, which leave out missing entries, and replaces
    these. ``sets_norm`` is True if rows have a known norm after the step, whatever they had before.
    """

    share: float
    name: ClassVar[str]
    dense: ClassVar[bool] = False
    bounded: ClassVar[bool] = True
    of_columns: ClassVar[bool] = False
    sets_norm: ClassVar[bool] = False
    selections: int = 0
    takes_gaps: bool = False
    widest: ClassVar[int | None] = None

    def __init_subclass__(cls) -> None:
        STEPS[cls.name] = cls

    def mechanism(self, measure: Measure, total: Fraction) -> Mechanism:
        """Return the mechanism whose uses in this step cost at most ``total``, and nearly all.

        The cost of a mechanism is rounded up, so slightly less than ``total`` is asked for.
        """
        if not self.selections:
            if measure == "gdp":
                return Gaussian.sharing(float(total))
            amount = float(total) * (1 - 2.0**-40)
            return Gaussian.from_rho(amount) if measure == "zcdp" else L2Norm(amount)
        each = float(total / self.selections) * (1 - 2.0**-36)
        if measure == "zcdp":
            each = math.sqrt(8 * each)
        elif measure != "pure":
            each = conversions.bounded_range_from_mu(math.sqrt(each))
        return ExponentialMechanism(each, monotone=False)

    def fit(self, curator: Curator, mechanism: Any, norms: Known) -> tuple[FittedStep, Known]:
        """Ask the curator for what the step needs, with the budget that was opened for it.

        ``mechanism`` is what `mechanism` returned for that budget, ``norms`` what is known of the
        norm of the rows. Returns the released numbers, and what is known of transformed rows.
        """
        raise NotImplementedError


class FittedStep(CheckedFields):
    """Base class of fitted steps: frozen dataclasses of released numbers.

    ``condition_text`` says what the privacy of the step rests on, with names of fields in braces.
    Rows are multiplied by the field that ``multiplies`` names, of one entry or row per column, or
    that of ``subtracts`` is subtracted from them; a step that names neither leaves them as they
    are.
    """

    name: ClassVar[str]
    condition_text: ClassVar[str]
    multiplies: ClassVar[str] = ""
    subtracts: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        if hasattr(cls, "name"):
            FITTED_STEPS[cls.name] = cls

    def affine_map(self, before: AffineMap | None, n_features: int) -> AffineMap | None:
        """Return the map that does what ``before`` and then this step do, if there is one.

        The first step of a map clips rows to its ``row_norm``, if it has one.
        """
        if not self.multiplies and not self.subtracts:
            return before
        start = before or AffineMap.to_norm(getattr(self, "row_norm", math.inf), n_features)
        if self.subtracts:
            return start.then(1.0, getattr(self, self.subtracts))
        return start.then(getattr(self, self.multiplies))

    def accepts(self, n_features: int) -> bool:
        """Return whether the step can be applied to a table of this width."""
        by = self.multiplies or self.subtracts
        return not by or len(getattr(self, by)) == n_features

    @property
    def condition(self) -> str:
        """Statement of what the privacy of the step rests on."""
        return self.condition_text.format_map(vars(self))


def to_dict(step: Step | FittedStep) -> dict[str, Any]:
    """Return a step, or a fitted one, as plain data."""
    plain: dict[str, Any] = {"step": step.name}
    for field in fields(step):  # type: ignore[arg-type]  # subclasses are dataclasses
        value = getattr(step, field.name)
        plain[field.name] = np.asarray(value).tolist() if np.iterable(value) else value
    return plain


def from_dict(data: Any, kinds: Mapping[str, type[AnyStep]]) -> AnyStep:
    """Return the step that `to_dict` was called on; anything else is a ``ValueError``.

    ``kinds`` has the classes that are allowed, by name.
    """
    name = data.get("step") if isinstance(data, dict) else None
    if not isinstance(name, str) or name not in kinds:
        raise ValueError(f"a step must be one of {', '.join(kinds)}; got {name!r}.")
    entries = [field.name for field in fields(kinds[name])]  # type: ignore[arg-type]
    if set(data) != {"step", *entries}:
        raise ValueError(f"the step {name!r} has exactly the entries: step, {', '.join(entries)}.")
    return kinds[name](**{key: data[key] for key in entries})


@dataclass(frozen=True)
class Radius(Step):
    """Bring rows to a common norm: x becomes x/max(R, ‖x‖), of norm at most 1.

    R is ``factor`` times about the median of the rows' norms. No public bound on the norm is
    needed; if ``data_norm`` is given, R is at most that. Sparse tables stay sparse.

    Parameters
    ----------
    share : float
        Share of the budget.
    factor : float
        R over the median norm. Rows of a norm above R are clipped to R.
    moment_clip : float
        Norm that rows are clipped to in the next moment, over R.

    Notes
    -----
    *Privacy.* One private selection among public candidates. The chosen radius is released.
    """

    share: Share = 0.01
    factor: Annotated[float, partial(number, least=0.1, most=100.0)] = 1.1
    moment_clip: Annotated[float, partial(number, least=1e-3, most=1.0)] = 1.0
    name: ClassVar[str] = "radius"
    bounded: ClassVar[bool] = False
    sets_norm: ClassVar[bool] = True
    selections = 1

    def fit(self, curator: Curator, mechanism: Any, norms: Known) -> tuple[FittedRadius, RowNorms]:
        """Ask for the median norm; rows have norm at most 1 afterwards."""
        bounded = norms and norms.raw and math.isfinite(norms.clip)
        largest = norms.clip if norms and bounded else None
        radius = self.factor * curator.ask(MedianNorm(largest), mechanism)
        fitted = FittedRadius(radius if largest is None else min(radius, largest))
        # a bound on the norm of rows changes R, not the norm that moments clip to
        clip = min(self.moment_clip * radius / fitted.radius, 1.0)
        known = RowNorms(clip, clip, 1.0, median=radius / self.factor / fitted.radius)
        if norms:
            known = replace(known, dense=norms.dense, indicators=norms.indicators)
        return fitted, known


@dataclass(frozen=True, eq=False)
class FittedRadius(FittedStep):
    """A radius: a row x becomes x/max(radius, ‖x‖), of norm at most 1."""

    radius: Annotated[float, partial(number, least=RADII[0], most=RADII[1])]
    name: ClassVar[str] = "radius"
    condition_text: ClassVar[str] = (
        "the radius {radius:.4g} was chosen privately by the median norm of the rows, among public "
        "candidates; rows were clipped to it and divided by it"
    )

    def affine_map(self, before: AffineMap | None, n_features: int) -> AffineMap | None:
        """Return the map if no step before it clips: it depends on the norms of the rows."""
        start = before or AffineMap.to_norm(math.inf, n_features)
        if math.isfinite(start.row_norm):
            return None
        return replace(start, row_norm=self.radius).then(1.0 / self.radius)


@dataclass(frozen=True)
class Spread(Step):
    """Measure the norm of the rows as they are now, so that later moments can clip them closer.

    Rows stay as they are. After `Centre` their norm may be much smaller than before: a column of
    years has a large mean and a small spread. Moments of rows that are clipped to their actual
    norm have less noise, so a second `Centre` finds the mean more precisely.

    Parameters
    ----------
    share : float
        Share of the budget.
    factor : float
        Norm that rows are clipped to, over their median norm.

    Notes
    -----
    *Privacy.* One private selection among public candidates. The chosen norm is released.
    """

    share: Share = 0.01
    factor: Annotated[float, partial(number, least=0.1, most=10.0)] = 1.5
    name: ClassVar[str] = "spread"
    selections = 1

    def fit(self, curator: Curator, mechanism: Any, norms: Known) -> tuple[FittedSpread, RowNorms]:
        """Ask for the median norm; later moments clip rows to a multiple of it.

        It is kept within what rows can have, and above what would let transformed rows overflow.
        """
        assert norms is not None  # `check_steps` demands a bound before this step
        fitted = FittedSpread(self.factor * curator.ask(MedianNorm(), mechanism))
        # a mean that was subtracted may have added to the norm
        most = norms.clip if norms.raw else 2 * norms.clip
        norm = min(max(fitted.norm, LEAST_SPREAD * norms.clip), most)
        return fitted, replace(norms, clip=norm, typical=norm, median=norm / self.factor)


@dataclass(frozen=True, eq=False)
class FittedSpread(FittedStep):
    """A norm that rows are clipped to in the moments of later steps. Rows stay as they are."""

    norm: Positive
    name: ClassVar[str] = "spread"
    condition_text: ClassVar[str] = (
        "the norm {norm:.4g} was chosen privately by the median norm of the rows, among public "
        "candidates, and later moments clip rows to it"
    )


# ---- steps by noisy moments


class FittedMoment(FittedStep):
    """Base class of steps by a noisy moment.

    ``deviation`` is the standard deviation of the noise in each coordinate of the moment (of a
    second moment's triangle, off the diagonal over √2), ``row_norm`` the norm that rows were
    clipped to for it. If ``clips``, rows are clipped to it when they are transformed, too.
    """

    deviation: Positive
    row_norm: Positive
    clips: bool


@dataclass(frozen=True)
class Centre(Step):
    """Subtract the noisy mean of the rows.

    With ``data_norm`` and no `Radius` before, rows are clipped to it first.

    Parameters
    ----------
    share : float
        Share of the budget.
    shrink : bool
        Shrink the noisy mean towards 0 by as much as its noise calls for.

    Notes
    -----
    *Privacy.* One noisy sum of rows of bounded norm. The noisy mean is released.
    """

    share: Share = 0.05
    shrink: bool = True
    name: ClassVar[str] = "centre"
    dense: ClassVar[bool] = True

    def fit(self, curator: Curator, mechanism: Any, norms: Known) -> tuple[FittedCentre, RowNorms]:
        """Ask for the mean.

        Rows of norm at most c around a mean m have a mean squared norm of at most c² − ‖m‖² around
        it. Some exceed it, by up to twice the norm before: the next moment clips them.
        """
        assert norms is not None  # `check_steps` demands a bound before this step
        noisy = curator.ask(RowSum(norms.clip), mechanism)
        mean = noisy.values / curator.n_rows
        deviation = noisy.deviation / curator.n_rows
        if self.shrink:
            mean = shrunk(mean, deviation)
        left = norms.clip**2 - float(mean @ mean)
        norm = math.sqrt(max(left, LEAST_LEFT * norms.clip**2))
        fitted = FittedCentre(mean, deviation, norms.clip, norms.raw)
        square = norms.median**2
        median = math.sqrt(max(square - float(mean @ mean), LEAST_LEFT * square))
        known = replace(norms, clip=norm, typical=norm, median=median)
        known = replace(known, raw=False, mean_noise=deviation)
        return fitted, known


@dataclass(frozen=True, eq=False)
class FittedCentre(FittedMoment):
    """A noisy mean, which is subtracted from rows."""

    mean: Vector
    deviation: Positive
    row_norm: Positive
    clips: bool
    name: ClassVar[str] = "centre"
    subtracts: ClassVar[str] = "mean"
    condition_text: ClassVar[str] = (
        "the mean of the rows, each clipped to norm {row_norm:g}, was released with noise of "
        "standard deviation {deviation:.4g} and subtracted"
    )


@dataclass(frozen=True)
class Scale(Step):
    """Multiply columns by weights that make their second moments equal, up to noise.

    Column j has the weight 1/√(v_j + s/2 + floor·v̄), times a number that makes the mean squared
    norm of the rows about norm². v_j is its noisy second moment, v̄ the mean of all of them, s the
    size of the noise. Rows are not clipped afterwards. A sparse table stays sparse.

    Parameters
    ----------
    share : float
        Share of the budget.
    norm : float
        What the root of the mean squared norm becomes.
    floor : float
        Added to every v_j, as a multiple of their mean: columns in which most rows are equal (rare
        categories) are not scaled up by more than 1/√floor times the mean scale.
    squares : float
        Norm that the squares of a row are scaled down to, over the squared norm that rows are
        clipped to: 1, or less for less noise. Rows whose d entries are of similar size have 1/√d.
    shrink : bool
        Shrink the v_j towards their mean by as much as their noise calls for: by q², q the share
        of their variance that noise explains. The mean squared norm is then computed with 1 − q of
        their differences, as noise that made v_j large made the weight small, and from the median
        norm of the rows, where a step before has measured it.

    Notes
    -----
    *Privacy.* One noisy sum of the squares of rows of bounded norm. The noisy second moments are
    released.
    """

    share: Share = 0.05
    norm: Annotated[float, partial(number, least=1e-3, most=1e3)] = 10 / 3
    floor: Annotated[float, partial(number, least=0.0, most=1e3)] = 0.0
    squares: Annotated[float, partial(number, least=1e-3, most=1.0)] = 1.0
    shrink: bool = False
    name: ClassVar[str] = "scale"

    def fit(self, curator: Curator, mechanism: Any, norms: Known) -> tuple[FittedScale, RowNorms]:
        """Ask for the columns' second moments; rows much longer than the norm are rare then."""
        assert norms is not None  # `check_steps` demands a bound before this step
        noisy = curator.ask(SquareSum(norms.clip, self.squares), mechanism)
        means = noisy.values / curator.n_rows
        deviation = noisy.deviation / curator.n_rows
        likely = plausible(means, deviation, norms)
        expected = likely
        if self.shrink:
            mean = likely.mean()
            spread = float(np.sum(np.square(means - means.mean())))
            noise = 1 / max(spread / (max(means.size - 1, 1) * deviation**2), 1.0)
            expected = mean + (1 - noise) * (likely - mean)
            likely = mean + (1 - noise**2) * (likely - mean)
        ridge = 0.5 * deviation + self.floor * float(likely.mean())
        weights = column_weights(likely, ridge, self.norm)
        if self.shrink:
            longer = norms.median**2 / float(expected.sum()) if norms.median else 1.0
            weights *= self.norm / math.sqrt(longer * float(np.sum(expected * weights**2)))
        fitted = FittedScale(weights, deviation, norms.clip, norms.raw)
        known = RowNorms(MARGIN * self.norm, self.norm, self.norm, median=self.norm)
        return fitted, replace(known, indicators=norms.indicators)


@dataclass(frozen=True, eq=False)
class FittedScale(FittedMoment):
    """A weight per column, from noisy second moments: columns are multiplied by the weights."""

    weights: Annotated[FloatArray, partial(vector, above=0.0)]
    deviation: Positive
    row_norm: Positive
    clips: bool
    name: ClassVar[str] = "scale"
    multiplies: ClassVar[str] = "weights"
    condition_text: ClassVar[str] = (
        "the columns' second moments, of rows each clipped to norm {row_norm:g}, were released "
        "with noise of standard deviation {deviation:.4g} and columns scaled by them"
    )


@dataclass(frozen=True)
class Whiten(Step):
    """Rotate and scale the rows until their second moment is about that of a ball.

    A row x becomes s·(Σ + λI)^(−1/2)·x. Σ is the noisy second moment with its eigenvalues
    projected on possible ones, λ the size of the noise (a public number), and s makes the mean
    squared norm, as far as Σ tells, that of a `Scale` before, else 1 after a `Radius`, else
    ``data_norm``².
    If it is the first step to use ``data_norm``, rows are clipped to it before they are whitened.

    Parameters
    ----------
    share : float
        Share of the budget.

    Notes
    -----
    *Privacy.* One noisy sum of outer products. The noisy second moment is released.
    """

    share: Share = 0.1
    name: ClassVar[str] = "whiten"
    dense: ClassVar[bool] = True
    widest: ClassVar[int | None] = WIDEST

    def fit(self, curator: Curator, mechanism: Any, norms: Known) -> tuple[FittedWhiten, RowNorms]:
        """Ask for the second moment; rows much longer than the target norm are rare then."""
        assert norms is not None  # `check_steps` demands a bound before this step
        noisy = curator.ask(OuterSum(norms.clip), mechanism)
        moment = noisy.matrix() / curator.n_rows
        deviation = noisy.deviation / curator.n_rows
        matrix, ridge = whitening(moment, deviation, norms)
        fitted = FittedWhiten(matrix, ridge, deviation, norms.clip, norms.raw)
        known = RowNorms(MARGIN * norms.target, norms.target, norms.target)
        return fitted, replace(known, moment=moment / deviation, indicators=norms.indicators)


@dataclass(frozen=True, eq=False)
class FittedWhiten(FittedMoment):
    """The matrix s·(Σ + λI)^(−1/2), which rows are multiplied by, and the ridge λ."""

    matrix: Annotated[FloatArray, square_matrix]
    ridge: Positive
    deviation: Positive
    row_norm: Positive
    clips: bool
    name: ClassVar[str] = "whiten"
    multiplies: ClassVar[str] = "matrix"
    condition_text: ClassVar[str] = (
        "the second moment of the rows, each clipped to norm {row_norm:g}, was released with noise "
        "of standard deviation {deviation:.4g} and rows were whitened by it"
    )


def shrunk(mean: FloatArray, deviation: float) -> FloatArray:
    """Shrink a noisy mean m by James and Stein: m·max(0, 1 − d·s²/‖m‖²), s the noise's deviation.

    Where the noise is larger than the mean, subtracting it would do more harm than good.
    """
    square = float(mean @ mean)
    noise = mean.size * deviation**2
    return mean * (1.0 - noise / square) if square > noise else np.zeros_like(mean)


def plausible(values: FloatArray, deviation: float, norms: RowNorms) -> FloatArray:
    """Project noisy second moments, in any orthogonal directions, on those that rows can have.

    The sum t of noisy values is known better than each of them, so it is kept, but for two limits.
    It is at most typical². And it is at least its own noise or a twentieth of typical², whichever
    is less: rows are not all 0. The result is the Euclidean projection on {v ≥ 0, Σv = t}.
    """
    largest_sum = norms.typical**2
    least = min(LEAST_SHARE * largest_sum, deviation * math.sqrt(values.size))
    total = float(np.clip(values.sum(), least, largest_sum))
    likely = nearest(values, total)
    if not likely.any():  # t is so small against the noise that it was rounded away
        likely[:] = total / values.size
    return likely


def column_weights(likely: FloatArray, ridge: float, norm: float) -> FloatArray:
    """Return weights g ∝ 1/√(v + ridge) of directions such that Σ v·g² = norm².

    v are means of squares in these directions that rows can have (`plausible`).
    """
    explained = float(np.sum(likely / (likely + ridge)))
    weights: FloatArray = norm / np.sqrt(explained * (likely + ridge))
    return weights


def whitening(moment: FloatArray, deviation: float, norms: RowNorms) -> tuple[FloatArray, float]:
    """Return the whitening matrix that a noisy second moment allows, and its ridge λ.

    The noise is a symmetric matrix with standard deviation σ on the diagonal and σ/√2 off it, whose
    largest eigenvalue is about σ·√(2d). That is λ: directions in which rows vary by less are noise.
    """
    values, vectors = np.linalg.eigh(moment)
    ridge = deviation * math.sqrt(2 * len(moment))
    likely = plausible(values, deviation, norms)
    matrix = (vectors * column_weights(likely, ridge, norms.target)) @ vectors.T
    return (matrix + matrix.T) / 2, ridge
