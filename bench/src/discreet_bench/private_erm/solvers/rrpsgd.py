"""Takes noisy steps on single random rows and stops at a random round."""

from discreet_bench.solver import EstimatorSolver, parameters_of


class Solver(EstimatorSolver):
    """Takes noisy steps on single random rows and stops at a random round."""

    name = "rrpsgd"
    parameters = parameters_of("rrpsgd")
