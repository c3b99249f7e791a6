"""Count how often the weight of a rare column is dropped, by the number of rows that carry it.

Run: python -m bench.studies.rare_columns [--fits 60] [--rows 20000]

Each generated table has five normal columns, four common categories and one indicator for each
number of rows in `CARRIED`, which moves the score by 1 (a logit, or a standard deviation of the
residuals). The default is fitted with nothing set but the budget. A weight of exactly 0 was
dropped: a new row that carries the column is then scored as the average.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet import LinearRegression, LogisticRegression

CARRIED = (0, 25, 50, 100, 200, 400)
EPSILONS = (0.3, 1.0, 3.0, 10.0)


def table(rows: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return columns and scores; the last columns are carried by `CARRIED` rows each."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(rows, 5))
    ward = rng.choice(4, size=rows, p=[0.5, 0.3, 0.15, 0.05])
    rare = np.zeros((rows, len(CARRIED)))
    for column, count in enumerate(CARRIED):
        rare[rng.permutation(rows)[:count], column] = 1.0
    score = numbers @ [0.8, -0.5, 0.3, 0.0, 0.0] + np.array([0.0, 0.4, -0.4, 0.8])[ward]
    return np.column_stack([numbers, ward[:, None] == np.arange(4), rare]), score + rare.sum(1)


def dropped(kind: str, epsilon: float, rows: int, seed: int) -> NDArray[np.bool_]:
    """Fit one table and return which rare columns have no weight."""
    X, score = table(rows, seed)
    rng = np.random.default_rng(seed + 10**6)
    model: Any = LinearRegression(epsilon, 1e-6, target_bounds=(-6, 6))
    y = score + rng.normal(size=rows)
    if kind == "classes":
        model = LogisticRegression(epsilon, 1e-6, classes=[False, True])
        y = score + rng.logistic(size=rows) > 0.3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weights = np.ravel(model.fit(X, y).coef_)
    return weights[-len(CARRIED) :] == 0


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=60)
    parser.add_argument("--rows", type=int, default=20_000)
    arguments = parser.parse_args()
    print("| model | ε |", " | ".join(f"{count} rows" for count in CARRIED), "|")
    print("|---|---" + "|---" * len(CARRIED) + "|")
    for kind in ("classes", "numbers"):
        for epsilon in EPSILONS:
            runs = [dropped(kind, epsilon, arguments.rows, s) for s in range(arguments.fits)]
            shares = (f"{share:.0%}" for share in np.mean(runs, axis=0))
            print(f"| {kind} | {epsilon:g} |", " | ".join(shares), "|", flush=True)


if __name__ == "__main__":
    main()
