"""Sums of clipped rows, squares and products keep their contract; moved rows are their own."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.rows import AffineMap, RowWeights, as_rows
from discreet.rows.bounds import gradient_error
from discreet.rows.moments import (
    cell_counts,
    column_counts,
    edge_counts,
    outer_sum,
    row_sum,
    square_sum,
)

from .questions import triangle

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 5)) * rng.lognormal(sigma=2.0, size=(300, 1))
X[rng.random(X.shape) < 0.3] = 0.0
CLIP = 1.5
FREE = AffineMap.to_norm(1.0, 5)


def rows_of(table, clip=CLIP):
    return as_rows(table, np.zeros(table.shape[0]), fit_intercept=False, row_norm=clip)


def rotated(rows, matrix, **settings):
    return rows.written(FREE.then(matrix), **settings)


def shifted(rows, shift):
    return rows.written(FREE.then(1.0, shift))


def clipped(table, clip=CLIP):
    norms = np.linalg.norm(np.asarray(table, dtype=np.float64), axis=1)
    return table * np.minimum(1.0, clip / np.maximum(norms, 1e-300))[:, None]


def weighted(matrix):
    first, second, weights = triangle(len(matrix))
    return matrix[first, second] * weights


def test_sums_are_those_of_clipped_rows_in_every_layout(make_layout):
    table = make_layout(X)
    dense = clipped(np.asarray(table.toarray() if sp.issparse(table) else table, dtype=np.float64))
    rows = rows_of(table)
    total = row_sum(rows)
    assert np.linalg.norm(total.values - dense.sum(axis=0)) <= total.error + 1e-11
    outer = outer_sum(rows)
    assert outer.values.shape == (15,)
    assert np.linalg.norm(outer.values - weighted(dense.T @ dense)) <= outer.error + 1e-11
    squares = square_sum(rows)
    assert squares.values == pytest.approx(np.square(dense).sum(axis=0), rel=1e-12)


def shortened(table, share):
    """Squares of clipped rows, those of each scaled down to norm share·CLIP²."""
    squares = np.square(clipped(table))
    norms = np.linalg.norm(squares, axis=1)
    return squares * np.minimum(1.0, share * CLIP**2 / np.maximum(norms, 1e-300))[:, None]


def test_squares_are_scaled_down_to_their_share(make_layout):
    table = make_layout(X)
    dense = np.asarray(table.toarray() if sp.issparse(table) else table, dtype=np.float64)
    for share in (0.999, 0.5, 0.01):
        squares = square_sum(rows_of(table), share)
        assert squares.values == pytest.approx(shortened(dense, share).sum(axis=0), rel=1e-6)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("size", [1e-150, 1e-5, 1.0, 1e150])
def test_no_squares_exceed_their_share(kind, size):
    for seed in range(20):
        x = np.random.default_rng(seed).normal(size=(1, 7)) * size
        x[0, : seed % 7] = 0.0
        squares = square_sum(rows_of(kind(x), clip=0.1), 0.4)
        exact = sum(Fraction(v) ** 2 for v in squares.values)
        assert exact <= (Fraction(0.4) * Fraction(0.1) ** 2) ** 2  # to the last bit


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_squares_of_rows_with_weights_are_scaled_down_to_shares_of_these(kind):
    weights = np.random.default_rng(4).random(300)
    weights[:5] = 0.0
    settings = {"fit_intercept": False, "weights": weights, "public_size": 300}
    rows = as_rows(kind(X), np.zeros(300), row_norm=CLIP, **settings)
    want = (rows.weights[:, None] * shortened(X, 0.3)).sum(axis=0)
    assert square_sum(rows, 0.3).values == pytest.approx(want, rel=1e-6)


def test_a_share_is_between_0_and_1():
    for share in (0.0, 1.5, math.nan):
        with pytest.raises(ValueError, match="share must be"):
            square_sum(rows_of(X), share)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_errors_hold_against_exact_arithmetic(kind):
    rows = rows_of(kind(X))
    exact = [
        [Fraction(float(scale)) * Fraction(float(v)) for v in x]
        for scale, x in zip(rows.scales, X, strict=True)
    ]
    total = row_sum(rows)
    gap = [Fraction(total.values[j]) - sum(x[j] for x in exact) for j in range(5)]
    assert sum(g * g for g in gap) <= Fraction(total.error) ** 2
    # the outer products are of rows whose entries were rounded once
    rounded = [
        [Fraction(float(scale * v)) for v in x] for scale, x in zip(rows.scales, X, strict=True)
    ]
    outer = outer_sum(rows)
    square = Fraction(0)
    for k, (i, j) in enumerate(zip(*triangle(5)[:2], strict=True)):
        entry = sum(x[i] * x[j] for x in rounded)
        if i != j:  # √2, to 40 digits
            entry *= Fraction(math.isqrt(2 * 10**80), 10**40)
        square += (Fraction(outer.values[k]) - entry) ** 2
    assert square <= Fraction(outer.error) ** 2
    assert outer.error == gradient_error(300, 4096, CLIP, roundings=4) * CLIP
    squares = square_sum(rows)
    gap = [Fraction(squares.values[j]) - sum(x[j] ** 2 for x in rounded) for j in range(5)]
    assert sum(g * g for g in gap) <= Fraction(squares.error) ** 2
    assert squares.error == gradient_error(300, 4096, CLIP, roundings=4) * CLIP


@pytest.mark.parametrize("size", [1e-150, 1e-5, 1.0, 1e150, 1e300])
def test_no_row_exceeds_the_clip_however_it_is_scaled(size):
    for seed in range(50):
        x = np.random.default_rng(seed).normal(size=(1, 7)) * size
        rows = rows_of(x, clip=0.1)
        (scale,) = rows.scales
        exact = [Fraction(float(scale)) * Fraction(float(v)) for v in x[0]]
        assert sum(v * v for v in exact) <= Fraction(0.1) ** 2
        rounded = [Fraction(float(scale * v)) for v in x[0]]
        assert sum(v * v for v in rounded) <= Fraction(0.1) ** 2


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_neighbours_are_no_further_apart_than_the_sensitivity(kind):
    base_sum, base_outer = row_sum(rows_of(kind(X))), outer_sum(rows_of(kind(X)))
    base_squares, base_short = square_sum(rows_of(kind(X))), square_sum(rows_of(kind(X)), 0.3)
    close = 0.0
    for i in range(0, 300, 7):
        fewer = np.delete(X, i, axis=0)
        other = X.copy()
        other[i] = -50 * rng.normal(size=5)
        for table, linear, square in (
            (fewer, CLIP, CLIP**2),
            (other, 2 * CLIP, math.sqrt(2) * CLIP**2),
        ):
            rows = rows_of(kind(table))
            moved = np.linalg.norm(row_sum(rows).values - base_sum.values)
            assert moved <= linear + 2 * base_sum.error
            moved = np.linalg.norm(outer_sum(rows).values - base_outer.values)
            assert moved <= square + 2 * base_outer.error
            close = max(close, moved / square)
            moved = np.linalg.norm(square_sum(rows).values - base_squares.values)
            assert moved <= square + 2 * base_squares.error
            moved = np.linalg.norm(square_sum(rows, 0.3).values - base_short.values)
            assert moved <= 0.3 * square + 2 * base_short.error
    assert close > 0.95  # and no smaller bound would do


def test_orthogonal_rows_attain_the_bound_for_a_replaced_row():
    first, second = rows_of(np.array([[CLIP, 0.0]])), rows_of(np.array([[0.0, CLIP]]))
    apart = np.linalg.norm(outer_sum(first).values - outer_sum(second).values)
    assert apart == pytest.approx(math.sqrt(2) * CLIP**2)
    apart = np.linalg.norm(square_sum(first).values - square_sum(second).values)
    assert apart == pytest.approx(math.sqrt(2) * CLIP**2)
    assert np.linalg.norm(square_sum(first).values) == pytest.approx(CLIP**2)  # one row more
    apart = np.linalg.norm(square_sum(first, 0.3).values - square_sum(second, 0.3).values)
    assert apart == pytest.approx(0.3 * math.sqrt(2) * CLIP**2)
    assert np.linalg.norm(square_sum(first, 0.3).values) == pytest.approx(0.3 * CLIP**2)


def test_blocks_and_threads_add_up(monkeypatch):
    from discreet.rows import table as tables

    monkeypatch.setattr(tables, "ENTRIES_WORTH_A_THREAD", 1000)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    big = np.random.default_rng(3).normal(size=(20_000, 6))
    want = clipped(big)
    for table in (big, np.asfortranarray(big), sp.csr_array(big)):
        rows = rows_of(table)
        total, outer = row_sum(rows), outer_sum(rows)
        assert np.linalg.norm(total.values - want.sum(axis=0)) <= total.error + 1e-9
        assert np.linalg.norm(outer.values - weighted(want.T @ want)) <= outer.error + 1e-9
        squares = square_sum(rows)
        assert np.linalg.norm(squares.values - (want**2).sum(axis=0)) <= squares.error + 1e-9


def test_moved_rows_have_the_same_bits_wherever_they_stand(make_layout):
    matrix = np.random.default_rng(1).normal(size=(5, 5))
    shift = np.arange(5.0)
    order = np.random.default_rng(2).permutation(300)
    table = make_layout(X)
    turned, moved = rotated(rows_of(table), matrix), shifted(rows_of(table), shift)
    dense = clipped(np.asarray(table.toarray() if sp.issparse(table) else table, dtype=np.float64))
    assert turned.dtype == table.dtype
    del table  # a memory map is of one file, which is written anew below
    again = make_layout(X[order])
    assert np.array_equal(turned[order], rotated(rows_of(again), matrix))
    assert np.array_equal(moved[order], shifted(rows_of(again), shift))
    del again
    alone = make_layout(X[17:18])
    assert np.array_equal(turned[17:18], rotated(rows_of(alone), matrix))
    assert turned == pytest.approx(dense @ matrix.T, rel=1e-4, abs=1e-4)
    assert moved == pytest.approx(dense - shift, rel=1e-4, abs=1e-4)


def test_rows_can_be_moved_in_place():
    matrix = np.random.default_rng(1).normal(size=(5, 5))
    for kind in (np.float64, np.float32):
        table = X.astype(kind)
        want = rotated(rows_of(table), matrix)
        rows = rows_of(table)
        assert rotated(rows, matrix, out=table) is table
        assert np.array_equal(table, want)


def test_columns_are_as_stored(make_layout):
    table = make_layout(X)
    dense = np.asarray(table.toarray() if sp.issparse(table) else table, dtype=np.float64)
    for j in range(5):
        column = rows_of(table).table.column(j)
        assert column.dtype == np.float64
        assert np.array_equal(column, dense[:, j])
        edges = np.sort(dense[::40, j])
        counts = column_counts(rows_of(table), j, edges)
        assert np.array_equal(counts.values, cell_counts(dense[:, j], edges))
        assert counts.unit == 1
    for j in (-1, 5):
        with pytest.raises(ValueError, match="column"):
            column_counts(rows_of(table), j, np.zeros(1))


def test_entries_between_edges_are_those_of_a_histogram_in_every_layout(make_layout):
    table = make_layout(X)
    dense = np.asarray(table.toarray() if sp.issparse(table) else table, dtype=np.float64)
    rows = rows_of(table)
    own = rows.with_weights(RowWeights.of(np.linspace(0.0, 1.0, 300), 300))
    edges = np.array([[-2.0, -0.5, 0.0, 1.0], [-1e9, -1.0, 3.0, 1e9]])
    for some, weights in ((rows, np.ones(300)), (own, own.row_weights.values)):
        counts = edge_counts(some, (3, 1), edges).values.reshape(2, 4)
        for found, column, between in zip(counts, (3, 1), edges, strict=True):
            values = np.clip(dense[:, column], between[0], between[-1])
            expected = np.histogram(values, between, weights=weights)[0]
            assert found == pytest.approx([*expected, 0.0], abs=1e-12)


def test_entries_of_many_blocks_of_rows_are_counted_once_each():
    tall = np.arange(3.0 * 70_000).reshape(-1, 3) % 7
    tall[5::10, 1] = np.nan
    sparse = sp.csr_array(tall)  # zeros are not stored
    for table in (tall, sparse):
        rows = as_rows(table, np.zeros(70_000), fit_intercept=False, gaps=True)
        own = rows.with_weights(RowWeights.of(np.linspace(0.0, 1.0, 70_000), 70_000))
        for some, weights in ((rows, np.ones(70_000)), (own, own.row_weights.values)):
            counts = edge_counts(some, (0, 1), np.tile([0.0, 1.0, 2.0, 7.0], (2, 1))).values
            codes = [np.nan_to_num(tall[:, j], nan=7.0).astype(int) for j in (0, 1)]
            sums = [np.bincount(one, weights, 8) for one in codes]
            expected = [[one[0], one[1], one[2:7].sum(), one[7]] for one in sums]
            assert counts == pytest.approx(np.ravel(expected), rel=1e-12)


def test_moments_need_a_bound_and_moves_need_numbers():
    free = as_rows(X, np.zeros(300), fit_intercept=False)
    for ask in (row_sum, outer_sum, square_sum, lambda rows: rows.scaled(1.0)):
        with pytest.raises(ValueError, match="row_norm"):
            ask(free)
    with pytest.raises(ValueError, match="5 columns"):
        rows_of(X).written(AffineMap.to_norm(1.0, 4))
    with pytest.raises(ValueError, match="finite"):
        shifted(rows_of(X), np.full(5, np.nan))
    with pytest.raises(ValueError, match="finite"):
        rotated(rows_of(X), np.full((5, 5), np.nan))


def test_rows_without_a_bound_are_moved_as_they_are():
    matrix = np.random.default_rng(1).normal(size=(5, 5))
    for table in (X, sp.csr_array(X)):
        free = as_rows(table, np.zeros(300), fit_intercept=False)
        assert np.array_equal(shifted(free, np.arange(5.0)), X - np.arange(5.0))
        assert rotated(free, matrix) == pytest.approx(X @ matrix.T, rel=1e-12, abs=1e-10)


def test_scaled_rows_have_the_same_bits_wherever_they_stand_and_stay_sparse(make_layout):
    order = np.random.default_rng(2).permutation(300)
    table = make_layout(X)
    plain = np.array(table.toarray() if sp.issparse(table) else table, dtype=np.float64)
    scaled = rows_of(table).scaled(1 / CLIP)
    assert sp.issparse(scaled) == sp.issparse(table)
    assert scaled.dtype == table.dtype
    del table
    again = rows_of(make_layout(X[order])).scaled(1 / CLIP)
    alone = rows_of(make_layout(X[17:18])).scaled(1 / CLIP)
    scaled, again, alone = (
        table.toarray() if sp.issparse(table) else table for table in (scaled, again, alone)
    )
    assert scaled == pytest.approx(clipped(plain) / CLIP, rel=1e-6)
    assert np.linalg.norm(scaled.astype(np.float64), axis=1).max() <= 1 + 1e-6
    assert np.array_equal(scaled[order], again)
    assert np.array_equal(scaled[17:18], alone)


@pytest.mark.parametrize("size", [0.0, 1e-300, 1e300, 1.7e308])
def test_rows_of_any_length_are_scaled_to_finite_ones(size):
    for kind in (np.asarray, sp.csr_array):
        scaled = rows_of(kind(np.full((2, 9), size)), clip=2.0).scaled(0.5)
        dense = scaled.toarray() if sp.issparse(scaled) else scaled
        assert np.isfinite(dense).all()
        assert np.linalg.norm(dense, axis=1).max() <= 1 + 1e-12


def test_norms_are_those_of_the_rows_a_hair_up(make_layout):
    table = make_layout(X)
    plain = np.asarray(table.toarray() if sp.issparse(table) else table, dtype=np.float64)
    free = as_rows(table, np.zeros(300), fit_intercept=False)
    norms = free.norms()
    exact = np.linalg.norm(plain, axis=1)
    assert (norms >= exact).all()
    assert norms == pytest.approx(exact, rel=1e-14, abs=1e-100)
    norms[:] = 0.0  # a copy
    assert (free.norms() >= exact).all()
    assert rows_of(table).norms().max() == CLIP
    with_constant = as_rows(table, np.zeros(table.shape[0]), fit_intercept=True)
    assert with_constant.norms() == pytest.approx(exact, rel=1e-6, abs=1e-5)


def test_a_sparse_table_is_not_made_dense():
    import tracemalloc

    n, d = 200_000, 500
    table = sp.random_array((n, d), density=0.002, format="csr", rng=np.random.default_rng(0))
    rows = rows_of(table)
    outer_sum(rows_of(table[:10]))  # compiles
    square_sum(rows_of(table[:10]))
    tracemalloc.start()
    outer, squares = outer_sum(rows), square_sum(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n * d * 8 / 20
    first = clipped(table[:, [0, 1]].toarray(), math.inf) * rows.scales[:, None]
    assert outer.values[0] == pytest.approx((first[:, 0] ** 2).sum())
    assert squares.values[:2] == pytest.approx((first**2).sum(axis=0))
    assert outer.values[1] == pytest.approx(math.sqrt(2) * (first[:, 0] @ first[:, 1]))
