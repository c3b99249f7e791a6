"""What a figure says in words: names of axes, caption, and a description for who cannot see it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import pandas as pd

from discreet_bench.experiment import Experiment
from discreet_bench.figures.points import Shown
from discreet_bench.lines import honest, title_of
from discreet_bench.runs import MEASURES, RELATIONS, SHARES

__all__ = ["caption", "description", "heading", "measure_name", "size_text", "subtitle", "x_name"]

NAMES = {
    "accuracy": "Accuracy (%)",
    "balanced_accuracy": "Balanced accuracy (%)",
    "auc": "AUC",
    "log_loss": "Log loss",
    "r2": "R²",
    "objective": "Objective value",
    "excess_objective": "Excess objective",
    "gradient_norm": "Gradient norm",
    "noisy_gradient_norm": "Noisy gradient norm",
    "seconds": "Seconds",
    "peak_mb": "Memory (MiB)",
    "epsilon": "ε",
    "epsilon_spent": "ε spent",
    "at": "Updates",
    "n": "Training rows",
    "d": "Columns",
}

LOSSES = {
    "logistic": "logistic loss",
    "hinge": "hinge loss",
    "huber-hinge": "Huber hinge loss",
    "huber": "Huber loss",
    "squared": "squared loss",
}


def measure_name(measure: str) -> str:
    """The name of a measure on an axis."""
    return NAMES.get(measure, measure.replace("_", " ").capitalize())


def x_name(x: str) -> str:
    """The name of the x axis."""
    return NAMES.get(x, x.replace("_", " ").capitalize())


def size_text(size: tuple[int, int]) -> str:
    """A data set's n × d, or nothing where that is not known."""
    return f"{size[0]:,} × {size[1]:,}" if all(size) else ""


def heading(shown: Shown, data: str, x: str, letters: int) -> str:
    """The title of a column: a data set with its n × d, and its x where it has one only."""
    size = shown.data[data]
    lines = [textwrap.fill(data, letters), size_text(size)]
    if shown.one_x and shown.x_of(data):
        lines.append(f"{x_name(x)} = {shown.x_of(data)}")
    return "\n".join(lines)


def problem(shown: Shown) -> str:
    """Which problem a figure is about."""
    loss = LOSSES.get(shown.loss, shown.loss)
    relation = RELATIONS.get(shown.relation, shown.relation)
    return f"{loss}; neighbours: {relation}" if relation else loss


def subtitle(shown: Shown) -> str:
    """Which problem a figure is about, and what the numbers in its headings are."""
    sizes = any(all(size) for size in shown.data.values())
    told = [shown.part, problem(shown), "n × d below each name" if sizes else ""]
    return "; ".join(filter(None, told))


def caption(
    shown: Shown,
    *,
    cut: bool = False,
    below: int = 0,
    banded: Sequence[str] = (),
    aside: bool = False,
) -> str:
    """What a reader must know of points, bands and marks.

    Parameters
    ----------
    shown
        What the figure shows.
    cut
        Whether values are left out because an axis has no place for them.
    below
        Number of lines that go below a panel.
    banded
        Titles of the lines that have a band, if not all have.
    aside
        Whether lines are moved sideways.
    """
    few, many = shown.repeats
    band = "bars" if shown.one_x else "bands"
    words = []
    if many <= 1:
        words.append("One run each.")
    else:
        number = f"{many}" if few == many else f"{few} to {many}"
        kind = "± one standard deviation"
        if shown.spread == "interval":
            kind = "95\u00a0% confidence interval of the mean (Student\u00a0t)"
        which = f", of {_listed(banded)} only" if banded else ""
        words.append(f"Means of {number} repeats; {band}: {kind}{which}.")
    if not all(honest(line) for line in shown.keys["line"]):
        words.append("Hollow markers: not private from end to end.")
    if shown.keys["reference"].any() and not shown.one_x:
        words.append("Level lines: the same for every value on the x axis.")
    if below:
        lines = "1 line goes" if below == 1 else f"{below} lines go"
        words.append(f"{lines} below a panel and {'is' if below == 1 else 'are'} cut there.")
    if aside:
        words.append("Lines are set a little apart sideways.")
    if cut:
        words.append("Values that an axis cannot show are left out.")
    failed, runs = shown.failed
    if failed:
        words.append(f"{failed:,} of {runs:,} runs gave no result.")
    return " ".join(words)


def _listed(titles: Sequence[str]) -> str:
    """Titles by name if these are short, else by their place; the legend has the same order."""
    names = ", ".join(titles)
    if len(names) <= 80 and not any("," in title for title in titles):
        return names
    return f"the first {len(titles)} lines of the legend"


def description(shown: Shown, experiment: Experiment, said: str) -> str:
    """A figure in words: its axes, who is best at the smallest and largest x, and its caption."""
    panels = experiment.panels
    measures = ", then ".join(measure_name(measure) for measure in shown.measures)
    sets = "; ".join(
        f"{data} ({size_text(size)})" if size_text(size) else data
        for data, size in shown.data.items()
    )
    axis = x_name(panels.x)
    scale = " on a log scale" if panels.log_x and not shown.labels else ""
    if shown.one_x:
        layout = f"One dot for each of {len(shown.keys)} methods"
    else:
        layout = f"{len(shown.keys)} lines against {axis}{scale}"
    about = "; ".join(filter(None, (shown.part, problem(shown))))
    parts = [
        f"{experiment.title} ({about}). {layout}. Rows of panels: {measures}. Columns: {sets}."
    ]
    for measure in shown.measures:
        for data in shown.data:
            sentence = _best_in_words(shown, measure, data, axis)
            if sentence:
                parts.append(sentence)
    parts.append(said)
    if len(shown.published):
        parts.append("Stars and crosses are the published numbers.")
    return "\n".join(parts)


def _best_in_words(shown: Shown, measure: str, data: str, axis: str) -> str:
    table = shown.points
    table = table[(table["measure"] == measure) & (table["data"] == data)]
    table = table[table["x"].notna()]
    if table.empty:
        return ""
    ends = sorted({table["x"].min(), table["x"].max()})
    said = [
        f"at {axis} = {shown.x_text(x)} the best is {_best(at, measure, shown)}"
        for x, at in ((x, table[table["x"] == x]) for x in ends)
    ]
    return f"{data}, {measure_name(measure)}: {'; '.join(said)}."


def _best(table: pd.DataFrame, measure: str, shown: Shown) -> str:
    """The best line of some points, and the best private one if that is another."""
    ordered = table.sort_values("mean", ascending=not MEASURES.get(measure, False))
    lines = ordered["key"].map(shown.keys["line"])
    private = ordered[lines.map(honest)]
    text = _line_text(ordered.iloc[0], measure, shown)
    if private.empty or private.index[0] == ordered.index[0]:
        return text
    return f"{text}, of the private ones {_line_text(private.iloc[0], measure, shown)}"


def _line_text(point: pd.Series, measure: str, shown: Shown) -> str:
    line, extra = shown.keys.loc[point["key"], ["line", "extra"]]
    title = f"{title_of(line)}, {extra}" if extra else title_of(line)
    value = f"{100 * point['mean']:.1f}" if measure in SHARES else f"{point['mean']:.3g}"
    return f"{title} ({value})"
