"""Measure coverage, widths and type-I errors of intervals in named cells, by simulation.

Run: python -m bench.studies.findings [--fits 400] [--cells NAME …] [--seed 1] [--output FILE]
     python -m bench.studies.findings --grid --check
     python -m bench.studies.findings --page

A cell is a family, a way in which the data meet or break the conditions, a number of rows and ε.
For both kinds of errors it prints the coverage of 95 % intervals over all coefficients and of the
key one (x1, or the treatment of people), the median width over that of robust intervals without
privacy, the shares of intervals that were refused and that were marked with a reason, and how often
Wald's joint test rejects three coefficients that are 0, at 5 % and 1 %. Cells "joint" are small and
have five times as many fits. Those of least squares have a line for submodels of three columns,
too. Cells "survey" have private weights from 1 to 30.

With --output each cell is added to a CSV file when it is done, and a second run leaves out cells
that the file has. Each fit is kept beside it, in a file of JSON lines, so a run that --minutes ends
or that is interrupted goes on where it was. --page writes the table of docs/inference.md from the
committed file. --grid takes families, sizes and budgets in all combinations; with --check it fails
if an interval that is not marked covers less or more than it may. Seeds of the tables are
[seed, fit]; the privacy noise is not seeded.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import re
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import binomtest, chi2, norm

from discreet import LinearRegression, LogisticRegression, NotSupported, PoissonRegressor

FloatArray = NDArray[np.float64]

SLOPES = np.array([0.4, -0.3, 0.2, 0.0, 0.0, 0.0])
"""Slopes of the first columns; the last three are 0 and tested jointly."""

WIDE = 13
"""Columns of the clean cells; those after the first six have the slope 0.1."""

INTERCEPT = {"linear": 1.0, "logistic": -0.5, "poisson": 0.7}
COUNTS = (0.0, 20.0)
PEOPLE = (-14.0, 16.0)

LARGEST_WEIGHT = 30.0
"""Weights of cells "survey" are from 1 to this."""

KEPT = (0, 2, 5)
"""Columns of submodels."""

RESULTS = Path(__file__).parents[1] / "results" / "findings.csv"
PAGE = Path(__file__).parents[2] / "docs" / "inference.md"

COVERS = (0.93, 0.97)
"""Coverage that a cell may have."""

DEVIATIONS = 4.5
"""So many standard errors beyond it, --check fails: one cell of 100,000 does by chance."""


class Table(NamedTuple):
    """Rows, targets, whose row each row is, and weights of rows."""

    X: FloatArray
    y: FloatArray
    groups: NDArray[np.int64] | None = None
    weights: FloatArray | None = None


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
    def times(self) -> int:
        """Factor of the number of fits."""
        return 5 if self.kind == "joint" else 1

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of errors that are judged, and submodels."""
        submodels = self.kind == "joint" and self.family == "linear"
        return ("robust", "model", *(["submodel"] if submodels else []))

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
    Cell("linear", "survey", 20_000, 3.0),
    Cell("logistic", "survey", 20_000, 3.0),
    Cell("linear", "joint", 4_000, 3.0),
    Cell("logistic", "joint", 4_000, 3.0),
    Cell("poisson", "joint", 4_000, 10.0),
)

GRID = tuple(
    Cell(family, kind, rows, epsilon)
    for family, kind, rows, epsilon in itertools.product(
        INTERCEPT,
        ("clean", "heteroscedastic", "people 4", "people 15", "survey"),
        (5_000, 20_000),
        (0.3, 1.0, 3.0, 10.0),
    )
    if not (family == "logistic" and kind == "heteroscedastic")
)
"""Cells of --grid. Classes have no spread of their own."""


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
        return np.asarray(rng.random(n) < expit(score), dtype=np.float64)
    frailty: Any = 1.0
    if cell.kind == "heteroscedastic":  # more so where x1 is large
        shape = 1.0 / np.clip(0.2 + X[:, 1] + 2.0, 0.2, 4.0)
        frailty = rng.gamma(3.0 * shape, 1.0 / (3.0 * shape))
    elif cell.per_person > 1:
        frailty = np.repeat(rng.gamma(4.0, 0.25, cell.rows), cell.per_person)
    return np.asarray(rng.poisson(np.exp(score) * frailty), dtype=np.float64)


def table(rng: np.random.Generator, cell: Cell) -> Table:
    """Return a table of the cell."""
    if cell.kind == "survey":
        return surveyed(rng, cell)
    X = columns(rng, cell)
    groups = None
    if cell.per_person > 1:
        groups = np.repeat(np.arange(cell.rows), cell.per_person)
    return Table(X, targets(rng, cell, X), groups)


def surveyed(rng: np.random.Generator, cell: Cell) -> Table:
    """Return a sample of a population, in which large targets and x0 are more often, and weights.

    A weight is one over the probability to be drawn, which also depends on what no column has.
    """
    whole = Cell(cell.family, "population", 8 * cell.rows, cell.epsilon)
    X = columns(rng, whole)
    y = targets(rng, whole, X)
    drive = 0.6 * (y - y.mean()) / y.std() + 0.4 * X[:, 0] + 0.7 * rng.standard_normal(len(y))
    weights = np.clip(np.exp(1.7 - drive), 1.0, LARGEST_WEIGHT)
    kept = np.flatnonzero(rng.random(len(y)) < 1.0 / weights)[: cell.rows]
    return Table(X[kept], y[kept], weights=weights[kept])


@cache
def bounds(cell: Cell) -> tuple[float, float]:
    """Return the bounds of the target; those of the cells "at bound" cut 3 % of the targets."""
    wide = PEOPLE if cell.family == "linear" else COUNTS
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
    weights = np.ones(len(V)) if data.weights is None else data.weights
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
        hessian = (V * (weights * curved)[:, None]).T @ V
        step = np.linalg.solve(hessian, V.T @ (weights * (data.y - mean)))
        at = at + step
        if np.abs(step).max() < 1e-10:
            break
    parts = V * (weights * (data.y - mean))[:, None]
    if data.groups is not None:
        parts = parts.reshape(cell.rows, cell.per_person, -1).sum(axis=1)
    inverse = np.linalg.inv(hessian)
    return at, np.sqrt(np.diag(inverse @ (parts.T @ parts) @ inverse))


def fitted(cell: Cell, data: Table) -> Any:
    """Return a private fit."""
    about: Any = {"inference": True, "cov_type": "robust"}
    if data.weights is not None:
        about["weight_bound"] = LARGEST_WEIGHT
    model: Any
    if cell.family == "linear":
        model = LinearRegression(cell.epsilon, 1e-6, target_bounds=bounds(cell), **about)
    elif cell.family == "logistic":
        model = LogisticRegression(cell.epsilon, 1e-6, classes=[0.0, 1.0], **about)
    else:
        model = PoissonRegressor(cell.epsilon, 1e-6, target_bounds=bounds(cell), **about)
    return model.fit(data.X, data.y, groups=data.groups, sample_weight=data.weights)


class Fit(NamedTuple):
    """Errors over standard errors, widths over those without privacy, marks, and p of the test."""

    z: FloatArray
    widths: FloatArray
    marked: NDArray[np.bool_]
    p: float

    def plain(self) -> list[Any]:
        """Return the fit as JSON has it, numbers with six digits."""
        short = [[float(f"{value:.6g}") for value in part] for part in (self.z, self.widths)]
        return [*short, [bool(each) for each in self.marked], float(f"{self.p:.6g}")]

    @classmethod
    def of(cls, found: list[Any]) -> Fit:
        """Return the fit of such data."""
        z, widths, marked, p = found
        return cls(np.array(z), np.array(widths), np.array(marked, dtype=bool), p)


def judged(cell: Cell, model: Any, plain_errors: FloatArray, kind: str) -> Fit:
    """Compare a fit with the truth, with one kind of errors."""
    if kind == "submodel":
        return of_submodel(cell, model)
    values = np.append(np.ravel(model.intercept_), np.ravel(model.coef_))
    none = np.full(values.size, np.nan)
    if not model.covariances_:
        return Fit(none, none, np.zeros(values.size, dtype=bool), np.nan)
    covariance = model.covariances_[0]
    covariance = covariance.robust() if kind == "robust" else covariance
    # our own rows have the intercept last
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


@cache
def kept_truth(cell: Cell) -> FloatArray:
    """Return intercept and slopes of the submodel in the population."""
    large = columns(np.random.default_rng([9, 9]), Cell(cell.family, cell.kind, 1_000_000, 1.0))
    V = np.column_stack([np.ones(len(large)), large])
    kept = V[:, [0, *(1 + k for k in KEPT)]]
    return np.asarray(np.linalg.lstsq(kept, V @ truth(cell), rcond=None)[0])


def of_submodel(cell: Cell, model: Any) -> Fit:
    """Compare a submodel with that of the population; it has no widths and no joint test."""
    try:
        frame = model.submodel([f"x{k}" for k in KEPT]).to_frame()
    except NotSupported:
        none = np.full(1 + len(KEPT), np.nan)
        return Fit(none, none, np.zeros(none.size, dtype=bool), np.nan)
    z = ((frame["coef"] - kept_truth(cell)) / frame["std err"]).to_numpy()
    return Fit(z, np.full(z.size, np.nan), np.zeros(z.size, dtype=bool), np.nan)


class Kept:
    """Fits that are done, in memory and in a file of JSON lines, if there is one."""

    def __init__(self, file: Path | None = None) -> None:
        self.file = file
        self.fits: dict[tuple[str, int, int], dict[str, Fit]] = {}
        if file is not None and file.exists():
            for line in file.read_text(encoding="utf-8").splitlines():
                found = json.loads(line)
                judged = {kind: Fit.of(fit) for kind, fit in found["fits"].items()}
                self.fits[found["cell"], found["seed"], found["number"]] = judged

    def get(
        self, cell: Cell, seed: int, number: int, make: Callable[[], dict[str, Fit]]
    ) -> dict[str, Fit]:
        """Return a fit; make and keep it if it is not there."""
        key = cell.name, seed, number
        if key in self.fits:
            return self.fits[key]
        made = self.fits[key] = make()
        if self.file is not None:
            about = {"cell": cell.name, "seed": seed, "number": number}
            about["fits"] = {kind: fit.plain() for kind, fit in made.items()}
            with self.file.open("a", encoding="utf-8") as opened:
                opened.write(json.dumps(about) + "\n")
        return made


def one(cell: Cell, seed: int, number: int) -> dict[str, Fit]:
    """Draw a table, fit it, and judge each kind of errors."""
    data = table(np.random.default_rng([seed, number]), cell)
    _, errors = plain(cell, data)
    model = fitted(cell, data)
    return {kind: judged(cell, model, errors, kind) for kind in cell.kinds}


def measured(
    cell: Cell, fits: int, seed: int, kept: Kept, until: float = float("inf")
) -> Iterator[dict[str, Any]]:
    """Run a cell; yield the numbers of each kind of errors, none if the time is over."""
    found: dict[str, list[Fit]] = {kind: [] for kind in cell.kinds}
    for number in range(fits):
        if time.monotonic() > until:
            return
        made = kept.get(cell, seed, number, lambda: one(cell, seed, number))  # noqa: B023  at once
        for kind, fit in made.items():
            found[kind].append(fit)
    for kind, each in found.items():
        yield {"cell": cell.name, "errors": kind, "fits": fits, "seed": seed} | summed(each)


def summed(fits: Sequence[Fit]) -> dict[str, Any]:
    """Return shares over the fits of a cell, with the ends of their 95 % intervals."""
    z, widths, marked, p = (np.array(part) for part in zip(*fits, strict=True))
    given = np.isfinite(z)
    plainly = given & ~marked
    inside = np.abs(z) < norm.ppf(0.975)
    sized = np.isfinite(widths)
    tests = p[np.isfinite(p)]
    found: dict[str, Any] = _of_fits("coverage", inside, plainly)
    found |= _share("key", inside[:, 2][plainly[:, 2]])
    found["with marked"] = _mean(inside[given])
    found["width"] = float(np.median(widths[sized])) if sized.any() else float("nan")
    found["refused"] = 1.0 - float(given.mean())
    found["marked"] = _mean(marked[given])
    found["tests"] = int(tests.size)
    return found | _share("5 %", tests < 0.05) | _share("1 %", tests < 0.01)


def _mean(values: NDArray[Any]) -> float:
    return float(np.mean(values)) if values.size else float("nan")


def _of_fits(name: str, inside: NDArray[np.bool_], taken: NDArray[np.bool_]) -> dict[str, float]:
    """Return a share over the intervals of all fits; those of one fit depend on each other."""
    some = inside[taken.any(axis=1)]
    weight = taken[taken.any(axis=1)]
    if not len(some):
        return dict.fromkeys((name, f"{name} low", f"{name} high"), float("nan"))
    mean = float((some * weight).sum() / weight.sum())
    parts = ((some - mean) * weight).sum(axis=1) / weight.sum(axis=1).mean()
    half = float(norm.ppf(0.975)) * float(parts.std()) / np.sqrt(len(parts))
    return {name: mean, f"{name} low": mean - half, f"{name} high": mean + half}


def _share(name: str, values: NDArray[np.bool_]) -> dict[str, float]:
    """Return a share with its Wilson interval."""
    if not values.size:
        return dict.fromkeys((name, f"{name} low", f"{name} high"), float("nan"))
    low, high = binomtest(int(values.sum()), values.size).proportion_ci(method="wilson")
    return {name: _mean(values), f"{name} low": float(low), f"{name} high": float(high)}


FIELDS = (
    "cell",
    "errors",
    "fits",
    "seed",
    *(f"coverage{end}" for end in ("", " low", " high")),
    *(f"key{end}" for end in ("", " low", " high")),
    "with marked",
    "width",
    "refused",
    "marked",
    "tests",
    *(f"5 %{end}" for end in ("", " low", " high")),
    *(f"1 %{end}" for end in ("", " low", " high")),
)

HEADS = ("coverage", "key", "with marked", "width", "refused", "marked", "5 %", "1 %")


def line(found: dict[str, Any]) -> str:
    """Return a row of the table: shares that have an interval with its half width."""
    cells = []
    for head in HEADS:
        value = float(found[head])
        text = f"{value:.2f}" if head in ("width", "refused", "marked") else f"{value:.3f}"
        if f"{head} low" in found:
            half = (float(found[f"{head} high"]) - float(found[f"{head} low"])) / 2
            text += f" ± {half:.3f}"
        cells.append("–" if value != value else text)
    return f"| {found['cell']} | {found['errors']} | {found['fits']} | {' | '.join(cells)} |"


def lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the table as Markdown."""
    head = f"| cell | errors | fits | {' | '.join(HEADS)} |"
    return [head, "|---" * 2 + "|---:" * (len(HEADS) + 1) + "|", *(line(row) for row in rows)]


def read(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a file of results; none if there is no such file."""
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))


def write(file: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write the rows, cells in the order of the list."""
    order = list(dict.fromkeys(cell.name for cell in (*CELLS, *GRID)))
    ordered = sorted(rows, key=lambda row: order.index(row["cell"]))
    with file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.DictWriter(opened, FIELDS, lineterminator="\n")
        writer.writeheader()
        for row in ordered:
            short = {k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()}
            writer.writerow(short)


def page(text: str, rows: Sequence[dict[str, Any]]) -> str:
    """Return the page with the table between its marks."""
    made = "\n".join(["<!-- findings -->", "", *lines(rows), "", "<!-- end of findings -->"])
    marks = r"<!-- findings -->.*<!-- end of findings -->"
    return re.sub(marks, lambda _: made, text, flags=re.DOTALL)


def outside(found: dict[str, Any]) -> bool:
    """Return True if the coverage of intervals that are not marked is surely not what it may be."""
    deviation = (found["coverage high"] - found["coverage low"]) / (2 * norm.ppf(0.975))
    low = found["coverage"] + DEVIATIONS * deviation
    high = found["coverage"] - DEVIATIONS * deviation
    return bool(low < COVERS[0] or high > COVERS[1])


def main() -> None:
    """Print the table as Markdown, cell by cell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=400)
    parser.add_argument("--cells", nargs="+", default=[], help="parts of names of cells")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, help="CSV file; cells that it has are left out")
    parser.add_argument("--grid", action="store_true", help="all combinations of sizes and budgets")
    parser.add_argument("--check", action="store_true", help="fail if coverage is surely wrong")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="end after that long")
    parser.add_argument("--page", action="store_true", help="write the table of the page")
    given = parser.parse_args()
    if given.page:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), read(RESULTS)), encoding="utf-8")
        return
    warnings.simplefilter("ignore")
    rows: list[dict[str, Any]] = [] if given.output is None else read(given.output)
    done = {row["cell"] for row in rows}
    kept = Kept(None if given.output is None else given.output.with_suffix(".jsonl"))
    until = time.monotonic() + 60 * given.minutes
    print("\n".join(lines([])), flush=True)
    wrong = []
    for cell in GRID if given.grid else CELLS:
        parts = given.cells or [""]
        if cell.name in done or not any(part in cell.name for part in parts):
            continue
        for found in measured(cell, cell.times * given.fits, given.seed, kept, until):
            rows.append(found)
            print(line(found), flush=True)
            if given.check and found["errors"] != "model" and outside(found):
                wrong.append(f"{found['cell']} ({found['errors']})")
        if given.output is not None:
            write(given.output, rows)
    if wrong:
        raise SystemExit(f"Coverage is not within {COVERS[0]:g} to {COVERS[1]:g}: {wrong}.")


if __name__ == "__main__":
    main()
