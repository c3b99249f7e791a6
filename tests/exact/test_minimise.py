"""The search for a point that the certificate accepts, with any optimiser."""

import math
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.exact import minimise as module
from discreet.exact.certificate import PerturbedObjective, certify
from discreet.exact.minimise import SCIPY_METHODS, check_optimizer
from discreet.objectives import Huber, HuberHinge, Logistic, Softmax
from discreet.rows import as_rows
from discreet.rows.certified import allowance


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


def minimise(objective, bound, optimizer=None):
    """Weights of the point found, which must be certified."""
    point = module.minimise(objective, bound, optimizer)
    assert certify(objective, point, bound)
    return point.weights


def certifiable_norm_of(rows, loss, clip, ridge, weights, linear):
    """A gradient norm that can be certified on rows like these, from public numbers."""
    terms = rows.public_size * clip + ridge * weights + linear
    return 3.5 * allowance(rows, loss, clip, weights, terms)


def certifiable(objective):
    """A bound that can be met on every table, with weights of norm up to 100."""
    terms = objective.loss, objective.clip, objective.ridge
    return certifiable_norm_of(objective.rows, *terms, 100.0, np.linalg.norm(objective.linear))


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
        assert module._value(objective, other) > module._value(objective, weights)


def test_conjugate_gradients_where_the_matrix_is_too_large(monkeypatch):
    monkeypatch.setattr(module, "LARGEST_MATRIX", 3)
    objective = objective_of(Logistic())
    bound = certifiable(objective)
    weights = minimise(objective, bound)
    monkeypatch.undo()
    np.testing.assert_allclose(weights, minimise(objective, bound), atol=1e-9)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_an_optimiser_sees_a_mean_with_right_derivatives(make):
    objective = objective_of(Softmax(3), make, n=400, d=3)
    seen = []

    def own(mean, start):
        seen.append((mean.n_parameters, start.copy()))
        at, along = np.linspace(-1, 1, 12), np.linspace(0, 1, 12)
        for k, unit in enumerate(1e-6 * np.eye(12)):
            change = (mean.value(at + unit) - mean.value(at - unit)) / 2e-6
            assert mean.gradient(at)[k] == pytest.approx(change, rel=1e-5, abs=1e-7)
        change = (mean.gradient(at + 1e-6 * along) - mean.gradient(at - 1e-6 * along)) / 2e-6
        np.testing.assert_allclose(mean.hessian_product(at, along), change, rtol=1e-5, atol=1e-8)
        np.testing.assert_allclose(mean.hessian(at) @ along, mean.hessian_product(at, along))
        assert mean.value(start) == pytest.approx(math.log(3))
        return at

    weights = minimise(objective, 1e-7, own)
    np.testing.assert_allclose(weights, minimise(objective, 1e-7), atol=1e-6)
    ((size, start),) = seen
    assert size == 12
    assert not start.any()


@pytest.mark.parametrize("method", SCIPY_METHODS)
def test_methods_of_scipy_by_name(method):
    objective = objective_of(Logistic(), n=300, d=2, ridge=5.0)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        weights = minimise(objective, 1e-6, check_optimizer("optimizer", method.upper()))
    assert not seen  # of SciPy's, some depend on the rows
    np.testing.assert_allclose(weights, minimise(objective, 1e-6), atol=1e-6)


def test_a_good_point_is_taken_as_it_is(monkeypatch):
    """No Newton step is taken if the certificate holds where the optimiser ended."""
    objective = objective_of(Logistic())
    best = minimise(objective, 1e-7)
    monkeypatch.setattr(module, "NEWTON_STEPS", 0)
    monkeypatch.setattr(module, "DESCENT_ROUNDS", 0)
    assert np.array_equal(minimise(objective, 1e-6, lambda mean, start: best), best)
    assert module.minimise(objective, 1e-6, lambda mean, start: best + 1e-6) is None


def bad(kind):
    """Optimisers that fail in every way that one can."""

    def optimizer(mean, start):
        if kind == "error":
            raise RuntimeError(f"row 17 is {mean.gradient(start)}")
        if kind == "infinite":
            far = np.full(start.size, np.inf)
            assert mean.value(far) == math.inf
            assert np.isnan(mean.gradient(far)).all()
            assert np.isnan(mean.hessian_product(start, far)).all()
            return far
        if kind == "warning":
            warnings.warn(f"the gradient is {mean.gradient(start)}", stacklevel=1)
            return start
        if kind == "changes":
            start[:] = 1e8
            mean.gradient(start)[:] = 0.0
            point = np.full(start.size, 0.3)
            mean.value(point)
            point[:] = np.nan
            return point
        return {
            "wrong": np.ones(start.size),
            "nan": np.full(start.size, np.nan),
            "short": np.zeros(3),
            "text": "words",
            "nothing": None,
            "far": np.full(start.size, 1e8),
            "farther": np.full(start.size, 1e150),
            "farthest": np.full(start.size, 1e300),
        }[kind]

    return optimizer


KINDS = ["error", "infinite", "warning", "changes", "wrong", "nan", "short", "text", "nothing"]


@pytest.mark.parametrize("kind", [*KINDS, "far", "farther", "farthest"])
def test_a_bad_optimiser_does_no_harm(kind):
    """Its failure could depend on the rows: it must not end a fit, and nothing of it is seen."""
    objective = objective_of(HuberHinge())
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        weights = minimise(objective, 1e-7, bad(kind))
    assert not seen
    np.testing.assert_allclose(weights, minimise(objective, 1e-7), atol=1e-6)


@pytest.mark.parametrize("value", ["a", 3, None])
def test_what_is_no_optimiser_is_refused(value):
    with pytest.raises(ValueError, match=r"optimizer must be a method of scipy.*L-BFGS-B"):
        check_optimizer("optimizer", value)


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
        bound = certifiable_norm_of(rows, loss, clip, ridge, reach, length)
        objective = PerturbedObjective(rows, loss, clip, ridge, linear)
        weights = minimise(objective, bound)
        change = 2.0**-53 * module._smoothness(objective) * np.linalg.norm(weights)  # rounded
        assert objective.gradient(weights)[1] <= 1.5 * bound + change


def test_a_matrix_that_cannot_be_factored():
    """More weights than rows and next to no penalty: conjugate gradients take over."""
    generator = np.random.default_rng(0)
    X = generator.uniform(-1, 1, size=(3, 12))
    rows = as_rows(X, [1.0, -1.0, 1.0], row_norm=1.0)
    objective = PerturbedObjective(rows, Logistic(), 2.0, 1e-30, np.zeros(13))
    zero = np.zeros(13)
    step = module._newton_step(objective, zero, objective.gradient(zero)[0], 1e-9)
    assert np.isfinite(step).all()


def test_a_bound_out_of_reach_is_not_met(monkeypatch):
    monkeypatch.setattr(module, "DESCENT_ROUNDS", 1)
    assert module.minimise(objective_of(Logistic()), 1e-15) is None


def test_no_rows_to_speak_of():
    rows = as_rows(np.zeros((1, 2)), [1.0], row_norm=1.0)
    objective = PerturbedObjective(rows, Logistic(), 2.0, 4.0, np.array([8.0, -4.0, 0.0]))
    weights = minimise(objective, 1e-9)
    np.testing.assert_allclose(weights[:2], [-2.0, 1.0], atol=1e-9)  # −linear/ridge by hand
