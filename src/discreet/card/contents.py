"""Contents of a privacy card as plain data, in the order a reader needs them."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from discreet.card import risk
from discreet.card.descriptions import (
    Block,
    Bullets,
    Paragraph,
    Table,
    describe_model,
    describe_schema,
    last_step,
    shown,
    summarise_uses,
)
from discreet.core import Guarantee, Relation
from discreet.statement import neighbours

__all__ = ["Card", "Risk", "Section", "card"]

_MEASURES = {
    "zcdp": "zero-concentrated differential privacy (zCDP)",
    "gdp": "Gaussian differential privacy",
    "pure": "pure differential privacy",
    "approximate": "(ε, δ) directly",
    "profile": "a privacy profile: a δ for each ε",
    None: "nothing was composed",
}
_PARTS = {
    "radius": "bound on the norm of the rows",
    "spread": "bound on the norm of the centred rows",
    "centre": "means of the columns",
    "scale": "scales of the columns",
    "whiten": "correlations of the columns",
    "bounds": "bounds of columns",
}
"""Quantities that the steps of a preparation estimate."""

_NOT_PRIVATE = "NOT PRIVATE: computed on the exact rows. It protects nobody."
_TEST_MODE = "TEST MODE, NOT PRIVATE: a seed was fixed, so the noise can be predicted."


@dataclass(frozen=True)
class Section:
    """A heading and the blocks below it; ``name`` identifies the section."""

    name: str
    heading: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Risk:
    """Upper bound on an attacker's true-positive rate at a false-positive rate."""

    false_positive_rate: float
    true_positive_rate: float
    text: str


@dataclass(frozen=True)
class Card:
    """A privacy card as plain data; ``print`` shows it as text.

    Attributes
    ----------
    title, summary
        Its title, and the guarantee in one sentence.
    banner
        The reason why nothing is promised, if so; else empty.
    guarantee
        The guarantee of the fit.
    risks, curve
        Bounds on attacks at the rates of `discreet.card.risk.RATES`, and the same bound as a curve:
        (false-positive rate, largest true-positive rate).
    total
        (ε, δ) of the fit and of estimating the schema together; None if no schema was estimated,
        or if it was under another relation.
    sections
        The whole text.
    """

    title: str
    summary: str
    banner: str
    guarantee: Guarantee
    risks: tuple[Risk, ...]
    curve: tuple[tuple[float, float], ...]
    total: tuple[float, float] | None
    sections: tuple[Section, ...]

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
    ledger: Any = None,
    sha256: str | None = None,
) -> Card:
    """Collect a privacy card.

    Parameters
    ----------
    subject : fitted model, fitted pipeline or Guarantee
        The model, a pipeline that ends in it, or the guarantee alone (``model.guarantee_``).
    model : estimator, optional
        The fitted model or pipeline, if ``subject`` is a guarantee. Its kind and settings are
        shown, none of its weights.
    schema : Schema, optional
        The schema of the table, if it is not part of the pipeline: what it declares public, and
        what estimating it has spent.
    title : str, optional
        Name of the model in the title.
    ledger : Dataset, optional
        The data set of the ledger that counts the releases; by default the model's own. Its
        history is shown: this release, all releases so far, and what remains.
    sha256 : str, optional
        Hash of the model file, by which the ledger knows its entry.

    Notes
    -----
    *Privacy.* Everything on a card is public already: settings, the schema, and totals that depend
    on them. The card counts the budget of every schema that it is given or finds in the pipeline.
    """
    if not isinstance(subject, Guarantee):
        model = subject
        subject = getattr(last_step(model), "guarantee_", None)
        if not isinstance(subject, Guarantee):
            raise ValueError(
                "card needs a fitted model of discreet, a pipeline that ends in one, or a "
                f"Guarantee; got {type(model).__name__} without guarantee_. Fit it first."
            )
    guarantee = subject
    schemas = [] if schema is None else [schema]
    schemas += [found for found in _schemas(model) if found not in schemas]
    spent = [each.spent for each in schemas if each.spent is not None]
    if not all(each.secure for each in spent):
        guarantee = replace(guarantee, secure=False)  # the estimates protect nobody
    banner = ""
    if not (guarantee.private and guarantee.secure):
        banner = _TEST_MODE if guarantee.private else _NOT_PRIVATE
    before, total = _before(guarantee, spent)
    risks = tuple(
        Risk(
            rate,
            risk.attack_success(guarantee, rate, before=before),
            risk.risk_text(guarantee, rate, before=before),
        )
        for rate in risk.RATES
    )
    rates, caught = risk.attack_curve(guarantee, before=before)
    summary = _summary(guarantee, spent, total)
    group = "" if banner else risk.group_text(guarantee, before=before)
    sections = (
        _promise(guarantee, summary, group, total),
        _risk(guarantee, risks, counted=bool(before), apart=bool(spent) and not before),
        _split(guarantee),
        _spent(guarantee, spent, total),
        *_history(model, ledger, sha256),
        _run(guarantee),
        _public(guarantee, schemas),
        _conditions(guarantee),
        *(() if model is None else (Section("model", "Model", (describe_model(model),)),)),
        _versions(),
    )
    return Card(
        title=f"Privacy card: {shown(title, 100)}" if title else "Privacy card",
        summary=summary,
        banner=banner,
        guarantee=guarantee,
        risks=risks,
        curve=tuple(zip(rates.tolist(), caught.tolist(), strict=True)),
        total=total,
        sections=sections,
    )


def _schemas(model: Any) -> Iterator[Any]:
    """Yield the schemas of all steps of a pipeline, nested ones included."""
    found = getattr(model, "schema", None)
    if hasattr(found, "spent"):
        yield found
    for name in ("steps", "transformer_list", "transformers_"):
        for step in getattr(model, name, None) or ():
            yield from _schemas(step[1])


def _before(
    guarantee: Guarantee, spent: list[Any]
) -> tuple[list[tuple[float, float]], tuple[float, float] | None]:
    """Return what was spent besides the fit, if it adds up with it, and the total."""
    if not spent or not guarantee.private:
        return [], None
    by_row = guarantee.unit == "row"
    for each in spent:
        if Relation(each.relation) is not guarantee.relation or (each.unit is None) != by_row:
            return [], None
    before = [(each.epsilon, each.delta) for each in spent]
    epsilon, delta = map(sum, zip((guarantee.epsilon, guarantee.delta), *before, strict=True))
    return before, (epsilon, delta)


def _summary(guarantee: Guarantee, spent: list[Any], total: tuple[float, float] | None) -> str:
    """State the guarantee in a sentence, with the cost of estimating the schema."""
    if not guarantee.private:
        return "No privacy is promised: a baseline for comparison on public data only."
    subject, verb = "This model", "is"
    if total is not None:
        subject, verb = "This model and the schema that was estimated for it", "are together"
    if not guarantee.secure:
        subject, verb = f"With secure noise {subject[0].lower()}{subject[1:]}", "would be"
    promise = _budget_text(*(total or (guarantee.epsilon, guarantee.delta)))
    sentence = f"{subject} {verb} {promise}-differentially private for {neighbours(guarantee)}."
    if spent and total is None:
        each = "; ".join(
            f"{_budget_text(item.epsilon, item.delta)} for {_neighbours_of(item)}" for item in spent
        )
        sentence += f" Estimating the schema cost more, under another relation or unit: {each}."
    return sentence


def _neighbours_of(spent: Any) -> str:
    text = Relation(spent.relation).text
    return text if spent.unit is None else text.replace("row", "person with all of their rows", 1)


def _budget_text(epsilon: float, delta: float) -> str:
    return f"(ε = {epsilon:.6g}, δ = {delta:.6g})" if delta else f"(ε = {epsilon:.6g}, pure)"


def _promise(
    guarantee: Guarantee, summary: str, group: str, total: tuple[float, float] | None
) -> Section:
    holds = guarantee.private and guarantee.secure
    of_fit = "" if total is None else " of the fit alone"
    rows = [
        ("Protected unit", _unit(guarantee) if holds else "nobody"),
        ("Neighbouring data sets", f"{neighbours(guarantee)} ({guarantee.relation})"),
        (
            f"ε (privacy loss){of_fit}",
            f"{guarantee.epsilon:.6g}" if guarantee.private else "unbounded",
        ),
        (f"δ (slack){of_fit}", f"{guarantee.delta:.6g}" if guarantee.private else "not promised"),
        ("Composition", _MEASURES[guarantee.measure]),
    ]
    totals = (("Total ρ", guarantee.rho), ("Total μ", guarantee.mu))
    rows += [(name, f"{value:.6g}") for name, value in totals if value is not None]
    rows.append(("Noise", guarantee.numeric if guarantee.private else "none"))
    text = (Paragraph(summary), *([Paragraph(group)] if group else []))
    return Section("promise", "What is promised", (*text, Table(("", ""), tuple(rows))))


def _unit(guarantee: Guarantee) -> str:
    return (
        "one row of the table" if guarantee.unit == "row" else "one person with all of their rows"
    )


def _risk(guarantee: Guarantee, risks: tuple[Risk, ...], *, counted: bool, apart: bool) -> Section:
    """State the bounds on attacks; the estimates of a schema are included or named apart."""
    unit = "row" if guarantee.unit == "row" else "person"
    heading = f"What it means for one {unit}"
    if not guarantee.private or not guarantee.secure:
        nothing = "Nothing is promised: an attacker may be right about everybody."
        return Section("risk", heading, (Paragraph(nothing),))
    known = "the model, but not the schema" if apart else "the model and everything released"
    schema = ""
    if apart:
        schema = (
            " The schema was estimated under another relation and is not included: an attacker who "
            "has both may catch more."
        )
    elif counted:
        schema = " The estimates of the schema are included."
    blocks = (
        Paragraph(
            "Bounds on membership inference. The attacker is the strongest possible: it has "
            f"{known}, and knows everything about all others and about the {unit} in question."
        ),
        Bullets(tuple(item.text for item in risks)),
        Paragraph(f"These are upper bounds for all attacks, known or unknown.{schema}"),
    )
    return Section("risk", heading, blocks)


def _split(guarantee: Guarantee) -> Section:
    heading = "How the budget was divided"
    if not guarantee.private:
        return Section("split", heading, (Paragraph("There was no budget."),))
    if not guarantee.split:
        return Section("split", heading, (Paragraph("All of it was spent on the model."),))
    shares: dict[str, list[float]] = {}
    for part, share in guarantee.split:
        shares.setdefault(part, []).append(share)
    rows = []
    for part, each in shares.items():
        estimates = f" ({_PARTS[part]})" if part in _PARTS else ""
        times = f", {len(each)} times" if len(each) > 1 else ""
        rows.append((f"{shown(part, 80)}{estimates}{times}", f"{100 * sum(each):.4g} %"))
    note = {
        "zcdp": f"Shares are of ρ of zCDP, which adds up: {guarantee.rho or 0:.6g} in total.",
        "gdp": "Shares are of μ² of Gaussian DP, which adds up: "
        f"{(guarantee.mu or 0) ** 2:.6g} in total.",
    }.get(guarantee.measure or "", "Shares are of the requested budget; parts do not add up.")
    table = Table(("Part", "Share"), tuple(rows), numeric=(1,))
    return Section("split", heading, (table, Paragraph(note)))


def _spent(guarantee: Guarantee, spent: list[Any], total: tuple[float, float] | None) -> Section:
    blocks: list[Block] = []
    if guarantee.private:
        costs = [("This fit", guarantee.epsilon, guarantee.delta)]
        costs += [("Estimating the schema", each.epsilon, each.delta) for each in spent]
        if total is not None:
            costs.append(("Together", *total))
        rows = tuple((name, f"{epsilon:.6g}", f"{delta:.6g}") for name, epsilon, delta in costs)
        blocks.append(Table(("", "ε", "δ"), rows, numeric=(1, 2)))
    for each in spent:
        what = "; ".join(shown(text) for text in each.what) or "not stated"
        stop = "" if what.endswith("…") else "."
        blocks.append(Paragraph(f"Estimated for the schema: {what}{stop}"))
    if spent and guarantee.private and total is None:
        apart = "The schema was estimated under another relation or for another unit"
        blocks.append(Paragraph(f"{apart}, so the two guarantees cannot be added up."))
    blocks.append(Paragraph("Every other use of the same rows adds to this."))
    if guarantee.earlier_fits:
        times = "1 fit" if guarantee.earlier_fits == 1 else f"{guarantee.earlier_fits:,} fits"
        earlier = f"{times} took place in the same process before this one."
        blocks.append(Paragraph(f"{earlier} Those that used the same rows have to be added."))
    return Section("spent", "Budget spent on these rows", tuple(blocks))


def _history(model: Any, ledger: Any, sha256: str | None) -> tuple[Section, ...]:
    """Describe the data set's history, if a ledger counts it."""
    fitted = None if model is None else last_step(model)
    ledger = getattr(fitted, "ledger", None) if ledger is None else ledger
    if ledger is None:
        return ()
    known, records = ledger.summary(), ledger.records()
    entry = getattr(fitted, "ledger_entry_", None)
    mine = [r for r in records if entry == r["entry"] or (sha256 and sha256 == r["model"])]
    counted = [r for r in records if r["status"] != "returned"]
    this = "not found in the ledger"
    if mine:
        this = f"entry {mine[-1]['entry']} of {shown(mine[-1]['when'][:10])}, {mine[-1]['status']}"
    rows = [
        ("Data set", shown(known["dataset"])),
        ("Privacy unit of the limit", shown(known["unit"])),
        ("This release", this),
        ("All releases so far", f"{len(counted):,}"),
    ]
    if known["limit"] is not None:
        limit = _budget_text(known["limit"]["epsilon"], known["limit"]["delta"])
        spent = "more than the limit" if known["spent"] is None else f"ε = {known['spent']:.4g}"
        rows += [
            ("Limit of all releases", limit),
            ("Spent by all releases", spent),
            ("Largest ε of the next fit", f"{known['remaining']:g}"),
        ]
    note = "What the ledger said when this card was written. The promise for the data set is the "
    note += "limit: all releases together keep it."
    if known["limit"] is None:
        note = "What the ledger said when this card was written."
    blocks = (Table(("", ""), tuple(rows)), Paragraph(note))
    return (Section("history", "History of the data set", blocks),)


def _run(guarantee: Guarantee) -> Section:
    rows = summarise_uses(guarantee.mechanisms)
    table = Table(("Mechanism", "Settings", "Uses"), rows, numeric=(2,))
    return Section("run", "Mechanisms", (table if rows else Paragraph("No mechanism was run."),))


def _public(guarantee: Guarantee, schemas: list[Any]) -> Section:
    blocks: list[Block] = [Paragraph("Assumed to be known to everybody, and not protected:")]
    if guarantee.public:
        blocks.append(Bullets(tuple(shown(item) for item in guarantee.public)))
    for schema in schemas:
        blocks += describe_schema(schema)
    return Section("public", "What is treated as public", tuple(blocks))


def _conditions(guarantee: Guarantee) -> Section:
    conditions = list(map(shown, guarantee.conditions))
    if guarantee.private:
        conditions.append(f"noise: {guarantee.numeric}")
    return Section("conditions", "Conditions of the guarantee", (Bullets(tuple(conditions)),))


def _versions() -> Section:
    rows = []
    for name in ("discreet", "numpy", "scikit-learn", "dp-accounting"):
        try:
            rows.append((name, version(name)))
        except PackageNotFoundError:
            rows.append((name, "not installed"))
    rows.append(("Python", platform.python_version()))
    about = Paragraph("Of the software that wrote this card:")
    return Section("versions", "Software versions", (about, Table(("", ""), tuple(rows))))
