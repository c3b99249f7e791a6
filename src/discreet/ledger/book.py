"""The chain of events of one ledger: transactions, appending, and the check for old copies."""

from __future__ import annotations

import getpass
import os
import platform
import unicodedata
import uuid
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache, partial
from importlib.metadata import version
from typing import Any

from discreet.errors import LedgerError
from discreet.ledger.signatures import Signer
from discreet.ledger.sqlite import Mark, MemoryStore, SqliteStore
from discreet.ledger.store import Event, PostgresStore, Transaction

# Books in the memory of this process, by key.
_HERE: weakref.WeakValueDictionary[str, Book] = weakref.WeakValueDictionary()


_BLANK = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"  # joiner, fillers, empty signs
    + "".join(map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
)
"""Characters that are shown as nothing though their category is one of letters, marks or signs."""

_CONFUSABLE = "Names that look the same would be different data sets, blocks or units."


def checked_text(name: str, value: object, *, most: int = 200) -> str:
    """Return a name that every database stores literally and that is displayed as no other name.

    It is valid Unicode in normal form C, without NUL, control and invisible characters, and with
    single spaces between words only.
    """
    if not isinstance(value, str) or not value or len(value) > most:
        raise ValueError(f"{name} must be a text of 1 to {most} characters; got {value!r:.80}.")
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ValueError(f"{name} must be valid Unicode without NUL; got {value!a:.80}.")
    for letter in value:
        invisible = unicodedata.category(letter) in ("Cc", "Cf", "Zl", "Zp", "Zs") and letter != " "
        if invisible or letter in _BLANK:
            raise ValueError(
                f"{name} must not have the invisible character U+{ord(letter):04X}; got "
                f"{value!a:.80}. {_CONFUSABLE} Remove it, or use a plain space."
            )
    if value != value.strip():
        raise ValueError(
            f"{name} must not have white space at its start or end; got {value!r:.80}. "
            f"{_CONFUSABLE} Use {value.strip()!r:.80}."
        )
    if "  " in value:
        raise ValueError(
            f"{name} must not have two spaces in a row; got {value!r:.80}. {_CONFUSABLE} Use one."
        )
    composed = unicodedata.normalize("NFC", value)
    if composed != value:
        raise ValueError(
            f"{name} must be in the Unicode normal form C; got {value!a:.80}. {_CONFUSABLE} Use "
            f"{composed!r:.80}, for example by unicodedata.normalize('NFC', {name})."
        )
    return value


def _who() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # an account without a name, as in containers
        return f"user {os.getuid()}" if hasattr(os, "getuid") else "unknown"


_version = cache(partial(version, "discreet"))


class Book:
    """Store, chain and writer of a ledger; what `Ledger` and `Dataset` share.

    The arguments are those of `Ledger`. ``elsewhere`` is True for the shadow of a ledger in another
    process's memory, which refuses everything.
    """

    def __init__(
        self,
        location: str | None,
        who: str | None = None,
        signing_key: str | None = None,
        *,
        elsewhere: bool = False,
    ) -> None:
        self.location = location
        self.signing_key = signing_key
        self.key = uuid.uuid4().hex
        self.who = _who() if who is None else checked_text("who", who)
        self._signer = None if signing_key is None else Signer(signing_key)
        self._mark: Mark | None = None
        self._identity: str | None = None
        self.store: MemoryStore | PostgresStore | SqliteStore
        if location is None:
            self.store = MemoryStore(elsewhere=elsewhere)
            if not elsewhere:
                _HERE[self.key] = self
        elif location.startswith(("postgresql://", "postgres://")):
            self.store = PostgresStore(location)
        else:
            self.store = SqliteStore(location)

    def create(self) -> None:
        """Make the tables if there are none."""
        self.store.create(uuid.uuid4().hex)

    def __reduce__(self) -> tuple[Any, ...]:
        return Book.referred, (self.location, self.who, self.signing_key, self.key)

    @classmethod
    def referred(cls, location: str | None, who: str, signing_key: str | None, key: str) -> Book:
        """Return the book that was pickled; of one in memory elsewhere a refusing shadow."""
        return _HERE.get(key) or cls(location, who, signing_key, elsewhere=location is None)

    @contextmanager
    def begin(self, *, write: bool = False) -> Iterator[Transaction]:
        """Run a block as one transaction, on the ledger that was opened and not an old copy."""
        name = self.store.name
        if self._identity is None:
            with self.store.begin() as transaction:
                self._identity = transaction.identity(name)
            if self.location is not None:
                self._mark = Mark(self._identity)
        # The mark is read first: whatever it names was durable before this transaction began.
        seen = None if self._mark is None else self._mark.read()
        with self.store.begin(write=write) as transaction:
            if transaction.identity(name) != self._identity:
                raise LedgerError(f"{name} is not the ledger that was opened: it was replaced.")
            if seen is not None:
                self._check_copy(transaction, *seen)
            before = transaction.head()
            yield transaction
            after = transaction.head()
        if write and self._mark is not None and after is not None and after != before:
            self._mark.write(after.seq, after.hash)

    def _check_copy(self, transaction: Transaction, seq: int, digest: str) -> None:
        head = transaction.head()
        if head is not None and head.seq >= seq and transaction.event(seq).hash == digest:
            return
        assert self._mark is not None
        last = 0 if head is None else head.seq
        raise LedgerError(
            f"{self.store.name} is an old or altered copy: it ends with event {last}, and event "
            f"{seq} was seen on this machine with another or no counterpart here. Using it would "
            "forget what was spent since. Put the newest copy back. If it is lost, enter the "
            f"missing releases (`discreet ledger add`) after removing {self._mark.path}."
        )

    def append(
        self,
        transaction: Transaction,
        kind: str,
        dataset: str,
        content: dict[str, Any],
        entry: int | None = None,
    ) -> Event:
        """Append an event with the time, the writer and the hash of the event before."""
        seq, previous = transaction.next()
        body = content | {
            "seq": seq,
            "previous": previous,
            "kind": kind,
            "dataset": dataset,
            "entry": entry,
            "when": datetime.now(UTC).isoformat(timespec="microseconds"),
            "who": self.who,
            "host": platform.node(),
            "version": _version(),
        }
        event = Event.make(body, self._signer)
        transaction.append(event, dataset, entry)
        return event
