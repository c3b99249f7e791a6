"""AdaSSP and iterative Hessian mixing: sensitivity, noise, guarantee and convergence."""

import math

import numpy as np
import pytest
from dp_accounting import ComposedDpEvent, GaussianDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.stats import chi2

from discreet_bench.least_squares import IHM, AdaSSP, _renyi, mixing_delta

BUDGETS = [(0.1, 1e-6), (1.0, 1e-9), (3.0, 1e-7), (10.0, 1e-5)]


def unit_rows(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X / np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]


@pytest.fixture
def rows():
    X = unit_rows(5000, 4)
    y = X @ [0.3, -0.5, 0.2, 0.1] + 0.05 * np.random.default_rng(1).standard_normal(5000)
    return X, np.clip(y, -1, 1)


class Silent:
    """A generator whose noise is 0."""

    def standard_normal(self, size=None):
        return 0.0 if size is None else np.zeros(size)


# -- AdaSSP


@pytest.mark.parametrize("row", [[1.0, 0, 0, 0], [0.5, 0.5, 0.5, 0.5], [0.6, -0.8, 0, 0]])
def test_a_row_moves_each_release_of_adassp_by_at_most_one(rows, row):
    X, y = rows
    moved = np.vstack([X, row]), np.append(y, -1.0)
    before, after = (AdaSSP(1.0, 1e-6).releases(*each, Silent()) for each in (rows, moved))
    triangle = np.triu_indices(4)
    assert 0 <= after[0] - before[0] <= 1 + 1e-9
    assert np.linalg.norm((after[1] - before[1])[triangle]) <= 1 + 1e-9
    assert np.linalg.norm(after[2] - before[2]) == pytest.approx(1)


def test_the_bound_on_a_row_is_reached(rows):
    _, y = rows
    first, none = np.eye(4)[:1], np.zeros((0, 4))
    least = AdaSSP(1.0, 1e-6).releases(np.eye(4), y[:4], Silent())[0]
    assert least - AdaSSP(1.0, 1e-6).releases(none, y[:0], Silent())[0] == pytest.approx(1)
    assert AdaSSP(1.0, 1e-6).releases(first, np.ones(1), Silent())[1][0, 0] == pytest.approx(1)


@pytest.mark.parametrize("calibration", ["published", "tight"])
def test_each_release_of_adassp_has_its_noise(rows, calibration):
    """Each of 3 × 4 sums of 4,000 squares leaves its interval with probability below 1e-8."""
    method, rng = AdaSSP(0.5, 1e-6, calibration), np.random.default_rng(0)
    few = (rows[0][:50], rows[1][:50])
    exact = method.releases(*few, Silent())
    drawn = [method.releases(*few, rng) for _ in range(4000)]
    low, high = chi2.ppf([5e-9, 1 - 5e-9], 4000) / 4000
    for part, value in enumerate(exact):
        noise = (np.array([each[part] for each in drawn]) - value) / method.noise
        if part == 1:
            np.testing.assert_allclose(noise, noise.transpose(0, 2, 1))
        squares = np.mean(noise**2, axis=0)
        assert np.all((low < squares) & (squares < high))


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
@pytest.mark.parametrize("calibration", ["published", "tight"])
def test_dp_accounting_confirms_adassp(epsilon, delta, calibration):
    method = AdaSSP(epsilon, delta, calibration)
    accountant = PLDAccountant(value_discretization_interval=2e-4 * epsilon)
    accountant.compose(ComposedDpEvent([GaussianDpEvent(method.noise)] * 3))
    assert accountant.get_epsilon(delta) == pytest.approx(method.true_epsilon(), rel=0.01)
    assert method.true_epsilon() <= epsilon * (1 + 1e-9)
    if calibration == "tight":
        assert method.true_epsilon() == pytest.approx(epsilon)


def test_adassp_converges_to_least_squares(rows):
    X, y = rows
    exact = np.linalg.lstsq(X, y, rcond=None)[0]
    far, near = (
        np.linalg.norm(AdaSSP(e, 1e-6).fit(X, y, np.random.default_rng(0)) - exact)
        for e in (0.1, 1e5)
    )
    assert near < 1e-3 < far


def test_the_ridge_of_adassp_is_the_published_one(rows):
    X, y = rows
    method = AdaSSP(0.05, 1e-6)
    share = math.log(6 / 1e-6)
    least = np.linalg.eigvalsh(X.T @ X)[0] - share / (0.05 / 3)
    ridge = math.sqrt(4 * share * math.log(2 * 16 / 0.05)) / (0.05 / 3) - least
    assert ridge > 0
    assert least > 0
    expected = np.linalg.solve(X.T @ X + ridge * np.eye(4), X.T @ y)
    np.testing.assert_allclose(method.fit(X, y, Silent()), expected)


# -- iterative Hessian mixing


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_the_guarantee_of_mixing_by_dp_accounting(epsilon, delta):
    """The sums of squares as two lists of probabilities, composed with the Gaussian releases."""
    plan = IHM(epsilon, delta).plan(10)
    draws, share = plan.rows * plan.iterations, 1 / plan.gamma
    edges = np.linspace(chi2.isf(1 - 1e-13, draws) * (1 - share), chi2.isf(1e-13, draws), 4001)
    both = [np.diff(chi2.cdf(edges / scale, draws)) for scale in (1.0, 1 - share)]
    logs = [dict(enumerate(np.log(np.maximum(p, 1e-300)))) for p in both]
    grid = 2e-4 * epsilon
    mixed = pld.from_two_probability_mass_functions(
        *logs, value_discretization_interval=grid, symmetric=False
    )
    for noise in (plan.eigenvalue_noise, plan.gradient_noise / math.sqrt(plan.iterations)):
        mixed = mixed.compose(
            pld.from_gaussian_mechanism(noise, value_discretization_interval=grid)
        )
    found = mixed.get_epsilon_for_delta(delta)
    assert found == pytest.approx(IHM(epsilon, delta).true_epsilon(10), rel=0.01)
    assert found <= epsilon


def test_mixing_alone_is_the_closed_form():
    draws, share, epsilon = 300, 0.05, 0.8
    constant = -draws / 2 * math.log1p(-share)
    cut = (epsilon + constant) * 2 * (1 - share) / share
    more = chi2.sf(cut, draws) - math.exp(epsilon) * chi2.sf(cut / (1 - share), draws)
    cut = (constant - epsilon) * 2 * (1 - share) / share
    less = chi2.cdf(cut / (1 - share), draws) - math.exp(epsilon) * chi2.cdf(cut, draws)
    assert mixing_delta(draws, share, 1e-4, epsilon) == pytest.approx(max(more, less), rel=1e-3)


def test_rényi_orders_bound_the_exact_guarantee():
    draws, gamma, delta = 300, 20.0, 1e-6
    orders = np.linspace(1.01, 19, 500)
    costs = _renyi(orders, draws, gamma) + math.log(1 / delta) / (orders - 1)
    assert mixing_delta(draws, 1 / gamma, 1e-4, float(costs.min())) < delta
    assert mixing_delta(draws, 1 / gamma, 1e-4, 0.5 * float(costs.min())) > delta


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_the_noise_of_ihm_keeps_the_budget(epsilon, delta):
    published, tight = (IHM(epsilon, delta, each) for each in ("published", "tight"))
    assert published.true_epsilon(10) < epsilon
    assert tight.true_epsilon(10) == pytest.approx(epsilon, rel=1e-4)
    assert tight.plan(10).gamma < published.plan(10).gamma
    assert tight.plan(10).gradient_noise < published.plan(10).gradient_noise


def test_a_sketch_has_eigenvalues_of_at_least_gamma(rows):
    """A margin of τ standard deviations fails with probability 3e-8 in 400 draws."""
    X, _ = rows
    exact = np.linalg.eigvalsh(X.T @ X)
    rng = np.random.default_rng(0)
    for epsilon in (0.01, 10.0):  # noise is needed, and is not
        plan = IHM(epsilon, 1e-9).plan(4)
        for _ in range(200):
            root = plan.root(X, rng)
            values = np.linalg.eigvalsh(root.T @ root)
            assert values[0] >= plan.gamma * (1 - 1e-9)
            np.testing.assert_allclose(values - values[0], exact - exact[0], atol=1e-6)
    np.testing.assert_allclose(values, exact)


def test_a_row_changes_the_covariance_by_a_share_of_gamma(rows):
    """x·Σ⁻¹x ≤ 1/γ for a row of norm 1 that is in the table."""
    X, _ = rows
    plan = IHM(0.1, 1e-6).plan(4)
    X = np.vstack([X, [1.0, 0, 0, 0]])
    root = plan.root(X, np.random.default_rng(0))
    assert np.linalg.inv(root.T @ root)[0, 0] <= 1 / plan.gamma


def test_ihm_adds_its_noise_to_the_gradient():
    """A table of zeros leaves noise alone; chance of a false alarm 1e-8."""
    method = IHM(1.0, 1e-6, iterations=1, ratio=400)
    plan = method.plan(40)
    weights = method.fit(np.zeros((10, 40)), np.zeros(10), np.random.default_rng(0))
    noise = weights * plan.gamma / plan.gradient_noise  # the sketch's second moment is about γ
    low, high = chi2.ppf([5e-9, 1 - 5e-9], 40) / 40
    assert low * 0.8 < np.mean(noise**2) < high * 1.2


def test_ihm_converges_to_least_squares(rows):
    X, y = rows
    exact = np.linalg.lstsq(X, y, rcond=None)[0]
    methods = (IHM(each, 1e-6, iterations=6, ratio=60) for each in (0.1, 1000.0))
    far, near = (
        np.linalg.norm(method.fit(X, y, np.random.default_rng(0)) - exact) for method in methods
    )
    assert near < 5e-3 < far
