"""Mechanisms that select one of several candidates, and selections among very many.

Proofs: docs/proofs/selection.md, docs/proofs/frank_wolfe.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from discreet.accounting import conversions
from discreet.accounting.budget import PrivacyLoss
from discreet.accounting.conversions import UNIT
from discreet.core.mechanisms import COST, pure_loss
from discreet.core.noise import Noise, NoiseKind, grid_exponent, on_grid
from discreet.validate import FloatArray, check_fields, number, positive

GROUP = 256
"""Candidates that share one draw of noise in the first stage of `ExponentialMechanism.select`."""

GROUP_ERROR = 2.0**-41
"""Bound on the error of the logarithm of a sum of up to `GROUP` exponentials."""


@dataclass(frozen=True)
class SelectionMechanism:
    """Selection of a candidate with a high score; only its index is released.

    Parameters
    ----------
    epsilon : float
        Cost of one selection in pure privacy.
    monotone : bool
        True if a change of one row moves all scores in the same direction (sums of non-negative
        terms under add/remove). Otherwise scores may move apart by twice their sensitivity.
    """

    epsilon: float
    monotone: bool
    name: ClassVar[str]
    noise_kind: ClassVar[NoiseKind]

    def __post_init__(self) -> None:
        """Refuse an ε that gives no privacy."""
        check_fields(self, number, "epsilon", **COST)

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
