"""Checks of privacy parameters, and rounding towards the safe side."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Literal

Conversion = Literal["tight", "published"]

UNIT = 2.0**-53  # unit roundoff: one correctly rounded operation is off by this, relatively
SLACK = 8.0 * UNIT  # covers a term built from a few operations and one library call
LARGEST = 1e100  # no square of an accepted value overflows


def check_size(name: str, value: float, *, zero: bool, remedy: str) -> float:
    """Return ``value`` as a float, or raise if it is not in the range of a privacy parameter."""
    number = float(value)
    if (number >= 0.0 if zero else number > 0.0) and number <= LARGEST:
        return number
    allowed = "at least 0" if zero else "greater than 0"
    raise ValueError(f"{name} is {value!r}; it must be {allowed} and at most {LARGEST:g}. {remedy}")


def check_delta(delta: float) -> float:
    """Return ``delta`` as a float, or raise if it is not strictly between 0 and 1."""
    number = float(delta)
    if 0.0 < number < 1.0:
        return number
    raise ValueError(
        f"delta is {delta!r}; it must lie strictly between 0 and 1. "
        "Give a small probability, for example 1e-6 or 1/n**2 for n rows."
    )


def check_conversion(conversion: str) -> None:
    """Raise if there is no such conversion."""
    if conversion not in ("tight", "published"):
        raise ValueError(
            f"conversion is {conversion!r}; it must be 'tight' or 'published'. "
            "Use 'tight' unless you reproduce a result computed with the older formula."
        )


SPENT_EPSILON = "Give the epsilon at which delta is wanted, for example 1.0."
BUDGET_EPSILON = "Give the epsilon of the budget, for example 1.0."
MECHANISM_EPSILON = "Give the epsilon of one use of the mechanism, for example 0.1."
RHO = "Give the total zCDP cost, for example 0.5 (rho adds up over steps)."
MU = "Give the total GDP cost, for example 1.0 (mu**2 adds up over steps)."


def probability_from_log(log_upper: float) -> float:
    """Round exp(log_upper) up; never 0, because the quantity it bounds is not."""
    if log_upper >= 0.0:
        return 1.0
    return min(1.0, math.nextafter(math.exp(log_upper) * (1.0 + SLACK), math.inf))


def at_least(candidate: float, exact: Fraction) -> float:
    """Return the candidate if it is no less than the exact value, else the next float up."""
    return candidate if Fraction(candidate) >= exact else math.nextafter(candidate, math.inf)


def raise_until(value: float, scale: float, holds: Callable[[float], bool]) -> float:
    """Move ``value`` up, in steps that double from one ulp of ``scale``, until ``holds``."""
    start, step = value, scale * 2.0 * UNIT
    while not holds(value):
        value = math.nextafter(start + step, math.inf)
        step *= 2.0
    return value


def lower_until(value: float, holds: Callable[[float], bool]) -> float:
    """Move a positive ``value`` down, in steps that double from one ulp, until ``holds`` (or 0)."""
    start, step = value, value * 2.0 * UNIT
    while value > 0.0 and not holds(value):
        value = max(0.0, math.nextafter(start - step, 0.0))
        step *= 2.0
    return value
