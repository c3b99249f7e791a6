"""Low bits of released numbers.

Floating-point noise leaks through low bits: 1 + noise is a multiple of the spacing of doubles near
1, even where the noise cancels most of it, while 0 + noise keeps all bits of the noise (Mironov
2012). Noise on a grid that does not contain the value leaves the value's own low bits. A release on
a public grid has no such bits.

`off_grid` checks every release of a fit; `low_bits` attacks any mechanism as a black box.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.audit.attack import Attack, Statistic, run
from discreet.audit.result import Verdict

from .fits import CheckResult, Table, fresh
from .transcript import Transcript, watching

__all__ = ["finest_bit", "low_bits", "off_grid", "spare_bits"]

FloatArray = NDArray[np.float64]

COARSEST, FINEST = 8, -44
"""Exponents of the grids that are tried."""

SIZES = 24
"""Number of equally likely intervals that the range of a number is divided into."""

MOST_NUMBERS = 8
"""Numbers of an output that are examined one by one."""


def finest_bit(values: ArrayLike) -> FloatArray:
    """Return the exponent of the largest power of two that divides each number; 1100 for zero."""
    mantissas, exponents = np.frexp(np.asarray(values, dtype=np.float64))
    integers = np.ldexp(mantissas, 53).astype(np.int64)
    lowest = (integers & -integers).astype(np.float64)
    with np.errstate(divide="ignore"):
        places = np.log2(lowest)  # exact: powers of two
    return np.where(integers == 0, 1100.0, places + exponents - 53)


def spare_bits(values: ArrayLike) -> FloatArray:
    """Count the trailing zeros among the 53 bits of each number; 53 for zero."""
    numbers = np.asarray(values, dtype=np.float64)
    places = np.frexp(numbers)[1] - 53
    return np.where(numbers == 0, 53.0, finest_bit(numbers) - places)


def _nearest_grid(values: FloatArray, tolerance: FloatArray) -> FloatArray:
    """Return the coarsest power of two that divides each number, up to rounding."""
    coarsest = np.full(values.shape, FINEST - 1.0)
    for exponent in range(FINEST, COARSEST + 1):
        multiples = np.ldexp(np.rint(np.ldexp(values, -exponent)), exponent)
        # on a grid that is hardly wider than the rounding, everything lies
        telling = tolerance < np.ldexp(0.25, exponent)
        coarsest[telling & (np.abs(values - multiples) <= tolerance)] = exponent
    return coarsest


def low_bits(
    mechanism: Callable[[Any, int], ArrayLike],
    neighbours: tuple[Any, Any],
    *,
    epsilon: float,
    delta: float = 0.0,
    values: tuple[ArrayLike, ArrayLike] | None = None,
    trials: int = 8000,
    confidence: float = 0.999,
) -> CheckResult:
    """Attack the low bits of a mechanism's outputs.

    Parameters
    ----------
    mechanism : callable
        ``mechanism(table, count)``: ``count`` independent outputs, of shape (count, numbers).
    neighbours : pair of tables
        Best where the value is 0 on one of them, or where its size has another power of two.
    epsilon, delta : float
        The guarantee of the mechanism.
    values : pair of arrays, optional
        Outputs on each table without noise, known to an attacker who knows all rows. The low bits
        of the outputs minus these values are examined as well.
    trials : int
        Outputs in all, besides two fifths of that number to learn from; a fifth of them choose the
        event.
    confidence : float
        With which a failure is certified.

    Returns
    -------
    CheckResult
        Failed if an event on low bits, chosen on other outputs, is certified to be likelier on
        one table than (ε, δ) allows.
    """

    def draw(world: int, count: int) -> FloatArray:
        return np.asarray(mechanism(neighbours[world], count), dtype=float).reshape(count, -1)

    lessons = (draw(0, trials // 5), draw(1, trials // 5))
    statistics: dict[str, Statistic] = {}
    for k in range(min(lessons[0].shape[1], MOST_NUMBERS)):
        statistics[f"the finest bit of number {k + 1}, given its size,"] = _by_size(lessons, k)
        statistics[f"the finest bit of number {k + 1}"] = _of(finest_bit, k)
        statistics[f"the zeros at the end of number {k + 1}"] = _of(spare_bits, k)
        for world, value in enumerate(values or ()):
            offset = float(np.ravel(np.asarray(value, dtype=np.float64))[k])
            name = f"the grid that number {k + 1} less its value on table {world} lies on"
            statistics[name] = _less(offset, k)
    statistics["the finest bit of all numbers"] = lambda outputs: finest_bit(outputs).min(axis=1)
    attack = Attack(
        subject="low bits",
        pair="neighbours",
        epsilon=epsilon,
        delta=delta,
        relation="as given",
        draw=draw,
        statistics=statistics,
        learn=False,
    )
    found = run(attack, trials=trials, confidence=confidence)
    seen = f"{found.statistic} shows ε ≥ {found.epsilon_bound:.3g} with confidence {confidence:g}"
    if found.verdict is Verdict.REFUTED:
        text = f"Looking at low bits alone, {seen}; ε = {epsilon:g} was promised. The noise is "
        text += "not what it is in exact arithmetic: which numbers can come out depends on rows."
        return CheckResult("low bits", False, text)
    return CheckResult(
        "low bits", True, f"Looking at low bits alone, {seen} (promised: {epsilon:g})."
    )


def off_grid(estimator: Any, neighbours: Sequence[Table]) -> CheckResult | None:
    """Check that every noisy sum that a fit releases lies on the grid of its noise.

    `control_flow` checks that the grid is the same on neighbours. None for an estimator whose
    releases cannot be recorded, because it is not one of the library's.
    """
    check = "releases on a public grid"
    count = asked = 0
    for table in neighbours:
        transcript = Transcript()
        with watching(transcript), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fresh(estimator).fit(*table)
        asked += len(transcript.questions)
        for release in transcript.releases:
            count += release.values.size
            if release.grid is None:
                text = f"An answer ({release.question}) got no noise from the public grid."
                return CheckResult(check, False, text)
            multiples = np.ldexp(release.values, -release.grid)
            if not np.array_equal(multiples, np.rint(multiples)):
                text = f"A released number ({release.question}) is no multiple of 2^{release.grid}"
                text += ", the grid of its noise: its low bits are not noise, they may be a row's."
                return CheckResult(check, False, text)
    if not asked:
        return None
    return CheckResult(check, True, f"All {count} released numbers are multiples of their grid.")


def _of(bits: Callable[[FloatArray], FloatArray], k: int) -> Statistic:
    return lambda outputs: bits(outputs[:, k])


def _by_size(lessons: tuple[FloatArray, FloatArray], k: int) -> Statistic:
    """Return the log-likelihood ratio of number k's finest bit, given the number's size."""
    first, second = lessons[0][:, k], lessons[1][:, k]
    edges = np.quantile(np.concatenate([first, second]), np.linspace(0, 1, SIZES + 1)[1:-1])

    def cells(numbers: FloatArray) -> NDArray[np.int64]:
        # beyond 80 bits below one, and 20 above, there is nothing that happens often
        bits = np.clip(finest_bit(numbers), -80, 20) + 80
        return (np.searchsorted(edges, numbers) * 101 + bits).astype(np.int64)

    counts = [np.bincount(cells(one), minlength=SIZES * 101) for one in (first, second)]
    scores = np.log((counts[1] + 0.5) / (counts[0] + 0.5))
    return lambda outputs: scores[cells(outputs[:, k])]


def _less(offset: float, k: int) -> Statistic:
    def grid(outputs: FloatArray) -> FloatArray:
        numbers = outputs[:, k]
        tolerance = 2 * np.spacing(np.maximum(np.abs(numbers), abs(offset)))
        return _nearest_grid(numbers - offset, tolerance)

    return grid
