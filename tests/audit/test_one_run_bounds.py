"""The exact p-value of one run, against a linear programme and against the worst mechanism."""

from itertools import product
from math import comb, exp, inf

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom

from discreet.accounting.conversions import mu_from_epsilon
from discreet.audit.one_run import _right
from discreet.audit.statistics import (
    canaries_needed,
    one_run_bound,
    one_run_p_value,
    one_run_sharpness,
    planned_guesses,
)

SMALL = [
    (10, 10, 8, 0.5, 0.01),
    (20, 10, 9, 1.0, 0.001),
    (30, 30, 25, 0.3, 0.01),
    (12, 6, 3, 1.0, 0.02),
    (40, 15, 15, 2.0, 0.001),
    (10, 10, 7, 0.0, 0.05),
    (10, 5, 5, 1.0, 0.3),
    (7, 1, 1, 0.7, 0.004),
]


def largest_by_programme(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    """The same maximum over all laws of the number of right guesses, by a general solver."""
    grow, size = exp(epsilon), r + 1
    gain = np.zeros(size + 2 * r)
    gain[v:size] = -1
    rows = []
    for j in range(r):
        up, down = np.zeros(gain.size), np.zeros(gain.size)
        up[[j + 1, j, size + j]] = j + 1, -grow * (r - j), -1
        down[[j, j + 1, size + r + j]] = r - j, -grow * (j + 1), -1
        rows += [up, down]
    rows.append(np.repeat([0.0, 1.0], [size, 2 * r]))
    limits = np.zeros(2 * r + 1)
    limits[-1] = m * delta
    total = np.repeat([[1.0, 0.0]], [size, 2 * r], axis=1)
    return -linprog(gain, np.array(rows), limits, total, [1.0]).fun


@pytest.mark.parametrize(("m", "r", "v", "epsilon", "delta"), SMALL)
def test_it_is_the_maximum(m, r, v, epsilon, delta):
    found = one_run_p_value(m, r, v, epsilon=epsilon, delta=delta)
    assert found == pytest.approx(largest_by_programme(m, r, v, epsilon, delta), rel=1e-6)


@pytest.mark.parametrize(
    ("m", "r", "v", "epsilon", "delta"),
    [(4, 4, 1, 0.0, 0.05), (4, 3, 3, 1.0, 0.01), (5, 5, 4, 0.5, 0.02), (5, 2, 2, 2.0, 0.003)],
)
def test_a_mechanism_that_keeps_its_promise_attains_it(m, r, v, epsilon, delta):
    """All outputs of the worst mechanism, listed: its δ and its chance of v right guesses."""
    count = np.arange(r + 1)
    law = binom.pmf(count, r, 1 / (1 + exp(-epsilon)))
    tail = law[v:].sum()
    height = m * delta / (v * law[v])
    law = law * (1 - height * tail + height * (count >= v))
    noise = {
        z: law[z.count(1)] / (comb(m, r) * comb(r, z.count(1)))
        for z in product((-1, 0, 1), repeat=m)
        if m - z.count(0) == r
    }
    assert min(noise.values()) >= 0
    assert sum(noise.values()) == pytest.approx(1)
    for i in range(m):
        turned = {z: noise[(*z[:i], -z[i], *z[i + 1 :])] for z in noise}
        for one, other in ((noise, turned), (turned, noise)):
            excess = sum(max(one[z] - exp(epsilon) * other[z], 0) for z in noise)
            assert excess <= delta * (1 + 1e-12)
    found = one_run_p_value(m, r, v, epsilon=epsilon, delta=delta)
    assert law[v:].sum() == pytest.approx(found, rel=1e-8)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("delta", [1e-8, 1e-5, 1e-3])
def test_it_is_below_the_published_bound_in_the_tail(epsilon, delta):
    """Steinke, Nasr and Jagielski 2023: β + 2·m·δ·max_i P[v − i ≤ W < v]/i."""
    m, r = 300, 100
    law = binom.pmf(np.arange(r + 1), r, 1 / (1 + exp(-epsilon)))
    for v in range(1, r + 1):
        before = np.cumsum(law[:v][::-1]) / np.arange(1, v + 1)
        published = law[v:].sum() + 2 * m * delta * before.max()
        if published < 0.5:
            assert one_run_p_value(m, r, v, epsilon=epsilon, delta=delta) <= published


def test_without_delta_it_is_a_binomial_tail():
    right = np.arange(1, 101)
    p = one_run_p_value(500, 100, right, epsilon=1.0, delta=0.0)
    np.testing.assert_allclose(p, binom.sf(right - 1, 100, 1 / (1 + exp(-1))), rtol=1e-8)


def test_it_grows_with_the_promise_and_falls_with_right_guesses():
    epsilons = np.linspace(0, 8, 300)
    for right in (120, 170, 200):
        p = one_run_p_value(1000, 200, right, epsilon=epsilons, delta=1e-5)
        assert np.all(np.diff(p) >= -1e-15)
    p = one_run_p_value(1000, 200, np.arange(201), epsilon=1.0, delta=1e-5)
    assert p[0] == 1
    assert np.all(np.diff(p) <= 1e-15)
    deltas = one_run_p_value(1000, 200, 170, epsilon=1.0, delta=np.array([0, 1e-6, 1e-3, 0.5]))
    assert np.all(np.diff(deltas) > 0)
    assert deltas[-1] == 1


def test_far_tails_do_not_vanish():
    """One event of probability δ suffices for any number of right guesses."""
    for right, epsilon in ((100_000, 0.1), (90_000, 0.01)):
        p = float(one_run_p_value(100_000, 100_000, right, epsilon=epsilon, delta=1e-6))
        assert 1e-6 <= p < 1e-5
    low = float(one_run_p_value(100_000, 100_000, 10, epsilon=3.0, delta=1e-9))
    assert low == 1


def test_bad_counts_are_refused():
    for m, r, v in ((10, 11, 5), (10, 5, 6), (10, 5, -1)):
        with pytest.raises(ValueError, match="correct <= guesses <= canaries"):
            one_run_p_value(m, r, v, epsilon=1.0, delta=0.0)
    with pytest.raises(ValueError, match="confidence"):
        one_run_bound(10, 5, 5, delta=0.0, confidence=1.0)
    with pytest.raises(ValueError, match="delta"):
        one_run_bound(10, 5, 5, delta=1.0, confidence=0.9)


def all_bounds(m, guesses, delta, confidence):
    """The bound for each number of right guesses; one of them is checked against the function."""
    right = np.arange(guesses + 1.0)
    numbers = np.full(right.size, float(guesses))
    bounds = one_run_bound(m, numbers, right, delta=delta, confidence=confidence)
    some = 9 * guesses // 10
    assert bounds[some] == one_run_bound(m, guesses, some, delta=delta, confidence=confidence)
    return bounds


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("confidence", [0.95, 0.999])
def test_randomised_response_is_bounded_no_more_often_than_stated(epsilon, confidence):
    """The law of right guesses is known, so how often the bound is too large is, too."""
    m = 400
    law = binom(m, 1 / (1 + exp(-epsilon)))
    bounds = all_bounds(m, m, 0.0, confidence)
    assert np.all(np.diff(bounds) >= 0)
    first = int(np.argmax(bounds > epsilon))
    assert bounds[first] > epsilon
    assert law.sf(first - 1) <= 1 - confidence
    assert law.sf(first - 2) > 1 - confidence  # and no fewer right guesses would do
    assert bounds[int(law.ppf(0.5))] > 0.3 * epsilon


def test_all_or_no_guesses_right():
    assert one_run_bound(1000, 1000, 0, delta=0.0, confidence=0.999) == 0
    bound = one_run_bound(1000, 1000, 1000, delta=0.0, confidence=0.999)
    rate = 0.001 ** (1 / 1000)  # q^1000 = 0.001
    assert bound == pytest.approx(np.log(rate / (1 - rate)), rel=1e-6)
    assert one_run_bound(1000, 1000, 1000, delta=1e-3, confidence=0.999) == 0


def simulated_bounds(m, guesses, true_epsilon, delta, confidence, audits, seed):
    """Gaussian scores on orthogonal canaries, guessed as an audit would."""
    rng = np.random.default_rng(seed)
    mu = mu_from_epsilon(true_epsilon, delta)
    table = all_bounds(m, guesses, delta, confidence)
    bounds = []
    for _ in range(audits):
        coins = rng.random(m) < 0.5
        scores = rng.standard_normal(m) + mu * coins
        bounds.append(table[_right(scores, coins, guesses)])
    return np.array(bounds)


def test_gaussians_are_never_bounded_above_the_truth():
    for true_epsilon, delta in ((1.0, 1e-5), (1.0, 0.05), (6.0, 1e-5)):
        bounds = simulated_bounds(300, 60, true_epsilon, delta, 0.95, 500, seed=1)
        # 500 audits err 57 times or more with a probability below 1e-6 if each may with 0.05
        assert np.count_nonzero(bounds > true_epsilon) < 57
    assert np.median(bounds) > 0.5  # the last of them is seen


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (2.0, 1e-6)])
def test_sharpness_is_what_nine_in_ten_audits_refute(epsilon, delta):
    m = 2000
    guesses = planned_guesses(m, epsilon, delta, 0.999)
    sharp = one_run_sharpness(m, [guesses], epsilon, delta, 0.999)
    assert epsilon < sharp < 8 * epsilon
    refuted = simulated_bounds(m, guesses, sharp, delta, 0.999, 300, seed=2) > epsilon
    assert 0.82 < refuted.mean() < 0.97
    weaker = simulated_bounds(m, guesses, 0.7 * sharp, delta, 0.999, 300, seed=3) > epsilon
    assert weaker.mean() < 0.6


def test_sharpness_of_coins_and_of_promises_out_of_reach():
    sharp = one_run_sharpness(2000, [2000], 1.0, 0.0, 0.999)
    assert 1.0 < sharp < 1.4
    more = one_run_sharpness(20_000, [20_000], 1.0, 0.0, 0.999)
    assert 1.0 < more < sharp
    assert one_run_sharpness(100, [100], 8.0, 1e-5, 0.999) == inf


def test_the_usual_number_of_guesses_beats_others():
    m, epsilon, delta = 5000, 1.0, 1e-5
    usual = one_run_sharpness(m, [planned_guesses(m, epsilon, delta, 0.999)], epsilon, delta, 0.999)
    for guesses in (20, 4000, 5000):
        assert one_run_sharpness(m, [guesses], epsilon, delta, 0.999) > usual
    assert planned_guesses(50, 0.01, 1e-5, 0.999) >= 1  # nothing could be seen: still a number


def test_canaries_needed():
    needed = canaries_needed(2.0, 1e-6, 0.999)
    assert needed is not None
    for factor, enough in ((1.3, True), (0.5, False)):
        m = round(factor * needed)
        guesses = [planned_guesses(m, 2.0, 1e-6, 0.9995), m]
        assert (one_run_sharpness(m, guesses, 2.0, 1e-6, 0.999) <= 4.0) == enough
    assert canaries_needed(1.0, 1e-2, 0.999) is None  # δ above the error that is allowed
