"""Noise at which mechanisms keep a budget: inversions of their costs.

Nothing here is trusted. A mechanism's cost is computed from the noise that it draws, and an account
refuses one that its budget does not allow: a wrong calibration is refused, or wastes budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from scipy.optimize import brentq

from discreet.accounting import conversions
from discreet.accounting.budget import Budget, Relation
from discreet.accounting.objective_perturbation import ROUNDING, profile
from discreet.accounting.profiles import Profile
from discreet.accounting.subsampling import Method, SampledGaussian, Sampling
from discreet.accounting.subsampling.dominating_pairs import pairs_of
from discreet.accounting.subsampling.estimates import estimate
from discreet.accounting.subsampling.sampled_gaussian import (
    DELTA_BOUNDS,
    SMALLEST_COMPOSED,
    SMALLEST_MULTIPLIER,
)
from discreet.errors import NotSupported
from discreet.validate import integer, number

PRECISION = 5e-4  # relative precision of a noise multiplier that is searched for
SMALLEST_PART = 1e-6  # ratios below this share of what one Gaussian could have count as 0


# ---- Gaussian steps on samples


@lru_cache(maxsize=1024)
def noise_multiplier_for(
    budget: Budget,
    rate: float,
    count: int,
    sampling: Sampling = "poisson",
    method: Method = "tight",
) -> float:
    """Find the smallest noise multiplier, to about 0.1 %, at which ``count`` uses keep a budget.

    ``method`` is exact composition ("tight"), or Rényi divergences as in Abadi et al. 2016 ("rdp").
    The other parameters are those of `SampledGaussian`.

    Privacy
    -------
    Where steps are sampled, the result was checked: `SampledGaussian.epsilon` of it is at most
    ``budget.epsilon``. At rate 1 it follows from exact Gaussian DP. Accounts check every plan.
    """
    if budget.pure:
        raise NotSupported("Gaussian noise needs delta > 0; got delta=0. Give for example 1e-6.")
    relation = budget.relation
    goal = budget.epsilon
    rate = SampledGaussian(1.0, rate, relation, sampling).rate  # which checks them
    count = integer("count", count)
    delta = number("delta", budget.delta, **DELTA_BOUNDS)

    mu = conversions.mu_from_epsilon(goal, delta)
    low = math.log(SMALLEST_MULTIPLIER)
    high = math.log(relation.rows_changed * math.sqrt(count) / mu * (1 + 1e-9))
    if high <= low:
        return SMALLEST_MULTIPLIER
    if rate == 1 and method == "tight":
        return math.exp(high)

    def spent(log_sigma: float) -> float:
        sigma = max(math.exp(log_sigma), SMALLEST_MULTIPLIER)
        return SampledGaussian(sigma, rate, relation, sampling).epsilon(count, delta, method)

    def guessed(log_sigma: float) -> float:
        pair = pairs_of(math.exp(log_sigma), rate, relation, sampling)[0]
        return estimate(pair, count, delta, points=512).epsilon

    if method == "rdp":
        high += 1.0  # its conversion wastes some
        while spent(high) > goal:
            high += 1.0
    smallest = math.log(SMALLEST_COMPOSED)
    top = high
    if rate < 1 and high > smallest:
        top = _crossing(guessed, goal, smallest, high, 0.02)
    # Composition is slow: search near the estimate first.
    bottom = top
    reach = 0.1
    while top < high and spent(top) > goal:
        bottom = top
        top = min(high, top + reach)
        reach = 4 * reach
    while bottom > low and spent(bottom) <= goal:
        top = bottom
        bottom = max(low, bottom - reach)
        reach = 4 * reach
    return math.exp(_crossing(spent, goal, bottom, top, PRECISION))


def _crossing(
    spent: Callable[[float], float], goal: float, low: float, high: float, width: float
) -> float:
    """Find where a decreasing function falls to ``goal``, to ``width``.

    The result fits, or it is ``high``, which is taken to fit. That the function decreases is not
    relied upon for that.
    """

    def excess(x: float) -> float:
        return min(50.0, math.log(max(spent(x), 1e-300) / goal))

    if not excess(low) > 0 > excess(high):
        return low if excess(low) <= 0 else high
    x = float(brentq(excess, low, high, xtol=width))
    while x < high and spent(x) > goal:
        x = min(high, x + width)
    return x


# ---- objective perturbation


def ridge_for(cost: float, *, rank: int, trace: float) -> float:
    """Return the smallest λ at which the curvature cost is at most ``cost``, rounded up."""
    return trace / (rank * math.expm1(min(cost / rank, 600.0))) * (1 + 4 * ROUNDING)


@lru_cache(maxsize=4096)
def noise_ratio(
    epsilon: float,
    delta: float,
    *,
    curvature_cost: float,
    relation: Relation,
    corners: int,
    output_mu: float = 0.0,
    releases: int = 1,
    before: Fraction = Fraction(0),
) -> float:
    """Return the largest s = L/σ, rounded down, at which all keeps (ε, δ); 0 if there is none.

    All: ``releases`` of minima, by `profile`, after Gaussian releases with μ² = ``before``.
    """
    left = epsilon - releases * curvature_cost
    if not left > 0:
        return 0.0
    first = Profile.gaussian(before)
    changed = relation.rows_changed

    def spent(ratio: float) -> float:
        own = profile(
            noise_ratio=ratio,
            curvature_cost=curvature_cost,
            relation=relation,
            corners=corners,
            output_mu=output_mu,
            releases=releases,
        )
        return first.then(own).delta(epsilon)

    # The longest corners alone: no ratio above this one can do.
    part = max(delta / corners ** min(changed * releases, 100), 1e-300)
    left_square = (
        conversions.mu_from_epsilon(left, part) ** 2 - float(before) - releases * output_mu**2
    )
    high = math.sqrt(max(left_square, 0.0) / releases) / changed
    if not high > 0 or spent(SMALLEST_PART * high) > delta:
        return 0.0
    if spent(high) <= delta:
        return high
    low = high * (1 - 1e-9)
    while spent(low) > delta:
        low = max(low / 2, SMALLEST_PART * high)
    target = math.log(delta)
    ratio = brentq(lambda at: math.log(spent(at)) - target, low, high, rtol=1e-12)
    return conversions.lower_until(float(ratio), lambda at: spent(at) <= delta)


def pure_scale(
    epsilon: float, *, lipschitz: float, curvature_cost: float, relation: Relation
) -> float:
    """Return the scale of noise of density ∝ exp(−‖b‖/scale) that makes the release ε-DP.

    Privacy
    -------
    ε = rows_changed·L/scale + c: the triangle inequality for the noise, whatever the gradients.
    """
    left = epsilon - curvature_cost
    if not left > 0:
        raise ValueError(
            f"the curvature cost {curvature_cost:.4g} must be below epsilon = {epsilon:.4g}; "
            "raise the penalty."
        )
    return relation.rows_changed * lipschitz / left * (1 + ROUNDING)
