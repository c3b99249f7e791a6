"""Types and declarations in place of a schema in `discreet.fit`; `schema=` of estimators."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

import discreet
from discreet import (
    Budget,
    Ledger,
    LinearRegression,
    LogisticRegression,
    OrdinalClassifier,
    PrivacyError,
    TableError,
    TableModel,
    discover,
    load,
    save,
)
from discreet.errors import AveragedCellsWarning, NotSupported, PrivacyLeakWarning
from discreet.tables import (
    Boolean,
    Categorical,
    FileFormat,
    Ignored,
    Numeric,
    Schema,
    Spent,
    Target,
)

N = 3000
BUDGET = {"epsilon": 3.0, "delta": 1e-6}
DECLARED = {"age": (0, 110, "linear"), "city": ["north", "south"], "ward": ["A", "B", "C"]}


@pytest.fixture(scope="module")
def visits():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, N),
            "bmi": rng.normal(27, 4, N),
            "ward": pd.Categorical(rng.choice(["A", "B"], N), categories=["A", "B", "C"]),
            "city": rng.choice(["north", "south"], N),
            "smoker": rng.random(N) < 0.3,
            "person": rng.integers(0, N // 3, N),
        }
    )
    score = (frame.age - 54) / 12 + (frame.ward == "B")
    return frame.assign(ill=rng.random(N) < 1 / (1 + np.exp(-score)))


def quiet(function, *given, **named):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*given, **named)


def fit(table, target="ill", **settings):
    given = {"unit": "person", "columns": DECLARED, "random_state": 0} | BUDGET | settings
    return quiet(discreet.fit, target, table, **given)


def as_reader(table):
    return pa.Table.from_pandas(table).to_reader()


@pytest.fixture(scope="module")
def model(visits):
    return fit(visits)


def test_kinds_come_from_types_and_declarations(model, visits):
    columns = dict(model.schema.columns)
    assert columns == {
        "age": Numeric(0, 110, shape="linear", gaps="average"),
        "bmi": Numeric(shape="linear", gaps="average"),
        "ward": Categorical(["A", "B", "C"], unseen="average"),
        "city": Categorical(["north", "south"], unseen="average"),
        "smoker": Boolean(gaps="average"),
    }
    assert model.schema.unit == "person"
    assert model.guarantee.unit == "person"
    assert model.guarantee.n_units == visits.person.nunique()


def test_it_is_the_fit_of_the_estimator(model, visits):
    own = LogisticRegression(**BUDGET, columns=DECLARED, random_state=0)
    quiet(own.fit, visits.drop(columns=["ill", "person"]), visits.ill, groups=visits.person)
    assert [step.name for step in model.estimator.preparation_] == [
        step.name for step in own.preparation_
    ]
    np.testing.assert_allclose(model.estimator.coef_, own.coef_, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "convert",
    [pl.from_pandas, lambda table: pl.from_pandas(table).lazy(), pa.Table.from_pandas, as_reader],
    ids=["polars", "lazy", "Arrow", "reader"],
)
def test_tables_of_all_libraries_give_the_same_model(convert, model, visits):
    other = fit(convert(visits))
    np.testing.assert_allclose(other.estimator.coef_, model.estimator.coef_, rtol=1e-9)
    assert other.estimator.classes_.tolist() == [False, True]


def test_typed_files_are_fitted_and_text_files_need_declarations(model, visits, tmp_path):
    visits.to_parquet(tmp_path / "v.parquet")
    found = fit(str(tmp_path / "*.parquet"))
    np.testing.assert_allclose(found.estimator.coef_, model.estimator.coef_, rtol=1e-9)
    path = tmp_path / "v.csv"
    visits.to_csv(path, index=False, sep=";")
    with pytest.raises(ValueError, match="each has to be declared") as caught:
        fit(path, classes=["False", "True"])
    assert "columns={'bmi': …, 'smoker': …}" in str(caught.value)
    with pytest.raises(ValueError, match="'ill' has no type, being in a text file"):
        fit(path)
    whole = DECLARED | {"bmi": Numeric(shape="linear"), "smoker": Boolean()}
    found = fit(path, columns=whole, classes=["False", "True"])
    np.testing.assert_allclose(found.estimator.coef_, model.estimator.coef_, rtol=1e-6)


def test_the_first_line_of_a_text_file_is_not_shown(tmp_path):
    (tmp_path / "v.csv").write_text("SECRET,yes\nb,no\n")
    with pytest.raises(ValueError, match="first line of the file has no column 'ill'") as caught:
        fit(tmp_path / "v.csv", unit=None, columns=None)
    assert "SECRET" not in str(caught.value)


def test_types_of_targets_declare_classes(visits):
    table = visits.drop(columns=["city"])
    own = {"columns": {"age": (0, 110, "linear")}}
    for values, labels in (
        (table.ill, [False, True]),
        (table.ill.astype(int), [0, 1]),
        (pd.Categorical(np.where(table.ill, "yes", "no"), ["no", "yes"]), ["no", "yes"]),
        (pd.Categorical(table.ill * 8 + 2, [2, 10]), ["10", "2"]),  # texts have another order
    ):
        found = fit(table.assign(ill=values), **own)
        assert found.estimator.classes_.tolist() == labels
        assert "the class labels" in found.guarantee.public
        predicted = found.predict(table.assign(ill=values))
        same = predicted.astype(str) == pd.Series(values).astype(str).to_numpy()
        assert same.mean() > 0.7
        measured = found.evaluate(table.assign(ill=values), epsilon=5.0)
        assert measured.measures["AUC"] > 0.8


def test_labels_are_listed_where_the_type_does_not_tell_them(visits):
    table = visits.assign(ill=np.where(visits.ill, "yes", "no"))
    with pytest.raises(ValueError, match=r'holds texts: list its labels, classes=\["…", "…"\]'):
        fit(table)
    assert fit(table, classes=["no", "yes"]).estimator.classes_.tolist() == ["no", "yes"]
    by_entry = fit(table, columns=DECLARED | {"ill": ["no", "yes"]})
    assert by_entry.estimator.classes_.tolist() == ["no", "yes"]
    weighted = fit(table, classes=["no", "yes"], class_weight={"yes": 30.0, "no": 1.0})
    assert (weighted.predict(table) == "yes").mean() > 0.8


def test_whole_numbers_are_classes_or_amounts(visits):
    table = visits.drop(columns="ill")
    with pytest.raises(TableError, match=r"Pass classes=\[…\]") as caught:
        fit(table, "age", columns={"city": ["north", "south"]})
    assert "target_bounds=(low, high)" in str(caught.value)
    found = fit(table, "age", columns={"city": ["north", "south"]}, target_bounds=(0, 110))
    assert isinstance(found.estimator, LinearRegression)
    assert found.schema.target == Target("age", low=0, high=110)
    by_loss = fit(table, "age", columns={"city": ["north", "south"]}, loss="huber")
    assert type(by_loss.estimator).__name__ == "HuberRegressor"


def test_numbers_without_bounds_are_not_clipped(visits, tmp_path):
    table = visits.assign(change=visits.bmi - 27).drop(columns=["ill", "bmi"])
    with pytest.warns(UserWarning, match="Without target_bounds no target is clipped"):
        found = discreet.fit("change", table, columns=DECLARED, **BUDGET)
    assert found.estimator.target_bounds is None
    assert not found.schema.target.bounded
    found.save(tmp_path / "m.json")
    read = TableModel.load(tmp_path / "m.json")
    assert read.schema == found.schema
    assert np.array_equal(read.predict(table), found.predict(table))
    with pytest.raises(discreet.ModelFileError, match=r"Fit it with target_bounds=\(low, high\)"):
        found.evaluate(table, epsilon=1.0)


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({"columns": None}, ValueError, """columns={'city': ["…", "…"]}"""),
        ({"target": "il"}, ValueError, "target: there is no column 'il'; did you mean 'ill'?"),
        ({"target": None}, ValueError, "name the column to predict, fit('COLUMN', …)"),
        ({"unit": "persn"}, ValueError, "unit: there is no column 'persn'"),
        ({"unit": "ill"}, ValueError, "unit: 'ill' is the target"),
        ({"classes": [0, 1], "target_bounds": (0, 1)}, ValueError, "is declared twice"),
        ({"target_bounds": 3}, ValueError, "target_bounds must be two numbers"),
        ({"groups": [1]}, TypeError, "pass unit='COLUMN'"),
        ({"columns": {"agee": (0, 1)}}, ValueError, "names 'agee', which the table does not have"),
        ({"loss": "squared"}, ValueError, "which has classes. Use one of 'logistic'"),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, dict) else "",
)
def test_mistakes_are_found_before_a_row_is_read(monkeypatch, visits, settings, error, said):
    monkeypatch.setattr("discreet.tables.read", lambda *_a, **_k: pytest.fail("it was read"))
    ledger = Ledger().create("visits", Budget(9.0, 1e-5, "add_remove"), unit="person")
    given = {"target": "ill", "ledger": ledger} | settings
    with pytest.raises(error) as caught:
        fit(visits, given.pop("target"), **given)
    assert said in str(caught.value)
    assert "north" not in str(caught.value)
    assert ledger.entries == 0


def test_the_default_measures_units_and_other_methods_get_bounds(visits):
    """Columns without bounds have no `Bounds` step where the default measures their unit."""
    assert "bounds" not in [step.name for step in fit(visits).estimator.preparation_]
    curved = DECLARED | {"bmi": Numeric()}
    found = fit(visits, columns=curved, epsilon=30.0).estimator
    assert found.preparation_[0].name == "bounds"  # curves need ends
    given = fit(visits, solver="objpert").estimator
    assert [step.name for step in given.preparation] == ["bounds"]
    assert given.preparation[0].columns == (1,)


# ---- the model, its file, and predictions


def test_the_file_is_that_of_an_estimator_which_takes_tables(model, visits, tmp_path):
    model.save(tmp_path / "m.json")
    read = load(tmp_path / "m.json")
    assert isinstance(read, LogisticRegression)
    assert read.schema == model.schema
    assert read.predict(visits).tolist() == model.predict(visits).tolist()
    plain = read.predict_proba(visits.drop(columns=["person", "ill"]))
    np.testing.assert_allclose(plain, model.predict_proba(visits), rtol=1e-4, atol=1e-5)
    again = clone(read).set_params(random_state=0)
    quiet(again.fit, visits, visits.ill)  # the unit is a column of the table
    assert again.guarantee_.unit == "person"
    np.testing.assert_allclose(again.coef_, model.estimator.coef_, rtol=1e-3, atol=1e-4)


def test_blocks_say_how_many_cells_of_which_column_were_averaged(model, visits):
    rows = visits.head(40).assign(city="elsewhere", ward=None)
    with pytest.warns(AveragedCellsWarning, match=r"80 cells are .* ward \(40\), city \(40\)"):
        blocks = model.predict(pa.Table.from_pandas(rows))
    with pytest.warns(AveragedCellsWarning):
        assert (blocks == model.estimator.predict(rows)).all()


def test_rows_of_another_schema_are_refused(model, visits):
    other = fit(visits, columns=DECLARED | {"age": (0, 200, "linear")})
    wrong = replace(model, schema=other.schema)
    with pytest.raises(ValueError, match="encoded by another schema"):
        wrong.predict(visits)


# ---- schema= of estimators


COLUMNS = {
    "age": Numeric(0, 110, shape="linear"),
    "bmi": Numeric(shape="linear"),
    "ward": Categorical(["A", "B", "C"], unseen="average"),
    "city": Categorical(["north", "south"], unseen="average"),
    "smoker": Boolean(),
}
SCHEMA = Schema(COLUMNS, target=Target("ill", ["false", "true"]), unit="person")


def by_schema(schema=SCHEMA, kind=LogisticRegression, **settings):
    return kind(**({"schema": schema, "random_state": 0} | BUDGET | settings))


def test_an_estimator_takes_the_unit_from_the_table(visits, tmp_path):
    found = quiet(by_schema().fit, visits, visits.ill)
    assert found.guarantee_.unit == "person"
    SCHEMA.write(tmp_path / "visits.toml")
    read = quiet(by_schema(tmp_path / "visits.toml").fit, visits, visits.ill)
    assert (read.coef_ == found.coef_).all()
    save(read, tmp_path / "m.json")
    (tmp_path / "visits.toml").unlink()
    assert load(tmp_path / "m.json").schema == SCHEMA
    own = quiet(
        by_schema(None, columns=DECLARED).fit,
        visits.drop(columns=["ill", "person"]),
        visits.ill,
        groups=visits.person,
    )
    assert (own.coef_ == found.coef_).all()
    given = visits.drop(columns="person")
    assert quiet(by_schema().fit, given, visits.ill, groups=visits.person).guarantee_.unit == (
        "person"
    )


@pytest.mark.parametrize("convert", [pl.from_pandas, pa.Table.from_pandas])
def test_units_of_all_libraries_are_found(convert, visits):
    found = quiet(by_schema().fit, convert(visits), visits.ill)
    assert found.guarantee_.n_units == visits.person.nunique()


@pytest.mark.parametrize("kind", [LinearRegression, OrdinalClassifier])
def test_all_estimators_take_the_unit(kind, visits):
    more = {"classes": [0, 1]} if kind is OrdinalClassifier else {"target_bounds": (0, 1)}
    found = quiet(by_schema(kind=kind, **more).fit, visits, visits.ill.astype(int))
    assert found.guarantee_.unit == "person"
    assert found.predict(visits).shape == (N,)


def test_a_unit_that_nobody_provides_is_refused(visits):
    ledger = Ledger().create("visits", Budget(9.0, 1e-5, "add_remove"), unit="person")
    table = visits.drop(columns="person")
    with pytest.raises(PrivacyError, match=r"names the unit 'person'.* fit got no groups"):
        by_schema(ledger=ledger).fit(table, visits.ill)
    with pytest.raises(ValueError, match="groups were given as well"):
        by_schema(ledger=ledger).fit(visits, visits.ill, groups=visits.person)
    with pytest.raises(ValueError, match="tables with names of columns; got ndarray"):
        by_schema(ledger=ledger).fit(np.zeros((4, 5)), [0, 1, 0, 1], groups=[1, 2, 3, 4])
    assert ledger.entries == 0


def test_a_schema_and_columns_are_one_too_many():
    with pytest.raises(ValueError, match="give schema or columns, but not both"):
        by_schema(columns=DECLARED).fit(None, None)


def test_the_cost_of_the_schema_is_stated_and_must_add_up(visits):
    spent = Spent(0.5, 1e-7, "add_remove", unit="person")
    found = quiet(by_schema(replace(SCHEMA, spent=spent)).fit, visits, visits.ill)
    said = "what was estimated for the schema, which spent ε = 0.5, δ = 1e-07 before the fit"
    assert said in found.guarantee_.public
    assert found.card().total == pytest.approx((3.5, 1.1e-6))
    with pytest.raises(ValueError, match="Pass relation='add_remove'"):
        by_schema(replace(SCHEMA, spent=spent), relation="replace_one").fit(visits, visits.ill)
    by_row = replace(SCHEMA, spent=Spent(0.5, 1e-7, "add_remove"))
    with pytest.raises(ValueError, match="estimated for rows"):
        by_schema(by_row).fit(visits, visits.ill)
    alone = replace(by_row, unit=None, columns={**COLUMNS, "person": Ignored()})
    with pytest.raises(ValueError, match="estimated for rows"):
        by_schema(alone).fit(visits, visits.ill, groups=visits.person)
    quiet(by_schema(alone).fit, visits, visits.ill)


def test_the_labels_of_a_schema_are_declared(visits):
    y = np.where(visits.ill, "true", "false")
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        found = by_schema(random_state=None).fit(visits, y)
    assert found.classes_.tolist() == ["false", "true"]
    assert "the class labels" in found.guarantee_.public


def test_evaluate_takes_the_unit_from_the_table(visits):
    found = quiet(by_schema().fit, visits, visits.ill)
    measured = discreet.evaluate(found, visits, visits.ill, epsilon=2.0)
    assert measured.unit == "person"
    assert str(measured.guarantee).startswith("This evaluation is (ε = 2)")
    assert "fit" not in str(measured.guarantee)
    with pytest.raises(PrivacyError, match="names the unit 'person'"):
        discreet.evaluate(found, visits.drop(columns="person"), visits.ill, epsilon=2.0)


FOUND = DECLARED | {"city": discover(0.1)}


@pytest.mark.parametrize("form", ["pandas", "polars", "relation", "parquet", "csv"])
def test_levels_are_found_in_any_source(visits, tmp_path, form):
    plain = visits.astype({"ward": "str"})
    columns = FOUND
    if form == "csv":
        plain.to_csv(tmp_path / "visits.csv", index=False)
        columns = FOUND | {"bmi": None, "smoker": Boolean()}
        source = tmp_path / "visits.csv"
    elif form == "parquet":
        plain.to_parquet(tmp_path / "visits.parquet")
        source = tmp_path / "visits.parquet"
    elif form == "relation":
        source = pytest.importorskip("duckdb").from_df(plain)
    else:
        source = plain if form == "pandas" else pl.from_pandas(plain)
    classes = {"classes": ["False", "True"]} if form == "csv" else {}
    found = fit(source, columns=columns, **classes)
    assert found.schema.columns["city"] == Categorical(["north", "south"], unseen="average")
    assert found.estimator.design_.schema.columns == found.schema.columns
    (split, *_) = found.guarantee.split
    assert split[0] == "levels of city"
    assert split[1] == pytest.approx(0.1, rel=1e-3)
    stated = " ".join(str(found.card()).split())
    assert "the levels of city were found within the budget" in stated
    assert "texts that enough rows share are levels" in stated
    assert "Shares are of μ² of Gaussian DP" in stated
    assert found.guarantee.n_units == visits.person.nunique()
    predicted = found.predict(source).astype(str)
    assert (predicted == visits.ill.astype(str).to_numpy()).mean() > 0.7


def test_a_model_with_found_levels_comes_back(visits, tmp_path):
    found = fit(visits, columns=FOUND, inference=True)
    found.save(tmp_path / "model.json")
    back = TableModel.load(tmp_path / "model.json", ignore_extra=True)
    assert np.array_equal(back.predict(visits), found.predict(visits))
    assert found.evaluate(visits, epsilon=1.0, by="city").by is not None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"engine": "dask"}, "reads on workers"),
        ({"solver": "newton"}, "public bounds of all numbers"),
        ({"delta": 0.0}, "needs delta > 0"),
    ],
)
def test_what_levels_that_are_found_need_is_checked_before_a_row_is_read(settings, message):
    types = pa.schema({"age": pa.int64(), "bmi": pa.float64(), "city": pa.string()})
    unread = pa.RecordBatchReader.from_batches(types.append(pa.field("ill", pa.bool_())), iter([]))
    columns = {"age": (0, 110, "linear"), "city": discover(0.1)}
    with pytest.raises(NotSupported, match=message):
        discreet.fit("ill", unread, **(BUDGET | {"columns": columns} | settings))


def test_texts_that_mean_a_missing_cell_are_no_levels(visits):
    """Also while levels are found: "?" would be a level that no cell can have."""
    marked = visits.assign(city=visits.city.where(visits.index % 3 > 0, "?"))
    schema = Schema(
        {"age": Numeric(0, 110), "city": discover(0.1)},
        file=FileFormat(missing=["?"]),
        unit="person",
        extra="ignore",
    )
    found = quiet(LogisticRegression(**BUDGET, schema=schema).fit, marked, visits.ill)
    assert found.design_.schema.columns["city"].values == ("north", "south")


# ---- weights


def test_weights_are_read_from_a_column_that_is_no_feature(visits, tmp_path):
    """The same fit as with arrays, from a table and from a file."""
    frame = visits[["age", "smoker", "ill"]].assign(w=np.where(visits.age > 50, 3.0, 0.5))
    settings = {"random_state": 0, "columns": {"age": (0, 110, "linear"), "smoker": Boolean()}}
    whole = discreet.fit("ill", frame, weight="w", **BUDGET, **settings)
    own = LogisticRegression(**BUDGET, **settings)
    own.fit(frame[["age", "smoker"]], frame.ill, sample_weight=frame.w)
    assert list(whole.estimator.get_feature_names_out()) == ["age", "smoker"]
    np.testing.assert_allclose(whole.estimator.coef_, own.coef_, rtol=1e-5)  # float32 or float64
    texts = np.where(frame.ill, "true", "false")
    frame.assign(ill=texts).to_csv(tmp_path / "visits.csv", index=False)
    schema = whole.schema
    read = discreet.fit(
        "ill", tmp_path / "visits.csv", weight="w", schema=schema, random_state=0, **BUDGET
    )
    np.testing.assert_allclose(read.estimator.coef_, own.coef_, rtol=1e-5)
    assert whole.predict(frame.drop(columns="w").head(3)).size == 3
    even = discreet.fit("ill", frame.drop(columns="w"), **BUDGET, **settings)
    assert np.abs(even.estimator.coef_ / own.coef_ - 1).max() > 0.01


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"weight": "nothing"}, "weight: there is no column 'nothing'"),
        ({"weight": "ill"}, "weight: 'ill' is the target or the unit"),
        ({"weight": "person", "unit": "person"}, "weight: 'person' is the target or the unit"),
        ({"weight": "age", "columns": DECLARED}, "weight: 'age' is declared as a feature"),
    ],
)
def test_columns_that_cannot_be_weights_are_refused_before_a_charge(visits, changed, match):
    ledger = Ledger().create("visits", limit=Budget(3.0, 1e-6, "add_remove"))
    settings = {"columns": DECLARED} | BUDGET | changed
    with pytest.raises(ValueError, match=match):
        discreet.fit("ill", visits, ledger=ledger, **settings)
    assert ledger.entries == 0
    if "columns" not in changed:
        with pytest.raises(NotSupported, match="weight is read from a table of this process"):
            discreet.fit(
                "ill", visits, engine="dask", **(settings | {"weight": "bmi", "unit": None})
            )


# ---- exposure


@pytest.fixture(scope="module")
def counts():
    """Falls of patients over days in a ward: 0.02 a day, and twice as many after 80."""
    rng = np.random.default_rng(5)
    n = 6000
    age = rng.integers(40, 100, n)
    days = rng.integers(1, 61, n)
    falls = rng.poisson(days * 0.02 * np.where(age > 80, 2.0, 1.0))
    return pd.DataFrame({"age": age, "days": days, "falls": falls, "logdays": np.log(days)})


COUNTED = {
    "target_bounds": (0, 1),
    "exposure_bound": 60.0,
    "loss": "poisson",
    "columns": {"age": (40, 100, "linear")},
    "random_state": 0,
}


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_exposure_is_a_column_that_is_no_feature(counts, kind):
    frame = counts.drop(columns="logdays")
    table = {"pandas": frame, "polars": pl.from_pandas(frame), "arrow": pa.table(frame)}[kind]
    model = discreet.fit("falls", table, exposure="days", **BUDGET, **COUNTED)
    given = {name: value for name, value in COUNTED.items() if name != "loss"}
    own = discreet.PoissonRegressor(**BUDGET, **given)
    own.fit(frame[["age"]], frame.falls, exposure=frame.days)
    assert model.estimator.feature_names_in_.tolist() == ["age", "days"]
    assert own.get_feature_names_out().tolist() == ["age"]
    np.testing.assert_allclose(model.predict(frame[["age"]]), own.predict(frame[["age"]]))
    named = discreet.PoissonRegressor(**BUDGET, **given)
    features = frame.drop(columns="falls")
    features = features if kind == "pandas" else table.select(["age", "days"])
    named.fit(features, frame.falls.to_numpy(), exposure="days")
    np.testing.assert_array_equal(named.coef_, own.coef_)
    np.testing.assert_array_equal(named.predict(features), own.predict(frame[["age"]]))
    rate = model.predict(pd.DataFrame({"age": [50, 95]}))
    assert 0.01 < rate[0] < rate[1] < 0.06


def test_an_offset_is_the_logarithm_of_an_exposure(counts):
    frame = counts.drop(columns="days")
    whole = discreet.fit("falls", frame, offset="logdays", **BUDGET, **COUNTED)
    frame = counts.drop(columns="logdays")
    other = discreet.fit("falls", frame, exposure="days", **BUDGET, **COUNTED)
    np.testing.assert_allclose(whole.predict(counts[["age"]]), other.predict(counts[["age"]]))


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"exposure": "weeks"}, "exposure: there is no column 'weeks'"),
        ({"exposure": "falls"}, "exposure: 'falls' is the target or the unit"),
        ({"exposure": "age"}, "exposure: 'age' is declared as a feature"),
        ({"exposure": "days", "offset": "logdays"}, "an offset is the logarithm of one"),
        ({"exposure": "days", "exposure_bound": None}, "exposure needs a public bound"),
        ({"exposure": "days", "loss": "squared"}, "loss='poisson' or 'gamma'; the target 'falls'"),
    ],
)
def test_columns_that_cannot_be_an_exposure_are_refused_before_a_charge(counts, changed, match):
    settings = {**COUNTED, **changed}
    if settings["loss"] == "squared":
        del settings["exposure_bound"]
    ledger = Ledger().create("falls", limit=Budget(3.0, 1e-6, "add_remove"))
    with pytest.raises(ValueError, match=match):
        discreet.fit("falls", counts, ledger=ledger, **BUDGET, **settings)
    assert ledger.entries == 0


def test_an_exposure_by_name_needs_a_table(counts):
    model = discreet.PoissonRegressor(**BUDGET, target_bounds=(0, 1), exposure_bound=60)
    with pytest.raises(ValueError, match="exposure='days' names a column, and X is a ndarray"):
        model.fit(counts[["age"]].to_numpy(), counts.falls, exposure="days")
    with pytest.raises(ValueError, match="exposure: the table has no column 'weeks'"):
        model.fit(counts[["age"]], counts.falls, exposure="weeks")
