"""Selections by Laplace noise, selections among very many candidates, and what a budget affords.

Proofs: docs/proofs/frank_wolfe.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.accounting import conversions
from discreet.accounting.budget import Budget, Measure, PrivacyLoss
from discreet.core.mechanisms import ExponentialMechanism, SelectionMechanism
from discreet.core.noise import Noise, grid_exponent, on_grid

__all__ = ["LaplaceNoisyMax", "affordable_selection", "select_in_groups"]

FloatArray = NDArray[np.float64]

GROUP = 256
"""Candidates that share one draw of noise in the first stage of `select_in_groups`."""

GROUP_ERROR = 2.0**-41
"""Bound on the error of the logarithm of a sum of up to `GROUP` exponentials."""


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

    @cached_property
    def loss(self) -> PrivacyLoss:
        """What one selection costs."""
        return PrivacyLoss(
            epsilon=self.epsilon,
            rho=math.nextafter(conversions.rho_from_pure(self.epsilon), math.inf),
            mu=math.nextafter(conversions.mu_from_pure(self.epsilon), math.inf),
        )

    def select(
        self,
        scores: FloatArray,
        *,
        sensitivity: float,
        noise: Noise,
        magnitude: float | None = None,
    ) -> int:
        """Index of the chosen candidate; ``sensitivity`` bounds the change of any one score.

        ``magnitude`` is a public bound on absolute scores (larger ones are cut to it); it is
        needed to choose the grid.
        """
        if magnitude is None:
            raise ValueError("LaplaceNoisyMax needs a public bound on the scores: pass magnitude.")
        grid = grid_exponent(self.scale(sensitivity), magnitude)
        # Rounding moves each score by half a step at most, so two changes apart by two steps.
        scale = self.scale(math.nextafter(sensitivity + 2 * 2.0**grid, math.inf))
        drawn = noise.laplace(scores.size, scale, grid)
        return int(np.argmax(on_grid(np.clip(scores, -magnitude, magnitude), grid) + drawn))


def select_in_groups(
    mechanism: ExponentialMechanism,
    scores: FloatArray,
    *,
    sensitivity: float,
    magnitude: float,
    noise: Noise,
) -> int:
    """Select by the exponential mechanism among many candidates with few draws of noise.

    A group of candidates is chosen first, by the logarithm of its sum of exponentials, then a
    candidate in it: size/256 + 256 draws instead of one a candidate.

    Parameters
    ----------
    mechanism : ExponentialMechanism
        The mechanism; its cost is what this selection costs.
    scores : ndarray
        Scores of the candidates.
    sensitivity : float
        Bound on the change of any one score between neighbours.
    magnitude : float
        Public bound on absolute scores; larger ones are cut to it.
    noise : Noise
        Where the noise comes from.

    Privacy
    -------
    That of the mechanism. The logarithm of a group's sum is computed with an error, which acts like
    an error of the scores of all its candidates; a public bound on it is added to how far scores
    can move apart. Proof: docs/proofs/frank_wolfe.md.
    """
    scores = np.clip(scores, -magnitude, magnitude)
    if scores.size <= 2 * GROUP:
        return mechanism.select(scores, sensitivity=sensitivity, noise=noise)
    scale = _group_scale(mechanism, sensitivity, magnitude)
    padded = np.full(-(-scores.size // GROUP) * GROUP, -math.inf)
    padded[: scores.size] = scores
    group = noise.select(_group_scores(padded.reshape(-1, GROUP), scale), scale, "gumbel")
    start = group * GROUP
    return start + noise.select(scores[start : start + GROUP], scale, "gumbel")


def _group_scale(mechanism: ExponentialMechanism, sensitivity: float, magnitude: float) -> float:
    """The scale b with b·ε ≥ r + 4·(error of a group's score); that error grows with b itself."""
    apart = sensitivity if mechanism.monotone else 2 * sensitivity
    apart += 4 * 2.0**-52 * magnitude
    return apart / (mechanism.epsilon - 4 * GROUP_ERROR) * (1 + 2.0**-50)


def _group_scores(groups: FloatArray, scale: float) -> FloatArray:
    """b·ln Σ exp(score/b) for each row of a matrix, as computed; −inf stands for no candidate."""
    tops = groups.max(axis=1)
    with np.errstate(under="ignore"):
        sums = np.exp((groups - tops[:, None]) / scale).sum(axis=1)
    result: FloatArray = tops + scale * np.log(sums)
    return result


def affordable_selection(budget: Budget, count: int) -> tuple[Measure, float]:
    """The largest ε that ``count`` exponential mechanisms can have each, and the measure for it.

    Compared are pure composition (best for a handful of selections), zCDP with ε²/8 each (best for
    many), and Gaussian DP by bounded range (best for many if δ is large against ε).
    """
    measure: Measure = "pure"
    epsilon = budget.epsilon / count
    if not budget.pure:
        by_rho = math.sqrt(8 * budget.to_zcdp().rho / count)
        by_mu = conversions.bounded_range_from_mu(budget.to_gdp().mu / math.sqrt(count))
        if by_rho > epsilon:
            measure, epsilon = "zcdp", by_rho
        if by_mu > epsilon:
            measure, epsilon = "gdp", by_mu
    return measure, epsilon * (1 - 2.0**-36)  # costs are rounded up
