"""Documents made of a card: a record for the public registry of deployments, a self-assessment.

The record is a draft in YAML, with the fields of the registry's schema. The assessment follows NIST
SP 800-226, "Guidelines for Evaluating Differential Privacy Guarantees" (2025). It is a help for an
assessor and has no standing with NIST.
"""

from __future__ import annotations

import datetime
import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from discreet.card.contents import Card
from discreet.card.descriptions import Bullets, Content, Paragraph, TextTable, shown
from discreet.card.sections import LARGE_EPSILON, Section
from discreet.errors import NotSupported
from discreet.statement import neighbours

# Values of ``data_product_sector`` in the registry's schema.
SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
OPEN = "FILL IN"  # start of a required field that nobody has answered


@dataclass(frozen=True)
class OwnerQuestion:
    """A field that only the owner can fill in; ``choices`` lists the texts that it may hold."""

    text: str
    choices: tuple[str, ...] = ()
    required: bool = False


QUESTIONS: dict[str, OwnerQuestion] = {  # by the names in the registry's schema
    "name": OwnerQuestion("name of the data product", required=True),
    "data_curators": OwnerQuestion("who publishes it", required=True),
    "intended_use": OwnerQuestion("what it is for", required=True),
    "description": OwnerQuestion("what it is, in a sentence or two", required=True),
    "data_product_region": OwnerQuestion(
        "region the data describe, or whose laws apply", required=True
    ),
    "data_product_sector": OwnerQuestion("sector", SECTORS),
    "publication_date": OwnerQuestion("date of publication, YYYY-MM-DD", required=True),
    "data_source_type": OwnerQuestion("whether new data come in over time", ("Static", "Dynamic")),
    "actors": OwnerQuestion("who may see the model or the rows, and who is trusted with what"),
    "justification": OwnerQuestion("why ε, the unit and the columns were chosen as they were"),
    "sources": OwnerQuestion("links to documents about it"),
    "registry_authors": OwnerQuestion("who wrote this record", required=True),
}


def answered(card: Card, answers: Mapping[str, str]) -> dict[str, str]:
    """Return all answers to `QUESTIONS` that are given, or that a card of a private model states.

    A field that is not asked for, or an answer that the schema does not allow, is an error.
    """
    if not (card.guarantee.private and card.guarantee.secure):
        raise ValueError("a registry record is for a private model; this one promises nothing.")
    for name, text in answers.items():
        if name not in QUESTIONS:
            raise ValueError(f"{name!r} is not asked for; known: {', '.join(QUESTIONS)}.")
        choices = QUESTIONS[name].choices
        if choices and text not in choices:
            raise ValueError(f"{name} must be one of {', '.join(choices)}; got {shown(text)!r}.")
        if name == "publication_date":
            try:
                datetime.date.fromisoformat(text)
            except ValueError:
                raise ValueError(f"{name} must be YYYY-MM-DD; got {shown(text)!r}.") from None
    facts = _table(card, "facts")
    kind = _table(card, "model").get("Kind", "linear model")
    data = facts["Data set"]
    of = "" if data == "not named" else f" of {data}"
    size = facts["Number of units"]
    known = {
        "name": facts["Model"] if facts["Model"] != "not named" else "",
        "data_curators": facts["Owner"],
        "intended_use": facts["Purpose"],
        "description": f"A differentially private {kind}{of}, fitted to {size}.",
        "publication_date": datetime.date.today().isoformat(),
    }
    given = {name: text for name, text in known.items() if text.strip("_")}
    return given | {name: shown(text, 2000) for name, text in answers.items()}


def record(card: Card, answers: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return a registry record as plain data, valid by the registry's schema.

    Answers are those of `answered`; everything else is taken from the card. Required fields without
    an answer start with ``FILL IN``.
    """
    guarantee = card.guarantee
    values = _owner_values(answered(card, answers or {}))
    epsilon, delta = card.total or (guarantee.epsilon, guarantee.delta)
    unit = "one row" if guarantee.unit == "row" else "one person with all of their rows"
    basic = (
        "name", "data_curators", "intended_use", "data_product_region", "description",
        "publication_date", "data_product_sector",
    )  # fmt: skip
    deployment = {
        "basic": _some(values, *basic) | {"data_product_type": "Machine learning model"},
        "dp_variant": {
            "variant_name": "Approximate DP" if delta else "Pure DP",
            "data_domain": "All tables with these columns: "
            + (_words(card, "columns") or "those of the model; no schema was recorded."),
            "unprotected_quantities": _words(card, "public"),
        },
        "privacy_loss": {
            "privacy_unit": unit,
            "privacy_unit_details": f"Adjacent data sets differ in {neighbours(guarantee)} "
            f"({guarantee.relation}).",
            "privacy_parameters": {
                "epsilon": epsilon,
                "delta": delta,
                **({} if guarantee.rho is None else {"rho": guarantee.rho}),
            },
            "privacy_parameters_details": _words(card, "promise"),
        },
        "deployment_model": {
            "model_name": "Central",
            "model_name_details": "The owner of the data fits the model; the model alone leaves.",
            "release_type": "One release",
            "release_type_details": _words(card, "spent"),
            "access_type": "Non-interactive",
            "access_type_details": "The model is published as it is; nobody queries the rows.",
            **_some(values, "actors", "data_source_type"),
        },
        "accounting": {
            "post_processing": "The affine map of the preparation is folded into the weights, and "
            "predictions are computed from them.",
            "composition": f"Sequential and adaptive, in {_table(card, 'promise')['Composition']}.",
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": _words(card, "split"),
            "mechanisms": f"{_words(card, 'run')} Noise is {guarantee.numeric}. Conditions: "
            f"{_words(card, 'conditions')} {_words(card, 'versions')}",
            **_some(values, "justification"),
        },
        "administrative": {
            "notes": f"{card.summary} {' '.join(card.warnings)}".strip(),
            **_some(values, "sources", "registry_authors"),
        },
    }
    complete = {"actors", "justification", "data_source_type"} <= values.keys()
    slug = re.sub(r"[^a-z0-9]+", "-", str(values["name"]).lower()).strip("-") or "model"
    tier = 3 if complete else 2
    return {"url_slug": slug, "status": "Draft", "tier": tier, "deployment": deployment}


def _owner_values(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields that the owner answers, with a reminder in required ones without answer."""
    values: dict[str, Any] = {}
    for name, question in QUESTIONS.items():
        text = given.get(name) or (f"{OPEN}: {question.text}" if question.required else "")
        if text:
            values[name] = [text] if name in ("data_curators", "registry_authors") else text
    return values


def _some(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: values[name] for name in names if name in values}


def _blocks(card: Card, name: str) -> tuple[Content, ...]:
    return next((section.blocks for section in card.sections if section.name == name), ())


def _table(card: Card, name: str) -> dict[str, str]:
    """Return the first table of a section as a mapping from its first to its second column."""
    tables = [block for block in _blocks(card, name) if isinstance(block, TextTable)]
    return {row[0]: row[1] for row in tables[0].rows} if tables else {}


def _words(card: Card, name: str) -> str:
    """Return the content of a section as running text."""
    texts: list[str] = []
    for block in _blocks(card, name):
        if isinstance(block, Paragraph):
            texts.append(block.text)
        elif isinstance(block, Bullets):
            texts.append("; ".join(block.items) + ".")
        else:
            rows = (f"{row[0]}: {', '.join(filter(None, row[1:]))}" for row in block.rows)
            texts.append("; ".join(rows) + ".")
    return " ".join(texts)


def yaml_text(data: Mapping[str, Any], about: str = "") -> str:
    """Write plain data as YAML; long texts are folded."""
    head = [f"# {line}" for line in textwrap.wrap(about, 96)]
    return "\n".join([*head, *_yaml(data, "")]) + "\n"


def _yaml(data: Mapping[str, Any], indent: str) -> list[str]:
    lines: list[str] = []
    for key, value in data.items():
        if isinstance(value, Mapping):
            lines += [f"{indent}{key}:", *_yaml(value, f"{indent}  ")]
        elif isinstance(value, list):
            lines.append(f"{indent}{key}:")
            lines += [f"{indent}  - {json.dumps(item, ensure_ascii=False)}" for item in value]
        elif isinstance(value, str) and len(value) > 80:
            plain = re.sub(r"\s+", " ", value).strip()
            lines.append(f"{indent}{key}: >-")
            width = max(40, 98 - len(indent))
            folded = textwrap.wrap(plain, width, break_long_words=False, break_on_hyphens=False)
            lines += [f"{indent}  {line}" for line in folded]
        else:
            text = json.dumps(value, ensure_ascii=False)
            if isinstance(value, float) and "." not in text:
                text = text.replace("e", ".0e")  # YAML 1.1 takes 1e-06 for a text
            lines.append(f"{indent}{key}: {text}")
    return lines


MET = "met"  # status of a point that this software and its settings fulfil
NOT_MET = "not met"  # status of a point that they do not fulfil
OUTSIDE = "outside our control"  # status of a point that only the owner of the data can answer
Points = Iterator[tuple[str, str, str]]  # what is asked, the status and the evidence


def assessment(card: Card) -> Card:
    """Return the assessment as a document that the writers of cards can write."""
    levels = {
        "promise": ("The promise", _promise(card)),
        "algorithms": ("Algorithms and their use", _algorithms(card)),
        "implementation": ("Implementation", _implementation(card)),
        "surroundings": ("Trust, security and data collection", _surroundings()),
    }
    blocks: list[Section] = []
    found: list[str] = []
    for level, (heading, points) in levels.items():
        table = TextTable(("Point", "Status", "Evidence"), tuple(points))
        found += [status for _, status, _ in table.rows]
        blocks.append(Section(f"nist-{level}", heading, (table,)))
    counts = ", ".join(f"{found.count(status)} {status}" for status in (MET, NOT_MET, OUTSIDE))
    summary = Paragraph(f"{card.summary} Of {len(found)} points: {counts}.")
    note = Paragraph(
        "By the software itself, along NIST SP 800-226. Points outside of our control are for the "
        "owner of the data to answer."
    )
    kept = tuple(s for s in card.sections if s.name in ("facts", "sign-off"))
    first = Section("assessment", "Summary", (summary, note))
    title = card.title.replace("Privacy card", "Self-assessment along NIST SP 800-226", 1)
    return replace(card, title=title, sections=(kept[0], first, *blocks, *kept[1:]))


def _promise(card: Card) -> Points:
    guarantee = card.guarantee
    holds = guarantee.private and guarantee.secure
    if not holds:
        yield "A promise is made", NOT_MET, card.banner
    epsilon, delta = card.total or (guarantee.epsilon, guarantee.delta)
    small = holds and epsilon <= LARGE_EPSILON
    means = card.risks[-1].text if card.risks and holds else "Nothing is promised."
    yield "ε is stated and small enough", MET if small else NOT_MET, means
    if guarantee.n_units is None:
        known = OUTSIDE if delta else MET
        text = f"δ = {delta:.4g}; the number of units was not recorded."
    else:
        known = MET if holds and delta * guarantee.n_units < 1 else NOT_MET
        text = f"δ = {delta:.4g}, and 1/n = {1 / max(guarantee.n_units, 1):.3g}."
    yield "δ is well below 1/n", known, text
    by_row = guarantee.unit == "row"
    text = "One person with all of their rows is protected."
    if by_row:
        text = "One row is protected: enough only if nobody has several, which the owner knows."
    yield "The unit of privacy is a person", OUTSIDE if by_row else MET, text
    text = f"{neighbours(guarantee)} ({guarantee.relation}).".capitalize()
    yield "Neighbouring data sets are stated", MET, text
    counted = not any("No ledger" in text for text in card.warnings)
    text = "A ledger counts this release with all others of the data set and holds a limit."
    if not counted:
        text = "No ledger counted the fit. Other releases about the same rows add to it."
    yield "All releases are added up", MET if counted else NOT_MET, text


def _algorithms(card: Card) -> Points:
    guarantee = card.guarantee
    ran = ", ".join(dict.fromkeys(use.mechanism.name for use in guarantee.mechanisms))
    proven = MET if guarantee.private else NOT_MET
    text = f"Mechanisms: {ran or 'none'}. Each has a written proof (docs/proofs)."
    yield "Mechanisms and sensitivities are proven", proven, text
    yield "Another accountant agrees", *_recomputed(card)
    leaky = [text for text in card.warnings if "outside the budget" in text]
    text = "Bounds and lists of values are public, or were estimated within the budget."
    status = NOT_MET if leaky else OUTSIDE
    text = (
        " ".join(leaky) if leaky else f"{text} Only the owner knows whether they are truly public."
    )
    yield "Nothing was taken from the rows for free", status, text
    text = (
        "Settings that were chosen by results on these rows are releases, too: tune, or a ledger."
    )
    yield "Tuning is accounted for", OUTSIDE, text
    text = "discreet evaluate --epsilon measures accuracy, AUC and calibration with noise."
    yield "Utility was measured", OUTSIDE, text
    text = "Noise and clipping hit small groups hardest; evaluate on them. Bias of data remains."
    yield "Bias was considered", OUTSIDE, text


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


def _implementation(card: Card) -> Points:
    guarantee = card.guarantee
    exact = MET if guarantee.secure and guarantee.private else NOT_MET
    numeric = guarantee.numeric if guarantee.private else "no noise at all"
    text = f"Noise: {numeric}. Rounding errors of sums are part of the sensitivity."
    yield "Floating point does not break the promise", exact, text
    text = "Bits of the operating system's generator." if guarantee.secure else "A fixed seed."
    yield "Noise cannot be predicted", exact, text
    text = "The duration of a fit is not protected. Do not let others time it (docs/limitations)."
    yield "Side channels such as time are closed", NOT_MET, text
    text = "Errors, warnings and logs show no value of a row; unknown error texts are withheld."
    yield "Messages reveal nothing", MET, text
    text = "Tests recompute every guarantee, and discreet audit attacks the real code."
    yield "The implementation was tested", MET, text


def _surroundings() -> Points:
    text = "Central: whoever runs the fit sees the rows and is trusted. The model alone leaves."
    yield "The trust model is stated", MET, text
    text = "Rows, backups, logs of other programs, workers."
    yield "Access to the rows is controlled", OUTSIDE, text
    text = "The model file has a checksum; keep its ledger."
    yield "The released model is what was fitted", OUTSIDE, text
    text = "A prediction reveals something about its own row."
    yield "Predictions are handled like rows", OUTSIDE, text
    text = "Which data exist at all, for how long, with what consent."
    yield "Data collection was limited", OUTSIDE, text
