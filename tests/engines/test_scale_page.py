"""The code of docs/scale.md runs as it stands on the page."""

import re
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from discreet.engines import dask as dask_engine
from discreet.engines import spark as spark_engine

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"
TEXT = PAGE.read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
FILES, ROWS = 6, 200

SCHEMA = """version = 1
unit = "patient"

[target]
column = "readmitted"
classes = { no = ["no"], yes = ["yes"] }

[columns]
age = { kind = "numeric", low = 0, high = 100 }
visits = { kind = "numeric", low = 0, high = 20 }
cost = { kind = "numeric", low = 0, high = 1000 }
note = { kind = "ignored" }
"""


def block(part):
    """Return the one block of code that contains a text."""
    (found,) = [code for code in BLOCKS if part in code]
    return found


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Work in a folder with the files of the page; Dask joins parts of few narrow columns."""
    rng = np.random.default_rng(0)
    (tmp_path / "visits").mkdir()
    for k in range(FILES):
        age = rng.uniform(0, 100, ROWS)
        table = {
            "age": age,
            "visits": rng.integers(0, 20, ROWS).astype(float),
            "cost": rng.uniform(0, 1000, ROWS),
            "readmitted": np.where(age + rng.normal(0, 9, ROWS) > 50, "yes", "no"),
            "patient": rng.integers(0, 500, ROWS),
            "note": [f"{number:.200f}" for number in rng.uniform(size=ROWS)],
        }
        pd.DataFrame(table).to_parquet(tmp_path / "visits" / f"{k}.parquet", index=False)
    (tmp_path / "visits.toml").write_text(SCHEMA)
    monkeypatch.chdir(tmp_path)
    return tmp_path


ADDRESS = "tcp://scheduler:8786"


def run(*parts, address=ADDRESS, **names):
    """Run blocks of the page one after another; return the names that they leave."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part in parts:
            code = block(part).replace(ADDRESS, address)
            exec(compile(code, str(PAGE), "exec"), names)
    return names


def test_every_block_is_run_or_needs_a_cluster():
    assert len(BLOCKS) == 4
    for part in ('read_parquet("visits/")\n', "Client(", "dask.open(", "spark.open("):
        compile(block(part), str(PAGE), "exec")
    assert not re.findall(r"^    \S", TEXT, re.MULTILINE)  # no code outside of these


def test_dask(folder):
    names = run("import dask.dataframe")
    assert isinstance(names["labels"], da.Array)
    labels = names["labels"].compute()
    assert labels.shape == (FILES * ROWS,)
    assert set(labels) <= {"no", "yes"}
    assert names["model"].size_ == FILES * ROWS


def test_a_schema_on_dask(folder):
    names = run("import dask.dataframe", "dask.open(")
    assert names["model"].guarantee_.n_units == len(_people())
    whole = names["schema"].open("visits/*.parquet")
    assert whole.X.shape == (FILES * ROWS, 3)
    names["model"].fit(*whole)  # the same classes fit both


def _people():
    return pd.read_parquet("visits", columns=["patient"])["patient"].unique()


def test_spark_with_an_engine_in_its_place(folder, monkeypatch):
    """Names and arguments are right; Spark itself is below."""
    monkeypatch.setattr(spark_engine, "open", dask_engine.open)
    session = SimpleNamespace(read=SimpleNamespace(parquet=str))
    names = run("import dask.dataframe", "spark.open(", session=session)
    assert names["model"].guarantee_.n_units == len(_people())


@pytest.mark.spark
def test_spark(folder, monkeypatch):
    sql = pytest.importorskip("pyspark.sql")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    builder = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.getOrCreate()
    try:
        names = run("import dask.dataframe", "spark.open(", session=session)
    finally:
        session.stop()
    assert names["model"].guarantee_.n_units == len(_people())


@pytest.mark.process
def test_dask_on_a_cluster(folder):
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**settings) as cluster:
        address = cluster.scheduler_address
        names = run("Client(", "import dask.dataframe", "dask.open(", address=address)
        with names["client"]:
            assert names["labels"].compute().shape == (FILES * ROWS,)
            assert names["model"].guarantee_.n_units == len(_people())
