"""What is drawn within one panel."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from discreet_bench.figures.looks import PUBLISHED
from discreet_bench.figures.points import Shown, value_text
from discreet_bench.lines import Look
from discreet_bench.runs import SHARES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from matplotlib.transforms import Transform

__all__ = [
    "Limits",
    "asides",
    "dots",
    "is_crowded",
    "is_log",
    "line_style",
    "lines",
    "value_limits",
    "with_bands",
    "x_axis",
]

LEVEL = ("accuracy", "balanced_accuracy", "auc", "r2")
"""Measures that are never drawn on a log axis."""

WORST_R2 = -0.5
"""Below this a model is much worse than the mean of the target, no matter by how much."""

BOUNDED = ("accuracy", "balanced_accuracy", "auc")
"""Measures that end at 1, of which crowded panels show the upper part only."""

FEW_LINES = 12
BANDED = 6
"""So many lines have a band in a crowded panel, the best ones."""
MOST_ASIDE = 7.0  # points to either side by which the lines of a crowded panel are set apart
FEW_X = 6  # with more, lines that are set apart would be hard to follow
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
    crowded = is_crowded(looks)
    scale = _scale(table)
    aside = asides(shown, looks)
    for place, key in reversed(list(enumerate(looks))):  # the best are drawn last, above the others
        group = table[table["key"] == key].sort_values("x")
        if group.empty:
            continue
        if shown.keys.loc[key, "reference"]:
            _level(axes, scale * group["mean"].iloc[0], looks[key], str(key))
        else:
            banded = not crowded or key in with_bands(shown, looks)
            _line(axes, group, scale, looks[key], str(key), crowded, place, aside.get(key), banded)
    beside = {key: place for place, key in enumerate(marks["key"].unique())}
    apart = min(BESIDE, 4 * BESIDE / max(len(beside), 1))
    for mark in marks.itertuples():
        level = shown.keys.loc[mark.key, "reference"]
        right = 0.0 if level else apart * (beside[mark.key] - (len(beside) - 1) / 2)
        right = aside.get(mark.key, right)
        if min(scale * mark.value, _mean_at(table, mark.key, mark.x, scale)) >= axes.get_ylim()[0]:
            _mark(axes, mark.x, scale * mark.value, looks[mark.key], (right, 0.0))


def _mean_at(table: pd.DataFrame, key: str, x: float, scale: float) -> float:
    """A line's mean at x; of a reference, its only one."""
    own = table[table["key"] == key]
    return float(scale * own.loc[own["x"].isna() | (own["x"] == x), "mean"].iloc[0])


def is_crowded(looks: dict[str, Look]) -> bool:
    """Whether there are so many lines that not all can have a band and all of the height."""
    return len(looks) > FEW_LINES


def with_bands(shown: Shown, looks: dict[str, Look]) -> list[str]:
    """The lines of a crowded panel that have a band; ``looks`` has the best first."""
    return [key for key in looks if not shown.keys.loc[key, "reference"]][:BANDED]


def asides(shown: Shown, looks: dict[str, Look]) -> dict[str, float]:
    """By how many points each line of a crowded panel is moved sideways; empty if none is."""
    if not is_crowded(looks) or shown.points["x"].nunique() > FEW_X:
        return {}
    keys = [key for key in looks if not shown.keys.loc[key, "reference"]]
    # the best in the middle, the next to its right and left, and so on
    steps = [(place + 1) // 2 * (-1) ** (place + 1) for place in range(len(keys))]
    size = MOST_ASIDE / max(len(keys) // 2, 1)
    return {key: size * step for key, step in zip(keys, steps, strict=True)}


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


class Limits(NamedTuple):
    """Where the axis of a measure starts and ends, and what lies off it."""

    low: float
    high: float
    cut: bool  # whether values are left out that the axis has no place for
    below: frozenset[str]  # lines that go below the panel


def value_limits(
    table: pd.DataFrame, marks: pd.DataFrame, measure: str, log: bool, crowded: bool = False
) -> Limits:
    """The limits of the axis of a measure.

    Means and published numbers are all within; bands are, as far as they do not take more than a
    third of the panel, so that one wild line does not press the others flat. A crowded panel of a
    measure that ends at 1 starts at `_floor`.
    """
    scale = _scale(table)
    if table.empty:
        return Limits(0.0, 1.0, False, frozenset())
    inner = scale * np.concatenate([table["mean"], marks["value"].astype(float)])
    outer = scale * np.concatenate([table["low"], table["high"]])
    if log:
        inner, outer = np.log10(inner[inner > 0]), np.log10(outer[outer > 0])
    outer = outer[np.isfinite(outer)]
    cut = bool(log and (table["mean"] <= 0).any())
    below: frozenset[str] = frozenset()
    if measure == "r2" and inner.min() < WORST_R2:
        inner, outer, cut = inner.clip(WORST_R2), outer.clip(WORST_R2), True
    floor = scale * _floor(table) if crowded and measure in BOUNDED else -np.inf
    if floor > inner.min():
        below = frozenset(table.loc[scale * table["mean"] < floor, "key"])
        inner, outer = inner.clip(floor), outer.clip(floor)
    low, high = inner.min(), inner.max()
    room = max((high - low) / 3, 0.05 if log else 1e-3 * max(abs(high), abs(low), 1e-9))
    if len(outer):
        low, high = max(low - room, min(low, outer.min())), min(high + room, max(high, outer.max()))
    pad = max(0.06 * (high - low), 0.03 if log else 1e-3 * max(abs(high), 1e-9))
    low, high = low - pad, high + pad
    if below:
        low = floor - pad
        below = frozenset(table.loc[scale * table["mean"] < low, "key"])
    if measure in BOUNDED:
        high = min(high, scale)
    return Limits(10**low, 10**high, cut, below) if log else Limits(low, high, cut, below)


def _floor(table: pd.DataFrame) -> float:
    """Where a crowded panel starts: at what is no better than guessing, or at its worst quarter.

    That is the value that a quarter of the lines do not reach at the smallest x, or that of the
    commonest class if it is lower, but not by so much that the lines get less than half of the
    panel. If all means take at most half as much height again, it is the lowest of them.
    """
    means, best = table["mean"], table["mean"].max()
    first = table[table["x"] == table["x"].min()]
    floor = first["mean"].quantile(0.25) if len(first) else means.min()
    guess = table.loc[table["key"].str.startswith("majority|"), "mean"].min()
    if guess < floor and best - guess <= 2 * (best - floor):
        floor = guess
    return float(means.min() if best - means.min() <= 1.5 * (best - floor) else floor)


def x_axis(axes: Axes, shown: Shown, log: bool, inches: float, crowded: bool = False) -> None:
    """Ticks of the x axis: where runs are, in plain numbers, as many as there is room for."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

    values = np.sort(shown.points["x"].dropna().unique())
    if log:
        axes.set_xscale("log")
        places = np.log10(values)
    else:
        places = values
    span = places[-1] - places[0]
    edge = (0.13 if crowded else 0.08) * span
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
        axis.set_major_locator(MaxNLocator(3 if which == "x" else 5, steps=[1, 2, 2.5, 5, 10]))
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
    return 100.0 if table["measure"].isin(SHARES).any() else 1.0


def _line(
    axes: Axes,
    group: pd.DataFrame,
    scale: float,
    this: Look,
    key: str,
    crowded: bool,
    place: int,
    aside: float | None,
    banded: bool,
) -> None:
    """A line with its band; a lone point gets an error bar.

    A line of many points has few markers, which start elsewhere on each line (by its ``place``).
    """
    from matplotlib.transforms import Bbox, TransformedBbox

    x, mean = group["x"].to_numpy(), scale * group["mean"].to_numpy()
    low, high = scale * group["low"].to_numpy(), scale * group["high"].to_numpy()
    every = max(1, len(x) // 8)
    start = (2 * place) % every
    style = line_style(this, crowded)
    if crowded and key.startswith("auto|"):
        style |= {"linewidth": 1.7, "markersize": 4.4, "zorder": 3}  # the one that is asked about
    shift = _shift(axes, aside or 0.0)
    (line,) = axes.plot(x, mean, **style, markevery=(start, every), transform=shift)
    line.set_gid(f"line:{key}")
    # a marker near the upper edge is whole, a line that goes below ends at the lower one
    line.set_clip_box(TransformedBbox(Bbox([[-0.1, 0.0], [1.1, 1.1]]), axes.transAxes))
    known = np.isfinite(low) & banded
    # a log axis has no zero: a band that reaches it ends at the foot of the panel
    foot = 0.9 * axes.get_ylim()[0] if axes.get_yscale() == "log" else -np.inf
    if len(x) == 1:
        bars = axes.vlines(x[known], low[known], high[known], color=this.colour, linewidth=0.9)
        bars.set_transform(shift)
    elif known.any():
        band = axes.fill_between(
            x, np.maximum(low, foot), high, where=known, color=this.colour, linewidth=0
        )
        band.set_transform(shift)
        band.set_alpha(0.1 if crowded else 0.16)
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
    shift = _shift(axes, *aside)
    (line,) = axes.plot([x], [y], zorder=4, transform=shift, **mark_style(this.colour, this.marker))
    line.set_gid("published")
    return line


def _shift(axes: Axes, right: float, up: float = 0.0) -> Transform:
    """Data to picture, and so many points aside."""
    from matplotlib.transforms import ScaledTranslation

    moved = ScaledTranslation(right / 72, up / 72, axes.get_figure().dpi_scale_trans)
    return axes.transData + moved


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
