"""Minimising until a certificate holds, with any optimiser."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.errors import PrivacyError
from discreet.objectives import Huber, HuberHinge, Logistic, Softmax
from discreet.rows import as_rows
from discreet.solvers import minimise as module
from discreet.solvers.minimise import PerturbedObjective, minimise


def objective_of(loss, convert=np.asarray, n=3000, d=6, ridge=0.5, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.uniform(-1, 1, size=(n, d))
    score = X @ np.linspace(-3, 3, d)
    if loss.n_outputs > 1:
        y = np.clip(np.round(score + 1), 0, loss.n_outputs - 1)
    elif loss.task == "classification":
        y = np.where(score + generator.logistic(size=n) > 0, 1.0, -1.0)
    else:
        y = score
    rows = as_rows(convert(X), y, row_norm=1.0)
    linear = 5 * generator.standard_normal(loss.n_outputs * rows.n_parameters)
    clip = loss.slope_bound * math.sqrt(2) * (1 + 2**-40)
    return PerturbedObjective(rows, loss, clip, ridge, linear)


def certifiable(objective):
    """A bound that can be met on every table, with weights of norm up to 100."""
    terms = objective.loss, objective.clip, objective.ridge
    return objective.rows.certifiable_norm(*terms, 100.0, np.linalg.norm(objective.linear))


LOSSES = [Logistic(), HuberHinge(), HuberHinge(0.01), Huber(0.3), Softmax(3)]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
def test_reaches_a_gradient_near_rounding_error(loss, convert):
    objective = objective_of(loss, convert)
    bound = certifiable(objective)
    assert bound / 3000 < 1e-10
    weights = minimise(objective, bound)
    assert objective.gradient(weights)[1] <= 1.5 * bound  # weights are rounded
    generator = np.random.default_rng(1)
    for _ in range(5):  # it is a minimum
        other = weights + 1e-3 * generator.standard_normal(weights.size)
        assert objective.value(other) > objective.value(weights)


def test_conjugate_gradients_where_the_matrix_is_too_large(monkeypatch):
    monkeypatch.setattr(module, "LARGEST_MATRIX", 3)
    objective = objective_of(Logistic())
    bound = certifiable(objective)
    weights = minimise(objective, bound)
    monkeypatch.undo()
    np.testing.assert_allclose(weights, minimise(objective, bound), atol=1e-9)


def test_any_optimiser_may_look_for_the_point():
    objective = objective_of(Logistic())
    bound = 1e-7
    usual = minimise(objective, bound)
    calls = []

    def own(fun, x0, *, jac, method, options):
        value, gradient = fun(x0)
        assert jac is True
        assert gradient.shape == x0.shape
        calls.append((value, method, sorted(options)))
        return SimpleNamespace(x=x0 - gradient)

    np.testing.assert_allclose(minimise(objective, bound, minimizer=own), usual, atol=1e-6)
    assert calls == [(pytest.approx(math.log(2)), "L-BFGS-B", ["ftol", "gtol", "maxiter"])]


@pytest.mark.parametrize("answer", [np.full(7, np.nan), np.zeros(3)])
def test_a_point_of_no_use_does_no_harm(answer):
    def broken(*arguments, **settings):
        return SimpleNamespace(x=answer)

    objective = objective_of(Logistic())
    weights = minimise(objective, 1e-7, minimizer=broken)
    np.testing.assert_allclose(weights, minimise(objective, 1e-7), atol=1e-6)


@pytest.mark.parametrize("answer", [None, SimpleNamespace(y=1), SimpleNamespace(x="words")])
def test_an_error_of_an_optimiser_does_not_end_a_fit(answer):
    """It could depend on the rows, so that whether there is a fit would tell about them."""

    def broken(*arguments, **settings):
        if answer is None:
            raise RuntimeError("row 17 is 3.14")
        return answer

    objective = objective_of(Logistic())
    weights = minimise(objective, 1e-7, minimizer=broken)
    np.testing.assert_allclose(weights, minimise(objective, 1e-7), atol=1e-6)


@pytest.mark.parametrize("far", [1e8, 1e150, 1e300])
def test_a_point_far_away_does_no_harm(far):
    def broken(fun, x0, **settings):
        x0[:] = far  # nor does changing the start
        return SimpleNamespace(x=np.full(7, far))

    objective = objective_of(HuberHinge())
    weights = minimise(objective, 1e-7, minimizer=broken)
    np.testing.assert_allclose(weights, minimise(objective, 1e-7), atol=1e-6)


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(0.01), Huber(0.3)], ids=repr)
def test_accelerated_descent_is_the_last_resort(monkeypatch, loss):
    objective = objective_of(loss, ridge=20.0)
    usual = minimise(objective, 1e-6)
    monkeypatch.setattr(module, "NEWTON_STEPS", 0)
    np.testing.assert_allclose(minimise(objective, 1e-6), usual, atol=1e-6)


@pytest.mark.parametrize("loss", [HuberHinge(1e-6), Huber(1e-6)], ids=repr)
def test_very_narrow_quadratic_parts(monkeypatch, loss):
    """Newton steps alone get lost among the kinks; gradient descent would take hours."""
    monkeypatch.setattr(module, "DESCENT_ROUNDS", 0)
    objective = objective_of(loss, n=500, ridge=0.01 * loss.slope_bound, seed=3)
    objective.linear[:] *= loss.slope_bound / 100
    bound = 1e-5 * loss.slope_bound
    zero = np.zeros(7)
    assert module._narrow(objective, zero, bound) is not None
    assert module._polish(objective, zero, bound) is None


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(), Huber(0.3)], ids=repr)
def test_equal_columns_and_hardly_a_penalty(loss):
    """Weights are large where only the penalty holds them, and the Hessian is near singular."""
    generator = np.random.default_rng(0)
    X = np.repeat(generator.standard_normal((2000, 1)), 6, axis=1)
    y = generator.choice([-1.0, 1.0], 2000)
    rows = as_rows(X, y, row_norm=1.0)
    clip = loss.slope_bound * math.sqrt(2) * (1 + 2**-40)
    for ridge in (1e-3, 1e-6):
        linear = generator.standard_normal(7)
        length = np.linalg.norm(linear)
        reach = (2000 * clip + length) / ridge
        if loss.task == "classification":
            reach = math.sqrt(2000 * 1.1 / ridge) + length / ridge
        bound = rows.certifiable_norm(loss, clip, ridge, reach, length)
        objective = PerturbedObjective(rows, loss, clip, ridge, linear)
        weights = minimise(objective, bound)
        change = 2.0**-53 * objective.smoothness * np.linalg.norm(weights)  # weights are rounded
        assert objective.gradient(weights)[1] <= 1.5 * bound + change


def test_a_matrix_that_cannot_be_factored():
    """More weights than rows and next to no penalty: conjugate gradients take over."""
    generator = np.random.default_rng(0)
    X = generator.uniform(-1, 1, size=(3, 12))
    rows = as_rows(X, [1.0, -1.0, 1.0], row_norm=1.0)
    objective = PerturbedObjective(rows, Logistic(), 2.0, 1e-30, np.zeros(13))
    step = objective.newton_step(np.zeros(13), objective.gradient(np.zeros(13))[0], 1e-9)
    assert np.isfinite(step).all()


def test_a_bound_out_of_reach_is_an_error_that_quotes_nothing(monkeypatch):
    monkeypatch.setattr(module, "DESCENT_ROUNDS", 1)
    with pytest.raises(PrivacyError, match="nothing was released") as caught:
        minimise(objective_of(Logistic()), 1e-15)
    assert not any(character.isdigit() for character in str(caught.value))
    assert caught.value.__cause__ is None


def test_no_rows_to_speak_of():
    rows = as_rows(np.zeros((1, 2)), [1.0], row_norm=1.0)
    objective = PerturbedObjective(rows, Logistic(), 2.0, 4.0, np.array([8.0, -4.0, 0.0]))
    weights = minimise(objective, 1e-9)
    np.testing.assert_allclose(weights[:2], [-2.0, 1.0], atol=1e-9)  # −linear/ridge by hand
