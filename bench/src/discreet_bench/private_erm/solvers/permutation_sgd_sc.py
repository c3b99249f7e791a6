"""Passes over the rows of a strongly convex objective, with noise on the last weights."""

from discreet_bench.solver import EstimatorSolver, parameters_of


class Solver(EstimatorSolver):
    """Passes over the rows of a strongly convex objective, with noise on the last weights.

    Its promise rests on the penalty, so it has one of its own: 0.01, from its paper's grid.
    """

    name = "permutation-sgd-sc"
    solver = "permutation-sgd"
    fixed = {"mode": "strongly-convex"}  # noqa: RUF012
    parameters = parameters_of("permutation-sgd", alpha=1e-2)
