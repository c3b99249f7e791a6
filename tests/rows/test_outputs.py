"""All outputs in one pass over X: the bits of one pass an output, and sums within their bound."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.objectives import Softmax
from discreet.rows import as_rows
from discreet.rows import table as tables
from discreet.rows.sums import gradient_sum

LAYOUTS = {
    "C": np.asarray,
    "F": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32),
    "every other row": lambda X: np.repeat(X, 2, axis=0)[::2],
    "csr": sp.csr_array,
    "csr float32": lambda X: sp.csr_array(X.astype(np.float32)),
}
layouts = pytest.mark.parametrize("layout", LAYOUTS)


def table(count, d, n=37, seed=0):
    rng = np.random.default_rng([seed, count, d])
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.7)
    X = X.astype(np.float32).astype(np.float64)  # the same numbers in all layouts
    y = rng.integers(0, count, n).astype(float)
    return X, y, rng.standard_normal((count, d + 1))


SIZES = [(layout, d, 3) for layout in LAYOUTS for d in (1, 8, 23)]
SIZES += [(layout, 9, count) for layout in ("C", "csr") for count in (2, 3, 4, 5, 9)]


@pytest.mark.parametrize(("layout", "d", "count"), SIZES)
def test_margins_have_the_bits_of_one_output_at_a_time(layout, d, count):
    X, y, weights = table(count, d)
    for row_norm, fit_intercept in ((None, True), (1.0, True), (0.5, False)):
        made = {"row_norm": row_norm, "fit_intercept": fit_intercept}
        rows = as_rows(LAYOUTS[layout](X), y, **made)
        used = np.ascontiguousarray(weights[:, : rows.n_parameters])
        found = rows.computed_margins(used.ravel(), count)
        one = np.stack([rows.computed_margins(vector) for vector in used], axis=1)
        np.testing.assert_array_equal(found, one)
        alone = as_rows(LAYOUTS[layout](X[5:6]), y[5:6], **made)
        np.testing.assert_array_equal(alone.computed_margins(used.ravel(), count)[0], found[5])


def test_extreme_numbers_have_the_same_bits():
    X, y, weights = table(5, 11)
    X[2], X[3, 4], X[6, 10] = 1e-310, 1.7e308, -1.7e308
    weights[1, 4], weights[2, 10] = 1e10, 1e300
    for layout in ("C", "F", "csr"):
        rows = as_rows(LAYOUTS[layout](X), y, row_norm=1.0)
        one = np.stack([rows.computed_margins(vector) for vector in weights], axis=1)
        np.testing.assert_array_equal(rows.computed_margins(weights.ravel(), 5), one)
        assert np.isfinite(gradient_sum(rows, weights.ravel(), Softmax(5), 1.0).values).all()


@layouts
@pytest.mark.parametrize("count", [2, 3, 10])
def test_sums_are_within_their_bound_of_exact_ones(layout, count):
    X, y, weights = table(count, 6, n=30)
    loss, clip = Softmax(count), 0.4
    rows = as_rows(LAYOUTS[layout](X), y)
    total = gradient_sum(rows, weights.ravel(), loss, clip)
    exact = [Fraction(0)] * weights.size
    for i in range(len(X)):  # a single row's gradient: one product an entry, so one rounding
        alone = as_rows(LAYOUTS[layout](X[i : i + 1]), y[i : i + 1])
        values = gradient_sum(alone, weights.ravel(), loss, clip).values
        exact = [e + Fraction(float(v)) for e, v in zip(exact, values, strict=True)]
    off = [float(Fraction(float(v)) - e) for v, e in zip(total.values, exact, strict=True)]
    single = 2.0**-53 * clip * len(X)
    assert math.sqrt(math.fsum(v * v for v in off)) <= total.error + single


@layouts
@pytest.mark.parametrize("d", [3, 1030])
def test_wide_tables_and_threads(layout, d, monkeypatch):
    """More columns than are summed at a time, blocks of two sizes, and three threads."""
    count, n = 3, 4096 + 903
    X, y, weights = table(count, d, n=n)
    if d > 1000:
        X, y = X[:903], y[:903]
    loss = Softmax(count)
    design = np.column_stack([X, np.ones(len(X))])
    slopes = loss.derivative(design @ weights.T, y)
    norms = np.linalg.norm(slopes, axis=1) * np.linalg.norm(design, axis=1)
    expected = (slopes * np.minimum(1, 2.0 / norms)[:, None]).T @ design
    rows = as_rows(LAYOUTS[layout](X), y)
    whole = gradient_sum(rows, weights.ravel(), loss, 2.0).values
    np.testing.assert_allclose(whole, expected.ravel(), atol=1e-9)
    monkeypatch.setattr(tables, "ENTRIES_WORTH_A_THREAD", 1)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    again = as_rows(LAYOUTS[layout](X), y)
    np.testing.assert_allclose(
        gradient_sum(again, weights.ravel(), loss, 2.0).values, whole, atol=1e-9
    )


@layouts
def test_an_empty_sample_sums_to_nothing(layout):
    X, y, weights = table(3, 4)
    rows = as_rows(LAYOUTS[layout](X), y).take(np.array([], dtype=np.intp))
    values = gradient_sum(rows, weights.ravel(), Softmax(3), 1.0).values
    np.testing.assert_array_equal(values, np.zeros(15))


def test_long_rows_are_clipped_although_the_squares_of_their_slopes_vanish():
    class Sub(Softmax):
        """Computed by NumPy, whose slopes may be as small as doubles are."""

    X = np.array([[1e300, 1e-298]])
    rows = as_rows(X, np.array([0.0]), fit_intercept=False)
    weights = np.zeros(6)
    weights[0] = 400 / 1e300
    found = gradient_sum(rows, weights, Sub(3), 1.0).values
    assert np.sqrt(np.sum(found**2)) <= 1.0


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_slopes_that_are_not_finite_count_as_zero(odd):
    class Odd(Softmax):
        def derivative(self, margins, targets):
            slopes = np.ones(np.shape(margins))
            slopes[..., 1] = odd
            return slopes

    rows = as_rows(np.ones((4, 2)), np.zeros(4), fit_intercept=True)
    assert not gradient_sum(rows, np.zeros(9), Odd(3), 1.0).values.any()
