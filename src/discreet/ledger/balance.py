"""What was spent on a data set of a ledger and what still fits, in numbers and words.

Nothing that a limit promises rests on this module: what is admitted is decided, in the transaction
that writes it down, by `discreet.ledger.dataset`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from discreet.accounting.budget import Budget, Measure, Relation
from discreet.ledger import display
from discreet.ledger.book import Book
from discreet.ledger.costs import CostTotals, PrivacyCost
from discreet.ledger.limits import DatasetSettings, Limits
from discreet.ledger.state import totals_of
from discreet.validate import positive

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class Balance:
    """The balance of a data set, or of some blocks of it; base class of `Dataset`."""

    book: Book
    name: str
    settings: DatasetSettings
    blocks: tuple[str, ...] = ("",)
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def limit(self) -> Budget | None:
        """The most that all releases together may spend."""
        return None if self.settings.limits is None else self.settings.limits.budget

    @property
    def unit(self) -> str:
        """The privacy unit."""
        return self.settings.unit

    @property
    def _unit_of_fits(self) -> str:
        """The unit of the fits that can be charged: rows, if the rows of a unit are bounded."""
        return self.unit if self.settings.rows_per_unit is None else "row"

    def _limits(self) -> Limits:
        if self.settings.limits is None:
            raise ValueError(
                f"{self.name!r} has no limit, so there is no δ to state it at. Use "
                "dataset.epsilon(delta)."
            )
        return self.settings.limits

    def totals_by_block(self) -> dict[str, CostTotals]:
        """Return the exact totals, by block (one without a name if it is not divided)."""
        with self.book.begin() as transaction:
            state = transaction.state(self.name)
            wanted = self.blocks
            if self.settings.divided and wanted == ("",):
                wanted = tuple(block for _, block in state if block)
            return {block: totals_of(transaction, state, self.name, block) for block in wanted}

    @property
    def entries(self) -> int:
        """Number of releases that count."""
        found = self.totals_by_block()
        if len(found) > 1:  # one release may use several blocks
            return sum(record["status"] != "returned" for record in self.records())
        return sum(totals.entries for totals in found.values())

    def _most(self, cost: Callable[[CostTotals], Any]) -> Any:
        return max(map(cost, self.totals_by_block().values()), default=0)

    @property
    def rho(self) -> float:
        """Total zCDP cost of all releases; the largest of all blocks."""
        return float(self._most(lambda totals: totals.rho))

    @property
    def spent(self) -> float:
        """ε of all releases at the limit's δ.

        A description, for comparison: the limit is promised, and `remaining` still fits.
        """
        return float(self._most(self._limits().spent))

    @property
    def remaining(self) -> float:
        """Largest ε of one more fit at the limit's δ that composes in Gaussian DP, or 0."""
        return self._largest(self._next_fit())

    def _next_fit(self) -> Budget:
        """Return the limit under the relation of fits: of rows of a unit, add/remove."""
        limit = self._limits().budget
        same = self._unit_of_fits == self.unit
        return limit if same else replace(limit, relation=Relation.ADD_REMOVE)

    def epsilon(self, delta: float) -> float:
        """Return the ε of all releases at a δ of choice; the largest of all blocks."""
        delta = positive("delta", delta, most=1.0)
        return float(self._most(lambda totals: totals.at(delta)))

    def affords(self, budget: Budget, measure: Measure | None = None) -> bool:
        """Return True if a release of this budget would be admitted now.

        ``measure`` is what its solver composes in: by default Gaussian DP, or "pure" if δ is 0.
        """
        return self.fits_left(budget, measure, most=1) == 1

    def fits_left(self, budget: Budget, measure: Measure | None = None, *, most: int = 9999) -> int:
        """Return how many releases of this budget are left, at most ``most``."""
        limits = self._limits()
        forms = self._forms(budget, measure)
        every = list(self.totals_by_block().values())
        count = 0
        while every and count < most and (cost := limits.admitted(every, forms)) is not None:
            every = [totals.plus(cost) for totals in every]
            count += 1
        return count

    def _forms(
        self, budget: Budget, measure: Measure | None = None, group: int | None = None
    ) -> tuple[PrivacyCost, ...]:
        """Return the ways to enter a release, by default a fit that composes in Gaussian DP."""
        group = group or self.settings.group(budget.relation, self._unit_of_fits)
        return PrivacyCost.of(budget, measure or ("pure" if budget.pure else "gdp")).forms(
            budget, group
        )

    def preview(self, budget: Budget, measure: Measure | None = None) -> dict[str, Any]:
        """Return what would be spent and left after a release of this budget, and how many fit."""
        limits = self._limits()
        limit = self._limits().budget
        count = self.fits_left(budget, measure)
        if not count:
            return {"fits_left": 0, "spent": None, "remaining": None}
        before = tuple(self.totals_by_block().values())
        cost = limits.admitted(before, self._forms(budget, measure))
        after = before if cost is None else tuple(totals.plus(cost) for totals in before)
        spent = max(limits.spent(totals) for totals in after)
        left = self._largest(replace(limit, relation=budget.relation), totals=after)
        return {"fits_left": count, "spent": display.finite(spent), "remaining": left}

    def _largest(
        self,
        budget: Budget,
        measure: Measure | None = None,
        group: int | None = None,
        totals: Sequence[CostTotals] | None = None,
    ) -> float:
        """Find the largest ε of a release that would be admitted now, or after these totals."""
        every = tuple(self.totals_by_block().values()) if totals is None else totals
        limits = self._limits()
        return largest(
            lambda b: limits.admitted(every, self._forms(b, measure, group)) is not None, budget
        )

    def _explained(self) -> dict[str, Any]:
        """Return why no fit at the limit's δ is left, and what fits at a smaller δ, if any."""
        limits = self._limits()
        taken = self._most(lambda totals: totals.delta)
        known: dict[str, Any] = {"delta_taken": float(taken), "delta_share": float(limits.delta)}
        if taken < limits.delta:
            half = float(f"{float(limits.delta - taken) / 2:.0e}")  # leaves some for another
            at = replace(self._next_fit(), delta=half)
            if (most := self._largest(at)) > 0:
                known["at_smaller_delta"] = {"epsilon": most, "delta": half}
        return known

    # ---- words about charges

    def warn_of_last(self, charged: PrivacyCost, limits: Limits) -> None:
        """Warn, before it is written, that a first entry takes δ that nothing can follow."""
        if charged.total >= limits.budget.epsilon:
            return  # the whole limit, in ε as well
        warnings.warn(
            f"This release takes δ = {float(charged.delta):.3g}. Of the limit of {self.name!r}, "
            f"δ = {float(limits.delta):.3g} is set aside for releases known by (ε, δ) only: it "
            "is admitted as the first one, and nothing can follow. With a delta of at most half "
            "of that, the rest of ε stays usable.",
            stacklevel=2,
        )

    def refusal(
        self, cost: PrivacyCost, budget: Budget, group: int, totals: Mapping[str, CostTotals]
    ) -> str:
        """Return why a release is refused, and what would still be admitted."""
        limits = self._limits()
        spent = max(limits.spent(found) for found in totals.values())
        limit = limits.budget
        asked = f"ε = {budget.epsilon:.6g}, δ = {budget.delta:.3g}"
        text = (
            f"This release asks for {asked}. The limit of {self.name!r} is ε = {limit.epsilon:.6g},"
            f" δ = {limit.delta:.3g}, of which ε = {spent:.4g} is spent."
        )
        least = max(found.delta for found in totals.values())
        if cost.delta and least + cost.grouped(group).delta > limits.delta:
            left = float(max(limits.delta - least, Fraction(0)))
            text += (
                f" Its solver has a δ of its own, for which {left:.3g} is left: use a smaller "
                "delta, or a solver that composes in Gaussian DP or zCDP."
            )
        most = self._largest(budget, cost.measure, group)
        if most > 0:
            text += f" The largest ε that still fits, at the same δ, is {most:g}."
        else:
            text += " Nothing of that kind fits any more."
        return f"{text} No private answer was given and nothing was spent."

    # ---- history and display

    def records(self) -> list[dict[str, Any]]:
        """Return all entries as plain data, oldest first."""
        with self.book.begin() as transaction:
            found = display.records(event.body for event in transaction.events(self.name))
        wanted = set(self.blocks) - {""}
        return [r for r in found if not wanted or wanted & set(r["blocks"])]

    def history(self, *, full: bool = False) -> pd.DataFrame:
        """Return all entries as a DataFrame (needs pandas), oldest first.

        By default it has the columns that fit on a screen, with times to the minute (UTC);
        ``full=True`` gives all that `records` has.
        """
        import pandas as pd

        found = pd.DataFrame(self.records(), columns=list(display.COLUMNS)).set_index("entry")
        if full:
            return found
        shown = [*display.SHORT, *(("blocks",) if self.settings.divided else ())]
        return found[shown].assign(when=found["when"].str[:16].str.replace("T", " "))

    def summary(self) -> dict[str, Any]:
        """Return limit, spending and what is left as plain data."""
        limit = self.limit
        settings = self.settings
        known: dict[str, Any] = {
            "dataset": self.name,
            "unit": self.unit,
            "rows_per_unit": settings.rows_per_unit,
            "relation": str(settings.relation),
            "limit": None if limit is None else {"epsilon": limit.epsilon, "delta": limit.delta},
            "entries": self.entries,
        }
        if limit is not None:
            known |= {"spent": display.finite(self.spent), "remaining": self.remaining}
            known |= {} if known["remaining"] else self._explained()
        if settings.divided:
            known["blocks"] = {
                block: {"entries": t.entries}
                | ({} if limit is None else {"spent": display.finite(self._limits().spent(t))})
                for block, t in self.totals_by_block().items()
            }
        return known

    def __repr__(self) -> str:
        return display.text(self.summary())

    def _repr_html_(self) -> str:
        return display.html(self.summary())


def largest(fits: Callable[[Budget], bool], budget: Budget) -> float:
    """Find the largest ε, rounded down to four digits, of a budget that fits, or 0.

    Its δ and relation are those of ``budget``.
    """

    def at(epsilon: float) -> bool:
        return epsilon > 0 and fits(replace(budget, epsilon=epsilon))

    low = 0.0
    high = budget.epsilon
    while at(high) and high < 1e6:
        low = high
        high = 2 * high
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if at(middle) else (low, middle)
    if low <= 1e-9:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(low)) - 3)
    rounded = float(f"{math.floor(low / unit * (1 + 1e-12)) * unit:.4g}")
    return rounded if at(rounded) else float(f"{rounded - unit:.4g}")
