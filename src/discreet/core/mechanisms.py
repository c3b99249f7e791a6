"""Mechanisms: their cost and how they release, as plain data.

An additive mechanism adds noise to a vector; a selection releases the index of one of several
candidates.

A mechanism is described by a *sensitivity* (how far neighbouring data sets can move the protected
value, for the relation in force) and by the cost of one use. `loss` is the cost in
every measure a filter may use; it depends on that request alone, never on the value, so it can be
charged before the value is computed. Noise is exact on a public grid (docs/proofs/noise.md), and
the grid's rounding is added to the sensitivity here.

Proofs: docs/proofs/gaussian.md, laplace.md, selection.md, and frank_wolfe.md for selections among
very many candidates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated, ClassVar, Literal, Self

import numpy as np

from discreet.accounting import conversions
from discreet.accounting.budget import PrivacyLoss
from discreet.accounting.conversions import UNIT
from discreet.core.noise import Integers, Noise, NoiseKind, from_grid, grid_exponent, on_grid
from discreet.validate import CheckedFields, FloatArray, number, positive

Cost = Annotated[
    float,
    partial(
        number,
        least=1e-9,
        most=1e9,
        remedy="Choose a budget and settings that split it into less extreme parts.",
    ),
]
"""Noise multipliers and ε for which noise can be drawn exactly on a grid."""

GROUP = 256
"""Candidates that share one draw of noise in the first stage of `ExponentialMechanism.select`."""

GROUP_ERROR = 2.0**-41
"""Bound on the error of the logarithm of a sum of up to `GROUP` exponentials."""


def pure_loss(epsilon: float) -> PrivacyLoss:
    """Return the cost of an ε-DP mechanism of which nothing else is known."""
    rho, mu = conversions.rho_from_pure(epsilon), conversions.mu_from_pure(epsilon)
    return PrivacyLoss(
        epsilon=epsilon, rho=math.nextafter(rho, math.inf), mu=math.nextafter(mu, math.inf)
    )


class AdditiveMechanism(CheckedFields):
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

    noise_multiplier: Cost
    name: ClassVar[str] = "gaussian"
    norm: ClassVar[Literal[1, 2]] = 2

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

    epsilon: Cost

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


# ---- selections


@dataclass(frozen=True)
class SelectionMechanism(CheckedFields):
    """Selection of a candidate with a high score; only its index is released.

    Parameters
    ----------
    epsilon : float
        Cost of one selection in pure privacy.
    monotone : bool
        True if a change of one row moves all scores in the same direction (sums of non-negative
        terms under add/remove). Otherwise scores may move apart by twice their sensitivity.
    """

    epsilon: Cost
    monotone: bool
    name: ClassVar[str]
    noise_kind: ClassVar[NoiseKind]

    @cached_property
    def loss(self) -> PrivacyLoss:
        """Cost of one selection."""
        return pure_loss(self.epsilon)

    def scale(self, sensitivity: float) -> float:
        """Return the noise scale r/ε, where r bounds the difference of two scores' changes."""
        sensitivity = positive("sensitivity", sensitivity)
        apart = sensitivity if self.monotone else 2 * sensitivity
        return math.nextafter(apart / self.epsilon, math.inf)

    def select(
        self,
        scores: FloatArray,
        *,
        sensitivity: float,
        noise: Noise,
        magnitude: float | None = None,
    ) -> int:
        """Return the index of the chosen candidate.

        ``sensitivity`` bounds the change of any one score between neighbouring data sets;
        ``magnitude`` is a public bound on scores, and mechanisms that use it cut larger ones to it.
        """
        return noise.select(scores, self.scale(sensitivity), self.noise_kind)


@dataclass(frozen=True)
class ExponentialMechanism(SelectionMechanism):
    """Selection with Gumbel noise: probability ∝ exp(ε·score/r).

    Privacy
    -------
    ε-bounded-range, hence ε-DP and ε²/8-zCDP. Proof: docs/proofs/selection.md.
    """

    name: ClassVar[str] = "exponential"
    noise_kind: ClassVar[NoiseKind] = "gumbel"

    @classmethod
    def sharing(cls, total: float) -> Self:
        """Return a selection that costs at most the total μ², for scores that may move apart."""
        mu = math.sqrt(positive("total", total) * (1 - 2.0**-36))
        return cls(conversions.bounded_range_from_mu(mu), monotone=False)

    @cached_property
    def loss(self) -> PrivacyLoss:
        """Cost of one selection."""
        return PrivacyLoss(
            epsilon=self.epsilon,
            rho=math.nextafter(conversions.rho_from_bounded_range(self.epsilon), math.inf),
            mu=math.nextafter(conversions.mu_from_bounded_range(self.epsilon), math.inf),
        )

    def select(
        self,
        scores: FloatArray,
        *,
        sensitivity: float,
        noise: Noise,
        magnitude: float | None = None,
    ) -> int:
        """Return the index of the chosen candidate, with few draws of noise where there are many.

        With a ``magnitude`` and many candidates, a group of them is chosen first, by the logarithm
        of its sum of exponentials, then a candidate in it: size/256 + 256 draws instead of one per
        candidate.

        Privacy
        -------
        The logarithm of a group's sum is computed with an error, which acts like an error of the
        scores of all its candidates; a public bound on it is added to how far scores can move
        apart. Proof: docs/proofs/frank_wolfe.md.
        """
        if magnitude is not None:
            scores = np.clip(scores, -magnitude, magnitude)
        if magnitude is None or scores.size <= 2 * GROUP:
            return noise.select(scores, self.scale(sensitivity), self.noise_kind)
        scale = _group_scale(self, sensitivity, magnitude)
        padded = np.full(-(-scores.size // GROUP) * GROUP, -math.inf)
        padded[: scores.size] = scores
        group = noise.select(_group_scores(padded.reshape(-1, GROUP), scale), scale, "gumbel")
        start = group * GROUP
        return start + noise.select(scores[start : start + GROUP], scale, "gumbel")


@dataclass(frozen=True)
class PermuteAndFlip(SelectionMechanism):
    """Selection with positive exponential noise, which is permute-and-flip.

    Privacy
    -------
    ε-DP, hence ε²/2-zCDP; it is not ε-bounded-range. Proof: docs/proofs/selection.md.
    """

    name: ClassVar[str] = "permute_and_flip"
    noise_kind: ClassVar[NoiseKind] = "exponential"


@dataclass(frozen=True)
class LaplaceNoisyMax(SelectionMechanism):
    """Selection with Laplace noise (report noisy max).

    Privacy
    -------
    ε-DP, hence ε·tanh(ε/2)-zCDP; it is not ε-bounded-range. Scores and noise lie on a public grid,
    whose rounding is added to how far scores can move apart; ties go to the lowest index. Proof:
    docs/proofs/frank_wolfe.md.
    """

    name: ClassVar[str] = "laplace_noisy_max"

    def select(
        self,
        scores: FloatArray,
        *,
        sensitivity: float,
        noise: Noise,
        magnitude: float | None = None,
    ) -> int:
        """Return the index of the chosen candidate; ``magnitude`` is needed for the grid."""
        if magnitude is None:
            raise ValueError("LaplaceNoisyMax needs a public bound on the scores: pass magnitude.")
        grid = grid_exponent(self.scale(sensitivity), magnitude)
        # Rounding moves each score by half a step at most, so two changes apart by two steps.
        scale = self.scale(math.nextafter(sensitivity + 2 * 2.0**grid, math.inf))
        drawn = noise.laplace(scores.size, scale, grid)
        return int(np.argmax(on_grid(np.clip(scores, -magnitude, magnitude), grid) + drawn))


def _group_scale(mechanism: ExponentialMechanism, sensitivity: float, magnitude: float) -> float:
    """Return the scale b with b·ε ≥ r + 4·(error of a group's score), which grows with b."""
    apart = sensitivity if mechanism.monotone else 2 * sensitivity
    apart += 8 * UNIT * magnitude
    return apart / (mechanism.epsilon - 4 * GROUP_ERROR) * (1 + 2.0**-50)


def _group_scores(groups: FloatArray, scale: float) -> FloatArray:
    """Compute b·ln Σ exp(score/b) for each row of a matrix; −inf marks a missing candidate."""
    tops = groups.max(axis=1)
    with np.errstate(under="ignore"):
        sums = np.exp((groups - tops[:, None]) / scale).sum(axis=1)
    result: FloatArray = tops + scale * np.log(sums)
    return result
