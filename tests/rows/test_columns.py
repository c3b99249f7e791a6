"""Some columns of a table are rows of their own, each a function of the row it was."""

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.objectives import Logistic
from discreet.rows import AffineMap, as_rows
from discreet.rows.sums import gradient_sum

RNG = np.random.default_rng(0)
TABLE = RNG.standard_normal((500, 7)) * (RNG.random((500, 7)) < 0.6) * 2.0
TARGETS = np.where(RNG.random(500) < 0.5, 1.0, -1.0)
INDEX = np.array([0, 2, 5])
NORMS = np.linalg.norm(TABLE, axis=1, keepdims=True)
MOVE = AffineMap.to_norm(1.5, 7).then(1.0, np.linspace(0, 0.3, 7)).then(np.linspace(1, 2, 7))
LAYOUTS = [np.asarray, np.asfortranarray, sp.csr_array]


def gradient(rows):
    weights = np.linspace(-1, 1, rows.n_parameters)
    return gradient_sum(rows, weights, Logistic(), 0.8).values


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("row_norm", [None, 1.5])
@pytest.mark.parametrize("intercept", [True, False])
def test_rows_keep_the_scale_of_the_whole_row(layout, row_norm, intercept):
    rows = as_rows(layout(TABLE), TARGETS, fit_intercept=intercept, row_norm=row_norm)
    narrow = rows.columns(INDEX, 3.0)
    scales = 1.0 if row_norm is None else row_norm / np.maximum(NORMS, row_norm)
    expected = 3.0 * (TABLE * scales)[:, INDEX]
    assert np.allclose(narrow.norms(), np.linalg.norm(expected, axis=1), atol=1e-6)
    plain = as_rows(expected, TARGETS, fit_intercept=intercept)
    assert np.allclose(gradient(narrow), gradient(plain), rtol=1e-9)
    assert narrow.n_parameters == 3 + intercept


@pytest.mark.parametrize("layout", LAYOUTS)
def test_moved_rows_too(layout):
    stored = as_rows(layout(TABLE), TARGETS, row_norm=1.5)
    narrow = stored.transformed(MOVE, fit_intercept=True).columns(INDEX, 0.5)
    moved = TABLE * (1.5 / np.maximum(NORMS, 1.5)) - np.linspace(0, 0.3, 7)
    expected = 0.5 * (moved * np.linspace(1, 2, 7))[:, INDEX]
    assert np.allclose(narrow.norms(), np.linalg.norm(expected, axis=1), atol=1e-5)
    assert np.allclose(gradient(narrow), gradient(as_rows(expected, TARGETS)), rtol=1e-9)


def test_what_makes_no_sense_is_refused():
    rows = as_rows(TABLE, TARGETS, row_norm=1.5)
    for index in ([], [7], [-1], [[0]]):
        with pytest.raises(ValueError, match="columns"):
            rows.columns(np.array(index, dtype=int), 1.0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_turned_rows_keep_some_of_what_they_were_turned_to(layout):
    matrix = np.random.default_rng(1).standard_normal((7, 7))
    move = MOVE.then(matrix)
    rows = as_rows(layout(TABLE), TARGETS, row_norm=1.5).transformed(move, fit_intercept=True)
    narrow = rows.columns(INDEX, 0.5)
    moved = TABLE * (1.5 / np.maximum(NORMS, 1.5)) - np.linspace(0, 0.3, 7)
    expected = 0.5 * (moved * np.linspace(1, 2, 7) @ matrix.T)[:, INDEX]
    assert np.allclose(narrow.norms(), np.linalg.norm(expected, axis=1), atol=1e-5)
    assert np.allclose(gradient(narrow), gradient(as_rows(expected, TARGETS)), rtol=1e-9)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("row_norm", [None, 1.0])
def test_no_row_is_too_long(layout, kind, row_norm):
    table = TABLE.astype(kind)
    table[3] = np.finfo(kind).max
    table[4] = 1e-45 if kind is np.float32 else 5e-324
    rows = as_rows(layout(table), TARGETS, row_norm=row_norm)
    narrow = rows.columns(INDEX, 3.5e6)
    assert np.isfinite(narrow.norms()[:3]).all()
    assert np.isfinite(gradient(narrow)).all()
    mapped = as_rows(layout(table), TARGETS, row_norm=1.5).transformed(MOVE, fit_intercept=True)
    assert np.isfinite(gradient(mapped.columns(INDEX, 3.5e6))).all()
