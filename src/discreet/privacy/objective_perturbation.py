"""Objective perturbation: what releasing the minimum of a randomly tilted objective costs.

The mechanism releases argmin Σℓ(w) + (λ/2)‖w‖² + b·w for a random vector b. Two things differ
between neighbouring tables: the b that leads to a given minimum (by the gradients of the rows that
differ), and how densely minima lie around it (by the determinants of the Hessians). The second is
bounded by the *curvature cost* c; the first is that of the noise. Proofs, and how this compares to
the literature: docs/proofs/objective_perturbation.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from discreet.privacy import conversions
from discreet.privacy.budget import Relation
from discreet.privacy.filters import PrivacyLoss

__all__ = [
    "ObjectivePerturbation",
    "curvature_cost",
    "noise_ratio",
    "profile",
    "pure_scale",
    "ridge_for",
    "true_epsilon",
]

ROUNDING = 1e-12
"""Relative room for the rounding of closed formulas; their error is below 1e-14."""

_BISECTIONS = 60


def curvature_cost(ridge: float, *, rank: int, trace: float) -> float:
    """Bound the logarithm of the ratio of determinants between neighbours.

    Parameters
    ----------
    ridge : float
        λ > 0, the strong convexity of the penalised sum that does not come from rows.
    rank, trace : int, float
        Bounds on the rank and trace of one row's Hessian.

    Returns
    -------
    float
        c = k·ln(1 + t/(kλ)), rounded up; under either relation.
    """
    return rank * math.log1p(trace / (rank * ridge)) * (1 + ROUNDING)


def ridge_for(cost: float, *, rank: int, trace: float) -> float:
    """Return the smallest λ at which the curvature cost is at most ``cost``, rounded up."""
    return trace / (rank * math.expm1(min(cost / rank, 600.0))) * (1 + 4 * ROUNDING)


def profile(
    epsilon: float,
    *,
    noise_ratio: float,
    curvature_cost: float,
    relation: Relation,
    corners: int,
) -> float:
    """Bound the δ of objective perturbation with Gaussian noise at an ε.

    Parameters
    ----------
    epsilon : float
        ε.
    noise_ratio : float
        s = L/σ: the bound on one row's gradient over the noise's standard deviation.
    curvature_cost : float
        c.
    relation : Relation
        Neighbours.
    corners : int
        m, the loss's ``gradient_corners``.

    Returns
    -------
    float
        An upper bound. With H_μ(e) the δ of μ-GDP at e, and e = ε − c ≥ 0: m·H_s(e) under
        add/remove, m²·H_2s(e) + 2m·H_s(e) under replace; 1 for ε < c.

    Privacy
    -------
    For every loss whose rows have convex gradients hulls of m corners; no other assumption on how
    a row's gradient depends on the weights, hence on the noise.
    """
    left = math.nextafter(epsilon - curvature_cost, -math.inf)
    if not left >= 0:
        return 1.0
    single = corners * conversions.delta_from_mu(noise_ratio, left)
    if relation is Relation.ADD_REMOVE:
        return min(1.0, single * (1 + ROUNDING))
    double = corners**2 * conversions.delta_from_mu(2 * noise_ratio, left)
    return min(1.0, (double + 2 * single) * (1 + ROUNDING))


def noise_ratio(
    epsilon: float, delta: float, *, curvature_cost: float, relation: Relation, corners: int
) -> float:
    """Return the largest s = L/σ whose `profile` at ε is at most δ, rounded down."""
    if not epsilon > curvature_cost:
        raise ValueError(
            f"the curvature cost {curvature_cost:.4g} must be below epsilon = {epsilon:.4g}; "
            "raise the penalty."
        )

    def fits(ratio: float) -> bool:
        return delta >= profile(
            epsilon,
            noise_ratio=ratio,
            curvature_cost=curvature_cost,
            relation=relation,
            corners=corners,
        )

    changed = relation.rows_changed
    left = epsilon - curvature_cost
    high = conversions.mu_from_epsilon(left, delta / corners**changed) / changed
    if fits(high):
        return high
    low = high * (1 - 1e-9)
    while not fits(low):
        low /= 2
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def true_epsilon(
    delta: float, *, noise_ratio: float, curvature_cost: float, relation: Relation, corners: int
) -> float:
    """Return the smallest ε at which the `profile` is at most δ, rounded up."""

    def fits(epsilon: float) -> bool:
        return delta >= profile(
            epsilon,
            noise_ratio=noise_ratio,
            curvature_cost=curvature_cost,
            relation=relation,
            corners=corners,
        )

    changed = relation.rows_changed
    left = conversions.epsilon_from_mu(changed * noise_ratio, delta / corners**changed)
    low = high = curvature_cost + left
    width = 1e-15 * high
    while not fits(high):
        low, high, width = high, high + width, 2 * width
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def pure_scale(
    epsilon: float, *, lipschitz: float, curvature_cost: float, relation: Relation
) -> float:
    """Return the scale of noise of density ∝ exp(−‖b‖/scale) that makes the release ε-DP.

    Privacy
    -------
    ε = rows_changed·L/scale + c: the triangle inequality for the noise, whatever the gradients.
    """
    left = epsilon - curvature_cost
    if not left > 0:
        raise ValueError(
            f"the curvature cost {curvature_cost:.4g} must be below epsilon = {epsilon:.4g}; "
            "raise the penalty."
        )
    return relation.rows_changed * lipschitz / left * (1 + ROUNDING)


@dataclass(frozen=True)
class ObjectivePerturbation:
    """The release of a perturbed minimum, its output noise included.

    Privacy
    -------
    (ε, δ)-DP as a whole, by the calibration of the solver that runs it. No statement in another
    measure is made, but that of pure privacy if δ = 0.
    """

    epsilon: float
    delta: float = 0.0
    name: ClassVar[str] = "objective_perturbation"

    def __post_init__(self) -> None:
        """Refuse parameters that are no promise."""
        epsilon, delta = float(self.epsilon), float(self.delta)
        if not (math.isfinite(epsilon) and epsilon > 0 and 0 <= delta < 1):
            raise ValueError(
                f"epsilon must be > 0 and finite and delta in [0, 1); got {self.epsilon!r}, "
                f"{self.delta!r}."
            )
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)

    @property
    def loss(self) -> PrivacyLoss:
        """What one release costs."""
        rho = mu = math.inf
        if self.delta == 0:
            rho = math.nextafter(conversions.rho_from_pure(self.epsilon), math.inf)
            mu = math.nextafter(conversions.mu_from_pure(self.epsilon), math.inf)
        return PrivacyLoss(self.epsilon, rho, mu, self.delta)

    def event(self) -> Any:
        """Return its zCDP cost if it is pure; else an event that `dp_accounting` refuses.

        That package has no event for a mechanism of which only an (ε, δ) is known.
        """
        from dp_accounting import UnsupportedDpEvent, ZCDpEvent

        return ZCDpEvent(self.loss.rho) if self.delta == 0 else UnsupportedDpEvent()
