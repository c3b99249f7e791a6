"""How long it takes to minimise a perturbed objective to a certified gradient of norm 1/n².

Run: python -m bench.studies.minimise_speed
"""

from __future__ import annotations

import time

import numpy as np
import scipy.sparse as sp

from discreet.exact.certificate import PerturbedObjective
from discreet.exact.minimise import minimise
from discreet.objectives import Huber, HuberHinge, Logistic, Loss
from discreet.rows import as_rows


def labels(score: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    return np.where(score + generator.logistic(size=score.size) > 0, 1.0, -1.0)


def dense(n_rows: int, n_features: int, loss: Loss) -> object:
    generator = np.random.default_rng(0)
    X = generator.standard_normal((n_rows, n_features)) / np.sqrt(n_features)
    score = 4 * X @ generator.standard_normal(n_features)
    y = labels(score, generator) if loss.task == "classification" else score
    return as_rows(X, y, row_norm=1.0)


def sparse(n_rows: int, n_features: int, entries: int) -> object:
    generator = np.random.default_rng(0)
    columns = (n_features * generator.random((n_rows, entries)) ** 3).astype(np.int32)
    data = np.full(n_rows * entries, entries**-0.5)
    X = sp.csr_array(
        (data, columns.ravel(), np.arange(0, n_rows * entries + 1, entries)),
        shape=(n_rows, n_features),
    )
    X.sum_duplicates()
    score = 4 * X @ generator.standard_normal(n_features)
    return as_rows(X, labels(score, generator), row_norm=1.0)


def measure(name: str, rows: object, loss: Loss, ridge: float, sigma: float) -> None:
    generator = np.random.default_rng(1)
    linear = sigma * generator.standard_normal(rows.n_parameters)
    clip = loss.slope_bound * 2**0.5 * (1 + 2.0**-40)
    objective = PerturbedObjective(rows, loss, clip, ridge, linear)
    length = float(np.linalg.norm(linear))
    reach = (rows.n_rows * clip + length) / ridge
    if loss.task == "classification":  # both losses are below 1.1 at margin 0
        reach = (1.1 * rows.n_rows / ridge) ** 0.5 + length / ridge
    bound = max(1 / rows.n_rows, rows.certifiable_norm(loss, clip, ridge, reach, length))
    for attempt in ("first", "again"):
        start = time.perf_counter()
        point = minimise(objective, bound)
        seconds = time.perf_counter() - start
        print(
            f"{name:34s} {attempt:6s} {seconds:7.2f} s   bound {bound / rows.n_rows:.1e} "
            f"certified {objective.gradient(*point)[1] / rows.n_rows:.1e}"
        )


def main() -> None:
    for loss in (Logistic(), HuberHinge(), Huber()):
        measure(f"39,000 x 105, {loss.name}", dense(39_000, 105, loss), loss, 5.0, 20.0)
    for loss in (Logistic(), HuberHinge()):
        measure(f"500,000 x 54, {loss.name}", dense(500_000, 54, loss), loss, 5.0, 20.0)
    rows = sparse(50_000, 47_000, 75)
    for loss in (Logistic(), HuberHinge()):
        measure(f"50,000 x 47,000 sparse, {loss.name}", rows, loss, 50.0, 20.0)


if __name__ == "__main__":
    main()
