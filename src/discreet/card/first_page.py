"""First page of a privacy card: the release in plain words, and what only people can check."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from discreet.card.descriptions import Bullets, Paragraph, TextTable, shown
from discreet.card.sections import LARGE_EPSILON, Costs, Section, budget_text
from discreet.core import Guarantee
from discreet.statement import outside_budget

_BOX = "☐"


def plain_words(
    guarantee: Guarantee,
    gain: str,
    spent: Costs,
    total: tuple[float, float] | None,
    ledger: Any,
) -> Section:
    """Answer six questions about the release; ``gain`` is the bound on attacks in a sentence."""
    holds = guarantee.private and guarantee.secure
    rows = [
        ("What is promised?", _promised(guarantee, total) if holds else "Nothing."),
        ("To whom?", _to_whom(guarantee) if holds else "To nobody."),
        ("What does an attacker gain?", gain),
        ("What is not protected?", _unprotected(guarantee)),
        ("What did the budget not cover?", _outside(guarantee)),
        ("What was spent, and what is left?", _left(guarantee, spent, total, ledger)),
    ]
    return Section("plain", "In plain words", (TextTable(("", ""), tuple(rows)),))


def _promised(guarantee: Guarantee, total: tuple[float, float] | None) -> str:
    epsilon, _ = total or (guarantee.epsilon, guarantee.delta)
    one = "row" if guarantee.unit == "row" else "person"
    changed = "left out" if guarantee.relation == "add_remove" else "replaced by another"
    if epsilon > LARGE_EPSILON:
        return (
            f"Little: at ε = {epsilon:.4g}, what the model shows may depend strongly on one {one}."
        )
    return (
        f"Whatever somebody concludes from the model would be nearly as likely had any one {one} "
        f"been {changed}: at most {math.ceil(10 * math.exp(epsilon)) / 10:g} times more or less "
        "likely, but for a very small chance (δ). This holds for every attacker and method."
    )


def _to_whom(guarantee: Guarantee) -> str:
    if guarantee.unit == "row":
        return "To each row of the table. A person with several rows is protected less."
    return "To each person in the table, with all of their rows."


def _unprotected(guarantee: Guarantee) -> str:
    units = "rows" if guarantee.unit == "row" else "people"
    return (
        "What the model says about people in general holds for everybody who resembles them, "
        "whether they are in the table or not. Names of columns, the schema and the number of "
        f"{units} are treated as public. A prediction shows something of the row it was made from. "
        "Several people who belong together, such as a family, are protected less than one."
    )


def _outside(guarantee: Guarantee) -> str:
    if not guarantee.private:
        return "Everything: there was no budget."
    if found := outside_budget(guarantee):
        return " ".join(map(shown, found))
    return (
        "Nothing that the software saw. It cannot see what was done to the table before it was "
        "given to the fit."
    )


def _left(
    guarantee: Guarantee, spent: Costs, total: tuple[float, float] | None, ledger: Any
) -> str:
    """State what this release cost, what the data set has spent, and what is left of its limit."""
    if not guarantee.private:
        return "There was no budget."
    text = f"This model: {budget_text(guarantee.epsilon, guarantee.delta)}."
    if total is not None:
        text += f" With what was estimated before it: {budget_text(*total)}."
    elif spent:
        text += " What was estimated before it comes on top."
    if ledger is None:
        return f"{text} No ledger counted other releases about the same data."
    known = ledger.summary()
    if known["limit"] is None:
        return f"{text} The ledger of the data set has no limit."
    limit = known["limit"]["epsilon"]
    if known["spent"] is None:
        return f"{text} All releases together exceed the limit of ε = {limit:.6g}."
    left = known.get("at_smaller_delta") or {"epsilon": known["remaining"]}
    return (
        f"{text} All {known['entries']:,} releases of the data set: ε = {known['spent']:.4g} of "
        f"{limit:.6g}. The next model may have at most ε = {left['epsilon']:.4g}."
    )


def checks(guarantee: Guarantee, schemas: list[Any]) -> Section:
    """List what no software can check, with boxes to tick."""
    items = tuple(f"{_BOX} {text}" for text in _to_check(guarantee, schemas))
    blocks = (Paragraph("The promise rests on these statements:"), Bullets(items))
    return Section("checks", "To be checked by people", blocks)


def _to_check(guarantee: Guarantee, schemas: list[Any]) -> Iterator[str]:
    units = [schema.unit for schema in schemas if schema.unit is not None]
    if guarantee.unit == "row":
        yield "Each person has one row, or protection of single rows is enough."
    else:
        where = f" in the column {shown(units[0])!r}" if units else ""
        yield f"The ids{where} are complete: one person has one id, and no two people share one."
    estimated = any(schema.spent is not None for schema in schemas)
    known = "that were not estimated within the budget " if estimated else ""
    yield (
        f"Bounds, categories and labels {known}come from public knowledge, not from looking at "
        "the rows."
    )
    yield (
        "Nothing was computed from the rows before the fit: no choice of columns, no scaling, no "
        "removal of outliers, no second try with other settings."
    )
    yield "All other releases about the same people are known: models, tables, reports, samples."
    yield "What the model says about people in general may be published, and serves the purpose."


def appendix() -> Section:
    """Open the part of the card for readers who check the numbers."""
    text = "The rest of this card is for readers who check the numbers and the method."
    return Section("appendix", "Appendix: details", (Paragraph(text),))
