"""Result of an audit, and the report of several: a table, a summary in plain English, JSON."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from enum import StrEnum
from importlib.metadata import version as installed_version
from typing import Any

from discreet.audit.statistics import SEEN, SHARP, trials_needed
from discreet.card import writers
from discreet.card.descriptions import TextTable
from discreet.page import note, table


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


HEADINGS = (
    "attacked",
    "tables",
    "relation",
    "promised ε",
    "δ",
    "certified ε ≥",
    "if Gaussian",
    "trials",
    "seconds",
    "verdict",
)
NUMERIC = (3, 4, 5, 6, 7, 8)  # columns that are aligned to the right


def row(audit: Audit) -> tuple[str, ...]:
    """Return an audit as one row under `HEADINGS`; bounds are rounded down."""
    return (
        audit.subject,
        audit.pair,
        audit.relation,
        f"{audit.epsilon:g}",
        f"{audit.delta:g}",
        bound_text(audit),
        _floor(audit.epsilon_if_gaussian) if math.isfinite(audit.epsilon_if_gaussian) else "–",
        f"{audit.trials:,}",
        f"{audit.seconds:.1f}",
        _verdict(audit),
    )


def _table(audits: Sequence[Audit]) -> TextTable:
    return TextTable(HEADINGS, tuple(map(row, audits)), NUMERIC)


def text(audits: Sequence[Audit]) -> str:
    """Return the table as plain text, one line per audit, of any width."""
    return "\n".join(writers.columns(_table(audits), width=10_000)) + "\n"


def markdown(audits: Sequence[Audit]) -> str:
    """Return the table as Markdown."""
    return "\n".join(writers.markdown_table(_table(audits))) + "\n"


def summary(audits: Sequence[Audit]) -> str:
    """Return what a set of audits shows, and what it cannot show, in a few sentences."""
    if not audits:
        return "No attack was carried out."
    refuted = [audit for audit in audits if audit.verdict is Verdict.REFUTED]
    weak = sum(audit.verdict is Verdict.TOO_WEAK for audit in audits)
    consistent = len(audits) - weak - len(refuted)
    strong_ones, weak_ones = (
        "One attack" if count == 1 else f"{count:,} attacks" for count in (consistent, weak)
    )
    alarm = f"{100 * sum(1 - audit.confidence for audit in audits):.2g} %"
    if refuted:
        names = ", ".join(dict.fromkeys(audit.subject for audit in refuted))
        worst = max(refuted, key=lambda audit: audit.epsilon_bound / audit.epsilon)
        parts = [
            f"REFUTED: {names}. The guarantee does not hold: for {worst.subject} on "
            f"{worst.pair!r} the true ε is at least {bound_text(worst)}; {worst.epsilon:g} was "
            "promised. Do not release its results.",
            f"If all guarantees held, the probability of any refutation would be at most {alarm}.",
        ]
    elif consistent:
        parts = [
            f"No guarantee was refuted. {strong_ones} would have refuted a "
            f"mechanism whose true ε is {SHARP:g} times the promised one, 9 times in 10, if these "
            "tables reveal it fully. (The probability of refuting a guarantee that holds was at "
            f"most {alarm}.)"
        ]
    else:
        parts = ["No guarantee was refuted, but no attack was strong enough to tell."]
    if weak and (consistent or refuted):
        parts.append(f"{weak_ones} {'was' if weak == 1 else 'were'} too weak to tell.")
    if weak:
        parts.append("The table states how many trials would be enough, where that is known.")
    if any(audit.epsilon_if_gaussian > audit.epsilon >= audit.epsilon_bound for audit in audits):
        parts.append(
            'The column "if Gaussian" refutes nothing: it assumes that the mechanism is in '
            "Gaussian DP, which mechanisms with other noise are not."
        )
    if not refuted:
        parts.append(
            "An audit cannot prove a guarantee: it can show that a guarantee fails, not that it "
            "holds. That needs a proof."
        )
    return " ".join(parts)


def document(
    audits: Sequence[Audit],
    *,
    settings: Mapping[str, Any],
    left_out: Mapping[str, str] | None = None,
    complete: bool = True,
) -> dict[str, Any]:
    """Return several audits, the request and its ``left_out`` subjects as a document for JSON."""
    verdicts = [audit.verdict for audit in audits]
    packages = ("discreet", "numpy", "scipy", "scikit-learn")
    return {
        "versions": {"python": platform.python_version()}
        | {name: installed_version(name) for name in packages},
        "settings": dict(settings),
        "complete": complete,
        "left_out": dict(left_out or {}),
        "verdicts": {str(verdict): verdicts.count(verdict) for verdict in Verdict},
        "summary": summary(audits),
        "audits": [audit.to_dict() for audit in audits],
    }


def bound_text(audit: Audit) -> str:
    """Return the certified ε, with enough digits to exceed a refuted ε."""
    digits = 3
    refuted = audit.verdict is Verdict.REFUTED
    while refuted and digits < 17 and float(_floor(audit.epsilon_bound, digits)) <= audit.epsilon:
        digits += 1
    return _floor(audit.epsilon_bound, digits)


def _floor(value: float, digits: int = 3) -> str:
    """Return a number rounded down, so that a lower bound stays one."""
    rounded = Context(prec=digits, rounding=ROUND_FLOOR).plus(Decimal(value))
    return f"{rounded:f}" if rounded else "0"


def _verdict(audit: Audit) -> str:
    if audit.verdict is not Verdict.TOO_WEAK:
        return str(audit.verdict)
    needed = audit.trials_needed
    how = "about"
    if needed is None:
        needed = trials_needed(audit.epsilon, audit.delta, audit.confidence)
        how = "at least"
        if needed is None or needed <= audit.trials:
            return f"{audit.verdict}; more trials may not help"
    rounded = Context(prec=2, rounding=ROUND_CEILING).plus(Decimal(needed))
    return f"{audit.verdict}; needs {how} {rounded:,f} trials"
