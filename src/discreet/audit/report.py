"""Report of several audits: a table, a summary in plain English, and a JSON document."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from decimal import ROUND_FLOOR, Context, Decimal
from importlib.metadata import version as installed_version
from typing import Any

from discreet.audit.attack import trials_needed
from discreet.audit.result import SHARP, Audit, Verdict

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
NUMERIC = (3, 4, 5, 6, 7, 8)
"""Columns that are aligned to the right."""

_MARKUP = str.maketrans({sign: f"\\{sign}" for sign in "\\`*_[]|<>"})


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


def text(audits: Sequence[Audit]) -> str:
    """Return the table as plain text, one line per audit, of any width."""
    rows = [HEADINGS, *map(row, audits)]
    widths = [max(len(cells[j]) for cells in rows) for j in range(len(HEADINGS))]
    rows.insert(1, tuple("-" * width for width in widths))
    lines = [
        "  ".join(
            cell.rjust(width) if j in NUMERIC else cell.ljust(width)
            for j, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ).rstrip()
        for cells in rows
    ]
    return "\n".join(lines) + "\n"


def markdown(audits: Sequence[Audit]) -> str:
    """Return the table as Markdown."""
    rule = tuple("---:" if j in NUMERIC else "---" for j in range(len(HEADINGS)))
    rows = [tuple(cell.translate(_MARKUP) for cell in row(audit)) for audit in audits]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (HEADINGS, rule, *rows))


def summary(audits: Sequence[Audit]) -> str:
    """Return what a set of audits shows, and what it cannot show, in a few sentences."""
    if not audits:
        return "No attack was carried out."
    refuted = [audit for audit in audits if audit.verdict is Verdict.REFUTED]
    weak = sum(audit.verdict is Verdict.TOO_WEAK for audit in audits)
    consistent = len(audits) - weak - len(refuted)
    alarm = f"{100 * sum(audit.error_probability for audit in audits):.2g} %"
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
            f"No guarantee was refuted. {_attacks(consistent).capitalize()} would have refuted a "
            f"mechanism whose true ε is {SHARP:g} times the promised one, 9 times in 10, if these "
            "tables reveal it fully. (The probability of refuting a guarantee that holds was at "
            f"most {alarm}.)"
        ]
    else:
        parts = ["No guarantee was refuted, but no attack was strong enough to tell."]
    if weak and (consistent or refuted):
        verb = "was" if weak == 1 else "were"
        parts.append(f"{_attacks(weak).capitalize()} {verb} too weak to tell.")
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
    digits, refuted = 3, audit.verdict is Verdict.REFUTED
    while refuted and digits < 17 and float(_floor(audit.epsilon_bound, digits)) <= audit.epsilon:
        digits += 1
    return _floor(audit.epsilon_bound, digits)


def _attacks(count: int) -> str:
    return "one attack" if count == 1 else f"{count:,} attacks"


def _floor(value: float, digits: int = 3) -> str:
    """Return a number rounded down, so that a lower bound stays one."""
    rounded = Context(prec=digits, rounding=ROUND_FLOOR).plus(Decimal(value))
    return f"{rounded:f}" if rounded else "0"


def _verdict(audit: Audit) -> str:
    if audit.verdict is not Verdict.TOO_WEAK:
        return str(audit.verdict)
    if audit.trials_needed is not None:
        return f"{audit.verdict}; needs about {round_up(audit.trials_needed):,} trials"
    fewest = trials_needed(audit.epsilon, audit.delta, audit.confidence)
    if fewest is not None and fewest > audit.trials:
        return f"{audit.verdict}; needs at least {round_up(fewest):,} trials"
    return f"{audit.verdict}; more trials may not help"


def round_up(count: int) -> int:
    """Return a number of trials rounded up to two digits."""
    step = int(10 ** max(0, len(str(count)) - 2))
    return -(-count // step) * step
