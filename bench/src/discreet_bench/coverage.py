"""Coverage of confidence intervals, measured by simulation: ``python -m discreet_bench.coverage``.

Three tables: BinAgg's simulation for least squares; families over a grid of rows, columns and ε,
with usual and rare events and with units of several rows; p-values under the null. Every number is
from the library's own fits on generated rows; noise is not seeded.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import kstest, norm
from sklearn.base import clone

from discreet import (
    GammaRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    QuantileRegressor,
)
from discreet.core import Budget
from discreet.errors import NotSupported
from discreet.inference.selection import RULES

__all__ = ["Cell", "binagg", "main", "p_values", "simulated"]

FloatArray = NDArray[np.float64]

WIDTHS = {0.5: 0.28, 1.0: 0.04, 2.0: 0.035, 5.0: 0.032}
"""μ of BinAgg's simulation, and the mean width that is to be reached."""

ROWS, COLUMNS, EPSILONS = (2_000, 20_000, 200_000), (3, 20, 100), (0.3, 1.0, 3.0)
REPETITIONS, FIRST = {2_000: 150, 20_000: 120, 200_000: 60}, 3
SHARES = {3: 1.0, 20: 0.3, 100: 0.1}
"""Repetitions by rows, and the share of them by columns: each has one interval per coefficient. A
cell ends after the first few if these have none."""
NULL_ROWS = 2_000
"""Rows of a table for p-values."""
MANY = 100_000
"""Of tables with more rows, columns are drawn once for a cell, and targets for each repetition."""
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
    """Run a simulation ``count`` times, or `FIRST` times if these give no interval."""
    started, level = time.perf_counter(), norm.ppf(0.975)
    outcomes: list[Outcome] = []
    for seed in range(count):
        outcomes.append(run(np.random.default_rng([count, seed, 1])))
        if seed + 1 == FIRST and not any(np.isfinite(each.z).any() for each in outcomes):
            break
    z = np.array([each.z for each in outcomes])
    widths = np.array([each.widths for each in outcomes])
    known = np.isfinite(z)
    return Cell(
        table=table,
        setting=setting,
        repetitions=len(outcomes),
        given=int(known.sum()),
        coverage=float(np.mean(np.abs(z[known]) < level)) if known.any() else float("nan"),
        width=float(np.mean(widths[known])) if known.any() else float("nan"),
        plain=float(np.mean([each.plain for each in outcomes])),
        noise=float(np.nanmean([each.noise for each in outcomes])) if known.any() else float("nan"),
        refused=float(1 - known.mean()),
        seconds=(time.perf_counter() - started) / len(outcomes),
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


def rows(
    rng: np.random.Generator, n: int, d: int, size: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """Return correlated normal columns, and slopes of which every third is 0."""
    Z = rng.standard_normal((n, d))
    for j in range(1, d):
        Z[:, j] = 0.5 * Z[:, j - 1] + np.sqrt(0.75) * Z[:, j]
    slopes = np.choose(np.arange(d) % 3, [0.8, -0.5, 0.0]) * min(1.0, np.sqrt(6 / d))
    return Z, size * slopes


@dataclass(frozen=True)
class Family:
    """A model that targets are drawn from, and the estimator for it.

    ``draw`` makes targets of linear scores, ``information`` is what a row of these scores adds to
    the information of a fit without privacy. Slopes are ``size`` times those of `rows`.
    ``known_intercept`` is False if the intercept has no interval.
    """

    intercept: float
    size: float
    draw: Callable[[np.random.Generator, FloatArray], FloatArray]
    information: Callable[[FloatArray], FloatArray]
    model: Callable[[float], Any]
    shift: float = 0.0
    known_intercept: bool = True


def _quantile(q: float) -> Family:
    """Return regression of a quantile of normal errors."""
    at = float(norm.ppf(q))
    return Family(
        intercept=0.5,
        size=1.0,
        draw=lambda rng, m: m + rng.standard_normal(m.size),
        information=lambda m: np.full(m.size, norm.pdf(at) ** 2 / (q * (1 - q))),
        model=lambda epsilon: QuantileRegressor(
            epsilon, 1e-6, quantile=q, target_bounds=(-6, 6), inference=True
        ),
        shift=at,
    )


def _poisson(intercept: float, largest: float) -> Family:
    """Return regression of counts of a mean of about exp(intercept)."""
    return Family(
        intercept=intercept,
        size=0.5,
        draw=lambda rng, m: rng.poisson(np.exp(m)).astype(float),
        information=np.exp,
        model=lambda epsilon: PoissonRegressor(
            epsilon, 1e-6, target_bounds=(0, largest), inference=True
        ),
    )


def _logistic(intercept: float) -> Family:
    """Return classes with these log odds in the middle."""
    return Family(
        intercept=intercept,
        size=1.0,
        draw=lambda rng, m: (rng.random(m.size) < expit(m)).astype(int),
        information=lambda m: expit(m) * expit(-m),
        model=lambda epsilon: LogisticRegression(epsilon, 1e-6, classes=[0, 1], inference=True),
    )


_LEAST_SQUARES = Family(
    intercept=0.5,
    size=1.0,
    draw=lambda rng, m: m + rng.standard_normal(m.size),
    information=lambda m: np.ones(m.size),
    model=lambda epsilon: LinearRegression(epsilon, 1e-6, target_bounds=(-6, 6), inference=True),
)
_GAMMA = Family(
    intercept=0.7,
    size=0.5,
    draw=lambda rng, m: rng.gamma(2.0, np.exp(m) / 2.0),
    information=lambda m: np.full(m.size, 2.0),
    model=lambda epsilon: GammaRegressor(epsilon, 1e-6, target_bounds=(1e-3, 40), inference=True),
    known_intercept=False,
)
FAMILIES: dict[str, dict[str, Family]] = {
    "logistic": {"usual": _logistic(-0.3), "rare": _logistic(-2.5)},
    "poisson": {"usual": _poisson(0.7, 20.0), "rare": _poisson(-1.5, 5.0)},
    "gamma": {"usual": _GAMMA},
    "quantile": {"usual": _quantile(0.5), "rare": _quantile(0.9)},
    "least squares": {"usual": _LEAST_SQUARES},
}
"""Families with their kinds; "rare" is a rare class, rare events, or the quantile 0.9."""


def simulated(name: str, n: int, d: int, epsilon: float, kind: str, count: int) -> Cell:
    """Run a cell of the grid: ``kind`` is usual, rare, or units of one to five rows."""
    family = FAMILIES[name]["usual" if kind == "units" else kind]
    drawn: list[tuple[FloatArray, FloatArray, FloatArray, FloatArray]] = []

    def run(rng: np.random.Generator) -> Outcome:
        if not drawn or n < MANY:
            X, slopes = rows(rng, n, d, family.size)
            scores = X @ slopes + family.intercept
            V = np.column_stack([X, np.ones(n)])
            drawn[:] = [(X, slopes, scores, plain_widths(V, family.information(scores)))]
        X, slopes, scores, plain = drawn[0]
        y = family.draw(rng, scores)
        groups = None
        if kind == "units":  # people of 1 to 5 rows each
            groups = np.repeat(np.arange(n), rng.integers(1, 6, n))[:n]
        truth = np.append(slopes, family.intercept + family.shift)
        found = outcome(family.model(epsilon).fit(X, y, groups=groups), truth, plain)
        kept = slice(None) if family.known_intercept else slice(d)
        return Outcome(*(part[kept] for part in astuple(found)))

    return measured(name, f"n = {n:,}, d = {d}, ε = {epsilon:g}, {kind}", count, run)


def grid(
    name: str, sizes: Sequence[int], widths: Sequence[int], counts: dict[int, int]
) -> Iterator[Cell]:
    """Run the cells of a family."""
    for n, d in itertools.product(sizes, widths):
        count = max(round(counts[n] * SHARES[d]), FIRST)
        for epsilon, kind in itertools.product(EPSILONS, (*FAMILIES[name], "units")):
            yield simulated(name, n, d, epsilon, kind, count)


def p_values(name: str, count: int, epsilon: float = 2.0) -> Cell:
    """Test that p-values of a coefficient that is 0 are uniform; ``noise`` is the test's p."""
    family, rng, found = FAMILIES[name]["usual"], np.random.default_rng(12), []
    started, n = time.perf_counter(), NULL_ROWS
    for _ in range(count):
        X, slopes = rows(rng, n, 3, family.size)
        y = family.draw(rng, X @ slopes + family.intercept)
        model = family.model(epsilon).fit(X, y)
        if model.covariances_:
            parts = model.covariances_[0].parts()
            found.append(2 * norm.sf(abs(np.ravel(model.coef_)[2] / parts.errors[2])))
    p = np.array(found)
    p = p[np.isfinite(p)]
    return Cell(
        table="p-values under the null",
        setting=f"{name}, n = {n:,}, d = 3, ε = {epsilon:g}",
        repetitions=count,
        given=p.size,
        coverage=float(np.mean(p > 0.05)),
        width=float("nan"),
        plain=float("nan"),
        noise=float(kstest(p, "uniform").pvalue),
        refused=1 - p.size / count,
        seconds=(time.perf_counter() - started) / count,
    )


def selection(name: str, epsilon: float, count: int, n: int = 20_000, d: int = 20) -> str:
    """Return a row of a table: by rule, zeros that are found, others that are kept, and the error.

    A quarter of the slopes are 0.3 and −0.15 in turn, the others are 0. Errors are those of scores,
    as root mean squares over that of the model before the selection; the last is a default fit's.
    Fits whose budget was too small for standard errors are left out and counted.
    """
    family, shares, errors = FAMILIES[name]["usual"], [], []
    slopes = np.where(np.arange(d) % 4, 0.0, np.where(np.arange(d) % 8, -0.15, 0.3))
    for seed in range(count):
        rng = np.random.default_rng([n, seed, 2])
        X, _ = rows(rng, n, d)
        y = family.draw(rng, X @ slopes + family.intercept)
        full = family.model(epsilon).fit(X, y)
        try:
            some = [full.select_coefficients(rule) for rule in RULES]
        except NotSupported:
            continue
        zero = np.array([np.ravel(model.coef_) == 0 for model in some])
        shares.append(np.append(zero[:, slopes == 0].mean(1), 1 - zero[:, slopes != 0].mean(1)))
        default = clone(full).set_params(inference=False).fit(X, y)
        fits = [np.ravel(model.coef_) for model in (full, *some, default)]
        errors.append([np.mean((X @ (fit - slopes)) ** 2) for fit in fits])
    refused = count - len(errors)
    if refused:
        name += f" ({refused} of {count} refused)"
    if not errors:
        return f"| {name} | {epsilon:g} |{' – |' * (3 * len(RULES) + 1)}"
    root = np.sqrt(np.mean(errors, axis=0))
    cells = [f"{share:.0%}" for share in np.mean(shares, axis=0)]
    cells += [f"{error:.2f}" for error in root[1:] / root[0]]
    return f"| {name} | {epsilon:g} | {' | '.join(cells)} |"


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
    """Run the simulations, print the tables and write the cells as JSON."""
    parser = argparse.ArgumentParser(prog="python -m discreet_bench.coverage", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few repetitions, small tables only")
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS, help="sizes of the grid")
    parser.add_argument("--columns", type=int, nargs="+", default=COLUMNS, help="of the grid")
    kinds = ["binagg", "grid", "p-values", "selection"]
    parser.add_argument("--only", choices=kinds, help="one part")
    parser.add_argument("--family", choices=list(FAMILIES), nargs="+", default=list(FAMILIES))
    parser.add_argument("--repetitions", type=int, help="of each cell, instead of the usual number")
    parser.add_argument("--output", type=Path, default=Path("coverage.json"))
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    counts = REPETITIONS if not given.quick else dict.fromkeys(ROWS, 10)
    sizes = given.rows if not given.quick else ROWS[:1]
    count = given.repetitions or (40 if given.quick else None)
    if given.repetitions:
        counts = dict.fromkeys(ROWS, given.repetitions)
    parts: dict[str, Callable[[], Iterator[Cell]]] = {
        "binagg": lambda: (binagg(mu, count or 1000) for mu in WIDTHS),
        "grid": lambda: (
            cell for name in given.family for cell in grid(name, sizes, given.columns, counts)
        ),
        "p-values": lambda: (p_values(name, count or 2000) for name in given.family),
    }
    cells: list[Cell] = []
    for name, part in parts.items():
        if given.only in (None, name):
            for cell in part():
                cells.append(cell)
                print(
                    f"{cell.table}: {cell.setting}: {cell.repetitions} runs, coverage "
                    f"{cell.coverage:.3f}, width {cell.width / cell.plain:.2f}, refused "
                    f"{cell.refused:.0%}",
                    flush=True,
                )
                given.output.write_text(json.dumps([asdict(each) for each in cells], indent=1))
    print(markdown(cells))
    if given.only in (None, "selection"):
        for name, epsilon in itertools.product(given.family, EPSILONS[1:]):
            print(selection(name, epsilon, count or 50), flush=True)


if __name__ == "__main__":
    main()
