"""Where files of data sets are: the caller's folder, the cache, and how to open them."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import sys
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from discreet.errors import TableError
from discreet_bench.datasets.entries import Entry, SourceFile

__all__ = ["Found", "cache_folder", "content_sha256", "data_folders", "find", "open_found"]

_PACKED: dict[str, Callable[..., Any]] = {
    "": open,
    ".gz": gzip.open,
    ".xz": lzma.open,
    ".bz2": bz2.open,
}
_DAMAGED = (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Found:
    """A file that was found.

    Attributes
    ----------
    file, path
        What it is and where.
    member
        Its name in the archive, if ``path`` is a zip file.
    packing
        How it is packed: ".gz", ".xz", ".bz2", or "" for not at all.
    """

    file: SourceFile
    path: Path
    member: str = ""
    packing: str = ""


def cache_folder() -> Path:
    """The folder for downloads: DISCREET_CACHE, or "discreet" in the user's folder for caches."""
    if os.environ.get("DISCREET_CACHE"):
        return Path(os.environ["DISCREET_CACHE"]).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "discreet"


def data_folders(data_dir: str | os.PathLike[str] | None = None) -> list[Path]:
    """The folders to look in, in order: ``data_dir`` or DISCREET_DATA, then the cache."""
    if data_dir is not None and not Path(data_dir).expanduser().is_dir():
        raise FileNotFoundError(
            f"data_dir: there is no folder {os.fspath(data_dir)}. Name the folder that holds a "
            "folder for each data set, or leave data_dir out to look in the cache."
        )
    given = data_dir if data_dir is not None else os.environ.get("DISCREET_DATA")
    return [*([Path(given).expanduser()] if given else []), cache_folder()]


def find(known: Entry, file: SourceFile, folders: list[Path]) -> Found | None:
    """Look for a file of a data set, plain, packed or in its archive."""
    for folder in (base / known.folder for base in folders):
        for suffix in _PACKED:
            if (path := folder / f"{file.name}{suffix}").is_file():
                return Found(file, path, packing=suffix)
        if file.archive and (path := folder / file.archive).is_file():
            return Found(file, path, file.name)
    return None


@contextmanager
def open_found(found: Found, *, warn: bool = True) -> Iterator[io.BufferedReader]:
    """Open a file for reading bytes, unpacked, and compare its checksum on the way.

    A copy whose content is not the publisher's is read all the same, with a warning that names the
    file. The content is read once; what the reader leaves is read for the checksum alone.
    """
    with _unpacked(found) as stream:
        hashed = _Hashed(stream, found.path)
        with io.BufferedReader(hashed, _BLOCK) as reader:
            yield reader
            while reader.read(_BLOCK):
                pass
    if warn and found.file.sha256 and hashed.digest.hexdigest() != found.file.sha256:
        warnings.warn(
            f"{found.path} is not the publisher's file: its content has another checksum than "
            f"{found.file.name} should have. Results may differ from published ones.",
            UserWarning,
            stacklevel=2,
        )


def content_sha256(found: Found) -> str:
    """Checksum of a file's unpacked content."""
    with _unpacked(found) as stream:
        hashed = _Hashed(stream, found.path)
        buffer = bytearray(_BLOCK)
        while hashed.readinto(buffer):
            pass
    return hashed.digest.hexdigest()


@contextmanager
def _unpacked(found: Found) -> Iterator[IO[bytes]]:
    if found.member:
        try:
            archive = zipfile.ZipFile(found.path)
        except zipfile.BadZipFile:
            raise _damaged(found.path) from None
        with archive, archive.open(_member(archive, found)) as stream:
            yield stream
        return
    with _PACKED[found.packing](found.path, "rb") as stream:
        yield stream


def _member(archive: zipfile.ZipFile, found: Found) -> str:
    """The member of that name, in whatever folder of the archive it stands."""
    for name in archive.namelist():
        if name.rsplit("/", 1)[-1] == found.member:
            return name
    raise FileNotFoundError(f"{found.path} has no member {found.member}; get the archive again.")


class _Hashed(io.RawIOBase):
    """A stream that adds up the checksum of what is read from it."""

    def __init__(self, stream: IO[bytes], path: Path) -> None:
        self._stream, self._path = stream, path
        self.digest = hashlib.sha256()

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer."""
        try:
            block = self._stream.read(len(buffer))
        except _DAMAGED:
            raise _damaged(self._path) from None
        buffer[: len(block)] = block
        self.digest.update(block)
        return len(block)


def _damaged(path: Path) -> TableError:
    return TableError(f"{path} is damaged or cut off and cannot be unpacked; get it again.")
