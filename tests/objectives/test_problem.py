"""The penalty and the constants of the problem."""

import math

import numpy as np
import pytest

from discreet.objectives import L2, Hinge, HuberHinge, Logistic, Problem, Squared


def test_penalty():
    weights = np.array([3.0, 4.0])
    assert L2(0.5).value(weights) == 6.25
    np.testing.assert_array_equal(L2(0.5).gradient(weights), [1.5, 2.0])
    assert L2(0).value(weights) == 0


def test_penalty_along_a_line():
    weights, direction = np.array([1.0, -2.0, 3.0]), np.array([0.5, 0.5, -1.0])
    steps = np.linspace(0, 2, 5)
    expected = [L2(0.3).value(weights - step * direction) for step in steps]
    np.testing.assert_allclose(L2(0.3).line(weights, direction, steps), expected)


def test_smoothing_changes_only_losses_with_kinks():
    assert Hinge().smoothed(0.5) == HuberHinge(0.5)
    assert Logistic().smoothed(0.5) == Logistic()


@pytest.mark.parametrize("alpha", [-1, math.inf, math.nan])
def test_bad_alpha(alpha):
    with pytest.raises(ValueError, match="Use 0 for no penalty"):
        L2(alpha)


def test_constants_with_intercept():
    problem = Problem(Logistic(), L2(0.1), 100, 7, row_norm=2.0)
    assert problem.n_parameters == 8
    assert problem.row_norm_bound == pytest.approx(math.sqrt(5))
    assert problem.lipschitz == pytest.approx(math.sqrt(5))
    assert problem.smoothness == pytest.approx(5 / 4 + 0.1)
    assert problem.strong_convexity == 0.1


def test_constants_without_intercept():
    problem = Problem(Logistic(), L2(0.0), 100, 7, fit_intercept=False, row_norm=2.0)
    assert problem.n_parameters == 7
    assert problem.row_norm_bound == problem.lipschitz == 2.0
    assert problem.smoothness == 1.0


def test_constants_that_do_not_exist():
    assert Problem(Hinge(), L2(0.1), 100, 7, row_norm=1.0).smoothness is None
    assert Problem(Squared(), L2(0.1), 100, 7, row_norm=1.0).lipschitz == math.inf
    free = Problem(Logistic(), L2(0.1), 100, 7)
    assert free.row_norm_bound == free.lipschitz == free.smoothness == math.inf


def test_bad_sizes():
    with pytest.raises(ValueError, match="n_rows must be an integer from 1"):
        Problem(Logistic(), L2(), 0, 7)
    with pytest.raises(ValueError, match="n_features must be an integer from 1"):
        Problem(Logistic(), L2(), 5, 0)
    with pytest.raises(ValueError, match="Pass a public bound"):
        Problem(Logistic(), L2(), 5, 5, row_norm=0.0)
