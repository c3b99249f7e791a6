"""Several audits for a reader: as rows of a table, in plain words, and as one JSON document."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from decimal import ROUND_FLOOR, Context, Decimal
from importlib.metadata import version as installed_version
from typing import Any

from discreet.audit.attack import LEARNING_SHARE
from discreet.audit.result import SHARP, Audit, Verdict
from discreet.audit.statistics import trials_for
from discreet.card.risk import rate_in_words

__all__ = [
    "HEADINGS",
    "NUMERIC",
    "bound_in_words",
    "document",
    "in_words",
    "markdown",
    "row",
    "text",
]

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
"""The columns that are set flush right."""

_MARKUP = str.maketrans({sign: f"\\{sign}" for sign in "\\`*_[]|<>"})


def row(audit: Audit) -> tuple[str, ...]:
    """An audit as one row under `HEADINGS`; bounds are rounded down."""
    return (
        audit.subject,
        audit.pair,
        audit.relation,
        f"{audit.epsilon:g}",
        f"{audit.delta:g}",
        bound_in_words(audit),
        _floor(audit.epsilon_if_gaussian) if math.isfinite(audit.epsilon_if_gaussian) else "–",
        f"{audit.trials:,}",
        f"{audit.seconds:.1f}",
        _verdict(audit),
    )


def text(audits: Sequence[Audit]) -> str:
    """The table as plain text, one line an audit, however long the line is."""
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
    """The table as Markdown."""
    rule = tuple("---:" if j in NUMERIC else "---" for j in range(len(HEADINGS)))
    rows = [tuple(cell.translate(_MARKUP) for cell in row(audit)) for audit in audits]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (HEADINGS, rule, *rows))


def in_words(audits: Sequence[Audit]) -> str:
    """What a set of audits says, and what it cannot say, in a few sentences."""
    if not audits:
        return "No attack was carried out, so nothing is known."
    refuted = [audit for audit in audits if audit.verdict is Verdict.REFUTED]
    weak = sum(audit.verdict is Verdict.TOO_WEAK for audit in audits)
    told = len(audits) - weak - len(refuted)
    alarm = rate_in_words(float(f"{sum(audit.error_probability for audit in audits):.9g}"))
    if refuted:
        names = ", ".join(dict.fromkeys(audit.subject for audit in refuted))
        worst = max(refuted, key=lambda audit: audit.epsilon_bound / audit.epsilon)
        words = [
            f"REFUTED: {names}. What was promised there is not kept: of {worst.subject} on "
            f"{worst.pair!r} the true ε is at least {bound_in_words(worst)}, and "
            f"{worst.epsilon:g} was promised. Do not release what it makes.",
            f"If every promise were kept, a run like this would say otherwise with a chance of at "
            f"most {alarm}.",
        ]
    elif told:
        words = [
            f"No promise was refuted. {_attacks(told).capitalize()} would have refuted it, 9 times "
            f"in 10, had the true ε been {SHARP:g} times the promised one and shown on these "
            "tables as plainly as it can. (The chance that a promise that is kept gets refuted was "
            f"at most {alarm}.)"
        ]
    else:
        words = ["No promise was refuted, but no attack was strong enough to tell."]
    if weak and (told or refuted):
        were = "was too weak to tell and says" if weak == 1 else "were too weak to tell and say"
        words.append(f"{_attacks(weak).capitalize()} {were} nothing either way.")
    if weak:
        words.append("The table says how many trials it would take, where that is known.")
    if any(audit.epsilon_if_gaussian > audit.epsilon >= audit.epsilon_bound for audit in audits):
        words.append(
            'The column "if Gaussian" refutes nothing: it takes for granted that the noise acts '
            "like one Gaussian, which other noise does not."
        )
    if not refuted:
        words.append(
            "No audit proves a guarantee: it can show that a promise is broken, never that it is "
            "kept. That is for the proofs to show."
        )
    return " ".join(words)


def document(
    audits: Sequence[Audit],
    *,
    settings: Mapping[str, Any],
    left_out: Mapping[str, str] | None = None,
    complete: bool = True,
) -> dict[str, Any]:
    """Several audits as plain data that JSON can hold.

    Parameters
    ----------
    audits : sequence of Audit
        What was found.
    settings : mapping
        What was asked for.
    left_out : mapping, optional
        What was asked for but could not be attacked, each with the reason.
    complete : bool
        Whether every attack was carried out.

    Returns
    -------
    dict
        With ``versions``, ``settings``, ``audits`` (`Audit.to_dict` of each), the verdicts counted,
        and the closing words. Numbers that are not finite are None.
    """
    verdicts = [audit.verdict for audit in audits]
    packages = ("discreet", "numpy", "scipy", "scikit-learn")
    return {
        "versions": {
            "python": platform.python_version(),
            **{name: installed_version(name) for name in packages},
        },
        "settings": dict(settings),
        "complete": complete,
        "left_out": dict(left_out or {}),
        "verdicts": {str(verdict): verdicts.count(verdict) for verdict in Verdict},
        "words": in_words(audits),
        "audits": [_finite(audit.to_dict()) for audit in audits],
    }


def trials_that_tell(epsilon: float, delta: float, confidence: float) -> int | None:
    """Trials without which no audit of this promise can tell; None if none would be enough."""
    tested = trials_for(epsilon, delta, alpha=1 - confidence, factor=SHARP)
    # two worlds; a little more, because neither shares nor halves of trials are whole numbers
    return None if tested is None else math.ceil(2.02 * tested / (1 - LEARNING_SHARE))


def _attacks(count: int) -> str:
    return "one attack" if count == 1 else f"{count:,} attacks"


def _floor(value: float, digits: int = 3) -> str:
    """A bound from below, rounded down so that it stays one."""
    rounded = Context(prec=digits, rounding=ROUND_FLOOR).plus(Decimal(value))
    return f"{rounded:f}" if rounded else "0"


def bound_in_words(audit: Audit) -> str:
    """The certified ε, with as many digits as show that it is above a refuted promise."""
    digits = 3
    while (
        audit.verdict is Verdict.REFUTED
        and float(_floor(audit.epsilon_bound, digits)) <= audit.epsilon
        and digits < 17
    ):
        digits += 1
    return _floor(audit.epsilon_bound, digits)


def _verdict(audit: Audit) -> str:
    if audit.verdict is not Verdict.TOO_WEAK:
        return str(audit.verdict)
    if audit.trials_needed is not None:
        return f"{audit.verdict}; about {_rounded_up(audit.trials_needed):,} trials would"
    fewest = trials_that_tell(audit.epsilon, audit.delta, audit.confidence)
    if fewest is not None and fewest > audit.trials:
        return f"{audit.verdict}; at least {_rounded_up(fewest):,} trials are needed"
    return f"{audit.verdict}; more trials may not help"


def _rounded_up(count: int) -> int:
    """A number of trials, rounded up to two digits: nobody plans 203,817 of them."""
    step = int(10 ** max(0, len(str(count)) - 2))
    return -(-count // step) * step


def _finite(value: Any) -> Any:
    """The same data with None for numbers that JSON has no words for."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
