"""Conversions between the ways of stating a privacy guarantee.

Four statements are converted here: (ε, δ)-DP, ρ-zCDP, μ-GDP, and, for one selection, pure ε-DP and
ε-bounded-range. Every function errs on the safe side, floating-point error included: a *spent*
quantity (ε, δ, or the ρ and μ of a mechanism) is rounded up, an *allowed* quantity (the ρ or μ that
fits a budget) is rounded down. The derivations and proofs are in ``docs/proofs/conversions.md``.
"""

from discreet.accounting.conversions.directed import Conversion
from discreet.accounting.conversions.gdp import (
    bounded_range_from_mu,
    delta_from_mu,
    epsilon_from_mu,
    mu_from_bounded_range,
    mu_from_epsilon,
    mu_from_pure,
)
from discreet.accounting.conversions.zcdp import (
    delta_from_rho,
    epsilon_from_rho,
    rho_from_bounded_range,
    rho_from_epsilon,
    rho_from_mu,
    rho_from_pure,
)

__all__ = [
    "Conversion",
    "bounded_range_from_mu",
    "delta_from_mu",
    "delta_from_rho",
    "epsilon_from_mu",
    "epsilon_from_rho",
    "mu_from_bounded_range",
    "mu_from_epsilon",
    "mu_from_pure",
    "rho_from_bounded_range",
    "rho_from_epsilon",
    "rho_from_mu",
    "rho_from_pure",
]
