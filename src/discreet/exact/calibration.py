"""Calibration of perturbed minima: how much noise they need beside everything else in a fit.

Nothing here is trusted: a `PerturbedMinimum` states its own cost, which the account checks together
with everything else before it opens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from discreet.accounting.budget import Budget
from discreet.accounting.calibration import noise_ratio
from discreet.accounting.composition import Remainder
from discreet.accounting.objective_perturbation import profile
from discreet.accounting.profiles import Profile
from discreet.core import Gaussian
from discreet.exact.perturbed import SLACK, Constants, Perturbation


@dataclass(frozen=True)
class Headroom:
    """Budget of everything in a fit, μ² of what is released before the minima, and their number."""

    whole: Budget
    before: Fraction
    releases: int

    @classmethod
    def of(cls, budget: Budget, releases: int) -> Headroom:
        """Return the headroom in a solver's budget, which a preparation may have a part of."""
        if isinstance(budget, Remainder):
            return cls(budget.whole, budget.before, releases)
        return cls(budget, Fraction(0), releases)

    def scale(self, constants: Constants, ridge: float, output: Gaussian) -> float:
        """Return the least noise at λ with which everything keeps the budget, or infinity."""
        ratio = noise_ratio(
            self.whole.epsilon,
            self.whole.delta,
            curvature_cost=constants.cost(ridge),
            relation=self.whole.relation,
            corners=constants.corners,
            output_mu=output.loss.mu,
            releases=self.releases,
            before=self.before,
        )
        return constants.lipschitz / ratio * SLACK if ratio else math.inf

    def true_epsilon(self, constants: Constants, perturbation: Perturbation) -> float:
        """Return the ε of everything together, at the budget's δ."""
        facts = perturbation.facts(constants)
        own = profile(**facts, relation=self.whole.relation, releases=self.releases)
        return Profile.gaussian(self.before).then(own).epsilon(self.whole.delta)
