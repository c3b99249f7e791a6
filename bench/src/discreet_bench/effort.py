"""Time of experiments: an estimate before they run, and a table of what they took.

The estimate knows how long each method takes on Adult, and scales this by rows × columns × classes.
It is good to a factor of two. Runs that several experiments share count once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from discreet_bench import datasets
from discreet_bench.data import FEATURES, GENERATED, ROWS, available
from discreet_bench.experiment import Plan
from discreet_bench.runner import Done, split

__all__ = ["Run", "copied", "distinct", "record", "seconds"]

OVERHEAD = 0.05
"""Seconds per run for splitting, judging and writing."""

ADULT = 39_073 * 105
"""Training rows × columns of Adult."""

ON_ADULT: dict[str, float] = {
    "agd": 0.3, "agd-released": 3.0, "amp": 0.35, "amp-hf": 0.35, "amp-released": 0.4, "auto": 0.4,
    "frank-wolfe": 0.5, "frank-wolfe-released": 0.05, "gd": 0.15, "laplace-sgd": 0.02,
    "majority": 0.01, "noisy-gd": 0.3, "nonprivate": 0.5, "objpert": 0.3, "objpert-released": 0.6,
    "outpert": 0.5, "permutation-sgd": 0.1, "permutation-sgd-sc": 0.1, "plain-sgd": 0.4,
    "privgene": 6.0, "rrpsgd": 0.8, "sgd": 0.4, "sgd-adv": 0.4, "sgd-ma": 0.4,
    "sgd-ma-released": 0.7, "shrunk-gd": 0.1, "tuned": 1.5,
}  # fmt: skip
"""Seconds of a fit on Adult, on one core of 2024."""

AGD_PUBLISHED = 5.0
"""DP-AGD makes this many times as many choices with published constants."""

COLUMNS = {
    "adult": 105, "bank": 42, "kddcup99": 122, "kddcup99-full": 122, "covertype": 54, "mnist": 784,
    "mnist-zero": 784, "credit-default": 90, "kddcup99-continuous": 38,
}  # fmt: skip
CLASSES = {"covertype": 7, "mnist": 10}


class Run(NamedTuple):
    """A run of all repeats: what makes it the same as another one."""

    data: str
    cut: tuple[tuple[str, Any], ...]
    objective: tuple[tuple[str, Any], ...]
    solver: str
    setting: tuple[tuple[str, Any], ...]
    repeats: int


def _settings(grid: Mapping[str, Sequence[Any]]) -> Iterator[tuple[tuple[str, Any], ...]]:
    names = sorted(grid)
    for values in itertools.product(*(grid[name] for name in names)):
        yield tuple(zip(names, values, strict=True))


def distinct(plans: Iterable[Plan]) -> set[Run]:
    """Return the different runs of plans on data sets that are at hand."""
    return {
        Run(data, cut, asked, solver, setting, part.repeats)
        for plan in plans
        for part, _ in split(plan)
        for data, grid in part.data.items()
        if available(data) is None
        for cut in _settings(grid)
        for asked in _settings(part.objective)
        for solver, parameters in part.solvers.items()
        for setting in _settings(parameters)
    }


def seconds(runs: Iterable[Run]) -> float:
    """Estimate the processor time of runs."""
    return sum(_seconds(run) for run in runs)


def _seconds(run: Run) -> float:
    cut, setting = dict(run.cut), dict(run.setting)
    size = 0.8 * _rows(run.data, cut) * _columns(run.data, cut) * CLASSES.get(run.data, 1)
    if "batch_rows" in setting:
        size *= setting["batch_rows"] / _rows(run.data, cut)
    slower = (
        AGD_PUBLISHED if (run.solver, setting.get("calibration")) == ("agd", "published") else 1
    )
    return run.repeats * (OVERHEAD + slower * ON_ADULT.get(run.solver, 1.0) * size / ADULT)


def _rows(data: str, cut: Mapping[str, Any]) -> int:
    if cut.get("rows") is not None:
        return int(cut["rows"])
    return ROWS[data] if data in GENERATED else int(datasets.describe(_source(data)).rows or 10_000)


def _columns(data: str, cut: Mapping[str, Any]) -> int:
    known = FEATURES[data] if data in GENERATED else COLUMNS.get(data, 20)
    return int(cut.get("features") or cut.get("columns") or known)


def _source(data: str) -> str:
    return "mnist" if data == "mnist-zero" else data


def record(path: Path, experiment: str, form: str, done: Done) -> None:
    """Write a line with the time of an experiment to a CSV file.

    ``made`` counts the runs that no earlier experiment had made; the others came from the cache.
    New runs and times are added to those of an older line, so that an experiment which was
    interrupted has the time of all its parts.
    """
    line: dict[str, Any] = {
        "experiment": experiment,
        "form": form,
        "runs": len(done.runs),
        "made": done.made,
        "seconds": round(done.seconds),
        "processor_seconds": round(done.processor_seconds),
        "left_out": "; ".join(sorted(name.split(":")[0] for name in done.skipped)),
    }
    lines = _lines(path)
    for old in lines:
        if (old["experiment"], old["form"]) == (experiment, form):
            added = {key: old[key] + line[key] for key in ("made", "seconds", "processor_seconds")}
            old.update(line | added)
            break
    else:
        lines.append(line)
    _write(path, lines)


def copied(source: Path, path: Path, experiment: str, form: str) -> None:
    """Copy the line of an experiment from one file of times to another, in place of an older one.

    ``form`` also says which part of the experiment was run, so that the time of parts adds up.
    """

    def wanted(line: dict[str, Any]) -> bool:
        return (line["experiment"], line["form"]) == (experiment, form)

    others = [line for line in _lines(path) if not wanted(line)]
    _write(path, others + [line for line in _lines(source) if wanted(line)])


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return pd.read_csv(path, keep_default_na=False).to_dict("records")  # type: ignore[return-value]


def _write(path: Path, lines: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(lines).to_csv(path, index=False, lineterminator="\n")
