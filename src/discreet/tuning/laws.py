"""How often a tuned fit is run: a random number that nobody learns, and what it costs.

The best of K private runs costs little more than two runs, however large K may turn out, if K is
drawn from the right distribution and kept secret (Liu & Talwar 2019; Papernot & Steinke 2022). Two
families are here, both with K ≥ 1: the truncated negative binomial one and the truncated Poisson
one.

Proof: docs/proofs/tuning.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Protocol

from scipy.optimize import brentq, minimize_scalar

from discreet.accounting import conversions
from discreet.core.bits import Bits
from discreet.core.quantiles import precise_context

__all__ = ["LAWS", "Law", "NegativeBinomial", "Poisson", "law_of"]

_FEWEST, _MOST = 1.05, 1000.0
_UP = 1 + 2.0**-40
"""Far above the rounding of a few dozen operations on doubles."""


class Law(Protocol):
    """The distribution of the number of runs K ≥ 1."""

    @property
    def mean(self) -> float:
        """E[K], rounded up."""
        ...

    @property
    def shape(self) -> float:
        """Its shape as `dp_accounting` counts: 0 logarithmic, 1 geometric, infinity Poisson."""
        ...

    def epsilon(self, rho: float, delta: float) -> float:
        """The ε at this δ of the best of K runs that are ρ-zCDP each, or more, never less."""
        ...

    def draw(self, bits: Bits) -> int:
        """Draw K, exactly."""
        ...


@dataclass(frozen=True)
class NegativeBinomial:
    """P(K = k) ∝ (1 − γ)^k · Γ(k + η)/k! for k ≥ 1: geometric for η = 1, logarithmic for η = 0.

    Parameters
    ----------
    shape : float
        η, from 0 to 10. The smaller, the cheaper, and the more likely are very few runs.
    gamma : float
        γ, strictly between 0 and 1.
    """

    shape: float
    gamma: float

    def __post_init__(self) -> None:
        """Refuse what is not a distribution with a proof here."""
        if not (0 <= self.shape <= 10 and 1e-6 <= self.gamma < 1):
            raise ValueError(
                "shape must be from 0 to 10 and gamma from 1e-6 to 1 (excluded); got "
                f"shape={self.shape!r}, gamma={self.gamma!r}."
            )

    @classmethod
    def with_mean(cls, mean: float, shape: float) -> NegativeBinomial:
        """The one of this shape with about this mean."""
        mean = _check_mean(mean)

        def excess(log_gamma: float) -> float:
            return math.log(_binomial_mean(shape, math.exp(log_gamma)) / mean)

        return cls(float(shape), math.exp(float(brentq(excess, math.log(1e-6), -1e-9))))

    @cached_property
    def mean(self) -> float:
        """E[K], rounded up."""
        return _binomial_mean(self.shape, self.gamma) * _UP

    def epsilon(self, rho: float, delta: float) -> float:
        """The ε of the best of K runs, which are ρ-zCDP each.

        The bound on the Rényi divergence of order λ is λρ + c + ln E[K]/(λ − 1), with c the least
        (1 + η)·((λ̂ − 1)·ρ + ln(1/γ)/λ̂) over λ̂ ≥ 1. The last term is what a δ smaller by the factor
        E[K] would cost, so the conversion of ρ-zCDP at δ/E[K] finds the best λ.
        """
        length = -math.log(self.gamma)
        order = max(1.0, math.sqrt(length / rho))
        extra = (1 + self.shape) * ((order - 1) * rho + length / order)
        return (conversions.epsilon_from_rho(rho, delta / self.mean / _UP) + extra) * _UP

    def draw(self, bits: Bits) -> int:
        """Draw K, exactly."""

        def first(context: Any) -> Any:
            gamma, shape = context.mpf(self.gamma), context.mpf(self.shape)
            if self.shape == 0:
                return (1 - gamma) / -context.log(gamma)
            return (1 - gamma) * shape / context.expm1(-shape * context.log(gamma))

        def ratio(context: Any, k: int) -> Any:
            return (1 - context.mpf(self.gamma)) * (k + context.mpf(self.shape)) / (k + 1)

        return _draw(first, ratio, bits)


@dataclass(frozen=True)
class Poisson:
    """P(K = k) ∝ m^k/k! for k ≥ 1: less often very few runs, but dear where m is large.

    Parameters
    ----------
    rate : float
        m, greater than 0.
    """

    rate: float

    def __post_init__(self) -> None:
        """Refuse what is not a distribution with a proof here."""
        if not 1e-6 <= self.rate <= _MOST:
            raise ValueError(f"rate must be from 1e-6 to {_MOST:g}; got {self.rate!r}.")

    @classmethod
    def with_mean(cls, mean: float) -> Poisson:
        """The one with about this mean."""
        mean = _check_mean(mean)
        return cls(float(brentq(lambda rate: rate / -math.expm1(-rate) - mean, 1e-6, _MOST)))

    @property
    def shape(self) -> float:
        """Infinity: Poisson is the limit of negative binomial distributions."""
        return math.inf

    @cached_property
    def mean(self) -> float:
        """E[K], rounded up."""
        return self.rate / -math.expm1(-self.rate) * _UP

    def epsilon(self, rho: float, delta: float) -> float:
        """The ε of the best of K runs, which are ρ-zCDP each.

        The bound on the Rényi divergence of order λ is λρ + m·δ̂ + ln E[K]/(λ − 1), where one run is
        (ε̂, δ̂)-DP for ε̂ = ln(1 + 1/(λ − 1)). Every λ > 1 is sound; a good one is searched for. E[K]
        stands for m here, as it does in other accountants: it is slightly larger.
        """
        return _poisson_epsilon(self.mean, rho, delta)

    def draw(self, bits: Bits) -> int:
        """Draw K, exactly."""

        def first(context: Any) -> Any:
            rate = context.mpf(self.rate)
            return rate / context.expm1(rate)

        return _draw(first, lambda context, k: context.mpf(self.rate) / (k + 1), bits)


LAWS: dict[str, Callable[[float], Law]] = {
    "poisson": Poisson.with_mean,
    "logarithmic": lambda mean: NegativeBinomial.with_mean(mean, 0.0),
    "geometric": lambda mean: NegativeBinomial.with_mean(mean, 1.0),
}
"""Distributions by name, each made from its mean."""


def law_of(name: str, mean: float) -> Law:
    """The distribution of that name and mean."""
    if name not in LAWS:
        known = ", ".join(repr(known) for known in LAWS)
        raise ValueError(f"law must be one of {known}; got {name!r}.")
    return LAWS[name](mean)


def _check_mean(mean: float) -> float:
    if isinstance(mean, bool) or not _FEWEST <= mean <= _MOST:
        raise ValueError(
            f"the expected number of runs must be from {_FEWEST:g} to {_MOST:g}; got {mean!r}. "
            "About as many as there are settings is usual; for one run no tuning is needed."
        )
    return float(mean)


def _binomial_mean(shape: float, gamma: float) -> float:
    log_gamma = math.log(gamma)
    if shape == 0:
        return math.expm1(-log_gamma) / -log_gamma
    return shape * (1 - gamma) / (gamma * -math.expm1(shape * log_gamma))


@lru_cache(maxsize=4096)
def _poisson_epsilon(mean: float, rho: float, delta: float) -> float:
    length = math.log(mean / delta)

    def at(log_t: float) -> float:
        t = math.exp(log_t)  # λ − 1
        other = conversions.delta_from_rho(rho, math.log1p(1 / t) * (1 - 2.0**-40))
        terms = (rho, rho * t, mean * other, length / t, -math.log1p(t) / t, -math.log1p(1 / t))
        return sum(terms) + 2.0**-48 * sum(map(abs, terms))

    best = math.log(math.sqrt(length / rho))  # where it would be without the runs' own term
    found = minimize_scalar(at, bounds=(best - 6, best + 2), method="bounded")
    return max(0.0, min(float(found.fun), at(best)))


def _draw(first: Callable[[Any], Any], ratio: Callable[[Any, int], Any], bits: Bits) -> int:
    """Draw k ≥ 1 from probabilities given by the first of them and ratios, exactly.

    A uniform number decides. Its bits are drawn 64 at a time until all numbers that begin with them
    lie in the same step of the distribution function, rounding included.
    """
    numerator = length = 0
    while True:
        numerator = (numerator << 64) | int(bits.words(1)[0])
        length += 64
        context = precise_context(length + 64)
        low, high = context.ldexp(numerator, -length), context.ldexp(numerator + 1, -length)
        # after k < 2^30 steps rounding is below 2^(40 − length − 64)
        error = context.ldexp(1, -(length + 20))
        k, below, term = 1, context.mpf(0), first(context)
        while high > below + term - error and term > error:
            below, term, k = below + term, term * ratio(context, k), k + 1
        if high <= below + term - error and (k == 1 or low >= below + error):
            return k
