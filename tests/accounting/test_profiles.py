"""Profiles compose as the theorem says: against 40 digits, integrals, and loss distributions."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from discreet.accounting.conversions import delta_from_mu, epsilon_from_mu, round_up
from discreet.accounting.objective_perturbation import profile
from discreet.accounting.profiles import Profile, root_up
from discreet.core import Relation

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
CASES = [  # μ of a Gaussian before, s, c, corners, ε
    (0.02, 0.05, 0.01, 1, 0.25),
    (0.3, 0.4, 0.1, 2, 1.5),
    (0.1, 0.05, 0.0, 1, 0.4),
    (1.0, 1.5, 0.3, 9, 25.0),
]


def exact_gaussian(mu, e):
    """H_μ(e) in as many digits as mpmath works with, for any real e."""
    if mu == 0:
        return max(mpmath.mpf(0), 1 - mpmath.exp(e))
    return mpmath.ncdf(-e / mu + mu / 2) - mpmath.exp(e) * mpmath.ncdf(-e / mu - mu / 2)


def corners_of(relation, s, corners):
    """Counts and lengths over σ of all corners but 0."""
    if relation is ADD:
        return [(corners, s)]
    return [(corners**2, 2 * s), (2 * corners, s)]


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize("case", CASES)
def test_after_a_gaussian_in_many_digits(case, relation):
    mu, s, cost, corners, epsilon = case
    own = profile(noise_ratio=s, curvature_cost=cost, relation=relation, corners=corners)
    ours = Profile.gaussian(Fraction(mu) ** 2).then(own).delta(epsilon)
    with mpmath.workdps(40):
        before, e = mpmath.mpf(mu), mpmath.mpf(epsilon) - mpmath.mpf(cost)
        parts = [(mpmath.mpf(0.5), 0.0), *corners_of(relation, s, corners)]
        exact = sum(n * exact_gaussian(mpmath.hypot(before, length), e) for n, length in parts)
        assert exact <= ours <= exact * (1 + mpmath.mpf("1e-9"))


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize("case", CASES)
def test_it_is_the_mean_of_the_second_profile_over_the_loss_of_the_first(case, relation):
    """E[B(ε − L)], L ~ N(μ²/2, μ²), by quadrature: what adaptive composition is."""
    mu, s, cost, corners, epsilon = case
    own = profile(noise_ratio=s, curvature_cost=cost, relation=relation, corners=corners)
    x = np.linspace(-9, 9, 1801)
    density = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    losses = mu * mu / 2 + mu * (x + 4)  # most of the mean is out there
    weights = density * np.exp(-4 * x - 8)  # the density at x + 4 over that at x, times it

    def bound(e):
        e -= cost
        total = 0.5 * max(0.0, -math.expm1(e))
        for count, length in corners_of(relation, s, corners):
            mirrored = delta_from_mu(length, abs(e))
            total += count * (mirrored if e >= 0 else mirrored * math.exp(e) - math.expm1(e))
        return total

    mean = np.trapezoid([bound(epsilon - loss) for loss in losses] * weights, x)
    ours = Profile.gaussian(Fraction(mu) ** 2).then(own).delta(epsilon)
    assert ours == pytest.approx(mean, rel=1e-4)


def test_what_the_closed_form_gives_away_is_less_than_its_last_term():
    """One corner: the loss is c + max(0, ψ), whose mean can be integrated directly."""
    mu, s, cost, epsilon = 0.1, 0.2, 0.03, 0.9
    own = profile(noise_ratio=s, curvature_cost=cost, relation=ADD, corners=1)
    ours = Profile.gaussian(Fraction(mu) ** 2).then(own).delta(epsilon)
    psi = s * s / 2 + s * np.linspace(-12, 12, 40_001)
    weights = np.exp(-0.5 * np.linspace(-12, 12, 40_001) ** 2) / math.sqrt(2 * math.pi)
    left = epsilon - cost - np.maximum(psi, 0)
    inner = [
        delta_from_mu(mu, e) if e >= 0 else delta_from_mu(mu, -e) * math.exp(e) - math.expm1(e)
        for e in left
    ]
    true = np.trapezoid(inner * weights, np.linspace(-12, 12, 40_001))
    assert true <= ours <= (true + 0.5 * delta_from_mu(mu, epsilon - cost)) * (1 + 1e-6)


@pytest.mark.parametrize("cost", [0.0, 0.05])
def test_it_is_what_loss_distributions_compose_to(cost):
    """c + max(0, ψ) as a loss distribution, composed with a Gaussian by dp-accounting."""
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as pld
    from scipy.stats import norm

    mu, s, epsilon, grid = 0.2, 0.3, 1.2, 2e-4
    edges = np.arange(round(cost / grid), round((cost + s * s / 2 + 9 * s) / grid) + 1)
    above = norm.sf((edges * grid - cost - s * s / 2) / s)
    mass = np.concatenate([[1 - above[0]], above[:-1] - above[1:]])  # rounded up to its edge
    pmf = pld_pmf.SparsePLDPmf(
        dict(zip(edges.tolist(), mass.tolist(), strict=True)), grid, float(above[-1]), True
    )
    other = pld.PrivacyLossDistribution(pmf)
    gaussian = pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=grid)
    theirs = gaussian.compose(other).get_delta_for_epsilon(epsilon)
    own = profile(noise_ratio=s, curvature_cost=cost, relation=ADD, corners=1)
    composed = Profile.gaussian(Fraction(mu) ** 2).then(own)
    # theirs rounds losses up: it is the δ of an ε two steps below, at most
    assert theirs <= composed.delta(epsilon - 2 * grid) * (1 + 1e-6)
    assert theirs >= 0.98 * composed.delta(epsilon)


@pytest.mark.parametrize("squares", [(0.04, 0.09), (1e-8, 1.0), (0.0, 0.25)])
def test_gaussians_compose_as_gaussians(squares):
    first, second = (Profile.gaussian(Fraction(square)) for square in squares)
    for epsilon in (0.0, 0.3, 2.0):
        exact = delta_from_mu(root_up(sum(map(Fraction, squares))), epsilon)
        assert exact <= first.then(second).delta(epsilon) <= exact * (1 + 1e-11)
    found = first.then(second).epsilon(1e-6)
    assert found == pytest.approx(epsilon_from_mu(math.sqrt(sum(squares)), 1e-6), rel=1e-9)


def test_nothing_before_it_changes_nothing():
    own = profile(noise_ratio=0.3, curvature_cost=0.1, relation=REPLACE, corners=2)
    assert Profile.gaussian(Fraction(0)).then(own) == own
    tiny = Profile.gaussian(Fraction(1e-12)).then(own)
    assert own.delta(1.0) <= tiny.delta(1.0) <= own.delta(1.0) * (1 + 1e-6)


def test_several_are_one_after_another():
    own = profile(noise_ratio=0.2, curvature_cost=0.05, relation=REPLACE, corners=2, output_mu=0.01)
    assert own.times(5) == own.then(own).then(own).then(own).then(own)
    assert own.times(1) is own
    # By hand: (1/2 + x)² = 1/4 + x + x² for one corner under add/remove.
    one = profile(noise_ratio=0.5, curvature_cost=0.25, relation=ADD, corners=1).times(2)
    assert one.shift == Fraction(1, 2)
    assert one.terms == (
        (Fraction(1, 4), Fraction(0)),
        (Fraction(1), Fraction(1, 4)),
        (Fraction(1), Fraction(1, 2)),
    )
    with pytest.raises(ValueError, match="count"):
        own.times(0)


@pytest.mark.parametrize("delta", [1e-12, 1e-3, 0.4])
@pytest.mark.parametrize("count", [1, 7])
def test_the_epsilon_of_a_delta(delta, count):
    own = profile(noise_ratio=0.3, curvature_cost=0.02, relation=REPLACE, corners=3).times(count)
    epsilon = own.epsilon(delta)
    assert own.delta(epsilon) <= delta < own.delta(epsilon * (1 - 1e-9))


def test_below_the_shift_and_with_counts_beyond_floats_nothing_is_promised():
    own = profile(noise_ratio=0.1, curvature_cost=0.5, relation=ADD, corners=1)
    assert own.delta(0.49) == 1.0
    assert own.delta(0.5) < 0.1
    assert Profile(Fraction(0), ((Fraction(2**2000), Fraction(1e-9)),)).delta(10.0) == 1.0


@pytest.mark.parametrize(
    ("shift", "terms"),
    [(0, ()), (-1, ((1, 1),)), (0, ((0, 1),)), (0, ((1, -1),))],
)
def test_no_bound_at_all_is_refused(shift, terms):
    with pytest.raises(ValueError, match="profile"):
        Profile(Fraction(shift), tuple((Fraction(n), Fraction(sq)) for n, sq in terms))


def test_rounding_is_to_the_safe_side():
    for value in (Fraction(1, 3), Fraction(2, 3), Fraction(1, 10), Fraction(1)):
        assert Fraction(round_up(value)) >= value
        assert Fraction(round_up(value)) - value < Fraction(1, 2**50)
        assert Fraction(root_up(value)) ** 2 >= value


def test_roots_are_rounded_up_and_by_two_units_at_most():
    """The nearest double to a root is below it for about half of all squares."""
    squares = [Fraction(n) for n in range(1, 200)]
    squares += [Fraction(n, 7) * Fraction(2) ** power for n in range(1, 50) for power in (-60, 33)]
    rounded_down = 0
    for square in squares:
        root = root_up(square)
        assert Fraction(root) ** 2 >= square
        assert Fraction(math.nextafter(math.nextafter(root, 0.0), 0.0)) ** 2 < square
        rounded_down += Fraction(math.sqrt(square)) ** 2 < square
    assert rounded_down > 0.3 * len(squares)  # these squares can tell
