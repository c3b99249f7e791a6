"""Text of a guarantee: two sentences for everybody, and the details as short lines.

Functions here take any object with the attributes of `discreet.core.Guarantee`.
"""

from __future__ import annotations

from typing import Any

MEASURES = {
    "pure": "pure differential privacy",
    "approximate": "(ε, δ)-differential privacy",
    "zcdp": "zero-concentrated differential privacy (zCDP)",
    "gdp": "Gaussian differential privacy",
    "profile": "privacy profiles: a δ for each ε",
    None: "nothing was composed",
}

_PEOPLE = {
    "add_remove": "one person with all of their rows added or removed",
    "replace_one": "one person with all of their rows replaced by another",
}

LABELS = "the class labels"
"""Entry of the public part of a guarantee if the labels were declared, by a list or by a type."""

LABELS_TAKEN = "the class labels, taken from y outside the budget"
"""Entry of the public part of a guarantee if nobody declared the labels."""

GROUPS_LOST = "that each person has one row, as the groups of a search did not reach the fit"
"""Entry of the public part of a guarantee for rows, though the caller named people."""

MODEL_PUBLIC = "the model"
"""Entry of the public part of the guarantee of an evaluation: the model that it measures."""

_LEARNED = " learned from the exact rows, outside the budget"


def learned_outside(step: str) -> str:
    """Return what the public part of a guarantee says of a step that it does not cover."""
    return f"what {step}{_LEARNED}"


def steps_outside(guarantee: Any) -> tuple[str, ...]:
    """Return the names of steps that learned from the exact rows, outside the budget."""
    found = (text for text in guarantee.public if text.endswith(_LEARNED))
    return tuple(text.removeprefix("what ").removesuffix(_LEARNED) for text in found)


def outside_budget(guarantee: Any) -> tuple[str, ...]:
    """Return sentences on all that a fit used outside the budget; none if it is clean."""
    found = []
    if steps := steps_outside(guarantee):
        found.append(f"{_joined(steps)}{_LEARNED}.")
    if LABELS_TAKEN in guarantee.public:
        found.append("The class labels were taken from the data, outside the budget.")
    if GROUPS_LOST in guarantee.public:
        found.append("The ids of people did not reach the fit: it protects single rows.")
    return tuple(found)


def _joined(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def uncovered(guarantee: Any) -> str:
    """State in a sentence what steps outside the budget learned, if there are any."""
    steps = steps_outside(guarantee)
    if not steps:
        return ""
    return f"It does not cover what {_joined(steps)}{_LEARNED}."


def neighbours(guarantee: Any) -> str:
    """Return the difference between neighbouring data sets, in words: one row, or one person."""
    relation = guarantee.relation
    return relation.text if guarantee.unit == "row" else _PEOPLE[str(relation)]


def sentences(guarantee: Any) -> str:
    """State the promise in two sentences, with one more if steps are outside of it."""
    if not guarantee.private:
        return (
            "NOT PRIVATE: this fit is a baseline computed on the exact rows and protects nobody. "
            "Do not publish its weights unless the rows may be published."
        )
    promise = f"(ε = {guarantee.epsilon:g})-differentially private (pure)"
    if guarantee.delta:
        promise = f"(ε = {guarantee.epsilon:g}, δ = {guarantee.delta:g})-differentially private"
    promise += f" for {neighbours(guarantee)}."
    if outside := uncovered(guarantee):
        promise += f" {outside}"
    subject = "evaluation" if MODEL_PUBLIC in guarantee.public else "fit"
    others = "Other fits on the same data add to it."
    if subject == "evaluation":
        others = "Every other release about the same data adds to it."
    if guarantee.secure:
        return f"This {subject} is {promise} {others}"
    return (
        "TEST MODE, NOT PRIVATE: a seed was fixed, so the noise can be predicted; with secure "
        f"noise this {subject} would be {promise} {others}"
    )


def details(guarantee: Any) -> str:
    """List how the promise was composed, what it rests on, and what it does not cover."""
    lines = [sentences(guarantee)]
    if guarantee.measure is not None:
        total = ""
        if guarantee.rho is not None:
            total = f", ρ = {guarantee.rho:.6g}"
        elif guarantee.mu is not None:
            total = f", μ = {guarantee.mu:.6g}"
        lines.append(f"Composed in: {MEASURES[guarantee.measure]}{total}.")
    if guarantee.split:
        parts = ", ".join(f"{part} {100 * share:.3g} %" for part, share in guarantee.split)
        lines.append(f"Shares of the budget: {parts}.")
    lines += [f"Condition: {condition}." for condition in guarantee.conditions]
    if guarantee.public:
        lines.append(f"Treated as public: {', '.join(guarantee.public)}.")
    if guarantee.private:
        lines.append(f"Noise: {guarantee.numeric}.")
        lines.append("Mechanisms:")
        for use in guarantee.to_dict()["mechanisms"]:
            settings = ", ".join(
                f"{key} = {value:.6g}" if isinstance(value, float) else f"{key} = {value}"
                for key, value in use.items()
                if key not in ("name", "count") and value is not None
            )
            lines.append(f"  {use['count']} × {use['name']} ({settings})")
    if guarantee.earlier_fits:
        lines.append(
            f"Earlier fits: {guarantee.earlier_fits} took place in this process before; if they "
            "used the same data, their promises add up with this one."
        )
    return "\n".join(lines)
