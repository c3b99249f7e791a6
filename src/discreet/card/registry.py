"""Records for the public registry of differential-privacy deployments, as a draft in YAML.

The fields are those of the registry's schema. What a model and its card state is filled in;
what only its owner knows is asked for (`QUESTIONS`), and marked in the draft if it is not answered.
"""

from __future__ import annotations

import datetime
import json
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from discreet.card.contents import Card
from discreet.card.descriptions import Bullets, Paragraph, Table, shown
from discreet.statement import neighbours

SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
OPEN = "FILL IN"


@dataclass(frozen=True)
class Question:
    """A field that only the owner can fill in; ``choices`` lists the texts that it may hold."""

    text: str
    choices: tuple[str, ...] = ()
    required: bool = False


QUESTIONS: dict[str, Question] = {
    "name": Question("name of the data product", required=True),
    "data_curators": Question("who publishes it", required=True),
    "intended_use": Question("what it is for", required=True),
    "description": Question("what it is, in a sentence or two", required=True),
    "data_product_region": Question("region the data describe, or whose laws apply", required=True),
    "data_product_sector": Question("sector", SECTORS),
    "publication_date": Question("date of publication, YYYY-MM-DD", required=True),
    "data_source_type": Question("whether new data come in over time", ("Static", "Dynamic")),
    "actors": Question("who may see the model or the rows, and who is trusted with what"),
    "justification": Question("why ε, the unit and the columns were chosen as they were"),
    "sources": Question("links to documents about it"),
    "registry_authors": Question("who wrote this record", required=True),
}
"""Fields that only the owner can fill in, by their names in the registry's schema."""

_LISTS = ("data_curators", "registry_authors")


def record(card: Card, answers: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return a registry record as plain data, valid by the registry's schema.

    Parameters
    ----------
    card : Card
        The privacy card of the model: everything but the answers is taken from it.
    answers : mapping of str to str
        Answers to `QUESTIONS`. Name, owner and purpose are the card's by default, the date is
        today's. Required fields without an answer start with ``FILL IN``.

    Raises
    ------
    ValueError
        For a field that is not asked for, or an answer that the schema does not allow.
    """
    guarantee, facts = card.guarantee, _table(card, "facts")
    if not (guarantee.private and guarantee.secure):
        raise ValueError("a registry record is for a private model; this one promises nothing.")
    known = {
        "name": facts["Model"] if facts["Model"] != "not named" else "",
        "data_curators": facts["Owner"],
        "intended_use": facts["Purpose"],
        "description": _description(card, facts),
        "publication_date": datetime.date.today().isoformat(),
    }
    given = {name: text for name, text in known.items() if text.strip("_")}
    given |= _checked(answers or {})
    values: dict[str, Any] = {}
    for name, question in QUESTIONS.items():
        text = given.get(name) or (f"{OPEN}: {question.text}" if question.required else "")
        if text:
            values[name] = [text] if name in _LISTS else text
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


def _checked(answers: Mapping[str, str]) -> dict[str, str]:
    """Refuse answers to questions that are not asked, and texts that the schema has not."""
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
                raise ValueError(
                    f"publication_date must be YYYY-MM-DD; got {shown(text)!r}."
                ) from None
    return {name: shown(text, 2000) for name, text in answers.items()}


def _some(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: values[name] for name in names if name in values}


def _description(card: Card, facts: Mapping[str, str]) -> str:
    model = _table(card, "model")
    kind, data = model.get("Kind", "linear model"), facts["Data set"]
    of = "" if data == "not named" else f" of {data}"
    return f"A differentially private {kind}{of}, fitted to {facts['Number of units']}."


def _section(card: Card, name: str) -> Any:
    return next((section for section in card.sections if section.name == name), None)


def _table(card: Card, name: str) -> dict[str, str]:
    """Return the first table of a section as a mapping from its first to its second column."""
    section = _section(card, name)
    tables = [] if section is None else [b for b in section.blocks if isinstance(b, Table)]
    return {row[0]: row[1] for row in tables[0].rows} if tables else {}


def _words(card: Card, name: str) -> str:
    """Return the content of a section as running text."""
    section = _section(card, name)
    texts: list[str] = []
    for block in () if section is None else section.blocks:
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
            lines.append(f"{indent}{key}: {_scalar(value)}")
    return lines


def _scalar(value: Any) -> str:
    """Write a text or number; YAML 1.1 takes 1e-06 for a text, so it becomes 1.0e-06."""
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, float) and "e" in text and "." not in text:
        return text.replace("e", ".0e")
    return text
