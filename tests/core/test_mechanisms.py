"""Costs against closed forms and dp-accounting; scales against hand-computed values."""

import math
from fractions import Fraction

import numpy as np
import pytest

from discreet.accounting import conversions
from discreet.accounting.recompute import mechanism_event
from discreet.core import (
    ExponentialMechanism,
    Gaussian,
    L2Norm,
    Laplace,
    PermuteAndFlip,
)
from discreet.core.bits import SeededBits
from discreet.core.noise import Noise, grid_exponent


def noise(seed: int) -> Noise:
    return Noise(SeededBits(seed))


def test_gaussian_cost_and_scale_by_hand():
    gaussian = Gaussian.from_rho(0.02)
    # rho = Δ²/(2σ²) with Δ = 3: σ = 3/sqrt(0.04) = 15 (Bun & Steinke 2016, Proposition 1.6).
    assert gaussian.scale(3.0) == pytest.approx(15.0, rel=1e-12)
    assert gaussian.loss.rho == pytest.approx(0.02, rel=1e-12)
    assert gaussian.loss.mu == pytest.approx(0.2, rel=1e-12)
    assert gaussian.loss.epsilon == math.inf


@pytest.mark.parametrize("uses", [1, 3, 7, 1000])
def test_shared_totals_are_kept_in_exact_sums_and_nearly_used(uses):
    """A filter adds up rational numbers: one unit of rounding too much would be refused."""
    for total in (1e-9, 0.01, 0.1, 1 / 3, 0.7, 2.0, 123.456):
        one = Gaussian.sharing(total, uses)
        spent = uses * Fraction(one.loss.mu) ** 2
        assert spent <= Fraction(total)
        assert spent >= Fraction(total) * (1 - Fraction(1, 10**11))


@pytest.mark.parametrize("total", [1e-6, 0.01, 1 / 3, 2.0])
def test_a_selection_keeps_its_share_and_nearly_uses_it(total):
    one = ExponentialMechanism.sharing(total)
    assert not one.monotone
    spent = Fraction(one.loss.mu) ** 2
    assert Fraction(total) * (1 - Fraction(1, 10**6)) <= spent <= Fraction(total)


def test_selection_costs_by_hand():
    # At ε = 0.1: Gumbel ε²/8 = 0.00125; exponential noise ε·tanh(ε/2) = 0.00499584 < ε²/2.
    assert ExponentialMechanism(0.1, monotone=True).loss.rho == pytest.approx(0.00125)
    assert PermuteAndFlip(0.1, monotone=True).loss.rho == pytest.approx(0.00499584, rel=1e-6)


@pytest.mark.parametrize("kind", [ExponentialMechanism, PermuteAndFlip])
def test_selection_scales_by_hand(kind):
    # r = Δ if monotone, else 2Δ; b = r/ε. Δ = 3, ε = 0.1: 30 and 60.
    assert kind(0.1, monotone=True).scale(3.0) == pytest.approx(30.0)
    assert kind(0.1, monotone=False).scale(3.0) == pytest.approx(60.0)


@pytest.mark.parametrize("kind", [Laplace, L2Norm])
def test_pure_costs_by_hand(kind):
    mechanism = kind(0.5)
    assert mechanism.loss.epsilon == 0.5
    assert mechanism.loss.rho == pytest.approx(0.12245933, rel=1e-6)  # ε·tanh(ε/2)
    assert mechanism.scale(2.0) == pytest.approx(4.0)


@pytest.mark.parametrize(
    "mechanism",
    [Laplace(0.3), L2Norm(0.3), PermuteAndFlip(0.3, True), ExponentialMechanism(0.3, True)],
)
def test_costs_never_round_below_the_formula(mechanism):
    assert mechanism.loss.mu >= conversions.mu_from_bounded_range(0.3)
    assert mechanism.loss.rho >= 0.3**2 / 8


def test_events_are_what_dp_accounting_makes_of_them():
    from dp_accounting import pld, rdp

    delta = 1e-6
    gaussian = Gaussian(2.0)
    accountant = pld.PLDAccountant()
    accountant.compose(mechanism_event(gaussian))
    ours = conversions.epsilon_from_mu(gaussian.loss.mu, delta)
    assert accountant.get_epsilon(delta) == pytest.approx(ours, rel=1e-3)

    laplace = Laplace(0.7)
    accountant = pld.PLDAccountant()
    accountant.compose(mechanism_event(laplace))
    assert accountant.get_epsilon(delta) == pytest.approx(0.7 + 2 * math.log1p(-delta), rel=1e-3)

    selection = ExponentialMechanism(0.1, monotone=True)
    accountant = rdp.RdpAccountant()
    accountant.compose(mechanism_event(selection), 100)
    assert accountant.get_epsilon(delta) == pytest.approx(
        conversions.epsilon_from_rho(100 * 0.1**2 / 8, delta), rel=0.02
    )


def log_ratio_of_selection(kind, epsilon, scores, neighbours, scale):
    """Largest log-ratio of exact selection probabilities on two score vectors."""
    if kind is ExponentialMechanism:
        first, second = (np.asarray(s) / scale for s in (scores, neighbours))
        return np.abs(
            (first - np.logaddexp.reduce(first)) - (second - np.logaddexp.reduce(second))
        ).max()
    return np.abs(
        np.log(permute_and_flip(scores, scale)) - np.log(permute_and_flip(neighbours, scale))
    ).max()


def permute_and_flip(scores, scale):
    """Exact probabilities of the argmax of scores + scale·Exp(1), by numerical integration."""
    scores = np.asarray(scores, dtype=float) / scale
    grid = np.linspace(scores.max(), scores.max() + 60, 400_001)
    out = []
    for i in range(len(scores)):
        density = np.exp(-(grid - scores[i]))
        others = np.prod([-np.expm1(-(grid - s)) for j, s in enumerate(scores) if j != i], axis=0)
        out.append(np.trapezoid(density * others, grid))
    return np.array(out)


@pytest.mark.parametrize("kind", [ExponentialMechanism, PermuteAndFlip])
@pytest.mark.parametrize("monotone", [True, False])
def test_selection_keeps_its_epsilon_on_worst_case_scores(kind, monotone):
    epsilon, sensitivity = 0.5, 1.0
    scale = kind(epsilon, monotone=monotone).scale(sensitivity)
    base = np.array([0.0, 0.3, -0.2])
    low = 0.0 if monotone else -sensitivity
    worst = 0.0
    for change in np.array(np.meshgrid(*[[low, sensitivity]] * 3)).reshape(3, -1).T:
        worst = max(worst, log_ratio_of_selection(kind, epsilon, base, base + change, scale))
    assert worst <= epsilon + 1e-6
    if kind is ExponentialMechanism:
        # The scale is also needed: with half of it the promise breaks.
        broken = log_ratio_of_selection(
            kind, epsilon, base, base + np.array([low, sensitivity, low]), scale / 4
        )
        assert broken > epsilon


def test_release_is_unbiased_and_has_the_stated_scale():
    # 400 releases of 50 coordinates. The mean of 20,000 standard normals is beyond 6/sqrt(20000)
    # with probability 2e-9; their mean square is beyond 1 ± 0.07 with probability below 1e-10.
    gaussian = Gaussian(4.0)
    value = np.linspace(-100, 100, 50)
    draws, scales = zip(
        *(
            gaussian.release(value, sensitivity=3.0, magnitude=1e4, noise=noise(seed))
            for seed in range(400)
        ),
        strict=True,
    )
    standard = (np.array(draws) - value) / np.array(scales)[:, None]
    assert scales[0] == pytest.approx(12.0, rel=1e-6)
    assert scales[0] >= 12.0
    assert abs(standard.mean()) < 6 / math.sqrt(standard.size)
    assert abs((standard**2).mean() - 1) < 0.07


@pytest.mark.parametrize("mechanism", [Gaussian(2.0), Laplace(0.5), L2Norm(0.5)])
def test_releases_lie_on_the_public_grid_and_pay_for_it(mechanism):
    value = np.array([1 / 3, -2 / 3, 0.1])
    noisy, scale = mechanism.release(value, sensitivity=1.0, magnitude=10.0, noise=noise(1))
    spread = mechanism.scale(1.0) * (2**12 * math.sqrt(3) if mechanism.whole else 1.0)
    grid = 2.0 ** grid_exponent(spread, 10.0)
    assert np.array_equal(noisy / grid, np.rint(noisy / grid))
    steps = 3 if isinstance(mechanism, Laplace) else math.sqrt(3)  # L1 or L2 norm
    assert scale >= mechanism.scale(1.0 + steps * grid)


def test_values_beyond_the_magnitude_are_cut_not_refused():
    noisy, scale = Gaussian(1.0).release(
        np.array([1e300, -1e300]), sensitivity=1.0, magnitude=1000.0, noise=noise(2)
    )
    assert np.all(np.abs(np.abs(noisy) - 1000.0) < 10 * scale)


def test_gaussian_costs_are_not_below_the_exact_ones():
    rng = np.random.default_rng(0)
    for multiplier in 10 ** rng.uniform(-8, 8, 500):
        loss = Gaussian(float(multiplier)).loss
        assert Fraction(loss.mu) >= 1 / Fraction(float(multiplier))
        assert Fraction(loss.rho) >= Fraction(loss.mu) ** 2 / 2
        assert loss.rho <= loss.mu**2 / 2 * (1 + 1e-15)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_bad_parameters(value):
    with pytest.raises(ValueError, match="noise_multiplier"):
        Gaussian(value)
    for kind in (Laplace, L2Norm):
        with pytest.raises(ValueError, match="epsilon"):
            kind(value)
    for kind in (ExponentialMechanism, PermuteAndFlip):
        with pytest.raises(ValueError, match="epsilon"):
            kind(value, monotone=True)
    with pytest.raises(ValueError, match="sensitivity"):
        Gaussian(1.0).release(np.zeros(2), sensitivity=value, magnitude=1.0, noise=noise(0))


@pytest.mark.parametrize("narrow", [np.float32, np.float16])
def test_parameters_become_doubles(narrow):
    value = narrow(0.1)
    assert type(Gaussian(value).noise_multiplier) is float
    for mechanism in (Laplace(value), L2Norm(value), ExponentialMechanism(value, monotone=True)):
        assert type(mechanism.epsilon) is float
        assert mechanism.scale(narrow(0.3)) >= float(narrow(0.3)) / float(value)


@pytest.mark.parametrize("value", [1e-12, 1e12])
def test_extreme_parameters_are_refused_when_made(value):
    with pytest.raises(ValueError, match="between 1e-09 and 1e"):
        Gaussian(value)
    with pytest.raises(ValueError, match="between 1e-09 and 1e"):
        Laplace(value)


def test_rounding_costs_little_even_for_tiny_budgets():
    # A fixed grid of 2^-30 of the noise would add √d·2^-30·z = 0.98 of the sensitivity here.
    _, scale = Gaussian(1e7).release(
        np.zeros(10_000), sensitivity=1.0, magnitude=1.0, noise=noise(0)
    )
    assert scale < 1.02e7
