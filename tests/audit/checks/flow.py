"""Data-dependent control flow: a fit may depend on charged answers, not on rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from .fits import CheckResult, Table
from .recording import Recording, fit_both

__all__ = ["control_flow", "first_difference", "hidden_inputs"]

Recordings = tuple[Recording, Recording]


def first_difference(first: Sequence[str], second: Sequence[str]) -> tuple[int, str, str] | None:
    """Return the first index at which two lists differ, with both entries; None if equal."""
    for at, (one, other) in enumerate(zip_longest(first, second, fillvalue="(nothing)")):
        if one != other:
            return at, one, other
    return None


def control_flow(
    estimator: Any, neighbours: tuple[Table, Table], *, recorded: Recordings | None = None
) -> CheckResult:
    """Check that the same answers lead to the same questions, draws and charges on both tables.

    The library's estimators are fitted on the second table with the answers that the first one
    gave, so methods that decide as they go can be checked, too. Of others the draws from
    ``random_state`` are compared, with the same seed.
    """
    check = "control flow"
    both = recorded or fit_both(estimator, neighbours)
    first, second = (recording.transcript for recording in both)
    apart = first_difference(first.steps, second.steps)
    if apart is not None:
        at, one, other = (apart[0], *(_short(text) for text in apart[1:]))
        text = f"Step {at + 1} is {one!r} on one table and {other!r} on its neighbour, after the "
        text += "same answers: the number, size or cost of steps depends on rows, which is not "
        text += "covered by the budget."
        return CheckResult(check, False, text)
    if any(step.startswith("forfeits") for step in first.steps):
        text = "The fit forfeits all protection: it is a baseline without privacy."
        return CheckResult(check, False, text)
    if not first.steps:
        return CheckResult(check, True, "Not checked: it draws nothing that can be recorded.")
    text = f"The same {len(first.steps)} questions, draws and charges on both tables."
    return CheckResult(check, True, text)


def hidden_inputs(
    estimator: Any, neighbours: tuple[Table, Table], *, recorded: Recordings | None = None
) -> CheckResult | None:
    """Check that the same answers lead to the same model, trace and guarantee on both tables.

    A difference comes from the rows without passing through the curator. None for an estimator
    that asks no curator.
    """
    first, second = recorded or fit_both(estimator, neighbours)
    if not first.transcript.questions:
        return None
    check = "answers only"
    names = sorted({*first.left, *second.left})
    apart = [name for name in names if first.left.get(name) != second.left.get(name)]
    if apart:
        text = f"{', '.join(apart)} differ on neighbours although every private answer was the "
        text += "same: they depend on rows without passing through the curator."
        return CheckResult(check, False, text)
    text = f"With the same answers, all of {', '.join(names)} are the same on both tables."
    return CheckResult(check, True, text)


def _short(text: str, most: int = 160) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
