"""Measurements that check what intervals rest on: targets at a bound, one-sided tails, variances.

They count by losses whose slope is an indicator. Nothing here is trusted: a question cuts slopes to
the bound that the loss states, whatever the loss computes (docs/proofs/inference.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from discreet.objectives.losses import Loss, Task, arrays, as_float
from discreet.validate import FloatArray

__all__ = [
    "AtBound",
    "BeyondCut",
    "Checks",
    "CutSlopes",
    "LargeCurvature",
    "LargeSlope",
    "Moment",
    "Tails",
    "Variances",
]

AT_BOUND = 1e-9
"""Targets are at a bound if they are this near to it, after the bounds were brought to 1."""


@dataclass(frozen=True)
class _Indicator(Loss):
    """Base of losses whose slope or curvature is an indicator."""

    task: ClassVar[Task] = "regression"
    of_residuals: ClassVar[bool] = True
    slope_bound: ClassVar[float] = 1.0
    curvature_bound: ClassVar[float] = 1.0

    def value(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        """Return 0: these losses are only counted with."""
        m, y = arrays(margin, target)
        return np.zeros(np.broadcast(m, y).shape)

    def derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        """Return the indicator, with a sign."""
        return self.value(margin, target)

    def second_derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        """Return the indicator."""
        return self.value(margin, target)


@dataclass(frozen=True)
class AtBound(_Indicator):
    """Slope 1 for targets at ``low`` or below it, or at ``high`` or above it; else 0."""

    low: float = -1.0
    high: float = 1.0

    name: ClassVar[str] = "at-bound"

    def derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        """Return 1 for targets at a bound."""
        m, y = arrays(margin, target)
        return as_float((y <= self.low + AT_BOUND) | (y >= self.high - AT_BOUND)) + 0.0 * m


@dataclass(frozen=True)
class BeyondCut(_Indicator):
    """Slope ±1 for residuals beyond the cut, by their sign; else 0."""

    cut: float = 1.0

    name: ClassVar[str] = "beyond-cut"

    def derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        """Return the sign of residuals beyond the cut."""
        m, y = arrays(margin, target)
        with np.errstate(over="ignore"):
            residual = m - y
            return as_float(np.where(np.abs(residual) > self.cut, np.sign(residual), 0.0))


@dataclass(frozen=True)
class LargeSlope(_Indicator):
    """Slope 1 where the slope of another loss is larger than the cut; else 0."""

    of: Loss
    cut: float = 1.0

    name: ClassVar[str] = "large-slope"

    def derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        """Return the indicator."""
        return as_float(np.abs(self.of.derivative(margin, target)) > self.cut)


@dataclass(frozen=True)
class LargeCurvature(_Indicator):
    """Slope 1 where the curvature of another loss is larger than the cut; else 0."""

    of: Loss
    cut: float = 1.0

    name: ClassVar[str] = "large-curvature"

    def derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        """Return the indicator."""
        return as_float(self.of.second_derivative(margin, target) > self.cut)


@dataclass(frozen=True)
class CutSlopes(Loss):
    """Another loss whose slopes are cut to a size."""

    of: Loss
    cut: float = 1.0

    name: ClassVar[str] = "cut-slopes"
    task: ClassVar[Task] = "regression"

    @property
    def slope_bound(self) -> float:
        """Bound on |φ'|."""
        return min(self.cut, self.of.slope_bound)

    @property
    def curvature_bound(self) -> float | None:
        """Bound on |φ''|: that of the other loss."""
        return self.of.curvature_bound

    def value(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        """Return the other loss."""
        return self.of.value(margin, target)

    def derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        """Return its slope, cut to the size."""
        bound = self.slope_bound
        return as_float(np.clip(self.of.derivative(margin, target), -bound, bound))

    def second_derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        """Return its curvature."""
        return self.of.second_derivative(margin, target)


@dataclass(frozen=True, eq=False)
class Tails:
    """One-sided tails of residuals, as the change of coefficients for each unit of mean excess.

    ``shift`` is what coefficients would move by if residuals beyond the cut were beyond it by 1 on
    average; ``covariance`` is that of its noise and sampling error. ``share`` is the share of
    residuals beyond the cut on one side less that on the other, and ``error`` its deviation.
    """

    shift: FloatArray
    covariance: FloatArray
    share: float = 0.0
    error: float = 0.0

    def carried(self, matrix: FloatArray) -> Self:
        """Return the tails of linear combinations of the coefficients."""
        return replace(
            self, shift=matrix @ self.shift, covariance=matrix @ self.covariance @ matrix.T
        )


@dataclass(frozen=True, eq=False)
class Variances:
    """Variances of single coefficients by squared scores of units, over those of the model.

    ``error`` is the standard deviation of the noise in the ratios.
    """

    ratio: FloatArray
    error: float


@dataclass(frozen=True, eq=False)
class Moment:
    """Noisy second moment of weighted rows, in the features of the coefficients.

    Noise in it is frame·E·frameᵀ, E symmetric with independent entries of deviation ``deviation``
    on the diagonal and 1/√2 of that beside it. ``unit`` is the measured scale of residuals.
    """

    matrix: FloatArray
    frame: FloatArray
    deviation: float
    unit: float

    def carried(self, matrix: FloatArray, scale: float) -> Self:
        """Return the moment of other features, of which ``matrix`` makes the coefficients."""
        back = np.linalg.inv(matrix) * scale
        found = back.T @ self.matrix @ back
        return replace(self, matrix=found, frame=back.T @ self.frame, unit=self.unit * scale)


@dataclass(frozen=True, eq=False)
class Checks:
    """Measurements beside the coefficients; None for those that were not made.

    Attributes
    ----------
    at_bound, at_bound_error : float or None
        Share of the targets that are at a bound, and the standard deviation of its noise.
    cut : float or None
        Where residuals are cut, in units of the target.
    tails : Tails or None
        One-sided tails of residuals.
    variances : Variances or None
        Variances that are robust to heteroscedasticity and to dependence within units.
    moment : Moment or None
        Second moment of weighted rows; least squares only.
    """

    at_bound: float | None = None
    at_bound_error: float = 0.0
    cut: float | None = None
    tails: Tails | None = field(default=None)
    variances: Variances | None = None
    moment: Moment | None = None

    def carried(self, matrix: FloatArray, scale: float) -> Self:
        """Return the checks of coefficients ``matrix`` makes; targets were divided by a scale."""
        return replace(
            self,
            cut=None if self.cut is None else self.cut * scale,
            tails=None if self.tails is None else self.tails.carried(matrix / scale),
            moment=None if self.moment is None else self.moment.carried(matrix, scale),
        )
