"""A ledger on a PostgreSQL server, for teams.

Writing transactions lock one row of ``ledger_meta`` first, so they follow one another, and commit
with ``synchronous_commit = on``. A client that is killed or cut off loses its transaction and the
lock; what was committed stays. Every transaction has a connection of its own, so a server that was
restarted in the middle of a fit is found again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from discreet.errors import LedgerError
from discreet.ledger.store import Transaction

_SETTINGS = (
    "SET LOCAL synchronous_commit = on",
    "SET LOCAL lock_timeout = '60s'",
    "SET LOCAL idle_in_transaction_session_timeout = '60s'",
    "SET LOCAL client_encoding = 'UTF8'",
)
_CREATION = 7204839116  # key of the advisory lock under which tables are made


class PostgresStore:
    """A ledger in the tables of a database."""

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
        """Connect, run the block as a transaction, and commit."""
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
            first = (
                str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            )
            raise LedgerError(
                f"{self.name}: {first}. Nothing was released; if the connection broke while an "
                "entry was written, it may count."
            ) from error
