"""Sums of scores and curvatures: their formulas, and what one row or unit can change in them."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import hilbert

from discreet.errors import NotSupported
from discreet.objectives import Hinge, Huber, Logistic, Softmax, Squared
from discreet.rows import AffineMap, Units, as_rows, scores
from discreet.rows.moments import norm_candidates, slope_counts
from discreet.rows.scores import curvature_sum, score_square_sum, score_sum, score_variances

from .questions import triangle

CLIP = 1.5


def _variances(rows, weights, loss, clip):
    return score_variances(rows, weights, loss, clip, np.eye(1), 1.0)


def table(n=300, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4)) * rng.choice([0.1, 1.0, 8.0], (n, 1))
    return X, rng.choice([-1.0, 1.0], n), rng.standard_normal(5)


def by_hand(V, y, w, loss, own=1.0):
    norms = np.linalg.norm(V, axis=1)
    a = np.minimum(1, CLIP / norms) ** 2 * own
    slopes = np.clip(loss.derivative(V @ w, y), -loss.slope_bound, loss.slope_bound)
    bent = loss.second_derivative(V @ w, y) / loss.curvature_bound
    score = (a * slopes) @ V
    first, second, weights = triangle(V.shape[1])
    hessian = ((V * (a * bent)[:, None]).T @ V)[first, second] * weights
    squares = np.square(a * slopes * norms / (loss.slope_bound * CLIP)).sum()
    return score, hessian, squares


@pytest.mark.parametrize("loss", [Logistic(), Huber(0.3)])
@pytest.mark.parametrize("mapped", [False, True])
def test_formulas(loss, mapped):
    X, y, w = table()
    if mapped:
        matrix = np.linspace(-1, 1, 16).reshape(4, 4) + np.eye(4)
        map = AffineMap.to_norm(100.0, 4).then(1.0, np.arange(4.0)).then(matrix)
        rows = as_rows(X, y, fit_intercept=False, row_norm=100.0)
        rows = rows.transformed(map, fit_intercept=True)
        V = np.column_stack([X @ map.linear.T - map.offset, np.ones(len(X))])
    else:
        rows, V = as_rows(X, y), np.column_stack([X, np.ones(len(X))])
    score, hessian, squares = by_hand(V, y, w, loss)
    assert score_sum(rows, w, loss, CLIP).values == pytest.approx(score, abs=1e-5)
    assert curvature_sum(rows, w, loss, CLIP).values == pytest.approx(hessian, abs=1e-5)
    assert score_square_sum(rows, w, loss, CLIP).values == pytest.approx([squares], rel=1e-5)


def mapped(matrix, X, y, norm=100.0, intercept=True):
    map = AffineMap.to_norm(norm, 4).then(1.0, np.arange(4.0)).then(matrix)
    rows = as_rows(X, y, fit_intercept=False, row_norm=norm)
    return rows.transformed(map, fit_intercept=intercept), map


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_hessians_of_turned_rows_are_within_their_error(kind, intercept):
    """Rows go through a diagonal and their sum through a matrix; both ways agree, in 128 bits."""
    X, y, w = table()
    matrix = np.diag([1.0, 100.0, 0.01, 3.0]) + np.linspace(-0.2, 0.3, 16).reshape(4, 4)
    rows, map = mapped(matrix, kind(X), y, intercept=intercept)
    w = w[: rows.n_parameters]
    split, error = scores._split(rows, CLIP)
    assert split is not None
    V = X.astype(np.longdouble) @ map.linear.T.astype(np.longdouble) - map.offset
    V = np.column_stack([V, np.ones(len(X))])[:, : rows.n_parameters]
    exact = by_hand(V, y, w, Logistic())[1]
    found = curvature_sum(rows, w, Logistic(), CLIP)
    assert found.error == error < scores.SPLIT_ERROR * CLIP**2
    # the weights are rounded to multiples of 2^-30
    assert np.linalg.norm(found.values - exact) < error + len(X) * CLIP**2 * 2.0**-29


def test_one_row_under_a_matrix_moves_a_hessian_by_the_clip_at_most():
    rng, most = np.random.default_rng(3), 0.0
    matrix = rng.standard_normal((4, 4)) + 3 * np.eye(4)
    for length in (1e-3, 0.5, 1.0, 3.0, 1e2, 1e6, 1e300):
        for _ in range(8):
            rows, _ = mapped(matrix, length * rng.standard_normal((1, 4)), np.zeros(1))
            assert scores._split(rows, CLIP)[0] is not None
            found = curvature_sum(rows, np.zeros(5), Squared(), CLIP)
            most = max(most, float(np.linalg.norm(found.values)))
            assert np.linalg.norm(found.values) <= CLIP**2 + found.error
    assert most > 0.999 * CLIP**2


def test_maps_that_are_nearly_singular_turn_each_row():
    X, y, w = table()
    for smallest in (0.0, 1e-9):
        matrix = np.ones((4, 4)) + smallest * np.eye(4)
        rows, map = mapped(matrix, X, y)
        assert scores._split(rows, CLIP) == (None, 0.0)
        assert (map.split is None) == (smallest == 0.0)
        V = np.column_stack([X @ map.linear.T - map.offset, np.ones(len(X))])
        found = curvature_sum(rows, w, Logistic(), CLIP).values
        assert found == pytest.approx(by_hand(V, y, w, Logistic())[1], abs=1e-5)


def test_an_inverse_that_is_none_is_not_used():
    """Of Hilbert's matrix NumPy computes one without an error, and it is far from an inverse."""
    matrix = hilbert(16)
    back = np.linalg.inv(matrix)  # no error
    assert np.abs(back @ matrix - np.eye(16)).sum() > 0.1
    assert AffineMap.to_norm(100.0, 16).then(matrix).split is None
    assert AffineMap.to_norm(100.0, 16).then(hilbert(16) + np.eye(16)).split is not None


def test_norms_under_two_maps_are_lifted_by_how_far_these_are_from_one(monkeypatch):
    X, y, w = table()
    rows, map = mapped(np.eye(4) + np.linspace(0, 1, 16).reshape(4, 4), X, y)
    longer = scores._weights(rows, CLIP, 0.5)
    norms = np.hypot(np.linalg.norm(X @ map.linear.T - map.offset, axis=1), 1.0)
    np.testing.assert_allclose(longer, np.minimum(1, CLIP / (norms + 0.5)) ** 2, atol=2.0**-29)
    given, plain = [], scores._weights
    monkeypatch.setattr(scores, "_weights", lambda *all_: given.append(all_[2:]) or plain(*all_))
    curvature_sum(rows, w, Logistic(), CLIP)
    assert given == [(map.split.error,)]
    assert 0 < map.split.error < 1e-9


def test_a_matrix_follows_the_map():
    X, y, w = table()
    rows, map = mapped(np.eye(4), X, y)
    turn = np.eye(4) + np.linspace(0, 1, 16).reshape(4, 4)
    turned = rows.columns(np.arange(4), 2.0, turn)
    V = 2 * (X @ map.linear.T - map.offset) @ turn.T
    assert turned.margins(w) == pytest.approx(V @ w[:4] + w[4])
    with pytest.raises(ValueError, match="map them"):
        as_rows(X, y).columns(np.arange(4), 2.0, turn)


def test_one_row_moves_sums_by_the_clip_at_most_and_by_nearly_all_of_it():
    """The row is as long as the clip; its slope and curvature are at their bounds."""
    most = {score_sum: 0.0, curvature_sum: 0.0, score_square_sum: 0.0}
    for length in (0.1, 1.0, CLIP * (1 - 1e-12), CLIP * (1 + 1e-12), 3.0, 1e3, 1e12, 1e300):
        for target in (0.0, -1e3, 1e300):
            rows = as_rows(np.array([[length, 0.0]]), np.array([target]), fit_intercept=False)
            for kernel in most:
                found = kernel(rows, np.zeros(2), Huber(0.5), CLIP)
                most[kernel] = max(most[kernel], float(np.linalg.norm(found.values)))
    bounds = {score_sum: 0.5 * CLIP, curvature_sum: CLIP**2, score_square_sum: 1.0}
    for kernel, bound in bounds.items():
        assert (1 - 1e-6) * bound < most[kernel] <= bound


def test_a_unit_moves_sums_as_one_row_does():
    """Twenty equal rows of one person: their weights add up to at most 1."""
    X, y = np.tile([[CLIP, 0.0]], (20, 1)), np.full(20, -9.0)
    units = Units.of([7] * 20, 20)
    rows = as_rows(X, y, fit_intercept=False, weights=units.weights())
    assert np.linalg.norm(score_sum(rows, np.zeros(2), Huber(0.5), CLIP).values) > 0.499 * CLIP
    assert np.linalg.norm(score_sum(rows, np.zeros(2), Huber(0.5), CLIP).values) <= 0.5 * CLIP
    assert 0.99 < score_square_sum(rows, np.zeros(2), Huber(0.5), CLIP).values[0] <= 1.0


@pytest.mark.parametrize("mapped_rows", [False, True])
def test_variances_are_squares_of_turned_scores_cut_to_a_norm(mapped_rows):
    X, y, w = table()
    matrix = np.random.default_rng(5).standard_normal((3, 5))
    V = np.column_stack([X, np.ones(len(X))])
    rows = as_rows(X, y)
    if mapped_rows:
        turn = np.eye(4) + np.linspace(0, 1, 16).reshape(4, 4)
        rows, map = mapped(turn, X, y)
        V[:, :4] = X @ map.linear.T - map.offset
    loss = Huber(0.3)
    norms = np.linalg.norm(V, axis=1)
    factors = np.minimum(1, CLIP / norms) ** 2 * loss.derivative(V @ w, y)
    squares = np.square((V * factors[:, None]) @ matrix.T)
    middle = float(np.sqrt(np.median(squares.sum(axis=1))))
    for cut in (1e6, middle):
        kept = squares * np.minimum(1.0, cut**2 / squares.sum(axis=1))[:, None]
        found = score_variances(rows, w, loss, CLIP, matrix, cut)
        assert found.values == pytest.approx(kept.sum(axis=0), rel=1e-5)
        assert 0.0 < found.error < 1e-6 * cut**2  # half of the rows are cut at the second


def test_variances_add_up_over_units_with_their_weights():
    X, y, w = table(n=60)
    people = Units.of(np.arange(60) // 3, 60)
    rows = as_rows(X, y, weights=people.weights())
    V = np.column_stack([X, np.ones(60)])
    norms = np.linalg.norm(V, axis=1)
    factors = np.minimum(1, CLIP / norms) ** 2 * Huber(0.3).derivative(V @ w, y) / 3
    sums = (V * factors[:, None]).reshape(20, 3, 5).sum(axis=1)
    found = score_variances(rows, w, Huber(0.3), CLIP, np.eye(5), 1e6)
    assert found.values == pytest.approx(np.square(sums).sum(axis=0), rel=1e-5)


def test_variances_of_rows_whose_units_are_elsewhere_are_refused():
    X, y, w = table(n=6)
    known = Units.of(np.arange(6) // 2, 6).weights()
    elsewhere = replace(known, codes=np.empty(0, dtype=np.int64))
    rows = as_rows(X, y, weights=elsewhere)
    with pytest.raises(NotSupported, match="need to know the units"):
        score_variances(rows, w, Huber(0.3), CLIP, np.eye(5), 1.0)


def test_one_row_or_unit_moves_variances_by_the_squared_cut_at_most():
    """Rows of any length and target, under matrices of any size; also twenty rows of one person."""
    most, cut = 0.0, 0.7
    for length in (1e-3, 1.0, 3.0, 1e6, 1e300):
        for factor in (1e-6, 1.0, 1e6, 1e200):
            for target in (0.0, -1e3, 1e300):
                X = np.tile([[length, 0.0]], (20, 1))
                units = Units.of([7] * 20, 20)
                y = np.full(20, target)
                one = as_rows(X[:1], y[:1], fit_intercept=False)
                twenty = as_rows(X, y, fit_intercept=False, weights=units.weights())
                for rows in (one, twenty):
                    made = (np.zeros(2), Huber(0.5), CLIP, factor * np.eye(2), cut)
                    size = float(np.linalg.norm(score_variances(rows, *made).values))
                    assert size <= cut**2
                    most = max(most, size)
    assert most > (1 - 1e-6) * cut**2


def test_squares_add_up_over_units_not_over_rows():
    """Two rows of one person that cancel have a score of 0; of two people they do not."""
    X, y = np.array([[1.0], [1.0]]), np.array([-9.0, 9.0])
    one = as_rows(X, y, fit_intercept=False, weights=Units.of([1, 1], 2).weights())
    two = as_rows(X, y, fit_intercept=False, weights=Units.of([1, 2], 2).weights())
    assert score_square_sum(one, np.zeros(1), Huber(1.0), 1.0).values[0] == pytest.approx(
        0, abs=1e-9
    )
    assert score_square_sum(two, np.zeros(1), Huber(1.0), 1.0).values[0] == pytest.approx(
        2, abs=1e-6
    )


def test_sizes_of_slopes_are_counted():
    rows = as_rows(np.zeros((4, 1)), np.array([0.5, -0.5, 2.0, 4.0]), fit_intercept=False)
    counts = slope_counts(rows, np.zeros(1), Squared(), norm_candidates())
    below = np.cumsum(counts.values)[2 * np.searchsorted(norm_candidates(), [1.0, 3.0])]
    assert below.tolist() == [2, 3]


@pytest.mark.parametrize(
    ("kernel", "loss"),
    [
        (score_sum, Squared()),
        (score_square_sum, Squared()),
        (_variances, Squared()),
        (curvature_sum, Hinge()),
        (score_sum, Softmax(3)),
        (curvature_sum, Softmax(3)),
    ],
)
def test_losses_without_bounds_are_refused(kernel, loss):
    rows = as_rows(np.zeros((2, 1)), np.zeros(2), fit_intercept=False)
    with pytest.raises(NotSupported):
        kernel(rows, np.zeros(1), loss, 1.0)


def test_errors_of_scores_grow_with_the_clip():
    """Rows longer than the clip: a sum of parts of norm up to slope·clip is rounded as such."""
    rows = as_rows(np.full((50, 2), 1e6), np.zeros(50), fit_intercept=False)
    errors = [score_sum(rows, np.zeros(2), Huber(0.5), clip).error for clip in (1.0, 64.0)]
    assert errors[1] == pytest.approx(64 * errors[0], rel=1e-3)
