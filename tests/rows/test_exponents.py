"""Counts of binary exponents: cells by hand, one cell per entry, neighbours, storage, maps."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.rows import EXPONENTS, OCTAVES, AffineMap, as_rows
from discreet.rows.moments import exponent_counts

CELLS = EXPONENTS[1] - EXPONENTS[0] + 2


def counts(X, affine=None, **settings):
    rows = as_rows(X, np.zeros(X.shape[0]), fit_intercept=False, **settings)
    if affine is not None:
        rows = as_rows(X, np.zeros(X.shape[0]), row_norm=affine.row_norm)
        rows = rows.transformed(affine, fit_intercept=False)
    found = exponent_counts(rows)
    assert 0 < found.error < 1e-7
    return found.values.reshape(X.shape[1], CELLS)


def cell(exponent):
    return exponent - EXPONENTS[0]


def test_cells_by_hand():
    X = np.array([[0.0], [0.75], [-0.75], [1.0], [-1.0], [1.5], [1e30], [1e-30], [0.5]])
    found = counts(X)[0]
    expected = np.zeros(CELLS)
    expected[[cell(0), cell(1), cell(64), cell(-63), CELLS - 1]] = [3, 1, 1, 1, 2]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_and_dense_tables_have_the_same_counts(dtype):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(5000, 7)) * (rng.random((5000, 7)) < 0.3)).astype(dtype)
    X[:, 3] = X[:, 3] != 0
    dense = counts(X)
    np.testing.assert_array_equal(dense, counts(sp.csr_array(X)))
    np.testing.assert_array_equal(dense.sum(axis=1), (X != 0).sum(axis=0))
    expected = np.clip(np.frexp(X[:, 0])[1], *EXPONENTS)[X[:, 0] != 0] - EXPONENTS[0]
    np.testing.assert_array_equal(dense[0], np.bincount(expected, minlength=CELLS))
    assert dense[3, -1] == dense[3].sum()


@pytest.mark.parametrize("sparse", [False, True])
def test_a_row_moves_the_counts_by_the_root_of_the_columns(sparse):
    """Whatever is in it: √d for one row more and √(2d) for a replaced row, and both are reached."""
    rng = np.random.default_rng(1)
    d = 9
    X = np.exp(rng.normal(size=(300, d)) * 20) * rng.choice([-1, 0, 1], size=(300, d))
    largest = 0.0
    for _ in range(50):
        row, other = (np.exp2(rng.integers(-80, 80, size=d)) * rng.normal(size=d) for _side in "ab")
        table = sp.csr_array if sparse else np.asarray
        one, two = np.vstack([X, row]), np.vstack([X, other])
        added = np.linalg.norm(counts(table(one)) - counts(table(X)))
        replaced = np.linalg.norm(counts(table(one)) - counts(table(two)))
        assert added <= math.sqrt(d)
        assert replaced <= math.sqrt(2 * d)
        largest = max(largest, added)
    assert largest == pytest.approx(math.sqrt(d))


def test_mapped_rows_are_counted_after_the_map():
    X = np.array([[1000.0, 3.0], [1001.0, 3.0], [1002.5, 0.0]])
    affine = AffineMap.to_norm(1e6, 2).then(1.0, np.array([1000.0, 0.0])).then(2.0)
    found = counts(X, affine)
    assert found[0, [cell(2), cell(3)]].tolist() == [1.0, 1.0]
    assert found[0].sum() == 2  # the first row's entry is 0
    assert found[1, cell(3)] == 2


@pytest.mark.parametrize("layout", [np.asarray, np.asfortranarray, sp.csr_array])
def test_rows_count_by_their_weights(layout):
    """Three rows of a person with a third each move a column's cells by 1 together."""
    X = layout(np.array([[2.0, 0.0], [2.0, 5.0], [9.0, 5.0], [2.0, 7.0]]))
    third = np.floor(2**30 / 3) / 2**30
    found = counts(X, weights=[third, third, third, 1.0], public_size=2)
    assert found[0, cell(2)] == 2 * third + 1
    assert found[0, cell(4)] == third
    assert found[1, cell(3)] == 2 * third + 1
    assert found.sum() == 5 * third + 2


@pytest.mark.parametrize("layout", [np.asarray, np.asfortranarray, np.float32, sp.csr_array])
def test_scaled_and_mapped_rows_count_as_the_written_table_does(layout):
    generator = np.random.default_rng(4)
    X = generator.standard_normal((5000, 3)).astype(np.float32).astype(np.float64)
    affine = (
        AffineMap.to_norm(1.0, 3)
        .then(1.0, np.array([0.1, 0.0, -2.0]))
        .then(np.array([8.0, 1.0, 0.3]))
    )
    rows = as_rows(layout(X), np.zeros(5000), fit_intercept=False, row_norm=1.0)
    written = affine.linear * (rows.scales[:, None] * X) - affine.offset
    mapped = exponent_counts(rows.transformed(affine, fit_intercept=False)).values
    np.testing.assert_array_equal(mapped.reshape(3, -1), counts(written))


def largest(X, among=None, **settings):
    rows = as_rows(X, np.zeros(X.shape[0]), fit_intercept=False, **settings)
    found = exponent_counts(rows, np.full(X.shape[1], True) if among is None else np.array(among))
    all_entries = exponent_counts(rows).error  # of vectors of norm √d
    assert found.error == pytest.approx(all_entries * math.sqrt(2 / X.shape[1]))
    return found.values.reshape(X.shape[1] + 1, -1)


def size(exponent):
    return (exponent - EXPONENTS[0]) // OCTAVES


@pytest.mark.parametrize("layout", [np.asarray, np.asfortranarray, np.float32, sp.csr_array])
def test_rows_count_by_their_largest_entry(layout):
    """By its column and size, and by its size; ±1 is of exponent 1, and a row of zeros is none."""
    X = np.array([[1.0, 0.5, 0.0], [3.0, -70.0, 9.0], [0.0, 0.0, 0.0], [-1e30, 5.0, 1e-30]])
    found = largest(layout(X))
    expected = np.zeros((4, -(-(EXPONENTS[1] - EXPONENTS[0] + 1) // OCTAVES)))
    for column, exponent in ((0, 1), (1, 7), (0, 64)):
        expected[column, size(exponent)] += 1
        expected[3, size(exponent)] += 1
    np.testing.assert_array_equal(found, expected)
    without = largest(layout(X), [True, False, True])
    assert not without[1].any()
    assert without[2, size(4)] == without[3, size(4)] == 1


@pytest.mark.parametrize("sparse", [False, True])
def test_a_row_moves_the_counts_of_largest_entries_by_little(sparse):
    """By √2 for one row more and 2 for a replaced one, whatever is in it; both are reached."""
    rng, storage = np.random.default_rng(1), sp.csr_array if sparse else np.asarray
    X = rng.normal(size=(300, 9))
    one, other = np.zeros((2, 1, 9))
    one[0, 2], other[0, 5] = 1e9, 1e-9
    changes = [one, other, *(np.exp2(rng.integers(-80, 80, size=(1, 9))) for _ in range(30))]
    tables = [largest(storage(np.vstack([X, row]))) for row in changes]
    added = [np.linalg.norm(counted - largest(storage(X))) for counted in tables]
    replaced = [np.linalg.norm(counted - tables[0]) for counted in tables]
    assert max(added) == pytest.approx(math.sqrt(2))
    assert max(replaced) == pytest.approx(2.0)


def test_largest_entries_of_weighted_and_mapped_rows():
    X = np.array([[2.0, 0.0], [2.0, 5.0], [9.0, 5.0], [2.0, 70.0]])
    found = largest(X, weights=[0.25, 0.25, 0.5, 1.0], public_size=2)
    assert found[0, size(2)] == found[2, size(2)] == 0.25
    assert found.sum() == 4.0
    rows = as_rows(X, np.zeros(4), fit_intercept=False).with_units(np.array([64.0, 1.0]))
    counted = exponent_counts(rows, np.array([True, True])).values.reshape(3, -1)
    assert counted[:2].sum(axis=1).tolist() == [4.0, 0.0]
