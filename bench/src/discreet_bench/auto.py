"""Measure the default on all tables and budgets: table and figure of bench/default.md.

    python -m discreet_bench.auto --seeds 10 --figure curves.svg
    python -m discreet_bench.auto --small --seeds 20

Splits are 80/20 and seeded; the noise is not. The default knows the public bounds of the numeric
columns (``numeric``), where a table has any; "linear" is the same with ``features="linear"``. In
parentheses: a model without privacy on the same features, standardised (scikit-learn's lbfgs or
ridge), or for frequencies the share of the most frequent class and the log loss of frequencies. All
budgets are measured and drawn; ``--printed`` names those that the table shows. ``--small`` measures
generated tables of a few hundred rows instead, against the majority and the mean.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import scipy.sparse as sp
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn import linear_model
from sklearn.metrics import accuracy_score, log_loss, r2_score, roc_auc_score
from sklearn.preprocessing import StandardScaler

from discreet import LinearRegression, LogisticRegression
from discreet.preparation import FeatureMap
from discreet_bench.figures import STYLE
from discreet_bench.tabular import TABLES, Tabular, tabular

__all__ = ["EPSILONS", "KINDS", "curves", "falls", "main", "measure", "small", "small_table"]

EPSILONS = (0.05, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
KINDS = ("linear", "auto")
DELTAS = {"bank": 1e-8, "mobility": 1e-5, "income": 1e-5, "hospital-visits": 1e-9}
"""δ of the tables where it is not 1/n²."""

DIGITS = {"accuracy": 2, "AUC": 4, "log loss": 4, "R²": 3, "seconds": 2}
"""Scores, and the digits that are printed of them."""

FEW = {"mnist": 1, "income": 1, "hospital-visits": 1, "covertype": 1, "reuters": 1, "kddcup99": 2}
"""Largest number of splits of tables that take long."""

DRAWN = ("R²", "AUC", "accuracy")
"""Score of a panel: the first of these that a table has."""

SMALL_ROWS, SMALL_EPSILONS = (200, 500, 1000, 3000), (0.5, 1.0, 3.0)
SMALL_KINDS = ("normal", "units", "long tails", "rare indicators")
"""Sizes, budgets and columns of the small tables; each kind has an easy and a hard target."""

Scores = dict[str, float]
Runs = dict[tuple[str, float | None], list[tuple[Scores, Scores]]]
"""Scores, private and not, of the splits, by kind of features and ε."""


class Split(NamedTuple):
    """Training and test rows and targets; ``bounds`` of the target if it is a number."""

    X: Any
    y: NDArray[Any]
    X_test: Any
    y_test: NDArray[Any]
    bounds: tuple[float, float] | None

    @classmethod
    def of(cls, table: Tabular, seed: int, rows: int | None = None) -> Split:
        """Divide a table by a seed, with at most this many training rows."""
        order = np.random.default_rng(1000 + seed).permutation(len(table.y))
        test, train = np.split(order, [len(order) // 5])
        train = train[:rows]
        return cls(table.X[train], table.y[train], table.X[test], table.y[test], table.bounds)

    def scores(self, model: Any, X: Any) -> Scores:
        """Return the scores of a model on test rows."""
        y, bounds = self.y_test, self.bounds
        if bounds is not None:
            return {"R²": float(r2_score(y, np.clip(model.predict(X), *bounds)))}
        chances = model.predict_proba(X)
        found = {"accuracy": 100 * float(accuracy_score(y, model.predict(X)))}
        if chances.shape[1] == 2:
            found["AUC"] = float(roc_auc_score(y, chances[:, 1]))
        found["log loss"] = float(log_loss(y, np.clip(chances, 1e-15, 1), labels=model.classes_))
        return found

    def plain(self, features: FeatureMap) -> Scores:
        """Return the scores of a model without privacy on standardised features."""
        X, X_test = (features.transform(table) for table in (self.X, self.X_test))
        scaler = StandardScaler(with_mean=not sp.issparse(X)).fit(X)
        model: Any = linear_model.Ridge(1.0)
        if self.bounds is None:
            model = linear_model.LogisticRegression(max_iter=300)
        X, X_test = scaler.transform(X), scaler.transform(X_test)
        start = time.perf_counter()
        model.fit(X, self.y)
        seconds = time.perf_counter() - start
        return {**self.scores(model, X_test), "seconds": seconds}

    def frequencies(self) -> Scores:
        """Return the scores of the classes' frequencies, which no column enters."""
        labels, counts = np.unique(self.y, return_counts=True)
        chances = np.tile(counts / counts.sum(), (len(self.y_test), 1))
        most = 100 * float(np.mean(self.y_test == labels[counts.argmax()]))
        return {"accuracy": most, "log loss": float(log_loss(self.y_test, chances, labels=labels))}


def measure(
    name: str,
    epsilons: Sequence[float],
    seeds: int,
    kinds: Sequence[str] = KINDS,
    rows: int | None = None,
) -> Iterator[tuple[str, float | None, Scores, Scores]]:
    """Yield (features, ε, scores, scores without privacy) of each fit.

    ε is None for frequencies. A table without numeric columns is measured by its first kind.
    """
    table = tabular(name)
    settings: dict[str, Any] = {"classes": np.unique(table.y)}
    estimator: Any = LogisticRegression
    if table.bounds is not None:
        estimator, settings = LinearRegression, {"target_bounds": table.bounds}
    for seed in range(seeds):
        split = Split.of(table, seed, rows)
        delta = DELTAS.get(name, len(split.y) ** -2.0)
        plain: dict[int, Scores] = {}
        if table.bounds is None:
            yield "frequencies", None, split.frequencies(), {}
        for kind in kinds if table.numeric else kinds[:1]:
            for epsilon in epsilons:
                model = estimator(epsilon, delta, features=kind, columns=table.numeric, **settings)
                start = time.perf_counter()
                model.fit(split.X, split.y)
                seconds = time.perf_counter() - start
                found = {**split.scores(model, split.X_test), "seconds": seconds}
                width = np.atleast_2d(model.coef_).shape[1]
                if width not in plain:
                    plain[width] = split.plain(model.features_)
                yield kind, epsilon, found, plain[width]


def small_table(kind: str, hard: bool, rows: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return 10 columns and a target: a line that explains 0.7 (hard: 0.2) of its variance."""
    rng, size = np.random.default_rng(seed), (rows, 10)
    X = rng.standard_normal(size)
    weights = np.random.default_rng(SMALL_KINDS.index(kind)).standard_normal(10)
    score = X @ weights / np.linalg.norm(weights)
    if kind == "units":
        X = (X + 5) * 10.0 ** np.linspace(-3, 3, 10)
    elif kind == "long tails":
        X = np.exp(X)
    elif kind == "rare indicators":
        X = np.where(np.arange(10) < 5, X, np.linspace(0.5, 2.2, 10) < X).astype(np.float64)
    explained = 0.2 if hard else 0.7
    return X, explained**0.5 * score + (1 - explained) ** 0.5 * rng.standard_normal(rows)


def small(seeds: int) -> Iterator[tuple[str, str, bool, int, float, list[float]]]:
    """Yield (task, kind, hard, rows, ε, gains) of small tables, one gain per seed.

    A gain is R², or the accuracy above the majority's in points; a hard target has 20 % positives.
    """
    cells = product((False, True), SMALL_KINDS, (False, True), SMALL_ROWS, SMALL_EPSILONS)
    for numbers, kind, hard, rows, epsilon in cells:
        gains = []
        for seed in range(seeds):
            X, y = small_table(kind, hard, rows, 2 * seed)
            X_test, y_test = small_table(kind, hard, 4000, 2 * seed + 1)
            model: Any = LinearRegression(epsilon, rows**-2.0, target_bounds=(-5.0, 5.0))
            if not numbers:
                limit = 0.84 if hard else 0.0
                y, y_test = y > limit, y_test > limit
                model = LogisticRegression(epsilon, rows**-2.0, classes=[False, True])
            score = model.fit(X, y).score(X_test, y_test)
            majority = max(y_test.mean(), 1 - y_test.mean())
            gains.append(float(score if numbers else 100 * (score - majority)))
        yield ("R²" if numbers else "accuracy"), kind, hard, rows, epsilon, gains


def _cell(score: str, runs: Sequence[tuple[Scores, Scores]]) -> str:
    """Return mean and standard deviation, then the mean without privacy."""
    own = [run[score] for run, _ in runs if score in run]
    plain = [run[score] for _, run in runs if score in run]
    if not own:
        return ""
    text = f"{np.mean(own):.{DIGITS[score]}f}"
    if score != "seconds":
        text += f" ± {np.std(own):.{DIGITS[score]}f}"
    return f"{text} ({np.mean(plain):.{DIGITS[score]}f})" if plain else text


def falls(name: str, runs: Runs) -> Iterator[str]:
    """Yield where a score falls by more than two standard errors between neighbouring budgets.

    The error is that of the mean difference of the same splits.
    """
    for kind in sorted({kind for kind, epsilon in runs if epsilon is not None}):
        cells = [(e, found) for (k, e), found in runs.items() if k == kind and e is not None]
        for (low, before), (high, after) in pairwise(cells):
            score = next(each for each in DRAWN if each in after[0][0])
            change = [b[0][score] - a[0][score] for a, b in zip(before, after, strict=True)]
            fall, splits = -float(np.mean(change)), len(change)
            if splits > 1 and fall > 2 * np.std(change, ddof=1) / splits**0.5:
                yield f"{name} ({kind}): {score} −{fall:.4f} from ε = {low:g} to {high:g}"


def curves(tables: Mapping[str, Runs]) -> Figure:
    """Draw the score of each table against ε: private (mean, range of splits) and not private."""
    columns = 4
    rows = -(-len(tables) // columns)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 1.75 * rows + 0.4), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        for panel, (name, runs) in zip(panels, tables.items(), strict=False):
            _panel(panel, name, runs)
        for panel in panels[len(tables) :]:
            panel.set_axis_off()
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=3, frameon=False)
    return figure


def _panel(panel: Axes, name: str, runs: Runs) -> None:
    """Draw the curves of one table, of the last kind of features that it has."""
    kind = [kind for kind, epsilon in runs if epsilon is not None][-1]
    cells = {e: found for (k, e), found in runs.items() if k == kind and e is not None}
    score = next(each for each in DRAWN if each in next(iter(cells.values()))[0][0])
    own = np.array([[run[score] for run, _ in found] for found in cells.values()])
    plain = [np.mean([run[score] for _, run in found]) for found in cells.values()]
    at = list(cells)
    panel.plot(at, plain, color="#777777", linestyle="--", linewidth=1.0, label="not private")
    panel.fill_between(at, own.min(1), own.max(1), color="#1f5fa8", alpha=0.2, linewidth=0)
    panel.plot(at, own.mean(1), color="#1f5fa8", marker="o", markersize=2.5, label="default")
    constant = runs.get(("frequencies", None))
    if constant and score == "accuracy":
        least = np.mean([run[score] for run, _ in constant])
        panel.axhline(float(least), color="#b0b0b0", linestyle=":", linewidth=1.0)
    panel.set_xscale("log")
    panel.set_title(f"{name}: {score}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: print one Markdown row per table, kind of features and budget."""
    parser = argparse.ArgumentParser(description="Measure the default on all tables.")
    parser.add_argument("--tables", default=",".join(TABLES), help="names, separated by commas")
    parser.add_argument("--epsilons", default=",".join(f"{each:g}" for each in EPSILONS))
    parser.add_argument("--features", default=",".join(KINDS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rows", type=int, default=None, help="training rows at most")
    parser.add_argument("--printed", help="budgets that the table shows; by default all")
    parser.add_argument("--small", action="store_true", help="small generated tables instead")
    parser.add_argument("--figure", type=Path, help="file for the curves, for example curves.svg")
    asked = parser.parse_args(arguments)
    epsilons = [float(each) for each in asked.epsilons.split(",")]
    warnings.simplefilter("ignore")  # lbfgs stops at 300 iterations on some tables
    if asked.small:
        _print_small(asked.seeds)
        return
    printed = {float(each) for each in (asked.printed or asked.epsilons).split(",")}
    print(f"| data | features | splits | ε | {' | '.join(DIGITS)} |")
    print("|---|---|---:|---:|" + "---:|" * len(DIGITS))
    tables: dict[str, Runs] = {}
    for name in asked.tables.split(","):
        runs: Runs = defaultdict(list)
        seeds = min(asked.seeds, FEW.get(name, asked.seeds))
        for kind, epsilon, own, plain in measure(
            name, epsilons, seeds, asked.features.split(","), asked.rows
        ):
            runs[kind, epsilon].append((own, plain))
        tables[name] = runs
        for (kind, epsilon), found in runs.items():
            if epsilon is None or epsilon in printed:
                shown = "–" if epsilon is None else f"{epsilon:g}"
                cells = " | ".join(_cell(score, found) for score in DIGITS)
                print(f"| {name} | {kind} | {len(found)} | {shown} | {cells} |", flush=True)
        if asked.figure is not None:
            _save(curves(tables), asked.figure)
    print()
    for line in (line for name, runs in tables.items() for line in falls(name, runs)):
        print(f"- {line}")


def _print_small(seeds: int) -> None:
    """Print the least mean gain of the small tables, and the least of single fits."""
    print("| score | rows | ε | least mean | table | least fit |")
    print("|---|---:|---:|---:|---|---:|")
    cells: dict[tuple[str, int, float], list[tuple[float, float, str]]] = defaultdict(list)
    for score, kind, hard, rows, epsilon, gains in small(seeds):
        name = f"{kind}, {'hard' if hard else 'easy'}"
        cells[score, rows, epsilon].append((float(np.mean(gains)), min(gains), name))
    for (score, rows, epsilon), found in cells.items():
        mean, _, name = min(found)
        fit = min(each[1] for each in found)
        digits = DIGITS[score]
        print(f"| {score} | {rows} | {epsilon:g} | {mean:.{digits}f} | {name} | {fit:.{digits}f} |")


def _save(figure: Figure, path: Path) -> None:
    """Write the figure; the same numbers give the same file."""
    metadata = {"Date": None} if path.suffix == ".svg" else None
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": path.stem}):
        figure.savefig(path, dpi=150, metadata=metadata)


if __name__ == "__main__":
    main()
