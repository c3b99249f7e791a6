"""Storage of a ledger: what a database must offer, and the statements that all of them share.

A store begins transactions. A writing transaction excludes all others until it is durable, so what
it checked still holds when it is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from discreet.errors import LedgerError
from discreet.ledger.events import GENESIS, Event

FORMAT = 1
"""Version of the tables; a newer one is refused."""

SCHEMA = (
    "CREATE TABLE ledger_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE ledger_events (seq INTEGER PRIMARY KEY, dataset TEXT NOT NULL, entry INTEGER, "
    "body TEXT NOT NULL, hash TEXT NOT NULL, signature TEXT)",
    "CREATE INDEX ledger_events_dataset ON ledger_events (dataset, seq)",
    "CREATE INDEX ledger_events_entry ON ledger_events (entry)",
    "CREATE TABLE ledger_state (dataset TEXT NOT NULL, block TEXT NOT NULL, "
    "created INTEGER NOT NULL, last INTEGER NOT NULL, PRIMARY KEY (dataset, block))",
)
"""The events, and for each data set and block the numbers of its first and its latest event."""

_COLUMNS = "seq, body, hash, signature"
_PAGE = 1000


class Store(Protocol):
    """A database that holds one ledger."""

    name: str
    """Path or address without a password, for messages."""

    def create(self, identity: str) -> None:
        """Make the tables if there are none."""

    def begin(self, *, write: bool = False) -> AbstractContextManager[Transaction]:
        """Run a block as one transaction; leaving it well means durable, leaving it else nothing.

        Raises
        ------
        LedgerError
            For every failure of the database.
        """


class Transaction:
    """Statements of one transaction, over a function that runs SQL with ``?`` as placeholder."""

    def __init__(self, run: Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]) -> None:
        self._run = run

    def start(self, identity: str) -> None:
        """Make the tables of a new ledger."""
        for statement in SCHEMA:
            self._run(statement, ())
        for key, value in (("format", str(FORMAT)), ("identity", identity)):
            self._run("INSERT INTO ledger_meta (key, value) VALUES (?, ?)", (key, value))

    def identity(self, name: str) -> str:
        """Return the ledger's identity, after a check that this version reads it."""
        meta = dict(self._run("SELECT key, value FROM ledger_meta", ()))
        if meta.get("format") != str(FORMAT):
            raise LedgerError(
                f"{name} is a ledger of format {meta.get('format')!r}; this version of discreet "
                f"reads format {FORMAT}. Install a newer discreet; nothing was changed."
            )
        return str(meta["identity"])

    def head(self) -> Event | None:
        """Return the latest event."""
        return self._one(f"SELECT {_COLUMNS} FROM ledger_events ORDER BY seq DESC LIMIT 1")

    def event(self, seq: int) -> Event:
        """Return an event by its number."""
        found = self._one(f"SELECT {_COLUMNS} FROM ledger_events WHERE seq = ?", seq)
        if found is None:
            raise LedgerError(
                f"Event {seq} of this ledger is missing: it was removed, or the file is damaged. "
                "Nothing was charged. Run `discreet ledger verify`, and restore a backup."
            )
        return found

    def about(self, entry: int) -> list[Event]:
        """Return the later events about an entry, such as its confirmation."""
        found = self._run(
            f"SELECT {_COLUMNS} FROM ledger_events WHERE entry = ? ORDER BY seq", (entry,)
        )
        return [Event(*row) for row in found]

    def events(self, dataset: str | None = None) -> Iterator[Event]:
        """Yield all events, or those of a data set, in order."""
        where, values = ("", ()) if dataset is None else ("AND dataset = ?", (dataset,))
        after = -(2**31)
        while True:
            found = self._run(
                f"SELECT {_COLUMNS} FROM ledger_events WHERE seq > ? {where} "
                f"ORDER BY seq LIMIT {_PAGE}",
                (after, *values),
            )
            yield from (Event(*row) for row in found)
            if len(found) < _PAGE:
                return
            after = found[-1][0]

    def columns(self) -> dict[int, tuple[str, int | None]]:
        """Return the data set and entry under which each event is found."""
        found = self._run("SELECT seq, dataset, entry FROM ledger_events", ())
        return {seq: (dataset, entry) for seq, dataset, entry in found}

    def state(self, dataset: str | None = None) -> dict[tuple[str, str], tuple[int, int]]:
        """Return the first and the latest event by data set and block, oldest data set first."""
        where, values = ("", ()) if dataset is None else ("WHERE dataset = ?", (dataset,))
        found = self._run(
            f"SELECT dataset, block, created, last FROM ledger_state {where} "
            "ORDER BY created, block",
            values,
        )
        return {(name, block): (created, last) for name, block, created, last in found}

    def append(self, event: Event, dataset: str, entry: int | None = None) -> None:
        """Append an event."""
        self._run(
            "INSERT INTO ledger_events (seq, dataset, entry, body, hash, signature) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (event.seq, dataset, entry, event.text, event.hash, event.signature),
        )

    def point(self, dataset: str, block: str, created: int, last: int) -> None:
        """Set the first and the latest event of a block."""
        self._run("DELETE FROM ledger_state WHERE dataset = ? AND block = ?", (dataset, block))
        self._run(
            "INSERT INTO ledger_state (dataset, block, created, last) VALUES (?, ?, ?, ?)",
            (dataset, block, created, last),
        )

    def next(self) -> tuple[int, str]:
        """Return the number of the next event and the hash before it; checks the latest one."""
        head = self.head()
        if head is None:
            return 1, GENESIS
        if head.body["kind"] == "moved":
            raise LedgerError(
                f"This ledger was moved to {head.body['to']}; it takes no more entries here."
            )
        return head.seq + 1, head.hash

    def _one(self, statement: str, *values: Any) -> Event | None:
        found = self._run(statement, values)
        return Event(*found[0]) if found else None
