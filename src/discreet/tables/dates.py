"""Cells of a column of dates as days and times of day: each by its own content and the declaration.

Arrow stores dates and times as whole numbers since 1970, those with a time zone in UTC. Texts are
read by ISO 8601, or by the form that is declared. Nothing here raises an error about a cell.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.tables.columns import DAYS_PER_YEAR, ORIGIN, SPACES, Date
from discreet.tables.messages import arrow
from discreet.validate import FloatArray

if TYPE_CHECKING:
    import pyarrow as pa

EPOCH = datetime.datetime(1970, 1, 1)
"""Date from which Arrow counts."""

MICROSECONDS = 86_400_000_000
"""Microseconds of a day."""

_SINCE_EPOCH = (ORIGIN - EPOCH).days
_THURSDAY = 3  # weekday of the epoch, counted from Monday
_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": MICROSECONDS, "ns": 86_400_000_000_000}


@dataclass(frozen=True, eq=False)
class Moments:
    """Times as whole days since 1970 and microseconds of the day; both are 0 if one is absent."""

    days: NDArray[np.int64]
    microseconds: NDArray[np.int64]
    absent: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.days)

    def numbers(self, per: str) -> FloatArray:
        """Return days, or years, since 2000-01-01; NaN for a missing cell."""
        found = (self.days - _SINCE_EPOCH) + self.microseconds / MICROSECONDS
        found[self.absent] = np.nan
        return np.asarray(found if per == "day" else found / DAYS_PER_YEAR)

    def levels(self, part: str) -> NDArray[np.int64]:
        """Return the index of each cell's level of a part; -1 for a missing cell."""
        if part == "month":
            found = self.days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) % 12
        elif part == "weekday":
            found = (self.days + _THURSDAY) % 7
        else:
            found = self.microseconds // (MICROSECONDS // 24)
        return np.where(self.absent, -1, found)


def is_date(kind: Any) -> bool:
    """Return True if cells of an Arrow type have a date, not only a time of day or a duration."""
    types = arrow().types
    while types.is_dictionary(kind) or hasattr(kind, "storage_type"):
        kind = kind.value_type if types.is_dictionary(kind) else kind.storage_type
    return bool(types.is_date(kind) or types.is_timestamp(kind))


def moments(cells: pa.Array, column: Date, markers: Iterable[str]) -> Moments | None:
    """Return the times of a column's cells; None if a cell is not a date and that is refused.

    ``cells`` are no dictionary. ``markers`` are texts that mean a missing cell.
    """
    pa = arrow()
    kind = cells.type
    if pa.types.is_null(kind):
        return _counted(np.zeros(len(cells), np.int64), 1, np.ones(len(cells), bool))
    if not is_date(kind):
        return _parsed(cells, column, frozenset(markers))
    absent = np.asarray(cells.is_null().to_numpy(zero_copy_only=False), dtype=bool)
    whole = pa.int32() if pa.types.is_date32(kind) else pa.int64()
    stored = cells.cast(whole).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    per_day = 1 if pa.types.is_date32(kind) else _PER_DAY[getattr(kind, "unit", "ms")]
    return _counted(stored, per_day, absent)


def _counted(stored: NDArray[np.int64], per_day: int, absent: NDArray[np.bool_]) -> Moments:
    """Return times that are stored as whole numbers, ``per_day`` of them to a day."""
    days, rest = np.divmod(stored, per_day)
    if per_day > MICROSECONDS:
        rest = rest // (per_day // MICROSECONDS)
    else:
        rest = rest * (MICROSECONDS // per_day)
    return Moments(np.where(absent, 0, days), np.where(absent, 0, rest), absent)


def _parsed(cells: pa.Array, column: Date, markers: frozenset[str]) -> Moments | None:
    """Read texts, each distinct one once; None if one is not a date and that is refused."""
    pa = arrow()
    if not (pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type)):
        return None
    coded = cells.dictionary_encode()
    found: list[int | None] = []
    for text in coded.dictionary.to_pylist():
        stripped = text.strip(SPACES)
        moment = None if stripped in markers else _read(stripped, column.format)
        if moment is None and stripped not in markers and column.invalid == "refuse":
            return None
        found.append(moment)
    known = np.array([*(0 if moment is None else moment for moment in found), 0], dtype=np.int64)
    missing = np.array([*(moment is None for moment in found), True])
    indices = coded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    return _counted(known[indices], MICROSECONDS, missing[indices])


def _read(text: str, form: str | None) -> int | None:
    """Return microseconds since 1970 of a text, in UTC if it has a zone; None if it is no date."""
    try:
        if form is None:
            moment = datetime.datetime.fromisoformat(text)
        else:
            moment = datetime.datetime.strptime(text, form)
        if moment.tzinfo is not None:
            moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None
    return (moment - EPOCH) // datetime.timedelta(microseconds=1)
