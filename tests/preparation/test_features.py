"""Feature maps: splines by definition, exact cosines, features of a row by that row alone."""

import math
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.interpolate import BSpline
from threadpoolctl import threadpool_limits

from discreet.preparation import FeatureMap, Fourier, Splines, features
from discreet.preparation.bounds import FittedBounds
from discreet.preparation.feature_records import from_plain, to_plain
from discreet.rows.bounds import (
    FOURIER_COLUMNS,
    FOURIER_GRID,
    FREQUENCY_GRID,
    LARGEST_FREQUENCY,
)

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 12, size=(300, 4))
SPLINES = Splines([1, 3], [0.0, -2.0], [10.0, 9.0], [5, 4], [3, 0])
FOURIER = Fourier.draw([0, 3], np.zeros(2), np.full(2, 10.0), count=7, gamma=2.0, seed=1)
MAPS = {"splines": SPLINES, "fourier": FOURIER}


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
@pytest.mark.parametrize("pieces", [1, 2, 7])
def test_splines_are_b_splines_on_uniform_knots(degree, pieces):
    low, high = -3.0, 5.0
    values = np.linspace(low, high, 98)[:-1] + 1e-5  # none is a knot, where bins differ in sides
    made = Splines([0], [low], [high], [pieces], [degree]).transform(values[:, None])
    width = (high - low) / pieces
    knots = low + width * np.arange(-degree, pieces + degree + 1)
    for k in range(pieces + degree):
        exact = BSpline.basis_element(knots[k : k + degree + 2], extrapolate=False)(values)
        assert made[:, k] == pytest.approx(np.nan_to_num(exact), abs=1e-9)


def test_splines_are_positive_add_up_to_one_and_end_at_the_bounds():
    made = SPLINES.transform(X)
    assert made.shape == (300, 2 + 8 + 4)
    assert np.array_equal(made[:, :2], X[:, [0, 2]])
    assert made[:, 2:].min() >= 0
    assert made[:, 2:10].sum(axis=1) == pytest.approx(np.ones(300))
    assert np.array_equal(made[:, 10:].sum(axis=1), np.ones(300))
    ends = np.array([[0.0, 1e300, 0.0, -1e300], [0.0, 10.0, 0.0, -2.0]])
    assert np.array_equal(*SPLINES.transform(ends)[:, 2:])


def test_cosines_are_those_of_the_frequencies():
    made = FOURIER.transform(X)
    z = np.clip(X[:, [0, 3]] / 10, 0, 1)
    assert made.shape == (300, 2 + 2 + 7)
    assert np.array_equal(made[:, :2], X[:, [1, 2]])
    assert made[:, 2:4] == pytest.approx(z)
    exact = math.sqrt(2 / 7) * np.cos(2 * np.pi * (z @ FOURIER.frequencies.T + FOURIER.phases))
    assert made[:, 4:] == pytest.approx(exact, abs=1e-4)  # the grid of numbers in [0, 1] is 1e-6


def test_products_of_cosines_approximate_the_kernel():
    # A mean of m independent terms in [-2, 2] is off by 0.2 with chance 2·exp(-m/200) each.
    many = Fourier.draw(range(4), np.zeros(4), np.ones(4), count=4000, gamma=3.0, seed=5)
    z = RNG.random((20, 4))
    made = many.transform(z)[:, 4:]
    exact = np.exp(-3.0 * ((z[:, None] - z[None, :]) ** 2).sum(axis=2))
    assert made @ made.T == pytest.approx(exact, abs=0.1)


def test_the_map_is_the_same_for_the_same_seed():
    def draw(seed):
        return Fourier.draw([0, 3], np.zeros(2), np.ones(2), count=7, gamma=2.0, seed=seed)

    assert np.array_equal(draw(1).frequencies, draw(1).frequencies)
    assert not np.array_equal(draw(1).frequencies, draw(2).frequencies)


def test_products_with_frequencies_are_exact():
    """Sums of products fit into a double, so BLAS cannot round them by a row's position."""
    bits = math.log2(FOURIER_GRID * FREQUENCY_GRID * LARGEST_FREQUENCY * FOURIER_COLUMNS + 1)
    assert bits <= 53
    for map in (FOURIER, Fourier([0], [0.0], [1.0], [[1e9], [math.pi]], [0.1, 7.3])):
        scaled = map.frequencies * FREQUENCY_GRID
        assert np.array_equal(scaled, np.rint(scaled))
        assert np.abs(map.frequencies).max() <= LARGEST_FREQUENCY
        assert np.array_equal(map.phases * FREQUENCY_GRID, np.rint(map.phases * FREQUENCY_GRID))
    wide = FOURIER_COLUMNS + 1
    with pytest.raises(ValueError, match="at most 1024 columns"):
        Fourier(range(wide), np.zeros(wide), np.ones(wide), np.ones((1, wide)), [0.0])


FORMS = (
    np.ascontiguousarray,
    np.asfortranarray,
    sp.csr_array,
    lambda X: X.astype(np.float32),
    lambda X: sp.csr_matrix(X.astype(np.float32)),
    lambda X: np.repeat(X, 2, axis=1)[:, ::2],
)


@pytest.mark.parametrize(
    ("kind", "form", "wide_by"),
    [  # both widths for each kind and for each form
        (kind, form, (7, 150)[(j + k) % 2])
        for j, kind in enumerate(("splines", "fourier"))
        for k, form in enumerate(FORMS)
    ],
)
def test_features_of_a_row_depend_on_that_row_alone(kind, form, wide_by, monkeypatch):
    """To the last bit: at every position, among any number of rows, with any number of threads."""
    wide = RNG.random((1003, 200)) * 10
    columns = range(3, 3 + wide_by)
    bounds = (np.zeros(wide_by), np.full(wide_by, 10.0))
    if kind == "splines":
        map = Splines(columns, *bounds, [5] * wide_by, [3] * wide_by)
    else:
        map = Fourier.draw(columns, *bounds, count=50, gamma=9.0, seed=0)
    few = map.count < 200 - wide_by

    def dense(table):
        made = map.transform(form(table))
        assert sp.issparse(made) == (few and sp.issparse(form(table)))
        assert made.dtype == form(table).dtype
        return made.toarray() if sp.issparse(made) else made

    alone = np.vstack([dense(wide[i : i + 1]) for i in range(0, 1003, 59)])
    for count in (1, 2):
        with threadpool_limits(count):
            assert np.array_equal(dense(wide)[::59], alone)
    monkeypatch.setattr(features, "BLOCK_ENTRIES", 3000)
    assert np.array_equal(dense(wide)[::59], alone)
    assert np.array_equal(dense(wide[::-1])[::-1][::59], alone)


@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_stay_visible(kind, bad):
    """Rows refuse a table with NaN; clipping must not hide what it would have refused."""
    table = X[:5].copy()
    table[2, 3] = bad
    made = MAPS[kind].transform(table)
    assert np.isnan(made[2]).any()
    assert np.isfinite(np.delete(made, 2, axis=0)).all()


@pytest.mark.parametrize("kind", MAPS)
def test_maps_survive_plain_data_and_pickles(kind):
    map = MAPS[kind]
    for again in (from_plain(to_plain(map)), pickle.loads(pickle.dumps(map))):
        assert np.array_equal(again.transform(X), map.transform(X))
    assert to_plain(None) is None
    assert from_plain(None) is None


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"kind": "trees"},
        {"kind": "splines"},
        {**to_plain(SPLINES), "more": 1},
        {**to_plain(SPLINES), "low": [0.0]},
        {**to_plain(SPLINES), "high": [0.0, 0.0]},
        {**to_plain(SPLINES), "pieces": [5, 0]},
        {**to_plain(SPLINES), "pieces": [5]},
        {**to_plain(SPLINES), "degrees": [3, 4]},
        {**to_plain(SPLINES), "low": [-1e308, 0.0], "high": [1e308, 1.0]},
        {**to_plain(FOURIER), "phases": [0.0]},
        {**to_plain(FOURIER), "frequencies": [[0.0]]},
        {**to_plain(FOURIER), "columns": [0, 0]},
    ],
)
def test_wrong_maps_are_refused(data):
    with pytest.raises(ValueError, match=r"features must|low|pieces|degrees|phases|freq|columns"):
        from_plain(data)


def test_bounds_come_before_an_expansion():
    bounds = FittedBounds((1,), np.array([0.0]), np.array([100.0]))
    splines = Splines([1], [0.0], [1.0], [3], [3])
    both = FeatureMap(bounds, splines)
    assert np.array_equal(both.transform(10 * X), splines.transform(bounds.apply(10 * X)))
    assert both.width(4) == 3 + 6
    names = ["x1_sp_0", "x1_sp_1", "x1_sp_2", "x1_sp_3", "x1_sp_4", "x1_sp_5"]
    assert both.names(["x0", "x1", "x2", "x3"]) == ["x0", "x2", "x3", *names]
    assert FeatureMap().names(["a", "b"]) == ["a", "b"]
    assert FeatureMap().transform(X) is X
    assert FeatureMap(None, FOURIER).names(list("abcd"))[:5] == ["b", "c", "a", "d", "cos_0"]
    assert FeatureMap(None, SPLINES).names(list("abcd"))[-1] == "d_bin_3"
