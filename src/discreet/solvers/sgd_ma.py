"""Private SGD by the moments accountant of Abadi et al. 2016.

Abadi et al., "Deep Learning with Differential Privacy", CCS 2016, for linear models: noise is
calibrated by Rényi divergences of Poisson-sampled Gaussian steps. Here their orders are real
numbers chosen from the target, because a fixed list of small orders fails for small ε.
``calibration="tight"`` replaces moments by exact composition. Proof: docs/proofs/sgd.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from discreet.accounting.subsampling import noise_multiplier_for
from discreet.core import Budget
from discreet.solvers.minibatch import MinibatchSolver

__all__ = ["SGDMA"]


@dataclass(frozen=True)
class SGDMA(MinibatchSolver):
    """Gradient descent on noisy batches; published noise is that of the moments accountant.

    Parameters as in `discreet.solvers.minibatch.MinibatchSolver`.
    """

    name: ClassVar[str] = "sgd-ma"
    paper: ClassVar[str] = (
        "Abadi et al., Deep Learning with Differential Privacy, 2016, Algorithm 1"
    )

    def _published(
        self, n: int, rate: float, iterations: int, budget: Budget, n_models: int
    ) -> float:
        return noise_multiplier_for(budget, rate, iterations * n_models, method="rdp")
