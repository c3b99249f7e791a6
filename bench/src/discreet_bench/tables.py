"""Tables of an experiment's results: a row per line, a column per data set and ε.

Tables of checkpoints are transposed: updates are rows and lines are columns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import numpy as np
import pandas as pd

from discreet_bench.experiment import Experiment
from discreet_bench.lines import METHODS, honest, parts, title_of
from discreet_bench.published import Published, entries
from discreet_bench.runs import (
    COLUMNS,
    COSTS,
    MEASURES,
    RELATIONS,
    SHARES,
    TITLES,
    VARIANTS,
    settings_of,
)
from discreet_bench.statistics import (
    CHECKPOINT,
    PROBLEM,
    best_settings,
    final,
    incomplete,
    method_of,
    ranked,
    summary,
    with_parameter,
)

__all__ = ["Block", "marks_of", "number", "short", "table", "write_all"]

_OF_CLASSES = ("accuracy", "balanced_accuracy", "auc", "log_loss")
_OF_ONE_MODEL = ("objective", "excess_objective", "gradient_norm", "noisy_gradient_norm")
_MOST_COLUMNS, _MOST_CHECKPOINTS, _LONGEST, _MOST_LISTED = 8, 11, 48, 3
_TUNED, _RELEASED, _PLAIN, _RIVAL = "†", "‡", "§", "¶"
_MEANING = {
    _TUNED: "Tuned with hindsight on the test rows: not private.",
    _PLAIN: "No privacy: a baseline.",
    _RIVAL: "Another library; its claim was not recomputed.",
}
_MARKS = {"as released": _RELEASED, "not private": _PLAIN, "rival": _RIVAL}
_SYMBOLS = str.maketrans({
    "ε": r"$\varepsilon$", "δ": r"$\delta$", "α": r"$\alpha$", "±": r"$\pm$", "×": r"$\times$",
    "²": "$^2$", "…": r"\dots{}", "†": r"\dag{}", "‡": r"\ddag{}", "§": r"\S{}", "¶": r"\P{}",
    "–": "--", "≤": r"$\leq$", "≥": r"$\geq$", "−": "$-$", "’": "'",
})  # fmt: skip


@dataclass(frozen=True)
class Block:
    """A table of one loss and relation.

    Attributes
    ----------
    caption
        Measure, loss, relation and, if there is only one, data set.
    cells
        A row per cell: ``row`` (title with marks), ``line``, ``data``, ``column`` (heading),
        ``mean``, ``sd``, ``low``, ``high``, ``repeats``, ``failed``, ``problem``, ``paper`` (the
        paper's number) and ``best`` (best of those that are private from end to end).
    notes
        Notes below the table.
    measure
        The measure.
    transposed
        Whether lines are columns.
    """

    caption: str
    cells: pd.DataFrame
    notes: tuple[str, ...]
    measure: str
    transposed: bool

    def frame(self, values: str = "text") -> pd.DataFrame:
        """Return the cells as a table, with (data, heading) as columns unless transposed."""
        cells = self.cells.assign(text=[_text(cell, self.measure) for cell in self._records()])
        wide = cells.pivot(index="row", columns=["data", "column"], values=values)
        rows, columns = (list(dict.fromkeys(cells[name])) for name in ("row", "place"))
        pairs = cells.drop_duplicates("place").set_index("place").loc[sorted(columns)]
        wide = wide.loc[rows, list(zip(pairs["data"], pairs["column"], strict=True))]
        if values == "text":
            wide = wide.fillna("")
        if self.cells["data"].nunique() == 1:
            wide.columns = wide.columns.droplevel("data")
        return wide.T if self.transposed else wide

    def markdown(self) -> str:
        """Return the table as Markdown: the best private value in bold, notes as a list below."""
        text = self.frame().map(_markdown)
        best = self._best()
        text = text.where(~best, "**" + text + "**").replace("****", "")
        text = text.replace(r"^\*\*(.*?)( \(.*\))\*\*$", r"**\1**\2", regex=True)
        if isinstance(text.columns, pd.MultiIndex):
            text.columns = [", ".join(pair) for pair in text.columns]
        text.index = text.index.map(_markdown)
        text.index.name = "" if self.transposed else "method"
        table = text.to_markdown(
            disable_numparse=True, colalign=("left", *["right"] * text.shape[1])
        )
        notes = [f"- {_markdown(note)}" for note in self.notes]
        return "\n".join([f"**{_markdown(self.caption)}**", "", table, "", *notes, ""])

    def latex(self) -> str:
        """Return the table as LaTeX, which needs the packages booktabs and multirow."""
        text, best = self.frame(), self._best()
        text.index.name = text.columns.name = None
        if isinstance(text.columns, pd.MultiIndex):
            text.columns.names = [None, None]
        styled = text.style.format(escape="latex").format_index(escape="latex", axis=0)
        styled = styled.format_index(escape="latex", axis=1)
        styled = styled.apply(lambda _: np.where(best, "textbf:--rwrap;", ""), axis=None)
        made = styled.to_latex(
            hrules=True,
            column_format="l" + "r" * text.shape[1],
            multicol_align="c",
            position_float="centering",
            caption=_escaped(self.caption),
        )
        notes = "".join(f"\n\\smallskip\\footnotesize {_escaped(note)}\n" for note in self.notes)
        made = made.replace("\\end{table}", f"{notes}\\end{{table}}").translate(_SYMBOLS)
        return made.encode("ascii", "replace").decode()

    def _best(self) -> pd.DataFrame:
        return self.frame("best").fillna(False).astype(bool)

    def _records(self) -> list[dict[str, object]]:
        return self.cells.to_dict("records")


def table(
    runs: pd.DataFrame, experiment: Experiment | str, *, measure: str = "accuracy"
) -> tuple[Block, ...]:
    """Return the results of an experiment by one measure.

    Parameters
    ----------
    runs : DataFrame
        Runs, of this experiment and others.
    experiment : Experiment or str
        The experiment or its name.
    measure : str
        A column of the runs.

    Returns
    -------
    tuple of Block
        A block per loss and relation, and more where there are many columns. Grids show their best
        setting: by this measure or, for time and memory, the one that the experiment's first
        measure chooses, so that they are those of the model whose quality is shown. Several
        settings of a line that is not a grid have a row each.

    Raises
    ------
    ValueError
        If there are no runs to show.
    """
    experiment = _experiment(experiment)
    shown = runs[runs["experiment"] == experiment.name]
    if shown.empty:
        known = ", ".join(sorted(runs["experiment"].unique())) or "none"
        raise ValueError(
            f"There are no runs of experiment {experiment.name!r}; there are runs of: {known}. "
            f"Run it first: discreet bench run {experiment.name}."
        )
    shown = shown[_applies(shown["classes"], measure)]
    if measure not in shown or (shown[measure].isna() & shown["problem"].eq("")).all():
        raise ValueError(
            f"No run of experiment {experiment.name!r} has {measure!r}; its panels show: "
            f"{', '.join(experiment.panels.measures)}."
        )
    x = experiment.panels.x
    shown = best_settings(shown, _chooser(experiment, measure))
    shown = with_parameter(shown if x == "at" else final(shown), x)
    shown = _everywhere(shown, x)
    shown = shown.assign(label=_labels(shown, experiment))
    keys = ["loss", "relation"] + ([] if x == "epsilon" else ["epsilon"])
    blocks = []
    for _, part in shown.groupby(keys, dropna=False, sort=False):
        for columns in _packed(_columns(part, x), 0 if x == "at" else _MOST_COLUMNS):
            blocks.append(_block(part, columns, experiment, measure))
    return tuple(blocks)


def write_all(
    runs: pd.DataFrame, experiment: Experiment | str, folder: Path | str
) -> tuple[Path, ...]:
    """Write the tables of the experiment's measures as Markdown, CSV and LaTeX.

    Returns the files: ``<experiment>.md``, ``.csv`` and ``.tex`` in ``folder``, which is made if it
    is missing. A measure that no run has is left out; if none has a value, a ValueError says so.
    """
    experiment = _experiment(experiment)
    mine = runs[runs["experiment"] == experiment.name]
    measures = [
        measure
        for measure in experiment.panels.measures
        if measure in mine and mine.loc[_applies(mine["classes"], measure), measure].notna().any()
    ]
    # Without a value every run failed, which a table can show, or there is nothing to show.
    blocks = [
        block
        for measure in measures or experiment.panels.measures[:1]
        for block in table(runs, experiment, measure=measure)
    ]
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    opening = [f"# {experiment.title}", "", f"{experiment.source}. {experiment.question}", ""]
    opening += [*(f"- {note}" for note in experiment.notes), ""]
    texts = {
        "md": "\n".join([*opening, *(block.markdown() for block in blocks)]),
        "csv": as_csv(blocks, experiment.name),
        "tex": "% needs \\usepackage{booktabs,multirow}\n"
        + "\n".join(block.latex() for block in blocks),
    }
    paths = tuple(folder / f"{experiment.name}.{ending}" for ending in texts)
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def as_csv(blocks: Iterator[Block] | list[Block] | tuple[Block, ...], experiment: str) -> str:
    """Return blocks as one CSV file: a line per cell that holds something, numbers in full."""
    columns = [
        "experiment", "measure", "caption", "data", "column", "line", "row", "mean", "sd", "low",
        "high", "repeats", "failed", "problem", "paper", "best",
    ]  # fmt: skip
    cells = pd.concat(
        block.cells.assign(experiment=experiment, measure=block.measure, caption=block.caption)
        for block in blocks
    )
    return cells.astype({"best": int})[columns].to_csv(index=False, lineterminator="\n")


def _experiment(experiment: Experiment | str) -> Experiment:
    if isinstance(experiment, Experiment):
        return experiment
    from discreet_bench.experiments import find

    return find(experiment)


def _applies(classes: pd.Series, measure: str) -> pd.Series:
    """Tell whether a measure exists for the problem, so that a missing value is a failure."""
    if measure in _OF_CLASSES:
        return classes != 0
    if measure == "r2":
        return ~(classes > 0)
    if measure in _OF_ONE_MODEL:
        return ~(classes > 2)
    return pd.Series(True, index=classes.index)


def _chooser(experiment: Experiment, measure: str) -> str:
    """Return the measure that chooses the best setting of grids."""
    wanted = (measure, *experiment.panels.measures, "accuracy")
    return next(name for name in wanted if name in MEASURES and name not in COSTS)


def _everywhere(runs: pd.DataFrame, x: str) -> pd.DataFrame:
    """Repeat lines without the parameter x, such as baselines, at each of its values."""
    if x in COLUMNS:
        return runs
    without = runs[x].isna().groupby(runs["line"]).transform("all")
    values = runs.loc[~without, [x]].drop_duplicates()
    if not without.any() or values.empty:
        return runs
    repeated = runs[without].drop(columns=x).merge(values, how="cross")
    return pd.concat([runs[~without], repeated], ignore_index=True)


def _labels(runs: pd.DataFrame, experiment: Experiment) -> pd.Series:
    """Return labels of the rows of one line: the panels' lines, and settings where needed.

    Settings are needed if a line has several on one problem; one that only changes with the data
    set or with ε does not make a row of its own.
    """
    x = experiment.panels.x
    extra = [name for name in experiment.panels.lines if name not in (*PROBLEM, x)]
    columns = [name for name in extra if name in runs]
    keys = ["line", "tuning", "setting", *columns]
    kinds = runs[keys].drop_duplicates().reset_index(drop=True)
    given: list[dict[str, object]] = []
    for kind in kinds.to_dict("records"):
        settings = settings_of(kind["setting"])
        if kind["tuning"] == "grid":
            settings = {name: settings[name] for name in extra if name in settings}
        settings |= {name: kind[name] for name in columns}
        given.append({k: v for k, v in settings.items() if k not in (x, CHECKPOINT)})
    wide = pd.DataFrame([{k: str(v) for k, v in one.items()} for one in given], index=kinds.index)
    varies = wide.fillna("").groupby(kinds["line"]).transform("nunique") > 1
    kinds["whole"] = [json.dumps(one, default=str) for one in given]
    whole = runs[keys].merge(kinds, how="left", on=keys)["whole"].set_axis(runs.index)
    cells = list(dict.fromkeys([*PROBLEM, "line", x, "at"]))
    several = whole.groupby([runs[key] for key in cells], dropna=False).transform("nunique") > 1
    unclear = set(runs.loc[several, "line"])
    kinds["label"] = [
        ", ".join(
            f"{name} = {value}"
            for name, value in one.items()
            if varies.at[at, name] and (name in extra or line in unclear)
        )
        for at, (line, one) in enumerate(zip(kinds["line"], given, strict=True))
    ]
    return runs[keys].merge(kinds, how="left", on=keys)["label"].set_axis(runs.index)


_APART = ["data", "delta", "alpha"]
"""Columns that make a column of the table besides x: each is another problem."""


def _columns(part: pd.DataFrame, x: str) -> pd.DataFrame:
    """Return the columns of a table in order: data set, penalty, x, ε and heading."""
    keys = list(dict.fromkeys([*_APART, x, "epsilon"]))
    columns = part[keys].drop_duplicates()
    columns = columns.assign(_data=pd.factorize(columns["data"])[0])
    order = ["_data", *dict.fromkeys([*_APART[1:], x])]
    columns = columns.sort_values(order, kind="stable").reset_index(drop=True)
    if x == "at":
        ends = part.groupby([*_APART, "line", "label"], dropna=False)["at"].max()
        problems = columns.groupby(["_data", *_APART[1:]], dropna=False)
        columns = pd.concat([_few(same, ends) for _, same in problems])
    headings = pd.Series("", index=columns.index)
    for name, letter in (("delta", "δ"), ("alpha", "α")):
        several = columns.groupby("data")[name].transform("nunique") > 1
        text = f"{letter} = " + columns[name].map("{:.3g}".format) + ", "
        headings += text.where(several & (name != x), "")
    symbol = {"epsilon": "ε = ", "at": "update "}.get(x, f"{x} = ")
    texts = symbol + columns[x].map(_written).astype(str)
    headings += texts.where(columns[x].notna() | (x != "at"), "end of the run")
    return columns.assign(column=headings).reset_index(drop=True)


def _written(value: object) -> str:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return "default"
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def _few(checkpoints: pd.DataFrame, ends: pd.Series) -> pd.DataFrame:
    """Keep a few checkpoints: the first, some evenly after it, and the last of each row."""
    count = len(checkpoints)
    places = np.linspace(0, count - 1, min(count, _MOST_CHECKPOINTS)).round().astype(int)
    even = np.isin(np.arange(count), places)
    return checkpoints[even | checkpoints["at"].isin(ends).to_numpy()]


def _packed(columns: pd.DataFrame, most: int) -> Iterator[pd.DataFrame]:
    """Split columns into groups of this many at most; a data set is never split."""
    group, filled, groups = 0, 0, {}
    for data, size in columns.groupby("_data", sort=False).size().items():
        if filled and filled + size > most:
            group, filled = group + 1, 0
        groups[data], filled = group, filled + size
    for _, same in columns.groupby(columns["_data"].map(groups)):
        yield same.reset_index(drop=True)


def _block(
    part: pd.DataFrame, columns: pd.DataFrame, experiment: Experiment, measure: str
) -> Block:
    x = experiment.panels.x
    part = part[part["data"].isin(columns["data"])]
    found = summary(part, [measure], by=["label"] if x in PROBLEM else ["label", x])
    keys = list(dict.fromkeys([*_APART, x]))
    columns = columns.assign(place=range(len(columns)))
    found = found.merge(columns[[*keys, "column", "place"]], on=keys)
    found["best"] = _best(found, measure)
    printed = _printed(part, columns, experiment, measure)
    cells = _with_papers(found, printed, columns)
    return Block(
        caption=_caption(part, experiment, measure),
        cells=cells,
        notes=tuple(_notes(part, found, printed)),
        measure=measure,
        transposed=x == "at",
    )


def _with_papers(
    found: pd.DataFrame, printed: list[tuple[int, Published]], columns: pd.DataFrame
) -> pd.DataFrame:
    """Add printed numbers to the cells of their methods, and rows for methods that were not run."""
    homes: dict[str, tuple[str, str]] = {}
    rows = found[["line", "label"]].drop_duplicates().itertuples(index=False, name=None)
    for key in sorted(rows, key=_likeness):
        homes.setdefault(method_of(key[0]), key)
    papers = pd.DataFrame(
        [(*homes.get(entry.method, (entry.method, "")), place, entry.value)
         for place, entry in printed],
        columns=["line", "label", "place", "paper"],
    ).drop_duplicates(["line", "label", "place"])  # fmt: skip
    found = found.merge(papers, how="outer", on=["line", "label", "place"])
    places = columns.set_index("place")
    for name in ("data", "column"):
        found[name] = found["place"].map(places[name])
    found = found.fillna({"repeats": 0, "failed": 0, "problem": "", "best": False})
    found = found.astype({"repeats": int, "failed": int, "best": bool})
    found["row"] = [_row(*pair) for pair in zip(found["line"], found["label"], strict=True)]
    order = [_order(*pair) for pair in zip(found["line"], found["label"], strict=True)]
    found = found.iloc[sorted(range(len(found)), key=lambda k: (order[k], found["place"].iloc[k]))]
    return found.reset_index(drop=True)


def _row(line: str, label: str) -> str:
    if "|" not in line:
        return f"{METHODS[line].title}, the paper's numbers only"
    title = title_of(line) + (f", {label}" if label else "")
    marks = marks_of(line)
    return f"{title} {marks}" if marks else title


def _order(line: str, label: str) -> tuple[int, int, bool, str, str]:
    """Sort rows by method; of a method, private lines and our constants first."""
    methods, variants, method = list(METHODS), list(VARIANTS), method_of(line)
    place = methods.index(method) if method in methods else len(methods)
    if "|" not in line:  # the paper's numbers only
        return place, len(variants), False, line, label
    _, calibration, variant, _, _ = parts(line)
    return place, variants.index(variant), calibration == "published", line, label


def _likeness(key: tuple[str, str]) -> tuple[bool, bool, bool, str]:
    """Sort the rows of a method by how much they are like the paper's."""
    _, calibration, variant, tuning, _ = parts(key[0])
    return variant != "as released", calibration != "published", tuning != "grid", key[1]


def _best(found: pd.DataFrame, measure: str) -> pd.Series:
    """Mark the best of each column among the lines that are private from end to end."""
    best = pd.Series(False, index=found.index)
    if measure not in MEASURES or measure == "epsilon_spent":
        return best
    private = found["line"].map(honest).astype(bool)
    for _, column in found[private].groupby("place"):
        order = ranked(column, measure)
        if len(order):
            last = incomplete(order)
            tied = (order["mean"] == order["mean"].iloc[0]) & (last == last.iloc[0])
            best[order.index[tied]] = True
    return best


def _printed(
    part: pd.DataFrame, columns: pd.DataFrame, experiment: Experiment, measure: str
) -> list[tuple[int, Published]]:
    """Return the numbers that papers print, each with its column."""
    x = experiment.panels.x
    if x not in ("epsilon", "at"):
        return []
    return [
        (column["place"], entry)
        for column in columns.to_dict("records")
        for entry in entries(
            experiment.name,
            column["data"],
            str(part["loss"].iloc[0]),
            column["epsilon"],
            measure,
            alpha=column["alpha"],
            at=column["at"] if x == "at" else None,
            relation=str(part["relation"].iloc[0]),
        )
    ]


def _caption(part: pd.DataFrame, experiment: Experiment, measure: str) -> str:
    first = part.iloc[0]
    words = [TITLES.get(measure, measure), f"{first['loss']} loss"]
    if part["data"].nunique() == 1:
        words[0] = f"{first['data']}: {words[0]}"
    relation = RELATIONS.get(first["relation"], first["relation"])
    words.append(f"neighbours: {relation} ({first['relation']})")
    if experiment.panels.x != "epsilon" and np.isfinite(first["epsilon"]):
        words.append(f"ε = {first['epsilon']:g}")
    return ", ".join(words)


# -- notes and text


def marks_of(line: str) -> str:
    """Return the marks of a line that is not private from end to end."""
    _, _, variant, tuning, _ = parts(line)
    return _MARKS.get(variant, "") + (_TUNED if tuning == "grid" else "")


def short(problem: str) -> str:
    """Shorten the reason for a missing result to fit a cell."""
    sentence = re.split(r"(?<=[.!?])\s", " ".join(problem.split()))[0].removesuffix(".")
    true = re.search(r"they are \(([^,]+),", problem)
    if true:
        return f"refused: true ε = {true[1]}"
    if len(sentence) <= _LONGEST:
        return sentence
    return sentence[:_LONGEST].rsplit(" ", 1)[0].rstrip(" ,;:") + " …"


def _notes(
    runs: pd.DataFrame, found: pd.DataFrame, printed: list[tuple[int, Published]]
) -> Iterator[str]:
    repeats = found.loc[found["repeats"] > 0, "repeats"]
    if len(repeats):
        least, most = repeats.min(), repeats.max()
        number = f"{most}" if least == most else f"{least} to {most}"
        yield "One repeat." if most == 1 else f"Mean ± standard deviation of {number} repeats."
    deltas = runs.drop_duplicates(["data", "delta"]).dropna(subset="delta")
    if len(deltas):
        each = [f"{row.delta:.2g} ({row.data})" for row in deltas.itertuples()]
        one = f"{deltas['delta'].iloc[0]:.2g}"
        yield "δ = " + (one if deltas["delta"].nunique() == 1 else ", ".join(each)) + "."
    if found["best"].any():
        yield "Bold: the best of the lines that are private from end to end."
    lines = list(dict.fromkeys(found["line"]))
    used = "".join(marks_of(line) for line in lines)
    yield from (f"{mark} {text}" for mark, text in _MEANING.items() if mark in used)
    yield from (_released(runs, line) for line in lines if _RELEASED in marks_of(line))
    sources: dict[tuple[str, str], dict[str, None]] = {}
    for _, entry in printed:
        sources.setdefault((entry.source, entry.note), {})[METHODS[entry.method].title] = None
    for (source, note), titles in sources.items():
        yield f"paper: {source} ({', '.join(titles)}: {note})."
    long = found[found["problem"].map(short).astype(str).str.endswith("…")]
    for (line, problem), group in long.groupby(["line", "problem"], sort=False):
        more = f" and {len(group) - 1} more" if len(group) > 1 else ""
        place = f"{group['data'].iloc[0]}, {group['column'].iloc[0]}{more}"
        yield f"{title_of(line).split(',')[0]} ({place}): {' '.join(problem.split())}"


def _released(runs: pd.DataFrame, line: str) -> str:
    """State the true ε of a line that is not private as released."""
    mine = runs[runs["line"] == line]
    true = mine["epsilon_recomputed"].fillna(mine["epsilon_spent"])
    cells = mine.assign(_true=true).groupby(["data", "epsilon"], sort=False)["_true"].max()
    claimed = cells.index.get_level_values("epsilon")
    worse = cells[cells > claimed]
    name = f"{_RELEASED} {title_of(line).split(',')[0]}: not private as released"
    if worse.empty:
        return f"{name}; its true ε is not known."
    if len(worse) <= _MOST_LISTED:
        each = [f"{value:.3g} where {e:g} was claimed ({d})" for (d, e), value in worse.items()]
        return f"{name}: true ε = {', '.join(each)}."
    times = worse.to_numpy() / worse.index.get_level_values("epsilon").to_numpy()
    if not np.isfinite(times).all():
        return f"{name}: no ε holds in {np.isinf(times).sum()} of {len(times)} cells."
    return f"{name}: true ε is {times.min():.3g} to {times.max():.3g} times what was claimed."


def number(value: float, measure: str, digits: int = 3) -> str:
    """Return a value as text: shares in percent, others with this many significant digits."""
    if measure in SHARES:
        return f"{100 * value:.{max(digits - 1, 1)}f}"
    text = f"{value:#.{digits}g}" if 1e-3 <= abs(value) < 10**digits else f"{value:.{digits}g}"
    return re.sub(r"e([+-])0*(\d)", lambda e: f"e{e[1].strip('+')}{e[2]}", text).rstrip(".")


def _text(cell: dict[str, object], measure: str) -> str:
    """Return mean and standard deviation, failures, and the paper's number."""
    mean, sd, paper = (float(cell[name]) for name in ("mean", "sd", "paper"))  # type: ignore[arg-type]
    parts = []
    if cell["repeats"]:
        deviation = f"{100 * sd:.2f}" if measure in SHARES else number(sd, measure, 2)
        parts.append(number(mean, measure) + (f" ± {deviation}" if isfinite(sd) else ""))
        if cell["failed"]:
            total = int(cell["failed"]) + int(cell["repeats"])  # type: ignore[call-overload]
            parts.append(f"({cell['failed']} of {total} failed)")
    elif cell["failed"]:
        parts.append(short(str(cell["problem"])) or "failed")
    if isfinite(paper):
        text = f"{100 * paper:.1f}" if measure in SHARES else f"{paper:g}"
        parts.append(f"(paper: {text})" if parts else f"paper: {text}")
    return " ".join(parts)


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", " ".join(text.split()))


def _escaped(text: str) -> str:
    """Escape LaTeX's own characters."""
    frame = pd.DataFrame([" ".join(text.split())]).style.format(escape="latex")
    return str(frame.hide(axis=0).hide(axis=1).to_latex()).split("\n")[1].removesuffix(" \\\\")
