"""Tests of linear hypotheses about coefficients, as post-processing of released numbers.

A hypothesis is written with the names of the table: ``"age = 0, bmi = 0"``, ``"ward=B - ward=C"``,
or the name of a column, which stands for all of its coefficients.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import false_discovery_control, norm

from discreet.inference.covariance import p_text, p_values, quantile
from discreet.inference.summary import Coefficients, JointTest
from discreet.validate import FloatArray, choice, number

__all__ = [
    "ADJUSTMENTS",
    "Contrast",
    "Equivalence",
    "Hypothesis",
    "adjusted",
    "equivalence",
    "test",
]

ADJUSTMENTS = ("holm", "bonferroni", "fdr_bh", "fdr_by")
"""Adjustments of p-values for several tests, as statsmodels names them."""

_NUMBER = re.compile(r"\d+(\.\d*)?([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?")


class Hypothesis(NamedTuple):
    """Linear combinations of the lines of a table, one per row, and their values if it is true."""

    names: tuple[str, ...]
    rows: FloatArray
    values: FloatArray

    @classmethod
    def of(cls, model: Coefficients, text: str | Sequence[str]) -> Hypothesis:
        """Read one or several hypotheses; a column's name stands for all of its coefficients."""
        given = [text] if isinstance(text, str) else list(text)
        parts = [part.strip() for each in given for part in _split(model, each)]
        if not parts or not all(parts):
            raise ValueError('a hypothesis must name coefficients, for example "age = 0, bmi = 0".')
        names: list[str] = []
        rows: list[FloatArray] = []
        values: list[float] = []
        for part in parts:
            lines = [k for k, term in enumerate(model.terms) if term.column == part]
            if lines and part not in model.names:
                names += [model.names[k] for k in lines]
                rows += list(np.eye(len(model.terms))[lines])
                values += [0.0] * len(lines)
                continue
            row, value = _read(model, part)
            names.append(part)
            rows.append(row)
            values.append(value)
        return cls(tuple(names), np.array(rows), np.array(values))


def _split(model: Coefficients, text: str) -> list[str]:
    """Split a text at commas that are in no name."""
    found, start, at = [], 0, 0
    while at < len(text):
        name = _name_at(model, text, at)
        if name:
            at += len(name)
        elif text[at] == ",":
            found.append(text[start:at])
            at += 1
            start = at
        else:
            at += 1
    return [*found, text[start:]]


def _name_at(model: Coefficients, text: str, at: int) -> str:
    """Return the longest name of a term that a text has at a place; empty if there is none."""
    names = {*model.names, *(term.column for term in model.terms if term.column)}
    fit = [name for name in names if text.startswith(name, at)]
    longest = max(fit, key=len, default="")
    after = text[at + len(longest) :][:1]
    return "" if longest[-1:].isalnum() and (after.isalnum() or after == "_") else longest


def _read(model: Coefficients, text: str) -> tuple[FloatArray, float]:
    """Return the row and the value of a text such as "2*age - bmi = 0.5"."""
    row = np.zeros(len(model.terms))
    constant, side, sign, factor = 0.0, 1.0, 1.0, None
    at = 0
    while at < len(text):
        if text[at] in " *":
            at += 1
            continue
        name = _name_at(model, text, at)
        if name:
            if name not in model.names:
                raise ValueError(f"{name!r} has several coefficients; test it alone: {name!r}.")
            row[model.names.index(name)] += side * sign * (1.0 if factor is None else factor)
            at, sign, factor = at + len(name), 1.0, None
            continue
        if text[at] in "+-=":
            constant += side * sign * (factor or 0.0)
            side = -1.0 if text[at] == "=" else side
            sign, factor = -1.0 if text[at] == "-" else 1.0, None
            at += 1
            continue
        found = _NUMBER.match(text, at)
        if found is None:
            known = ", ".join(model.names[:12])
            raise ValueError(
                f"{text!r} has no coefficient at {text[at : at + 20]!r}. The coefficients are "
                f"{known}{', …' if len(model.names) > 12 else ''}."
            )
        factor, at = float(found.group()), found.end()
    constant += side * sign * (factor or 0.0)
    if not row.any():
        raise ValueError(f"{text!r} names no coefficient.")
    return row, -constant


def test(model: Coefficients, hypothesis: Hypothesis) -> JointTest:
    """Return Wald's test of a hypothesis; NaN if a coefficient in it has no interval."""
    if model.covariance is None:
        return JointTest(np.nan, 0, np.nan)
    rows = hypothesis.rows
    used = (rows != 0.0).any(axis=0)
    own = rows[:, used] @ model.covariance[np.ix_(used, used)] @ rows[:, used].T
    if not np.isfinite(own).all():
        return JointTest(np.nan, 0, np.nan)
    return JointTest.of(rows @ model.values - hypothesis.values, own)


class Contrast(NamedTuple):
    """A linear combination of coefficients with its interval."""

    name: str
    estimate: float
    std_error: float
    z: float
    p: float
    low: float
    high: float

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.estimate:.4g} ({self.low:.4g} to {self.high:.4g}), "
            f"z = {self.z:.2f}, {p_text(self.p)}"
        )


def contrasts(model: Coefficients, hypothesis: Hypothesis, level: float) -> tuple[Contrast, ...]:
    """Return the combinations of a hypothesis with intervals, tested against its values."""
    half = quantile(level)
    found = []
    for name, row, value in zip(*hypothesis, strict=True):
        estimate = float(row @ model.values)
        used = row != 0.0
        variance = np.nan
        if model.covariance is not None:
            variance = float(row[used] @ model.covariance[np.ix_(used, used)] @ row[used])
        error = float(np.sqrt(variance))
        z = (estimate - value) / error
        p = float(p_values(np.array(z)))
        ends = (estimate - half * error, estimate + half * error)
        found.append(Contrast(name, estimate, error, z, p, *ends))
    return tuple(found)


@dataclass(frozen=True)
class Equivalence:
    """Two one-sided tests that a combination is within margins; ``p`` is the larger p-value.

    A small p says that it is within (low, high). The interval is that of level 1 − 2·alpha.
    """

    contrast: Contrast
    low: float
    high: float
    p: float

    def __str__(self) -> str:
        return f"{self.contrast.name} is within ({self.low:g}, {self.high:g}): {p_text(self.p)}"


def equivalence(contrast: Contrast, low: float, high: float) -> Equivalence:
    """Test that a combination is within margins."""
    number("low", low)
    number("high", high, above=low)
    below = norm.sf((contrast.estimate - low) / contrast.std_error)
    beyond = norm.cdf((contrast.estimate - high) / contrast.std_error)
    return Equivalence(contrast, low, high, float(max(below, beyond)))


def adjusted(p: Any, method: str) -> FloatArray:
    """Return p-values that are adjusted for the number of tests; NaN stays and does not count."""
    choice("adjust", method, ADJUSTMENTS)
    values = np.asarray(p, dtype=np.float64)
    found = values.copy()
    known = np.isfinite(values)
    own = values[known]
    if not own.size:
        return found
    if method.startswith("fdr"):
        kind: Any = method.removeprefix("fdr_")
        found[known] = false_discovery_control(own, method=kind)
        return found
    count = own.size
    factors = np.full(count, float(count))
    order = np.argsort(own)
    if method == "holm":
        factors = np.arange(count, 0, -1, dtype=np.float64)
    steps = np.minimum(np.maximum.accumulate(factors * own[order]), 1.0)
    if method == "bonferroni":
        steps = np.minimum(count * own[order], 1.0)
    back = np.empty(count)
    back[order] = steps
    found[known] = back
    return found
