"""Costs of releases, their totals, the limit they are held to, and the settings of a data set.

A limit in (ε, δ) is kept by several filters at once: sums of ε and δ, Gaussian DP (the sum of μ²),
zCDP (the sum of ρ, with the δ of each entry added up apart), and mixtures of the first two. An
entry is admitted if *one* filter admits everything so far and the entry. Which one it is may depend
on results, which costs a part of δ for each way of counting. The very first entry, which cannot
depend on results, may also take the whole limit. Proof: docs/proofs/ledger.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from itertools import product
from typing import Any, Self

from scipy.optimize import minimize_scalar

from discreet.accounting import conversions
from discreet.accounting.budget import Budget, Measure, Relation
from discreet.accounting.profiles import root_up
from discreet.errors import PrivacyError
from discreet.validate import choice, integer, number, positive


@dataclass(frozen=True)
class Loss:
    """Privacy loss of one release: a measure with its exact total (ε, ρ or μ²), and a δ.

    ``Loss(**loss.to_dict())`` is the same again.
    """

    measure: Measure
    total: Fraction
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        choice("measure", self.measure, ("pure", "approximate", "zcdp", "gdp"))
        object.__setattr__(self, "total", Fraction(self.total))
        object.__setattr__(self, "delta", Fraction(self.delta))
        if not 0 < self.total <= 10**50:
            raise ValueError(f"a loss must be positive and finite; got {float(self.total)!r}.")
        if not 0 <= self.delta < 1 or (self.delta > 0 and self.measure != "approximate"):
            raise ValueError(f"a loss in {self.measure!r} cannot have δ = {float(self.delta)!r}.")

    @classmethod
    def of(cls, budget: Budget, measure: Measure) -> Self:
        """Return the loss of a release that spends a whole budget in a measure."""
        delta = Fraction(budget.delta) if measure == "approximate" else Fraction(0)
        return cls(measure, budget.total(measure), delta)

    def forms(self, budget: Budget, group: int) -> tuple[Loss, ...]:
        """Return the ways to enter a release that keeps ``budget``, for ``group`` rows.

        Besides its own measure that is (ε, δ), which adds up with others known by (ε, δ) only.
        """
        own = (self.grouped(group),)
        if group > 1 or budget.pure or self.measure not in ("gdp", "zcdp"):
            return own
        implied = self.total <= budget.total(self.measure)
        return (*own, Loss.of(budget, "approximate")) if implied else own

    def grouped(self, size: int) -> Loss:
        """Return the loss for ``size`` differing rows where this one is for one (group privacy).

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
        return Loss(self.measure, self.total * factor, delta)

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
        """Return the loss as texts of exact numbers."""
        return {name: str(value) for name, value in asdict(self).items()}


@dataclass(frozen=True)
class Totals:
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

    def plus(self, loss: Loss, sign: int = 1) -> Totals:
        """Return the totals with one more entry; with ``sign=-1`` without it."""
        added = {loss.measure: loss.total, "delta": loss.delta}
        if loss.measure == "pure":
            added["pure_squared_mu"] = loss.squared_mu or Fraction(0)
            added["pure_rho"] = loss.rho
        elif loss.measure == "approximate":
            added["approximate_rho"] = loss.rho
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
    whole = min(float(_down(delta)), math.nextafter(1.0, 0.0))
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


MIXED_SHARES = (Fraction(1, 8), Fraction(1, 4), Fraction(1, 2))
"""Shares of the limit's ε for entries that are added up in a mixed filter, one filter each. With a
limit of ε = 3 and a fit of 1, pure releases of 0.3, 0.5 and 1 leave fits of 2.08, 1.70 and 0.84;
one filter with a share of 1/2 and all of their δ would leave 0.93 in each case."""


@dataclass(frozen=True)
class Mixed:
    """A filter for pure and (ε, δ) entries that are added up, beside entries in Gaussian DP.

    The sum of ε is at most ``epsilon``, and that of μ² at most ``squared_mu``, whose Gaussian DP
    implies the rest of the limit's ε at ``delta``.
    """

    epsilon: Fraction
    delta: Fraction
    squared_mu: Fraction

    def holds(self, totals: Totals) -> bool:
        """Return True if the filter admits all entries of these totals, their δ apart."""
        added = totals.pure + totals.approximate
        return not totals.zcdp and added <= self.epsilon and totals.gdp <= self.squared_mu


@dataclass(frozen=True)
class Limits:
    """A limit in (ε, δ) as the totals of its filters; fixed when a data set is created.

    ``gaussian_delta`` and ``squared_mu`` are the part of δ of the Gaussian DP filter and its total
    of μ², 0 if it has none; ``zcdp_delta`` and ``rho`` those of the zCDP filter; ``mixed`` are the
    mixed filters; ``delta`` is the part for the δ of entries known by (ε, δ) only.
    ``whole_squared_mu`` and ``whole_rho`` are at all of δ, for a first entry that takes the whole
    limit.

    Privacy
    -------
    ``gaussian_delta + zcdp_delta + delta`` and the δ of the mixed filters are together at most δ.
    Entries that `admits` allows, each chosen in view of the earlier ones, are (ε, δ)-DP together
    (docs/proofs/ledger.md).
    """

    budget: Budget
    gaussian_delta: Fraction
    squared_mu: Fraction
    zcdp_delta: Fraction
    rho: Fraction
    delta: Fraction
    whole_squared_mu: Fraction
    whole_rho: Fraction
    mixed: tuple[Mixed, ...]

    @classmethod
    def of(cls, budget: Budget, gaussian_share: float) -> Self:
        """Divide δ: a share s for Gaussian DP, s of the rest for the mixed filters.

        What remains, (1 − s)² of δ, is for ρ and for the δ of entries, in halves.
        """
        share = Fraction(number("gaussian_share", gaussian_share, least=0.0, most=1.0))
        whole = Fraction(budget.delta)
        of_gaussian = _down(whole * share)
        of_mixed = _down(whole * share * (1 - share) / len(MIXED_SHARES))
        half = (whole - of_gaussian - len(MIXED_SHARES) * of_mixed) / 2
        if share == 1:
            half = Fraction(0)
        of_zcdp = _down(half)

        def total(measure: Measure, delta: Fraction, spent: Fraction = Fraction(0)) -> Fraction:
            if delta == 0:
                return Fraction(0)
            rest = _down(Fraction(budget.epsilon) - spent)
            return replace(budget, epsilon=float(rest), delta=float(delta)).total(measure)

        added = [part * Fraction(budget.epsilon) for part in MIXED_SHARES if of_mixed]
        return cls(
            budget=budget,
            gaussian_delta=of_gaussian,
            squared_mu=total("gdp", of_gaussian),
            zcdp_delta=of_zcdp,
            rho=total("zcdp", of_zcdp),
            delta=half,
            whole_squared_mu=total("gdp", whole),
            whole_rho=total("zcdp", whole),
            mixed=tuple(Mixed(sum_, of_mixed, total("gdp", of_mixed, sum_)) for sum_ in added),
        )

    @property
    def parts_of_delta(self) -> tuple[Fraction, ...]:
        """The parts that δ is divided into."""
        mixed = (each.delta for each in self.mixed)
        return (self.gaussian_delta, self.zcdp_delta, self.delta, *mixed)

    def admits(self, before: Totals, loss: Loss) -> bool:
        """Return True if an entry may follow those before."""
        return self.holds(before.plus(loss)) or (before.entries == 0 and self._whole(loss))

    def admitted(self, before: Iterable[Totals], forms: Iterable[Loss]) -> Loss | None:
        """Return the first way to count an entry that may follow all of these totals, or None."""
        every = tuple(before)
        return next((f for f in forms if all(self.admits(totals, f) for totals in every)), None)

    def _whole(self, loss: Loss) -> bool:
        """Return True if one release alone keeps the limit."""
        if loss.measure == "approximate":
            return loss.total <= self.budget.epsilon and loss.delta <= self.budget.delta
        most = {"gdp": self.whole_squared_mu, "zcdp": self.whole_rho}
        return loss.delta == 0 and loss.total <= most.get(loss.measure, self.budget.epsilon)

    def holds(self, totals: Totals) -> bool:
        """Return True if one of the filters admits all entries of these totals."""
        if totals.delta > self.delta:
            return False
        added = totals.pure + totals.approximate
        squared_mu = totals.pure_squared_mu + totals.gdp
        summed = not (totals.gdp or totals.zcdp) and added <= Fraction(self.budget.epsilon)
        gaussian = not (totals.approximate or totals.zcdp) and squared_mu <= self.squared_mu
        mixed = any(each.holds(totals) for each in self.mixed)
        return summed or gaussian or mixed or totals.rho <= self.rho

    def spent(self, totals: Totals) -> float:
        """Return the ε of these totals at the limit's δ; at most its ε while the limit is kept."""
        least = totals.at(self.budget.delta)
        return min(least, self.budget.epsilon) if self.holds(totals) else least

    def to_dict(self) -> dict[str, Any]:
        """Return the limit as texts of exact numbers."""
        budget = self.budget
        own = {name: str(value) for name, value in vars(self).items()}
        del own["budget"]
        return own | {
            "mixed": [{name: str(value) for name, value in vars(m).items()} for m in self.mixed],
            "epsilon": repr(budget.epsilon),
            "budget_delta": repr(budget.delta),
            "relation": str(budget.relation),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        budget = Budget(float(data["epsilon"]), float(data["budget_delta"]), data["relation"])
        own = {field.name: Fraction(data[field.name]) for field in fields(cls)[1:-1]}
        mixed = [
            Mixed(*(Fraction(each[field.name]) for field in fields(Mixed)))
            for each in data["mixed"]
        ]
        return cls(budget, **own, mixed=tuple(mixed))


def _down(exact: Fraction) -> Fraction:
    nearest = float(exact)
    return Fraction(nearest if Fraction(nearest) <= exact else math.nextafter(nearest, 0.0))


def largest(fits: Callable[[Budget], bool], budget: Budget) -> float:
    """Find the largest ε, rounded down to four digits, of a budget that fits, or 0.

    Its δ and relation are those of ``budget``.
    """

    def at(epsilon: float) -> bool:
        return epsilon > 0 and fits(replace(budget, epsilon=epsilon))

    low, high = 0.0, budget.epsilon
    while at(high) and high < 1e6:
        low, high = high, 2 * high
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if at(middle) else (low, middle)
    if low <= 1e-9:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(low)) - 3)
    rounded = float(f"{math.floor(low / unit * (1 + 1e-12)) * unit:.4g}")
    return rounded if at(rounded) else float(f"{rounded - unit:.4g}")


@dataclass(frozen=True)
class Settings:
    """Settings that a data set was created with; they never change.

    ``unit`` is what neighbouring data sets differ in under ``relation``. ``rows_per_unit`` bounds
    the rows of a unit, if the creator stated a bound. In a ``divided`` data set each unit lies in
    one block, as the creator stated.
    """

    limits: Limits | None
    relation: Relation
    unit: str
    rows_per_unit: int | None
    divided: bool

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for the event that creates the data set."""
        limit = None if self.limits is None else self.limits.to_dict()
        own = {name: value for name, value in vars(self).items() if name != "limits"}
        return own | {"limit": limit, "relation": str(self.relation)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Settings:
        """Read what `to_dict` wrote."""
        limits = None if data["limit"] is None else Limits.from_dict(data["limit"])
        own = (data[name] for name in ("unit", "rows_per_unit", "divided"))
        return cls(limits, Relation(data["relation"]), *own)

    def group(self, relation: Relation, unit: str) -> int:
        """Return the number of steps of an entry's relation in one of the data set's.

        Privacy
        -------
        A fit with groups protects what its ids name, by the caller's statement the data set's unit.
        One unit of at most k rows, added or removed, is k rows added or removed; one unit replaced
        is one removed and one added. A row-level promise for replaced rows says nothing about
        another number of rows, and none for added rows: both are refused.
        """
        steps = 1
        if unit == "person" and self.unit != "row":
            unit = self.unit  # the groups of a fit are the data set's units
        if unit != self.unit:
            if unit != "row" or self.rows_per_unit is None:
                raise PrivacyError(
                    f"The limit of this data set is for one {self.unit}, and this release protects "
                    f"one {unit}. If every {self.unit} has at most k rows, create the data set "
                    "with rows_per_unit=k: then row-level releases count for k rows."
                )
            steps = self.rows_per_unit
        if relation is not self.relation or unit != self.unit:
            if relation is not Relation.ADD_REMOVE:
                raise PrivacyError(
                    f"The limit of this data set is under {str(self.relation)!r} for one "
                    f"{self.unit}; a release under {str(relation)!r} for one {unit} does not "
                    "bound that. Fit with relation='add_remove'."
                )
            steps *= self.relation.rows_changed
        return steps


def loss_of(
    *,
    gaussian: float | None = None,
    laplace: float | None = None,
    sensitivity: float = 1.0,
    rho: float | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    event: Any = None,
    times: int = 1,
) -> Loss:
    """Return the loss of ``times`` releases of another tool, by exactly one description.

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
        return Loss("gdp", times * (change / Fraction(positive("gaussian", gaussian))) ** 2)
    if laplace is not None:
        return Loss("pure", times * change / Fraction(positive("laplace", laplace)))
    if rho is not None:
        return Loss("zcdp", times * Fraction(positive("rho", rho)))
    if epsilon is not None:
        total = times * Fraction(positive("epsilon", epsilon))
        return Loss("approximate" if delta else "pure", total, times * Fraction(delta))
    return _of_event(event, times, delta)


def _of_event(event: Any, times: int, delta: float) -> Loss:
    """Return the loss of an event: by its μ² or ρ if all parts have one, else (ε, δ).

    The (ε, δ) are for one unit added or removed, the relation that dp-accounting evaluates.
    """
    parts = _flat(event, times)
    if parts is not None and all(mu is not None for mu, _ in parts):
        return Loss("gdp", sum((mu for mu, _ in parts if mu is not None), Fraction(0)))
    if parts is not None:
        return Loss("zcdp", sum((rho for _, rho in parts), Fraction(0)))
    if delta <= 0:
        raise ValueError(
            "this event is known by (ε, δ) only: give the delta at which to evaluate it, for "
            "example 1e-9."
        )
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    if not accountant.supports(event):
        raise ValueError(
            "dp-accounting cannot evaluate this event by its privacy loss distribution. Enter what "
            "is known of it: epsilon= and delta=, or rho=."
        )
    found = accountant.compose(event, times).get_epsilon(delta)
    if not math.isfinite(found) or found <= 0:
        raise ValueError(f"dp-accounting gives ε = {found} for this event at δ = {delta:g}.")
    return Loss("approximate", Fraction(found), Fraction(delta))


def _flat(event: Any, times: int) -> list[tuple[Fraction | None, Fraction]] | None:
    """Return (μ², ρ) of each part of an event, or None if a part has neither."""
    kind = type(event).__name__
    if kind == "GaussianDpEvent":
        squared = times / Fraction(positive("noise_multiplier", event.noise_multiplier)) ** 2
        return [(squared, squared / 2)]
    if kind == "LaplaceDpEvent":
        pure = Loss("pure", 1 / Fraction(positive("noise_multiplier", event.noise_multiplier)))
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
