"""Passes over the exact rows in one random order and releases the last weights, with noise."""

from discreet_bench.solver import EstimatorSolver, parameters_of


class Solver(EstimatorSolver):
    """Passes over the exact rows in one random order and releases the last weights, with noise."""

    name = "permutation-sgd"
    parameters = parameters_of("permutation-sgd")
