"""The privacy promise of a fit, as plain data."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from html import escape
from numbers import Integral, Real
from typing import Annotated, Any, Literal, Self, get_args

import msgspec

from discreet.accounting import recompute
from discreet.accounting.budget import Measure, PrivacyLoss, Relation
from discreet.accounting.objective_perturbation import ObjectivePerturbation
from discreet.accounting.subsampling import SampledGaussian
from discreet.core.filters import Mechanism
from discreet.core.mechanisms import Gaussian, L2Norm, Laplace
from discreet.core.selections import ExponentialMechanism, LaplaceNoisyMax, PermuteAndFlip
from discreet.page import note
from discreet.statement import details, sentences, steps_outside

Numeric = Literal[
    "exact on a public grid, bits from the operating system", "test mode, not private"
]
_SECURE, _TEST_MODE = get_args(Numeric)

_ADDITIVE = (Gaussian, L2Norm, Laplace, ObjectivePerturbation, SampledGaussian)
_SELECTIONS = (ExponentialMechanism, LaplaceNoisyMax, PermuteAndFlip)
_MECHANISMS: dict[str, Any] = {kind.name: kind for kind in (*_ADDITIVE, *_SELECTIONS)}
"""Mechanisms that `Guarantee.from_dict` can build again by name."""


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


@dataclass(frozen=True)
class Guarantee:
    """The privacy promise of one fit; ``print`` states it, `explain` has the details.

    Attributes
    ----------
    epsilon, delta, relation
        The promise: (ε, δ)-differential privacy under this relation.
    measure, rho, mu
        How it was composed, and the total in that measure (ρ of zCDP or μ of Gaussian DP). When
        answers decide how the budget is spent, this total is what holds, not what was used of it.
    conditions
        What the proof rests on.
    public
        What was treated as known to everybody and is not protected.
    secure
        False if a seed was fixed: then the noise is predictable and nothing is protected.
    mechanisms
        What was run and how often; `event` is the same for `dp_accounting`.
    earlier_fits
        Number of fits in this process before it. If they used the same people, their promises add
        up with this one.
    split
        How the budget was shared out: (part, share), in the measure that composes. Empty if all of
        it went into the model.
    unit, rows_per_unit
        The privacy unit: what neighbouring data sets differ in. ``"row"``, or ``"person"`` with all
        of their rows; ``rows_per_unit`` is the number of rows from which a person counts fully.
    n_units
        Number of units in the fit, which is public; None if it was not noted.

    Privacy
    -------
    Holds for this one fit. Further fits on the same people add to it: count them with a `Ledger`.
    """

    epsilon: float
    delta: float
    relation: Relation
    measure: Measure | None
    rho: float | None
    mu: float | None
    conditions: tuple[str, ...]
    public: tuple[str, ...]
    secure: bool
    mechanisms: tuple[Use, ...]
    earlier_fits: int = 0
    split: tuple[tuple[str, float], ...] = ()
    unit: str = "row"
    rows_per_unit: int = 1
    n_units: int | None = None

    @property
    def private(self) -> bool:
        """False for a baseline that was computed without protection (ε is then infinite)."""
        return math.isfinite(self.epsilon)

    @property
    def numeric(self) -> str:
        """Source of the noise: how it is computed, and from which bits."""
        return str(_SECURE if self.secure else _TEST_MODE)

    @property
    def event(self) -> Any:
        """The mechanisms as a `dp_accounting` event; how to use it: docs/proofs/recompute.md."""
        return recompute.event(self)

    def recompute(self) -> float:
        """Return the ε at this δ that an independent accountant finds for the mechanisms.

        The accountant is dp-accounting, or, where it has no such mechanism, a formula that is
        written independently of the one that the fit was calibrated with.
        """
        return recompute.recomputed_epsilon(self)

    def __str__(self) -> str:
        """State the promise in two sentences."""
        return sentences(self)

    def _repr_html_(self) -> str:
        held = self.private and self.secure
        title = f"ε = {self.epsilon:g}, δ = {self.delta:g}" if held else "Not private"
        leaks = held and bool(steps_outside(self))
        title += ", and parts outside the budget" if leaks else ""
        more = f"<pre>{escape(self.explain())}</pre>"
        return note(title, str(self), more=more, alarm=leaks or not held)

    def explain(self) -> str:
        """Return the promise with its details: composition, conditions, public facts, noise."""
        return details(self)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as data that JSON can hold."""
        data = {key: getattr(self, key) for key in _File.__struct_fields__}
        data["mechanisms"] = [_describe(use) for use in self.mechanisms]
        data["split"] = [{"part": part, "share": share} for part, share in self.split]
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(data))  # infinity as null
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read the result of `to_dict`; a ``ValueError`` says what is wrong with anything else.

        Mechanisms of discreet are built again, so that `event` works; others are kept as
        `Recorded`. Nothing is proven by reading: the numbers are as good as their source.
        """
        try:
            read = msgspec.convert(data, _File)
        except msgspec.ValidationError as error:
            raise ValueError(f"a guarantee must have its keys and types: {error}.") from error
        if read.private is (read.epsilon is None):
            raise ValueError("a guarantee has an epsilon exactly if it is private.")
        stated = msgspec.structs.asdict(read)
        del stated["private"]
        stated["secure"] = stated.pop("numeric") == _SECURE
        stated["epsilon"] = math.inf if read.epsilon is None else read.epsilon
        stated["mechanisms"] = tuple(_use(item) for item in read.mechanisms)
        stated["split"] = tuple((item.part, item.share) for item in read.split)
        return cls(**stated)

    def to_json(self, indent: int | None = 2) -> str:
        """Return all of it as JSON."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)


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


def _use(stated: dict[str, Any]) -> Use:
    name, count = stated.pop("name", None), stated.pop("count", None)
    if not isinstance(name, str) or type(count) is not int or not 1 <= count < 2**63:
        raise ValueError("each mechanism must have a name, and a count of at least 1.")
    known = _MECHANISMS.get(name)
    if known is None:
        return Use(Recorded(name, tuple(stated.items())), count)
    if stated.keys() != {field.name for field in fields(known)}:
        raise ValueError(f"the mechanism {name!r} has other settings than expected.")
    try:
        return Use(msgspec.convert(stated, known), count)
    except (msgspec.ValidationError, ValueError, OverflowError) as error:
        raise ValueError(f"the mechanism {name!r} cannot have such settings: {error}") from error
