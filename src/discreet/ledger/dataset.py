"""One data set of a ledger: its limit, what was spent, and charges before rows are read.

Privacy: `Dataset.charge` reserves an entry in one durable transaction that checks the limit. Only
then does the caller's account open a filter, so nothing is read that is not written down. Whatever
happens to the process afterwards, the entry counts, unless the account itself gives it back, which
it does only if no filter was ever charged. Proof: docs/proofs/ledger.md.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from discreet.accounting.budget import Budget, Measure, Relation
from discreet.errors import BudgetExceeded, LedgerError, PrivacyError
from discreet.ledger import display
from discreet.ledger.book import Book, checked_text
from discreet.ledger.costs import CostTotals, PrivacyCost, cost_of
from discreet.ledger.limits import DatasetSettings, Limits, largest
from discreet.ledger.store import State, Transaction
from discreet.log import note
from discreet.validate import positive

if TYPE_CHECKING:
    import pandas as pd

_SHOWN_DELTA = 1e-6  # δ at which a cost is shown if the limit has none


@dataclass(frozen=True)
class Reservation:
    """An entry that was reserved before a fit; implements `discreet.core.account.Charge`."""

    dataset: Dataset
    entry: int

    def confirm(self) -> None:
        """Note that the release took place; a failure is a warning, as the entry counts anyway."""
        self._settle("confirm", "confirmed")

    def give_back(self) -> None:
        """Return the budget of an entry whose rows were never read; a failure is a warning."""
        self._settle("return", "returned")

    def _settle(self, kind: str, done: str) -> None:
        try:
            self.dataset._settle(kind, self.entry)
        except LedgerError as error:
            text = f"Entry {self.entry} is counted but could not be {done}: {error}"
            warnings.warn(text, UserWarning, stacklevel=3)


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A data set of a ledger, to be passed to estimators as ``ledger=``.

    Made by `Ledger.create` and `Ledger.open`. Copies and pickles are handles to the same data set;
    those of a ledger in a file or on a server count in every process.
    """

    book: Book
    name: str
    settings: DatasetSettings
    blocks: tuple[str, ...] = ("",)
    details: Mapping[str, Any] = field(default_factory=dict)

    # ---- handles

    def in_blocks(self, *blocks: str) -> Dataset:
        """Return a handle whose releases use the rows of these blocks only."""
        if not self.settings.divided:
            raise ValueError(f"{self.name!r} is not divided into blocks.")
        wanted = tuple(dict.fromkeys(checked_text("block", block) for block in blocks))
        with self.book.begin() as transaction:
            missing = [b for b in wanted if (self.name, b) not in transaction.state(self.name)]
        if missing or not wanted:
            raise ValueError(
                f"{self.name!r} has no block {', '.join(map(repr, missing))}. Blocks are added "
                "with add_block, since each brings a new allowance."
            )
        return replace(self, blocks=wanted)

    def noting(self, **details: Any) -> Dataset:
        """Return a handle whose entries have these details, such as ``purpose="weekly model"``."""
        plain = {name: display.plain(value) for name, value in details.items()}
        return replace(self, details={**self.details, **plain})

    def add_block(self, block: str) -> Dataset:
        """Add a block, which has the whole limit for itself; returns a handle to it."""
        block = checked_text("block", block)
        if not self.settings.divided:
            raise ValueError(
                f"{self.name!r} is not divided. Create it with unit_in_one_block=True if every "
                f"{self.settings.unit} lies in one block."
            )
        with self.book.begin(write=True) as transaction:
            state = transaction.state(self.name)
            if (self.name, block) in state:
                raise ValueError(f"{self.name!r} has a block {block!r}; it keeps its totals.")
            content = {"block": block, "totals": {block: CostTotals().to_dict()}}
            event = self.book.append(transaction, "block", self.name, content)
            created = state[self.name, ""][0]
            transaction.point(self.name, block, created, event.seq)
        return replace(self, blocks=(block,))

    # ---- what was spent

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
            return {block: self._totals(transaction, state, block) for block in wanted}

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

    # ---- charges

    def charge(
        self, measure: Measure, total: Fraction, delta: Fraction, budget: Budget, unit: str = "row"
    ) -> Reservation:
        """Reserve an entry durably, or raise and change nothing.

        Parameters
        ----------
        measure, total, delta
            What all of the release may cost.
        budget : Budget
            The budget that the caller asked for.
        unit : str
            The unit that the release protects.
        """
        entry = self._enter("reserve", PrivacyCost(measure, total, delta), budget, unit)
        note("Ledger: entry %s of the data set %r is reserved.", entry, self.name)
        return Reservation(self, entry)

    def add(
        self,
        cost: PrivacyCost | None = None,
        *,
        planned: bool = False,
        relation: Relation | str | None = None,
        unit: str | None = None,
        **mechanism: Any,
    ) -> int:
        """Enter a release that was made elsewhere; returns the number of the entry.

        Parameters
        ----------
        cost : PrivacyCost, optional
            Its cost. Else give a mechanism: ``gaussian=sigma, sensitivity=s``, ``laplace=scale,
            sensitivity=s``, ``rho=…``, ``epsilon=…, delta=…``, or ``event=`` of dp-accounting
            (with ``delta=`` for events known by (ε, δ) only); and ``times``.
        planned : bool
            True if it was not made yet: it is refused if it exceeds the limit. What was made is
            entered whatever the limit says.
        relation, unit
            Of the release; by default those of the data set.

        Privacy
        -------
        A mechanism's noise is relative to the largest change by one ``unit`` under ``relation``.
        An event that is known by (ε, δ) only, such as a sampled one, is evaluated by dp-accounting
        for one unit more or less. That bounds nothing under replace-one, where it is refused; with
        ``relation="add_remove"`` it counts for two steps (docs/proofs/ledger.md, section 3).
        """
        unit = self.unit if unit is None else checked_text("unit", unit)
        cost = cost_of(**mechanism) if cost is None else cost
        relation = self.settings.relation if relation is None else Relation(relation)
        evaluated = mechanism.get("event") is not None and cost.measure == "approximate"
        if evaluated and relation is not Relation.ADD_REMOVE:
            raise PrivacyError(
                "This event is known by (ε, δ) only, which dp-accounting gives for 'add_remove'; "
                f"the release is entered under {str(relation)!r}. Nothing was charged. Pass "
                "relation='add_remove': it then counts twice, for one removed and one added."
            )
        epsilon = float(cost.total)
        delta = float(cost.delta)
        if cost.measure not in ("pure", "approximate"):  # shown at the limit's δ
            delta = (self.limit.delta if self.limit is not None else 0.0) or _SHOWN_DELTA
            epsilon = CostTotals().plus(cost).at(delta)
        kind = "reserve" if planned else "add"
        return self._enter(kind, cost, Budget(epsilon, delta, relation), unit, entered=True)

    def _enter(
        self, kind: str, cost: PrivacyCost, budget: Budget, unit: str, *, entered: bool = False
    ) -> int:
        group = self.settings.group(budget.relation, unit)
        forms = cost.forms(budget, group)
        with self.book.begin(write=True) as transaction:
            state = transaction.state(self.name)
            if (self.name, "") not in state:
                raise LedgerError(f"There is no data set {self.name!r} in {self.book.store.name}.")
            settings = settings_of(transaction, state[self.name, ""][0])
            if settings.divided and self.blocks == ("",):
                raise PrivacyError(
                    f"{self.name!r} is divided into blocks: name those that the release uses, as "
                    "in dataset.in_blocks('2026-01')."
                )
            totals = {b: self._totals(transaction, state, b) for b in self.blocks}
            limits = settings.limits if kind == "reserve" else None
            charged = forms[0] if limits is None else limits.admitted(totals.values(), forms)
            if charged is not None:
                after = {block: found.plus(charged) for block, found in totals.items()}
                if limits is not None and charged.delta > limits.delta:
                    self._warn_of_last(charged, limits)
                content = {
                    "blocks": list(self.blocks),
                    "loss": (cost if charged == forms[0] else charged).to_dict(),
                    "charged": charged.to_dict(),
                    "group": group,
                    "relation": str(budget.relation),
                    "unit": unit,
                    "epsilon": repr(budget.epsilon),
                    "delta": repr(budget.delta),
                    "entered": entered,
                    "details": self.details,
                    "totals": {block: found.to_dict() for block, found in after.items()},
                }
                event = self.book.append(transaction, kind, self.name, content)
                for block in self.blocks:
                    transaction.point(self.name, block, state[self.name, block][0], event.seq)
                return event.seq
        raise BudgetExceeded(self._refusal(cost, budget, group, totals))

    def _warn_of_last(self, charged: PrivacyCost, limits: Limits) -> None:
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

    def _refusal(
        self, cost: PrivacyCost, budget: Budget, group: int, totals: Mapping[str, CostTotals]
    ) -> str:
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

    def _settle(self, kind: str, entry: int) -> None:
        with self.book.begin(write=True) as transaction:
            body = transaction.event(entry).body
            if body["kind"] != "reserve" or body["dataset"] != self.name:
                raise LedgerError(f"Event {entry} is no reservation of {self.name!r}.")
            settled = {event.body["kind"] for event in transaction.about(entry)}
            if settled & {"confirm", "return"}:
                raise LedgerError(f"Entry {entry} was settled before.")
            content: dict[str, Any] = {}
            state = transaction.state(self.name)
            if kind == "return":
                charged = PrivacyCost(**body["charged"])
                content["totals"] = {
                    block: self._totals(transaction, state, block).plus(charged, -1).to_dict()
                    for block in body["blocks"]
                }
            event = self.book.append(transaction, kind, self.name, content, entry)
            for block in content.get("totals", ()):
                transaction.point(self.name, block, state[self.name, block][0], event.seq)

    def attach(self, entry: int, sha256: str) -> None:
        """Note the hash of the model file that an entry led to; a failure is a warning."""
        try:
            with self.book.begin(write=True) as transaction:
                if transaction.event(entry).body["kind"] not in ("reserve", "add"):
                    raise LedgerError(f"Event {entry} is not an entry.")
                self.book.append(transaction, "model", self.name, {"model": sha256}, entry)
        except LedgerError as error:
            warnings.warn(f"The file was written, but not noted: {error}", stacklevel=3)

    def _totals(self, transaction: Transaction, state: State, block: str) -> CostTotals:
        """Read the totals of a block from its latest event, which the chain protects."""
        if (self.name, block) not in state:
            raise LedgerError(f"{self.name!r} has no block {block!r}.")
        body = transaction.event(state[self.name, block][1]).body
        if body["dataset"] != self.name or block not in body["totals"]:
            raise LedgerError(
                f"The state of {self.name!r} was altered: run `discreet ledger verify`."
            )
        return CostTotals.from_dict(body["totals"][block])

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

    def __copy__(self) -> Dataset:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Dataset:
        return self  # a copy of a ledger would lose count


def check_dataset(value: object) -> None:
    """Refuse what is neither a data set of a ledger nor None."""
    if value is not None and not isinstance(value, Dataset):
        raise ValueError(
            "ledger must be a data set of a ledger, such as Ledger('visits.sqlite').open('visits')"
            f", or None; got {type(value).__name__}."
        )


def settings_of(transaction: Transaction, created: int) -> DatasetSettings:
    """Read the settings of a data set from the event that created it."""
    return DatasetSettings.from_dict(transaction.event(created).body["settings"])
