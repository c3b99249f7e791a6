"""Checks of where a ledger's file lies, and marks that reveal an old copy of a ledger."""

from __future__ import annotations

import hashlib
import os
import tempfile
from functools import lru_cache
from pathlib import Path

from discreet.errors import LedgerError

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


def file_system(folder: str) -> str:
    """Return the type of the file system that holds a folder; empty if the system does not say."""
    try:
        lines = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return ""
    folder, best, kind = os.path.realpath(folder), -1, ""
    for line in lines:
        before, _, after = line.partition(" - ")
        point = before.split()[4].replace("\\040", " ")
        inside = folder == point or folder.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= best:
            best, kind = len(point), after.split()[0]
    return kind


def locks_hold(folder: str) -> bool:
    """Lock a new file twice; return True if the second lock is refused, or cannot be tried."""
    try:
        import fcntl

        command = fcntl.F_OFD_SETLK  # type: ignore[attr-defined,unused-ignore]
    except (ImportError, AttributeError):
        return True  # not Linux: SQLite's own locks have to do
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
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600)
        except OSError:
            return
        try:
            os.write(handle, line)
        except OSError:
            return
        finally:
            os.close(handle)


def _check(seq: str, digest: str) -> str:
    """Return a check sum: a mark that another process is writing is not believed."""
    return hashlib.sha256(f"{seq} {digest}".encode("ascii")).hexdigest()[:16]
