"""Gaussian DP: exactly to and from (ε, δ), and the μ of one mechanism.

With c = ε/μ, a = c − μ/2, b = c + μ/2, the normal density φ and Mills' ratio m(x) = Φ(−x)/φ(x),
because a² + 2ε = b²,

    δ = Φ(−a) − e^ε Φ(−b) = φ(a) (m(a) − m(b)),

and for small μ the difference is a series of positive terms, so nothing cancels.
"""

import math
from functools import lru_cache

from scipy.optimize import brentq
from scipy.special import erfcx, erfinv, log_ndtr, ndtr, ndtri_exp

from discreet.accounting.conversions.directed import (
    BUDGET_EPSILON,
    MECHANISM_EPSILON,
    MU,
    SLACK,
    SPENT_EPSILON,
    UNIT,
    check_delta,
    check_size,
    lower_until,
    probability_from_log,
    raise_until,
)

__all__ = [
    "bounded_range_from_mu",
    "delta_from_mu",
    "epsilon_from_mu",
    "mu_from_bounded_range",
    "mu_from_epsilon",
    "mu_from_pure",
]

_SERIES_BELOW = 0.05  # μ below which m(a) − m(b) is summed as a series
_SQRT_HALF_PI = math.sqrt(math.pi / 2.0)
_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


def mills(x: float) -> float:
    """Return Mills' ratio Φ(−x)/φ(x)."""
    return _SQRT_HALF_PI * float(erfcx(x * math.sqrt(0.5)))


def _mills_difference_series(c: float, mu: float) -> float:
    """Compute m(c − μ/2) − m(c + μ/2) for c ≥ 0 and small μ, without cancellation.

    It equals 2 Σ_k I_k (μ/2)^k / k! over odd k, where I_k = ∫₀^∞ s^k exp(−s²/2 − cs) ds > 0 and
    I_{k+1} = k I_{k−1} − c I_k. For μ ≤ 0.05 the terms from k = 9 on are below 2e-16 of the first.
    """
    before = mills(c)
    moment = 1.0 - c * before
    half = 0.5 * mu
    weight, total = half, half * moment
    for k in range(1, 7):
        before, moment = moment, k * before - c * moment
        weight *= half / (k + 1)
        if k % 2 == 0:
            total += weight * moment
    return 2.0 * total


def _log_delta_from_mu(mu: float, epsilon: float) -> float:
    """Bound ln δ of the Gaussian profile for μ > 0 from above, rounding included."""
    c = epsilon / mu
    a, b = c - 0.5 * mu, c + 0.5 * mu
    if a - 4.0 * UNIT * c > 45.0:  # even with its rounding: δ < exp(−a²/2), below every float
        return -0.5 * a * a
    # c and a are each rounded once: relative error of φ(a), and of what is evaluated at c
    error = SLACK * (1.0 + c + abs(a) * (c + abs(a)))
    if mu <= _SERIES_BELOW:
        value = _mills_difference_series(c, mu)
        error += SLACK * (c * c + 2.0)  # 1 − c m(c) loses a factor of about c² + 2
    elif a >= 0.0:
        mills_a = mills(a)
        value = mills_a - mills(b)
        error += SLACK * (mills_a + 1.0) / value
    else:
        first = float(ndtr(-a))
        second = math.exp(-0.5 * a * a - _HALF_LOG_TWO_PI) * mills(b)
        value = first - second
        absolute = SLACK * (first + second) + error * math.exp(-0.5 * a * a)
        return min(0.0, math.log(min(1.0, value + absolute)) + SLACK)
    return math.log(value) - 0.5 * a * a - _HALF_LOG_TWO_PI + error


def _delta_from_mu(mu: float, epsilon: float) -> float:
    return 0.0 if mu == 0.0 else probability_from_log(_log_delta_from_mu(mu, epsilon))


def _epsilon_from_mu(mu: float, delta: float) -> float:
    if mu == 0.0 or _delta_from_mu(mu, 0.0) <= delta:
        return 0.0
    log_delta = math.log(delta)
    # zCDP with ρ = μ²/2 and the published conversion is an upper bound
    high = (0.5 * mu * mu + mu * math.sqrt(-2.0 * log_delta)) * (1.0 + 1e-9)

    def excess(epsilon: float) -> float:
        return _log_delta_from_mu(mu, epsilon) - log_delta

    epsilon = high
    if excess(0.0) > 0.0 > excess(high):
        epsilon = float(brentq(excess, 0.0, high, xtol=1e-17 * high, rtol=4.0 * 2.0 * UNIT))
    return raise_until(epsilon, epsilon, lambda e: _delta_from_mu(mu, e) <= delta)


def delta_from_mu(mu: float, epsilon: float) -> float:
    """Compute the δ of μ-GDP at a given ε.

    Parameters
    ----------
    mu : float
        Total GDP cost, at least 0: sensitivity over standard deviation for one Gaussian release.
    epsilon : float
        At least 0.

    Returns
    -------
    float
        δ = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2), in (0, 1]; 0 if μ is 0. A δ below the smallest
        positive float is returned as that float.

    Privacy
    -------
    Assumes μ-GDP under either neighbouring relation and keeps that relation. Exact for
    the Gaussian mechanism, but for rounding, which is added: the result is an upper bound.

    References
    ----------
    Balle, Wang, "Improving the Gaussian Mechanism for Differential Privacy", 2018, Theorem 8.
    Dong, Roth, Su, "Gaussian Differential Privacy", 2022, Corollary 2.13.
    """
    mu = check_size("mu", mu, zero=True, remedy=MU)
    epsilon = check_size("epsilon", epsilon, zero=True, remedy=SPENT_EPSILON)
    return _delta_from_mu(mu, epsilon)


def epsilon_from_mu(mu: float, delta: float) -> float:
    """Compute the ε of μ-GDP at a given δ.

    Parameters
    ----------
    mu : float
        Total GDP cost, at least 0.
    delta : float
        Strictly between 0 and 1.

    Returns
    -------
    float
        The smallest ε ≥ 0 such that μ-GDP implies (ε, δ)-DP, rounded up.

    Privacy
    -------
    Assumes μ-GDP under either neighbouring relation and keeps that relation. An upper
    bound, checked before it is returned: ``delta_from_mu(mu, result) <= delta``.

    References
    ----------
    As in :func:`delta_from_mu`.
    """
    mu = check_size("mu", mu, zero=True, remedy=MU)
    return _epsilon_from_mu(mu, check_delta(delta))


@lru_cache(maxsize=512)  # a fit asks a dozen times for the same budget
def mu_from_epsilon(epsilon: float, delta: float) -> float:
    """Find the largest μ whose μ-GDP fits an (ε, δ) budget.

    Parameters
    ----------
    epsilon : float
        Greater than 0.
    delta : float
        Strictly between 0 and 1.

    Returns
    -------
    float
        The largest μ such that μ-GDP implies (ε, δ)-DP, rounded down. One Gaussian release of
        sensitivity Δ may then use the standard deviation Δ/μ.

    Privacy
    -------
    A lower bound on the μ that could be allowed, checked before it is returned:
    ``epsilon_from_mu(mu, delta) <= epsilon`` and ``delta_from_mu(mu, epsilon) <= delta``.

    References
    ----------
    As in :func:`delta_from_mu`.
    """
    epsilon = check_size("epsilon", epsilon, zero=False, remedy=BUDGET_EPSILON)
    delta = check_delta(delta)
    log_delta = math.log(delta)

    def excess(mu: float) -> float:
        return _log_delta_from_mu(mu, epsilon) - log_delta

    # Both fit: the published zCDP conversion with ρ = μ²/2, and the μ that fits at ε = 0.
    from_zcdp = math.sqrt(2.0) * epsilon / (math.sqrt(epsilon - log_delta) + math.sqrt(-log_delta))
    from_zero = 2.0 * math.sqrt(2.0) * float(erfinv(delta))
    low = 0.5 * max(from_zcdp, min(from_zero, 16.0))
    high = 4.0 * low
    while excess(high) < 0.0:
        high *= 2.0
    mu = float(brentq(excess, low, high, xtol=1e-17 * low, rtol=4.0 * 2.0 * UNIT))
    return lower_until(
        mu,
        lambda m: _delta_from_mu(m, epsilon) <= delta and _epsilon_from_mu(m, delta) <= epsilon,
    )


def _mu_from_log_odds(log_odds: float) -> float:
    """Compute −2 Φ⁻¹(1/(1 + e^log_odds)) for log_odds ≥ 0, rounded up."""
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
