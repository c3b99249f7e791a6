"""Measure coverage, widths and type-I errors of intervals in named cells, by simulation.

Run: python -m bench.studies.findings [--fits 400] [--cells NAME …] [--seed 1] [--output FILE]

A cell is a family, a way in which the data meet or break the conditions, a number of rows and ε.
For both kinds of errors it prints the coverage of 95 % intervals over all coefficients and of the
key one (x1, or the treatment of people), the median width over that of robust intervals without
privacy, the shares of intervals that were refused and that were marked with a reason, and how often
Wald's joint test rejects three coefficients that are 0, at 5 % and 1 %. Seeds of the tables are
[seed, fit]; the privacy noise is not seeded.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import chi2, norm

from discreet import LinearRegression, LogisticRegression, PoissonRegressor

FloatArray = NDArray[np.float64]

SLOPES = np.array([0.4, -0.3, 0.2, 0.0, 0.0, 0.0])
"""Slopes of the first columns; the last three are 0 and tested jointly."""

WIDE = 13
"""Columns of the clean cells; those after the first six have the slope 0.1."""

INTERCEPT = {"linear": 1.0, "logistic": -0.5, "poisson": 0.7}
COUNTS = (0, 20)
PEOPLE = (-14.0, 16.0)


class Table(NamedTuple):
    """Rows, targets and whose row each row is."""

    X: FloatArray
    y: FloatArray
    groups: NDArray[np.int64] | None


@dataclass(frozen=True)
class Cell:
    """One setting: ``rows`` are people where ``kind`` has a number of rows per person."""

    family: str
    kind: str
    rows: int
    epsilon: float

    @property
    def name(self) -> str:
        """The setting in words."""
        return f"{self.family}, {self.kind}, n = {self.rows:,}, ε = {self.epsilon:g}"

    @property
    def per_person(self) -> int:
        """Rows of a person."""
        return int(self.kind.split()[1]) if self.kind.startswith("people") else 1


CELLS = (
    Cell("linear", "clean", 5_000, 1.0),
    Cell("linear", "clean", 20_000, 0.3),
    Cell("linear", "clean", 20_000, 1.0),
    Cell("linear", "clean", 20_000, 3.0),
    Cell("linear", "clean", 100_000, 10.0),
    Cell("linear", "heteroscedastic", 20_000, 1.0),
    Cell("linear", "heteroscedastic", 100_000, 3.0),
    Cell("linear", "skewed", 20_000, 1.0),
    Cell("linear", "skewed", 100_000, 3.0),
    Cell("linear", "people 4", 5_000, 3.0),
    Cell("linear", "people 15", 5_000, 3.0),
    Cell("linear", "at bound", 20_000, 1.0),
    Cell("logistic", "clean", 5_000, 3.0),
    Cell("logistic", "clean", 20_000, 0.3),
    Cell("logistic", "clean", 20_000, 1.0),
    Cell("logistic", "clean", 20_000, 3.0),
    Cell("logistic", "people 4", 5_000, 3.0),
    Cell("logistic", "people 15", 5_000, 3.0),
    Cell("poisson", "clean", 20_000, 3.0),
    Cell("poisson", "clean", 100_000, 1.0),
    Cell("poisson", "heteroscedastic", 20_000, 3.0),
    Cell("poisson", "people 4", 5_000, 3.0),
    Cell("poisson", "people 15", 5_000, 3.0),
    Cell("poisson", "at bound", 20_000, 3.0),
)


def slopes_of(cell: Cell) -> FloatArray:
    """Return the slopes that targets are drawn with."""
    more = WIDE - SLOPES.size if cell.kind == "clean" and cell.family != "poisson" else 0
    return np.append(SLOPES, np.full(more, 0.1))


def columns(rng: np.random.Generator, cell: Cell) -> FloatArray:
    """Return correlated normal columns, with one skewed column and one rare indicator each."""
    n = cell.rows * cell.per_person
    d = slopes_of(cell).size
    X = rng.standard_normal((n, d))
    for j in range(1, d):
        X[:, j] = 0.4 * X[:, j - 1] + np.sqrt(0.84) * X[:, j]
    X[:, 1] = rng.gamma(4.0, 0.5, n) - 2.0
    X[:, 4] = rng.random(n) < 0.2
    if cell.per_person > 1:
        X[:, 1] = np.repeat(rng.random(cell.rows) < 0.5, cell.per_person)
    return X


def targets(rng: np.random.Generator, cell: Cell, X: FloatArray) -> FloatArray:
    """Return targets, before they are clipped."""
    n = len(X)
    score = X @ slopes_of(cell) + INTERCEPT[cell.family]
    spread = 0.5 + np.abs(X[:, 1])
    if cell.family == "linear":
        if cell.kind == "heteroscedastic":
            return np.asarray(score + spread * rng.standard_normal(n))
        if cell.kind == "skewed":
            return np.asarray(score + spread * (rng.exponential(size=n) - 1.0))
        if cell.per_person > 1:
            person = np.repeat(rng.standard_normal(cell.rows), cell.per_person)
            return np.asarray(score + person + rng.standard_normal(n))
        return np.asarray(score + rng.standard_normal(n))
    if cell.family == "logistic":
        person = np.repeat(rng.standard_normal(cell.rows), cell.per_person)
        score = score + (person if cell.per_person > 1 else 0.0)
        return (rng.random(n) < expit(score)).astype(float)
    frailty: Any = 1.0
    if cell.kind == "heteroscedastic":  # more so where x1 is large
        shape = 1.0 / np.clip(0.2 + X[:, 1] + 2.0, 0.2, 4.0)
        frailty = rng.gamma(3.0 * shape, 1.0 / (3.0 * shape))
    elif cell.per_person > 1:
        frailty = np.repeat(rng.gamma(4.0, 0.25, cell.rows), cell.per_person)
    return rng.poisson(np.exp(score) * frailty).astype(float)


def table(rng: np.random.Generator, cell: Cell) -> Table:
    """Return a table of the cell."""
    X = columns(rng, cell)
    groups = None
    if cell.per_person > 1:
        groups = np.repeat(np.arange(cell.rows), cell.per_person)
    return Table(X, targets(rng, cell, X), groups)


@cache
def bounds(cell: Cell) -> tuple[float, float]:
    """Return the bounds of the target; those of the cells "at bound" cut 3 % of the targets."""
    wide = PEOPLE if cell.family == "linear" else tuple(map(float, COUNTS))
    if cell.kind != "at bound":
        return wide
    large = table(np.random.default_rng([7, 7]), Cell(cell.family, cell.kind, 200_000, 1.0))
    return wide[0], float(np.quantile(large.y, 0.97))


@cache
def truth(cell: Cell) -> FloatArray:
    """Return intercept and slopes of the population: of the marginal model of a logistic cell."""
    known = np.append(INTERCEPT[cell.family], slopes_of(cell))
    if cell.family != "logistic" or cell.per_person == 1:
        return known
    large = Cell(cell.family, cell.kind, 2_000_000 // cell.per_person, 1.0)
    found, _ = plain(large, table(np.random.default_rng([8, 8]), large))
    return found


def plain(cell: Cell, data: Table) -> tuple[FloatArray, FloatArray]:
    """Return estimates without privacy and their errors, robust to clusters."""
    V = np.column_stack([np.ones(len(data.X)), data.X])
    at = np.zeros(V.shape[1])
    at[0] = np.log(data.y.mean()) if cell.family == "poisson" else 0.0
    for _ in range(30):
        score = V @ at
        mean, curved = score, np.ones(len(V))
        if cell.family == "logistic":
            mean = expit(score)
            curved = mean * (1.0 - mean)
        elif cell.family == "poisson":
            mean = curved = np.exp(score)
        hessian = (V * curved[:, None]).T @ V
        step = np.linalg.solve(hessian, V.T @ (data.y - mean))
        at = at + step
        if np.abs(step).max() < 1e-10:
            break
    parts = V * (data.y - mean)[:, None]
    if data.groups is not None:
        parts = parts.reshape(cell.rows, cell.per_person, -1).sum(axis=1)
    inverse = np.linalg.inv(hessian)
    return at, np.sqrt(np.diag(inverse @ (parts.T @ parts) @ inverse))


def fitted(cell: Cell, data: Table) -> Any:
    """Return a private fit."""
    about: Any = {"inference": True, "cov_type": "robust"}
    model: Any
    if cell.family == "linear":
        model = LinearRegression(cell.epsilon, 1e-6, target_bounds=bounds(cell), **about)
    elif cell.family == "logistic":
        model = LogisticRegression(cell.epsilon, 1e-6, classes=[0.0, 1.0], **about)
    else:
        model = PoissonRegressor(cell.epsilon, 1e-6, target_bounds=bounds(cell), **about)
    return model.fit(data.X, data.y, groups=data.groups)


class Fit(NamedTuple):
    """Errors over standard errors, widths over those without privacy, marks, and p of the test."""

    z: FloatArray
    widths: FloatArray
    marked: NDArray[np.bool_]
    p: float


def judged(cell: Cell, model: Any, plain_errors: FloatArray, kind: str) -> Fit:
    """Compare a fit with the truth, with one kind of errors."""
    values = np.append(np.ravel(model.intercept_), np.ravel(model.coef_))
    none = np.full(values.size, np.nan)
    if not model.covariances_:
        return Fit(none, none, np.zeros(values.size, dtype=bool), np.nan)
    covariance = model.covariances_[0]
    covariance = covariance.robust() if kind == "robust" else covariance
    first = np.roll(np.eye(values.size), -1, axis=1)  # our own rows have the intercept last
    first = np.eye(values.size)[np.r_[values.size - 1, : values.size - 1]]
    errors = covariance.parts(first).errors
    whole = covariance.of_combinations(first)
    tested = slice(4, 7)
    p = np.nan
    if np.isfinite(errors[tested]).all():
        found = values[tested]
        p = float(chi2.sf(found @ np.linalg.solve(whole[tested, tested], found), found.size))
    marked = np.array([bool(each) for each in covariance.marks(first)])
    return Fit((values - truth(cell)) / errors, errors / plain_errors, marked, p)


def measured(cell: Cell, fits: int, seed: int) -> Iterator[dict[str, Any]]:
    """Run a cell; yield the numbers of both kinds of errors."""
    found: dict[str, list[Fit]] = {"model": [], "robust": []}
    for number in range(fits):
        data = table(np.random.default_rng([seed, number]), cell)
        _, errors = plain(cell, data)
        model = fitted(cell, data)
        for kind, each in found.items():
            each.append(judged(cell, model, errors, kind))
    for kind, each in found.items():
        z, widths, marked, p = (np.array(part) for part in zip(*each, strict=True))
        given = np.isfinite(z)
        plainly = given & ~marked
        inside = np.abs(z) < norm.ppf(0.975)
        tests = p[np.isfinite(p)]
        yield {
            "cell": cell.name,
            "errors": kind,
            "fits": fits,
            "coverage": _mean(inside[plainly]),
            "key": _mean(inside[:, 2][plainly[:, 2]]),
            "with marked": _mean(inside[given]),
            "width": float(np.median(widths[given])) if given.any() else float("nan"),
            "refused": 1.0 - float(given.mean()),
            "marked": _mean(marked[given]),
            "tests": int(tests.size),
            "5 %": _mean(tests < 0.05),
            "1 %": _mean(tests < 0.01),
        }


def _mean(values: NDArray[Any]) -> float:
    return float(np.mean(values)) if values.size else float("nan")


HEADS = ("coverage", "key", "with marked", "width", "refused", "marked", "tests", "5 %", "1 %")


def line(found: dict[str, Any]) -> str:
    """Return a row of the table."""
    cells = []
    for head in HEADS:
        value = found[head]
        form = "{:.0f}" if head == "tests" else "{:.3f}" if "%" in head else "{:.2f}"
        form = "{:.3f}" if head in ("coverage", "key", "with marked") else form
        cells.append("–" if value != value else form.format(value))
    return f"| {found['cell']} | {found['errors']} | {found['fits']} | {' | '.join(cells)} |"


def main() -> None:
    """Print the table as Markdown, cell by cell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=400)
    parser.add_argument("--cells", nargs="+", default=[], help="parts of names of cells")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    chosen = [
        cell for cell in CELLS if not given.cells or any(part in cell.name for part in given.cells)
    ]
    print(f"| cell | errors | fits | {' | '.join(HEADS)} |")
    print("|---" * 2 + "|---:" * (len(HEADS) + 1) + "|", flush=True)
    rows: list[dict[str, Any]] = []
    measure: Callable[[Cell], Iterator[dict[str, Any]]] = lambda cell: measured(  # noqa: E731
        cell, given.fits, given.seed
    )
    for cell in chosen:
        for found in measure(cell):
            rows.append(found)
            print(line(found), flush=True)
            if given.output is not None:
                given.output.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
