"""Weights of columns that no row carries are dropped; those that rows determine are not."""

import numpy as np
import pytest

from discreet.preparation import support as support_module
from discreet.preparation.support import CLEAR, TYPICAL_MOMENT, Support
from discreet.rows import AffineMap


def diagonal(*weights):
    return AffineMap.to_norm(np.inf, len(weights)).scaled(np.array(weights))


def dropped(moments, weights, lengths, deviations=None, norm=1.0):
    """Return the weights of prepared rows that are left, and which features were dropped."""
    count = len(moments)
    deviations = np.ones(count) if deviations is None else np.array(deviations)
    support = Support(np.array(moments), deviations, norm)
    slopes, without = support.averaged(np.array([weights]), diagonal(*lengths))
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
    support = Support(np.array([99.0, 0.0, 0.0]), np.ones(3), 1.0, made=1)
    left, without = support.averaged(np.ones((1, 3)), diagonal(0.5, 5.0, 5.0))
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
    units = AffineMap.in_units(np.array([1.0, 1024.0])).scaled(np.array([0.5, 0.5]))
    support = Support(np.array([99.0, 0.0]), np.ones(2), 1.0)
    assert not support.averaged(np.ones((1, 2)), units)[1].any()
    longer = AffineMap.in_units(np.array([1.0, 1024.0])).scaled(np.array([0.5, 5.0]))
    assert support.averaged(np.ones((1, 2)), longer)[1].tolist() == [False, True]


def test_a_rotated_table_keeps_the_weights_of_other_features():
    rng = np.random.default_rng(0)
    matrix = np.eye(6) + 0.2 * rng.normal(size=(6, 6))
    matrix[:, 5] *= 20.0
    affine = AffineMap.to_norm(np.inf, 6).scaled(2.0 ** rng.integers(-30, 30, 6)).rotated(matrix)
    slopes = 0.1 * rng.normal(size=(3, 6))
    units = np.abs(affine.linear).max(axis=0) / np.abs(matrix).max(axis=0)
    affine = AffineMap(affine.row_norm, affine.linear, affine.offset, units)
    left, without = Support(np.array([99.0] * 5 + [0.0]), np.ones(6), 3.0).averaged(slopes, affine)
    assert without.tolist() == [False] * 5 + [True]
    before, after = slopes @ affine.linear, left @ affine.linear
    np.testing.assert_allclose(after[:, :5], before[:, :5], rtol=1e-6)
    np.testing.assert_allclose(after[:, 5] / before[:, 5], 0.0, atol=1e-9)


def test_the_smallest_probability_of_a_mistake_is_the_stated_one():
    """The comment on `CLEAR`: a column that no row carries is resolved by noise once in 140."""
    from scipy.stats import norm

    assert 1 / norm.sf(np.sqrt(CLEAR)) == pytest.approx(140, rel=0.01)
    assert "once in 140" in support_module.__loader__.get_source(support_module.__name__)
