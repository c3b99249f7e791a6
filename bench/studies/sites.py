"""Fits over sites by trust model, against pooled rows: area under the curve, time and traffic.

Adult and UCI's "Diabetes 130-US hospitals" are divided at random among K = 10 sites, 80 % of the
rows for the fit, by the real protocol in one process. Run with the folder of the data sets:

    python -m bench.studies.sites DATA --seeds 10
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from bench.studies.hospital_units import read
from discreet import LogisticRegression
from discreet.sites import Federation
from discreet_bench import datasets

BUDGETS = (0.1, 1.0)
DELTA = 1e-6
SITES = 10

SCHEMES: dict[str, dict[str, Any]] = {
    "rows pooled": {},
    "trusted aggregator": {"trust": "aggregator"},
    "secure sum, t = 1": {"trust": "secure", "colluding": 1},
    "secure sum, t = 5": {"trust": "secure", "colluding": 5},
    "each site adds all noise": {"trust": "local"},
    "one site alone": {},
}


def tables(folder: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return both tables, as numbers."""
    adult = datasets.load("adult", data_dir=folder, sparse=False)
    labels = np.unique(adult.y)
    X, y, _ = read(str(folder / "hospital-visits" / "diabetic_data.csv.xz"))
    return {"adult": (adult.X, (adult.y == labels[1]).astype(int)), "hospital visits": (X, y)}


def score(scheme: str, X: Any, y: Any, epsilon: float, seed: int) -> dict[str, float]:
    """Fit by a scheme to 80 % of the rows; return what was measured."""
    train, test = train_test_split(np.arange(len(y)), test_size=0.2, random_state=seed)
    parts = [(X[part], y[part]) for part in np.array_split(train, SITES)]
    model = LogisticRegression(epsilon=epsilon, delta=DELTA, classes=[0, 1])
    start = time.perf_counter()
    found = {"questions": 0.0, "rounds": 0.0, "bytes": 0.0}
    if scheme == "rows pooled":
        model.fit(X[train], y[train])
    elif scheme == "one site alone":
        model.fit(*parts[0])
    else:
        federation = Federation(parts, **SCHEMES[scheme])
        model.fit(*federation.open())
        traffic = federation.traffic
        found = {
            "questions": traffic.questions,
            "rounds": traffic.rounds,
            "bytes": traffic.sent + traffic.received,
        }
    found["seconds"] = time.perf_counter() - start
    found["auc"] = roc_auc_score(y[test], model.decision_function(X[test]))
    return found


def main() -> None:
    """Print a table for each data set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=10)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    for name, (X, y) in tables(chosen.folder).items():
        print(f"\n{name}: {X.shape[0]:,} rows, {X.shape[1]} columns, {chosen.seeds} splits")
        print("| scheme | ε | AUC | standard error | questions | rounds | MB | seconds |")
        print("|---|---:|---:|---:|---:|---:|---:|---:|")
        for epsilon in BUDGETS:
            for scheme in SCHEMES:
                runs = defaultdict(list)
                for seed in range(chosen.seeds):
                    for key, value in score(scheme, X, y, epsilon, seed).items():
                        runs[key].append(value)
                mean = {key: float(np.mean(values)) for key, values in runs.items()}
                error = float(np.std(runs["auc"], ddof=1) / np.sqrt(chosen.seeds))
                print(
                    f"| {scheme} | {epsilon:g} | {mean['auc']:.4f} | {error:.4f} | "
                    f"{mean['questions']:.0f} | {mean['rounds']:.0f} | "
                    f"{mean['bytes'] / 1e6:.1f} | {mean['seconds']:.1f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
