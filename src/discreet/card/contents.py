"""Contents of a privacy card as plain data, in the order a reader needs them."""

from __future__ import annotations

import datetime
from dataclasses import asdict, dataclass, replace
from typing import Any

from discreet.card import first_page, risk, sections
from discreet.card.descriptions import Bullets, describe_model, last_step, shown
from discreet.card.leaks import leaky_steps, steps_of
from discreet.card.sections import Costs, budget_text
from discreet.core import Guarantee, Relation
from discreet.statement import learned_outside, neighbours, outside_budget, uncovered
from discreet.tables.declarations import Spent


@dataclass(frozen=True)
class Risk:
    """Upper bound on an attacker's true-positive rate at a false-positive rate."""

    false_positive_rate: float
    true_positive_rate: float
    text: str


@dataclass(frozen=True)
class Card:
    """A privacy card as plain data; ``print`` shows it as text.

    ``summary`` is the guarantee in one sentence, ``banner`` the reason why nothing is promised, or
    not about all that was used, if so. ``risks`` and ``curve`` bound attacks at the rates of
    `discreet.card.risk.RATES` and at many others. ``total`` is (ε, δ) of the fit and of estimating
    the schema together; None if no schema was estimated, or if it was under another relation.
    ``sections`` hold the whole text.
    """

    title: str
    summary: str
    banner: str
    guarantee: Guarantee
    risks: tuple[Risk, ...]
    curve: tuple[tuple[float, float], ...]
    total: tuple[float, float] | None
    sections: tuple[sections.Section, ...]
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the card as plain data."""
        total = self.total
        return {
            "title": self.title,
            "summary": self.summary,
            "banner": self.banner,
            "guarantee": self.guarantee.to_dict(),
            "risks": [asdict(item) for item in self.risks],
            "total": None if total is None else {"epsilon": total[0], "delta": total[1]},
            "warnings": list(self.warnings),
            "sections": [asdict(section) for section in self.sections],
        }

    def __str__(self) -> str:
        from discreet.card.writers import text

        return text(self)

    def _repr_html_(self) -> str:
        from discreet.card.writers import framed

        return framed(self)


def card(
    subject: Any,
    *,
    model: Any = None,
    schema: Any = None,
    title: str | None = None,
    dataset: str = "",
    owner: str = "",
    purpose: str = "",
    date: str = "",
    ledger: Any = None,
    sha256: str | None = None,
) -> Card:
    """Collect a privacy card: a document for whoever decides about the release of a model.

    Parameters
    ----------
    subject : fitted model, fitted pipeline or Guarantee
        The model, a pipeline that ends in it, or the guarantee alone (``model.guarantee_``).
    model : estimator, optional
        The fitted model or pipeline, if ``subject`` is a guarantee. No weight is shown.
    schema : Schema, optional
        The schema of the table, if it is not part of the pipeline.
    title, date : str, optional
        Name of the model in the title, and date of the card; today by default.
    dataset, owner, purpose : str
        Name of the data set, who is responsible for it, and what the model is for. By default
        those of the schema (``[about]``); the ledger's name of the data set if there is none.
    ledger : Dataset, optional
        The data set of the ledger, whose history is shown; by default the model's own.
    sha256 : str, optional
        Hash of the model file, by which the ledger knows its entry.

    Notes
    -----
    *Privacy.* Everything on a card is public already: settings, the schema, and totals that depend
    on them. The card counts the budget of every schema that it is given or finds in the pipeline,
    and opens with a warning if steps of the pipeline learned from the exact rows.
    """
    if not isinstance(subject, Guarantee):
        model = subject
        subject = _guarantee_of(model)
    schemas = _schemas(model, schema)
    spent = [(sections.ESTIMATED, each.spent) for each in schemas if each.spent is not None]
    spent += _steps_before(model)
    guarantee = _with_steps(subject, model, spent)
    before, total = _before(guarantee, spent)
    risks = tuple(
        Risk(
            rate,
            risk.attack_success(guarantee, rate, before=before),
            risk.risk_text(guarantee, rate, before=before),
        )
        for rate in risk.RATES
    )
    curve = risk.attack_curve(guarantee, before=before)
    summary = _summary(guarantee, spent, total)
    holds = guarantee.private and guarantee.secure
    group = risk.group_text(guarantee, before=before) if holds else ""
    ledger = getattr(last_step(model), "ledger", None) if ledger is None else ledger
    given = {"dataset": dataset, "owner": owner, "purpose": purpose}
    about = sections.stated(given, schemas, ledger)
    about["date"] = date or datetime.date.today().isoformat()
    warnings = sections.warning_texts(guarantee, model, total, counted=ledger is not None)
    blocks = (
        sections.facts(guarantee, title, about),
        first_page.plain_words(guarantee, risks[-1].text, spent, total, ledger),
        sections.Section("warnings", "Warnings", (Bullets(warnings),) if warnings else ()),
        first_page.checks(guarantee, schemas),
        sections.sign_off(),
        first_page.appendix(),
        sections.promise(guarantee, summary, group, total),
        sections.risk_bounds(guarantee, tuple(item.text for item in risks), spent, before),
        sections.budget(guarantee, spent, total, model, ledger, sha256),
        sections.prepared(guarantee),
        sections.public(guarantee, schemas),
        sections.conditions(guarantee),
        sections.mechanisms(guarantee),
        sections.Section("model", "Model", () if model is None else (describe_model(model),)),
        sections.columns(schemas),
        sections.versions(),
    )
    return Card(
        title=_title(title, about["dataset"]),
        summary=summary,
        banner=_banner(guarantee),
        guarantee=guarantee,
        risks=risks,
        curve=tuple(zip(*(each.tolist() for each in curve), strict=True)),
        total=total,
        sections=tuple(each for each in blocks if each.blocks),
        warnings=warnings,
    )


def _guarantee_of(model: Any) -> Guarantee:
    """Return the guarantee of a fitted model, or of the last step of a pipeline."""
    stated = getattr(last_step(model), "guarantee_", None)
    if not isinstance(stated, Guarantee):
        raise ValueError(
            "card needs a fitted model of discreet, a pipeline that ends in one, or a "
            f"Guarantee; got {type(model).__name__} without guarantee_. Fit it first."
        )
    return stated


def _schemas(model: Any, schema: Any) -> list[Any]:
    """Return the given schema, if any, and those of the pipeline's steps."""
    found = [] if schema is None else [schema]
    for step in steps_of(model):
        for own in (getattr(step, "schema", None), getattr(step, "design_", None)):
            declared = getattr(own, "schema", own)
            if hasattr(declared, "spent") and declared not in found:
                found.append(declared)
    return found


def _with_steps(guarantee: Guarantee, model: Any, spent: Costs) -> Guarantee:
    """Return the guarantee with what steps of the pipeline take away from it."""
    if not all(each.secure for _, each in spent):
        guarantee = replace(guarantee, secure=False)  # the estimates protect nobody
    found = (learned_outside(type(step).__name__) for step in leaky_steps(model))
    return replace(guarantee, public=tuple(dict.fromkeys((*guarantee.public, *found))))


def _title(model: str | None, dataset: str) -> str:
    """Return the title of the card, with the names of the model and the data set, if known."""
    names = [shown(name, 100) for name in (model, dataset) if name]
    return f"Privacy card: {', '.join(names)}" if names else "Privacy card"


def _banner(guarantee: Guarantee) -> str:
    """Return the reason why nothing is promised, or not about all that was used, if so."""
    if not guarantee.private:
        return "NOT PRIVATE: computed on the exact rows. It protects nobody."
    if not guarantee.secure:
        return "TEST MODE, NOT PRIVATE: a seed was fixed, so the noise can be predicted."
    if found := outside_budget(guarantee):
        said = " ".join(map(shown, found))
        return f"NOT PRIVATE in part: {said} The promise below does not cover that."
    return ""


def _steps_before(model: Any) -> Costs:
    """Return names and costs of private steps before the model, such as a `PrivateScaler`."""
    found = []
    for step in steps_of(model):
        stated = getattr(step, "guarantee_", None)
        if isinstance(stated, Guarantee) and step is not last_step(model):
            unit = None if stated.unit == "row" else stated.unit
            budget = (stated.epsilon, stated.delta, str(stated.relation))
            cost = Spent(*budget, what=stated.conditions, secure=stated.secure, unit=unit)
            found.append((type(step).__name__, cost))
    return found


def _before(
    guarantee: Guarantee, spent: Costs
) -> tuple[list[tuple[float, float]], tuple[float, float] | None]:
    """Return what was spent besides the fit, if it adds up with it, and the total."""
    if not spent or not guarantee.private:
        return [], None
    by_row = guarantee.unit == "row"
    for _, each in spent:
        if Relation(each.relation) is not guarantee.relation or (each.unit is None) != by_row:
            return [], None
    before = [(each.epsilon, each.delta) for _, each in spent]
    epsilon, delta = map(sum, zip((guarantee.epsilon, guarantee.delta), *before, strict=True))
    return before, (epsilon, delta)


def _summary(guarantee: Guarantee, spent: Costs, total: tuple[float, float] | None) -> str:
    """State the guarantee in a sentence, with the cost of estimating the schema."""
    if not guarantee.private:
        return "No privacy is promised: a baseline for comparison on public data only."
    subject = "This model"
    verb = "is"
    if total is not None:
        steps = any(name != sections.ESTIMATED for name, _ in spent)
        other = "steps before it" if steps else "schema that was estimated for it"
        subject = f"This model and the {other}"
        verb = "are together"
    if not guarantee.secure:
        subject = f"With secure noise {subject[0].lower()}{subject[1:]}"
        verb = "would be"
    promise = budget_text(*(total or (guarantee.epsilon, guarantee.delta)))
    sentence = f"{subject} {verb} {promise}-differentially private for {neighbours(guarantee)}."
    if outside := uncovered(guarantee):
        sentence += f" {shown(outside)}".replace("It does", "This does", 1)
    if spent and total is None:
        texts = []
        for _, each in spent:
            protected = Relation(each.relation).text
            if each.unit is not None:
                protected = protected.replace("row", "person with all of their rows", 1)
            texts.append(f"{budget_text(each.epsilon, each.delta)} for {protected}")
        first = " and ".join(dict.fromkeys(name for name, _ in spent))
        sentence += f" {first} cost more, under another relation or unit: {'; '.join(texts)}."
    return sentence
