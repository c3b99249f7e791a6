"""Gradient descent on noisy batches; published noise is that of the moments accountant."""

from discreet_bench.solver import EstimatorSolver, parameters_of


class Solver(EstimatorSolver):
    """Gradient descent on noisy batches; published noise is that of the moments accountant."""

    name = "sgd-ma"
    parameters = parameters_of("sgd-ma")
