"""Docstrings: their examples run, and notebooks can display them."""

import doctest
import warnings

import numpy as np
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


def test_the_warning_about_target_bounds_is_true():
    """Without bounds no target is clipped: a fit finds a mean far above 1."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 2))
    y = 5.8 + 0.8 * (X @ [1.0, -0.5] + rng.normal(size=5000))
    with pytest.warns(UserWarning, match="target_bounds") as caught:
        model = LinearRegression(epsilon=10.0, random_state=0).fit(X, y)
    assert 5 < model.intercept_ < 6.5
    (warning,) = (str(each.message) for each in caught if "target_bounds" in str(each.message))
    assert "no target is clipped" in warning
