"""Sections of a privacy card, in the words that a privacy officer needs."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeAlias

from discreet.card.descriptions import (
    Bullets,
    Content,
    Paragraph,
    TextTable,
    describe_columns,
    last_step,
    listed,
    shown,
    summarise_uses,
)
from discreet.core import Guarantee
from discreet.statement import (
    GROUPS_LOST,
    LABELS,
    LABELS_TAKEN,
    MEASURES,
    neighbours,
    steps_outside,
)
from discreet.tables.declarations import Spent

Costs: TypeAlias = list[tuple[str, Spent]]  # besides that of the fit: of steps before it, a schema

ESTIMATED = "Estimating the schema"  # name of the cost of a draft of a schema

LARGE_EPSILON = 10.0  # a promise of more says little: e^10 is 22,026

STEPS = {  # parts of a budget: what was measured with noise, and what it is for
    "magnitude": ("Sizes of numbers", "columns may be in any unit"),
    "largest": ("Sizes of rows' largest numbers", "columns in large units may be rare, too"),
    "bounds": ("Bounds of columns", "columns without public bounds are scaled; more is clipped"),
    "windows": ("Windows of columns", "numbers are scaled by where nearly all of them lie"),
    "radius": ("Bound on the norm of rows", "no row counts for much more than the others"),
    "centre": ("Means of columns", "subtracted, so that the model learns differences, not levels"),
    "spread": ("Bound on the norm of centred rows", "as above, after the means are subtracted"),
    "scale": ("Scales of columns", "columns in large units do not drown the others"),
    "whiten": ("Correlations of columns", "columns that move together are told apart sooner"),
    "class balance": ("Sizes of the classes", "all classes have the same weight"),
    "inference": ("Errors of the weights", "intervals hold sampling error and privacy noise"),
    "score": ("Scores of candidates", "the best of several settings was chosen"),
    "model": ("Weights", "the model itself"),
}

LEVELS = "texts that enough rows share are levels; others are scored as the average"
"""Use of a part that found the levels of a column, which its name names."""

_BLANK = 20 * "_"  # a line to write on


@dataclass(frozen=True)
class Section:
    """A heading and the blocks below it; ``name`` identifies the section."""

    name: str
    heading: str
    blocks: tuple[Content, ...]


def stated(given: dict[str, str], schemas: list[Any], ledger: Any) -> dict[str, str]:
    """Return name, owner and purpose of the data set: as given, or as a schema states them."""
    for name in given:
        stated = (getattr(getattr(each, "about", None), name, "") for each in schemas)
        given[name] = given[name] or next(filter(None, stated), "")
    if ledger is not None and not given["dataset"]:
        given["dataset"] = str(ledger.summary()["dataset"])
    return given


def facts(guarantee: Guarantee, title: str | None, about: dict[str, str]) -> Section:
    """State what the card is about: model, data set, owner, purpose, size, date."""
    units = "rows" if guarantee.unit == "row" else "people"
    size = "not recorded" if guarantee.n_units is None else f"{guarantee.n_units:,} {units}"
    rows = (
        ("Model", shown(title) if title else "not named"),
        ("Data set", shown(about["dataset"]) or "not named"),
        ("Number of units", size),
        ("Owner", shown(about["owner"]) or _BLANK),
        ("Purpose", shown(about["purpose"]) or _BLANK),
        ("Date of this card", shown(about["date"])),
        ("Software", f"discreet {_installed('discreet')}"),
    )
    return Section("facts", "About", (TextTable(("", ""), rows),))


def warning_texts(
    guarantee: Guarantee, model: Any, total: tuple[float, float] | None, *, counted: bool
) -> tuple[str, ...]:
    """List what a reader should know before trusting the promise."""
    if not guarantee.private:
        return ()
    found = []
    unit = "row" if guarantee.unit == "row" else "person"
    epsilon, delta = total or (guarantee.epsilon, guarantee.delta)
    if guarantee.n_units is not None and delta * guarantee.n_units >= 1:
        whole = "a whole row" if unit == "row" else "all rows of a person"
        found.append(
            f"δ = {delta:.4g} is not below 1/n = {1 / guarantee.n_units:.3g}: a mechanism could "
            f"publish {whole} and keep such a promise. Fit again with a δ well below 1/n."
        )
    if epsilon > LARGE_EPSILON:
        factor = f"{math.exp(epsilon):,.0f}" if epsilon < 30 else f"e^{epsilon:.4g}"
        found.append(
            f"ε = {epsilon:.4g} is above {LARGE_EPSILON:g}: the data of one {unit} may make an "
            f"outcome up to {factor} times as likely. Such a promise rules out almost nothing, and "
            "protection beyond it is not guaranteed."
        )
    outside = steps_outside(guarantee)
    if outside:
        found.append(
            f"{listed(outside)} learned from the exact rows, outside the budget. Nothing is "
            "promised about that, and predictions show it. Fit again with steps that are private "
            "or learn nothing: PrivateScaler, PrivateImputer, schema.transformer(), or lists of "
            "categories that are public."
        )
    fitted = last_step(model)
    undeclared = getattr(fitted, "classes", ()) is None and hasattr(fitted, "classes_")
    if LABELS_TAKEN in guarantee.public or (undeclared and LABELS not in guarantee.public):
        found.append(
            "The class labels were taken from the data, outside the budget: a label that only one "
            f"{unit} has shows that this {unit} was used. Declare the labels."
        )
    if GROUPS_LOST in guarantee.public:
        found.append(
            "The ids of people were given to a search, which did not pass them to the fit: the "
            "promise is for one row, and less for a person with several. Enable scikit-learn's "
            "metadata routing."
        )
    if not counted:
        found.append(
            "No ledger counted this fit, so nothing here shows what else was released about the "
            "same data. The owner has to know."
        )
    return tuple(found)


def budget_text(epsilon: float, delta: float) -> str:
    """Return a budget as text, such as (ε = 1, δ = 1e-06)."""
    return f"(ε = {epsilon:.6g}, δ = {delta:.6g})" if delta else f"(ε = {epsilon:.6g}, pure)"


def promise(
    guarantee: Guarantee, summary: str, group: str, total: tuple[float, float] | None
) -> Section:
    """State the guarantee and its numbers."""
    holds = guarantee.private and guarantee.secure
    private = guarantee.private
    of_fit = "" if total is None else " of the fit alone"
    unit = (
        "one row of the table" if guarantee.unit == "row" else "one person with all of their rows"
    )
    rows = [
        ("Protected unit", unit if holds else "nobody"),
        ("Neighbouring data sets", f"{neighbours(guarantee)} ({guarantee.relation})"),
        (f"ε (privacy loss){of_fit}", f"{guarantee.epsilon:.6g}" if private else "unbounded"),
        (f"δ (slack){of_fit}", f"{guarantee.delta:.6g}" if private else "not promised"),
    ]
    if holds:
        epsilon = total[0] if total else guarantee.epsilon
        strength = "strong, by the common rule of thumb (ε up to 1)"
        if epsilon > 1:
            strength = f"moderate, by the common rule of thumb (ε up to {LARGE_EPSILON:g})"
        if epsilon > LARGE_EPSILON:
            strength = f"weak, by the common rule of thumb (ε above {LARGE_EPSILON:g})"
        if steps_outside(guarantee):
            strength = f"none for what is outside the budget; for the rest, {strength}"
        elif LABELS_TAKEN in guarantee.public:
            strength += "; the class labels are outside the budget"
        rows.append(("Strength", strength))  # Ponomareva et al. 2023
    rows.append(("Composition", MEASURES[guarantee.measure]))
    totals = (("Total ρ", guarantee.rho), ("Total μ", guarantee.mu))
    rows += [(name, f"{value:.6g}") for name, value in totals if value is not None]
    rows.append(("Noise", guarantee.numeric if guarantee.private else "none"))
    text = (Paragraph(summary), *([Paragraph(group)] if group else []))
    return Section("promise", "The guarantee", (*text, TextTable(("", ""), tuple(rows))))


def risk_bounds(
    guarantee: Guarantee, texts: tuple[str, ...], spent: Costs, before: list[tuple[float, float]]
) -> Section:
    """State the bounds on attacks; other costs are counted in them (``before``) or named apart."""
    unit = "row" if guarantee.unit == "row" else "person"
    heading = f"What it means for one {unit}"
    if not guarantee.private or not guarantee.secure:
        nothing = "Nothing is promised: an attacker may be right about everybody."
        return Section("risk", heading, (Paragraph(nothing),))
    known = "the model and everything released"
    schema = ""
    if before:
        schema = " The estimates of the schema are included."
    elif spent:
        known = "the model, but not the schema"
        schema = (
            " The schema was estimated under another relation and is not included: an attacker who "
            "has both may catch more."
        )
    outside: tuple[Content, ...] = ()
    if steps_outside(guarantee):
        outside = (
            Paragraph(
                "These bounds do not hold for what was learned outside the budget: an attacker may "
                "learn more from it, even with certainty."
            ),
        )
    blocks = (
        *outside,
        Paragraph(
            "Bounds on membership inference. The attacker is the strongest possible: it has "
            f"{known}, and knows everything about all others and about the {unit} in question."
        ),
        Bullets(texts),
        Paragraph(f"These are upper bounds for all attacks, known or unknown.{schema}"),
    )
    return Section("risk", heading, blocks)


def prepared(guarantee: Guarantee) -> Section:
    """List what was measured with noise before the model, each step once, and what it is for."""
    heading = "How the rows were prepared, and the budget divided"
    if not (guarantee.private and guarantee.split):
        text = "Nothing was measured before the fit: the whole budget was spent on the model."
        text = text if guarantee.private else "There was no budget."
        return Section("split", heading, (Paragraph(text),))
    shares: dict[str, list[float]] = {}
    for part, share in guarantee.split:
        shares.setdefault(part, []).append(share)
    rows = []
    for part, each in shares.items():
        other = LEVELS if part.startswith("levels of ") else ""
        measured, use = STEPS.get(part, (shown(part, 80), other))
        times = f" ({len(each)} times)" if len(each) > 1 else ""
        rows.append((f"{measured}{times}", use, f"{100 * sum(each):.3g} %"))
    note = {
        "zcdp": f"Shares are of ρ of zCDP, which adds up: {guarantee.rho or 0:.6g} in total.",
        "gdp": "Shares are of μ² of Gaussian DP, which adds up: "
        f"{(guarantee.mu or 0) ** 2:.6g} in total.",
    }.get(guarantee.measure or "", "Shares are of the requested budget; parts do not add up.")
    if any(part.startswith("levels of ") for part in shares):
        note = "Shares are of μ² of Gaussian DP, which holds but for an event of small probability."
    first = Paragraph("All of this was measured with noise, within the budget of the fit:")
    table = TextTable(("Measured", "What it is for", "Share"), tuple(rows), numeric=(2,))
    return Section("split", heading, (first, table, Paragraph(note)))


def budget(
    guarantee: Guarantee,
    spent: Costs,
    total: tuple[float, float] | None,
    model: Any,
    ledger: Any,
    sha256: str | None,
) -> Section:
    """State the budget spent here, so far, and what remains."""
    blocks: list[Content] = []
    costs = []
    if guarantee.private:
        costs = [("This fit", guarantee.epsilon, guarantee.delta)]
        costs += [(name, each.epsilon, each.delta) for name, each in spent]
        if total is not None:
            costs.append(("Together", *total))
    rows = [(name, f"{epsilon:.6g}", f"{delta:.6g}") for name, epsilon, delta in costs]
    rows += () if ledger is None else _history(ledger.summary())
    if rows:
        blocks.append(TextTable(("", "ε", "δ"), tuple(rows), numeric=(1, 2)))
    if ledger is not None:
        blocks.append(Paragraph(_counted(model, ledger, sha256)))
    for name, each in spent:
        what = shown("; ".join(each.what), 200) or "not stated"
        stop = "" if what.endswith("…") else "."
        blocks.append(Paragraph(f"{name}: {what}{stop}"))
    if spent and guarantee.private and total is None:
        apart = "The schema was estimated under another relation or for another unit"
        blocks.append(Paragraph(f"{apart}, so the two guarantees cannot be added up."))
    others = "Every other use of the same rows adds to this."
    if guarantee.earlier_fits:
        times = "1 fit" if guarantee.earlier_fits == 1 else f"{guarantee.earlier_fits:,} fits"
        others += f" {times} took place in the same process before this one."
        others += " Those that used the same rows have to be added."
    blocks.append(Paragraph(others))
    return Section("spent", "Budget: here, so far and remaining", tuple(blocks))


def _history(known: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield what the ledger says about all releases: spent, limit, remaining."""
    limit = known["limit"]
    if limit is None:
        return
    spent = "more than the limit" if known["spent"] is None else f"{known['spent']:.4g}"
    delta = f"{limit['delta']:.6g}"
    yield f"So far: all {known['entries']:,} releases of the data set", spent, delta
    yield "Limit of the data set", f"{limit['epsilon']:.6g}", delta
    left = known.get("at_smaller_delta") or {"epsilon": known["remaining"], "delta": limit["delta"]}
    yield "Remaining: largest ε of the next fit", f"{left['epsilon']:g}", f"{left['delta']:.6g}"


def _counted(model: Any, ledger: Any, sha256: str | None) -> str:
    """State which entry of the ledger this release is, and what the limit promises."""
    known = ledger.summary()
    records = ledger.records()
    entry = getattr(last_step(model), "ledger_entry_", None)
    mine = [r for r in records if entry == r["entry"] or (sha256 and sha256 == r["model"])]
    this = "This release was not found in the ledger"
    if mine:
        this = f"This release is entry {mine[-1]['entry']} of {shown(mine[-1]['when'][:10])}"
        this += f" ({mine[-1]['status']})"
    of = f"{this} of the data set {shown(known['dataset'])!r}, whose unit is {known['unit']}."
    if known["limit"] is None:
        return f"{of} The data set has no limit."
    return f"{of} The promise for the data set is the limit: all releases together keep it."


def mechanisms(guarantee: Guarantee) -> Section:
    """List the mechanisms that ran."""
    rows = summarise_uses(guarantee.mechanisms)
    table = TextTable(("Mechanism", "Settings", "Uses"), rows, numeric=(2,))
    return Section("run", "Mechanisms", (table if rows else Paragraph("No mechanism was run."),))


def public(guarantee: Guarantee, schemas: list[Any]) -> Section:
    """List what the guarantee does not protect."""
    blocks: list[Content] = [Paragraph("Assumed to be known to everybody, and not protected:")]
    items = [shown(item) for item in guarantee.public]
    for schema in schemas:
        estimated = "" if schema.spent is None else " (what was estimated for it is paid for)"
        items.append(
            f"the schema of the table{estimated}: names and kinds of {len(schema.columns):,} "
            "columns, with their bounds and lists of values"
        )
    if items:
        blocks.append(Bullets(tuple(items)))
    return Section("public", "What is treated as public", tuple(blocks))


def columns(schemas: list[Any]) -> Section:
    """Describe the columns of each schema: all of it is treated as public."""
    header = ("Column", "Kind", "Public content")
    blocks = tuple(TextTable(header, tuple(describe_columns(schema))) for schema in schemas)
    return Section("columns", "Columns of the table", blocks)


def conditions(guarantee: Guarantee) -> Section:
    """List the conditions of the guarantee."""
    conditions = list(map(shown, guarantee.conditions))
    if guarantee.private:
        conditions.append(f"noise: {guarantee.numeric}")
    return Section("conditions", "Conditions and mechanics", (Bullets(tuple(conditions)),))


def versions() -> Section:
    """Name the versions of the software."""
    names = ("discreet", "numpy", "scikit-learn", "dp-accounting")
    every = [f"{name} {_installed(name)}" for name in names]
    every.append(f"Python {platform.python_version()}")
    text = f"This card was written with {', '.join(every)}."
    return Section("versions", "Software versions", (Paragraph(text),))


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def sign_off() -> Section:
    """Leave space for a decision."""
    asked = ("Prepared by", "Reviewed by", "Data owner")
    blocks = (
        Paragraph("The release of this model is ☐ approved, ☐ approved on conditions, ☐ refused."),
        TextTable(("", "Name", "Date", "Signature"), tuple((who, *3 * (_BLANK,)) for who in asked)),
        Paragraph(f"Conditions: {2 * _BLANK}"),
    )
    return Section("sign-off", "Decision", blocks)
