"""Advice of losses to solvers and to inference: typical shapes, and losses to use in their place.

Nothing here is trusted: what is asked with the advice is bounded by the constants of the losses
themselves, and charged.
"""

from __future__ import annotations

import functools
import math
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from discreet.objectives.families import Gamma, Pinball, Poisson
    from discreet.objectives.losses import Huber, Loss

LIMIT = 3.5
"""Curvature of squared errors is that of residuals within this many times their scale, or within
the cut of slopes, if that is wider."""

WINDOW = 0.35
"""Half the width of the window for the density of residuals, over their scale."""

_NORMAL = NormalDist()


class Local(NamedTuple):
    """Shape of a loss around the best constant, for targets of a known mean and deviation.

    ``margin`` is that constant, ``scale`` the change of the margin per unit of the target,
    ``slope`` the typical size of φ' and ``curvature`` the typical φ''. ``convexity`` is what a
    constant loses for each unit of the variance of margins: 1/2 where targets are exponentials of
    them.
    """

    margin: float
    scale: float
    slope: float
    curvature: float
    convexity: float = 0.0


class Scored(NamedTuple):
    """Losses that inference sums: slopes of one, and ``factor`` times the curvature of another.

    ``inside`` is True if the slopes are cut, so that the curvature is to be multiplied by the share
    of residuals within the cut. A curvature that does not depend on the weights is ``even``.
    """

    slopes: Loss
    curvature: Loss
    factor: float = 1.0
    inside: bool = False
    even: bool = False


class Advice:
    """Advice of a loss; base class of `Loss`."""

    def smoothed(self, width: float) -> Loss:
        """Return this loss with its kinks rounded off over ``width``; itself if it has none."""
        return cast("Loss", self)

    def narrowed(self, share: float) -> Loss | None:
        """Return this loss for curvatures up to a share of its bound, or None.

        It is None if the bound is the same for all tables, not one that the caller states.
        """
        return None

    def local(self, mean: float, deviation: float) -> Local:
        """Estimate the loss's shape at targets of this mean and deviation: advice for solvers.

        φ'' is its bound, times the share of normal residuals that a bounded slope leaves as they
        are. Not less than half of it, as a step of more than twice Newton's may not be stable.
        """
        loss = cast("Loss", self)
        curvature = 1.0 if loss.curvature_bound is None else loss.curvature_bound
        if math.isfinite(loss.slope_bound):
            curvature *= max(0.5, math.erf(loss.slope_bound / (deviation * math.sqrt(2.0))))
        return Local(mean, 1.0, deviation, curvature)

    def scored(self, unit: float, cut: float = LIMIT) -> Scored:
        """Return what inference sums (docs/inference.md); ``unit`` is the scale of residuals.

        By default slopes and curvature of this loss, whose slopes then need a bound. Where they
        have none, they are cut at ``cut`` units.
        """
        loss = cast("Loss", self)
        return Scored(loss, loss)


def _cut(size: float, window: float) -> Scored:
    """Return slopes of squared errors that are cut at a size, and curvature within a window."""
    from discreet.objectives.losses import Huber

    slopes = Huber(size)
    if size >= window:
        return Scored(slopes, slopes, even=True)
    return Scored(slopes, Huber(window), inside=True, even=True)


class HingeAdvice(Advice):
    """Advice of the hinge."""

    def smoothed(self, width: float) -> Loss:
        """Return the hinge with its kink rounded off over ``width`` on either side."""
        from discreet.objectives.losses import HuberHinge

        return HuberHinge(width)


class HuberAdvice(Advice):
    """Advice of Huber's loss."""

    def scored(self, unit: float, cut: float = LIMIT) -> Scored:
        """Return the loss with its threshold, or with the cut if that is less."""
        return _cut(min(cut * unit, cast("Huber", self).threshold), LIMIT * unit)


class SquaredAdvice(Advice):
    """Advice of the squared loss."""

    def scored(self, unit: float, cut: float = LIMIT) -> Scored:
        """Return Huber's loss: it has the same solution if errors are symmetric."""
        return _cut(cut * unit, LIMIT * unit)


def _log_link(mean: float, deviation: float, largest: float) -> tuple[float, float]:
    """Return mean and deviation that targets from 0 to ``largest`` can have together.

    Their variance is at most ``largest`` times their mean; noise may say otherwise.
    """
    mean = min(max(mean, deviation**2 / largest), largest)
    return mean, min(deviation, math.sqrt(mean * largest))


class PoissonAdvice(Advice):
    """Advice of the Poisson loss."""

    def narrowed(self, share: float) -> Loss | None:
        """Return the loss of counts and means up to a share of the largest."""
        from discreet.objectives.families import Poisson

        return Poisson(share * cast("Poisson", self).limit)

    def local(self, mean: float, deviation: float) -> Local:
        """Take the best constant to be the logarithm of the mean target."""
        mean, deviation = _log_link(mean, deviation, cast("Poisson", self).limit)
        return Local(math.log(mean), 1.0 / mean, deviation, mean, 0.5)


class GammaAdvice(Advice):
    """Advice of the gamma loss."""

    def local(self, mean: float, deviation: float) -> Local:
        """Take the best constant to be the logarithm of the mean target."""
        mean, deviation = _log_link(mean, deviation, 1.0)
        slope = min(deviation / mean, cast("Gamma", self).slope_bound)
        return Local(math.log(mean), 1.0 / mean, slope, 1.0, 0.5)


@functools.cache
def _excess(quantile: float) -> float:
    """Return the mean density of normal errors in the window over that at their quantile.

    The scale of residuals is their median size, over that of normal ones around their mean.
    """
    at = _NORMAL.inv_cdf(quantile)
    low = 0.0
    high = 10.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        narrow = _NORMAL.cdf(at + middle) - _NORMAL.cdf(at - middle) < 0.5
        low, high = (middle, high) if narrow else (low, middle)
    window = WINDOW * low / _NORMAL.inv_cdf(0.75)
    share = _NORMAL.cdf(at + window) - _NORMAL.cdf(at - window)
    return share / (2.0 * window * _NORMAL.pdf(at))


class PinballAdvice(Advice):
    """Advice of the pinball loss."""

    def smoothed(self, width: float) -> Loss:
        """Return the loss with its kink rounded off; the width is that of `SmoothPinball`."""
        from discreet.objectives.families import SmoothPinball

        return SmoothPinball(cast("Pinball", self).quantile)

    def scored(self, unit: float, cut: float = LIMIT) -> Scored:
        """Return slopes with their kink, and the density of residuals in a window around it.

        φ'' of Huber's loss counts residuals within its threshold; over the width of that window,
        their mean is the density that the mean of φ' has as its derivative. It is divided by what
        the mean over the window is of the density at the quantile, for normal errors.
        """
        from discreet.objectives.families import Pinball
        from discreet.objectives.losses import Huber

        quantile = cast("Pinball", self).quantile
        window = WINDOW * unit
        width = 2.0 * window * _excess(quantile)
        return Scored(Pinball(quantile), Huber(window), 1.0 / width)

    def local(self, mean: float, deviation: float) -> Local:
        """Take targets to be normal: φ'' is their mean density near the quantile."""
        from discreet.objectives.families import SMOOTHING

        quantile = cast("Pinball", self).quantile
        at = _NORMAL.inv_cdf(quantile)
        reach = SMOOTHING / deviation
        density = (_NORMAL.cdf(at + reach) - _NORMAL.cdf(at - reach)) / (2.0 * SMOOTHING)
        slope = math.sqrt(quantile * (1.0 - quantile))
        return Local(mean + at * deviation, 1.0, slope, density)
