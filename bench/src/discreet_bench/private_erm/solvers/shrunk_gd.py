"""Noisy gradient descent at weights that are shrunk by what is known of their noise."""

from discreet_bench.solver import EstimatorSolver, parameters_of


class Solver(EstimatorSolver):
    """Noisy gradient descent at weights that are shrunk by what is known of their noise."""

    name = "shrunk-gd"
    parameters = parameters_of("shrunk-gd")
