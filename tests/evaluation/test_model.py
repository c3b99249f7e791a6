"""`discreet.evaluate`: one release for all subgroups, its sensitivity, and every kind of model."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import (
    balanced_accuracy_score,
    confusion_matrix,
    log_loss,
    mean_absolute_error,
    recall_score,
    roc_auc_score,
    root_mean_squared_error,
)
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import discreet
from discreet import (
    Budget,
    Ledger,
    LogisticRegression,
    NotSupported,
    PrivacyError,
    PrivacyLeakWarning,
)
from discreet.core import Relation
from discreet.estimators import measures
from discreet.estimators.classifiers import Link
from discreet.estimators.scoring import (
    Subgroups,
    Terms,
    count_confusion,
    count_errors,
    count_scores,
)
from discreet.preparation import FeatureMap
from discreet.tables import Boolean, Categorical, Ignored, Numeric, Schema, Target

pytestmark = [
    pytest.mark.filterwarnings("ignore:These figures are exact"),
    pytest.mark.filterwarnings("ignore:X has feature names"),
]

RELATIONS = [Relation.ADD_REMOVE, Relation.REPLACE_ONE]
EDGES = np.linspace(-3.0, 3.0, 13)
ERROR_EDGES = np.linspace(0.1, 0.9, 5)
LEVELS = ("a", "b", "c")


def fitted(kind, coef, labels=None, **settings):
    """A model of one column with known coefficients."""
    model = kind(**settings)
    model.coef_ = np.array(coef)
    model.intercept_ = np.zeros(len(coef)) if labels else 0.0
    model.n_features_in_ = 1
    model.features_ = FeatureMap()
    if labels:
        model.classes_ = np.array(labels)
        model.multinomial_ = len(labels) > 2
        model.link_ = Link(0.9, 0.1)
    return model


TWO = fitted(discreet.LogisticRegression, [[1.0]], ["no", "yes"])
THREE = fitted(discreet.LogisticRegression, [[-1.0], [0.0], [1.0]], ["a", "b", "c"])
THREE.intercept_ = np.array([0.0, 0.5, 0.0])
NUMBERS = fitted(discreet.LinearRegression, [1.0], target_bounds=(-2.0, 2.0))


def counts_of(name, X, y, terms):
    """Exact counts of a release, in its public bins."""
    if name == "scores":
        return count_scores(TWO, X, np.array(["no", "yes"])[y % 2], EDGES, terms).counts
    if name == "confusion":
        return count_confusion(THREE, X, np.array(["a", "b", "c"])[y], terms).counts
    return count_errors(NUMBERS, X, y - 1.0, (-2.0, 2.0), ERROR_EDGES, terms).counts


def counted(name, rows, groups=None):
    """Counts of rows (value, target, level), without noise."""
    values, targets, levels = (np.array(part) for part in zip(*rows, strict=True))
    terms = Terms(groups=groups, subgroups=Subgroups("level", LEVELS, levels))
    return counts_of(name, values[:, None].astype(float), targets, terms)


def some_row(rng):
    return float(rng.choice([-9.0, -1.0, 0.0, 0.4, 1.0, 9.0])), rng.integers(3), rng.integers(3)


# -- sensitivity


@pytest.mark.parametrize("name", ["scores", "confusion", "errors"])
def test_one_row_moves_all_subgroups_together_by_the_sensitivity(name):
    """Add or remove a row; replace it, also by one of another subgroup."""
    rng = np.random.default_rng(0)
    rows = [some_row(rng) for _ in range(30)]
    furthest = dict.fromkeys(RELATIONS, 0.0)
    for _ in range(100):
        own, other = some_row(rng), some_row(rng)
        with_own = counted(name, [*rows, own])
        moved = {
            Relation.ADD_REMOVE: np.abs(with_own - counted(name, rows)).sum(),
            Relation.REPLACE_ONE: np.abs(with_own - counted(name, [*rows, other])).sum(),
        }
        for relation, distance in moved.items():
            furthest[relation] = max(furthest[relation], distance)
    assert furthest == {Relation.ADD_REMOVE: 1.0, Relation.REPLACE_ONE: 2.0}


@pytest.mark.parametrize("name", ["scores", "confusion", "errors"])
def test_a_person_in_several_subgroups_moves_them_by_the_sensitivity_of_a_row(name):
    rng = np.random.default_rng(1)
    rows = [some_row(rng) for _ in range(40)]
    ids = rng.integers(0, 12, 40).tolist()
    furthest = dict.fromkeys(RELATIONS, 0.0)
    without = counted(name, rows, ids)
    for m in (1, 2, 3, 7, 50):
        for _ in range(10):
            own = [some_row(rng) for _ in range(m)]
            other = [some_row(rng) for _ in range(1 + m // 2)]
            with_own = counted(name, rows + own, ids + [99] * len(own))
            with_other = counted(name, rows + other, ids + [99] * len(other))
            added = np.abs(with_own - without).sum()
            replaced = np.abs(with_own - with_other).sum()
            furthest[RELATIONS[0]] = max(furthest[RELATIONS[0]], added)
            furthest[RELATIONS[1]] = max(furthest[RELATIONS[1]], replaced)
    assert 1 - 1e-6 < furthest[Relation.ADD_REMOVE] <= 1
    assert 1 < furthest[Relation.REPLACE_ONE] <= 2


@pytest.mark.parametrize(("relation", "scale"), [("add_remove", 2.0), ("replace_one", 4.0)])
@pytest.mark.parametrize("groups", [None, np.arange(300) // 3])
def test_every_count_has_noise_of_the_scale_of_the_relation(relation, scale, groups):
    """The mean of 84 × 12 |noise| of mean 1 has standard deviation 0.032; six of them are 0.19."""
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(300, 1)), rng.integers(0, 3, 300)
    subgroups = Subgroups("level", LEVELS, rng.integers(0, 3, 300))
    exact = counts_of("scores", X, y, Terms(groups=groups, subgroups=subgroups))
    terms = Terms(Budget(0.5, 0.0, relation), None, groups, subgroups)
    noise = [np.abs(counts_of("scores", X, y, terms) - exact) for _ in range(12)]
    assert noise[0].shape == (3, 2, 14)
    assert np.mean(noise) / scale == pytest.approx(1.0, abs=0.2)


def test_edges_depend_on_the_number_of_subgroups_and_not_on_their_sizes(monkeypatch):
    asked = []

    def noted(model, X, y, edges, terms):
        asked.append(edges)
        return count_scores(model, X, y, edges, terms)

    monkeypatch.setattr(measures, "count_scores", noted)
    X = np.random.default_rng(0).normal(size=(1200, 1))
    y = np.repeat(["no", "yes"], 600)
    for codes in (np.arange(1200) % 2, np.zeros(1200, dtype=int), np.ones(1200, dtype=int)):
        discreet.evaluate(TWO, X, y, epsilon=1.0, by=(codes, [0, 1]))
    discreet.evaluate(TWO, X, y, epsilon=1.0)
    budget = Budget(1.0, 0.0, "add_remove")
    assert all(np.array_equal(e, measures.score_edges(TWO, 600, budget, 0.0)) for e in asked[:3])
    assert len(asked[3]) > len(asked[0])


# -- charges


@pytest.fixture
def dataset():
    return Ledger().create("rows", limit=Budget(5.0, 1e-6, "add_remove"))


@pytest.mark.parametrize("by", [None, (np.arange(60) % 2, [0, 1])])
@pytest.mark.parametrize("model", [TWO, THREE, NUMBERS], ids=["two", "three", "numbers"])
def test_one_charge_comes_before_the_scores(model, by, dataset, monkeypatch):
    X = np.linspace(-1, 1, 60)[:, None]
    y = X[:, 0] if model is NUMBERS else np.resize(model.classes_, 60)
    discreet.evaluate(model, X, y, epsilon=0.5, by=by, ledger=dataset)
    assert dataset.entries == 1
    assert dataset.spent == pytest.approx(0.5)

    def stop(*_args, **_settings):
        raise RuntimeError("rows are read")

    monkeypatch.setattr("discreet.estimators.base.PrivateLinearModel._margins", stop)
    with pytest.raises(RuntimeError):
        discreet.evaluate(model, X, y, epsilon=0.5, by=by, ledger=dataset)
    assert dataset.spent == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"y": np.full(60, "maybe")}, "not in classes"),
        ({"y": None}, "y must have"),
        ({"by": (np.full(60, "x"), ["F", "M"])}, "not one of the levels"),
        ({"by": (["F"] * 59, ["F", "M"])}, "one subgroup for each"),
        ({"by": ["F"] * 60}, "must be public"),
        ({"by": "sex"}, "no DataFrame with this column"),
        ({"by": ("sex", "FM")}, "list of its levels"),
        ({"by": (["F"] * 60, ["F", "F"])}, "each of them once"),
        ({"threshold": 1.5}, "threshold"),
        ({"model": THREE, "threshold": 0.5}, "two classes"),
        ({"epsilon": None}, "cannot be counted"),
        ({"model": NUMBERS, "y": ["a"] * 60}, "y"),
    ],
)
def test_what_is_wrong_is_refused_before_anything_is_spent(change, text, dataset):
    given = {"model": TWO, "X": np.zeros((60, 1)), "y": np.resize(["no", "yes"], 60)}
    given |= {"epsilon": 0.5, "ledger": dataset} | change
    with pytest.raises(ValueError, match=text):
        discreet.evaluate(**given)
    assert dataset.entries == 0


def test_messages_show_no_value():
    values = np.array(["F", "secret"] * 30)
    with pytest.raises(ValueError, match="not one of the levels") as caught:
        discreet.evaluate(TWO, np.zeros((60, 1)), np.full(60, "no"), by=(values, ["F", "M"]))
    assert "secret" not in str(caught.value)


# -- measures


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    n = 6000
    X = pd.DataFrame({"x": 1.5 * rng.normal(size=n)})
    X["sex"] = pd.Categorical(rng.choice(["F", "M"], n), categories=["F", "M", "X"])
    y = np.where(X.x + (X.sex == "F") + rng.logistic(size=n) > 0, "yes", "no")
    return X, y


def test_exact_measures_of_subgroups_are_those_of_scikit_learn(rows):
    X, y = rows
    with pytest.warns(PrivacyLeakWarning, match="exact"):
        found = discreet.evaluate(TWO, X, y, by="sex")
    assert found.by == "sex"
    assert list(found.subgroups) == ["F", "M", "X"]
    for level in ("F", "M"):
        own = (X.sex == level).to_numpy()
        part = found.subgroups[level]
        score = TWO.decision_function(X[["x"]][own].to_numpy())
        predicted = np.where(score > 0, "yes", "no")
        assert part.size == own.sum()
        assert part.counts.tolist() == confusion_matrix(y[own], predicted).tolist()
        recall = recall_score(y[own], predicted, pos_label="yes")
        assert part.measures["recall of yes"] == pytest.approx(recall)
        assert part.measures["AUC"] == pytest.approx(roc_auc_score(y[own], score))
        chances = TWO.predict_proba(X[["x"]][own].to_numpy())
        assert part.measures["log loss"] == pytest.approx(log_loss(y[own], chances))
        assert sum(group.count for group in part.calibration) == own.sum()
        assert part.deviations == {}
    empty = found.subgroups["X"]
    assert empty.size == 0
    assert np.isnan(empty.measures["AUC"])
    with pytest.warns(PrivacyLeakWarning):
        whole = discreet.evaluate(TWO, X[["x"]], y)
    assert whole.measures == pytest.approx(found.measures)
    assert whole.subgroups == {}


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("threshold", [None, 0.3])
def test_noisy_measures_are_near_the_exact_ones(rows, relation, threshold):
    """Twelve standard deviations, as Laplace noise has, and what bins of the score round away."""
    X, y = rows
    X = X.assign(sex=X.sex.cat.remove_categories("X"))
    exact = discreet.evaluate(TWO, X, y, by="sex", threshold=threshold)
    given = {"epsilon": 5.0, "relation": relation, "threshold": threshold}
    noisy = discreet.evaluate(TWO, X, y, by="sex", **given)
    assert noisy.guarantee.epsilon == 5.0
    assert str(noisy.guarantee.relation) == relation
    assert "the levels of sex" in noisy.guarantee.public
    pairs = [(noisy, exact), *((noisy.subgroups[k], exact.subgroups[k]) for k in "FM")]
    for one, other in pairs:
        assert one.size == pytest.approx(other.size, abs=50)
        for name, value in one.measures.items():
            allowed = 12 * one.deviations[name] + 0.006
            assert value == pytest.approx(other.measures[name], abs=allowed), name


@pytest.mark.parametrize("epsilon", [None, 5.0])
def test_errors_of_subgroups(epsilon):
    rng = np.random.default_rng(0)
    n = 20_000
    x = rng.uniform(-1, 1, n)
    noisy = rng.random(n) < 0.4
    y = x + np.where(noisy, 0.5, 0.1) * rng.normal(size=n)
    found = discreet.evaluate(NUMBERS, x[:, None], y, epsilon=epsilon, by=noisy)
    clipped = np.clip(y, -2, 2)
    assert list(found.subgroups) == [False, True]
    for part, own in ((found, noisy | True), (found.subgroups[True], noisy)):
        errors = mean_absolute_error(clipped[own], x[own])
        roots = root_mean_squared_error(clipped[own], x[own])
        for name, value in (("mean absolute error", errors), ("root mean squared error", roots)):
            slack = 1e-6 if epsilon is None else 12 * part.deviations[name] + 0.02 * value
            assert part.measures[name] == pytest.approx(value, abs=slack), name
    assert found.labels is None


@pytest.mark.parametrize("by", [None, (np.arange(2000) % 2, [0, 1])])
def test_stated_deviations_of_errors_are_those_of_the_noise(by):
    """A standard deviation of 60 runs is within a factor of 1.7 but for a chance below 1e-6."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (2000, 1))
    y = x[:, 0] + 0.5 * rng.normal(size=2000)
    runs = [discreet.evaluate(NUMBERS, x, y, epsilon=0.5, by=by) for _ in range(60)]
    for name in runs[0].measures:
        found = np.std([run.measures[name] for run in runs])
        stated = np.mean([run.deviations[name] for run in runs])
        assert 1 / 1.7 < found / stated < 1.7, name


def test_several_classes_by_subgroup():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(900, 1)), rng.choice(["a", "b", "c"], 900)
    ward = rng.choice(["w1", "w2"], 900)
    found = discreet.evaluate(THREE, X, y, by=(ward, {"w1": 1, "w2": 2}))
    own = ward == "w2"
    part = found.subgroups["w2"]
    assert part.counts.tolist() == confusion_matrix(y[own], THREE.predict(X[own])).tolist()
    balanced = balanced_accuracy_score(y[own], THREE.predict(X[own]))
    assert part.measures["balanced accuracy"] == pytest.approx(balanced)
    noisy = discreet.evaluate(THREE, X, y, by=(ward, ["w1", "w2"]), epsilon=10.0)
    for name, value in noisy.subgroups["w2"].measures.items():
        allowed = 12 * noisy.subgroups["w2"].deviations[name]
        assert value == pytest.approx(part.measures[name], abs=allowed)


def test_people_have_a_total_weight_of_1(rows):
    X, y = rows
    ids = np.arange(len(y)) // 3
    found = discreet.evaluate(TWO, X, y, by="sex", groups=ids)
    assert found.unit == "person"
    assert found.size == 2000
    assert sum(part.counts.sum() for part in found.subgroups.values()) == pytest.approx(2000)
    noisy = discreet.evaluate(TWO, X[["x"]], y, groups=ids, epsilon=1.0)
    assert noisy.guarantee.unit == "person"
    assert "one person with all of their rows" in noisy.promise


# -- kinds of models


def quietly(model, X, y, **fit):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y, **fit)


def test_pipelines_and_searches_transform_x_before_the_model(rows):
    X, y = rows
    own = discreet.LogisticRegression(epsilon=5.0, classes=["no", "yes"])
    pipeline = quietly(make_pipeline(StandardScaler(), own), X[["x"]], y)
    plain = discreet.evaluate(pipeline[-1], pipeline[:-1].transform(X[["x"]]), y)
    found = discreet.evaluate(pipeline, X, y, by="sex")
    assert found.measures == pytest.approx(plain.measures)
    search = GridSearchCV(pipeline, {"logisticregression__alpha": [1e-4]}, cv=2)
    quietly(search, X[["x"]], y)
    noisy = discreet.evaluate(search, X[["x"]], y, epsilon=0.5)
    assert any("transform each row by itself" in text for text in noisy.guarantee.conditions)
    nested = make_pipeline(FunctionTransformer(), pipeline)
    assert discreet.evaluate(nested, X[["x"]], y).measures == pytest.approx(plain.measures)
    plain = discreet.evaluate(pipeline[-1], X[["x"]].to_numpy(), y, epsilon=0.5)
    assert not any("transform each row" in text for text in plain.guarantee.conditions)


def test_a_column_of_subgroups_that_is_a_feature_stays_one():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=500), "old": rng.random(500) < 0.5})
    y = rng.choice(["no", "yes"], 500)
    model = discreet.LogisticRegression(epsilon=5.0, classes=["no", "yes"])
    quietly(model, X.astype(float), y)
    found = discreet.evaluate(model, X.astype({"x": float}), y, by="old")
    assert list(found.subgroups) == [False, True]


def test_models_of_other_kinds_are_refused(rows):
    X, y = rows
    survival = discreet.DiscreteTimeSurvival
    for model in (object(), StandardScaler(), survival()):
        with pytest.raises(NotSupported, match="classifiers and regressors of discreet"):
            discreet.evaluate(model, X[["x"]], y)
    with pytest.raises(ValueError, match="not fitted"):
        discreet.evaluate(discreet.LogisticRegression(), X[["x"]], y)
    unbounded = fitted(discreet.LinearRegression, [1.0])
    with pytest.raises(ValueError, match="Pass target_bounds"):
        discreet.evaluate(unbounded, X[["x"]].to_numpy(), np.zeros(len(X)))
    found = discreet.evaluate(
        unbounded, X[["x"]].to_numpy(), np.zeros(len(X)), target_bounds=(-1.0, 1.0)
    )
    assert 0 < found.measures["mean absolute error"] < 1


def test_a_lost_unit_is_pointed_out(rows):
    X, y = rows
    model = discreet.LogisticRegression(epsilon=5.0, classes=["no", "yes"])
    quietly(model, X[["x"]], y, groups=np.arange(len(y)) // 2)
    with pytest.warns(PrivacyLeakWarning, match="got no groups"):
        discreet.evaluate(model, X[["x"]], y, epsilon=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        discreet.evaluate(model, X[["x"]], y, epsilon=0.5, groups=np.arange(len(y)) // 2)


# -- tables


SCHEMA = Schema(
    {
        "age": Numeric(18, 90),
        "sex": Categorical(("F", "M"), unseen="refuse"),
        "ward": Ignored(),
        "smoker": Boolean(missing=True),
    },
    target=Target("income", ["high", "low"]),
)


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    n = 3000
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "sex": rng.choice(["F", "M"], n),
            "ward": rng.choice(["north", "south"], n),
            "smoker": rng.choice(["yes", "no", ""], n),
            "person": rng.integers(0, 900, n),
        }
    )
    score = (frame.age - 54) / 18 + (frame.sex == "F") + rng.logistic(0, 0.5, n)
    return frame.assign(income=np.where(score > 0, "high", "low"))


@pytest.fixture(scope="module")
def table_model(people):
    return discreet.fit("income", people.drop(columns="person"), schema=SCHEMA, epsilon=5.0)


def test_a_table_model_takes_target_levels_and_unit_from_the_table(people, table_model, tmp_path):
    table = people.drop(columns="person")
    found = discreet.evaluate(table_model, table, by="sex")
    truth = people.income.to_numpy()
    predicted = table_model.predict(table)
    women = (people.sex == "F").to_numpy()
    for part, own in ((found, women | True), (found.subgroups["F"], women)):
        assert part.counts.tolist() == confusion_matrix(truth[own], predicted[own]).tolist()
    table.to_csv(tmp_path / "people.csv", index=False)
    by_file = discreet.evaluate(table_model, tmp_path / "people.csv", by="sex")
    assert by_file.subgroups["M"].measures == found.subgroups["M"].measures
    wards = discreet.evaluate(table_model, table, by=("ward", ["north", "south"]))
    north = (people.ward == "north").sum()
    assert wards.subgroups["north"].size == north
    smokers = discreet.evaluate(table_model, tmp_path / "people.csv", by="smoker")
    sizes = {level: part.size for level, part in smokers.subgroups.items()}
    assert sizes == {
        "false": (people.smoker == "no").sum(),
        "true": (people.smoker == "yes").sum(),
        "(missing)": (people.smoker == "").sum(),
    }
    given = discreet.evaluate(table_model, table, by=people.sex.astype("category"))
    assert given.subgroups["F"].measures == found.subgroups["F"].measures


def test_the_unit_of_a_schema_reaches_the_evaluation(people):
    schema = Schema(SCHEMA.columns, SCHEMA.target, unit="person")
    model = discreet.fit("income", people, schema=schema, epsilon=5.0)
    found = discreet.evaluate(model, people, epsilon=1.0, by="sex")
    assert found.unit == found.guarantee.unit == "person"
    assert found.size == people.person.nunique()
    last = LogisticRegression(5.0, classes=schema.target.labels)
    pipeline = Pipeline([("table", schema.transformer()), ("model", last)])
    pipeline.fit(people, people.income, model__groups=people.person)
    again = discreet.evaluate(pipeline, people, epsilon=1.0, by="sex")
    assert again.guarantee.unit == "person"
    exact = discreet.evaluate(pipeline, people)
    given = discreet.evaluate(pipeline, people, people.income, groups=people.person)
    assert exact.measures == pytest.approx(given.measures)
    with pytest.raises(ValueError, match="whose unit says whose rows"):
        discreet.evaluate(pipeline, people, groups=people.person)
    with pytest.raises(PrivacyError, match="names the unit 'person'"):
        discreet.evaluate(pipeline, people, people.income, epsilon=1.0)
    given = discreet.evaluate(pipeline, people, people.income, epsilon=1.0, groups=people.person)
    assert given.guarantee.unit == "person"


def test_a_table_model_says_what_to_leave_out(people, table_model):
    table = people.drop(columns="person")
    for given, text in (
        ({"y": people.income}, "Leave y out"),
        ({"groups": people.person}, "name of their column"),
        ({"target_bounds": (0, 1)}, "which states the bounds"),
        ({"by": "ward"}, "Pass by="),
        ({"by": "age"}, "Pass by="),
    ):
        with pytest.raises(ValueError, match=text):
            discreet.evaluate(table_model, table, **given)
    with pytest.raises(discreet.TableError, match="listed values") as caught:
        discreet.evaluate(table_model, table, by=("ward", ["north"]), epsilon=1.0)
    assert "south" not in str(caught.value)
    low = discreet.evaluate(table_model, table, threshold=0.2)
    usual = discreet.evaluate(table_model, table)
    assert low.measures["recall of low"] > usual.measures["recall of low"]


def test_unlisted_cells_are_a_level_where_the_schema_accepts_them(people):
    columns = {**SCHEMA.columns, "sex": Categorical(("F",), unseen="other")}
    table = people.drop(columns="person")
    model = discreet.fit("income", table, schema=Schema(columns, SCHEMA.target), epsilon=5.0)
    found = discreet.evaluate(model, table, by="sex")
    assert {k: part.size for k, part in found.subgroups.items()} == {
        "F": (people.sex == "F").sum(),
        "(other)": (people.sex == "M").sum(),
    }
