"""Categories above a threshold: the exact δ by listing all outcomes, and what is refused."""

import itertools
import math
from functools import reduce

import numpy as np
import pytest
from scipy import stats

from discreet.accounting.recompute import mechanism_event
from discreet.core import Budget, Laplace, Relation
from discreet.core.account import Account, PrivacyFilter
from discreet.core.bits import SeededBits
from discreet.core.noise import Noise
from discreet.core.questions import Public
from discreet.errors import BudgetExceeded, NotSupported, PrivacyError
from discreet.exact.cell_questions import KindVote
from discreet.exact.histogram import StabilityHistogram, noisy_limit

RELATIONS = ["add_remove", "replace_one"]


def noise(seed):
    return Noise(SeededBits(seed))


def vote(margin, n_rows, mechanism, relation, source):
    """The answer to a vote with this margin."""
    return KindVote("a").release(margin, mechanism, Public(relation, n_rows, 0, 0, None), source)


def outcomes(count, threshold, scale):
    """Probabilities for one text on the grid of whole numbers: not released, or its noisy count."""
    if count == 0:
        return np.concatenate([[1.0], np.zeros(400)])
    values = np.arange(threshold, threshold + 400)
    step = stats.laplace(loc=count, scale=scale)
    # sf for the upper tail: differences of cdf near 1 would lose every digit
    mass = np.where(
        values - 0.5 >= count,
        step.sf(values - 0.5) - step.sf(values + 0.5),
        step.cdf(values + 0.5) - step.cdf(values - 0.5),
    )
    return np.concatenate([[step.cdf(threshold - 0.5)], mass])


def smallest_delta(first, second, threshold, scale, epsilon):
    """The least δ for this ε and these counts of the texts that differ, from all outcomes."""
    p, q = (
        reduce(np.outer, [outcomes(count, threshold, scale) for count in counts])
        for counts in (first, second)
    )
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


@pytest.fixture
def whole_numbers(monkeypatch):
    """A grid of whole numbers, on which all outcomes can be listed."""
    monkeypatch.setattr(StabilityHistogram, "grid", 0)


@pytest.mark.parametrize("epsilon", [0.7, 2.0])
def test_exact_delta_on_all_kinds_of_neighbours_add_remove(whole_numbers, epsilon):
    mechanism = StabilityHistogram(epsilon, 1e-3, "add_remove")
    threshold = mechanism.threshold_steps
    for count in [*range(6), threshold - 1, threshold, threshold + 5]:
        for pair in ((count, count + 1), (count + 1, count)):
            found = smallest_delta([pair[0]], [pair[1]], threshold, mechanism.scale, epsilon)
            assert found <= 1e-3 * (1 + 1e-9) if count == 0 else found < 1e-12
    # The text of a single row decides, exactly, and one whole row less would break the promise.
    alone = smallest_delta([1], [0], threshold, mechanism.scale, epsilon)
    assert alone == pytest.approx(mechanism.delta_at(threshold), rel=1e-9)
    assert smallest_delta([1], [0], threshold - 1, mechanism.scale, epsilon) > 1e-3


@pytest.mark.parametrize("epsilon", [2.0, 4.0])
def test_exact_delta_on_all_kinds_of_neighbours_replace_one(whole_numbers, epsilon):
    mechanism = StabilityHistogram(epsilon, 1e-2, "replace_one")
    threshold = mechanism.threshold_steps
    largest = 0.0
    for old, new in itertools.product([1, 2, threshold], [0, 1, threshold - 1]):
        first, second = [old, new], [old - 1, new + 1]
        for pair in ((first, second), (second, first)):
            found = smallest_delta(*pair, threshold, mechanism.scale, epsilon)
            assert found <= 1e-2 * (1 + 1e-9)
            largest = max(largest, found)
    assert largest == pytest.approx(mechanism.delta_at(threshold), rel=1e-6)
    # Noise for one changed count is not enough for two.
    both = ([threshold, threshold], [threshold - 1, threshold + 1])
    assert smallest_delta(*both, threshold, mechanism.scale / 2, epsilon) > 1e-2


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 0.067, 1.0, 30.0, 1e9])
@pytest.mark.parametrize("delta", [1e-2, 1e-9, 1e-300])
def test_the_threshold_in_sixty_digits(relation, epsilon, delta):
    from mpmath import mp, mpf

    mechanism = StabilityHistogram(epsilon, delta, relation)
    with mp.workdps(60):
        step = mpf(2) ** mechanism.grid
        scale = mpf(mechanism.scale)
        assert step <= 1
        assert scale >= mpf(Relation(relation).rows_changed) / mpf(epsilon)

        def reached(steps):
            return mp.exp(-(steps * step - 1 - step / 2) / scale) / 2

        exact = reached(mechanism.threshold_steps)
        assert exact <= mpf(delta)
        assert exact <= mpf(mechanism.delta_at(mechanism.threshold_steps))
        assert reached(mechanism.threshold_steps - 3) > mpf(delta)  # and not much above the least
    assert mechanism.threshold == mechanism.threshold_steps * 2.0**mechanism.grid
    assert mechanism.delta_at(0) == 1.0  # below the tail nothing is claimed


def test_thresholds_by_hand():
    # 1 + ln(1/(2·1e-9))/1 = 21.03 and 1 + 2·ln(5e8)/1 = 41.06
    assert StabilityHistogram(1.0, 1e-9, "add_remove").threshold == pytest.approx(21.03, abs=0.01)
    assert StabilityHistogram(1.0, 1e-9, "replace_one").threshold == pytest.approx(41.06, abs=0.01)


def test_a_text_of_one_row_is_released_as_often_as_delta_says():
    # 200,000 such texts, δ = 0.01: 2,000 ± 45; beyond ±5.5 sigma has a chance of 4e-8.
    mechanism = StabilityHistogram(1.0, 0.01, "add_remove")
    texts = [str(index) for index in range(200_000)]
    released = mechanism.release(texts, np.ones(200_000, dtype=np.int64), noise(1))
    assert abs(len(released) - 2000) < 5.5 * math.sqrt(200_000 * 0.01 * 0.99)


def test_noisy_counts_are_unbiased_with_the_stated_scale():
    # 20,000 texts of 10,000 rows: the mean of Laplace(2) noise is off by 6·2√2/√20000 = 0.12 with
    # a chance of 2e-9; its mean absolute value (2, deviation 2) by 0.085 likewise.
    mechanism = StabilityHistogram(1.0, 1e-9, "replace_one")
    texts = [f"t{index}" for index in range(20_000)]
    released = mechanism.release(texts, np.full(20_000, 10_000), noise(2))
    off = np.array(list(released.values())) - 10_000
    assert off.size == 20_000
    assert abs(off.mean()) < 0.12
    assert abs(np.abs(off).mean() - 2.0) < 0.085


def test_order_is_alphabetical_whatever_the_counts():
    # A count of 10,000 misses the threshold of 22 with a chance of e^-9978.
    mechanism = StabilityHistogram(1.0, 1e-9, "add_remove")
    counts = np.array([10_000, 50_000, 20_000, 1])
    released = mechanism.release(["c", "b", "a", "rare"], counts, noise(0))
    assert list(released) == ["a", "b", "c"]
    assert mechanism.release([], np.array([], dtype=np.int64), noise(0)) == {}


def test_cost_is_charged_in_approximate_privacy_only():
    mechanism = StabilityHistogram(0.5, 1e-7, "add_remove")
    assert (mechanism.loss.epsilon, mechanism.loss.delta) == (0.5, 1e-7)
    assert mechanism.loss.rho == mechanism.loss.mu == math.inf
    filter_ = Account(Budget(1.0, 2e-7, "add_remove")).open("approximate")
    filter_.charge(mechanism, 2)
    with pytest.raises(BudgetExceeded):
        filter_.charge(mechanism)
    for measure in ("pure", "zcdp", "gdp"):
        with pytest.raises(PrivacyError, match="no guarantee"):
            PrivacyFilter(measure, 10.0).charge(mechanism)


def test_dp_accounting_is_not_told_that_it_costs_nothing():
    from dp_accounting import pld
    from dp_accounting.privacy_accountant import UnsupportedEventError

    with pytest.raises(UnsupportedEventError):
        pld.PLDAccountant().compose(mechanism_event(StabilityHistogram(1.0, 1e-9, "add_remove")))


def test_pure_privacy_and_odd_settings_are_refused():
    with pytest.raises(NotSupported, match="delta=0"):
        StabilityHistogram(1.0, 0.0, "add_remove")
    for delta in (-1e-9, 0.02, 1.0, math.nan):
        with pytest.raises(ValueError, match="delta"):
            StabilityHistogram(1.0, delta, "add_remove")
    for epsilon in (0.0, -1.0, math.nan, math.inf, 1e-12):
        with pytest.raises(ValueError, match="epsilon"):
            StabilityHistogram(epsilon, 1e-9, "add_remove")
    with pytest.raises(ValueError, match="relation"):
        StabilityHistogram(1.0, 1e-9, "add")


@pytest.mark.parametrize(
    ("texts", "counts"),
    [(["a"], [0]), (["a"], [2**32]), (["a", "a"], [1, 1]), (["a"], [1, 2]), (["a"], [-1])],
)
def test_what_are_not_counts_of_texts_is_refused(texts, counts):
    with pytest.raises(ValueError, match=r"texts|counts"):
        StabilityHistogram(1.0, 1e-9, "add_remove").release(texts, np.array(counts), noise(0))


def test_the_noisy_limit_is_laplace_around_the_limit():
    # 4,000 limits, 12 cells: chi-square with false alarm 1e-7 against the exact probabilities of
    # floor(1000 − Z), Z of scale 10, which is what "texts + Z > 1000" compares with.
    source, mechanism = noise(3), Laplace(0.1)
    drawn = np.array([noisy_limit(1000, mechanism, source) for _ in range(4000)])
    ends = np.array([-np.inf, 970, 980, 988, 994, 998, 1000, 1002, 1006, 1012, 1020, 1030, np.inf])
    counts = np.histogram(drawn, bins=ends)[0]
    # floor(x) < k exactly if x < k, for whole k
    expected = 4000 * np.diff(stats.laplace(loc=1000, scale=10).cdf(ends))
    assert ((counts - expected) ** 2 / expected).sum() < stats.chi2.isf(1e-7, len(counts) - 1)


@pytest.mark.parametrize("relation", RELATIONS)
def test_votes_are_decided_by_a_clear_majority_and_open_without_one(relation):
    # A margin of 1000 is 50 scales or more: wrong with a chance below 1e-21. Without a margin the
    # vote is a coin: all 60 alike has a chance of 2e-18.
    mechanism, relation = Laplace(0.1), Relation(relation)
    assert vote(1000, 2000, mechanism, relation, noise(0))
    assert not vote(-1000, 2000, mechanism, relation, noise(0))
    source = noise(1)
    votes = {vote(0, 2000, mechanism, relation, source) for _ in range(60)}
    assert votes == {True, False}


@pytest.mark.parametrize("relation", RELATIONS)
def test_votes_keep_their_promise_exactly(relation):
    # P(margin + Z > 0) for Laplace noise; the largest step of the margin is 1 or 2 rows.
    relation, epsilon = Relation(relation), 0.8
    scale = Laplace(epsilon).scale(relation.rows_changed)
    wins = stats.laplace(scale=scale).sf
    for margin in range(-20, 21):
        for step in range(relation.rows_changed + 1):
            for sign in (1, -1):
                for tail in (lambda m: wins(-m), lambda m: wins(m)):
                    ratio = tail(margin) / tail(margin + sign * step)
                    assert ratio <= math.exp(epsilon) * (1 + 1e-12)
    # The frequency of a small margin is that of this noise: 2,000 votes, beyond 5.5 sigma 4e-8.
    source = noise(5)
    won = sum(vote(1, 100, Laplace(epsilon), relation, source) for _ in range(2000))
    chance = float(wins(-1))
    assert abs(won - 2000 * chance) < 5.5 * math.sqrt(2000 * chance * (1 - chance))


@pytest.mark.parametrize(("relation", "most"), [("add_remove", 1), ("replace_one", 2)])
def test_more_changed_counts_than_the_noise_is_for_are_refused(relation, most):
    mechanism = StabilityHistogram(1.0, 1e-9, relation)
    counts = np.array([10_000])
    assert mechanism.release(["a"], counts, noise(0), sensitivity=float(most)).keys() == {"a"}
    for sensitivity in (most + 1.0, math.nan):
        with pytest.raises(PrivacyError, match=f"noise is for {most} changed counts"):
            mechanism.release(["a"], counts, noise(0), sensitivity=sensitivity)
