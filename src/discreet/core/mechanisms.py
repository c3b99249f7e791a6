"""The mechanisms: what they cost and how they release, each a few lines of plain data.

A mechanism is described by a *sensitivity* (how far neighbouring tables can move the protected
value, for the relation in force) and by how much privacy one use may cost. `loss` is the cost in
every measure a filter may use; it depends on that request alone, never on the value, so it can be
charged before the value is computed. Noise is exact on a public grid (docs/proofs/noise.md), and
the grid's rounding is added to the sensitivity here.

Proofs: docs/proofs/gaussian.md, docs/proofs/laplace.md, docs/proofs/selection.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.accounting import conversions
from discreet.accounting.budget import PrivacyLoss
from discreet.core.noise import Noise, from_grid, grid_exponent, on_grid

if TYPE_CHECKING:
    from typing import Self

__all__ = [
    "AdditiveMechanism",
    "ExponentialMechanism",
    "Gaussian",
    "L2Norm",
    "Laplace",
    "PermuteAndFlip",
    "SelectionMechanism",
]

FloatArray = NDArray[np.float64]


def _up(value: float) -> float:
    """The next larger float: rounding in a cost must never make it smaller than the truth."""
    return math.nextafter(value, math.inf)


_SMALLEST, _LARGEST = 1e-9, 1e9
"""Range of noise multipliers and of ε; beyond it noise cannot be drawn exactly on a grid."""


def _as_double(name: str, value: float) -> float:
    """Return a positive finite value as a double.

    In a narrower type, arithmetic would round by more than `_up` makes up for.
    """
    number = float(value)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{name} must be > 0 and finite; got {value!r}.")
    return number


def _as_cost(name: str, value: float) -> float:
    """Return a mechanism's parameter as a double within the range that can be served."""
    number = _as_double(name, value)
    if not _SMALLEST <= number <= _LARGEST:
        raise ValueError(
            f"{name} must be between {_SMALLEST:g} and {_LARGEST:g}; got {value!r}. Choose a "
            "budget and settings that split it into less extreme parts."
        )
    return number


def _pure_loss(epsilon: float) -> PrivacyLoss:
    """The cost of an ε-DP mechanism of which nothing else is known."""
    return PrivacyLoss(
        epsilon=epsilon,
        rho=_up(conversions.rho_from_pure(epsilon)),
        mu=_up(conversions.mu_from_pure(epsilon)),
    )


class AdditiveMechanism:
    """Adds noise to a vector of known sensitivity and releases the sum."""

    name: ClassVar[str]

    @cached_property
    def loss(self) -> PrivacyLoss:
        """What one release costs."""
        raise NotImplementedError

    def event(self) -> Any:
        """Return this mechanism as a `dp_accounting` event."""
        raise NotImplementedError

    def scale(self, sensitivity: float) -> float:
        """The noise scale that this mechanism needs at a sensitivity."""
        raise NotImplementedError

    def rounding(self, size: int) -> float:
        """By how many grid steps rounding ``size`` coordinates can raise the sensitivity."""
        raise NotImplementedError

    def spread(self, scale: float, size: int) -> float:
        """The size of noise that the grid is chosen for: finer than that it cannot matter."""
        return scale

    def harmless(self, size: int) -> float:
        """By which share rounding may raise the sensitivity before a finer grid is taken."""
        return 2.0**-10

    def _grid(self, sensitivity: float, size: int, magnitude: float) -> int:
        """Choose the grid: 2^-30 of the noise; to 2^-36 if rounding would cost too much."""
        spread = self.spread(self.scale(sensitivity), size)
        harmless = self.harmless(size) * sensitivity / self.rounding(size)
        return grid_exponent(min(spread, max(harmless * 2.0**30, spread / 64)), magnitude)

    def _draw(
        self, noise: Noise, count: int, size: int, scale: float, grid: int
    ) -> NDArray[np.int64]:
        """Draw ``count`` noise vectors of ``size`` coordinates."""
        raise NotImplementedError

    def draw_block(
        self, noise: Noise, count: int, size: int, *, sensitivity: float, magnitude: float
    ) -> tuple[NDArray[np.int64], int, float]:
        """Noise for ``count`` releases alike: integers (count, size), their grid and the scale.

        Privacy
        -------
        A release is ``from_grid(on_grid(value, grid) + integers[k], grid)`` for a value whose
        coordinates were cut to ``magnitude``: what `release` does, with the noise drawn ahead of
        the value. The parameters are those of `release`; each row of integers serves once.
        """
        sensitivity = _as_double("sensitivity", sensitivity)
        grid = self._grid(sensitivity, size, float(magnitude))
        scale = self.scale(_up(sensitivity + self.rounding(size) * 2.0**grid))
        return self._draw(noise, count, size, scale, grid), grid, scale

    def release(
        self, values: FloatArray, *, sensitivity: float, magnitude: float, noise: Noise
    ) -> tuple[FloatArray, float]:
        """Release ``values`` with noise; returns the noisy vector and the noise scale.

        Parameters
        ----------
        values : ndarray of shape (d,)
            The protected vector.
        sensitivity : float
            Bound on its change between neighbours, in this mechanism's norm.
        magnitude : float
            Public bound on each coordinate; coordinates beyond it are cut to it.
        noise : Noise
            Where the noise comes from.

        Privacy
        -------
        Rounding to the grid moves each coordinate by at most half a step, so neighbours get at
        most ``rounding(d)`` steps further apart, which is added to the sensitivity. Cutting to
        the magnitude never takes two vectors apart. The rest is docs/proofs/noise.md.
        """
        drawn, grid, scale = self.draw_block(
            noise, 1, values.size, sensitivity=sensitivity, magnitude=magnitude
        )
        protected = on_grid(np.clip(values, -magnitude, magnitude), grid)
        return from_grid(protected + drawn[0], grid), scale


@dataclass(frozen=True)
class Gaussian(AdditiveMechanism):
    """Gaussian noise of standard deviation ``noise_multiplier`` times the L2 sensitivity.

    Privacy
    -------
    Exactly μ-GDP with μ = 1/noise_multiplier, and μ²/2-zCDP. Proof: docs/proofs/gaussian.md.
    """

    noise_multiplier: float
    name: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        """Refuse multipliers that give no privacy."""
        multiplier = _as_cost("noise_multiplier", self.noise_multiplier)
        object.__setattr__(self, "noise_multiplier", multiplier)

    @classmethod
    def from_rho(cls, rho: float) -> Self:
        """The Gaussian mechanism that is ρ-zCDP."""
        return cls(_up(1 / math.sqrt(2 * _as_double("rho", rho))))

    @classmethod
    def sharing(cls, total: float, uses: int = 1) -> Self:
        """One of ``uses`` releases that together cost the total μ² or a hair less.

        A hair, because each cost is rounded up.
        """
        return cls(math.sqrt(uses / _as_double("total", total)) * (1 + 1e-12))

    @cached_property
    def loss(self) -> PrivacyLoss:
        """What one release costs."""
        mu = _up(1 / self.noise_multiplier)
        return PrivacyLoss(epsilon=math.inf, rho=_up(conversions.rho_from_mu(mu)), mu=mu)

    def event(self) -> Any:
        """Return this mechanism as a `dp_accounting` event."""
        from dp_accounting import GaussianDpEvent

        return GaussianDpEvent(self.noise_multiplier)

    def scale(self, sensitivity: float) -> float:
        """The standard deviation at an L2 sensitivity."""
        return _up(self.noise_multiplier * float(sensitivity))

    def rounding(self, size: int) -> float:
        """Rounding d coordinates: √d grid steps in the L2 norm."""
        return math.sqrt(size)

    def _draw(
        self, noise: Noise, count: int, size: int, scale: float, grid: int
    ) -> NDArray[np.int64]:
        return noise.gaussian(count * size, scale, grid).reshape(count, size)


@dataclass(frozen=True)
class _PureNoise(AdditiveMechanism):
    """Noise of scale sensitivity / ε in some norm that gives ε-DP and nothing better."""

    epsilon: float

    def __post_init__(self) -> None:
        """Refuse an ε that gives no privacy."""
        object.__setattr__(self, "epsilon", _as_cost("epsilon", self.epsilon))

    @cached_property
    def loss(self) -> PrivacyLoss:
        """What one release costs."""
        return _pure_loss(self.epsilon)

    def scale(self, sensitivity: float) -> float:
        """The noise scale at a sensitivity in the mechanism's norm."""
        return _up(float(sensitivity) / self.epsilon)


@dataclass(frozen=True)
class Laplace(_PureNoise):
    """Laplace noise of scale L1 sensitivity / ε on each coordinate.

    Privacy
    -------
    ε-DP. Proof: docs/proofs/laplace.md.
    """

    name: ClassVar[str] = "laplace"

    def event(self) -> Any:
        """Return this mechanism as a `dp_accounting` event."""
        from dp_accounting import LaplaceDpEvent

        return LaplaceDpEvent(1 / self.epsilon)

    def rounding(self, size: int) -> float:
        """Rounding d coordinates: d grid steps in the L1 norm."""
        return float(size)

    def _draw(
        self, noise: Noise, count: int, size: int, scale: float, grid: int
    ) -> NDArray[np.int64]:
        return noise.laplace(count * size, scale, grid).reshape(count, size)


@dataclass(frozen=True)
class L2Norm(_PureNoise):
    """Noise of density ∝ exp(−ε‖z‖₂/Δ): gamma length, direction uniform on the sphere.

    Privacy
    -------
    ε-DP at L2 sensitivity Δ. Proof: docs/proofs/laplace.md.
    """

    name: ClassVar[str] = "l2_norm"

    def event(self) -> Any:
        """Return its zCDP cost as a `dp_accounting` event: it has none of its own there."""
        from dp_accounting import ZCDpEvent

        return ZCDpEvent(self.loss.rho)

    def rounding(self, size: int) -> float:
        """Rounding d coordinates: √d grid steps in the L2 norm."""
        return math.sqrt(size)

    def harmless(self, size: int) -> float:
        """By which share rounding may raise the sensitivity: more for long vectors.

        A finer grid leaves some of their many coordinates undecided, which takes long.
        """
        return 2.0**-10 if size <= 1000 else 2.0**-8

    def spread(self, scale: float, size: int) -> float:
        """Coordinates are about √d times the scale; a coarser grid decides long vectors faster."""
        return 4096 * scale * math.sqrt(size)

    def _draw(
        self, noise: Noise, count: int, size: int, scale: float, grid: int
    ) -> NDArray[np.int64]:
        return noise.l2_norm(size, scale, grid, count)


@dataclass(frozen=True)
class SelectionMechanism:
    """Picks a candidate with a high score and says only which.

    Parameters
    ----------
    epsilon : float
        Cost of one selection in pure privacy.
    monotone : bool
        Whether a change of one row moves all scores in the same direction (sums of non-negative
        terms under add/remove). Otherwise scores may move apart by twice their sensitivity.
    """

    epsilon: float
    monotone: bool
    name: ClassVar[str]

    def __post_init__(self) -> None:
        """Refuse an ε that gives no privacy."""
        object.__setattr__(self, "epsilon", _as_cost("epsilon", self.epsilon))

    @cached_property
    def loss(self) -> PrivacyLoss:
        """What one selection costs."""
        raise NotImplementedError

    def event(self) -> Any:
        """Return its zCDP cost as a `dp_accounting` event: it has none of its own there."""
        from dp_accounting import ZCDpEvent

        return ZCDpEvent(self.loss.rho)

    def scale(self, sensitivity: float) -> float:
        """The noise scale r/ε, where r is how far two scores' changes can be apart."""
        sensitivity = _as_double("sensitivity", sensitivity)
        apart = sensitivity if self.monotone else 2 * sensitivity
        return _up(apart / self.epsilon)

    def select(self, scores: FloatArray, *, sensitivity: float, noise: Noise) -> int:
        """Index of the chosen candidate; ``sensitivity`` bounds the change of any one score."""
        raise NotImplementedError


@dataclass(frozen=True)
class ExponentialMechanism(SelectionMechanism):
    """Selection with Gumbel noise: probability ∝ exp(ε·score/r).

    Privacy
    -------
    ε-bounded-range, hence ε-DP and ε²/8-zCDP. Proof: docs/proofs/selection.md.
    """

    name: ClassVar[str] = "exponential"

    @cached_property
    def loss(self) -> PrivacyLoss:
        """What one selection costs."""
        return PrivacyLoss(
            epsilon=self.epsilon,
            rho=_up(conversions.rho_from_bounded_range(self.epsilon)),
            mu=_up(conversions.mu_from_bounded_range(self.epsilon)),
        )

    def select(self, scores: FloatArray, *, sensitivity: float, noise: Noise) -> int:
        """Index of the chosen candidate; ``sensitivity`` bounds the change of any one score."""
        return noise.select(scores, self.scale(sensitivity), "gumbel")


@dataclass(frozen=True)
class PermuteAndFlip(SelectionMechanism):
    """Selection with positive exponential noise, which is permute-and-flip.

    Privacy
    -------
    ε-DP, hence ε²/2-zCDP; it is not ε-bounded-range. Proof: docs/proofs/selection.md.
    """

    name: ClassVar[str] = "permute_and_flip"

    @cached_property
    def loss(self) -> PrivacyLoss:
        """What one selection costs."""
        return _pure_loss(self.epsilon)

    def select(self, scores: FloatArray, *, sensitivity: float, noise: Noise) -> int:
        """Index of the chosen candidate; ``sensitivity`` bounds the change of any one score."""
        return noise.select(scores, self.scale(sensitivity), "exponential")
