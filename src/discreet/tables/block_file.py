"""Encoded tables that are larger than the memory allowed for them: arrays in a private file.

The file has no name: nobody else can open it, and nothing of it remains when the process ends, even
if it is killed. Its space is reserved where the number of rows is known, so that a full disk is
noticed before anything is computed.
"""

from __future__ import annotations

import errno
import mmap
import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from discreet.validate import display

DEFAULT_SHARE = 4  # the default limit is the machine's memory divided by this
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def memory_limit(memory: int | str | None) -> int:
    """Return a number of bytes from a setting: bytes, a text like "2GB", or None for a quarter."""
    if memory is None:
        return _machine_memory() // DEFAULT_SHARE
    if isinstance(memory, int) and not isinstance(memory, bool) and memory >= 0:
        return memory
    if isinstance(memory, str):
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", memory.strip(), re.IGNORECASE)
        if found is not None:
            number, unit, binary = found.groups()
            scale = _UNITS[unit.upper()]
            if binary:
                scale = 1024 ** list(_UNITS).index(unit.upper())
            return int(float(number) * scale)
    raise ValueError(
        f'memory must be a number of bytes, or a text like "2GB" or "500 MiB"; got '
        f"{display(memory)}."
    )


def _machine_memory() -> int:
    """Return the memory of the machine or, if it is less, of the container."""
    total = 1 << 33  # where the system does not say
    with suppress(AttributeError, ValueError):
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):
        total = min(total, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return total


class FileArray:
    """A one-dimensional array in a file without a name, to which blocks are added.

    The file is in ``folder``, by default the system's for temporary files. Space for ``entries`` is
    reserved. If the disk is full, an `OSError` says so, with the folder and what to do.
    """

    def __init__(
        self, dtype: DTypeLike, folder: str | os.PathLike[str] | None = None, entries: int = 0
    ) -> None:
        self._dtype = np.dtype(dtype)
        self._folder = os.fspath(folder or tempfile.gettempdir())
        self._fd, self._bytes = -1, 0
        self._fd = _nameless_file(self._folder)
        if entries:
            self._reserve(entries * self._dtype.itemsize)

    @property
    def size(self) -> int:
        """Number of entries."""
        return self._bytes // self._dtype.itemsize

    def append(self, block: NDArray[Any]) -> None:
        """Add a block at the end; flattened if it has more dimensions."""
        data = np.ascontiguousarray(block, dtype=self._dtype).reshape(-1).view(np.uint8).data
        while data:
            try:
                written = os.pwrite(self._fd, data, self._bytes)
            except OSError as error:
                self.close()
                raise self._explained(error, self._bytes + len(data)) from None
            self._bytes += written
            data = data[written:]

    def widen(self, dtype: DTypeLike) -> None:
        """Go on with numbers of another type."""
        if self._dtype != dtype:
            wide = FileArray(dtype, self._folder)
            wide.append(self.finish().astype(dtype))
            self._dtype, self._fd, self._bytes = wide._dtype, wide._fd, wide._bytes
            wide._fd = -1

    def finish(self) -> NDArray[Any]:
        """Return the array, which cannot be written to. Nothing can be added any more."""
        if not self._bytes:
            self.close()
            return np.empty(0, dtype=self._dtype)
        os.ftruncate(self._fd, self._bytes)
        mapped = mmap.mmap(self._fd, self._bytes, access=mmap.ACCESS_READ)
        self.close()  # the map keeps the file
        return np.frombuffer(mapped, dtype=self._dtype)

    def close(self) -> None:
        """Give up the file."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()

    def _reserve(self, size: int) -> None:
        try:
            os.posix_fallocate(self._fd, 0, size)
        except AttributeError:
            return  # macOS: a full disk is noticed while the file is written
        except OSError as error:
            if error.errno in _FULL:  # other errors: this file system cannot reserve space
                self.close()
                raise self._explained(error, size) from None

    def _explained(self, error: OSError, size: int) -> OSError:
        """Return an error that says what to do."""
        if error.errno not in _FULL:
            return OSError(error.errno, error.strerror, self._folder)
        return OSError(
            error.errno,
            f"no space for an encoded table of {size / 1e9:.3g} GB or more; pass folder= with one "
            "on a larger disk, or a larger memory=. Nothing was left behind",
            self._folder,
        )


def _nameless_file(folder: str) -> int:
    """Open a new file that only this process can reach."""
    with suppress(AttributeError, OSError):
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fd, path = tempfile.mkstemp(dir=folder)  # file systems without files that have no name
    os.unlink(path)
    return fd
