"""Coverage of confidence intervals, measured by simulation: ``python -m discreet_bench.coverage``.

Three tables: BinAgg's simulation for least squares; logistic regression over a grid of rows,
columns and ε, with balanced and rare classes and with units of several rows; p-values under the
null. Every number is from the library's own fits on generated rows; noise is not seeded.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import kstest, norm

from discreet import LinearRegression, LogisticRegression
from discreet.core import Budget

__all__ = ["Cell", "binagg", "logistic", "main", "p_values"]

FloatArray = NDArray[np.float64]

WIDTHS = {0.5: 0.28, 1.0: 0.04, 2.0: 0.035, 5.0: 0.032}
"""μ of BinAgg's simulation, and the mean width that is to be reached."""

ROWS, COLUMNS, EPSILONS = (2_000, 20_000, 200_000), (3, 20, 100), (0.3, 1.0, 3.0)
REPETITIONS = {2_000: 200, 20_000: 60, 200_000: 12}
FALSE_ALARM = 1e-6


@dataclass(frozen=True)
class Cell:
    """One setting: how often intervals cover the truth, their widths, and how often none is given.

    ``width`` and ``plain`` are mean widths of ours and of intervals without privacy.
    """

    table: str
    setting: str
    repetitions: int
    given: int
    coverage: float
    width: float
    plain: float
    noise: float
    refused: float
    seconds: float


@dataclass(frozen=True)
class Outcome:
    """Estimates less truths, over standard errors; NaN where there is no interval."""

    z: FloatArray
    widths: FloatArray
    plain: FloatArray
    noise: FloatArray


def epsilon_of(mu: float, delta: float) -> float:
    """Return the ε at which a budget is μ-GDP."""
    low, high = 1e-3, 500.0
    for _ in range(100):
        middle = (low * high) ** 0.5
        below = Budget(middle, delta, "add_remove").to_gdp().mu < mu
        low, high = (middle, high) if below else (low, middle)
    return low


def measured(
    table: str, setting: str, count: int, run: Callable[[np.random.Generator], Outcome]
) -> Cell:
    """Run a simulation ``count`` times."""
    started, level = time.perf_counter(), norm.ppf(0.975)
    outcomes = [run(np.random.default_rng([count, seed, 1])) for seed in range(count)]
    z = np.array([each.z for each in outcomes])
    widths = np.array([each.widths for each in outcomes])
    known = np.isfinite(z)
    return Cell(
        table=table,
        setting=setting,
        repetitions=count,
        given=int(known.sum()),
        coverage=float(np.mean(np.abs(z[known]) < level)) if known.any() else float("nan"),
        width=float(np.mean(widths[known])) if known.any() else float("nan"),
        plain=float(np.mean([each.plain for each in outcomes])),
        noise=float(np.nanmean([each.noise for each in outcomes])) if known.any() else float("nan"),
        refused=float(1 - known.mean()),
        seconds=(time.perf_counter() - started) / count,
    )


def outcome(model: Any, truth: FloatArray, plain: FloatArray) -> Outcome:
    """Compare a fitted model with the true coefficients, intercept last."""
    values = np.append(np.ravel(model.coef_), model.intercept_)
    if not model.covariances_:
        missing = np.full(truth.size, np.nan)
        return Outcome(missing, missing, plain, missing)
    parts = model.covariances_[0].parts()
    noise = parts.noise / parts.variance
    return Outcome((values - truth) / parts.errors, 2 * 1.96 * parts.errors, plain, noise)


def plain_widths(V: FloatArray, weights: FloatArray | float) -> FloatArray:
    """Return widths of intervals without privacy, of information Σ w·vvᵀ."""
    information = (V * np.reshape(weights, (-1, 1))).T @ V
    return np.asarray(2 * 1.96 * np.sqrt(np.diag(np.linalg.inv(information))))


def binagg(mu: float, count: int) -> Cell:
    """Run BinAgg's simulation: X uniform on [0, 10]³, coefficients 1.5, −2, 0.5, 2,000 rows."""
    delta, truth = 1e-5, np.array([1.5, -2.0, 0.5])
    epsilon = epsilon_of(mu, delta)

    def run(rng: np.random.Generator) -> Outcome:
        X = rng.uniform(0, 10, (2000, 3))
        y = X @ truth + rng.standard_normal(2000)
        model = LinearRegression(epsilon, delta, target_bounds=(-25, 25), inference=True)
        V = np.column_stack([X, np.ones(len(X))])
        found = outcome(model.fit(X, y), np.append(truth, 0.0), plain_widths(V, 1.0))
        return Outcome(*(part[:3] for part in (found.z, found.widths, found.plain, found.noise)))

    return measured("least squares (BinAgg)", f"μ = {mu:g}", count, run)


def logistic_rows(
    rng: np.random.Generator, n: int, d: int, intercept: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return correlated normal columns, probabilities and true coefficients, intercept last."""
    Z = rng.standard_normal((n, d))
    for j in range(1, d):
        Z[:, j] = 0.5 * Z[:, j - 1] + np.sqrt(0.75) * Z[:, j]
    slopes = np.choose(np.arange(d) % 3, [0.8, -0.5, 0.0]) * min(1.0, np.sqrt(6 / d))
    return Z, expit(Z @ slopes + intercept), np.append(slopes, intercept)


def logistic(n: int, d: int, epsilon: float, kind: str, count: int) -> Cell:
    """Run a cell of the logistic grid: ``kind`` is balanced, rare or units."""

    def run(rng: np.random.Generator) -> Outcome:
        X, p, truth = logistic_rows(rng, n, d, -2.5 if kind == "rare" else -0.3)
        y = (rng.random(n) < p).astype(int)
        V = np.column_stack([X, np.ones(n)])
        groups, weights = None, p * (1 - p)
        if kind == "units":  # people of 1 to 5 rows each
            sizes = rng.integers(1, 6, n)
            groups = np.repeat(np.arange(n), sizes)[:n]
        model = LogisticRegression(epsilon, 1e-6, classes=[0, 1], inference=True)
        return outcome(model.fit(X, y, groups=groups), truth, plain_widths(V, weights))

    setting = f"n = {n:,}, d = {d}, ε = {epsilon:g}, {kind}"
    return measured("logistic", setting, count, run)


def grid(largest: int, counts: dict[int, int]) -> Iterator[Cell]:
    """Run the cells of up to ``largest`` rows."""
    for n in (size for size in ROWS if size <= largest):
        for d in COLUMNS:
            for epsilon in EPSILONS:
                for kind in ("balanced", "rare", "units") if d == 3 else ("balanced", "rare"):
                    # cells that public numbers refuse are refused in every repetition
                    few = logistic(n, d, epsilon, kind, min(counts[n], 3))
                    yield logistic(n, d, epsilon, kind, counts[n]) if few.given else few


def p_values(family: str, count: int, epsilon: float = 2.0) -> Cell:
    """Test that p-values of a coefficient that is 0 are uniform; ``noise`` is the test's p."""
    rng = np.random.default_rng(12)
    found = []
    started = time.perf_counter()
    for _ in range(count):
        X = rng.standard_normal((2000, 3))
        scores = X @ [0.7, -0.4, 0.0]
        if family == "logistic":
            y: Any = (rng.random(2000) < expit(scores)).astype(int)
            model: Any = LogisticRegression(epsilon, 1e-6, classes=[0, 1], inference=True)
        else:
            y = scores + rng.standard_normal(2000)
            model = LinearRegression(epsilon, 1e-6, target_bounds=(-6, 6), inference=True)
        model.fit(X, y)
        if model.covariances_:
            parts = model.covariances_[0].parts()
            found.append(2 * norm.sf(abs(np.ravel(model.coef_)[2] / parts.errors[2])))
    p = np.array(found)
    p = p[np.isfinite(p)]
    return Cell(
        table="p-values under the null",
        setting=f"{family}, n = 2,000, d = 3, ε = {epsilon:g}",
        repetitions=count,
        given=p.size,
        coverage=float(np.mean(p > 0.05)),
        width=float("nan"),
        plain=float("nan"),
        noise=float(kstest(p, "uniform").pvalue),
        refused=1 - p.size / count,
        seconds=(time.perf_counter() - started) / count,
    )


def markdown(cells: Sequence[Cell]) -> str:
    """Return the cells as one table per kind."""
    lines = []
    for table in dict.fromkeys(cell.table for cell in cells):
        last = "KS p" if table.startswith("p-values") else "noise"
        head = ("setting", "runs", "coverage", "width", "not private", last, "refused")
        lines += [
            f"\n**{table}**\n",
            f"| {' | '.join(head)} |",
            "|---|---:|---:|---:|---:|---:|---:|",
        ]
        for cell in (each for each in cells if each.table == table):
            numbers = [cell.coverage, cell.width, cell.plain, cell.noise, cell.refused]
            forms = ("{:.3f}", "{:.4f}", "{:.4f}", "{:.2g}", "{:.0%}")
            shown = [
                form.format(x) if x == x else "–" for form, x in zip(forms, numbers, strict=True)
            ]
            lines.append(f"| {cell.setting} | {cell.repetitions} | {' | '.join(shown)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all simulations, print the tables and write the cells as JSON."""
    parser = argparse.ArgumentParser(prog="python -m discreet_bench.coverage", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few repetitions, small tables only")
    parser.add_argument("--rows", type=int, default=ROWS[-1], help="largest table of the grid")
    parser.add_argument("--only", choices=["binagg", "logistic", "p-values"], help="one part")
    parser.add_argument("--output", type=Path, default=Path("coverage.json"))
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    counts = dict.fromkeys(ROWS, 10) if given.quick else REPETITIONS
    largest = min(given.rows, ROWS[0]) if given.quick else given.rows
    parts: dict[str, Callable[[], Iterator[Cell]]] = {
        "binagg": lambda: (binagg(mu, 40 if given.quick else 1000) for mu in WIDTHS),
        "logistic": lambda: grid(largest, counts),
        "p-values": lambda: (
            p_values(family, 60 if given.quick else 2000)
            for family in ("least squares", "logistic")
        ),
    }
    cells: list[Cell] = []
    for name, part in parts.items():
        if given.only in (None, name):
            for cell in part():
                cells.append(cell)
                print(f"{cell.table}: {cell.setting}: coverage {cell.coverage:.3f}", flush=True)
                given.output.write_text(json.dumps([asdict(each) for each in cells], indent=1))
    print(markdown(cells))


if __name__ == "__main__":
    main()
