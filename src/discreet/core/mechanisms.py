"""Mechanisms that add noise to a vector: their cost and how they release, as plain data.

A mechanism is described by a *sensitivity* (how far neighbouring data sets can move the protected
value, for the relation in force) and by the cost of one use. `loss` is the cost in
every measure a filter may use; it depends on that request alone, never on the value, so it can be
charged before the value is computed. Noise is exact on a public grid (docs/proofs/noise.md), and
the grid's rounding is added to the sensitivity here.

Proofs: docs/proofs/gaussian.md, docs/proofs/laplace.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np

from discreet.accounting import conversions
from discreet.accounting.budget import PrivacyLoss
from discreet.core.noise import Integers, Noise, from_grid, grid_exponent, on_grid
from discreet.validate import FloatArray, check_fields, number, positive

COST: dict[str, Any] = {
    "least": 1e-9,
    "most": 1e9,
    "remedy": "Choose a budget and settings that split it into less extreme parts.",
}
"""Noise multipliers and ε for which noise can be drawn exactly on a grid."""


def pure_loss(epsilon: float) -> PrivacyLoss:
    """Return the cost of an ε-DP mechanism of which nothing else is known."""
    rho, mu = conversions.rho_from_pure(epsilon), conversions.mu_from_pure(epsilon)
    return PrivacyLoss(
        epsilon=epsilon, rho=math.nextafter(rho, math.inf), mu=math.nextafter(mu, math.inf)
    )


class AdditiveMechanism:
    """Adds noise to a vector of known sensitivity and releases the sum.

    The sensitivity is in the L1 or the L2 norm, whichever ``norm`` says. Costs and scales are
    rounded up, to the next larger float: rounding must never make them smaller than the truth.
    Noise that is drawn as ``whole`` vectors has a coarser grid: on a fine one, some of the many
    coordinates of a long vector would be undecided, which takes long.
    """

    name: ClassVar[str]
    norm: ClassVar[Literal[1, 2]]
    whole: ClassVar[bool] = False

    @cached_property
    def loss(self) -> PrivacyLoss:
        """Cost of one release."""
        raise NotImplementedError

    def scale(self, sensitivity: float) -> float:
        """Return the noise scale that this mechanism needs at a sensitivity."""
        raise NotImplementedError

    def _draw(self, noise: Noise, count: int, size: int, scale: float, grid: int) -> Integers:
        """Draw ``count`` noise vectors of ``size`` coordinates."""
        raise NotImplementedError

    def draw_block(
        self, noise: Noise, count: int, size: int, *, sensitivity: float, magnitude: float
    ) -> tuple[Integers, int, float]:
        """Draw noise for ``count`` releases alike: integers (count, size), their grid, the scale.

        Privacy
        -------
        A release is ``from_grid(on_grid(value, grid) + integers[k], grid)`` for a value whose
        coordinates were cut to ``magnitude``: this is `release` with the noise drawn ahead of the
        value. The parameters are those of `release`; each row of integers serves once.
        """
        sensitivity = positive("sensitivity", sensitivity)
        # neighbours get further apart by this many grid steps, when d coordinates are rounded
        rounding = float(size) if self.norm == 1 else math.sqrt(size)
        spread, harmless = self.scale(sensitivity), 2.0**-10
        if self.whole:
            spread *= 2**12 * math.sqrt(size)
            harmless = harmless if size <= 1000 else 2.0**-8
        # 2^-30 of the spread; finer, up to 2^-36, where rounding is more than a harmless share
        finer = harmless * sensitivity / rounding * 2.0**30
        grid = grid_exponent(min(spread, max(finer, spread / 64)), float(magnitude))
        scale = self.scale(math.nextafter(sensitivity + rounding * 2.0**grid, math.inf))
        return self._draw(noise, count, size, scale, grid), grid, scale

    def release(
        self, values: FloatArray, *, sensitivity: float, magnitude: float, noise: Noise
    ) -> tuple[FloatArray, float]:
        """Release ``values`` with noise; returns the noisy vector and the noise scale.

        ``sensitivity`` bounds the change of the protected values between neighbours, in this
        mechanism's norm; ``magnitude`` is a public bound on each, and those beyond are cut to it.

        Privacy
        -------
        Rounding to the grid moves each coordinate by at most half a step, so neighbours get at
        most d steps further apart in the L1 norm and √d in the L2 norm, which is added to the
        sensitivity. Cutting to the magnitude never takes two vectors apart. The rest is
        docs/proofs/noise.md.
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
    norm: ClassVar[Literal[1, 2]] = 2

    def __post_init__(self) -> None:
        """Refuse multipliers that give no privacy."""
        check_fields(self, number, "noise_multiplier", **COST)

    @classmethod
    def from_rho(cls, rho: float) -> Self:
        """Return the Gaussian mechanism that is ρ-zCDP."""
        return cls(math.nextafter(1 / math.sqrt(2 * positive("rho", rho)), math.inf))

    @classmethod
    def sharing(cls, total: float, uses: int = 1) -> Self:
        """Return one of ``uses`` releases that together cost the total μ².

        They cost 1e-12 less, relatively, because each cost is rounded up.
        """
        return cls(math.sqrt(uses / positive("total", total)) * (1 + 1e-12))

    @cached_property
    def loss(self) -> PrivacyLoss:
        """Cost of one release."""
        mu = math.nextafter(1 / self.noise_multiplier, math.inf)
        rho = math.nextafter(mu * mu / 2, math.inf)
        return PrivacyLoss(epsilon=math.inf, rho=rho, mu=mu)

    def scale(self, sensitivity: float) -> float:
        """Return the standard deviation at an L2 sensitivity."""
        return math.nextafter(self.noise_multiplier * float(sensitivity), math.inf)

    def _draw(self, noise: Noise, count: int, size: int, scale: float, grid: int) -> Integers:
        return noise.gaussian(count * size, scale, grid).reshape(count, size)


@dataclass(frozen=True)
class _PureNoise(AdditiveMechanism):
    """Noise of scale sensitivity / ε in some norm that gives ε-DP and nothing better."""

    epsilon: float

    def __post_init__(self) -> None:
        """Refuse an ε that gives no privacy."""
        check_fields(self, number, "epsilon", **COST)

    @cached_property
    def loss(self) -> PrivacyLoss:
        """Cost of one release."""
        return pure_loss(self.epsilon)

    def scale(self, sensitivity: float) -> float:
        """Return the noise scale at a sensitivity in the mechanism's norm."""
        return math.nextafter(float(sensitivity) / self.epsilon, math.inf)


@dataclass(frozen=True)
class Laplace(_PureNoise):
    """Laplace noise of scale L1 sensitivity / ε on each coordinate.

    Privacy
    -------
    ε-DP. Proof: docs/proofs/laplace.md.
    """

    name: ClassVar[str] = "laplace"
    norm: ClassVar[Literal[1, 2]] = 1

    def _draw(self, noise: Noise, count: int, size: int, scale: float, grid: int) -> Integers:
        return noise.laplace(count * size, scale, grid).reshape(count, size)


@dataclass(frozen=True)
class L2Norm(_PureNoise):
    """Noise of density ∝ exp(−ε‖z‖₂/Δ): gamma norm, direction uniform on the sphere.

    Privacy
    -------
    ε-DP at L2 sensitivity Δ. Proof: docs/proofs/laplace.md.
    """

    name: ClassVar[str] = "l2_norm"
    norm: ClassVar[Literal[1, 2]] = 2
    whole: ClassVar[bool] = True

    def _draw(self, noise: Noise, count: int, size: int, scale: float, grid: int) -> Integers:
        return noise.l2_norm(size, scale, grid, count)
