"""The papers' public code, reconstructed with its errors, to redraw their figures. NOT PRIVATE.

The figures of the papers were made with code that does not keep its guarantee. These modules
repeat the known errors of that code in NumPy, with ordinary random numbers and no accounting.
Never use them to protect data: the solvers of `discreet.solvers` with the same names are the
private versions.

Each module has ``RELATION``, ``LOSSES`` and ``fit(X, y, *, epsilon, delta, loss, alpha, seed,
**settings)``, which returns `Released`. Settings that neither paper nor errata give are our choice,
as the docstring of ``fit`` says.
"""

from discreet_bench.released import agd, amp, frank_wolfe, objpert, outpert, sgd
from discreet_bench.released.common import Released, ReleasedSolver

__all__ = ["RELEASED", "SETTINGS", "Released", "ReleasedSolver"]

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
    "amp": {"clip": [1.0], "output_fraction": [0.01], "objective_fraction": [0.9]},
    "frank-wolfe": {"radius": [10.0], "iterations": [100]},
    "objpert": {},
    "outpert": {"iterations": [20], "step_factor": [2.0]},
    "sgd-ma": {"epochs": [20], "step_size": [0.5]},
}
"""Their parameters in the benchmark, each with its default."""
