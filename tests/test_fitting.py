"""`discreet.fit` does what ``discreet fit`` does, and says what is wrong before a row is read."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import discreet
from discreet import (
    Budget,
    Centre,
    Ledger,
    LogisticRegression,
    PrivacyLeakWarning,
    Radius,
    TableError,
    Whiten,
)
from discreet.cli import fit as command
from discreet.cli.app import run
from discreet.cli.exits import Exit
from discreet.errors import AveragedCellsWarning
from discreet.fitting import CLASSIFIERS, REGRESSORS
from discreet.tables import Categorical, Ignored, Numeric, Schema, Spent, Target

SCHEMA = Schema(
    {
        "age": Numeric(18, 90),
        "job": Categorical(["clerk", "nurse", "smith"], unseen="other"),
        "gain": Numeric(scale="log"),
        "person": Ignored(),
    },
    target=Target("income", ["high", "low"]),
)
BUDGET = {"epsilon": 3.0, "delta": 1e-6}


def people(n_rows=3000, seed=0):
    """A table of people whose income follows their age and job."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n_rows)
    job = rng.choice(["clerk", "nurse", "smith"], n_rows)
    score = (age - 54) / 18 + (job == "nurse") - (job == "smith") + rng.logistic(0, 0.2, n_rows)
    return pd.DataFrame(
        {
            "age": age,
            "job": job,
            "gain": rng.exponential(1000, n_rows).round(2),
            "person": rng.integers(0, n_rows // 3, n_rows),
            "income": np.where(score > 0, "high", "low"),
        }
    )


def test_a_level_of_others_is_there_only_if_declared(tmp_path):
    """Cells that no level lists are scored as the average, and counted, in every way to fit."""
    columns = {"age": Numeric(18, 90), "job": Categorical(["clerk", "nurse"])}
    schema = Schema(columns, Target("income", ["high", "low"]), extra="ignore")
    table = people(1000)
    table.loc[:5, "job"] = None
    rows = pd.DataFrame({"age": [40] * 4, "job": ["clerk", "nurse", "pilot", None]})
    fits = {
        "fit": discreet.fit("income", table, schema=schema, **BUDGET).estimator,
        "table": LogisticRegression(schema=schema, **BUDGET).fit(table, table["income"]),
    }
    for name, model in fits.items():
        assert model.design_.feature_names == ["age", "job=clerk", "job=nurse"], name
        scores = model.decision_function(rows)
        assert scores[2] == scores[3], name
        assert min(scores[:2]) <= scores[2] <= max(scores[:2]), name
    model = discreet.fit("income", table, schema=schema, **BUDGET)
    with pytest.warns(AveragedCellsWarning, match=r"job.*2|2.*job"):
        model.predict(rows)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with people.csv, people.toml and the folder parts of two Parquet files."""
    folder = tmp_path_factory.mktemp("people")
    table = people()
    table.to_csv(folder / "people.csv", index=False)
    (folder / "parts").mkdir()
    table[:1000].to_parquet(folder / "parts" / "a.parquet")
    table[1000:].to_parquet(folder / "parts" / "b.parquet")
    SCHEMA.write(folder / "people.toml")
    return folder


def content(path):
    """Content of a model file, but for the number of fits before it in the process."""
    data = json.loads(path.read_text())
    del data["sha256"], data["guarantee"]["earlier_fits"]
    return data


@pytest.mark.filterwarnings("ignore:random_state fixes")
@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ([], {}),
        (["--unit", "person"], {"unit": "person"}),
        (["--relation", "replace_one"], {"relation": "replace_one"}),
        (["--solver", "objpert"], {"solver": "objpert"}),
        (
            ["--centre", "0.1", "--whiten", "0.1"],
            {"preparation": [Centre(share=0.1), Whiten(share=0.1)]},
        ),
        (["--loss", "huber", "--alpha", "0.01"], {"loss": "huber", "alpha": 0.01}),
        (
            ["--features", "linear", "--no-intercept"],
            {"features": "linear", "fit_intercept": False},
        ),
        (
            ["--class-weight", "high=3", "--class-weight", "low=1"],
            {"class_weight": {"high": 3.0, "low": 1.0}},
        ),
        (["--class-weight", "balanced"], {"class_weight": "balanced"}),
        (["--target", "age"], {"target": "age"}),
        (
            ["--target", "age", "--loss", "quantile", "--quantile", "0.3"],
            {"target": "age", "loss": "quantile", "quantile": 0.3},
        ),
        (["--memory", "1kB"], {"memory": "1kB"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_command_and_the_function_make_the_same_file(folder, tmp_path, options, settings):
    asked = ["fit", str(folder / "people.csv"), "--schema", str(folder / "people.toml")]
    asked += ["--epsilon", "3", "--delta", "1e-6", "--test-seed", "7"]
    assert run([*asked, "-o", str(tmp_path / "command.json"), *options]) == Exit.OK
    target = settings.pop("target", "income")
    model = discreet.fit(
        target,
        folder / "people.csv",
        schema=folder / "people.toml",
        random_state=7,
        **BUDGET,
        **settings,
    )
    model.save(tmp_path / "function.json")
    assert content(tmp_path / "function.json") == content(tmp_path / "command.json")


@pytest.mark.filterwarnings("ignore:random_state fixes")
def test_all_kinds_of_tables_give_the_same_model(folder):
    table = people()
    sources = [
        table,
        {name: table[name].to_numpy() for name in table},
        folder / "people.csv",
        str(folder / "parts"),
        str(folder / "parts" / "*.parquet"),
        sorted((folder / "parts").iterdir()),
    ]
    models = [
        discreet.fit("income", source, schema=SCHEMA, random_state=1, **BUDGET)
        for source in sources
    ]
    for model in models[1:]:
        np.testing.assert_allclose(model.estimator.coef_, models[0].estimator.coef_, rtol=1e-9)
        np.testing.assert_array_equal(model.predict(table), models[0].predict(table))


@pytest.mark.filterwarnings("ignore:random_state fixes")
def test_a_cluster_gives_the_same_model(folder):
    pytest.importorskip("dask")
    parts = str(folder / "parts")
    models = [
        discreet.fit("income", parts, schema=SCHEMA, engine=engine, random_state=1, **BUDGET)
        for engine in (None, "dask")
    ]
    np.testing.assert_allclose(models[1].estimator.coef_, models[0].estimator.coef_, rtol=1e-9)


def test_the_model_predicts_labels_and_learned():
    model = discreet.fit("income", people(), schema=SCHEMA, **BUDGET)
    new = people(1000, seed=1)
    predicted = model.predict(new.drop(columns="income"))
    assert np.mean(predicted == new["income"]) > 0.8
    shares = model.predict_proba(new)
    assert shares.shape == (1000, 2)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    np.testing.assert_array_equal(predicted == "low", shares[:, 1] > 0.5)


@pytest.mark.parametrize("by", ["schema", "argument"])
def test_a_unit_protects_people(by):
    schema = SCHEMA.with_unit("person") if by == "schema" else SCHEMA
    unit = None if by == "schema" else "person"
    table = people()
    model = discreet.fit("income", table, schema=schema, unit=unit, **BUDGET)
    assert model.guarantee.unit == "person"
    assert model.guarantee.n_units == table["person"].nunique()
    assert model.schema.unit == "person"
    assert model.report.record["rows"] is None  # not public: people may have several
    assert "one person with all of their rows" in str(model.report)


def test_without_a_unit_rows_are_protected():
    model = discreet.fit("income", people(), schema=SCHEMA, **BUDGET)
    assert model.guarantee.unit == "row"
    assert model.report.record["rows"] == 3000
    assert model.report.size.startswith("Read 3,000 rows and 6 encoded columns in ")


def test_a_ledger_is_charged_and_shown():
    ledger = Ledger().create("people", Budget(9.0, 1e-5, "add_remove"))
    model = discreet.fit("income", people(), schema=SCHEMA, ledger=ledger, **BUDGET)
    (record,) = ledger.records()
    assert record["epsilon"] == 3.0
    assert model.report.record["ledger"]["entry"] == record["entry"]
    assert f"Entry {record['entry']} of the ledger; data set 'people'" in str(model.report)


SPENT = Spent(0.5, 1e-7, "add_remove")


def test_the_cost_of_the_schema_is_added():
    schema = replace(SCHEMA, spent=SPENT)
    model = discreet.fit("income", people(), schema=schema, **BUDGET)
    assert model.spent == Budget(3.5, 1e-6 + 1e-7, "add_remove")
    assert model.guarantee.epsilon == 3.0
    assert "Together: ε = 3.5, δ = 1.1e-06." in str(model.report)
    assert model.report.record["spent_on_schema"]["epsilon"] == 0.5
    assert model.card().total == pytest.approx((3.5, 1.1e-6))


def test_without_such_a_cost_the_fit_is_all_that_is_spent():
    model = discreet.fit("income", people(), schema=SCHEMA, **BUDGET)
    assert model.spent == Budget(3.0, 1e-6, "add_remove")
    assert "Together" not in str(model.report)


def test_a_baseline_spends_no_budget_that_could_be_stated():
    with pytest.warns(PrivacyLeakWarning):
        model = discreet.fit("income", people(), schema=_bounded(), solver="nonprivate", **BUDGET)
    assert model.spent is None


def _bounded():
    return replace(SCHEMA, columns={**SCHEMA.columns, "gain": Numeric(0, 10_000)})


@pytest.mark.parametrize("threshold", [0.05, 0.3, 0.97])
def test_a_threshold_decides_by_the_probability_of_the_second_class(threshold):
    model = discreet.fit("income", people(), schema=SCHEMA, threshold=threshold, **BUDGET)
    new = people(1000, seed=1)
    low = model.predict(new) == "low"
    np.testing.assert_array_equal(low, model.predict_proba(new)[:, 1] > threshold)
    other = replace(model, threshold=None).predict(new)
    assert (low.sum() > (other == "low").sum()) == (threshold < 0.5)


@pytest.mark.parametrize(
    ("settings", "norm"),
    [
        ({}, None),
        ({"solver": "objpert"}, SCHEMA.max_norm),
        ({"solver": "objpert", "data_norm": 1.0}, 1.0),
        ({"preparation": [Centre(share=0.1)]}, SCHEMA.max_norm),
        ({"preparation": [Radius(share=0.1), Centre(share=0.1)]}, None),
    ],
    ids=["default", "solver", "given", "step", "after Radius"],
)
def test_the_norm_of_rows_is_the_schemas_where_one_is_needed(settings, norm):
    model = discreet.fit("income", people(), schema=SCHEMA, **settings, **BUDGET)
    assert model.estimator.data_norm == norm


def test_private_bounds_come_before_the_given_steps():
    model = discreet.fit(
        "income", people(), schema=SCHEMA, preparation=[Centre(share=0.1)], **BUDGET
    )
    assert [step.name for step in model.estimator.preparation] == ["bounds", "centre"]


def test_progress_names_the_stage_and_is_not_kept():
    seen = []
    model = discreet.fit(
        "income", people(), schema=SCHEMA, progress=lambda *at: seen.append(at), **BUDGET
    )
    stages = [stage for stage, _ in seen]
    assert stages == sorted(stages, reverse=True)  # reading, then fitting
    assert ("reading", 1.0) in seen
    assert seen[-1] == ("fitting", pytest.approx(1.0))
    assert model.estimator.progress is None


def test_extra_columns_are_left_out_on_request():
    table = people().assign(ward="w")
    with pytest.raises(TableError, match="ward"):
        discreet.fit("income", table, schema=SCHEMA, **BUDGET)
    model = discreet.fit("income", table, schema=SCHEMA, ignore_extra=True, **BUDGET)
    assert len(model.predict(table)) == 3000


def test_the_command_lists_the_losses_of_the_function():
    assert set(command.LOSSES) == {*CLASSIFIERS, *REGRESSORS}


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({"schema": None}, ValueError, 'list its labels, classes=["…", "…"]'),
        ({"schema": "none.toml"}, FileNotFoundError, "none.toml"),
        ({"target": "wage"}, ValueError, "there is no column 'wage'"),
        ({"target": 3}, TypeError, "fit('readmitted', table, …); got int"),
        ({"unit": "persn"}, ValueError, "unit: there is no column 'persn'"),
        ({"unit": "income"}, ValueError, "unit: 'income' is the target"),
        ({"epsilon": -1.0}, ValueError, "epsilon must be a finite number > 0"),
        ({"delta": 0.0}, discreet.NotSupported, "needs delta > 0"),
        ({"relation": "swap"}, ValueError, "relation must be one of"),
        ({"loss": "cubic"}, ValueError, "unknown loss 'cubic'. Known: logistic,"),
        ({"loss": "poisson"}, ValueError, "which has classes. Use one of 'logistic'"),
        ({"target": "age", "loss": "hinge"}, ValueError, "which has numbers. Use one of 'squared'"),
        ({"quantile": 0.3}, ValueError, "quantile= is for loss='quantile'"),
        ({"target": "age", "class_weight": "balanced"}, ValueError, "for targets with classes"),
        ({"class_weight": {"hihg": 1.0}}, ValueError, "labels 'high', 'low'; got 'hihg'"),
        ({"class_weight": {"high": -1.0}}, ValueError, "class_weight must be a finite number"),
        ({"solver": "nope"}, ValueError, "unknown solver 'nope'"),
        ({"features": "trees"}, ValueError, "features"),
        ({"preparation": ["centre"]}, ValueError, "preparation must be a sequence of steps"),
        ({"threshold": 1.5}, ValueError, "threshold must be a finite number > 0 and < 1; got 1.5"),
        ({"threshold": 0.3, "loss": "huber"}, ValueError, "logistic models of two classes"),
        ({"engine": "spark"}, ValueError, "engine must be 'dask'; got 'spark'"),
        ({"max_iter": 100}, TypeError, "The number of passes is part of the budget's plan"),
        ({"classes": ["high", "low"]}, TypeError, "fit takes classes from the schema"),
        ({"ledger": "team.sqlite"}, ValueError, "ledger"),
        (
            {"schema": replace(SCHEMA, spent=SPENT), "relation": "replace_one"},
            ValueError,
            "Pass relation='add_remove'.",
        ),
        (
            {"schema": replace(SCHEMA, spent=SPENT), "unit": "person"},
            ValueError,
            "estimated for rows; its guarantee and the model's add up only for the same unit",
        ),
        ({"schema": replace(SCHEMA, target=None), "target": None}, ValueError, "fit('COLUMN', …)"),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, dict) else "",
)
def test_mistakes_are_found_before_a_row_is_read_and_anything_is_spent(
    monkeypatch, tmp_path, settings, error, said
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("discreet.tables.read", lambda *_a, **_k: pytest.fail("it was read"))
    ledger = Ledger().create("people", Budget(9.0, 1e-5, "add_remove"))
    given = {"target": "income", "schema": SCHEMA, "ledger": ledger, **BUDGET, **settings}
    with pytest.raises(error) as caught:
        discreet.fit(given.pop("target"), people(10), **given)
    assert said in str(caught.value)
    assert " --" not in str(caught.value)
    assert ledger.entries == 0


def test_a_bad_row_is_refused_before_anything_is_spent():
    ledger = Ledger().create("people", Budget(9.0, 1e-5, "add_remove"))
    table = people()
    table.loc[7, "income"] = "SECRET"
    with pytest.raises(TableError) as caught:
        discreet.fit("income", table, schema=SCHEMA, ledger=ledger, **BUDGET)
    assert "SECRET" not in str(caught.value)
    assert ledger.entries == 0


@pytest.mark.process
def test_neither_the_package_nor_the_function_needs_arrow_before_a_table_is_read():
    code = "import discreet, sys; assert 'sklearn' not in sys.modules; "
    code += "sys.modules['pyarrow'] = None; discreet.fit"  # an import of it would fail
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
