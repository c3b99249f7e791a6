"""Interactive charts of the report: traces and layouts for plotly.js."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
import pandas as pd

from discreet_bench.experiment import Experiment
from discreet_bench.figures import axis_limits, is_log
from discreet_bench.lines import Style, is_own, kind_of, order_of
from discreet_bench.points import FEW_REPEATS, Shown, shown, styles
from discreet_bench.runs import MEASURES, RELATIONS, SHARES, title_of_column

__all__ = ["charts"]

SYMBOLS = {
    "o": "circle", "s": "square", "^": "triangle-up", "v": "triangle-down", "D": "diamond",
    "P": "cross", "x": "x", "X": "x", "*": "star", "<": "triangle-left", ">": "triangle-right",
    "p": "pentagon", "h": "hexagon", "d": "diamond-tall", "8": "octagon",
}  # fmt: skip
DASHES = {"-": "solid", "--": "dash", ":": "dot", "-.": "dashdot"}
MOST_SHOWN = 8
"""Lines that are switched on at first in a crowded chart, the best ones."""

MOST_BANDS = 3
"""Lines of a chart that have a band: discreet's default, methods of the user, the best others."""


def charts(runs: pd.DataFrame, experiment: Experiment) -> list[dict[str, Any]]:
    """Return a chart per loss, relation, data set and measure of an experiment's runs."""
    first = [name for name in experiment.panels.measures if runs[name].notna().any()]
    others = [name for name in MEASURES if name not in first and runs[name].notna().any()]
    found = []
    for (loss, relation), group in runs.groupby(["loss", "relation"], sort=True):
        points = shown(group, experiment, (*first, *others))
        look = styles(points.keys)
        problem = f"{loss} loss, {RELATIONS.get(relation, relation)}"
        for data in points.data:
            for measure in points.measures:
                table = points.points
                table = table[(table["data"] == data) & (table["measure"] == measure)]
                if len(table):
                    labels = {
                        "experiment": experiment.name,
                        "problem": problem,
                        "data": data,
                        "measure": title_of_column(measure),
                    }
                    keys = [key for key in look if (table["key"] == key).any()]
                    on = _first_shown(table, points, keys, measure)
                    layout = _layout(table[table["key"].isin(on)], points, experiment, measure)
                    traces = _traces(table, points, look, on, measure)
                    traces += _published(points, look, data, measure)
                    found.append({"labels": labels, "traces": traces, "layout": layout})
    return found


def _traces(
    table: pd.DataFrame, points: Shown, look: dict[str, Style], on: set[str], measure: str
) -> list[dict[str, Any]]:
    """Return the traces of a chart: lines with bands or single runs."""
    scale = 100.0 if measure in SHARES else 1.0
    xs = sorted(table["x"].dropna().unique())
    keys = [key for key in look if (table["key"] == key).any()]
    keys.sort(key=lambda key: (*order_of(points.keys.loc[key, "line"]), look[key].title))
    banded = _banded(table, points, on, measure)
    traces: list[dict[str, Any]] = []
    for key in keys:
        group, this = table[table["key"] == key].sort_values("x"), look[key]
        visible = True if key in on else "legendonly"
        if points.keys.loc[key, "reference"] and xs:
            ends = [xs[0], xs[-1]]
            group = pd.concat([group.assign(x=end) for end in dict.fromkeys(ends)])
        elif group["x"].isna().any():
            group = group.assign(x=0)
        title = escape(this.title)
        own = is_own(points.keys.loc[key, "line"].split("|")[0])
        mark = {
            "symbol": SYMBOLS.get(this.marker, "circle") + ("" if this.filled else "-open"),
            "size": 10 if own else 8,
        }
        line = {
            "type": "scatter",
            "mode": "lines+markers",
            "name": title,
            "legendgroup": title,
            "visible": visible,
            "x": [_x(points, value) for value in group["x"]],
            "y": _rounded(scale * group["mean"]),
            "line": {"color": this.colour, "dash": DASHES[this.dash], "width": 3 if own else 2},
            "marker": mark,
            "customdata": [_hover(row, scale) for row in group.itertuples()],
            "hovertemplate": "%{y:.4~g} %{customdata}",
        }
        band = group[group["low"].notna()]
        if len(band) > 1 and key in banded:
            x = [_x(points, value) for value in band["x"]]
            traces.append({
                "type": "scatter", "mode": "lines", "legendgroup": title, "showlegend": False,
                "visible": visible, "x": x + x[::-1], "fill": "toself", "line": {"width": 0},
                "y": _rounded(scale * band["high"]) + _rounded(scale * band["low"])[::-1],
                "fillcolor": this.colour, "opacity": 0.12, "hoverinfo": "skip",
            })  # fmt: skip
        few = group[group["count"].between(2, FEW_REPEATS - 1) & group["low"].isna()]
        single = [(row.x, value) for row in few.itertuples() for value in row.values]
        traces.append(line)
        if single and not points.keys.loc[key, "reference"]:
            traces.append({
                "type": "scatter", "mode": "markers", "legendgroup": title, "showlegend": False,
                "visible": visible, "x": [_x(points, x) for x, _ in single],
                "y": _rounded(scale * np.array([value for _, value in single])),
                "marker": {"color": this.colour, "size": 4, "opacity": 0.5}, "hoverinfo": "skip",
            })  # fmt: skip
    return traces


def _published(
    points: Shown, look: dict[str, Style], data: str, measure: str
) -> list[dict[str, Any]]:
    scale = 100.0 if measure in SHARES else 1.0
    marks = points.published
    marks = marks[(marks["data"] == data) & (marks["measure"] == measure)]
    if marks.empty:
        return []
    return [{
        "type": "scatter", "mode": "markers", "name": "published in papers",
        "x": [_x(points, value) for value in marks["x"]], "y": _rounded(scale * marks["value"]),
        "marker": {
            "symbol": "star", "size": 11, "line": {"width": 1, "color": "white"},
            "color": [look[key].colour for key in marks["key"]],
        },
        "text": [escape(look[key].title) for key in marks["key"]],
        "hovertemplate": "%{text}, as published: %{y:.4~g}<extra></extra>",
    }]  # fmt: skip


def _first_shown(table: pd.DataFrame, points: Shown, keys: list[str], measure: str) -> set[str]:
    """Return the lines that are switched on at first: all of a few, else the best private ones."""
    if len(keys) <= MOST_SHOWN:
        return set(keys)
    methods = points.keys["line"].str.split("|").str[0]
    always = {key for key in keys if methods[key] in ("auto", "nonprivate") or is_own(methods[key])}
    best = _ranked(table, points, measure)[: max(0, MOST_SHOWN - 2 - sum(map(is_own, methods)))]
    return always | {key for key in best if key in keys} or set(keys[:MOST_SHOWN])


def _banded(table: pd.DataFrame, points: Shown, on: set[str], measure: str) -> list[str]:
    """Return the lines that have a band: with more, bands hide each other."""
    methods = points.keys["line"].str.split("|").str[0]
    best = [key for key in _ranked(table, points, measure) if key in on]
    first = [key for key in best if methods[key] == "auto" or is_own(methods[key])]
    return [*first, *(key for key in best if key not in first)][:MOST_BANDS]


def _ranked(table: pd.DataFrame, points: Shown, measure: str) -> list[str]:
    """Return the private lines of a chart by their mean rank, the best first."""
    kinds = points.keys["line"].map(kind_of)
    private = table[table["key"].map(kinds) == "private"]
    rank = private.groupby("x")["mean"].rank(ascending=not MEASURES.get(measure, False))
    return list(rank.groupby(private["key"]).mean().sort_values().index)


def _layout(
    table: pd.DataFrame, points: Shown, experiment: Experiment, measure: str
) -> dict[str, Any]:
    """Return the axes, with limits that suit the lines that are shown at first."""
    better = "higher" if MEASURES.get(measure, False) else "lower"
    log_y = is_log(measure, table["mean"], experiment.panels.log_y)
    limits = np.array(axis_limits(table, points.published.iloc[:0], measure, log_y, False)[:2])
    limits = np.log10(limits) if log_y else limits
    xs = sorted(table["x"].dropna().unique())
    log_x = experiment.panels.log_x and not points.labels and len(xs) > 1
    x_axis: dict[str, Any] = {
        "title": {"text": title_of_column(experiment.panels.x)},
        "type": "category" if points.labels else "log" if log_x else "linear",
    }
    if len(xs) <= 9 and not points.labels:
        x_axis |= {"tickvals": xs, "ticktext": [points.x_text(x) for x in xs]}
    return {
        "xaxis": x_axis,
        "yaxis": {
            "title": {"text": f"{title_of_column(measure)} ({better} is better)"},
            "type": "log" if log_y else "linear",
            "range": _rounded(limits),
        },
    }


def _x(points: Shown, value: float) -> float | str:
    return points.labels[int(value)] if points.labels else float(value)


def _rounded(values: Any) -> list[float | None]:
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in values]


def _hover(row: Any, scale: float) -> str:
    if row.count == 1:
        return "(one run)"
    if np.isfinite(row.low):
        return f"[{scale * row.low:.4g}, {scale * row.high:.4g}], {row.count} repeats"
    return f"({row.count} repeats)"
