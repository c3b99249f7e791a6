"""Encoded tables beyond the memory allowed for them: the same rows, and nothing left behind."""

from __future__ import annotations

import errno
import io
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet.errors import TableError
from discreet.tables import Categorical, Numeric, Schema, Target, parts, storage
from discreet.tables import encoder as encoder_module
from discreet.tables.storage import GrowingArray, memory_limit

SCHEMA = Schema({"a": Numeric(0, 1), "b": Numeric(0, 1)}, Target("y", ["no", "yes"]))
ROWS = 5000


def table(n_rows: int = ROWS) -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table({"a": rng.random(n_rows), "b": rng.random(n_rows), "y": ["no"] * n_rows})


def open_files() -> list[str]:
    """The files without a name that this process has open or mapped."""
    fds = [Path("/proc/self/fd") / fd for fd in os.listdir("/proc/self/fd")]
    found = [os.readlink(fd) for fd in fds if fd.is_symlink()]
    maps = Path("/proc/self/maps").read_text().splitlines()
    return [line for line in (*found, *maps) if line.endswith("(deleted)") and "/" in line]


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path) -> Iterator[None]:
    before = [line for line in open_files() if str(tmp_path) in line]
    yield
    assert [line for line in open_files() if str(tmp_path) in line] == before


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (0, 0),
        (12345, 12345),
        ("2GB", 2 * 10**9),
        ("2g", 2 * 10**9),
        ("1.5 MiB", 3 * 2**19),
        (" 7 ", 7),
        ("3kB", 3000),
        ("1TB", 10**12),
    ],
)
def test_memory_is_bytes_or_a_text(setting: object, expected: int) -> None:
    assert memory_limit(setting) == expected


@pytest.mark.parametrize("setting", [-1, "2 sheep", "", "-2GB", True, 1.5, [1]])
def test_memory_that_is_none(setting: object) -> None:
    with pytest.raises(ValueError, match="memory must be a number of bytes, or a text like"):
        SCHEMA.open(table(), memory=setting)


def test_the_default_is_a_quarter_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < memory_limit(None) <= total // 4
    monkeypatch.setattr(Path, "read_text", lambda path: "4000000")
    assert memory_limit(None) == 1_000_000
    monkeypatch.setattr(Path, "read_text", lambda path: "max")
    assert memory_limit(None) == total // 4


def is_mapped(array: np.ndarray) -> bool:
    while isinstance(array, np.ndarray):
        array = array.base
    view = array.obj if isinstance(array, memoryview) else array
    return type(view).__name__ == "mmap"


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_limit_decides(known: bool, sparse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MOST_ROWS", 100)
    each = (2 * 8 + 4 if sparse else 8) + 12  # a row of X, and three letters of four bytes
    expected = SCHEMA.open(table(), sparse=sparse)
    for limit, mapped in ((ROWS * each, False), (ROWS * each - 1, True), (ROWS, True), (0, True)):
        data = table() if known else table().to_reader(100)
        found = SCHEMA.open(data, memory=limit, sparse=sparse)
        rows, reference = (found.X.data, expected.X.data) if sparse else (found.X, expected.X)
        assert is_mapped(rows) == is_mapped(found.y) == mapped
        np.testing.assert_array_equal(rows, reference)
        np.testing.assert_array_equal(found.y, expected.y)
        assert rows.flags.c_contiguous
        assert rows.flags.writeable != mapped
        del found, rows


def test_sparse_rows_of_more_entries_than_32_bits_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "LARGEST_SMALL_INDEX", 250)
    monkeypatch.setattr(parts, "MOST_ROWS", 64)
    schema = Schema({"c": Categorical(list("abcdefgh"))})
    cells = {"c": ["a", "h", "z"] * 200}
    found = schema.open(cells, memory=0)
    np.testing.assert_array_equal(found.X.toarray(), schema.open(cells, sparse=False).X)
    assert found.X.indptr.dtype == np.int64


def test_only_this_process_can_reach_the_file(tmp_path: Path) -> None:
    array = GrowingArray(np.float32)
    array.move_to_file(tmp_path)
    array.append(np.ones((3, 2)))
    file = array._file.fileno()
    found = os.fstat(file)
    assert stat.S_IMODE(found.st_mode) == 0o600
    assert found.st_nlink == 0
    assert list(tmp_path.iterdir()) == []
    assert not os.get_inheritable(file)
    assert array.finish().tolist() == [1.0] * 6


def test_file_systems_that_have_no_files_without_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "_O_TMPFILE_WORKS", False)
    test_only_this_process_can_reach_the_file(tmp_path)


def test_file_systems_that_cannot_reserve_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    found = SCHEMA.open(table(), memory=0, folder=tmp_path)
    np.testing.assert_array_equal(found.X, SCHEMA.open(table()).X)


def test_space_is_reserved_for_all_rows_before_any_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int, start: int, size: int) -> None:
        assert (start, size) == (0, ROWS * 8)
        raise OSError(errno.ENOSPC, "full")

    def unread(*args: object) -> None:
        raise AssertionError("a record was encoded")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    monkeypatch.setattr(encoder_module.Encoder, "encode", unread)
    pq.write_table(table(), tmp_path / "t.parquet")
    with pytest.raises(OSError, match="no space for an encoded table") as caught:
        SCHEMA.open(tmp_path / "t.parquet", memory=0, folder=tmp_path)
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == os.fspath(tmp_path)


def write_to(kind: type[io.FileIO], monkeypatch: pytest.MonkeyPatch) -> None:
    """Write temporary files through a class of files."""
    make = tempfile.TemporaryFile

    def made(**options: object) -> io.FileIO:
        with make(**options) as file:
            return kind(os.dup(file.fileno()), "r+")

    monkeypatch.setattr(tempfile, "TemporaryFile", made)


def test_a_disk_that_fills_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MOST_ROWS", 500)
    room = [20_000]

    class Limited(io.FileIO):
        def write(self, data: memoryview) -> int:
            if room[0] <= 0:
                raise OSError(errno.ENOSPC, "full")
            written = super().write(data[: room[0]])  # a part of it, as a real disk does
            room[0] -= written
            return written

    write_to(Limited, monkeypatch)
    with pytest.raises(OSError, match="pass folder= with one on a larger disk") as caught:
        SCHEMA.open(table().to_reader(), memory=0, folder=tmp_path)
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.__cause__ is None
    assert list(tmp_path.iterdir()) == []


def test_writes_may_be_partial(monkeypatch: pytest.MonkeyPatch) -> None:
    class Partial(io.FileIO):
        def write(self, data: memoryview) -> int:
            return super().write(data[:777])

    write_to(Partial, monkeypatch)
    found = SCHEMA.open(table(), memory=0)
    np.testing.assert_array_equal(found.X, SCHEMA.open(table()).X)


def test_a_bad_cell_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MOST_ROWS", 500)
    bad = table().set_column(0, "a", pa.array([0.5] * (ROWS - 1) + [None]))
    with pytest.raises(TableError, match="column 'a': a cell is missing"):
        SCHEMA.open(bad, memory=0, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        SCHEMA.open(table(), memory=0, folder=tmp_path / "none")


def test_the_system_decides_on_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", os.fspath(tmp_path / "none"))
    with pytest.raises(FileNotFoundError):
        SCHEMA.open(table(), memory=0)


def test_an_array_of_no_entries() -> None:
    array = GrowingArray(np.float64)
    array.move_to_file(None)
    array.append(np.empty(0))
    assert array.finish().shape == (0,)


LIMITED = """
import resource, sys
import numpy as np
import pyarrow as pa
from discreet.tables import Numeric, Schema
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
schema, data = Schema({"a": Numeric(0, 1)}), pa.table({"a": np.ones(100_000)})
try:
    schema.open(data, memory=int(sys.argv[2]), folder=sys.argv[1])
except OSError as error:
    print(error.strerror)
"""


@pytest.mark.process
@pytest.mark.parametrize("memory", [0, 250_000])
def test_a_limit_on_the_size_of_files(tmp_path: Path, memory: int) -> None:
    command = [sys.executable, "-c", LIMITED, os.fspath(tmp_path), str(memory)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "no space for an encoded table of 0.0004 GB" in done.stdout
    assert list(tmp_path.iterdir()) == []


WAITS = """
import sys, time
import numpy as np
from discreet.tables import Numeric, Schema
found = Schema({"a": Numeric(0, 1)}).open({"a": np.ones(100_000)}, memory=0, folder=sys.argv[1])
print(found.X.shape, flush=True)
time.sleep(60)
"""


@pytest.mark.process
def test_nothing_remains_of_a_process_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WAITS, os.fspath(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "(100000, 1)\n"
        assert list(tmp_path.iterdir()) == []
        process.send_signal(signal.SIGKILL)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.process
@pytest.mark.parametrize("known", [True, False])
def test_a_disk_that_is_full(tmp_path: Path, known: bool) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", os.fspath(tmp_path)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("only root can mount a disk")
    try:
        data = table(20_000)
        with pytest.raises(OSError, match="no space for an encoded table"):
            SCHEMA.open(data if known else data.to_reader(100), memory=0, folder=tmp_path)
        assert list(tmp_path.iterdir()) == []
        assert os.statvfs(tmp_path).f_bfree == os.statvfs(tmp_path).f_blocks
    finally:
        subprocess.run(["umount", os.fspath(tmp_path)], check=True)
