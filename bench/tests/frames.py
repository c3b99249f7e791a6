"""Small tables of runs to test with."""

from typing import Any

import pandas as pd

from discreet_bench.runs import complete

DEFAULTS: dict[str, Any] = {
    "experiment": "exp",
    "data": "adult",
    "n": 1000,
    "d": 10,
    "classes": 2,
    "loss": "logistic",
    "alpha": 1e-4,
    "epsilon": 1.0,
    "delta": 1e-6,
    "relation": "add_remove",
    "repeat": 0,
    "method": "agd",
    "calibration": "tight",
    "variant": "private",
    "tuning": "default",
    "setting": "{}",
    "seed": 0,
    "jobs": 1,
    "when": "2026-01-01T00:00:00",
    "discreet": "0",
    "versions": "{}",
    "machine": "{}",
}


def frame(**columns: Any) -> pd.DataFrame:
    """Valid runs: a value for all of them, or a list with one for each."""
    length = max((len(v) for v in columns.values() if isinstance(v, list)), default=1)
    return complete(pd.DataFrame(DEFAULTS | columns, index=range(length)))


def repeated(accuracy: list[float], **columns: Any) -> pd.DataFrame:
    """Runs of one line on splits 0, 1, … with these accuracies."""
    numbers = list(range(len(accuracy)))
    return frame(accuracy=accuracy, **{"repeat": numbers, "seed": numbers} | columns)


def together(*frames: pd.DataFrame) -> pd.DataFrame:
    """Several tables as one."""
    return pd.concat(frames, ignore_index=True)
