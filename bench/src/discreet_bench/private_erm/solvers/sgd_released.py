"""SGD-MA on batches of a fixed size, as in the code of DP-AGD."""

from discreet_bench.released import sgd
from discreet_bench.released.solver import ReleasedSolver


class Solver(ReleasedSolver):
    """SGD-MA as released, NOT PRIVATE: see `discreet_bench.released.sgd`."""

    name = "sgd-ma-released"
    method = sgd
    parameters = {  # noqa: RUF012
        "epochs": [20],
        "step_size": [0.5],
    }
