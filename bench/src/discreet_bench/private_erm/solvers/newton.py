"""Noisy second moments of rows and targets, then noisy gradients divided by them."""

from discreet_bench.solver import EstimatorSolver, parameters_of


class Solver(EstimatorSolver):
    """Noisy second moments of rows and targets, then noisy gradients divided by them."""

    name = "newton"
    parameters = parameters_of("newton")
