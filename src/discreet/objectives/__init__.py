"""Losses, penalties, and the problem with the constants that proofs use.

``LOSSES`` has the library's own losses of one margin by name. Their compiled forms are in
``discreet.objectives.kernels``, which loads numba: import it when a loop is about to run.
"""

from discreet.objectives.losses import (
    LOSSES,
    Hinge,
    Huber,
    HuberHinge,
    Logistic,
    Loss,
    Sigmoid,
    Softmax,
    Squared,
    kernel_code,
)
from discreet.objectives.problem import L2, Problem

__all__ = [
    "L2",
    "LOSSES",
    "Hinge",
    "Huber",
    "HuberHinge",
    "Logistic",
    "Loss",
    "Problem",
    "Sigmoid",
    "Softmax",
    "Squared",
    "kernel_code",
]
