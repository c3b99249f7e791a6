"""Objective perturbation without a penalty on the intercept, as in the code of DP-AGD."""

from discreet_bench.released import objpert
from discreet_bench.released.solver import ReleasedSolver


class Solver(ReleasedSolver):
    """Objective perturbation as released, NOT PRIVATE: see `discreet_bench.released.objpert`."""

    name = "objpert-released"
    method = objpert
