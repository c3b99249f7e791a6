"""Tests that know when they do not know."""

import numpy as np
import pytest
from scipy import stats

from discreet_bench.significance import OVERLAP, apart, holm, interval, paired

FIRST = np.array([0.70, 0.72, 0.71, 0.69, 0.73])
SECOND = np.array([0.75, 0.74, 0.76, 0.75, 0.79])


def test_without_overlap_it_is_the_paired_t_test():
    found = paired(FIRST, SECOND, overlap=0.0)
    plain = stats.ttest_rel(SECOND, FIRST)
    assert found.p_value == pytest.approx(plain.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(plain.confidence_interval(0.95)))


def test_overlap_makes_it_more_careful_by_the_known_factor():
    plain, careful = paired(FIRST, SECOND, 0.0), paired(FIRST, SECOND)
    wider = (careful.high - careful.low) / (plain.high - plain.low)
    assert wider == pytest.approx(np.sqrt((1 / 5 + OVERLAP) / (1 / 5)))
    assert careful.p_value > plain.p_value


def test_more_repeats_never_make_a_small_difference_certain():
    # Differences of 0.2 standard deviations: a plain test of 10,000 would be sure.
    rng = np.random.default_rng(0)
    differences = rng.normal(size=10_000)
    differences += 0.2 - differences.mean()
    assert paired(np.zeros(10_000), differences, 0.0).p_value < 1e-50
    assert paired(np.zeros(10_000), differences).p_value > 0.5


def test_only_shared_repeats_count():
    gaps = SECOND.copy()
    gaps[1] = np.nan
    kept = np.array([0, 2, 3, 4])
    assert paired(FIRST, gaps) == paired(FIRST[kept], SECOND[kept])


def test_too_few_repeats_have_no_p_value():
    assert paired(FIRST[:1], SECOND[:1]).mean == pytest.approx(0.05)
    assert np.isnan(paired(FIRST[:1], SECOND[:1]).p_value)
    assert paired(FIRST, np.full(5, np.nan)).repeats == 0
    assert np.isnan(apart(FIRST[:1], SECOND).p_value)
    assert np.isnan(apart(FIRST[:0], SECOND).mean)


def test_differences_that_are_all_the_same():
    nothing = paired(FIRST, FIRST)
    assert nothing == (0, 0, 0, 1, 5)
    shifted = paired(FIRST, FIRST + 0.01)  # equal up to rounding
    assert shifted.mean == pytest.approx(0.01)
    assert np.isnan(shifted.p_value)
    assert apart(np.ones(3), np.ones(4)).p_value == 1


def test_apart_is_the_test_of_welch():
    found = apart(FIRST, SECOND[:3])
    plain = stats.ttest_ind(SECOND[:3], FIRST, equal_var=False)
    assert found.p_value == pytest.approx(plain.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(plain.confidence_interval(0.95)))


def test_interval_of_a_mean():
    half = interval(np.array([FIRST.std(ddof=1), np.nan]), np.array([5, 1]))
    low, high = stats.t.interval(0.95, 4, FIRST.mean(), stats.sem(FIRST))
    assert half[0] == pytest.approx((high - low) / 2)
    assert np.isnan(half[1])


def test_holm_on_an_example_worked_by_hand():
    adjusted = holm(np.array([0.01, np.nan, 0.04, 0.03, 0.5]))
    # four tests: 4·0.01, 3·0.03, then 2·0.04 is raised to 0.09, and 0.5
    np.testing.assert_allclose(adjusted, [0.04, np.nan, 0.09, 0.09, 0.5])
    assert holm(np.array([0.9, 0.8]))[1] == 1.0
    assert np.isnan(holm(np.array([np.nan]))).all()
