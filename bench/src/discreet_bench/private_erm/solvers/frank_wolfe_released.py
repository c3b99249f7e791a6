"""Frank–Wolfe on batches with the noise of all rows, as in the code of the AMP benchmark."""

from discreet_bench.released import frank_wolfe
from discreet_bench.released.solver import ReleasedSolver


class Solver(ReleasedSolver):
    """Frank–Wolfe as released, NO PROOF OF PRIVACY: see `discreet_bench.released.frank_wolfe`."""

    name = "frank-wolfe-released"
    method = frank_wolfe
    parameters = {  # noqa: RUF012
        "radius": [10.0],
        "iterations": [100],
    }
