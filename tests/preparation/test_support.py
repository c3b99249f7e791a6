"""Weights of columns that no row carries are dropped; those that rows determine are not."""

import numpy as np
import pytest

from discreet.preparation import support as support_module
from discreet.preparation.support import CLEAR, TYPICAL_MOMENT, Support
from discreet.rows import AffineMap


def diagonal(*weights):
    return AffineMap.to_norm(np.inf, len(weights)).then(np.array(weights))


def support_of(moments, scales, **more):
    """Return a support of independent columns, with noise of deviation 1 in each weight."""
    moment = np.diag(moments) if np.ndim(moments) == 1 else np.array(moments)
    size = len(moment)
    settings = {"root": np.eye(size), "norm": 1.0, "indicators": np.zeros(size, dtype=bool)}
    return Support(moment, np.array(scales), **(settings | more))


def dropped(moments, weights, lengths):
    """Return the weights of prepared rows that are left, and which features were dropped."""
    support = support_of(np.array(moments), lengths)
    slopes, without = support.determined(np.array([weights]), diagonal(*lengths))
    return slopes[0].tolist(), without.tolist()


def test_only_a_long_unresolved_column_loses_its_weight():
    lengths = [0.5, 5.0, 5.0, 0.5]  # a cell makes a row half or five times as long as a typical one
    left, without = dropped([50.0, 0.5, 50.0, 0.5], [1.0, 1.0, 1.0, 1.0], lengths)
    assert left == [1.0, 0.0, 1.0, 1.0]
    assert without == [False, True, False, False]


def test_a_weight_beyond_its_noise_is_kept_as_far_as_it_is():
    """Of 6 + 2·ln r squared deviations: at r = 5 that is 3.04 deviations."""
    clear = CLEAR + 2 * np.log(5.0)
    for weight in (3.0, 3.1, 6.0, -6.0):
        left, without = dropped([99.0, 0.0], [1.0, weight], [0.5, 5.0])
        kept = max(0.0, 1 - clear / weight**2)
        assert left[1] == pytest.approx(kept * weight, abs=1e-12)
        assert without[1] == (kept == 0)


def test_columns_of_an_expansion_keep_their_weights():
    support = support_of(np.array([99.0, 0.0, 0.0]), [0.5, 5.0, 5.0], made=1)
    left, without = support.determined(np.ones((1, 3)), diagonal(0.5, 5.0, 5.0))
    assert without.tolist() == [False, True, False]
    assert left.tolist() == [[1.0, 0.0, 1.0]]


def test_the_longer_a_cell_the_surer_its_column_must_be():
    """A moment of 2.6 deviations resolves a column of r = 1.1, and not one of r = 5."""
    for moment, length, expected in ((2.6, 1.1, False), (2.6, 5.0, True), (3.1, 5.0, False)):
        assert dropped([99.0, moment], [1.0, 1.0], [0.5, length])[1][1] is expected


def test_nothing_is_dropped_where_typical_columns_are_not_resolved():
    moments = [2 * TYPICAL_MOMENT - 0.1, 0.0]
    assert dropped(moments, [1.0, 1.0], [0.5, 5.0])[1] == [False, False]
    moments[0] += 0.2
    assert dropped(moments, [1.0, 1.0], [0.5, 5.0])[1] == [False, True]


def test_cells_are_counted_in_the_unit_of_their_column():
    """A column in thousandths has cells of 1/1000, so its length per unit says nothing."""
    for length, expected in ((0.5, False), (5.0, True)):
        scales = np.array([0.5, 1024 * length])
        units = AffineMap.in_units(np.array([1.0, 1024.0])).then(np.array([0.5, length]))
        support = support_of(np.array([99.0, 0.0]), scales)
        assert support.determined(np.ones((1, 2)), units)[1].tolist() == [False, expected]


def test_a_rotated_table_keeps_the_weights_of_other_features():
    """As after `Whiten`: columns of any unit, then a matrix that makes the last one long."""
    rng = np.random.default_rng(0)
    matrix = np.eye(6) + 0.2 * rng.normal(size=(6, 6))
    matrix[:, 5] *= 20.0
    scales = 2.0 ** rng.integers(-30, 30, 6)
    affine = AffineMap.in_units(scales).then(matrix)
    slopes = 0.1 * rng.normal(size=(3, 6))
    support = support_of(np.array([99.0] * 5 + [0.0]), scales, norm=3.0)
    left, without = support.determined(slopes, affine)
    assert without.tolist() == [False] * 5 + [True]
    before, after = slopes @ affine.linear, left @ affine.linear
    np.testing.assert_allclose(after[:, :5], before[:, :5], rtol=1e-6)
    np.testing.assert_allclose(after[:, 5] / before[:, 5], 0.0, atol=1e-9)


BLOCK = 99.0 * (np.eye(4) - 0.25)  # of four categories, each row has one: their sum does not vary


@pytest.mark.parametrize("noise", [2.0, 4.0])
def test_the_sum_of_a_block_of_categories_is_dropped_and_differences_are_not(noise):
    """The sum of the weights could be added to the intercept: no row determines it."""
    weights = np.array([[3.0, 1.0, 0.0, 2.0]])
    ones = np.ones(4, dtype=bool)
    support = support_of(BLOCK, 2.0 * np.ones(4), root=noise * np.eye(4), indicators=ones)
    left, without = support.determined(weights, diagonal(2.0, 2.0, 2.0, 2.0))
    np.testing.assert_allclose(left, [[1.5, -0.5, -1.5, 0.5]], atol=1e-9)
    assert not without.any()
    numbers = support_of(BLOCK, 2.0 * np.ones(4), root=noise * np.eye(4))
    assert numbers.determined(weights, diagonal(2.0, 2.0, 2.0, 2.0))[0].tolist() == weights.tolist()


def test_a_sum_that_is_clear_of_noise_is_kept():
    """Of 18 deviations, as far as they are beyond √(6 + 2·ln 2)."""
    ones = np.ones(4, dtype=bool)
    support = support_of(BLOCK, 2.0 * np.ones(4), indicators=ones, root=0.5 * np.eye(4))
    left, _ = support.determined(np.full((1, 4), 4.5), diagonal(2.0, 2.0, 2.0, 2.0))
    expected = 4.5 * (1 - CLEAR / 18**2)
    np.testing.assert_allclose(left, np.full((1, 4), expected), rtol=1e-9)


def test_directions_need_moments_far_above_the_largest_eigenvalue_of_noise():
    """Five times √(2·4) deviations: 14.1."""
    ones = np.ones(4, dtype=bool)
    for mean, expected in ((14.0, False), (14.3, True)):
        support = support_of(mean / 0.75 * (np.eye(4) - 0.25), np.ones(4) * 2, indicators=ones)
        left, _ = support.determined(np.ones((1, 4)), diagonal(2.0, 2.0, 2.0, 2.0))
        assert (np.abs(left).max() < 1e-9) == expected


def test_the_smallest_probability_of_a_mistake_is_the_stated_one():
    """The comment on `CLEAR`: a column that no row carries is resolved by noise once in 140."""
    from scipy.stats import norm

    assert 1 / norm.sf(np.sqrt(CLEAR)) == pytest.approx(140, rel=0.01)
    assert "once in 140" in support_module.__loader__.get_source(support_module.__name__)
