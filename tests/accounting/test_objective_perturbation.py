"""The profile of objective perturbation against exact densities of minima.

In one dimension the density of the minimum follows from a change of variables, so the true δ at an
ε (the hockey-stick divergence) is an integral.
"""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from discreet.accounting import objective_perturbation
from discreet.accounting.calibration import noise_ratio, pure_scale, ridge_for
from discreet.accounting.conversions import delta_from_mu, epsilon_from_mu, mu_from_epsilon
from discreet.accounting.objective_perturbation import (
    ObjectivePerturbation,
    curvature_cost,
    profile,
)
from discreet.accounting.profiles import Profile
from discreet.accounting.recompute import mechanism_event
from discreet.core import PrivacyFilter, Relation
from discreet.errors import PrivacyError
from discreet.objectives import Huber, HuberHinge, Logistic, Softmax

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE


def density(w, rows, loss, ridge, noise):
    """Density of the minimum of Σφ + ridge/2·w² + b·w at w; ``noise`` is the density of b."""
    b, jacobian = -ridge * w, np.full_like(w, ridge)
    for x, y in rows:
        b = b - loss.derivative(x * w, y) * x
        jacobian = jacobian + loss.second_derivative(x * w, y) * x * x
    return noise(b) * jacobian


def gaussian(sigma):
    return lambda b: np.exp(-0.5 * (b / sigma) ** 2) / (sigma * math.sqrt(2 * math.pi))


def midpoints(rows, loss, reach, count=100_000):
    """Points and the lengths they stand for; densities jump only between them."""
    match loss:
        case HuberHinge(h):
            kinks = [y * (1 + side * h) / x for x, y in rows for side in (-1, 1)]
        case Huber(t):
            kinks = [(y + side * t) / x for x, y in rows for side in (-1, 1)]
        case _:
            kinks = []
    edges = sorted({-reach, reach, *(k for k in kinks if abs(k) < reach)})
    each = count // (len(edges) - 1)
    parts = [np.linspace(a, b, each + 1) for a, b in itertools.pairwise(edges)]
    points = np.concatenate([(part[1:] + part[:-1]) / 2 for part in parts])
    return points, np.concatenate([np.diff(part) for part in parts])


def delta_of(first, second, loss, ridge, noise, reach, epsilon):
    """The larger hockey-stick divergence of the two minima, by a fine sum."""
    w, step = midpoints([*first, *second], loss, reach)
    p, q = (density(w, rows, loss, ridge, noise) for rows in (first, second))
    assert p @ step == pytest.approx(1, abs=1e-5)  # the change of variables is right
    assert q @ step == pytest.approx(1, abs=1e-5)
    excess = [np.maximum(a - math.exp(epsilon) * b, 0) @ step for a, b in ((p, q), (q, p))]
    return max(excess)


PAIRS = {
    "nobody": ([], [(1.0, 1.0)]),
    "others": ([(0.7, -1.0), (1.0, 1.0)], [(0.7, -1.0), (1.0, 1.0), (1.0, -1.0)]),
    "shorter": ([(1.0, 1.0)], [(1.0, 1.0), (0.4, 1.0)]),
    "zero": ([(0.5, 1.0)], [(0.5, 1.0), (1.0, 0.0)]),
}
LOSSES = [Logistic(), HuberHinge(), HuberHinge(1.0), Huber(1.0), Huber(0.2)]


CASES = [  # a target of 0 is for regression only
    (loss, pair) for loss in LOSSES for pair in PAIRS if loss.task == "regression" or pair != "zero"
]


@pytest.mark.parametrize(("loss", "pair"), CASES, ids=repr)
@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize(("epsilon", "delta", "share"), [(0.3, 1e-3, 0.1), (3.0, 1e-4, 0.5)])
def test_no_minimum_tells_more_than_the_profile(loss, relation, pair, epsilon, delta, share):
    first, second = PAIRS[pair]
    if relation is REPLACE:
        first, second = (*first, (1.0, -1.0)), (*first, (1.0, 1.0))
    ridge = ridge_for(share * epsilon, rank=1, trace=loss.curvature_bound)
    facts = {"curvature_cost": curvature_cost(ridge, rank=1, trace=loss.curvature_bound)}
    facts |= {"relation": relation, "corners": loss.gradient_corners}
    ratio = noise_ratio(epsilon, delta, **facts)
    sigma = loss.slope_bound / ratio
    reach = (10 * sigma + 4) / ridge
    found = delta_of(first, second, loss, ridge, gaussian(sigma), reach, epsilon)
    assert found <= delta * (1 + 1e-6)


@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_half_the_noise_is_refuted_and_the_profile_is_nearly_attained(relation):
    # A strong penalty keeps the minimum where the smoothed hinge is straight: a plain Gaussian.
    loss, ridge, epsilon, delta = HuberHinge(0.1), 1e4, 1.0, 1e-3
    cost = curvature_cost(ridge, rank=1, trace=5.0)
    ratio = noise_ratio(epsilon, delta, curvature_cost=cost, relation=relation, corners=1)
    second = [(1.0, 1.0)]
    first = [] if relation is ADD else [(1.0, -1.0)]

    def found(sigma):
        return delta_of(first, second, loss, ridge, gaussian(sigma), 12 * sigma / ridge, epsilon)

    assert 0.98 * delta <= found(1 / ratio) <= delta
    assert found(0.5 / ratio) > 10 * delta


def test_gradients_that_follow_the_noise_cost_two_corners():
    """The slope of Huber's loss has the sign of the minimum: no fixed shift has this δ."""
    sigma, ridge, epsilon = 3.0, 1e-3, 0.5
    w, step = midpoints([(1.0, 0.0)], Huber(1.0), 60 / ridge)
    p = density(w, [], Huber(1.0), ridge, gaussian(sigma))
    q = density(w, [(1.0, 0.0)], Huber(1.0), ridge, gaussian(sigma))
    true = np.maximum(p - math.exp(epsilon) * q, 0) @ step
    shifted = delta_from_mu(1 / sigma, epsilon)
    assert true == pytest.approx(2 * shifted, rel=1e-3)
    bound = profile(noise_ratio=1 / sigma, curvature_cost=0.0, relation=ADD, corners=2)
    assert true <= bound.delta(epsilon) * (1 + 1e-6)


AFTER = [(0.3, 1e-3, 0.1, 0.2), (3.0, 1e-4, 0.4, 0.05), (1.0, 1e-4, 0.05, 0.6)]


@pytest.mark.parametrize(("loss", "pair"), CASES, ids=repr)
@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize(("epsilon", "delta", "curvature", "share"), AFTER)
def test_no_minimum_after_a_gaussian_tells_more_than_both_were_promised(
    loss, relation, pair, epsilon, delta, curvature, share
):
    """The exact δ of both: hockey sticks of the minima at ε − L, averaged over the loss L."""
    first, second = PAIRS[pair]
    if relation is REPLACE:
        first, second = (*first, (1.0, -1.0)), (*first, (1.0, 1.0))
    ridge = ridge_for(curvature * epsilon, rank=1, trace=loss.curvature_bound)
    facts = {"curvature_cost": curvature_cost(ridge, rank=1, trace=loss.curvature_bound)}
    facts |= {"relation": relation, "corners": loss.gradient_corners}
    mu = math.sqrt(share) * mu_from_epsilon(epsilon, delta)
    ratio = noise_ratio(epsilon, delta, before=Fraction(mu) ** 2, **facts)
    sigma = loss.slope_bound / ratio
    found = after_gaussian(first, second, loss, ridge, sigma, mu, epsilon)
    assert found <= delta * (1 + 1e-5)


def after_gaussian(first, second, loss, ridge, sigma, mu, epsilon):
    w, step = midpoints([*first, *second], loss, (10 * sigma + 4) / ridge, count=20_000)
    p, q = (density(w, rows, loss, ridge, gaussian(sigma)) * step for rows in (first, second))
    x = np.linspace(-9, 9, 1801)
    weights = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi) * (x[1] - x[0])
    factors = np.exp(epsilon - mu * mu / 2 - mu * x)

    def excess(a, b):
        """Σ (a − f·b)₊ for all factors f: over the points whose ratio is above f."""
        order = np.argsort(a / b)
        above_a, above_b = (np.append(np.cumsum(v[order][::-1])[::-1], 0.0) for v in (a, b))
        start = np.searchsorted((a / b)[order], factors)
        return weights @ (above_a[start] - factors * above_b[start])

    return max(excess(p, q), excess(q, p))


@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_after_a_gaussian_the_bound_is_nearly_attained(relation):
    loss, ridge, epsilon, delta = HuberHinge(0.1), 1e4, 1.0, 1e-3
    mu = 0.5 * mu_from_epsilon(epsilon, delta)
    facts = {"curvature_cost": curvature_cost(ridge, rank=1, trace=5.0), "relation": relation}
    ratio = noise_ratio(epsilon, delta, before=Fraction(mu) ** 2, corners=1, **facts)
    first = [] if relation is ADD else [(1.0, -1.0)]
    arguments = (first, [(1.0, 1.0)], loss, ridge)
    assert 0.98 * delta <= after_gaussian(*arguments, 1 / ratio, mu, epsilon) <= delta
    assert after_gaussian(*arguments, 0.9 / ratio, mu, epsilon) > 1.2 * delta
    # what is left for the minimum is nearly all that a Gaussian would have left
    changed = relation.rows_changed
    ideal = math.sqrt(0.75) * mu_from_epsilon(epsilon, delta)
    assert 0.97 * ideal <= changed * ratio <= ideal


@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_pure_noise(relation):
    loss, ridge, epsilon = HuberHinge(0.1), 100.0, 0.7
    cost = curvature_cost(ridge, rank=1, trace=5.0)
    scale = pure_scale(epsilon, lipschitz=1.0, curvature_cost=cost, relation=relation)
    # By hand: c = ln(1 + 5/100) = 0.0487902; scale = rows·1/(0.7 − 0.0487902).
    assert scale == pytest.approx(relation.rows_changed / 0.6512098, rel=1e-6)
    first = [(1.0, 1.0)] if relation is ADD else [(1.0, 1.0), (1.0, -1.0)]
    second = [(1.0, 1.0), (1.0, 1.0)]

    def laplace(width):
        return lambda b: np.exp(-np.abs(b) / width) / (2 * width)

    assert delta_of(first, second, loss, ridge, laplace(scale), scale, epsilon) < 1e-9
    assert delta_of(first, second, loss, ridge, laplace(0.5 * scale), scale, epsilon) > 1e-3


@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_softmax_with_three_classes(relation):
    """One feature, three weights: densities on a cube, determinants of 3 × 3 Hessians."""
    loss, epsilon, delta = Softmax(3), 1.0, 1e-2
    facts = {"rank": 2, "trace": loss.hessian_trace_bound}
    ridge = ridge_for(0.2, **facts)
    arguments = {"curvature_cost": curvature_cost(ridge, **facts), "relation": relation}
    ratio = noise_ratio(epsilon, delta, corners=2, **arguments)
    sigma = loss.slope_bound / ratio

    def densities(sigma):
        axis = np.linspace(-6.5 * sigma / ridge, 6.5 * sigma / ridge, 81)
        w = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1)

        def of(targets):
            b, hessian = -ridge * w, ridge * np.eye(3)
            for target in targets:
                b = b - loss.derivative(w, target)
                hessian = hessian + loss.second_derivative(w, target)
            square = (b * b).sum(axis=-1)
            weights = np.exp(-square / (2 * sigma**2)) * np.linalg.det(hessian)
            return weights / (2 * math.pi * sigma**2) ** 1.5 * (axis[1] - axis[0]) ** 3

        first = of([]) if relation is ADD else of([1])
        return first, of([0])

    def found(sigma):
        p, q = densities(sigma)
        assert p.sum() == pytest.approx(1, abs=1e-3)
        excess = [np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in ((p, q), (q, p))]
        return max(excess)

    assert found(sigma) <= delta
    assert found(sigma / 3) > delta


def test_by_hand():
    # c = 2·ln(1 + 3/(2·4)) = 0.636907
    assert curvature_cost(4.0, rank=2, trace=3.0) == pytest.approx(0.636907, rel=1e-5)
    assert ridge_for(0.636907, rank=2, trace=3.0) == pytest.approx(4.0, rel=1e-5)
    # add/remove, one corner: the Gaussian's own δ at ε − c; replace: twice the shift and a bit.
    arguments = {"noise_ratio": 0.4, "curvature_cost": 0.25}
    single, double = delta_from_mu(0.4, 0.75), delta_from_mu(0.8, 0.75)
    one = profile(relation=ADD, corners=1, **arguments).delta(1.0)
    assert one == pytest.approx(single, rel=1e-9)
    assert one >= single
    three = profile(relation=REPLACE, corners=3, **arguments)
    assert three.delta(1.0) == pytest.approx(9 * double + 6 * single, rel=1e-9)
    assert three.delta(0.2) == 1.0
    assert [count for count, _ in three.terms] == [Fraction(1, 2), 6, 9]


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize("corners", [1, 2, 9])
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.01, 1e-8), (1.0, 1e-6), (30.0, 1e-2), (1e6, 1e-5)]
)
def test_inverses_are_on_the_safe_side(relation, corners, epsilon, delta):
    facts = {"curvature_cost": 0.1 * min(epsilon, 5), "relation": relation, "corners": corners}
    mu = 0.3 * mu_from_epsilon(epsilon, delta)
    for others in ({}, {"output_mu": 0.1 * mu, "releases": 3, "before": Fraction(mu) ** 2}):
        arguments = facts | others
        if others:
            arguments["curvature_cost"] /= 3

        def spent(ratio, arguments=arguments):
            own = {"releases", "before"}
            one = profile(noise_ratio=ratio, **{k: v for k, v in arguments.items() if k not in own})
            before = Profile.gaussian(arguments.get("before", Fraction(0)))
            return before.then(one.times(arguments.get("releases", 1))).delta(epsilon)

        ratio = noise_ratio(epsilon, delta, **arguments)
        assert spent(ratio) <= delta < spent(ratio * (1 + 1e-6))
        before = Profile.gaussian(arguments.pop("before", Fraction(0)))
        found = before.then(profile(noise_ratio=ratio, **arguments)).epsilon(delta)
        assert found == pytest.approx(epsilon, rel=1e-6)


def test_the_gaussian_profile_is_the_limit_without_curvature():
    spent = profile(noise_ratio=0.3, curvature_cost=0.0, relation=ADD, corners=1).epsilon(1e-6)
    assert spent == pytest.approx(epsilon_from_mu(0.3, 1e-6), rel=1e-6)
    assert spent >= epsilon_from_mu(0.3, 1e-6)


def test_where_nothing_is_left_there_is_no_noise_that_does():
    facts = {"relation": ADD, "corners": 1}
    assert noise_ratio(1.0, 1e-6, curvature_cost=1.0, **facts) == 0
    whole = Fraction(mu_from_epsilon(1.0, 1e-6)) ** 2
    assert noise_ratio(1.0, 1e-6, curvature_cost=0.0, before=whole, **facts) == 0
    # the counts of many minima need more room than is left
    nearly = whole * Fraction(99, 100)
    assert noise_ratio(1.0, 1e-6, curvature_cost=0.0, before=nearly, releases=9, **facts) == 0


def test_curvature_beyond_a_pure_budget_is_refused():
    with pytest.raises(ValueError, match="raise the penalty"):
        pure_scale(1.0, lipschitz=1.0, curvature_cost=1.2, relation=ADD)


def test_the_mechanism_is_charged_as_a_whole():
    mechanism = ObjectivePerturbation(0.5, 1e-6)
    assert (mechanism.loss.epsilon, mechanism.loss.delta) == (0.5, 1e-6)
    assert math.isinf(mechanism.loss.rho)
    assert type(mechanism_event(mechanism)).__name__ == "UnsupportedDpEvent"
    PrivacyFilter("approximate", 0.5, 1e-6).charge(mechanism)
    pure = ObjectivePerturbation(0.5)
    assert mechanism_event(pure).rho == pure.loss.rho > 0.1
    PrivacyFilter("pure", 0.5).charge(pure)
    with pytest.raises(PrivacyError, match="not how it composes"):
        _ = pure.profile
    for bad in ((0.0, 0.0), (math.inf, 0.1), (1.0, 1.0), (1.0, -0.1)):
        with pytest.raises(ValueError, match="epsilon must be"):
            ObjectivePerturbation(*bad)


def test_a_relation_by_its_name_is_that_relation():
    """A name equals its relation as a key of a cache, so it must not be taken for another."""
    facts = {"noise_ratio": 0.2, "curvature_cost": 0.05, "corners": 2}
    objective_perturbation._counts.cache_clear()
    named = profile(relation="replace_one", **facts)
    objective_perturbation._counts.cache_clear()
    assert named == profile(relation=REPLACE, **facts)


def test_a_gaussian_minimum_says_how_it_composes():
    facts = {"noise_ratio": 0.2, "curvature_cost": 0.05, "corners": 2, "output_mu": 0.01}
    minimum = ObjectivePerturbation.gaussian(1e-6, relation="replace_one", **facts)
    assert minimum.relation is REPLACE
    assert minimum.profile == profile(relation=REPLACE, **facts)
    assert minimum.profile.delta(minimum.epsilon) <= 1e-6
    assert minimum.epsilon == minimum.profile.epsilon(1e-6)
    PrivacyFilter("approximate", minimum.epsilon, 1e-6).charge(minimum)
    with pytest.raises(ValueError, match="does not keep"):
        replace(minimum, epsilon=0.99 * minimum.epsilon)
    with pytest.raises(ValueError, match="does not keep"):
        replace(minimum, noise_ratio=0.3)
    for field, value in (("corners", None), ("relation", None), ("output_mu", -0.1)):
        with pytest.raises(ValueError, match="all of its numbers"):
            replace(minimum, **{field: value})
