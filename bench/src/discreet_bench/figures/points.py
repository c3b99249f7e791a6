"""From runs to what a figure shows: which lines there are, and their means with a spread."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import t as student

from discreet_bench.experiment import Experiment, Panels
from discreet_bench.lines import named
from discreet_bench.published import published
from discreet_bench.runs import settings_of
from discreet_bench.statistics import LOOK, best_settings, final

__all__ = ["Shown", "shown", "value_text"]

BUDGET = ("epsilon", "delta")


@dataclass(frozen=True)
class Shown:
    """What one figure shows.

    Attributes
    ----------
    points
        A row for each measure, data set, key and x: mean, low, high, count. ``x`` is missing where
        a value holds for every x.
    keys
        A row for each line, by its key: ``line`` (as in `discreet_bench.lines`), ``extra`` (what
        else makes it a line, in words) and ``reference`` (whether it is the same for every x).
    data
        Data sets in the order of the runs, each with n and d.
    measures
        Those that have a value.
    published
        The paper's own numbers: measure, data, key, x, value.
    labels
        Names of the x values, where these are not numbers; else empty.
    spread
        What a band is: ``"interval"`` or ``"deviation"``.
    repeats
        Fewest and most runs behind a point.
    failed
        Number of runs without a result, and of all runs.
    loss, relation
        Of the runs.
    part
        Which lines these are, in words, if not all.
    """

    points: pd.DataFrame
    keys: pd.DataFrame
    data: dict[str, tuple[int, int]]
    measures: tuple[str, ...]
    published: pd.DataFrame
    labels: tuple[str, ...]
    spread: str
    repeats: tuple[int, int]
    failed: tuple[int, int]
    loss: str
    relation: str
    part: str = ""

    @property
    def one_x(self) -> bool:
        """Whether every data set has one x only, so that there is nothing to join by a line."""
        return bool(self.points.groupby("data")["x"].nunique().max() <= 1)

    def x_of(self, data: str) -> str:
        """The one x of a data set in words; nothing if it has none."""
        values = self.points.loc[self.points["data"] == data, "x"].dropna()
        return self.x_text(values.iloc[0]) if len(values) else ""

    def x_text(self, x: float) -> str:
        """A value of the x axis in words."""
        return self.labels[int(x)] if self.labels else value_text(x)


def shown(runs: pd.DataFrame, experiment: Experiment) -> Shown:
    """What the figure of one loss and relation shows.

    A line that is not private has the same value for every ε, and so has a line that knows nothing
    of the parameter on the x axis: these get no x. Where runs of one line and x differ in more
    than the experiment's ``lines`` say, what they differ in makes lines too, so that a mean is
    always one of repeats.
    """
    panels = experiment.panels
    unknown = [name for name in panels.measures if name not in runs]
    if unknown:
        raise ValueError(f"The runs have no measure {unknown[0]!r}; they have {list(runs)}.")
    rows = named(runs.reset_index(drop=True))
    wanted = (panels.x, *panels.lines)
    if "at" not in wanted and LOOK not in wanted:
        rows = final(rows)
    rows, labels = _with_x(_with_settings(rows, wanted), panels)
    rows = _with_keys(rows, panels)
    spread = "deviation" if panels.x == "at" else "interval"
    parts = [_points(rows, measure, panels.x, spread) for measure in panels.measures]
    points = pd.concat(parts, ignore_index=True)
    used = set(points["key"])
    keys = rows.drop_duplicates("key").set_index("key").sort_values("order")
    keys = keys.loc[[key for key in keys.index if key in used], ["line", "extra"]]
    without_x = points.groupby("key")["x"].apply(lambda x: x.isna().all())
    keys["reference"] = without_x.reindex(keys.index).astype(bool)
    counts = points["count"]
    return Shown(
        points=points,
        keys=keys,
        data=_sizes(rows),
        measures=tuple(m for m in panels.measures if (points["measure"] == m).any()),
        published=_published(rows, points, keys, experiment),
        labels=labels,
        spread=spread,
        repeats=(int(counts.min()), int(counts.max())) if len(counts) else (0, 0),
        failed=(int((rows["problem"].fillna("") != "").sum()), len(rows)),
        loss=str(runs["loss"].iloc[0]),
        relation=str(runs["relation"].iloc[0]),
    )


def value_text(value: object) -> str:
    """A value as a reader would write it: 0.1, 10, 70,000."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        return str(value)
    number = float(value)
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def _with_settings(rows: pd.DataFrame, wanted: tuple[str, ...]) -> pd.DataFrame:
    """Add a column ``set:<name>`` for each parameter that is set anywhere.

    How far a run goes before it is looked at is not a setting, unless that is ``wanted``.
    """
    texts = rows["setting"].fillna("").astype(str)
    known: Mapping[str, dict[str, object]] = {text: settings_of(text) for text in texts.unique()}
    names = sorted(
        {name for settings in known.values() for name in settings} - ({LOOK} - {*wanted})
    )
    columns = {
        f"set:{name}": texts.map({text: _plain(known[text].get(name)) for text in known})
        for name in names
    }
    return rows.assign(**columns)


def _plain(value: object) -> object:
    """A value that can be compared and grouped by; a list or table becomes text."""
    return json.dumps(value) if isinstance(value, list | dict) else value


def _column(rows: pd.DataFrame, name: str) -> str:
    """The column that holds what an experiment calls ``name``."""
    if name in rows:
        return name
    if f"set:{name}" in rows:
        return f"set:{name}"
    parameters = ", ".join(c.removeprefix("set:") for c in rows if c.startswith("set:")) or "none"
    raise ValueError(
        f"{name!r} is neither a column of the runs nor a parameter that was set ({parameters})."
    )


def _with_x(rows: pd.DataFrame, panels: Panels) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Add ``x``: numbers, or places in a list of labels if not all values are numbers."""
    values = rows[_column(rows, panels.x)]
    numbers = pd.to_numeric(values, errors="coerce")
    labels: tuple[str, ...] = ()
    if (numbers.isna() & values.notna()).any():
        codes, names = pd.factorize(values.map(value_text, na_action="ignore"), sort=True)
        numbers = pd.Series(codes, index=rows.index, dtype=float).where(codes >= 0)
        labels = tuple(names)
    elif panels.log_x:
        numbers = numbers.where(~(numbers <= 0))  # a log axis has no place for these
        zero = numbers.isna() & values.notna()
        rows, numbers = rows[~zero], numbers[~zero]
    return rows.assign(x=numbers.astype(float)), labels


def _with_keys(rows: pd.DataFrame, panels: Panels) -> pd.DataFrame:
    """Add ``extra``, ``key`` and ``order``; take the x from lines that do not depend on it."""
    plain = rows["variant"] == "not private"
    rows = rows.assign(grid=rows["tuning"] == "grid")
    if panels.x == "epsilon":
        rows["x"] = rows["x"].mask(plain)
    extras = [name for name in panels.lines if name != panels.x]
    columns = [_column(rows, name) for name in extras]
    columns += _undeclared(rows, columns, panels.x)
    texts = []
    for column in columns:
        name = "ε" if column == "epsilon" else column.removeprefix("set:").replace("_", " ")
        text = name + " = " + rows[column].map(value_text)
        silent = rows[column].isna() | (plain & (column in BUDGET))
        texts.append(text.mask(silent, ""))
    extra = pd.Series("", index=rows.index)
    for text in texts:
        joint = np.where((extra != "") & (text != ""), ", ", "")
        extra = extra + joint + text
    ordered = rows.assign(extra=extra).sort_values(["line", *columns], key=_sortable)
    rank = pd.Series(np.arange(len(rows)), index=ordered.index)
    return rows.assign(extra=extra, key=rows["line"] + "|" + extra, order=rank)


def _undeclared(rows: pd.DataFrame, columns: list[str], x: str) -> list[str]:
    """Columns in which runs differ that would else fall into one mean."""
    found: list[str] = []
    names = ["epsilon", "delta", "alpha", *(c for c in rows if c.startswith("set:"))]
    for name in names:
        if name in columns or name.removeprefix("set:") == x:
            continue
        free = rows["grid"] if name.startswith("set:") else rows["variant"] == "not private"
        if name == "alpha":
            free = pd.Series(False, index=rows.index)
        fixed = rows[~free]
        cell = ["data", "line", "x", *columns, *found]
        if (fixed.groupby(cell, dropna=False)[name].nunique(dropna=False) > 1).any():
            found.append(name)
    return found


def _sortable(column: pd.Series) -> pd.Series:
    """Numbers by size; anything else by its text."""
    numbers = pd.to_numeric(column, errors="coerce")
    return numbers if numbers.notna().any() else column.astype(str)


def _points(rows: pd.DataFrame, measure: str, x: str, spread: str) -> pd.DataFrame:
    """Mean and spread of a measure for each data set, key and x."""
    rows = rows[np.isfinite(pd.to_numeric(rows[measure], errors="coerce"))]
    rows = pd.concat([rows[~rows["grid"]], _best(rows[rows["grid"]], measure, x)])
    has_x = rows.groupby("key")["x"].transform(lambda x: x.notna().any())
    rows = rows[rows["x"].notna() | ~has_x]
    # a reference is drawn from one value a repeat, however many ε it was run for
    once = rows.groupby(["data", "key", "x", "repeat"], dropna=False)[measure].mean()
    groups = once.groupby(level=["data", "key", "x"], dropna=False, sort=False)
    table = groups.agg(["mean", "std", "count"]).reset_index()
    if spread == "deviation":
        half = table["std"]
    else:
        reach = student.ppf(0.975, np.maximum(table["count"] - 1, 1))
        half = reach * table["std"] / np.sqrt(table["count"])
    table["low"], table["high"] = table["mean"] - half, table["mean"] + half
    table["measure"] = measure
    return table.drop(columns="std")


def _best(grid: pd.DataFrame, measure: str, x: str) -> pd.DataFrame:
    """The best setting of each line that was tuned with hindsight.

    Settings compete where everything that a figure tells apart is equal. Where a figure shows runs
    on their way, the setting that ends best is followed from its start.
    """
    if grid.empty:
        return grid
    parts = grid.groupby(["extra"] if x in ("at", LOOK) else ["x", "extra"], dropna=False)
    return pd.concat([best_settings(part, measure) for _, part in parts])


def _sizes(rows: pd.DataFrame) -> dict[str, tuple[int, int]]:
    """Each data set's n and d, in the order of the runs; 0 where not known."""
    sizes = rows.groupby("data", sort=False)[["n", "d"]].median().fillna(0).astype(int)
    return {str(data): (int(n), int(d)) for data, n, d in sizes.itertuples()}


def _published(
    rows: pd.DataFrame, points: pd.DataFrame, keys: pd.DataFrame, experiment: Experiment
) -> pd.DataFrame:
    """The paper's own numbers for the methods that are shown, where ε or ``at`` is on the x axis.

    A number stands by the first line of its method (and penalty and ε, where these make lines), if
    that line has a point there; one of a reference stands at the largest x.
    """
    columns = ["measure", "data", "key", "x", "value"]
    x = experiment.panels.x
    if x not in ("epsilon", "at"):
        return pd.DataFrame(columns=columns)
    rows = rows[rows["key"].isin(keys.index)].sort_values("order")
    cell = ["data", "epsilon", "alpha"]
    key_of = rows.drop_duplicates([*cell, "method"]).set_index([*cell, "method"])["key"].to_dict()
    cells = rows.dropna(subset=cell)[[*cell, "at"]].assign(x=rows[x])
    if x == "epsilon":
        cells["at"] = None
    loss, relation = (str(rows[name].iloc[0]) if len(rows) else "" for name in ("loss", "relation"))
    found = []
    for measure in points["measure"].unique():
        for data, epsilon, alpha, at, place in cells.drop_duplicates().itertuples(index=False):
            values = published(
                experiment.name, data, loss, epsilon, measure, alpha=alpha, at=at, relation=relation
            )
            found += [
                (measure, data, key_of[data, epsilon, alpha, method], place, value)
                for method, value in values.items()
                if (data, epsilon, alpha, method) in key_of
            ]
    if not found:
        return pd.DataFrame(columns=columns)
    table = pd.DataFrame(found, columns=columns).drop_duplicates().sort_values("x", kind="stable")
    reference = table["key"].map(keys["reference"]).astype(bool)
    last = table[reference].drop_duplicates(["measure", "data", "key"], keep="last")
    drawn = points[["measure", "data", "key", "x"]].drop_duplicates()
    beside = table[~reference].merge(drawn, on=["measure", "data", "key", "x"])
    level = last.merge(drawn[["measure", "data", "key"]].drop_duplicates())
    return pd.concat([beside, level], ignore_index=True)
