"""The trust section of a privacy card: what one site released, for whom, under which model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from discreet.sites.terms import PER_SITE


def trust_section(site: str, record: Sequence[Mapping[str, Any]]) -> str:
    """Return a site's record of releases as Markdown; it is made of public facts."""
    lines = [f"## Trust: what site {site} released", ""]
    if not record:
        return "\n".join([*lines, "Nothing was released.", ""])
    for entry in record:
        answers = entry["answers"]
        lines += [
            f"### Fit {entry['fit'][:8]}",
            "",
            f"- Sites: {', '.join(entry['sites'])}.",
            f"- Trust model: {entry['trust']}. {_sentence(entry['statement'])}",
            f"- Promise: ε = {entry['epsilon']:g}, δ = {entry['delta']:g}, "
            f"{entry['relation']}; {PER_SITE[entry['unit']]}.",
            f"- Released: {answers} answer{'s' * (answers != 1)} to questions about its rows"
            + (
                f", {100 * entry['spent_share']:.1f} % of its filter."
                if entry["spent_share"]
                else "."
            ),
            f"- Ledger: the budget was {entry['budget']}; the fit was {entry['end']}.",
            "",
        ]
    return "\n".join(lines)


def _sentence(text: str) -> str:
    """Return a statement as a sentence."""
    return f"{text[:1].upper()}{text[1:]}."
