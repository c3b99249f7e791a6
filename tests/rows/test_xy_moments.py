"""Second moments of rows with targets: the contract of every sum, targets and constant included."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.rows import AffineMap, RowWeights, as_rows
from discreet.rows.bounds import gradient_error
from discreet.rows.moments import class_counts, target_sum, xy_moment_sum

from .questions import triangle

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 4)) * rng.lognormal(sigma=1.5, size=(300, 1))
X[rng.random(X.shape) < 0.3] = 0.0
Y = rng.normal(size=300) * rng.lognormal(sigma=1.5, size=300)
CLIP, WEIGHT, CENTRE = 2.5, 1.7, 0.3


def joint(rows, clip=CLIP, weight=WEIGHT, centre=CENTRE, **kind):
    return xy_moment_sum(rows, clip, weight, centre, **kind)


def vectors(x, y, intercept=True, clip=CLIP):
    parts = [x, np.ones((len(y), 1)), WEIGHT * (y[:, None] - CENTRE)]
    full = np.hstack(parts if intercept else parts[::2])
    return full * np.minimum(1.0, clip / np.linalg.norm(full, axis=1))[:, None]


def weighted(matrix):
    first, second, weights = triangle(len(matrix))
    return matrix[first, second] * weights


@pytest.mark.parametrize("intercept", [True, False])
def test_the_sum_is_that_of_scaled_vectors_in_every_layout(make_layout, intercept):
    table = make_layout(X)
    dense = np.asarray(table.toarray() if sp.issparse(table) else table, dtype=np.float64)
    rows = as_rows(table, Y, fit_intercept=intercept)
    v = vectors(dense, Y, intercept)
    np.testing.assert_allclose(joint(rows).values, weighted(v.T @ v), rtol=1e-10, atol=1e-9)
    bounded = as_rows(table, Y, fit_intercept=intercept, row_norm=0.8)
    norms = np.linalg.norm(dense, axis=1, keepdims=True)
    v = vectors(dense * np.minimum(1.0, 0.8 / np.maximum(norms, 1e-300)), Y, intercept)
    np.testing.assert_allclose(joint(bounded).values, weighted(v.T @ v), rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("intercept", [True, False])
def test_targets_alone_come_with_a_constant(intercept):
    rows = as_rows(X, Y, fit_intercept=intercept)
    v = vectors(np.empty((300, 0)), Y)
    np.testing.assert_allclose(joint(rows, features=False).values, weighted(v.T @ v), rtol=1e-10)


def exact_vectors(rows, table):
    """The vectors as the code rounds them, and their exact squared lengths."""
    targets = (rows.targets - CENTRE) * WEIGHT
    lengths = np.sqrt(rows.norm_bounds**2 + targets**2)
    limit = CLIP * (1 - 2.0**-40)
    factors = np.where(lengths > limit, limit / lengths, 1.0)
    full = np.column_stack([table * factors[:, None], factors, targets * factors])
    return [[Fraction(float(entry)) for entry in v] for v in full]


def test_errors_and_clips_hold_in_exact_arithmetic():
    rows = as_rows(X, Y)
    exact = exact_vectors(rows, X)
    assert max(sum(e * e for e in v) for v in exact) <= Fraction(CLIP) ** 2
    total = joint(rows)
    gap = Fraction(0)
    for k, (i, j) in enumerate(zip(*triangle(6)[:2], strict=True)):
        entry = sum(v[i] * v[j] for v in exact)
        if i != j:  # √2, to 40 digits
            entry *= Fraction(math.isqrt(2 * 10**80), 10**40)
        gap += (Fraction(total.values[k]) - entry) ** 2
    assert gap <= Fraction(total.error) ** 2
    assert total.error == gradient_error(300, 4096, CLIP, roundings=4) * CLIP


@pytest.mark.parametrize("size", [1e-300, 1e-5, 1.0, 1e150, 1e300])
@pytest.mark.parametrize("target", [0.0, 1e-300, 1.0, 1e300, -1.7e308])
def test_no_row_and_no_target_is_too_large(size, target):
    x = np.random.default_rng(1).normal(size=(1, 7)) * size
    for intercept in (True, False):
        for row_norm in (None, 0.5):
            rows = as_rows(x, np.array([target]), fit_intercept=intercept, row_norm=row_norm)
            total = xy_moment_sum(rows, 0.1, 1e6, -1.0)
            assert np.isfinite(total.values).all()
            assert np.linalg.norm(total.values) <= 0.1**2 * (1 + 1e-12)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_neighbours_are_no_further_apart_than_the_sensitivity(kind):
    base = joint(as_rows(kind(X), Y))
    largest = {1.0: 0.0, math.sqrt(2): 0.0}
    for i in range(0, 300, 7):
        fewer = as_rows(kind(np.delete(X, i, axis=0)), np.delete(Y, i))
        table, targets = X.copy(), Y.copy()
        table[i], targets[i] = -50 * rng.normal(size=4), 1e9 * (i % 2)
        for rows, apart in ((fewer, 1.0), (as_rows(kind(table), targets), math.sqrt(2))):
            moved = np.linalg.norm(joint(rows).values - base.values)
            assert moved <= apart * CLIP**2 + 2 * base.error
            largest[apart] = max(largest[apart], moved / (apart * CLIP**2))
    assert min(largest.values()) > 0.95  # and no smaller bounds would do


def test_a_linear_relation_stays_as_it_is_however_rows_are_scaled():
    w = np.array([1.0, -2.0, 0.5, 3.0])
    targets = X @ w + 0.7
    values = xy_moment_sum(as_rows(X, targets), 0.5, 2.0).values
    first, second, weights = triangle(6)
    matrix = np.zeros((6, 6))
    matrix[first, second] = matrix[second, first] = values / weights
    found = np.linalg.solve(matrix[:5, :5], matrix[:5, 5]) / 2.0
    np.testing.assert_allclose(found, [*w, 0.7], rtol=1e-6)


def test_blocks_and_threads_add_up(monkeypatch):
    import discreet.rows.moments as module

    whole = joint(as_rows(X, Y)).values
    monkeypatch.setattr(module, "OUTER_ROWS", 7)
    monkeypatch.setattr("discreet.rows.table.ENTRIES_WORTH_A_THREAD", 1)
    monkeypatch.setattr("discreet.rows.table.threads", lambda: 3)
    np.testing.assert_allclose(joint(as_rows(X, Y)).values, whole, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("intercept", [True, False])
def test_moved_rows_have_the_moment_of_what_they_became(kind, intercept):
    move = AffineMap.to_norm(1.5, 4).then(1.0, np.full(4, 0.2)).then(np.array([1.0, 2.0, 3.0, 0.5]))
    stored = as_rows(kind(X), Y, row_norm=1.5)
    rows = stored.transformed(move, fit_intercept=intercept)
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    moved = X * np.minimum(1.0, 1.5 / np.maximum(norms, 1e-300))
    moved = (moved - 0.2) * [1.0, 2.0, 3.0, 0.5]
    for features in (True, False):
        found = xy_moment_sum(rows, 50.0, WEIGHT, CENTRE, features=features)
        table = moved if features else np.empty((300, 0))
        v = vectors(table, Y, intercept or not features, clip=50.0)
        np.testing.assert_allclose(found.values, weighted(v.T @ v), rtol=1e-9, atol=1e-9)
        clipped = xy_moment_sum(rows, 0.01, WEIGHT, CENTRE, features=features)
        assert clipped.values[0] <= 300 * 0.01**2


def test_targets_are_cut_and_added_up(monkeypatch):
    rng = np.random.default_rng(9)
    y = 3 * rng.standard_normal(20_001)
    rows = as_rows(np.ones((y.size, 2)), y)
    found = target_sum(rows, 1.5)
    exact = math.fsum(np.clip(y, -1.5, 1.5))
    assert abs(found.values[0] - exact) <= found.error < 1e-6
    labels = target_sum(as_rows(np.ones((y.size, 2)), np.sign(y)), 1.0)
    assert labels.values[0] == np.sign(y).sum()
    assert target_sum(as_rows(np.ones((1, 2)), [5.0]), 1.0).values[0] == 1.0


def test_classes_are_counted_and_other_targets_are_not():
    y = np.repeat([0.0, 1.0, 2.0, 3.0, -1.0, -0.5, 1.5], [5, 30_000, 2, 3, 4, 6, 1])
    found = class_counts(as_rows(np.ones((y.size, 1)), np.random.default_rng(0).permutation(y)), 3)
    assert found.values.tolist() == [5, 30_001, 2]
    assert 0 < found.error < 1e-6
    weights = RowWeights.of(np.linspace(0, 1, 4), 2, grouped=False)
    rows = as_rows(np.ones((4, 1)), [0.0, 0.0, 1.0, 5.0], weights=weights)
    np.testing.assert_allclose(class_counts(rows, 2).values, [1 / 3, 2 / 3], atol=1e-8)
    for bad in (0, 1.5):
        with pytest.raises(ValueError, match="n_classes"):
            class_counts(rows, bad)
