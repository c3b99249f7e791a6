"""Levels by Gaussian noise: the δ of a release followed by Gaussian DP, by integration."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import log_ndtr, ndtr

from discreet.core import Relation
from discreet.core.account import PrivacyFilter
from discreet.core.bits import SeededBits
from discreet.core.noise import Noise
from discreet.errors import BudgetExceeded, NotSupported, PrivacyError
from discreet.exact.histogram import GaussianHistogram

RELATIONS = ["add_remove", "replace_one"]


def noise(seed):
    return Noise(SeededBits(seed))


def outcomes(count, threshold, scale):
    """Probabilities for one text on the grid of whole numbers: not released, or its noisy count."""
    values = np.arange(threshold, threshold + 60)
    if count == 0:
        return np.concatenate([[1.0], np.zeros(values.size)])
    law = stats.norm(loc=count, scale=scale)
    mass = law.sf(values - 0.5) - law.sf(values + 0.5)
    return np.concatenate([[law.cdf(threshold - 0.5)], mass])


def delta_of_both(first, second, threshold, scale, mu, epsilon):
    """The least δ at ε for these counts, followed by a Gaussian mechanism of this μ.

    With a release of probabilities p and q, the Gaussian mechanism has δ_μ(ε − ln(p/q)) left.
    """
    p, q = np.array([1.0]), np.array([1.0])
    for one, other in zip(first, second, strict=True):
        p = np.outer(p, outcomes(one, threshold, scale)).ravel()
        q = np.outer(q, outcomes(other, threshold, scale)).ravel()
    p, q = p[p > 0], q[p > 0]
    never = q == 0
    with np.errstate(divide="ignore"):
        left = epsilon - np.log(p[~never] / q[~never])
    log_odds = left + log_ndtr(-left / mu - mu / 2)
    rest = ndtr(-left / mu + mu / 2) - np.exp(log_odds)
    return float(p[never].sum() + p[~never] @ rest)


def gaussian_delta(mu, epsilon):
    return ndtr(-epsilon / mu + mu / 2) - math.exp(epsilon) * ndtr(-epsilon / mu - mu / 2)


@pytest.fixture
def whole_numbers(monkeypatch):
    """A grid of whole numbers, on which all outcomes can be listed."""
    monkeypatch.setattr(GaussianHistogram, "grid", 0)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("mu", [0.3, 1.0])
def test_the_delta_of_levels_and_what_follows_add_remove(whole_numbers, mu, epsilon):
    mechanism = GaussianHistogram(1.5, 1e-3, "add_remove")
    threshold = mechanism.threshold_steps
    whole = gaussian_delta(math.hypot(mu, 1 / 1.5), epsilon)
    for count in [*range(4), threshold - 1, threshold, threshold + 3]:
        for pair in (([count], [count + 1]), ([count + 1], [count])):
            found = delta_of_both(*pair, threshold, mechanism.scale, mu, epsilon)
            assert found <= 1e-3 + (1 - 1e-3) * whole
            if count:  # no lone text: Gaussian DP alone
                assert found <= whole
    # The text of a single row has no protection but t: one whole row less would break the promise.
    few = delta_of_both([1], [0], threshold - 1, mechanism.scale, 1e-3, epsilon)
    assert few > 1e-3


@pytest.mark.parametrize("mu", [0.3, 1.0])
def test_the_delta_of_levels_and_what_follows_replace_one(whole_numbers, mu):
    mechanism = GaussianHistogram(1.0, 1e-2, "replace_one")
    threshold = mechanism.threshold_steps
    epsilon = 1.0
    whole = gaussian_delta(math.hypot(mu, 1.0), epsilon)
    for old, new in itertools.product([1, 2, threshold], [0, 1, threshold - 1]):
        first, second = [old, new], [old - 1, new + 1]
        for pair in ((first, second), (second, first)):
            found = delta_of_both(*pair, threshold, mechanism.scale, mu, epsilon)
            assert found <= 1e-2 + (1 - 1e-2) * whole
    # Noise for one changed count is not enough for two.
    both = ([threshold, threshold], [threshold - 1, threshold + 1])
    half = delta_of_both(*both, 1, mechanism.scale / math.sqrt(2), mu, epsilon)
    assert half > whole


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("multiplier", [1e-3, 1.0, 18.94, 1e6])
@pytest.mark.parametrize("delta", [1e-2, 5e-8, 1e-100])
def test_the_threshold_in_sixty_digits(relation, multiplier, delta):
    from mpmath import mp, mpf

    mechanism = GaussianHistogram(multiplier, delta, relation)
    with mp.workdps(60):
        step = mpf(2) ** mechanism.grid
        scale = mpf(mechanism.scale)
        assert step <= 1
        assert scale >= mp.sqrt(Relation(relation).rows_changed) * mpf(multiplier)

        def reached(steps):
            return mp.erfc((steps * step - 1 - step / 2) / scale / mp.sqrt(2)) / 2

        exact = reached(mechanism.threshold_steps)
        assert exact <= mpf(delta)
        assert exact <= mpf(mechanism.delta_at(mechanism.threshold_steps))
        lower = mechanism.threshold_steps - max(3, mechanism.threshold_steps // 10**9)
        assert reached(lower) > mpf(delta) * (1 - mpf(10) ** -6)
    assert mechanism.delta_at(0) == 1.0  # below the tail nothing is claimed


def test_thresholds_by_hand():
    # 1 + 20·Φ⁻¹(1 − 1e-8) = 1 + 20·5.6120 and, for two changed counts, 1 + 20·√2·5.6120
    assert GaussianHistogram(20, 1e-8, "add_remove").threshold == pytest.approx(113.24, abs=0.01)
    assert GaussianHistogram(20, 1e-8, "replace_one").threshold == pytest.approx(159.73, abs=0.01)


def test_a_text_of_one_row_is_released_as_often_as_delta_says():
    # 200,000 such texts, δ = 0.01: 2,000 ± 45; beyond ±5.5 sigma has a chance of 4e-8.
    mechanism = GaussianHistogram(2.0, 0.01, "add_remove")
    texts = [str(index) for index in range(200_000)]
    released = mechanism.release(texts, np.ones(200_000, dtype=np.int64), noise(1))
    assert abs(len(released) - 2000) < 5.5 * math.sqrt(200_000 * 0.01 * 0.99)


@pytest.mark.parametrize(("relation", "deviation"), [("add_remove", 3.0), ("replace_one", 4.2426)])
def test_noise_has_the_stated_deviation(relation, deviation):
    # 20,000 texts: the deviation is estimated to 0.5 %; 3 % off has a chance of 2e-9.
    mechanism = GaussianHistogram(3.0, 1e-9, relation)
    texts = [f"t{index}" for index in range(20_000)]
    released = mechanism.release(texts, np.full(20_000, 10_000), noise(2))
    off = np.array(list(released.values())) - 10_000
    assert off.size == 20_000
    assert np.std(off) == pytest.approx(deviation, rel=0.03)
    assert abs(np.mean(off)) < 6 * deviation / math.sqrt(20_000)


def test_its_cost_is_a_mu_and_a_delta():
    mechanism = GaussianHistogram(10.0, 1e-7, "add_remove")
    assert mechanism.loss.mu == pytest.approx(0.1)
    assert mechanism.loss.delta == 1e-7
    apart = PrivacyFilter("gdp", 0.0101, 1e-7)
    apart.charge(mechanism)
    with pytest.raises(BudgetExceeded, match="δ = 1e-07"):
        apart.charge(mechanism)


@pytest.mark.parametrize("measure", ["pure", "zcdp", "approximate"])
def test_other_measures_do_not_take_it(measure):
    with pytest.raises(PrivacyError, match="has no guarantee in the measure"):
        PrivacyFilter(measure, 100.0).charge(GaussianHistogram(10.0, 1e-7, "add_remove"))


def test_gaussian_dp_without_a_delta_does_not_take_it():
    with pytest.raises(BudgetExceeded):
        PrivacyFilter("gdp", 100.0).charge(GaussianHistogram(10.0, 1e-7, "add_remove"))


def test_settings_are_checked():
    with pytest.raises(NotSupported, match="delta=0"):
        GaussianHistogram(1.0, 0.0, "add_remove")
    with pytest.raises(ValueError, match="delta"):
        GaussianHistogram(1.0, 0.1, "add_remove")
    with pytest.raises(ValueError, match="noise_multiplier"):
        GaussianHistogram(0.0, 1e-6, "add_remove")
    with pytest.raises(PrivacyError, match="1 changed counts; got 2"):
        GaussianHistogram(1.0, 1e-6, "add_remove").release(["a"], [5], noise(0), sensitivity=2)
