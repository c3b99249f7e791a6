"""Measure linear, additive and kernel features on named data sets: the tables of docs/features.md.

Each row is a data set and an ε: mean and standard deviation over 80/20 splits, δ = 1/n². The score
is the AUC for two classes, accuracy for more, R² for numbers. ``same`` is the model without privacy
on the features that "auto" has at that ε.

    python -m bench.studies.features adult bank line curves interaction
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LinearRegression as Plain
from sklearn.linear_model import LogisticRegression as PlainLogistic
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score
from sklearn.preprocessing import StandardScaler

import discreet
from discreet_bench.datasets import load
from discreet_bench.datasets.catalogue import schema

KINDS = ("linear", "auto", "kernel")
ROWS = 60_000
"""Rows of a data set that are used, drawn at random by the seed."""


class Generated(NamedTuple):
    """A table of eight even columns, of which a line, curves or an interaction make the labels."""

    X: Any
    y: Any

    @classmethod
    def of(cls, name: str) -> Generated:
        """Draw 25,000 rows from a public seed."""
        rng = np.random.default_rng(0)
        X = rng.random((25_000, 8)).astype(np.float32)
        weights = rng.normal(size=8)
        scores = {
            "line": 3 * (X - 0.5) @ weights,
            "curves": 1.5 * np.sin(7 * X + 6 * rng.random(8)) @ weights,
            "interaction": 6 * np.sin(6 * X[:, 0]) * np.cos(5 * X[:, 1]) + 4 * X[:, 2] - 2,
        }[name]
        return cls(X, (scores - scores.mean() + rng.logistic(size=25_000) > 0).astype(int))


GENERATED = ("line", "curves", "interaction")


def split(data: Any, seed: int) -> tuple[Any, Any, Any, Any]:
    """Return 80 % of at most `ROWS` rows for the fit, and the others."""
    order = np.random.default_rng(seed).permutation(len(data.y))[:ROWS]
    cut = int(0.8 * len(order))
    X = data.X.tocsr() if hasattr(data.X, "tocsr") else data.X
    return X[order[:cut]], X[order[cut:]], data.y[order[:cut]], data.y[order[cut:]]


def score(model: Any, X: Any, y: Any, n_classes: int) -> float:
    """Return AUC, accuracy or R²."""
    if n_classes == 0:
        return float(r2_score(y, model.predict(X)))
    if n_classes == 2:
        return float(roc_auc_score(y, model.decision_function(X)))
    return float(accuracy_score(y, model.predict(X)))


def plain(features: Any, parts: Any, n_classes: int) -> float:
    """Return the score of a model without privacy on the same features."""
    X, Z, y, z = parts
    X, Z = (features.transform(table) for table in (X, Z))
    X, Z = (table.toarray() if hasattr(table, "toarray") else table for table in (X, Z))
    scaler = StandardScaler().fit(X)
    model = Plain() if n_classes == 0 else PlainLogistic(max_iter=300)
    return score(model.fit(scaler.transform(X), y), scaler.transform(Z), z, n_classes)


def rows(name: str, epsilons: list[float], splits: int) -> Any:
    """Yield one line of Markdown per ε."""
    if name in GENERATED:
        data, numeric = Generated.of(name), dict.fromkeys(range(8), (0.0, 1.0))
    else:
        data, numeric = load(name), schema(name).numeric
    labels = np.unique(data.y)
    n_classes = 0 if data.y.dtype.kind == "f" else len(labels)
    for epsilon in epsilons:
        found: dict[str, list[float]] = {kind: [] for kind in (*KINDS, "same")}
        seconds, widths = dict.fromkeys(KINDS, 0.0), {}
        for seed in range(splits):
            parts = X, Z, y, z = split(data, seed)
            for kind in KINDS:
                settings = {"delta": len(y) ** -2.0, "features": kind, "columns": numeric}
                if n_classes:
                    model: Any = discreet.LogisticRegression(epsilon, classes=labels, **settings)
                else:
                    ends = (float(labels[0]), float(labels[-1]))
                    model = discreet.LinearRegression(epsilon, target_bounds=ends, **settings)
                start = time.process_time()
                model.fit(X, y)
                seconds[kind] += (time.process_time() - start) / splits
                widths[kind] = np.atleast_2d(model.coef_).shape[1]
                found[kind].append(score(model, Z, z, n_classes))
                if kind == "auto":
                    found["same"].append(plain(model.features_, parts, n_classes))
        cells = [f"{np.mean(v):.3f} ± {np.std(v):.3f}" for v in found.values()]
        sizes = "/".join(str(widths[kind]) for kind in KINDS)
        times = "/".join(f"{seconds[kind]:.1f}" for kind in KINDS)
        yield f"| {name} | {epsilon:g} | {' | '.join(cells)} | {sizes} | {times} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["adult", "bank", "credit-default"])
    parser.add_argument("--epsilon", type=float, nargs="*", default=[0.1, 1.0, 10.0])
    parser.add_argument("--splits", type=int, default=3)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| data | ε | linear | auto | kernel | auto, not private | features | CPU seconds |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name in arguments.names:
        for line in rows(name, arguments.epsilon, arguments.splits):
            print(line, flush=True)


if __name__ == "__main__":
    main()
