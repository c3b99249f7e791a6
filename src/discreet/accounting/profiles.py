"""Bounds on δ as a function of ε that compose exactly with Gaussian releases.

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

from discreet.accounting import conversions
from discreet.accounting.conversions.directed import raise_until

__all__ = ["Profile", "root_up", "up"]

ROOM = 2.0**-50
"""Times the number of terms: more than the share by which rounding changes their sum."""

MOST = 2**1000
"""A count beyond it does not fit a float; nothing is promised then."""


@dataclass(frozen=True)
class Profile:
    """δ(ε) ≤ Σ count·H_√square(ε − shift), in both directions and whatever was released before.

    Attributes
    ----------
    shift
        c, at least 0.
    terms
        Pairs (count, μ²); a count may be a fraction.
    """

    shift: Fraction
    terms: tuple[tuple[Fraction, Fraction], ...]

    def __post_init__(self) -> None:
        """Refuse what is no bound of this kind."""
        if not self.terms or self.shift < 0:
            raise ValueError("a profile needs at least one Gaussian, and a shift of at least 0.")
        if any(count <= 0 or square < 0 for count, square in self.terms):
            raise ValueError("counts of a profile are greater than 0 and squares at least 0.")

    @classmethod
    def gaussian(cls, square: Fraction) -> Profile:
        """That of everything which is √square-GDP."""
        return cls(Fraction(0), ((Fraction(1), Fraction(square)),))

    def then(self, other: Profile) -> Profile:
        """That of one mechanism after another, the second one adaptive.

        Privacy
        -------
        ``other`` holds for each outcome of the first mechanism, and is itself the same for all of
        them: which profile comes second must not depend on what the first one released.
        """
        terms: defaultdict[Fraction, Fraction] = defaultdict(Fraction)
        for count, square in self.terms:
            for more, added in other.terms:
                terms[square + added] += count * more
        return Profile(
            self.shift + other.shift, tuple((terms[square], square) for square in sorted(terms))
        )

    def times(self, count: int) -> Profile:
        """That of ``count`` such mechanisms in a row."""
        if count < 1:
            raise ValueError(f"count must be at least 1; got {count!r}.")
        if count == 1:
            return self
        half = self.times(count // 2)
        twice = half.then(half)
        return twice.then(self) if count % 2 else twice

    def delta(self, epsilon: float) -> float:
        """The bound at ε, rounded up; 1 where ε is below the shift."""
        left = _down(Fraction(epsilon) - self.shift)
        if left < 0:
            return 1.0
        total = sum(count * conversions.delta_from_mu(mu, left) for count, mu in self._rounded)
        return min(1.0, total * (1 + (len(self.terms) + 8) * ROOM))

    @cached_property
    def _rounded(self) -> tuple[tuple[float, float], ...]:
        """Counts and μ as floats; a count beyond all floats is infinite."""
        return tuple(
            (up(count) if count <= MOST else math.inf, root_up(square))
            for count, square in self.terms
        )

    def epsilon(self, delta: float) -> float:
        """The smallest ε whose bound is at most ``delta``, rounded up; 0 < δ < 1."""

        def at(parts: int) -> float:
            """The ε at which each term is at most one of so many parts of δ."""
            return up(self.shift) + max(
                conversions.epsilon_from_mu(mu, _part(delta, parts * count))
                for count, mu in self._rounded
            )

        low, high = at(1), at(len(self.terms))
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return raise_until(high, high, lambda epsilon: self.delta(epsilon) <= delta)


def up(value: Fraction) -> float:
    """A float that is not below ``value``."""
    number = float(value)
    return number if Fraction(number) >= value else math.nextafter(number, math.inf)


def _part(delta: float, count: float) -> float:
    """δ/count as a probability that conversions take; where it starts a search, not a bound."""
    return min(max(delta / count, 1e-300), 0.999)


def _down(value: Fraction) -> float:
    return -up(-value)


def root_up(square: Fraction) -> float:
    """A root that is not too small."""
    root = math.sqrt(up(square))
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root
