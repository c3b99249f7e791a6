"""Data-dependent control flow: what a fit does next may depend on paid answers, not on rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from .result import CheckResult
from .fits import Table
from .recording import fit_both

__all__ = ["control_flow", "first_difference", "hidden_inputs"]


def first_difference(first: Sequence[str], second: Sequence[str]) -> tuple[int, str, str] | None:
    """Where two lists part, and what each has there."""
    for at, (one, other) in enumerate(zip_longest(first, second, fillvalue="(nothing)")):
        if one != other:
            return at, one, other
    return None


def control_flow(estimator: Any, neighbours: tuple[Table, Table]) -> CheckResult:
    """Whether the same answers lead to the same questions, draws and charges on both tables.

    The library's estimators are fitted on the second table with the answers that the first one
    gave, so methods that decide as they go can be checked, too. Of others the draws from
    ``random_state`` are compared, with the same seed.
    """
    check = "control flow"
    first, second = (heard.transcript for heard in fit_both(estimator, neighbours))
    apart = first_difference(first.steps, second.steps)
    if apart is not None:
        at, one, other = (apart[0], *(_short(text) for text in apart[1:]))
        words = f"Step {at + 1} is {one!r} on one table and {other!r} on its neighbour, after the "
        words += "same answers: the number, size or price of what a fit does depends on rows, and "
        words += "nobody paid for that."
        return CheckResult(check, False, words)
    if any(step.startswith("forfeits") for step in first.steps):
        words = "The fit gives up all protection: a baseline, of which nothing is private."
        return CheckResult(check, False, words)
    if not first.steps:
        return CheckResult(check, True, "Not checked: it draws nothing that can be watched.")
    words = f"The same {len(first.steps)} questions, draws and charges on both tables."
    return CheckResult(check, True, words)


def hidden_inputs(estimator: Any, neighbours: tuple[Table, Table]) -> CheckResult | None:
    """Whether the same answers lead to the same model, trace and guarantee on both tables.

    What differs then came from the rows by another way than through the curator. None for an
    estimator that asks no curator.
    """
    first, second = fit_both(estimator, neighbours)
    if not first.transcript.questions:
        return None
    check = "nothing but answers"
    names = sorted({*first.left, *second.left})
    apart = [name for name in names if first.left.get(name) != second.left.get(name)]
    if apart:
        words = f"{', '.join(apart)} differ on neighbours although every private answer was the "
        words += "same: something of the rows gets out beside the curator."
        return CheckResult(check, False, words)
    words = f"With the same answers, all of {', '.join(names)} are the same on both tables."
    return CheckResult(check, True, words)


def _short(text: str, most: int = 160) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
