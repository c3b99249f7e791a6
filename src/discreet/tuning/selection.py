"""What the best of K secret runs promises, in both directions, and a second opinion.

Proof: docs/proofs/tuning.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import brentq

from discreet.accounting import conversions
from discreet.accounting.budget import PrivacyLoss
from discreet.core import Budget, Guarantee
from discreet.errors import PrivacyError
from discreet.tuning.laws import Law

__all__ = ["BestOfMany", "TunedGuarantee", "largest_rho", "recomputed_epsilon"]


@dataclass(frozen=True)
class BestOfMany:
    """The best of K runs, where K is random and secret and only the best run is released.

    Parameters
    ----------
    rho : float
        What one run costs in zCDP, its noisy score included.
    expected_runs : float
        E[K].
    shape : float
        Of the distribution of K: 0 logarithmic, 1 geometric, infinity Poisson; all without 0.
    """

    rho: float
    expected_runs: float
    shape: float
    name: ClassVar[str] = "best_of_many"

    @property
    def loss(self) -> PrivacyLoss:
        """No promise in a measure that adds up: it has a Rényi curve, which no filter takes."""
        return PrivacyLoss(math.inf, math.inf, math.inf)

    def event(self) -> Any:
        """Return it as a `dp_accounting` event.

        Its Poisson runs may be none at all; here K ≥ 1 and E[K] is that of K, which costs more.
        """
        from dp_accounting import ZCDpEvent
        from dp_accounting.dp_event import RepeatAndSelectDpEvent

        return RepeatAndSelectDpEvent(ZCDpEvent(self.rho), self.expected_runs, self.shape)


class TunedGuarantee(Guarantee):
    """The promise for the best of K runs; it can be computed once more."""

    def recompute(self) -> float:
        """Return the ε of the selection at the guarantee's δ, by `recomputed_epsilon`."""
        ((mechanism, count),) = [(use.mechanism, use.count) for use in self.mechanisms]
        if count != 1 or not isinstance(mechanism, BestOfMany):
            raise PrivacyError("this guarantee is not that of one selection among runs.")
        return recomputed_epsilon(mechanism, self.delta)


@lru_cache(maxsize=256)
def largest_rho(law: Law, budget: Budget) -> float:
    """The largest ρ such that the best of K runs of ρ-zCDP keeps a budget with δ > 0.

    Privacy
    -------
    A lower bound, checked before it is returned: ``law.epsilon(rho, delta) <= epsilon``.
    """
    most = conversions.rho_from_epsilon(budget.epsilon, budget.delta)

    def excess(log_rho: float) -> float:
        return law.epsilon(math.exp(log_rho), budget.delta) - budget.epsilon

    top = math.log(most)
    rho = math.exp(float(brentq(excess, top - 20, top, xtol=1e-9)))
    while law.epsilon(rho, budget.delta) > budget.epsilon:
        rho *= 1 - 1e-9
    return rho


def recomputed_epsilon(mechanism: BestOfMany, delta: float) -> float:
    """The ε of a selection once more, from its three numbers, on dense grids of orders.

    Shares no code with the calibration: each bound is written out, and the best of many orders is
    taken, where the calibration solves for it. Never less than the best order gives, so slightly
    more than what was calibrated.
    """
    rho, mean = mechanism.rho, mechanism.expected_runs
    orders = 1 + np.geomspace(1e-3, 1e7, 6000)
    if math.isinf(mechanism.shape):
        extra = mean * _other_deltas(rho, np.log1p(1 / (orders - 1)))
    else:
        eta, gamma = mechanism.shape, _gamma(mechanism.shape, mean)
        extra = (1 + eta) * np.min((1 - 1 / orders) * orders * rho - np.log(gamma) / orders)
        extra = min(float(extra), (1 + eta) * math.log(1 / gamma))  # the order 1
    renyi = orders * rho + extra + math.log(mean) / (orders - 1)
    epsilons = renyi + np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)
    return max(0.0, float(epsilons.min()))


def _other_deltas(rho: float, epsilons: np.ndarray) -> np.ndarray:
    """The δ of ρ-zCDP at each ε: the least over orders a of e^((a−1)(aρ−ε))·(1−1/a)^a/(a−1)."""
    a = 1 + np.geomspace(1e-4, 1e7, 4000)
    fixed = (a - 1) * a * rho + a * np.log1p(-1 / a) - np.log(a - 1)
    logs = np.array([np.min(fixed - (a - 1) * epsilon) for epsilon in epsilons])
    return np.exp(np.minimum(logs, 0.0))


def _gamma(shape: float, mean: float) -> float:
    """The γ of a truncated negative binomial distribution of this mean, by halving."""
    low, high = 0.0, 1.0
    for _ in range(200):
        gamma = (low + high) / 2
        if shape == 0:
            found = (1 / gamma - 1) / math.log(1 / gamma)
        else:
            found = shape * (1 - gamma) / (gamma * (1 - gamma**shape))
        low, high = (gamma, high) if found > mean else (low, gamma)
        if high - low < 1e-15:
            break
    return (low + high) / 2
