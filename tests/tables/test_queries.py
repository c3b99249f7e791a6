"""Results of queries, and generators of tables, in place of a table."""

import sqlite3
import sys
import types

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import discreet
from discreet.datasets import load_visits, write_visits
from discreet.errors import TableError
from discreet.tables import Categorical, Ignored, Numeric, Schema, Target, query, read

duckdb = pytest.importorskip("duckdb")

COLUMNS = {"age": Numeric(18, 100), "ward": Categorical(["medicine", "surgery"])}
SCHEMA = Schema(COLUMNS, Target("readmitted", ["no", "yes"]), unit="patient", extra="ignore")


@pytest.fixture
def database(tmp_path):
    """A DuckDB file with the example table; DuckDB replaces a name by a table of Python."""
    visits = load_visits(300, form="arrow")
    path = tmp_path / "hospital.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("made", visits)
        connection.execute("CREATE TABLE visits AS SELECT * FROM made")
    return path, visits


def test_a_query_reads_what_the_table_holds(database):
    path, visits = database
    found = read(query("SELECT * FROM visits WHERE ward <> 'surgery'", path), SCHEMA)
    kept = visits.filter(pa.compute.not_equal(visits["ward"], "surgery"))
    expected = read(kept, SCHEMA)
    np.testing.assert_array_equal(found.X, expected.X)
    np.testing.assert_array_equal(found.y, expected.y)
    assert path.stat().st_size > 0


def test_a_query_about_files(tmp_path):
    write_visits(tmp_path / "v.csv", 100)
    table = query(f"SELECT age, ward FROM '{tmp_path}/v.csv'").read_all()
    assert table.column_names == ["age", "ward"]
    assert table["age"].to_pylist() == load_visits(100, form="columns")["age"].tolist()


def test_a_failure_shows_no_cell(database):
    path, _ = database
    with pytest.raises(TableError, match="could not be run") as caught:
        query("SELECT CAST(patient AS INTEGER) FROM visits", path).read_all()
    assert "P4" not in str(caught.value)
    with pytest.raises(TableError, match="could not be run"):
        query("SELECT nothing FROM visits", path)
    with pytest.raises(TableError, match="no driver for addresses of 'mysql'"):
        query("SELECT 1", "mysql://host/table")
    with pytest.raises(TableError, match="pip install adbc-driver-snowflake"):
        query("SELECT 1", "snowflake://user@host")


def test_an_address_is_opened_by_its_driver(monkeypatch):
    """The package of the driver is not installed here; a module takes its place."""
    asked = []

    class Cursor:
        def execute(self, sql):
            asked.append(sql)

        def fetch_record_batch(self):
            return pa.table({"age": [1, 2]}).to_reader()

    def connect(address):
        asked.append(address)
        return types.SimpleNamespace(cursor=Cursor)

    made = types.ModuleType("adbc_driver_postgresql.dbapi")
    made.connect = connect
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql", types.ModuleType("driver"))
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql.dbapi", made)
    assert query("SELECT age", "postgresql://host/db").read_all()["age"].to_pylist() == [1, 2]
    assert asked == ["postgresql://host/db", "SELECT age"]


# -- generators of tables


def chunks(n_chunks=4):
    """The example table in parts of pandas, as ``read_sql(chunksize=…)`` yields them."""
    visits = load_visits(200)
    for rows in np.array_split(np.arange(len(visits)), n_chunks):
        yield visits.iloc[rows]


def test_a_generator_is_one_table():
    found = read(chunks(), SCHEMA)
    expected = read(load_visits(200), SCHEMA)
    np.testing.assert_array_equal(found.X, expected.X)
    np.testing.assert_array_equal(found.groups, expected.groups)


def test_a_fit_takes_a_generator_and_pandas_chunks_of_sql():
    with sqlite3.connect(":memory:", check_same_thread=False) as connection:
        plain = load_visits(2000).astype({"ward": str, "readmitted": str})
        plain[["age", "ward", "readmitted"]].to_sql("visits", connection, index=False)
        parts = pd.read_sql("SELECT * FROM visits", connection, chunksize=1000)
        columns = {"ward": ["medicine", "cardiology", "surgery", "neurology"]}
        model = discreet.fit(
            "readmitted", parts, epsilon=1.0, columns=columns, classes=["no", "yes"]
        )
    assert model.predict({"age": [30], "ward": ["surgery"]}).tolist() == ["no"]


def test_a_generator_is_read_once_and_its_tables_are_alike():
    one = discreet.tables.source(chunks())
    read(one, SCHEMA)
    with pytest.raises(TableError, match="can be read once"):
        read(one, SCHEMA)
    with pytest.raises(TableError, match="yields no table"):
        read(iter(()), SCHEMA)
    odd = iter([load_visits(5), load_visits(5).rename(columns={"age": "years"})])
    with pytest.raises(TableError, match="other columns than the first"):
        read(odd, SCHEMA)
    with pytest.raises(TableError, match="has no names of columns"):
        read(iter([3.0]), SCHEMA)


def test_columns_that_are_ignored_are_allowed_to_be_in_chunks():
    columns = COLUMNS | {"sex": Ignored()}
    schema = Schema(columns, extra="ignore")
    assert read(chunks(), schema).X.shape[1] == schema.width


# -- the command


def test_the_command_reads_a_query(database, tmp_path, monkeypatch, capsys):
    from discreet.cli.app import run

    monkeypatch.chdir(tmp_path)
    asked = ["--sql", "SELECT patient, age, ward, readmitted FROM visits"]
    drafted = ["schema", "draft", "hospital.duckdb", *asked, "--epsilon", "20", "--header"]
    assert run([*drafted, "--target", "readmitted", "--unit", "patient", "-o", "v.toml"]) == 0
    fitted = ["fit", "hospital.duckdb", *asked, "--schema", "v.toml", "--epsilon", "5"]
    assert run([*fitted, "--delta", "1e-6", "-o", "v.json"]) == 0
    assert run(["predict", "v.json", "hospital.duckdb", *asked, "-o", "p.csv"]) == 0
    assert run(["evaluate", "v.json", "hospital.duckdb", *asked, "--epsilon", "5"]) == 0
    assert len((tmp_path / "p.csv").read_text().splitlines()) == database[1].num_rows + 1
    capsys.readouterr()
    assert run(["predict", "v.json", "a", "b", *asked]) == 2
    assert "--sql needs one FILE" in capsys.readouterr().err
