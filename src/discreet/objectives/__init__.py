"""What is minimised: losses, penalties, and the problem with the constants that proofs use.

Losses are given by ``Loss`` objects; the library's own for one margin
are found by name in ``LOSSES``.
"""

from discreet.objectives.losses import Hinge, Huber, HuberHinge, Logistic, Loss, Sigmoid, Squared
from discreet.objectives.penalty import L2
from discreet.objectives.problem import Problem
from discreet.objectives.softmax import Softmax

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
]

LOSSES: dict[str, type[Loss]] = {
    loss.name: loss for loss in (Logistic, Hinge, HuberHinge, Huber, Squared, Sigmoid)
}
