"""Time of a Frank–Wolfe step on a large sparse table, against scipy's product ``X.T @ r``.

Run with ``python -m bench.studies.frank_wolfe_speed``. Prints the best of several runs of each, taken
in turns, and their ratio.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import scipy.sparse as sp

from discreet.core import Account, Budget, Curator, ExponentialMechanism
from discreet.core.noise import Noise
from discreet.objectives import Logistic
from discreet.rows import as_rows


def make_table(n_rows: int, n_features: int, per_row: int) -> tuple[sp.csr_array, np.ndarray]:
    """Return a random CSR matrix with about ``per_row`` entries a row, and labels ±1."""
    rng = np.random.default_rng(0)
    columns = np.sort(rng.integers(n_features, size=(n_rows, per_row)), axis=1).ravel()
    pointers = np.arange(0, columns.size + 1, per_row)
    X = sp.csr_array((rng.random(columns.size), columns, pointers), shape=(n_rows, n_features))
    X.sum_duplicates()
    return X, np.where(rng.random(n_rows) < 0.5, 1.0, -1.0)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--features", type=int, default=47_000)
    parser.add_argument("--per-row", type=int, default=75)
    parser.add_argument("--repeats", type=int, default=15)
    settings = parser.parse_args()
    X, y = make_table(settings.rows, settings.features, settings.per_row)
    rows = as_rows(X, y)
    curator = Curator(rows, Account(Budget(1.0, 1e-9, "replace_one")), Noise())
    curator.open("zcdp")
    mechanism = ExponentialMechanism(1e-3, monotone=False)
    weights = np.zeros(rows.n_parameters)
    residuals = np.random.default_rng(1).normal(size=settings.rows)

    def step() -> None:
        nonlocal weights
        coordinate, sign = curator.choose_corner(
            Logistic(),
            weights,
            clip=1.0,
            public_gradient=np.zeros(weights.size),
            mechanism=mechanism,
        )
        weights = 0.9 * weights
        weights[coordinate] += sign

    step()  # compiles
    step_times, product_times = [], []
    for _ in range(settings.repeats):
        start = time.perf_counter()
        step()
        middle = time.perf_counter()
        X.T @ residuals
        product_times.append(time.perf_counter() - middle)
        step_times.append(middle - start)
    step_time, product_time = min(step_times), min(product_times)
    print(f"{settings.rows} x {settings.features}, {X.nnz} entries")
    print(f"step     {1e3 * step_time:8.2f} ms")
    print(f"X.T @ r  {1e3 * product_time:8.2f} ms")
    print(f"ratio    {step_time / product_time:8.2f}")


if __name__ == "__main__":
    main()
