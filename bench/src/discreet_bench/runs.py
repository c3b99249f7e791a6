"""What a benchmark writes down: one line for each run, in one Parquet file.

Everything after the running (tables, figures, the report page, comparisons) reads these columns and
nothing else, so a file from another machine or another year is as good as one's own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from discreet.errors import TableError

__all__ = [
    "CELL",
    "COLUMNS",
    "KEY",
    "MEASURES",
    "RELATIONS",
    "SHARES",
    "VARIANTS",
    "complete",
    "read",
    "settings_of",
    "write",
]

COLUMNS: dict[str, str] = {
    # what was asked
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
    # who ran
    "method": "solver of the benchmark, such as agd",
    "calibration": "tight, published, or nothing where there is one only",
    "variant": "one of VARIANTS",
    "tuning": "default: nothing tuned; grid: one of many settings; selected: tuned privately",
    "setting": "what was set beyond the defaults, as JSON",
    "at": "updates or iterations done, where a run was looked at on its way; else missing",
    # what came out
    "accuracy": "share of test rows that are right",
    "balanced_accuracy": "mean of the classes' shares",
    "auc": "area under the curve; one class against the rest for several classes",
    "log_loss": "of probabilities, where the model has them",
    "r2": "for a real target",
    "objective": "mean loss of the training rows + alpha/2 |w|^2 (two classes or a real target)",
    "excess_objective": "objective less its minimum",
    "gradient_norm": "length of the objective's true gradient",
    "noisy_gradient_norm": "length of the gradient that the method saw",
    "seconds": "of the fit",
    "peak_mb": "growth of the process's memory at its peak, in MiB",
    "epsilon_spent": "of the guarantee",
    "delta_spent": "of the guarantee",
    "epsilon_recomputed": "by dp-accounting from the guarantee's event, where that can be done",
    "guarantee": "in words",
    "problem": "why there is no result, else empty",
    # how to do it again
    "seed": "of the split",
    "jobs": "processes that ran side by side",
    "when": "date and time in UTC",
    "discreet": "version",
    "versions": "of Python and the libraries, as JSON",
    "machine": "processor, cores, memory and system, as JSON",
}
"""The columns and what they hold."""

TEXTS = (
    "experiment", "data", "loss", "relation", "method", "calibration", "variant", "tuning",
    "setting", "guarantee", "problem", "when", "discreet", "versions", "machine",
)  # fmt: skip

MEASURES: dict[str, bool] = {
    "accuracy": True,
    "balanced_accuracy": True,
    "auc": True,
    "log_loss": False,
    "r2": True,
    "objective": False,
    "excess_objective": False,
    "gradient_norm": False,
    "noisy_gradient_norm": False,
    "seconds": False,
    "peak_mb": False,
    "epsilon_spent": False,
}
"""What is measured, and whether more is better."""

SHARES = ("accuracy", "balanced_accuracy")
"""Measures that are shares, and are shown in percent."""

RELATIONS = {"add_remove": "add or remove a row", "replace_one": "replace a row"}
"""Which tables are neighbours, in words."""

VARIANTS: dict[str, str] = {
    "private": "the guarantee was recomputed and holds",
    "as released": "not private as released: published constants or code that break the promise",
    "not private": "a baseline without privacy",
    "rival": "another library; its claim was not recomputed",
}
"""Kinds of runs; only the first may be called private."""

KEY = [
    "experiment", "data", "loss", "alpha", "epsilon", "delta", "relation", "repeat", "method",
    "calibration", "variant", "tuning", "setting", "at",
]  # fmt: skip
"""Columns that tell runs apart: a run that is there twice counts once."""

CELL = ["data", "loss", "relation", "epsilon"]
"""Columns that say which problem was solved: methods compete within a cell."""


def read(*paths: Path | str) -> pd.DataFrame:
    """The runs of one file or of several.

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


def settings_of(text: str) -> dict[str, object]:
    """What was set, from the column ``setting``."""
    return dict(json.loads(text)) if text else {}


def complete(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs with all columns, in order and of the right kinds, each of them once."""
    runs = runs.reindex(columns=_ordered(runs.columns))
    for name in COLUMNS:
        if name in TEXTS:
            runs[name] = runs[name].astype(object).where(runs[name].notna(), "").astype(str)
        else:
            runs[name] = pd.to_numeric(runs[name], errors="coerce").astype("float64")
    return runs.drop_duplicates(KEY, keep="last", ignore_index=True)


def _ordered(given: Iterable[str]) -> list[str]:
    """The known columns first, then whatever a newer version has added."""
    return [*COLUMNS, *(name for name in given if name not in COLUMNS)]
