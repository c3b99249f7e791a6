"""Mechanisms as accounting sees them, and bounds on δ that compose with Gaussian releases.

A `Profile` is a shift c and a list of Gaussians with counts, and says that for every ε

    δ(ε) ≤ Σ count·H_μ(ε − c),    H_μ(e) = Φ(−e/μ + μ/2) − e^e Φ(−e/μ − μ/2).

One Gaussian with c = 0 is Gaussian DP. Objective perturbation has a few more. Under adaptive
composition shifts add up, counts multiply and the squares of μ add up, so nothing has to be
integrated. Proof: docs/proofs/preparation.md.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Protocol

from discreet.accounting import conversions
from discreet.accounting.budget import PrivacyLoss, Relation

SLACK = 2.0**-50  # relative rounding error of a sum, per term (a generous bound)
MOST = 2**1000  # largest count that fits a float; nothing is promised beyond it


@dataclass(frozen=True)
class Profile:
    """δ(ε) ≤ Σ count·H_√square(ε − shift), in both directions and whatever was released before.

    ``shift`` is at least 0; ``terms`` are pairs (count, μ²), where a count may be a fraction.
    """

    shift: Fraction
    terms: tuple[tuple[Fraction, Fraction], ...]

    def __post_init__(self) -> None:
        if not self.terms or self.shift < 0:
            raise ValueError("a profile needs at least one Gaussian, and a shift of at least 0.")
        if any(count <= 0 or square < 0 for count, square in self.terms):
            raise ValueError("counts of a profile are greater than 0 and squares at least 0.")

    @classmethod
    def gaussian(cls, square: Fraction) -> Profile:
        """Return the profile of a √square-GDP mechanism."""
        return cls(Fraction(0), ((Fraction(1), Fraction(square)),))

    def then(self, other: Profile) -> Profile:
        """Compose one mechanism with another, the second one adaptive.

        Privacy
        -------
        ``other`` holds for each outcome of the first mechanism, and is itself the same for all of
        them: which profile comes second must not depend on what the first one released.
        """
        terms: defaultdict[Fraction, Fraction] = defaultdict(Fraction)
        for count, square in self.terms:
            for more, added in other.terms:
                terms[square + added] += count * more
        merged = tuple((terms[square], square) for square in sorted(terms))
        return Profile(self.shift + other.shift, merged)

    def times(self, count: int) -> Profile:
        """Compose ``count`` such mechanisms in a row."""
        if count < 1:
            raise ValueError(f"count must be at least 1; got {count!r}.")
        if count == 1:
            return self
        half = self.times(count // 2)
        twice = half.then(half)
        return twice.then(self) if count % 2 else twice

    def delta(self, epsilon: float) -> float:
        """Return the bound at ε, rounded up; 1 where ε is below the shift."""
        left = -conversions.round_up(self.shift - Fraction(epsilon))
        if left < 0:
            return 1.0
        total = sum(count * conversions.delta_from_mu(mu, left) for count, mu in self._rounded)
        return min(1.0, total * (1 + (len(self.terms) + 8) * SLACK))

    @cached_property
    def _rounded(self) -> tuple[tuple[float, float], ...]:
        """Counts and μ as floats; a count beyond all floats is infinite."""
        return tuple(
            (conversions.round_up(count) if count <= MOST else math.inf, root_up(square))
            for count, square in self.terms
        )

    def epsilon(self, delta: float) -> float:
        """Find the smallest ε whose bound is at most ``delta``, rounded up; 0 < δ < 1."""

        def at(parts: int) -> float:
            """Return the ε at which each term is at most δ/parts: the start of a search."""
            return conversions.round_up(self.shift) + max(
                conversions.epsilon_from_mu(mu, min(max(delta / (parts * count), 1e-300), 0.999))
                for count, mu in self._rounded
            )

        low = at(1)
        high = at(len(self.terms))
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return conversions.raise_until(high, high, lambda epsilon: self.delta(epsilon) <= delta)


def root_up(square: Fraction) -> float:
    """Return a square root that is not too small."""
    root = math.sqrt(conversions.round_up(square))
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


class Mechanism(Protocol):
    """Anything a filter can be charged for."""

    @property
    def name(self) -> str:
        """Its name in a guarantee."""

    @property
    def loss(self) -> PrivacyLoss:
        """Cost of one use."""


class CountedStep(Mechanism, Protocol):
    """A mechanism whose repeated use costs less than the sum of its costs."""

    @property
    def relation(self) -> Relation:
        """Relation that it is accounted for."""

    def epsilon(self, count: int, delta: float) -> float:
        """Bound the ε of ``count`` uses at this δ."""


class ProfiledStep(Mechanism, Protocol):
    """A mechanism with a bound on its δ that composes with others of the kind."""

    @property
    def relation(self) -> Relation | None:
        """Relation that its profile holds under."""

    @property
    def profile(self) -> Profile:
        """Bound on its δ at every ε; `PrivacyError` if it has no such bound."""


PlannedStep = CountedStep | ProfiledStep  # steps that a budget can be spent on in advance
