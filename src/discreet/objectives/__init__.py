"""Losses, penalties, and the problem with the constants that proofs use.

``LOSSES`` has the library's own losses of one margin by name. Their compiled forms are in
``discreet.objectives.formulas``, which loads numba: import it when a loop is about to run.
"""

from discreet.objectives.advice import Local, Scored
from discreet.objectives.families import Gamma, Pinball, Poisson, SmoothPinball
from discreet.objectives.losses import (
    Hinge,
    Huber,
    HuberHinge,
    Logistic,
    Loss,
    MulticlassHinge,
    Sigmoid,
    Softmax,
    Squared,
)
from discreet.objectives.problem import L2, Problem

__all__ = [
    "L2",
    "LOSSES",
    "Gamma",
    "Hinge",
    "Huber",
    "HuberHinge",
    "Local",
    "Logistic",
    "Loss",
    "MulticlassHinge",
    "Pinball",
    "Poisson",
    "Problem",
    "Scored",
    "Sigmoid",
    "SmoothPinball",
    "Softmax",
    "Squared",
]

_OWN = (Logistic, Hinge, HuberHinge, Huber, Squared, Sigmoid)

LOSSES: dict[str, type[Loss]] = {
    loss.name: loss for loss in (*_OWN, Poisson, Gamma, Pinball, SmoothPinball)
}
"""The library's losses of one margin, by name."""
