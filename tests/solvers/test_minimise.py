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


LOSSES = [Logistic(), HuberHinge(), HuberHinge(0.01), Huber(0.3), Softmax(3)]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
def test_reaches_a_gradient_near_rounding_error(loss, convert):
    objective = objective_of(loss, convert)
    bound = 2 * objective.rows.gradient_rounding(loss, objective.clip)
    assert bound / 3000 < 1e-10
    weights = minimise(objective, bound)
    assert objective.gradient(weights)[1] <= bound
    generator = np.random.default_rng(1)
    for _ in range(5):  # it is a minimum
        other = weights + 1e-3 * generator.standard_normal(weights.size)
        assert objective.value(other) > objective.value(weights)


def test_conjugate_gradients_where_the_matrix_is_too_large(monkeypatch):
    monkeypatch.setattr(module, "LARGEST_MATRIX", 3)
    objective = objective_of(Logistic())
    bound = 2 * objective.rows.gradient_rounding(Logistic(), objective.clip)
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


@pytest.mark.parametrize("answer", [None, SimpleNamespace(y=1)])
def test_an_error_of_an_optimiser_is_not_quoted(answer):
    def broken(*arguments, **settings):
        if answer is None:
            raise RuntimeError("row 17 is 3.14")
        return answer

    with pytest.raises(PrivacyError, match="minimizer raised an error") as caught:
        minimise(objective_of(Logistic()), 1e-7, minimizer=broken)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_a_matrix_that_cannot_be_factored():
    """More weights than rows and next to no penalty: conjugate gradients take over."""
    generator = np.random.default_rng(0)
    X = generator.uniform(-1, 1, size=(3, 12))
    rows = as_rows(X, [1.0, -1.0, 1.0], row_norm=1.0)
    objective = PerturbedObjective(rows, Logistic(), 2.0, 1e-30, np.zeros(13))
    step = objective.newton_step(np.zeros(13), objective.gradient(np.zeros(13))[0], 1e-9)
    assert np.isfinite(step).all()


def test_a_bound_out_of_reach_is_an_error_that_quotes_nothing():
    with pytest.raises(PrivacyError, match="nothing was released") as caught:
        minimise(objective_of(Logistic()), 1e-15)
    assert not any(character.isdigit() for character in str(caught.value))
    assert caught.value.__cause__ is None


def test_no_rows_to_speak_of():
    rows = as_rows(np.zeros((1, 2)), [1.0], row_norm=1.0)
    objective = PerturbedObjective(rows, Logistic(), 2.0, 4.0, np.array([8.0, -4.0, 0.0]))
    weights = minimise(objective, 1e-9)
    np.testing.assert_allclose(weights[:2], [-2.0, 1.0], atol=1e-9)  # −linear/ridge by hand
