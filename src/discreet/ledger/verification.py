"""Verification of a ledger: its chain of events, its signatures, and every sum computed anew.

Nothing that a limit promises rests on this module: it detects what others did to a ledger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from discreet.accounting.budget import Relation
from discreet.accounting.conversions import epsilon_from_mu, epsilon_from_rho, round_up
from discreet.accounting.profiles import root_up
from discreet.errors import PrivacyError
from discreet.ledger.costs import CostTotals, PrivacyCost
from discreet.ledger.limits import DatasetSettings, Limits
from discreet.ledger.signatures import is_signed
from discreet.ledger.store import GENESIS, Event, Transaction


@dataclass(frozen=True)
class Verification:
    """Result of a verification.

    Attributes
    ----------
    ok
        True if everything is as it was written.
    events, signed
        Number of events, and of those that have a valid signature.
    first_bad, problem
        Number of the first bad event and what is wrong with it.
    notes
        What a reader should know although nothing is wrong, such as a clock that was set back.
    head
        Hash of the latest event. Kept elsewhere, it proves later that nothing before was changed.
    """

    ok: bool
    events: int
    signed: int
    first_bad: int | None
    problem: str
    notes: tuple[str, ...]
    head: str

    def __str__(self) -> str:
        if not self.ok:
            return f"NOT VERIFIED: event {self.first_bad}: {self.problem}"
        signed = f", {self.signed:,} signed" if self.signed else ""
        lines = [f"Verified: {self.events:,} events{signed}. Latest hash: {self.head}"]
        return "\n".join([*lines, *(f"Note: {note}" for note in self.notes)])


class _Wrong(Exception):
    """The event is not what an honest ledger would hold."""


_UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Errors that follow from the content of an event that no ledger wrote."""


def verify(transaction: Transaction, keys: Sequence[str] = ()) -> Verification:
    """Check all events in order; stop at the first bad one."""
    check = _Check(transaction, tuple(keys))
    count = 0
    signed = 0
    previous = GENESIS
    last = ""
    notes = list[str]()
    for event in transaction.events():
        try:
            if event.seq != count + 1:
                raise _Wrong(f"event {count + 1} is missing; {event.seq} follows {count}.")
            body = check.text(event, previous)
            signed += event.signature is not None
            check.content(body)
        except (*_UNREADABLE, _Wrong, PrivacyError) as error:
            wrong = str(error) if isinstance(error, _Wrong) else f"it cannot be read ({error!r})."
            bad = min(event.seq, count + 1)
            return Verification(False, count, signed, bad, wrong, tuple(notes), previous)
        if body["when"] < last:
            notes.append(f"the clock was set back before event {event.seq}.")
        count = event.seq
        previous = event.hash
        last = body["when"]
    if transaction.state() != check.state:
        wrong = "events at the end are missing, or the table of the latest events was altered."
        return Verification(False, count, signed, count + 1, wrong, tuple(notes), previous)
    return Verification(True, count, signed, None, "", tuple(notes), previous)


class _Check:
    """State implied by the events so far: settings, totals, and entries not yet settled."""

    def __init__(self, transaction: Transaction, keys: tuple[str, ...]) -> None:
        self.columns = transaction.columns()
        self.keys = keys
        self.settings: dict[str, DatasetSettings] = {}
        self.state: dict[tuple[str, str], tuple[int, int]] = {}
        self.totals: dict[tuple[str, str], CostTotals] = {}
        self.entries: dict[int, dict[str, Any] | None] = {}
        self.moved = False

    def text(self, event: Event, previous: str) -> dict[str, Any]:
        """Check text, hash, signature and place in the chain; return the body."""
        try:
            body = event.body
        except PrivacyError:
            raise _Wrong("its text does not match its hash: it was altered.") from None
        if body["previous"] != previous:
            raise _Wrong("it does not follow the event before it: one was removed or altered.")
        if body["seq"] != event.seq:
            raise _Wrong(f"it was written as event {body['seq']}: events were moved.")
        if self.columns[event.seq] != (body["dataset"], body["entry"]):
            raise _Wrong("it is filed under another data set or entry.")
        signer = body.get("signer")
        if (signer is None) != (event.signature is None):
            raise _Wrong("its signature was removed or added.")
        if signer is not None and not is_signed(event.hash, event.signature, signer):
            raise _Wrong("its signature is not valid.")
        if self.keys and signer not in self.keys:
            raise _Wrong("it is not signed by one of the given keys.")
        return body

    def content(self, body: dict[str, Any]) -> None:
        """Check that an honest ledger could hold this event after those before."""
        kind = body["kind"]
        name = body["dataset"]
        if self.moved:
            raise _Wrong("it follows the end of a ledger that was moved.")
        if kind == "create":
            if name in self.settings:
                raise _Wrong(f"{name!r} was created before.")
            settings = DatasetSettings.from_dict(body["settings"])
            if settings.limits is not None:
                _check_limits(settings.limits)
            self.settings[name] = settings
            self._set(body, {"": CostTotals()})
        elif kind == "block":
            block = body["block"]
            if not self.settings[name].divided or (name, block) in self.state:
                raise _Wrong(f"block {block!r} cannot be added.")
            self._set(body, {block: CostTotals()})
        elif kind in ("reserve", "add"):
            self._entry(body)
        elif kind in ("confirm", "return"):
            entry = self.entries.pop(body["entry"], None)
            if entry is None or entry["kind"] != "reserve" or entry["dataset"] != name:
                raise _Wrong(f"it settles {body['entry']}, which is no open reservation.")
            if kind == "return":
                cost = PrivacyCost(**entry["charged"])
                blocks = entry["blocks"]
                self._set(body, {b: self.totals[name, b].plus(cost, sign=-1) for b in blocks})
        elif kind == "moved":
            self.moved = True
        elif kind != "model":
            raise _Wrong(f"an event of kind {kind!r} is not known.")

    def _entry(self, body: dict[str, Any]) -> None:
        name = body["dataset"]
        settings = self.settings[body["dataset"]]
        cost = PrivacyCost(**body["loss"])
        charged = PrivacyCost(**body["charged"])
        steps = settings.group(Relation(body["relation"]), body["unit"])
        if steps != body["group"] or cost.grouped(steps) != charged:
            raise _Wrong("what it charges does not follow from its cost, relation and unit.")
        if settings.divided == ("" in body["blocks"]) or not body["blocks"]:
            raise _Wrong("it does not name the blocks that it used.")
        before = {block: self.totals[name, block] for block in body["blocks"]}
        limits = settings.limits if body["kind"] == "reserve" else None
        if limits is not None and not all(limits.admits(t, charged) for t in before.values()):
            raise _Wrong("it exceeds the limit.")
        self._set(body, {block: totals.plus(charged) for block, totals in before.items()})
        self.entries[body["seq"]] = body

    def _set(self, body: dict[str, Any], after: dict[str, CostTotals]) -> None:
        """Compare the stated totals with the computed ones, and keep them."""
        stated = {block: CostTotals.from_dict(found) for block, found in body["totals"].items()}
        if stated != after:
            raise _Wrong("its totals are not the sums of the entries.")
        for block, totals in after.items():
            place = body["dataset"], block
            whole = self.state.get((body["dataset"], ""), (body["seq"], 0))
            self.state[place] = (whole[0], body["seq"])
            self.totals[place] = totals


def _check_limits(limits: Limits) -> None:
    whole = Fraction(limits.budget.delta)
    if min(limits.parts_of_delta) < 0 or sum(limits.parts_of_delta) > whole:
        raise _Wrong("the parts of its δ exceed δ.")
    nothing = Fraction(0)
    gaussian = [
        (nothing, limits.squared_mu, limits.gaussian_delta),
        (nothing, limits.whole_squared_mu, whole),
        *((each.epsilon, each.squared_mu, each.delta) for each in limits.mixed),
    ]
    found = [
        float(added) + (epsilon_from_mu(root_up(square), float(delta)) if square else 0.0)
        for added, square, delta in gaussian
    ]
    found += [
        epsilon_from_rho(round_up(rho), float(delta)) if rho else 0.0
        for rho, delta in ((limits.rho, limits.zcdp_delta), (limits.whole_rho, whole))
    ]
    if max(found) > limits.budget.epsilon * (1 + 1e-12):
        raise _Wrong("its limits allow more than the stated ε.")
