"""The minimum of an objective tilted by noise, found roughly; more noise hides how roughly."""

from discreet_bench.solver import EstimatorSolver, parameters_of


class Solver(EstimatorSolver):
    """The minimum of an objective tilted by noise, found roughly; more noise hides how roughly."""

    name = "amp"
    parameters = parameters_of("amp")
