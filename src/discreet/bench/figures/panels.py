"""What is drawn within one panel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from discreet.bench.figures.looks import PUBLISHED
from discreet.bench.figures.points import Shown, value_text
from discreet.bench.figures.words import PERCENT
from discreet.bench.lines import Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

__all__ = ["dots", "is_log", "line_style", "lines", "value_limits", "x_axis"]

LEVEL = ("accuracy", "balanced_accuracy", "auc", "r2")
"""Measures that are never drawn on a log axis."""

WORST_R2 = -0.5
"""Below this a model is much worse than the mean of the target, no matter by how much."""

FEW_LINES = 12
MANY_POINTS = 12
BESIDE = 3.5  # points between published marks at one x


def is_log(measure: str, values: pd.Series, log_y: bool) -> bool:
    """Whether a measure gets a log axis: it was asked for, or else most lines would lie flat."""
    if measure in LEVEL or not (values > 0).any():
        return False
    if log_y or measure == "excess_objective":
        return True
    return bool(values.min() > 0 and values.max() > 50 * values.median())


def line_style(this: Look, crowded: bool = False) -> dict[str, object]:
    """A look as matplotlib's own words."""
    width = 0.9 if crowded else 1.2
    return {
        "color": this.colour,
        "linestyle": this.dash,
        "linewidth": width,
        "marker": this.marker,
        "markersize": 3.6 if crowded else 4.4,
        "markerfacecolor": this.colour if this.filled else "white",
        "markeredgecolor": this.colour,
        "markeredgewidth": 0.9,
    }


def lines(
    axes: Axes, table: pd.DataFrame, marks: pd.DataFrame, shown: Shown, looks: dict[str, Look]
) -> None:
    """Draw one line a key with its band, references as level lines, and published numbers."""
    crowded = len(looks) > FEW_LINES
    scale = _scale(table)
    for place, key in reversed(list(enumerate(looks))):  # the best are drawn last, above the others
        group = table[table["key"] == key].sort_values("x")
        if group.empty:
            continue
        if shown.keys.loc[key, "reference"]:
            _level(axes, scale * group["mean"].iloc[0], looks[key], str(key))
        else:
            _line(axes, group, scale, looks[key], str(key), crowded, place)
    beside = {key: place for place, key in enumerate(marks["key"].unique())}
    apart = min(BESIDE, 4 * BESIDE / max(len(beside), 1))
    for mark in marks.itertuples():
        level = shown.keys.loc[mark.key, "reference"]
        aside = 0.0 if level else apart * (beside[mark.key] - (len(beside) - 1) / 2)
        _mark(axes, mark.x, scale * mark.value, looks[mark.key], (aside, 0.0))


def dots(
    axes: Axes,
    table: pd.DataFrame,
    marks: pd.DataFrame,
    shown: Shown,
    looks: dict[str, Look],
    places: dict[str, float],
) -> None:
    """Draw one dot a key at its place, with an error bar; for runs that have one x only."""
    scale = _scale(table)
    means = table.groupby("key")["mean"].first()
    for key, this in looks.items():
        place = places[key]
        group = table[table["key"] == key]
        if group.empty:
            continue
        mean = scale * group["mean"].iloc[0]
        low, high = scale * group["low"].iloc[0], scale * group["high"].iloc[0]
        style = line_style(this) | {"linestyle": "none", "zorder": 3, "gid": f"line:{key}"}
        style["clip_on"] = False
        axes.plot([mean], [place], **style)
        if np.isfinite(low):
            axes.hlines(place, low, high, color=this.colour, linewidth=1.1, zorder=2)
        if shown.keys.loc[key, "reference"]:
            axes.axvline(mean, color=this.colour, linewidth=0.7, linestyle=this.dash, zorder=1)
    for mark in marks.itertuples():
        if mark.key in means:
            _mark(axes, scale * mark.value, places[mark.key], looks[mark.key], (0.0, -1.5 * BESIDE))


def value_limits(
    table: pd.DataFrame, marks: pd.DataFrame, measure: str, log: bool
) -> tuple[float, float, bool]:
    """Where the axis of a measure starts and ends, and whether something lies off it.

    Means and published numbers are all within; bands are, as far as they do not take more than a
    third of the panel, so that one wild line does not press the others flat.
    """
    scale = _scale(table)
    inner = scale * np.concatenate([table["mean"], marks["value"].astype(float)])
    outer = scale * np.concatenate([table["low"], table["high"]])
    if log:
        inner, outer = np.log10(inner[inner > 0]), np.log10(outer[outer > 0])
    outer = outer[np.isfinite(outer)]
    cut = bool(log and (table["mean"] <= 0).any())
    if measure == "r2" and inner.min() < WORST_R2:
        inner, outer, cut = inner.clip(WORST_R2), outer.clip(WORST_R2), True
    low, high = inner.min(), inner.max()
    room = max((high - low) / 3, 0.05 if log else 1e-3 * max(abs(high), abs(low), 1e-9))
    if len(outer):
        low, high = max(low - room, min(low, outer.min())), min(high + room, max(high, outer.max()))
    pad = max(0.06 * (high - low), 0.03 if log else 1e-3 * max(abs(high), 1e-9))
    low, high = low - pad, high + pad
    return (10**low, 10**high, cut) if log else (low, high, cut)


def x_axis(axes: Axes, shown: Shown, log: bool, inches: float) -> None:
    """Ticks of the x axis: where runs are, in plain numbers, as many as there is room for."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

    values = np.sort(shown.points["x"].dropna().unique())
    if log:
        axes.set_xscale("log")
        places = np.log10(values)
    else:
        places = values
    span = places[-1] - places[0]
    edge = 0.08 * span
    ends = np.array([places[0] - edge, places[-1] + edge])
    axes.set_xlim(*(10**ends if log else ends))
    axes.xaxis.set_minor_locator(NullLocator())
    if len(values) <= MANY_POINTS:
        texts = [shown.x_text(value) for value in values]
        axes.set_xticks(values, _thinned(places, texts, inches))
        return
    if log:
        subs = (1, 10) if span > 1.5 else (1, 2, 5)
        ticks = np.unique([s * 10.0**k for k in range(-12, 13) for s in subs])
        ticks = ticks[(ticks >= 0.999 * values[0]) & (ticks <= 1.001 * values[-1])]
        axes.set_xticks(ticks, _every(np.log10(ticks), span, inches, ticks))
        return
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: value_text(value)))


def value_axis(axes: Axes, which: str, limits: tuple[float, float], log: bool) -> None:
    """Scale and ticks of the axis of a measure (``which`` is ``"x"`` or ``"y"``)."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xlim if which == "x" else axes.set_ylim)(*limits)
    if not log:
        axis.set_major_locator(MaxNLocator(3 if which == "x" else 5))
        return
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    (axes.set_xlim if which == "x" else axes.set_ylim)(*limits)
    span = np.log10(limits[1] / limits[0])
    if span < 1.6:
        subs = (1.0, 2.0, 5.0) if span > 0.6 else tuple(np.arange(1, 10, 1.0))
        axis.set_major_locator(LogLocator(subs=subs))
    else:
        axis.set_major_locator(LogLocator(numticks=5))
    if span < 1.6 or (limits[0] > 5e-4 and limits[1] < 5e4):
        axis.set_major_formatter(FuncFormatter(lambda value, _: value_text(value)))
    axis.set_minor_formatter(NullFormatter())


def _scale(table: pd.DataFrame) -> float:
    return 100.0 if table["measure"].isin(PERCENT).any() else 1.0


def _line(
    axes: Axes, group: pd.DataFrame, scale: float, this: Look, key: str, crowded: bool, place: int
) -> None:
    """A line with its band; a lone point gets an error bar.

    A line of many points has few markers, which start elsewhere on each line (by its ``place``).
    """
    x, mean = group["x"].to_numpy(), scale * group["mean"].to_numpy()
    low, high = scale * group["low"].to_numpy(), scale * group["high"].to_numpy()
    every = max(1, len(x) // 8)
    start = (2 * place) % every
    (line,) = axes.plot(x, mean, **line_style(this, crowded), markevery=(start, every))
    line.set_gid(f"line:{key}")
    known = np.isfinite(low)
    # a log axis has no zero: a band that reaches it ends at the foot of the panel
    foot = 0.9 * axes.get_ylim()[0] if axes.get_yscale() == "log" else -np.inf
    if len(x) == 1:
        axes.vlines(x[known], low[known], high[known], color=this.colour, linewidth=0.9)
    elif known.any():
        band = axes.fill_between(
            x, np.maximum(low, foot), high, where=known, color=this.colour, linewidth=0
        )
        band.set_alpha(0.08 if crowded else 0.16)
        band.set_zorder(1)


def _level(axes: Axes, value: float, this: Look, key: str) -> None:
    """A reference: a level line with its marker near both ends."""
    (line,) = axes.plot(
        [0, 0.02, 0.98, 1],
        [value] * 4,
        transform=axes.get_yaxis_transform(),
        markevery=[1, 2],
        **(line_style(this, crowded=True) | {"zorder": 1.5}),
    )
    line.set_gid(f"reference:{key}")


def _mark(axes: Axes, x: float, y: float, this: Look, aside: tuple[float, float]) -> Line2D:
    """A published number, so many points aside (right, up) that it hides nothing."""
    from matplotlib.transforms import ScaledTranslation

    shift = ScaledTranslation(aside[0] / 72, aside[1] / 72, axes.get_figure().dpi_scale_trans)
    (line,) = axes.plot(
        [x], [y], zorder=4, transform=axes.transData + shift, **mark_style(this.colour, this.marker)
    )
    line.set_gid("published")
    return line


def mark_style(colour: str, marker: str) -> dict[str, object]:
    """How the published number of a method with this colour and marker is drawn."""
    mark = PUBLISHED.get(marker, "*")
    return {
        "linestyle": "none",
        "marker": mark,
        "markersize": {"*": 8.0}.get(mark, 6.0),
        "markerfacecolor": colour,
        "markeredgecolor": "white",
        "markeredgewidth": 0.6,
        "clip_on": False,
    }


def _every(places: np.ndarray, span: float, inches: float, values: np.ndarray) -> list[str]:
    """Labels of evenly spaced ticks: all, every other, or every third, as they fit."""
    texts = [value_text(value) for value in values]
    room = np.diff(places).min() / (1.16 * span) * inches if len(places) > 1 else inches
    wide = 0.066 * max(map(len, texts)) + 0.08
    step = int(np.ceil(wide / room))
    return [text if place % step == 0 else "" for place, text in enumerate(texts)]


def _thinned(places: np.ndarray, texts: list[str], inches: float) -> list[str]:
    """Labels with the ones left out that would run into their neighbour."""
    span = max(1.16 * (places[-1] - places[0]), 1e-12)
    kept, end = [], -np.inf
    for place, text in zip((places - places[0]) / span * inches, texts, strict=True):
        half = 0.034 * len(text)
        fits = place - half > end + 0.05
        kept.append(text if fits else "")
        end = place + half if fits else end
    return kept
