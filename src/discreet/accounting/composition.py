"""Composition of two parts of a fit: a preparation of the rows, and the models that follow.

The preparation runs first, in zCDP, Gaussian DP or pure privacy; the models run on what it made of
the rows, in a measure of their solver's choice. A `Division` fixes what each may spend before
anything is read; it is verified, whoever made it (`discreet.accounting.planning.divide`), so that
both together keep the budget. In one measure that is a sum. Models that have a bound on δ at every
ε are composed with the Gaussians before them by that bound. Where nothing is known of the models
but an (ε', δ'), their worst case is composed with a Gaussian, exactly.

Proof: docs/proofs/preparation.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from discreet.accounting import conversions
from discreet.accounting.budget import Budget, Measure, Relation
from discreet.accounting.profiles import Profile, root_up
from discreet.errors import BudgetExceeded, PrivacyError

_UP = 1.0 + 2.0**-46  # factor that covers a few dozen roundings of a sum of positive terms


def delta_with_gaussian(mu: float, epsilon_part: float, delta_part: float, epsilon: float) -> float:
    """Bound the δ at ε of a μ-GDP mechanism followed by an (ε', δ')-DP one.

    The second is (ε', δ')-DP whatever the first one said, and ε' is at most ε. With the profile δ_μ
    of a Gaussian and the logistic function σ,

        δ = δ' + (1 − δ')·[σ(ε')·δ_μ(ε − ε') + σ(−ε')·δ_μ(ε + ε')], rounded up.

    Privacy
    -------
    Exact: no smaller δ holds for all such pairs of mechanisms. Proof: docs/proofs/preparation.md.
    """
    if not 0 <= epsilon_part <= epsilon:
        raise ValueError(f"epsilon_part must be between 0 and {epsilon!r}; got {epsilon_part!r}.")
    if not 0 <= delta_part < 1:
        raise ValueError(f"delta_part must be in [0, 1); got {delta_part!r}.")
    low = math.nextafter(epsilon - epsilon_part, 0.0)  # a smaller ε has a larger δ
    high = math.nextafter(epsilon + epsilon_part, 0.0)
    odds = math.exp(-epsilon_part)
    likely = conversions.delta_from_mu(mu, low) / (1 + odds)
    unlikely = conversions.delta_from_mu(mu, high) * odds / (1 + odds)
    total = delta_part + (1 - delta_part) * (likely + unlikely)
    return min(1.0, math.nextafter(total * _UP, math.inf))


@dataclass(frozen=True, init=False)
class Remainder(Budget):
    """Budget of models that are composed by their profile with the preparation before them.

    ε and δ are those of Gaussian-DP models after the same preparation; they are for orientation.
    Models are calibrated so that they and the preparation, whose μ² is ``before``, keep ``whole``.
    """

    whole: Budget
    before: Fraction

    def __init__(
        self, epsilon: float, delta: float, relation: Relation, whole: Budget, before: Fraction
    ) -> None:
        super().__init__(epsilon, delta, relation)
        object.__setattr__(self, "whole", whole)
        object.__setattr__(self, "before", before)


@dataclass(frozen=True)
class Division:
    """Budgets of a preparation and of the models after it; together they keep ``whole``.

    ``parts`` are the name and share of each part of the preparation, in the unit that `divide`
    says, and ``share`` is that of all of them. They compose in ``measure`` with this ``total``, the
    models in one of ``measures`` with the budget ``models``. Mechanisms are made from a division,
    and the account of the fit reserves the same one: what a mechanism may cost and what its filter
    allows is `total_of` in both places.
    """

    whole: Budget
    parts: tuple[tuple[str, Fraction], ...]
    share: Fraction
    measures: tuple[Measure, ...]
    measure: Measure
    total: Fraction
    models: Budget

    def total_of(self, part: int) -> Fraction:
        """Return what one part of the preparation may spend of ``total``."""
        return self.total * self.parts[part][1] / self.share

    def verify(self) -> None:
        """Refuse a division by which both parts together could exceed the whole budget.

        One that `divide` made passes.
        """
        models = self.models
        sound = bool(self.measures) and models.relation is self.whole.relation
        sound = sound and all(share > 0 for _, share in self.parts) and 0 < self.share < 1
        sound = sound and sum(share for _, share in self.parts) == self.share
        sound = sound and sum(map(self.total_of, range(len(self.parts)))) == self.total
        sound = sound and all(self.keeps(name, models.total(name)) for name in self.measures)
        if isinstance(models, Remainder):
            sound = sound and (models.whole, models.before) == (self.whole, self.total)
        if not sound:
            raise PrivacyError(
                "This division of a budget is not sound: a preparation and models that follow it "
                "could exceed the budget. Make it with discreet.accounting.planning.divide."
            )

    def keeps(self, measure: Measure, total: Fraction) -> bool:
        """Check that the preparation and models with this total keep the whole budget."""
        whole = self.whole
        if whole.pure:
            return measure == "pure" and self.total + total <= Fraction(whole.epsilon)
        if measure == "zcdp":
            return self.preparation_rho + total <= Fraction(whole.to_zcdp().rho)
        # A preparation that composes in zCDP is not known to be Gaussian DP.
        if self.measure != "gdp":
            return False
        if measure in ("gdp", "profile"):
            return self.total + total <= Fraction(whole.to_gdp().mu) ** 2
        if total > Fraction(whole.epsilon):
            return False
        mu = root_up(self.total)
        epsilon = conversions.round_up(total)
        delta = self.models.delta if measure == "approximate" else 0.0
        return delta_with_gaussian(mu, epsilon, delta, whole.epsilon) <= whole.delta

    def check(self, measure: Measure, models: Fraction | Profile) -> None:
        """Refuse models that would break the promise, by their measure and total or profile."""
        if measure not in self.measures:
            known = " or ".join(repr(name) for name in self.measures)
            raise PrivacyError(
                f"This budget was divided for models that compose in {known}; they cannot be "
                f"opened in {measure!r}. Declare it in the solver's `composes`."
            )
        if isinstance(models, Fraction):
            if not self.keeps(measure, models):
                raise PrivacyError(
                    "The preparation and the models together would exceed the budget."
                )
            return
        delta = Profile.gaussian(self.total).then(models).delta(self.whole.epsilon)
        if not delta <= self.whole.delta:
            raise BudgetExceeded(
                f"The preparation and the models together are ({self.whole.epsilon:.6g}, "
                f"{delta:.6g})-DP; the budget's δ is {self.whole.delta:.6g}. Nothing was spent on "
                "the models."
            )

    @property
    def preparation_rho(self) -> Fraction:
        """Total of the preparation in zCDP."""
        if self.measure == "pure":
            return self.total * self.total / 2
        return self.total / 2 if self.measure == "gdp" else self.total

    def stated(self, measure: Measure, total: Fraction) -> tuple[Measure, Fraction, Fraction]:
        """Return the measure that holds for both parts, their total, and the preparation's share.

        ``measure`` and ``total`` are those of the models. The share is one of what adds up (ρ, μ²,
        or ε of a pure budget); where nothing does, of what was asked for (`share`).
        """
        if measure not in ("zcdp", "gdp") and not self.whole.pure:
            return "approximate", Fraction(self.whole.epsilon), self.share
        own = self.preparation_rho if measure == "zcdp" else self.total
        return measure, own + total, own / (own + total)

    def charge(self) -> tuple[Measure, Fraction, Fraction]:
        """Return what a ledger counts for both parts: a measure, a total, and a δ apart.

        The most that any of the models' measures could make of it; exact if all is Gaussian DP.
        """
        if self.whole.pure:
            return "pure", Fraction(self.whole.epsilon), Fraction(0)
        if {"approximate", "profile"} & set(self.measures):  # of both together an (ε, δ) is known
            return "approximate", Fraction(self.whole.epsilon), Fraction(self.whole.delta)
        if self.measures == ("gdp",):
            return "gdp", self.total + self.models.total("gdp"), Fraction(0)
        costs = []
        for measure in self.measures:
            total = self.models.total(measure)
            costs.append({"zcdp": total, "gdp": total / 2}.get(measure, total * total / 2))
        return "zcdp", self.preparation_rho + max(costs), Fraction(0)
