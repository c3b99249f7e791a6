"""Privacy units: whose row a row is, and the weights that make a unit count once.

Neighbouring data sets differ in one unit with all of its rows. Where the weights of each unit's
rows add up to at most 1, every weighted sum has the sensitivity for units that the plain sum has
for single rows. Proof: docs/proofs/unit.md.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import PrivacyError
from discreet.ids import MIXED, compared
from discreet.rows.bounds import UNIT_ROUNDOFF, WEIGHT_STEPS
from discreet.validate import FloatArray, integer

Codes = NDArray[np.signedinteger[Any]]

Unit = Literal["row", "person"]
"""Privacy units: a row, or a person with all of their rows."""


class RandomWords(Protocol):
    """A source of random 64-bit words, such as `discreet.core.bits.Bits`."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """Draw ``count`` words."""


_NO_CODES: Codes = np.empty(0, dtype=np.int32)

_DENSE = 4
"""Integers within a range of this many times the number of rows are looked up, not sorted."""


@dataclass(frozen=True, eq=False)
class RowWeights:
    """Weights of rows, checked and never written to again: rows share them.

    Attributes
    ----------
    values : ndarray
        From 0 to 1, in multiples of 2^-30; no entries if all are 1.
    size : int
        Public bound on their sum: the number of units.
    unit : {"row", "person"}
        Privacy unit of the rows. Where one row was drawn of each person, it is a person, too.
    grouped, codes
        True if rows may share a unit, and the unit of each row, a number below ``size``; no entries
        if it is not known here, or if each row is a unit.
    """

    values: FloatArray
    size: int
    unit: Unit = "row"
    grouped: bool = False
    codes: Codes = field(default_factory=_NO_CODES.copy)

    def __post_init__(self) -> None:
        if self.grouped and self.unit == "row" and not self.codes.size:
            raise PrivacyError(
                "Rows that share a unit can have the row as their privacy unit only if several "
                "were made of each row of a table, and the weights say of which."
            )

    @classmethod
    def of(
        cls,
        values: FloatArray,
        size: int,
        *,
        unit: Unit = "person",
        grouped: bool | None = None,
        codes: Codes = _NO_CODES,
    ) -> Self:
        """Round weights down to their grid, in place, and check their sum.

        Rows of people are taken to share their unit, unless ``grouped`` is False: then there is at
        most one row of each person.
        """
        if not ((values >= 0) & (values <= 1)).all():
            raise ValueError("weights must be numbers from 0 to 1.")
        values *= WEIGHT_STEPS
        np.floor(values, out=values)
        values /= WEIGHT_STEPS
        if values.sum() > size * (1 + 1e-9):
            raise PrivacyError("The weights of the rows add up to more than public_size.")
        shared = unit != "row" if grouped is None else grouped
        return cls(values, size, unit, shared, codes)


@dataclass(frozen=True, eq=False)
class Units:
    """The unit of each row: ``codes`` from 0 to ``count`` − 1, each of which occurs.

    ``unit`` is a person, or a row of the caller's table of which several rows were made.
    """

    codes: Codes
    count: int
    unit: Unit = "person"

    @classmethod
    def of(cls, ids: Any, n_rows: int) -> Self:
        """Return the units that ids name, one id per row; equal ids are one unit.

        Ids are hashable values of one kind, compared by `discreet.ids.compared`. An id that appears
        as 1 and as "1" would be two units, so numbers and texts together are refused, and so are
        missing ids. Messages show no id.
        """
        values = _one_per_row(ids, n_rows)
        codes, count = _coded(values)
        kind: type[np.signedinteger[Any]] = np.int32 if n_rows < 2**31 else np.int64
        return cls(codes.astype(kind, copy=False), count)

    def weights(self, rows_per_unit: int = 1, factors: FloatArray | None = None) -> RowWeights:
        """Return min(1/k, 1/m) for each row of a unit of m rows, times factors from 0 to 1.

        *Privacy.* On their grid, the weights of a unit add up to at most 1, whatever m is.
        """
        k = integer("rows_per_unit", rows_per_unit, remedy="1 makes each unit count once.")
        sizes = np.bincount(self.codes, minlength=self.count)
        values = (1.0 / np.maximum(sizes, k))[self.codes]
        if factors is not None:
            values *= factors
        return self._weights(values)

    def capped(self, values: FloatArray) -> RowWeights:
        """Return weights from 0 to 1, divided by their sum in units where it is above 1.

        *Privacy.* In whole steps of the grid, the weights of a unit add up to at most 1, and depend
        on the rows of that unit alone.
        """
        if not ((values >= 0) & (values <= 1)).all():
            raise ValueError("weights must be numbers from 0 to 1.")
        steps = np.floor(values * WEIGHT_STEPS).astype(np.int64)
        totals = np.zeros(self.count, dtype=np.int64)
        np.add.at(totals, self.codes, steps)
        steps = steps * WEIGHT_STEPS // np.maximum(totals, WEIGHT_STEPS)[self.codes]
        return self._weights(steps / WEIGHT_STEPS)

    def _weights(self, values: FloatArray) -> RowWeights:
        return RowWeights.of(values, self.count, unit=self.unit, grouped=True, codes=self.codes)

    def draw(self, bits: RandomWords) -> NDArray[np.intp]:
        """Draw one row of each unit at random, in the order of the table.

        *Privacy.* Which row of a unit is drawn depends on bits of that unit alone. So the drawn
        rows of neighbouring data sets, for the same bits, differ in one row.
        """
        order = np.argsort(self.codes, kind="stable")
        sizes = np.bincount(self.codes, minlength=self.count)
        shares = (bits.words(self.count) >> np.uint64(11)) * UNIT_ROUNDOFF
        at = np.minimum((shares * sizes).astype(np.intp), sizes - 1)
        return np.sort(order[np.cumsum(sizes) - sizes + at])

    def take(self, index: NDArray[np.intp]) -> Units:
        """Return the units of the named rows, numbered anew."""
        found, codes = np.unique(self.codes[index], return_inverse=True)
        return Units(np.asarray(codes, dtype=self.codes.dtype), len(found), self.unit)


def scaled_weights(
    weights: ArrayLike, n_rows: int, bound: float | None = None
) -> FloatArray | None:
    """Return public weights of rows, divided by the largest; None if all are the same.

    *Privacy.* With a public ``bound`` the weights are private: each is divided by it, and at most
    1. It depends on its own row alone, and what is done does not depend on the weights.
    """
    given, name = np.asarray(weights), "sample_weight"
    if given.shape != (n_rows,):
        raise ValueError(f"{name} must be one-dimensional, with one number for each row of X.")
    if given.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be numbers; its type is {given.dtype}.")
    values = given.astype(np.float64)
    if not (np.isfinite(values) & (values >= 0)).all():
        raise ValueError(f"{name} must be finite numbers of at least 0; some are not.")
    if bound is not None:
        return np.minimum(values / bound, 1.0)
    largest = values.max(initial=0.0)
    if not largest > 0:
        raise ValueError(f"{name} must have a number above 0; all weights are zero.")
    np.divide(values, largest, out=values)
    return None if values.min() == 1.0 else values


def _one_per_row(ids: Any, n_rows: int) -> NDArray[Any]:
    """Return ids as an array, after checks of form: objects if they came as a sequence."""
    missing = getattr(ids, "isna", None) or getattr(ids, "is_null", None)
    mask = np.ma.getmask(ids) if isinstance(ids, np.ma.MaskedArray) else None
    if (missing is not None and np.asarray(missing()).any()) or (mask is not None and mask.any()):
        raise ValueError(_MISSING)
    if hasattr(ids, "to_numpy"):
        ids = ids.to_numpy()
    if isinstance(ids, np.ndarray):
        values = np.asarray(ids)
    elif isinstance(ids, str | bytes) or not np.iterable(ids):
        raise ValueError(f"groups must be a sequence of ids; got {type(ids).__name__}.")
    else:  # an array made of a list could turn 1 and "1" into the same text
        listed = list(ids)
        values = np.empty(len(listed), dtype=object)
        for at, value in enumerate(listed):
            values[at] = value
    if values.ndim != 1 or len(values) != n_rows:
        raise ValueError("groups must be one-dimensional, with one id for each row of X.")
    return values


_MISSING = (
    "groups has missing ids (None, NaN or NaT): it is not known whose rows these are. Leave these "
    "rows out, or give each an id of its own if they belong to different people."
)


def _coded(values: NDArray[Any]) -> tuple[NDArray[Any], int]:
    """Return the number of each row's id among all ids, and how many there are."""
    if values.dtype.kind in "biu" and values.size:
        low, high = int(values.min()), int(values.max())
        if high - low < _DENSE * values.size:
            signed = values.dtype.kind == "i"
            wide: Any = values.astype(np.int64 if signed else np.uint64)
            wide -= wide.dtype.type(low)
            offsets = wide.astype(np.intp, copy=False)
            present = np.zeros(high - low + 1, dtype=bool)
            present[offsets] = True
            numbers = np.cumsum(present, dtype=np.int32 if values.size < 2**31 else np.int64)
            return numbers[offsets] - numbers.dtype.type(1), int(numbers[-1])
    if values.dtype.kind in "fc" and np.isnan(values).any():
        raise ValueError(_MISSING)
    if values.dtype.kind in "mM" and np.isnat(values).any():
        raise ValueError(_MISSING)
    if values.dtype.kind in "biufcmM":
        found, codes = np.unique(values, return_inverse=True)
        return codes, len(found)
    return _coded_objects(values.tolist())


def _coded_objects(values: list[Any]) -> tuple[NDArray[Any], int]:
    """Return the same for hashable objects, numbered in the order of their first appearance."""
    try:
        distinct = dict.fromkeys(values)
    except TypeError:
        raise ValueError("groups must be hashable ids, such as numbers or texts.") from None
    if any(_is_missing(value) for value in distinct):
        raise ValueError(_MISSING)
    kinds: set[Hashable] = set()
    numbers: dict[Hashable, int] = {}
    for value in distinct:
        kind, own = compared(value)
        kinds.add(kind)
        distinct[value] = numbers.setdefault(own, len(numbers))
    if len(kinds) > 1:
        raise ValueError(f"groups {MIXED}")
    codes = np.fromiter((distinct[value] for value in values), dtype=np.int64, count=len(values))
    return codes, len(numbers)


def _is_missing(value: Any) -> bool:
    if isinstance(value, tuple | frozenset):
        return any(_is_missing(entry) for entry in value)
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return bool(value != value)  # NaN
