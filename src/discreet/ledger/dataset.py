"""One data set of a ledger: charges before rows are read.

Privacy: `Dataset.charge` reserves an entry in one durable transaction that checks the limit. Only
then does the caller's account open a filter, so nothing is read that is not written down. Whatever
happens to the process afterwards, the entry counts, unless the account itself gives it back, which
it does only if no filter was ever charged. Proof: docs/proofs/ledger.md.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from discreet.accounting.budget import Budget, Measure, Relation
from discreet.errors import BudgetExceeded, LedgerError, PrivacyError
from discreet.ledger import display
from discreet.ledger.balance import Balance
from discreet.ledger.book import checked_text
from discreet.ledger.costs import CostTotals, PrivacyCost, cost_of
from discreet.ledger.state import settings_of, totals_of
from discreet.log import note

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
class Dataset(Balance):
    """A data set of a ledger, to be passed to estimators as ``ledger=``.

    Made by `Ledger.create` and `Ledger.open`. Copies and pickles are handles to the same data set;
    those of a ledger in a file or on a server count in every process.
    """

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
            totals = {b: totals_of(transaction, state, self.name, b) for b in self.blocks}
            limits = settings.limits if kind == "reserve" else None
            charged = forms[0] if limits is None else limits.admitted(totals.values(), forms)
            if charged is not None:
                after = {block: found.plus(charged) for block, found in totals.items()}
                if limits is not None and charged.delta > limits.delta:
                    self.warn_of_last(charged, limits)
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
        raise BudgetExceeded(self.refusal(cost, budget, group, totals))

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
                    block: totals_of(transaction, state, self.name, block)
                    .plus(charged, -1)
                    .to_dict()
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
