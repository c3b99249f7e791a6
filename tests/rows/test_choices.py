"""Scores of corners and candidates: right sums, within the clip, each row's part its own."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.errors import NotSupported
from discreet.objectives import Hinge, Huber, HuberHinge, Logistic, Squared
from discreet.rows import as_rows
from discreet.rows.sums import FEW, candidate_losses, corner_gradient, corner_margins

LOSSES = [Logistic(), Hinge(), HuberHinge(), Huber(1.0), Squared()]


@dataclass(frozen=True)
class Foreign(Logistic):
    """A loss that no kernel knows."""


def make(n=300, d=12, seed=0, density=0.4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
    return X, np.where(rng.random(n) < 0.5, 1.0, -1.0)


def reference(X, y, weights, loss, clip, intercept, row_norm):
    if row_norm is not None:
        norms = np.linalg.norm(X, axis=1)
        X = X * np.where(norms > row_norm, row_norm / np.maximum(norms, 1e-300), 1.0)[:, None]
    if intercept:
        X = np.column_stack([X, np.ones(len(X))])
    gradients = loss.derivative(X @ weights, y)[:, None] * X
    largest = np.abs(gradients).max(axis=1, keepdims=True)
    return X, (gradients * np.minimum(1, clip / np.maximum(largest, 1e-300))).sum(axis=0)


SETTINGS = [(True, None), (False, 1.5), (True, 1.5)]
CORNERS = [(Hinge(), kind, *s) for kind in ("rows", "columns", "csr") for s in SETTINGS]
CORNERS += [(loss, kind, True, 1.5) for kind in ("rows", "csr") for loss in (*LOSSES, Foreign())]


@pytest.mark.parametrize(("loss", "kind", "intercept", "row_norm"), CORNERS)
def test_corner_gradient_is_the_sum_of_scaled_gradients(loss, kind, intercept, row_norm):
    X, y = make()
    weights = np.random.default_rng(1).normal(size=12 + intercept)
    table = {"rows": X, "columns": np.asfortranarray(X), "csr": sp.csr_array(X)}[kind]
    rows = as_rows(table, y, fit_intercept=intercept, row_norm=row_norm)
    for clip in (0.3, 5.0):
        sums = corner_gradient(rows, weights, loss, clip)
        _, expected = reference(X, y, weights, loss, clip, intercept, row_norm)
        assert sums.values == pytest.approx(expected, rel=1e-11, abs=1e-11)
        assert 0 < sums.error < 1e-9


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("row_norm", [None, 1.0])
@pytest.mark.parametrize("intercept", [False, True])
def test_no_entry_of_a_row_exceeds_the_clip(sparse, row_norm, intercept):
    # One row: its computed entries are the rounded c_ij, and rounding cannot pass the clip itself.
    rng = np.random.default_rng(2)
    for exponent in (-300, -150, -3, 0, 1, 7, 150, 300):
        for clip in (1e-100, 0.1, 1 / 3, 1e100):
            X = rng.normal(size=(1, 4)) * 10.0**exponent
            table = sp.csr_array(X) if sparse else X
            rows = as_rows(table, np.array([1.0]), fit_intercept=intercept, row_norm=row_norm)
            for loss in (Hinge(), Squared()):
                values = corner_gradient(rows, np.zeros(4 + intercept), loss, clip).values
                assert np.all(np.abs(values) <= clip)


def test_a_clipped_row_reaches_the_clip():
    X = np.array([[3.0, -0.5], [0.25, 0.125]])
    rows = as_rows(X, np.array([1.0, 1.0]), fit_intercept=False)
    # hinge at 0: slope −1. Row 1 is scaled by 1/3, row 2 is within the clip as it is.
    assert corner_gradient(rows, np.zeros(2), Hinge(), 1.0).values == pytest.approx(
        [-1.25, 1 / 6 - 0.125], rel=1e-12
    )


@pytest.mark.parametrize("few", [False, True])
def test_margins_of_a_row_have_the_same_bits_everywhere(few):
    X, y = make(400, 40)
    weights = np.random.default_rng(3).normal(size=41)
    if few:
        weights[5:40] = 0.0
    assert bool(FEW * np.count_nonzero(weights[:40]) <= 40) is few
    order = np.random.default_rng(4).permutation(400)
    whole = as_rows(sp.csr_array(X), y, row_norm=2.0)
    moved = as_rows(sp.csr_array(X[order]), y[order], row_norm=2.0)

    def found(rows):
        return corner_margins(rows, weights)

    assert np.array_equal(found(whole)[order], found(moved))
    alone = [found(as_rows(sp.csr_array(X[[i]]), y[[i]], row_norm=2.0))[0] for i in range(50)]
    assert np.array_equal(found(whole)[:50], alone)
    assert found(whole) == pytest.approx(whole.margins(weights), abs=1e-13)


@pytest.mark.parametrize("sparse", [False, True])
def test_neighbours_differ_by_the_clip_and_the_error_at_most(sparse):
    X, y = make(200, 6, seed=5, density=1.0)
    X *= 100
    wrap = sp.csr_array if sparse else np.asarray
    clip = 0.7
    for seed in range(20):
        weights = np.random.default_rng(seed).normal(size=7)
        candidates = np.random.default_rng(seed + 100).normal(size=(5, 7))
        whole, fewer = as_rows(wrap(X), y), as_rows(wrap(X[1:]), y[1:])
        a, b = (corner_gradient(r, weights, Hinge(), clip) for r in (whole, fewer))
        assert np.abs(a.values - b.values).max() <= clip + 2 * a.error
        a, b = (candidate_losses(r, candidates, weights, Hinge(), clip) for r in (whole, fewer))
        assert np.abs(a.values - b.values).max() <= clip + 2 * a.error


def test_errors_are_those_of_exact_sums():
    # Entries, slopes and factors are powers of two times small integers: c_ij is exact.
    rng = np.random.default_rng(6)
    X = rng.integers(-8, 9, size=(9000, 3)) / 8 * 2.0 ** rng.integers(-30, 0, size=(9000, 1))
    y = np.where(rng.random(9000) < 0.5, 1.0, -1.0)
    rows = as_rows(X, y, fit_intercept=False)
    sums = corner_gradient(rows, np.zeros(3), Hinge(), 4.0)
    for j in range(3):
        exact = sum(Fraction(-target) * Fraction(x) for x, target in zip(X[:, j], y, strict=True))
        assert abs(Fraction(float(sums.values[j])) - exact) <= Fraction(sums.error)


def test_samples_have_their_own_largest_entries():
    X, y = make(500, 5, density=1.0)
    X[:250] *= 1000
    rows = as_rows(X, y)
    corner_gradient(rows, np.zeros(6), Hinge(), 1.0)  # remembers the largest entries
    drawn = rows.sample(0.3, np.random.default_rng(0))
    fresh = as_rows(drawn.table.array, drawn.targets)
    assert np.array_equal(
        corner_gradient(drawn, np.ones(6), Hinge(), 1.0).values,
        corner_gradient(fresh, np.ones(6), Hinge(), 1.0).values,
    )


@pytest.mark.parametrize("loss", [*LOSSES, Foreign()], ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("row_norm", [None, 1.0])
def test_candidate_losses_are_sums_of_clipped_changes(loss, sparse, row_norm):
    X, y = make(5000, 7)  # more than one block
    rng = np.random.default_rng(7)
    parent, candidates = rng.normal(size=8), rng.normal(size=(9, 8))
    rows = as_rows(sp.csr_array(X) if sparse else X, y, row_norm=row_norm)
    full, _ = reference(X, y, parent, loss, 1.0, True, row_norm)
    before = loss.value(full @ parent, y)
    changes = np.array([loss.value(full @ c, y) - before for c in candidates])
    for clip in (0.2, 1e3):
        sums = candidate_losses(rows, candidates, parent, loss, clip)
        expected = np.clip(changes, -clip, clip).sum(axis=1)
        assert sums.values == pytest.approx(expected, rel=1e-11, abs=1e-9)
    assert candidate_losses(rows, parent[None], parent, loss, 1.0).values == [0.0]


@pytest.mark.parametrize("loss", [Logistic(), Squared()])
def test_extreme_candidates_count_as_the_clip(loss):
    X, y = make(100, 3, density=1.0)
    rows = as_rows(X, y)
    far = np.array([[1e200, 0, 0, 1e200], [1e308, 1e308, -1e308, 1e308]])
    for parent in (np.zeros(4), far[0]):
        values = candidate_losses(rows, far, parent, loss, 0.5).values
        assert np.all(np.abs(values) <= 100 * 0.5)


def test_bad_questions_are_refused():
    X, y = make(20, 3)
    rows = as_rows(X, y)
    with pytest.raises(ValueError, match="weights"):
        corner_gradient(rows, np.zeros(3), Hinge(), 1.0)
    with pytest.raises(ValueError, match="clip"):
        corner_gradient(rows, np.zeros(4), Hinge(), 0.0)
    for bad in (np.zeros(4), np.zeros((2, 3)), np.full((1, 4), np.nan)):
        with pytest.raises(ValueError, match="candidates"):
            candidate_losses(rows, bad, np.zeros(4), Hinge(), 1.0)


def test_several_outputs_are_refused():
    class Several(Logistic):
        n_outputs = 3

    X, y = make(20, 3)
    rows = as_rows(X, y)
    with pytest.raises(NotSupported, match="several outputs"):
        corner_gradient(rows, np.zeros(4), Several(), 1.0)
    with pytest.raises(NotSupported, match="several outputs"):
        candidate_losses(rows, np.zeros((1, 4)), np.zeros(4), Several(), 1.0)
