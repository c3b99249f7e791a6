"""A guarantee as a file: the form of its data, written and read back.

Nothing is proven by reading: the numbers of a file are as good as its source.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from numbers import Integral, Real
from typing import Annotated, Any, Literal, get_args

import msgspec

from discreet.accounting.budget import Measure, PrivacyLoss, Relation
from discreet.accounting.profiles import Mechanism

Numeric = Literal[
    "exact on a public grid, bits from the operating system", "test mode, not private"
]
SECURE: str
TEST_MODE: str
SECURE, TEST_MODE = get_args(Numeric)


@dataclass(frozen=True)
class Recorded:
    """A mechanism that is known by name only: what a guarantee on file said about it.

    It claims no cost and cannot be charged to a filter; the guarantee that names it has its own
    total.
    """

    name: str
    fields: tuple[tuple[str, str | float | bool | None], ...] = ()

    @property
    def loss(self) -> PrivacyLoss:
        """No promise in any measure: only the class that ran could make one."""
        return PrivacyLoss(math.inf, math.inf, math.inf)


@dataclass(frozen=True)
class Use:
    """A mechanism and the number of its uses."""

    mechanism: Mechanism
    count: int


_Number = Annotated[float, msgspec.Meta(ge=0.0, le=1e300)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class _Part(msgspec.Struct, forbid_unknown_fields=True):
    part: str
    share: _Number


class _File(msgspec.Struct, forbid_unknown_fields=True):
    """The form of `Guarantee.to_dict`."""

    private: bool
    epsilon: _Number | None
    delta: Annotated[float, msgspec.Meta(ge=0.0, lt=1.0)]
    relation: Relation
    measure: Measure | None
    rho: _Number | None
    mu: _Number | None
    conditions: tuple[str, ...]
    public: tuple[str, ...]
    numeric: Numeric
    mechanisms: list[dict[str, str | int | float | bool | None]]
    earlier_fits: _Count
    split: list[_Part]
    unit: Literal["row", "person"]
    rows_per_unit: Annotated[int, msgspec.Meta(ge=1, le=2**30)]
    n_units: _Count | None


def _describe(use: Use) -> dict[str, Any]:
    mechanism: Any = use.mechanism
    stated = dict(mechanism.fields) if isinstance(mechanism, Recorded) else asdict(mechanism)
    plain = {key: _plain(value) for key, value in stated.items() if key not in ("name", "count")}
    return {"name": mechanism.name, **plain, "count": use.count}


def _plain(value: Any) -> str | int | float | bool | None:
    """Return a setting of a mechanism as JSON can hold it; what it cannot, as text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) and math.isfinite(value) else str(value)


def _use(stated: dict[str, Any], mechanisms: Mapping[str, Any]) -> Use:
    name, count = stated.pop("name", None), stated.pop("count", None)
    if not isinstance(name, str) or type(count) is not int or not 1 <= count < 2**63:
        raise ValueError("each mechanism must have a name, and a count of at least 1.")
    known = mechanisms.get(name)
    if known is None:
        return Use(Recorded(name, tuple(stated.items())), count)
    if stated.keys() != {field.name for field in fields(known)}:
        raise ValueError(f"the mechanism {name!r} has other settings than expected.")
    try:
        return Use(msgspec.convert(stated, known), count)
    except (msgspec.ValidationError, ValueError, OverflowError) as error:
        raise ValueError(f"the mechanism {name!r} cannot have such settings: {error}") from error


def to_plain(guarantee: Any) -> dict[str, Any]:
    """Return all of a guarantee as data that JSON can hold."""
    data = {key: getattr(guarantee, key) for key in _File.__struct_fields__}
    data["mechanisms"] = [_describe(use) for use in guarantee.mechanisms]
    data["split"] = [{"part": part, "share": share} for part, share in guarantee.split]
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(data))  # infinity as null
    return plain


def from_plain(data: Mapping[str, Any], mechanisms: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a guarantee; a ``ValueError`` says what is wrong with the data.

    ``mechanisms`` are the classes that are built again by name; others become `Recorded`.
    """
    try:
        read = msgspec.convert(data, _File)
    except msgspec.ValidationError as error:
        raise ValueError(f"a guarantee must have its keys and types: {error}.") from error
    if read.private is (read.epsilon is None):
        raise ValueError("a guarantee has an epsilon exactly if it is private.")
    stated = msgspec.structs.asdict(read)
    del stated["private"]
    stated["secure"] = stated.pop("numeric") == SECURE
    stated["epsilon"] = math.inf if read.epsilon is None else read.epsilon
    stated["mechanisms"] = tuple(_use(item, mechanisms) for item in read.mechanisms)
    stated["split"] = tuple((item.part, item.share) for item in read.split)
    return stated
