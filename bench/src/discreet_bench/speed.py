"""Speed and memory of discreet against NumPy, SciPy and pandas, as ratios from one run.

    python -m discreet_bench.speed [PART …] [--rows 5000000] [--quick]

Machines differ and are noisy, so bars are ratios where that is possible. Work inside a fit is
measured by the difference between a longer and a shorter fit. The exit code is 1 if a bar is
missed, and the missed bars are named. ``--quick`` runs every measurement on small tables, to see
that all of them work; bars are for the full sizes, so it misses none.
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

__all__ = ["PARTS", "Line", "Sizes", "main"]

ROWS, COLUMNS = 39_000, 105
CHUNK = 100_000
SMALLER = 200  # divisor of all numbers of rows with --quick
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

    @property
    def limit(self) -> str:
        """The bar as a text."""
        return f"{'≤' if self.at_most else '≥'} {self.bar:g} {self.unit}".rstrip()


@dataclass(frozen=True)
class Sizes:
    """Numbers of rows: the full ones, or small ones for a trial of all measurements."""

    divisor: int = 1

    def rows(self, n: int) -> int:
        """Return ``n`` rows, or fewer."""
        return max(n // self.divisor, min(n, 1_000))


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


def descent(sizes: Sizes) -> Iterator[Line]:
    """Measure gradient descent on all rows (DP-AGD)."""
    X, y = dense(sizes.rows(ROWS))
    agd_iteration(X, y, 3)  # compiles
    ratio = np.median([agd_iteration(X, y) / products(X) for _ in range(5)])
    yield Line(f"DP-AGD iteration / (X @ v + X.T @ r), {len(y):,} × {COLUMNS}", float(ratio), 3)
    per_row = {}
    for n in (10_000, 100_000, 1_000_000):
        X, y = dense(sizes.rows(n))
        per_row[n] = min(agd_iteration(X, y) for _ in range(3)) / len(y)
    for n, power in ((100_000, 5), (1_000_000, 6)):
        yield Line(f"time per row, 10^{power} against 10^4 rows", per_row[n] / per_row[10_000], 1.2)
    rows = sp.random_array((sizes.rows(6_000), 20_000), density=0.01, format="csr", rng=0)
    y = np.arange(rows.shape[0]) % 2
    agd_iteration(rows, y, 3)
    ratio = agd_iteration(rows.toarray(), y, 12) / agd_iteration(rows, y, 12)
    yield Line("dense / CSR iteration, 1 % of 20,000 columns", ratio, 10, at_most=False)


def large(sizes: Sizes) -> Iterator[Line]:
    """Measure a whole default fit of a large table: preparation, descent and noise."""
    for d, dtype in ((30, np.float64), (100, np.float32)):
        X, y = dense(sizes.rows(1_000_000), d)
        X = X.astype(dtype)
        default = partial(fit, X, y, "auto", data_norm=None)
        ratio = min(seconds(default, 3) / products(X) for _ in range(2))
        what = f"default fit / (X @ v + X.T @ r), {len(y):,} × {d}, {np.dtype(dtype).name}"
        yield Line(what, ratio, 20)


def memory(sizes: Sizes) -> Iterator[Line]:
    """Measure the peak memory of a fit, X included."""
    X, y = dense(sizes.rows(100_000))
    rows = sp.random_array((len(y), 5_000), density=0.02, format="csr", rng=0)
    size = rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes
    for what, given, nbytes in (("float64", X, X.nbytes), ("CSR", rows, size)):
        fit(given, y, AGD(max_iterations=5), data_norm=None)
        tracemalloc.start()
        fit(given, y, AGD(max_iterations=5), data_norm=None)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        yield Line(f"peak memory of a fit / size of X, {what}", 1 + peak / nbytes, 1.3)


def batches(sizes: Sizes) -> Iterator[Line]:
    """Measure descent by batches and by single rows."""
    X, y = dense(sizes.rows(ROWS))
    few, many = (PermutationSGD(passes=passes, batch_size=50) for passes in (1, 21))
    a_pass = between(X, y, few, many, relation="replace_one") / 20
    yield Line("a pass in batches of 50 / (X @ v + X.T @ r)", a_pass / products(X), 5)
    once, more = (LaplaceSGD(passes=passes, batch_size=1) for passes in (1, 3))
    step = between(X, y, once, more, 3, relation="replace_one", delta=0.0) / (2 * len(y))
    yield Line(f"a noisy step on one row, {COLUMNS} columns", 1e6 * step, 30, "µs")


def frank_wolfe(sizes: Sizes) -> Iterator[Line]:
    """Measure a step of Frank–Wolfe on a large sparse table."""
    X, y = sparse(sizes.rows(50_000), 47_000, 75)
    few, many = (FrankWolfe(iterations=iterations) for iterations in (2, 12))
    step = between(X, y, few, many, 3, relation="replace_one", data_norm=None) / 10
    residuals = np.random.default_rng(1).normal(size=X.shape[0])
    product = seconds(lambda: X.T @ residuals, 15)
    yield Line(f"a Frank–Wolfe step / X.T @ r, CSR {len(y):,} × 47,000", step / product, 4)


def minima(sizes: Sizes) -> Iterator[Line]:
    """Measure fits that minimise a perturbed objective to a certified gradient."""
    wide, tall = sparse(sizes.rows(50_000), 47_000, 75), dense(sizes.rows(ROWS))
    for solver, (X, y), bar in (
        (ObjPert(), tall, 100),
        (AMP(), tall, 100),
        (ObjPert(), wide, 100),
    ):
        taken = seconds(lambda solver=solver, X=X, y=y: fit(X, y, solver), 2)
        kind = "CSR" if sp.issparse(X) else "dense"
        size = f"{kind} {X.shape[0]:,} × {X.shape[1]:,}"
        yield Line(f"{solver.name} fit / (X @ v + X.T @ r), {size}", taken / products(X), bar)


def noise(_sizes: Sizes) -> Iterator[Line]:
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


def tables(sizes: Sizes, n_rows: int = 5_000_000) -> Iterator[Line]:
    """Measure reading a CSV file and fitting, each measurement in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder) / "small.csv", Path(folder) / "large.csv"
        write_table(small, sizes.rows(32_561))
        n_rows = sizes.rows(n_rows)
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
    X, y, _ = read(short, schema)
    model(X, y)  # imports and compiles
    if how == "memory":
        with peak_memory() as peak:
            X, y, _ = read(path, schema)
            model(X, y)
        size = X.shape[0] * min(4 * schema.width, 8 * schema.groups + 4)
        return {"growth": peak.mebibytes * 2**20 / size}
    reading = (lambda: read(path, schema)) if how == "discreet" else (lambda: pd.read_csv(path))
    X, y, _ = read(path, schema)
    return {"read": seconds(reading), "fit": seconds(lambda: model(X, y))}


def _apart(how: str, path: Path) -> dict[str, float]:
    command = [sys.executable, "-m", __spec__.name if __spec__ else "discreet_bench.speed"]
    done = subprocess.run(
        [*command, "--measure", how, str(path)], check=True, stdout=subprocess.PIPE, text=True
    )
    return dict(json.loads(done.stdout))


def cluster(sizes: Sizes) -> Iterator[Line]:
    """Fit the default on a Dask cluster of two processes, and in this one with two threads."""
    import dask.array as da
    from distributed import Client, LocalCluster

    n, d = sizes.rows(2_000_000), 30
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    model = LogisticRegression(1.0, 1e-8, classes=[0, 1], random_state=0)
    with LocalCluster(**settings) as made, Client(made):
        lazy = da.random.default_rng(0).normal(size=(n, d), chunks=(n // 4, d)).astype(np.float32)
        lazy = lazy.persist()
        labels = (lazy[:, 0] + lazy[:, 1] > 0).astype(int).persist()
        X, y = lazy.compute(), labels.compute()
        times: dict[str, list[float]] = {"alone": [], "cluster": []}
        weights = {}
        for _ in range(3):  # by turns, so that both see the same machine
            for name, data in (("alone", (X, y)), ("cluster", (lazy, labels))):
                start = time.perf_counter()
                weights[name] = model.fit(*data).coef_
                times[name].append(time.perf_counter() - start)
    ratio = min(times["alone"][1:]) / min(times["cluster"][1:])
    apart = float(np.abs(weights["alone"] - weights["cluster"]).max())
    yield Line(
        f"fit on two Dask workers, {n:,} × {d}: speed of one process", ratio, 0.5, at_most=False
    )
    yield Line("largest difference of its coefficients", apart, 1e-9, "")


PARTS: dict[str, Callable[[Sizes], Iterator[Line]]] = {
    "descent": descent,
    "large": large,
    "memory": memory,
    "batches": batches,
    "frank-wolfe": frank_wolfe,
    "minima": minima,
    "noise": noise,
    "tables": tables,
    "cluster": cluster,
}
"""Parts of the measurement by name."""


def main(arguments: list[str] | None = None) -> int:
    """Measure and print one table; the exit code is 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--rows", type=int, default=5_000_000, help="records of the large table")
    parser.add_argument("--quick", action="store_true", help="small tables, and no bars")
    parser.add_argument("--measure", nargs=2, metavar=("HOW", "FILE"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    if given.measure:
        print(json.dumps(measure_table(given.measure[0], Path(given.measure[1]))))
        return 0
    unknown = [name for name in given.parts if name not in PARTS]
    if unknown:
        parser.error(f"unknown part {unknown[0]!r}: parts are {', '.join(PARTS)}.")
    sizes = Sizes(SMALLER) if given.quick else Sizes()
    parts = PARTS | {"tables": partial(tables, n_rows=given.rows)}
    console, lines = Console(width=100), list[Line]()
    for name in given.parts or PARTS:
        with console.status(name):
            lines += parts[name](sizes)
    console.print(_table(lines, judged=not given.quick))
    missed = [] if given.quick else [line for line in lines if not line.met]
    for line in missed:
        console.print(f"Missed: {line.what}: {line.measured:.3g} {line.unit}, bar {line.limit}.")
    return int(bool(missed))


def _table(lines: list[Line], *, judged: bool) -> Table:
    shown = Table(title="discreet: speed and memory")
    shown.add_column("what")
    for heading in ("measured", "bar"):
        shown.add_column(heading, justify="right")
    shown.add_column("")
    for line in lines:
        verdict = "met" if line.met else "MISSED"
        measured = f"{line.measured:.3g} {line.unit}"
        shown.add_row(line.what, measured, line.limit, verdict if judged else "")
    return shown


if __name__ == "__main__":
    sys.exit(main())
