"""Measure pairs of columns: the tables of docs/pairs.md.

Each row is a data set and an ε: means over random 80/20 splits, δ = 1/n². The score is the AUC for
two classes and R² for numbers; with ``--accuracy`` it is the accuracy. Bounds of numbers are
declared, rounded from the table, and so are levels. Every split has a model with ``"auto"``, one
with ``"pairs"``; two of them have boosted trees without privacy, on the same rows.

    python -m bench.studies.pairs bank credit-default adult --epsilon 1 3 --splits 10
    python -m bench.studies.pairs crossed --splits 2          # generated: no data needed
    python -m bench.studies.pairs bank california hospital-visits --maps docs/pictures
    python -m bench.studies.pairs bank credit-default --curves docs/pictures/pairs-curves.png
    python -m bench.studies.pairs covertype hospital-visits --cost

Data sets with a schema come from `discreet_bench.datasets`. Others are files of the folder that
DISCREET_DATA names.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score

import discreet
from discreet.design import Design, EncodedRows
from discreet.figures import Figure
from discreet.tables import Categorical, Schema
from discreet_bench.datasets import load
from discreet_bench.datasets.catalogue import schema

ROOT = Path(__file__).parents[2]

MOST_LEVELS = 60
"""Columns of texts with more levels are left out."""

DROPPED = ("#", "customerID", "id", "No", "encounter_id", "patient_nbr")
"""Columns that number the rows."""


class File(NamedTuple):
    """A file of the data folder: its place, its target, and the label that counts, if any."""

    place: str
    target: str
    positive: Any = None
    header: int | None = 0


FILES = {
    "telco": File("tables/telco.csv.xz", "Churn", "Yes"),
    "heart2020": File("tables/heart2020.csv.xz", "HeartDisease", "Yes"),
    "magic": File("tables/magic.csv.xz", "c10", "g", None),
    "mammography": File("tables/mammography.csv.xz", "c6", "'1'", None),
    "mobility": File("folktables/ACSmobility_train.csv.xz", "MIG", 1),
    "hospital-visits": File("hospital-visits/diabetic_data.csv.xz", "readmitted", "NO"),
    "california": File("tables/california.csv.xz", "median_house_value"),
    "kc": File("tables/kc.csv.xz", "price"),
    "diamonds": File("tables/diamonds.csv.xz", "price"),
    "insurance": File("tables/insurance.csv.xz", "charges"),
    "pollution": File("tables/pollution.csv.xz", "pm2.5"),
    "abalone": File("tables/abalone.csv.xz", "c8", None, None),
    "income": File("folktables/ACSincome-LIN_train.csv.xz", "PINCP"),
}
"""Tables that have no schema in the catalogue."""

CODED = ("mobility", "income")
"""Tables whose numbers are codes of levels."""

LOGS = ("kc", "pollution")
"""Tables whose target is taken as its logarithm."""


class Table(NamedTuple):
    """Rows of a table, its target, what is declared, and the same rows as numbers for trees."""

    rows: Any
    y: NDArray[Any]
    columns: Any
    numbers: NDArray[Any]

    @property
    def regression(self) -> bool:
        """True if the target is a number."""
        return self.y.dtype.kind == "f"

    def part(self, index: NDArray[np.intp]) -> Any:
        """Return some rows, as estimators take them."""
        if isinstance(self.rows, EncodedRows):
            return EncodedRows(self.rows.encoded[index], self.rows.schema)
        return self.rows.iloc[index] if isinstance(self.rows, pd.DataFrame) else self.rows[index]


def crossed(rows: int) -> Table:
    """Return a generated table of eight columns with an interaction of two of them."""
    rng = np.random.default_rng(0)
    X = rng.random((rows, 8))
    score = 6 * np.sign(X[:, 0] - 0.5) * (X[:, 1] - 0.5) + 2 * X[:, 2] - 1
    y = (score + rng.logistic(size=rows) > 0).astype(int)
    return Table(X, y, dict.fromkeys(range(8), (0.0, 1.0)), X)


def table(name: str, rows: int | None) -> Table:
    """Return a table by name, at most so many of its rows, drawn from a public seed."""
    if name == "crossed":
        return crossed(rows or 25_000)
    if name in FILES:
        return _cut(_file(name), rows)
    data = load(name)
    known = schema(name)
    assert known is not None
    X = data.X.toarray() if hasattr(data.X, "toarray") else np.asarray(data.X)
    y = np.asarray(data.y)
    if name == "covertype":
        y = (y == 1).astype(int)
    y = y.astype(np.float64) if not data.labels else y.astype(int)
    return _cut(Table(_with_all_levels(X, known), y, None, X), rows)


def _with_all_levels(X: NDArray[Any], known: Schema) -> EncodedRows:
    """Return rows in which a level that the stored table leaves out is the level "(other)".

    A design would take a row without a level for one whose level is not known, and average.
    """
    columns = dict(known.columns)
    parts: list[NDArray[Any]] = []
    for group in Design(known).groups:
        own = X[:, group.start : group.stop]
        parts.append(own)
        column = columns[group.name]
        if not (isinstance(column, Categorical) and column.unseen == "average"):
            continue
        rest = 1.0 - own.sum(axis=1, keepdims=True)
        if rest.any():
            columns[group.name] = replace(column, unseen="other")
            parts.append(rest.astype(X.dtype))
    return EncodedRows(np.hstack(parts), replace(known, columns=columns))


def _cut(found: Table, rows: int | None) -> Table:
    """Return at most so many rows."""
    if rows is None or rows >= len(found.y):
        return found
    index = np.random.default_rng(0).permutation(len(found.y))[:rows]
    return Table(found.part(index), found.y[index], found.columns, found.numbers[index])


def _file(name: str) -> Table:
    """Return a table of a file, with bounds and levels that are rounded from it."""
    own = FILES[name]
    path = Path(os.environ["DISCREET_DATA"]) / own.place
    frame = pd.read_csv(path, header=own.header, na_values=["NA", "?", " "], low_memory=False)
    if own.header is None:
        frame.columns = [f"c{j}" for j in range(frame.shape[1])]
    frame = frame.dropna(subset=[own.target]).reset_index(drop=True)
    target = frame.pop(own.target)
    if own.positive is not None:
        y = (target == own.positive).to_numpy().astype(int)
    else:
        y = target.to_numpy(dtype=np.float64)
        y = np.log1p(y) if name in LOGS else y
    columns: dict[str, Any] = {}
    for column in list(frame):
        cells = frame[column]
        texts = cells.dtype == object or str(cells.dtype).startswith("str")
        if column in DROPPED or (texts and cells.nunique() > MOST_LEVELS):
            frame = frame.drop(columns=column)
        elif texts or name in CODED or column == "zipcode":
            frame[column] = cells.astype("string").fillna("(none)").astype("category")
        else:
            values = cells.to_numpy(dtype=np.float64)
            values = np.where(np.isnan(values), np.nanmedian(values), values)
            frame[column] = values
            low, high = _rounded(float(values.min()), float(values.max()))
            columns[column] = (low, high)
    coded = [
        each.cat.codes.to_numpy() if str(each.dtype) == "category" else each.to_numpy()
        for _, each in frame.items()
    ]
    return Table(frame, y, columns or None, np.column_stack(coded).astype(np.float64))


def _rounded(low: float, high: float) -> tuple[float, float]:
    """Return bounds around two numbers, rounded to two digits of their difference."""
    unit = 10.0 ** math.floor(math.log10(max(high - low, 1e-9)) - 1)
    return math.floor(low / unit) * unit, (math.floor(high / unit) + 1) * unit


class Run(NamedTuple):
    """Scores of one split: additive, with pairs, and boosting; pairs and seconds."""

    additive: float
    pairs: float
    boosting: float
    kept: int
    seconds: tuple[float, float]


def run(data: Table, epsilon: float, seed: int, *, accuracy: bool, trees: bool) -> Run:
    """Fit all models to one split."""
    order = np.random.default_rng(seed).permutation(len(data.y))
    cut = int(0.8 * len(order))
    train, test = order[:cut], order[cut:]
    y, z = data.y[train], data.y[test]
    scores = []
    seconds = []
    kept = 0
    for features in ("auto", "pairs"):
        settings: Any = {"delta": cut**-2.0, "features": features, "columns": data.columns}
        if data.regression:
            ends = _rounded(float(data.y.min()), float(data.y.max()))
            model: Any = discreet.LinearRegression(epsilon, target_bounds=ends, **settings)
        else:
            model = discreet.LogisticRegression(epsilon, classes=[0, 1], **settings)
        start = time.process_time()
        model.fit(data.part(train), y)
        seconds.append(time.process_time() - start)
        found = model.predict if data.regression or accuracy else model.decision_function
        scores.append(_score(z, found(data.part(test)), data, accuracy=accuracy))
        kept = 0 if model.pairs_ is None else len(model.pairs_.terms)
    boosting = math.nan
    if trees:
        forest: Any = HistGradientBoostingRegressor() if data.regression else None
        forest = forest or HistGradientBoostingClassifier()
        forest.fit(data.numbers[train], y)
        plain = data.regression or accuracy
        rows = data.numbers[test]
        made = forest.predict(rows) if plain else forest.predict_proba(rows)[:, 1]
        boosting = _score(z, made, data, accuracy=accuracy)
    return Run(scores[0], scores[1], boosting, kept, (seconds[0], seconds[1]))


def _score(z: NDArray[Any], found: NDArray[Any], data: Table, *, accuracy: bool) -> float:
    """Return R², accuracy or AUC."""
    if data.regression:
        return float(r2_score(z, found))
    return float(accuracy_score(z, found) if accuracy else roc_auc_score(z, found))


def lines(
    name: str, epsilons: Sequence[float], splits: int, rows: int | None, *, accuracy: bool
) -> Iterator[str]:
    """Yield one line of Markdown per ε."""
    data = table(name, rows)
    boosting = math.nan
    for at, epsilon in enumerate(epsilons):
        runs = [
            run(data, epsilon, seed, accuracy=accuracy, trees=seed < 2 and not at)
            for seed in range(splits)
        ]
        boosting = float(np.nanmean([each.boosting for each in runs])) if not at else boosting
        gains = np.array([each.pairs - each.additive for each in runs])
        error = float(gains.std(ddof=1) / math.sqrt(splits)) if splits > 1 else math.nan
        times = np.array([each.seconds for each in runs]).mean(axis=0)
        yield (
            f"| {name} | {len(data.y):,} | {epsilon:g} | "
            f"{np.mean([each.additive for each in runs]):.4f} | "
            f"{np.mean([each.pairs for each in runs]):.4f} | {gains.mean():+.4f} ± {error:.4f} | "
            f"{boosting:.4f} | "
            f"{np.mean([each.kept for each in runs]):.1f} | {times[0]:.1f} / {times[1]:.1f} |"
        )


def maps(names: Sequence[str], folder: Path) -> None:
    """Draw the two pairs with the largest numbers of a model of each table, at ε = 3.

    The model is that of the first seed whose fit keeps pairs.
    """
    for name in names:
        data = table(name, None)
        settings: Any = {"features": "pairs", "columns": data.columns}
        settings |= {"delta": len(data.y) ** -2.0}
        if data.regression:
            ends = _rounded(float(data.y.min()), float(data.y.max()))
            model: Any = discreet.LinearRegression(3.0, target_bounds=ends, **settings)
        else:
            model = discreet.LogisticRegression(3.0, classes=[0, 1], **settings)
        for seed in range(10):
            model.set_params(random_state=seed).fit(data.rows, data.y)
            if model.pairs_.terms:
                break
        widest = np.argsort([-np.ptp(term.values) for term in model.pairs_.terms])[:2]
        drawn = model.plot_effects(columns=[model.pairs_.names[at] for at in widest])
        drawn.set_size_inches(10.0, 4.2)
        drawn.savefig(folder / f"pairs-{name}.png", dpi=110)


def cost(name: str, features: str) -> tuple[float, float, float]:
    """Fit twice to all rows; return seconds of the second fit, and megabytes of memory.

    These are the size of the encoded table, and what the peak of the process grew by in the fits.
    """
    warnings.simplefilter("ignore")
    data = table(name, None)
    if isinstance(data.rows, EncodedRows):
        size = data.rows.encoded.nbytes / 2**20
    else:
        size = Design.of(data.rows, data.columns).encode(data.rows).nbytes / 2**20
    settings: Any = {"delta": len(data.y) ** -2.0, "features": features, "columns": data.columns}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = 0.0
    for _ in range(2):
        model = discreet.LogisticRegression(3.0, classes=[0, 1], **settings)
        start = time.process_time()
        model.fit(data.rows, data.y)
        seconds = time.process_time() - start
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return seconds, size, (after - before) / 2**10


def costs(names: Sequence[str]) -> Iterator[str]:
    """Yield a line of Markdown for each table: each fit has a process of its own."""
    yield "| data | encoded table, MB | seconds | ratio | growth of the peak, MB | difference |"
    yield "|---|---:|---:|---:|---:|---:|"
    for name in names:
        found = []
        for features in ("auto", "pairs"):
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                found.append(pool.submit(cost, name, features).result())
        (plain, size, own), (paired, _, more) = found
        yield (
            f"| {name} | {size:.0f} | {plain:.1f} / {paired:.1f} | {paired / plain:.2f} | "
            f"{own:.0f} / {more:.0f} | {(more - own) / size:+.2f} × the table |"
        )


def curves(names: Sequence[str], results: Path, place: Path) -> None:
    """Draw scores over ε by the table of results, and those of DP-EBM of docs/rivals.md."""
    found = [line.split("|")[1:-1] for line in results.read_text("utf-8").splitlines()]
    rows = [[cell.strip() for cell in line] for line in found if len(line) == 9]
    rivals = (ROOT / "docs" / "rivals.md").read_text("utf-8")
    _, _, area = rivals.partition("<!-- auc table -->")
    figure = Figure(figsize=(4.4 * len(names), 3.4), layout="constrained")
    for panel, name in zip(np.ravel(figure.subplots(1, len(names))), names, strict=True):
        own = sorted((float(row[2]), *map(float, row[3:5])) for row in rows if row[0] == name)
        budgets, additive, pairs = zip(*own, strict=True)
        panel.semilogx(budgets, additive, marker="o", label="single columns")
        panel.semilogx(budgets, pairs, marker="o", label="with pairs")
        for line in area.splitlines():
            if line.startswith(f"| {name} | add/remove | DP-EBM"):
                cells = [float(cell.strip(" *").split(" ")[0]) for cell in line.split("|")[5:8]]
                panel.semilogx((0.3, 1.0, 3.0), cells, marker="s", label="DP-EBM")
        boosting = max(float(row[6]) for row in rows if row[0] == name and row[6] != "nan")
        panel.axhline(boosting, color="0.5", linestyle="--", label="boosting, not private")
        panel.set_xticks(budgets, [f"{each:g}" for each in budgets])
        panel.minorticks_off()
        panel.set_xlabel("ε")
        panel.set_ylabel("AUC")
        panel.set_title(name)
    figure.axes[0].legend(fontsize=8)
    figure.savefig(place)


def main() -> None:
    """Print the table, or draw pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["bank", "credit-default", "adult"])
    parser.add_argument("--epsilon", type=float, nargs="*", default=[0.3, 1.0, 3.0])
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--accuracy", action="store_true")
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--maps", type=Path, metavar="FOLDER")
    parser.add_argument("--curves", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.cost:
        for line in costs(arguments.names):
            print(line, flush=True)
        return
    if arguments.maps is not None:
        maps(arguments.names, arguments.maps)
        return
    if arguments.curves is not None:
        curves(arguments.names, ROOT / "bench" / "pairs.md", arguments.curves)
        return
    print("| data | rows | ε | additive | pairs | difference | boosting | kept | CPU seconds |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name in arguments.names:
        own = (arguments.epsilon, arguments.splits, arguments.rows)
        for line in lines(name, *own, accuracy=arguments.accuracy):
            print(line, flush=True)


if __name__ == "__main__":
    main()
