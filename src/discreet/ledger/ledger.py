"""`Ledger`: one budget per data set, across people, processes, weeks and crashes.

Its verification checks the chain of events and the signatures, and computes every sum anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from discreet.accounting.budget import Budget, Relation
from discreet.accounting.conversions import epsilon_from_mu, epsilon_from_rho, round_up
from discreet.accounting.profiles import root_up
from discreet.errors import LedgerError, PrivacyError
from discreet.ledger.book import Book, checked_text
from discreet.ledger.dataset import Dataset, settings_of
from discreet.ledger.limits import Limits, Settings
from discreet.ledger.losses import Loss, Totals
from discreet.ledger.store import GENESIS, Event, Transaction, signed_by
from discreet.validate import integer


class Ledger:
    """A ledger of privacy budgets, one per data set.

    ::

        ledger = Ledger("visits.sqlite")
        ledger.create("visits", limit=Budget(3.0, 1e-6, "add_remove"))       # once
        visits = ledger.open("visits")                                        # in later sessions
        LogisticRegression(epsilon=0.5, ledger=visits).fit(X, y)

    Parameters
    ----------
    location : path or str, optional
        An SQLite file, or the address of a PostgreSQL server (``postgresql://…``). Without one
        the ledger is in memory: it counts the fits of this process, threads included, and refuses
        those of other processes.
    who : str, optional
        Name to write into entries; by default that of the user.
    signing_key : path, optional
        PEM file of an Ed25519 key with which events are signed.

    Privacy
    -------
    All releases charged to a data set, chosen one after the other in view of earlier results, by
    any number of people and processes, killed or not, keep the limit together
    (docs/proofs/ledger.md). The ledger protects from mistakes, not from people who may write the
    file: `verify` finds what was altered, unless everything was written anew.
    """

    def __init__(
        self,
        location: str | os.PathLike[str] | None = None,
        *,
        who: str | None = None,
        signing_key: str | os.PathLike[str] | None = None,
    ) -> None:
        where = None if location is None else os.fspath(location)
        if where is not None and "://" not in where:
            where = os.path.abspath(where)
        key = None if signing_key is None else os.path.abspath(signing_key)
        self._book = Book(where, who, key)
        if where is None:
            self._book.create()

    def create(
        self,
        name: str,
        limit: Budget | None = None,
        *,
        unit: str = "row",
        rows_per_unit: int | None = None,
        relation: Relation | str = Relation.ADD_REMOVE,
        unit_in_one_block: bool = False,
        gaussian_share: float = 0.5,
    ) -> Dataset:
        """Create a data set with its limit, once and for all; makes the file if there is none.

        Parameters
        ----------
        name : str
            Its name.
        limit : Budget, optional
            The most that all releases together may spend. Without one they are only counted.
        unit : str
            The privacy unit of the limit, such as "patient".
        rows_per_unit : int, optional
            Your statement that a unit has at most this many rows; row-level releases then count
            for that many rows.
        relation : Relation or str
            Of a data set without a limit; with one, the limit's.
        unit_in_one_block : bool
            Your statement that the data set is divided into blocks (`Dataset.add_block`) such that
            every unit lies in one. Each block then has the whole limit.
        gaussian_share : float
            Share of δ for releases that all have a μ of Gaussian DP, as the default solver's do.
            The same share of the rest is for such releases beside a few that are pure or (ε, δ).
            1 refuses all others; 0 is best if most are in zCDP or (ε, δ).
        """
        name = checked_text("name", name)
        unit = checked_text("unit", unit)
        if limit is not None and not isinstance(limit, Budget):
            raise ValueError(f"limit must be a Budget or None; got {limit!r}.")
        if rows_per_unit is not None:
            rows_per_unit = integer("rows_per_unit", rows_per_unit, most=1000)
            if unit == "row":
                raise ValueError("rows_per_unit needs a unit, such as unit='patient'.")
        related = Relation(relation) if limit is None else limit.relation
        if unit_in_one_block and related is not Relation.ADD_REMOVE:
            raise ValueError(
                "blocks need relation='add_remove': a unit that is replaced may leave its block."
            )
        limits = None if limit is None else Limits.of(limit, gaussian_share)
        settings = Settings(limits, related, unit, rows_per_unit, bool(unit_in_one_block))
        self._book.create()
        with self._book.begin(write=True) as transaction:
            if transaction.state(name):
                raise LedgerError(
                    f"There is a data set {name!r} in {self._book.store.name}; its limit cannot be "
                    "changed. Open it with Ledger.open, or choose another name."
                )
            content = {"settings": settings.to_dict(), "totals": {"": Totals().to_dict()}}
            event = self._book.append(transaction, "create", name, content)
            transaction.point(name, "", event.seq, event.seq)
        return Dataset(self._book, name, settings)

    def open(self, name: str) -> Dataset:
        """Open a data set by its name."""
        found = {dataset.name: dataset for dataset in self.list()}
        if name not in found:
            known = ", ".join(map(repr, found)) or "none"
            raise LedgerError(f"There is no data set {name!r} in {self}. Known: {known}.")
        return found[name]

    def list(self) -> list[Dataset]:
        """Return all data sets, oldest first."""
        with self._book.begin() as transaction:
            return [
                Dataset(self._book, name, settings_of(transaction, created))
                for (name, block), (created, _) in transaction.state().items()
                if not block
            ]

    def verify(self, keys: Sequence[str] = ()) -> Verification:
        """Check that no event was altered or moved, none in between removed, and sums are right.

        A ledger that lost its latest events, and nothing else, verifies. The mark of a user who saw
        them refuses it; so does a comparison with a latest hash (``Verification.head``) that was
        kept elsewhere. With ``keys``, public Ed25519 keys in hexadecimal, every event must be
        signed by one.
        """
        with self._book.begin() as transaction:
            return verify(transaction, keys)

    def events(self) -> Sequence[dict[str, Any]]:
        """Return all events as plain data, with their hashes and signatures."""
        with self._book.begin() as transaction:
            return [
                json.loads(event.text) | {"hash": event.hash, "signature": event.signature}
                for event in transaction.events()
            ]

    def move_to(self, location: str | os.PathLike[str]) -> Ledger:
        """Copy a verified ledger to a new place and close this one; returns the new ledger."""
        other = Ledger(location, who=self._book.who, signing_key=self._book.signing_key)
        if other._book.location == self._book.location:
            raise ValueError(f"{self} cannot be moved to itself.")
        with self._book.begin(write=True) as source:
            found = verify(source)
            if not found.ok:
                raise LedgerError(f"{self} is not moved: {found.problem}")
            place = other._book.store.name
            other._book.create()
            with other._book.begin(write=True) as target:
                if target.head() is not None:
                    raise LedgerError(f"{place} is in use; move to a new ledger.")
                columns = source.columns()
                for event in source.events():
                    target.append(event, *columns[event.seq])
                for (name, block), (created, last) in source.state().items():
                    target.point(name, block, created, last)
            self._book.append(source, "moved", "", {"to": place})
        return other

    def __repr__(self) -> str:
        return f"Ledger({self._book.store.name!r})"


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
        self.settings: dict[str, Settings] = {}
        self.state: dict[tuple[str, str], tuple[int, int]] = {}
        self.totals: dict[tuple[str, str], Totals] = {}
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
        if signer is not None and not signed_by(event, signer):
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
            settings = Settings.from_dict(body["settings"])
            if settings.limits is not None:
                _check_limits(settings.limits)
            self.settings[name] = settings
            self._set(body, {"": Totals()})
        elif kind == "block":
            block = body["block"]
            if not self.settings[name].divided or (name, block) in self.state:
                raise _Wrong(f"block {block!r} cannot be added.")
            self._set(body, {block: Totals()})
        elif kind in ("reserve", "add"):
            self._entry(body)
        elif kind in ("confirm", "return"):
            entry = self.entries.pop(body["entry"], None)
            if entry is None or entry["kind"] != "reserve" or entry["dataset"] != name:
                raise _Wrong(f"it settles {body['entry']}, which is no open reservation.")
            if kind == "return":
                loss = Loss(**entry["charged"])
                blocks = entry["blocks"]
                self._set(body, {b: self.totals[name, b].plus(loss, sign=-1) for b in blocks})
        elif kind == "moved":
            self.moved = True
        elif kind != "model":
            raise _Wrong(f"an event of kind {kind!r} is not known.")

    def _entry(self, body: dict[str, Any]) -> None:
        name = body["dataset"]
        settings = self.settings[body["dataset"]]
        loss = Loss(**body["loss"])
        charged = Loss(**body["charged"])
        steps = settings.group(Relation(body["relation"]), body["unit"])
        if steps != body["group"] or loss.grouped(steps) != charged:
            raise _Wrong("its cost does not follow from its loss, relation and unit.")
        if settings.divided == ("" in body["blocks"]) or not body["blocks"]:
            raise _Wrong("it does not name the blocks that it used.")
        before = {block: self.totals[name, block] for block in body["blocks"]}
        limits = settings.limits if body["kind"] == "reserve" else None
        if limits is not None and not all(limits.admits(t, charged) for t in before.values()):
            raise _Wrong("it exceeds the limit.")
        self._set(body, {block: totals.plus(charged) for block, totals in before.items()})
        self.entries[body["seq"]] = body

    def _set(self, body: dict[str, Any], after: dict[str, Totals]) -> None:
        """Compare the stated totals with the computed ones, and keep them."""
        stated = {block: Totals.from_dict(found) for block, found in body["totals"].items()}
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
