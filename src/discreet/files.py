"""Writing files as a whole: a reader sees the new file or the old one, never half of one.

`reserved` holds space on a disk, so that a result that cannot be computed again can be written.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TextIO

from discreet.log import note

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a disk that is full, of a quota, and of a limit on the size of a file."""

_CHUNK = 2**16  # bytes that are written at a time where space cannot be reserved otherwise


@contextmanager
def replacing(path: str | os.PathLike[str], encoding: str = "utf-8") -> Iterator[TextIO]:
    """Open a temporary text file beside ``path`` that takes its place when the block ends well.

    A link is followed: the file it names is replaced. What is not a file (a folder, a device) is
    refused. An `OSError` names ``path``, not the temporary file.
    """
    given = os.fspath(path)
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a regular file", given)
    name = None
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        with open(handle, "w", encoding=encoding, newline="\n") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, _usual_mode(path))
        os.replace(name, path)
        note("Written: %s", given)
    except BaseException as error:
        if name is not None:
            with suppress(FileNotFoundError):
                os.unlink(name)
        if isinstance(error, OSError) and error.errno:
            named = error.filename  # the temporary file, no file, or one of the caller's
            if named is None or os.path.basename(named).startswith(f".{path.name}."):
                raise OSError(error.errno, error.strerror, given) from None
        raise


@contextmanager
def reserved(path: str | os.PathLike[str], size: int) -> Iterator[None]:
    """Hold ``size`` bytes of disk space beside ``path`` while the block runs.

    The space is that of a file without a name, which the system frees when the process ends, in
    whatever way. An `OSError` that names ``path`` is raised if there is no space, or if the folder
    cannot be written to.
    """
    given = os.fspath(path)
    folder = Path(os.path.realpath(path)).parent
    with ExitStack() as held:
        try:
            file = held.enter_context(tempfile.TemporaryFile(dir=folder, buffering=0))
            _allocate(file.fileno(), size)
        except OSError as error:
            raise OSError(error.errno, error.strerror, given) from None
        yield


def _allocate(handle: int, size: int) -> None:
    """Take ``size`` bytes of disk for an empty file."""
    try:
        os.posix_fallocate(handle, 0, size)
    except (AttributeError, OSError) as error:
        if getattr(error, "errno", None) in FULL:
            raise
        zeros = bytes(_CHUNK)  # this system cannot reserve space, so it is written to
        for start in range(0, size, _CHUNK):
            os.write(handle, zeros[: size - start])


def _usual_mode(path: Path) -> int:
    """Return the permissions of the file that is replaced, or those of a new one."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
