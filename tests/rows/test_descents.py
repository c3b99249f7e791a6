"""Descent by batches: against a plain loop, in every layout, with noise on its grid."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.core.noise import from_grid, on_grid
from discreet.objectives import Hinge, Huber, HuberHinge, Logistic, Squared
from discreet.rows import GridNoise, as_rows
from discreet.rows.sums import gradient_sum

LOSSES = [Logistic(), Hinge(), HuberHinge(), Huber(0.7), Squared()]


@dataclass(frozen=True)
class HomeMade(Logistic):
    """A loss that the kernels do not know."""


def plain_descent(
    table, y, w, loss, order, steps, clip, alpha=0.0, radius=math.inf, fit_intercept=True,
    row_norm=math.inf,
):  # fmt: skip
    """The definition, one row after the other."""
    w, total = np.array(w, dtype=float), np.zeros(len(w))
    for batch, step in zip(order, steps, strict=True):
        gradient = np.zeros(len(w))
        for i in batch:
            x = np.asarray(table[i], dtype=float)
            x = x * min(1.0, row_norm / max(np.linalg.norm(x), 1e-300))
            x = np.append(x, 1.0) if fit_intercept else x
            part = float(loss.derivative(x @ w, y[i])) * x
            gradient += part * min(1.0, clip / max(np.linalg.norm(part), 1e-300))
        w = w - step * (gradient / len(batch) + alpha * w)
        w = w * min(1.0, radius / max(np.linalg.norm(w), 1e-300))
        total += w
    return w, total


def orders(n, batch, updates, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(n, size=(updates, batch)), rng.uniform(0.05, 0.3, updates)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_every_layout_follows_the_definition(layout_and_loss, fit_intercept, small_table):
    make_layout, loss = layout_and_loss
    X, y = small_table
    X = X.astype(np.float32).astype(np.float64)  # the same numbers in all layouts
    order, steps = orders(len(X), 7, 40)
    start = np.linspace(-0.5, 0.5, X.shape[1] + fit_intercept)
    settings = {"clip": 1.5, "alpha": 0.1, "radius": 2.0}
    rows = as_rows(make_layout(X), y, fit_intercept=fit_intercept, row_norm=2.0)
    path = rows.descend(start, loss, order=order, steps=steps, **settings)
    weights, total = plain_descent(
        X, y, start, loss, order, steps, fit_intercept=fit_intercept, row_norm=2.0, **settings
    )
    np.testing.assert_allclose(path.weights, weights, rtol=0, atol=1e-12)
    np.testing.assert_allclose(path.total, total, rtol=0, atol=1e-10)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_loss_that_is_not_compiled_takes_the_same_steps(sparse, small_table):
    X, y = small_table
    order, steps = orders(len(X), 5, 30)
    rows = as_rows(sp.csr_array(X) if sparse else np.asfortranarray(X), y, row_norm=1.0)
    start = np.zeros(X.shape[1] + 1)
    noise = GridNoise(np.full((30, start.size), 3, dtype=np.int64), -4, 100.0)
    for given in (None, noise):
        ours = rows.descend(start, HomeMade(), order=order, steps=steps, clip=0.3, noise=given)
        theirs = rows.descend(start, Logistic(), order=order, steps=steps, clip=0.3, noise=given)
        np.testing.assert_allclose(ours.weights, theirs.weights, rtol=0, atol=1e-13)


def test_dense_layouts_agree_to_the_last_bit(small_table):
    X, y = small_table
    order, steps = orders(len(X), 9, 50)
    ends = [
        as_rows(table, y).descend(np.ones(12), Hinge(), order=order, steps=steps, clip=2.0).weights
        for table in (X, np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2], X[:, ::-1][:, ::-1])
    ]
    assert all(np.array_equal(end, ends[0]) for end in ends)


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_noise_is_added_as_a_release_does(make, small_table):
    """One update with step −b from 0 returns the noisy sum itself: b is a power of two."""
    X, y = small_table
    rows = as_rows(make(X), y)
    rng = np.random.default_rng(1)
    for grid in (-30, -3, 2):
        order = rng.permutation(len(X))[:16][None]
        start = np.zeros(12)
        exact = rows.descend(start, Squared(), order=order, steps=[-16.0], clip=1.0).weights
        integers = rng.integers(-(2**30), 2**30, (1, 12))
        noisy = rows.descend(
            start,
            Squared(),
            order=order,
            steps=[-16.0],
            clip=1.0,
            noise=GridNoise(integers, grid, 0.5),
        ).weights
        expected = from_grid(on_grid(np.clip(exact, -0.5, 0.5), grid) + integers[0], grid)
        assert np.array_equal(noisy, expected)
    assert np.abs(exact).max() > 0.5  # so the cut to the magnitude was seen


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_batch_sums_are_those_of_the_rows_within_their_error(loss, small_table):
    X, y = small_table
    weights = np.linspace(-1, 1, 12)
    for row_norm in (None, 1.5):
        rows = as_rows(X, y, row_norm=row_norm)
        for batch in (1, 2, 64):
            chosen = np.random.default_rng(batch).permutation(len(X))[:batch]
            end = rows.descend(
                weights, loss, order=chosen[None], steps=[-float(batch)], clip=0.8
            ).weights
            theirs = as_rows(X[chosen], y[chosen], row_norm=row_norm)
            expected = gradient_sum(theirs, weights, loss, 0.8)
            error = rows.batch_error(batch, 0.8) + expected.error + 1e-15 * (12 + batch)
            assert np.linalg.norm(end - weights - expected.values) <= error


def test_rows_that_are_not_named_do_not_matter(small_table):
    X, y = small_table
    order, steps = orders(100, 10, 30)
    other, targets = X.copy(), y.copy()
    other[150], targets[150] = 1e200, -targets[150]
    ends = [
        as_rows(table, labels)
        .descend(np.ones(12), Hinge(), order=order, steps=steps, clip=1.0)
        .weights
        for table, labels in ((X, y), (other, targets))
    ]
    assert np.array_equal(*ends)


def test_a_row_that_could_overflow_takes_no_part_without_noise():
    X = np.array([[1e200, -1e200], [0.5, 0.5]])
    rows = as_rows(X, [1.0, 1.0], row_norm=1.0)
    order = np.array([[0], [1]])
    end = rows.descend([0.1, 0.2, 0.3], Logistic(), order=order, steps=[1.0, 1.0], clip=1.0)
    alone = rows.descend([0.1, 0.2, 0.3], Logistic(), order=[[1]], steps=[1.0], clip=1.0)
    assert np.array_equal(end.weights, alone.weights)


def test_bad_arguments(small_table):
    X, y = small_table
    rows = as_rows(X, y)
    good = {"order": np.zeros((2, 3), dtype=int), "steps": [0.1, 0.1], "clip": 1.0}
    for change, message in (
        ({"order": np.full((2, 3), 201)}, "do not exist"),
        ({"order": np.full((2, 3), -1)}, "do not exist"),
        ({"steps": [0.1]}, "one row of at least one index"),
        ({"order": np.zeros((2, 0), dtype=int)}, "one row of at least one index"),
        ({"steps": [0.1, math.nan]}, "finite"),
        ({"clip": 0.0}, "clip"),
        ({"noise": GridNoise(np.zeros((1, 12), dtype=np.int64), 0, 1.0)}, "one row of n_param"),
    ):
        with pytest.raises(ValueError, match=message):
            rows.descend(np.zeros(12), Logistic(), **(good | change))


def test_computed_logistic_slopes_are_within_the_bound_of_the_proof():
    """docs/proofs/permutation_sgd.md allows 256 units of 2^-53 for a slope of at most 1."""
    import mpmath

    margins = np.concatenate([np.linspace(-40, 40, 801), [-299.0, 299.0, 1e-9]])
    rows = as_rows(np.array([[1.0]]), [1.0], fit_intercept=False)
    with mpmath.workdps(40):
        for margin in margins:
            end = rows.descend([margin], Logistic(), order=[[0]], steps=[-1.0], clip=10.0)
            exact = -1 / (1 + mpmath.exp(mpmath.mpf(margin)))
            slope = mpmath.mpf(float(end.weights[0])) - mpmath.mpf(margin)
            rounding = 2.0**-53 * (abs(margin) + 1)  # of adding the slope to the weight
            assert abs(slope - exact) <= 16 * 2.0**-53 + rounding
