"""Private SGD with the noise of Iyengar et al. 2019.

Iyengar, Near, Song, Thakkar, Thakurta, Wang, "Towards Practical Differentially Private Convex
Optimization", IEEE S&P 2019, Algorithm 2: noise of variance 16 L² T ln(1/δ) / (n² ε²) on the mean
gradient of a batch. That this is (ε, δ)-DP holds for some T and batch sizes only, so
``calibration="published"`` computes the true ε and refuses if the claim is false. The paper samples
with replacement; here batches are Poisson samples, which is what the analysis behind the constant
assumes. Proof: docs/proofs/sgd.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from discreet.core import Budget, Relation
from discreet.solvers.base import part_of
from discreet.solvers.minibatch import MinibatchSolver

__all__ = ["SGD"]


@dataclass(frozen=True)
class SGD(MinibatchSolver):
    """Gradient descent on noisy batches of secretly sampled rows.

    Parameters as in `discreet.solvers.minibatch.MinibatchSolver`.
    """

    name: ClassVar[str] = "sgd"
    paper: ClassVar[str] = (
        "Iyengar et al., Towards Practical Differentially Private Convex Optimization, 2019, "
        "Algorithm 2"
    )
    relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE_ONE, Relation.ADD_REMOVE)

    def _published(
        self, n: int, rate: float, iterations: int, budget: Budget, n_models: int
    ) -> float:
        share = part_of(budget, n_models)
        deviation = 4 * math.sqrt(iterations * -math.log(share.delta)) / (n * share.epsilon)
        return rate * n * deviation
