"""Result of an audit: a certified lower bound on ε, and a verdict."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from discreet.page import note, table

SHARP = 2.0
"""An audit is too weak if it would not have refuted this multiple of the stated ε."""

SEEN = 0.1
"""An audit is too weak if it certifies less than this share of the stated ε."""


class Verdict(StrEnum):
    """Verdict of an audit on a stated guarantee."""

    REFUTED = "refuted"
    CONSISTENT = "consistent"
    TOO_WEAK = "too weak to tell"


@dataclass(frozen=True)
class CurvePoint:
    """One point of the attacker's ROC curve: false-positive rate and true-positive rate."""

    fpr: float
    tpr: float


def roc_curve(points: Iterable[tuple[float, float]]) -> tuple[CurvePoint, ...]:
    """Return the ROC curve through pairs of rates, in order and with both ends."""
    return tuple(CurvePoint(*point) for point in sorted({*points, (0.0, 0.0), (1.0, 1.0)}))


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Result of an audit.

    Attributes
    ----------
    subject, pair, statistic
        Names of the mechanism, the neighbouring tables and the attacker's statistic.
    epsilon, delta, relation
        The stated guarantee.
    epsilon_bound
        Certified lower bound on the true ε at this δ, with probability ``confidence``.
    mu_bound, epsilon_if_gaussian
        Lower bound on μ under the assumption that the mechanism is in Gaussian DP, and the ε at
        this δ that follows from it.
    trials
        Number of runs, about half of them on each table, including those that chose the event.
    sharpness
        The smallest true ε at which this many trials would refute the guarantee, 9 times in 10,
        for a worst-case mechanism and the best attack on it.
    trials_needed
        For an audit that is too weak: approximate number of trials that would be enough; None if
        more trials of this attack would not help.
    event, curve
        The event behind the bound (its probability is at most ``fpr`` on one table and at least
        ``tpr`` on the other), if there is one, and the ROC curve on runs that did not choose it.
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
        """Return the verdict: refuted, consistent or too weak to tell."""
        if self.epsilon_bound > self.epsilon:
            return Verdict.REFUTED
        seen = self.epsilon_bound >= SEEN * self.epsilon
        if seen and self.sharpness <= SHARP * self.epsilon:
            return Verdict.CONSISTENT
        return Verdict.TOO_WEAK

    @property
    def error_probability(self) -> float:
        """Return the probability that ``epsilon_bound`` is above the true ε."""
        return 1 - self.confidence

    noun = "trials"

    def _evidence(self) -> str:
        return f"{self.trials:,} runs on {self.pair!r}, using {self.statistic}"

    def __str__(self) -> str:
        """Return one paragraph."""
        stated = f"ε = {self.epsilon:g} at δ = {self.delta:g} ({self.relation})"
        bound = f"ε ≥ {self.epsilon_bound:.3g} with confidence {100 * self.confidence:g} %"
        text = f"{self.subject}: {self.verdict}. Promised: {stated}. Certified: {bound}"
        text += f", by {self._evidence()}."
        if self.verdict is Verdict.TOO_WEAK and self.trials_needed is None:
            text += f" More {self.noun} would not help this attack."
        elif self.verdict is Verdict.TOO_WEAK:
            text += f" About {self.trials_needed:,} {self.noun} would be enough."
        return text

    def _repr_html_(self) -> str:
        rows = [
            ("Promised", f"ε = {self.epsilon:g} at δ = {self.delta:g} ({self.relation})"),
            ("Certified", f"ε ≥ {self.epsilon_bound:.3g}"),
            ("Confidence", f"{100 * self.confidence:g} %"),
            (self.noun.capitalize(), f"{self.trials:,} in {self.seconds:.1f} s"),
            ("Smallest ε it would refute", f"{self.sharpness:.3g}"),
        ]
        refuted = self.verdict is Verdict.REFUTED
        title = f"Audit of {self.subject}: {self.verdict}"
        return note(title, str(self), more=table(("", ""), rows), alarm=refuted)

    def to_dict(self) -> dict[str, Any]:
        """Return a dict for JSON; numbers that are not finite become None."""
        data = asdict(self)
        data["verdict"] = str(self.verdict)
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in data.items()
        }

    def to_json(self) -> str:
        """Return `to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)
