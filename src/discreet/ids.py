"""Comparison of ids: which ids name the same privacy unit.

Every reader of ids compares them here, in whatever array, file or block they are. Ids that name the
same unit but are written differently (1 and 1.0, "1" and "1.0", one instant in two time zones) must
not become two units: each would have a total weight of 1. Two units that are taken for one are
protected together, so a doubt is decided for one unit. Proof: docs/proofs/unit.md.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from datetime import UTC, date, datetime, timedelta
from numbers import Number
from typing import Any, NamedTuple

import numpy as np

MIXED = (
    "mixes kinds of ids, such as numbers and texts, or times with and without a time zone: 1 and "
    "'1' would be two people, though they may be one. Convert all ids to one type."
)

_LONGEST = 400
"""Digits of a whole number that are written out; more are written with an exponent."""

_NUMBER = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,18}))?", re.ASCII)
_START = frozenset("+-.0123456789")

_SECOND = 10**18
_ATTOSECONDS = {
    "W": 7 * 86_400 * _SECOND,
    "D": 86_400 * _SECOND,
    "h": 3_600 * _SECOND,
    "m": 60 * _SECOND,
    "s": _SECOND,
    "ms": 10**15,
    "us": 10**12,
    "ns": 10**9,
    "ps": 10**6,
    "fs": 10**3,
    "as": 1,
}
_EPOCH = datetime(1970, 1, 1)


class Id(NamedTuple):
    """The kind of an id, and a value that ids of this kind share if they name the same unit."""

    kind: Hashable
    value: Hashable


def compared(value: Any) -> Id:
    """Return the form of a hashable id that is compared; no id is missing.

    Numbers are compared by value. Texts are compared without the spaces around them, and by value
    if they are numbers, digit by digit. Times are compared as instants; a date is its midnight.
    """
    if isinstance(value, str):
        return Id("text", _text(value))
    if isinstance(value, Number | np.bool_):
        return Id("number", value)
    if isinstance(value, tuple):
        entries = [compared(entry) for entry in value]
        kinds = ("tuple", *(entry.kind for entry in entries))
        return Id(kinds, tuple(entry.value for entry in entries))
    if isinstance(value, np.datetime64):
        return Id("time", _instant(value))
    if isinstance(value, datetime):
        aware = value.utcoffset() is not None
        return Id("time with a zone" if aware else "time", _of_datetime(value, aware))
    if isinstance(value, date):
        return Id("time", _of_datetime(datetime(value.year, value.month, value.day), False))
    return Id("bytes" if isinstance(value, bytes) else type(value).__name__, value)


def _text(text: str) -> str:
    """Return a text without the spaces around it; for one that is a number, the number's text."""
    text = text.strip()
    if text[:1] not in _START:
        return text
    if text.isdecimal() and text.isascii() and text[0] != "0" and len(text) <= _LONGEST:
        return text
    found = _NUMBER.fullmatch(text)
    if found is None:
        return text
    sign, whole, fraction, power = found.groups("")
    if not whole + fraction:
        return text
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return "0"
    kept = digits.rstrip("0")
    exponent = int(power or 0) - len(fraction) + len(digits) - len(kept)
    sign = sign.rstrip("+")
    if 0 <= exponent <= _LONGEST - len(kept):
        return f"{sign}{kept}{'0' * exponent}"
    return f"{sign}{kept}e{exponent}"


def _of_datetime(value: Any, aware: bool) -> int:
    """Return the attoseconds since 1970, of UTC if the time has a zone."""
    if hasattr(value, "to_datetime64"):  # a time of pandas, which may have nanoseconds
        return _instant((value.tz_convert(None) if aware else value).to_datetime64())
    since: timedelta = value - (_EPOCH.replace(tzinfo=UTC) if aware else _EPOCH)
    return since // timedelta(microseconds=1) * _ATTOSECONDS["us"]


def _instant(value: np.datetime64) -> int:
    unit, step = np.datetime_data(value.dtype)
    if unit in ("Y", "M"):
        return _instant(value.astype("datetime64[D]"))
    return int(value.astype(np.int64)) * step * _ATTOSECONDS[unit]
