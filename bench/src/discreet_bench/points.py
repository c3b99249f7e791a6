"""Points of figures: from runs to lines with their means, intervals and published numbers.

The static figures and the interactive charts of the report show the same points.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from discreet_bench.experiment import Experiment, Panels
from discreet_bench.lines import Style, kind_of, named, style
from discreet_bench.published import published
from discreet_bench.runs import number_text, settings_of
from discreet_bench.significance import interval
from discreet_bench.solvers import defaults
from discreet_bench.statistics import CHECKPOINT, best_settings, final

__all__ = ["FEW_REPEATS", "Shown", "shown", "styles"]

BUDGET = ("epsilon", "delta")
FEW_REPEATS = 5
"""With fewer repeats single runs are drawn instead of an interval."""

MARKERS = ("o", "s", "^", "v", "D", "P", "<", "X", ">", "p", "h", "d", "8")
DASHES = ("-", "--", ":", "-.")


@dataclass(frozen=True)
class Shown:
    """Points and lines of one figure.

    Attributes
    ----------
    points
        A row per measure, data set, key and x: mean, low, high, count, and the values of all
        repeats. ``x`` is missing where a value holds for every x; ``low`` and ``high`` are missing
        with fewer than `FEW_REPEATS` repeats.
    keys
        A row per line, by its key: ``line`` (as in `discreet_bench.lines`), ``extra`` (parameters
        that make it a line) and ``reference`` (whether it is the same for every x).
    data
        Data sets in the order of the runs, each with n and d.
    measures
        Those that have a value.
    published
        Numbers of the papers: measure, data, key, x, value.
    labels
        Names of the x values, where these are not numbers; else empty.
    spread
        Meaning of bands: ``"interval"`` or ``"deviation"``.
    repeats
        Fewest and most runs per point.
    failed
        Numbers of runs without a result, and of all runs.
    loss, relation
        Of the runs.
    part
        Description of the lines, if not all are shown.
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
        """Tell whether every data set has one x only, so that there are no lines."""
        return bool(self.points.groupby("data")["x"].nunique().max() <= 1)

    def x_of(self, data: str) -> str:
        """Return the text of the only x of a data set; empty if it has none."""
        values = self.points.loc[self.points["data"] == data, "x"].dropna()
        return self.x_text(values.iloc[0]) if len(values) else ""

    def x_text(self, x: float) -> str:
        """Return the text of a value of the x axis."""
        return self.labels[int(x)] if self.labels else number_text(x)


def shown(
    runs: pd.DataFrame, experiment: Experiment, measures: tuple[str, ...] | None = None
) -> Shown:
    """Return the points of one loss and relation.

    A line that is not private has the same value for every ε, and so has a line without the
    parameter on the x axis: these get no x. Where runs of one line and x differ in more than the
    experiment's ``lines``, these columns make lines too, so that a mean is always one of repeats.
    ``measures`` are those of the experiment's panels unless given.
    """
    panels = experiment.panels
    measures = panels.measures if measures is None else measures
    unknown = [name for name in measures if name not in runs]
    if unknown:
        raise ValueError(f"The runs have no measure {unknown[0]!r}; they have {list(runs)}.")
    rows = named(runs.reset_index(drop=True))
    wanted = (panels.x, *panels.lines)
    if "at" not in wanted and CHECKPOINT not in wanted:
        rows = final(rows)
    rows, labels = _with_x(_with_settings(rows, wanted), panels)
    rows = _with_keys(rows, panels)
    spread = "deviation" if panels.x == "at" else "interval"
    parts = [_points(rows, measure, panels.x, spread) for measure in measures]
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
        measures=tuple(m for m in measures if (points["measure"] == m).any()),
        published=_published(rows, points, keys, experiment),
        labels=labels,
        spread=spread,
        repeats=(int(counts.min()), int(counts.max())) if len(counts) else (0, 0),
        failed=(int((rows["problem"].fillna("") != "").sum()), len(rows)),
        loss=str(runs["loss"].iloc[0]),
        relation=str(runs["relation"].iloc[0]),
    )


def _with_settings(rows: pd.DataFrame, wanted: tuple[str, ...]) -> pd.DataFrame:
    """Add a column ``set:<name>`` for each parameter that is set anywhere.

    Parameters in ``wanted`` have their default where they were not set. The number of updates of a
    checkpoint is not a setting, unless it is ``wanted``.
    """
    pairs = list(zip(rows["method"], rows["setting"].fillna("").astype(str), strict=True))
    known = {pair: settings_of(pair[1]) for pair in dict.fromkeys(pairs)}
    names = {name for settings in known.values() for name in settings}
    names -= {CHECKPOINT} - {*wanted}
    for pair, settings in known.items():
        own = defaults(pair[0])
        settings |= {name: own[name] for name in wanted if name in own and name not in settings}
    columns = {
        f"set:{name}": [_plain(known[pair].get(name)) for pair in pairs] for name in sorted(names)
    }
    return rows.assign(**columns)


def _plain(value: object) -> object:
    """Return a value that can be grouped by; a list or table becomes text."""
    return json.dumps(value) if isinstance(value, list | dict) else value


def _column(rows: pd.DataFrame, name: str) -> str:
    """Return the column of a parameter or column ``name``."""
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
        codes, names = pd.factorize(values.map(number_text, na_action="ignore"), sort=True)
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
        text = name + " = " + rows[column].map(number_text)
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
    """Return columns in which runs differ that would otherwise be averaged."""
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
    """Sort numbers by size and anything else by its text."""
    numbers = pd.to_numeric(column, errors="coerce")
    return numbers if numbers.notna().any() else column.astype(str)


def _points(rows: pd.DataFrame, measure: str, x: str, spread: str) -> pd.DataFrame:
    """Return mean and interval of a measure per data set, key and x."""
    rows = rows[np.isfinite(pd.to_numeric(rows[measure], errors="coerce"))]
    rows = pd.concat([rows[~rows["grid"]], _best(rows[rows["grid"]], measure, x)])
    has_x = rows.groupby("key")["x"].transform(lambda x: x.notna().any())
    rows = rows[rows["x"].notna() | ~has_x]
    # a reference has one value per repeat, however many ε it was run for
    once = rows.groupby(["data", "key", "x", "repeat"], dropna=False)[measure].mean()
    groups = once.groupby(level=["data", "key", "x"], dropna=False, sort=False)
    table = groups.agg(["mean", "std", "count"]).reset_index()
    table["values"] = groups.agg(list).to_numpy()
    half = table["std"].to_numpy()
    if spread == "interval":
        half = interval(half, table["count"].to_numpy())
    half = np.where(table["count"] >= FEW_REPEATS, half, np.nan)
    table["low"], table["high"] = table["mean"] - half, table["mean"] + half
    table["measure"] = measure
    return table.drop(columns="std")


def _best(grid: pd.DataFrame, measure: str, x: str) -> pd.DataFrame:
    """Keep the best setting of each line that was tuned with hindsight.

    Settings compete where all else is equal. Where a figure shows checkpoints, the setting that
    ends best is shown from its start.
    """
    if grid.empty:
        return grid
    parts = grid.groupby(["extra"] if x in ("at", CHECKPOINT) else ["x", "extra"], dropna=False)
    return pd.concat([best_settings(part, measure) for _, part in parts])


def _sizes(rows: pd.DataFrame) -> dict[str, tuple[int, int]]:
    """Return each data set's n and d, in the order of the runs; 0 where not known."""
    sizes = rows.groupby("data", sort=False)[["n", "d"]].median().fillna(0).astype(int)
    return {str(data): (int(n), int(d)) for data, n, d in sizes.itertuples()}


def _published(
    rows: pd.DataFrame, points: pd.DataFrame, keys: pd.DataFrame, experiment: Experiment
) -> pd.DataFrame:
    """Return the papers' numbers for the methods shown, where ε or ``at`` is on the x axis.

    A number belongs to the first line of its method (and penalty and ε, where these make lines), if
    that line has a point there; one of a reference is put at the largest x.
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


def styles(keys: pd.DataFrame) -> dict[str, Style]:
    """Return the style of every key (`Shown.keys`), the same in all figures where possible.

    Lines of one method that differ in a parameter get shades of the method's colour, the fullest
    for the largest value, and markers of their own; if there is one method only besides baselines,
    they get colours from dark to light. Two that would look the same get different markers.
    """
    counts = keys.groupby("line", sort=False)["extra"].transform("size")
    baseline = keys["line"].map(kind_of) == "baseline"
    varied = keys[~keys["reference"] & ~baseline]
    alone = varied["line"].nunique() == 1 and len(varied) > 1
    found: dict[str, Style] = {}
    taken: set[tuple[str, str, str]] = set()
    for line, group in keys.groupby("line", sort=False):
        for place, (key, extra) in enumerate(group["extra"].items()):
            this = style(line)
            if extra and counts[key] > 1:
                if alone and key in varied.index:
                    colour = _ramp(place, len(group))
                else:
                    colour = _paler(this.colour, (len(group) - 1 - place) / len(group))
                this = replace(this, colour=colour, marker=_after(this.marker, place))
            if extra:
                this = replace(this, title=f"{this.title}, {extra}")
            this = _unlike(this, taken)
            taken.add((this.colour, this.marker, this.dash))
            found[str(key)] = this
    return found


def _after(marker: str, places: int) -> str:
    start = MARKERS.index(marker) if marker in MARKERS else 0
    return MARKERS[(start + places) % len(MARKERS)] if places else marker


def _unlike(this: Style, taken: set[tuple[str, str, str]]) -> Style:
    """Return the style with the next marker (then dash) that no other line has."""
    markers = [_after(this.marker, place) for place in range(len(MARKERS))]
    dashes = [this.dash, *(dash for dash in DASHES if dash != this.dash)]
    for dash in dashes:
        for marker in markers:
            if (this.colour, marker, dash) not in taken:
                return replace(this, marker=marker, dash=dash)
    raise ValueError(f"Too many lines of one method to draw: {this.title}. Draw fewer settings.")


def _paler(colour: str, share: float) -> str:
    """Mix a colour with white; ``share`` of 1 is the palest that is readable in print."""
    from matplotlib.colors import to_hex, to_rgb

    mixed = 0.65 * share
    return str(to_hex((1 - mixed) * np.array(to_rgb(colour)) + mixed))


def _ramp(place: int, number: int) -> str:
    """Return the colours of viridis from dark to light, without its yellow."""
    import matplotlib
    from matplotlib.colors import to_hex

    return str(to_hex(matplotlib.colormaps["viridis"](0.8 * place / max(number - 1, 1))))
