"""Fits on Spark dataframes (``make test-spark``)."""

import os
import sys
import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

from discreet import LinearRegression, LogisticRegression, PrivacyError
from discreet.engines import BlockTarget, header_of
from discreet.engines import spark as engine_module
from discreet.errors import EngineError
from discreet.solvers import GD
from discreet.tables.columns import Categorical, Numeric
from discreet.tables.encoder import Encoder
from discreet.tables.schema import Schema, Target

pytestmark = pytest.mark.spark

N = 4000
SECRET = "Rumpelstiltskin"
COLUMNS = {
    "age": Numeric(0, 100),
    "income": Numeric(0, 10),
    "job": Categorical(["clerk", "cook", "smith"], unseen="refuse"),
}


@pytest.fixture(scope="module")
def session():
    sql = pytest.importorskip("pyspark.sql")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def records():
    rng = np.random.default_rng(0)
    age, income = rng.uniform(0, 100, N), rng.uniform(0, 10, N)
    jobs = rng.choice(["clerk", "cook", "smith"], N)
    paid = np.where(age / 100 + income / 10 + rng.normal(0, 0.1, N) > 1, "yes", "no")
    return pd.DataFrame({"age": age, "income": income, "job": jobs, "paid": paid})


@pytest.fixture(scope="module")
def schema():
    return Schema(COLUMNS, Target("paid", ["no", "yes"]))


@pytest.fixture(scope="module")
def frame(session, records, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("spark") / "records")
    for part in range(3):
        os.makedirs(path, exist_ok=True)
        records[part::3].to_parquet(f"{path}/{part}.parquet", index=False)
    return session.read.parquet(path)


def encoded(frame, schema):
    """Return the rows as arrays, in the order of Spark's partitions."""
    table = frame.toPandas()
    X = schema.transformer(sparse=False, dtype="float32").transform(table)
    return X, table["paid"]


def fit(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


def logistic(**settings):
    return LogisticRegression(**({"classes": ["no", "yes"], "random_state": 0} | settings))


def test_the_model_is_that_of_an_array(frame, schema):
    expected = fit(logistic(), *encoded(frame, schema))
    X, y, _ = engine_module.open(frame, schema, block_rows=700)
    assert X.shape == (N, 5)
    assert len(X.parts) > 3
    found = fit(logistic(), X, y)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-9)
    np.testing.assert_allclose(found.intercept_, expected.intercept_, rtol=1e-9)
    assert any("workers of Spark" in text for text in found.guarantee_.conditions)
    X.engine.release(X.parts)


def test_regression_and_sparse_blocks(frame, schema):
    numeric = Schema(
        {name: column for name, column in COLUMNS.items() if name != "income"},
        Target("income", low=0, high=10),
    )
    frame = frame.drop("paid")
    X, y, _ = engine_module.open(frame, numeric, sparse=True)
    model = LinearRegression(target_bounds=(0, 10), random_state=0)
    found = fit(model, X, y).coef_
    table = frame.toPandas()
    dense = numeric.transformer(sparse=True, dtype="float32").transform(table)
    expected = fit(model, dense, table["income"]).coef_
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_people_are_those_of_an_array(session, records, schema):
    """Rows of a person in several of Spark's partitions count once together."""
    ids = np.random.default_rng(1).integers(0, N // 4, N)
    frame = session.createDataFrame(records.assign(person=ids)).repartition(3)
    X, y, groups = engine_module.open(frame, replace(schema, unit="person"), block_rows=700)
    with pytest.raises(TypeError, match="third"):
        fit(logistic(), X, y)
    found = logistic().fit(X, y, groups)
    table = frame.toPandas()
    encoder = schema.transformer(sparse=False, dtype="float32")
    whole = encoder.transform(table.drop(columns="person"))
    expected = logistic().fit(whole, table["paid"], groups=table["person"])
    assert found.guarantee_.n_units == len(np.unique(ids))
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-9)


def test_bad_cells_are_refused_by_column_without_being_shown(session, records, schema):
    bad = records.copy()
    bad.loc[17, "job"] = SECRET
    with pytest.raises(ValueError, match="column 'job'") as caught:
        engine_module.open(session.createDataFrame(bad), schema)
    assert SECRET not in str(caught.value)


def test_columns_and_targets_are_checked_before_reading(frame, schema):
    with pytest.raises(ValueError, match="no column 'age'"):
        engine_module.open(frame.drop("age"), schema)
    with pytest.raises(ValueError, match="names no target"):
        engine_module.open(frame, Schema(COLUMNS))
    with pytest.raises(TypeError, match=r"spark\.open"):
        header_of(frame)
    first, second = (engine_module.open(frame, schema) for _ in range(2))
    with pytest.raises(TypeError, match="together with X"):
        fit(logistic(), first[0], second[1])


def test_a_source_that_fails_is_reported_without_its_text(session, schema, frame):
    from pyspark.sql import functions

    broken = frame.withColumn("age", functions.raise_error(functions.lit(SECRET)).cast("double"))
    with pytest.raises(EngineError) as caught:
        engine_module.open(broken, schema)
    assert SECRET not in str(caught.value)


def test_blocks_that_are_read_again_must_have_the_same_rows(frame, schema):
    from pyspark.sql import functions

    short = GD(iterations=2)
    X, y, _ = engine_module.open(frame, schema)
    expected = fit(logistic(solver=short), X, y).coef_
    X.engine.frame.unpersist(blocking=True)  # as if the executors had been lost
    np.testing.assert_array_equal(fit(logistic(solver=short), X, y).coef_, expected)
    other = frame.withColumn("age", functions.expr("100 - age"))
    encode = partial(
        engine_module._blocks, Encoder(schema, False, "float32"), X.engine.marks.key, True, 2**17
    )
    changed = other.select(*COLUMNS, "paid").mapInArrow(encode, "block binary")
    wrong = replace(X, engine=replace(X.engine, frame=changed))
    with pytest.raises(PrivacyError, match="other rows"):
        fit(logistic(solver=short), wrong, BlockTarget(wrong))
