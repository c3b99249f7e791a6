"""A self-assessment of a model along NIST SP 800-226, by what its card states.

SP 800-226, "Guidelines for Evaluating Differential Privacy Guarantees" (2025), asks about the
promise, the algorithms behind it, their implementation, and what surrounds them. Each point here is
met, not met, or outside of what a library can control, with the evidence. It is a help for an
assessor and has no standing with NIST.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from discreet.card.contents import Card
from discreet.card.descriptions import Paragraph, Table
from discreet.card.sections import LARGE_EPSILON, Section
from discreet.errors import NotSupported
from discreet.statement import neighbours

MET, NOT_MET, OUTSIDE = "met", "not met", "outside our control"
_LEVELS = {
    "promise": "The promise",
    "algorithms": "Algorithms and their use",
    "implementation": "Implementation",
    "surroundings": "Trust, security and data collection",
}


@dataclass(frozen=True)
class Point:
    """One point of the assessment: its level, the question, the status and the evidence."""

    level: str
    question: str
    status: str
    evidence: str


def points(card: Card) -> tuple[Point, ...]:
    """Assess a model by its card, point by point."""
    return (
        *_promise(card),
        *_algorithms(card),
        *_implementation(card),
        *_surroundings(),
    )


def assessment(card: Card) -> Card:
    """Return the assessment as a document that the writers of cards can write."""
    found = points(card)
    counts = ", ".join(
        f"{sum(point.status == status for point in found)} {status}"
        for status in (MET, NOT_MET, OUTSIDE)
    )
    summary = Paragraph(f"{card.summary} Of {len(found)} points: {counts}.")
    note = Paragraph(
        "By the software itself, along NIST SP 800-226. Points outside of our control are for the "
        "owner of the data to answer."
    )
    blocks = [Section("assessment", "Summary", (summary, note))]
    for level, heading in _LEVELS.items():
        rows = tuple((p.question, p.status, p.evidence) for p in found if p.level == level)
        table = Table(("Point", "Status", "Evidence"), rows)
        blocks.append(Section(f"nist-{level}", heading, (table,)))
    kept = tuple(s for s in card.sections if s.name in ("facts", "sign-off"))
    title = card.title.replace("Privacy card", "Self-assessment along NIST SP 800-226", 1)
    return replace(card, title=title, sections=(kept[0], *blocks, *kept[1:]))


def _promise(card: Card) -> Iterator[Point]:
    guarantee, level = card.guarantee, "promise"
    holds = guarantee.private and guarantee.secure
    if not holds:
        yield Point(level, "A promise is made", NOT_MET, card.banner)
    epsilon, delta = card.total or (guarantee.epsilon, guarantee.delta)
    small = holds and epsilon <= LARGE_EPSILON
    means = card.risks[1].text if card.risks and holds else "Nothing is promised."
    yield Point(level, "ε is stated and small enough", MET if small else NOT_MET, means)
    if guarantee.n_units is None:
        known = OUTSIDE if delta else MET
        text = f"δ = {delta:.4g}; the number of units was not recorded."
    else:
        known = MET if holds and delta * guarantee.n_units < 1 else NOT_MET
        text = f"δ = {delta:.4g}, and 1/n = {1 / max(guarantee.n_units, 1):.3g}."
    yield Point(level, "δ is well below 1/n", known, text)
    by_row = guarantee.unit == "row"
    text = "One person with all of their rows is protected."
    if by_row:
        text = "One row is protected: enough only if nobody has several, which the owner knows."
    yield Point(level, "The unit of privacy is a person", OUTSIDE if by_row else MET, text)
    text = f"{neighbours(guarantee)} ({guarantee.relation}).".capitalize()
    yield Point(level, "Neighbouring data sets are stated", MET, text)
    counted = not any("No ledger" in text for text in card.warnings)
    text = "A ledger counts this release with all others of the data set and holds a limit."
    if not counted:
        text = "No ledger counted the fit. Other releases about the same rows add to it."
    yield Point(level, "All releases are added up", MET if counted else NOT_MET, text)


def _algorithms(card: Card) -> Iterator[Point]:
    guarantee, level = card.guarantee, "algorithms"
    ran = ", ".join(dict.fromkeys(use.mechanism.name for use in guarantee.mechanisms))
    proven = MET if guarantee.private else NOT_MET
    text = f"Mechanisms: {ran or 'none'}. Each has a written proof (docs/proofs)."
    yield Point(level, "Mechanisms and sensitivities are proven", proven, text)
    yield Point(level, "Another accountant agrees", *_recomputed(card))
    leaky = [text for text in card.warnings if "labels were taken" in text]
    text = "Bounds and lists of values are public, or were estimated within the budget."
    status = NOT_MET if leaky else OUTSIDE
    text = leaky[0] if leaky else f"{text} Only the owner knows whether they are truly public."
    yield Point(level, "Nothing was taken from the rows for free", status, text)
    text = "Settings that were chosen by looking at these rows count too: tune, or a ledger."
    yield Point(level, "Tuning is accounted for", OUTSIDE, text)
    text = "discreet evaluate --epsilon measures accuracy, AUC and calibration with noise."
    yield Point(level, "Utility was measured", OUTSIDE, text)
    text = "Noise and clipping hit small groups hardest; evaluate on them. Bias of data remains."
    yield Point(level, "Bias was considered", OUTSIDE, text)


def _recomputed(card: Card) -> tuple[str, str]:
    """Return status and evidence of an independent computation of ε."""
    guarantee = card.guarantee
    if not guarantee.private:
        return NOT_MET, "There is no ε to recompute."
    try:
        found = guarantee.recompute()
    except NotSupported as reason:
        return OUTSIDE, f"Not possible here: {reason}"
    agrees = found <= guarantee.epsilon * (1 + 1e-6)
    text = f"ε = {found:.6g} by dp-accounting or a second formula, {guarantee.epsilon:.6g} stated."
    return MET if agrees else NOT_MET, text


def _implementation(card: Card) -> Iterator[Point]:
    guarantee, level = card.guarantee, "implementation"
    exact = MET if guarantee.secure and guarantee.private else NOT_MET
    numeric = guarantee.numeric if guarantee.private else "no noise at all"
    text = f"Noise: {numeric}. Rounding errors of sums are part of the sensitivity."
    yield Point(level, "Floating point does not break the promise", exact, text)
    text = "Bits of the operating system's generator." if guarantee.secure else "A fixed seed."
    yield Point(level, "Noise cannot be predicted", exact, text)
    text = "The duration of a fit is not protected. Do not let others time it (docs/limitations)."
    yield Point(level, "Side channels such as time are closed", NOT_MET, text)
    text = "Errors, warnings and logs show no value of a row; unknown error texts are withheld."
    yield Point(level, "Messages reveal nothing", MET, text)
    text = "Tests recompute every guarantee, and discreet audit attacks the real code."
    yield Point(level, "The implementation was tested", MET, text)


def _surroundings() -> Iterator[Point]:
    level = "surroundings"
    yield Point(
        level,
        "The trust model is stated",
        MET,
        "Central: whoever runs the fit sees the rows and is trusted. The model alone leaves.",
    )
    for question, text in (
        ("Access to the rows is controlled", "Rows, backups, logs of other programs, workers."),
        (
            "The released model is what was fitted",
            "The model file has a checksum; keep its ledger.",
        ),
        ("Predictions are handled like rows", "A prediction reveals something about its own row."),
        (
            "Data collection was limited",
            "Which data exist at all, for how long, with what consent.",
        ),
    ):
        yield Point(level, question, OUTSIDE, text)
