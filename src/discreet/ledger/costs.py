"""Costs of releases, also of those made elsewhere, and their totals.

The totals are exact sums by measure, from which `discreet.ledger.limits` decides what is admitted.
Proof: docs/proofs/ledger.md.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any, Self

from scipy.optimize import minimize_scalar

from discreet.accounting import conversions
from discreet.accounting.budget import Budget, Measure
from discreet.accounting.profiles import root_up
from discreet.errors import PrivacyError
from discreet.validate import choice, integer, number, positive


@dataclass(frozen=True)
class PrivacyCost:
    """Privacy cost of one release: a measure with its exact total (ε, ρ or μ²), and a δ.

    ``PrivacyCost(**cost.to_dict())`` is the same cost.
    """

    measure: Measure
    total: Fraction
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        choice("measure", self.measure, ("pure", "approximate", "zcdp", "gdp"))
        object.__setattr__(self, "total", Fraction(self.total))
        object.__setattr__(self, "delta", Fraction(self.delta))
        if not 0 < self.total <= 10**50:
            raise ValueError(f"a cost must be positive and finite; got {float(self.total)!r}.")
        if not 0 <= self.delta < 1 or (self.delta > 0 and self.measure != "approximate"):
            raise ValueError(f"a cost in {self.measure!r} cannot have δ = {float(self.delta)!r}.")

    @classmethod
    def of(cls, budget: Budget, measure: Measure) -> Self:
        """Return the cost of a release that spends a whole budget in a measure."""
        delta = Fraction(budget.delta) if measure == "approximate" else Fraction(0)
        return cls(measure, budget.total(measure), delta)

    def forms(self, budget: Budget, group: int) -> tuple[PrivacyCost, ...]:
        """Return the ways to enter a release that keeps ``budget``, for ``group`` rows.

        Besides its own measure that is (ε, δ), which adds up with others known by (ε, δ) only.
        """
        own = (self.grouped(group),)
        if group > 1 or budget.pure or self.measure not in ("gdp", "zcdp"):
            return own
        implied = self.total <= budget.total(self.measure)
        return (*own, PrivacyCost.of(budget, "approximate")) if implied else own

    def grouped(self, size: int) -> PrivacyCost:
        """Return the cost for ``size`` differing rows where this one is for one (group privacy).

        μ and ε grow by the factor, ρ and μ² by its square, and δ by 1 + e^ε + … + e^((size−1)ε).
        """
        if size == 1:
            return self
        factor = size if self.measure in ("pure", "approximate") else size * size
        delta = self.delta
        if delta:
            epsilon = conversions.round_up(self.total)
            if epsilon * size > 700:
                raise PrivacyError(f"nothing is known of {size} rows at ε = {epsilon:g}.")
            growth = math.fsum(math.exp(k * epsilon) for k in range(size)) * (1 + 2.0**-45)
            delta = delta * Fraction(growth)
            if delta >= 1:
                raise PrivacyError(f"{size} rows at ε = {epsilon:g} leave no δ below 1.")
        return PrivacyCost(self.measure, self.total * factor, delta)

    @property
    def squared_mu(self) -> Fraction | None:
        """μ² of Gaussian DP, or None if no μ is known."""
        if self.measure == "gdp":
            return self.total
        if self.measure == "pure":
            return Fraction(conversions.mu_from_pure(conversions.round_up(self.total))) ** 2
        return None

    @property
    def rho(self) -> Fraction:
        """ρ of zCDP; of (ε, δ) that of ε, with δ apart."""
        if self.measure == "gdp":
            return self.total / 2
        if self.measure == "zcdp":
            return self.total
        return Fraction(conversions.rho_from_pure(conversions.round_up(self.total)))

    def to_dict(self) -> dict[str, str]:
        """Return the cost as texts of exact numbers."""
        return {name: str(value) for name, value in asdict(self).items()}


@dataclass(frozen=True)
class CostTotals:
    """Exact sums over entries, by the measure that each entry is known in.

    Attributes
    ----------
    entries
        Number of entries.
    pure, pure_squared_mu, pure_rho
        Sums over pure entries: of ε, of the μ² and of the ρ that ε implies.
    approximate, approximate_rho, delta
        Sums over (ε, δ) entries: of ε, of the ρ that ε implies, and of δ.
    gdp, zcdp
        Sum of μ² over entries in Gaussian DP, and of ρ over entries in zCDP.
    """

    entries: int = 0
    pure: Fraction = Fraction(0)
    pure_squared_mu: Fraction = Fraction(0)
    pure_rho: Fraction = Fraction(0)
    approximate: Fraction = Fraction(0)
    approximate_rho: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    gdp: Fraction = Fraction(0)
    zcdp: Fraction = Fraction(0)

    def plus(self, cost: PrivacyCost, sign: int = 1) -> CostTotals:
        """Return the totals with one more entry; with ``sign=-1`` without it."""
        added = {cost.measure: cost.total, "delta": cost.delta}
        if cost.measure == "pure":
            added["pure_squared_mu"] = cost.squared_mu or Fraction(0)
            added["pure_rho"] = cost.rho
        elif cost.measure == "approximate":
            added["approximate_rho"] = cost.rho
        sums = {name: getattr(self, name) + sign * value for name, value in added.items()}
        return replace(self, entries=self.entries + sign, **sums)

    @property
    def rho(self) -> Fraction:
        """ρ of all entries, without the δ of (ε, δ) entries."""
        return self.pure_rho + self.approximate_rho + self.gdp / 2 + self.zcdp

    def at(self, delta: float) -> float:
        """Return the ε of these totals at a δ: the least of all sound ways to add them up.

        Pure entries are added up, or counted in Gaussian DP or in zCDP; (ε, δ) entries are added up
        or counted in zCDP; entries in Gaussian DP are counted there or in zCDP. It is never above
        Σε of entries that are (ε, δ)-DP with Σδ up to ``delta`` (but for rounding).
        """
        rest = Fraction(delta) - self.delta
        if rest < 0:
            return math.inf
        ways = self._ways()
        return min(_composed(epsilon, square, rho, rest) for epsilon, square, rho in ways)

    def _ways(self) -> set[tuple[Fraction, ...]]:
        """Return the sums of ε, μ² and ρ, for each way to count the entries."""
        none = Fraction(0)
        pure = ((self.pure, none, none), (none, self.pure_squared_mu, none))
        ways = product(
            (*pure, (none, none, self.pure_rho)),
            ((self.approximate, none, none), (none, none, self.approximate_rho)),
            ((none, self.gdp, none), (none, none, self.gdp / 2)),
            ((none, none, self.zcdp),),
        )
        return {tuple(sum(sums, none) for sums in zip(*way, strict=True)) for way in ways}

    def to_dict(self) -> dict[str, str]:
        """Return the totals as texts of exact numbers."""
        return {name: str(value) for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, data: dict[str, str]) -> Self:
        """Read what `to_dict` wrote."""
        sums = {name: Fraction(value) for name, value in data.items() if name != "entries"}
        return cls(int(data["entries"]), **sums)


def _composed(epsilon: Fraction, squared_mu: Fraction, rho: Fraction, delta: Fraction) -> float:
    """Return the ε at δ of entries that are ε-DP, μ-GDP and ρ-zCDP, each part by itself."""
    whole = min(float(round_down(delta)), math.nextafter(1.0, 0.0))
    mu = root_up(squared_mu)
    rounded_rho = conversions.round_up(rho)

    def with_parts(of_gaussian: float, of_zcdp: float) -> float:
        if (squared_mu and of_gaussian <= 0) or (rho and of_zcdp <= 0):
            return math.inf
        gaussian = conversions.epsilon_from_mu(mu, of_gaussian) if squared_mu else 0.0
        concentrated = conversions.epsilon_from_rho(rounded_rho, of_zcdp) if rho else 0.0
        return conversions.round_up(epsilon + Fraction(gaussian) + Fraction(concentrated))

    if not squared_mu or not rho:
        return with_parts(whole, whole)

    def divided(odds: float) -> float:  # the two parts are rounded down: together at most δ
        shrunk = whole * (1 - 2.0**-50)
        return with_parts(shrunk / (1 + math.exp(-odds)), shrunk / (1 + math.exp(odds)))

    return float(minimize_scalar(divided, bounds=(-60.0, 60.0), options={"xatol": 1e-4}).fun)


def round_down(exact: Fraction) -> Fraction:
    """Return the largest float that is not above a number, as a fraction."""
    nearest = float(exact)
    return Fraction(nearest if Fraction(nearest) <= exact else math.nextafter(nearest, 0.0))


def cost_of(
    *,
    gaussian: float | None = None,
    laplace: float | None = None,
    sensitivity: float = 1.0,
    rho: float | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    event: Any = None,
    times: int = 1,
) -> PrivacyCost:
    """Return the cost of ``times`` releases of another tool, by exactly one description.

    That is the standard deviation of Gaussian noise or the scale of Laplace noise (``sensitivity``
    is the largest change of the value by one unit, in L2 or L1 norm), ρ of zCDP, (ε, δ), or an
    event of dp-accounting with noise relative to the sensitivity, evaluated at δ if need be.
    """
    descriptions = {
        "gaussian": gaussian, "laplace": laplace, "rho": rho, "epsilon": epsilon, "event": event,
    }  # fmt: skip
    given = [name for name, value in descriptions.items() if value is not None]
    if len(given) != 1:
        raise ValueError(
            f"give exactly one of {', '.join(descriptions)}; got {', '.join(given) or 'none'}."
        )
    times = integer("times", times)
    change = Fraction(positive("sensitivity", sensitivity))
    delta = number("delta", delta, least=0.0, below=1.0)
    if gaussian is not None:
        return PrivacyCost("gdp", times * (change / Fraction(positive("gaussian", gaussian))) ** 2)
    if laplace is not None:
        return PrivacyCost("pure", times * change / Fraction(positive("laplace", laplace)))
    if rho is not None:
        return PrivacyCost("zcdp", times * Fraction(positive("rho", rho)))
    if epsilon is not None:
        total = times * Fraction(positive("epsilon", epsilon))
        return PrivacyCost("approximate" if delta else "pure", total, times * Fraction(delta))
    return _of_event(event, times, delta)


def _of_event(event: Any, times: int, delta: float) -> PrivacyCost:
    """Return the cost of an event: by its μ² or ρ if all parts have one, else (ε, δ).

    The (ε, δ) are for one unit added or removed, the relation that dp-accounting evaluates.
    """
    parts = _flat(event, times)
    if parts is not None and all(mu is not None for mu, _ in parts):
        return PrivacyCost("gdp", sum((mu for mu, _ in parts if mu is not None), Fraction(0)))
    if parts is not None:
        return PrivacyCost("zcdp", sum((rho for _, rho in parts), Fraction(0)))
    if delta <= 0:
        raise ValueError(
            "this event is known by (ε, δ) only: give the delta at which to evaluate it, for "
            "example 1e-9."
        )
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    if not accountant.supports(event):
        raise ValueError(
            "dp-accounting cannot evaluate this event by its privacy loss distribution. Enter its "
            "ε and δ instead, or its ρ."
        )
    found = accountant.compose(event, times).get_epsilon(delta)
    if not math.isfinite(found) or found <= 0:
        raise ValueError(f"dp-accounting gives ε = {found} for this event at δ = {delta:g}.")
    return PrivacyCost("approximate", Fraction(found), Fraction(delta))


def _flat(event: Any, times: int) -> list[tuple[Fraction | None, Fraction]] | None:
    """Return (μ², ρ) of each part of an event, or None if a part has neither."""
    kind = type(event).__name__
    if kind == "GaussianDpEvent":
        squared = times / Fraction(positive("noise_multiplier", event.noise_multiplier)) ** 2
        return [(squared, squared / 2)]
    if kind == "LaplaceDpEvent":
        pure = PrivacyCost(
            "pure", 1 / Fraction(positive("noise_multiplier", event.noise_multiplier))
        )
        mu = pure.squared_mu
        return [(None if mu is None else times * mu, times * pure.rho)]
    if kind == "ZCDpEvent" and not getattr(event, "xi", 0):
        return [(None, times * Fraction(positive("rho", event.rho)))]
    if kind == "SelfComposedDpEvent":
        return _flat(event.event, times * event.count)
    if kind == "ComposedDpEvent":
        found = [_flat(part, times) for part in event.events]
        return None if None in found else [one for part in found for one in part or ()]
    return None
