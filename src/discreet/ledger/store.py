"""Storage of a ledger: its events, the statements that all databases share, and PostgreSQL.

A store (here, and in `discreet.ledger.sqlite`) has a ``name`` for messages, without a password,
``create``, and ``begin``, which runs a block as one transaction: it is durable, or if the block
raises nothing was changed. Every failure of a database is a `LedgerError`. A writing transaction
excludes all others until it is durable, so what it checked still holds when it is committed.
Everything that ever happens to a ledger is an event that is appended and never changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from discreet.errors import LedgerError
from discreet.ledger.signatures import Signer

FORMAT = 1  # version of the tables; a newer one is refused

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

State = dict[tuple[str, str], tuple[int, int]]  # the same, by data set and block
_PAGE = 1000  # events that are read at a time


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
        found = self._select("ORDER BY seq DESC LIMIT 1")
        return found[0] if found else None

    def event(self, seq: int) -> Event:
        """Return an event by its number."""
        found = self._select("WHERE seq = ?", seq)
        if not found:
            raise LedgerError(
                f"Event {seq} of this ledger is missing: it was removed, or the file is damaged. "
                "Nothing was charged. Run `discreet ledger verify`, and restore a backup."
            )
        return found[0]

    def about(self, entry: int) -> list[Event]:
        """Return the later events about an entry, such as its confirmation."""
        return self._select("WHERE entry = ? ORDER BY seq", entry)

    def events(self, dataset: str | None = None) -> Iterator[Event]:
        """Yield all events, or those of a data set, in order."""
        where, values = ("", ()) if dataset is None else ("AND dataset = ?", (dataset,))
        after = -(2**31)
        while True:
            rest = f"WHERE seq > ? {where} ORDER BY seq LIMIT {_PAGE}"
            found = self._select(rest, after, *values)
            yield from found
            if len(found) < _PAGE:
                return
            after = found[-1].seq

    def columns(self) -> dict[int, tuple[str, int | None]]:
        """Return the data set and entry under which each event is found."""
        found = self._run("SELECT seq, dataset, entry FROM ledger_events", ())
        return {seq: (dataset, entry) for seq, dataset, entry in found}

    def state(self, dataset: str | None = None) -> State:
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

    def _select(self, rest: str, *values: Any) -> list[Event]:
        columns = "SELECT seq, body, hash, signature FROM ledger_events"
        return [Event(*row) for row in self._run(f"{columns} {rest}", values)]


GENESIS = hashlib.sha256(b"discreet ledger, format 1").hexdigest()  # hash before the first event


@dataclass(frozen=True)
class Event:
    """One event as it is stored: its number, its text, the hash of that, and a signature.

    The text is JSON with sorted keys and has the hash of the event before it, so no event can be
    altered, removed or moved without breaking the chain after it.
    """

    seq: int
    text: str
    hash: str
    signature: str | None = None

    @classmethod
    def make(cls, body: dict[str, Any], signer: Signer | None = None) -> Event:
        """Make the event of a body, which has its number and the hash of the event before."""
        if signer is not None:
            body = body | {"signer": signer.public}
        text = json.dumps(
            body, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
        )
        found = _hash(text)
        return cls(body["seq"], text, found, None if signer is None else signer.sign(found))

    @property
    def body(self) -> dict[str, Any]:
        """Content of the event; raises if text and hash do not match."""
        if _hash(self.text) != self.hash:
            raise LedgerError(
                f"Event {self.seq} of this ledger was altered: its text does not match its hash. "
                "Nothing was charged. Run `discreet ledger verify`, and restore a backup."
            )
        content: dict[str, Any] = json.loads(self.text)
        return content


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("ascii", "backslashreplace")).hexdigest()


_SETTINGS = (
    "SET LOCAL synchronous_commit = on",
    "SET LOCAL lock_timeout = '60s'",
    "SET LOCAL idle_in_transaction_session_timeout = '60s'",
    "SET LOCAL client_encoding = 'UTF8'",
)
_CREATION = 7204839116  # key of the advisory lock under which tables are made


class PostgresStore:
    """A ledger on a PostgreSQL server, for teams.

    Writing transactions lock one row of ``ledger_meta`` first, so they follow one another. A client
    that is killed or cut off loses its transaction and the lock; what was committed stays. Every
    transaction has a connection of its own, so a server that was restarted is found again.
    """

    def __init__(self, address: str) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise ImportError(
                'a ledger on PostgreSQL needs psycopg: pip install "discreet[postgres]".'
            ) from error
        self._psycopg: Any = psycopg
        self._address = address
        parts = urlsplit(address)
        self.name = f"postgresql://{parts.hostname or ''}{parts.path}"

    def create(self, identity: str) -> None:
        """Make the tables if there are none."""
        with self._connected() as run:
            run("SELECT pg_advisory_xact_lock(?)", (_CREATION,))
            if not run("SELECT to_regclass('ledger_meta') IS NOT NULL", ())[0][0]:
                Transaction(run).start(identity)

    @contextmanager
    def begin(self, *, write: bool = False) -> Iterator[Transaction]:
        """Run a block as one transaction."""
        with self._connected() as run:
            if write:
                if run("SHOW fsync", ())[0][0] != "on":
                    raise LedgerError(
                        f"{self.name} runs with fsync=off and could forget what was spent after a "
                        "crash. Turn fsync on; nothing was charged."
                    )
                run("SELECT value FROM ledger_meta WHERE key = 'format' FOR UPDATE", ())
            else:
                run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY", ())
            yield Transaction(run)

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        errors = self._psycopg.errors
        try:
            with self._psycopg.connect(
                self._address, connect_timeout=10, application_name="discreet ledger"
            ) as connection:

                def run(statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
                    cursor = connection.execute(statement.replace("?", "%s"), tuple(values))
                    return cursor.fetchall() if cursor.description else []

                for setting in _SETTINGS:
                    run(setting, ())
                yield run
        except errors.UndefinedTable as error:
            raise LedgerError(
                f"{self.name}: there is no ledger in this database. Make it with `discreet ledger "
                "create` or Ledger.create."
            ) from error
        except self._psycopg.Error as error:
            first = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise LedgerError(
                f"{self.name}: {first}. Nothing was released; if the connection broke while an "
                "entry was written, it may count."
            ) from error
