"""Tables of coefficients, intervals of predictions, files, the command, and figures."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom, norm

import discreet
from discreet import (
    Budget,
    DiscreteTimeSurvival,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    NotSupported,
    OrdinalClassifier,
    load,
    save,
)
from discreet.cli.app import run as main
from discreet.estimators.effects import released_means
from discreet.inference import Covariance
from discreet.preparation.pipeline import unclipped_map
from discreet.tuning.plan import plan


@pytest.fixture(scope="module")
def line():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (3000, 3))
    y = X @ [1.5, -2, 0.0] + rng.standard_normal(3000)
    return LinearRegression(3.0, 1e-6, target_bounds=(-25, 20), inference=True).fit(X, y), X, y


@pytest.fixture(scope="module")
def classes():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((6000, 2))
    p = expit(X @ [1.0, -0.5] + 0.3)
    model = LogisticRegression(3.0, 1e-6, classes=[0, 1], inference=True)
    return model.fit(X, (rng.random(6000) < p).astype(int)), X, p


def test_all_views_agree(line):
    model, _, _ = line
    frame, table = model.summary().to_frame(), model.conf_int()
    assert list(frame.index) == ["intercept", "x0", "x1", "x2"]
    assert frame["coef"].to_numpy()[1:] == pytest.approx(model.coef_)
    assert frame["coef"].iloc[0] == model.intercept_
    assert np.sqrt(np.diag(model.cov_params_)) == pytest.approx(model.standard_errors_)
    half = norm.ppf(0.975) * model.standard_errors_
    assert table[:, 1] - table[:, 0] == pytest.approx(2 * half)
    assert frame[["low", "high"]].to_numpy() == pytest.approx(table)
    narrow = model.conf_int(0.5)
    assert narrow.mean(axis=1) == pytest.approx(frame["coef"].to_numpy())
    assert np.ptp(narrow, axis=1) == pytest.approx(2 * norm.ppf(0.75) * model.standard_errors_)
    z = frame["coef"] / frame["std err"]
    assert frame["p"].to_numpy() == pytest.approx(2 * norm.sf(abs(z)))
    text = str(model.summary())
    for name in (*frame.index, "std err", "3,000 rows", "ε = 3", "one row added or removed"):
        assert name in text
    assert max(map(len, text.splitlines())) <= 100


def test_html_is_escaped_and_has_every_coefficient(line):
    model, _, _ = line
    html = model.summary(names=["<b>", "age", "hours"])._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<b>" not in html
    assert "age" in html
    with pytest.raises(ValueError, match="names"):
        model.summary(names=["one"])


def test_odds_ratios(classes, line):
    model, _, _ = classes
    frame = model.summary(odds_ratios=True).to_frame()
    assert frame["odds ratio"].to_numpy() == pytest.approx(np.exp(frame["coef"]))
    assert frame["odds low"].to_numpy() == pytest.approx(np.exp(frame["low"]))
    assert "odds ratio" in str(model.summary(odds_ratios=True))
    with pytest.raises(NotSupported, match="logistic"):
        line[0].summary(odds_ratios=True)


def test_without_inference_there_is_a_table_without_errors():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((500, 2))
    model = LogisticRegression(1.0, 1e-6, classes=[0, 1]).fit(X, (X[:, 0] > 0).astype(int))
    assert "inference=True" in str(model.summary())
    assert np.isnan(model.standard_errors_).all()
    with pytest.raises(NotSupported, match="inference=True"):
        model.predict_interval(X)


def test_prediction_intervals_cover_new_targets(line):
    """10,000 new targets; the model's own error moves coverage by less than 0.02."""
    model, _, _ = line
    rng = np.random.default_rng(9)
    X = rng.uniform(0, 10, (10_000, 3))
    mean = X @ [1.5, -2, 0.0]
    found = model.predict_interval(X)
    y = mean + rng.standard_normal(10_000)
    inside = int(((found.low <= y) & (y <= found.high)).sum())
    assert binom.ppf(5e-7, 10_000, 0.93) <= inside <= binom.isf(5e-7, 10_000, 0.97)
    for_mean = model.predict_interval(X, target=False)
    assert (for_mean.high - for_mean.low < found.high - found.low).all()
    whole = found.sampling + found.noise + found.bias + found.residual
    assert found.high - found.low == pytest.approx(2 * norm.ppf(0.975) * np.sqrt(whole))


def test_intervals_of_probabilities(classes):
    model, X, p = classes
    found = model.predict_interval(X[:500], 1 - 1e-9)
    assert ((found.low < p[:500]) & (p[:500] < found.high)).all()
    assert (found.low > 0).all()
    assert (found.high < 1).all()


def test_files_keep_intervals(line, tmp_path):
    model, X, _ = line
    save(model, tmp_path / "model.json")
    read = load(tmp_path / "model.json")
    assert str(read.summary()) == str(model.summary())
    assert read.predict_interval(X[:5]).low == pytest.approx(model.predict_interval(X[:5]).low)


def test_several_classes_are_one_against_the_rest():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((6000, 2))
    y = rng.integers(0, 3, 6000)
    model = LogisticRegression(8.0, 1e-6, classes=[0, 1, 2], inference=True).fit(X, y)
    assert model.multinomial_ is False
    assert model.conf_int().shape == (3, 3, 2)
    assert model.cov_params_.shape == (3, 3, 3)
    assert model.summary().to_frame().index.nlevels == 2


def test_forest_plot(line):
    figure = line[0].plot_coefficients(names=["a", "b", "c"])
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert labels == ["a", "b", "c"]


def test_explain_shows_coefficients(line, tmp_path, capsys):
    save(line[0], tmp_path / "model.json")
    assert main(["explain", str(tmp_path / "model.json"), "--coefficients", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in shown["models"][0]["coefficients"]][:2] == ["intercept", "x0"]
    page = tmp_path / "table.html"
    arguments = ["explain", str(tmp_path / "model.json"), "--coefficients", "--output", str(page)]
    assert main(arguments) == 0
    assert "std err" in page.read_text()


def test_a_plan_knows_that_more_budget_buys_more():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = plan(5000, 3, [0.5, 8.0], repeats=2)
    little, much = found.planned
    assert much.width < little.width or np.isnan(little.width)
    assert 0.8 * much.plain_width < much.width
    assert 0.5 < much.score <= 1
    assert "nothing is spent" in str(found)
    assert discreet.plan is plan
    assert len(found.plot().axes) == 2
    assert plan(5000, 2, 8.0, task="regression", repeats=1).planned[0].score > 0.3
    with pytest.raises(ValueError, match="task"):
        plan(100, 2, task="other")


def test_the_command_plans(tmp_path, capsys):
    figure = tmp_path / "plan.png"
    options = ["--epsilon", "3", "--repeats", "1", "--figure", str(figure), "--json"]
    assert main(["plan", "--rows", "2000", "--columns", "2", *options]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["planned"][0]["epsilon"] == 3
    assert figure.stat().st_size > 5000


def test_models_without_a_distribution_are_refused():
    """Before anything is read: X could not be fitted."""
    X = np.full((2, 2), np.nan)
    with pytest.raises(NotSupported, match="no parameter of a distribution"):
        LinearSVC(1.0, 1e-6, inference=True).fit(X, X[:, 0])


# Models with a constant per level


COEF, THRESHOLDS, BASELINE = [0.6, -0.4, 0.0], [-1.0, 0.5, 2.0], np.linspace(-2.0, -1.0, 6)


def ordered(seed, rows=6000, epsilon=3.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3)) @ (np.eye(3) + 0.3)
    y = np.digitize(X @ COEF + rng.logistic(size=rows), THRESHOLDS)
    return OrdinalClassifier(epsilon, 1e-6, classes=range(4), inference=True).fit(X, y), X


def spells(seed, rows=6000, epsilon=3.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3)) @ (np.eye(3) + 0.3) - [2.0, 0.0, 0.0]
    events = rng.random((rows, 6)) < expit((X @ COEF)[:, None] + 1.2 + BASELINE)
    first = np.where(events.any(axis=1), events.argmax(axis=1) + 1, 7)
    months = np.minimum(first, rng.integers(2, 9, rows))
    model = DiscreteTimeSurvival(epsilon, 1e-6, periods=6, inference=True)
    return model.fit(X, np.minimum(months, 6), event=(first == months) & (first < 7)), X


@pytest.mark.parametrize("make", [ordered, spells])
def test_slopes_of_models_with_levels_have_intervals(make, tmp_path):
    model, X = make(0)
    assert np.isfinite(model.standard_errors_[1:]).all()
    assert np.isnan(model.standard_errors_[0])
    assert (abs(model.coef_ - COEF) < 6 * model.standard_errors_[1:]).all()
    text = str(model.summary(odds_ratios=True))
    assert "intervals are for slopes" in text
    assert "odds ratio" in text
    save(model, tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    np.testing.assert_allclose(again.conf_int(), model.conf_int())
    chosen = model.select_coefficients("fdr", level=1e-6)  # so often the last one is kept
    assert chosen.coef_[2] == 0
    moved = chosen.intercept_ - model.intercept_
    np.testing.assert_allclose(chosen.levels_ - model.levels_, moved)
    save(chosen, tmp_path / "chosen.json")  # the prepared weights are those of the others
    same = (chosen, load(tmp_path / "chosen.json"))
    scores = [each._margins(each._read_new(X[:9])) for each in same]
    np.testing.assert_allclose(*scores)
    whole = unclipped_map(chosen.preparation_, chosen.prepared_coef_.shape[1])
    prepared = np.column_stack([chosen.prepared_coef_, chosen.prepared_intercept_])
    carried = whole.adjoint(prepared)[0]
    np.testing.assert_allclose(carried[:3], chosen.coef_, atol=1e-9)
    assert carried[-1] == pytest.approx(chosen.intercept_)


@pytest.mark.slow
@pytest.mark.parametrize(("make", "rows"), [(ordered, 5000), (ordered, 20_000), (spells, 20_000)])
def test_slopes_of_models_with_levels_are_covered(make, rows):
    """Errors of 300 intervals; a coverage of 0.9 would fail, and one of 0.95 once in a million."""
    count = 100
    z = []
    for seed in range(count):
        model, _ = make(seed, rows=rows, epsilon=1.0)
        z.append((model.coef_ - COEF) / model.standard_errors_[1:])
    missed = int((np.abs(z) > norm.ppf(0.975)).sum())
    assert missed <= binom.isf(1e-6, 3 * count, 0.05)
    assert missed > 0


def test_slopes_have_a_dispersion_of_their_own():
    parts = [np.arange(16.0).reshape(4, 4) + k for k in range(3)]
    whole = Covariance(*parts, np.array([False, True, False, False]), "rare", 2.0)
    kept = np.array([0, 1, 3])
    found = whole.of_slopes(kept, 5.0, "a constant")
    own = np.ix_(kept, kept)
    np.testing.assert_array_equal(found.sampling, 2.5 * parts[0][own])
    np.testing.assert_array_equal(found.noise, parts[1][own])
    np.testing.assert_array_equal(found.bias, parts[2][own])
    assert found.refused.tolist() == [False, True, True]
    assert (found.reason, found.dispersion) == ("rare; a constant", 5.0)
    none = replace(whole, refused=np.ones(4, dtype=bool)).of_slopes(kept, 5.0, "a constant")
    assert none.reason == "rare"


def test_intervals_of_ordered_classes_need_rows_of_equal_weight():
    X, y = np.zeros((4, 1)), np.array([0, 1, 2, 0])
    model = OrdinalClassifier(1.0, 1e-6, classes=range(3), inference=True)
    for settings in ({"groups": [0, 0, 1, 1]}, {"sample_weight": [1.0, 1.0, 2.0, 1.0]}):
        with pytest.raises(NotSupported, match="independent rows of equal weight"):
            model.fit(X, y, **settings)


def test_the_dispersion_of_ordered_classes_is_that_of_their_number():
    """Of a row at any score: the variance of the class over the sum of those of its thresholds."""
    model = OrdinalClassifier(classes=range(4))
    model.coef_, model.levels_ = np.zeros(1), -np.array(THRESHOLDS)
    found = []
    for score in np.linspace(-1.0, 2.0, 101):
        above = expit(score - np.array(THRESHOLDS))
        chances = -np.diff(np.concatenate([[1.0], above, [0.0]]))
        mean = chances @ np.arange(4)
        found.append(chances @ (np.arange(4) - mean) ** 2 / (above @ (1 - above)) / 3)
    assert model._dispersion(1.0, np.zeros((3, 2))) == pytest.approx(max(found))


def test_the_dispersion_of_survival_is_that_of_slopes():
    """Scores and curvatures of simulated people, along a slope and along all weights."""
    model, _ = spells(0)
    basis = model._basis(6, 6000, Budget(3.0, 1e-6, "add_remove"))
    rng, count, shift = np.random.default_rng(0), 400_000, np.log(5)
    means = released_means(model)
    hazard = expit(model.baseline_ + means @ model.coef_)
    alive, slopes, all_ = np.ones(count, dtype=bool), np.zeros(2), np.zeros(2)
    left = np.cumprod(np.append(1.0, 1.0 - hazard[:-1]))
    roots = np.sqrt(left / left.sum())[:, None]
    columns = np.linalg.qr(roots * np.column_stack([np.ones(6), basis]))[0] / roots
    for t in range(6):
        event = rng.random(count) < hazard[t]
        weight = np.where(event, 5.0, 1.0)
        p = expit(np.log(hazard[t] / (1 - hazard[t])) + shift)
        found = np.array(
            [(alive * weight**2 * (p - event) ** 2).sum(), (alive * weight).sum() * p * (1 - p)]
        )
        slopes += found
        all_ += found * (3 + np.square(columns[t]).sum())
        alive &= ~event
    ratio = (slopes[0] / slopes[1]) / (all_[0] / all_[1])
    assert ratio > 1.001
    assert model._dispersion(1.0, basis) == pytest.approx(ratio, abs=0.002)
