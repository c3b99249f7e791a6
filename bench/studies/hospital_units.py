"""Hospital visits at person level: area under the curve and cost of `fit(X, y, groups=patients)`.

UCI's "Diabetes 130-US hospitals" has 101,766 visits of 71,518 patients. The target is any
readmission. Columns have public bounds or public categories, without diagnosis codes; 80 % of the
patients are for the fit. Run with the path of ``diabetic_data.csv`` (or ``.csv.xz``):

    python -m bench.studies.hospital_units diabetic_data.csv.xz --seeds 5
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupShuffleSplit

from discreet import LogisticRegression
from discreet.errors import PrivacyLeakWarning

BUDGETS = (0.1, 0.3, 1.0, 3.0)
BARS = (0.635, 0.667, 0.677, 0.682)
DELTA = 1e-9

NUMBERS = {
    "time_in_hospital": (1, 14),
    "num_lab_procedures": (0, 120),
    "num_procedures": (0, 6),
    "num_medications": (0, 60),
    "number_outpatient": (0, 5),
    "number_emergency": (0, 5),
    "number_inpatient": (0, 5),
    "number_diagnoses": (1, 9),
}
"""Columns of numbers and their public bounds: the hospital's own scales, or common sense."""

LEFT_OUT = ("encounter_id", "patient_nbr", "readmitted", "weight", "diag_1", "diag_2", "diag_3")


def read(path: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the encoded table, the target and the patients."""
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    columns = []
    for name, (low, high) in NUMBERS.items():
        values = np.clip(table[name].to_numpy(dtype=float), low, high)
        columns.append(((values - low) / (high - low))[:, None])
    for name in table.columns:
        if name not in NUMBERS and name not in LEFT_OUT:
            codes, categories = pd.factorize(table[name], sort=True)
            columns.append(np.eye(len(categories))[codes])
    target = (table["readmitted"] != "NO").to_numpy(dtype=int)
    X = np.ascontiguousarray(np.hstack(columns), dtype=np.float64)
    return X, target, table["patient_nbr"].to_numpy(dtype=np.int64)


def model(epsilon: float, **settings: Any) -> LogisticRegression:
    """Return the default model with this budget."""
    return LogisticRegression(epsilon=epsilon, delta=DELTA, classes=[0, 1], **settings)


def accuracy(X: np.ndarray, y: np.ndarray, ids: np.ndarray, seeds: int) -> None:
    """Print the mean area under the curve at each budget, with and without groups."""
    kinds = ("people (groups)", "people, k = 2", "rows (no groups)")
    found = {(kind, epsilon): [] for kind in kinds for epsilon in BUDGETS}
    for seed in range(seeds):
        split = GroupShuffleSplit(1, test_size=0.2, random_state=seed)
        train, test = next(split.split(X, y, ids))
        for kind, epsilon in found:
            settings = {"rows_per_unit": 2} if kind.endswith("2") else {}
            groups = None if kind.startswith("rows") else ids[train]
            fitted = model(epsilon, **settings).fit(X[train], y[train], groups)
            score = roc_auc_score(y[test], fitted.decision_function(X[test]))
            found[kind, epsilon].append(score)
    print(f"| unit | {' | '.join(f'ε = {epsilon:g}' for epsilon in BUDGETS)} |")
    print("|---|" + "---:|" * len(BUDGETS))
    for kind in kinds:
        scores = [found[kind, epsilon] for epsilon in BUDGETS]
        cells = [f"{np.mean(own):.3f} ± {np.std(own) / np.sqrt(len(own)):.3f}" for own in scores]
        print(f"| {kind} | {' | '.join(cells)} |")
    print(f"| bar | {' | '.join(f'{bar:.3f}' for bar in BARS)} |")


def cost(X: np.ndarray, y: np.ndarray, ids: np.ndarray, repeats: int = 5) -> None:
    """Print the time of a fit with groups over that without, and the extra memory per row."""
    times: dict[bool, list[float]] = {False: [], True: []}
    peaks = {}
    for _ in range(repeats):
        for grouped in times:
            start = time.perf_counter()
            model(1.0).fit(X, y, ids if grouped else None)
            times[grouped].append(time.perf_counter() - start)
    for grouped in times:
        tracemalloc.start()
        model(1.0).fit(X, y, ids if grouped else None)
        peaks[grouped] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    with_groups, without = min(times[True]), min(times[False])
    print(f"fit: {without:.3f} s, with groups {with_groups:.3f} s: {with_groups / without:.2f} ×")
    print(f"extra memory: {(peaks[True] - peaks[False]) / len(y):.1f} bytes per row")


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("path")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    X, y, ids = read(options.path)
    people = len(np.unique(ids))
    print(f"{len(X):,} rows of {people:,} people, {X.shape[1]} columns, {options.seeds} splits")
    cost(X, y, ids)
    accuracy(X, y, ids, options.seeds)


if __name__ == "__main__":
    main()
