"""Descends on all exact rows and releases where it ends, with noise."""

from discreet_bench.solver import EstimatorSolver, parameters_of


class Solver(EstimatorSolver):
    """Descends on all exact rows and releases where it ends, with noise."""

    name = "outpert"
    parameters = parameters_of("outpert")
