"""A guard against regressions: scores, seconds and memory of a small suite of fits.

    python -m discreet_bench.guard [--update] [--reference FILE] [LINE …]

Every fit is repeated on data that are generated anew, with seeded noise, and compared with the
committed runs of the same seeds (``bench/results/guard.parquet``). Seconds are CPU seconds of the
process in one thread, which other programs hardly change, as ratios to a fixed computation that is
timed beside each fit. Memory is the peak that ``tracemalloc`` sees during a fit (arrays and Python
objects). The exit code is 1 if anything got worse beyond noise; ``--update`` writes the reference.

The test: a line is worse if a one-sided paired t test over the repeats rejects "worse by no more
than the tolerance" (`TOLERANCES`). The level is Bonferroni's, so that a run in which nothing is
worse than its tolerance fails with probability at most `FALSE_ALARM`. Lines that are worse are
measured once more before they count, since machines have bad moments.
"""

from __future__ import annotations

import argparse
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy import stats
from threadpoolctl import threadpool_limits

from discreet import LinearRegression, LinearSVC, LogisticRegression, PoissonRegressor
from discreet.solvers import resolve
from discreet_bench.runs import read, stamped, write
from discreet_bench.statistics import compare
from discreet_bench.synthetic import plane

__all__ = ["REFERENCE", "SUITE", "TOLERANCES", "Line", "main", "measure", "worse"]

REFERENCE = Path(__file__).parents[2] / "results" / "guard.parquet"
REPEATS = 20
MEMORY_REPEATS = 3
"""Repeats in which memory is measured: it hardly varies."""
TIMINGS = 2
"""Fits per repeat; the faster one counts, so the first may compile."""

FALSE_ALARM = 1e-3
"""Probability that a run fails although nothing is worse by more than its tolerance."""

TOLERANCES = {"accuracy": 0.005, "r2": 0.01, "seconds": 1.5, "peak_mb": 1.2}
"""Allowed losses: differences of scores, factors of seconds and memory."""

FACTORS = ("seconds", "peak_mb")
LEAST_MB = 1.0
"""Added to all peaks, so that a few kilobytes more or less in a small fit do not count."""

Table = tuple[Any, NDArray[Any]]


def two_classes(seed: int, n: int = 6_000, d: int = 20) -> Table:
    """Make rows of two classes that a linear model separates, but for one in twenty."""
    return plane(n, d, seed=seed)


def three_classes(seed: int, n: int = 6_000, d: int = 10) -> Table:
    """Make rows of three classes."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n, d))
    return X, (X @ rng.standard_normal((d, 3)) + rng.gumbel(size=(n, 3)) / 4).argmax(axis=1)


def numbers(seed: int, n: int = 6_000, d: int = 20) -> Table:
    """Make rows with a real target in [-1, 1]."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n, d))
    weights = rng.standard_normal(d)
    target = X @ weights / np.linalg.norm(weights) / 2 + 0.1 * rng.standard_normal(n)
    return X, np.clip(target, -1.0, 1.0)


def counts(seed: int, n: int = 6_000, d: int = 10) -> Table:
    """Make rows with counts from 0 to 10."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n, d))
    return X, np.minimum(rng.poisson(np.exp(0.5 + X @ rng.normal(0.0, 0.4, d))), 10)


def sparse_rows(seed: int, n: int = 8_000, d: int = 2_000) -> Table:
    """Make sparse rows, 20 entries of 2,000 each, of two classes."""
    rng = np.random.default_rng(seed)
    columns = np.sort((d * rng.random((n, 20)) ** 2).astype(int), axis=1).ravel()
    X = sp.csr_array((np.full(columns.size, 20**-0.5), columns, np.arange(n + 1) * 20), (n, d))
    X.sum_duplicates()
    return X, (X @ rng.standard_normal(d) > 0).astype(int)


def many_rows(seed: int) -> Table:
    """Make a larger table, on which time goes into arithmetic."""
    return two_classes(seed, 80_000, 30)


@dataclass(frozen=True)
class Line:
    """A fit of the suite: data, estimator and settings; half of the rows score it."""

    name: str
    data: Callable[[int], Table]
    model: Callable[..., Any] = LogisticRegression
    epsilon: float = 1.0
    relation: str = "add_remove"
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def measure(self) -> str:
        """Return the score: accuracy or R² (D² for counts)."""
        return "r2" if self.data in (numbers, counts) else "accuracy"


_BOUNDED = {"data_norm": 20**0.5, "classes": [0, 1]}
SUITE = (
    Line("logistic", two_classes),
    Line("logistic, ε = 0.2", two_classes, epsilon=0.2),
    Line("logistic, replace one", two_classes, relation="replace_one"),
    Line("logistic, three classes", three_classes),
    Line("logistic, sparse", sparse_rows, epsilon=4.0),
    Line("logistic, 40,000 rows", many_rows),
    Line("SVM", two_classes, LinearSVC),
    Line("linear", numbers, LinearRegression, settings={"target_bounds": (-1.0, 1.0)}),
    Line("Poisson", counts, PoissonRegressor, settings={"target_bounds": (0.0, 10.0)}),
    *(
        Line(f"solver {name}", two_classes, settings={**_BOUNDED, "solver": name})
        for name in ("gd", "agd", "objpert", "amp", "outpert", "shrunk-gd")
    ),
    Line(
        "solver sgd",
        two_classes,
        settings={**_BOUNDED, "solver": replace(resolve("sgd"), iterations=200)},
    ),
    Line(
        "solver newton",
        numbers,
        LinearRegression,
        settings={"target_bounds": (-1.0, 1.0), "solver": "newton"},
    ),
)
"""The lines. Without a solver, the default ``"auto"`` is fitted."""


def reference() -> None:
    """Compute what seconds are measured in: products, exponentials and a loop in Python."""
    rows, direction = _ROWS
    for _ in range(8):
        margins = rows @ direction
        rows.T @ np.exp(-np.abs(margins))
    total = 0
    for number in range(100_000):
        total += number % 7


_ROWS = (np.linspace(-1.0, 1.0, 400_000).reshape(10_000, 40), np.linspace(-1.0, 1.0, 40))


def measure(lines: Iterable[Line], repeats: int = REPEATS) -> pd.DataFrame:
    """Run the lines and return one row per line and repeat, as `discreet_bench.runs` has them."""
    found = []
    with threadpool_limits(1):  # CPU seconds add up those of all threads, idle ones that spin too
        for line in lines:
            for repeat in range(repeats):
                found.append(_one(line, repeat))
    return stamped(pd.DataFrame(found))


def _one(line: Line, repeat: int) -> dict[str, Any]:
    """Fit one line on the data of one seed."""
    X, y = line.data(repeat)
    half = X.shape[0] // 2
    row = {
        "experiment": "guard",
        "data": line.data.__name__,
        "n": half,
        "d": X.shape[1],
        "epsilon": line.epsilon,
        "delta": 1e-6,
        "relation": line.relation,
        "repeat": repeat,
        "seed": repeat,
        "method": line.name,
        "variant": "private",
        "tuning": "default",
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "problem": "",
    }

    def fit() -> Any:
        model = line.model(
            epsilon=line.epsilon,
            delta=row["delta"],
            relation=line.relation,
            random_state=repeat,
            **line.settings,
        )
        return model.fit(X[:half], y[:half])

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # seeds and labels are intended
            model, taken = _timed(fit)
            unit = min(_timed(reference)[1] for _ in range(TIMINGS))
            taken = min([taken, *(_timed(fit)[1] for _ in range(TIMINGS - 1))])
            row["seconds"] = taken / min(unit, *(_timed(reference)[1] for _ in range(TIMINGS)))
            row[line.measure] = float(model.score(X[half:], y[half:]))
            if repeat < MEMORY_REPEATS:
                row["peak_mb"] = _peak(fit)
    except Exception as error:  # the run's result, which fails the guard
        row["problem"] = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    return row


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def _peak(work: Callable[[], object]) -> float:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def worse(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Compare two runs of the suite: a row per line and measure, with ``worse`` and ``p_value``.

    ``difference`` is a loss if it is positive; of seconds and memory it is the logarithm of a
    factor. A line that failed, or that only the reference has, is worse; lines that the reference
    lacks are left out.
    """
    parts = []
    for name, tolerance in TOLERANCES.items():
        sides = [before, after]
        if name in FACTORS:
            least = LEAST_MB if name == "peak_mb" else 0.0
            sides = [runs.assign(**{name: np.log(runs[name] + least)}) for runs in sides]
            tolerance = np.log(tolerance)
        found = compare(*sides, name, overlap=0.0)
        found["difference"] *= 1 if name in FACTORS else -1
        freedom = (found["repeats"] - 1).clip(lower=1)
        half = (found["high"] - found["low"]) / 2
        error = half / stats.t.ppf(0.975, freedom)
        beyond = found["difference"] - tolerance
        with np.errstate(divide="ignore", invalid="ignore"):
            p_value = stats.t.sf(beyond / error, freedom)
        exact = np.where(beyond > 0, 0.0, 1.0)  # no variation at all
        found["p_value"] = np.where(error > 0, p_value, np.where(error == 0, exact, np.nan))
        measured = found["before"].notna() & (found["verdict"] != "new")
        parts.append(found[measured].assign(measure=name, tolerance=tolerance))
    table = pd.concat(parts, ignore_index=True)
    level = FALSE_ALARM / max(len(table), 1)
    table["worse"] = (table["p_value"] < level) | table["after"].isna()
    return table


def main(arguments: list[str] | None = None) -> int:
    """Measure, compare with the reference and print what got worse."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("lines", nargs="*", help="only lines whose names contain one of these")
    parser.add_argument("--update", action="store_true", help="write the reference")
    parser.add_argument("--reference", type=Path, default=REFERENCE, help="runs to compare with")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    given = parser.parse_args(arguments)
    lines = [line for line in SUITE if any(word in line.name for word in given.lines or [""])]
    if not lines:
        parser.error(f"no line contains {given.lines[0]!r}: {', '.join(x.name for x in SUITE)}.")
    begun = time.perf_counter()
    if given.update:
        runs = measure(lines, given.repeats)
        failed = runs[runs["problem"] != ""]
        if len(failed):
            raise SystemExit(f"Nothing was written: {failed.iloc[0]['problem']}")
        write(runs, given.reference)
        print(f"{given.reference}: {len(runs)} runs, {time.perf_counter() - begun:.0f} s")
        return 0
    before = read(given.reference)
    before = before[before["method"].isin([line.name for line in lines])]
    runs = measure(lines, given.repeats)
    table = worse(before, runs)
    bad = set(table.loc[table["worse"], "line"].str.split("|").str[0])
    if bad:
        print(f"Measured again: {', '.join(sorted(bad))}")
        again = measure([line for line in lines if line.name in bad], given.repeats)
        runs = pd.concat([runs[~runs["method"].isin(bad)], again], ignore_index=True)
        table = worse(before, runs)
    write(runs, Path("out/bench/guard.parquet"))
    _show(table)
    print(f"{time.perf_counter() - begun:.0f} s")
    return int(table["worse"].any() or table.empty)


def _show(table: pd.DataFrame) -> None:
    for row in table.itertuples():
        name = row.line.split("|")[0]
        factor = row.measure in FACTORS
        least = LEAST_MB if row.measure == "peak_mb" else 0.0
        values = [np.exp(at) - least if factor else at for at in (row.before, row.after)]
        verdict = f"WORSE {row.problem}" if row.worse else ""
        print(
            f"{name:28} {row.measure:9} {values[0]:9.4g} -> {values[1]:9.4g}  "
            f"p = {row.p_value:.1e}  {verdict}".rstrip()
        )
    count = int(table["worse"].sum())
    print(
        f"{count} of {len(table)} measurements got worse. "
        f"Probability of a false alarm: at most {FALSE_ALARM:g}."
    )


if __name__ == "__main__":
    sys.exit(main())
