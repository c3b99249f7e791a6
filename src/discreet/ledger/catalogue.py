"""`Ledger`: the data sets of one file or server, each with a budget of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from discreet.accounting.budget import Budget, Relation
from discreet.errors import LedgerError
from discreet.ledger.book import Book, checked_text
from discreet.ledger.costs import CostTotals
from discreet.ledger.dataset import Dataset
from discreet.ledger.limits import DatasetSettings, Limits
from discreet.ledger.state import settings_of
from discreet.ledger.verification import Verification, verify
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
        settings = DatasetSettings(limits, related, unit, rows_per_unit, bool(unit_in_one_block))
        self._book.create()
        with self._book.begin(write=True) as transaction:
            if transaction.state(name):
                raise LedgerError(
                    f"There is a data set {name!r} in {self._book.store.name}; its limit cannot be "
                    "changed. Open it with Ledger.open, or choose another name."
                )
            content = {"settings": settings.to_dict(), "totals": {"": CostTotals().to_dict()}}
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
