r"""Conversions between the ways of stating a privacy guarantee.

Four statements are converted here: (ε, δ)-DP, ρ-zCDP, μ-GDP, and, for one selection, pure ε-DP and
ε-bounded-range. Every function errs on the safe side, floating-point error included: a *spent*
quantity (ε, δ, or the ρ and μ of a mechanism) is rounded up, an *allowed* quantity (the ρ or μ that
fits a budget) is rounded down. The derivations and proofs are in ``docs/proofs/conversions.md``.

Zero-concentrated DP, with t = α − 1 > 0 and M = ln(1/δ). The conversion of Canonne, Kamath and
Steinke (2020) reads, for every t,

    ln δ ≤ ρ t (1 + t) − ε t − t ln(1 + 1/t) − ln(1 + t),

which is solved for δ, for ε or for ρ, and then optimised over t. The best t is the root of a
monotone function in all three cases:

    given (ρ, ε):  ρ (1 + 2t) − ln(1 + 1/t) = ε
    given (ρ, δ):  ρ t² + ln(1 + t) = M
    given (ε, δ):  (M − ln(1 + t)) (1 + 2t) / t² − ln(1 + 1/t) = ε.

A badly found t costs tightness and never soundness, so only the last evaluation needs an error
bound. It is carried along: each sum returns its own rounding error, which is then added.

Gaussian DP, with c = ε/μ, a = c − μ/2, b = c + μ/2, the normal density φ and Mills' ratio
m(x) = Φ(−x)/φ(x). Because a² + 2ε = b²,

    δ = Φ(−a) − e^ε Φ(−b) = φ(a) (m(a) − m(b)),

and for small μ the difference is a series of positive terms, so nothing cancels.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Literal

from scipy.optimize import brentq
from scipy.special import erfcx, erfinv, log_ndtr, ndtr, ndtri_exp

__all__ = [
    "Conversion",
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

Conversion = Literal["tight", "published"]

_UNIT = 2.0**-53  # unit roundoff: one correctly rounded operation is off by this, relatively
_SLACK = 8.0 * _UNIT  # covers a term built from a few operations and one library call
_LARGEST = 1e100  # no square of an accepted value overflows
_LOG_T_LIMIT = 345.0  # |ln t| beyond which t² would overflow or vanish; any t is sound
_SERIES_BELOW = 0.05  # μ below which m(a) − m(b) is summed as a series
_SQRT_HALF_PI = math.sqrt(math.pi / 2.0)
_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


# --- checks and directed rounding ---------------------------------------------------------------


def _check_size(name: str, value: float, *, zero: bool, remedy: str) -> float:
    """Return ``value`` as a float, or raise if it is not in the range of a privacy parameter."""
    number = float(value)
    if (number >= 0.0 if zero else number > 0.0) and number <= _LARGEST:
        return number
    allowed = "at least 0" if zero else "greater than 0"
    raise ValueError(
        f"{name} is {value!r}; it must be {allowed} and at most {_LARGEST:g}. {remedy}"
    )


def _check_delta(delta: float) -> float:
    number = float(delta)
    if 0.0 < number < 1.0:
        return number
    raise ValueError(
        f"delta is {delta!r}; it must lie strictly between 0 and 1. "
        "Give a small probability, for example 1e-6 or 1/n**2 for n rows."
    )


def _check_conversion(conversion: str) -> None:
    if conversion not in ("tight", "published"):
        raise ValueError(
            f"conversion is {conversion!r}; it must be 'tight' or 'published'. "
            "Use 'tight' unless you reproduce a result computed with the older formula."
        )


_SPENT_EPSILON = "Give the epsilon at which delta is wanted, for example 1.0."
_BUDGET_EPSILON = "Give the epsilon of the budget, for example 1.0."
_MECHANISM_EPSILON = "Give the epsilon of one use of the mechanism, for example 0.1."
_RHO = "Give the total zCDP cost, for example 0.5 (rho adds up over steps)."
_MU = "Give the total GDP cost, for example 1.0 (mu**2 adds up over steps)."


def _probability_from_log(log_upper: float) -> float:
    """Round exp(log_upper) up; never 0, because the quantity it bounds is not."""
    if log_upper >= 0.0:
        return 1.0
    return min(1.0, math.nextafter(math.exp(log_upper) * (1.0 + _SLACK), math.inf))


def _at_least(candidate: float, exact: Fraction) -> float:
    """Return the candidate if it is no less than the exact value, else the next float up."""
    return candidate if Fraction(candidate) >= exact else math.nextafter(candidate, math.inf)


def _raise_until(value: float, scale: float, holds: Callable[[float], bool]) -> float:
    """Move ``value`` up, in steps that double from one ulp of ``scale``, until ``holds``."""
    start, step = value, scale * 2.0 * _UNIT
    while not holds(value):
        value = math.nextafter(start + step, math.inf)
        step *= 2.0
    return value


def _lower_until(value: float, holds: Callable[[float], bool]) -> float:
    """Move a positive ``value`` down, in steps that double from one ulp, until ``holds`` (or 0)."""
    start, step = value, value * 2.0 * _UNIT
    while value > 0.0 and not holds(value):
        value = max(0.0, math.nextafter(start - step, 0.0))
        step *= 2.0
    return value


# --- zero-concentrated DP -----------------------------------------------------------------------


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
        return _probability_from_log(-root * root * (1.0 - _SLACK))

    def slope(t: float) -> float:
        return 2.0 * rho * t - excess - math.log1p(1.0 / t)

    t = _root_t(slope, 0.5 * excess / rho if excess > rho * 1e-9 else 1.0)
    terms = (rho * t * t, -excess * t, -t * math.log1p(1.0 / t), -math.log1p(t))
    return _probability_from_log(sum(terms) + _SLACK * sum(map(abs, terms)))


def _epsilon_from_rho(rho: float, delta: float, conversion: Conversion) -> float:
    if rho == 0.0:
        return 0.0
    log_inverse_delta = -math.log(delta)
    published = (rho + 2.0 * math.sqrt(rho) * math.sqrt(log_inverse_delta)) * (1.0 + _SLACK)
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
        epsilon = max(0.0, min(published, sum(terms) + _SLACK * sum(map(abs, terms))))
    return _raise_until(epsilon, published, lambda e: _delta_from_rho(rho, e, conversion) <= delta)


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
    _check_conversion(conversion)
    rho = _check_size("rho", rho, zero=True, remedy=_RHO)
    epsilon = _check_size("epsilon", epsilon, zero=True, remedy=_SPENT_EPSILON)
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
    _check_conversion(conversion)
    rho = _check_size("rho", rho, zero=True, remedy=_RHO)
    return _epsilon_from_rho(rho, _check_delta(delta), conversion)


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
    _check_conversion(conversion)
    epsilon = _check_size("epsilon", epsilon, zero=False, remedy=_BUDGET_EPSILON)
    delta = _check_delta(delta)
    log_inverse_delta = -math.log(delta)
    root = math.sqrt(log_inverse_delta)
    root_sum = math.sqrt(log_inverse_delta + epsilon) + root
    rho = (epsilon / root_sum) ** 2 * (1.0 - _SLACK)
    if conversion == "tight":

        def shortfall(t: float) -> float:
            rho_at_t = (log_inverse_delta - math.log1p(t)) / t
            return epsilon + math.log1p(1.0 / t) - rho_at_t * ((1.0 + 2.0 * t) / t)

        t = _root_t(shortfall, root * (root_sum / epsilon))
        terms = (epsilon, math.log1p(1.0 / t), math.log1p(t) / t, -log_inverse_delta / t)
        lower = sum(terms) - _SLACK * sum(map(abs, terms))
        rho = max(rho, lower / (1.0 + t) * (1.0 - _SLACK))
    return _lower_until(
        rho,
        lambda r: (
            _delta_from_rho(r, epsilon, conversion) <= delta
            and _epsilon_from_rho(r, delta, conversion) <= epsilon
        ),
    )


# --- Gaussian DP --------------------------------------------------------------------------------


def _mills(x: float) -> float:
    """Mills' ratio Φ(−x)/φ(x)."""
    return _SQRT_HALF_PI * float(erfcx(x * math.sqrt(0.5)))


def _mills_difference_series(c: float, mu: float) -> float:
    """m(c − μ/2) − m(c + μ/2) for c ≥ 0 and small μ, without cancellation.

    It equals 2 Σ_k I_k (μ/2)^k / k! over odd k, where I_k = ∫₀^∞ s^k exp(−s²/2 − cs) ds > 0 and
    I_{k+1} = k I_{k−1} − c I_k. For μ ≤ 0.05 the terms from k = 9 on are below 2e-16 of the first.
    """
    before = _mills(c)
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
    """An upper bound on ln δ of the Gaussian profile for μ > 0, with its rounding error added."""
    c = epsilon / mu
    a, b = c - 0.5 * mu, c + 0.5 * mu
    if a > 45.0:  # δ < exp(−a²/2) < 1e-439: below every float
        return -0.5 * a * a
    # c and a are each rounded once: relative error of φ(a), and of what is evaluated at c
    error = _SLACK * (1.0 + c + abs(a) * (c + abs(a)))
    if mu <= _SERIES_BELOW:
        value = _mills_difference_series(c, mu)
        error += _SLACK * (c * c + 2.0)  # 1 − c m(c) loses a factor of about c² + 2
    elif a >= 0.0:
        mills_a = _mills(a)
        value = mills_a - _mills(b)
        error += _SLACK * (mills_a + 1.0) / value
    else:
        first = float(ndtr(-a))
        second = math.exp(-0.5 * a * a - _HALF_LOG_TWO_PI) * _mills(b)
        value = first - second
        absolute = _SLACK * (first + second) + error * math.exp(-0.5 * a * a)
        return min(0.0, math.log(min(1.0, value + absolute)) + _SLACK)
    return math.log(value) - 0.5 * a * a - _HALF_LOG_TWO_PI + error


def _delta_from_mu(mu: float, epsilon: float) -> float:
    return 0.0 if mu == 0.0 else _probability_from_log(_log_delta_from_mu(mu, epsilon))


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
        epsilon = float(brentq(excess, 0.0, high, xtol=1e-17 * high, rtol=4.0 * 2.0 * _UNIT))
    return _raise_until(epsilon, epsilon, lambda e: _delta_from_mu(mu, e) <= delta)


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
    mu = _check_size("mu", mu, zero=True, remedy=_MU)
    epsilon = _check_size("epsilon", epsilon, zero=True, remedy=_SPENT_EPSILON)
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
    mu = _check_size("mu", mu, zero=True, remedy=_MU)
    return _epsilon_from_mu(mu, _check_delta(delta))


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
    epsilon = _check_size("epsilon", epsilon, zero=False, remedy=_BUDGET_EPSILON)
    delta = _check_delta(delta)
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
    mu = float(brentq(excess, low, high, xtol=1e-17 * low, rtol=4.0 * 2.0 * _UNIT))
    return _lower_until(
        mu,
        lambda m: _delta_from_mu(m, epsilon) <= delta and _epsilon_from_mu(m, delta) <= epsilon,
    )


# --- one mechanism ------------------------------------------------------------------------------


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
    mu = _check_size("mu", mu, zero=True, remedy=_MU)
    return _at_least(0.5 * mu * mu, Fraction(mu) ** 2 / 2)


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
    epsilon = _check_size("epsilon", epsilon, zero=True, remedy=_MECHANISM_EPSILON)
    classical = _at_least(0.5 * epsilon * epsilon, Fraction(epsilon) ** 2 / 2)
    sharp = epsilon * math.tanh(0.5 * epsilon) * (1.0 + _SLACK)
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
    epsilon = _check_size("epsilon", epsilon, zero=True, remedy=_MECHANISM_EPSILON)
    return _at_least(0.125 * epsilon * epsilon, Fraction(epsilon) ** 2 / 8)


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
        half_mu -= (log_tail - float(log_ndtr(-half_mu))) * _mills(half_mu)
    return math.nextafter(2.0 * half_mu * (1.0 + 2.0 * _SLACK), math.inf)


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
    epsilon = _check_size("epsilon", epsilon, zero=True, remedy=_MECHANISM_EPSILON)
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
    epsilon = _check_size("epsilon", epsilon, zero=True, remedy=_MECHANISM_EPSILON)
    return _mu_from_log_odds(0.5 * epsilon)
