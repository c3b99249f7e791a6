"""JSON that knows when it was damaged: a checksum over its content, and one way to write it.

Every entry of the outermost object stands on a line of its own, the last is a SHA-256 of all
others. White space between values may change; any other change is found. It is a checksum, not a
signature: who can write the file can also compute a new one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any, NoReturn

from discreet.errors import ModelFileError
from discreet.files import replacing

__all__ = ["read", "write"]

LARGEST = 2**30
"""Bytes of the largest file that is read: ten million weights take a quarter of it."""

_CHECKSUM = "sha256"
_BETWEEN = re.compile(r'("(?:[^"\\]|\\.)*")|[ \t\r\n]+')


def write(content: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Write the content and its checksum; the file is replaced as a whole or not at all."""
    entries = {**content, _CHECKSUM: _checksum(content)}
    lines = (f"{_compact(key)}: {_compact(value)}" for key, value in entries.items())
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    with replacing(path) as stream:
        stream.write(text)


def read(path: str | os.PathLike[str], known: str, version: int) -> dict[str, Any]:
    """The content of a file of the format ``known`` in at most this version, without checksum."""
    path = Path(path)
    if path.stat().st_size > LARGEST:
        raise ModelFileError(f"{path} is larger than {LARGEST:,} bytes: too large for a model.")
    try:
        text = path.read_bytes().decode("utf-8")
        content = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except ModelFileError as error:
        raise ModelFileError(f"{path} is not a model file: {error}") from None
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError and JSON's among them
        kind = "it is nested too deeply" if isinstance(error, RecursionError) else "it is not JSON"
        raise ModelFileError(f"{path} is not a model file, or is damaged: {kind}.") from None
    if not isinstance(content, dict) or content.get("format") != known:
        raise ModelFileError(
            f"{path} is not a model file of discreet: its format must be {known!r}."
        )
    _check_version(path, content.get("version"), version)
    stated = content.pop(_CHECKSUM, None)
    try:
        expected = _checksum(content)
        squeezed = _BETWEEN.sub(lambda found: found[1] or "", text)
        unchanged = squeezed == _compact({**content, _CHECKSUM: stated})
    except (ValueError, RecursionError):  # a number that reads as infinite, or nesting
        raise ModelFileError(f"{path} is damaged: it cannot be written as it was read.") from None
    if stated != expected or not unchanged:
        raise ModelFileError(
            f"{path} is damaged or was changed by hand: its checksum does not match. Write the "
            "model again with discreet.save, or take the file from where it came."
        )
    return content


def _check_version(path: Path, found: Any, version: int) -> None:
    if isinstance(found, bool) or not isinstance(found, int) or found < 1:
        raise ModelFileError(f"{path} has no version that can be read.")
    if found > version:
        raise ModelFileError(
            f"{path} was written in version {found} of the format; this discreet reads up to "
            f"version {version}. Install a newer discreet."
        )


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def _checksum(content: dict[str, Any]) -> str:
    """SHA-256 over the content in the order in which it is written."""
    return hashlib.sha256(_compact(content).encode("ascii")).hexdigest()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise ModelFileError("an object in it has two entries of one name.")
    return entries


def _no_constant(name: str) -> NoReturn:
    raise ModelFileError(f"it has {name} where a number must be.")
