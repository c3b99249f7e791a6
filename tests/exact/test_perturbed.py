"""The release of a perturbed minimum: what is certified, what is added, what is refused."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.core import Account, Budget, Curator, Gaussian, L2Norm, Relation
from discreet.core.bits import SeededBits
from discreet.core.noise import Noise
from discreet.errors import PrivacyError
from discreet.exact import Headroom, Perturbation, PerturbedMinimum
from discreet.exact import perturbed as module
from discreet.exact.certificate import PerturbedObjective, Point, certifiable_norm, certify
from discreet.exact.perturbed import Constants
from discreet.objectives import L2, Huber, HuberHinge, Logistic, Problem, Softmax
from discreet.rows import as_rows
from discreet.rows.certified import allowance
from discreet.solvers import AMP, ObjPert

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
N, D = 500, 4


def table(loss, n=N, d=D):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, d)) / math.sqrt(d)
    score = 3 * X @ np.linspace(-2, 2, d)
    if loss.n_outputs > 1:
        return X, np.clip(np.round(score + 1), 0, loss.n_outputs - 1)
    return X, np.sign(score) if loss.task == "classification" else score


def problem_of(loss, n=N, d=D):
    return Problem(loss, L2(), n, d, row_norm=1.0)


def minimum_of(loss, gradient_bound=1e-6, ridge=10.0, scale=20.0, optimizer=None, output=True):
    noise = Gaussian(30.0) if output else None
    perturbation = Perturbation(ridge, scale, False, noise, gradient_bound)
    return PerturbedMinimum(problem_of(loss), perturbation, optimizer)


LOSSES = [Logistic(), HuberHinge(0.2), Huber(0.5), Softmax(3)]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("gradient_bound", [1e-6, 1e-13])
def test_the_rounding_of_the_perturbation_is_taken_off(loss, gradient_bound, monkeypatch):
    """The rounded b̂ is within 2^grid·√p/2 of b, and twice that is taken off τ.

    So a point certified for b̂ has a gradient of at most τ for b, and is within τ/λ of its minimum.
    """
    asked = []
    monkeypatch.setattr(
        module,
        "certify",
        lambda objective, point, bound: (
            asked.append((objective, bound)) or certify(objective, point, bound)
        ),
    )
    minimum = minimum_of(loss, gradient_bound)
    rows = as_rows(*table(loss), row_norm=1.0)
    minimum(rows, Noise(SeededBits(0)))
    ((objective, bound),) = asked
    p = minimum.problem.n_parameters
    grid = 2.0**minimum.grid
    assert np.array_equal(objective.linear / grid, np.round(objective.linear / grid))
    assert bound == minimum.certified_bound
    # by hand: the coarsest power of 2 below τ/(16√p), or 2^-20 of σ, but not below 2^-38 of σ
    tau = minimum.gradient_bound
    by_hand = 2.0 ** math.floor(math.log2(tau / (16 * math.sqrt(p))))
    by_hand = min(by_hand, 16.0 * 2.0**-20)
    assert grid == max(by_hand, 16.0 * 2.0**-38)
    assert bound == tau - grid * math.sqrt(p)
    assert bound < tau * (1 - 1e-9)
    assert 15 / 16 * tau <= bound


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_noise_ratio_is_never_below_the_bound_over_the_scale(loss):
    """As exact fractions: a ratio that is too small states more noise than there is."""
    constants = Constants.of(problem_of(loss))
    bound = Fraction(constants.lipschitz)
    assert bound >= Fraction(problem_of(loss).lipschitz)
    rounded_down = 0
    for scale in np.geomspace(1e-3, 1e3, 100):
        exact = bound / Fraction(float(scale))
        stated = Perturbation(10.0, float(scale), False, None, None).facts(constants)
        assert exact <= Fraction(stated["noise_ratio"]) <= exact * (1 + Fraction(2) ** -51)
        rounded_down += Fraction(constants.lipschitz / float(scale)) < exact
    assert rounded_down > 20  # these scales can tell


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("before", [Fraction(0), Fraction(1, 50)])
def test_the_least_noise_keeps_the_budget_it_was_found_for(loss, before):
    budget, output = Budget(1.0, 1e-6, REPLACE), Gaussian(100.0)
    constants = Constants.of(problem_of(loss))
    headroom = Headroom(budget, before, 2)
    scale = headroom.scale(constants, 50.0, output)
    for factor, fits in ((1.0, True), (0.999, False)):
        perturbation = Perturbation(50.0, factor * scale, False, output, None)
        assert (headroom.true_epsilon(constants, perturbation) <= budget.epsilon) is fits


@pytest.mark.parametrize("ridge", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("loss", [*LOSSES, Softmax(2), Softmax(7)], ids=repr)
def test_the_cost_of_curvature_covers_the_hessian_of_every_row(loss, ridge):
    """ln det(I + H/λ) ≤ c for the longest row that there can be, at any margins.

    Equal margins are the worst for several outputs: all K − 1 eigenvalues are 1/K then.
    """
    problem = problem_of(loss)
    cost = Constants.of(problem).cost(ridge)
    square, outputs = problem.row_norm_bound**2, loss.n_outputs
    rng = np.random.default_rng(3)
    for spread in (0.0, 0.1, 1.0, 5.0):
        for _ in range(20):
            margins = spread * rng.standard_normal(outputs if outputs > 1 else ())
            target = 1.0 if loss.task == "classification" else 0.0
            inner = np.atleast_2d(loss.second_derivative(margins, target))
            determinant = np.linalg.slogdet(np.eye(outputs) + inner * square / ridge)[1]
            assert determinant <= cost * (1 + 1e-12)
    if outputs > 1:  # and no more than that is charged for
        worst = (outputs - 1) * math.log1p(square / (outputs * ridge))
        assert cost == pytest.approx(worst, rel=1e-9)


def test_the_output_hides_twice_the_distance_and_the_rounding_to_doubles():
    minimum = minimum_of(Logistic())
    distance = minimum.gradient_bound / 10.0
    rounding = 4 * 2.0**-53 * (minimum.weight_bound + distance)
    assert minimum.sensitivity == pytest.approx(2 * (distance + rounding), rel=1e-9)
    assert minimum.sensitivity >= 2 * (distance + rounding)
    assert minimum.output_scale == pytest.approx(30.0 * minimum.sensitivity)
    # W by hand: √(n ln 2/λ) + ‖b‖/λ, ‖b‖ ≤ σ(√p + 64)
    far = math.sqrt(N * math.log(2) / 10) + 20 * (math.sqrt(5) + 64) / 10
    assert minimum.weight_bound == pytest.approx(far, rel=1e-9)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("d", [D, 5000])
def test_the_certifiable_norm_is_enough_for_every_layout(loss, make, d):
    """From public numbers alone, and not below what the rows themselves say."""
    X = np.zeros((3, d))
    rows = as_rows(make(X), np.zeros(3), row_norm=1.0)
    for sizes in ((1.0, 1.0), (1e6, 3.0)):
        clip = loss.slope_bound * math.sqrt(2)
        weights, linear = sizes
        theirs = 3.5 * allowance(rows, loss, clip, weights, 3 * clip + 0.5 * weights + linear)
        ours = certifiable_norm(
            problem_of(loss, 3, d), clip=clip, ridge=0.5, weights=weights, linear=linear
        )
        assert theirs <= ours <= 1.01 * theirs or d > 4096
        assert ours >= theirs


@pytest.mark.parametrize("proposal", ["wrong", "nan", "infinite", "short", "far", "split", None])
def test_nothing_is_released_without_a_certificate(proposal, monkeypatch):
    """Whatever the search returns: nothing is assumed of it, and the budget is spent."""

    def search(objective, bound, optimizer):
        size = objective.linear.size
        zero = np.zeros(size)
        return {
            "wrong": Point(np.ones(size), zero),
            "nan": Point(np.full(size, np.nan), zero),
            "infinite": Point(np.full(size, np.inf), zero),
            "short": Point(np.zeros(2), np.zeros(2)),
            "far": Point(np.full(size, 1e200), zero),
            "split": Point(zero, np.full(size, 0.1)),  # the rest is no rounding of the weights
            None: None,
        }[proposal]

    monkeypatch.setattr(module, "minimise", search)
    rows = as_rows(*table(Logistic()), row_norm=1.0)
    budget = Budget(1.0, 1e-6, "add_remove")
    for solver in (ObjPert(), ObjPert("published"), AMP()):
        plan = solver.plan(problem_of(Logistic()), budget)
        curator = Curator(rows, Account(budget), Noise(SeededBits(0)))
        with pytest.raises(PrivacyError, match="nothing was released") as caught:
            solver.solve(problem_of(Logistic()), curator, plan)
        assert not any(character.isdigit() for character in str(caught.value))
        assert caught.value.__cause__ is None
        assert curator.spent_share == pytest.approx(1)


def test_the_certificate_by_hand():
    """One row of zeros: the gradient is λw + b, and its norm is certified up to rounding."""
    rows = as_rows(np.zeros((1, 2)), [1.0], fit_intercept=False, row_norm=1.0)
    objective = PerturbedObjective(rows, Logistic(), 1.0, 2.0, np.array([3.0, -4.0]))
    zero = np.zeros(2)
    assert certify(objective, Point(zero, zero), 5.0 + 1e-12)
    assert not certify(objective, Point(zero, zero), 5.0)
    assert certify(objective, Point(np.array([-1.5, 2.0]), zero), 1e-12)
    assert not certify(objective, Point(np.array([-1.5, 2.0]), zero), 0.0)


def test_noise_far_beyond_its_bound_releases_nothing(monkeypatch):
    """A certified point beyond 2(W + τ/λ): the noise on the output is not made for it."""
    minimum = minimum_of(Logistic())
    rows = as_rows(*table(Logistic()), row_norm=1.0)
    monkeypatch.setattr(PerturbedMinimum, "weight_bound", 1e-9)
    with pytest.raises(PrivacyError, match="larger than floating point allows"):
        minimum(rows, Noise(SeededBits(0)))


def test_an_optimiser_cannot_change_what_is_certified():
    """Inputs are copies or read-only; the rows that it sees are those that are certified."""
    X, y = table(Logistic())
    before = X.copy()

    def vandal(objective, start):
        inner = objective._objective
        with pytest.raises(ValueError, match="read-only"):
            inner.linear[:] = 0.0
        start += 1.0
        gradient = objective.gradient(start)
        gradient[:] = 0.0
        return start

    found = [
        minimum_of(Logistic(), optimizer=optimizer)(
            as_rows(X, y, row_norm=1.0), Noise(SeededBits(1))
        )
        for optimizer in (None, vandal)
    ]
    np.testing.assert_allclose(*found, atol=1e-4)
    assert np.array_equal(X, before)


def test_pure_releases_are_held_to_their_epsilon():
    # ε = (rows changed)·L/scale + ln(1 + β/λ) + ε₂, L = √2, β = 1/2, λ = 10, ε₂ = 0.01
    perturbation = Perturbation(10.0, 2.0, True, L2Norm(0.01), None)
    minimum = PerturbedMinimum(problem_of(Logistic()), perturbation)
    for relation in (ADD, REPLACE):
        true = relation.rows_changed * math.sqrt(2) / 2 + math.log1p(0.05) + 0.01
        assert minimum.pure_mechanism(true * (1 + 1e-9), relation).loss.epsilon >= true
        with pytest.raises(PrivacyError, match="-DP, not"):
            minimum.pure_mechanism(true * (1 - 1e-9), relation)
    with pytest.raises(PrivacyError, match="no profile"):
        minimum.mechanism(1e-6, ADD)
    gaussian = minimum_of(Logistic())
    with pytest.raises(PrivacyError, match="not pure"):
        gaussian.pure_mechanism(10.0, ADD)


def test_the_mechanism_is_that_of_the_perturbation():
    """It is made from the numbers that are used, so what is charged cannot differ from them."""
    minimum = minimum_of(Logistic())
    mechanism = minimum.mechanism(1e-6, REPLACE)
    assert mechanism.curvature_cost == pytest.approx(math.log1p(0.05), rel=1e-9)
    assert mechanism.output_mu == pytest.approx(1 / 30, rel=1e-12)
    stronger = minimum_of(Logistic(), scale=40.0).mechanism(1e-6, REPLACE)
    assert stronger.epsilon < mechanism.epsilon
