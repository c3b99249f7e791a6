"""Shares add up to the noise that is charged, and their sum is as near to it as the proof says."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.interpolate import BSpline
from scipy.stats import chi2, norm

from discreet.core import ExponentialMechanism, Gaussian, Noise, SeededBits
from discreet.core.questions import (
    Gradient,
    LineLosses,
    MedianNorm,
    MedianSlope,
    Public,
    Relation,
    RowSum,
)
from discreet.errors import NotSupported, PrivacyError
from discreet.objectives import Logistic
from discreet.rows import Sum, as_rows
from discreet.rows.moments import norm_candidates
from discreet.sites.shares import (
    BLOCK,
    GaussianShare,
    MedianCounts,
    divided,
    is_divisible,
    log2_distance,
    share_of,
    summed,
)

PUBLIC = Public(Relation.ADD_REMOVE, 1000, 3, 4, 1.0)


def rounded(ratio, reach):
    """Return the probabilities of a rounded Gaussian of standard deviation ``ratio``."""
    edges = np.arange(-reach, reach + 2) - 0.5
    return np.diff(norm.cdf(edges, scale=ratio))


def ideal(sites, ratio, reach):
    """Return those of a Gaussian that is rounded at random by a B-spline of order K."""
    knots = np.arange(sites + 1) - sites / 2
    kernel = BSpline.basis_element(knots, extrapolate=False)
    steps = 400  # between two knots
    grid = np.arange(-sites / 2, sites / 2, 1 / steps) + 0.5 / steps
    weights = np.nan_to_num(kernel(grid)) / steps
    points = np.arange(-reach, reach + 1)
    scale = ratio * math.sqrt(sites)
    return np.array([norm.pdf(point - grid, scale=scale) @ weights for point in points])


@pytest.mark.parametrize("sites", [2, 3, 5])
@pytest.mark.parametrize("ratio", [0.5, 0.75, 1.0, 1.25])
def test_the_sum_of_rounded_gaussians_is_as_near_to_the_ideal_as_proven(sites, ratio):
    """Exact probabilities on coarse grids, where the distance can be seen."""
    reach = 40
    one = rounded(ratio, reach)
    total = one
    for _ in range(sites - 1):
        total = np.convolve(total, one)
    middle = len(total) // 2
    found = total[middle - reach : middle + reach + 1]
    distance = 0.5 * np.abs(found - ideal(sites, ratio, reach)).sum()
    assert distance <= 2 ** log2_distance(sites, ratio) + 1e-6  # integration by 400 points


def test_the_distance_is_seen_where_the_grid_is_coarse():
    """The bound is not met by a mile: on a coarse grid the sum is no rounded Gaussian."""
    one = rounded(0.2, 20)
    total = np.convolve(one, one)[20:61]
    assert 0.5 * np.abs(total - ideal(2, 0.2, 20)).sum() > 0.01


@pytest.mark.parametrize("sites", [2, 10, 1000])
def test_the_distance_is_negligible_at_the_least_ratio(sites):
    assert log2_distance(sites, 2.0**10) < -7_000_000


def test_shares_need_a_grid_that_is_fine_enough():
    share = GaussianShare(1.0, 2)
    share._draw(Noise(SeededBits(0)), 1, 3, 1.0, -12)
    with pytest.raises(PrivacyError, match="steps of the grid"):
        share._draw(Noise(SeededBits(0)), 1, 3, 1.0, -10)


@pytest.mark.parametrize(("sites", "parts"), [(1, 1), (4, 3), (10, 9), (10, 1)])
def test_the_shares_of_honest_sites_have_the_variance_that_is_charged(sites, parts):
    """A chi-square test of the variance with false alarms below 1e-6; half the noise would fail."""
    question = Gradient(Logistic(), np.zeros(4), 1.0)
    exact = Sum(np.zeros(4000), 1e-9)
    scale, grid = None, None
    total = np.zeros(4000, dtype=np.int64)
    bits = SeededBits(sites)
    for own in bits.spawn(parts):
        share = share_of(
            exact, question, Gaussian(3.0), PUBLIC, sites=sites, sharing=parts, noise=Noise(own)
        )
        total += share.values
        scale, grid = share.scale, share.grid
    assert scale >= 3.0 * (1 + 2e-9 + math.sqrt(4000) * 2.0**grid)
    statistic = np.square(total * 2.0**grid / scale).sum()
    assert chi2.ppf(5e-7, 4000) < statistic < chi2.ppf(1 - 5e-7, 4000)


def test_shares_cover_the_relation_and_the_rounding_error():
    question = Gradient(Logistic(), np.zeros(4), 2.0)
    replaced = PUBLIC._replace(relation=Relation.REPLACE_ONE)
    for public, change in ((PUBLIC, 2.0), (replaced, 4.0)):
        share = share_of(
            Sum(np.zeros(2), 0.25),
            question,
            Gaussian(5.0),
            public,
            sites=3,
            sharing=2,
            noise=Noise(SeededBits(0)),
        )
        assert share.scale == pytest.approx(5.0 * (change + 0.5), rel=1e-6)


def test_a_sum_beyond_its_bound_is_cut():
    question = Gradient(Logistic(), np.zeros(4), 1.0)
    share = share_of(
        Sum(np.array([1e9, -1e9]), 0.0),
        question,
        Gaussian(1e-3),
        PUBLIC,
        sites=3,
        sharing=2,
        noise=Noise(SeededBits(0)),
    )
    np.testing.assert_allclose(share.values * 2.0**share.grid, [1001, -1001], atol=0.1)


def test_the_grid_has_room_for_all_sites():
    question = Gradient(Logistic(), np.zeros(4), 1.0)
    public = PUBLIC._replace(n_rows=2**32)
    shares = [
        share_of(
            Sum(np.array([2.0**32]), 0.0),
            question,
            Gaussian(1.0),
            public,
            sites=500,
            sharing=500,
            noise=Noise(SeededBits(seed)),
        )
        for seed in range(500)
    ]
    total = summed(np.array([share.values.view(np.uint64) for share in shares]))
    assert total[0] * 2.0 ** shares[0].grid == pytest.approx(500 * 2.0**32, rel=1e-9)


# ---- medians


def rows_of(norms, weights=None):
    X = np.zeros((len(norms), 2))
    X[:, 0] = norms
    size = None if weights is None else len(norms)
    return as_rows(X, np.ones(len(norms)), fit_intercept=False, weights=weights, public_size=size)


@pytest.mark.parametrize("weighted", [False, True])
def test_counts_for_a_median_move_by_at_most_their_sensitivity(weighted):
    rng = np.random.default_rng(3)
    counts = MedianCounts(MedianNorm())
    for _ in range(20):
        norms = np.exp(rng.normal(size=40))
        norms[rng.integers(40)] *= 10.0 ** rng.integers(-30, 30)
        weights = rng.random(40) if weighted else None
        whole = counts.on(rows_of(norms, weights))
        fewer = counts.on(rows_of(norms[1:], None if weights is None else weights[1:]))
        apart = np.linalg.norm(whole.values - fewer.values)
        assert apart <= counts.sensitivity(Relation.ADD_REMOVE) + 2 * whole.error
        other = norms.copy()
        other[0] *= 1000
        apart = np.linalg.norm(whole.values - counts.on(rows_of(other, weights)).values)
        assert apart <= counts.sensitivity(Relation.REPLACE_ONE) + 2 * whole.error
    assert counts.sensitivity(Relation.ADD_REMOVE) == pytest.approx(math.sqrt(2))
    assert counts.sensitivity(Relation.REPLACE_ONE) == pytest.approx(2)


@pytest.mark.parametrize("largest", [None, 3.0])
def test_the_median_of_exact_counts_is_the_candidate_above_half_of_the_rows(largest):
    rng = np.random.default_rng(4)
    candidates = norm_candidates(largest)
    counts = MedianCounts(MedianNorm(largest))
    for _ in range(30):
        norms = np.exp(2 * rng.normal() + rng.normal(size=101))
        found = counts.chosen(counts.on(rows_of(norms)).values)
        below = (norms[:, None] <= candidates).sum(axis=0)
        below[-1] = norms.size
        assert found == candidates[np.argmax(below >= 50.5)]
    assert counts.on(rows_of([1.0])).values.size == candidates.size + -(-candidates.size // BLOCK)


def test_a_choice_of_a_median_becomes_a_count_of_no_higher_cost():
    for epsilon in (1e-3, 0.1, 1.0, 5.0):
        choice = ExponentialMechanism(epsilon, monotone=False)
        question, mechanism = divided(MedianNorm(), choice)
        assert isinstance(question, MedianCounts)
        assert 0.999 * choice.loss.mu <= mechanism.loss.mu <= choice.loss.mu


def test_what_cannot_be_divided_is_refused():
    line = LineLosses(Logistic(), np.zeros(2), np.ones(2), np.ones(3), 1.0, np.zeros(3))
    with pytest.raises(NotSupported, match="cannot be divided"):
        divided(line, ExponentialMechanism(1.0, monotone=True))
    with pytest.raises(NotSupported, match="cannot be divided"):
        divided(RowSum(1.0), GaussianShare(1.0, 2))


@pytest.mark.parametrize("parts", [1, 3, 7, 9, 11, 997])
def test_rounding_takes_nothing_from_the_noise(parts, monkeypatch):
    """The variances of all shares add up to at least the variance that is charged, exactly."""
    used = []

    def drawn(own, noise, count, size, scale, grid):
        used.append(scale)
        return np.zeros((count, size), dtype=np.int64)

    monkeypatch.setattr(Gaussian, "_draw", drawn)
    for scale in np.random.default_rng(parts).uniform(1.0, 2.0, 50):
        GaussianShare(1.0, parts)._draw(Noise(SeededBits(0)), 1, 1, float(scale), -30)
        assert parts * Fraction(used[-1]) ** 2 >= Fraction(float(scale)) ** 2


def test_counts_of_a_median_check_what_the_median_does():
    public = Public(Relation.ADD_REMOVE, 1000, 3, 4, 1.0)
    MedianCounts(MedianSlope(Logistic(), np.zeros(4))).check(public, Gaussian(1.0))
    with pytest.raises(ValueError, match="weights"):
        MedianCounts(MedianSlope(Logistic(), np.zeros(9))).check(public, Gaussian(1.0))


def test_a_sum_with_a_release_of_its_own_is_not_divided():
    class Own(RowSum):
        def release(self, exact, mechanism, public, noise):
            return exact

    assert is_divisible(RowSum(1.0), Gaussian(1.0))
    assert not is_divisible(Own(1.0), Gaussian(1.0))
