"""Files of a ledger in SQLite: their modes and names, and words for what fails.

Nothing that a limit promises rests on this module: a wrong mode stops a writer, or lets one in who
could alter the file anyway.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import suppress
from pathlib import Path

from discreet.errors import LedgerError

PATIENCE = 60.0  # seconds to wait for other writers

PROBLEMS = {
    sqlite3.SQLITE_FULL: "the disk is full. Make room and try again",
    sqlite3.SQLITE_READONLY: "it cannot be written to. Ask for write access to the file and its "
    "folder",
    sqlite3.SQLITE_PERM: "it cannot be written to. Ask for write access to the file and its folder",
    sqlite3.SQLITE_BUSY: f"others have kept it locked for {PATIENCE:g} seconds. Try again",
    sqlite3.SQLITE_CORRUPT: "it is damaged (truncated, or overwritten in part). Restore a backup, "
    "and enter what was spent since",
    sqlite3.SQLITE_NOTADB: "it is not a ledger, or it is damaged. Restore a backup",
    sqlite3.SQLITE_CANTOPEN: "it, or a file beside it, cannot be opened",
    sqlite3.SQLITE_IOERR: "reading or writing failed",
}


_SMALLEST_SPACE = 2**20  # bytes: with less left, a failure to write is one of a full disk


def translated(name: str, error: sqlite3.Error, folder: Path | None = None) -> LedgerError:
    """Return what a failure of SQLite means for the user of a ledger."""
    extended = getattr(error, "sqlite_errorcode", 0)
    code = extended & 0xFF
    if code == sqlite3.SQLITE_IOERR and folder is not None:
        full = shutil.disk_usage(folder).free < _SMALLEST_SPACE
        if full or extended == sqlite3.SQLITE_IOERR_SHMSIZE:  # no room for the index of the log
            code = sqlite3.SQLITE_FULL
    if code == sqlite3.SQLITE_ERROR and "no such table" in str(error):
        code = sqlite3.SQLITE_NOTADB
    problem = PROBLEMS.get(code, f"the database failed ({error})")
    return LedgerError(f"{name}: {problem}. Nothing was charged.")


def make_private(path: Path) -> None:
    """Make an empty file for its owner and, as far as the umask allows, the group of its folder."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o660)
    try:
        group = path.parent.stat().st_gid
        if hasattr(os, "fchown") and os.fstat(handle).st_gid != group:
            try:
                os.fchown(handle, -1, group)
            except PermissionError:  # the group is that of the process: nobody chose it
                os.fchmod(handle, 0o600)
    finally:
        os.close(handle)


def share_companions(path: Path) -> None:
    """Give the log and its index, which have the ledger's mode, the ledger's group as well."""
    if not hasattr(os, "chown"):
        return
    real = os.path.realpath(path)
    group = os.stat(real).st_gid
    for companion in (f"{real}-wal", f"{real}-shm"):
        with suppress(OSError):  # there is none, or another user made it, who shares it as well
            if os.stat(companion).st_gid != group:
                os.chown(companion, -1, group)


def same_file(path: Path) -> list[str]:
    """Return the other names of a file in its folder."""
    found = path.stat()
    real = Path(os.path.realpath(path))
    inside: list[str] = []
    with suppress(OSError), os.scandir(real.parent) as entries:  # a folder that may not be listed
        inside += [entry.name for entry in entries if entry.inode() == found.st_ino]
    return sorted(other for other in inside if other != real.name)
