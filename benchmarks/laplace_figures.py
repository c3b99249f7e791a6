"""Laplace SGD, one row at a time or in batches: figures 1 to 4 of Hardwarsing 2018 as numbers.

    DISCREET_DATA=folder python -m benchmarks.laplace_figures
    DISCREET_DATA=folder python -m benchmarks.laplace_figures --sweep

Hardwarsing, "Stochastic Gradient Descent With Differentially Private Updates" (2018), after Song,
Chaudhuri & Sarwate 2013: the objective after one pass over randomly permuted rows, with and without
noise, for batches of one and of a few rows; ε = 1, steps 1/√t, α = 1e-4, no intercept, mean ±
standard deviation of 20 permutations. As there, raw rows are divided by their norm first, and the
"random projection" keeps d of the columns, picked at random (here by ``--seed``). Columns picked
badly say little about the class; that changes the level of a line, not who wins in it.

``--sweep`` has batches of 1, 2, 5, 10, 20 and 50 rows with steps 1/√t and 10/√t (figures 4 and 5),
none longer than 1/β ≈ 4, with and without noise.
The noise-free SGD is a plain loop in this file; both permute the rows anew in every run.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
import warnings

import numpy as np

from benchmarks import datasets
from benchmarks.methods import in_a_cell
from discreet import LogisticRegression
from discreet.objectives import Logistic
from discreet.solvers import resolve

ALPHA = 1e-4
LONGEST = 1 / (0.25 + ALPHA)  # the private solver's cap on steps: 1/β for rows of norm 1
# Figure, data, rows (None: all), columns kept (None: all), batches.
FIGURES = (
    ("1", "mnist", None, 15, (1, 10)),
    ("2", "kddcup99", 50_000, 9, (1, 5)),
    ("3", "banknote", None, None, (1, 10)),
)
SWEEPS = (
    ("4", "mnist", None, 15, (1, 2, 5, 10, 20, 50)),
    ("5", "occupancy", None, None, (1, 2, 5, 10, 20, 50)),
)


def prepare(name: str, rows: int | None, kept: int | None, seed: int) -> tuple:
    """Rows of norm 1, then a random choice of columns."""
    data = datasets.load(name, raw=True)
    rng = np.random.default_rng(seed)
    X, y = data.X, data.y
    if rows is not None:
        chosen = rng.choice(len(y), rows, replace=False)
        X, y = X[chosen], y[chosen]
    X = X / np.maximum(np.linalg.norm(X, axis=1), 1e-300)[:, None]
    if kept is not None:
        X = X[:, np.sort(rng.choice(X.shape[1], kept, replace=False))]
    return np.ascontiguousarray(X), y


def objective(X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> float:
    """Mean logistic loss plus penalty."""
    return float(Logistic().value(X @ weights, y).mean() + ALPHA / 2 * weights @ weights)


def without_noise(X: np.ndarray, y: np.ndarray, batch: int, c: float) -> np.ndarray:
    """One pass of SGD over the rows as they stand; a last incomplete batch is left out."""
    weights = np.zeros(X.shape[1])
    signed = X * y[:, None]
    for t in range(len(y) // batch):
        rows = signed[t * batch : (t + 1) * batch]
        slopes = 1 / (1 + np.exp(rows @ weights))
        step = min(c / np.sqrt(t + 1), LONGEST)
        weights -= step * (ALPHA * weights - slopes @ rows / batch)
    return weights


def private(
    X: np.ndarray, y: np.ndarray, batch: int, c: float, arguments: argparse.Namespace
) -> np.ndarray:
    """One pass of the private solver."""
    solver = dataclasses.replace(
        resolve("laplace-sgd"),
        calibration=arguments.calibration,
        batch_size=batch,
        passes=1,
        schedule="sqrt",
        step_size=c,
    )
    model = LogisticRegression(
        epsilon=arguments.epsilon,
        delta=0.0,
        relation=str(type(solver).relations[0]),
        solver=solver,
        alpha=ALPHA,
        data_norm=1.0,
        fit_intercept=False,
        classes=[-1, 1],
    )
    return model.fit(X, y).coef_[0]


def line(
    X: np.ndarray, y: np.ndarray, batch: int, c: float, arguments: argparse.Namespace
) -> list[str]:
    """The cells for one batch size: with noise, without noise, seconds."""
    noisy, exact, seconds, problem = [], [], [], ""
    for permutation in range(arguments.permutations):
        order = np.random.default_rng(permutation).permutation(len(y))
        rows, targets = X[order], y[order]
        exact.append(objective(X, y, without_noise(rows, targets, batch, c)))
        if problem:
            continue
        start = time.perf_counter()
        try:
            noisy.append(objective(X, y, private(rows, targets, batch, c, arguments)))
        except Exception as error:  # a refusal must not end the study
            problem = in_a_cell(error)
        seconds.append(time.perf_counter() - start)
    shown = problem or f"{np.mean(noisy):.4f} ± {np.std(noisy):.4f}"
    return [shown, f"{np.mean(exact):.4f} ± {np.std(exact):.4f}", f"{np.median(seconds):.2f}"]


def main() -> None:
    """Read the command line and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sweep", action="store_true", help="batch sizes, figures 4 and 5")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--permutations", type=int, default=20)
    parser.add_argument("--calibration", default="published", choices=["published", "tight"])
    parser.add_argument("--seed", type=int, default=0, help="picks rows and columns")
    parser.add_argument("--data", nargs="+", help="only these")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"Objective after one pass, ε = {arguments.epsilon:g}, {arguments.calibration}.\n")
    print("| figure | data | n × d | steps | batch | private | without noise | s a fit |")
    print("|---|---|---:|---:|---:|---:|---:|---:|", flush=True)
    for figure, name, rows, kept, batches in SWEEPS if arguments.sweep else FIGURES:
        if arguments.data and name not in arguments.data:
            continue
        X, y = prepare(name, rows, kept, arguments.seed)
        for c in (1.0, 10.0) if arguments.sweep else (1.0,):
            for batch in batches:
                size = f"{X.shape[0]:,} × {X.shape[1]}"
                cells = [figure, name, size, f"{c:g}/√t", str(batch)]
                cells += line(X, y, batch, c, arguments)
                print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
