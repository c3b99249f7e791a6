"""Poisson, gamma and quantile regression."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from sklearn import linear_model
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from discreet import (
    DiscreteTimeSurvival,
    GammaRegressor,
    LinearRegression,
    NotSupported,
    OrdinalClassifier,
    PoissonRegressor,
    QuantileRegressor,
    load,
    save,
)
from discreet.estimators.scoring import score_regressor
from discreet.estimators.units import Exposure, PrivacyUnits
from discreet.objectives import Pinball, SmoothPinball

# Fits that are scored have fixed seeds, which warns.
pytestmark = pytest.mark.filterwarnings("ignore::discreet.PrivacyLeakWarning")

HUGE = 1e5
COEF = np.array([0.3, -0.2, 0.1, 0.0])
BOUNDS = {PoissonRegressor: (0, 30), GammaRegressor: (0.01, 60), QuantileRegressor: (-4, 4)}


@pytest.fixture(scope="module")
def tables():
    """Targets of each family with the same coefficients, at 20,000 correlated rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 4)) @ (np.eye(4) + 0.3)
    mean = np.exp(X @ COEF + 0.7)
    return X, {
        PoissonRegressor: rng.poisson(mean).astype(float),
        GammaRegressor: rng.gamma(2.0, mean / 2.0),
        QuantileRegressor: X @ COEF + 0.7 + 0.5 * rng.normal(size=len(X)),
    }


def exact(Regressor, X, y):
    """Return coefficients and intercept of scikit-learn's fit without privacy."""
    if Regressor is QuantileRegressor:
        model = linear_model.QuantileRegressor(alpha=0.0).fit(X[:4000], y[:4000])
    else:
        model = getattr(linear_model, Regressor.__name__)(alpha=0.0, max_iter=1000).fit(X, y)
    return np.append(model.coef_, model.intercept_)


@pytest.mark.parametrize("Regressor", BOUNDS)
def test_fits_converge_to_those_without_privacy(Regressor, tables):
    X, y = tables[0], tables[1][Regressor]
    wanted = exact(Regressor, X, y)
    settings = {"target_bounds": BOUNDS[Regressor], "random_state": 0, "alpha": 1e-6}
    near = Regressor(HUGE, **settings).fit(X, y)
    found = np.append(near.coef_, near.intercept_)
    loose = 0.03 if Regressor is QuantileRegressor else 0.02  # of a fifth of the rows
    np.testing.assert_allclose(found, wanted, atol=loose)
    for seed in range(3):
        usual = Regressor(1.0, **{**settings, "random_state": seed}).fit(X, y)
        np.testing.assert_allclose(np.append(usual.coef_, usual.intercept_), wanted, atol=0.05)


@pytest.mark.parametrize("Regressor", [PoissonRegressor, GammaRegressor])
def test_fits_explain_nearly_as_much_as_without_privacy(Regressor, tables):
    X, y = tables[0], tables[1][Regressor]
    best = getattr(linear_model, Regressor.__name__)(alpha=0.0).fit(X, y).score(X, y)
    for epsilon, lost in ((0.3, 0.03), (1.0, 0.01), (3.0, 0.005)):
        for seed in range(3):
            model = Regressor(epsilon, target_bounds=BOUNDS[Regressor], random_state=seed)
            assert model.fit(X, y).score(X, y) > best - lost


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_the_share_below_a_quantile(quantile, tables):
    X, y = tables[0], tables[1][QuantileRegressor]
    model = QuantileRegressor(1.0, target_bounds=(-4, 4), quantile=quantile, random_state=0)
    assert (y <= model.fit(X, y).predict(X)).mean() == pytest.approx(quantile, abs=0.02)


def test_a_kink_is_smoothed_only_where_it_must_be():
    assert QuantileRegressor(quantile=0.3)._loss() == SmoothPinball(0.3)
    assert QuantileRegressor(quantile=0.3, solver="newton")._loss() == SmoothPinball(0.3)
    assert QuantileRegressor(quantile=0.3, solver="gd")._loss() == Pinball(0.3)


@pytest.mark.parametrize("solver", ["gd", "agd", "newton", "objpert", "amp", "sgd", "nonprivate"])
@pytest.mark.parametrize("Regressor", BOUNDS)
def test_solvers_take_every_family(Regressor, solver, tables):
    X, y = tables[0][:3000], tables[1][Regressor][:3000]
    model = Regressor(5.0, target_bounds=BOUNDS[Regressor], solver=solver, data_norm=4.0)
    predicted = model.fit(X, y).predict(X)
    assert model.solver_ == solver
    low, high = BOUNDS[Regressor]
    assert (predicted >= low).all()
    assert (predicted <= high).all()
    if solver == "nonprivate":
        assert np.corrcoef(predicted, np.exp(X @ COEF))[0, 1] > 0.95


@pytest.mark.parametrize("Regressor", BOUNDS)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_predictions_follow_from_coefficients(Regressor, form, tables, tmp_path):
    X, y = tables[0][:2000], tables[1][Regressor][:2000]
    model = Regressor(5.0, target_bounds=BOUNDS[Regressor], random_state=0).fit(X, y)
    margins = X @ model.coef_ + model.intercept_
    wanted = margins if Regressor is QuantileRegressor else np.exp(margins)
    np.testing.assert_allclose(
        model.predict(form(X)), np.clip(wanted, *BOUNDS[Regressor]), rtol=1e-12
    )
    save(model, tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.get_params()["target_bounds"] == BOUNDS[Regressor]
    assert again.guarantee_ == model.guarantee_


def test_a_rows_prediction_depends_on_that_row_alone(tables):
    X, y = tables[0], tables[1][PoissonRegressor]
    model = PoissonRegressor(5.0, target_bounds=(0, 30), random_state=0).fit(X, y)
    margins = X @ model.coef_ + model.intercept_
    together = model._predicted(margins)
    alone = np.array([model._predicted(margins[i : i + 1])[0] for i in range(500)])
    np.testing.assert_array_equal(together[:500], alone)
    scores = score_regressor(model, X, y, (0, 30))
    assert scores.mean_absolute_error == pytest.approx(np.abs(y - together).mean(), abs=1e-6)


@pytest.mark.parametrize("Regressor", [PoissonRegressor, GammaRegressor])
def test_bounds_are_needed_and_checked_before_data_is_read(Regressor):
    with pytest.raises(ValueError, match=r"needs target_bounds=\(low, high\)"):
        Regressor().check_settings()
    with pytest.raises(ValueError, match="must be numbers"):
        Regressor(target_bounds=(-1, 5)).check_settings()
    with pytest.raises(NotSupported, match="fit_intercept=True"):
        Regressor(target_bounds=(1, 5), fit_intercept=False).check_settings()
    Regressor(target_bounds=(0.5, 5)).check_settings()
    PoissonRegressor(target_bounds=(0, 5)).check_settings()
    with pytest.raises(ValueError, match="must be numbers above 0"):
        GammaRegressor(target_bounds=(0, 5)).check_settings()


def test_targets_beyond_the_bounds_are_cut(tables):
    X, y = tables[0], tables[1][PoissonRegressor].copy()
    settings = {"target_bounds": (0, 30), "random_state": 0}
    y[:20] = 30.0
    plain = PoissonRegressor(1.0, **settings).fit(X, y)
    y[:10], y[10:20] = 1e12, 35.0
    np.testing.assert_array_equal(plain.coef_, PoissonRegressor(1.0, **settings).fit(X, y).coef_)


# Exposure


@pytest.fixture(scope="module")
def policies(tables):
    """Counts over exposures from a tenth of a year to a year."""
    rng = np.random.default_rng(1)
    X, exposure = tables[0], rng.uniform(0.1, 1.0, len(tables[0]))
    return X, rng.poisson(exposure * np.exp(X @ COEF + 0.7)).astype(float), exposure


def test_exposure_is_the_offset_of_a_rate(policies):
    X, y, exposure = policies
    wanted = linear_model.PoissonRegressor(alpha=0.0, max_iter=1000)
    wanted.fit(X, y / exposure, sample_weight=exposure)  # the maximum likelihood with an offset
    for epsilon, off in ((HUGE, 0.02), (1.0, 0.06)):
        model = PoissonRegressor(
            epsilon, target_bounds=(0, 40), exposure_bound=1.0, random_state=0, alpha=1e-6
        ).fit(X, y, exposure=exposure)
        np.testing.assert_allclose(model.coef_, wanted.coef_, atol=off)
        assert model.intercept_ == pytest.approx(wanted.intercept_, abs=off)
    assert "the bound on exposure" in model.guarantee_.public
    assert "the sample weights of the rows" not in model.guarantee_.public
    ignoring = PoissonRegressor(HUGE, target_bounds=(0, 40), random_state=0).fit(X, y)
    assert ignoring.intercept_ < wanted.intercept_ - 0.4


def test_a_gamma_mean_is_proportional_to_exposure(tables):
    rng = np.random.default_rng(2)
    X, exposure = tables[0], rng.uniform(0.1, 1.0, len(tables[0]))
    y = tables[1][GammaRegressor] * exposure
    settings = {"target_bounds": (0.01, 60), "random_state": 0}
    model = GammaRegressor(HUGE, **settings).fit(X, y, exposure=exposure)
    wanted = GammaRegressor(HUGE, **settings).fit(X, tables[1][GammaRegressor])
    np.testing.assert_allclose(model.coef_, wanted.coef_, atol=1e-9)


@given(st.integers(0, 4), st.floats(1e-6, 1e6))
def test_one_rows_exposure_changes_that_row_alone(row, value):
    """Exposures are private, so no row may set the scale of the others."""
    X, y = np.zeros((5, 1)), np.arange(1.0, 6.0)
    exposure = np.array([0.5, 1.0, 2.0, 0.1, 3.0])
    one = Exposure(exposure, 2.0).applied(X, y, PrivacyUnits(5))
    changed = exposure.copy()
    changed[row] = value
    other = Exposure(changed, 2.0).applied(X, y, PrivacyUnits(5))
    rest = np.arange(5) != row
    for a, b in ((one[0], other[0]), (one[1].factors, other[1].factors)):
        np.testing.assert_array_equal(a[rest], b[rest])
    assert (other[1].factors >= 0).all()
    assert (other[1].factors <= 1).all()
    assert not other[1].even  # so that the total weight is measured, on the budget


@pytest.mark.parametrize("extreme", [1.7e308, 5e-324])
@pytest.mark.parametrize("bound", [0.5, 1e-50, 1e50])
def test_no_exposure_decides_on_a_warning(extreme, bound):
    """A warning that one row causes would be about that row."""
    X, y = np.random.default_rng(0).normal(size=(300, 2)), np.full(300, 1.0)
    seen = []
    for own in (1.0, extreme):
        exposure = np.full(300, 1.0)
        exposure[7] = own
        model = PoissonRegressor(1.0, target_bounds=(0, 5), exposure_bound=bound)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(X, y, exposure=exposure)
        # others are about released numbers: that all coefficients are 0
        seen.append([str(item.message) for item in caught if item.category is RuntimeWarning])
    assert seen == [[], []]


@pytest.mark.parametrize(
    "exposure", [[1.0, 2.0], [1.0, 0.0, 1.0], [1.0, -1.0, 1.0], [1.0, np.nan, 1.0], list("abc")]
)
def test_bad_exposures_are_refused_without_a_value(exposure):
    model = PoissonRegressor(target_bounds=(0, 5), exposure_bound=1.0)
    with pytest.raises(ValueError, match="exposure must be") as caught:
        model.fit(np.ones((3, 1)), [0, 1, 2], exposure=exposure)
    assert not any(f"{value}" in str(caught.value) for value in ("-1", "nan"))


def test_exposure_needs_a_bound_and_a_solver_with_weights(policies):
    X, y, exposure = policies
    with pytest.raises(ValueError, match=r"exposure_bound=1\.0"):
        PoissonRegressor(target_bounds=(0, 5)).fit(X, y, exposure=exposure)
    with pytest.raises(ValueError, match="exposure_bound"):
        PoissonRegressor(target_bounds=(0, 5), exposure_bound=-1).check_settings()
    with pytest.raises(NotSupported, match="exposure out"):
        PoissonRegressor(
            target_bounds=(0, 5),
            exposure_bound=1.0,
            solver="rrpsgd",
            data_norm=1.0,
            relation="replace_one",
        ).fit(X, y, exposure=exposure)


def test_exposure_with_people(policies):
    X, y, exposure = policies
    people = np.arange(len(y)) // 2
    model = PoissonRegressor(5.0, target_bounds=(0, 40), exposure_bound=1.0, random_state=0)
    model.fit(X, y, groups=people, exposure=exposure)
    assert model.guarantee_.unit == "person"
    np.testing.assert_allclose(model.coef_, COEF, atol=0.06)


def test_exposure_is_routed(policies):
    X, y, exposure = policies
    settings = {"target_bounds": (0, 40), "exposure_bound": 1.0, "random_state": 0}
    with sklearn.config_context(enable_metadata_routing=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline = make_pipeline(FunctionTransformer(), PoissonRegressor(5.0, **settings))
        pipeline.fit(X, y, exposure=exposure)
    direct = PoissonRegressor(5.0, **settings).fit(X, y, exposure=exposure)
    np.testing.assert_array_equal(pipeline[-1].coef_, direct.coef_)


# Targets that a family does not have


def survival(**settings):
    return DiscreteTimeSurvival(1.0, 1e-6, periods=3, **settings)


ODD = {
    "counts": (
        lambda **own: PoissonRegressor(1.0, 1e-6, target_bounds=(0, 5), **own),
        [1.0, 2.0, 0.0],
        [-3.0, 0.5, 1e9],
        ("Targets beyond the bounds [0, 5] are clipped to them", "a negative count becomes 0"),
    ),
    "amounts": (
        lambda **own: GammaRegressor(1.0, 1e-6, target_bounds=(0.1, 50), **own),
        [1.0, 2.0, 3.0],
        [0.0, -2.0, 1e9],
        ("beyond the bounds [0.1, 50] are clipped", "an amount of 0 or less becomes 0.1"),
    ),
    "numbers": (
        lambda **own: LinearRegression(1.0, 1e-6, target_bounds=(-1, 4), **own),
        [1.0, 2.0, 0.0],
        [-30.0, 40.0, 1e300],
        ("Targets beyond the bounds [-1, 4] are clipped to them",),
    ),
    "durations": (
        survival,
        [1.0, 2.0, 3.0],
        [-1.0, 0.0, 1e9],
        ("Durations up to 1, also negative ones, count in the first period",),
    ),
    "classes": (
        lambda **own: OrdinalClassifier(1.0, 1e-6, classes=[0, 1, 2], **own),
        [0, 1, 2],
        [0, 2, 2],
        ("Not checked: that every class has rows",),
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_notes_on_targets_are_the_same_whatever_the_targets_are(name):
    """They always appear, and neither they nor warnings say that a row has such a target."""
    make, plain, odd, texts = ODD[name]
    X = np.random.default_rng(1).normal(size=(300, 2))
    seen = []
    for values in (plain, odd):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = make().fit(X, np.tile(values, 100))
        told = [str(item.message) for item in caught if "All coefficients" not in str(item.message)]
        footer = " ".join(model.summary().footer)
        for text in texts:
            assert text in footer
        explained = model.guarantee_.explain()
        assert all(text in explained for text in model._clipped())
        seen.append((told, footer, model.guarantee_.public))
    assert seen[0] == seen[1]


def test_that_no_event_was_given_is_public_knowledge():
    X = np.random.default_rng(1).normal(size=(300, 2))
    time = np.tile([1.0, 2.0, 3.0], 100)
    text = "that every duration ended with the event, as no event was given"
    assert text in survival().fit(X, time).guarantee_.public
    assert text not in survival().fit(X, time, event=np.ones(300)).guarantee_.public


def test_intervals_are_said_to_be_for_clipped_targets(tables):
    X, y = tables[0], tables[1][PoissonRegressor]
    model = PoissonRegressor(5.0, 1e-6, target_bounds=(0, 30), inference=True).fit(X, y)
    footer = " ".join(model.summary().footer)
    assert model.covariances_
    assert "no clipping" not in footer
    assert "gradients are not clipped" in footer
    assert "Coefficients and intervals are for clipped targets" in footer
    assert "[0, 30]" in model.guarantee_.explain()
