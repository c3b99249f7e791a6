"""Private SGD by the moments accountant of Abadi et al. 2016.

Abadi et al., "Deep Learning with Differential Privacy", CCS 2016, for linear models: noise is
calibrated by Rényi divergences of Poisson-sampled Gaussian steps. Here their orders are real
numbers chosen from the target, because a fixed list of small orders fails for small ε.
``calibration="tight"`` replaces moments by exact composition. Proof: docs/proofs/sgd.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from discreet.objectives import Problem
from discreet.privacy import Budget
from discreet.privacy.subsampling import SampledGaussian, noise_multiplier_for
from discreet.solvers.minibatch import MinibatchSolver, Plan

__all__ = ["SGDMA"]


@dataclass(frozen=True)
class SGDMA(MinibatchSolver):
    """SGD by the moments accountant.

    Parameters as in `discreet.solvers.minibatch.MinibatchSolver`.
    """

    name: ClassVar[str] = "sgd-ma"
    paper: ClassVar[str] = (
        "Abadi et al., Deep Learning with Differential Privacy, 2016, Algorithm 1"
    )

    def plan(self, problem: Problem, budget: Budget, parts: int = 1) -> Plan:
        """As for every SGD; published noise is calibrated for all models together."""
        plan = replace(self, calibration="tight")._tight_plan(problem, budget, parts)
        if self.calibration == "tight":
            return plan
        uses = plan.iterations * parts
        multiplier = noise_multiplier_for(budget, plan.rate, uses, method="rdp")
        mechanism = SampledGaussian(multiplier, plan.rate, budget.relation)
        return replace(plan, mechanism=mechanism)

    def _tight_plan(self, problem: Problem, budget: Budget, parts: int) -> Plan:
        return super().plan(problem, budget, parts)
