"""Measure the default on all tables and budgets: one command for the tables of docs/auto.md.

    python -m discreet_bench.auto --seeds 10

Splits are 80/20 and seeded; the noise is not. Next to the default there is a model without privacy
on the same columns, standardised: scikit-learn's lbfgs, or least squares.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn import linear_model
from sklearn.metrics import accuracy_score, log_loss, r2_score, roc_auc_score
from sklearn.preprocessing import StandardScaler

from discreet import LinearRegression, LogisticRegression
from discreet_bench.tabular import TABLES, Tabular, tabular

__all__ = ["EPSILONS", "main", "measure"]

EPSILONS = (0.05, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
DELTAS = {"bank": 1e-8, "mobility": 1e-5, "income": 1e-5, "hospital-visits": 1e-9}
"""δ of the tables where it is not 1/n²."""

Scores = dict[str, float]


def _split(table: Tabular, seed: int, rows: int | None) -> tuple[Any, ...]:
    """Return training and test rows and targets."""
    order = np.random.default_rng(1000 + seed).permutation(len(table.y))
    test, train = np.split(order, [len(order) // 5])
    train = train[:rows]
    return table.X[train], table.y[train], table.X[test], table.y[test]


def _scores(model: Any, X: Any, y: NDArray[Any], bounds: tuple[float, float] | None) -> Scores:
    if bounds is not None:
        return {"R²": float(r2_score(y, np.clip(model.predict(X), *bounds)))}
    chances = model.predict_proba(X)
    found = {"accuracy": 100 * float(accuracy_score(y, model.predict(X)))}
    if chances.shape[1] == 2:
        found["AUC"] = float(roc_auc_score(y, chances[:, 1]))
    found["log loss"] = float(log_loss(y, np.clip(chances, 1e-15, 1), labels=model.classes_))
    return found


def measure(
    name: str, epsilons: Sequence[float], seeds: int, rows: int | None = None
) -> Iterator[tuple[str, float | None, Scores]]:
    """Yield (name, ε, scores) of each fit; ε is None without privacy."""
    table = tabular(name)
    settings: dict[str, Any] = {"classes": np.unique(table.y)}
    kind: Any = LogisticRegression
    if table.bounds is not None:
        kind, settings = LinearRegression, {"target_bounds": table.bounds}
    for seed in range(seeds):
        X, y, X_test, y_test = _split(table, seed, rows)
        delta = DELTAS.get(name, len(y) ** -2.0)
        scaler = StandardScaler(with_mean=not sp.issparse(X)).fit(X)
        plain: Any = linear_model.Ridge(1.0)
        if table.bounds is None:
            plain = linear_model.LogisticRegression(max_iter=300)
        standard, start = scaler.transform(X), time.perf_counter()
        plain.fit(standard, y)
        seconds = time.perf_counter() - start
        found = _scores(plain, scaler.transform(X_test), y_test, table.bounds)
        yield name, None, {**found, "seconds": seconds}
        for epsilon in epsilons:
            start = time.perf_counter()
            model = kind(epsilon, delta, **settings).fit(X, y)
            seconds = time.perf_counter() - start
            found = _scores(model, X_test, y_test, table.bounds)
            yield name, epsilon, {**found, "seconds": seconds}


def _line(name: str, epsilon: float | None, runs: Sequence[Scores]) -> str:
    cells = []
    for score in ("accuracy", "AUC", "log loss", "R²", "seconds"):
        values = [run[score] for run in runs if score in run]
        digits = {"accuracy": 2, "seconds": 2}.get(score, 3)
        text = f"{np.mean(values):.{digits}f} ± {np.std(values):.{digits}f}" if values else ""
        cells.append(text.split(" ±")[0] if score == "seconds" else text)
    shown = "not private" if epsilon is None else f"{epsilon:g}"
    return f"| {name} | {shown} | {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: print one Markdown row per table and budget."""
    parser = argparse.ArgumentParser(description="Measure the default on all tables.")
    parser.add_argument("--tables", default=",".join(TABLES), help="names, separated by commas")
    parser.add_argument("--epsilons", default=",".join(f"{each:g}" for each in EPSILONS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rows", type=int, default=None, help="training rows at most")
    asked = parser.parse_args(arguments)
    epsilons = [float(each) for each in asked.epsilons.split(",")]
    warnings.simplefilter("ignore")  # lbfgs stops at 300 iterations on some tables
    print("| data | ε | accuracy | AUC | log loss | R² | seconds |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name in asked.tables.split(","):
        runs = defaultdict(list)
        for _, epsilon, scores in measure(name, epsilons, asked.seeds, asked.rows):
            runs[epsilon].append(scores)
        for epsilon, found in runs.items():
            print(_line(name, epsilon, found), flush=True)


if __name__ == "__main__":
    main()
