"""What was promised: readable as a sentence, as a dict and as JSON."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from numbers import Integral, Real
from typing import Any, Self, get_args

from discreet.accounting.budget import Measure, PrivacyLoss, Relation
from discreet.accounting.objective_perturbation import ObjectivePerturbation
from discreet.accounting.subsampling import SampledGaussian
from discreet.core.filters import Mechanism
from discreet.core.mechanisms import (
    ExponentialMechanism,
    Gaussian,
    L2Norm,
    Laplace,
    PermuteAndFlip,
)
from discreet.core.noisy_max import LaplaceNoisyMax

__all__ = ["Guarantee", "Recorded", "Use", "tally"]

_SECURE = "exact on a public grid, bits from the operating system"
_TEST_MODE = "test mode, not private"

_MECHANISMS: dict[str, Any] = {
    mechanism.name: mechanism
    for mechanism in (
        ExponentialMechanism,
        Gaussian,
        L2Norm,
        Laplace,
        LaplaceNoisyMax,
        ObjectivePerturbation,
        PermuteAndFlip,
        SampledGaussian,
    )
}
"""What `Guarantee.from_dict` can build again by name."""


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

    def event(self) -> Any:
        """An event that `dp_accounting` refuses: what was run is not known here."""
        from dp_accounting import UnsupportedDpEvent

        return UnsupportedDpEvent()


@dataclass(frozen=True)
class Use:
    """A mechanism and how often it was used."""

    mechanism: Mechanism
    count: int


def tally(uses: Iterable[tuple[Mechanism, int]]) -> tuple[Use, ...]:
    """Add up the uses of equal mechanisms, in the order of their first use."""
    counts: Counter[Mechanism] = Counter()
    for mechanism, times in uses:
        counts[mechanism] += times
    return tuple(Use(mechanism, count) for mechanism, count in counts.items())


@dataclass(frozen=True)
class Guarantee:
    """The privacy promise of one fit.

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
        How many fits took place in this process before it. If they used the same people, their
        promises add up with this one.
    split
        How the budget was shared out: (what for, share), in the measure that composes. Empty if
        all of it went into the model.
    unit
        What one protected thing is.

    Privacy
    -------
    Holds for this one fit. Further fits on the same people add to it: count them with an
    `Accountant`.
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
    unit: str = "one row"

    @property
    def private(self) -> bool:
        """False for a baseline that was computed without protection (ε is then infinite)."""
        return math.isfinite(self.epsilon)

    @property
    def numeric(self) -> str:
        """How far the numbers can be trusted: how noise is computed, and from which bits."""
        return _SECURE if self.secure else _TEST_MODE

    @property
    def event(self) -> Any:
        """What was run, as a `dp_accounting` event.

        Noise multipliers are relative to the sensitivity under this guarantee's relation, so
        recompute with `NeighboringRelation.ADD_OR_REMOVE_ONE`, which takes them as they are. Only
        those of sampled steps are relative to the clip of one row: under replace, recompute them
        with the PLD accountant and `NeighboringRelation.REPLACE_ONE`.
        """
        from dp_accounting import ComposedDpEvent, SelfComposedDpEvent

        return ComposedDpEvent(
            [SelfComposedDpEvent(use.mechanism.event(), use.count) for use in self.mechanisms]
        )

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "private": self.private,
            "epsilon": self.epsilon if self.private else None,  # JSON has no infinity
            "delta": self.delta,
            "relation": str(self.relation),
            "measure": self.measure,
            "rho": self.rho,
            "mu": self.mu,
            "conditions": list(self.conditions),
            "public": list(self.public),
            "numeric": self.numeric,
            "mechanisms": [_describe(use) for use in self.mechanisms],
            "earlier_fits": self.earlier_fits,
            "split": [{"part": part, "share": share} for part, share in self.split],
            "unit": self.unit,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote; anything else is a ``ValueError`` that says what is wrong.

        Mechanisms of discreet are built again, so that `event` works; others are kept as
        `Recorded`. Nothing is proven by reading: the numbers are as good as their source.
        """
        _check_keys("a guarantee", data, _KEYS)
        private = _typed(data, "private", bool)
        if private is not (data["epsilon"] is not None):
            raise ValueError("a guarantee has an epsilon exactly if it is private.")
        epsilon = _number(data, "epsilon", least=0.0) if private else math.inf
        delta = _number(data, "delta", least=0.0)
        if delta >= 1:
            raise ValueError(f"delta must be in [0, 1); got {delta!r}.")
        measure = data["measure"]
        if measure is not None and measure not in get_args(Measure):
            raise ValueError(f"measure must be one of {get_args(Measure)}; got {measure!r}.")
        return cls(
            epsilon=epsilon,
            delta=delta,
            relation=Relation.parse(_typed(data, "relation", str)),
            measure=measure,
            rho=None if data["rho"] is None else _number(data, "rho", least=0.0),
            mu=None if data["mu"] is None else _number(data, "mu", least=0.0),
            conditions=_texts(data, "conditions"),
            public=_texts(data, "public"),
            secure=_secure(_typed(data, "numeric", str)),
            mechanisms=tuple(_use(item) for item in _typed(data, "mechanisms", list)),
            earlier_fits=_whole(data, "earlier_fits", least=0),
            split=tuple(_part(item) for item in _typed(data, "split", list)),
            unit=_typed(data, "unit", str),
        )

    def to_json(self, indent: int | None = 2) -> str:
        """All of it as JSON."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)

    def __str__(self) -> str:
        """A paragraph for a person."""
        if self.delta == 0:
            promise = f"({self.epsilon:g})-differentially private (pure)"
        else:
            promise = f"(ε = {self.epsilon:g}, δ = {self.delta:g})-differentially private"
        composed = {
            "zcdp": f" It was composed as zCDP with ρ = {self.rho or 0:.6g}.",
            "gdp": f" It was composed as Gaussian DP with μ = {self.mu or 0:.6g}.",
        }.get(self.measure or "", "")
        if self.split:
            parts = ", ".join(f"{share:.3g} of it for {part}" for part, share in self.split)
            composed += f" The budget was shared out: {parts}."
        if not self.private:
            return (
                "NOT PRIVATE: this fit is a baseline computed on the exact rows. It protects "
                "nobody, and its weights must not be published unless the rows may be."
            )
        sentence = f"This fit is {promise} for {self.relation.words}.{composed}"
        if not self.secure:
            sentence = (
                f"TEST MODE, NOT PRIVATE: a seed was fixed, so the noise can be predicted. "
                f"With secure noise the promise would be: {sentence}"
            )
        if self.conditions:
            sentence += f" It rests on: {'; '.join(self.conditions)}."
        if self.public:
            sentence += f" Treated as public: {', '.join(self.public)}."
        sentence += f" Noise: {self.numeric}. Every other fit on the same rows adds to it"
        if self.earlier_fits:
            sentence += f": {self.earlier_fits} took place in this process before"
        return f"{sentence}."


_KEYS = (
    "private",
    "epsilon",
    "delta",
    "relation",
    "measure",
    "rho",
    "mu",
    "conditions",
    "public",
    "numeric",
    "mechanisms",
    "earlier_fits",
    "split",
    "unit",
)


def _describe(use: Use) -> dict[str, Any]:
    mechanism: Any = use.mechanism
    stated = dict(mechanism.fields) if isinstance(mechanism, Recorded) else asdict(mechanism)
    plain = {key: _plain(value) for key, value in stated.items() if key not in ("name", "count")}
    return {"name": mechanism.name, **plain, "count": use.count}


def _plain(value: Any) -> str | int | float | bool | None:
    """A setting of a mechanism as JSON can hold it; what it cannot, as text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real) and math.isfinite(value):
        return float(value)
    return str(value)


def _use(item: Any) -> Use:
    if not isinstance(item, dict):
        raise ValueError("each of the mechanisms must be an object with a name and a count.")
    name, count = _typed(item, "name", str), _whole(item, "count", least=1)
    stated = {key: value for key, value in item.items() if key not in ("name", "count")}
    for key, value in stated.items():
        if not (value is None or isinstance(value, str | int | float)):
            raise ValueError(f"{key} of the mechanism {name!r} must be text or a number.")
    known = _MECHANISMS.get(name)
    if known is None:
        return Use(Recorded(name, tuple(stated.items())), count)
    _check_keys(f"the mechanism {name!r}", stated, [field.name for field in fields(known)])
    for field in fields(known):
        if (field.type == "bool") is not isinstance(stated[field.name], bool):
            raise ValueError(f"{field.name} of the mechanism {name!r} is of the wrong type.")
    try:
        return Use(known(**stated), count)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"the mechanism {name!r} cannot have such settings: {error}") from error


def _part(item: Any) -> tuple[str, float]:
    if not isinstance(item, dict):
        raise ValueError("each part of the split must be an object with a part and a share.")
    _check_keys("a part of the split", item, ["part", "share"])
    return _typed(item, "part", str), _number(item, "share", least=0.0)


def _check_keys(what: str, data: Any, keys: Iterable[str]) -> None:
    if not isinstance(data, Mapping):
        raise ValueError(f"{what} must be an object; got {type(data).__name__}.")
    missing = [key for key in keys if key not in data]
    extra = [str(key) for key in data if key not in set(keys)]
    if missing or extra:
        raise ValueError(
            f"{what} has other keys than expected: missing {missing}, unknown {extra[:5]}."
        )


def _typed(data: Mapping[str, Any], key: str, kind: type) -> Any:
    value = data.get(key)
    if not isinstance(value, kind):
        raise ValueError(f"{key} must be a {kind.__name__}; got {type(value).__name__}.")
    return value


def _number(data: Mapping[str, Any], key: str, least: float) -> float:
    value = data.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{key} must be a number; got {type(value).__name__}.")
    if not least <= value <= 1e300:
        raise ValueError(f"{key} must be finite and at least {least:g}; got {value!r}.")
    return float(value)


def _whole(data: Mapping[str, Any], key: str, least: int) -> int:
    value = data.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**63:
        raise ValueError(f"{key} must be a whole number of at least {least}.")
    return value


def _texts(data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    items = _typed(data, key, list)
    if not all(isinstance(item, str) for item in items):
        raise ValueError(f"{key} must be a list of texts.")
    return tuple(items)


def _secure(numeric: str) -> bool:
    if numeric not in (_SECURE, _TEST_MODE):
        raise ValueError(f"numeric must be {_SECURE!r} or {_TEST_MODE!r}.")
    return numeric == _SECURE
