"""Arrays to which blocks are added: in memory up to a limit, beyond it in a private file.

The file has no name: nobody else can open it, and nothing of it remains when the process ends, even
if it is killed. Its space is reserved where the number of rows is known, so that a full disk is
noticed before anything is computed.
"""

from __future__ import annotations

import mmap
import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from discreet.files import FULL
from discreet.validate import display

LARGEST_SMALL_INDEX = 2**31 - 1
"""Number of entries beyond which the start of a row needs 64 bits."""

_UNITS = ("", "K", "M", "G", "T")


def memory_limit(memory: int | str | None) -> int:
    """Return a number of bytes from a setting: bytes, a text like "2GB", or None for a quarter."""
    if memory is None:
        return _machine_memory() // 4
    if isinstance(memory, int) and not isinstance(memory, bool) and memory >= 0:
        return memory
    pattern = r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?\s*"
    found = re.fullmatch(pattern, memory, re.IGNORECASE) if isinstance(memory, str) else None
    if found is not None:
        number, unit, binary = found.groups()
        return int(float(number) * (1024 if binary else 1000) ** _UNITS.index(unit.upper()))
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


class GrowingArray:
    """A one-dimensional array to which blocks are added, in memory or in a file without a name.

    Joining blocks at the end would need memory for everything twice. A large ``bytearray`` is
    extended in place, by its page table, and memory beyond its content is never touched.
    """

    def __init__(self, dtype: DTypeLike) -> None:
        self.dtype = np.dtype(dtype)
        self.size = 0
        self._memory = bytearray()
        self._file: Any = None
        self._folder = ""

    def move_to_file(self, folder: str | os.PathLike[str] | None, entries: int = 0) -> None:
        """Go on in a file in ``folder`` (None: the system's), with space for ``entries``.

        If the disk is full, now or later, an `OSError` says so, with the folder and what to do.
        """
        self._folder = os.fspath(folder or tempfile.gettempdir())
        self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115
        size = entries * self.dtype.itemsize
        try:
            if size and hasattr(os, "posix_fallocate"):  # without it a full disk is noticed later
                os.posix_fallocate(self._file.fileno(), 0, size)
        except OSError as error:
            if error.errno in FULL:  # other errors: this file system cannot reserve space
                self._fail(error, size)
        content = self._memory
        self._memory = bytearray()
        self._write(memoryview(content))

    def append(self, block: NDArray[Any]) -> None:
        """Add a block at the end; flattened if it has more dimensions."""
        data = np.ascontiguousarray(block, dtype=self.dtype).reshape(-1)
        if self._file is None:
            self._memory += data.data
        else:
            self._write(data.view(np.uint8).data)
        self.size += data.size

    def finish(self) -> NDArray[Any]:
        """Return the array; one in a file cannot be written to. Nothing can be added any more."""
        if self._file is None:
            return np.frombuffer(self._memory, dtype=self.dtype)
        size = self.size * self.dtype.itemsize
        mapped = None
        if size:
            self._file.truncate(size)
            mapped = mmap.mmap(self._file.fileno(), size, access=mmap.ACCESS_READ)
        self.close()  # the map keeps the file
        return np.frombuffer(mapped or b"", dtype=self.dtype)

    def close(self) -> None:
        """Give up the content, unless it was finished."""
        file = self._file
        self._file = None
        self._memory = bytearray()
        if file is not None:
            file.close()

    def _write(self, data: memoryview) -> None:
        try:
            while data:
                data = data[self._file.write(data) :]
        except OSError as error:
            self._fail(error, self.size * self.dtype.itemsize + len(data))

    def _fail(self, error: OSError, size: int) -> NoReturn:
        """Give up the file, and say what to do."""
        self.close()
        problem = error.strerror
        if error.errno in FULL:
            problem = (
                f"no space for an encoded table of {size / 1e9:.3g} GB or more; pass folder= with "
                "one on a larger disk, or a larger memory=. Nothing was left behind"
            )
        raise OSError(error.errno, problem, self._folder) from None


class GrowingTable:
    """Encoded rows with their targets and groups, to which blocks are added.

    Everything is in memory, unless `reserve` sets a limit.

    Parameters
    ----------
    width, groups : int
        Number of encoded columns, and of groups of them. A sparse row has one entry per group.
    sparse, dtype
        Form of the rows: dense or CSR, and the type of their numbers.
    target : dtype, optional
        Type of the targets; None without any.
    grouped : bool
        True if each row has a person.
    """

    def __init__(
        self,
        width: int,
        groups: int,
        *,
        sparse: bool,
        dtype: DTypeLike,
        target: DTypeLike | None = None,
        grouped: bool = False,
    ) -> None:
        self._shape = (0, width)
        entries = groups if sparse else width
        self._per_row = {"data": entries}  # entries of each array per row
        if sparse:
            self._per_row |= {"indices": entries, "starts": 1}
        if target is not None:
            self._per_row["targets"] = 1
        if grouped:
            self._per_row["people"] = 1
        types = {"data": np.dtype(dtype), "targets": np.dtype(target)}
        self._arrays = {
            name: GrowingArray(types.get(name, np.dtype(np.int32))) for name in self._per_row
        }
        self._limit: int | None = None
        self._expected = 0
        self._folder: str | os.PathLike[str] | None = None
        self._in_files = False

    def reserve(self, expected: int, limit: int, folder: str | os.PathLike[str] | None) -> None:
        """Go on in files once the table has more than ``limit`` bytes; at once if it will have."""
        self._expected = expected
        self._limit = limit
        self._folder = folder
        self._check_size()

    def append(
        self,
        encoded: Any,
        targets: NDArray[Any] | None = None,
        people: NDArray[np.int32] | None = None,
    ) -> None:
        """Add a block; its rows are dense or CSR like the table."""
        self._shape = (self._shape[0] + encoded.shape[0], self._shape[1])
        blocks = {"data": encoded, "targets": targets, "people": people}
        if "starts" in self._arrays:
            blocks |= {"data": encoded.data, "indices": encoded.indices}
        for name, block in blocks.items():
            if name in self._arrays and block is not None:
                self._arrays[name].append(block)
        self._check_size()

    def finish(self) -> tuple[NDArray[Any] | sp.csr_array, NDArray[Any] | None, Any]:
        """Return rows, targets and groups, which have the same length. Nothing can be added."""
        starts = self._arrays.get("starts")
        if starts is not None:
            size = self._arrays["data"].size
            starts.dtype = np.dtype(np.int32 if size <= LARGEST_SMALL_INDEX else np.int64)
            starts.append(np.arange(0, size + 1, self._per_row["data"]))
        found = {name: array.finish() for name, array in self._arrays.items()}
        others = (found.get("targets"), found.get("people"))
        if starts is None:
            return found["data"].reshape(self._shape), *others
        parts = (found["data"], found["indices"], found["starts"])
        return sp.csr_array(parts, shape=self._shape), *others

    def close(self) -> None:
        """Give up the content, unless it was finished."""
        for array in self._arrays.values():
            array.close()

    def _check_size(self) -> None:
        if self._limit is None or self._in_files:
            return
        row_bytes = sum(
            self._arrays[name].dtype.itemsize * entries for name, entries in self._per_row.items()
        )
        if max(self._shape[0], self._expected) * row_bytes > self._limit:
            for name, entries in self._per_row.items():
                self._arrays[name].move_to_file(self._folder, self._expected * entries)
            self._in_files = True
