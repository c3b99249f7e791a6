"""scikit-learn's logistic regression, which is not private, in an environment of its own."""

from discreet_bench.rivals.solver import RivalSolver


class Solver(RivalSolver):
    """L-BFGS without privacy."""

    name = "scikit-learn"
    rival = "scikit-learn"
