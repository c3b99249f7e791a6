"""Features of estimators: the rule by public numbers, what is learned, and round trips."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from discreet import Bounds, LinearRegression, LinearSVC, LogisticRegression, Radius, load, save
from discreet.column_kinds import check_columns
from discreet.core import Budget
from discreet.estimators import features as rule
from discreet.estimators.scoring import row_scores, score_classifier
from discreet.preparation import Fourier, Splines
from discreet.tuning import tune

pytestmark = pytest.mark.filterwarnings("ignore::discreet.errors.PrivacyLeakWarning")

N = 6000
RNG = np.random.default_rng(0)
X = RNG.uniform(0, 10, size=(N, 3))
RING = np.abs(X[:, 1] - 5) < 2.5
"""A label that no linear function of the columns predicts."""


def fitted(**settings):
    """A model of the ring."""
    settings = {"columns": {1: (0, 10)}, "random_state": 0, **settings}
    return LogisticRegression(5.0, 1e-6, classes=[False, True], **settings).fit(X, RING)


def choose(kind="auto", numeric=((0, 1),), n_rows=40_000, n_features=20, epsilon=1.0, **more):
    columns = dict.fromkeys(range(len(numeric)), (0.0, 1.0, "smooth"))
    budget = Budget(epsilon, 1e-9, "add_remove")
    return rule.choose(kind, columns, rule.TableFacts(n_rows, n_features), budget, **more)


@pytest.mark.parametrize("kind", ["additive", "auto"])
def test_an_additive_model_learns_what_a_linear_one_cannot(kind):
    assert fitted(features="linear").score(X, RING) < 0.65
    model = fitted(features=kind)
    assert isinstance(model.features_.expansion, Splines)
    assert model.score(X, RING) > 0.93


def test_fourier_features_learn_an_interaction():
    cross = (X[:, 0] > 5) ^ (X[:, 1] > 5)
    settings = {"columns": {0: (0, 10), 1: (0, 10)}, "classes": [False, True], "random_state": 0}
    scores = [
        LogisticRegression(8.0, 1e-6, features=kind, **settings).fit(X, cross).score(X, cross)
        for kind in ("additive", "kernel")
    ]
    assert scores[0] < 0.7
    assert scores[1] > 0.85


def test_regression_learns_a_curve():
    y = np.sin(X[:, 0])
    settings = {"target_bounds": (-1, 1), "columns": {0: (0, 10)}, "random_state": 0}
    line = LinearRegression(5.0, 1e-6, features="linear", **settings).fit(X, y)
    curve = LinearRegression(5.0, 1e-6, **settings).fit(X, y)
    assert line.score(X, y) < 0.5 < 0.9 < curve.score(X, y)


@pytest.mark.parametrize("kind", ["linear", "additive", "kernel"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, pd.DataFrame])
def test_scores_are_linear_in_the_features(kind, form):
    model = fitted(features=kind)
    table = model.features_.transform(X[:100])
    linear = table @ model.coef_[0] + model.intercept_[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # names of columns that the fit had not
        assert model.decision_function(form(X[:100])) == pytest.approx(linear, rel=1e-9, abs=1e-9)
        assert row_scores(model, form(X[:100]))[:, 0] == pytest.approx(linear, rel=1e-9, abs=1e-9)
    names = model.features_.names(["a", "b", "c"])
    assert len(names) == model.coef_.shape[1] == len(set(names))


@pytest.mark.parametrize("kind", ["additive", "kernel"])
def test_equal_rows_have_equal_private_scores(kind):
    model = fitted(features=kind)
    (alone,) = row_scores(model, X[:1])
    for n in (2, 3, 7, 1003):
        assert (row_scores(model, np.tile(X[:1], (n, 1))) == alone).all()
    assert score_classifier(model, X, RING).accuracy == pytest.approx(model.score(X, RING))


@pytest.mark.parametrize("kind", ["additive", "kernel"])
@pytest.mark.parametrize("numeric", [{1: (0, 10)}, {1: None, 2: (0, 10, "bins")}, [1, 2]])
def test_files_pickles_and_clones_keep_the_features(kind, numeric, tmp_path):
    model = fitted(features=kind, columns=numeric, random_state=None)
    save(model, tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert again.get_params()["columns"] == check_columns(model.columns)
    assert again.features == kind
    for other in (again, pickle.loads(pickle.dumps(model))):
        assert np.array_equal(other.decision_function(X), model.decision_function(X))
    copy = clone(model)
    assert (copy.features, copy.columns) == (kind, numeric)
    assert not hasattr(copy, "features_")


def test_columns_without_bounds_get_private_ones_from_the_budget():
    model = fitted(columns=[1], features="additive")
    assert model.preparation_[0].name == "bounds"
    assert model.preparation_[0].columns == (1,)
    assert model.score(X, RING) > 0.9
    split = dict(model.guarantee_.split)
    assert split["bounds"] == pytest.approx(rule.BOUNDS_SHARE)
    plain = fitted(features="additive", columns=None)  # all columns
    assert plain.preparation_[0].columns == (0, 1, 2)
    explicit = fitted(columns=[1], features="additive", solver="gd", preparation=[Radius()])
    assert [step.name for step in explicit.preparation_] == ["bounds", "radius"]


def test_columns_may_be_named():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = LogisticRegression(5.0, 1e-6, classes=[False, True], columns={"b": (0, 10)})
    model.fit(frame, RING)
    assert model.features_.expansion.columns == (1,)
    with pytest.raises(ValueError, match="'d', which the table does not have"):
        model.set_params(columns=["d"]).fit(frame, RING)
    with pytest.raises(ValueError, match="Names need a DataFrame"):
        model.set_params(columns=["b"]).fit(X, RING)
    with pytest.raises(ValueError, match="twice"):
        model.set_params(columns={"b": (0, 10), 1: (0, 10)}).fit(frame, RING)


def test_boolean_columns_of_a_frame_are_not_numeric():
    frame = pd.DataFrame({"a": X[:, 1], "b": X[:, 0] > 5, "c": X[:, 2]})
    model = LogisticRegression(5.0, 1e-6, classes=[False, True], features="additive")
    model.fit(frame, RING)
    assert model.features_.expansion.columns == (0, 2)
    model.fit(frame[["b"]], RING)
    assert model.features_.bounds is None
    assert model.features_.expansion is None


def test_a_bounds_step_of_the_caller_is_enough():
    model = fitted(preparation=[Bounds([1])], columns=[1], features="additive")
    expansion = model.features_.expansion
    assert (expansion.low.tolist(), expansion.high.tolist()) == ([0.0], [1.0])
    with pytest.raises(ValueError, match="Name them in it"):
        fitted(preparation=[Bounds([1])], columns=[1, 2], features="additive")


def test_bins_are_steps():
    model = fitted(columns={1: (0, 10, "bins")}, features="additive")
    expansion = model.features_.expansion
    assert expansion.degrees == (0,)
    assert model.score(X, RING) > 0.9
    width = 10 / expansion.pieces[0]
    inside = [[5.0, 0.1 * width, 5.0], [5.0, 0.9 * width, 5.0]]
    assert np.ptp(model.decision_function(inside)) == 0.0


@pytest.mark.parametrize(
    "settings",
    [
        {"features": "trees"},
        {"features": None},
        {"columns": 3},
        {"columns": "age"},
        {"columns": []},
        {"columns": [1, 1]},
        {"columns": [1.5]},
        {"columns": [True]},
        {"columns": {1: (0,)}},
        {"columns": {1: 5}},
        {"columns": {1: "smooth"}},
        {"columns": {1: (1, 0)}},
        {"columns": {1: (0, None)}},
        {"columns": {1: (0, float("inf"))}},
        {"columns": {1: (0, 1, "cubic")}},
        {"columns": [3]},
        {"columns": [-1]},
    ],
)
def test_wrong_settings_are_refused(settings):
    model = LogisticRegression(classes=[False, True], **settings)
    with pytest.raises(ValueError, match=r"features|columns|low|high|shape"):
        model.fit(X, RING)


def test_nan_is_refused_and_nothing_of_it_shown():
    for kind in ("additive", "kernel"):
        table = X.copy()
        table[7, 1] = np.nan
        model = LogisticRegression(classes=[False, True], features=kind, columns={1: (0, 10)})
        with pytest.raises(ValueError, match="NaN"):
            model.fit(table, RING)


def test_the_rule_sees_public_numbers_only():
    """Tables that differ in all values get the same map."""
    maps = []
    for table in (X, 1e6 * X[::-1] ** 3):
        model = LogisticRegression(1.0, 1e-6, classes=[False, True], columns={1: (0, 10)})
        maps.append(model.fit(table, RING).features_.expansion)
    assert maps[0].pieces == maps[1].pieces
    model = LogisticRegression(
        1.0, 1e-6, classes=[False, True], columns={1: (0, 10)}, features="kernel"
    )
    first, second = (model.fit(t, RING).features_.expansion for t in (X, 1e6 * X[::-1] ** 3))
    assert np.array_equal(first.frequencies, second.frequencies)


def test_the_rule_grows_with_the_budget_and_falls_back_to_lines():
    pieces = []
    for epsilon in (0.001, 0.01, 0.03, 0.1, 1.0, 10.0):
        expansion = choose(epsilon=epsilon, numeric=((0, 1),) * 5).expansion
        pieces.append(0 if expansion is None else expansion.pieces[0])
    assert pieces == sorted(pieces)
    assert pieces[0] == 0
    assert pieces[-1] == max(rule.PIECES)
    assert choose(n_rows=300).expansion is None  # few rows would be fitted too closely
    assert choose("additive", n_rows=300).expansion.pieces == (1,)
    assert choose("linear", epsilon=50.0).expansion is None
    budget = Budget(1.0, 1e-9, "add_remove")
    linear = rule.choose("auto", None, rule.TableFacts(10**6, 5), budget)
    assert linear == rule.FeatureChoice(5)


def test_the_number_of_cosines_follows_the_budget():
    counts = []
    for epsilon in (0.01, 0.1, 1.0, 100.0):
        expansion = choose("kernel", epsilon=epsilon).expansion
        assert isinstance(expansion, Fourier)
        counts.append(len(expansion.phases))
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == rule.COSINES


def test_the_guarantee_names_the_features_as_public():
    assert any("features" in item for item in fitted().guarantee_.public)
    assert not any("features" in item for item in fitted(features="linear").guarantee_.public)


def test_other_estimators_and_several_classes_have_features():
    three = np.digitize(np.abs(X[:, 1] - 5), [1.5, 3.5])
    settings = {"columns": {1: (0, 10)}, "classes": [0, 1, 2], "random_state": 0}
    for kind in (LogisticRegression, LinearSVC):
        model = kind(10.0, 1e-6, **settings).fit(X, three)
        assert model.coef_.shape == (3, model.features_.width(3))
        assert model.score(X, three) > 0.75


def test_features_can_be_tuned():
    model = LogisticRegression(
        8.0, 1e-6, classes=[False, True], columns={1: (0, 10)}, solver="gd", data_norm=20.0
    )
    grid = [{"features": "linear"}, {"features": "additive"}]
    tuned = tune(model, X, RING, grid=grid, expected_runs=6, random_state=0)
    assert tuned.setting == {"features": "additive"}


@pytest.mark.parametrize(("pieces", "signal"), [(8, 12), (5, 12), (3, 12), (2, 12), (1, 10)])
def test_pieces_are_what_the_signal_affords(pieces, signal):
    """A signal of 12 per added spline, 10 for the first piece; one less affords fewer pieces."""
    enough = signal * 4 * (pieces + 2)
    assert rule.pieces_for(10**6, 10, 4, enough) == pieces
    assert rule.pieces_for(10**6, 10, 4, 0.999 * enough) < pieces
    assert rule.pieces_for(50 * (10 + 4 * (pieces + 2)) - 1, 10, 4, enough) < pieces


def test_regression_needs_more_signal_for_a_piece():
    """1.25 times: a table that affords 8 pieces for classes affords 5 for numbers."""
    budget = Budget(0.1, 1e-6, "add_remove")
    n_rows = int(13 * 4 * 10 / budget.to_gdp().mu)
    numeric = dict.fromkeys(range(4), (0.0, 1.0, "smooth"))
    made = [
        rule.choose("auto", numeric, rule.TableFacts(n_rows, 4), budget, regression=regression)
        for regression in (False, True)
    ]
    assert [plan.expansion.pieces[0] for plan in made] == [8, 5]
