"""Where the parts of a figure stand, in inches, so that text has the same size in all of them."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pandas as pd

from discreet_bench.experiment import Experiment
from discreet_bench.figures import panels, words
from discreet_bench.figures.looks import PUBLISHED, looks
from discreet_bench.figures.points import Shown
from discreet_bench.lines import Look
from discreet_bench.runs import MEASURES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

__all__ = ["STYLE", "figure"]

STYLE = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Arial", "Helvetica", "sans-serif"],
    "font.size": 8.0,
    "axes.labelsize": 8.5,
    "axes.titlesize": 8.5,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "legend.fontsize": 8.0,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.minor.size": 1.5,
    "ytick.minor.size": 1.5,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}

WIDTH = 7.0  # what A4 has between its margins
NARROW = 4.6  # for one data set
TALLEST = 10.4
LEFT, RIGHT, TOP, BELOW = 0.62, 0.1, 0.46, 0.42
GAP, DOT_GAP, ROW_GAP = 0.47, 0.2, 0.14
LETTER, TEXT_LINE = 0.0605, 0.145  # of 8 point text


def figure(shown: Shown, experiment: Experiment) -> Figure:
    """Draw a figure: data sets side by side, measures below one another, the legend below all."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        made = Figure(figsize=(WIDTH, WIDTH))
        FigureCanvasAgg(made)
        if shown.one_x:
            _dot_figure(made, shown, experiment)
        else:
            _line_figure(made, shown, experiment)
    return made


def _line_figure(made: Figure, shown: Shown, experiment: Experiment) -> None:
    look_of = _sorted(looks(shown.keys), shown)
    columns = _columns(len(shown.data), len(look_of))
    width = NARROW if columns == 1 else WIDTH
    panel = (width - LEFT - RIGHT - (columns - 1) * GAP) / columns
    made.set_size_inches(width, WIDTH)
    legend = _legend(made, look_of, shown, width)
    foot = _height(legend) + 0.1
    row = min(max(0.8 * panel, 1.35), 2.3)
    if panels.is_crowded(look_of):
        row = min(max(1.1 * panel, 1.8), 3.1)
    limits = _limits(shown, experiment, panels.is_crowded(look_of))
    caption = _caption(shown, limits, look_of, width)
    size = (width, columns, panel, row)
    _panels(made, shown, experiment, look_of, size, foot, limits, caption)
    _place_legend(made, legend, caption, width)


def _dot_figure(made: Figure, shown: Shown, experiment: Experiment) -> None:
    look_of = _sorted(looks(shown.keys), shown)
    names = [textwrap.fill(this.title, 31) for this in look_of.values()]
    left = 0.12 + LETTER * max(len(part) for name in names for part in name.split("\n"))
    columns = _columns(len(shown.data), 0, most=5 if left < 2.4 else 4)
    width = NARROW + 1 if columns == 1 else WIDTH
    panel = (width - left - RIGHT - (columns - 1) * DOT_GAP) / columns
    apart = 0.1 if len(shown.published) else 0.06  # room for a published mark below its dot
    heights = [apart + 0.115 * (1 + name.count("\n")) for name in names]
    row = sum(heights) + 0.06
    made.set_size_inches(width, WIDTH)
    legend = _legend(made, {}, shown, width) if len(shown.published) else None
    foot = (_height(legend) if legend else 0) + 0.1
    names_at = dict(zip(look_of, zip(names, heights, strict=True), strict=True))
    size = (width, columns, panel, row)
    limits = _limits(shown, experiment, crowded=False)
    caption = _caption(shown, limits, {}, width)
    args = (made, shown, experiment, look_of, size, foot, limits, caption)
    _panels(*args, names=names_at, left=left)
    _place_legend(made, legend, caption, width)


def _columns(data: int, lines: int, most: int = 4) -> int:
    """How many data sets stand side by side; crowded panels need more room."""
    most = min(most, 3) if lines > panels.FEW_LINES else most
    rows = -(-data // most)
    return -(-data // rows)


def _panels(
    made: Figure,
    shown: Shown,
    experiment: Experiment,
    look_of: dict[str, Look],
    size: tuple[float, int, float, float],
    foot: float,
    limits: dict[tuple[str, str], panels.Limits],
    caption_lines: list[str],
    *,
    names: dict[str, tuple[str, float]] | None = None,
    left: float = LEFT,
) -> None:
    """Draw all panels and fit the figure's height.

    With ``names`` (of methods, each with the height it needs), panels have dots; else lines.
    """
    width, columns, panel, row = size
    count, blocks = len(shown.measures), -(-len(shown.data) // columns)
    row_gap, gap = (BELOW + 0.02, DOT_GAP) if names else (ROW_GAP, GAP)
    letters = int((panel + 0.8 * gap) / LETTER)
    headings = {
        data: words.heading(shown, data, experiment.panels.x, letters) for data in shown.data
    }
    head = 0.1 + 0.14 * max(1 + text.count("\n") for text in headings.values())
    caption = TEXT_LINE * len(caption_lines) + 0.08
    title = textwrap.fill(experiment.title, int((width - 0.16) / (1.17 * LETTER)))
    top = TOP + 0.15 * title.count("\n")
    fixed = top + blocks * (head + BELOW + (count - 1) * row_gap) + foot + caption
    if not names:
        row = max(min(row, (TALLEST - fixed) / (blocks * count)), 1.0)
    height = fixed + blocks * count * row
    made.set_size_inches(width, height)
    made.text(0.08 / width, 1 - 0.07 / height, title, va="top", size=9, weight="bold")
    below = 1 - (top - 0.21) / height
    made.text(0.08 / width, below, words.subtitle(shown), va="top", color="#444444")
    for place, data in enumerate(shown.data):
        block, column = divmod(place, columns)
        start = top + block * (head + BELOW + count * row + (count - 1) * row_gap) + head
        for index, measure in enumerate(shown.measures):
            bottom = height - start - index * (row + row_gap) - row
            box = (left + column * (panel + gap), bottom, panel, row)
            axes = made.add_axes(
                (box[0] / width, box[1] / height, box[2] / width, box[3] / height),
                label=f"{measure}: {data}",
            )
            if index == 0:
                axes.set_title(headings[data], linespacing=1.15, pad=4)
            last = index == count - 1
            args = (axes, shown, experiment, look_of, data, measure, limits[data, measure])
            if names:
                _dot_panel(*args, names, first=column == 0)
            else:
                _line_panel(*args, panel, first=column == 0, last=last)


def _limits(
    shown: Shown, experiment: Experiment, crowded: bool
) -> dict[tuple[str, str], panels.Limits]:
    """The limits of the value axis of each data set and measure."""
    found = {}
    for data in shown.data:
        for measure in shown.measures:
            table, marks = _of(shown, data, measure)
            log = panels.is_log(measure, table["mean"], experiment.panels.log_y)
            found[data, measure] = panels.value_limits(table, marks, measure, log, crowded)
    return found


def _of(shown: Shown, data: str, measure: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    points, marks = shown.points, shown.published
    points = points[(points["data"] == data) & (points["measure"] == measure)]
    return points, marks[(marks["data"] == data) & (marks["measure"] == measure)]


def _line_panel(
    axes: Axes,
    shown: Shown,
    experiment: Experiment,
    look_of: dict[str, Look],
    data: str,
    measure: str,
    limits: panels.Limits,
    panel: float,
    *,
    first: bool,
    last: bool,
) -> None:
    table, marks = _of(shown, data, measure)
    log_x = experiment.panels.log_x and not shown.labels
    panels.x_axis(axes, shown, log_x, panel, crowded=bool(panels.asides(shown, look_of)))
    if last:
        axes.set_xlabel(words.x_name(experiment.panels.x), labelpad=2)
    else:
        axes.tick_params(labelbottom=False)
    if first:
        axes.set_ylabel(words.measure_name(measure))
        axes.yaxis.set_label_coords(-0.41 / panel, 0.5)
    if table.empty:
        _nothing(axes)
        return
    log = panels.is_log(measure, table["mean"], experiment.panels.log_y)
    panels.value_axis(axes, "y", limits[:2], log)
    panels.lines(axes, table, marks, shown, look_of)
    axes.set_ylim(*limits[:2])


def _dot_panel(
    axes: Axes,
    shown: Shown,
    experiment: Experiment,
    look_of: dict[str, Look],
    data: str,
    measure: str,
    limits: panels.Limits,
    names: dict[str, tuple[str, float]],
    *,
    first: bool,
) -> None:
    table, marks = _of(shown, data, measure)
    heights = [height for _, height in names.values()]
    middles = [sum(heights[:place]) + height / 2 for place, height in enumerate(heights)]
    texts = [name if first else "" for name, _ in names.values()]
    axes.set_yticks(middles, texts, linespacing=0.95)
    axes.set_ylim(sum(heights) + 0.03, -0.03)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(words.measure_name(measure), labelpad=2)
    if table.empty:
        _nothing(axes)
        return
    log = panels.is_log(measure, table["mean"], experiment.panels.log_y)
    panels.value_axis(axes, "x", limits[:2], log)
    panels.dots(axes, table, marks, shown, look_of, dict(zip(names, middles, strict=True)))
    axes.set_xlim(*limits[:2])


def _nothing(axes: Axes) -> None:
    axes.text(0.5, 0.5, "no result", transform=axes.transAxes, ha="center", color="#666666")
    axes.set_yticks([])


def _sorted(look_of: dict[str, Look], shown: Shown) -> dict[str, Look]:
    """The looks, best line first, references last.

    Best is by the first measure: the mean place among the lines of each panel and x, so that data
    sets on which a method was not run count neither for nor against it. Lines of one method that
    differ in a parameter stay together, in the parameter's order.
    """
    table = shown.points[shown.points["measure"] == shown.measures[0]]
    more = MEASURES.get(shown.measures[0], False)
    table = table.assign(x=table["x"].fillna(-1))  # references among themselves
    place = table.groupby(["data", "x"])["mean"].rank(ascending=not more, pct=True)
    mean = place.groupby(table["key"]).mean()
    keys = shown.keys.assign(place=mean.reindex(shown.keys.index).fillna(1.0))
    keys["together"] = keys.groupby("line")["place"].transform("mean")
    keys["own"] = range(len(keys))
    keys = keys.sort_values(["reference", "together", "line", "own"])
    return {str(key): look_of[str(key)] for key in keys.index}


def _legend(made: Figure, look_of: dict[str, Look], shown: Shown, width: float) -> Legend:
    """The legend in as many columns as there is room for."""
    from matplotlib.legend_handler import HandlerTuple
    from matplotlib.lines import Line2D

    handles: list[object] = [Line2D([], [], **panels.line_style(this)) for this in look_of.values()]
    titles = [this.title for this in look_of.values()]
    if len(shown.published):
        marks = _used_marks(shown)
        handles.append(
            tuple(Line2D([], [], **panels.mark_style("#444444", marker)) for marker in marks)
        )
        titles.append("published, in the method's colour")
    for columns in (4, 3, 2, 1):
        legend = made.legend(
            handles,
            titles,
            ncols=min(columns, len(titles)),
            loc="upper left",
            frameon=False,
            borderpad=0,
            handlelength=2.8,
            columnspacing=1.4,
            labelspacing=0.35,
            borderaxespad=0,
            handler_map={tuple: HandlerTuple(ndivide=None, pad=0.2)},
        )
        made.canvas.draw()
        wide = legend.get_window_extent().width / made.dpi
        if wide <= width - 0.16 or columns == 1:
            return legend
        legend.remove()
    raise AssertionError("a legend with one column is always kept")


def _used_marks(shown: Shown) -> list[str]:
    """Markers whose marks are in the figure, each mark once."""
    look_of = looks(shown.keys)
    markers = [look_of[key].marker for key in shown.published["key"].unique()]
    marks = {PUBLISHED.get(marker, "*"): marker for marker in sorted(markers, reverse=True)}
    return list(marks.values())


def _height(legend: Legend) -> float:
    made = legend.figure
    return float(legend.get_window_extent().height / made.dpi)


def _caption(
    shown: Shown,
    limits: dict[tuple[str, str], panels.Limits],
    look_of: dict[str, Look],
    width: float,
) -> list[str]:
    """The lines of the caption."""
    banded: list[str] = []
    if panels.is_crowded(look_of):
        banded = [look_of[key].title for key in panels.with_bands(shown, look_of)]
    text = words.caption(
        shown,
        cut=any(one.cut for one in limits.values()),
        below=len(frozenset().union(*(one.below for one in limits.values()))),
        banded=banded,
        aside=bool(panels.asides(shown, look_of)),
    )
    return textwrap.wrap(text, int((width - 0.16) / LETTER))


def _place_legend(made: Figure, legend: Legend | None, lines: list[str], width: float) -> None:
    """Put the legend above the caption at the foot of the figure."""
    height = made.get_figheight()
    made.text(
        0.08 / width, 0.06 / height, "\n".join(lines), va="bottom", color="#444444", linespacing=1.2
    )
    if legend is not None:
        top = 0.06 + TEXT_LINE * len(lines) + 0.08 + _height(legend)
        legend.set_bbox_to_anchor((0.08 / width, top / height), transform=made.transFigure)
