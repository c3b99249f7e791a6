"""What an audit found."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

__all__ = ["Audit", "CurvePoint", "Verdict"]

SHARP = 2.0
"""An audit that would not have refuted this many times the promised ε is too weak to tell."""


SEEN = 0.1
"""An attack that certifies less than this share of the promise did not see enough to tell."""


class Verdict(StrEnum):
    """What an audit says of a promise."""

    REFUTED = "refuted"
    CONSISTENT = "consistent"
    TOO_WEAK = "too weak to tell"


@dataclass(frozen=True)
class CurvePoint:
    """One point of the measured trade-off: how many are wrongly accused, and rightly caught."""

    fpr: float
    tpr: float


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What an audit found.

    Attributes
    ----------
    subject, pair, statistic
        What was attacked, on which neighbouring tables, and what the attacker looked at.
    epsilon, delta, relation
        The promise.
    epsilon_bound
        Certified: the true ε at this δ is at least that, with probability ``confidence``.
    mu_bound, epsilon_if_gaussian
        The same for μ if the mechanism is in Gaussian DP (an assumption), and the ε that it means
        at this δ.
    confidence
        Of each of the two bounds on its own.
    trials
        Runs in all, about half of them on each table; those that chose the event included.
    sharpness
        The true ε at which so many trials would have refuted the promise, 9 times in 10, had the
        mechanism been as bad as that ε allows and the attack the best there is.
    trials_needed
        For an audit that is too weak: about how many trials would tell; None if this attack never
        would.
    seconds
        How long it took.
    event
        The event that the bound rests on: its rate in one world is at most ``fpr``, and in the
        other at least ``tpr``. None where there is no single event.
    curve
        The measured trade-off on the runs that were not used to choose the event.
    """

    subject: str
    pair: str
    statistic: str
    epsilon: float
    delta: float
    relation: str
    epsilon_bound: float
    mu_bound: float
    epsilon_if_gaussian: float
    confidence: float
    trials: int
    sharpness: float
    trials_needed: int | None
    seconds: float
    event: CurvePoint | None = None
    curve: tuple[CurvePoint, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """Refuted, consistent, or too weak to tell."""
        if self.epsilon_bound > self.epsilon:
            return Verdict.REFUTED
        seen = self.epsilon_bound >= SEEN * self.epsilon
        if seen and self.sharpness <= SHARP * self.epsilon:
            return Verdict.CONSISTENT
        return Verdict.TOO_WEAK

    @property
    def error_probability(self) -> float:
        """Chance that ``epsilon_bound`` is above the truth."""
        return 1 - self.confidence

    def __str__(self) -> str:
        """One paragraph."""
        promise = f"ε = {self.epsilon:g} at δ = {self.delta:g} ({self.relation})"
        bound = f"ε ≥ {self.epsilon_bound:.3g} with confidence {100 * self.confidence:g} %"
        words = f"{self.subject}: {self.verdict}. Promised: {promise}. Certified: {bound}"
        words += f", by {self.trials:,} runs on {self.pair!r}, looking at {self.statistic}."
        if self.verdict is Verdict.TOO_WEAK:
            if self.trials_needed is None:
                words += " This attack would not tell with any number of trials."
            else:
                words += f" About {self.trials_needed:,} trials would tell."
        return words

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data; numbers that are not finite become None."""
        plain = asdict(self)
        plain["verdict"] = str(self.verdict)
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in plain.items()
        }

    def to_json(self) -> str:
        """`to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)
