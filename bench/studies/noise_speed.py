"""Speed of exact noise against its bars: ``python benchmarks/noise_speed.py``.

Times include the refined draws. Each figure is the best of several repetitions, so that other work
on the machine does not count.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from discreet.core.noise import Noise


def _microseconds(task: Callable[[], object], inner: int, repetitions: int = 7) -> float:
    task()
    best = float("inf")
    for _ in range(repetitions):
        start = time.perf_counter()
        for _ in range(inner):
            task()
        best = min(best, (time.perf_counter() - start) / inner)
    return 1e6 * best


def measure() -> list[tuple[str, float, float]]:
    """Return (name, measured, bar), all in microseconds; measured must not exceed the bar."""
    noise, forced = Noise(), Noise(force_refinement=True)
    scores = np.linspace(0.0, 1.0, 21)
    results = []
    for kind in ("gaussian", "laplace", "gumbel"):
        draw = getattr(noise, kind)
        value = _microseconds(lambda draw=draw: draw(100_000, 1.0, -30), 2) / 100_000
        results.append((f"{kind}, a value of 100,000", value, 0.2))
        call = _microseconds(lambda draw=draw: draw(100, 1.0, -30), 300)
        results.append((f"{kind}, a call of 100 values", call, 100.0))
    refined = _microseconds(lambda: forced.gaussian(200, 1.0, -30), 1) / 200
    results.append(("gaussian, a refined value", refined, 150.0))
    for kind in ("gumbel", "exponential"):
        choice = _microseconds(lambda kind=kind: noise.select(scores, 0.3, kind), 300)
        results.append((f"selection ({kind}) among 21", choice, 60.0))
    return results


if __name__ == "__main__":
    rows = measure()
    for name, measured, bar in rows:
        verdict = "ok" if measured <= bar else "SLOW"
        print(f"{name:34} {measured:9.3f} us   bar {bar:7.1f} us   {verdict}")
    sys.exit(any(measured > bar for _, measured, bar in rows))
