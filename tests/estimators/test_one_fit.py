"""One fit gives predictions, coefficients and intervals; public numbers decide whether it does."""

import numpy as np
import pandas as pd
import pytest

import discreet
from discreet import (
    HuberRegressor,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    PoissonRegressor,
    QuantileRegressor,
)
from discreet.errors import AveragedCellsWarning
from discreet.estimators.refinement import combined, whitening
from discreet.inference import Evidence
from discreet.solvers import Solution

SLOPES = np.array([1.0, -0.5, 0.25])


def rows(seed, n=20_000):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, X @ SLOPES, rng


def labels(scores, rng):
    return (scores + rng.logistic(size=len(scores)) > 0).astype(int)


def classifier(**settings):
    return LogisticRegression(1.0, 1e-8, classes=[0, 1], random_state=3, **settings)


@pytest.fixture(scope="module")
def fitted():
    X, scores, rng = rows(1)
    return classifier().fit(X, labels(scores, rng)), X


def test_one_fit_gives_predictions_and_intervals(fitted):
    """Seeded noise; the contract of scikit-learn holds for the coefficients of predictions."""
    model, X = fitted
    expected = X[:50] @ model.coef_[0] + model.intercept_
    assert model.decision_function(X[:50]) == pytest.approx(expected, rel=1e-12)
    assert model.params.to_numpy()[1:] == pytest.approx(SLOPES, abs=6 * 0.025)
    assert model.coef_[0] == pytest.approx(SLOPES, abs=6 * 0.025)
    low, high = model.conf_int().T
    assert (low < high).all()
    assert "released beside coef_" in str(model.summary())
    shares = dict(model.guarantee_.split)
    assert 0.2 < shares["inference"] < 0.5
    assert sum(share for _, share in model.guarantee_.split) == pytest.approx(1.0)


def test_the_table_is_about_the_estimate_and_not_about_the_predictions(fitted):
    model, X = fitted
    estimate = model.covariances_[0].weights
    assert (estimate[:-1] != model.coef_[0]).all()
    table = model.summary().to_frame()
    assert table["coef"].to_numpy()[1:] == pytest.approx(estimate[:-1])
    found = model.predict_interval(X[:5])
    scores = X[:5] @ estimate[:-1] + estimate[-1]
    middle = (np.log(found.low / (1 - found.low)) + np.log(found.high / (1 - found.high))) / 2
    assert middle == pytest.approx(scores, abs=1e-9)


def test_the_estimate_is_kept_in_files(fitted, tmp_path):
    model, X = fitted
    discreet.save(model, tmp_path / "model.json")
    again = discreet.load(tmp_path / "model.json")
    assert (again.covariances_[0].weights == model.covariances_[0].weights).all()
    assert str(again.summary()) == str(model.summary())
    assert (again.predict_proba(X[:9]) == model.predict_proba(X[:9])).all()


def test_selected_coefficients_are_those_of_the_table(fitted):
    model, X = fitted
    copied = model.select_coefficients()
    assert copied.covariances_[0].weights is None
    assert copied.coef_[0] == pytest.approx(model.covariances_[0].weights[:-1], abs=0.05)
    expected = X[:5] @ copied.coef_[0] + copied.intercept_
    assert copied.decision_function(X[:5]) == pytest.approx(expected)


def test_fits_without_enough_budget_are_those_without_inference():
    X, scores, rng = rows(2, 1_000)
    y = labels(scores, rng)
    auto = classifier().fit(X, y)
    never = classifier(inference=False).fit(X, y)
    assert auto.covariances_ == ()
    assert (auto.coef_ == never.coef_).all()
    assert "too small" in " ".join(str(auto.summary()).split())
    assert "inference=True" in str(never.summary())


def test_no_value_of_a_row_decides_whether_there_are_intervals():
    X, scores, rng = rows(3)
    y = labels(scores, rng)
    for table, target in ((X, y), (1e6 * X, y), (0 * X, y), (X, np.zeros_like(y))):
        model = classifier().fit(table, target)
        assert len(model.covariances_) == 1
        assert "inference" in dict(model.guarantee_.split)


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (classifier(alpha=0.1), "settings of penalty"),
        (classifier(data_norm=3.0), "settings of penalty"),
        (classifier(solver="gd"), "settings of penalty"),
        (classifier(class_weight={0: 1.0, 1: 0.5}), "settings of penalty"),
        (classifier(columns={0: (-4, 4), 1: (-4, 4)}), "a curve"),
        (classifier(inference=False), "Leave inference to the rule"),
        (LinearSVC(1.0, 1e-8, classes=[0, 1]), "one model"),
        (PoissonRegressor(1.0, 1e-8, target_bounds=(0, 9)), "two classes or residuals"),
    ],
)
def test_other_fits_have_no_intervals_and_say_why(model, why):
    X, scores, rng = rows(4)
    model.fit(X, labels(scores, rng))
    assert model.covariances_ == ()
    text = " ".join(str(model.summary(names=None)).split()) if why != "a curve" else None
    if text is None:
        from discreet.estimators.coefficients import missing_reason

        text = missing_reason(model)
    assert why in text


def test_several_classes_have_one_model_and_no_intervals():
    X, scores, rng = rows(5)
    y = np.digitize(scores + rng.logistic(size=len(scores)), [-1, 1])
    model = LogisticRegression(1.0, 1e-8, classes=[0, 1, 2]).fit(X, y)
    assert model.multinomial_
    assert model.covariances_ == ()


def test_only_auto_is_a_word_for_inference():
    with pytest.raises(ValueError, match="inference must be"):
        classifier(inference="yes").check_settings()


@pytest.mark.parametrize("kind", [LinearRegression, HuberRegressor, QuantileRegressor])
def test_numbers_keep_their_predictions_beside_the_estimate(kind):
    """Seeded noise; skewed errors move the estimate, and not the predictions of least squares."""
    X, scores, rng = rows(6)
    y = scores + rng.exponential(size=len(scores)) - 1.0
    model = kind(3.0, 1e-8, target_bounds=(-8, 12), random_state=1).fit(X, y)
    assert len(model.covariances_) == 1
    expected = X[:50] @ model.coef_ + model.intercept_
    assert model.predict(X[:50]) == pytest.approx(expected, rel=1e-9)
    if kind is LinearRegression:
        assert np.mean(model.predict(X) - y) == pytest.approx(0.0, abs=0.05)
    slopes = model.params.to_numpy()[1:]
    assert slopes == pytest.approx(SLOPES, abs=0.1)


def test_levels_and_gaps_of_a_fit_with_intervals_are_averaged():
    rng = np.random.default_rng(7)
    n = 20_000
    ward = rng.choice(["A", "B", "C"], n)
    table = pd.DataFrame({"age": rng.normal(50, 10, n), "ward": ward})
    y = labels((table["age"] - 50) / 10 + (ward == "B"), rng)
    table.loc[::50, "age"] = np.nan
    columns = {"ward": ["A", "B", "C", "never"]}
    model = classifier(columns=columns).fit(table, y)
    assert len(model.covariances_) == 1
    assert "ward=A" not in model.design_.feature_names
    new = pd.DataFrame({"age": [50.0] * 5, "ward": ["A", "B", "C", None, "elsewhere"]})
    with pytest.warns(AveragedCellsWarning, match=r"ward \(2\)"):
        scores = model.decision_function(new)
    assert scores[3] == scores[4]
    assert scores[:3].min() < scores[3] < scores[:3].max()
    assert scores[1] - scores[0] == pytest.approx(1.0, abs=0.3)


def evidence(weights, noise, blind):
    nothing = np.zeros_like(noise)
    floor = np.zeros_like(noise)
    return Evidence(weights, nothing, noise, nothing, blind, floor, usual=1.0, dispersion=1.0)


def test_two_estimates_are_combined_by_their_known_noise():
    solution = Solution(np.array([1.0, 2.0, 3.0]), (), (), clip=2.0, deviation=0.1, kept=0.9)
    none = np.zeros((0, 3))
    known = evidence(np.zeros(3), np.diag([0.01, 0.03, 1e-12]), none)
    found = combined(solution, known)
    assert found.weights == pytest.approx([0.5, 2 * 0.75, 0.0], abs=1e-6)
    left = [0.01 * 0.5, 0.01 * 0.75, 0.0]
    assert found.deviation == pytest.approx(np.sqrt(np.mean(left)), rel=1e-6)
    assert (found.clip, found.kept) == (None, 1.0)


def test_directions_that_nothing_determines_are_left_to_the_solver():
    solution = Solution(np.array([1.0, 2.0, 3.0]), (), (), deviation=0.1)
    blind = np.array([[0.0, 4.0, 0.0]])
    known = evidence(np.zeros(3), np.diag([1e-12, 0.0, 1e-12]), blind)
    assert combined(solution, known).weights == pytest.approx([0.0, 2.0, 0.0], abs=1e-4)


def test_rows_are_whitened_by_the_moment_that_a_solver_released():
    rng = np.random.default_rng(8)
    root = rng.normal(size=(4, 4))
    moment = 1e4 * root @ root.T
    turn = whitening(Solution(np.zeros(5), (), (), moment=moment))
    turned = turn @ moment @ turn
    assert turned == pytest.approx(np.trace(moment) / 4 * np.eye(4), rel=1e-6, abs=1e-3)
    assert turn == pytest.approx(turn.T)
    assert whitening(Solution(np.zeros(5), (), ())) is None
    # what is below the noise is not stretched any further
    noise = whitening(Solution(np.zeros(5), (), (), moment=np.diag([900.0, 900.0, -3.0, 0.0])))
    assert np.diag(noise)[2] == pytest.approx(np.diag(noise)[3])
    assert np.diag(noise)[2] < 20
