"""diffprivlib's logistic regression, in an environment of its own."""

from discreet_bench.rivals.solver import RivalSolver


class Solver(RivalSolver):
    """Objective perturbation, pure ε, one replaced row."""

    name = "diffprivlib"
    rival = "diffprivlib"
