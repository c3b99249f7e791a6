"""Sampled Gaussian steps: against closed forms, an independent accountant and brute force."""

import math
import time

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.special import ndtr

from discreet.accounting.calibration import noise_multiplier_for
from discreet.accounting.conversions import epsilon_from_mu, mu_from_epsilon
from discreet.accounting.subsampling import SampledGaussian
from discreet.accounting.subsampling.dominating_pairs import pairs_of
from discreet.accounting.subsampling.fourier import (
    LossDistribution,
    _transform,
    _upper_share,
    compose,
    discretise,
)
from discreet.accounting.subsampling.sampled_gaussian import _epsilon
from discreet.core import Budget, Relation
from discreet.errors import NotSupported

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE


def independent_epsilon(step, count, delta, interval):
    import dp_accounting
    from dp_accounting import pld

    relation = (
        dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
        if step.relation is ADD
        else dp_accounting.NeighboringRelation.REPLACE_ONE
    )
    accountant = pld.PLDAccountant(relation, value_discretization_interval=interval)
    accountant.compose(step.event(), count)
    return accountant.get_epsilon(delta)


def hockey_stick(first, second, alpha, sigma):
    """H_α between mixtures of N(mean, σ²I) on a plane, by a fine grid."""
    side = np.linspace(-8 * sigma - 1, 8 * sigma + 1, 801)
    x, y = np.meshgrid(side, side)

    def density(mixture):
        return sum(
            w * np.exp(-((x - m[0]) ** 2 + (y - m[1]) ** 2) / (2 * sigma**2)) for w, m in mixture
        )

    cell = (side[1] - side[0]) ** 2 / (2 * math.pi * sigma**2)
    return float(np.maximum(0.0, density(first) - alpha * density(second)).sum() * cell)


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize(
    ("sigma", "rate", "count", "delta"),
    [
        (1.0, 0.01, 1000, 1e-5),
        (5.0, 0.3, 200, 1e-9),
        (1.0, 0.1, 1, 1e-5),
        pytest.param(0.7, 0.001, 1000, 1e-6, marks=pytest.mark.slow),
        pytest.param(1.0, 0.5, 10, 1e-5, marks=pytest.mark.slow),
        pytest.param(0.5, 0.001, 100, 1e-6, marks=pytest.mark.slow),
    ],
)
def test_an_independent_accountant_agrees(relation, sigma, rate, count, delta):
    step = SampledGaussian(sigma, rate, relation)
    theirs = independent_epsilon(step, count, delta, 2e-4)  # an upper bound, and close
    ours = step.epsilon(count, delta)
    assert theirs * (1 - 1e-3) < ours < theirs * (1 + 1e-3)
    assert ours <= step.epsilon(count, delta, "rdp")


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize("count", [1, 7, 1000])
def test_without_sampling_it_is_exactly_gaussian(relation, count):
    for sigma in (0.3, 1.0, 40.0):
        step = SampledGaussian(sigma, 1.0, relation)
        exact = epsilon_from_mu(relation.rows_changed * math.sqrt(count) / sigma, 1e-6)
        assert exact <= step.epsilon(count, 1e-6) <= exact * (1 + 1e-9)


def test_under_replace_the_sensitivity_is_two_clips():
    # One Gaussian, σ = 1, δ = 1e-5: a sum of rows clipped to 1 moves by up to 2, so μ = 2.
    assert SampledGaussian(1.0, 1.0, REPLACE).epsilon(1, 1e-5) == pytest.approx(10.00, abs=0.005)
    nearly = SampledGaussian(1.0, 0.9999999, REPLACE)
    assert nearly.epsilon(1, 1e-5) == pytest.approx(epsilon_from_mu(2.0, 1e-5), rel=1e-4)
    assert nearly.epsilon(3, 1e-5) == pytest.approx(
        epsilon_from_mu(2 * math.sqrt(3), 1e-5), rel=1e-3
    )


def test_moments_agree_with_an_independent_accountant_under_add_remove():
    from dp_accounting import rdp

    for sigma, rate, count, delta in [(1.0, 0.01, 1000, 1e-5), (3.0, 0.2, 50, 1e-7)]:
        step = SampledGaussian(sigma, rate, ADD)
        accountant = rdp.RdpAccountant(orders=np.arange(1.1, 60, 0.1))
        accountant.compose(step.event(), count)
        theirs = accountant.get_epsilon(delta)
        assert step.epsilon(count, delta, "rdp") == pytest.approx(theirs, rel=2e-3)


def test_moments_under_replace_agree_with_closed_form_without_sampling():
    from discreet.accounting.subsampling.dominating_pairs import log_moment

    # Nearly unsampled: Rényi divergence of N(1) and N(−1) is α·2/σ²; times θ = α − 1.
    pair = pairs_of(1.5, 1 - 2.0**-53, REPLACE, "poisson")[0]
    for theta in (0.5, 3.0, 20.0):
        exact = theta * (theta + 1) * 2 / 1.5**2
        assert log_moment(pair, theta) == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("alpha", [1.0, 1.02, 1.3, 3.0])
def test_no_direction_is_worse_than_the_replace_pair(alpha):
    sigma, rate = 0.8, 0.2
    bound = pairs_of(sigma, rate, REPLACE, "poisson")[0].delta(math.log(alpha))
    opposite = hockey_stick(
        [(1 - rate, (0, 0)), (rate, (1, 0))], [(1 - rate, (0, 0)), (rate, (-1, 0))], alpha, sigma
    )
    assert opposite == pytest.approx(bound, rel=1e-4, abs=1e-9)
    rng = np.random.default_rng(0)
    for _ in range(12):
        u, v = rng.normal(size=(2, 2))
        u, v = (w / np.linalg.norm(w) * min(1, rng.uniform(0.3, 1.5)) for w in (u, v))
        value = hockey_stick(
            [(1 - rate, (0, 0)), (rate, u)], [(1 - rate, (0, 0)), (rate, v)], alpha, sigma
        )
        assert value <= bound * (1 + 1e-4) + 1e-9


@pytest.mark.parametrize("alpha", [0.7, 1.0, 1.05, 1.5])
def test_no_row_is_worse_than_the_one_row_bound(alpha):
    sigma, rate = 0.9, 0.25  # four rows, one of them sampled
    pair = pairs_of(sigma, rate, REPLACE, "one_row")[0]
    log = abs(math.log(alpha))
    bound = pair.delta(log) if alpha >= 1 else 1 - alpha + alpha * pair.delta(log)
    rng = np.random.default_rng(1)
    for trial in range(10):
        rows = rng.normal(size=(5, 2))
        rows /= np.maximum(1, np.linalg.norm(rows, axis=1))[:, None]
        if trial == 0:
            rows[:] = (-1, 0)
            rows[3] = (1, 0)
        others = [(rate, row) for row in rows[:3]]
        value = hockey_stick([*others, (rate, rows[3])], [*others, (rate, rows[4])], alpha, sigma)
        assert value <= bound * (1 + 1e-4) + 1e-9


@pytest.mark.parametrize("epsilon", [0.1, 0.3])
def test_two_steps_on_one_row_by_a_double_sum(epsilon):
    """The loss of a step on one row is its own mirror image: P's mass at -l is Q's at l."""
    sigma, rate = 2.0, 0.1
    x, spacing = np.linspace(-8, 9, 6001, retstep=True)  # means 1 apart at half of sigma
    density = np.exp(-2 * (x / sigma) ** 2) / (sigma / 2 * math.sqrt(2 * math.pi))
    ratio = 1 + rate * np.expm1(2 * (2 * x - 1) / sigma**2)
    above = ratio > 1
    losses, below = np.log(ratio[above]), spacing * density[above]
    masses = below * ratio[above]
    losses = np.concatenate([-losses, [0.0], losses])
    masses = np.concatenate([below, [1 - below.sum() - masses.sum()], masses])
    excess = np.maximum(0.0, -np.expm1(epsilon - np.add.outer(losses, losses)))
    found = SampledGaussian(sigma, rate, REPLACE, "one_row").epsilon(2, masses @ excess @ masses)
    assert found == pytest.approx(epsilon, rel=2e-3)


@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.4])
def test_one_step_by_closed_form(epsilon):
    # Remove: q·H_α(N(1) ‖ N(0)) with α = 1 + (e^ε − 1)/q.
    sigma, rate = 1.3, 0.1
    alpha = 1 + math.expm1(epsilon) / rate
    cut = 0.5 + sigma**2 * math.log(alpha)
    exact = rate * (ndtr((1 - cut) / sigma) - alpha * ndtr(-cut / sigma))
    removed = pairs_of(sigma, rate, ADD, "poisson")[0]
    assert removed.delta(epsilon) == pytest.approx(exact, rel=1e-9)
    if epsilon:
        found = SampledGaussian(sigma, rate, ADD).epsilon(1, exact)
        assert found == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize(
    ("relation", "sampling"), [(ADD, "poisson"), (REPLACE, "poisson"), (REPLACE, "one_row")]
)
def test_two_steps_by_brute_force(relation, sampling):
    sigma, rate, delta = 1.1, 0.2, 1e-4
    worst = 0.0
    for pair in pairs_of(sigma, rate, relation, sampling):
        losses, logs = pair.sampled_losses(-9 * sigma, 9 * sigma + 1, 1201)
        masses = np.exp(logs)
        both, weight = losses[:, None] + losses, masses[:, None] * masses

        def value(epsilon, both=both, weight=weight):
            return float((weight * np.maximum(0, -np.expm1(np.minimum(0, epsilon - both)))).sum())

        low, high = 0.0, 20.0
        for _ in range(14):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if value(middle) > delta else (low, middle)
        worst = max(worst, high)
    found = SampledGaussian(sigma, rate, relation, sampling).epsilon(2, delta)
    assert worst * 0.998 < found < worst * 1.01


def exact_delta(step, epsilon):
    """δ of one step at a large ε in 120 digits, over the dominating pairs."""
    with mp.workdps(120):
        q, loss = mpf(step.rate), mpf(epsilon)
        sigma = mpf(step.noise_multiplier) / (2 if step.sampling == "one_row" else 1)
        first = [(1 - q, 0), (q, 1)]
        second = [(mpf(1), 0)]
        x = mpf(1) / 2 + sigma**2 * mp.log((mp.exp(loss) - 1 + q) / q)
        if step.sampling == "poisson" and step.relation is REPLACE:
            second = [(1 - q, 0), (q, -1)]
            factor = (1 - q) / q * mp.exp(1 / (2 * sigma**2))
            x = sigma**2 * (loss / 2 + mp.asinh(factor * mp.sinh(loss / 2)))

        def above(mixture):
            return sum(w * mp.erfc((x - m) / sigma / mp.sqrt(2)) / 2 for w, m in mixture)

        return above(first) - mp.exp(loss) * above(second)


@pytest.mark.parametrize("relation_and_sampling", [(ADD, "poisson"), (REPLACE, "one_row")])
@pytest.mark.parametrize("epsilon", [600.0, 704.0, 712.0, 750.0, 1200.0, 2000.0])
@pytest.mark.parametrize("rate", [1 / 3, 0.01])
def test_one_step_at_a_very_large_epsilon(relation_and_sampling, epsilon, rate):
    relation, sampling = relation_and_sampling
    for delta in (1e-6, 0.5 * rate):
        multiplier = noise_multiplier_for(Budget(epsilon, delta, relation), rate, 1, sampling)
        step = SampledGaussian(multiplier, rate, relation, sampling)
        assert exact_delta(step, epsilon) <= delta
        assert exact_delta(step, step.epsilon(1, delta)) <= delta


@pytest.mark.parametrize(
    "step",
    [
        SampledGaussian(0.0478, 1 / 3, REPLACE, "one_row"),  # once claimed ε = 709 at δ = 0.03
        SampledGaussian(0.0661, 1e-6, REPLACE, "one_row"),
        SampledGaussian(0.0801, 1 / 3, REPLACE, "one_row"),
        SampledGaussian(0.041, 0.5, ADD),
        SampledGaussian(0.041, 1e-6, ADD),
        SampledGaussian(0.041, 0.5, REPLACE),
        SampledGaussian(0.05, 1e-6, REPLACE),
    ],
)
def test_one_step_with_hardly_any_noise(step):
    for delta in (0.9 * step.rate, 0.03 * step.rate, 1e-9, 1e-40, 1e-70, 1e-80):
        assert exact_delta(step, step.epsilon(1, delta)) <= delta


def test_pairs_with_hardly_any_noise_are_accounted_without_sampling():
    for sigma, sampling in [(0.0399, "poisson"), (0.0799, "one_row")]:
        step = SampledGaussian(sigma, 0.01, REPLACE, sampling)
        assert step.epsilon(1, 1e-6) == pytest.approx(epsilon_from_mu(2 / sigma, 1e-6), rel=1e-9)
    step = SampledGaussian(0.0801, 0.01, REPLACE, "one_row")
    assert step.epsilon(1, 1e-6) < 0.99 * epsilon_from_mu(2 / 0.0801, 1e-6)


@pytest.mark.filterwarnings("error")
def test_nothing_is_claimed_where_a_sum_overflows():
    # One loss of 0 and a mass of 1e-250: e^(2·400) overflows at ε = −400.
    step = LossDistribution(1.0, 0, np.array([1e-250]), np.zeros(1), 0.0)
    profile = _transform(step, 1, 1.0, -600, 1024, 0.0)
    assert np.all(profile.deltas[profile.epsilons < -400] == 1.0)
    assert profile.deltas[-1] < 1e-240


def composed_delta(step, count, epsilon):
    """δ at ε of ``count`` losses on a grid, by multiplying all masses out in 60 digits."""
    with mp.workdps(60):
        masses, total = [mpf(float(mass)) for mass in step.masses], [mpf(1)]
        for _ in range(count):
            longer = [mpf(0)] * (len(total) + len(masses) - 1)
            for i, one in enumerate(total):
                for j, other in enumerate(masses):
                    longer[i + j] += one * other
            total = longer
        delta = 1 - (1 - mpf(step.infinite)) ** count
        for place, mass in enumerate(total, count * step.start):
            loss = mpf(step.interval) * place
            if loss > epsilon:
                delta += mass * (1 - mp.exp(mpf(epsilon) - loss))
        return delta


@pytest.mark.parametrize("infinite", [0.0, 2.0**-20])
@pytest.mark.parametrize("count", [1, 2, 6])
@pytest.mark.parametrize("theta", [0.5, 2.0])
def test_composed_losses_are_never_below_the_exact_sum(count, theta, infinite):
    """Whatever the window: mass above it, and infinite losses of every step, must be counted."""
    masses = np.array([0.25, 0.5, 0.125, 0.125 - infinite])
    step = LossDistribution(0.25, -1, masses, np.zeros(4), infinite)
    for first, size in [(-8, 32), (-4, 16), (-1, 8)]:  # the last one ends below the largest sum
        profile = _transform(step, count, theta, first, size, 0.5)
        exact = [composed_delta(step, count, float(epsilon)) for epsilon in profile.epsilons]
        assert all(ours >= theirs for ours, theirs in zip(profile.deltas, exact, strict=True))
    # and in a wide window hardly above it, where ε is positive
    profile = _transform(step, count, theta, -8, 64, 0.5)
    for epsilon, ours in zip(profile.epsilons, profile.deltas, strict=True):
        if 0 <= epsilon < 2:
            exact = float(composed_delta(step, count, float(epsilon)))
            assert ours <= exact * (1 + 1e-9) + count**2 * infinite**2 + 1e-9


def least_delta(pair, epsilon):
    """δ of one step at ε for the set of outputs above some point: no more than the exact δ."""
    with mp.workdps(40):
        x, sigma = mpf(float(pair.position(np.array([epsilon]))[0])), mpf(pair.sigma)

        def above(mixture):
            return sum(mpf(w) * mp.erfc((x - m) / sigma / mp.sqrt(2)) / 2 for w, m in mixture)

        return above(pair.first) - mp.exp(mpf(epsilon)) * above(pair.second)


@pytest.mark.parametrize("interval", [0.5, 0.01])
@pytest.mark.parametrize(
    ("relation", "sampling"), [(ADD, "poisson"), (REPLACE, "poisson"), (REPLACE, "one_row")]
)
def test_a_step_on_a_grid_is_never_below_the_step(relation, sampling, interval):
    """At every point of the grid the δ of the discrete loss is that of the step, rounded up."""
    for pair in pairs_of(1.0, 0.25, relation, sampling):
        step = discretise(pair, interval, -1.5, 4.0)
        with mp.workdps(40):
            masses = [mpf(float(mass)) for mass in step.masses + step.errors]
            losses = [mpf(interval) * (step.start + k) for k in range(len(masses))]
            assert sum(masses) + mpf(step.infinite) >= 1  # no mass is lost
            for point in range(0, round(3 / interval), max(1, round(0.2 / interval))):
                epsilon = interval * point
                exact = least_delta(pair, epsilon)
                ours = mpf(step.infinite) + sum(
                    mass * (1 - mp.exp(mpf(epsilon) - loss))
                    for mass, loss in zip(masses, losses, strict=True)
                    if loss > epsilon
                )
                assert exact <= ours <= exact * (1 + mpf("1e-9")) + step.infinite


def test_the_share_of_a_cell_that_goes_up_is_never_too_small():
    """For all masses within their errors; where nothing is known of a ratio, all of it goes up."""
    p, q, error = np.array([0.3, 1e-200, 1e-3]), np.array([0.28, 0.9e-200, 0.9e-3]), 1e-9
    shares = _upper_share(p, q, error * p, error * q, np.zeros(3), 0.25)
    for share, mass, other in zip(shares, p, q, strict=True):
        ratio = mpf(other) * (1 - mpf(error)) / (mpf(mass) * (1 + mpf(error)))
        least = (1 - ratio) / (1 - mp.exp(mpf(-0.25)))
        assert least <= share <= least + 1e-7
    none = np.zeros(1)
    assert _upper_share(np.array([1e-10]), none, none, none, np.array([720.0]), 0.25) == [1.0]


def test_positions_of_large_losses():
    """Where the loss is computed from logarithms it is still the inverse of the position."""
    losses = np.array([599.0, 601.0, 650.0, 705.0, 720.0, 1500.0, 5000.0])
    for relation in (ADD, REPLACE):
        pair = pairs_of(0.05, 0.25, relation, "poisson")[0]
        assert pair.loss(pair.position(losses)) == pytest.approx(losses, rel=1e-12)
        assert np.all(np.diff(pair.position(losses)) > 0)


@pytest.mark.parametrize(("relation", "count"), [(ADD, 30), (REPLACE, 3000)])
@pytest.mark.filterwarnings("error")
def test_composition_at_a_tiny_delta_is_quiet_and_below_moments(relation, count):
    step = SampledGaussian(1.0, 0.001, relation)
    assert step.epsilon(count, 1e-60) <= step.epsilon(count, 1e-60, "rdp") * (1 + 1e-9)
    assert step.epsilon(count, 1e-60) > step.epsilon(count, 1e-30)


def test_composition_by_simulation():
    # 5·10^5 composed losses under P; the estimate of δ is a mean of numbers in [0, 1], so by
    # Bernstein it is off by more than 5.5 standard errors with probability below 1e-6.
    sigma, rate, count, epsilon = 1.0, 0.1, 20, 1.0
    rng = np.random.default_rng(3)
    pair = pairs_of(sigma, rate, ADD, "poisson")[0]
    total = np.zeros(500_000)
    for _ in range(count):
        x = sigma * rng.normal(size=total.size) + (rng.random(total.size) < rate)
        total += np.log1p(rate * np.expm1((2 * x - 1) / (2 * sigma**2)))
    values = np.maximum(0.0, -np.expm1(np.minimum(0.0, epsilon - total)))
    error = 5.5 * values.std() / math.sqrt(total.size)
    least, most = values.mean() - error, values.mean() + error
    step = SampledGaussian(sigma, rate, ADD)
    assert step.epsilon(count, most * 1.002) < epsilon < step.epsilon(count, least)
    assert compose(pair, count, most).epsilon(most) <= epsilon * 1.001


def test_small_budgets_where_fixed_orders_and_grids_fail():
    budget = Budget(0.01, 1e-8, ADD)
    tight = noise_multiplier_for(budget, 0.01, 1000)
    assert 125 < tight < 140
    # In this regime a step is nearly Gaussian with μ = q/σ; steps then add up to q·√T/σ.
    limit = 0.01 * math.sqrt(1000) / mu_from_epsilon(0.01, 1e-8)
    assert limit < tight < 1.002 * limit
    moments = noise_multiplier_for(budget, 0.01, 1000, method="rdp")
    assert tight < moments < 142
    # The independent accountant, on a grid fine enough for this target, agrees.
    theirs = independent_epsilon(SampledGaussian(tight, 0.01, ADD), 1000, 1e-8, 2e-6)
    assert theirs == pytest.approx(0.01, rel=2e-2)


CASES = [
    (Budget(0.001, 1e-12, ADD), 1 / 40000, 10**6, "poisson"),
    (Budget(0.1, 1e-6, REPLACE), 1 / 40000, 10**6, "one_row"),
    (Budget(1.0, 1e-6, REPLACE), 1e-3, 10**6, "one_row"),
    (Budget(10.0, 1e-5, ADD), 0.01, 1000, "poisson"),
    (Budget(1.0, 1e-5, REPLACE), 0.1, 500, "poisson"),
    (Budget(0.5, 1e-8, ADD), 0.9, 10, "poisson"),
    (Budget(1e6, 1e-6, ADD), 0.01, 100, "poisson"),
    (Budget(3.0, 1e-5, ADD), 1e-4, 1, "poisson"),
]


@pytest.mark.parametrize(("budget", "rate", "count", "sampling"), CASES)
def test_calibration_is_safe_sharp_and_quick(budget, rate, count, sampling):
    start = time.process_time()
    multiplier = noise_multiplier_for(budget, rate, count, sampling)
    assert time.process_time() - start < 2.0
    step = SampledGaussian(multiplier, rate, budget.relation, sampling)
    assert step.epsilon(count, budget.delta) <= budget.epsilon
    if count > 1:
        less = SampledGaussian(multiplier * 0.995, rate, budget.relation, sampling)
        assert less.epsilon(count, budget.delta) > budget.epsilon


def test_calibration_is_remembered():
    budget = Budget(0.77, 1e-7, ADD)
    first = noise_multiplier_for(budget, 0.02, 300)
    before = _epsilon.cache_info().misses
    assert noise_multiplier_for(budget, 0.02, 300) == first
    SampledGaussian(first, 0.02, ADD).epsilon(300, 1e-7)  # the account's check costs nothing
    assert _epsilon.cache_info().misses == before


@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_monotone(relation):
    def epsilon(sigma=1.0, rate=0.02, count=200, delta=1e-6):
        return SampledGaussian(sigma, rate, relation).epsilon(count, delta)

    base = epsilon()
    assert epsilon(sigma=1.1) < base < epsilon(sigma=0.9)
    assert epsilon(rate=0.018) < base < epsilon(rate=0.022)
    assert epsilon(count=180) < base < epsilon(count=220)
    assert epsilon(delta=1e-5) < base < epsilon(delta=1e-7)
    assert base < epsilon_from_mu(relation.rows_changed * math.sqrt(200), 1e-6)


def test_replace_lies_between_one_and_two_rows():
    one = SampledGaussian(2.0, 0.01, ADD).epsilon(500, 1e-6)
    replaced = SampledGaussian(2.0, 0.01, REPLACE).epsilon(500, 1e-6)
    doubled = SampledGaussian(1.0, 0.01, ADD).epsilon(500, 1e-6)
    assert one < replaced < doubled


def test_a_plan_is_charged_as_a_whole():
    from discreet.core import Account

    budget = Budget(1.0, 1e-6, ADD)
    step = SampledGaussian(noise_multiplier_for(budget, 0.02, 50), 0.02, ADD)
    filter_ = Account(budget).open_plan(step, 50)
    filter_.charge(step)
    assert filter_.spent_share == pytest.approx(0.02)
    assert step.loss.mu == pytest.approx(1 / step.noise_multiplier)
    assert step.loss.rho == pytest.approx(step.loss.mu**2 / 2)


def test_what_is_refused():
    with pytest.raises(ValueError, match="noise_multiplier"):
        SampledGaussian(0.0, 0.1, ADD)
    with pytest.raises(ValueError, match="rate"):
        SampledGaussian(1.0, 0.0, ADD)
    with pytest.raises(ValueError, match="sampling"):
        SampledGaussian(1.0, 0.1, ADD, "fixed")
    with pytest.raises(NotSupported, match="replace_one"):
        SampledGaussian(1.0, 0.1, ADD, "one_row")
    with pytest.raises(NotSupported, match="rdp"):
        SampledGaussian(1.0, 0.1, REPLACE, "one_row").epsilon(2, 1e-5, "rdp")
    with pytest.raises(NotSupported, match="delta"):
        noise_multiplier_for(Budget(1.0, 0.0, ADD), 0.1, 10)
    step = SampledGaussian(1.0, 0.1, ADD)
    with pytest.raises(ValueError, match="count"):
        step.epsilon(0, 1e-5)
    with pytest.raises(ValueError, match="delta"):
        step.epsilon(1, 0.0)
