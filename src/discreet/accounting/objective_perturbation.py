"""Cost of objective perturbation: releasing the minimum of a randomly perturbed objective.

The mechanism releases argmin Σℓ(w) + (λ/2)‖w‖² + b·w for a random vector b. Two things differ
between neighbouring tables: the b that leads to a given minimum (by the gradients of the rows that
differ), and how densely minima lie around it (by the determinants of the Hessians). The second is
bounded by the *curvature cost* c; the first is that of the noise. Proofs, and how this compares to
the literature: docs/proofs/objective_perturbation.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, reduce
from typing import Any, ClassVar, Self

import numpy as np

from discreet.accounting import conversions
from discreet.accounting.budget import PrivacyLoss, Relation
from discreet.accounting.profiles import Profile
from discreet.errors import PrivacyError

ROUNDING = 1e-12  # relative slack for the rounding of closed formulas; their error is below 1e-14


def curvature_cost(ridge: float, *, rank: int, trace: float) -> float:
    """Bound the logarithm of the ratio of determinants between neighbours, under either relation.

    c = k·ln(1 + t/(kλ)), rounded up: λ > 0 is the strong convexity of the penalised sum that does
    not come from rows, k and t bound the rank and trace of one row's Hessian.
    """
    return rank * math.log1p(trace / (rank * ridge)) * (1 + ROUNDING)


def profile(
    *,
    noise_ratio: float,
    curvature_cost: float,
    relation: Relation,
    corners: int,
    output_mu: float = 0.0,
    releases: int = 1,
) -> Profile:
    """Bound the δ of ``releases`` in a row with Gaussian noise at every ε.

    ``noise_ratio`` is s = L/σ, the bound on one row's gradient over the noise's standard deviation,
    ``curvature_cost`` is c, and ``corners`` is m, the loss's ``gradient_corners``. The noise on the
    output hides the distance to the minimum so far that it is ``output_mu``-GDP given the exact
    minimum; 0 if the minimum itself is released.

    Privacy
    -------
    With H_μ(e) the δ of μ-GDP at e = ε − c: m·H_s + H_0/2 under add/remove, m²·H_2s + 2m·H_s +
    H_0/2 under replace; ``output_mu``² is added to each square. For every loss whose rows have
    gradients in hulls of m corners; no other assumption on how a row's gradient depends on the
    weights, hence on the noise.
    """
    square = Fraction(noise_ratio) ** 2
    output = releases * Fraction(output_mu) ** 2
    counts = _counts(releases, Relation(relation), corners)  # faster than `Profile.times`
    terms = tuple((count, output + j * square) for j, count in enumerate(counts) if count)
    return Profile(releases * Fraction(curvature_cost), terms)


@lru_cache(maxsize=256)
def _counts(releases: int, relation: Relation, corners: int) -> tuple[Fraction, ...]:
    """Count the choices of one corner per release with a squared norm of j·L², for each j.

    No corner counts as half a choice: at least as often some corner's loss is positive.
    """
    twice: tuple[int, ...] = (1, 2 * corners)
    if relation is Relation.REPLACE_ONE:
        twice = (1, 4 * corners, 0, 0, 2 * corners**2)
    exact = np.array(twice, dtype=object)  # whole numbers of any size
    counts = reduce(np.convolve, [exact] * releases)
    return tuple(Fraction(count, 2**releases) for count in counts)


_FACTS = ("noise_ratio", "curvature_cost", "corners", "output_mu")


@dataclass(frozen=True)
class ObjectivePerturbation:
    """Release of a perturbed minimum, its output noise included, which alone is (ε, δ)-DP.

    The other fields are those of `profile`, all or none, for how it composes with other releases.

    Privacy
    -------
    With a profile, by the profile, which (ε, δ) must follow from. Without one, (ε, δ)-DP by the
    calibration of the solver that runs it, and no statement in another measure is made but that of
    pure privacy if δ = 0.
    """

    epsilon: float
    delta: float = 0.0
    noise_ratio: float | None = None
    curvature_cost: float | None = None
    corners: int | None = None
    output_mu: float | None = None
    relation: Relation | None = None
    name: ClassVar[str] = "objective_perturbation"

    def __post_init__(self) -> None:
        epsilon = float(self.epsilon)
        delta = float(self.delta)
        if not (math.isfinite(epsilon) and epsilon > 0 and 0 <= delta < 1):
            raise ValueError(
                f"epsilon must be > 0 and finite and delta in [0, 1); got {self.epsilon!r}, "
                f"{self.delta!r}."
            )
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)
        numbers = [getattr(self, name) for name in _FACTS]
        if self.relation is None and all(number is None for number in numbers):
            return
        if self.relation is None or any(
            number is None or not (math.isfinite(number) and number >= 0) for number in numbers
        ):
            raise ValueError("a profile needs all of its numbers, and none of them below 0.")
        object.__setattr__(self, "relation", Relation(self.relation))
        if not self.profile.delta(epsilon) <= delta:
            raise ValueError(f"the profile does not keep ({epsilon:.6g}, {delta:g}).")

    @classmethod
    def gaussian(cls, delta: float, **facts: Any) -> Self:
        """Return one with Gaussian noise, by arguments of `profile`; its ε is that at ``delta``."""
        return cls(profile(**facts).epsilon(delta), delta, **facts)

    @cached_property
    def profile(self) -> Profile:
        """Profile by which one release composes with others."""
        if self.relation is None:
            raise PrivacyError("Only the (ε, δ) of this release is known, not how it composes.")
        facts: Any = {name: getattr(self, name) for name in _FACTS}
        return profile(**facts, relation=self.relation)

    @property
    def loss(self) -> PrivacyLoss:
        """Cost of one release."""
        rho = mu = math.inf
        if self.delta == 0:
            rho = math.nextafter(conversions.rho_from_pure(self.epsilon), math.inf)
            mu = math.nextafter(conversions.mu_from_pure(self.epsilon), math.inf)
        return PrivacyLoss(self.epsilon, rho, mu, self.delta)
