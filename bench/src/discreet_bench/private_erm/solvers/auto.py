"""The default of this library: solver and preparation are chosen from public numbers."""

from discreet_bench.solver import EstimatorSolver, parameters_of


class Solver(EstimatorSolver):
    """The default of this library: solver and preparation are chosen from public numbers."""

    name = "auto"
    parameters = parameters_of("auto", norm=None)
