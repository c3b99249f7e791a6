"""Tables with names go into estimators: kinds by type and by declaration, levels, predictions."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from discreet import (
    Budget,
    Ledger,
    LinearRegression,
    LogisticRegression,
    OrdinalClassifier,
    load,
    save,
)
from discreet.column_kinds import check_columns
from discreet.design import Design, EncodedRows
from discreet.errors import AveragedCellsWarning, PrivacyLeakWarning, TableError
from discreet.estimators.effects import effects
from discreet.tables import (
    Boolean,
    Categorical,
    Date,
    Hashed,
    Ignored,
    Numeric,
    Ordinal,
    Schema,
)

N = 4000
WARDS = ["A", "B", "C", "D"]
DECLARED = {"age": (0, 110, "linear"), "city": ["north", "south"]}


@pytest.fixture(scope="module")
def table():
    """A table of all kinds whose ward B has high odds; no row is in ward D."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, N),
            "ward": pd.Categorical(rng.choice(WARDS[:3], N), categories=WARDS),
            "smoker": rng.random(N) < 0.3,
            "bmi": rng.normal(27, 4, N),
            "city": rng.choice(["north", "south"], N),
        }
    )
    score = 0.03 * (frame.age - 50) + 1.5 * (frame.ward == "B") - 0.5
    return frame, rng.random(N) < 1 / (1 + np.exp(-score))


def model(**settings):
    known = {"columns": DECLARED, "random_state": 0, "inference": False}
    return LogisticRegression(3.0, 1e-6, **known | settings)


@pytest.fixture
def fitted(table):
    return quiet(model(), *table)


def quiet(estimator, *data, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(*data, **more)


def test_kinds_follow_from_types_and_declarations(fitted):
    columns = fitted.design_.schema.columns
    assert columns["age"] == Numeric(0, 110, shape="linear", gaps="average")
    assert columns["ward"] == Categorical(WARDS, unseen="average")
    assert columns["smoker"] == Boolean(gaps="average")
    assert columns["bmi"] == Numeric(shape="linear", gaps="average")
    assert columns["city"] == Categorical(["north", "south"], unseen="average")
    assert fitted.n_features_in_ == 5
    assert fitted.feature_names_in_.tolist() == list(columns)
    assert fitted.coef_.shape == (1, 9)
    assert "the kinds of the columns, with the bounds and levels that were declared" in (
        fitted.guarantee_.public
    )


def test_the_model_learns_from_levels(fitted, table):
    frame, y = table
    assert fitted.score(frame, y) > 0.63
    by_name = dict(zip(fitted.design_.feature_names, fitted.coef_[0], strict=True))
    assert by_name["ward=B"] - by_name["ward=A"] > 0.8
    assert by_name["ward=D"] == 0.0


@pytest.mark.parametrize("convert", [pl.from_pandas, pa.Table.from_pandas])
def test_tables_of_all_libraries_are_the_same_table(convert, fitted, table):
    frame, _ = table
    other = convert(frame)
    assert (fitted.decision_function(other) == fitted.decision_function(frame)).all()


@pytest.mark.parametrize("convert", [pl.from_pandas, pa.Table.from_pandas])
def test_levels_of_a_dictionary_come_from_the_rows_and_must_be_declared(convert, table):
    frame, y = table
    with pytest.raises(ValueError, match="not declared: ward"):
        model().fit(convert(frame), y)
    quiet(model(columns=DECLARED | {"ward": WARDS}), convert(frame), y)


def test_an_enum_declares_its_levels(table):
    frame, y = table
    typed = pl.from_pandas(frame).with_columns(pl.col("ward").cast(pl.Enum(WARDS)))
    found = quiet(model(), typed, y).design_.schema.columns["ward"]
    assert found == Categorical(WARDS, unseen="average")


def test_a_fit_changes_neither_a_table_nor_encoded_rows_of_a_caller(table):
    X, y = table
    numbers = X[["age", "bmi"]].astype(float)
    before = numbers.copy()
    quiet(model(columns=None), numbers, y)
    pd.testing.assert_frame_equal(numbers, before)
    schema = Schema({"age": Numeric(0, 110), "bmi": Numeric()})
    rows = EncodedRows(schema.transformer().transform(numbers), schema)
    encoded = rows.encoded.copy()
    quiet(model(columns=None, schema=schema), rows, y)
    np.testing.assert_array_equal(rows.encoded, encoded)


def test_columns_come_by_name_in_any_order(fitted, table):
    frame, _ = table
    turned = frame[frame.columns[::-1]]
    assert (fitted.predict_proba(turned) == fitted.predict_proba(frame)).all()


def test_declared_in_own_units_is_scaled_by_hand(table):
    frame, y = table
    scaled = frame.assign(age=frame.age / 110)
    own = quiet(model(), frame, y)
    by_hand = quiet(model(columns=DECLARED | {"age": (0, 1, "linear")}), scaled, y)
    difference = own.decision_function(frame) - by_hand.decision_function(scaled)
    assert np.abs(difference).max() < 1e-9


def test_an_unknown_or_empty_level_is_scored_as_the_average(fitted, table):
    frame, _ = table
    row = frame.head(1)
    shares = frame.ward.value_counts(normalize=True)
    usual = {level: fitted.decision_function(row.assign(ward=level))[0] for level in "ABC"}
    average = sum(shares[level] * score for level, score in usual.items())
    rows = pd.concat([row.assign(ward=w) for w in ("D", "new", None)])
    with pytest.warns(AveragedCellsWarning, match=r"^3 cells are scored .*: ward \(3\)\.$"):
        scores = fitted.decision_function(rows)
    assert scores[0] == scores[1] == scores[2]
    assert scores[0] == pytest.approx(average, abs=0.1)


def test_scores_of_unknown_levels_vary_no_more_than_others(table):
    frame, y = table
    rows = pd.concat([frame.head(1), frame.head(1).assign(ward="new", city="new")])
    scores = []
    for seed in range(12):
        found = quiet(model(random_state=seed), frame, y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores.append(found.decision_function(rows))
    usual, unknown = np.std(scores, axis=0)
    assert unknown < 2 * usual


def test_files_pickles_and_clones_keep_the_design(fitted, table, tmp_path):
    frame, y = table
    save(fitted, tmp_path / "model.json")
    for again in (load(tmp_path / "model.json"), pickle.loads(pickle.dumps(fitted))):
        assert (again.predict_proba(frame) == fitted.predict_proba(frame)).all()
        assert again.design_.to_dict() == fitted.design_.to_dict()
    refitted = quiet(clone(load(tmp_path / "model.json")).set_params(random_state=0), frame, y)
    assert (refitted.coef_ == fitted.coef_).all()


def test_people_and_other_estimators_take_tables(table):
    frame, y = table
    people = quiet(model(), frame, y, groups=np.arange(N) // 4)
    assert people.guarantee_.unit == "person"
    line = LinearRegression(3.0, 1e-6, columns=DECLARED, target_bounds=(0, 1))
    assert quiet(line, frame, y.astype(float)).predict(frame).shape == (N,)
    ordered = OrdinalClassifier(3.0, 1e-6, columns=DECLARED, classes=[0, 1, 2])
    assert quiet(ordered, frame, y + 1 * (frame.age > 60)).predict(frame).shape == (N,)


def test_curves_of_declared_numbers(table):
    frame, y = table
    found = quiet(model(columns=DECLARED | {"age": (0, 110)}), frame, y)
    assert found.features_.expansion.columns == (0,)
    rows = pd.concat([frame.head(1).assign(ward=w) for w in ("A", "D", "C")])
    with pytest.warns(AveragedCellsWarning, match=r"ward \(1\)"):
        low, average, other = found.decision_function(rows)
    assert min(low, other) < average < max(low, other) + 1.0


def test_effects_have_one_panel_per_column_in_its_own_unit(fitted):
    figure = fitted.plot_effects()
    panels = {each.get_title(): each for each in figure.axes if each.get_title()}
    assert list(panels) == ["age", "ward", "smoker", "bmi", "city"]
    low, high = panels["age"].get_xlim()
    assert 0.0 <= low < 30.0
    assert 70.0 < high <= 110.0
    shown = [label.get_text() for label in panels["ward"].get_xticklabels()]
    assert shown == WARDS
    assert "score of class True" in figure.get_suptitle()


def test_a_text_column_is_refused_with_the_line_to_add(table):
    frame, y = table
    with pytest.raises(ValueError, match="not declared: city") as caught:
        model(columns=None).fit(frame, y)
    text = str(caught.value)
    assert """columns={'city': ["…", "…"]}""" in text
    assert "north" not in text
    quiet(model(columns={"city": Ignored()}), frame, y)
    quiet(model(columns={"city": Hashed(8)}), frame, y)


def test_a_table_of_other_columns_is_refused(fitted, table):
    frame, _ = table
    with pytest.raises(TableError, match="lacks columns of the schema: 'age'"):
        fitted.predict(frame.drop(columns="age"))
    with pytest.raises(TableError, match="was fitted to a table with names"):
        fitted.predict(np.zeros((2, 5)))


def test_a_missing_cell_is_refused_without_showing_one(table):
    frame, _ = table
    gaps = frame.assign(smoker=frame.smoker.astype("boolean").where(frame.index != 3))
    strict = LogisticRegression(1.0, 1e-6, columns=DECLARED | {"smoker": Boolean()})
    with pytest.raises(TableError, match="'smoker'") as caught:
        strict.fit(gaps, frame.smoker)
    assert "True" not in str(caught.value)
    strict = LogisticRegression(1.0, 1e-6, columns=DECLARED | {"bmi": Numeric(10, 60)})
    with pytest.raises(TableError, match="'bmi'") as caught:
        strict.fit(frame.assign(bmi=frame.bmi.where(frame.index != 3)), frame.smoker)
    assert str(frame.bmi[0]) not in str(caught.value)


def test_dates_are_a_trend_by_their_type(table):
    frame, y = table
    days = pd.Series(np.arange(N) % 3000)
    dated = frame.assign(seen=pd.Timestamp("2010-01-01") + pd.to_timedelta(days, "D"))
    found = quiet(model(), dated, y)
    assert found.design_.schema.columns["seen"] == Date(gaps="average")
    assert found.design_.feature_names[-1] == "seen"
    encoded = found.design_.encode(dated)
    assert np.array_equal(encoded[:, -1], 3653 + days)
    assert (found.decision_function(pl.from_pandas(dated)) == found.decision_function(dated)).all()


def test_a_declared_date_is_the_number_that_it_stands_for(table):
    frame, y = table
    days = pd.Series(np.arange(N) % 1000)
    dated = frame.assign(seen=pd.Timestamp("2000-01-01") + pd.to_timedelta(days, "D"))
    own = quiet(model(columns=DECLARED | {"seen": Date("2000-01-01", "2002-09-27")}), dated, y)
    number = frame.assign(seen=days)
    by_hand = quiet(model(columns=DECLARED | {"seen": (0, 1000, "linear")}), number, y)
    assert np.abs(own.decision_function(dated) - by_hand.decision_function(number)).max() < 1e-9


def test_parts_of_a_date_are_levels_that_a_file_keeps(tmp_path):
    rng = np.random.default_rng(0)
    seen = pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 1800, N), "D")
    frame = pd.DataFrame({"seen": seen, "x": rng.random(N)})
    y = rng.random(N) < np.where(frame.seen.dt.month == 3, 0.9, 0.2)
    date = Date("2015-01-01", "2020-01-01", parts=["month", "weekday"])
    found = quiet(LogisticRegression(20.0, 1e-6, columns={"seen": date}, random_state=0), frame, y)
    names = [group.name for group in found.design_.groups]
    assert names == ["seen", "seen.month", "seen.weekday", "x"]
    assert {group.source for group in found.design_.groups[:3]} == {"seen"}
    weights = dict(zip(found.design_.feature_names, found.coef_[0], strict=True))
    assert max(weights, key=weights.get) == "seen.month=Mar"
    indicators = [found.design_.feature_names[j] for j in found.design_.indicators]
    assert indicators == [name for name in weights if "=" in name]
    save(found, tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert (again.decision_function(frame) == found.decision_function(frame)).all()


def test_kinds_by_object_go_through_an_estimator(table):
    frame, y = table
    rng = np.random.default_rng(1)
    more = frame.assign(
        grade=rng.choice(["low", "middle", "high"], N),
        code=rng.integers(0, 500, N).astype(str),
        visits=rng.integers(0, 9, N),
        income=np.exp(rng.normal(9, 2, N)),
    )
    columns = DECLARED | {
        "grade": Ordinal(["low", "middle", "high"]),
        "code": Hashed(8),
        "visits": Numeric(0, 10, integer=True, shape="linear"),
        "income": Numeric(0, 1e6, scale="log", shape="linear"),
    }
    found = quiet(model(columns=columns), more, y)
    encoded = pd.DataFrame(found.design_.encode(more), columns=found.design_.feature_names)
    assert set(encoded["grade"]) == {0.0, 0.5, 1.0}
    assert (encoded.filter(like="code#").sum(axis=1) == 1).all()
    assert np.array_equal(encoded["visits"], more.visits / 10)
    by_hand = np.log1p(np.minimum(more.income, 1e6)) / np.log1p(1e6)
    assert np.allclose(encoded["income"], by_hand, atol=1e-12)
    assert np.allclose(found.design_.units["income"](by_hand), more.income.clip(upper=1e6))


def test_amounts_of_money_on_a_log_scale_have_effects_in_their_own_unit(tmp_path):
    rng = np.random.default_rng(2)
    income = np.exp(rng.normal(9, 2, N))
    frame = pd.DataFrame({"income": income, "x": rng.random(N)})
    y = rng.random(N) < 1 / (1 + np.exp(9 - np.log1p(income)))
    columns = {"income": Numeric(0, 1e6, scale="log"), "x": (0, 1)}
    found = quiet(LogisticRegression(5.0, 1e-6, columns=columns, random_state=0), frame, y)
    assert found.score(frame, y) > 0.75
    save(found, tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert (again.predict_proba(frame) == found.predict_proba(frame)).all()
    figure = found.plot_effects()
    drawn = [line.get_xdata() for axis in figure.axes for line in axis.lines]
    assert max(np.max(xs) for xs in drawn if len(xs) > 2) == pytest.approx(1e6)


def test_an_ordered_category_has_levels_and_no_equal_steps(table):
    frame, y = table
    ordered = frame.assign(ward=frame.ward.cat.as_ordered())
    assert quiet(model(), ordered, y).design_.schema.columns["ward"] == Categorical(
        WARDS, unseen="average"
    )


@pytest.mark.parametrize("name", ["categorical_features", "feature_types"])
def test_keywords_of_other_libraries_say_what_to_use(name):
    with pytest.raises(TypeError, match=r"has no parameter .* columns declares others"):
        LogisticRegression(1.0, 1e-6, **{name: "from_dtype"})


def test_steps_that_learn_nothing_do_not_warn(table):
    frame, y = table
    steps = make_pipeline(FunctionTransformer(), LogisticRegression(3.0, 1e-6, columns=DECLARED))
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        steps.fit(frame, y)
    assert not steps[-1].guarantee_.explain().count("outside the budget")


def test_times_of_day_are_refused_with_what_to_do(table):
    frame, y = table
    timed = frame.assign(stay=pd.Timedelta("3 days"))
    with pytest.raises(ValueError, match="times of day or durations: stay"):
        model().fit(timed, y)
    quiet(model(columns=DECLARED | {"stay": Ignored()}), timed, y)


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ({"x": [1.5, None]}, "levels must be texts or numbers"),
        ({"x": ("a", "b")}, "columns must map"),
        ({"x": []}, "fill in values"),
        ({"x": (0, 1, 2, 3)}, "columns must map"),
        ({1.5: (0, 1)}, "the column 1.5"),
        ({"x": ["a", "a"]}, "more than once"),
    ],
)
def test_wrong_declarations_are_refused_before_data_is_read(columns, match):
    with pytest.raises(ValueError, match=match):
        LogisticRegression(1.0, 1e-6, columns=columns).fit(None, None)


def test_arrays_have_numbers_only():
    with pytest.raises(ValueError, match="pass a table with names"):
        quiet(model(columns={0: ["a", "b"]}), np.zeros((20, 2)), np.arange(20) % 2)


def test_a_column_is_declared_once(table):
    with pytest.raises(ValueError, match="'age' twice"):
        model(columns={"age": (0, 110), 0: (0, 110)}).fit(*table)
    with pytest.raises(ValueError, match="names 'agee', which the table does not have"):
        model(columns={"agee": (0, 110)}).fit(*table)


def test_tables_with_names_have_a_design_and_arrays_have_none():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [True, False]})
    kinds = {name: each.kind for name, each in Design.of(frame, {}).schema.columns.items()}
    assert kinds == {"a": "numeric", "b": "boolean"}
    assert Design.of(frame.to_numpy(), check_columns(None)) is None
    assert Design.of(frame.set_axis([0, 1], axis=1), {}) is None  # numbered columns of numbers


def test_numbers_for_names_are_texts():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({0: rng.normal(size=200), 1: pd.Categorical(["a", "b"] * 100)})
    fitted = quiet(model(columns={0: (-3, 3, "linear")}), frame, rng.integers(0, 2, 200))
    assert fitted.get_feature_names_out().tolist() == ["0", "1=a", "1=b"]
    assert fitted.predict(frame).shape == (200,)


def test_a_table_of_numbers_may_have_gaps():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(400, 2)), columns=["a", "b"])
    frame.loc[::5, "a"] = np.nan
    fitted = quiet(model(columns=None), frame, (frame["b"] > 0).astype(int))
    with pytest.warns(AveragedCellsWarning, match=r"80 cells .* a \(80\)"):
        fitted.predict(frame)


@pytest.mark.parametrize(
    "labels",
    [np.array([False, True]), np.array([0, 1]), pd.Categorical(["no", "yes"])],
    ids=["booleans", "zero and one", "category"],
)
def test_types_of_targets_declare_their_classes(labels):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = pd.Series(labels).take(rng.integers(0, 2, 400))
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        found = LogisticRegression(1.0, 1e-6).fit(X, y)
    assert found.classes_.tolist() == list(labels)
    assert "the class labels" in found.guarantee_.public


def test_levels_of_a_target_that_no_row_has_are_classes():
    rng = np.random.default_rng(0)
    y = pd.Categorical(rng.choice(["a", "b"], 600), categories=["a", "b", "c"])
    found = quiet(LogisticRegression(1.0, 1e-6), rng.normal(size=(600, 2)), pd.Series(y))
    assert found.classes_.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([True, False] * 600, dtype="boolean"),
        pd.Series(pd.date_range("2020-01-01", periods=1200, freq="D")),
        pd.Series(["low", "high", "middle"] * 400),
    ],
    ids=["boolean", "date", "ordinal"],
)
def test_missing_truth_values_dates_and_steps_are_scored_as_the_average(column):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"seen": column, "b": rng.normal(size=1200)})
    y = (frame["b"] > 0).astype(int)
    gaps = frame.assign(seen=column.where(frame.index % 4 > 0))
    levels = Ordinal(["low", "middle", "high"], gaps="average")
    columns = {"seen": levels} if column.dtype == "str" else None
    fitted = quiet(LogisticRegression(20.0, 1e-6, columns=columns), gaps, y)
    single = frame.head(2).assign(seen=column.where(frame.index > 9)[:2])
    with pytest.warns(AveragedCellsWarning, match=r"2 cells .* seen \(2\)"):
        found = fitted.decision_function(single)
    explained = fitted.explain(single).to_frame()
    np.testing.assert_allclose(explained["(score)"], found, rtol=1e-9)
    assert fitted.coef_[0, 0] != 0.0
    np.testing.assert_allclose(explained["seen"], 0.0, atol=0.01)
    assert (fitted.explain(frame.head(2)).to_frame()["seen"] != 0.0).all()
    loaded = Design.from_dict(fitted.design_.to_dict())
    assert loaded.schema == fitted.design_.schema


@pytest.mark.parametrize("settings", [{"inference": True}, {"solver": "gd", "data_norm": 9.0}])
def test_gaps_without_a_window_or_bounds_are_refused_with_the_line_to_add(settings):
    dataset = Ledger().create("visits", Budget(9.0, 1e-5, "add_remove"), unit="row")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=400), "b": rng.normal(size=400)})
    frame.loc[::5, "a"] = np.nan
    y = (frame["b"] > 0).astype(int)
    given = {"columns": {"b": (-5, 5, "linear")}, "ledger": dataset} | settings
    with pytest.raises(TableError, match=r"'a': a cell is missing.*columns=\{'a': \(low, high\)\}"):
        LogisticRegression(3.0, 1e-6, **given).fit(frame, y)
    assert dataset.entries == 0
    given["columns"] = {"a": (-5, 5, "linear"), "b": (-5, 5, "linear")}
    assert LogisticRegression(3.0, 1e-6, **given).fit(frame, y).coef_.shape == (1, 2)


def test_a_single_level_has_no_effect_of_other_rows():
    """Nothing is known of rows of another level: the panel has the one that is listed."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"only": pd.Categorical(["No"] * 900), "b": rng.normal(size=900)})
    fitted = quiet(model(columns=None), frame, (frame["b"] > 0).astype(int))
    (effect,) = [each for each in effects(fitted) if each.name == "only"]
    assert effect.at == ("No",)
    assert effect.values.tolist() == [[0.0]]


@pytest.mark.parametrize("per", ["day", "year"])
def test_panels_of_dates_show_days(table, per):
    frame, y = table
    days = pd.to_timedelta(np.arange(N) % 3000, "D")
    dated = frame.assign(seen=pd.Timestamp("2010-01-01") + pd.Series(days))
    declared = DECLARED | {"seen": Date("2010-01-01", "2020-01-01", per=per)}
    found = quiet(model(columns=declared), dated, y)
    shown = found.explain(dated.iloc[[100]])
    assert shown.cells()[shown.columns.index("seen")] == "2010-04-11"
    figure = found.plot_effects(columns=["seen"])
    labels = [each.get_text() for each in figure.axes[0].get_xticklabels()]
    assert labels[1].startswith(("2014-12", "2015-01"))
    assert labels == sorted(labels)
    assert Date(per=per).date_of(1e9) == ""


def test_a_declared_mark_of_missing_cells_comes_before_the_average():
    columns = {
        "smoker": Boolean(missing=True, gaps="average"),
        "pain": Ordinal(["low", "high"], missing=True, gaps="average"),
    }
    table = {"smoker": [None, "yes"], "pain": ["high", None]}
    found = Design(Schema(columns)).encode(table)
    assert np.array_equal(found, [[0, 1, 1, 0], [1, 0, 0, 1]])


@pytest.mark.parametrize("unlisted", [False, True])
def test_reference_levels_leave_sparse_rows_in_their_memory(unlisted):
    rng = np.random.default_rng(1)
    levels = [f"w{k}" for k in range(40)]
    frame = pd.DataFrame({"ward": rng.choice(levels, 50_000), "age": rng.integers(0, 110, 50_000)})
    frame.loc[7, "age"] = 0
    if unlisted:
        frame.loc[[3, 40_000], "ward"] = "elsewhere"
    columns = {"ward": Categorical(levels, unseen="average"), "age": Numeric(0, 110)}
    design = Design(Schema(columns))
    dense = design.schema.transformer(sparse=False).transform(frame)
    rows = design.encode(frame)
    entries = rows.data
    found = design.contrasted(rows, overwrite=True)
    np.testing.assert_array_equal(found.toarray(), design.contrasted(dense))
    assert np.shares_memory(found.data, entries) is not unlisted
    assert found.has_canonical_format or unlisted
    assert found[[7], [39]] == 0
    assert found[[3], :39].sum() == pytest.approx(39 / 40 if unlisted else 1.0)
    kept = design.encode(frame)
    design.contrasted(kept)  # a copy, by default
    np.testing.assert_array_equal(kept.toarray(), dense)


def test_units_label_axes_or_bring_numbers_of_the_table_to_other_units(fitted):
    units = {"age": "years", "ward": "of the hospital", "bmi": lambda values: values * 0.2048}
    figure = fitted.plot_effects(units=units)
    panels = {each.get_title(): each for each in figure.axes if each.get_title()}
    labels = {name: panel.get_xlabel() for name, panel in panels.items()}
    assert labels == {**dict.fromkeys(labels, ""), "age": "years", "ward": "of the hospital"}
    assert panels["age"].get_xlim()[1] > 70.0  # in its own unit, as without
    in_pounds = fitted.plot_effects(columns=["age"], units={"age": lambda own: own / 10}).axes[0]
    assert in_pounds.get_xlim()[1] == pytest.approx(panels["age"].get_xlim()[1] / 10)
    for wrong, match in (
        ({"agee": "years"}, "units names 'agee'"),
        ({"age": 10}, r"units\['age'\] must be the name of a unit"),
        ("years", "units must map names of columns"),
    ):
        with pytest.raises(ValueError, match=match):
            fitted.plot_effects(units=wrong)


def test_gaps_that_no_range_is_known_for_are_refused_with_a_remedy(table):
    frame, y = table
    frame = frame.assign(bmi=frame.bmi.where(frame.bmi < 30))
    curved = {"columns": DECLARED | {"bmi": None}, "features": "additive"}
    assert quiet(model(**curved), frame, y).coef_.any()
    match = r"Give public bounds.*'bmi': \(low, high\).*the default solver, without inference"
    with pytest.raises(TableError, match=match):
        quiet(model(inference=True), frame, y)
    known = {"columns": DECLARED | {"bmi": (10, 60)}, "inference": True}
    assert quiet(model(**known), frame, y).coef_.any()


def test_levels_without_intervals_are_hollow(table):
    frame, y = table
    hashed = {"city": Hashed(3), "age": (0, 110, "linear"), "bmi": (10, 60, "linear")}
    found = quiet(model(columns=hashed, inference=True), frame, y)
    assert {each.name: bool(each.refused.all()) for each in effects(found)} == {
        "age": False,
        "ward": False,
        "smoker": False,
        "bmi": False,
        "city": True,
    }
