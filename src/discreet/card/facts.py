"""Gathers what a privacy card says, in the order a reader needs it."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from discreet.card import risk
from discreet.card.parts import Block, Bullets, Paragraph, Section, Table, shown
from discreet.card.subjects import describe_model, describe_schema, summarise_uses
from discreet.core import Guarantee, Relation

__all__ = ["Card", "Risk", "card"]

_MEASURES = {
    "zcdp": "zero-concentrated differential privacy (zCDP)",
    "gdp": "Gaussian differential privacy",
    "pure": "pure differential privacy",
    "approximate": "(ε, δ) directly",
    None: "nothing was composed",
}
_NOT_PRIVATE = "NOT PRIVATE: computed on the exact rows. It protects nobody."
_TEST_MODE = "TEST MODE, NOT PRIVATE: a seed was fixed, so the noise can be predicted."


@dataclass(frozen=True)
class Risk:
    """What an attacker with a false-positive rate catches at most."""

    false_positive_rate: float
    true_positive_rate: float
    words: str


@dataclass(frozen=True)
class Card:
    """A privacy card as plain data; ``print`` shows it as text.

    Attributes
    ----------
    title, summary
        Its name, and the promise in one sentence.
    banner
        Why nothing is promised, if so; else empty.
    guarantee
        The promise itself.
    risks
        What attackers at the rates of `discreet.card.risk.RATES` catch at most.
    curve
        The same as a curve: (false-positive rate, most true positives).
    total
        (ε, δ) of the fit and of what estimating the schema spent, if both are known and add up.
    sections
        All of the text.
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
        """All of it as plain data."""
        return {
            "title": self.title,
            "summary": self.summary,
            "banner": self.banner,
            "guarantee": self.guarantee.to_dict(),
            "risks": [asdict(item) for item in self.risks],
            "total": None
            if self.total is None
            else {"epsilon": self.total[0], "delta": self.total[1]},
            "sections": [asdict(section) for section in self.sections],
        }

    def __str__(self) -> str:
        """The card as text."""
        from discreet.card.plain import text

        return text(self)

    def _repr_html_(self) -> str:
        """The card for a notebook, in a frame of its own."""
        from discreet.card.page import framed

        return framed(self)


def card(
    guarantee: Guarantee, *, model: Any = None, schema: Any = None, title: str | None = None
) -> Card:
    """Gather a privacy card.

    Parameters
    ----------
    guarantee : Guarantee
        What was promised (``model.guarantee_``).
    model : estimator, optional
        The fitted model (or a pipeline that ends in it): its kind and settings are shown, none of
        its weights.
    schema : Schema, optional
        The schema of its table: what it says is public, and what estimating it has spent.
    title : str, optional
        Whose card it is.

    Privacy
    -------
    Everything on it is public already: settings, the schema, and totals that depend on them.
    """
    if schema is not None and schema.spent is not None and not schema.spent.secure:
        guarantee = replace(guarantee, secure=False)  # what was estimated protects nobody
    holds = guarantee.private and guarantee.secure
    banner = "" if holds else _TEST_MODE if guarantee.private else _NOT_PRIVATE
    spent = getattr(schema, "spent", None)
    before, total = _before(guarantee, spent)
    risks = tuple(
        Risk(
            rate,
            risk.attack_success(guarantee, rate, before=before),
            risk.in_words(guarantee, rate, before=before),
        )
        for rate in risk.RATES
    )
    rates, caught = risk.attack_curve(guarantee, before=before)
    sections = (
        _promise(guarantee, total),
        _risk(guarantee, risks, counted=bool(before), apart=spent is not None and not before),
        _split(guarantee),
        _spent(guarantee, spent, total),
        _run(guarantee),
        _public(guarantee, schema),
        _conditions(guarantee),
        *(() if model is None else (Section("model", "The model", describe_model(model)),)),
        _versions(),
    )
    return Card(
        title=shown(title or "Privacy card", 100),
        summary=_summary(guarantee, total),
        banner=banner,
        guarantee=guarantee,
        risks=risks,
        curve=tuple(zip(rates.tolist(), caught.tolist(), strict=True)),
        total=total,
        sections=sections,
    )


def _before(
    guarantee: Guarantee, spent: Any
) -> tuple[list[tuple[float, float]], tuple[float, float] | None]:
    """What was spent besides the fit, if it adds up with it, and the total."""
    if spent is None or not guarantee.private:
        return [], None
    if Relation.parse(spent.relation) is not guarantee.relation:
        return [], None
    total = (guarantee.epsilon + spent.epsilon, guarantee.delta + spent.delta)
    return [(spent.epsilon, spent.delta)], total


def _summary(guarantee: Guarantee, total: tuple[float, float] | None) -> str:
    """The promise in a sentence: with what the schema spent, if something was spent on it."""
    if not guarantee.private:
        return "No privacy is promised: a baseline for comparison on public data only."
    subject, verb = "This model", "is"
    if total is not None:
        subject, verb = "This model and the schema that was estimated for it", "are together"
    if not guarantee.secure:
        subject, verb = f"With secure noise {subject[0].lower()}{subject[1:]}", "would be"
    promise = f"{budget_words(*(total or (guarantee.epsilon, guarantee.delta)))}"
    return f"{subject} {verb} {promise}-differentially private for {guarantee.relation.text}."


def budget_words(epsilon: float, delta: float) -> str:
    """A budget as a reader expects it."""
    return f"(ε = {epsilon:.6g}, δ = {delta:.6g})" if delta else f"(ε = {epsilon:.6g}, pure)"


def _promise(guarantee: Guarantee, total: tuple[float, float] | None) -> Section:
    who = f"{shown(guarantee.unit)}: whoever has one row in the table"
    if not (guarantee.private and guarantee.secure):
        who = "nobody"
    of_fit = "" if total is None else " of the fit alone"
    rows = [
        ("Who is protected", who),
        ("Compared tables", f"{guarantee.relation.text} ({guarantee.relation})"),
        (
            f"ε (privacy loss){of_fit}",
            f"{guarantee.epsilon:.6g}" if guarantee.private else "unbounded",
        ),
        (
            f"δ (slack){of_fit}",
            f"{guarantee.delta:.6g}" if guarantee.private else "none is promised",
        ),
        ("Composed in", _MEASURES[guarantee.measure]),
    ]
    if guarantee.rho is not None:
        rows.append(("Total ρ", f"{guarantee.rho:.6g}"))
    if guarantee.mu is not None:
        rows.append(("Total μ", f"{guarantee.mu:.6g}"))
    rows.append(("Noise", guarantee.numeric if guarantee.private else "none"))
    return Section(
        "promise",
        "What is promised",
        (Paragraph(_summary(guarantee, total)), Table(("", ""), tuple(rows))),
    )


def _risk(guarantee: Guarantee, risks: tuple[Risk, ...], *, counted: bool, apart: bool) -> Section:
    """The risks in words; a schema's estimates are counted in them, or stand apart."""
    heading = "What it means for one person"
    if not guarantee.private or not guarantee.secure:
        return Section(
            "risk",
            heading,
            (Paragraph("Nothing is promised: an attacker may be right about everybody."),),
        )
    known = "the model, but not the schema" if apart else "the model and all that was released"
    blocks: list[Block] = [
        Paragraph(
            f"The strongest attacker is assumed: one who has {known}, knows all other rows, and "
            "knows the row in question completely."
        ),
        Bullets(tuple(item.words for item in risks)),
        Paragraph("These are upper bounds for every attack there is, known or not."),
    ]
    if apart:
        blocks.append(
            Paragraph(
                "The schema was estimated under another relation, so its release is not counted "
                "in: whoever has both catches more."
            )
        )
    if counted:
        blocks.append(Paragraph("What estimating the schema released is counted in."))
    return Section("risk", heading, tuple(blocks))


def _split(guarantee: Guarantee) -> Section:
    heading = "How the budget was shared out"
    if not guarantee.private:
        return Section("split", heading, (Paragraph("There was no budget."),))
    if not guarantee.split:
        return Section("split", heading, (Paragraph("All of it went into the model."),))
    rows = tuple((shown(part, 80), f"{100 * share:.4g} %") for part, share in guarantee.split)
    note = {
        "zcdp": f"What adds up over the parts is ρ of zCDP: {guarantee.rho or 0:.6g} in total.",
        "gdp": f"What adds up over the parts is μ² of Gaussian DP: {(guarantee.mu or 0) ** 2:.6g} "
        "in total.",
    }.get(guarantee.measure or "", "Shares are of what was asked for; parts do not add up.")
    return Section(
        "split",
        heading,
        (Table(("Part", "Share"), rows, numeric=(1,)), Paragraph(note)),
    )


def _spent(guarantee: Guarantee, spent: Any, total: tuple[float, float] | None) -> Section:
    blocks: list[Block] = []
    if guarantee.private:
        rows = [("This fit", f"{guarantee.epsilon:.6g}", f"{guarantee.delta:.6g}")]
        if spent is not None:
            rows.append(("Estimating the schema", f"{spent.epsilon:.6g}", f"{spent.delta:.6g}"))
        if total is not None:
            rows.append(("Together", f"{total[0]:.6g}", f"{total[1]:.6g}"))
        blocks.append(Table(("", "ε", "δ"), tuple(rows), numeric=(1, 2)))
    if spent is not None:
        blocks.append(
            Paragraph(f"Estimated for the schema: {_sentence_list(spent.what) or 'not stated'}.")
        )
        if guarantee.private and total is None:
            blocks.append(
                Paragraph(
                    f"The schema was estimated under another relation ({shown(spent.relation)}), "
                    "so the two promises cannot be added up."
                )
            )
    blocks.append(Paragraph("Every other use of the same rows adds to this."))
    if guarantee.earlier_fits:
        times = "1 fit" if guarantee.earlier_fits == 1 else f"{guarantee.earlier_fits:,} fits"
        blocks.append(
            Paragraph(
                f"{times} took place in the same process before this one. What used the same rows "
                "has to be added."
            )
        )
    return Section("spent", "What was spent on these rows", tuple(blocks))


def _sentence_list(texts: Any) -> str:
    return "; ".join(shown(text) for text in texts)


def _run(guarantee: Guarantee) -> Section:
    uses = summarise_uses(guarantee.mechanisms)
    block: Block = (
        Table(("Mechanism", "Settings", "Uses"), uses, numeric=(2,))
        if uses
        else Paragraph("No mechanism was run.")
    )
    return Section("run", "What was run", (block,))


def _public(guarantee: Guarantee, schema: Any) -> Section:
    blocks: list[Block] = [
        Paragraph("Known to everybody, as far as the promise goes. It is not protected:")
    ]
    if guarantee.public:
        blocks.append(Bullets(tuple(shown(item) for item in guarantee.public)))
    if schema is not None:
        blocks += describe_schema(schema)
    return Section("public", "What is treated as public", tuple(blocks))


def _conditions(guarantee: Guarantee) -> Section:
    blocks: list[Block] = []
    if guarantee.conditions:
        blocks.append(Bullets(tuple(shown(item) for item in guarantee.conditions)))
    if guarantee.private:
        blocks.append(Paragraph(f"Noise: {guarantee.numeric}."))
    blocks.append(
        Paragraph("One person, one row: somebody with k rows is protected about k times less.")
    )
    return Section("conditions", "What the promise rests on", tuple(blocks))


def _versions() -> Section:
    names = ("discreet", "numpy", "scikit-learn", "dp-accounting")
    rows = [(name, _version(name)) for name in names]
    return Section(
        "versions",
        "Versions",
        (
            Paragraph("Of the software that wrote this card:"),
            Table(("", ""), (*rows, ("Python", platform.python_version()))),
        ),
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
