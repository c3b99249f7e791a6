"""Measure private linear regression: the default against AdaSSP and iterative Hessian mixing.

    python -m discreet_bench.regression --seeds 5                 # measure what is missing
    python -m discreet_bench.regression --again discreet          # measure the default anew
    python -m discreet_bench.regression --seeds 0 --page docs/regression.md   # tables from rows

Splits are 80/20 and seeded, δ is 1/n² for n training rows. The default gets the columns as they are
and public bounds of the target. Methods marked "encoded" get standardised columns and a constant,
with rows scaled down to their mean square norm √(d + 1): this uses the training rows for free, as
the papers of these methods do. A second part repeats the published experiment of AdaSSP: ten folds,
δ = 10⁻⁶, columns standardised over all rows, every row divided by its norm.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import r2_score

from discreet import LinearRegression
from discreet.validate import FloatArray
from discreet_bench.auto import Split
from discreet_bench.least_squares import IHM, AdaSSP
from discreet_bench.promise import check
from discreet_bench.records import append, mean_and_deviation, read, replace_block, table, write
from discreet_bench.tabular import UCI, Tabular, tabular

__all__ = ["EPSILONS", "METHODS", "PUBLISHED", "TABLES", "Run", "main", "measure"]

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
OWN, PLAIN, PLAIN_ENCODED = "discreet", "least squares", "least squares, encoded"
NEWTON = "newton, encoded"

PUBLISHED = {
    "airfoil": (0.0912, 0.0588),
    "concrete": (0.1320, 0.0637),
    "elevators": (0.0261, 0.0132),
    "pol": (0.2236, 0.1398),
    "protein": (0.1259, 0.1199),
    "pumadyn32nm": (0.0957, 0.0955),
}
"""Mean squared errors of AdaSSP at ε = 0.1 and 1 (Wang 2018), of tables whose files agree."""

PUBLISHED_EPSILONS, PUBLISHED_DELTA, FOLDS = (0.1, 1.0), 1e-6, 10
SHOWN = ("AdaSSP, encoded", "AdaSSP tight, encoded", "IHM tight, encoded", OWN, PLAIN_ENCODED)
"""Methods of the published experiment."""


class Encoded(NamedTuple):
    """Training rows of norm at most 1, rows to predict, and targets in [-1, 1] with their map."""

    X: FloatArray
    y: FloatArray
    X_train: FloatArray
    X_test: FloatArray
    centre: float
    half: float

    def predictions(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return predictions of training and test rows, none of which is scaled down."""
        train, test = self.X_train @ weights, self.X_test @ weights
        return self.centre + self.half * train, self.centre + self.half * test


@dataclass(frozen=True)
class Run:
    """One fit: R² and mean squared error of test rows, and excess risk of training rows.

    The excess is over least squares with an intercept, in variances of the target. R² and error are
    of predictions clipped to the bounds of the target, the excess is of those before. ``true`` is
    the ε that was recomputed from the noise; ε is infinite without privacy.
    """

    table: str
    encoding: str
    method: str
    epsilon: float
    seed: int
    delta: float
    r2: float
    mse: float
    excess: float
    seconds: float
    true: float

    @property
    def key(self) -> tuple[str, str, str, float, int]:
        """Return what tells a fit from the others."""
        return (self.table, self.encoding, self.method, self.epsilon, self.seed)


# -- generated tables


def _generated(name: str, X: FloatArray, signal: FloatArray, noise: FloatArray) -> Tabular:
    """Return a table whose target is within five known standard deviations of 0."""
    y = np.clip(2.0 * signal + noise, -11.0, 11.0)
    return Tabular(name, X, y, (-11.0, 11.0))


def _independent() -> Tabular:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((20_000, 20))
    weights = rng.standard_normal(20)
    return _generated(
        "independent", X, X @ weights / np.linalg.norm(weights), rng.standard_normal(20_000)
    )


def _correlated() -> Tabular:
    """Return neighbouring columns with correlation 0.9, far from 0 and in units 0.001 to 1000."""
    rng = np.random.default_rng(2)
    columns = [rng.standard_normal(20_000)]
    for _ in range(19):
        columns.append(0.9 * columns[-1] + math.sqrt(1 - 0.81) * rng.standard_normal(20_000))
    X = np.column_stack(columns)
    signal = X @ rng.standard_normal(20)
    units = 10.0 ** np.linspace(-3, 3, 20)
    noise = rng.standard_normal(20_000)
    return _generated("correlated", (X + 10) * units, signal / signal.std(), noise)


def _heavy_tails() -> Tabular:
    """Return columns with Student's t distribution of 3 degrees of freedom."""
    rng = np.random.default_rng(3)
    X = rng.standard_t(3, (20_000, 10))
    signal = X @ rng.standard_normal(10)
    return _generated("heavy tails", X, signal / signal.std(), rng.standard_normal(20_000))


def _credit() -> Tabular:
    """Return the classes of credit-default as numbers."""
    found = tabular("credit-default")
    return replace(found, y=found.y.astype(np.float64), bounds=(0.0, 1.0))


TABLES: dict[str, Callable[[], Tabular]] = {
    **{name: lambda name=name: tabular(name) for name in UCI},  # type: ignore[misc]
    **{name: lambda name=name: tabular(name) for name in ("wine-quality", "bike-sharing")},  # type: ignore[misc]
    "credit-default": _credit,
    "independent": _independent,
    "correlated": _correlated,
    "heavy tails": _heavy_tails,
}


# -- methods


def _own(run: Run, split: Split) -> tuple[Run, FloatArray, FloatArray]:
    assert split.bounds is not None
    model: Any = LinearRegression(run.epsilon, run.delta, target_bounds=split.bounds)
    start = time.perf_counter()
    model.fit(split.X, split.y)
    seconds = time.perf_counter() - start
    true = check(model.guarantee_, run.epsilon, run.delta)
    train, test = (X @ model.coef_ + model.intercept_ for X in (split.X, split.X_test))
    return replace(run, seconds=seconds, true=true), train, test


def _solver(run: Run, rows: Encoded, solver: str) -> tuple[Run, FloatArray]:
    model: Any = LinearRegression(
        run.epsilon, run.delta, solver=solver, data_norm=1.0, fit_intercept=False,
        target_bounds=(-1.0, 1.0),
    )  # fmt: skip
    model.fit(rows.X, rows.y)
    return replace(run, true=check(model.guarantee_, run.epsilon, run.delta)), model.coef_


def _adassp(run: Run, rows: Encoded, calibration: Any) -> tuple[Run, FloatArray]:
    method = AdaSSP(run.epsilon, run.delta, calibration)
    weights = method.fit(rows.X, rows.y, np.random.default_rng(run.seed))
    return replace(run, true=method.true_epsilon()), weights


def _ihm(run: Run, rows: Encoded, calibration: Any) -> tuple[Run, FloatArray]:
    method = IHM(run.epsilon, run.delta, calibration)
    weights = method.fit(rows.X, rows.y, np.random.default_rng(run.seed))
    return replace(run, true=method.true_epsilon(rows.X.shape[1])), weights


def _plain(run: Run, rows: Encoded, _: str) -> tuple[Run, FloatArray]:
    """Fit without privacy, with the ridge of 1 that the published experiment has."""
    return run, np.linalg.solve(rows.X.T @ rows.X + np.eye(rows.X.shape[1]), rows.X.T @ rows.y)


METHODS: dict[str, tuple[Callable[..., tuple[Run, FloatArray]], str] | None] = {
    OWN: None,
    NEWTON: (_solver, "newton"),
    "gd, encoded": (_solver, "gd"),
    "AdaSSP, encoded": (_adassp, "published"),
    "AdaSSP tight, encoded": (_adassp, "tight"),
    "IHM, encoded": (_ihm, "published"),
    "IHM tight, encoded": (_ihm, "tight"),
    PLAIN: None,
    PLAIN_ENCODED: (_plain, ""),
}
"""Methods in the order of the tables, with their function and setting on encoded rows."""

RIVALS = tuple(name for name in METHODS if name.startswith(("AdaSSP", "IHM")))


def encoded(split: Split) -> Encoded:
    """Standardise columns by the training rows, add a constant, and scale long rows down."""
    assert split.bounds is not None
    mean, deviation = split.X.mean(axis=0), split.X.std(axis=0)
    deviation = np.where(deviation > 0, deviation, 1.0)
    train, test = (
        np.column_stack([(X - mean) / deviation, np.ones(len(X))]) for X in (split.X, split.X_test)
    )
    norm = math.sqrt(train.shape[1])
    train, test = train / norm, test / norm
    shorter = train / np.maximum(1.0, np.linalg.norm(train, axis=1))[:, None]
    low, high = split.bounds
    centre, half = (low + high) / 2, (high - low) / 2
    return Encoded(shorter, (split.y - centre) / half, train, test, centre, half)


def published_fold(data: Tabular, fold: int) -> tuple[Split, Encoded]:
    """Return a fold of the published experiment of AdaSSP, with the target as it is there."""
    spread = data.X.std(axis=0)
    X = (data.X - data.X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    X = X / np.maximum(np.linalg.norm(X, axis=1), 1e-30)[:, None]
    y = data.y - data.y.mean()
    y = y / np.abs(y).max()
    order = np.random.default_rng(0).permutation(len(y))
    test = order[fold::FOLDS]
    train = np.setdiff1d(order, test)
    split = Split(X[train], y[train], X[test], y[test], (-1.0, 1.0))
    return split, Encoded(X[train], y[train], X[train], X[test], 0.0, 1.0)


def measure(
    data: Tabular,
    repeats: int,
    epsilons: Sequence[float],
    methods: Sequence[str],
    done: set[object],
    encoding: str = "own",
) -> Iterator[Run]:
    """Yield the fits of a table that are not among those done."""
    if sp.issparse(data.X):
        data = replace(data, X=data.X.toarray())
    data = replace(data, X=np.asarray(data.X, dtype=np.float64), y=data.y.astype(np.float64))
    for seed in range(repeats):
        if encoding == "published":
            split, rows = published_fold(data, seed)
            delta = PUBLISHED_DELTA
        else:
            split = Split.of(data, seed)
            rows = encoded(split)
            delta = len(split.y) ** -2.0
        constant = np.column_stack([split.X, np.ones(len(split.y))])
        least = np.linalg.lstsq(constant, split.y, rcond=None)[0]
        minimum = float(np.mean((constant @ least - split.y) ** 2))
        for method in methods:
            private = not method.startswith(PLAIN)
            for epsilon in epsilons if private else (math.inf,):
                nothing = (math.nan,) * 5
                run = Run(data.name, encoding, method, epsilon, seed, delta, *nothing)
                if run.key in done:
                    continue
                how = METHODS[method]
                if method == OWN:
                    run, train, test = _own(run, split)
                elif how is None:
                    train = constant @ least
                    test = split.X_test @ least[:-1] + least[-1]
                else:
                    start = time.perf_counter()
                    run, weights = how[0](run, rows, how[1])
                    run = replace(run, seconds=time.perf_counter() - start)
                    train, test = rows.predictions(weights)
                yield _scored(run, split, train, test, minimum)


def _scored(run: Run, split: Split, train: FloatArray, test: FloatArray, minimum: float) -> Run:
    assert split.bounds is not None
    shown = np.clip(test, *split.bounds)
    return replace(
        run,
        r2=float(r2_score(split.y_test, shown)),
        mse=float(np.mean((shown - split.y_test) ** 2)),
        excess=(float(np.mean((train - split.y) ** 2)) - minimum) / float(np.var(split.y)),
    )


# -- tables


def _chosen(runs: Sequence[Run], name: str, method: str, epsilon: float) -> list[Run]:
    wanted = math.inf if method.startswith(PLAIN) else epsilon
    return [r for r in runs if (r.table, r.method, r.epsilon) == (name, method, wanted)]


def _small(values: Sequence[float]) -> str:
    """Return mean and standard deviation of positive numbers of any size."""
    if len(values) < 2:
        return f"{values[0]:.2g}" if values else "–"
    return f"{np.mean(values):.2g} ± {np.std(values, ddof=1):.1g}"


def r2_table(runs: Sequence[Run]) -> str:
    """Return a Markdown table of R², in bold where the default is ahead of AdaSSP and IHM."""
    lines = []
    for name in TABLES:
        for method in METHODS:
            cells = [[r.r2 for r in _chosen(runs, name, method, e)] for e in EPSILONS]
            if any(cells):
                shown = [mean_and_deviation(cell, 3) for cell in cells]
                if method == OWN:
                    ahead = [bool(c) and not _behind(runs, name, e)
                             for c, e in zip(cells, EPSILONS, strict=True)]  # fmt: skip
                    shown = [f"**{c}**" if a else c for c, a in zip(shown, ahead, strict=True)]
                lines.append([name, method, *shown])
    return table(["data", "method", *(f"ε = {e:g}" for e in EPSILONS)], lines, text=2)


def excess_table(runs: Sequence[Run]) -> str:
    """Return a Markdown table of the excess risk of the default, AdaSSP and IHM."""
    lines = []
    for name in TABLES:
        for method in (OWN, "AdaSSP tight, encoded", "IHM tight, encoded"):
            cells = [[r.excess for r in _chosen(runs, name, method, e)] for e in EPSILONS]
            if any(cells):
                lines.append([name, method, *map(_small, cells)])
    return table(["data", "method", *(f"ε = {e:g}" for e in EPSILONS)], lines, text=2)


def _behind(runs: Sequence[Run], name: str, epsilon: float, ours: str = OWN) -> str:
    """Return the best of AdaSSP and IHM with its lead in R², if it is ahead of a method of ours."""
    own = {r.seed: r.r2 for r in _chosen(runs, name, ours, epsilon)}
    means = {}
    for method in RIVALS:
        found = {r.seed: r.r2 for r in _chosen(runs, name, method, epsilon)}
        if found and own:
            means[method] = [found[seed] - own[seed] for seed in found.keys() & own.keys()]
    if not means:
        return ""
    best = max(means, key=lambda method: float(np.mean(means[method])))
    if np.mean(means[best]) <= 0:
        return ""
    return f"{best} leads by {mean_and_deviation(means[best], 3)}"


def verdict(runs: Sequence[Run]) -> str:
    """State in how many cells the default is ahead, and list the others."""
    cells = [(name, epsilon) for name in TABLES for epsilon in EPSILONS]
    measured = [cell for cell in cells if _chosen(runs, cell[0], OWN, cell[1])]
    others = [(*cell, lead) for cell in measured if (lead := _behind(runs, *cell))]
    won = len(measured) - len(others)
    text = f"The default is ahead of all four in {won} of {len(measured)} cells."
    same = [cell for cell in cells if _chosen(runs, cell[0], NEWTON, cell[1])]
    if same:
        ahead = sum(not _behind(runs, *cell, NEWTON) for cell in same)
        text += f"\nOn the encoded rows that they get, `newton` is ahead in {ahead} of {len(same)}."
    listed = "\n".join(f"- {name}, ε = {epsilon:g}: {lead}." for name, epsilon, lead in others)
    return f"{text}\nCells in which the default is not ahead:\n\n{listed}" if others else text


def guarantee_table(runs: Sequence[Run]) -> str:
    """Return a Markdown table of recomputed over claimed ε, and of seconds per fit."""
    lines = []
    for method in METHODS:
        found = [r for r in runs if r.method == method and math.isfinite(r.true)]
        if found:
            shares = [r.true / r.epsilon for r in found]
            seconds = [r.seconds for r in found]
            spread = f"{min(shares):.3f} to {max(shares):.3f}"
            lines.append([method, spread, f"{np.median(seconds):.3f}"])
    return table(["method", "recomputed ε / ε", "seconds, median"], lines)


def published_table(runs: Sequence[Run]) -> str:
    """Return a Markdown table of mean squared errors beside the published ones."""
    lines = []
    for name, numbers in PUBLISHED.items():
        for epsilon, number in zip(PUBLISHED_EPSILONS, numbers, strict=True):
            cells = [[r.mse for r in _chosen(runs, name, m, epsilon)] for m in SHOWN]
            shown = [mean_and_deviation(cell, 4) for cell in cells]
            lines.append([name, f"{epsilon:g}", f"{number:.4f}", *shown])
    header = ["data", "ε", "AdaSSP, paper", *(method.removesuffix(", encoded") for method in SHOWN)]
    return table(header, lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: measure what is missing, then fill a page if one is named."""
    parser = argparse.ArgumentParser(description="Measure private linear regression.")
    parser.add_argument("--tables", default=",".join(TABLES), help="names, separated by commas")
    parser.add_argument("--epsilons", default=",".join(f"{each:g}" for each in EPSILONS))
    parser.add_argument("--methods", default=";".join(METHODS), help="separated by semicolons")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--folds", type=int, default=FOLDS, help="of the published experiment")
    parser.add_argument("--again", default="", help="a method whose rows are measured anew")
    parser.add_argument("--rows", type=Path, default=Path("bench/results/regression.csv"))
    parser.add_argument("--page", type=Path, help="page whose tables are replaced")
    asked = parser.parse_args(arguments)
    runs = read(asked.rows, Run)
    if asked.again:
        runs = [run for run in runs if run.method != asked.again]
        write(asked.rows, runs)
    warnings.simplefilter("ignore")
    done: set[object] = {run.key for run in runs}
    methods = asked.methods.split(";")
    epsilons = [float(each) for each in asked.epsilons.split(",")]
    for name in asked.tables.split(",") if asked.seeds else ():
        data = TABLES[name]()
        parts = [measure(data, asked.seeds, epsilons, methods, done)]
        if name in PUBLISHED:
            shown = [method for method in methods if method in SHOWN]
            parts.append(measure(data, asked.folds, PUBLISHED_EPSILONS, shown, done, "published"))
        for part in parts:
            for run in part:
                append(asked.rows, run)
                runs.append(run)
        print(f"{name}: {len(runs)} rows", flush=True)
    if asked.page:
        own = [run for run in runs if run.encoding == "own"]
        copied = [run for run in runs if run.encoding == "published"]
        blocks = {
            "r2 table": f"{r2_table(own)}\n\n{verdict(own)}",
            "excess table": excess_table(own),
            "published table": published_table(copied),
            "guarantee table": guarantee_table(own),
        }
        for block, text in blocks.items():
            replace_block(asked.page, block, text)


if __name__ == "__main__":
    main()
