"""Measure the default on all tables and budgets: one command for the tables of docs/auto.md.

    python -m discreet_bench.auto --seeds 10

Splits are 80/20 and seeded; the noise is not. The default knows the public bounds of the numeric
columns (``numeric``), where a table has any; "linear" is the same with ``features="linear"``. In
parentheses: a model without privacy on the same features, standardised (scikit-learn's lbfgs or
ridge). Each table ends with the share of the most frequent class and the log loss of frequencies.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn import linear_model
from sklearn.metrics import accuracy_score, log_loss, r2_score, roc_auc_score
from sklearn.preprocessing import StandardScaler

from discreet import LinearRegression, LogisticRegression
from discreet.preparation import FeatureMap
from discreet_bench.tabular import TABLES, Tabular, tabular

__all__ = ["EPSILONS", "KINDS", "main", "measure"]

EPSILONS = (0.05, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
KINDS = ("linear", "auto")
DELTAS = {"bank": 1e-8, "mobility": 1e-5, "income": 1e-5, "hospital-visits": 1e-9}
"""δ of the tables where it is not 1/n²."""

DIGITS = {"accuracy": 2, "AUC": 4, "log loss": 4, "R²": 3, "seconds": 2}
"""Scores, and the digits that are printed of them."""

Scores = dict[str, float]


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
                model = estimator(epsilon, delta, features=kind, numeric=table.numeric, **settings)
                start = time.perf_counter()
                model.fit(split.X, split.y)
                seconds = time.perf_counter() - start
                found = {**split.scores(model, split.X_test), "seconds": seconds}
                width = np.atleast_2d(model.coef_).shape[1]
                if width not in plain:
                    plain[width] = split.plain(model.features_)
                yield kind, epsilon, found, plain[width]


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


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: print one Markdown row per table, kind of features and budget."""
    parser = argparse.ArgumentParser(description="Measure the default on all tables.")
    parser.add_argument("--tables", default=",".join(TABLES), help="names, separated by commas")
    parser.add_argument("--epsilons", default=",".join(f"{each:g}" for each in EPSILONS))
    parser.add_argument("--features", default=",".join(KINDS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rows", type=int, default=None, help="training rows at most")
    asked = parser.parse_args(arguments)
    epsilons = [float(each) for each in asked.epsilons.split(",")]
    warnings.simplefilter("ignore")  # lbfgs stops at 300 iterations on some tables
    print(f"| data | features | ε | {' | '.join(DIGITS)} |")
    print("|---|---|---:|" + "---:|" * len(DIGITS))
    for name in asked.tables.split(","):
        runs = defaultdict(list)
        fits = measure(name, epsilons, asked.seeds, asked.features.split(","), asked.rows)
        for kind, epsilon, *scores in fits:
            runs[kind, epsilon].append(tuple(scores))
        for (kind, epsilon), found in runs.items():
            shown = "–" if epsilon is None else f"{epsilon:g}"
            cells = " | ".join(_cell(score, found) for score in DIGITS)
            print(f"| {name} | {kind} | {shown} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
