"""DP-AGD with the wrong sign of its selections' noise, as in its authors' code."""

from discreet_bench.released import agd
from discreet_bench.released.solver import ReleasedSolver


class Solver(ReleasedSolver):
    """DP-AGD as released, NOT PRIVATE: see `discreet_bench.released.agd`."""

    name = "agd-released"
    method = agd
    parameters = {  # noqa: RUF012
        "splits": [60],
    }
