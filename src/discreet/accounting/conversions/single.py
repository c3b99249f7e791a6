"""The cost of one mechanism in another measure: pure DP, bounded range or GDP as zCDP or GDP."""

import math
from fractions import Fraction

from scipy.special import erfinv, log_ndtr, ndtri_exp

from discreet.accounting.conversions.directed import (
    MECHANISM_EPSILON,
    MU,
    SLACK,
    at_least,
    check_size,
    lower_until,
)
from discreet.accounting.conversions.gdp import mills

__all__ = [
    "bounded_range_from_mu",
    "mu_from_bounded_range",
    "mu_from_pure",
    "rho_from_bounded_range",
    "rho_from_mu",
    "rho_from_pure",
]


def rho_from_mu(mu: float) -> float:
    """Bound the ρ of μ-GDP: ρ = μ²/2.

    Parameters
    ----------
    mu : float
        At least 0.

    Returns
    -------
    float
        ρ such that μ-GDP implies ρ-zCDP, correctly rounded up (exact where a float can be).

    Privacy
    -------
    Exact for the Gaussian mechanism; any μ-GDP mechanism is a post-processing of it.

    References
    ----------
    Bun, Steinke, 2016, Proposition 1.6. Dong, Roth, Su, 2022.
    """
    mu = check_size("mu", mu, zero=True, remedy=MU)
    return at_least(0.5 * mu * mu, Fraction(mu) ** 2 / 2)


def rho_from_pure(epsilon: float) -> float:
    """Bound the ρ of pure ε-DP: ρ = ε tanh(ε/2).

    Parameters
    ----------
    epsilon : float
        At least 0.

    Returns
    -------
    float
        ρ such that (ε, 0)-DP implies ρ-zCDP, rounded up and at most ε²/2 rounded up.

    Privacy
    -------
    The smallest ρ that holds for every ε-DP mechanism: randomised response attains it.
    It improves on the classical ε²/2, by 8 % at ε = 1 and by a factor of 5 at ε = 10.

    References
    ----------
    ``docs/proofs/conversions.md`` (proof). Steinke, "Tight RDP & zCDP Bounds from Pure DP", 2024,
    https://differentialprivacy.org/pdp-to-zcdp. Bun, Steinke, 2016, Proposition 1.4, for ε²/2.
    """
    epsilon = check_size("epsilon", epsilon, zero=True, remedy=MECHANISM_EPSILON)
    classical = at_least(0.5 * epsilon * epsilon, Fraction(epsilon) ** 2 / 2)
    sharp = epsilon * math.tanh(0.5 * epsilon) * (1.0 + SLACK)
    return min(classical, math.nextafter(sharp, math.inf))


def rho_from_bounded_range(epsilon: float) -> float:
    """Bound the ρ of an ε-bounded-range mechanism: ρ = ε²/8.

    Parameters
    ----------
    epsilon : float
        At least 0: the range of the log-likelihood ratio over outcomes.

    Returns
    -------
    float
        ρ such that ε-bounded-range implies ρ-zCDP, correctly rounded up.

    Privacy
    -------
    Holds for the exponential mechanism (Gumbel noise and arg max) with range ε. It does
    not hold for permute-and-flip or for ε-DP mechanisms in general: use :func:`rho_from_pure`.

    References
    ----------
    Dong, Durfee, Rogers, "Optimal Differential Privacy Composition for Exponential Mechanisms",
    2020. Cesar, Rogers, "Bounding, Concentrating, and Truncating", 2021.
    """
    epsilon = check_size("epsilon", epsilon, zero=True, remedy=MECHANISM_EPSILON)
    return at_least(0.125 * epsilon * epsilon, Fraction(epsilon) ** 2 / 8)


def _mu_from_log_odds(log_odds: float) -> float:
    """−2 Φ⁻¹(1/(1 + e^log_odds)) for log_odds ≥ 0, rounded up."""
    if log_odds == 0.0:
        return 0.0
    if log_odds < 1.0:
        half_mu = math.sqrt(2.0) * float(erfinv(math.tanh(0.5 * log_odds)))
    else:
        log_tail = -(log_odds + math.log1p(math.exp(-log_odds)))
        half_mu = -float(ndtri_exp(log_tail))
        # one Newton step: the library's inverse is off by up to 1e-12 for large arguments
        half_mu -= (log_tail - float(log_ndtr(-half_mu))) * mills(half_mu)
    return math.nextafter(2.0 * half_mu * (1.0 + 2.0 * SLACK), math.inf)


def mu_from_pure(epsilon: float) -> float:
    """Bound the μ of pure ε-DP: μ = −2 Φ⁻¹(1/(1 + e^ε)).

    Parameters
    ----------
    epsilon : float
        At least 0.

    Returns
    -------
    float
        μ such that (ε, 0)-DP implies μ-GDP, rounded up.

    Privacy
    -------
    The smallest μ that holds for every ε-DP mechanism. For small ε it costs
    μ²/2 ≈ 0.785 ε², where zCDP costs 0.5 ε² (:func:`rho_from_pure`).

    References
    ----------
    ``docs/proofs/conversions.md`` (proof). Dong, Roth, Su, 2022, for trade-off functions.
    """
    epsilon = check_size("epsilon", epsilon, zero=True, remedy=MECHANISM_EPSILON)
    return _mu_from_log_odds(epsilon)


def mu_from_bounded_range(epsilon: float) -> float:
    """Bound the μ of an ε-bounded-range mechanism: μ = −2 Φ⁻¹(1/(1 + e^(ε/2))).

    Parameters
    ----------
    epsilon : float
        At least 0: the range of the log-likelihood ratio over outcomes.

    Returns
    -------
    float
        μ such that ε-bounded-range implies μ-GDP, rounded up.

    Privacy
    -------
    The smallest μ that holds for every ε-bounded-range mechanism, among them the
    exponential mechanism (Gumbel noise and arg max). It does not hold for permute-and-flip: use
    :func:`mu_from_pure`. For small ε it costs μ²/2 ≈ 0.196 ε², where zCDP costs 0.125 ε²
    (:func:`rho_from_bounded_range`).

    References
    ----------
    ``docs/proofs/conversions.md`` (proof). Dong, Durfee, Rogers, 2020, for the worst case.
    """
    epsilon = check_size("epsilon", epsilon, zero=True, remedy=MECHANISM_EPSILON)
    return _mu_from_log_odds(0.5 * epsilon)


def bounded_range_from_mu(mu: float) -> float:
    """Find the largest ε whose bounded range is μ-GDP: ε = 2·ln(Φ(μ/2)/Φ(−μ/2)).

    Parameters
    ----------
    mu : float
        At least 0.

    Returns
    -------
    float
        The largest ε such that ε-bounded-range implies μ-GDP, rounded down.

    Privacy
    -------
    A lower bound on the ε that could be allowed, checked before it is returned:
    ``mu_from_bounded_range(result) <= mu``.

    References
    ----------
    As in :func:`mu_from_bounded_range`.
    """
    mu = check_size("mu", mu, zero=True, remedy=MU)
    if mu < 2.0:  # Φ(μ/2) − Φ(−μ/2) is the erf; its inverse hyperbolic tangent half the log odds
        epsilon = 4.0 * math.atanh(math.erf(mu / math.sqrt(8.0)))
    else:
        epsilon = 2.0 * float(log_ndtr(0.5 * mu) - log_ndtr(-0.5 * mu))
    return lower_until(epsilon, lambda range_: mu_from_bounded_range(range_) <= mu)
