"""Predicts the most frequent class (the mean target in regression) for every row."""

from discreet_bench.solver import EstimatorSolver, parameters_of


class Solver(EstimatorSolver):
    """Predicts the most frequent class (the mean target in regression) for every row."""

    name = "majority"
    parameters = parameters_of("majority", norm=None)
