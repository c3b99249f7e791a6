"""Zero-concentrated DP: to and from (ε, δ), and the ρ of one mechanism.

With t = α − 1 > 0 and M = ln(1/δ), the conversion of Canonne, Kamath and Steinke (2020) reads, for
every t,

    ln δ ≤ ρ t (1 + t) − ε t − t ln(1 + 1/t) − ln(1 + t),

which is solved for δ, for ε or for ρ, and then optimised over t. The best t is the root of a
monotone function in all three cases:

    given (ρ, ε):  ρ (1 + 2t) − ln(1 + 1/t) = ε
    given (ρ, δ):  ρ t² + ln(1 + t) = M
    given (ε, δ):  (M − ln(1 + t)) (1 + 2t) / t² − ln(1 + 1/t) = ε.

A badly found t costs tightness and never soundness, so only the last evaluation needs an error
bound. It is carried along: each sum returns its own rounding error, which is then added.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from scipy.optimize import brentq

from discreet.accounting.conversions.directed import (
    BUDGET_EPSILON,
    MECHANISM_EPSILON,
    MU,
    RHO,
    SLACK,
    SPENT_EPSILON,
    Conversion,
    at_least,
    check_conversion,
    check_delta,
    check_size,
    lower_until,
    probability_from_log,
    raise_until,
)

__all__ = [
    "delta_from_rho",
    "epsilon_from_rho",
    "rho_from_bounded_range",
    "rho_from_epsilon",
    "rho_from_mu",
    "rho_from_pure",
]

_LOG_T_LIMIT = 345.0  # |ln t| beyond which t² would overflow or vanish; any t is sound


def _root_t(increasing: Callable[[float], float], guess: float) -> float:
    """Find t > 0 where an increasing function changes sign, on a logarithmic scale."""

    def at(log_t: float) -> float:
        return increasing(math.exp(log_t))

    low = high = min(max(math.log(guess), -_LOG_T_LIMIT), _LOG_T_LIMIT)
    step = 0.5
    if at(low) > 0.0:
        while low > -_LOG_T_LIMIT and at(low) > 0.0:
            high, low, step = low, max(low - step, -_LOG_T_LIMIT), 2.0 * step
    else:
        while high < _LOG_T_LIMIT and at(high) < 0.0:
            low, high, step = high, min(high + step, _LOG_T_LIMIT), 2.0 * step
    if not at(low) < 0.0 < at(high):  # an exact hit, or the optimum is beyond the limit
        return math.exp(low if at(low) == 0.0 or at(high) < 0.0 else high)
    return math.exp(float(brentq(at, low, high, xtol=1e-12, rtol=1e-12)))


def _delta_from_rho(rho: float, epsilon: float, conversion: Conversion) -> float:
    if rho == 0.0:
        return 0.0
    excess = epsilon - rho
    if conversion == "published":
        if excess <= 0.0:
            return 1.0
        root = 0.5 * excess / math.sqrt(rho)
        return probability_from_log(-root * root * (1.0 - SLACK))

    def slope(t: float) -> float:
        return 2.0 * rho * t - excess - math.log1p(1.0 / t)

    t = _root_t(slope, 0.5 * excess / rho if excess > rho * 1e-9 else 1.0)
    terms = (rho * t * t, -excess * t, -t * math.log1p(1.0 / t), -math.log1p(t))
    return probability_from_log(sum(terms) + SLACK * sum(map(abs, terms)))


def _epsilon_from_rho(rho: float, delta: float, conversion: Conversion) -> float:
    if rho == 0.0:
        return 0.0
    log_inverse_delta = -math.log(delta)
    published = (rho + 2.0 * math.sqrt(rho) * math.sqrt(log_inverse_delta)) * (1.0 + SLACK)
    epsilon = published
    if conversion == "tight":

        def excess(t: float) -> float:
            return rho * t * t + math.log1p(t) - log_inverse_delta

        t = _root_t(excess, math.sqrt(log_inverse_delta) / math.sqrt(rho))
        terms = (
            rho,
            rho * t,
            -math.log1p(1.0 / t),
            log_inverse_delta / t,
            -math.log1p(t) / t,
        )
        epsilon = max(0.0, min(published, sum(terms) + SLACK * sum(map(abs, terms))))
    return raise_until(epsilon, published, lambda e: _delta_from_rho(rho, e, conversion) <= delta)


def delta_from_rho(rho: float, epsilon: float, conversion: Conversion = "tight") -> float:
    """Bound the δ of ρ-zCDP at a given ε.

    Parameters
    ----------
    rho : float
        Total zCDP cost, at least 0.
    epsilon : float
        At least 0.
    conversion : {"tight", "published"}
        ``"tight"`` is the formula of Canonne, Kamath and Steinke, ``"published"`` the older
        δ = exp(−(ε − ρ)² / 4ρ) that much of the literature reports with.

    Returns
    -------
    float
        δ in (0, 1] such that ρ-zCDP implies (ε, δ)-DP; 0 if ρ is 0. A δ below the smallest
        positive float is returned as that float.

    Privacy
    -------
    Assumes ρ-zCDP under either neighbouring relation and keeps that relation. An upper
    bound: the tight one holds for every order α, the best is used, and rounding is added.

    References
    ----------
    Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy", 2020,
    arXiv:2004.00010v4, Proposition 12 with D_α ≤ ρα. Bun, Steinke, "Concentrated Differential
    Privacy", 2016, Proposition 1.3.
    """
    check_conversion(conversion)
    rho = check_size("rho", rho, zero=True, remedy=RHO)
    epsilon = check_size("epsilon", epsilon, zero=True, remedy=SPENT_EPSILON)
    return _delta_from_rho(rho, epsilon, conversion)


def epsilon_from_rho(rho: float, delta: float, conversion: Conversion = "tight") -> float:
    """Bound the ε of ρ-zCDP at a given δ.

    Parameters
    ----------
    rho : float
        Total zCDP cost, at least 0.
    delta : float
        Strictly between 0 and 1.
    conversion : {"tight", "published"}
        As in :func:`delta_from_rho`; ``"published"`` is ε = ρ + 2 √(ρ ln(1/δ)).

    Returns
    -------
    float
        ε ≥ 0 such that ρ-zCDP implies (ε, δ)-DP.

    Privacy
    -------
    Assumes ρ-zCDP under either neighbouring relation and keeps that relation. An upper
    bound, checked before it is returned: ``delta_from_rho(rho, result) <= delta``. The tight value
    never exceeds the published one.

    References
    ----------
    As in :func:`delta_from_rho`.
    """
    check_conversion(conversion)
    rho = check_size("rho", rho, zero=True, remedy=RHO)
    return _epsilon_from_rho(rho, check_delta(delta), conversion)


@lru_cache(maxsize=512)  # a fit asks several times for the same budget
def rho_from_epsilon(epsilon: float, delta: float, conversion: Conversion = "tight") -> float:
    """Find the largest ρ whose ρ-zCDP fits an (ε, δ) budget.

    Parameters
    ----------
    epsilon : float
        Greater than 0.
    delta : float
        Strictly between 0 and 1.
    conversion : {"tight", "published"}
        As in :func:`delta_from_rho`; ``"published"`` is ρ = (√(ln(1/δ) + ε) − √(ln(1/δ)))².

    Returns
    -------
    float
        ρ such that ρ-zCDP implies (ε, δ)-DP.

    Privacy
    -------
    A lower bound on the ρ that could be allowed, checked before it is returned:
    ``epsilon_from_rho(rho, delta) <= epsilon`` and ``delta_from_rho(rho, epsilon) <= delta``.

    References
    ----------
    As in :func:`delta_from_rho`.
    """
    check_conversion(conversion)
    epsilon = check_size("epsilon", epsilon, zero=False, remedy=BUDGET_EPSILON)
    delta = check_delta(delta)
    log_inverse_delta = -math.log(delta)
    root = math.sqrt(log_inverse_delta)
    root_sum = math.sqrt(log_inverse_delta + epsilon) + root
    rho = (epsilon / root_sum) ** 2 * (1.0 - SLACK)
    if conversion == "tight":

        def shortfall(t: float) -> float:
            rho_at_t = (log_inverse_delta - math.log1p(t)) / t
            return epsilon + math.log1p(1.0 / t) - rho_at_t * ((1.0 + 2.0 * t) / t)

        t = _root_t(shortfall, root * (root_sum / epsilon))
        terms = (epsilon, math.log1p(1.0 / t), math.log1p(t) / t, -log_inverse_delta / t)
        lower = sum(terms) - SLACK * sum(map(abs, terms))
        rho = max(rho, lower / (1.0 + t) * (1.0 - SLACK))
    return lower_until(
        rho,
        lambda r: (
            _delta_from_rho(r, epsilon, conversion) <= delta
            and _epsilon_from_rho(r, delta, conversion) <= epsilon
        ),
    )


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
