"""Steps that use noisy moments: `Centre`, `Scale` and `Whiten`, each beside its fitted form.

A moment needs a public bound on the norm of rows, which travels from step to step (`RowNorms`):
first it is ``data_norm``, after `Radius` it is 1, and each step states what it leaves. What follows
from a noisy moment is computed from released and public numbers: post-processing.

Proof: docs/proofs/preparation.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from discreet.core import Curator
from discreet.core.questions import OuterSum, RowSum, SquareSum
from discreet.declared import flag, square_matrix
from discreet.preparation.steps import FittedStep, Known, RowNorms, Step
from discreet.solvers.base import nearest
from discreet.validate import FloatArray, positive, vector

WIDEST = 2048
"""Largest number of columns that can be whitened: the second moment has about half its square."""

MARGIN = 1.2
"""After Scale or Whiten: the norm that rows are clipped to in moments, over the typical one."""

LEAST_LEFT = 0.05
"""Share of their squared norm that rows are assumed to keep when their mean is subtracted."""

LEAST_SHARE = 0.05
"""Share of the largest possible mean squared norm that rows are assumed to have at least."""


class FittedMoment(FittedStep):
    """Base class of steps by a noisy moment.

    ``deviation`` is the standard deviation of the noise in each coordinate of the moment (of a
    second moment's triangle, off the diagonal over √2), ``row_norm`` the norm that rows were
    clipped to for it. If ``clips``, rows are clipped to it when they are transformed, too.
    """

    checks: ClassVar = {"deviation": positive, "row_norm": positive, "clips": flag}
    deviation: float
    row_norm: float
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

    share: float = 0.05
    shrink: bool = True
    name: ClassVar[str] = "centre"
    dense: ClassVar[bool] = True
    flags: ClassVar[tuple[str, ...]] = ("shrink",)

    def fit(self, curator: Curator, mechanism: Any, norms: Known) -> tuple[FittedCentre, RowNorms]:
        """Ask for the mean.

        Rows of norm at most c around a mean m have a mean squared norm of at most c² − ‖m‖² around
        it. Some exceed it, by up to twice the norm before: the next moment clips them.
        """
        assert norms is not None  # `check_steps` demands a bound before this step
        noisy = curator.ask(RowSum(curator.row_norm), mechanism)
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

    mean: FloatArray
    deviation: float
    row_norm: float
    clips: bool
    name: ClassVar[str] = "centre"
    subtracts: ClassVar[str] = "mean"
    checks: ClassVar = {"mean": vector, **FittedMoment.checks}
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

    share: float = 0.05
    norm: float = 10 / 3
    floor: float = 0.0
    squares: float = 1.0
    shrink: bool = False
    name: ClassVar[str] = "scale"
    limits: ClassVar[dict[str, tuple[float, float]]] = {
        "norm": (1e-3, 1e3),
        "floor": (0.0, 1e3),
        "squares": (1e-3, 1.0),
    }
    flags: ClassVar[tuple[str, ...]] = ("shrink",)

    def fit(self, curator: Curator, mechanism: Any, norms: Known) -> tuple[FittedScale, RowNorms]:
        """Ask for the columns' second moments; rows much longer than the norm are rare then."""
        assert norms is not None  # `check_steps` demands a bound before this step
        noisy = curator.ask(SquareSum(curator.row_norm, self.squares), mechanism)
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

    weights: FloatArray
    deviation: float
    row_norm: float
    clips: bool
    name: ClassVar[str] = "scale"
    multiplies: ClassVar[str] = "weights"
    checks: ClassVar = {"weights": partial(vector, above=0.0), **FittedMoment.checks}
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

    share: float = 0.1
    name: ClassVar[str] = "whiten"
    dense: ClassVar[bool] = True
    widest: ClassVar[int | None] = WIDEST

    def fit(self, curator: Curator, mechanism: Any, norms: Known) -> tuple[FittedWhiten, RowNorms]:
        """Ask for the second moment; rows much longer than the target norm are rare then."""
        assert norms is not None  # `check_steps` demands a bound before this step
        noisy = curator.ask(OuterSum(curator.row_norm), mechanism)
        moment = noisy.matrix() / curator.n_rows
        deviation = noisy.deviation / curator.n_rows
        matrix, ridge = whitening(moment, deviation, norms)
        fitted = FittedWhiten(matrix, ridge, deviation, norms.clip, norms.raw)
        known = RowNorms(MARGIN * norms.target, norms.target, norms.target)
        return fitted, replace(known, moment=moment / deviation, indicators=norms.indicators)


@dataclass(frozen=True, eq=False)
class FittedWhiten(FittedMoment):
    """The matrix s·(Σ + λI)^(−1/2), which rows are multiplied by, and the ridge λ."""

    matrix: FloatArray
    ridge: float
    deviation: float
    row_norm: float
    clips: bool
    name: ClassVar[str] = "whiten"
    multiplies: ClassVar[str] = "matrix"
    checks: ClassVar = {"matrix": square_matrix, "ridge": positive, **FittedMoment.checks}
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
