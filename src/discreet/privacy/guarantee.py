"""What was promised: readable as a sentence, as a dict and as JSON."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from discreet.privacy.budget import Relation
from discreet.privacy.filters import Measure, Mechanism

__all__ = ["Guarantee", "Use", "tally"]

_SECURE = "exact on a public grid, bits from the operating system"
_TEST_MODE = "test mode, not private"


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
        }

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


def _describe(use: Use) -> dict[str, Any]:
    fields = asdict(use.mechanism)  # type: ignore[call-overload]  # mechanisms are dataclasses
    return {"name": use.mechanism.name, **fields, "count": use.count}
