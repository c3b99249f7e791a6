"""The papers' methods as their authors released them, with their mistakes. NOT PRIVATE.

The figures of the papers were made with code that does not keep its guarantee. These modules do
what that code does, written anew in NumPy from its description: the same settings, the same
mistakes, ordinary random numbers and no accounting. Never use them to protect data: the solvers of
`discreet.solvers` with the same names are the private versions.

Each module has ``SOURCE`` (the release that it follows), ``MISTAKES`` (each with its effect on ε),
``LEFT_OUT`` (what is not followed, and why), ``RELATION``, ``LOSSES``, ``INTERCEPT`` (whether it
always has one), ``prepared(X, intercept)``, which scales rows as the release does, and ``fit(X, y,
*, epsilon, delta, loss, intercept, seed, **settings)``, which returns `Released`.
"""

from discreet_bench.released import agd, amp, frank_wolfe, objpert, outpert, sgd
from discreet_bench.released.common import Mistake, Released, ReleasedSolver

__all__ = ["RELEASED", "SETTINGS", "Mistake", "Released", "ReleasedSolver"]

RELEASED = {
    "agd": agd,
    "amp": amp,
    "frank-wolfe": frank_wolfe,
    "objpert": objpert,
    "outpert": outpert,
    "sgd-ma": sgd,
}
"""The modules, by the name of the private solver."""

SETTINGS: dict[str, dict[str, list[float]]] = {
    "agd": {"splits": [60]},
    "amp": {"output_fraction": [0.01], "objective_fraction": [0.9]},
    "frank-wolfe": {"radius": [10.0], "iterations": [100]},
    "objpert": {},
    "outpert": {"iterations": [50], "step_size": [1.0]},
    "sgd-ma": {"step_size": [0.05]},
}
"""Their parameters in the benchmark, each with the value of the release."""
