"""DP-AGD: descends along noisy gradients and decides as it goes how much each may cost."""

from discreet_bench.solver import EstimatorSolver, parameters_of


class Solver(EstimatorSolver):
    """DP-AGD: descends along noisy gradients and decides as it goes how much each may cost."""

    name = "agd"
    parameters = parameters_of("agd")
