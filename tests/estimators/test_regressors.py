import warnings

import numpy as np
import pytest

from discreet import HuberRegressor, LinearRegression

# Fits that are scored have fixed seeds, which warns.
pytestmark = pytest.mark.filterwarnings("ignore::discreet.PrivacyLeakWarning")

REGRESSORS = [LinearRegression, HuberRegressor]


@pytest.mark.parametrize("Regressor", REGRESSORS)
def test_secure_fits_learn(Regressor, regression):
    X, y = regression
    model = Regressor(epsilon=5.0, random_state=0, target_bounds=(0, 100)).fit(X, y)
    assert model.score(X, y) > 0.8
    assert "the bounds of the target" in model.guarantee_.public
    assert model.coef_.shape == (4,)
    assert isinstance(model.intercept_, float)
    assert 40 < model.intercept_ < 60


@pytest.mark.parametrize("Regressor", REGRESSORS)
def test_targets_beyond_the_bounds_are_cut(Regressor, regression):
    X, y = regression
    wild = y.copy()
    wild[0] = 1e12
    model = Regressor(epsilon=5.0, random_state=0, target_bounds=(0, 100)).fit(X, wild)
    assert model.score(X, y) > 0.8


def test_without_an_intercept_the_centre_stays_zero(regression):
    X, y = regression
    model = LinearRegression(
        epsilon=5.0, random_state=0, target_bounds=(-50, 50), fit_intercept=False
    )
    model.fit(X, y - 50)
    assert model.intercept_ == 0.0
    assert model.score(X, y - 50) > 0.8


def test_huber_ignores_outliers_better_than_least_squares(regression):
    X, y = regression
    spoiled = y.copy()
    spoiled[: len(y) // 10] = 100.0
    common = {"epsilon": 20.0, "random_state": 0, "target_bounds": (0, 100)}
    robust = HuberRegressor(threshold=0.05, **common).fit(X, spoiled).score(X, y)
    plain = LinearRegression(**common).fit(X, spoiled).score(X, y)
    assert robust > plain


@pytest.mark.parametrize("bounds", [(1, 1), (2, 1), (0, np.inf), (np.nan, 1)])
def test_bad_bounds(bounds, regression):
    with pytest.raises(ValueError, match="target_bounds"):
        LinearRegression(target_bounds=bounds).fit(*regression)


def test_bad_threshold(regression):
    with pytest.raises(ValueError, match="threshold"):
        HuberRegressor(threshold=-1).fit(*regression)


def test_text_targets_are_refused_without_showing_them(regression):
    X, _ = regression
    with pytest.raises(ValueError, match="y must be numbers") as caught:
        LinearRegression().fit(X, np.array(["secret"] * len(X)))
    assert "secret" not in str(caught.value)


def test_no_warning_depends_on_one_target(regression):
    X, y = regression
    y = y.copy()
    y[0] = 1e308
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LinearRegression(target_bounds=(0, 1e-3)).fit(X, y)


def test_bounds_hold_without_an_intercept_too():
    X = np.ones((4000, 1))
    model = LinearRegression(
        epsilon=50.0, random_state=0, target_bounds=(2, 3), fit_intercept=False
    )
    model.fit(X, np.full(4000, -100.0))
    assert model.predict([[1.0]])[0] == pytest.approx(2.0, abs=0.3)
