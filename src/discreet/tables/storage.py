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

    def widen(self, dtype: DTypeLike) -> None:
        """Go on with numbers of another type."""
        if self.dtype != dtype:
            in_file = self._file is not None
            content = self.finish().astype(dtype)
            self.dtype = content.dtype
            self.size = 0
            self._memory = bytearray()
            if in_file:
                self.move_to_file(self._folder)
            self.append(content)

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


class GrowingRows:
    """A dense or CSR matrix of ``width`` columns to which blocks of rows are added."""

    def __init__(self, width: int, *, sparse: bool, dtype: DTypeLike) -> None:
        self._width = width
        self._sparse = sparse
        self.n_rows = 0
        self._data = GrowingArray(dtype)
        self._indices = GrowingArray(np.int32)
        self._starts = GrowingArray(np.int32)

    def arrays(self, groups: int) -> dict[GrowingArray, int]:
        """Return the arrays and their entries per row; a sparse row has one per group."""
        if self._sparse:
            return {self._data: groups, self._indices: groups, self._starts: 1}
        return {self._data: self._width}

    def append(self, block: Any) -> None:
        """Add a block of rows, dense or CSR like the matrix."""
        self.n_rows += block.shape[0]
        if not self._sparse:
            self._data.append(block)
            return
        if self._data.size + block.data.size > LARGEST_SMALL_INDEX:
            self._starts.widen(np.int64)
        self._starts.append(block.indptr[:-1].astype(np.int64) + self._data.size)
        self._data.append(block.data)
        self._indices.append(block.indices)

    def finish(self) -> NDArray[Any] | sp.csr_array:
        """Return the matrix. Nothing can be added any more."""
        shape = (self.n_rows, self._width)
        if not self._sparse:
            return self._data.finish().reshape(shape)
        self._starts.append(np.array([self._data.size]))
        parts = (self._data.finish(), self._indices.finish(), self._starts.finish())
        return sp.csr_array(parts, shape=shape)


class GrowingTable:
    """Encoded rows with their targets and groups, to which blocks are added.

    ``target`` is the type of the targets, None without any; ``groups`` is the number of groups of
    encoded columns. Everything is in memory, unless `reserve` sets a limit.
    """

    def __init__(
        self, rows: GrowingRows, groups: int, target: DTypeLike | None, *, grouped: bool
    ) -> None:
        self._rows = rows
        self._targets = None if target is None else GrowingArray(target)
        self._people = GrowingArray(np.int32) if grouped else None
        self._per_row = rows.arrays(groups)
        for array in (self._targets, self._people):
            if array is not None:
                self._per_row[array] = 1
        self._expected = 0
        self._limit: int | None = None
        self._folder: str | os.PathLike[str] | None = None
        self._in_files = False

    def reserve(self, expected: int, limit: int, folder: str | os.PathLike[str] | None) -> None:
        """Go on in files once the table has more than ``limit`` bytes; at once if it will have."""
        self._expected = expected
        self._limit = limit
        self._folder = folder
        self._check_size()

    def append(
        self, encoded: Any, targets: NDArray[Any] | None, people: NDArray[np.int32] | None
    ) -> None:
        """Add a block."""
        self._rows.append(encoded)
        for array, block in ((self._targets, targets), (self._people, people)):
            if array is not None and block is not None:
                array.append(block)
        self._check_size()

    def finish(self) -> tuple[NDArray[Any] | sp.csr_array, NDArray[Any] | None, Any]:
        """Return rows, targets and groups, which have the same length."""
        targets = None if self._targets is None else self._targets.finish()
        people = None if self._people is None else self._people.finish()
        return self._rows.finish(), targets, people

    def close(self) -> None:
        """Give up the content, unless it was finished."""
        for array in self._per_row:
            array.close()

    def _check_size(self) -> None:
        if self._limit is None or self._in_files:
            return
        row_bytes = sum(array.dtype.itemsize * entries for array, entries in self._per_row.items())
        if max(self._rows.n_rows, self._expected) * row_bytes > self._limit:
            for array, entries in self._per_row.items():
                array.move_to_file(self._folder, self._expected * entries)
            self._in_files = True
