"""Downloads: resumed where they were cut off, tried again, and put in place only when whole."""

from __future__ import annotations

import http.client
import os
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["download"]

Progress = Callable[[float], None]
ATTEMPTS, TIMEOUT = 4, 20.0
_BLOCK = 1 << 16
_PASSING = (408, 425, 429, 500, 502, 503, 504)


class _CutOffError(Exception):
    """The connection ended before the file did; what has come is kept."""


def download(
    url: str,
    path: Path,
    *,
    check: Callable[[Path], bool] | None = None,
    progress: Progress | None = None,
    pause: float = 1.0,
) -> None:
    """Download a file.

    What has come of it stands in ``path``.part, where the next call goes on if this one is cut off
    (if the server can: otherwise it starts again). Only a whole file that passes ``check`` gets
    its name.

    Parameters
    ----------
    url : str
        An address of http or https.
    path : Path
        Where to put it; folders are made.
    check : callable, optional
        Tells from the path of the whole file whether it is the right one.
    progress : callable, optional
        Called with the share that has come, from 0 to 1.
    pause : float
        Seconds before the second attempt; doubled before each further one.

    Raises
    ------
    OSError
        If the file cannot be had; the text says why and what to do.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _transfer(url, part, progress)
            break
        except _CutOffError as reason:
            if attempt == ATTEMPTS:
                raise OSError(
                    f"could not download {url}: {reason} ({ATTEMPTS} attempts). What has come is "
                    f"kept in {part}; call again to go on, or put the file at {path} by hand."
                ) from None
            time.sleep(pause * 2 ** (attempt - 1))
    if check is not None and not check(part):
        part.unlink()
        raise OSError(
            f"what came from {url} is not the publisher's file (wrong checksum or damaged); it was "
            f"removed. Try again later, or put the file at {path} by hand."
        )
    os.replace(part, path)


def _transfer(url: str, part: Path, progress: Progress | None) -> None:
    """Fetch what is missing of the file."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "discreet"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            _receive(answer, part, have, progress)
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:  # nothing is missing, or the part is of another file
            if _total(error.headers.get("Content-Range")) == have:
                return
            part.unlink()
            raise _CutOffError("the server does not have the part that was missing") from None
        if error.code in _PASSING:
            raise _CutOffError(f"the server answered {error.code} {error.reason}") from None
        raise OSError(
            f"could not download {url}: the server answered {error.code} {error.reason}. Look for "
            "the file at the publisher's, and put it into the data folder by hand."
        ) from None
    except urllib.error.URLError as error:
        if isinstance(error.reason, socket.gaierror | ConnectionRefusedError):
            raise OSError(
                f"could not download {url}: no connection ({error.reason}). Connect to the "
                "network, or put the file into the data folder by hand."
            ) from None
        raise _CutOffError(str(error.reason)) from None
    except (OSError, http.client.HTTPException) as error:
        raise _CutOffError(f"the connection broke off ({type(error).__name__})") from None


def _receive(answer: Any, part: Path, have: int, progress: Progress | None) -> None:
    """Write what comes, after what is there if the server goes on from there."""
    if answer.status == 206 and _start(answer.headers.get("Content-Range")) == have:
        mode = "ab"
    else:
        mode, have = "wb", 0
    length = answer.headers.get("Content-Length")
    total = None if length is None else have + int(length)
    with part.open(mode) as file:
        while block := answer.read(_BLOCK):
            file.write(block)
            have += len(block)
            if progress is not None and total:
                progress(have / total)
    if total is not None and have < total:
        raise _CutOffError("the connection broke off before the end")


def _start(content_range: str | None) -> int | None:
    """The first byte that an answer of status 206 holds: ``bytes 5-9/10``."""
    first = (content_range or "").removeprefix("bytes ").split("-")[0]
    return int(first) if first.isdigit() else None


def _total(content_range: str | None) -> int | None:
    """The size of the whole file that an answer of status 416 states: ``bytes */10``."""
    size = (content_range or "").rpartition("/")[2]
    return int(size) if size.isdigit() else None
