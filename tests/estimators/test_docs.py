"""Docstrings: their examples run, and notebooks can display them."""

import doctest
import warnings

import pytest

from discreet import HuberRegressor, LinearRegression, LinearSVC, LogisticRegression
from discreet.estimators import classifiers


def test_examples_in_docstrings():
    result = doctest.testmod(classifiers)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("kind", [HuberRegressor, LinearRegression, LinearSVC, LogisticRegression])
def test_a_notebook_displays_an_estimator_without_warnings(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for model in (kind(), kind(epsilon=0.5, data_norm=1.0)):
            assert kind.__name__ in model._repr_html_()
