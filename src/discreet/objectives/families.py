"""Losses of counts, positive amounts and quantiles, with slopes that are bounded for every row.

The half deviance of a log-linear model grows faster than any line, so no public number bounds a
row's gradient. Here φ' is clipped and φ is its integral: convex, with a finite slope, and the same
as before wherever φ' is not clipped. docs/proofs/families.md has the argument.

==================  =====================================  ============  ============
loss                φ' of the margin m and the target y    bound on |φ'| bound on φ''
==================  =====================================  ============  ============
``poisson``         min(exp(m), c) − y, y from 0 to c      c             c
``gamma``           max(1 − y·exp(−m), −c)                 max(c, 1)     1 + c
``pinball``         1 − q above the target, else −q        max(q, 1−q)   none
``smooth-pinball``  the same, linear within h of the kink  max(q, 1−q)   1/(2h)
==================  =====================================  ============  ============
"""

# ruff: noqa: D102  the methods are documented in Loss

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from discreet.objectives.advice import GammaAdvice, PinballAdvice, PoissonAdvice
from discreet.objectives.losses import Loss, Task, arrays, as_float
from discreet.validate import FloatArray, check_fields, number, positive

SMOOTHING = 0.02
"""h of `SmoothPinball`: half the width of its quadratic part."""


@dataclass(frozen=True)
class Poisson(PoissonAdvice, Loss):
    """Half the Poisson deviance at the mean exp(m), of targets from 0 to c.

    φ' = min(exp(m), c) − y: a mean beyond c, which no target has, counts as c. Targets outside
    [0, c] count as its ends, so |φ'| ≤ c for every row.

    Parameters
    ----------
    limit : float
        c, the largest target and mean.
    """

    limit: float = 1.0

    name: ClassVar[str] = "poisson"
    code: ClassVar[int] = 7
    task: ClassVar[Task] = "regression"
    curves_unevenly: ClassVar[bool] = True

    def __post_init__(self) -> None:
        remedy = "Use 1.0, and divide targets by their public bound."
        check_fields(self, number, "limit", least=1e-50, most=1e50, remedy=remedy)
        object.__setattr__(self, "parameter", self.limit)

    @property
    def slope_bound(self) -> float:
        """Bound on |φ'|."""
        return self.limit

    @property
    def curvature_bound(self) -> float:
        """Bound on φ''."""
        return self.limit

    def value(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        m, y = arrays(margin, target)
        y = np.clip(y, 0.0, self.limit)
        top = math.log(self.limit)
        near = np.minimum(m, top)
        own = y * np.log(np.where(y > 0.0, y, 1.0))
        with np.errstate(over="ignore"):
            rest = (np.exp(near) - y) - (y * near - own)
            return as_float(np.maximum(rest, 0.0) + (self.limit - y) * (m - near))

    def derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        m, y = arrays(margin, target)
        return as_float(self._mean(m) - np.clip(y, 0.0, self.limit))

    def second_derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        m, y = arrays(margin, target)
        return as_float(np.where(m <= math.log(self.limit), self._mean(m), 0.0) + 0.0 * y)

    def _mean(self, margin: FloatArray) -> FloatArray:
        """Return min(exp(m), c)."""
        near = np.minimum(margin, math.log(self.limit))
        return as_float(np.minimum(np.exp(near), self.limit))


@dataclass(frozen=True)
class Gamma(GammaAdvice, Loss):
    """Half the gamma deviance at the mean exp(m), of positive targets.

    φ' = max(1 − y·exp(−m), −c): a target beyond 1 + c times the mean counts as that.

    Parameters
    ----------
    threshold : float
        c.
    """

    threshold: float = 4.0

    name: ClassVar[str] = "gamma"
    code: ClassVar[int] = 8
    task: ClassVar[Task] = "regression"
    curves_unevenly: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self, positive, "threshold", remedy="Use 4.0.")
        object.__setattr__(self, "parameter", self.threshold)

    @property
    def slope_bound(self) -> float:
        """Bound on |φ'|."""
        return max(self.threshold, 1.0)

    @property
    def curvature_bound(self) -> float:
        """Bound on φ''."""
        return 1.0 + self.threshold

    def value(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        m, y = arrays(margin, target)
        with np.errstate(all="ignore"):
            gap = np.log(y) - m
            near = np.minimum(gap, math.log1p(self.threshold))
            rest = np.maximum(np.expm1(near) - near, 0.0)
            return as_float(rest + self.threshold * (gap - near))

    def derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        return as_float(np.maximum(1.0 - self._ratio(margin, target), -self.threshold))

    def second_derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        ratio = self._ratio(margin, target)
        return as_float(np.where(ratio <= 1.0 + self.threshold, ratio, 0.0))

    @staticmethod
    def _ratio(margin: ArrayLike, target: ArrayLike) -> FloatArray:
        """Return y·exp(−m)."""
        m, y = arrays(margin, target)
        with np.errstate(over="ignore"):
            return as_float(y * np.exp(np.clip(-m, -300.0, 300.0)))


@dataclass(frozen=True)
class Pinball(PinballAdvice, Loss):
    """Pinball loss of the residual r = m − y: (1 − q)·r above the target, −q·r below it.

    Parameters
    ----------
    quantile : float
        q, from 0.01 to 0.99: the share of targets that should be below the margin.
    """

    quantile: float = 0.5

    name: ClassVar[str] = "pinball"
    code: ClassVar[int] = 9
    task: ClassVar[Task] = "regression"
    of_residuals: ClassVar[bool] = True
    curves_unevenly: ClassVar[bool] = True
    curvature_bound: ClassVar[float | None] = None  # it has a kink at r = 0

    def __post_init__(self) -> None:
        remedy = "0.5 is the median."
        check_fields(self, number, "quantile", least=0.01, most=0.99, remedy=remedy)
        object.__setattr__(self, "parameter", self.quantile)

    @property
    def slope_bound(self) -> float:
        """Bound on |φ'|."""
        return max(self.quantile, 1.0 - self.quantile)

    def value(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        m, y = arrays(margin, target)
        with np.errstate(over="ignore"):
            r = m - y
            return as_float(np.where(r > 0, (1.0 - self.quantile) * r, -self.quantile * r))

    def derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        m, y = arrays(margin, target)
        with np.errstate(over="ignore"):
            r = m - y
        return as_float(np.where(r > 0, 1.0, np.where(r < 0, 0.0, self.quantile)) - self.quantile)

    def second_derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        m, y = arrays(margin, target)
        return np.zeros(np.broadcast(m, y).shape)


@dataclass(frozen=True)
class SmoothPinball(Pinball):
    """Pinball loss with a smooth kink: φ' is linear where |m − y| < h = 0.02.

    It is the mean pinball loss of targets that are spread evenly over y ± h.
    """

    name: ClassVar[str] = "smooth-pinball"
    code: ClassVar[int] = 10
    curvature_bound: ClassVar[float | None] = 1.0 / (2.0 * SMOOTHING)

    def value(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        m, y = arrays(margin, target)
        with np.errstate(over="ignore"):
            r = m - y
            near = np.clip(r, -SMOOTHING, SMOOTHING) + SMOOTHING
            rest = np.maximum(r - SMOOTHING, 0.0)
            return as_float(near * (near / (4.0 * SMOOTHING)) + rest - self.quantile * r)

    def derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        m, y = arrays(margin, target)
        with np.errstate(over="ignore"):
            near = np.clip(m - y, -SMOOTHING, SMOOTHING)
        return as_float((near + SMOOTHING) / (2.0 * SMOOTHING) - self.quantile)

    def second_derivative(self, margin: ArrayLike, target: ArrayLike) -> FloatArray:
        m, y = arrays(margin, target)
        with np.errstate(over="ignore"):
            inside = np.abs(m - y) <= SMOOTHING
        return as_float(np.where(inside, 1.0 / (2.0 * SMOOTHING), 0.0))
