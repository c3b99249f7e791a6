"""Speed and memory of discreet against NumPy, SciPy and pandas, as ratios from one run.

    python -m discreet_bench.speed [PART …] [--rows 5000000]

Machines differ and are noisy, so bars are ratios where that is possible. Work inside a fit is
measured by the difference between a longer and a shorter fit. The exit code is 1 if a bar is
missed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from discreet import LogisticRegression
from discreet.core.noise import Noise
from discreet.solvers import AGD, AMP, FrankWolfe, LaplaceSGD, ObjPert, PermutationSGD
from discreet.tables import Categorical, FileFormat, Numeric, Schema, read
from discreet_bench import datasets
from discreet_bench.measures import peak_memory

__all__ = ["PARTS", "Line", "main"]

ROWS, COLUMNS = 39_000, 105
CHUNK = 100_000
CLASSES = ("<=50K", ">50K")


@dataclass(frozen=True)
class Line:
    """A measured value and its bar."""

    what: str
    measured: float
    bar: float
    unit: str = "×"
    at_most: bool = True

    @property
    def met(self) -> bool:
        """Tell whether the bar is met."""
        return self.measured <= self.bar if self.at_most else self.measured >= self.bar


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """Return the shortest time of a call, after one to warm up."""
    work()
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def dense(n: int, d: int = COLUMNS) -> tuple[NDArray[Any], NDArray[Any]]:
    """Make dense rows and labels that depend on them."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(n, d)) / np.sqrt(d)
    return X, (X @ rng.normal(size=d) > 0).astype(int)


def sparse(n: int, d: int, per_row: int) -> tuple[sp.csr_array, NDArray[Any]]:
    """Make a CSR matrix with about ``per_row`` entries per row, and labels."""
    rng = np.random.default_rng(0)
    columns = np.sort(rng.integers(d, size=(n, per_row)), axis=1).ravel()
    entries = np.full(columns.size, per_row**-0.5)
    X = sp.csr_array((entries, columns, np.arange(0, columns.size + 1, per_row)), shape=(n, d))
    X.sum_duplicates()
    return X, (rng.random(n) < 0.5).astype(int)


def products(X: Any) -> float:
    """Return the seconds of one ``X @ v`` plus one ``X.T @ r``, which nothing can avoid."""
    rng = np.random.default_rng(1)
    v, r = (rng.normal(size=X.shape[axis]).astype(X.dtype) for axis in (1, 0))
    return seconds(lambda: X @ v, 15) + seconds(lambda: X.T @ r, 15)


def fit(X: Any, y: Any, solver: Any, **settings: Any) -> LogisticRegression:
    """Fit a private logistic regression."""
    given = {"epsilon": 1.0, "delta": 1e-8, "classes": [0, 1], "data_norm": 1.0, **settings}
    return LogisticRegression(solver=solver, **given).fit(X, y)


def between(X: Any, y: Any, short: Any, long: Any, repeats: int = 5, **settings: Any) -> float:
    """Return by how many seconds one fit takes longer than another."""
    start = seconds(lambda: fit(X, y, short, **settings), repeats)
    return max(seconds(lambda: fit(X, y, long, **settings), repeats) - start, 1e-9)


def agd_iteration(X: Any, y: Any, iterations: int = 40) -> float:
    """Return the median seconds of a DP-AGD iteration: gradient, 21 candidates, secure noise."""
    stamps: list[tuple[float, int]] = []
    solver = AGD(max_iterations=iterations, splits=2 * iterations)
    LogisticRegression(
        epsilon=1.0,
        delta=1e-8,
        classes=[0, 1],
        solver=solver,
        progress=lambda at: stamps.append((time.perf_counter(), at.entry.refinements)),
    ).fit(X, y)
    steps = itertools.pairwise(stamps)
    return float(np.median([now - then for (then, _), (now, refined) in steps if not refined]))


def descent() -> Iterator[Line]:
    """Measure gradient descent on all rows (DP-AGD)."""
    X, y = dense(ROWS)
    agd_iteration(X, y, 3)  # compiles
    ratio = np.median([agd_iteration(X, y) / products(X) for _ in range(5)])
    yield Line(f"DP-AGD iteration / (X @ v + X.T @ r), {ROWS:,} × {COLUMNS}", float(ratio), 3)
    per_row = {}
    for n in (10_000, 100_000, 1_000_000):
        X, y = dense(n)
        per_row[n] = min(agd_iteration(X, y) for _ in range(3)) / n
    for n, power in ((100_000, 5), (1_000_000, 6)):
        yield Line(f"time per row, 10^{power} against 10^4 rows", per_row[n] / per_row[10_000], 1.2)
    rows = sp.random_array((6_000, 20_000), density=0.01, format="csr", rng=0)
    y = np.arange(6_000) % 2
    agd_iteration(rows, y, 3)
    ratio = agd_iteration(rows.toarray(), y, 12) / agd_iteration(rows, y, 12)
    yield Line("dense / CSR iteration, 1 % of 20,000 columns", ratio, 10, at_most=False)


def large() -> Iterator[Line]:
    """Measure a whole default fit of a large table: preparation, descent and noise."""
    for d, dtype in ((30, np.float64), (100, np.float32)):
        X, y = dense(1_000_000, d)
        X = X.astype(dtype)
        default = partial(fit, X, y, "auto", data_norm=None)
        ratio = min(seconds(default, 3) / products(X) for _ in range(2))
        what = f"default fit / (X @ v + X.T @ r), 1,000,000 × {d}, {np.dtype(dtype).name}"
        yield Line(what, ratio, 20)


def memory() -> Iterator[Line]:
    """Measure the peak memory of a fit, X included."""
    X, y = dense(100_000)
    rows = sp.random_array((100_000, 5_000), density=0.02, format="csr", rng=0)
    size = rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes
    for what, given, nbytes in (("float64", X, X.nbytes), ("CSR", rows, size)):
        fit(given, y, AGD(max_iterations=5), data_norm=None)
        tracemalloc.start()
        fit(given, y, AGD(max_iterations=5), data_norm=None)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        yield Line(f"peak memory of a fit / size of X, {what}", 1 + peak / nbytes, 1.3)


def batches() -> Iterator[Line]:
    """Measure descent by batches and by single rows."""
    X, y = dense(ROWS)
    few, many = (PermutationSGD(passes=passes, batch_size=50) for passes in (1, 21))
    a_pass = between(X, y, few, many, relation="replace_one") / 20
    yield Line("a pass in batches of 50 / (X @ v + X.T @ r)", a_pass / products(X), 5)
    once, more = (LaplaceSGD(passes=passes, batch_size=1) for passes in (1, 3))
    step = between(X, y, once, more, 3, relation="replace_one", delta=0.0) / (2 * ROWS)
    yield Line(f"a noisy step on one row, {COLUMNS} columns", 1e6 * step, 30, "µs")


def frank_wolfe() -> Iterator[Line]:
    """Measure a step of Frank–Wolfe on a large sparse table."""
    X, y = sparse(50_000, 47_000, 75)
    few, many = (FrankWolfe(iterations=iterations) for iterations in (2, 12))
    step = between(X, y, few, many, 3, relation="replace_one", data_norm=None) / 10
    residuals = np.random.default_rng(1).normal(size=X.shape[0])
    product = seconds(lambda: X.T @ residuals, 15)
    yield Line("a Frank–Wolfe step / X.T @ r, CSR 50,000 × 47,000", step / product, 4)


def minima() -> Iterator[Line]:
    """Measure fits that minimise a perturbed objective to a certified gradient."""
    wide = sparse(50_000, 47_000, 75)
    for solver, (X, y), bar in (
        (ObjPert(), dense(ROWS), 100),
        (AMP(), dense(ROWS), 100),
        (ObjPert(), wide, 100),
    ):
        taken = seconds(lambda solver=solver, X=X, y=y: fit(X, y, solver), 2)
        kind = "CSR" if sp.issparse(X) else "dense"
        size = f"{kind} {X.shape[0]:,} × {X.shape[1]:,}"
        yield Line(f"{solver.name} fit / (X @ v + X.T @ r), {size}", taken / products(X), bar)


def noise() -> Iterator[Line]:
    """Measure exact noise; times include refined draws."""
    source, forced = Noise(), Noise(force_refinement=True)
    scores = np.linspace(0.0, 1.0, 21)

    def micro(work: Callable[[], object], count: int) -> float:
        return 1e6 * seconds(lambda: [work() for _ in range(count)], 7) / count

    for kind in ("gaussian", "laplace", "gumbel"):
        draw = getattr(source, kind)
        value = micro(lambda draw=draw: draw(100_000, 1.0, -30), 2) / 100_000
        yield Line(f"{kind}: a value among 100,000", value, 0.2, "µs")
        yield Line(
            f"{kind}: a call of 100 values",
            micro(lambda draw=draw: draw(100, 1.0, -30), 300),
            100,
            "µs",
        )
    refined = micro(lambda: forced.gaussian(200, 1.0, -30), 1) / 200
    yield Line("gaussian: a refined value", refined, 150, "µs")
    for kind in ("gumbel", "exponential"):
        choice = micro(lambda kind=kind: source.select(scores, 0.3, kind), 300)
        yield Line(f"selection ({kind}) among 21", choice, 60, "µs")


def tables(n_rows: int = 5_000_000) -> Iterator[Line]:
    """Measure reading a CSV file and fitting, each measurement in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder) / "small.csv", Path(folder) / "large.csv"
        write_table(small, 32_561)
        ours, pandas = (sum(_apart(how, small).values()) for how in ("discreet", "pandas"))
        yield Line("read and fit a CSV / (pandas.read_csv and fit)", ours / pandas, 3)
        write_table(large, n_rows)
        grown = _apart("memory", large)["growth"]
        yield Line(f"growth of the process / encoded table, {n_rows:,} rows", grown, 1.5)


def adult() -> Schema:
    """Return the public schema of Adult, for a file with a header."""
    schema = datasets.schema("adult")
    assert schema is not None
    return replace(schema, file=FileFormat())


def write_table(path: Path, n_rows: int) -> None:
    """Write random records in the shape of Adult, a chunk at a time."""
    import pyarrow as pa
    from pyarrow import csv

    rng = np.random.default_rng(0)
    columns = {**adult().columns, "income": Categorical(CLASSES)}
    writer = None
    for start in range(0, n_rows, CHUNK):
        size, cells = min(CHUNK, n_rows - start), {}
        for name, column in columns.items():
            if isinstance(column, Categorical):
                drawn = pa.array(rng.integers(0, len(column.values), size))
                cells[name] = pa.array(column.values).take(drawn)
            elif isinstance(column, Numeric):
                cells[name] = pa.array(rng.integers(int(column.low), int(column.high) + 1, size))
        chunk = pa.table(cells)
        if writer is None:
            options = csv.WriteOptions(quoting_style="none")
            writer = csv.CSVWriter(path, chunk.schema, write_options=options)
        writer.write(chunk)
    if writer is not None:
        writer.close()


def measure_table(how: str, path: Path) -> dict[str, float]:
    """Measure one way to read and fit a table; run in a process of its own."""
    import pandas as pd

    schema = adult()

    def model(X: Any, y: Any) -> None:  # that of ``discreet fit`` without further options
        LogisticRegression(epsilon=1.0, delta=1e-9, classes=np.arange(2)).fit(X, y)

    short = path.with_name("short.csv")
    with path.open("rb") as file:
        short.write_bytes(b"".join(itertools.islice(file, 201)))
    model(*read(short, schema))  # imports and compiles
    if how == "memory":
        with peak_memory() as peak:
            X, y = read(path, schema)
            model(X, y)
        size = X.shape[0] * min(4 * schema.width, 8 * schema.groups + 4)
        return {"growth": peak.mebibytes * 2**20 / size}
    reading = (lambda: read(path, schema)) if how == "discreet" else (lambda: pd.read_csv(path))
    X, y = read(path, schema)
    return {"read": seconds(reading), "fit": seconds(lambda: model(X, y))}


def _apart(how: str, path: Path) -> dict[str, float]:
    command = [sys.executable, "-m", __spec__.name if __spec__ else "discreet_bench.speed"]
    done = subprocess.run(
        [*command, "--measure", how, str(path)], check=True, stdout=subprocess.PIPE, text=True
    )
    return dict(json.loads(done.stdout))


PARTS: dict[str, Callable[[], Iterator[Line]]] = {
    "descent": descent,
    "large": large,
    "memory": memory,
    "batches": batches,
    "frank-wolfe": frank_wolfe,
    "minima": minima,
    "noise": noise,
    "tables": tables,
}
"""Parts of the measurement by name."""


def main(arguments: list[str] | None = None) -> int:
    """Measure and print one table; the exit code is 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--rows", type=int, default=5_000_000, help="records of the large table")
    parser.add_argument("--measure", nargs=2, metavar=("HOW", "FILE"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    if given.measure:
        print(json.dumps(measure_table(given.measure[0], Path(given.measure[1]))))
        return 0
    unknown = [name for name in given.parts if name not in PARTS]
    if unknown:
        parser.error(f"unknown part {unknown[0]!r}: parts are {', '.join(PARTS)}.")
    console, lines = Console(width=100), list[Line]()
    for name in given.parts or PARTS:
        with console.status(name):
            lines += tables(given.rows) if name == "tables" else PARTS[name]()
    shown = Table(title="discreet: speed and memory")
    shown.add_column("what")
    for heading in ("measured", "bar"):
        shown.add_column(heading, justify="right")
    shown.add_column("")
    for line in lines:
        sign = "≤" if line.at_most else "≥"
        bar = f"{sign} {line.bar:g} {line.unit}"
        verdict = "met" if line.met else "MISSED"
        shown.add_row(line.what, f"{line.measured:.3g} {line.unit}", bar, verdict)
    console.print(shown)
    return int(not all(line.met for line in lines))


if __name__ == "__main__":
    sys.exit(main())
