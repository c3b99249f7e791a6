"""Budget of the runs of a tuning, and the check that each of them keeps it.

Proof: docs/proofs/tuning.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from discreet.accounting import conversions
from discreet.core import Budget, Gaussian, Guarantee
from discreet.errors import PrivacyError
from discreet.tuning.laws import Law

SLACK = 2.0**-30  # a fit gets this share less than planned, so that no rounding exceeds the plan


@dataclass(frozen=True)
class RunBudget:
    """Budget of each run of a tuning, for its fit and its score, by public numbers only.

    ``rho`` is the zCDP cost of one run, ``rho_fit`` that of its fit. ``score`` releases the number
    of correct predictions, of sensitivity 1, with the rest.
    """

    budget: Budget
    law: Law
    rho: float
    rho_fit: float
    score: Gaussian

    @property
    def score_budget(self) -> Budget:
        """Budget of the curator that a score is asked of: the ρ of a run without that of its fit.

        It is slightly less, so that no rounding exceeds the plan. The published conversion is used,
        both ways, as its inverse is accurate for every ρ.
        """
        rho = (self.rho - self.rho_fit) * (1 - SLACK / 2)
        epsilon = conversions.epsilon_from_rho(rho, self.budget.delta, "published")
        return replace(self.budget, epsilon=epsilon)

    def __post_init__(self) -> None:
        """Check that all runs together keep the budget."""
        epsilon = self.law.epsilon(self.rho, self.budget.delta)
        shared = self.rho_fit + self.score.loss.rho <= self.rho
        if shared:  # so does the filter of the score
            total = float(self.score_budget.total("zcdp", "published"))
            shared = self.score.loss.rho <= total <= self.rho - self.rho_fit
        if not (epsilon <= self.budget.epsilon and shared):
            raise PrivacyError(
                f"runs of ρ = {self.rho:g} each cost ε = {epsilon:g}; the budget is "
                f"{self.budget.epsilon:g}, and fit and score must share ρ."
            )

    def check(self, guarantee: Guarantee) -> None:
        """Raise if a fit has cost more than planned, or if its cost in zCDP is not known."""
        spent: float | None = None
        if guarantee.measure == "zcdp":
            spent = guarantee.rho
        elif guarantee.measure == "gdp":
            spent = conversions.rho_from_mu(guarantee.mu or 0.0)
        elif guarantee.measure == "pure":
            spent = conversions.rho_from_pure(guarantee.epsilon)
        if guarantee.relation is not self.budget.relation or spent is None:
            raise PrivacyError(
                f"a fit is accounted as {guarantee.measure!r} under {str(guarantee.relation)!r}; "
                f"tuning needs zCDP or Gaussian DP under {str(self.budget.relation)!r}."
            )
        if spent * (1 + 2.0**-40) > self.rho_fit:
            raise PrivacyError(
                f"a fit has cost ρ = {spent:.6g}; its planned cost is {self.rho_fit:.6g}. Nothing "
                "was released. With very few steps some solvers compose in pure privacy, which "
                "costs more here: give them more steps."
            )
