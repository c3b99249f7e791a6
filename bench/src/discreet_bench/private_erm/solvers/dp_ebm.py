"""DP-EBM of interpret, in an environment of its own."""

from discreet_bench.rivals.solver import RivalSolver


class Solver(RivalSolver):
    """A boosted additive model, two classes, one row more or less."""

    name = "dp-ebm"
    rival = "dp-ebm"
