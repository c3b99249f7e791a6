"""AMP with noise from one byte, as in the code of its benchmark."""

from discreet_bench.released import amp
from discreet_bench.released.solver import ReleasedSolver


class Solver(ReleasedSolver):
    """AMP as released, NOT PRIVATE: see `discreet_bench.released.amp`."""

    name = "amp-released"
    method = amp
    parameters = {  # noqa: RUF012
        "clip": [1.0],
        "output_fraction": [0.01],
        "objective_fraction": [0.9],
    }
