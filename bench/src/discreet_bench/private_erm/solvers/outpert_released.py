"""Output perturbation with steps above 2/β, as in the code of DP-AGD."""

from discreet_bench.released import outpert
from discreet_bench.released.solver import ReleasedSolver


class Solver(ReleasedSolver):
    """Output perturbation as released, NOT PRIVATE: see `discreet_bench.released.outpert`."""

    name = "outpert-released"
    method = outpert
    parameters = {  # noqa: RUF012
        "iterations": [20],
        "step_factor": [2.0],
    }
