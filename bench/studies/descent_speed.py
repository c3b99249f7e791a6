"""Speed of descent by batches against its bars: ``python benchmarks/descent_speed.py``.

Times are the best of several repetitions, so that other work on the machine does not count. The
noise of a million steps is timed on a part of them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from discreet.core import Gaussian, L2Norm
from discreet.core.noise import Noise
from discreet.objectives import Logistic
from discreet.rows import as_rows
from discreet.rows.descents import GridNoise

PART = 10_000


def _seconds(task: Callable[[], object], repetitions: int = 5) -> float:
    task()
    best = float("inf")
    for _ in range(repetitions):
        start = time.perf_counter()
        task()
        best = min(best, time.perf_counter() - start)
    return best


def _table(n: int, d: int) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)), np.where(rng.random(n) < 0.5, 1.0, -1.0), rng


def one_pass() -> tuple[float, float]:
    """Time a pass of batches of 50, and five times what NumPy needs for two products with X."""
    X, y, rng = _table(39_000, 105)
    rows = as_rows(X, y, fit_intercept=False, row_norm=1.0)
    order = rng.permutation(39_000).reshape(-1, 50)
    steps = np.full(len(order), 0.1)
    v, r = np.ones(105), np.ones(39_000)
    products = _seconds(lambda: (X @ v, X.T @ r))
    weights = np.zeros(105)
    passing = _seconds(
        lambda: rows.descend(weights, Logistic(), order=order, steps=steps, clip=1.0)
    )
    return passing, 5 * products


def million_steps() -> list[tuple[str, float, float]]:
    """Time a million noisy steps of one row each at d = 100: the steps, and the noise."""
    X, y, rng = _table(39_000, 100)
    rows = as_rows(X, y, fit_intercept=False, row_norm=1.0)
    noise = Noise()
    seconds = {}
    for mechanism in (Gaussian(5.0), L2Norm(1.0)):
        arguments = {"sensitivity": 1.0, "magnitude": 2.0}
        drawing = _seconds(lambda m=mechanism, a=arguments: m.draw_block(noise, PART, 100, **a), 3)
        seconds[mechanism.name] = 10**6 / PART * drawing
        integers, grid, _ = mechanism.draw_block(noise, PART, 100, **arguments)
    order = rng.integers(39_000, size=(PART, 1))
    part = _seconds(
        lambda: rows.descend(
            np.zeros(100),
            Logistic(),
            order=order,
            steps=np.full(PART, 1e-3),
            clip=1.0,
            noise=GridNoise(integers, grid, 2.0),
        )
    )
    steps = 10**6 / PART * part
    return [
        ("10^6 steps of one row, d = 100, beyond noise", steps, 5.0),
        ("the same with Gaussian noise", steps + seconds["gaussian"], 30.0),
        ("10^6 L2-norm noise vectors, d = 100", seconds["l2_norm"], 25.0),
    ]


if __name__ == "__main__":
    passing, bar = one_pass()
    results = [("a pass of 39,000 x 105 in batches of 50", passing, bar), *million_steps()]
    for name, measured, limit in results:
        verdict = "ok" if measured <= limit else "SLOW"
        print(f"{name:46} {measured:8.4f} s   bar {limit:8.4f} s   {verdict}")
    sys.exit(any(measured > limit for _, measured, limit in results))
