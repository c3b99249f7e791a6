"""Blocks of records that Spark hands to a worker; no Spark is needed to make one."""

import pickle
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from discreet.engines import spark as engine_module
from discreet.engines.blocks import Held
from discreet.tables import Numeric, Schema, Target
from discreet.tables.encoder import Encoder

N = 500
SCHEMA = Schema({"age": Numeric(0, 100)}, Target("paid", ["no", "yes"]), unit="person")


@pytest.fixture
def records():
    rng = np.random.default_rng(0)
    paid = rng.choice(["no", "yes"], N)
    return pd.DataFrame({"age": rng.uniform(0, 100, N), "paid": paid, "person": np.arange(N)})


def made(records, labels=True):
    """Make a block of two batches."""
    parts = (records[:200], records[200:])
    batches = [pa.RecordBatch.from_pandas(part, preserve_index=False) for part in parts]
    return engine_module._block(3, b"key", Encoder(SCHEMA, False, "float32"), labels, batches)


def test_a_block_can_be_stored_as_a_cell(records):
    held = made(records)
    cell = engine_module._cell(held)
    again = pickle.loads(cell.column(0)[0].as_buffer())
    assert isinstance(again, Held)
    assert (again.id, again.mark, len(again.content.y)) == (3, held.mark, N)


def test_a_block_is_what_schema_open_makes_of_the_same_records(records):
    whole = SCHEMA.open(records)
    block = made(records).content
    np.testing.assert_array_equal(block.X, whole.X)
    np.testing.assert_array_equal(block.y, whole.y)
    np.testing.assert_array_equal(block.units.codes, whole.groups)
    codes = made(records, labels=False).content.y
    np.testing.assert_array_equal(np.array(SCHEMA.target.labels)[codes], whole.y)


def test_columns_that_a_frame_lacks_are_named_before_anything_is_read():
    frame = SimpleNamespace(columns=["age", "person"])
    with pytest.raises(ValueError, match="no column 'paid'"):
        engine_module.open(frame, SCHEMA)
