"""Objective perturbation without a penalty on the intercept, as in the code of DP-AGD."""

from discreet.bench.released import objpert
from discreet.bench.released.solver import ReleasedSolver


class Solver(ReleasedSolver):
    """Objective perturbation as released, NOT PRIVATE: see `discreet.bench.released.objpert`."""

    name = "objpert-released"
    method = objpert
