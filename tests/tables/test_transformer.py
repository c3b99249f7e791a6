import datetime
import decimal
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from discreet import LogisticRegression
from discreet.errors import PrivacyLeakWarning, TableError
from discreet.tables import TableTransformer
from discreet.tables.columns import Boolean, Categorical, Ignored, Numeric, Ordinal
from discreet.tables.schema import FileFormat, Schema, Target

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

SECRET = "sesame"

SCHEMA = Schema(
    {
        "id": Ignored(),
        "age": Numeric(0, 100, missing=True),
        "sex": Categorical(["F", "M"], unseen="other", missing=True),
        "member": Boolean(missing=True),
        "size": Ordinal(["1", "2", "3"]),
    },
    Target("rich", ["no", "yes"]),
)
CELLS = {
    "id": ["a", "b", "c"],
    "age": [1.0, None, 200.0],
    "sex": [" F", None, "X"],
    "member": [True, False, None],
    "size": [1, 2, 3],
}
ENCODED = [
    [0.01, 0, 1, 0, 0, 0, 1, 0, 0],
    [0, 1, 0, 0, 0, 1, 0, 0, 0.5],
    [1, 0, 0, 0, 1, 0, 0, 1, 1],
]


def frame():
    return pd.DataFrame(CELLS)


def polars_categories():
    columns = [pl.col("sex").str.strip_chars().cast(pl.Categorical), pl.col("size").cast(pl.String)]
    return pl.DataFrame(CELLS).with_columns(*columns)


class Stream:
    """A table of a library of which nothing is known but Arrow's interface."""

    def __arrow_c_stream__(self, requested_schema=None):
        return pa.table(CELLS).__arrow_c_stream__(requested_schema)


TABLES = {
    "pandas": frame,
    "pandas, types that know missing cells": lambda: frame().astype(
        {"sex": "category", "member": "boolean", "age": "Int64", "size": "category"}
    ),
    "pandas, Arrow types": lambda: frame().convert_dtypes(dtype_backend="pyarrow"),
    "pandas, objects": lambda: frame().astype(object),
    "polars": lambda: pl.DataFrame(CELLS),
    "polars, categories": polars_categories,
    "polars, lazy": lambda: pl.DataFrame(CELLS).lazy(),
    "pyarrow": lambda: pa.table(CELLS),
    "pyarrow, one batch": lambda: pa.record_batch(CELLS),
    "another library": Stream,
    "lists": lambda: CELLS,
    "objects": lambda: {name: np.array(cells, dtype=object) for name, cells in CELLS.items()},
    "texts": lambda: {
        name: ["" if cell is None else str(cell) for cell in cells] for name, cells in CELLS.items()
    },
    "without the ignored column": lambda: frame().drop(columns="id"),
    "with the target, in another order": lambda: frame().assign(rich="no").iloc[:, ::-1],
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_kind_of_table_means_the_same(table):
    transformer = SCHEMA.transformer(sparse=False)
    assert transformer.fit(table()).transform(table()).tolist() == ENCODED
    assert transformer.fit_transform(table()).tolist() == ENCODED


def test_dense_or_sparse():
    wide = Schema({"x": Categorical([str(i) for i in range(50)], unseen="other")})
    assert sp.issparse(wide.transformer().fit_transform({"x": [1, 2]}))
    assert isinstance(SCHEMA.transformer().fit_transform(CELLS), np.ndarray)
    sparse = SCHEMA.transformer(sparse=True, dtype="float32").fit_transform(CELLS)
    assert sparse.dtype == np.float32
    assert np.array_equal(sparse.toarray(), np.array(ENCODED, dtype=np.float32))


class Unreadable:
    """A column that no one may look into."""

    def __getattr__(self, name):
        raise AssertionError(f"fit read a cell: {name}")


def test_fit_looks_at_names_only():
    transformer = SCHEMA.transformer().fit({name: Unreadable() for name in CELLS})
    assert transformer.feature_names_in_.tolist() == list(CELLS)
    assert transformer.n_features_in_ == 5


@pytest.mark.parametrize("method", ["fit", "transform"])
def test_names_that_do_not_fit(method):
    call = getattr(SCHEMA.transformer(), method)
    with pytest.raises(
        TableError, match=r"lacks columns .* 'sex'.* not in the schema: 'gender', 'who'"
    ):
        call(frame().rename(columns={"sex": "gender"}).assign(who=1))
    with pytest.raises(TableError, match="more than one column 'age'"):
        call(pd.concat([frame(), frame()[["age"]]], axis=1))
    with pytest.raises(TableError, match="more than one column 'age'"):
        call(pa.table([pa.array([1])] * 2, names=["age", "age"]))
    with pytest.raises(TableError, match="ndarray has no names of columns"):
        call(np.zeros((3, 5)))


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"schema": {"age": "numeric"}}, "schema must be a Schema"),
        ({"sparse": "yes"}, "sparse must be True, False"),
        ({"dtype": "float16"}, "dtype must be"),
        ({"dtype": "no type"}, "dtype must be"),
    ],
)
def test_settings_are_checked_before_a_table_is(settings, rule):
    transformer = TableTransformer(**{"schema": SCHEMA, **settings})
    for method in (transformer.fit, transformer.transform):
        with pytest.raises(ValueError, match=rule):
            method(None)


class Odd:
    def __repr__(self):
        return SECRET


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("age", [SECRET, 1, 2]),
        ("age", [1, Odd(), 2]),
        ("age", [1 + 2j, 1, 2]),
        ("age", [datetime.date(2020, 1, 1)] * 3),
        ("age", np.zeros((3, 3))),
        ("age", 3),
        ("age", SECRET),
        ("sex", [1, "a", [SECRET]]),
        ("sex", [{SECRET: 1}, {SECRET: 2}, None]),
        ("size", [1, SECRET, 2.5]),
        ("size", [1, 2, None]),
        ("member", [True, SECRET, None]),
    ],
)
def test_no_error_shows_a_cell(name, cells):
    with pytest.raises(TableError, match=f"column '{name}'") as caught:
        SCHEMA.transformer().transform(CELLS | {name: cells})
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_mixed_types_are_compared_by_their_texts():
    schema = Schema(
        {
            "x": Categorical(["1", "2", "a", "true", "2020-01-01"], unseen="refuse", missing=True),
            "n": Numeric(0, 10, missing=True, invalid="missing"),
        }
    )
    x = [
        1,
        2.0,
        "a ",
        True,
        datetime.date(2020, 1, 1),
        None,
        np.nan,
        pd.NA,
        decimal.Decimal("2.00"),
    ]
    n = [1, 2.5, "5", "?", 10**30, None, np.nan, pd.NaT, decimal.Decimal("2.5")]
    found = schema.transformer(sparse=False).transform({"x": x, "n": np.array(n, dtype=object)})
    assert np.argmax(found[:, :6], axis=1).tolist() == [0, 1, 2, 3, 4, 5, 5, 5, 1]
    assert found[:, 6].tolist() == [0.1, 0.25, 0.5, 0, 1, 0, 0, 0, 0.25]
    assert found[:, 7].tolist() == [0, 0, 0, 1, 0, 1, 1, 1, 0]


def test_missing_markers_of_the_file_count_in_memory_too():
    schema = Schema({"n": Numeric(0, 10, missing=True)}, file=FileFormat(missing=["NA"]))
    assert schema.transformer().transform({"n": ["5", "NA"]}).tolist() == [[0.5, 0], [0, 1]]


def test_scikit_learn_contract():
    transformer = SCHEMA.transformer(sparse=False)
    copy = clone(transformer)
    assert copy.get_params()["schema"] == SCHEMA
    assert copy.transform(CELLS).tolist() == ENCODED
    assert pickle.loads(pickle.dumps(transformer.fit(CELLS))).transform(CELLS).tolist() == ENCODED
    assert list(transformer.get_feature_names_out()) == SCHEMA.feature_names
    assert list(transformer.get_feature_names_out(list(CELLS))) == SCHEMA.feature_names


def test_set_output():
    table = frame().set_index(pd.Index([7, 8, 9]))
    found = SCHEMA.transformer(sparse=False).set_output(transform="pandas").fit_transform(table)
    assert list(found.columns) == SCHEMA.feature_names
    assert list(found.index) == [7, 8, 9]
    assert found.to_numpy().tolist() == ENCODED
    found = SCHEMA.transformer(sparse=False).set_output(transform="polars").fit_transform(table)
    assert isinstance(found, pl.DataFrame)
    assert found.columns == SCHEMA.feature_names


@pytest.mark.filterwarnings("ignore::discreet.errors.PrivacyLeakWarning")
@pytest.mark.parametrize("sparse", [False, True])
def test_a_pipeline_learns_from_a_table(sparse):
    rng = np.random.default_rng(0)
    ages = rng.uniform(0, 100, 2000)
    table = pd.DataFrame(
        {
            "age": ages,
            "sex": rng.choice(["F", "M"], 2000),
            "member": rng.random(2000) < 0.5,
            "size": rng.choice(["1", "2", "3"], 2000),
            "rich": np.where(ages > 50, "yes", "no"),
        }
    )
    model = LogisticRegression(epsilon=50.0, delta=1e-5, data_norm=SCHEMA.max_norm, random_state=0)
    pipeline = make_pipeline(SCHEMA.transformer(sparse=sparse), model)
    pipeline.fit(table, table["rich"])
    # Deterministic: the seed fixes the noise.
    assert pipeline.score(table.drop(columns="rich"), table["rich"]) > 0.9
    assert set(pipeline.predict(table)) == {"no", "yes"}
    assert list(pipeline[:-1].get_feature_names_out()) == SCHEMA.feature_names
    with pytest.warns(PrivacyLeakWarning):
        clone(pipeline).fit(table, table["rich"])
