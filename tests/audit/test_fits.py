"""All that a fitted model releases is looked at."""

import itertools
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

from discreet.audit.fits import Fits, released_numbers
from discreet.audit.pairs import worst_cases
from discreet.audit.trials import trace_numbers
from discreet.estimators import LogisticRegression
from discreet.preparation import Centre, Radius, Scale

PAIR = worst_cases("replace_one", norm=1.0, n_rows=30, same_height=True)[0]


def model(**settings):
    settings = {"solver": "gd", "fit_intercept": False, "random_state": 0, **settings}
    return LogisticRegression(2.0, 1e-3, **settings)


@pytest.mark.filterwarnings("ignore")
def test_weights_come_first_then_the_trace():
    fitted = model(fit_intercept=True).fit(*PAIR.tables[1])
    numbers = released_numbers(fitted)
    np.testing.assert_array_equal(numbers[:2], fitted.coef_.ravel())
    assert numbers[2] == fitted.intercept_.item()
    np.testing.assert_array_equal(numbers[4:], trace_numbers(fitted.trace_))
    assert numbers[4] == len(fitted.trace_) > 0


@pytest.mark.filterwarnings("ignore")
def test_which_solver_was_chosen_is_in_it():
    chosen = [
        released_numbers(model(solver=name).fit(*PAIR.tables[1]))[3] for name in ("gd", "sgd")
    ]
    assert chosen[0] != chosen[1]


@pytest.mark.filterwarnings("ignore")
def test_what_a_preparation_learned_is_in_it():
    steps = (Radius(), Centre(), Scale())
    fitted = model(preparation=steps, solver="gd").fit(*PAIR.tables[1])
    numbers = released_numbers(fitted)
    radius, centre, scale = fitted.preparation_
    before = 4 + len(trace_numbers(fitted.trace_))
    learned = numbers[before:]
    assert learned[0] == radius.radius
    np.testing.assert_array_equal(learned[1:3], centre.mean)
    for value in (*scale.weights, centre.deviation, centre.row_norm, scale.row_norm):
        assert value in learned
    assert np.isfinite(numbers).all()


def test_words_and_flags_of_a_preparation_are_left_out():
    @dataclass
    class Step:
        number: float
        vector: np.ndarray
        count: int
        flag: bool
        word: str
        columns: tuple

    step = Step(4.0, np.array([5.0, 6.0]), 7, True, "eight", (9,))
    fake = SimpleNamespace(
        coef_=np.array([[1.0, 2.0]]), intercept_=3.0, preparation_=(step, "no step")
    )
    assert released_numbers(fake).tolist() == [1, 2, 3, 0, 0, 4, 5, 6, 7]


def test_models_without_a_trace_or_preparation_have_weights():
    fake = SimpleNamespace(coef_=np.array([[1.0], [2.0]]), intercept_=np.array([3.0, 4.0]))
    assert released_numbers(fake).tolist() == [1, 2, 3, 4, 0, 0]


def test_draws_are_fits_of_copies_with_seeds_in_turn():
    estimator = model()
    outputs = Fits(estimator, PAIR, itertools.count(7)).draw(1, 3)
    assert not hasattr(estimator, "coef_")
    assert estimator.random_state == 0
    for seed, row in zip((7, 8, 9), outputs, strict=True):
        with pytest.warns():  # seeds are for tests
            alone = model(random_state=seed).fit(*PAIR.tables[1])
        np.testing.assert_array_equal(row, released_numbers(alone))
    assert len(np.unique(outputs[:, 0])) == 3


def test_worlds_are_the_two_tables_and_calls_go_on_with_new_seeds():
    fits = Fits(model(), PAIR, itertools.count(0))
    first, second = fits.draw(0, 2), fits.draw(0, 2)
    assert not np.isin(first[:, :2], second[:, :2]).any()
    other = Fits(model(), PAIR, itertools.count(0)).draw(1, 2)
    # the same noise, another table: the projection on the changed row moves, and up
    assert ((other - first)[:, :2] @ PAIR.direction > 0).all()


def test_without_seeds_an_estimator_is_as_it_is_in_use(recwarn):
    fresh = Fits(model(random_state=None), PAIR).draw(1, 4)
    assert len(np.unique(fresh[:, 0])) == 4
    fixed = Fits(model(random_state=3), PAIR).draw(1, 2)
    np.testing.assert_array_equal(fixed[0], fixed[1])  # its own setting is kept
    assert not recwarn.list  # tiny tables are meant
