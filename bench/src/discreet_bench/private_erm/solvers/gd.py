"""Gradient descent with momentum on noisy gradients of all rows."""

from discreet_bench.solver import EstimatorSolver, parameters_of


class Solver(EstimatorSolver):
    """Gradient descent with momentum on noisy gradients of all rows."""

    name = "gd"
    parameters = parameters_of("gd")
