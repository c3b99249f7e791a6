"""Moments and bounds: charged before rows are read, with noise for the right sensitivity."""

import math

import numpy as np
import pytest

from discreet.errors import BudgetExceeded, PrivacyError
from discreet.privacy import (
    Account,
    Budget,
    Curator,
    ExponentialMechanism,
    Gaussian,
    L2Norm,
    Laplace,
)
from discreet.privacy.bits import SeededBits
from discreet.privacy.noise import Noise
from discreet.rows import Sum, as_rows

SMALL = Gaussian(100.0)
CHOICE = ExponentialMechanism(0.01, monotone=False)


class Spy:
    """Rows that record how often the filter had been charged when they were read."""

    n_rows, n_parameters = 1000, 2

    def __init__(self, row_norm=2.0, error=0.0):
        self.row_norm, self.error = row_norm, error
        self.curator = None
        self.looks = []

    def _look(self, values):
        self.looks.append(sum(times for _, times in self.curator._filter.uses))
        return Sum(np.array(values), self.error)

    def row_sum(self):
        return self._look([1.0, -2.0])

    def outer_sum(self):
        return self._look([3.0, 0.5, 4.0])

    def column(self, index):
        return self._look(np.arange(1000.0)).values


def spied(relation="add_remove", measures=("zcdp",), delta=1e-6, share=0.5, **settings):
    rows = Spy(**settings)
    account = Account(Budget(1.0, delta, relation))
    account.set_aside([("all", share)], measures)
    rows.curator = Curator(rows, account, Noise(SeededBits(1)))
    rows.curator.open_aside(0)
    return rows, rows.curator


def test_every_look_was_charged_first():
    rows, curator = spied()
    curator.row_sum(mechanism=SMALL)
    curator.outer_sum(mechanism=SMALL)
    curator.column_bounds(0, coverage=0.9, mechanism=CHOICE)
    assert rows.looks == [1, 2, 4]  # both choices of a column are paid for at once


def test_nothing_is_read_that_is_not_affordable_or_makes_no_sense():
    rows, curator = spied()
    for ask in (curator.row_sum, curator.outer_sum):
        with pytest.raises(BudgetExceeded):
            ask(mechanism=Gaussian(0.1))
        with pytest.raises(TypeError, match="L2"):
            ask(mechanism=Laplace(0.001))
    with pytest.raises(BudgetExceeded):
        curator.column_bounds(0, coverage=0.9, mechanism=ExponentialMechanism(2.0, monotone=False))
    with pytest.raises(ValueError, match="monotone"):
        curator.column_bounds(0, coverage=0.9, mechanism=ExponentialMechanism(0.01, monotone=True))
    for coverage in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="coverage"):
            curator.column_bounds(0, coverage=coverage, mechanism=CHOICE)
    assert rows.looks == []
    assert curator.spent_share == 0


def test_rows_without_a_bound_are_refused_for_free():
    _, curator = spied(row_norm=None)
    for ask in (curator.row_sum, curator.outer_sum):
        with pytest.raises(ValueError, match="bound"):
            ask(mechanism=SMALL)
    assert curator.spent_share == 0


@pytest.mark.parametrize(
    ("relation", "first", "second"),
    [("add_remove", 2.0, 4.0), ("replace_one", 4.0, 4.0 * math.sqrt(2))],
)
def test_noise_is_scaled_to_the_sensitivity_under_the_relation(relation, first, second):
    _, curator = spied(relation)
    assert curator.row_sum(mechanism=SMALL).deviation == pytest.approx(100 * first, rel=1e-5)
    assert curator.outer_sum(mechanism=SMALL).deviation == pytest.approx(100 * second, rel=1e-5)
    _, curator = spied(relation, error=0.25)  # twice the rounding error comes on top
    assert curator.row_sum(mechanism=SMALL).deviation == pytest.approx(
        100 * (first + 0.5), rel=1e-5
    )
    assert curator.outer_sum(mechanism=SMALL).deviation >= 100 * (second + 0.5)


def test_pure_noise_has_the_deviation_that_is_stated():
    _, curator = spied(delta=0.0, share=0.99)
    mechanism = L2Norm(0.0005)
    draws, stated = [], 0.0
    for _ in range(600):
        noisy = curator.outer_sum(mechanism=mechanism)
        draws.append(noisy.values - [3.0, 0.5, 4.0])
        stated = noisy.deviation
    # 1800 coordinates of kurtosis below 7: the ratio's deviation is below 0.06, so 0.35 is 6 of it
    assert np.sqrt(np.mean(np.square(draws))) == pytest.approx(stated, rel=0.35)


def test_a_preparation_is_opened_in_the_measure_of_the_division():
    for measures, delta, measure in (
        (("zcdp",), 1e-6, "zcdp"),
        (("gdp",), 1e-6, "gdp"),
        (("approximate",), 1e-6, "gdp"),
        (("approximate",), 0.0, "pure"),
    ):
        _, curator = spied(measures=measures, delta=delta)
        assert curator._filter.measure == measure
        with pytest.raises(PrivacyError, match="already open"):
            curator.open_aside(0)


def test_bounds_of_a_column_hold_most_of_it():
    rng = np.random.default_rng(0)
    X = rng.uniform(20.0, 80.0, size=(20_000, 2))
    account = Account(Budget(1.0, 1e-6, "add_remove"))
    account.set_aside([("bounds", 0.9)], ["zcdp"])
    rows = as_rows(X, np.zeros(len(X)), fit_intercept=False)
    curator = Curator(rows, account, Noise(SeededBits(0)))
    curator.open_aside(0)
    mechanism = ExponentialMechanism(0.1, monotone=False)
    low, high = curator.column_bounds(1, coverage=0.95, mechanism=mechanism)
    assert 15 <= low <= 30
    assert 70 <= high <= 85
