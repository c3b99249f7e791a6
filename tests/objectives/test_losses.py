"""Every loss keeps what it declares."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import mean_gamma_deviance, mean_pinball_loss, mean_poisson_deviance

from discreet.objectives import (
    LOSSES,
    Gamma,
    Hinge,
    Huber,
    HuberHinge,
    Logistic,
    Pinball,
    Poisson,
    Sigmoid,
    SmoothPinball,
    Squared,
)
from discreet.objectives.families import SMOOTHING

EVERY = [
    Logistic(),
    Hinge(),
    HuberHinge(),
    HuberHinge(smoothing=0.7),
    Huber(),
    Huber(threshold=0.3),
    Huber(threshold=5.0),
    Squared(),
    Squared(limit=1.0),
    Sigmoid(),
    Poisson(),
    Poisson(limit=7.5),
    Gamma(),
    Gamma(threshold=0.5),
    Pinball(),
    Pinball(quantile=0.9),
    SmoothPinball(),
    SmoothPinball(quantile=0.1),
]
every_loss = pytest.mark.parametrize("loss", EVERY, ids=repr)
convex_losses = pytest.mark.parametrize("loss", [x for x in EVERY if x.convex], ids=repr)
margins = st.floats(-30, 30)
RNG = np.random.default_rng(0)
MARGINS = np.concatenate([np.linspace(-30, 30, 2401), RNG.uniform(-30, 30, 2600), [5e-324, -1e-9]])


def kinks(loss, target):
    """Margins at which φ' or φ'' jumps."""
    match loss:
        case Hinge():
            return [target]
        case HuberHinge(h):
            return [target * (1 - h), target * (1 + h)]
        case Huber(t):
            return [target - t, target + t]
        case Squared(t) if t is not None and abs(target) >= t:
            return [target]
        case Poisson(c):
            return [math.log(c)]
        case Gamma(c):
            return [math.log(target / (1 + c))]
        case SmoothPinball():
            return [target - SMOOTHING, target + SMOOTHING]
        case Pinball():
            return [target]
    return []


def targets_of(loss):
    if loss.task == "classification":
        return [-1.0, 1.0]
    match loss:
        case Poisson(c):
            return [0.0, c]
        case Gamma():
            return [0.01, 1.0, 2.0]
    return [-3.5, 0.0, 2.0]


def smooth_margins(loss, target, distance):
    """Return margins that are not near a kink."""
    near = [np.abs(MARGINS - kink) <= distance for kink in kinks(loss, target)]
    return MARGINS[~np.any([np.zeros(MARGINS.size, dtype=bool), *near], axis=0)]


def test_losses_are_found_by_name():
    assert list(LOSSES) == [
        *["logistic", "hinge", "huber-hinge", "huber", "squared", "sigmoid"],
        *["poisson", "gamma", "pinball", "smooth-pinball"],
    ]
    assert all(LOSSES[name]().name == name for name in LOSSES)


@every_loss
def test_derivatives_agree_with_finite_differences(loss):
    step = 1e-5
    for target in targets_of(loss):
        m = smooth_margins(loss, target, 2 * step)
        slope = (loss.value(m + step, target) - loss.value(m - step, target)) / (2 * step)
        np.testing.assert_allclose(loss.derivative(m, target), slope, rtol=0, atol=1e-6)
        bend = (loss.derivative(m + step, target) - loss.derivative(m - step, target)) / (2 * step)
        np.testing.assert_allclose(loss.second_derivative(m, target), bend, rtol=0, atol=1e-6)


def test_the_squared_loss_with_a_limit_is_least_at_the_mean():
    """As without a limit, and wherever all targets are at the limit at any margin beyond it."""
    at, loss = np.linspace(-3, 3, 6001), Squared(limit=1.0)
    for targets in (RNG.uniform(-1, 1, 9), RNG.choice([-1.0, 1.0], 25), np.array([1.0, 1.0, -0.5])):
        means = [float(loss.value(m, targets).mean()) for m in at]
        assert at[np.argmin(means)] == pytest.approx(targets.mean(), abs=5.1e-4)
    assert not loss.value(at[at > 1], 1.0).any()
    assert not loss.derivative(at[at < -1], -1.0).any()
    inside = RNG.uniform(-0.99, 0.99, at.size)
    assert np.array_equal(loss.derivative(at, inside), Squared().derivative(at, inside))


def test_only_the_sigmoid_is_not_convex():
    assert [loss for loss in EVERY if not loss.convex] == [Sigmoid()]
    assert Sigmoid().value(-3.0, 1.0) > (Sigmoid().value(-6.0, 1.0) + Sigmoid().value(0.0, 1.0)) / 2


@convex_losses
def test_convex_and_not_negative(loss):
    a, b = MARGINS, RNG.permutation(MARGINS)
    share = np.append(RNG.uniform(size=a.size - 2), [0.0, 1.0])
    for target in targets_of(loss):
        between = loss.value(share * a + (1 - share) * b, target)
        chord = share * loss.value(a, target) + (1 - share) * loss.value(b, target)
        assert (between >= 0).all()
        assert (between <= chord + 1e-12 * (1 + chord)).all()
        assert ((loss.derivative(a, target) - loss.derivative(b, target)) * (a - b) >= 0).all()


@every_loss
def test_bounds_hold_and_are_attained(loss):
    wide = np.concatenate([np.linspace(-60, 60, 240_001), [-1e8, 1e8]])
    for target in targets_of(loss):
        edges = np.array(kinks(loss, target))
        grid = np.concatenate([wide, edges - 1e-9, edges + 1e-9])
        slope = np.abs(loss.derivative(grid, target)).max()
        bend = loss.second_derivative(grid, target)
        assert slope <= loss.slope_bound
        assert np.all(bend >= 0) == loss.convex
        if math.isfinite(loss.slope_bound):
            assert slope >= loss.slope_bound * (1 - 1e-6)
        if loss.smooth:
            bend = np.abs(bend)
            assert bend.max() <= loss.curvature_bound * (1 + 1e-15)
            assert bend.max() >= loss.curvature_bound * (1 - 1e-6)
        else:
            assert loss.curvature_bound is None


@every_loss
@pytest.mark.parametrize("size", [1e3, 1e15, 1e150, 1e300])
def test_huge_margins_are_quiet(loss, size):
    margin = np.array([-size, size])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for target in targets_of(loss):
            value = loss.value(margin, target)
            assert np.all(value >= 0)
            assert np.isfinite(value).all() or (loss.name == "squared" and size > 1e150)
            assert np.isfinite(loss.derivative(margin, target)).all()
            assert np.isfinite(loss.second_derivative(margin, target)).all()


@every_loss
def test_elementwise_and_broadcast(loss):
    margin, target = np.linspace(-3, 3, 6).reshape(2, 3), targets_of(loss)[0]
    for method in (loss.value, loss.derivative, loss.second_derivative):
        full = method(margin, np.full((2, 3), target))
        assert full.shape == (2, 3)
        assert full.dtype == np.float64
        np.testing.assert_array_equal(method(margin, target), full)
        assert method(margin[1, 2], target) == full[1, 2]


def test_values_by_hand():
    assert Logistic().value(0.0, 1.0) == pytest.approx(math.log(2))
    assert Hinge().value(0.25, 1.0) == 0.75
    assert HuberHinge(0.1).value(1.0, 1.0) == pytest.approx(0.025)
    assert HuberHinge(0.1).value(0.0, -1.0) == 1.0
    assert HuberHinge(0.1).value(1.2, 1.0) == 0.0
    assert Huber(1.0).value(3.0, 1.0) == 1.5
    assert Squared().value(3.0, 1.0) == 2.0
    assert Sigmoid().value(0.0, 1.0) == 0.5
    assert Sigmoid().derivative(0.0, -1.0) == 0.25


@every_loss
def test_one_corner_means_slopes_of_one_sign(loss):
    assert loss.gradient_corners in (1, 2)
    assert loss.n_outputs == loss.hessian_rank == 1
    assert loss.hessian_trace_bound == loss.curvature_bound
    if loss.gradient_corners == 1:
        for target in targets_of(loss):
            slopes = loss.derivative(MARGINS, target)
            assert (slopes >= 0).all() or (slopes <= 0).all()


@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan])
def test_bad_fields_are_refused_with_a_remedy(value):
    with pytest.raises(ValueError, match=r"smoothing must be a finite number > 0.*Use 0\.1"):
        HuberHinge(value)
    with pytest.raises(ValueError, match=r"threshold must be a finite number > 0.*Use 1\.0"):
        Huber(value)


@given(margin=margins, target=st.floats(-1e6, 1e6))
def test_slopes_of_families_are_bounded_for_every_target(margin, target):
    """The bounds must not rest on targets being valid: a person may change theirs at will."""
    for loss in (Poisson(), Poisson(7.5), Gamma(), Gamma(0.5), Pinball(0.9), SmoothPinball(0.9)):
        if not (isinstance(loss, Gamma) and target <= 0):  # estimators clip to positive bounds
            assert abs(loss.derivative(margin, target)) <= loss.slope_bound


@given(mean=st.floats(0.05, 0.9), margin=st.floats(-3, 0))
def test_families_are_deviances_where_no_slope_is_clipped(mean, margin):
    predicted = math.exp(margin)
    assert Poisson().value(margin, mean) == pytest.approx(
        mean_poisson_deviance([mean], [predicted]) / 2, abs=1e-12
    )
    if mean / predicted < 5:
        deviance = mean_gamma_deviance([mean], [predicted]) / 2
        assert Gamma().value(margin, mean) == pytest.approx(deviance, abs=1e-12)
    wanted = mean_pinball_loss([mean], [margin], alpha=0.3)
    assert Pinball(0.3).value(margin, mean) == pytest.approx(wanted, abs=1e-12)
    width = SmoothPinball(0.3).value(margin, mean) - wanted
    assert -1e-12 <= width <= SMOOTHING / 4 + 1e-12


@pytest.mark.parametrize("loss", [Poisson(), Gamma(), SmoothPinball(0.8), Squared()], ids=repr)
def test_local_shapes_are_those_of_a_constant_model(loss):
    rng = np.random.default_rng(0)
    y = np.clip(rng.normal(0.4, 0.1, 200_000), 1e-3, 1.0)
    local = loss.local(y.mean(), y.std())
    slopes = loss.derivative(np.full(y.size, local.margin), y)
    assert abs(slopes.mean()) < 0.03
    assert slopes.std() == pytest.approx(local.slope, rel=0.2)
    bends = loss.second_derivative(np.full(y.size, local.margin), y)
    assert bends.mean() == pytest.approx(local.curvature, rel=0.05)
    if not isinstance(loss, SmoothPinball):
        up = loss.local(y.mean() + 1e-4, y.std())
        assert (up.margin - local.margin) / 1e-4 == pytest.approx(local.scale, rel=0.01)


@pytest.mark.parametrize("mean", [-0.3, 0.0, 1e-9, 5.0])
def test_local_shapes_survive_noisy_moments(mean):
    for loss in (Poisson(), Gamma(), Pinball(0.99)):
        assert all(math.isfinite(value) for value in loss.local(mean, 0.2))
        assert loss.local(mean, 0.2).curvature > 0


@pytest.mark.parametrize("value", [0, 0.005, 1, math.nan])
def test_bad_quantiles_are_refused(value):
    with pytest.raises(ValueError, match=r"quantile must be .* is the median"):
        Pinball(value)


def test_scores_have_bounded_slopes_and_the_density_of_residuals_as_curvature():
    for loss in (Squared(), Huber(100.0)):
        found = loss.scored(2.0)
        assert found.slopes == found.curvature == Huber(7.0)
        assert found.factor == 1.0
        assert not found.inside
        wide = loss.scored(2.0, 20.0)
        assert wide.slopes == wide.curvature == Huber(40.0)
        # the curvature keeps its window where slopes are cut more
        narrow = loss.scored(2.0, 1.345)
        assert (narrow.slopes, narrow.curvature) == (Huber(2.69), Huber(7.0))
        assert narrow.inside
        assert narrow.even
    assert Huber(1.0).scored(2.0).slopes == Huber(1.0)
    for loss in (Pinball(0.9), SmoothPinball(0.9)):
        slopes, curvature, factor, inside, even = loss.scored(2.0)
        assert not inside
        assert not even
        assert slopes == Pinball(0.9)  # a smooth kink would move the quantile
        residuals = np.linspace(-4, 4, 80_001)
        window = factor * curvature.second_derivative(residuals, 0.0)
        # the mean density of normal errors over the window is 4 % above that at the quantile
        assert np.trapezoid(window, residuals) == pytest.approx(1 / 1.0416, abs=1e-3)
    assert Logistic().scored(2.0) == (Logistic(), Logistic(), 1.0, False, False)
