"""The solver files of the benchmark, as benchopt finds them."""

from __future__ import annotations

from functools import cache
from typing import Any

__all__ = ["defaults", "descriptions"]


@cache
def _classes() -> dict[str, Any]:
    from benchopt.benchmark import Benchmark

    from discreet_bench.run import benchmark_folder

    return {klass.name: klass for klass in Benchmark(benchmark_folder()).get_solvers()}


def defaults(name: str) -> dict[str, Any]:
    """A solver's parameters with their first values; empty for one that is not a file there."""
    known = _classes().get(name)
    return {} if known is None else {key: values[0] for key, values in known.parameters.items()}


def descriptions() -> dict[str, str]:
    """The solvers, each with the first line of what it says of itself."""
    return {name: (klass.__doc__ or "").splitlines()[0] for name, klass in _classes().items()}
