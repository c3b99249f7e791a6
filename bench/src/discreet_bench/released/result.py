"""What a run of released code returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Released"]


@dataclass(frozen=True)
class Released:
    """Weights, and what they really cost.

    Attributes
    ----------
    weights
        One a column, the intercept's last.
    true_epsilon
        What the run spends at the δ that was asked for, or a lower bound on it, shown by a pair of
        neighbours; ``inf`` if no ε is true, ``None`` if it is not known.
    why
        What is wrong, in a sentence or two.
    verdict
        In capitals, for whoever reads nothing else.
    """

    weights: NDArray[np.float64]
    true_epsilon: float | None
    why: str
    verdict: str = "NOT PRIVATE"

    def claim(self, epsilon: float) -> str:
        """What was claimed, what is true, and why, for a report."""
        if self.true_epsilon is None:
            true = "the true ε is not known"
        elif np.isinf(self.true_epsilon):
            true = "no finite ε is true"
        else:
            true = f"the true ε is at least {self.true_epsilon:.3g}"
        return f"{self.verdict}. Claimed ε = {epsilon:g}; {true}. {self.why}"
