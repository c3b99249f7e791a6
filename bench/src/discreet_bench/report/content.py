"""What the script of the page draws, as data that JSON can hold."""

from __future__ import annotations

from typing import Any

import pandas as pd
from scipy import stats

from discreet_bench.lines import METHODS
from discreet_bench.report.curves import (
    GROUPS,
    KINDS,
    curves,
    kind_of,
    line_facts,
    rounded,
)
from discreet_bench.runs import MEASURES, RELATIONS

__all__ = ["TITLES", "content", "ordered"]

TITLES: dict[str, str] = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "auc": "area under the curve",
    "log_loss": "log loss",
    "r2": "R²",
    "objective": "objective",
    "excess_objective": "objective above its minimum",
    "seconds": "seconds of the fit",
    "peak_mb": "peak memory, MiB",
    "epsilon_spent": "ε spent",
    "gradient_norm": "length of the gradient",
    "noisy_gradient_norm": "length of the noisy gradient",
}
"""The measures in words."""

_IN_PER_CENT = ("accuracy", "balanced_accuracy")
_UP_TO_ONE = (*_IN_PER_CENT, "auc")
_OVER_DECADES = ("excess_objective", "seconds", "peak_mb")


def ordered(lines: pd.Series) -> list[str]:
    """The lines: kind by kind, and within a kind in the order of `METHODS`."""
    kinds, methods = list(KINDS), list(METHODS)

    def place(line: str) -> tuple[int, int, str]:
        method = line.split("|")[0].removesuffix("-released")
        known = methods.index(method) if method in METHODS else len(methods)
        return kinds.index(kind_of(line)), known, line

    return sorted(lines.unique(), key=place)


def content(runs: pd.DataFrame, rows: pd.DataFrame) -> dict[str, Any]:
    """The data of the page.

    Parameters
    ----------
    runs : DataFrame
        Runs with the column ``line``.
    rows : DataFrame
        The leaderboard, from `board`.
    """
    order = ordered(runs["line"])
    experiments = curves(runs, order)
    counts = {
        count
        for experiment in experiments
        for panel in experiment["panels"]
        for series in panel["series"]
        for points in series["points"].values()
        for count in points[3]
        if count > 1
    }
    return {
        "kinds": KINDS,
        "groups": GROUPS,
        "relations": RELATIONS,
        "lines": [line_facts(line) for line in order],
        "measures": {
            name: {
                "title": title,
                "more": MEASURES[name],
                "percent": name in _IN_PER_CENT,
                "bounded": name in _UP_TO_ONE,
                "log": name in _OVER_DECADES,
            }
            for name, title in TITLES.items()
        },
        "experiments": experiments,
        # half a 95 % interval of a mean of so many runs is this times sd / sqrt(count)
        "quantiles": {count: round(float(stats.t.ppf(0.975, count - 1)), 4) for count in counts},
        "board": _board(rows, order),
    }


def _board(rows: pd.DataFrame, order: list[str]) -> list[dict[str, Any]]:
    places: dict[object, int] = {line: k for k, line in enumerate(order)}
    return [
        {
            "measure": row.measure,
            "experiment": row.experiment,
            "data": row.data,
            "loss": row.loss,
            "relation": row.relation,
            "epsilon": row.epsilon,
            "best": [places[row.best], rounded(row.best_mean)],
            "second": _known(places, row.runner_up, row.runner_up_mean),
            "margin": rounded(row.margin, 3),
            "alpha": rounded(row.alpha),
            "p": rounded(row.adjusted, 2),
            "clear": bool(row.significant),
            "default": rounded(row.auto_mean),
            "worse": bool(row.auto_significant),
            "defaultP": rounded(row.auto_p_value, 2),
            "delta": rounded(row.delta),
            "baseline": rounded(row.baseline),
            "hindsight": _known(places, row.hindsight, row.hindsight_mean),
            "setting": row.setting if isinstance(row.setting, str) else "",
        }
        for row in rows.itertuples()
    ]


def _known(places: dict[object, int], line: object, value: float) -> list[Any] | None:
    return [places[line], rounded(value)] if line in places else None
