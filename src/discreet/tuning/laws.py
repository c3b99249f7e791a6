"""Distributions of the secret number of runs, and the privacy cost of selecting the best run.

Releasing only the best of K private runs costs about as much as two or three runs, whatever K is,
if K is drawn from a suitable distribution and kept secret (Liu & Talwar 2019; Papernot & Steinke
2022). There are two families, both with K ≥ 1: truncated negative binomial and truncated Poisson.

Proof: docs/proofs/tuning.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar

from scipy.optimize import minimize_scalar

from discreet import validate
from discreet.accounting import conversions
from discreet.accounting.budget import PrivacyLoss
from discreet.core.bits import Bits, precise_context
from discreet.errors import PrivacyError

MOST = 1000.0  # largest expected number of runs
_MOST_BITS = 1024  # of a draw: they do not decide with a probability below 2^-900
_UP = 1 + 2.0**-40  # far above the rounding of a few dozen operations on doubles


@dataclass(frozen=True)
class NegativeBinomial:
    """P(K = k) ∝ (1 − γ)^k · Γ(k + η)/k! for k ≥ 1: geometric for η = 1, logarithmic for η = 0.

    ``shape`` is η, from 0 to 10: a smaller value costs less, and makes very few runs more likely.
    ``gamma`` is γ, at least 1e-6 and below 1.
    """

    shape: float  # as in dp_accounting: 0 logarithmic, 1 geometric, infinity Poisson
    gamma: float

    def __post_init__(self) -> None:
        validate.check_fields(self, validate.number, "shape", least=0.0, most=10.0)
        validate.check_fields(self, validate.number, "gamma", least=1e-6, below=1.0)

    @cached_property
    def mean(self) -> float:
        """E[K], rounded up."""
        return binomial_mean(self.shape, self.gamma) * _UP

    def epsilon(self, rho: float, delta: float) -> float:
        """Return an upper bound on ε at this δ for the best of K runs of ρ-zCDP each.

        The bound on the Rényi divergence of order λ is λρ + c + ln E[K]/(λ − 1), with c the least
        (1 + η)·((λ̂ − 1)·ρ + ln(1/γ)/λ̂) over λ̂ ≥ 1. The last term is what a δ smaller by the factor
        E[K] would cost, so the conversion of ρ-zCDP at δ/E[K] finds the best λ.
        """
        log_inverse = -math.log(self.gamma)
        order = max(1.0, math.sqrt(log_inverse / rho))
        extra = (1 + self.shape) * ((order - 1) * rho + log_inverse / order)
        return (conversions.epsilon_from_rho(rho, delta / self.mean / _UP) + extra) * _UP

    def draw(self, bits: Bits) -> int:
        """Draw K exactly."""

        def first(context: Any) -> Any:
            gamma = context.mpf(self.gamma)
            shape = context.mpf(self.shape)
            if self.shape == 0:
                return (1 - gamma) / -context.log(gamma)
            return (1 - gamma) * shape / context.expm1(-shape * context.log(gamma))

        def ratio(context: Any, k: int) -> Any:
            return (1 - context.mpf(self.gamma)) * (k + context.mpf(self.shape)) / (k + 1)

        return _draw(first, ratio, bits)


@dataclass(frozen=True)
class Poisson:
    """P(K = k) ∝ m^k/k! for k ≥ 1: very few runs are less likely, but a large m is expensive.

    ``rate`` is m, from 1e-6 to 1000.
    """

    rate: float
    shape: ClassVar[float] = math.inf  # Poisson is the limit of negative binomial distributions

    def __post_init__(self) -> None:
        validate.check_fields(self, validate.number, "rate", least=1e-6, most=MOST)

    @cached_property
    def mean(self) -> float:
        """E[K], rounded up."""
        return self.rate / -math.expm1(-self.rate) * _UP

    def epsilon(self, rho: float, delta: float) -> float:
        """Return an upper bound on ε at this δ for the best of K runs of ρ-zCDP each.

        The bound on the Rényi divergence of order λ is λρ + m·δ̂ + ln E[K]/(λ − 1), where one run is
        (ε̂, δ̂)-DP for ε̂ = ln(1 + 1/(λ − 1)). Every λ > 1 is sound; a good one is searched for. The
        slightly larger E[K] replaces m here, as in other accountants.
        """
        return _poisson_epsilon(self.mean, rho, delta)

    def draw(self, bits: Bits) -> int:
        """Draw K exactly."""

        def first(context: Any) -> Any:
            rate = context.mpf(self.rate)
            return rate / context.expm1(rate)

        return _draw(first, lambda context, k: context.mpf(self.rate) / (k + 1), bits)


Law = NegativeBinomial | Poisson  # the number of runs, with its cost and exact draws


def binomial_mean(shape: float, gamma: float) -> float:
    """Return the mean of a negative binomial distribution without 0."""
    log_gamma = math.log(gamma)
    if shape == 0:
        return math.expm1(-log_gamma) / -log_gamma
    return shape * (1 - gamma) / (gamma * -math.expm1(shape * log_gamma))


@lru_cache(maxsize=4096)
def _poisson_epsilon(mean: float, rho: float, delta: float) -> float:
    log_ratio = math.log(mean / delta)

    def at(log_t: float) -> float:
        t = math.exp(log_t)  # λ − 1
        other = conversions.delta_from_rho(rho, math.log1p(1 / t) * (1 - 2.0**-40))
        terms = (rho, rho * t, mean * other, log_ratio / t, -math.log1p(t) / t, -math.log1p(1 / t))
        return sum(terms) + 2.0**-48 * sum(map(abs, terms))

    best = math.log(math.sqrt(log_ratio / rho))  # the optimum without the term m·δ̂
    found = minimize_scalar(at, bounds=(best - 6, best + 2), method="bounded")
    return max(0.0, min(float(found.fun), at(best)))


def _draw(first: Callable[[Any], Any], ratio: Callable[[Any, int], Any], bits: Bits) -> int:
    """Draw k ≥ 1 exactly, from its first probability and the ratios of consecutive ones.

    A uniform number decides. Its bits are drawn 64 at a time until all numbers that begin with them
    lie in the same step of the distribution function, rounding included.
    """
    numerator = length = 0
    while length < _MOST_BITS:
        numerator = (numerator << 64) | int(bits.words(1)[0])
        length += 64
        context = precise_context(length + 64)
        low = context.ldexp(numerator, -length)
        high = context.ldexp(numerator + 1, -length)
        # after k < 2^30 steps rounding is below 2^(40 − length − 64)
        error = context.ldexp(1, -(length + 20))
        k = 1
        below = context.mpf(0)
        term = first(context)
        while high > below + term - error and term > error:
            below = below + term
            term = term * ratio(context, k)
            k = k + 1
        if high <= below + term - error and (k == 1 or low >= below + error):
            return k
    raise PrivacyError("the probabilities of the number of runs do not add up to 1.")


@dataclass(frozen=True)
class BestOfMany:
    """The best of K runs, where K is random and secret and only the best run is released.

    ``rho`` is the zCDP cost of one run, its noisy score included, ``expected_runs`` is E[K]. The
    ``shape`` of K's distribution (K ≥ 1) is 0 for logarithmic, 1 geometric, infinity Poisson.
    """

    rho: float
    expected_runs: float
    shape: float
    name: ClassVar[str] = "best_of_many"

    @property
    def loss(self) -> PrivacyLoss:
        """Infinite in every measure: the cost is a Rényi curve, which no filter composes."""
        return PrivacyLoss(math.inf, math.inf, math.inf)

    def event(self) -> Any:
        """Return the selection as a `dp_accounting` event, whose Poisson law includes K = 0.

        Here K ≥ 1 and E[K] is the mean of this K, which costs more.
        """
        from dp_accounting import ZCDpEvent
        from dp_accounting.dp_event import RepeatAndSelectDpEvent

        return RepeatAndSelectDpEvent(ZCDpEvent(self.rho), self.expected_runs, self.shape)
