"""What the events of a ledger say of a data set: its settings, and the totals of its blocks."""

from __future__ import annotations

from discreet.errors import LedgerError
from discreet.ledger.costs import CostTotals
from discreet.ledger.limits import DatasetSettings
from discreet.ledger.store import State, Transaction


def settings_of(transaction: Transaction, created: int) -> DatasetSettings:
    """Read the settings of a data set from the event that created it."""
    return DatasetSettings.from_dict(transaction.event(created).body["settings"])


def totals_of(transaction: Transaction, state: State, name: str, block: str) -> CostTotals:
    """Read the totals of a block from its latest event, which the chain protects."""
    if (name, block) not in state:
        raise LedgerError(f"{name!r} has no block {block!r}.")
    body = transaction.event(state[name, block][1]).body
    if body["dataset"] != name or block not in body["totals"]:
        raise LedgerError(f"The state of {name!r} was altered: run `discreet ledger verify`.")
    return CostTotals.from_dict(body["totals"][block])
