"""A ledger in an SQLite file, or in memory; checks of where the file lies, and marks of copies.

Writing transactions start with ``BEGIN IMMEDIATE`` and end when the file system reports that the
write-ahead log is on disk (``synchronous=EXTRA``): one ``fsync`` per charge. A process that is
killed leaves a log that the next one reads up to the last complete transaction. Every transaction
has a connection of its own: one must not be carried into a forked process.

SQLite keeps its locks and its log in files named after the path. So a ledger under two names, by a
hard link or a mount of the file itself, would have two locks and two logs: it is refused.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import sqlite3
import tempfile
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from discreet.errors import LedgerError
from discreet.ledger.files import (
    PATIENCE,
    PROBLEMS,
    make_private,
    same_file,
    share_companions,
    translated,
)
from discreet.ledger.store import Transaction


@contextmanager
def _transaction(connection: sqlite3.Connection, *, write: bool) -> Iterator[Transaction]:
    def run(statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        return connection.execute(statement, values).fetchall()

    try:
        connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
        yield Transaction(run)
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # a journal remains that the next process rolls back
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        raise


class SqliteStore:
    """A ledger in a file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(os.path.abspath(path))
        self.name = os.fspath(path)

    def create(self, identity: str) -> None:
        """Make the file, complete or not at all, if there is none."""
        if self._path.exists():
            return
        folder = self._path.parent
        if not folder.is_dir():
            raise LedgerError(f"{self.name}: there is no folder {folder}.")
        check_folder(os.fspath(folder))
        part = folder / f".{self._path.name}.{uuid.uuid4().hex}.part"
        try:
            make_private(part)
            with closing(_connect(part)) as connection:
                with _transaction(connection, write=True) as transaction:
                    transaction.start(identity)
                connection.execute("PRAGMA journal_mode = WAL")  # last: nothing is in the log
            with _only_creator(folder), suppress(FileExistsError):
                if not self._path.exists():  # else another process was first
                    os.rename(part, self._path)  # not a link: the file never has two names
        except sqlite3.Error as error:
            raise translated(self.name, error, self._path.parent) from error
        except OSError as error:
            full = error.errno == errno.ENOSPC
            problem = PROBLEMS[sqlite3.SQLITE_FULL] if full else error.strerror
            raise LedgerError(f"{self.name}: {problem}. Nothing was charged.") from error
        finally:
            with suppress(FileNotFoundError):
                part.unlink()

    @contextmanager
    def begin(self, *, write: bool = False) -> Iterator[Transaction]:
        """Run a block as one transaction."""
        if not self._path.exists():
            raise LedgerError(
                f"{self.name}: there is no such ledger. Make it with `discreet ledger create` or "
                "Ledger.create, or correct the path."
            )
        if self._path.is_file() and self._path.stat().st_size == 0:
            raise LedgerError(f"{self.name} is empty: it was truncated. Restore a backup.")
        check_one_name(self.name, self._path)
        if write:
            check_folder(os.fspath(self._path.parent))
        try:
            with (
                closing(_connect(self._path)) as connection,
                _transaction(connection, write=write) as transaction,
            ):
                share_companions(self._path)
                yield transaction
        except sqlite3.Error as error:
            raise translated(self.name, error, self._path.parent) from error


def _connect(path: Path) -> sqlite3.Connection:
    """Open a file that exists."""
    address = f"{path.as_uri()}?mode=rw"
    connection = sqlite3.connect(
        address, uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False
    )
    for setting in ("synchronous = EXTRA", "fullfsync = ON", "trusted_schema = OFF"):
        connection.execute(f"PRAGMA {setting}")
    return connection


@contextmanager
def _only_creator(folder: Path) -> Iterator[None]:
    """Let processes that create a ledger in a folder follow one another."""
    try:
        import fcntl
    except ImportError:  # Windows, where a rename does not replace a file
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


class MemoryStore:
    """A ledger in the memory of one process, shared by its threads and refused elsewhere."""

    def __init__(self, *, elsewhere: bool = False) -> None:
        self.name = "in memory"
        self._process = -1 if elsewhere else os.getpid()
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False
        )

    def create(self, identity: str) -> None:
        """Make the tables if there are none."""
        with self._lock, _transaction(self._connection, write=True) as transaction:
            if not self._connection.execute("SELECT name FROM sqlite_master").fetchall():
                transaction.start(identity)

    @contextmanager
    def begin(self, *, write: bool = False) -> Iterator[Transaction]:
        """Run a block as one transaction."""
        if os.getpid() != self._process:
            raise LedgerError(
                "This ledger is in the memory of another process, where this fit would go "
                "unnoticed. Use a file, which processes share: Ledger('visits.sqlite'); or run "
                'with n_jobs=1 or inside joblib.parallel_config(backend="threading").'
            )
        with self._lock:
            try:
                with _transaction(self._connection, write=write) as transaction:
                    yield transaction
            except sqlite3.Error as error:
                raise translated(self.name, error) from error


NETWORK = {
    "afs", "beegfs", "ceph", "cifs", "davfs", "fuse.ceph", "fuse.davfs2", "fuse.glusterfs",
    "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs",
    "nfs4", "smb3", "smbfs",
}  # fmt: skip
"""File systems over a network, whose locks may not hold between machines."""

_ELSEWHERE = "Keep the file on a local disk, or use a PostgreSQL server for a team."


@lru_cache(maxsize=64)
def check_folder(folder: str) -> None:
    """Refuse a folder in which locks of files do not hold; once per process and folder."""
    kind = file_system(folder)
    if kind in NETWORK:
        raise LedgerError(
            f"{folder} is on a network file system ({kind}), where locks of files cannot be relied "
            f"on: two machines could both take the last of a budget. {_ELSEWHERE}"
        )
    if not locks_hold(folder):
        raise LedgerError(
            f"The file system of {folder} does not hold locks of files: two processes could both "
            f"take the last of a budget. {_ELSEWHERE}"
        )


def check_one_name(name: str, path: Path) -> None:
    """Refuse a ledger that can be reached by a second name, with locks and a log of its own."""
    found = path.stat()
    if path.is_file() and found.st_nlink != 1:
        others = ", ".join(same_file(path)) or "in other folders"
        raise LedgerError(
            f"{name} has {found.st_nlink} names (hard links; others: {others}). Locks of SQLite "
            "belong to a name, so the same budget could be taken under each. Nothing was charged. "
            "Remove all names but one; `find / -samefile` finds them."
        )
    if os.path.realpath(path) in dict(mounts()):
        raise LedgerError(
            f"{name} is itself a mount point: the file has another name outside. Locks of SQLite "
            "belong to a name, so the same budget could be taken under each. Nothing was charged. "
            "Mount the folder of the ledger instead of the file."
        )


def mounts() -> list[tuple[str, str]]:
    """Return mount points and types of file systems; none if the system does not say."""
    try:
        lines = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        before, _, after = line.partition(" - ")
        point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), before.split()[4])
        found.append((point, after.split()[0]))
    return found


def file_system(folder: str) -> str:
    """Return the type of the file system that holds a folder; empty if the system does not say."""
    folder = os.path.realpath(folder)
    best = -1
    kind = ""
    for point, type_ in mounts():
        inside = folder == point or folder.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= best:
            best = len(point)
            kind = type_
    return kind


def locks_hold(folder: str) -> bool:
    """Lock a new file twice; return True if the second lock is refused, or cannot be tried."""
    try:
        import fcntl

        command = fcntl.F_OFD_SETLK  # type: ignore[attr-defined,unused-ignore]
    except (ImportError, AttributeError):
        return True  # not Linux: rely on SQLite's own locks
    import struct

    whole = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    try:
        handle, name = tempfile.mkstemp(prefix=".ledger-lock-", dir=folder)
    except OSError:
        return True  # a folder that cannot be written to: writing the ledger will say so
    other = os.open(name, os.O_RDWR)
    try:
        fcntl.fcntl(handle, command, whole)
        try:
            fcntl.fcntl(other, command, whole)
        except (BlockingIOError, PermissionError):
            return True
        return False
    except OSError:
        return False
    finally:
        os.close(other)
        os.close(handle)
        os.unlink(name)


class Mark:
    """The latest event of a ledger that this user has seen on this machine.

    It lies in the user's state folder (``$XDG_STATE_HOME/discreet``), so that a backup of the
    ledger that is put back does not put it back. It is written after an event is durable and never
    ahead of it; one that cannot be written or read protects nothing and stops nothing.
    """

    def __init__(self, identity: str) -> None:
        home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
        self.path = Path(home) / "discreet" / f"{identity}.mark"

    def read(self) -> tuple[int, str] | None:
        """Return the number and hash of the event, if there is a mark."""
        try:
            seq, digest, check = self.path.read_text("ascii").split()
            return (int(seq), digest) if check == _check(seq, digest) else None
        except (OSError, ValueError):
            return None

    def write(self, seq: int, digest: str) -> None:
        """Set the mark."""
        number = f"{seq:020d}"
        line = f"{number} {digest} {_check(number, digest)}\n".encode("ascii")
        with suppress(OSError):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                os.write(handle, line)
            finally:
                os.close(handle)


def _check(seq: str, digest: str) -> str:
    """Return a check sum: a mark that another process is writing is not believed."""
    return hashlib.sha256(f"{seq} {digest}".encode("ascii")).hexdigest()[:16]
