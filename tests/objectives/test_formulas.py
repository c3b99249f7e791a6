"""Compiled losses are the NumPy ones, to a few units in the last place."""

import numpy as np
import pytest

from discreet.objectives import (
    LOSSES,
    Gamma,
    Huber,
    HuberHinge,
    Logistic,
    Pinball,
    Poisson,
    SmoothPinball,
    Softmax,
    Squared,
    formulas,
)

OTHERS = [HuberHinge(0.7), Huber(0.3), Huber(5.0), Poisson(7.5), Gamma(0.5), Pinball(0.9)]
OTHERS += [Squared(2.0)]
EVERY = [*(loss() for loss in LOSSES.values()), *OTHERS, SmoothPinball(0.1)]
EXACT = ("hinge", "huber-hinge", "huber", "squared", "pinball", "smooth-pinball")
"""Losses of additions, products and comparisons: the same bits in both forms."""

near = np.random.default_rng(0).uniform(-40, 40, 20_001)
MARGINS = np.concatenate([near, [0.0, -0.0, 1.0, -1.0, 299.0, -299.0, 1e-300, 1e15, -1e150]])


def targets_of(loss):
    if loss.task == "classification":
        return np.where(np.arange(MARGINS.size) % 2, 1.0, -1.0)
    return np.linspace(1e-3 if loss.name == "gamma" else -3, 3, MARGINS.size)


def spacing(loss, values, targets):
    """Return the unit in the last place of the largest term: that of a difference may be less."""
    terms = np.abs(values)
    if loss.name in ("poisson", "gamma"):
        near = np.clip(np.abs(MARGINS), 1.0, 1e3)
        terms = np.maximum(terms, (1.0 + loss.parameter) * np.maximum(np.abs(targets), 1.0) * near)
    return np.spacing(terms)


def test_codes_are_those_of_the_formulas():
    for loss in LOSSES.values():
        assert loss.code == getattr(formulas, loss.name.upper().replace("-", "_"))
    assert sorted(loss.code for loss in LOSSES.values()) == list(range(1, 11))
    assert (HuberHinge(0.3).parameter, Huber(0.7).parameter) == (0.3, 0.7)
    assert (Squared(0.8).parameter, Squared().parameter) == (0.8, np.inf)
    assert (Softmax(3).code, Softmax(3).parameter) == (0, 0.0)


def test_a_loss_that_may_compute_something_else_has_no_kernels():
    assert type("Own", (Logistic,), {})().code == 0


@pytest.mark.parametrize("loss", EVERY, ids=repr)
def test_compiled_losses_and_slopes_agree_with_numpy(loss):
    form = (loss.parameter,) * loss.code
    targets, out = targets_of(loss), np.empty(MARGINS.size)
    for write, wanted in (
        (lambda: formulas.losses(form, MARGINS, targets, out), loss.value),
        (lambda: formulas.slopes(form, MARGINS, targets, out), loss.derivative),
    ):
        write()
        expected = wanted(MARGINS, targets)
        if loss.name in EXACT:
            np.testing.assert_array_equal(out, expected)
        else:
            inside = np.abs(MARGINS) <= formulas.REACH  # beyond it, kernels stop at exp(-REACH)
            miss = np.abs(out - expected) / spacing(loss, expected, targets)
            assert miss[inside].max() <= 8
            assert (miss[~inside & (np.abs(expected) > 1e-130)] <= 50).all()


def test_what_is_not_a_number_stays_so():
    margins, targets, out = np.array([np.nan, np.inf, -np.inf]), np.ones(3), np.empty(3)
    for loss in EVERY:
        form = (loss.parameter,) * loss.code
        formulas.losses(form, margins, targets, out)
        assert np.isnan(out[0])
        formulas.slopes(form, margins, targets, out)
        assert np.isnan(out[0])


def test_softmax_slopes_agree_with_numpy():
    rng = np.random.default_rng(1)
    margins, targets = 20 * rng.standard_normal((500, 4)), rng.integers(0, 4, 500).astype(float)
    expected, out = Softmax(4).derivative(margins, targets), np.empty((4, 500))
    formulas.softmax_slopes(np.ascontiguousarray(margins.T), targets, out)
    np.testing.assert_allclose(out.T, expected, rtol=1e-14, atol=1e-15)


def test_the_exponential_is_accurate():
    points = np.linspace(-300, 300, 5001)
    found = np.empty(points.size)
    formulas.exponentials(points, found)
    np.testing.assert_allclose(found, np.exp(points), rtol=3e-16)
