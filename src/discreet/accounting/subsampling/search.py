"""Finding the least noise that keeps a budget, with few evaluations of a costly bound."""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["bisect", "first_fit", "least"]

AIM = 3e-4
"""How far below the goal the search aims, relatively; it stops within three times that."""


def bisect(spent: Callable[[float], float], goal: float, low: float, high: float) -> float:
    """Where a cheap decreasing function crosses ``goal``, to 0.01; ``high`` if it does not."""
    while high - low > 0.01:
        middle = 0.5 * (low + high)
        if spent(middle) <= goal:
            high = middle
        else:
            low = middle
    return high


def first_fit(value: Callable[[float], float], goal: float, high: float) -> float:
    """The smallest x ≥ 0 with value(x) ≤ goal of a decreasing function, to 1e-9 relative."""
    if value(0.0) <= goal:
        return 0.0
    low = 0.0
    while value(high) > goal:
        low, high = high, 2 * high + 1e-9
    while high - low > 1e-9 * high:
        middle = 0.5 * (low + high)
        if value(middle) <= goal:
            high = middle
        else:
            low = middle
    return high


def least(
    spent: Callable[[float], float],
    goal: float,
    guess: float,
    low: float,
    high: float,
    slope: float = -1.0,
) -> float:
    """A number x in [low, high] with spent(x) ≤ goal, the least up to about 1e-3.

    Parameters
    ----------
    spent : callable
        A decreasing function (that it is one is not relied upon for the result to fit).
    goal : float
        What may be spent.
    guess : float
        Where to begin.
    low, high : float
        Where to search; ``high`` is taken to fit, and is returned if nothing else does.
    slope : float
        A guess at d ln(spent)/dx.
    """
    failing, fitting = (low, math.inf), (high, -math.inf)
    x, last = min(max(guess, low), high), None
    for _ in range(40):
        value = spent(x)
        gap = math.log(value / goal) if 0 < value < math.inf else math.copysign(50.0, value - goal)
        if value <= goal:
            fitting = (x, gap)
            if gap > -3 * AIM or x == low:
                break
        else:
            failing = (x, gap)
        if fitting[0] - failing[0] < AIM:
            break
        if last is not None and x != last[0] and abs(gap) < 40 and abs(last[1]) < 40:
            slope = min(-0.05, (gap - last[1]) / (x - last[0]))
        last = (x, gap)
        width = fitting[0] - failing[0]
        target = x - max(-2.0, min(2.0, gap + AIM)) / slope
        if math.isinf(failing[1]):
            x = max(target, low)
        elif failing[0] + 0.02 * width < target < fitting[0] - 0.02 * width:
            x = target
        else:
            x = 0.5 * (failing[0] + fitting[0])
    return fitting[0]
