"""How fast the sums over rows are, against plain numpy products in the same process.

Run with ``python benchmarks/rows_speed.py``. Every line shows a ratio and its bar: a bar below
10 is an upper bound ("at most"), the sparse bar of 10 a lower bound ("at least").
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import numpy as np
import scipy.sparse as sp

from discreet.objectives import Logistic
from discreet.rows import Rows, as_rows

STEPS = np.linspace(0, 2, 21)


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Median time of one call."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return median(times)


def table(n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(1)
    X = generator.standard_normal((n_rows, n_features))
    X /= np.sqrt(n_features)
    return X, np.where(generator.random(n_rows) < 0.5, -1.0, 1.0)


def iteration(rows: Rows) -> Callable[[], object]:
    """One step of a descent with line search: a gradient at remembered margins, then a new line."""
    generator = np.random.default_rng(2)
    weights, direction, other = generator.standard_normal((3, rows.n_parameters))
    state = [weights, direction, other]

    def step() -> None:
        loss, clip = Logistic(), 3.0
        weights, direction, other = state
        rows.gradient_sum(weights, loss, clip)
        rows.line_losses(weights, direction, STEPS, loss, clip)
        state[:] = weights - STEPS[1] * direction, other, -direction

    return step


def products(X: np.ndarray) -> Callable[[], object]:
    """The two products that an iteration cannot do without."""
    n_rows, n_features = X.shape
    v, r = np.ones(n_features), np.ones(n_rows)
    return lambda: (X @ v, X.T @ r)


def measure() -> list[tuple[str, float, float]]:
    """Return (name, measured ratio, bar) for every bar."""
    results = []
    X, y = table(39_000, 105)
    ours, plain = iteration(as_rows(X, y)), products(X)
    pairs = [(seconds(ours, 5), seconds(plain, 5)) for _ in range(9)]
    ratio = median(a for a, _ in pairs) / median(b for _, b in pairs)
    results.append(("iteration / two numpy products, 39,000 x 105", ratio, 2.0))

    per_row, per_row_plain = [], []
    X, y = table(1_000_000, 105)
    for n_rows in (10_000, 100_000, 1_000_000):
        part, targets = X[:n_rows], y[:n_rows]
        repeats = max(5, 200_000 // n_rows)
        per_row.append(seconds(iteration(as_rows(part, targets)), repeats) / n_rows)
        per_row_plain.append(seconds(products(part), repeats) / n_rows)
    growth, growth_plain = (max(t) / min(t) for t in (per_row, per_row_plain))
    results.append(("time per row, slowest / fastest of 10^4 to 10^6 rows", growth, 1.2))
    results.append(("the same over numpy's own products' growth", growth / growth_plain, 1.2))
    del X, part

    sparse = sp.random_array((2_000, 20_000), density=0.01, format="csr", rng=3)
    y = np.where(np.random.default_rng(4).random(2_000) < 0.5, -1.0, 1.0)
    slow = seconds(iteration(as_rows(sparse.toarray(), y)), 5)
    fast = seconds(iteration(as_rows(sparse, y)), 15)
    results.append(("dense / CSR with 1 % non-zeros, 20,000 columns", slow / fast, 10.0))
    return results


if __name__ == "__main__":
    for name, ratio, bar in measure():
        print(f"{name:60} {ratio:7.2f}  (bar {bar:g})")
