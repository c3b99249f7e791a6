"""All solvers of the benchmark by name, made from the registries of methods.

Solvers of `discreet.solvers` (installed packages' included), the papers' released code, other
libraries, private tuning and two simple baselines. `discreet_bench.benchmark` writes a file for
each, from which benchopt loads them.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from benchopt import BaseSolver

from discreet.solvers import describe, names
from discreet_bench.estimator import EstimatorSolver, Tuned, parameters_of
from discreet_bench.plain import NoisyDescent, PlainSGD
from discreet_bench.released import RELEASED, SETTINGS, ReleasedSolver
from discreet_bench.rivals import RIVALS, RivalSolver

__all__ = ["ALIASES", "defaults", "solver_class", "solver_names"]

ALIASES = ("sgd-ma", "sgd-adv")
"""Names of papers' methods that `discreet.solvers.names` may leave out."""

_DEFAULTS: dict[str, dict[str, Any]] = {
    "auto": {"norm": None},
    "frank-wolfe": {"norm": None},
    "laplace-sgd": {"updates": None},
    "majority": {"norm": None},
    "nonprivate": {"norm": None},
    "privgene": {"batch_rows": None},
}
"""Defaults of the benchmark that differ from those of `parameters_of`."""


class StronglyConvexPermutationSGD(EstimatorSolver):
    """Passes over the rows of a strongly convex objective, with noise on the last weights.

    Its guarantee rests on the penalty, so it has one of its own: 0.01, from its paper's grid.
    """

    name = "permutation-sgd-sc"
    solver = "permutation-sgd"
    fixed = {"mode": "strongly-convex"}  # noqa: RUF012
    parameters = parameters_of("permutation-sgd", alpha=1e-2)


_OWN = {made.name: made for made in (NoisyDescent, PlainSGD, StronglyConvexPermutationSGD, Tuned)}


@cache
def solver_names() -> tuple[str, ...]:
    """Return the names of all solvers."""
    released = [f"{name}-released" for name in RELEASED]
    return tuple(sorted({*names(), *ALIASES, *_OWN, *released, *RIVALS}))


@cache
def solver_class(name: str) -> type[BaseSolver]:
    """Return the class of a solver, for benchopt."""
    if name in _OWN:
        return _OWN[name]
    if name in RIVALS:
        return type("Solver", (RivalSolver,), {
            "name": name, "rival": name, "__doc__": f"{name}, in an environment of its own.",
        })  # fmt: skip
    base = name.removesuffix("-released")
    if base != name and base in RELEASED:
        method = RELEASED[base]
        return type("Solver", (ReleasedSolver,), {
            "name": name, "method": method, "parameters": SETTINGS[base], "__doc__": method.__doc__,
        })  # fmt: skip
    text = "The default of this library." if name == "auto" else describe(name).summary
    parameters = parameters_of(name, **_DEFAULTS.get(name, {}))
    return type("Solver", (EstimatorSolver,), {
        "name": name, "parameters": parameters, "__doc__": text,
    })  # fmt: skip


def defaults(name: str) -> dict[str, Any]:
    """Return a solver's parameters with their defaults; empty for an unknown solver."""
    if name not in solver_names():
        return {}
    return {key: values[0] for key, values in solver_class(name).parameters.items()}
