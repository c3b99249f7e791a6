"""The minimum of an objective that noise has tilted: Gaussian, or longer for pure budgets."""

from discreet_bench.solver import EstimatorSolver, parameters_of


class Solver(EstimatorSolver):
    """The minimum of an objective that noise has tilted: Gaussian, or longer for pure budgets."""

    name = "objpert"
    parameters = parameters_of("objpert")
