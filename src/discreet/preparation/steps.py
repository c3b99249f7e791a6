"""Steps of a preparation as settings: what each costs, what it asks, what it leaves to the next.

A moment needs a public bound on the length of rows. It travels from step to step (`Lengths`): first
it is ``data_norm``, after `Radius` it is 1, and each later step says what it leaves.

Proof: docs/proofs/preparation.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from discreet.accounting import conversions
from discreet.accounting.budget import Measure
from discreet.core import Curator, ExponentialMechanism, Gaussian, L2Norm
from discreet.errors import NotSupported
from discreet.preparation.bounded import FittedBounds
from discreet.preparation.fitted import (
    FittedCentre,
    FittedRadius,
    FittedScale,
    FittedSpread,
    FittedWhiten,
)
from discreet.preparation.fitted_step import FittedStep
from discreet.preparation.norms import Lengths, column_weights, shrunk, whitening
from discreet.validate import check_fields, number

__all__ = ["Bounds", "Centre", "Radius", "Scale", "Spread", "Step", "Whiten"]

WIDEST = 2048
"""Columns that can be whitened at most: the second moment has about half their square."""

ROOM = 1.2
"""After Scale or Whiten: the norm that rows are scaled down to in moments, over the usual one."""

LEAST_SPREAD = 1e-6
"""Of the length that rows had, what they are taken to keep at least when a mean is subtracted."""

LEAST_LEFT = 0.05
"""Of their squared length, what rows are taken to keep at least when their mean is subtracted."""


class Step:
    """Base class of steps: frozen dataclasses with a share of the budget.

    Attributes
    ----------
    share
        The share of the fit's budget that it costs.
    name
        How it is called in a guarantee.
    """

    share: float
    name: ClassVar[str]
    dense: ClassVar[bool] = False
    """Whether it makes a dense table of a sparse one."""
    bounded: ClassVar[bool] = True
    """Whether it needs a public bound on the norm of the rows it reads."""

    def check(self, n_features: int) -> None:
        """Refuse a table of this width, before a row is read."""

    def mechanism(self, measure: Measure, total: Fraction) -> Any:
        """What the step will use, so that a budget too extreme for it is refused in time."""
        return _additive(measure, total)

    def ask(
        self, curator: Curator, measure: Measure, total: Fraction, lengths: Lengths | None
    ) -> FittedStep:
        """Ask for what the step needs, with the budget that was opened for it."""
        raise NotImplementedError

    def leaves(self, fitted: Any, lengths: Lengths | None) -> Lengths | None:
        """What is known of the length of the rows that ``fitted`` has moved."""
        return lengths

    def model_norm(self, before: float | None) -> float | None:
        """The bound on a row's norm that a model after this step should use."""
        return before


@dataclass(frozen=True)
class Bounds(Step):
    """Brings columns without public bounds to [0, 1], by bounds that are chosen privately.

    Each of the columns becomes clip((x − low)/(high − low), 0, 1), where low and high are round
    numbers between which about ``coverage`` of its values lie.

    Parameters
    ----------
    columns : sequence of int
        Which columns of X, counted from 0.
    share : float
        Share of the budget, for all of the columns together.
    coverage : float
        Share of a column's values that should lie within its bounds.

    Privacy
    -------
    Two private selections a column among public candidates. The chosen bounds are released.
    """

    columns: Sequence[int]
    share: float = 0.1
    coverage: float = 0.98
    name: ClassVar[str] = "bounds"
    bounded: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        _check_share(self)
        columns = tuple(self.columns) if np.iterable(self.columns) else ()
        whole = all(isinstance(j, Integral) and not isinstance(j, bool) and j >= 0 for j in columns)
        if not columns or not whole or len(set(columns)) < len(columns):
            raise ValueError(
                "columns must name at least one column of X by its number, counted from 0, each "
                f"once; got {self.columns!r}."
            )
        object.__setattr__(self, "columns", tuple(int(j) for j in columns))
        check_fields(self, number, "coverage", least=0.5, most=0.9999)

    def check(self, n_features: int) -> None:
        """Refuse columns that are not there."""
        if max(self.columns) >= n_features:
            raise ValueError(
                f"Bounds names column {max(self.columns)}, but X has {n_features} columns, counted "
                "from 0."
            )

    def mechanism(self, measure: Measure, total: Fraction) -> ExponentialMechanism:
        """What each selection will use."""
        return _selection(measure, total, 2 * len(self.columns))

    def ask(
        self, curator: Curator, measure: Measure, total: Fraction, lengths: Lengths | None
    ) -> FittedBounds:
        """Ask for both bounds of each column."""
        mechanism = self.mechanism(measure, total)
        pairs = [
            curator.column_bounds(j, coverage=self.coverage, mechanism=mechanism)
            for j in self.columns
        ]
        low, high = np.array(pairs, dtype=np.float64).T
        return FittedBounds(tuple(self.columns), low, high)


@dataclass(frozen=True)
class Radius(Step):
    """Brings rows to a common length: x becomes x/max(R, ‖x‖), of norm at most 1.

    R is ``factor`` times about the median of the rows' norms. No public bound on the norm is
    needed; if ``data_norm`` is given, R is at most that. Sparse tables stay sparse.

    Parameters
    ----------
    share : float
        Share of the budget.
    factor : float
        R over the median norm: rows longer than that lose their length.

    Privacy
    -------
    One private selection among public candidates. The chosen radius is released.
    """

    share: float = 0.01
    factor: float = 1.1
    name: ClassVar[str] = "radius"
    bounded: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        _check_share(self)
        check_fields(self, number, "factor", least=0.1, most=10.0)

    def mechanism(self, measure: Measure, total: Fraction) -> ExponentialMechanism:
        """What each selection will use."""
        return _selection(measure, total, 1)

    def ask(
        self, curator: Curator, measure: Measure, total: Fraction, lengths: Lengths | None
    ) -> FittedRadius:
        """Ask for the median norm."""
        largest = lengths.clip if lengths and lengths.raw else None
        median = curator.median_norm(mechanism=self.mechanism(measure, total), largest=largest)
        radius = self.factor * median
        return FittedRadius(radius if largest is None else min(radius, largest))

    def leaves(self, fitted: FittedRadius, lengths: Lengths | None) -> Lengths:
        """Rows of norm at most 1."""
        return Lengths(1.0, 1.0, 1.0)

    def model_norm(self, before: float | None) -> float:
        """Rows of norm at most 1."""
        return 1.0


@dataclass(frozen=True)
class Centre(Step):
    """Subtracts the noisy mean of the rows.

    With ``data_norm`` and no `Radius` before, rows are scaled down to it first.

    Parameters
    ----------
    share : float
        Share of the budget.
    shrink : bool
        Shrink the noisy mean towards 0 by as much as its noise calls for.

    Privacy
    -------
    One noisy sum of rows of bounded norm. The noisy mean is released.
    """

    share: float = 0.05
    shrink: bool = True
    name: ClassVar[str] = "centre"
    dense: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        _check_share(self)
        if not isinstance(self.shrink, bool):
            raise ValueError(f"shrink must be True or False; got {self.shrink!r}.")

    def ask(
        self, curator: Curator, measure: Measure, total: Fraction, lengths: Lengths | None
    ) -> FittedCentre:
        """Ask for the mean."""
        known = _given(lengths)
        noisy = curator.row_sum(mechanism=self.mechanism(measure, total))
        mean, deviation = noisy.values / curator.n_rows, noisy.deviation / curator.n_rows
        if self.shrink:
            mean = shrunk(mean, deviation)
        return FittedCentre(mean, deviation, known.clip, known.raw)

    def leaves(self, fitted: FittedCentre, lengths: Lengths | None) -> Lengths:
        """Rows around 0: their mean squared norm is less by that of the mean.

        Some are longer than that: up to twice as long as before. They are scaled down for the next
        moment, not when they are moved.
        """
        known = _given(lengths)
        left = known.clip**2 - float(fitted.mean @ fitted.mean)
        size = math.sqrt(max(left, LEAST_LEFT * known.clip**2))
        return Lengths(size, size, known.norm)


@dataclass(frozen=True)
class Spread(Step):
    """Measures how long rows are where they lie now, so that later moments can clip them closer.

    Rows stay as they are. After `Centre` they may be far shorter than before: a column of years
    has a large mean and a small spread. Moments of rows that are clipped to what they really
    measure have less noise, so a second `Centre` finds the mean more precisely.

    Parameters
    ----------
    share : float
        Share of the budget.
    factor : float
        What rows are clipped to, over their median norm.

    Privacy
    -------
    One private selection among public candidates. The chosen length is released.
    """

    share: float = 0.01
    factor: float = 1.5
    name: ClassVar[str] = "spread"

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        _check_share(self)
        check_fields(self, number, "factor", least=0.1, most=10.0)

    def mechanism(self, measure: Measure, total: Fraction) -> ExponentialMechanism:
        """What the selection will use."""
        return _selection(measure, total, 1)

    def ask(
        self, curator: Curator, measure: Measure, total: Fraction, lengths: Lengths | None
    ) -> FittedSpread:
        """Ask for the median norm."""
        median = curator.median_norm(mechanism=self.mechanism(measure, total))
        return FittedSpread(self.factor * median)

    def leaves(self, fitted: FittedSpread, lengths: Lengths | None) -> Lengths:
        """Rows of a known length: within what they can have, and not so short that others burst."""
        known = _given(lengths)
        most = (
            known.clip if known.raw else 2 * known.clip
        )  # a mean that was subtracted may add to it
        size = min(max(fitted.length, LEAST_SPREAD * known.clip), most)
        return Lengths(size, size, known.norm, known.raw)


@dataclass(frozen=True)
class Scale(Step):
    """Multiplies columns by weights that make their second moments alike, up to noise.

    Column j has the weight 1/√(v_j + s/2), times a number that makes the mean squared norm of the
    rows about norm². v_j is its noisy second moment, s the size of the noise. Rows are not scaled
    down afterwards. A sparse table stays sparse.

    Parameters
    ----------
    share : float
        Share of the budget.
    norm : float
        What the root of the mean squared norm becomes.

    Privacy
    -------
    One noisy sum of the squares of rows of bounded norm. The noisy second moments are released.
    """

    share: float = 0.05
    norm: float = 10 / 3
    name: ClassVar[str] = "scale"

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        _check_share(self)
        check_fields(self, number, "norm", least=1e-3, most=1e3)

    def ask(
        self, curator: Curator, measure: Measure, total: Fraction, lengths: Lengths | None
    ) -> FittedScale:
        """Ask for the columns' second moments."""
        noisy = curator.square_sum(mechanism=self.mechanism(measure, total))
        known = _given(lengths)
        means, deviation = noisy.values / curator.n_rows, noisy.deviation / curator.n_rows
        weights = column_weights(means, deviation, known, self.norm)
        return FittedScale(weights, deviation, known.clip, known.raw)

    def leaves(self, fitted: FittedScale, lengths: Lengths | None) -> Lengths:
        """Rows around the norm; few of them are much longer."""
        return Lengths(ROOM * self.norm, self.norm, self.norm)

    def model_norm(self, before: float | None) -> float:
        """Rows around the norm; few of them are much longer."""
        return ROOM * self.norm


@dataclass(frozen=True)
class Whiten(Step):
    """Turns and stretches the rows until their second moment is about that of a ball.

    A row x becomes s·(Σ + λI)^(−1/2)·x. Σ is the noisy second moment with its eigenvalues moved to
    what rows can have, λ the size of the noise (a public number), and s makes the mean squared
    norm, as far as Σ tells, that of a `Scale` before, else 1 after a `Radius`, else ``data_norm``².
    If it is the first step to use ``data_norm``, rows are scaled down to it before they are turned.

    Parameters
    ----------
    share : float
        Share of the budget.

    Privacy
    -------
    One noisy sum of outer products. The noisy second moment is released.
    """

    share: float = 0.1
    name: ClassVar[str] = "whiten"
    dense: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        _check_share(self)

    def check(self, n_features: int) -> None:
        """Refuse tables that are too wide."""
        if n_features > WIDEST:
            raise NotSupported(
                f"Whiten takes tables of at most {WIDEST} columns; X has {n_features}. Use fewer "
                "columns, or Centre and Scale, which take any number."
            )

    def ask(
        self, curator: Curator, measure: Measure, total: Fraction, lengths: Lengths | None
    ) -> FittedWhiten:
        """Ask for the second moment."""
        noisy = curator.outer_sum(mechanism=self.mechanism(measure, total))
        known, deviation = _given(lengths), noisy.deviation / curator.n_rows
        matrix, ridge = whitening(noisy.matrix() / curator.n_rows, deviation, known)
        return FittedWhiten(matrix, ridge, deviation, known.clip, known.raw)

    def leaves(self, fitted: FittedWhiten, lengths: Lengths | None) -> Lengths:
        """Rows around the norm; few of them are much longer."""
        norm = _given(lengths).norm
        return Lengths(ROOM * norm, norm, norm)


def _given(lengths: Lengths | None) -> Lengths:
    if lengths is None:
        raise ValueError("Centre, Scale and Whiten need a public bound on the norm of a row.")
    return lengths


def _check_share(step: Any) -> None:
    check_fields(step, number, "share", least=1e-6, most=1 - 1e-6)


def _additive(measure: Measure, total: Fraction) -> Gaussian | L2Norm:
    """The mechanism whose one use costs all of a total, or a hair less: costs are rounded up."""
    if measure == "gdp":
        return Gaussian.sharing(float(total))
    amount = float(total) * (1 - 2.0**-40)
    return Gaussian.from_rho(amount) if measure == "zcdp" else L2Norm(amount)


def _selection(measure: Measure, total: Fraction, uses: int) -> ExponentialMechanism:
    """The exponential mechanism of which ``uses`` cost all of a total, or a hair less."""
    each = float(total / uses) * (1 - 2.0**-36)
    if measure == "pure":
        return ExponentialMechanism(each, monotone=False)
    if measure == "zcdp":
        return ExponentialMechanism(math.sqrt(8 * each), monotone=False)
    return ExponentialMechanism(conversions.bounded_range_from_mu(math.sqrt(each)), monotone=False)
