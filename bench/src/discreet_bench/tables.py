"""Tables of an experiment's results: a row for each line, a column for each data set and ε.

Curves are printed the other way round: updates go down the page, lines across.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from discreet_bench.experiment import Experiment
from discreet_bench.layout import Block, Cell, Column, Row, Table, as_csv
from discreet_bench.lines import METHODS, honest, title_of
from discreet_bench.published import Published, entries
from discreet_bench.runs import COLUMNS, MEASURES, RELATIONS, VARIANTS, settings_of
from discreet_bench.statistics import (
    LOOK,
    PROBLEM,
    best_settings,
    final,
    incomplete,
    method_of,
    ranked,
    summary,
    with_parameter,
)
from discreet_bench.table_notes import marks_of, notes_of, short

__all__ = ["MEASURE_TITLES", "table", "write_all"]

MEASURE_TITLES: dict[str, str] = {
    "accuracy": "Accuracy, %",
    "balanced_accuracy": "Balanced accuracy, %",
    "auc": "Area under the curve",
    "log_loss": "Log loss",
    "r2": "R²",
    "objective": "Objective on the training rows",
    "excess_objective": "Objective on the training rows less its minimum",
    "gradient_norm": "Length of the true gradient",
    "noisy_gradient_norm": "Length of the gradient that the method saw",
    "seconds": "Seconds a fit",
    "peak_mb": "Growth of memory, MiB",
    "epsilon_spent": "ε spent",
}
"""What is measured, in words."""

_OF_CLASSES = ("accuracy", "balanced_accuracy", "auc", "log_loss")
_OF_ONE_MODEL = ("objective", "excess_objective", "gradient_norm", "noisy_gradient_norm")
_COSTS = ("seconds", "peak_mb", "epsilon_spent")
_MOST_COLUMNS = 8
_MOST_LOOKS = 11
_MOST_ACROSS = 6  # lines side by side; their titles are longer than an ε


def table(runs: pd.DataFrame, experiment: Experiment | str, *, measure: str = "accuracy") -> Table:
    """The results of an experiment by one measure.

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
    Table
        A block for each loss and relation, and as many more as keep it readable. Grids show their
        best setting: by this measure or, for time and memory, the one that the experiment's first
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
        columns = _columns(part, x)
        for group in _packed(columns, 0 if x == "at" else _MOST_COLUMNS):
            block = _block(part, group, experiment, measure)
            blocks += _turned(block) if x == "at" else [block]
    return Table(experiment.name, measure, tuple(blocks))


def write_all(
    runs: pd.DataFrame, experiment: Experiment | str, folder: Path | str
) -> tuple[Path, ...]:
    """Write the tables of all measures that the experiment shows, as Markdown, CSV and LaTeX.

    Returns
    -------
    tuple of Path
        The files: ``<experiment>.md``, ``.csv`` and ``.tex`` in ``folder``, which is made if need
        be. A measure that no run has is left out.

    Raises
    ------
    ValueError
        If no measure has anything to show.
    """
    experiment = _experiment(experiment)
    tables = list(_tables(runs, experiment))
    if not tables:
        # Every run failed, which a table can show, or there is nothing: then this says so.
        tables = [table(runs, experiment, measure=experiment.panels.measures[0])]
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "md": "\n".join([*_opening(experiment), *(made.markdown() for made in tables)]),
        "csv": as_csv(*tables),
        "tex": "% needs \\usepackage{booktabs,amsmath}\n"
        + "\n".join(made.latex() for made in tables),
    }
    paths = tuple(folder / f"{experiment.name}.{ending}" for ending in texts)
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def _tables(runs: pd.DataFrame, experiment: Experiment) -> Iterator[Table]:
    mine = runs[runs["experiment"] == experiment.name]
    for measure in experiment.panels.measures:
        if measure in mine and mine.loc[_applies(mine["classes"], measure), measure].notna().any():
            yield table(runs, experiment, measure=measure)


def _opening(experiment: Experiment) -> list[str]:
    lines = [f"# {experiment.title}", "", f"{experiment.source}. {experiment.question}", ""]
    return [*lines, *(f"- {note}" for note in experiment.notes), ""]


def _experiment(experiment: Experiment | str) -> Experiment:
    if isinstance(experiment, Experiment):
        return experiment
    from discreet_bench.experiments import EXPERIMENTS

    if experiment not in EXPERIMENTS:
        known = ", ".join(EXPERIMENTS)
        raise ValueError(f"There is no experiment {experiment!r}. There are: {known}.")
    return EXPERIMENTS[experiment]


def _applies(classes: pd.Series, measure: str) -> pd.Series:
    """Whether a measure exists for the problem, so that a failure to have it is a failure."""
    if measure in _OF_CLASSES:
        return classes != 0
    if measure == "r2":
        return ~(classes > 0)
    if measure in _OF_ONE_MODEL:
        return ~(classes > 2)
    return pd.Series(True, index=classes.index)


def _chooser(experiment: Experiment, measure: str) -> str:
    """The measure by which grids are cut down to one setting."""
    if measure not in _COSTS and measure in MEASURES:
        return measure
    return next((m for m in experiment.panels.measures if m in MEASURES and m not in _COSTS),
                "accuracy")  # fmt: skip


def _everywhere(runs: pd.DataFrame, x: str) -> pd.DataFrame:
    """Lines that do not have the parameter x, such as baselines, at each of its values."""
    if x in COLUMNS:
        return runs
    without = runs[x].isna().groupby(runs["line"]).transform("all")
    values = runs.loc[~without, [x]].drop_duplicates()
    if not without.any() or values.empty:
        return runs
    repeated = runs[without].drop(columns=x).merge(values, how="cross")
    return pd.concat([runs[~without], repeated], ignore_index=True)


def _labels(runs: pd.DataFrame, experiment: Experiment) -> pd.Series:
    """What tells the rows of one line apart: the panels' lines, and settings if need be.

    Settings need to be told if a line has several on one problem; one that merely goes with the
    data set or with ε is not worth a row of its own.
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
        given.append({k: v for k, v in settings.items() if k not in (x, LOOK)})
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


def _columns(part: pd.DataFrame, x: str) -> pd.DataFrame:
    """The columns of a block in order: data set, penalty, x, ε and heading."""
    keys = list(dict.fromkeys([*_APART, x, "epsilon"]))
    columns = part[keys].drop_duplicates()
    columns = columns.assign(_data=pd.factorize(columns["data"])[0])
    order = ["_data", *dict.fromkeys([*_APART[1:], x])]
    columns = columns.sort_values(order, kind="stable").reset_index(drop=True)
    if x == "at":
        ends = part.groupby([*_APART, "line", "label"], dropna=False)["at"].max()
        problems = columns.groupby(["_data", *_APART[1:]], dropna=False)
        columns = pd.concat([_spread(same, ends) for _, same in problems])
    headings = pd.Series("", index=columns.index)
    for name, letter in (("delta", "δ"), ("alpha", "α")):
        several = columns.groupby("data")[name].transform("nunique") > 1
        told = f"{letter} = " + columns[name].map("{:.3g}".format) + ", "
        headings += told.where(several & (name != x), "")
    symbol = {"epsilon": "ε = ", "at": "update "}.get(x, f"{x} = ")
    texts = symbol + columns[x].map(_written).astype(str)
    headings += texts.where(columns[x].notna() | (x != "at"), "end of the run")
    return columns.assign(heading=headings).reset_index(drop=True)


_APART = ["data", "delta", "alpha"]
"""What makes columns of their own besides x: each is another problem."""


def _written(value: object) -> str:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return "default"
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def _spread(looks: pd.DataFrame, ends: pd.Series) -> pd.DataFrame:
    """A few of many looks: the first, some evenly after it, and the last of each row."""
    places = np.linspace(0, len(looks) - 1, min(len(looks), _MOST_LOOKS)).round().astype(int)
    even = np.isin(np.arange(len(looks)), places)
    return looks[even | looks["at"].isin(ends).to_numpy()]


def _packed(columns: pd.DataFrame, most: int) -> Iterator[pd.DataFrame]:
    """Columns in groups of so many at most; a data set is not split, and alone if it must be."""
    sizes = columns.groupby("_data", sort=False).size()
    group, filled, groups = 0, 0, {}
    for data, size in sizes.items():
        if filled and filled + size > most:
            group, filled = group + 1, 0
        groups[data], filled = group, filled + size
    for _, same in columns.groupby(columns["_data"].map(groups)):
        yield same.reset_index(drop=True)


def _turned(block: Block) -> list[Block]:
    """A block with lines across, in parts that fit a page; notes stand below the last."""
    number = -(-len(block.rows) // _MOST_ACROSS)
    size = -(-len(block.rows) // number)
    parts = [block.rows[start : start + size] for start in range(0, len(block.rows), size)]
    return [
        replace(
            block,
            caption=block.caption + (f" (part {at} of {len(parts)})" if len(parts) > 1 else ""),
            rows=rows,
            notes=block.notes if at == len(parts) else (),
            turned=True,
        )
        for at, rows in enumerate(parts, start=1)
    ]


def _block(
    part: pd.DataFrame, columns: pd.DataFrame, experiment: Experiment, measure: str
) -> Block:
    x = experiment.panels.x
    part = part[part["data"].isin(columns["data"])]
    by = ["label"] if x in PROBLEM else ["label", x]
    found = summary(part, [measure], by=by)
    keys = list(dict.fromkeys([*_APART, x]))
    found = found.merge(columns[keys].assign(column=range(len(columns))), on=keys)
    found["best"] = _best(found, measure)
    printed = _printed(part, columns, experiment, measure)
    return Block(
        caption=_caption(part, experiment, measure),
        columns=tuple(Column(c.data, c.heading) for c in columns.itertuples()),
        rows=_rows(found, printed, len(columns)),
        notes=notes_of(part, found, columns, printed),
    )


def _caption(part: pd.DataFrame, experiment: Experiment, measure: str) -> str:
    first = part.iloc[0]
    words = [MEASURE_TITLES.get(measure, measure), f"{first['loss']} loss"]
    if part["data"].nunique() == 1:
        words[0] = f"{first['data']}: {words[0]}"
    relation = RELATIONS.get(first["relation"], first["relation"])
    words.append(f"neighbours: {relation} ({first['relation']})")
    if experiment.panels.x != "epsilon" and np.isfinite(first["epsilon"]):
        words.append(f"ε = {first['epsilon']:g}")
    return ", ".join(words)


def _best(found: pd.DataFrame, measure: str) -> pd.Series:
    """Whether a value is the best of its column among those that are private from end to end."""
    best = pd.Series(False, index=found.index)
    if measure not in MEASURES or measure == "epsilon_spent":
        return best
    private = found["line"].map(honest).astype(bool)
    for _, column in found[private].groupby("column"):
        order = ranked(column, measure)
        if len(order):
            last = incomplete(order)
            tied = (order["mean"] == order["mean"].iloc[0]) & (last == last.iloc[0])
            best[order.index[tied]] = True
    return best


def _printed(
    part: pd.DataFrame, columns: pd.DataFrame, experiment: Experiment, measure: str
) -> dict[int, tuple[Published, ...]]:
    """What papers print for each column."""
    x = experiment.panels.x
    if x not in ("epsilon", "at"):
        return {}
    loss = str(part["loss"].iloc[0])
    return {
        at: entries(
            experiment.name,
            column["data"],
            loss,
            column["epsilon"],
            measure,
            alpha=column["alpha"],
            at=column["at"] if x == "at" else None,
            relation=str(part["relation"].iloc[0]),
        )
        for at, column in enumerate(columns.to_dict("records"))
    }


def _rows(
    found: pd.DataFrame, printed: dict[int, tuple[Published, ...]], width: int
) -> tuple[Row, ...]:
    cells: dict[tuple[str, str], dict[int, Cell]] = {}
    for row in found.itertuples():
        cells.setdefault((row.line, row.label), {})[row.column] = Cell(
            mean=row.mean, sd=row.sd, low=row.low, high=row.high, repeats=row.repeats,
            failed=row.failed, problem=short(row.problem), best=bool(row.best),
        )  # fmt: skip
    homes = _homes(list(cells))
    papers: dict[tuple[str, str], dict[int, float]] = {}
    for column, numbers in printed.items():
        for number in numbers:
            key = homes.get(number.method, (number.method, ""))
            papers.setdefault(key, {})[column] = number.value
    rows = []
    for key in sorted({*cells, *papers}, key=_order):
        line, label = key
        mine, theirs = cells.get(key, {}), papers.get(key, {})
        row = [
            Cell(**{**mine.get(at, Cell()).__dict__, "paper": theirs.get(at)})
            for at in range(width)
        ]
        run = "|" in line
        title = title_of(line) if run else f"{METHODS[line].title}, the paper's numbers only"
        title += f", {label}" if label else ""
        rows.append(Row(line if run else "", title, marks_of(line) if run else "", tuple(row)))
    return tuple(rows)


def _homes(keys: list[tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """The row beside which a method's printed numbers stand: the one that is most like them."""
    homes: dict[str, tuple[str, str]] = {}
    for key in sorted(keys, key=_likeness):
        homes.setdefault(method_of(key[0]), key)
    return homes


def _likeness(key: tuple[str, str]) -> tuple[bool, bool, bool, str]:
    _, calibration, variant, tuning = key[0].split("|")
    return variant != "as released", calibration != "published", tuning != "grid", key[1]


def _order(key: tuple[str, str]) -> tuple[int, int, bool, str, str]:
    """Rows in the order of the methods; of a method, private lines and our constants first."""
    line, label = key
    names, variants = list(METHODS), list(VARIANTS)
    method = method_of(line)
    place = names.index(method) if method in names else len(names)
    if "|" not in line:  # the paper's numbers only
        return place, len(variants), False, line, label
    _, calibration, variant, _ = line.split("|")
    return place, variants.index(variant), calibration == "published", line, label
