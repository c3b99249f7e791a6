"""Private SGD by advanced composition, after Bassily, Smith & Thakurta 2014.

Bassily, Smith, Thakurta, "Private Empirical Risk Minimization: Efficient Algorithms and Tight Error
Bounds", FOCS 2014: each step is an (ε', δ')-DP Gaussian release on a sample, which sampling makes
(2qε', qδ')-DP, and advanced composition adds up T of them. With ε' = ε/(2√(2T ln(2/δ)))/(2q) and
δ' = δ/(2T). Both the amplification and the classical Gaussian noise √(2 ln(1.25/δ'))/ε' need
ε' < 1. Proof: docs/proofs/sgd.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from discreet.core import Budget, Relation
from discreet.errors import NotSupported
from discreet.solvers.base import part_of
from discreet.solvers.minibatch import MinibatchSolver

__all__ = ["SGDAdv"]


@dataclass(frozen=True)
class SGDAdv(MinibatchSolver):
    """Gradient descent on noisy batches of √n rows; published noise is by advanced composition.

    Parameters as in `discreet.solvers.minibatch.MinibatchSolver`.
    """

    name: ClassVar[str] = "sgd-adv"
    paper: ClassVar[str] = (
        "Bassily, Smith & Thakurta, Private Empirical Risk Minimization: Efficient Algorithms and "
        "Tight Error Bounds, 2014, Algorithm 1"
    )
    relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE_ONE, Relation.ADD_REMOVE)
    demands: ClassVar[tuple[str, ...]] = (
        *MinibatchSolver.demands,
        "with calibration='published', the ε of a step before sampling is below 1",
    )

    def _default_batch(self, n: int) -> float:
        return math.sqrt(n)

    def _published(
        self, n: int, rate: float, iterations: int, budget: Budget, n_models: int
    ) -> float:
        share = part_of(budget, n_models)
        spread = 2 * math.sqrt(2 * iterations * math.log(2 / share.delta))
        epsilon = share.epsilon / spread / (2 * rate)
        if not epsilon < 1:
            raise NotSupported(
                f"solver='sgd-adv' with calibration='published' needs a step's ε below 1; at these "
                f"settings it is {epsilon:.4g}. Use more iterations, larger batches, or "
                "calibration='tight'."
            )
        log = math.log(1.25 * 2 * iterations / share.delta)
        return budget.relation.rows_changed * math.sqrt(2 * log) / epsilon
