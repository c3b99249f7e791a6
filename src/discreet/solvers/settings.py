"""Checks of a solver's settings: what is allowed, in one voice, before any data is read.

Each function takes a solver and field names, and refuses values that make no sense. Numbers are
stored as plain ints and floats, so that no narrow type rounds what is computed from them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

__all__ = ["choice", "flags", "functions", "number", "numbers", "wholes"]


def choice(solver: Any, field: str, known: Iterable[str]) -> None:
    """The field is one of several words."""
    value, known = getattr(solver, field), tuple(known)
    if not (isinstance(value, str) and value in known):
        words = " or ".join(repr(word) for word in known)
        raise ValueError(f"{field} must be {words}; got {value!r}.")


def flags(solver: Any, *fields: str) -> None:
    """The fields are True or False."""
    for field in fields:
        value = getattr(solver, field)
        if not isinstance(value, bool):
            raise ValueError(f"{field} must be True or False; got {value!r}.")


def wholes(
    solver: Any, *fields: str, least: int = 1, most: int = 10**9, optional: bool = False
) -> None:
    """The fields are whole numbers in a range, or None if ``optional``."""
    for field in fields:
        value = getattr(solver, field)
        if value is None and optional:
            continue
        if (
            isinstance(value, bool)
            or not isinstance(value, Integral)
            or not least <= int(value) <= most
        ):
            raise ValueError(
                f"{field} must be a whole number from {least} to {most:,}"
                f"{', or None' if optional else ''}; got {_shown(value)}."
            )
        object.__setattr__(solver, field, int(value))


def numbers(
    solver: Any,
    *fields: str,
    least: float = 1e-50,
    most: float = 1e50,
    optional: bool = False,
) -> None:
    """The fields are finite numbers in a range, or None if ``optional``."""
    for field in fields:
        value = getattr(solver, field)
        if value is not None or not optional:
            checked = number(field, value, least, most, optional)
            object.__setattr__(solver, field, checked)


def number(
    field: str, value: Any, least: float = 1e-50, most: float = 1e50, optional: bool = False
) -> float:
    """A number in a range, as a float."""
    found = _as_float(value)
    if not least <= found <= most:  # False for what is not a number
        raise ValueError(
            f"{field} must be a number from {least:g} to {most:g}"
            f"{', or None' if optional else ''}; got {_shown(value)}."
        )
    return found


def functions(solver: Any, *fields: str) -> None:
    """The fields are callables or None."""
    for field in fields:
        value = getattr(solver, field)
        if value is not None and not callable(value):
            raise ValueError(f"{field} must be a function or None; got {_shown(value)}.")


def _as_float(value: Any) -> float:
    """A real number as a float; NaN for everything else."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _shown(value: Any) -> str:
    """A value as it may stand in a message: not a page long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
