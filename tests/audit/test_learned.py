"""The learned score: it finds what differs, and survives outputs that are odd."""

import warnings

import numpy as np
import pytest

from discreet.audit.learned import MOST_NUMBERS, learn

rng = np.random.default_rng(0)


def separation(score, first, second):
    """How often an output of the second world has the higher score."""
    a, b = np.sort(score(first)), score(second)
    low, high = np.searchsorted(a, b, side="left"), np.searchsorted(a, b, side="right")
    return float(np.mean((low + high) / (2 * a.size)))


def worlds(count, change):
    first, second = rng.normal(size=(count, 3)), rng.normal(size=(count, 3))
    return first, change(second)


@pytest.mark.parametrize(
    "change",
    [
        lambda z: z + np.array([0.0, 1.0, 0.0]),
        lambda z: z - np.array([0.0, 0.0, 1.0]),
        lambda z: 2 * z,  # only the scale differs
        lambda z: z * np.array([1.0, 1e-3, 1.0]),
        lambda z: np.column_stack([z[:, 0], z[:, 0] + 0.3 * z[:, 1], z[:, 2]]),  # only a product
    ],
)
@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_it_finds_what_differs_in_any_unit(change, unit):
    first, second = worlds(2000, change)
    score = learn(unit * first, unit * second)
    fresh = worlds(2000, change)
    assert separation(score, unit * fresh[0], unit * fresh[1]) > 0.65


def test_worlds_that_are_alike_are_not_told_apart():
    score = learn(*worlds(2000, lambda z: z))
    assert abs(separation(score, *worlds(20_000, lambda z: z)) - 0.5) < 0.03


def test_constant_outputs_have_one_score():
    score = learn(np.full((50, 2), 3.0), np.full((50, 2), 3.0))
    assert np.unique(score(np.full((10, 2), 3.0))).size == 1


def test_constant_but_different_outputs_are_told_apart():
    score = learn(np.zeros((50, 1)), np.ones((50, 1)))
    assert score(np.array([[1.0]])) > score(np.array([[0.0]]))


def test_a_rare_value_is_found():
    """Nine in ten outputs are 0 in both worlds, so quartiles do not move."""
    first, second = (rng.random((4000, 1)) < 0.02) * 1.0, (rng.random((4000, 1)) < 0.1) * 1.0
    score = learn(first, second)
    assert score(np.array([[1.0]])) > score(np.array([[0.0]]))


def test_extreme_outputs_are_finite_scores():
    first, second = worlds(500, lambda z: z + 1)
    first[0], second[0] = 1e300, -1e300
    score = learn(first, second)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.all(np.isfinite(score(np.array([[1e300, -1e300, 0.0], [np.inf, 0.0, -np.inf]]))))
    fresh = worlds(2000, lambda z: z + 1)
    assert separation(score, *fresh) > 0.85


def test_many_numbers_are_scored_without_products():
    shift = np.zeros(MOST_NUMBERS + 20)
    shift[7] = 2.0
    first = rng.normal(size=(1000, shift.size))
    second = rng.normal(size=(1000, shift.size)) + shift
    score = learn(first, second)
    fresh = rng.normal(size=(1000, shift.size))
    assert separation(score, fresh, fresh[::-1] + shift) > 0.8
