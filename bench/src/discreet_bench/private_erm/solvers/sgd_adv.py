"""Gradient descent on noisy batches of √n rows; published noise is by advanced composition."""

from discreet_bench.solver import EstimatorSolver, parameters_of


class Solver(EstimatorSolver):
    """Gradient descent on noisy batches of √n rows; published noise is by advanced composition."""

    name = "sgd-adv"
    parameters = parameters_of("sgd-adv")
