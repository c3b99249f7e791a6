"""Files of data sets: the user's folder, the cache, or a download from the publisher.

Downloads go through `pooch`, which retries them and puts them in place only when complete.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pooch

from discreet.errors import TableError
from discreet_bench.datasets.catalogue import Entry, SourceFile

__all__ = ["Found", "cache_folder", "data_folders", "obtain", "open_found", "where"]

RETRIES, TIMEOUT = 3, 20.0
_OPENERS: dict[str, Callable[..., Any]] = {
    "": open,
    ".gz": gzip.open,
    ".xz": lzma.open,
    ".bz2": bz2.open,
}
_DAMAGED = (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Found:
    """A file on this machine.

    Attributes
    ----------
    file, path
        Which file of the catalogue it is, and its path.
    member
        Its name in the archive, if ``path`` is a zip file.
    packing
        Compression: ".gz", ".xz", ".bz2", or "" for none.
    """

    file: SourceFile
    path: Path
    member: str = ""
    packing: str = ""


def cache_folder() -> Path:
    """Return the folder for downloads: DISCREET_CACHE, or "discreet" in the user's cache."""
    given = os.environ.get("DISCREET_CACHE")
    return Path(given).expanduser() if given else Path(pooch.os_cache("discreet"))


def data_folders(data_dir: str | os.PathLike[str] | None = None) -> list[Path]:
    """Return the folders to search, in order: ``data_dir`` or DISCREET_DATA, then the cache."""
    if data_dir is not None and not Path(data_dir).expanduser().is_dir():
        raise FileNotFoundError(
            f"data_dir: there is no folder {os.fspath(data_dir)}. Name the folder that has one "
            "folder per data set, or leave data_dir out to search the cache."
        )
    given = data_dir if data_dir is not None else os.environ.get("DISCREET_DATA")
    return [*([Path(given).expanduser()] if given else []), cache_folder()]


def where(known: Entry, data_dir: str | os.PathLike[str] | None = None) -> str:
    """Return the folder of a data set, or "generated", "download" or "by hand"."""
    if known.format == "generated":
        return "generated"
    found = [_find(known, file, data_folders(data_dir)) for file in known.files]
    if found[0] is not None and all(found):
        return str(found[0].path.parent)
    return "download" if all(file.url for file in known.files) else "by hand"


@contextmanager
def obtain(
    known: Entry,
    split: str | None,
    *,
    data_dir: str | os.PathLike[str] | None,
    cache: bool,
    download: bool,
) -> Iterator[tuple[Found, ...]]:
    """Find the files of a data set, and download those that are missing.

    A download that is not to be cached is removed when the context ends.
    """
    folders, needed = data_folders(data_dir), known.files_of(split)
    missing = [file for file in needed if _find(known, file, folders) is None]
    with tempfile.TemporaryDirectory(prefix="discreet-") as temporary:
        if missing:
            kept = cache_folder() if cache else Path(temporary)
            reason = "Downloads are switched off."
            if download:
                reason = _download(missing, kept / known.folder)
            if reason is not None:
                raise _not_found(known, missing, folders, reason)
            folders = [*folders, kept]
        found = (_find(known, file, folders) for file in needed)
        yield tuple(file for file in found if file is not None)


@contextmanager
def open_found(found: Found) -> Iterator[io.BufferedReader]:
    """Open a file for reading bytes, unpacked, and check its checksum on the way.

    A copy whose content is not the publisher's is read all the same, with a warning.
    """
    with _unpacked(found) as stream:
        hashed = _Hashed(stream, found.path)
        with io.BufferedReader(hashed, _BLOCK) as reader:
            yield reader
            while reader.read(_BLOCK):
                pass
    if found.file.sha256 and hashed.digest.hexdigest() != found.file.sha256:
        warnings.warn(
            f"{found.path} is not the publisher's file: its content has another checksum than "
            f"{found.file.name} should have. Results may differ from published ones.",
            UserWarning,
            stacklevel=2,
        )


def _find(known: Entry, file: SourceFile, folders: Sequence[Path]) -> Found | None:
    """Look for a file: plain, compressed or in its archive."""
    for folder in (base / known.folder for base in folders):
        for suffix in _OPENERS:
            if (path := folder / f"{file.name}{suffix}").is_file():
                return Found(file, path, packing=suffix)
        if file.archive and (path := folder / file.archive).is_file():
            return Found(file, path, file.name)
    return None


def _download(files: Sequence[SourceFile], folder: Path) -> str | None:
    """Download the publisher's files; return the reason if that is not possible."""
    if not all(file.url for file in files):
        return ""
    for url in dict.fromkeys(file.url for file in files):  # one archive may hold several
        held = [file for file in files if file.url == url]
        name = held[0].archive or _download_name(held[0])
        source = pooch.create(folder, "", registry={name: None}, urls={name: url},
                              retry_if_failed=RETRIES)  # fmt: skip
        try:
            source.fetch(name, downloader=pooch.HTTPDownloader(timeout=TIMEOUT))
        except OSError as error:  # requests' errors are OSErrors
            text = " ".join(str(error).split())[:200]
            return f"It could not be downloaded from {url} ({type(error).__name__}: {text})."
        if not all(_is_right(file, folder / name) for file in held):
            (folder / name).unlink()
            return f"What {url} sent is not the publisher's file (wrong checksum or damaged)."
    return None


def _download_name(file: SourceFile) -> str:
    """Return the name under which a download is kept: that of the file, compressed as it came."""
    suffix = file.packed or Path(file.url).suffix
    return file.name + suffix if suffix in _OPENERS else file.name


def _is_right(file: SourceFile, path: Path) -> bool:
    """Tell whether a download can be unpacked and has the publisher's content."""
    packing = "" if file.archive else path.name.removeprefix(file.name)
    try:
        with _unpacked(Found(file, path, file.name if file.archive else "", packing)) as stream:
            hashed = _Hashed(stream, path)
            while hashed.read(_BLOCK):
                pass
    except (TableError, FileNotFoundError):
        return False
    return not file.sha256 or hashed.digest.hexdigest() == file.sha256


@contextmanager
def _unpacked(found: Found) -> Iterator[IO[bytes]]:
    if not found.member:
        with _OPENERS[found.packing](found.path, "rb") as stream:
            yield stream
        return
    try:
        archive = zipfile.ZipFile(found.path)
    except zipfile.BadZipFile:
        raise _damaged(found.path) from None
    with archive:
        inside = [name for name in archive.namelist() if name.split("/")[-1] == found.member]
        if not inside:
            raise FileNotFoundError(
                f"{found.path} has no member {found.member}; get the archive again."
            )
        with archive.open(inside[0]) as stream:
            yield stream


class _Hashed(io.RawIOBase):
    """A stream that computes the checksum of everything read from it."""

    def __init__(self, stream: IO[bytes], path: Path) -> None:
        self._stream, self._path = stream, path
        self.digest = hashlib.sha256()

    def readable(self) -> bool:
        """Return True."""
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


def _not_found(
    known: Entry, files: Sequence[SourceFile], folders: Sequence[Path], reason: str
) -> FileNotFoundError:
    """Say which files to get, from where, and where to put them."""
    names = " and ".join(dict.fromkeys(file.archive or file.name for file in files))
    archived = any(file.archive for file in files)
    packed = "" if archived else " (plain, or packed as .gz, .xz or .bz2)"
    by_hand = f": {known.by_hand}" if known.by_hand else ""
    searched = " or ".join(str(folder / known.folder) for folder in folders)
    # The remedy comes first: a network's message is long and helps few.
    return FileNotFoundError(
        f"the data set {known.name!r} ({known.title}) is not in {searched}. To get it by hand, go "
        f"to {known.source}{by_hand}. Put {names}{packed} into the folder "
        f"{folders[0] / known.folder}; another folder in place of {folders[0]} can be named with "
        f"data_dir=… or DISCREET_DATA. {reason}".rstrip()
    )
