"""Static figures of an experiment: one panel per data set and measure, one line per method."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from discreet.files import replacing
from discreet_bench.experiment import Experiment
from discreet_bench.lines import Style, honest, kind_of, named, title_of
from discreet_bench.points import FEW_REPEATS, Shown, shown, styles
from discreet_bench.runs import MEASURES, RELATIONS, SHARES, number_text, title_of_column

__all__ = ["Limits", "axis_limits", "draw", "figures", "is_log"]

FORMATS = ("svg", "png", "pdf")
MOST_LINES = 14
"""Figures with more lines are split in two."""

CROWDED, BANDED = 12, 6
"""With more lines than the first number, only the best have a band, this many."""

COMPARED = ("auto||private|default", "nonprivate||not private|default")
"""Lines that the figure of the variants has besides them."""

BOUNDED = ("accuracy", "balanced_accuracy", "auc")
"""Measures that end at 1, of which crowded panels show the upper part only."""

WORST_R2 = -0.5
"""Lowest R² that is shown: below it a model is much worse than the mean of the target."""

LOSSES = {
    "logistic": "logistic loss",
    "hinge": "hinge loss",
    "huber-hinge": "Huber hinge loss",
    "huber": "Huber loss",
    "squared": "squared loss",
}
STYLE = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Arial", "Helvetica", "sans-serif"],
    "font.size": 8.0,
    "axes.labelsize": 8.5,
    "axes.titlesize": 8.5,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.1,
    "lines.markersize": 4.0,
    "lines.markeredgewidth": 0.9,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}
WIDTH, NARROW, TALLEST, TEXT_LINE = 7.0, 4.6, 10.4, 0.145
"""Inches: a page, a figure of one panel, the height of a page, and a line of text."""

MARKS = {"o": "*", "s": "X", "^": "P", "v": "d"}
"""Marker of a published number, by its method's marker; a star for any other."""


def draw(
    runs: pd.DataFrame,
    experiment: Experiment,
    folder: Path | str,
    *,
    formats: Sequence[str] = ("svg", "png"),
) -> list[Path]:
    """Draw an experiment's runs, with a text description next to each figure.

    Runs of several losses or relations make a figure each, named
    ``<experiment>-<loss>-<relation>``; otherwise there is one, named ``<experiment>``. A figure of
    more than 14 lines is split in two: ``<name>`` has the private methods in their default form and
    the baselines, ``<name>-variants`` has published constants, released code, tuned lines and other
    libraries, with discreet's default and the model without privacy for comparison. A figure
    without any value is not written.

    Parameters
    ----------
    runs : DataFrame
        Runs (see `discreet_bench.runs`); those of other experiments are ignored.
    experiment : Experiment
        Its ``panels`` say what is drawn.
    folder : path
        Folder for the files, made if it is missing.
    formats : sequence of {"svg", "png", "pdf"}
        Formats of the pictures.

    Returns
    -------
    list of Path
        The files: per figure its pictures in the order of ``formats``, then its description
        ``<name>.txt``.
    """
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise ValueError(f"No figures as {unknown[0]!r}: formats are {', '.join(FORMATS)}.")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, points, figure in figures(runs, experiment):
        text = _description(points, experiment, figure)
        for suffix in formats:
            path = folder / f"{name}.{suffix}"
            _save(figure, path, experiment.title, text)
            written.append(path)
        with replacing(folder / f"{name}.txt") as stream:
            stream.write(text + "\n")
        written.append(folder / f"{name}.txt")
    return written


def figures(runs: pd.DataFrame, experiment: Experiment) -> Iterator[tuple[str, Shown, Figure]]:
    """Yield each figure of an experiment with its name and its points."""
    runs = runs[runs["experiment"] == experiment.name]
    groups = runs.groupby(["loss", "relation"], sort=True)
    for (loss, relation), group in groups:
        name = experiment.name if len(groups) == 1 else f"{experiment.name}-{loss}-{relation}"
        for ending, points in _parts(group, experiment):
            if points.measures:
                with matplotlib.rc_context(STYLE):
                    yield name + ending, points, _figure(points, experiment)


def _parts(runs: pd.DataFrame, experiment: Experiment) -> Iterator[tuple[str, Shown]]:
    """Yield the figures of one loss and relation, with the endings of their names."""
    everything = shown(runs, experiment)
    lines = set(everything.keys["line"])
    default = {line for line in lines if kind_of(line) == "private"}
    baselines = {line for line in lines if kind_of(line) == "baseline"}
    variants = lines - default - baselines
    if len(everything.keys) <= MOST_LINES or not default or not variants:
        yield "", everything
        return
    of = named(runs)["line"]
    for ending, part, chosen, needed in (
        ("", "private methods in their default form", default | baselines, default),
        ("-variants", "variants of the methods, and other libraries", variants | {*COMPARED},
         variants),
    ):  # fmt: skip
        data = set(runs.loc[of.isin(needed), "data"])  # no panel of baselines alone
        kept = runs[of.isin(chosen) & runs["data"].isin(data)]
        yield ending, replace(shown(kept, experiment), part=part)


def _save(figure: Figure, path: Path, title: str, text: str) -> None:
    """Write a picture; the same runs give the same file."""
    metadata: dict[str, dict[str, str | None]] = {
        "svg": {"Title": title, "Description": text, "Date": None},
        "png": {"Title": title, "Description": text},
        "pdf": {"Title": title, "Subject": text, "CreationDate": None},
    }
    partial = path.with_name(f".{path.stem}.part{path.suffix}")
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": path.stem}):
        figure.savefig(partial, dpi=200, metadata=metadata[path.suffix[1:]])
    partial.replace(path)


def _figure(points: Shown, experiment: Experiment) -> Figure:
    """Draw data sets side by side, measures below one another, the legend below all."""
    look = _sorted(styles(points.keys), points)
    crowded = len(look) > CROWDED and not points.one_x
    columns = min(len(points.data), 3 if crowded or points.one_x else 4)
    columns = -(-len(points.data) // -(-len(points.data) // columns))  # rows of equal length
    blocks = -(-len(points.data) // columns)
    width = WIDTH if columns > 1 or points.one_x else NARROW
    figure = Figure(layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(
        blocks * len(points.measures), columns, squeeze=False, sharey="row" if points.one_x else 0
    )
    limits = []
    for place, data in enumerate(points.data):
        block, column = divmod(place, columns)
        for index, measure in enumerate(points.measures):
            panel = axes[block * len(points.measures) + index, column]
            panel.set_label(f"{measure}: {data}")
            if index == 0:
                panel.set_title(_heading(points, data, experiment.panels.x, columns))
            limits.append(_panel(panel, points, experiment, look, data, measure, crowded))
            if not points.one_x and index < len(points.measures) - 1:
                panel.tick_params(labelbottom=False)
                panel.set_xlabel("")
            if not points.one_x and column == 0:
                panel.set_ylabel(title_of_column(measure))
    for panel in axes.ravel():
        if not panel.get_label():  # no data set is left for it
            panel.remove()
    letters = int(width * 16)
    caption = textwrap.fill(_caption(points, limits, look, crowded), letters)
    title = textwrap.fill(experiment.title, int(letters * 0.85))
    subtitle = textwrap.fill(_subtitle(points), int(letters * 0.85))
    figure.suptitle(f"{title}\n{subtitle}", x=0.01, ha="left", fontsize=8.5)
    legend_rows = _legend(figure, {} if points.one_x else look, points, width, caption)
    row = 0.17 * len(look) + 0.25 if points.one_x else 2.6 if crowded else 1.9
    text = title.count("\n") + subtitle.count("\n") + caption.count("\n") + legend_rows + 4
    height = blocks * len(points.measures) * row + blocks * 0.7 + text * TEXT_LINE
    figure.set_size_inches(width, height if points.one_x else min(height, TALLEST))
    return figure


def _panel(
    panel: Axes,
    points: Shown,
    experiment: Experiment,
    look: Mapping[str, Style],
    data: str,
    measure: str,
    crowded: bool,
) -> Limits:
    table, marks = points.points, points.published
    table = table[(table["data"] == data) & (table["measure"] == measure)]
    marks = marks[(marks["data"] == data) & (marks["measure"] == measure)]
    scale = 100.0 if measure in SHARES else 1.0
    log = is_log(measure, table["mean"], experiment.panels.log_y)
    limits = axis_limits(table, marks, measure, log, crowded)
    if not points.one_x:
        _x_axis(panel, points, experiment.panels.log_x and not points.labels)
        panel.set_xlabel(title_of_column(experiment.panels.x))
    if table.empty:
        panel.text(0.5, 0.5, "no result", transform=panel.transAxes, ha="center", color="#666666")
        return limits
    if points.one_x:
        _dots(panel, table, marks, points, look, scale)
        panel.set_xlabel(title_of_column(measure))
        _value_axis(panel.xaxis, limits, log, 3)
        panel.set_xlim(limits.low, limits.high)
    else:
        _value_axis(panel.yaxis, limits, log, 5)
        panel.set_ylim(limits.low, limits.high)
        _lines(panel, table, marks, points, look, scale, crowded)
    return limits


def _lines(
    panel: Axes,
    table: pd.DataFrame,
    marks: pd.DataFrame,
    points: Shown,
    look: Mapping[str, Style],
    scale: float,
    crowded: bool,
) -> None:
    """Draw a line per key with its band or its runs, references as level lines, and marks."""
    banded = _banded(points, look) if crowded else list(look)
    for key, this in reversed(look.items()):  # the best are drawn last, above the others
        group = table[table["key"] == key].sort_values("x")
        if group.empty:
            continue
        if points.keys.loc[key, "reference"]:
            level = scale * group["mean"].iloc[0]
            panel.axhline(level, gid=f"reference:{key}", zorder=1.5, **_line_style(this, False))
            continue
        x, mean = group["x"].to_numpy(), scale * group["mean"].to_numpy()
        every = (0, max(1, len(x) // 8))
        wide = {"linewidth": 1.8} if crowded and key.startswith("auto|") else {}
        panel.plot(x, mean, gid=f"line:{key}", markevery=every, **(_line_style(this) | wide))
        low, high = (scale * group[side].to_numpy() for side in ("low", "high"))
        known = np.isfinite(low) & (key in banded)
        if panel.get_yscale() == "log":  # a band that reaches zero ends below the panel
            low = np.maximum(low, 0.9 * panel.get_ylim()[0])
        if known.sum() > 1:
            band = panel.fill_between(x, low, high, where=known, color=this.colour, linewidth=0)
            band.set_alpha(0.1 if crowded else 0.16)
        elif known.any():
            panel.vlines(x[known], low[known], high[known], color=this.colour, linewidth=0.9)
        _single_runs(panel, group[group["count"].between(2, FEW_REPEATS - 1)], scale, this)
    for mark in marks.itertuples():
        panel.plot([mark.x], [scale * mark.value], gid="published", **_mark_style(look[mark.key]))


def _single_runs(
    panel: Axes, group: pd.DataFrame, scale: float, this: Style, place: float | None = None
) -> None:
    """Draw every run of points with few repeats."""
    for row in group.itertuples():
        values = scale * np.array(row.values)
        where = np.full(len(values), row.x if place is None else place)
        x, y = (where, values) if place is None else (values, where)
        panel.scatter(x, y, s=6, color=this.colour, alpha=0.45, linewidth=0, gid="runs")


def _dots(
    panel: Axes,
    table: pd.DataFrame,
    marks: pd.DataFrame,
    points: Shown,
    look: Mapping[str, Style],
    scale: float,
) -> None:
    """Draw a dot per key with its interval or its runs, for data with one x only."""
    places = {key: place for place, key in enumerate(look)}
    titles = [textwrap.shorten(this.title, 60, placeholder=" …") for this in look.values()]
    panel.set_yticks(list(places.values()), titles)
    panel.set_ylim(len(look) - 0.5, -0.5)
    panel.tick_params(axis="y", length=0)
    panel.spines["left"].set_visible(False)
    for key, this in look.items():
        group = table[table["key"] == key]
        if group.empty:
            continue
        mean, low, high = (scale * group[side].iloc[0] for side in ("mean", "low", "high"))
        panel.plot([mean], [places[key]], gid=f"line:{key}", zorder=3,
                   **(_line_style(this) | {"linestyle": "none"}))  # fmt: skip
        if np.isfinite(low):
            panel.hlines(places[key], low, high, color=this.colour, linewidth=1.1)
        few = group[group["count"].between(2, FEW_REPEATS - 1)]
        _single_runs(panel, few, scale, this, places[key])
        if points.keys.loc[key, "reference"]:
            panel.axvline(mean, color=this.colour, linewidth=0.7, linestyle=this.dash, zorder=1)
    for mark in marks.itertuples():
        panel.plot([scale * mark.value], [places[mark.key]], gid="published",
                   **_mark_style(look[mark.key]))  # fmt: skip


def _line_style(this: Style, marker: bool = True) -> dict[str, Any]:
    return {
        "color": this.colour,
        "linestyle": this.dash,
        "marker": this.marker if marker else None,
        "markerfacecolor": this.colour if this.filled else "white",
        "markeredgecolor": this.colour,
    }


def _mark_style(this: Style) -> dict[str, Any]:
    mark = MARKS.get(this.marker, "*")
    return {
        "linestyle": "none",
        "marker": mark,
        "markersize": 8.0 if mark == "*" else 6.0,
        "markerfacecolor": this.colour,
        "markeredgecolor": "white",
        "markeredgewidth": 0.6,
        "zorder": 4,
    }


def _banded(points: Shown, look: Mapping[str, Style]) -> list[str]:
    """Return the lines of a crowded figure that have a band; ``look`` has the best first."""
    return [key for key in look if not points.keys.loc[key, "reference"]][:BANDED]


def is_log(measure: str, values: pd.Series, log_y: bool) -> bool:
    """Tell whether a measure gets a log axis: asked for, or because of a few large values."""
    if measure in (*BOUNDED, "r2") or not (values > 0).any():
        return False
    if log_y or measure == "excess_objective":
        return True
    return bool(values.min() > 0 and values.max() > 15 * values.median())


class Limits(NamedTuple):
    """Ends of the axis of a measure, and what lies outside."""

    low: float
    high: float
    cut: bool  # whether values are left out that the axis cannot show
    below: frozenset[str]  # lines that go below the panel


def axis_limits(
    table: pd.DataFrame, marks: pd.DataFrame, measure: str, log: bool, crowded: bool
) -> Limits:
    """Return limits with all means and published numbers, and as much of the bands as fits.

    Bands take at most a third of the panel, so that one wide band does not flatten all lines.
    """
    if table.empty:
        return Limits(0.0, 1.0, False, frozenset())
    scale = 100.0 if measure in SHARES else 1.0
    inner = scale * np.concatenate([table["mean"], marks["value"].astype(float)])
    outer = scale * np.concatenate([table["low"], table["high"], *table["values"]])
    outer = outer[np.isfinite(outer)]
    if log:
        inner, outer = np.log10(inner[inner > 0]), np.log10(outer[outer > 0])
    cut = bool(log and (table["mean"] <= 0).any())
    floor = -np.inf
    if measure == "r2" and inner.min() < WORST_R2:
        floor, cut = WORST_R2, True
    elif crowded and measure in BOUNDED:
        floor = scale * _floor(table)
    inner, outer = inner.clip(floor), outer.clip(floor)
    low, high = inner.min(), inner.max()
    room = max((high - low) / 3, 0.05 if log else 1e-3 * max(abs(high), abs(low), 1e-9))
    if len(outer):
        low, high = max(low - room, min(low, outer.min())), min(high + room, max(high, outer.max()))
    pad = max(0.06 * (high - low), 0.03 if log else 1e-3 * max(abs(high), 1e-9))
    low, high = max(low, floor) - pad, high + pad
    below = frozenset(table.loc[scale * table["mean"] < low, "key"]) if floor > -np.inf else ()
    if measure in BOUNDED:
        high = min(high, scale)
    return Limits(*((10**low, 10**high) if log else (low, high)), cut, frozenset(below))


def _floor(table: pd.DataFrame) -> float:
    """Return the lowest value of a crowded panel: that of guessing, or of the worst quarter.

    It is the value that a quarter of the lines do not reach at the smallest x, or that of the most
    frequent class if it is lower, but not so low that the lines get less than half of the panel.
    If all means need at most half as much height again, it is the lowest of them.
    """
    means, best = table["mean"], table["mean"].max()
    first = table[table["x"] == table["x"].min()]
    floor = first["mean"].quantile(0.25) if len(first) else means.min()
    guess = table.loc[table["key"].str.startswith("majority|"), "mean"].min()
    if guess < floor and best - guess <= 2 * (best - floor):
        floor = guess
    return float(means.min() if best - means.min() <= 1.5 * (best - floor) else floor)


def _x_axis(panel: Axes, points: Shown, log: bool) -> None:
    """Put ticks where runs are, if these are few enough."""
    values = np.sort(points.points["x"].dropna().unique())
    if log:
        panel.set_xscale("log")
        panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number_text(value)))
    if len(values) <= 8:
        texts = [points.x_text(value) for value in values]
        places = np.log10(values) if log else values
        near = 0.08 * (places[-1] - places[0])  # closer labels would overlap
        kept, last = [], -np.inf
        for place, text in zip(places, texts, strict=True):
            kept.append(text if place - last > near * (1 + len(text) / 6) else "")
            last = place if kept[-1] else last
        panel.set_xticks(values, kept)
        panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.margins(x=0.08)


def _value_axis(axis: Any, limits: Limits, log: bool, ticks: int) -> None:
    if not log:
        axis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 2.5, 5, 10]))
        return
    (axis.axes.set_xscale if axis.axis_name == "x" else axis.axes.set_yscale)("log")
    decades = np.log10(limits.high / limits.low)
    subs = (1.0,) if decades > 1.6 else (1.0, 2.0, 5.0) if decades > 0.6 else np.arange(1.0, 10.0)
    axis.set_major_locator(LogLocator(subs=subs, numticks=6 if decades > 1.6 else None))
    if decades <= 1.6 or (limits.low > 5e-4 and limits.high < 5e4):
        axis.set_major_formatter(FuncFormatter(lambda value, _: number_text(value)))
    axis.set_minor_formatter(NullFormatter())


def _sorted(look: dict[str, Style], points: Shown) -> dict[str, Style]:
    """Sort lines from best to worst, references last.

    Best is by the first measure: the mean rank among the lines of each panel and x, so that data
    sets on which a method was not run count neither for nor against it. Lines of one method that
    differ in a parameter stay together, in the parameter's order.
    """
    table = points.points[points.points["measure"] == points.measures[0]]
    more = MEASURES.get(points.measures[0], False)
    table = table.assign(x=table["x"].fillna(-1))  # references among themselves
    panel = table.groupby(["data", "x"])["mean"]
    rank = (panel.rank(ascending=not more) - 1) / panel.transform("size")
    keys = points.keys.assign(rank=rank.groupby(table["key"]).mean())
    keys["together"] = keys["rank"].fillna(1.0).groupby(keys["line"]).transform("mean")
    keys["own"] = range(len(keys))
    keys = keys.sort_values(["reference", "together", "line", "own"])
    return {str(key): look[str(key)] for key in keys.index}


def _legend(
    figure: Figure, look: Mapping[str, Style], points: Shown, width: float, caption: str
) -> int:
    """Add caption and legend below the panels; return the legend's number of rows."""
    handles: list[Any] = [Line2D([], [], **_line_style(this)) for this in look.values()]
    titles = [this.title for this in look.values()]
    if len(points.published):
        every = styles(points.keys)
        used = {MARKS.get(every[key].marker, "*"): every[key] for key in points.published["key"]}
        grey = [replace(this, colour="#444444") for this in used.values()]
        handles.append(tuple(Line2D([], [], **_mark_style(this)) for this in grey))
        titles.append("published, in the method's colour")
    longest = max(map(len, titles), default=0)
    columns = max(1, min(4, len(titles), int(width * 16 / (longest + 8))))
    figure.legend(
        handles,
        titles,
        ncols=columns,
        loc="outside lower left",
        title=caption,
        alignment="left",
        title_fontproperties={"size": 8},
        frameon=False,
        handlelength=2.8,
        columnspacing=1.4,
        labelspacing=0.35,
        handler_map={tuple: HandlerTuple(ndivide=None, pad=0.2)},
    )
    return -(-len(titles) // columns)


# -- text


def _size(size: tuple[int, int]) -> str:
    return f"{size[0]:,} × {size[1]:,}" if all(size) else ""


def _heading(points: Shown, data: str, x: str, columns: int) -> str:
    lines = [textwrap.fill(data, 100 // (columns + 1)), _size(points.data[data])]
    if points.one_x and points.x_of(data):
        lines.append(f"{title_of_column(x)} = {points.x_of(data)}")
    return "\n".join(filter(None, lines))


def _problem(points: Shown) -> str:
    loss = LOSSES.get(points.loss, points.loss)
    relation = RELATIONS.get(points.relation, points.relation)
    return f"{loss}; neighbours: {relation}" if relation else loss


def _subtitle(points: Shown) -> str:
    sizes = "rows × columns below each name" if any(map(_size, points.data.values())) else ""
    return "; ".join(filter(None, [points.part, _problem(points), sizes]))


def _caption(
    points: Shown, limits: Sequence[Limits], look: Mapping[str, Style], crowded: bool
) -> str:
    """Explain points, bands and marks."""
    few, many = points.repeats
    number = f"{many}" if few == many else f"{few} to {many}"
    kind = "± one standard deviation"
    if points.spread == "interval":
        kind = "95 % confidence interval of the mean (Student t)"
    bands = f"; {'bars' if points.one_x else 'bands'}: {kind}" if many >= FEW_REPEATS else ""
    if bands and crowded:
        bands += f", of the first {len(_banded(points, look))} lines of the legend only"
    found = ["One run each." if many <= 1 else f"Means of {number} repeats{bands}."]
    if few < FEW_REPEATS and many > 1:
        found.append(f"Small dots: single runs, where there are fewer than {FEW_REPEATS}.")
    if not all(honest(line) for line in points.keys["line"]):
        found.append("Hollow markers: not private from end to end.")
    if points.keys["reference"].any() and not points.one_x:
        found.append("Level lines: the same for every value on the x axis.")
    below = len(frozenset().union(*(one.below for one in limits)))
    if below:
        lines = "1 line goes" if below == 1 else f"{below} lines go"
        found.append(f"{lines} below a panel and {'is' if below == 1 else 'are'} cut there.")
    if any(one.cut for one in limits):
        found.append("Values that an axis cannot show are left out.")
    failed, runs = points.failed
    if failed:
        found.append(f"{failed:,} of {runs:,} runs gave no result.")
    return " ".join(found)


def _description(points: Shown, experiment: Experiment, figure: Figure) -> str:
    """Describe a figure as text: axes, the best at the smallest and largest x, and the caption."""
    axis = title_of_column(experiment.panels.x)
    measures = ", then ".join(map(title_of_column, points.measures))
    sizes = ((data, _size(size)) for data, size in points.data.items())
    sets = "; ".join(f"{data} ({size})" if size else data for data, size in sizes)
    layout = f"One dot for each of {len(points.keys)} methods"
    if not points.one_x:
        log = " on a log scale" if experiment.panels.log_x and not points.labels else ""
        count = "1 line" if len(points.keys) == 1 else f"{len(points.keys)} lines"
        layout = f"{count} against {axis}{log}"
    about = "; ".join(filter(None, (points.part, _problem(points))))
    parts = [
        f"{experiment.title} ({about}). {layout}. Rows of panels: {measures}. Columns: {sets}."
    ]
    for measure in points.measures:
        for data in points.data:
            table = points.points
            table = table[(table["measure"] == measure) & (table["data"] == data)]
            table = table[table["x"].notna()]
            best = [
                f"at {axis} = {points.x_text(x)} the best is "
                f"{_best(table[table['x'] == x], measure, points)}"
                for x in sorted({table["x"].min(), table["x"].max()})
                if len(table)
            ]
            if best:
                parts.append(f"{data}, {title_of_column(measure)}: {'; '.join(best)}.")
    parts.append(" ".join(figure.legends[0].get_title().get_text().split("\n")))
    if len(points.published):
        parts.append("Stars and crosses are published numbers.")
    return "\n".join(parts)


def _best(table: pd.DataFrame, measure: str, points: Shown) -> str:
    """Name the best line of some points, and the best private one if that is another."""
    ordered = table.sort_values("mean", ascending=not MEASURES.get(measure, False))
    private = ordered[ordered["key"].map(points.keys["line"]).map(honest)]

    def text(point: pd.Series) -> str:
        line, extra = points.keys.loc[point["key"], ["line", "extra"]]
        title = f"{title_of(line)}, {extra}" if extra else title_of(line)
        value = f"{100 * point['mean']:.1f}" if measure in SHARES else f"{point['mean']:.3g}"
        return f"{title} ({value})"

    first = text(ordered.iloc[0])
    if private.empty or private.index[0] == ordered.index[0]:
        return first
    return f"{first}, of the private ones {text(private.iloc[0])}"
