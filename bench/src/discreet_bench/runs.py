"""Runs of the benchmark: one line per run, in one Parquet file.

Everything after the running (tables, figures, the report page, comparisons) reads these columns and
nothing else, so a file from another machine or another year can be used as well.
"""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from discreet.errors import TableError

__all__ = [
    "CELL",
    "COLUMNS",
    "COSTS",
    "KEY",
    "MEASURES",
    "RELATIONS",
    "SHARES",
    "TITLES",
    "VARIANTS",
    "complete",
    "merged",
    "number_text",
    "read",
    "settings_of",
    "stamped",
    "tidy",
    "title_of_column",
    "versions",
    "write",
]

COLUMNS: dict[str, str] = {
    # the problem
    "experiment": "name of the experiment, such as dpagd-fig2",
    "data": "data set, with its cut: adult, kddcup99 (70,000 rows)",
    "n": "training rows",
    "d": "columns",
    "classes": "number of classes; 0 for a real target",
    "loss": "logistic, huber-hinge, hinge, huber or squared",
    "alpha": "penalty of the objective that is reported",
    "epsilon": "what the objective allows",
    "delta": "what the objective allows",
    "relation": "add_remove or replace_one",
    "repeat": "number of the split and of the noise",
    # the method
    "method": "solver of the benchmark, such as agd",
    "calibration": "tight, published, or nothing where there is one only",
    "variant": "one of VARIANTS",
    "tuning": "default: nothing tuned; grid: one of many settings; selected: tuned privately",
    "setting": "parameters that are not at their defaults, as JSON",
    "difference": "how the run departs from the paper's protocol; empty if it does not",
    "at": "updates or iterations done, for checkpoints of a run; else missing",
    # the result
    "accuracy": "share of test rows that are predicted correctly",
    "train_accuracy": "share of training rows that are predicted correctly, for two classes",
    "balanced_accuracy": "mean of the classes' shares",
    "auc": "area under the curve; one class against the rest for several classes",
    "log_loss": "of probabilities, where the model has them",
    "r2": "for a real target",
    "objective": "mean loss of the training rows + alpha/2 |w|^2 (two classes or a real target)",
    "excess_objective": "objective less its minimum",
    "gradient_norm": "norm of the objective's true gradient",
    "noisy_gradient_norm": "norm of the gradient that the method measured",
    "squared_gradient": "squared norm of the true gradient, for losses that are not convex",
    "seconds": "of the fit",
    "peak_mb": "growth of the process's memory at its peak, in MiB",
    "epsilon_spent": "of the guarantee",
    "delta_spent": "of the guarantee",
    "epsilon_recomputed": "by dp-accounting from the guarantee's event, where that can be done",
    "guarantee": "as text",
    "problem": "reason why there is no result, else empty",
    # provenance
    "form": "quick, paper or full; empty in older files, whose form was smaller than the papers'",
    "seed": "of the split",
    "jobs": "processes that ran side by side",
    "when": "date and time in UTC",
    "discreet": "version",
    "code": "short hash of the code and versions that decide the result; empty in older files",
    "versions": "of Python and the libraries, as JSON",
    "machine": "processor, cores, memory and system, as JSON",
}
"""The columns and their content."""

TEXTS = (
    "experiment", "data", "loss", "relation", "method", "calibration", "variant", "tuning",
    "setting", "difference", "guarantee", "problem", "form", "when", "discreet", "code", "versions",
    "machine",
)  # fmt: skip

MEASURES: dict[str, bool] = {
    "accuracy": True,
    "train_accuracy": True,
    "balanced_accuracy": True,
    "auc": True,
    "log_loss": False,
    "r2": True,
    "objective": False,
    "excess_objective": False,
    "gradient_norm": False,
    "noisy_gradient_norm": False,
    "squared_gradient": False,
    "seconds": False,
    "peak_mb": False,
    "epsilon_spent": False,
}
"""Measures, and whether larger is better."""

COSTS = ("seconds", "peak_mb", "epsilon_spent")
"""Measures of cost, not of quality."""

TITLES: dict[str, str] = {
    "accuracy": "Accuracy, %",
    "train_accuracy": "Accuracy on training rows, %",
    "balanced_accuracy": "Balanced accuracy, %",
    "auc": "Area under the curve",
    "log_loss": "Log loss",
    "r2": "R²",
    "objective": "Objective",
    "excess_objective": "Excess objective",
    "gradient_norm": "Gradient norm",
    "noisy_gradient_norm": "Noisy gradient norm",
    "squared_gradient": "Squared gradient norm",
    "seconds": "Seconds per fit",
    "peak_mb": "Memory growth, MiB",
    "epsilon_spent": "ε spent",
    "epsilon": "ε",
    "alpha": "Penalty α",
    "at": "Updates",
    "n": "Training rows",
    "d": "Columns",
}
"""Titles of columns in tables, on axes and on the page."""

SHARES = ("accuracy", "balanced_accuracy", "train_accuracy")
"""Measures that are shares, and are shown in percent."""

RELATIONS = {"add_remove": "add or remove a row", "replace_one": "replace a row"}
"""The relations as text."""

VARIANTS: dict[str, str] = {
    "private": "the guarantee was recomputed and holds",
    "as released": "not private as released: published constants or code that break the promise",
    "not private": "a baseline without privacy",
    "rival": "another library; its claim was not recomputed",
}
"""Kinds of runs; only the first may be called private."""

KEY = [
    "experiment", "data", "loss", "alpha", "epsilon", "delta", "relation", "repeat", "method",
    "calibration", "variant", "tuning", "setting", "difference", "at",
]  # fmt: skip
"""Columns that identify a run: one that occurs twice counts once."""

CELL = ["data", "loss", "relation", "epsilon"]
"""Columns that identify the problem: methods compete within a cell."""


def read(*paths: Path | str) -> pd.DataFrame:
    """Read the runs of one file or of several.

    Raises
    ------
    TableError
        If a file is not a benchmark's.
    """
    frames = []
    for path in paths:
        frame = pd.read_parquet(path)
        missing = [name for name in ("experiment", "method", "epsilon") if name not in frame]
        if missing:
            raise TableError(f"{path} is not a file of benchmark runs: no column {missing[0]!r}.")
        frames.append(frame)
    return complete(pd.concat(frames, ignore_index=True)) if frames else complete(pd.DataFrame())


def write(runs: pd.DataFrame, path: Path | str) -> None:
    """Write runs; a reader never sees half a file."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    complete(runs).to_parquet(partial, index=False, compression="zstd")
    partial.replace(path)


def merged(older: pd.DataFrame, newer: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of both, without older ones that were made again.

    A run that kept its promise once and breaks it now, or is refused, is the same run. The column
    ``code`` tells which state of the code each run is of.
    """
    same = [name for name in KEY if name != "variant"]
    again = pd.MultiIndex.from_frame(complete(newer)[same])
    older = complete(older)
    kept = older[~pd.MultiIndex.from_frame(older[same]).isin(again)]
    return complete(pd.concat([kept, newer], ignore_index=True))


def settings_of(text: str) -> dict[str, object]:
    """Return the parameters of the column ``setting``."""
    return dict(json.loads(text)) if text else {}


def number_text(value: object) -> str:
    """Return a value as in running text: 0.1, 10, 70,000."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        return str(value)
    number = float(value)
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def title_of_column(name: str) -> str:
    """Return the title of a column or of a solver's parameter."""
    return TITLES.get(name, name.replace("_", " ").capitalize())


def complete(runs: pd.DataFrame) -> pd.DataFrame:
    """Return runs with all columns, in order and of the right types, each run once."""
    newer = [name for name in runs.columns if name not in COLUMNS]
    runs = runs.reindex(columns=[*COLUMNS, *newer])
    for name in COLUMNS:
        if name in TEXTS:
            runs[name] = runs[name].astype(object).where(runs[name].notna(), "").astype(str)
        else:
            runs[name] = pd.to_numeric(runs[name], errors="coerce").astype("float64")
    return _one_sgd(runs).drop_duplicates(KEY, keep="last", ignore_index=True)


def _one_sgd(runs: pd.DataFrame) -> pd.DataFrame:
    """Count SGD with the tight calibration once, whichever paper's name it was run under.

    The methods ``sgd``, ``sgd-ma`` and ``sgd-adv`` differ in their published noise only. Runs of
    the latter two count as ``sgd``, unless the same problem has runs of ``sgd`` itself.
    """
    same = runs["method"].isin(["sgd-ma", "sgd-adv"]) & (runs["calibration"] == "tight")
    if not same.any():
        return runs
    problem = ["experiment", *CELL, "delta", "alpha", "tuning", "difference"]
    own = runs.loc[(runs["method"] == "sgd") & (runs["calibration"] == "tight"), problem]
    known = pd.MultiIndex.from_frame(runs[problem]).isin(pd.MultiIndex.from_frame(own))
    runs = runs.assign(method=runs["method"].where(~same, "sgd"))
    return runs[~(same & known)]


_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "dp-accounting", "pandas", "benchopt")
_MACHINE = {
    "system-processor": "processor",
    "system-cpus": "cores",
    "system-ram (GB)": "memory in GB",
    "platform": "system",
    "platform-architecture": "architecture",
}


def tidy(raw: pd.DataFrame, *, experiment: str, tuning: str, difference: str = "") -> pd.DataFrame:
    """Convert a frame of benchopt to the columns of runs.

    Parameters
    ----------
    raw : DataFrame
        The frame of benchopt.
    experiment, tuning, difference
        The experiment of the plan, whether the plan is a grid, and how it departs from the paper.
    """
    judged = {
        name.removeprefix("objective_"): raw[name]
        for name in raw
        if name.startswith("objective_") and name != "objective_name"
    }
    found = pd.DataFrame(judged)
    for name in ("epsilon", "relation", "loss", "alpha"):
        found[name] = raw[f"p_obj_{name}"]
    found["experiment"] = experiment
    found["difference"] = difference
    found["repeat"] = raw["idx_rep"]
    found["seconds"] = found["fit_seconds"].where(found["fit_seconds"].notna(), raw["time"])
    found.loc[found["problem"] != "", "seconds"] = float("nan")
    found["when"] = raw["run_date"].astype(str)
    found["method"] = raw["solver_name"].str.split("[").str[0]
    settings = [_setting(row, raw.columns) for row in raw.to_dict("records")]
    _name_tuned(found, settings)
    found["setting"] = [json.dumps(setting, sort_keys=True) for setting in settings]
    blank = found["tuning"].fillna("") == ""
    found.loc[blank, "tuning"] = tuning
    found["machine"] = [
        json.dumps({new: row[old] for old, new in _MACHINE.items() if old in row}, default=str)
        for row in raw.to_dict("records")
    ]
    return stamped(found)


def stamped(runs: pd.DataFrame) -> pd.DataFrame:
    """Add the versions that made the runs and, if it is missing, this machine."""
    here = {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "architecture": platform.machine(),
    }
    runs = runs.assign(
        discreet=version("discreet"),
        versions=json.dumps({"python": platform.python_version(), **versions()}),
    )
    if "machine" not in runs:
        runs = runs.assign(machine=json.dumps(here))
    return complete(runs[[name for name in COLUMNS if name in runs]])


def _setting(row: dict[str, Any], columns: Any) -> dict[str, Any]:
    """Return the parameters of a row that are not at the solver's defaults."""
    from discreet_bench.solvers import defaults

    own = defaults(str(row["solver_name"]).split("[")[0])
    if not own:  # a user's file: all that it was given
        own = {c.removeprefix("p_solver_"): None for c in columns if c.startswith("p_solver_")}
    given = {name: _plain(row.get(f"p_solver_{name}")) for name in own}
    return {
        name: value for name, value in given.items() if value != own[name] and name != "calibration"
    }


def _plain(value: Any) -> Any:
    """Undo what a frame does to parameters: None to NaN, integers to floats, flags to text."""
    if value is None or value != value:
        return None
    if value in ("True", "False"):
        return value == "True"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def _name_tuned(found: pd.DataFrame, settings: list[dict[str, Any]]) -> None:
    """Name a privately tuned method after the method that was tuned."""
    for place, setting in enumerate(settings):
        if found["method"].iloc[place] == "tuned":
            found.loc[found.index[place], "method"] = setting.pop("base", "agd")


def versions() -> dict[str, str]:
    """Return the versions of the libraries that influence the results."""
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
