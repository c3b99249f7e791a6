"""The sums against the reference, in every layout, and what rows accept."""

import math
import pickle
import subprocess
import sys
import tracemalloc
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.objectives import Hinge, Huber, HuberHinge, Logistic, Loss, Squared
from discreet.rows import DenseTable, SparseTable, as_rows
from discreet.rows.sums import gradient_sum, line_losses
from discreet.rows.table import KERNELS, LOSS_KERNELS

STEPS = np.linspace(0, 2, 21)


@pytest.fixture(params=[None, 1.5], ids=["as-is", "scaled"])
def row_norm(request):
    return request.param


def vectors(rows, seed=1):
    generator = np.random.default_rng(seed)
    return generator.standard_normal((2, rows.n_parameters))


def test_sums_agree_with_reference(layout_and_loss, small_table, reference):
    make_layout, loss = layout_and_loss
    check_sums(make_layout(small_table[0]), small_table[1], loss, reference, True, 1.5)


@settings(max_examples=30, deadline=None)
@given(
    layout=st.sampled_from(["C", "F", "float32", "strided", "csr-int32", "csr-float32"]),
    loss=st.sampled_from([Logistic(), Hinge(), HuberHinge(), Huber(0.7), Squared()]),
    fit_intercept=st.booleans(),
    row_norm=st.sampled_from([None, 0.5, 1.5]),
)
def test_mixtures_agree_with_reference(
    layout, loss, fit_intercept, row_norm, small_table, reference, to_layout
):
    X = to_layout(layout, small_table[0])
    check_sums(X, small_table[1], loss, reference, fit_intercept, row_norm)


def check_sums(X, y, loss, reference, fit_intercept, row_norm):
    before = (X.copy(), y.copy())
    rows = as_rows(X, y, fit_intercept=fit_intercept, row_norm=row_norm)
    plain = reference(X, y, fit_intercept, row_norm)
    weights, direction = vectors(rows)
    assert isinstance(rows.table, SparseTable if sp.issparse(X) else DenseTable)
    assert (rows.n_rows, rows.n_features) == X.shape
    for clip in (0.8, 40.0):
        got = gradient_sum(rows, weights, loss, clip)
        np.testing.assert_allclose(
            got.values, plain.gradient_sum(weights, loss, clip), rtol=1e-10, atol=1e-10
        )
        for steps in (STEPS, np.array([0.5, 0.0, 3.0])):
            got = line_losses(rows, weights, direction, steps, loss, clip)
            expected = plain.line_losses(weights, direction, steps, loss, clip)
            np.testing.assert_allclose(got.values, expected, rtol=1e-9)
    assert (abs(X - before[0])).max() == 0
    np.testing.assert_array_equal(y, before[1])


@pytest.mark.parametrize("clip", [1e-6, 0.01, 9.0, 25.0, 250.0, 1e6])
def test_logistic_line_at_every_clip(clip, small_table, reference):
    X, y = 30 * small_table[0], small_table[1]
    rows, plain = as_rows(X, y), reference(X, y)
    weights, direction = vectors(rows)
    got = line_losses(rows, weights, direction, STEPS, Logistic(), clip).values
    expected = plain.line_losses(weights, direction, STEPS, Logistic(), clip)
    np.testing.assert_allclose(got, expected, rtol=1e-9)


def test_more_rows_than_a_block(reference, loss):
    generator = np.random.default_rng(5)
    X, y = generator.standard_normal((9001, 3)), generator.choice([-1.0, 1.0], 9001)
    weights, direction = generator.standard_normal((2, 4))
    plain, steps = reference(X, y), STEPS[:3]
    for table in (X, sp.csr_array(X), X[:, ::-1][:, ::-1]):
        rows = as_rows(table, y)
        np.testing.assert_allclose(
            gradient_sum(rows, weights, loss, 1.0).values,
            plain.gradient_sum(weights, loss, 1.0),
            rtol=1e-9,
        )
        np.testing.assert_allclose(
            line_losses(rows, weights, direction, steps, loss, 1.0).values,
            plain.line_losses(weights, direction, steps, loss, 1.0),
            rtol=1e-9,
        )


def test_remembered_margins_equal_new_ones(make_layout, row_norm, small_table):
    X, y = make_layout(small_table[0]), small_table[1]
    rows = as_rows(X, y, row_norm=row_norm)
    weights, _ = vectors(rows)
    for iteration in range(6):
        direction = gradient_sum(rows, weights, Logistic(), 1.0).values / rows.n_rows
        line_losses(rows, weights, direction, STEPS, Logistic(), 3.0)
        weights = weights - STEPS[iteration % 21] * direction
    fresh = as_rows(X, y, row_norm=row_norm).margins(weights)
    np.testing.assert_allclose(rows.margins(weights), fresh, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
def test_one_product_an_iteration(convert, small_table, monkeypatch):
    rows = as_rows(convert(small_table[0]), small_table[1])
    calls = []
    products, gradient = KERNELS.products, LOSS_KERNELS.gradient

    def counted(form, X, at, *rest):
        calls.extend([1] if at.size else [])
        return gradient(form, X, at, *rest)

    monkeypatch.setattr(KERNELS, "products", lambda *a: calls.append(1) or products(*a))
    monkeypatch.setattr(LOSS_KERNELS, "gradient", counted)
    weights, direction = vectors(rows)
    gradient_sum(rows, weights, Logistic(), 1.0)
    assert len(calls) == 1
    for k in (0, 4, 20):
        calls.clear()
        gradient_sum(rows, weights, Logistic(), 1.0)
        gradient_sum(rows, weights.copy(), Hinge(), 2.0)
        assert len(calls) == 0
        line_losses(rows, weights, direction, STEPS, Logistic(), 1.0)
        line_losses(rows, weights, direction, STEPS / 2, Logistic(), 1.0)
        line_losses(rows, weights, direction, STEPS, Logistic(), 1.0)
        assert len(calls) == 1
        weights = weights - STEPS[k] * direction
        direction = direction[::-1].copy()
    calls.clear()
    gradient_sum(rows, weights + 1e-9, Logistic(), 1.0)
    assert len(calls) == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("intercept", [True, False])
def test_rows_beyond_the_nearest_cache_have_their_own_numbers(dtype, intercept):
    """Gradients of rows in place are computed group by group: each with its rows' own numbers."""
    generator = np.random.default_rng(7)
    n, d = 9000, 20  # blocks of 4096 rows, groups of less than 1000
    X = (generator.standard_normal((n, d)) * generator.uniform(0.1, 9, (n, 1))).astype(dtype)
    y, own = generator.choice([-1.0, 1.0], n), generator.integers(0, 2**30, n) / 2.0**30
    settings = {"fit_intercept": intercept, "row_norm": 5.0, "weights": own, "public_size": n}
    near, far = as_rows(X, y, **settings), as_rows(np.asfortranarray(X), y, **settings)
    weights = 0.3 * generator.standard_normal(near.n_parameters)
    scaled = X * np.minimum(1.0, 5.0 / np.linalg.norm(X.astype(float), axis=1))[:, None]
    points = np.hstack([scaled, np.ones((n, 1))]) if intercept else scaled
    for known in (False, True):  # margins are computed, then remembered
        found, other = (
            gradient_sum(near, weights, Logistic(), 0.5),
            gradient_sum(far, weights, Logistic(), 0.5),
        )
        assert np.linalg.norm(found.values - other.values) <= found.error + other.error, known
        slopes = -y / (1 + np.exp(y * (points @ weights)))
        bounds = 0.5 / np.linalg.norm(points, axis=1)
        expected = (own * np.clip(slopes, -bounds, bounds)) @ points
        np.testing.assert_allclose(found.values, expected, rtol=1e-9, atol=1e-9 * n)


@pytest.mark.parametrize("loss", [Logistic(), Hinge()], ids=str)
def test_a_line_is_remembered_by_its_whole_direction(small_table, loss):
    """Directions that differ in one entry, whichever it is, are two lines."""
    rows = as_rows(*small_table)
    weights, direction = vectors(rows)
    for changed in range(rows.n_parameters):
        line_losses(rows, weights, direction, STEPS, loss, 3.0)
        other = direction.copy()
        other[changed] += 1.0
        found = line_losses(rows, weights, other, STEPS, loss, 3.0).values
        fresh = line_losses(as_rows(*small_table), weights, other, STEPS, loss, 3.0).values
        np.testing.assert_array_equal(found, fresh)


def test_memory_of_the_caller_is_not_remembered(small_table):
    rows = as_rows(*small_table)
    weights, _ = vectors(rows)
    before = rows.margins(weights)
    weights *= 2
    np.testing.assert_allclose(rows.margins(weights), 2 * before, rtol=1e-12)
    rows.margins(weights)[:] = 0
    np.testing.assert_allclose(rows.margins(weights), 2 * before, rtol=1e-12)


def test_rows_can_be_sent_to_another_process(make_layout, small_table):
    rows = as_rows(make_layout(small_table[0]), small_table[1], row_norm=1.0)
    other = pickle.loads(pickle.dumps(rows))
    weights, direction = vectors(rows)
    for one, two in (
        (gradient_sum(rows, weights, Hinge(), 1.0), gradient_sum(other, weights, Hinge(), 1.0)),
        (
            line_losses(rows, weights, direction, STEPS, Logistic(), 1.0),
            line_losses(other, weights, direction, STEPS, Logistic(), 1.0),
        ),
    ):
        np.testing.assert_allclose(one.values, two.values, rtol=1e-12)
        assert one.error == two.error


def test_with_targets(make_layout, small_table):
    X, y = make_layout(small_table[0]), small_table[1]
    rows = as_rows(X, y, row_norm=2.0)
    weights, _ = vectors(rows)
    rows.margins(weights)
    other, fresh = rows.with_targets(-y), as_rows(X, -y, row_norm=2.0)
    expected = gradient_sum(fresh, weights, Logistic(), 1.0)
    np.testing.assert_array_equal(
        gradient_sum(other, weights, Logistic(), 1.0).values, expected.values
    )
    assert other.norm_bounds is rows.norm_bounds
    with pytest.raises(ValueError, match="one target for each"):
        rows.with_targets(y[1:])


@dataclass(frozen=True)
class Cubic(Loss):
    """A third-party loss, with values that are not numbers for large residuals."""

    name: ClassVar[str] = "cubic"
    task: ClassVar[str] = "regression"
    slope_bound = math.inf
    curvature_bound = None

    def value(self, margin, target):
        r = abs(margin - target)
        return np.where(r > 8, np.nan, r**3)

    def derivative(self, margin, target):
        r = margin - target
        return np.where(abs(r) > 8, np.nan, 3 * r * abs(r))

    def second_derivative(self, margin, target):
        return 6 * abs(margin - target)


class MyLogistic(Logistic):
    """A subclass that computes something else must not get the compiled loop."""

    def derivative(self, margin, target):
        return 0.5 * super().derivative(margin, target)


def test_third_party_loss(small_table, reference):
    X, y = small_table
    rows, plain = as_rows(X, y, row_norm=1.0), reference(X, y, row_norm=1.0)
    weights, direction = vectors(rows)
    np.testing.assert_allclose(
        gradient_sum(rows, weights, Cubic(), 2.0).values,
        plain.gradient_sum(weights, Cubic(), 2.0),
        rtol=1e-10,
    )
    np.testing.assert_allclose(
        line_losses(rows, weights, direction, STEPS, Cubic(), 2.0).values,
        plain.line_losses(weights, direction, STEPS, Cubic(), 2.0),
        rtol=1e-10,
    )
    half = gradient_sum(rows, weights, MyLogistic(), 50.0).values
    np.testing.assert_allclose(2 * half, gradient_sum(rows, weights, Logistic(), 50.0).values)
    far = gradient_sum(rows, 1e3 * weights, Cubic(), 2.0).values
    assert np.isfinite(far).all()
    losses = line_losses(rows, 1e3 * weights, direction, STEPS, Cubic(), 2.0).values
    assert np.all(losses <= 2.0 * rows.n_rows)


def test_no_large_temporary(layout_and_loss):
    make_layout, loss = layout_and_loss
    X = make_layout(np.random.default_rng(3).standard_normal((20_000, 100)))
    y = np.ones(20_000)
    size = X.data.nbytes + X.indices.nbytes if sp.issparse(X) else X.nbytes
    as_rows(X[:300].copy(), y[:300])  # compiles

    def work():
        rows = as_rows(X, y, row_norm=3.0)
        weights, direction = vectors(rows)
        gradient_sum(rows, weights, loss, 1.0)
        line_losses(rows, weights, direction, STEPS, loss, 1.0)
        gradient_sum(rows, weights - STEPS[4] * direction, loss, 1.0)

    work()
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.3 * size


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_repeated_and_unsorted_entries_are_put_in_order(dtype, reference):
    data = np.array([1.0, 2.0, 3.0, 4.0, 5.0], dtype=dtype)
    X = sp.csr_array((data, [1, 1, 0, 2, 0], [0, 3, 5]), shape=(2, 3))
    X.has_canonical_format = True  # scipy's flag may be wrong
    y, weights = np.array([1.0, -1.0]), np.array([0.3, -0.2, 0.5, 0.1])
    rows = as_rows(X, y)
    np.testing.assert_allclose(rows.norm_bounds, [math.sqrt(19), math.sqrt(42)], rtol=1e-12)
    dense = np.array([[3.0, 3.0, 0.0], [5.0, 0.0, 4.0]])
    np.testing.assert_allclose(
        gradient_sum(rows, weights, Squared(), 1.0).values,
        reference(dense, y).gradient_sum(weights, Squared(), 1.0),
        rtol=1e-12,
    )
    np.testing.assert_array_equal(X.indices, [1, 1, 0, 2, 0])
    np.testing.assert_array_equal(X.data, data)


def test_broken_sparse_structure_is_refused():
    for change in ("index", "pointer"):
        X = sp.csr_array(np.eye(3))
        if change == "index":
            X.indices[1] = 7
        else:
            X.indptr[2] = 9
        with pytest.raises(ValueError, match="not a valid CSR"):
            as_rows(X, np.ones(3))


def test_canonical_csr_is_not_copied():
    X = sp.csr_array(np.eye(5))
    rows = as_rows(X, np.ones(5))
    assert np.shares_memory(rows.table.data, X.data)
    assert np.shares_memory(rows.table.indices, X.indices)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(make_layout, bad, small_table):
    X, y = small_table[0].copy(), small_table[1].copy()
    X[117, 5] = bad
    with pytest.raises(ValueError, match="X must be finite"):
        as_rows(make_layout(X), y)
    y[9] = bad
    with pytest.raises(ValueError, match="y must be finite"):
        as_rows(make_layout(small_table[0]), y)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.eye(3, dtype=int), "float32 or float64"),
        (np.eye(3, dtype=np.float16), "float32 or float64"),
        (np.eye(3, dtype=">f8"), "float32 or float64"),
        (np.eye(3).astype(object), "float32 or float64"),
        (np.ones(3), "two dimensions"),
        (np.empty((3, 0)), "at least one column"),
        ([[1.0]] * 3, "numpy array or a scipy CSR"),
        (np.ma.masked_array(np.eye(3)), "numpy array or a scipy CSR"),
        (sp.csc_array(np.eye(3)), "tocsr"),
        (sp.csr_array(np.eye(3, dtype=int)), "float32 or float64"),
    ],
)
def test_other_tables_are_refused(X, message):
    with pytest.raises(ValueError, match=message):
        as_rows(X, np.ones(3))


def test_bad_arguments_are_refused(small_table):
    X, y = small_table
    rows = as_rows(X, y)
    weights, direction = vectors(rows)
    for clip in (0, -1.0, math.inf, math.nan, 1e101):
        with pytest.raises(ValueError, match="clip must be a finite number between 1e-100"):
            gradient_sum(rows, weights, Logistic(), clip)
        with pytest.raises(ValueError, match="clip must be a finite number between 1e-100"):
            line_losses(rows, weights, direction, STEPS, Logistic(), clip)
    with pytest.raises(ValueError, match=r"weights must be an array of shape \(12,\)"):
        gradient_sum(rows, weights[1:], Logistic(), 1.0)
    with pytest.raises(ValueError, match="direction must be finite"):
        line_losses(rows, weights, direction * np.inf, STEPS, Logistic(), 1.0)
    with pytest.raises(ValueError, match="steps must be"):
        line_losses(rows, weights, direction, [0.0, np.nan], Logistic(), 1.0)
    for row_norm in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="row_norm must be"):
            as_rows(X, y, row_norm=row_norm)
    for targets in (y[:-1], y[:, None, None], np.full(len(y), "a")):
        with pytest.raises(ValueError, match="y must"):
            as_rows(X, targets)


@pytest.mark.process
def test_numba_is_imported_when_needed():
    code = "import sys, discreet.rows; assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
