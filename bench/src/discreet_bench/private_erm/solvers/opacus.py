"""Opacus: logistic regression by DP-SGD, in an environment of its own."""

from discreet_bench.rivals.solver import RivalSolver


class Solver(RivalSolver):
    """DP-SGD with Poisson batches, one row more or less."""

    name = "opacus"
    rival = "opacus"
