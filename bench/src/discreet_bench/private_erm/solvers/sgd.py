"""Gradient descent on noisy batches of secretly sampled rows."""

from discreet_bench.solver import EstimatorSolver, parameters_of


class Solver(EstimatorSolver):
    """Gradient descent on noisy batches of secretly sampled rows."""

    name = "sgd"
    parameters = parameters_of("sgd")
