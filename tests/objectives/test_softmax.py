"""Losses of several classes keep what they declare: cross-entropy and a hinge."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from discreet.objectives import (
    L2,
    Hinge,
    HuberHinge,
    Logistic,
    MulticlassHinge,
    Problem,
    Softmax,
)

vectors = arrays(float, 4, elements=st.floats(-30, 30))
LOSS = Softmax(4)


@given(margin=vectors, target=st.integers(0, 3))
def test_derivatives_agree_with_finite_differences(margin, target):
    step = 1e-5 * np.eye(4)
    slopes = [
        (LOSS.value(margin + e, target) - LOSS.value(margin - e, target)) / 2e-5 for e in step
    ]
    np.testing.assert_allclose(LOSS.derivative(margin, target), slopes, atol=1e-6)
    bends = [
        (LOSS.derivative(margin + e, target) - LOSS.derivative(margin - e, target)) / 2e-5
        for e in step
    ]
    np.testing.assert_allclose(LOSS.second_derivative(margin, target), bends, atol=1e-6)


@given(margin=vectors, target=st.integers(0, 3))
def test_bounds_hold(margin, target):
    slopes = LOSS.derivative(margin, target)
    assert np.linalg.norm(slopes) <= LOSS.slope_bound
    eigenvalues = np.linalg.eigvalsh(LOSS.second_derivative(margin, target))
    assert eigenvalues.max() <= LOSS.curvature_bound + 1e-12
    assert eigenvalues.min() >= -1e-12
    assert np.sum(eigenvalues > 1e-10) <= LOSS.hessian_rank
    assert eigenvalues.sum() <= LOSS.hessian_trace_bound + 1e-12
    # the hull of 0 and e_j − e_y: coefficients are p_j, not negative, with sum at most 1
    others = np.delete(slopes, target)
    assert LOSS.gradient_corners == others.size
    assert np.all(others >= 0)
    assert others.sum() <= 1 + 1e-12
    assert slopes[target] == pytest.approx(-others.sum(), abs=1e-12)


def test_bounds_are_attained():
    assert np.linalg.norm(LOSS.derivative([50.0, 0, 0, 0], 1)) == pytest.approx(LOSS.slope_bound)
    bend = LOSS.second_derivative([50.0, 50.0, 0, 0], 1)
    assert np.linalg.eigvalsh(bend).max() == pytest.approx(LOSS.curvature_bound)
    assert np.trace(LOSS.second_derivative(np.zeros(4), 0)) == pytest.approx(0.75)


def test_two_classes_are_the_logistic_loss():
    for margin in (-3.0, 0.0, 2.0):
        both = Softmax(2).value([0.0, margin], 1.0)
        assert both == pytest.approx(float(Logistic().value(margin, 1.0)))


def test_rows_are_independent_and_huge_margins_quiet():
    margins = np.array([[1e300, -1e300, 0.0, 1.0], [0.0, 1.0, 2.0, 3.0]])
    both = LOSS.value(margins, np.array([1.0, 2.0]))
    assert np.isfinite(LOSS.derivative(margins, np.array([1.0, 2.0]))).all()
    assert both[1] == LOSS.value(margins[1], 2.0)
    assert both[0] >= 1e300


def test_parameters_are_counted_for_every_class():
    problem = Problem(Softmax(3), L2(0.1), 10, 4, row_norm=1.0)
    assert problem.n_parameters == 15
    assert problem.lipschitz == pytest.approx(2.0)
    assert problem.smoothness == pytest.approx(1.1)


def test_what_is_refused():
    for count in (1, 0, 2.5):
        with pytest.raises(ValueError, match="from 2"):
            Softmax(count)
    with pytest.raises(ValueError, match="classes 0 to 3"):
        LOSS.value(np.zeros(4), 4.0)
    with pytest.raises(ValueError, match="4 entries"):
        LOSS.value(np.zeros(3), 1.0)


LEADS = vectors.filter(lambda m: np.min(np.abs(np.diff(np.sort(m)))) > 1e-3)  # no ties


@pytest.mark.parametrize("hinge", [Hinge(), HuberHinge(0.2)], ids=repr)
@given(margin=LEADS, target=st.integers(0, 3))
def test_a_hinge_of_classes_is_that_of_the_lead_over_the_best_other(hinge, margin, target):
    loss, others = MulticlassHinge(4, hinge), np.delete(margin, target)
    lead = margin[target] - others.max()
    assert loss.value(margin, target) == hinge.value(lead, 1.0)
    slopes = loss.derivative(margin, target)
    assert slopes[target] == hinge.derivative(lead, 1.0)
    assert slopes[margin == others.max()] == -slopes[target]
    assert np.count_nonzero(slopes) == 2 * (slopes[target] != 0)
    assert np.linalg.norm(slopes) <= loss.slope_bound
    # the hull of 0 and e_j − e_y
    assert loss.gradient_corners == others.size
    assert 0 <= -slopes[target] <= 1
    bends = np.linalg.eigvalsh(loss.second_derivative(margin, target))
    assert bends.max() == pytest.approx(2 * float(hinge.second_derivative(lead, 1.0)))


@given(first=vectors, second=vectors, target=st.integers(0, 3))
def test_a_hinge_of_classes_is_convex(first, second, target):
    loss = MulticlassHinge(4, HuberHinge())
    middle = loss.value((first + second) / 2, target)
    assert middle <= (loss.value(first, target) + loss.value(second, target)) / 2 + 1e-9


def test_hinges_of_classes_are_elementwise_not_smooth_and_quiet():
    loss = MulticlassHinge(4, Hinge())
    assert loss.curvature_bound is None
    assert loss.hessian_trace_bound is None
    assert (loss.n_outputs, loss.slowness, Softmax(4).slowness, Softmax(2).slowness) == (4, 1, 2, 1)
    margins = np.array([[1e308, -1e308, 0.0, 1.0], [0.0, 1.0, 2.0, 3.0], [np.nan] * 4])
    slopes = loss.derivative(margins, np.array([1.0, 2.0, 0.0]))
    np.testing.assert_array_equal(slopes[0], [1, -1, 0, 0])
    np.testing.assert_array_equal(slopes[1], loss.derivative(margins[1], 2.0))
    np.testing.assert_array_equal(slopes[2], 0)
    with pytest.raises(ValueError, match="MulticlassHinge: targets must be classes 0 to 3"):
        loss.value(np.zeros(4), 4.0)
