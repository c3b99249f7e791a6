"""The limit of a data set, the filters that keep it, and the settings of a data set.

A limit in (ε, δ) is kept by several filters at once: sums of ε and δ, Gaussian DP (the sum of μ²),
zCDP (the sum of ρ, with the δ of each entry added up apart), and mixtures of the first two. An
entry is admitted if *one* filter admits everything so far and the entry. Which one it is may depend
on results, which costs a part of δ for each way of counting. The very first entry, which cannot
depend on results, may also take the whole limit. Proof: docs/proofs/ledger.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, Self

from discreet.accounting.budget import Budget, Measure, Relation
from discreet.errors import PrivacyError
from discreet.ledger.costs import CostTotals, PrivacyCost, round_down
from discreet.validate import number

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

    def holds(self, totals: CostTotals) -> bool:
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
        of_gaussian = round_down(whole * share)
        of_mixed = round_down(whole * share * (1 - share) / len(MIXED_SHARES))
        half = (whole - of_gaussian - len(MIXED_SHARES) * of_mixed) / 2
        if share == 1:
            half = Fraction(0)
        of_zcdp = round_down(half)

        def total(measure: Measure, delta: Fraction, spent: Fraction = Fraction(0)) -> Fraction:
            if delta == 0:
                return Fraction(0)
            rest = round_down(Fraction(budget.epsilon) - spent)
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

    def admits(self, before: CostTotals, cost: PrivacyCost) -> bool:
        """Return True if an entry may follow those before."""
        return self.holds(before.plus(cost)) or (before.entries == 0 and self._whole(cost))

    def admitted(
        self, before: Iterable[CostTotals], forms: Iterable[PrivacyCost]
    ) -> PrivacyCost | None:
        """Return the first way to count an entry that may follow all of these totals, or None."""
        every = tuple(before)
        return next((f for f in forms if all(self.admits(totals, f) for totals in every)), None)

    def _whole(self, cost: PrivacyCost) -> bool:
        """Return True if one release alone keeps the limit."""
        if cost.measure == "approximate":
            return cost.total <= self.budget.epsilon and cost.delta <= self.budget.delta
        most = {"gdp": self.whole_squared_mu, "zcdp": self.whole_rho}
        return cost.delta == 0 and cost.total <= most.get(cost.measure, self.budget.epsilon)

    def holds(self, totals: CostTotals) -> bool:
        """Return True if one of the filters admits all entries of these totals."""
        if totals.delta > self.delta:
            return False
        added = totals.pure + totals.approximate
        squared_mu = totals.pure_squared_mu + totals.gdp
        summed = not (totals.gdp or totals.zcdp) and added <= Fraction(self.budget.epsilon)
        gaussian = not (totals.approximate or totals.zcdp) and squared_mu <= self.squared_mu
        mixed = any(each.holds(totals) for each in self.mixed)
        return summed or gaussian or mixed or totals.rho <= self.rho

    def spent(self, totals: CostTotals) -> float:
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


@dataclass(frozen=True)
class DatasetSettings:
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
    def from_dict(cls, data: dict[str, Any]) -> DatasetSettings:
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
