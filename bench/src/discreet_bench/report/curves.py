"""Runs as lines to draw: means, deviations and counts at each point, small enough for a page."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from itertools import product
from typing import Any

import pandas as pd

from discreet_bench.experiment import Panels
from discreet_bench.lines import METHODS, honest, look
from discreet_bench.published import Published, entries
from discreet_bench.runs import MEASURES, settings_of
from discreet_bench.statistics import final

__all__ = [
    "COSTS",
    "GROUPS",
    "KINDS",
    "curves",
    "in_words",
    "kind_of",
    "line_facts",
    "panels_of",
    "rounded",
]

COSTS = ("seconds", "peak_mb", "epsilon_spent")
"""Measures of which a best setting is no matter of interest."""

PANEL = ["data", "loss", "relation"]
FACETS = ["epsilon", "delta", "alpha"]

KINDS = {
    "private": "Private",
    "hindsight": "Tuned with hindsight, not private",
    "released": "Not private as released",
    "rival": "Other libraries: claims, not recomputed",
    "baseline": "No privacy at all",
}


GROUPS = {
    "private": "Private, default form",
    "variant": "Private, published constants or tuned",
    **{name: words for name, words in KINDS.items() if name != "private"},
}
"""Kinds as the legend has them: of private lines, those that are as this library has them first."""


def panels_of(experiment: str) -> tuple[Panels, dict[str, Any]]:
    """How an experiment is drawn, and what it says of itself; an unknown one is drawn over ε."""
    from discreet_bench.experiments import EXPERIMENTS

    known = EXPERIMENTS.get(experiment)
    if known is None:
        return Panels(), {}
    words = {name: getattr(known, name) for name in ("title", "source", "question")}
    return known.panels, {**words, "notes": list(known.notes)}


def kind_of(line: str) -> str:
    """Which of `KINDS` a line is."""
    _, _, variant, tuning = line.split("|")
    if variant == "private":
        return "hindsight" if tuning == "grid" else "private"
    return {"as released": "released", "rival": "rival"}.get(variant, "baseline")


def line_facts(line: str) -> dict[str, Any]:
    """What the page must know to name and draw a line."""
    drawn = look(line)
    kind = kind_of(line)
    _, calibration, _, tuning = line.split("|")
    default = tuning == "default" and calibration != "published"
    return {
        "title": drawn.title,
        "short": drawn.title.split(", ")[0],
        "first": (honest(line) and default) or line.startswith("nonprivate|"),
        "colour": drawn.colour.lower(),
        "marker": drawn.marker,
        "dash": drawn.dash,
        "filled": drawn.filled,
        "kind": kind,
        "group": "variant" if kind == "private" and not default else kind,
    }


def rounded(value: float, digits: int = 5) -> float | None:
    """A number in few digits, and nothing for what is not a number."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def curves(runs: pd.DataFrame, order: list[str]) -> list[dict[str, Any]]:
    """For each experiment its panels, and for each panel its lines.

    Parameters
    ----------
    runs : DataFrame
        Runs with the column ``line``.
    order : list of str
        The lines; a line is referred to by its place in it.
    """
    return [
        _experiment(str(name), group, order)
        for name, group in runs.groupby("experiment", sort=False)
    ]


def _experiment(name: str, runs: pd.DataFrame, order: list[str]) -> dict[str, Any]:
    shown, words = panels_of(name)
    runs = runs if shown.x == "at" else final(runs)
    runs = _placed(runs[runs["problem"] == ""], shown)
    labels: list[str] = []
    if not pd.api.types.is_numeric_dtype(runs["x"]):
        labels = sorted(runs["x"].dropna().astype(str).unique())
        runs["x"] = runs["x"].astype(str).map({text: k for k, text in enumerate(labels)})
    facets = _facets(runs, [name for name in FACETS if name not in (shown.x, *shown.lines)])
    measures = [name for name in MEASURES if runs[name].notna().any()]
    cell = [*PANEL, *facets]
    summary = _summary(runs, [*cell, "line", "extra", "x"], measures)
    alphas = runs.groupby(cell)["alpha"].unique()
    panels = [
        _panel(name, shown.x, dict(zip(cell, key, strict=True)), group, order, alphas[key])
        for key, group in summary.groupby(cell, sort=True)
    ]
    return {
        "name": name,
        **words,
        "x": shown.x,
        "labels": labels,
        "logX": shown.log_x and not labels,
        "logY": shown.log_y,
        "first": [measure for measure in shown.measures if measure in measures],
        "measures": measures,
        "facets": facets,
        "panels": panels,
    }


def _placed(runs: pd.DataFrame, shown: Panels) -> pd.DataFrame:
    """The runs with their place along, what else makes a line, and the rest of the setting."""
    texts = {text: settings_of(text) for text in runs["setting"].unique()}
    taken = {shown.x, *shown.lines}
    rest = {t: {k: v for k, v in s.items() if k not in taken} for t, s in texts.items()}
    runs = runs.assign(rest=runs["setting"].map({t: in_words(s) for t, s in rest.items()}))
    if shown.x in runs:
        runs["x"] = runs[shown.x]
    else:
        found = {text: setting.get(shown.x) for text, setting in texts.items()}
        runs["x"] = runs["setting"].map(found)
        numbers = pd.to_numeric(runs["x"], errors="coerce")
        if numbers.notna().equals(runs["x"].notna()):
            runs["x"] = numbers
    if shown.x == "n":
        runs["data"] = runs["data"].str.replace(r" \([^()]*rows[^()]*\)$", "", regex=True)
    runs["extra"] = ""
    for name in shown.lines:
        if name in runs:
            title = {"epsilon": "ε", "alpha": "α"}.get(name, name)
            words = f"{title} = " + runs[name].map("{:g}".format if name not in PANEL else str)
        else:
            of = {t: f"{name} = {s[name]}" if name in s else "" for t, s in texts.items()}
            words = runs["setting"].map(of)
        both = (runs["extra"] != "") & (words != "")
        runs["extra"] = runs["extra"] + both.map({True: ", ", False: ""}) + words
    return _told_apart(runs)


def _told_apart(runs: pd.DataFrame) -> pd.DataFrame:
    """Settings that meet at one point are lines of their own, but for a grid, which is one."""
    place = ["experiment", *PANEL, *FACETS, "line", "extra", "x"]
    several = runs.groupby(place, dropna=False)["rest"].transform("nunique") > 1
    within = [*PANEL, "line", "extra"]
    several = several.groupby([runs[name] for name in within]).transform("any")
    several &= ~runs["line"].str.endswith("|grid")
    words = runs["rest"].where(several, "")
    both = (runs["extra"] != "") & (words != "")
    return runs.assign(extra=runs["extra"] + both.map({True: ", ", False: ""}) + words)


def in_words(setting: dict[str, object]) -> str:
    """A setting as a reader would say it."""
    return ", ".join(
        f"{name} = {value if isinstance(value, str | int | float) else json.dumps(value)}"
        for name, value in sorted(setting.items())
    )


def _facets(runs: pd.DataFrame, names: list[str]) -> list[str]:
    """ε, and columns that take several values at one point of a line, so must be chosen."""
    place = runs.groupby([*PANEL, "line", "extra", "x"], dropna=False)
    return [name for name in names if name == "epsilon" or (place[name].nunique() > 1).any()]


def _summary(runs: pd.DataFrame, place: list[str], measures: list[str]) -> pd.DataFrame:
    """Mean, deviation and count of each measure; of a grid, those of its best setting.

    Which setting is best is decided for each measure and point by the mean itself. That is
    hindsight, and the line says so. Costs are means over all settings.
    """
    parts = []
    for measure in measures:
        by = place if measure in COSTS else [*place, "rest"]
        told = runs[runs[measure].notna()].groupby(by, dropna=False)[measure]
        told = told.agg(["mean", "std", "count"]).reset_index()
        told = told.sort_values(
            ["count", "mean"], ascending=[False, not MEASURES[measure]], kind="stable"
        )  # a setting that fails at times is never the best
        parts.append(told.drop_duplicates(place).assign(measure=measure))
    columns = [*place, "mean", "std", "count", "measure"]
    return pd.concat([part[columns] for part in parts]) if parts else pd.DataFrame(columns=columns)


def _panel(
    experiment: str,
    x: str,
    cell: dict[str, Any],
    summary: pd.DataFrame,
    order: list[str],
    alphas: Iterable[float],
) -> dict[str, Any]:
    facets = {name: cell[name] for name in cell if name not in PANEL}
    return {
        **{name: cell[name] for name in PANEL},
        "facet": facets,
        "series": _series(summary, {line: k for k, line in enumerate(order)}),
        "published": _stars(experiment, cell, summary, x, alphas),
    }


def _series(summary: pd.DataFrame, places: dict[str, int]) -> list[dict[str, Any]]:
    """The lines of a panel; points are columns for each measure: x, mean, deviation, count.

    A point without x is a level line.
    """
    summary = summary.sort_values("x", kind="stable")
    columns = pd.DataFrame(
        {
            "line": summary["line"].map(places),
            "extra": summary["extra"],
            "measure": summary["measure"],
            "x": [rounded(value) for value in summary["x"]],
            "mean": [rounded(value) for value in summary["mean"]],
            "std": [rounded(value, 3) for value in summary["std"]],
            "count": summary["count"].astype(int),
        }
    ).astype(object)
    found: dict[tuple[int, str], dict[str, Any]] = {}
    for line, extra, measure, *values in columns.itertuples(index=False):
        one = found.setdefault((line, extra), {"line": line, "extra": extra, "points": {}})
        for column, value in zip(
            one["points"].setdefault(measure, ([], [], [], [])), values, strict=True
        ):
            column.append(None if value != value else value)
    return [found[key] for key in sorted(found)]


def _stars(
    experiment: str, cell: dict[str, Any], summary: pd.DataFrame, x: str, alphas: Iterable[float]
) -> dict[str, list[list[Any]]]:
    """Numbers that papers print for this panel: method, colour, place, value and source.

    One that does not depend on what is drawn along stands at the right end.
    """
    places = sorted(summary["x"].dropna().unique())
    epsilons = places if x == "epsilon" else [cell.get("epsilon", math.nan)]
    ats = places if x == "at" else [None]
    found: dict[str, list[list[Any]]] = {}
    for measure in sorted(summary["measure"].unique()):
        stars = {
            (entry, _place(entry, x, {"epsilon": epsilon, "at": at}, places))
            for epsilon, at, alpha in product(epsilons, ats, alphas)
            for entry in entries(
                experiment,
                cell["data"],
                cell["loss"],
                epsilon,
                measure,
                alpha=alpha,
                at=at,
                relation=cell["relation"],
            )
        }
        if stars:
            listed = [_star(entry, place) for entry, place in stars]
            found[measure] = sorted(listed, key=lambda star: (star[0], star[2] or 0.0, star[3]))
    return found


def _place(
    entry: Published, x: str, here: dict[str, float | None], places: list[float]
) -> float | None:
    """Where along a number stands; None if that is not told."""
    if x not in here:
        return None
    return places[-1] if getattr(entry, x) is None and places else here[x]


def _star(entry: Published, place: float | None) -> list[Any]:
    method = METHODS[entry.method]
    title = method.title if entry.alpha is None else f"{method.title}, α = {entry.alpha:g}"
    source = f"{entry.source}: {entry.note}" if entry.note else entry.source
    at = None if place is None else rounded(place)
    return [title, method.colour.lower(), at, rounded(entry.value), source]
