"""Make the table of questions in docs/proofs/curator.md from the classes of questions.

``python tools/questions.py`` prints the table; ``--write`` puts it into the page, and ``--check``
ends with exit code 1 if the page has another one.

Nothing in the table is written by hand but the formula of the exact answer, which a class states.
The mechanisms are those that a question accepts, tried one by one. The sensitivity is the number
that a question hands to its mechanism, as a formula: every number of a question is halved in turn,
and the change shows its exponent. The units are those of the rows that a question can be asked of.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from discreet import core, exact
from discreet.accounting.budget import Relation
from discreet.core.mechanisms import (
    ExponentialMechanism,
    Gaussian,
    L2Norm,
    Laplace,
    LaplaceNoisyMax,
    PermuteAndFlip,
)
from discreet.core.questions import NoisySum, Public, Question
from discreet.errors import PrivacyError
from discreet.exact.histogram import GaussianHistogram, LimitedHistogram, StabilityHistogram
from discreet.objectives import Huber
from discreet.rows import Rows, Units, as_rows
from discreet.rows.scored import ScoredRows, scored_rows
from discreet.rows.sums import Sum
from discreet.tables.cell_rows import CellBlock

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "proofs" / "curator.md"
START = "<!-- questions: tools/questions.py --write -->"
END = "<!-- end of questions -->"

NORM = 8.0
"""Clip, and public norm of the rows, in the sample questions."""

WIDTH = 2
"""Columns of the sample rows."""

LOSSES = (Huber(4.0), Huber(2.0))
"""A loss, and one whose slopes are bounded by half as much."""

SAMPLES: dict[str, Any] = {
    "among": None,
    "column_edges": np.array([[0.0, 1.0, 2.0]] * WIDTH),
    "columns": (0, 1),
    "candidates": np.zeros((WIDTH, WIDTH)),
    "cells": (np.arange(WIDTH),) * WIDTH,
    "clip": NORM,
    "column": 1,  # of a table of numbers, and of one of cells
    "count": 2,
    "coverage": 0.5,
    "cut": 1.5,
    "direction": np.zeros(WIDTH),
    "edges": np.array([0.0, 1.0]),
    "features": True,
    "high": 4.0,
    "largest": NORM,
    "lead": 2.0,
    "loss": LOSSES[0],
    "low": -4.0,
    "matrix": np.eye(WIDTH),
    "most": 100,
    "form": "%d.%m.%Y",
    "of": "date",
    "n_classes": 2,
    "n_features": WIDTH,
    "pairs": ((0, 1), (0, 1)),
    "parent": np.zeros(WIDTH),
    "prefix": None,
    "public_gradient": np.zeros(WIDTH),
    "public_losses": np.zeros(WIDTH),
    "share": 0.5,
    "steps": np.zeros(WIDTH),
    "target_centre": 2.0,
    "target_weight": 2.0,
    "weights": np.zeros(WIDTH),
    "whole": False,
}
"""Fields of questions: a new one needs a number that the formula can be found with."""

OTHER_SAMPLES: dict[tuple[str, str], Any] = {
    ("ExponentCounts", "among"): np.array([True, True]),
}
"""Second samples of a class's field that make a question of another sensitivity."""

SYMBOLS = {
    "clip": "C",
    "columns": "c",
    "cut": "T",
    "loss": "s",
    "n_features": "d",
    "pairs": "p",
    "share": "s",
}
"""Symbols of the fields that a sensitivity may depend on."""

MECHANISMS = (
    Gaussian(1.0),
    L2Norm(1.0),
    Laplace(1.0),
    ExponentialMechanism(1.0, monotone=False),
    PermuteAndFlip(1.0, monotone=False),
    LaplaceNoisyMax(1.0, monotone=False),
    *(StabilityHistogram(1.0, 1e-6, relation) for relation in Relation),
    *(GaussianHistogram(1.0, 1e-6, relation) for relation in Relation),
    *(LimitedHistogram(StabilityHistogram(1.0, 1e-6, each), Laplace(1.0)) for each in Relation),
)
"""One mechanism of each kind, and for each relation where its noise is for one of them."""

RELEASED = {NoisySum: "noisy sum", dict[str, float] | None: "noisy counts"}
"""What is released, by the type of an answer; every other answer is a choice."""

MONOTONE = ExponentialMechanism(1.0, monotone=True)
"""A mechanism that counts on scores which all move the same way."""

COEFFICIENTS = {"1/2": 0.5, "": 1.0, "√2": math.sqrt(2.0), "2": 2.0}
"""Coefficients of a sensitivity, as the table has them."""

POWERS = {0.0: "{}⁰", 0.5: "√{}", 1.0: "{}", 2.0: "{}²"}
"""Exponents of a sensitivity, as the table has them."""

CLOSE = 1e-6
"""Relative error of a formula: factors for rounding, as `ACUTE_ROOM`, are smaller."""

ERROR = 2.0**-6
"""Rounding error that a sum is said to have, to see how often it is added."""


class _Probe:
    """A mechanism that records the sensitivity it is handed, and adds no noise."""

    epsilon = 1.0
    sensitivity = math.nan

    def scale(self, sensitivity: float) -> float:
        """Return a noise scale."""
        return sensitivity

    def release(self, values: Any, *, sensitivity: float, **_: Any) -> tuple[Any, float]:
        """Record the sensitivity of a sum."""
        self.sensitivity = sensitivity
        return values, 1.0

    def select(self, scores: Any, *, sensitivity: float, **_: Any) -> int:
        """Record the sensitivity of scores."""
        self.sensitivity = sensitivity
        return 0


def modules() -> Iterator[tuple[str, str]]:
    """Yield the modules in which questions may be defined: of core and of exact."""
    for package in (core, exact):
        for name in sorted(module.name for module in pkgutil.iter_modules(package.__path__)):
            yield package.__name__, name


def kinds() -> list[Any]:
    """Return the classes of questions that can be asked, in the order of the code."""
    found: list[Any] = []
    for package, name in modules():
        module = importlib.import_module(f"{package}.{name}")
        found += [
            kind
            for kind in vars(module).values()
            if isinstance(kind, type) and issubclass(kind, Question)
            if kind.__module__ == module.__name__ and not kind.__name__.startswith("_")
            if hasattr(kind, "protected")
        ]
    return found


def samples(kind: Any) -> Iterator[tuple[str, Question[Any, Any]]]:
    """Yield questions of a class with their names: one for each formula of its sensitivity."""
    names = [field.name for field in fields(kind)]
    unknown = [name for name in names if name not in SAMPLES]
    if unknown:
        raise KeyError(f"{kind.__name__} has fields without a sample: {', '.join(unknown)}.")
    first: Any = kind(**{name: SAMPLES[name] for name in names})
    yield f"`{kind.__name__}`", first
    for (owner, name), value in OTHER_SAMPLES.items():
        if owner == kind.__name__:
            yield f"`{owner}` with `{name}`", replace(first, **{name: value})


def table_rows(unit: str) -> Rows:
    """Return a few rows of numbers whose privacy unit is a row or a person."""
    X = np.array([[1.0, 0.5], [0.5, -2.0], [3.0, 0.25], [0.0, 0.0]])
    weights = Units.of([1, 1, 2, 2], len(X)).weights() if unit == "person" else None
    y = np.array([0.0, 1.0, 1.0, 0.0])
    return as_rows(X, y, fit_intercept=False, row_norm=NORM, weights=weights)


def cell_rows(unit: str) -> CellBlock:
    """Return a few cells; of a person, one row is read."""
    import pyarrow as pa

    return CellBlock({1: pa.array(["1", "2.5", "x", None])})


def scored(unit: str) -> ScoredRows:
    """Return a few rows that a model scores."""
    X = np.array([[1.0, 0.5], [0.5, -2.0], [3.0, 0.25], [0.0, 0.0]])
    groups = [1, 1, 2, 2] if unit == "person" else None
    return scored_rows(X, np.array([0, 1, 1, 0]), lambda table: table[:, 0], groups)


ROWS = {
    "questions": table_rows,
    "pair_questions": table_rows,
    "cell_questions": cell_rows,
    "score_questions": scored,
}
"""Rows that the questions of each module are about, by their unit."""


def rows_of(question: Question[Any, Any], unit: str) -> Any:
    """Return rows that a question can be asked of."""
    modules = [kind.__module__.rpartition(".")[2] for kind in type(question).__mro__]
    return next(ROWS[name] for name in modules if name in ROWS)(unit)


def public(relation: Relation) -> Public:
    """Return the public facts about the rows."""
    return Public(relation, 4, WIDTH, WIDTH, NORM)


def accepted(question: Question[Any, Any], mechanism: Any, relation: Relation) -> bool:
    """Return True if a question takes this mechanism."""
    try:
        question.check(public(relation), mechanism)
    except (TypeError, PrivacyError):
        return False
    return True


def mechanisms(question: Question[Any, Any]) -> str:
    """Return the kinds of mechanisms that a question takes, under both relations."""
    taken = [
        {type(each).__name__ for each in MECHANISMS if accepted(question, each, relation)}
        for relation in Relation
    ]
    if taken[0] != taken[1]:
        raise ValueError(f"{question!r} takes other mechanisms under another relation.")
    names = list(dict.fromkeys(type(each).__name__ for each in MECHANISMS))
    names = [name for name in names if name in taken[0]]
    if not names:
        raise ValueError(f"{question!r} takes no known mechanism.")
    uses = "" if question.uses == 1 else f", used {question.uses} times"
    uses = ", used `count` times" if hasattr(question, "count") else uses
    return ", ".join(f"`{name}`" for name in names) + uses


def handed(question: Question[Any, Any], relation: Relation, error: float) -> float:
    """Return the sensitivity that a question hands to its mechanism."""
    probe = _Probe()
    exact = question.on(rows_of(question, "row"))
    if isinstance(exact, Sum):
        exact = exact._replace(error=error)
    noise: Any = None
    question.release(exact, probe, public(relation), noise)
    return probe.sensitivity


def halved(question: Any, name: str) -> Any:
    """Return the question with one number halved or a flag changed; None for other fields."""
    value = getattr(question, name)
    if name == "loss":
        return replace(question, loss=LOSSES[1])
    if isinstance(value, bool):
        return replace(question, **{name: not value})
    if isinstance(value, tuple):
        return replace(question, **{name: value[: len(value) // 2]})
    if isinstance(value, int):
        return replace(question, **{name: value // 2})
    if isinstance(value, float):
        return replace(question, **{name: value / 2})
    return None


def sensitivity(question: Any, relation: Relation) -> str:
    """Return the formula of the sensitivity, E the bound on rounding errors of the exact sum."""
    value = question.sensitivity(relation)
    factors = []
    rest = value
    for name in [field.name for field in fields(question)]:
        other = halved(question, name)
        if other is None:
            continue
        exponent = math.log2(value / other.sensitivity(relation))
        power = next((one for one in POWERS if abs(one - exponent) < CLOSE), None)
        if power is None or (power and name not in SYMBOLS):
            raise ValueError(f"the sensitivity of {question!r} is no known power of {name}.")
        if power:
            number = question.loss.slope_bound if name == "loss" else getattr(question, name)
            number = len(number) if isinstance(number, tuple) else number
            factors.append(POWERS[power].format(SYMBOLS[name]))
            rest /= number**power
    factors.sort(key=lambda text: text.strip("√²"), reverse=True)  # s before d before C
    found = [text for text, one in COEFFICIENTS.items() if abs(rest / one - 1) < CLOSE]
    if not found:
        raise ValueError(f"the sensitivity of {question!r} has the unknown coefficient {rest}.")
    joined = found[0] + ("·" if found[0].startswith("√") and factors else "") + "".join(factors)
    plain = handed(question, relation, 0.0)
    if abs(plain / value - 1) > CLOSE:
        raise ValueError(f"{question!r} states {value} and hands out {plain}.")
    times = round((handed(question, relation, ERROR) - plain) / ERROR)
    text = (joined or "1") + (f" + {times}E" if times else "")
    return text + (", monotone" if accepted(question, MONOTONE, relation) else "")


def units(question: Question[Any, Any]) -> str:
    """Return the privacy units of rows that a question can be asked of."""
    found = []
    for unit in ("row", "person"):
        try:
            question.on(rows_of(question, unit))
        except PrivacyError:
            continue
        found.append(unit)
    return ", ".join(found)


def table() -> str:
    """Return the table of questions in Markdown."""
    lines = [
        "| question | exact answer | released | mechanisms | add/remove | replace | unit | proof |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for kind in kinds():
        proof = kind.proof
        page = "this page" if proof == PAGE.stem else f"[{proof}]({proof}.md)"
        if not (PAGE.parent / f"{proof}.md").exists():
            raise FileNotFoundError(f"{kind.__name__} names the proof {proof}, which is no page.")
        released = RELEASED.get(get_type_hints(kind.release)["return"], "choice")
        for name, question in samples(kind):
            added = sensitivity(question, Relation.ADD_REMOVE)
            replaced = sensitivity(question, Relation.REPLACE_ONE)
            cells = (name, kind.protected, released, mechanisms(question), added, replaced)
            lines.append(f"| {' | '.join(cells)} | {units(question)} | {page} |")
    return "\n".join(lines)


def written(text: str) -> str:
    """Return the text of the page with the table of today."""
    before, _, rest = text.partition(START)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"{PAGE.name} has no place for the table: {START} … {END}")
    return f"{before}{START}\n\n{table()}\n\n{END}{after}"


def main(arguments: list[str]) -> int:
    """Print the table, write it into the page, or check the page; returns the exit code."""
    if arguments not in ([], ["--write"], ["--check"]):
        print("usage: python tools/questions.py [--write | --check]", file=sys.stderr)
        return 2
    if not arguments:
        print(table())
        return 0
    text = PAGE.read_text("utf-8")
    current = written(text)
    if arguments == ["--write"]:
        PAGE.write_text(current, "utf-8")
    elif text != current:
        print(f"{PAGE.name} is not current: python tools/questions.py --write", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
