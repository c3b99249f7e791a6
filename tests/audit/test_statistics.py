"""Certified bounds: right where the law is known, and never more often wrong than stated."""

import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from discreet.accounting.conversions import delta_from_mu, mu_from_epsilon
from discreet.audit.statistics import (
    Event,
    choose_event,
    epsilon_bound,
    lower_rate,
    mu_bound,
    sharpness,
    trials_for,
    trials_to_see,
    upper_rate,
)

ALPHA = 0.001


@pytest.mark.parametrize("alpha", [0.05, 0.0005, 1e-9])
@pytest.mark.parametrize("n", [1, 10, 1000, 1_000_000])
def test_rates_are_where_the_tail_has_the_stated_probability(n, alpha):
    hits = np.unique(np.array([1, 2, n // 3, n - 1, n]).clip(0, n))
    low, high = lower_rate(hits, n, alpha), upper_rate(hits, n, alpha)
    seen = hits > 0
    np.testing.assert_allclose(binom.sf(hits[seen] - 1, n, low[seen]), alpha, rtol=2e-3)
    open_ = hits < n
    np.testing.assert_allclose(binom.cdf(hits[open_], n, high[open_]), alpha, rtol=2e-3)
    assert np.all(low[seen] < hits[seen] / n)
    assert np.all(high[open_] > hits[open_] / n)


def test_rates_at_the_ends():
    assert lower_rate(0, 50, 0.01) == 0
    assert upper_rate(50, 50, 0.01) == 1
    assert lower_rate(50, 50, 0.01) == pytest.approx(0.01 ** (1 / 50))
    assert upper_rate(0, 50, 0.01) == pytest.approx(1 - 0.01 ** (1 / 50))


@pytest.mark.parametrize("rate", [0.003, 0.2, 0.5, 0.97])
def test_rates_err_no_more_often_than_stated(rate):
    """Over all outcomes, by the exact law: no simulation."""
    n, alpha = 300, 0.02
    hits = np.arange(n + 1)
    law = binom.pmf(hits, n, rate)
    assert law[lower_rate(hits, n, alpha) > rate].sum() <= alpha
    assert law[upper_rate(hits, n, alpha) < rate].sum() <= alpha


@pytest.mark.parametrize(
    ("p", "q", "delta"),
    [(0.75, 0.25, 0.0), (0.3, 0.1, 0.05), (0.02, 0.0, 0.02), (0.5, 0.5, 0.0), (1.0, 0.4, 0.0)],
)
def test_bounds_on_epsilon_fail_no_more_often_than_stated(p, q, delta):
    """ln((p − δ)/q) is the least ε that the event allows; all pairs of outcomes are counted."""
    n, alpha = 120, 0.05
    hits = np.arange(n + 1)
    bounds = epsilon_bound(hits[:, None], hits[None, :], n, delta=delta, alpha=alpha)
    law = np.outer(binom.pmf(hits, n, p), binom.pmf(hits, n, q))
    truth = 0.0 if p <= delta else max(math.log((p - delta) / q), 0.0)
    assert law[bounds > truth].sum() <= alpha
    assert np.all(np.isfinite(bounds))
    assert np.all(bounds >= 0)


def test_epsilon_says_nothing_where_nothing_was_seen():
    assert epsilon_bound(0, 0, 1000, delta=0.0, alpha=ALPHA) == 0
    assert epsilon_bound(1000, 1000, 1000, delta=0.0, alpha=ALPHA) == 0
    assert epsilon_bound(3, 0, 1000, delta=0.01, alpha=ALPHA) == 0  # δ explains as much
    found = float(epsilon_bound(1000, 0, 1000, delta=0.0, alpha=ALPHA))
    rare = 1 - (ALPHA / 2) ** (1 / 1000)
    assert found == pytest.approx(math.log((1 - rare) / rare))


def test_delta_lowers_the_bound():
    bounds = [float(epsilon_bound(300, 40, 1000, delta=d, alpha=ALPHA)) for d in (0, 0.01, 0.1, 1)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] == 0 < bounds[1] < bounds[0]


@pytest.mark.parametrize(("mu", "threshold"), [(0.5, 0.0), (1.5, 0.75), (3.0, 2.5)])
def test_mu_is_bounded_above_the_truth_no_more_often_than_stated(mu, threshold):
    n, alpha = 120, 0.05
    hits = np.arange(n + 1)
    bounds = mu_bound(hits[:, None], hits[None, :], n, alpha=alpha)
    law = np.outer(binom.pmf(hits, n, ndtr(mu - threshold)), binom.pmf(hits, n, ndtr(-threshold)))
    assert law[bounds > mu].sum() <= alpha
    assert np.sum(law * bounds) > 0.05 * mu  # and it says something
    assert np.all(np.isfinite(bounds))
    assert mu_bound(0, 0, n, alpha=alpha) == mu_bound(n, n, n, alpha=alpha) == 0


def test_an_event_is_strict_on_both_sides():
    scores = (np.array([0.0, 1.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0, np.nan]))
    assert Event(above=True, threshold=1.0, likely=1).counts(scores) == (2, 1)
    assert Event(above=False, threshold=1.0, likely=0).counts(scores) == (1, 0)
    assert Event(above=True, threshold=1.0, likely=0).counts(scores) == (1, 2)


@pytest.mark.parametrize("turned", [1, -1])
@pytest.mark.parametrize("delta", [0.0, 1e-3, None])
def test_the_event_points_at_what_differs(delta, turned):
    rng = np.random.default_rng(0)
    scores = (turned * rng.normal(size=5000), turned * rng.normal(1.0, size=5000))
    event, promise = choose_event(scores, 20_000, alpha=ALPHA, delta=delta)
    assert promise > 0.3
    fresh = (turned * rng.normal(size=20_000), turned * rng.normal(1.0, size=20_000))
    likely, other = event.counts(fresh)
    if delta is None:
        found = float(mu_bound(likely, other, 20_000, alpha=ALPHA))
        assert 0.8 < found < 1
    else:
        found = float(epsilon_bound(likely, other, 20_000, delta=delta, alpha=ALPHA))
        assert found > 1  # a threshold at 2 has ln(0.159/0.0228) = 1.94
    assert found > 0.8 * promise


def test_events_of_two_or_three_values():
    rng = np.random.default_rng(1)
    for values in ((0, 1), (5, 3), (-1, 7)):
        scores = tuple(
            np.where(rng.random(4000) < rate, *values).astype(float) for rate in (0.7, 0.3)
        )
        event, promise = choose_event(scores, 4000, alpha=ALPHA, delta=0.0)
        assert promise > 0.5
        likely, other = event.counts(scores)
        assert likely / 4000 == pytest.approx(0.7, abs=0.05)
        assert other / 4000 == pytest.approx(0.3, abs=0.05)


def test_scores_that_are_all_alike_promise_nothing():
    same = (np.full(500, 2.0), np.full(500, 2.0))
    event, promise = choose_event(same, 1000, alpha=ALPHA, delta=0.0)
    assert promise <= 0
    likely, other = event.counts(same)
    assert epsilon_bound(likely, other, 500, delta=0.0, alpha=ALPHA) == 0


def test_worlds_apart_are_told_apart():
    apart = (np.zeros(300), np.ones(300))
    event, _ = choose_event(apart, 3000, alpha=ALPHA, delta=1e-5)
    assert event.counts(apart) == (300, 0)


def test_an_event_chosen_on_noise_is_worth_nothing_on_new_runs():
    """Each of 800 may err with probability 0.05, and 80 of them do with less than 1e-8."""
    rng = np.random.default_rng(2)
    errors = 0
    for _ in range(800):
        scores = (rng.normal(size=100), rng.normal(size=100))
        event, _ = choose_event(scores, 100, alpha=0.05, delta=0.0)
        likely, other = event.counts((rng.normal(size=100), rng.normal(size=100)))
        errors += bool(epsilon_bound(likely, other, 100, delta=0.0, alpha=0.05) > 0)
    assert errors < 80


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (0.5, 1e-3), (2.0, 1e-3), (4.0, 1e-5)])
def test_sharpness_and_trials_undo_each_other(epsilon, delta):
    needed = trials_for(epsilon, delta, alpha=ALPHA, factor=2.0)
    assert needed is not None
    assert sharpness(epsilon, delta, needed, alpha=ALPHA) == pytest.approx(2 * epsilon, rel=0.02)
    sharp = [sharpness(epsilon, delta, k * needed, alpha=ALPHA) for k in (1, 4, 100)]
    assert sharp == sorted(sharp, reverse=True)
    assert sharp[-1] > epsilon
    closer = trials_for(epsilon, delta, alpha=ALPHA, factor=1.5)
    assert closer is None or closer > needed


def test_sharpness_is_infinite_where_no_run_could_refute():
    assert sharpness(1.0, 1e-5, 0, alpha=ALPHA) == math.inf
    assert sharpness(8.0, 1e-5, 20, alpha=ALPHA) == math.inf
    assert trials_for(1e-9, 0.5, alpha=ALPHA, factor=1.0) is None


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (2.0, 1e-3)])
def test_a_planned_audit_succeeds_nine_times_in_ten(epsilon, delta):
    """The best threshold on a mechanism of twice the promised ε, with the runs planned for it."""
    rng = np.random.default_rng(3)
    runs = trials_for(epsilon, delta, alpha=ALPHA, factor=2.0)
    if delta:
        mu = mu_from_epsilon(2 * epsilon, delta)
        at = np.linspace(-1, 6, 1000)
        p, q = ndtr(mu - at), ndtr(-at)
        best = np.argmax(epsilon_bound(p * runs, q * runs, runs, delta=delta, alpha=ALPHA))
        p, q = p[best], q[best]
        assert delta_from_mu(mu, 2 * epsilon) == pytest.approx(delta, rel=1e-6)
    else:
        p = 1 / (1 + math.exp(-2 * epsilon))
        q = 1 - p
    seen = rng.binomial(runs, p, 3000), rng.binomial(runs, q, 3000)
    refuted = epsilon_bound(*seen, runs, delta=delta, alpha=ALPHA) > epsilon
    assert 0.85 < refuted.mean() < 1


def test_trials_to_see():
    needed = trials_to_see(60, 50, 100, delta=0.0, alpha=ALPHA)
    assert needed is not None
    assert epsilon_bound(0.6 * needed, 0.5 * needed, needed, delta=0.0, alpha=ALPHA) > 0
    less = needed // 2
    assert less == 100 or (epsilon_bound(0.6 * less, 0.5 * less, less, delta=0.0, alpha=ALPHA) == 0)
    assert trials_to_see(50, 50, 100, delta=0.0, alpha=ALPHA) is None
    assert trials_to_see(0, 0, 100, delta=0.0, alpha=ALPHA) is None
    assert trials_to_see(55, 50, 100, delta=0.1, alpha=ALPHA) is None
