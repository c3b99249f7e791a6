"""Coefficients are in units of X: scores are linear in X for every estimator, solver and row."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from discreet import (
    HuberRegressor,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    load,
    save,
)
from discreet.estimators.scoring import row_scores
from discreet.preparation import Bounds, Centre, Radius, Scale, Spread, Whiten
from discreet.solvers import names, resolve

N, D = 1500, 5
RNG = np.random.default_rng(0)
X = RNG.standard_t(3, size=(N, D)) * [1.0, 10.0, 1e3, 0.1, 1.0] + [0.0, 50.0, -2e3, 0.0, 3.0]
Z = (X - X.mean(axis=0)) / X.std(axis=0)
SCORE = Z @ [1.0, -1.0, 0.5, 0.0, 0.3]
Y, THREE = (SCORE > 0).astype(int), np.digitize(SCORE, [-0.5, 0.5])
FAR = np.vstack([X[:50], 1e6 * X[:3], np.zeros((1, D))])
"""New rows, three of them far longer than any that a fit would not clip."""

PREPARATIONS = {
    "none": {"data_norm": 1e4},
    "all": {"preparation": [Radius(), Centre(), Spread(), Centre(), Scale(), Whiten()]},
    "radius last": {"preparation": [Scale(), Centre(), Radius()], "data_norm": 1e4},
    "whiten only": {"preparation": [Whiten()], "data_norm": 1e4},
}


def fit(estimator, y):
    """Fit, without warnings about test mode or small tables."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(X, y)


def assert_linear(model, tables=(np.asarray, sp.csr_array, pd.DataFrame)):
    """Check that scores are X @ coef + intercept, in all forms of a table, and row by row."""
    if not hasattr(model, "classes_"):
        model.target_bounds = None  # predictions are clipped to them
    weights, constants = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    expected = FAR @ weights.T + constants
    size = np.abs(FAR) @ np.abs(weights.T) + np.abs(constants)
    for table in tables:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # names of columns that the fit had not
            found = (
                model.decision_function(table(FAR))
                if hasattr(model, "classes_")
                else model.predict(table(FAR))
            )
        assert (np.abs(found.reshape(expected.shape) - expected) <= 1e-12 * size).all()
    assert (np.abs(row_scores(model, FAR) - expected) <= 1e-12 * size).all()


@pytest.mark.parametrize("preparation", PREPARATIONS)
@pytest.mark.parametrize("target", ["two", "several"])
@pytest.mark.parametrize("kind", [LogisticRegression, LinearSVC])
def test_classifiers_are_linear(kind, target, preparation):
    y = Y if target == "two" else THREE
    settings = PREPARATIONS[preparation]
    model = fit(kind(5.0, 1e-6, classes=np.unique(y), solver="gd", **settings), y)
    assert model.coef_.shape == (1 if target == "two" else 3, D)
    assert_linear(model)


@pytest.mark.parametrize("solver", names())
@pytest.mark.parametrize("steps", [None, [Centre(), Whiten()]])
def test_every_solver_is_linear_with_and_without_a_preparation(solver, steps):
    chosen = resolve(solver)
    if steps and not chosen.private:
        pytest.skip("baselines take no private preparation")
    relation = chosen.relations[0]
    settings = {"relation": relation, "preparation": steps, "data_norm": 100.0, "solver": solver}
    if solver == "newton":
        model = fit(LinearRegression(5.0, 1e-6, target_bounds=(-5.0, 5.0), **settings), SCORE)
    else:
        model = fit(LogisticRegression(5.0, 1e-6, classes=[0, 1], **settings), Y)
    assert_linear(model, [np.asarray])


@pytest.mark.parametrize("preparation", PREPARATIONS)
@pytest.mark.parametrize("kind", [LinearRegression, HuberRegressor])
@pytest.mark.parametrize("intercept", [True, False])
def test_regressors_are_linear_up_to_the_bounds_of_the_target(kind, preparation, intercept):
    settings = {"solver": "gd", "fit_intercept": intercept, **PREPARATIONS[preparation]}
    model = fit(kind(5.0, 1e-6, target_bounds=(-5.0, 5.0), **settings), SCORE)
    assert_linear(model)
    low, high = model.target_bounds = (-1.0, 1.0)
    linear = FAR @ model.coef_ + model.intercept_
    assert model.predict(FAR) == pytest.approx(np.clip(linear, low, high))


def test_the_default_is_linear():
    for model, y in (
        (LogisticRegression(3.0, 1e-6, classes=[0, 1]), Y),
        (LogisticRegression(3.0, 1e-6, classes=[0, 1, 2]), THREE),
        (LinearSVC(3.0, 1e-6, classes=[0, 1]), Y),
        (LinearRegression(3.0, 1e-6, target_bounds=(-5.0, 5.0)), SCORE),
        (HuberRegressor(3.0, 1e-6, target_bounds=(-5.0, 5.0)), SCORE),
    ):
        assert fit(model, y).preparation_
        assert model.features_.bounds is None
        assert model.features_.expansion is None
        assert_linear(model)


def test_weights_come_out_with_their_signs_and_sizes():
    """True weights (1, −0.4) of columns that vary together, the second in other units."""
    rng = np.random.default_rng(1)
    table = rng.normal(size=(60_000, 2)) @ [[1.0, 0.8], [0.0, 0.6]]
    chance = 1 / (1 + np.exp(-(table @ [1.0, -0.4])))
    model = LogisticRegression(8.0, 1e-9, classes=[False, True])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(table * [1.0, 1e3], rng.random(60_000) < chance)
    first, second = model.coef_[0] * [1.0, 1e3]
    assert second / first == pytest.approx(-0.4, abs=0.15)
    assert abs(model.prepared_coef_[0, 1]) != pytest.approx(abs(second), rel=0.5)


def test_bounds_are_a_feature_map_that_the_model_is_linear_in():
    steps = [Bounds([1, 2]), Radius(), Centre(), Scale()]
    model = fit(LogisticRegression(5.0, 1e-6, classes=[0, 1], solver="gd", preparation=steps), Y)
    features, bounds = model.features_, model.preparation_[0]
    assert features.bounds is not None
    made = features.transform(FAR)
    expected = FAR.copy()
    for j, low, high in zip(bounds.columns, bounds.low, bounds.high, strict=True):
        expected[:, j] = np.clip((FAR[:, j] - low) / (high - low), 0.0, 1.0)
    assert np.array_equal(made, expected)
    linear = made @ model.coef_[0] + model.intercept_[0]
    assert model.decision_function(FAR) == pytest.approx(linear, rel=1e-9)
    assert row_scores(model, sp.csr_array(FAR))[:, 0] == pytest.approx(linear, rel=1e-9)


def test_bounds_must_come_first():
    model = LogisticRegression(classes=[0, 1], preparation=[Radius(), Bounds([1])])
    with pytest.raises(ValueError, match="Bounds or Windows must be the first step"):
        model.fit(X, Y)


def test_probabilities_are_functions_of_the_scores():
    model = fit(LogisticRegression(3.0, 1e-6, classes=[0, 1]), Y)
    scores = model.decision_function(FAR)
    assert np.array_equal(model.predict_proba(FAR)[:, 1], model.link_.positive(scores))


@pytest.mark.parametrize("y", [Y, THREE])
def test_prepared_weights_survive_files_and_pickles(y, tmp_path):
    model = fit(LogisticRegression(3.0, 1e-6, classes=np.unique(y)), y)
    save(model, tmp_path / "model.json")
    for again in (load(tmp_path / "model.json"), pickle.loads(pickle.dumps(model))):
        for name in ("coef_", "intercept_", "prepared_coef_", "prepared_intercept_"):
            assert getattr(again, name).tobytes() == getattr(model, name).tobytes()
        assert np.array_equal(again.decision_function(FAR), model.decision_function(FAR))
