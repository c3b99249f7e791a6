"""Passes in batches with noise of gamma-distributed length, or only the first updates."""

from discreet_bench.solver import EstimatorSolver, parameters_of


class Solver(EstimatorSolver):
    """Passes in batches with noise of gamma-distributed length, or only the first updates."""

    name = "laplace-sgd"
    parameters = parameters_of("laplace-sgd", updates=None)
