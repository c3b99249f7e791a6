"""Conversions are right to many digits, always on the safe side, and fast.

Oracles: mpmath with 60 digits or more on the textbook formulas (no shared algebra with the module),
dp-accounting, and brute force over outcomes for the statements about mechanisms.
"""

import itertools
import math
import time
import warnings

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, log_ndtr, ndtri_exp

from discreet.accounting import conversions
from discreet.accounting.conversions import (
    bounded_range_from_mu,
    delta_from_mu,
    delta_from_rho,
    epsilon_from_mu,
    epsilon_from_rho,
    mu_from_bounded_range,
    mu_from_epsilon,
    mu_from_pure,
    rho_from_bounded_range,
    rho_from_epsilon,
    rho_from_mu,
    rho_from_pure,
)

EPSILONS = [0.001, 0.01, 0.1, 0.5, 1.0, 3.0, 10.0, 50.0]
DELTAS = [1e-15, 1e-10, 1e-6, 1e-3, 0.1]
BUDGETS = list(itertools.product(EPSILONS, DELTAS))
EXTREME = list(itertools.product([1e-6, 1e-3, 1.0, 1e3, 1e6], [1e-300, 1e-100, 1e-15, 0.1, 0.999]))
CONVERSIONS = ["tight", "published"]

epsilons = st.floats(-3.0, math.log10(50.0)).map(lambda x: 10.0**x)
deltas = st.floats(-15.0, -1.0).map(lambda x: 10.0**x)
wide_epsilons = st.floats(-6.0, 6.0).map(lambda x: 10.0**x)
wide_deltas = st.floats(-300.0, -0.001).map(lambda x: 10.0**x)
conversion_names = st.sampled_from(CONVERSIONS)
quick = settings(max_examples=100, deadline=None)


# --- oracles ------------------------------------------------------------------------------------


def least(function, low=-50.0, high=45.0, rounds=170):
    """Least value over α > 1 of a function that is unimodal in ln(α − 1), by ternary search."""
    low, high = mpmath.mpf(low), mpmath.mpf(high)

    def at(x):
        return function(1 + mpmath.exp(x))

    for _ in range(rounds):
        third = (high - low) / 3
        if at(low + third) < at(high - third):
            high -= third
        else:
            low += third
    return at((low + high) / 2)


def gain(alpha):
    """ln of (1 − 1/α)^α / (α − 1), the last factor of the tight conversion."""
    return alpha * mpmath.log(1 - 1 / alpha) - mpmath.log(alpha - 1)


def exact_delta_from_rho(rho, epsilon):
    rho, epsilon = mpmath.mpf(rho), mpmath.mpf(epsilon)
    return mpmath.exp(least(lambda a: (a - 1) * (a * rho - epsilon) + gain(a)))


def exact_epsilon_from_rho(rho, delta):
    rho, log_delta = mpmath.mpf(rho), mpmath.log(mpmath.mpf(delta))
    return least(lambda a: a * rho + (gain(a) - log_delta) / (a - 1))


def exact_rho_from_epsilon(epsilon, delta):
    epsilon, log_delta = mpmath.mpf(epsilon), mpmath.log(mpmath.mpf(delta))
    return -least(lambda a: ((gain(a) - log_delta) / (a - 1) - epsilon) / a)


def exact_delta_from_mu(mu, epsilon):
    mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
    return mpmath.ncdf(-epsilon / mu + mu / 2) - mpmath.exp(epsilon) * mpmath.ncdf(
        -epsilon / mu - mu / 2
    )


@pytest.fixture(autouse=True)
def _digits():
    with mpmath.workdps(80):
        yield


def relative(value, exact):
    """(value − exact) / exact, computed by mpmath: positive if value is above."""
    return float((mpmath.mpf(value) - exact) / exact)


# --- zCDP against the exact optimum -------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS[::2])
def test_tight_zcdp_is_the_optimum_and_on_the_safe_side(epsilon, delta):
    rho = rho_from_epsilon(epsilon, delta)
    with mpmath.workdps(60):
        assert -1e-12 < relative(rho, exact_rho_from_epsilon(epsilon, delta)) <= 0
        assert (
            0 <= relative(epsilon_from_rho(rho, delta), exact_epsilon_from_rho(rho, delta)) < 1e-11
        )
        assert (
            0 <= relative(delta_from_rho(rho, epsilon), exact_delta_from_rho(rho, epsilon)) < 1e-11
        )


@pytest.mark.parametrize(("rho", "epsilon"), [(1e-8, 0.0), (1e-3, 0.0), (1.0, 0.5), (20.0, 1.0)])
def test_tight_delta_where_epsilon_is_below_rho(rho, epsilon):
    value = delta_from_rho(rho, epsilon)
    assert 0 <= relative(value, exact_delta_from_rho(rho, epsilon)) < 1e-11
    assert value < 1.0


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS + EXTREME)
def test_published_zcdp_is_its_formula_and_on_the_safe_side(epsilon, delta):
    log_inverse = -mpmath.log(mpmath.mpf(delta))
    rho = rho_from_epsilon(epsilon, delta, "published")
    exact_rho = (mpmath.sqrt(log_inverse + mpmath.mpf(epsilon)) - mpmath.sqrt(log_inverse)) ** 2
    assert -1e-11 < relative(rho, exact_rho) <= 0
    exact_epsilon = mpmath.mpf(rho) + 2 * mpmath.sqrt(mpmath.mpf(rho) * log_inverse)
    assert 0 <= relative(epsilon_from_rho(rho, delta, "published"), exact_epsilon) < 1e-12
    exact_delta = mpmath.exp(-((mpmath.mpf(epsilon) - rho) ** 2) / (4 * mpmath.mpf(rho)))
    assert 0 <= relative(delta_from_rho(rho, epsilon, "published"), exact_delta) < 1e-8


def test_published_delta_is_one_up_to_rho():
    assert delta_from_rho(2.0, 2.0, "published") == 1.0
    assert delta_from_rho(2.0, 0.0, "published") == 1.0
    assert delta_from_rho(2.0, 2.1, "published") < 1.0


def test_classical_example():
    """ρ = 0.5, δ = 1e-6: published 0.5 + 2 √(0.5 ln 1e6) = 5.756522."""
    assert epsilon_from_rho(0.5, 1e-6, "published") == pytest.approx(5.756522, abs=1e-6)
    assert epsilon_from_rho(0.5, 1e-6) < 5.3


# --- GDP against the exact profile --------------------------------------------------------------


def gaussian_points(count=1500):
    """(μ, ε) over all branches of the evaluation: tiny and large μ, δ from 1e-300 to nearly 1."""
    rng = np.random.default_rng(20240607)
    points = []
    while len(points) < count:
        mu = 10.0 ** rng.uniform(-7, 3.2)
        a = rng.choice([rng.uniform(-8, 36), -(10.0 ** rng.uniform(-6, 0)), rng.uniform(-1, 9)])
        epsilon = mu * (a + mu / 2)
        if 0 <= epsilon <= 1e6:
            points.append((mu, epsilon))
    return points


def gaussian_errors(points):
    return np.array([relative(delta_from_mu(*p), exact_delta_from_mu(*p)) for p in points])


def test_gaussian_delta_is_exact_and_never_below():
    points = gaussian_points()
    errors = gaussian_errors(points)
    assert errors.min() >= 0.0
    assert errors.max() < 1e-10
    usual = [0.001 <= e <= 50.0 and delta_from_mu(mu, e) >= 1e-15 for mu, e in points]
    assert sum(usual) > 200
    assert errors[usual].max() < 2e-12


def test_gaussian_delta_where_the_two_terms_nearly_cancel():
    points = [(mu_from_epsilon(e, d), e) for e in (1e-6, 1e-3) for d in (1e-300, 1e-15, 1e-6)]
    points += [(0.05, 0.1), (math.nextafter(0.05, 1.0), 0.1), (1e-9, 0.0), (0.05, 0.0)]
    errors = gaussian_errors(points)
    assert errors.min() >= 0.0
    assert errors[[1, 2, 4, 5]].max() < 2e-13  # δ down to 1e-15
    assert errors.max() < 1e-11


def test_without_the_error_bound_some_delta_would_be_too_small(monkeypatch):
    """The comparison above has teeth: it fails as soon as the rounding error is not added."""
    monkeypatch.setattr(conversions, "SLACK", 0.0)
    assert gaussian_errors(gaussian_points(300)).min() < 0.0


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_gaussian_inverses_are_exact_and_on_the_safe_side(epsilon, delta):
    mu = mu_from_epsilon(epsilon, delta)
    assert exact_delta_from_mu(mu, epsilon) <= delta
    assert exact_delta_from_mu(mu * (1 + 1e-12), epsilon) > delta
    spent = epsilon_from_mu(mu, delta)
    assert exact_delta_from_mu(mu, spent) <= delta
    assert exact_delta_from_mu(mu, spent * (1 - 1e-11)) > delta


def test_gaussian_epsilon_is_zero_exactly_when_total_variation_fits():
    total_variation = 2 * float(mpmath.ncdf(0.05)) - 1
    assert epsilon_from_mu(0.1, total_variation * (1 + 1e-12)) == 0.0
    assert epsilon_from_mu(0.1, total_variation * (1 - 1e-9)) > 0.0


# --- dp-accounting ------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [1e-10, 1e-6, 1e-3])
@pytest.mark.parametrize("rho", [1e-3, 0.05, 1.0, 10.0])
def test_tight_zcdp_agrees_with_dp_accounting(rho, delta):
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant

    best = max(1e-3, math.sqrt(-math.log(delta) / rho))
    orders = 1 + best * np.exp(np.linspace(-1.5, 1.5, 4001))  # a grid around the best order
    theirs = RdpAccountant(orders=orders).compose(dp_event.ZCDpEvent(rho)).get_epsilon(delta)
    ours = epsilon_from_rho(rho, delta)
    assert ours <= theirs * (1 + 1e-12)
    assert ours == pytest.approx(theirs, rel=1e-5)


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_gdp_agrees_with_dp_accounting_closed_form(epsilon, delta):
    from dp_accounting import gaussian_mechanism

    mu = mu_from_epsilon(epsilon, delta)
    assert 1 / mu == pytest.approx(gaussian_mechanism.get_sigma_gaussian(epsilon, delta), rel=1e-10)
    theirs = gaussian_mechanism.get_epsilon_gaussian(1 / mu, delta)
    assert epsilon_from_mu(mu, delta) == pytest.approx(theirs, rel=1e-9, abs=1e-11)


def test_gdp_agrees_with_dp_accounting_privacy_loss_distribution():
    from dp_accounting.pld import privacy_loss_distribution

    loss = privacy_loss_distribution.from_gaussian_mechanism(
        2.0, value_discretization_interval=1e-4
    )
    for delta in (1e-8, 1e-4, 1e-2):
        theirs = loss.get_epsilon_for_delta(delta)
        assert epsilon_from_mu(0.5, delta) <= theirs + 1e-9
        assert epsilon_from_mu(0.5, delta) == pytest.approx(theirs, abs=2e-4)


# --- against each other -------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS + EXTREME)
@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_rho_round_trip(epsilon, delta, conversion):
    rho = rho_from_epsilon(epsilon, delta, conversion)
    assert rho > 0.0
    assert epsilon_from_rho(rho, delta, conversion) <= epsilon
    assert delta_from_rho(rho, epsilon, conversion) <= delta
    assert epsilon_from_rho(rho * (1 + 1e-9), delta, conversion) > epsilon
    assert delta_from_rho(rho * (1 + 1e-9), epsilon, conversion) > delta


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS + EXTREME)
def test_mu_round_trip(epsilon, delta):
    mu = mu_from_epsilon(epsilon, delta)
    assert mu > 0.0
    assert epsilon_from_mu(mu, delta) <= epsilon
    assert delta_from_mu(mu, epsilon) <= delta
    assert epsilon_from_mu(mu * (1 + 1e-9), delta) > epsilon
    assert delta_from_mu(mu * (1 + 1e-9), epsilon) > delta


@quick
@given(epsilon=wide_epsilons, delta=wide_deltas, conversion=conversion_names)
def test_safe_side_everywhere(epsilon, delta, conversion):
    rho = rho_from_epsilon(epsilon, delta, conversion)
    assert epsilon_from_rho(rho, delta, conversion) <= epsilon
    assert delta_from_rho(rho, epsilon, conversion) <= delta
    spent = epsilon_from_rho(epsilon, delta, conversion)  # any positive number is a ρ
    assert delta_from_rho(epsilon, spent, conversion) <= delta
    mu = mu_from_epsilon(epsilon, delta)
    assert epsilon_from_mu(mu, delta) <= epsilon
    assert exact_delta_from_mu(mu, epsilon) <= delta
    assert delta_from_mu(epsilon, epsilon_from_mu(epsilon, delta)) <= delta


@quick
@given(rho=wide_epsilons, epsilon=wide_epsilons, delta=wide_deltas)
def test_tight_is_never_worse_than_published(rho, epsilon, delta):
    assert epsilon_from_rho(rho, delta) <= epsilon_from_rho(rho, delta, "published")
    tight, published = delta_from_rho(rho, epsilon), delta_from_rho(rho, epsilon, "published")
    assert tight <= published * (1 + 1e-12)
    smaller = rho_from_epsilon(epsilon, delta, "published")
    assert smaller <= rho_from_epsilon(epsilon, delta) * (1 + 1e-12)


@quick
@given(mu=st.floats(-3, 2).map(lambda x: 10.0**x), delta=deltas)
def test_gdp_is_never_worse_than_its_zcdp(mu, delta):
    assert epsilon_from_mu(mu, delta) <= epsilon_from_rho(rho_from_mu(mu), delta)


def test_the_three_conversions_differ():
    """At (1, 1e-6) the noise standard deviation needed shrinks from one to the next."""
    published = math.sqrt(2 * rho_from_epsilon(1.0, 1e-6, "published"))
    tight = math.sqrt(2 * rho_from_epsilon(1.0, 1e-6))
    exact = mu_from_epsilon(1.0, 1e-6)
    assert 1.03 * published < tight < exact / 1.03


# --- monotonicity -------------------------------------------------------------------------------


@quick
@given(
    rho=epsilons,
    epsilon=epsilons,
    delta=deltas,
    factor=st.floats(1.0 + 1e-9, 10.0),
    conversion=conversion_names,
)
def test_zcdp_conversions_are_monotone(rho, epsilon, delta, factor, conversion):
    more_delta = min(0.5, factor * delta)
    slack = 1 + 1e-12
    assert delta_from_rho(rho, epsilon, conversion) <= slack * delta_from_rho(
        factor * rho, epsilon, conversion
    )
    assert delta_from_rho(rho, factor * epsilon, conversion) <= slack * delta_from_rho(
        rho, epsilon, conversion
    )
    more_epsilon = epsilon_from_rho(factor * rho, delta, conversion)
    assert epsilon_from_rho(rho, delta, conversion) < more_epsilon or more_epsilon == 0.0
    assert epsilon_from_rho(rho, more_delta, conversion) <= slack * epsilon_from_rho(
        rho, delta, conversion
    )
    assert rho_from_epsilon(epsilon, delta, conversion) < rho_from_epsilon(
        factor * epsilon, delta, conversion
    )
    assert rho_from_epsilon(epsilon, delta, conversion) <= slack * rho_from_epsilon(
        epsilon, more_delta, conversion
    )


@quick
@given(mu=epsilons, epsilon=epsilons, delta=deltas, factor=st.floats(1.0 + 1e-9, 10.0))
def test_gdp_conversions_are_monotone(mu, epsilon, delta, factor):
    more_delta = min(0.5, factor * delta)
    slack = 1 + 1e-12
    assert delta_from_mu(mu, epsilon) <= slack * delta_from_mu(factor * mu, epsilon)
    assert delta_from_mu(mu, factor * epsilon) <= slack * delta_from_mu(mu, epsilon)
    assert epsilon_from_mu(mu, delta) <= epsilon_from_mu(factor * mu, delta)
    assert epsilon_from_mu(mu, more_delta) <= slack * epsilon_from_mu(mu, delta)
    assert mu_from_epsilon(epsilon, delta) < mu_from_epsilon(factor * epsilon, delta)
    assert mu_from_epsilon(epsilon, delta) <= slack * mu_from_epsilon(epsilon, more_delta)


# --- mechanisms ---------------------------------------------------------------------------------


def probit_of_sigmoid(x):
    """Φ⁻¹(1/(1 + e^−x)), with 80 digits."""
    x = mpmath.mpf(x)
    if x < 0:
        return -probit_of_sigmoid(-x)
    tail = 1 / (1 + mpmath.exp(x))
    guess = mpmath.mpf(-ndtri_exp(float(mpmath.log(tail))))
    for _ in range(4):  # Newton on ln Φ(−z) = ln tail: 1e-12 → 1e-24 → 1e-48 → 1e-96
        upper = mpmath.erfc(guess / mpmath.sqrt(2)) / 2
        guess += mpmath.log(upper / tail) * upper / mpmath.npdf(guess)
    return guess


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 0.1, 0.999, 1.0, 2.0, 5.0, 50.0, 1e3, 1e6])
def test_mu_of_a_mechanism_is_its_formula_rounded_up(epsilon):
    assert 0 <= relative(mu_from_pure(epsilon), 2 * probit_of_sigmoid(epsilon)) < 1e-14
    exact = 2 * probit_of_sigmoid(mpmath.mpf(epsilon) / 2)
    assert 0 <= relative(mu_from_bounded_range(epsilon), exact) < 1e-14


@pytest.mark.parametrize("value", [0.0, 1e-200, 1e-3, 1 / 3, 1.0, 2.0, 7.7, 1e6])
def test_rho_of_a_mechanism_is_its_formula_rounded_up(value):
    exact = mpmath.mpf(value)
    for function, reference in [
        (rho_from_mu, exact**2 / 2),
        (rho_from_bounded_range, exact**2 / 8),
        (rho_from_pure, exact * mpmath.tanh(exact / 2)),
    ]:
        assert reference <= function(value) <= reference * (1 + 2e-15) + mpmath.mpf("5e-324")
    assert rho_from_mu(1.0) == 0.5  # not a bit above where floats are exact
    assert rho_from_bounded_range(1.0) == 0.125
    assert rho_from_pure(value) <= rho_from_mu(value)


@pytest.mark.parametrize("mu", [1e-12, 1e-6, 0.01, 0.7, 1.999999, 2.0, 5.0, 8.0, 40.0, 1000.0])
def test_the_largest_bounded_range_for_a_mu(mu):
    epsilon = bounded_range_from_mu(mu)
    assert mu_from_bounded_range(epsilon) <= mu
    assert mu_from_bounded_range(epsilon * (1 + 1e-11)) > mu
    assert bounded_range_from_mu(0.0) == 0.0


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 3.0, 8.0, 20.0])
def test_symmetric_interval_is_the_worst_bounded_range_pair(epsilon):
    """Sweep t: probit(σ(x + ε)) − probit(σ(x)) is largest at x = −ε/2, where it is μ."""
    mu = mu_from_bounded_range(epsilon)
    shifts = np.linspace(-40, 40, 161)

    def difference(x):
        return probit_of_sigmoid(x + epsilon) - probit_of_sigmoid(x)

    with mpmath.workdps(40):
        values = [difference(-epsilon / 2 + s) for s in shifts]
        assert max(values) <= mu
        assert relative(mu, values[80]) < 1e-14
        assert all(a < b for a, b in itertools.pairwise(values[:81]))
        assert all(a > b for a, b in itertools.pairwise(values[80:]))


def profile(p, q, epsilon):
    """δ(ε) of the pair (P, Q): the hockey-stick divergence."""
    return float(np.maximum(p - np.exp(epsilon) * q, 0.0).sum())


def two_point_pair(low, high):
    """The pair on two outcomes whose log-likelihood ratios are exactly ``low`` and ``high``."""
    q = -math.expm1(low) / (math.exp(high) - math.exp(low))
    q = np.array([q, 1.0 - q])
    return q * np.exp([high, low]), q


@pytest.mark.parametrize("range_", [0.1, 1.0, 4.0])
def test_bounded_range_pairs_are_dominated_by_the_gaussian_and_by_zcdp(range_):
    """All two-point pairs, and pairs of exponential mechanisms, in both directions."""
    rng = np.random.default_rng(7)
    mu, rho = mu_from_bounded_range(range_), rho_from_bounded_range(range_)
    pairs = [two_point_pair(-range_ * f, range_ * (1 - f)) for f in np.linspace(0.01, 0.99, 25)]
    for _ in range(25):
        scores = rng.normal(size=6)
        p = np.exp(scores + range_ * rng.choice([0.0, 1.0, 0.5], size=6))
        pairs.append((p / p.sum(), np.exp(scores) / np.exp(scores).sum()))
    grid = np.linspace(0.0, range_, 41)
    bound = np.array([delta_from_mu(mu, e) for e in grid])
    closest = 0.0
    for p, q in pairs:
        for first, second in ((p, q), (q, p)):
            values = np.array([profile(first, second, e) for e in grid])
            assert np.all(values <= bound + 1e-15)
            closest = max(closest, float((values / bound).max()))
            for alpha in (1.0001, 1.5, 2.0, 8.0, 64.0):
                moment = np.sum(second * (first / second) ** alpha)
                assert math.log(moment) / (alpha - 1) <= alpha * rho + 1e-10
    assert closest > 0.98  # the worst pair nearly touches, so a smaller μ would not do


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 12.0])
def test_randomised_response_is_dominated_and_attained(epsilon):
    p = np.array([expit(epsilon), expit(-epsilon)])
    mu, rho = mu_from_pure(epsilon), rho_from_pure(epsilon)
    for e in np.linspace(0.0, epsilon, 60):
        assert profile(p, p[::-1], e) <= delta_from_mu(mu, e) + 1e-15
    # the corner (α, f(α)) = (q, q): a smaller μ would put the Gaussian curve above it
    assert log_ndtr(-mu * (1 - 1e-9) / 2) > math.log(p[1]) > log_ndtr(-mu * (1 + 1e-9) / 2)
    exact = mpmath.mpf(epsilon)
    for alpha in 1 + np.logspace(-8, 4, 80):
        order = mpmath.mpf(alpha)
        moment = mpmath.cosh((2 * order - 1) * exact / 2) / mpmath.cosh(exact / 2)
        divergence = mpmath.log(moment) / (order - 1)
        assert divergence <= order * rho
        if alpha < 1 + 2e-8:
            assert divergence > order * rho * (1 - 1e-6)


def test_pure_dp_is_not_bounded_range():
    """Randomised response breaks both bounded-range formulas at the same ε."""
    p = np.array([expit(1.0), expit(-1.0)])
    assert profile(p, p[::-1], 0.0) > delta_from_mu(mu_from_bounded_range(1.0), 0.0)
    assert np.sum(p * np.log(p / p[::-1])) > rho_from_bounded_range(1.0)


# --- behaviour ----------------------------------------------------------------------------------

ALL = [
    (delta_from_rho, 2),
    (epsilon_from_rho, 2),
    (rho_from_epsilon, 2),
    (delta_from_mu, 2),
    (epsilon_from_mu, 2),
    (mu_from_epsilon, 2),
    (rho_from_mu, 1),
    (rho_from_pure, 1),
    (rho_from_bounded_range, 1),
    (mu_from_pure, 1),
    (mu_from_bounded_range, 1),
]


def best_time(function, arguments):
    """Least of three runs, so that a busy machine does not fail the test."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        function(*arguments)
        times.append(time.perf_counter() - start)
    return min(times)


@pytest.mark.parametrize(("function", "arity"), ALL)
def test_each_conversion_is_fast_and_finite_on_extreme_values(function, arity):
    sizes = [1e-6, 1e-3, 1.0, 50.0, 1e6]
    small = sizes if function in (delta_from_rho, delta_from_mu) else [1e-300, 1e-15, 0.1, 0.999]
    for arguments in itertools.product(sizes, small) if arity == 2 else zip(sizes, strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            value = function(*arguments)
        assert type(value) is float
        assert math.isfinite(value)
        assert value >= 0.0
        assert best_time(function, arguments) < 0.05


@pytest.mark.parametrize(("function", "arity"), ALL)
@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, -math.inf, 1e101])
def test_first_argument_is_checked(function, arity, bad):
    with pytest.raises(ValueError, match=r"must be .* (<=|and) 1e\+100; got .*\. Give") as error:
        function(*(bad, 0.5)[:arity])
    assert repr(bad) in str(error.value)


@pytest.mark.parametrize(
    "function", [epsilon_from_rho, rho_from_epsilon, epsilon_from_mu, mu_from_epsilon]
)
@pytest.mark.parametrize("bad", [0.0, 1.0, -1e-6, 2.0, math.nan, math.inf])
def test_delta_is_checked(function, bad):
    with pytest.raises(ValueError, match=r"> 0 and < 1; got .*\. Give a small") as error:
        function(1.0, bad)
    assert repr(bad) in str(error.value)


@pytest.mark.parametrize("function", [delta_from_rho, delta_from_mu])
@pytest.mark.parametrize("bad", [-1e-6, math.nan, math.inf])
def test_epsilon_of_a_delta_is_checked(function, bad):
    with pytest.raises(ValueError, match=r"epsilon must be .* between 0 .* Give the epsilon"):
        function(1.0, bad)


@pytest.mark.parametrize("function", [rho_from_epsilon, mu_from_epsilon])
def test_budget_epsilon_must_be_positive(function):
    with pytest.raises(ValueError, match=r"epsilon must be .* > 0 .*; got 0\.0"):
        function(0.0, 1e-6)


@pytest.mark.parametrize("function", [delta_from_rho, epsilon_from_rho, rho_from_epsilon])
def test_conversion_is_checked(function):
    with pytest.raises(ValueError, match=r"must be 'tight' or 'published'; got 'renyi'\. Use"):
        function(1.0, 0.5, "renyi")


def test_no_cost_is_no_loss():
    assert delta_from_rho(0.0, 1.0) == delta_from_mu(0.0, 1.0) == 0.0
    assert epsilon_from_rho(0.0, 1e-6) == epsilon_from_mu(0.0, 1e-6) == 0.0
    assert rho_from_mu(0.0) == rho_from_pure(0.0) == rho_from_bounded_range(0.0) == 0.0
    assert mu_from_pure(0.0) == mu_from_bounded_range(0.0) == 0.0


def test_a_positive_cost_never_rounds_to_delta_zero():
    assert delta_from_rho(1e-6, 1e6) > 0.0
    assert delta_from_rho(1e-6, 1e6, "published") > 0.0
    assert delta_from_mu(1e-6, 1e6) > 0.0


def test_numpy_scalars_are_accepted():
    value = epsilon_from_rho(np.float64(0.5), np.float64(1e-6))
    assert type(value) is float
    assert value == epsilon_from_rho(0.5, 1e-6)
    assert type(rho_from_mu(np.float32(0.5))) is float
    assert type(mu_from_pure(1)) is float


def test_gaussian_delta_at_sizes_where_a_difference_loses_all_digits():
    mu, epsilon = 6.625114485743479e17, 2.1946070974604044e35
    assert delta_from_mu(mu, epsilon) >= exact_delta_from_mu(mu, epsilon)
