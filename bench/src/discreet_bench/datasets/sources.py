"""Getting hold of a data set: a folder, the cache, scikit-learn's fetchers, the publisher."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet.errors import TableError
from discreet_bench.datasets.entries import Entry, SourceFile
from discreet_bench.datasets.fetchers import FETCHERS
from discreet_bench.datasets.fetching import download
from discreet_bench.datasets.places import (
    Found,
    cache_folder,
    content_sha256,
    data_folders,
    find,
)

__all__ = ["Obtained", "obtain", "where"]


_MAY_BE_PACKED = " (plain, or packed as .gz, .xz or .bz2)"


@dataclass(frozen=True)
class Obtained:
    """A data set that is at hand: its files, or what a fetcher of scikit-learn returned."""

    files: tuple[Found, ...] = ()
    fetched: Any = None


def where(known: Entry, data_dir: str | os.PathLike[str] | None = None) -> str:
    """How a data set can be had: a folder, "generated", "download" or "by hand"."""
    if known.format == "generated":
        return "generated"
    found = [find(known, file, data_folders(data_dir)) for file in known.files]
    if all(found):
        return str(found[0].path.parent) if found[0] else ""
    can_download = known.fetcher or all(file.url for file in known.files)
    return "download" if can_download else "by hand"


@contextmanager
def obtain(
    known: Entry,
    split: str | None,
    *,
    fields: Sequence[str],
    data_dir: str | os.PathLike[str] | None,
    cache: bool,
    may_download: bool,
    progress: Callable[[float], None] | None,
) -> Iterator[Obtained]:
    """Get a data set, from the nearest place that has it.

    A download that is not to be cached is gone when the context ends.
    """
    folders = data_folders(data_dir)
    needed = known.files_of(split)
    found = [find(known, file, folders) for file in needed]
    if all(found):
        yield Obtained(files=tuple(file for file in found if file))
        return
    missing = [file for file, at in zip(needed, found, strict=True) if not at]
    if not may_download:
        raise _not_found(known, missing, folders, "Downloads are switched off.")
    with _kept(cache) as kept:
        reasons: list[str] = []
        fetched = _fetch(known, fields, kept / "scikit-learn", reasons) if known.fetcher else None
        if fetched is not None:
            yield Obtained(fetched=fetched)
        elif _download(known, missing, kept / known.folder, progress, reasons):
            again = [find(known, file, [*folders, kept]) for file in needed]
            yield Obtained(files=tuple(file for file in again if file))
        else:
            raise _not_found(known, missing, folders, *reasons)


@contextmanager
def _kept(cache: bool) -> Iterator[Path]:
    """The cache, or a folder that is removed afterwards."""
    if cache:
        yield cache_folder()
        return
    with tempfile.TemporaryDirectory(prefix="discreet-") as folder:
        yield Path(folder)


def _fetch(known: Entry, fields: Sequence[str], folder: Path, reasons: list[str]) -> Any:
    """What scikit-learn's fetcher returns; None if it cannot."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of each attempt that fails
            return FETCHERS[known.fetcher](known, fields, folder)
    except (OSError, ValueError, ImportError) as error:
        reasons.append(f"scikit-learn could not fetch it ({_brief(error)}).")
        return None


def _download(
    known: Entry,
    files: Sequence[SourceFile],
    folder: Path,
    progress: Callable[[float], None] | None,
    reasons: list[str],
) -> bool:
    """Download the publisher's files; False if that is not possible."""
    if not all(file.url for file in files):
        return False
    addresses = {file.url: [] for file in files}  # one archive may hold several of them
    for file in files:
        addresses[file.url].append(file)
    for place, (url, held) in enumerate(addresses.items()):
        path = folder / (held[0].archive or _stored_name(held[0]))

        def share(done: float, place: int = place) -> None:
            if progress is not None:
                progress((place + done) / len(addresses))

        def right(part: Path, held: list[SourceFile] = held, path: Path = path) -> bool:
            return all(_is_right(file, part, path) for file in held)

        try:
            download(url, path, check=right, progress=share)
        except OSError as error:
            reasons.append(_sentence(error))
            return False
    return True


def _stored_name(file: SourceFile) -> str:
    """The name under which a download is kept: that of the file, packed as the address says."""
    suffix = Path(file.url).suffix
    return file.name + suffix if suffix in (".gz", ".bz2", ".xz") else file.name


def _is_right(file: SourceFile, part: Path, path: Path) -> bool:
    """Whether a whole download can be unpacked and has the publisher's content."""
    packing = "" if file.archive else path.name.removeprefix(file.name)
    found = Found(file, part, file.name if file.archive else "", packing)
    try:
        content = content_sha256(found)
    except (TableError, FileNotFoundError):
        return False
    return not file.sha256 or content == file.sha256


def _not_found(
    known: Entry, files: Sequence[SourceFile], folders: Sequence[Path], *reasons: str
) -> FileNotFoundError:
    """What to get, from where, and where to put it."""
    names = " and ".join(dict.fromkeys(file.archive or file.name for file in files))
    packed = "" if any(file.archive for file in files) else _MAY_BE_PACKED
    target = folders[0] / known.folder
    by_hand = f": {known.by_hand}" if known.by_hand else ""
    # What to do comes first: what a network has to say is long and helps few.
    return FileNotFoundError(
        f"the data set {known.name!r} ({known.title}) is not in "
        f"{' or '.join(str(folder / known.folder) for folder in folders)}. To get it by hand, go "
        f"to {known.source}{by_hand}. Put {names}{packed} into the folder {target}; another folder "
        f"in place of {folders[0]} can be named with data_dir=… or DISCREET_DATA."
        + "".join(f" {reason}" for reason in reasons)
    )


def _brief(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__


def _sentence(error: Exception) -> str:
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}"
