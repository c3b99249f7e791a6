"""Sparse weights in an L1 ball; rows are clipped by their largest entry, not their norm."""

from discreet_bench.solver import EstimatorSolver, parameters_of


class Solver(EstimatorSolver):
    """Sparse weights in an L1 ball; rows are clipped by their largest entry, not their norm."""

    name = "frank-wolfe"
    parameters = parameters_of("frank-wolfe", norm=None)
