"""Speed and memory of discreet against plain NumPy, as ratios measured in one run.

Machines differ and are noisy, so every bar is a ratio, or a generous absolute time for noise.
Run with ``make bench-speed``; exits with 1 if a bar is missed.
"""

from __future__ import annotations

import itertools
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from benchmarks import noise_speed
from rich.console import Console
from rich.table import Table

from discreet import AGD, LogisticRegression

ITERATIONS = 40


@dataclass(frozen=True)
class Line:
    """One measured figure and what it is held to."""

    what: str
    measured: float
    bar: float
    unit: str
    at_most: bool = True

    @property
    def met(self) -> bool:
        """Whether the bar is met."""
        return self.measured <= self.bar if self.at_most else self.measured >= self.bar


def clock(work: Callable[[], object], repeats: int) -> float:
    """Median seconds of a call, after one to warm up."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def table(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Dense rows and labels that depend on them."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n, d))
    return X, (X @ rng.normal(size=d) > 0).astype(int)


def iteration_seconds(X: object, y: np.ndarray, iterations: int = ITERATIONS) -> float:
    """Median seconds of one DP-AGD iteration (gradient, 21 candidates, secure noise) in a fit."""
    stamps: list[tuple[float, int]] = []
    model = LogisticRegression(
        epsilon=1.0,
        delta=1e-8,
        classes=[0, 1],
        solver=AGD(max_iterations=iterations, splits=2 * iterations),
        progress=lambda at: stamps.append((time.perf_counter(), at.entry.refinements)),
    )
    model.fit(X, y)
    times = [
        now - before
        for (before, _), (now, refinements) in itertools.pairwise(stamps)
        if refinements == 0
    ]
    return float(np.median(times))


def product_seconds(X: np.ndarray, repeats: int = 15) -> float:
    """Seconds of one ``X @ v`` plus one ``X.T @ r`` in NumPy."""
    rng = np.random.default_rng(1)
    v, r = rng.normal(size=X.shape[1]), rng.normal(size=X.shape[0])
    return clock(lambda: X @ v, repeats) + clock(lambda: X.T @ r, repeats)


def iteration_against_numpy() -> list[Line]:
    """One iteration on 39,000 × 105, in units of the two products that nobody can avoid."""
    X, y = table(39_000, 105)
    iteration_seconds(X, y, 3)  # compile
    ratios = [iteration_seconds(X, y) / product_seconds(X) for _ in range(5)]
    return [Line("DP-AGD iteration / (X @ v + X.T @ r), 39,000 × 105", np.median(ratios), 3, "×")]


def growth() -> list[Line]:
    """Seconds per row at 10^6 rows against 10^4 rows."""
    seconds = {}
    for n in (10_000, 100_000, 1_000_000):
        X, y = table(n, 105)
        seconds[n] = min(iteration_seconds(X, y) for _ in range(3)) / n
        del X
    return [
        Line("time per row, 10^5 against 10^4 rows", seconds[100_000] / seconds[10_000], 1.2, "×"),
        Line(
            "time per row, 10^6 against 10^4 rows", seconds[1_000_000] / seconds[10_000], 1.2, "×"
        ),
    ]


def peak_memory() -> list[Line]:
    """Peak memory while fitting, X included, in units of the size of X."""
    lines = []
    X, y = table(100_000, 105)
    sparse = sp.random_array((100_000, 5_000), density=0.02, format="csr", rng=0)
    size = sparse.data.nbytes + sparse.indices.nbytes + sparse.indptr.nbytes
    for what, rows, nbytes in (("float64", X, X.nbytes), ("CSR", sparse, size)):
        model = LogisticRegression(classes=[0, 1], solver=AGD(max_iterations=5))
        model.fit(rows, y)
        tracemalloc.start()
        model.fit(rows, y)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        lines.append(Line(f"peak memory of a fit / size of X, {what}", 1 + peak / nbytes, 1.3, "×"))
    return lines


def sparse_against_dense() -> list[Line]:
    """The same rows dense and as CSR: 1 % non-zeros, 20,000 columns."""
    n = 6_000
    sparse = sp.random_array((n, 20_000), density=0.01, format="csr", rng=0)
    y = np.arange(n) % 2
    dense = sparse.toarray()
    iteration_seconds(sparse, y, 3)
    ratio = iteration_seconds(dense, y, 12) / iteration_seconds(sparse, y, 12)
    return [Line("dense / CSR iteration, 1 % of 20,000 columns", ratio, 10, "×", at_most=False)]


def noise() -> list[Line]:
    """Secure noise: microseconds a value and a call."""
    return [Line(what, measured, bar, "µs") for what, measured, bar in noise_speed.measure()]


def main() -> int:
    """Measure everything and print the table."""
    warnings.simplefilter("ignore")
    lines: list[Line] = []
    console = Console()
    for part in (iteration_against_numpy, growth, peak_memory, sparse_against_dense, noise):
        with console.status(part.__doc__.splitlines()[0]):
            lines += part()
    shown = Table(title="discreet: speed and memory")
    for name, justify in (("what", "left"), ("measured", "right"), ("bar", "right"), ("", "left")):
        shown.add_column(name, justify=justify)
    for line in lines:
        sign = "≤" if line.at_most else "≥"
        shown.add_row(
            line.what,
            f"{line.measured:.3g} {line.unit}",
            f"{sign} {line.bar:g} {line.unit}",
            "met" if line.met else "MISSED",
        )
    console.print(shown)
    return 0 if all(line.met for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
