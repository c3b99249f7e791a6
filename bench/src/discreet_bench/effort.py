"""Time of experiments: an estimate before they run, and a table of what they took.

The estimate knows how long each method takes on Adult, and scales this by rows × columns × classes.
It is good to a factor of two. Runs that several experiments share count once.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from discreet_bench import datasets
from discreet_bench.data import FEATURES, GENERATED, ROWS, SOURCES, available
from discreet_bench.experiment import CELL_SECONDS, Plan
from discreet_bench.runner import Done, split

__all__ = ["Run", "affordable", "copied", "distinct", "record", "seconds"]

LEAST_REPEATS = 3
"""Repeats of a cell of the paper form, however long a fit takes."""

OVERHEAD = 0.05
"""Seconds per run for splitting, judging and writing."""

ADULT = 39_073 * 105
"""Training rows × columns of Adult."""

ON_ADULT: dict[str, float] = {
    "agd": 0.15, "agd-released": 1.3, "amp": 0.15, "amp-hf": 0.15, "amp-released": 0.1,
    "auto": 0.2, "frank-wolfe": 0.05, "frank-wolfe-released": 0.02, "gd": 0.15,
    "laplace-sgd": 0.02, "majority": 0.01, "noisy-gd": 0.3, "nonprivate": 0.1, "objpert": 0.2,
    "objpert-released": 0.2, "outpert": 0.1, "outpert-released": 0.2, "permutation-sgd": 0.03,
    "permutation-sgd-sc": 0.03, "plain-sgd": 0.4, "privgene": 0.85, "rrpsgd": 2.0, "sgd": 0.15,
    "sgd-adv": 0.15, "sgd-ma": 0.15, "sgd-ma-released": 0.6, "shrunk-gd": 0.1, "tuned": 1.5,
}  # fmt: skip
"""Seconds of a fit on Adult, medians of kept runs on one core of 2024."""

AGD_PUBLISHED = 6.0
"""DP-AGD makes this many times as many choices with published constants."""

COLUMNS = {
    "adult": 105, "bank": 42, "kddcup99": 122, "kddcup99-full": 122, "covertype": 54, "mnist": 784,
    "mnist-zero": 15, "credit-default": 33, "kddcup99-continuous": 34, "kddcup99-dos": 122,
    "kddcup99-full-dos": 122, "ipums-br-dat": 52, "ipums-us": 58, "reuters": 100,
}  # fmt: skip
UNKNOWN_ROWS = 10_000
"""Rows of a data set whose size is not known before it is read."""

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
    if data in GENERATED:
        return ROWS[data]
    if _source(data) not in datasets.names():
        return UNKNOWN_ROWS
    return int(datasets.describe(_source(data)).rows or UNKNOWN_ROWS)


def _columns(data: str, cut: Mapping[str, Any]) -> int:
    known = FEATURES[data] if data in GENERATED else COLUMNS.get(data, 20)
    return int(cut.get("features") or cut.get("columns") or known)


def _source(data: str) -> str:
    return SOURCES.get(data, data)


def affordable(plans: Iterable[Plan], cell_seconds: float = CELL_SECONDS) -> list[Plan]:
    """Return plans with as many of their repeats as a cell's processor seconds allow.

    A plan is split by data set and by solver where solvers get different numbers of repeats. Plans
    that are grids keep their repeats.

    Parameters
    ----------
    plans : iterable of Plan
        The plans.
    cell_seconds : float
        As in `discreet_bench.experiment.Experiment`.
    """
    found: list[Plan] = []
    for plan in plans:
        if plan.tuning == "grid":
            found.append(plan)
            continue
        for data, cuts in plan.data.items():
            groups: dict[int, dict[str, Any]] = {}
            for solver, grid in plan.solvers.items():
                for calibration in grid.get("calibration", [None]):
                    one = grid if calibration is None else {**grid, "calibration": [calibration]}
                    repeats = _repeats(plan, data, cuts, solver, one, cell_seconds)
                    both = groups.setdefault(repeats, {}).setdefault(solver, one)
                    if both is not one:  # both calibrations can afford the same
                        groups[repeats][solver] = {
                            **one,
                            "calibration": [*both["calibration"], calibration],
                        }
            found += [
                dataclasses.replace(plan, data={data: cuts}, solvers=solvers, repeats=repeats)
                for repeats, solvers in groups.items()
            ]
    return found


def _repeats(plan: Plan, data: str, cuts: Any, solver: str, grid: Any, cell_seconds: float) -> int:
    """Return the repeats that one solver of a plan can afford on a data set."""
    first = {name: values[0] for name, values in plan.objective.items()}
    asked = tuple(sorted(first.items()))
    slowest = max(
        _seconds(Run(data, cut, asked, solver, setting, 1))
        for cut in _settings(cuts)
        for setting in _settings(grid)
    )
    return min(plan.repeats, max(LEAST_REPEATS, int(cell_seconds / slowest)))


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
