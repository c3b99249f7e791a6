"""From what benchopt writes to the columns of `runs`."""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import pandas as pd

from discreet_bench import runs as table

__all__ = ["stamped", "tidy", "versions"]

_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "dp-accounting", "pandas", "benchopt")
_MACHINE = {
    "system-processor": "processor",
    "system-cpus": "cores",
    "system-ram (GB)": "memory in GB",
    "platform": "system",
    "platform-architecture": "architecture",
}


def tidy(raw: pd.DataFrame, *, experiment: str, tuning: str) -> pd.DataFrame:
    """Bring a frame of benchopt's into the columns of `runs`.

    Parameters
    ----------
    raw : DataFrame
        As benchopt wrote it.
    experiment, tuning
        What the plan was part of, and whether it is a grid.
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
    """The runs with the versions that made them and, if it is not known, this machine."""
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
    return table.complete(runs[[name for name in table.COLUMNS if name in runs]])


def _setting(row: dict[str, Any], columns: Any) -> dict[str, Any]:
    """What was set beyond the defaults: of a row, the parameters that its solver has."""
    from discreet_bench.solvers import defaults

    own = defaults(str(row["solver_name"]).split("[")[0])
    if not own:  # a file of somebody else's: whatever it has been given
        own = {c.removeprefix("p_solver_"): None for c in columns if c.startswith("p_solver_")}
    given = {name: _plain(row.get(f"p_solver_{name}")) for name in own}
    return {
        name: value for name, value in given.items() if value != own[name] and name != "calibration"
    }


def _plain(value: Any) -> Any:
    """A parameter as it was given: a frame turns None into NaN and whole numbers into floats."""
    if value is None or value != value:
        return None
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def _name_tuned(found: pd.DataFrame, settings: list[dict[str, Any]]) -> None:
    """A privately tuned method goes by the name of what was tuned."""
    for place, setting in enumerate(settings):
        if found["method"].iloc[place] == "tuned":
            found.loc[found.index[place], "method"] = setting.pop("base", "agd")


def versions() -> dict[str, str]:
    """Of the libraries that decide what comes out."""
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
