"""What the page tells besides curves: privacy, cost, problems and origin of the runs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from discreet.accounting.recompute import TOLERANCE
from discreet_bench.lines import title_of
from discreet_bench.report.curves import kind_of

__all__ = ["Cost", "Origin", "Problem", "Promise", "costs", "origins", "problems", "promises"]

_ROUNDING = 1 + 1e-6  # of what a method itself says


@dataclass(frozen=True)
class Promise:
    """What a line promises.

    Attributes
    ----------
    title, kind : str
        Its title and kind (see `kind_of`).
    method, calibration, variant, tuning : str
    guarantees : tuple of str
        Its guarantees in words, each once.
    spent : DataFrame
        By relation and ε allowed: the largest ε and δ spent and ε recomputed, and ``short``,
        whether more was spent or recomputed than was allowed.
    """

    title: str
    kind: str
    method: str
    calibration: str
    variant: str
    tuning: str
    guarantees: tuple[str, ...]
    spent: pd.DataFrame

    @property
    def true_epsilons(self) -> pd.Series:
        """The larger of ε spent and ε recomputed, by relation and ε allowed."""
        return self.spent[["epsilon_spent", "epsilon_recomputed"]].max(axis=1)


def promises(runs: pd.DataFrame, order: Iterable[str]) -> list[Promise]:
    """The promises of all lines that have a result."""
    done = runs[runs["problem"] == ""]
    told = []
    for line in order:
        of = done[done["line"] == line]
        if of.empty:
            continue
        largest = ["epsilon_spent", "delta_spent", "epsilon_recomputed"]
        spent = of.assign(short=_more(of)).groupby(["relation", "epsilon"])
        spent = spent[[*largest, "short"]].max().reset_index()
        first = of.iloc[0]
        told.append(
            Promise(
                title_of(line),
                kind_of(line),
                first["method"],
                first["calibration"],
                first["variant"],
                first["tuning"],
                tuple(text for text in of["guarantee"].unique() if text),
                spent,
            )
        )
    return told


def _more(runs: pd.DataFrame) -> pd.Series:
    """Which runs spent more than they were allowed, by their own word or by the recomputed ε.

    The accountant that recomputes rounds upwards, so it may exceed by its `TOLERANCE`.
    """
    said = runs["epsilon_spent"] > runs["epsilon"] * _ROUNDING
    said |= runs["delta_spent"] > runs["delta"] * _ROUNDING
    return said | (runs["epsilon_recomputed"] > runs["epsilon"] * (1 + TOLERANCE))


@dataclass(frozen=True)
class Cost:
    """Medians of a line over the runs of a data set."""

    seconds: float
    peak_mb: float
    runs: int


def costs(runs: pd.DataFrame) -> dict[tuple[str, str], Cost]:
    """Seconds and memory by line and data set."""
    done = runs[runs["problem"] == ""]
    seconds = done.groupby(["line", "data"])[["seconds", "peak_mb"]].median()
    counts = done.groupby(["line", "data"]).size()
    table = seconds.assign(runs=counts).reset_index()
    return {
        (row.line, row.data): Cost(row.seconds, row.peak_mb, row.runs) for row in table.itertuples()
    }


@dataclass(frozen=True)
class Problem:
    """A reason why there is no result, and where it stood in the way."""

    title: str
    words: str
    runs: int
    data: tuple[str, ...]
    losses: tuple[str, ...]
    relations: tuple[str, ...]
    epsilons: tuple[float, ...]


def problems(runs: pd.DataFrame) -> list[Problem]:
    """All problems, the same words of one line taken together, the most frequent first."""
    told = [
        Problem(
            title_of(line),
            words,
            len(of),
            *(tuple(sorted(of[name].unique())) for name in ("data", "loss", "relation", "epsilon")),
        )
        for (line, words), of in runs[runs["problem"] != ""].groupby(["line", "problem"])
    ]
    return sorted(told, key=lambda one: (-one.runs, one.title))


@dataclass(frozen=True)
class Origin:
    """Where the runs of an experiment come from.

    Attributes
    ----------
    runs, repeats : int
    seeds : tuple of int
    jobs : tuple of int
    days : tuple of str
        First and last day.
    versions, machines : tuple of str
        Each combination once, in words.
    """

    experiment: str
    runs: int
    repeats: int
    seeds: tuple[int, ...]
    jobs: tuple[int, ...]
    days: tuple[str, str]
    versions: tuple[str, ...]
    machines: tuple[str, ...]


def origins(runs: pd.DataFrame) -> list[Origin]:
    """The origin of each experiment's runs."""
    return [_origin(str(name), of) for name, of in runs.groupby("experiment", sort=False)]


def _origin(name: str, runs: pd.DataFrame) -> Origin:
    when = runs.loc[runs["when"] != "", "when"].str.slice(0, 10)
    pairs = runs[["discreet", "versions"]].drop_duplicates()
    return Origin(
        name,
        len(runs),
        int(runs["repeat"].nunique()),
        _whole(runs["seed"]),
        _whole(runs["jobs"]),
        (when.min(), when.max()) if len(when) else ("", ""),
        tuple(
            _words({"discreet": version, **_read(text)})
            for version, text in zip(pairs["discreet"], pairs["versions"], strict=True)
        ),
        tuple(filter(None, (_words(_read(text)) for text in runs["machine"].unique()))),
    )


def _whole(values: pd.Series) -> tuple[int, ...]:
    return tuple(sorted(int(value) for value in values.unique() if math.isfinite(value)))


def _read(text: str) -> dict[str, object]:
    """A JSON object; what is none is shown as it is."""
    try:
        told = json.loads(text) if text else {}
    except json.JSONDecodeError:
        told = text
    return told if isinstance(told, dict) else {"": told}


def _words(facts: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}".strip() for name, value in facts.items() if value != "")
