"""Whole attacks on mechanisms of which everything is known."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest

from discreet.accounting.conversions import epsilon_from_mu, mu_from_epsilon
from discreet.audit import Attack, Verdict, run
from discreet.audit.attack import MOST_NUMBERS, learn
from discreet.audit.statistics import LEARNING_SHARE, sharpness, trials_needed


def gaussian(mu, epsilon, delta, *, seed=0, **settings):
    rng = np.random.default_rng(seed)

    def draw(world, count):
        return rng.standard_normal((count, 2)) + np.array([0.0, mu * world])

    return Attack("gaussian", "apart by μ", epsilon, delta, "add_remove", draw, **settings)


def coin(true_epsilon, epsilon, *, seed=0, **settings):
    rng = np.random.default_rng(seed)
    rate = 1 / (1 + math.exp(-true_epsilon))

    def draw(world, count):
        return np.where(rng.random(count) < rate, world, 1 - world)

    return Attack("coin", "0 or 1", epsilon, 0.0, "replace_one", draw, **settings)


def test_a_gaussian_that_keeps_its_promise_is_consistent():
    found = run(gaussian(mu_from_epsilon(2.0, 1e-3), 2.0, 1e-3), trials=60_000)
    assert found.verdict is Verdict.CONSISTENT
    assert 1.0 < found.epsilon_bound <= 2
    mu = mu_from_epsilon(2.0, 1e-3)
    assert 0.9 * mu < found.mu_bound <= mu
    assert found.epsilon_if_gaussian <= 2
    assert found.trials == 60_000
    assert found.sharpness < 4


def test_half_of_the_noise_is_refuted():
    found = run(gaussian(2 * mu_from_epsilon(2.0, 1e-3), 2.0, 1e-3), trials=40_000)
    assert found.verdict is Verdict.REFUTED
    truth = epsilon_from_mu(2 * mu_from_epsilon(2.0, 1e-3), 1e-3)
    assert 2 < found.epsilon_bound <= truth


@pytest.mark.parametrize(
    ("true_epsilon", "verdict"), [(1.0, Verdict.CONSISTENT), (1.5, Verdict.REFUTED)]
)
def test_coins(true_epsilon, verdict):
    found = run(coin(true_epsilon, 1.0), trials=20_000)
    assert found.verdict is verdict
    assert 0.8 * true_epsilon < found.epsilon_bound <= true_epsilon
    assert found.epsilon_if_gaussian == math.inf  # no Gaussian is pure


def test_what_says_nothing_is_too_weak_and_never_will_tell():
    def draw(world, count):
        return np.zeros(count)

    attack = Attack("mute", "any", 1.0, 1e-5, "add_remove", draw, learn=False)
    found = run(attack, trials=300_000)  # enough to see what there is
    assert found.verdict is Verdict.TOO_WEAK
    assert found.epsilon_bound == found.mu_bound == 0
    assert found.trials_needed is None
    assert run(replace(attack, learn=True), trials=1000).epsilon_bound == 0


def test_few_trials_are_too_weak_and_say_how_many_would_do():
    mu = mu_from_epsilon(2.0, 1e-3)
    found = run(gaussian(mu, 2.0, 1e-3), trials=3000)
    assert found.verdict is Verdict.TOO_WEAK
    assert 3000 < found.trials_needed < 30_000
    enough = run(gaussian(mu, 2.0, 1e-3), trials=found.trials_needed)
    assert enough.verdict is Verdict.CONSISTENT


def test_what_more_trials_may_show_is_not_given_up():
    """So few runs show nothing of a Gaussian, whatever the luck; many more would."""
    for seed in range(4):
        found = run(gaussian(mu_from_epsilon(2.0, 1e-3), 2.0, 1e-3, seed=seed), trials=100)
        assert found.epsilon_bound == 0
        assert found.trials_needed is not None
        assert found.trials_needed > 10_000


def test_worlds_that_are_apart_for_certain():
    attack = Attack(
        "leak", "any", 1.0, 1e-5, "add_remove", lambda world, count: np.full(count, world)
    )
    found = run(attack, trials=10_000)
    assert found.verdict is Verdict.REFUTED
    assert found.epsilon_bound == pytest.approx(math.log(4000 / -math.log(0.0005)), abs=0.01)


def test_it_errs_no_more_often_than_stated():
    """Each of 150 audits of exact coins may with 0.05, and 25 of them do with less than 1e-6."""
    audits = [coin(0.5, 0.5, seed=seed, learn=False) for seed in range(150)]
    found = [run(attack, trials=300, confidence=0.95) for attack in audits]
    assert sum(audit.epsilon_bound > 0.5 for audit in found) < 25


def test_the_event_is_counted_on_runs_that_did_not_choose_it():
    """Two worlds alike in law; the first 25 runs of each are as different as can be."""
    for statistics in ({}, {"the number": lambda outputs: outputs[:, 0]}):
        rng, calls = np.random.default_rng(4), []

        def draw(world, count, rng=rng, calls=calls):
            calls.append((world, count))
            if len(calls) <= 2:
                return np.full((count, 1), float(world)) + 0.01 * rng.random((count, 1))
            return rng.random((count, 1)) + 0.0

        found = run(Attack("trap", "any", 1.0, 0.0, "add_remove", draw, statistics), trials=4000)
        assert found.epsilon_bound == 0
        assert sum(count for world, count in calls if world == 0) == 2000
        assert sum(count for world, count in calls if world == 1) == 2000
        assert calls[0] == (0, 400)
        assert calls[1] == (1, 400)


def test_named_statistics_and_learned_ones():
    mu = 2.0

    def projection(outputs):
        return outputs[:, 1]

    named = run(
        gaussian(mu, 1.0, 1e-3, statistics={"the second": projection}, learn=False), trials=9000
    )
    assert named.statistic == "the second"
    blind = gaussian(mu, 1.0, 1e-3, statistics={"the first": lambda z: z[:, 0]}, learn=False)
    assert run(blind, trials=9000).epsilon_bound < 0.3
    taught = gaussian(mu, 1.0, 1e-3, statistics={"the first": lambda z: z[:, 0]})
    found = run(taught, trials=9000)
    assert "learned" in found.statistic
    assert found.verdict is Verdict.REFUTED
    plain = run(gaussian(mu, 1.0, 1e-3, learn=False), trials=9000)
    assert plain.statistic == "number 2 of the output"


def test_the_curve_is_a_trade_off():
    found = run(gaussian(1.0, 1.0, 1e-3), trials=20_000)
    fpr = np.array([point.fpr for point in found.curve])
    tpr = np.array([point.tpr for point in found.curve])
    assert (fpr[0], tpr[0]) == (0, 0)
    assert (fpr[-1], tpr[-1]) == (1, 1)
    assert np.all(np.diff(fpr) >= 0)
    assert np.all(tpr >= fpr - 0.03)
    middle = np.argmin(np.abs(fpr - 0.3085))  # a threshold at 1/2
    assert tpr[middle] == pytest.approx(0.6915, abs=0.05)


def test_progress_ends_at_all_runs():
    seen = []
    run(coin(1.0, 1.0), trials=1001, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (1000, 1000)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_bad_settings_are_refused():
    for epsilon, delta in ((0.0, 0.0), (math.inf, 0.0), (math.nan, 0.0), (1.0, 1.0), (1.0, -1e-9)):
        with pytest.raises(ValueError, match=r"(epsilon|delta) must be a finite number"):
            gaussian(1.0, epsilon, delta)
    with pytest.raises(ValueError, match="trials"):
        run(coin(1.0, 1.0), trials=99)
    for confidence in (0.4, 1.0):
        with pytest.raises(ValueError, match="confidence"):
            run(coin(1.0, 1.0), trials=1000, confidence=confidence)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("learn", [True, False])
def test_outputs_that_are_no_numbers_tell_too(odd, learn):
    """A fit that breaks down on one table only has told which table it was."""
    rng = np.random.default_rng(6)

    def draw(world, count):
        outputs = rng.standard_normal((count, 2))
        outputs[rng.random(count) < (0.5 if world else 0.01)] = odd
        return outputs

    attack = Attack("brittle", "any", 1.0, 1e-5, "add_remove", draw, learn=learn)
    assert run(attack, trials=4000).verdict is Verdict.REFUTED


# --- the learned score ------------------------------------------------------------------------

rng = np.random.default_rng(0)


def separation(score, first, second):
    """Return the rate at which an output of the second world has the higher score."""
    a, b = np.sort(score(first)), score(second)
    low, high = np.searchsorted(a, b, side="left"), np.searchsorted(a, b, side="right")
    return float(np.mean((low + high) / (2 * a.size)))


def normal_worlds(count, change):
    first, second = rng.normal(size=(count, 3)), rng.normal(size=(count, 3))
    return first, change(second)


@pytest.mark.parametrize(
    "change",
    [
        lambda z: z + np.array([0.0, 1.0, 0.0]),
        lambda z: z - np.array([0.0, 0.0, 1.0]),
        lambda z: 2 * z,  # only the scale differs
        lambda z: z * np.array([1.0, 1e-3, 1.0]),
        lambda z: np.column_stack([z[:, 0], z[:, 0] + 0.3 * z[:, 1], z[:, 2]]),  # only a product
    ],
)
@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_it_finds_what_differs_in_any_unit(change, unit):
    first, second = normal_worlds(2000, change)
    score = learn(unit * first, unit * second)
    fresh = normal_worlds(2000, change)
    assert separation(score, unit * fresh[0], unit * fresh[1]) > 0.65


def test_worlds_that_are_alike_are_not_told_apart():
    score = learn(*normal_worlds(2000, lambda z: z))
    assert abs(separation(score, *normal_worlds(20_000, lambda z: z)) - 0.5) < 0.03


def test_constant_outputs_have_one_score():
    score = learn(np.full((50, 2), 3.0), np.full((50, 2), 3.0))
    assert np.unique(score(np.full((10, 2), 3.0))).size == 1


def test_constant_but_different_outputs_are_told_apart():
    score = learn(np.zeros((50, 1)), np.ones((50, 1)))
    assert score(np.array([[1.0]])) > score(np.array([[0.0]]))


def test_a_rare_value_is_found():
    """Nine in ten outputs are 0 in both worlds, so quartiles do not move."""
    first, second = (rng.random((4000, 1)) < 0.02) * 1.0, (rng.random((4000, 1)) < 0.1) * 1.0
    score = learn(first, second)
    assert score(np.array([[1.0]])) > score(np.array([[0.0]]))


def test_extreme_outputs_are_finite_scores():
    first, second = normal_worlds(500, lambda z: z + 1)
    first[0], second[0] = 1e300, -1e300
    score = learn(first, second)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.all(np.isfinite(score(np.array([[1e300, -1e300, 0.0], [np.inf, 0.0, -np.inf]]))))
    fresh = normal_worlds(2000, lambda z: z + 1)
    assert separation(score, *fresh) > 0.85


def test_many_numbers_are_scored_without_products():
    shift = np.zeros(MOST_NUMBERS + 20)
    shift[7] = 2.0
    first = rng.normal(size=(1000, shift.size))
    second = rng.normal(size=(1000, shift.size)) + shift
    score = learn(first, second)
    fresh = rng.normal(size=(1000, shift.size))
    assert separation(score, fresh, fresh[::-1] + shift) > 0.8


# --- planning ---------------------------------------------------------------------------------


def reachable(epsilon, delta, trials):
    tested = int((1 - LEARNING_SHARE) * (trials // 2))
    return sharpness(epsilon, delta, tested, alpha=0.001)


def test_as_many_trials_as_are_needed_reach_twice_the_epsilon():
    for epsilon, delta in ((1.0, 0.0), (0.5, 1e-3), (2.0, 1e-5)):
        needed = trials_needed(epsilon, delta, 0.999)
        assert reachable(epsilon, delta, needed) <= 2 * epsilon
        assert reachable(epsilon, delta, int(0.8 * needed)) > 2 * epsilon
    assert trials_needed(1e-9, 0.5, 0.999) is None
    assert reachable(1.0, 1e-5, 100) > 10
