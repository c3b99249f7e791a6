"""The minimum of the objective by L-BFGS, without any privacy."""

from discreet_bench.solver import EstimatorSolver, parameters_of


class Solver(EstimatorSolver):
    """The minimum of the objective by L-BFGS, without any privacy."""

    name = "nonprivate"
    parameters = parameters_of("nonprivate", norm=None)
