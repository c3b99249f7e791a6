"""Rows, targets and ids of one batch: each row has its own, and lengths are compared."""

import numpy as np
import pytest

from discreet.errors import TableError
from discreet.tables.columns import Categorical, Numeric
from discreet.tables.schema import Schema, Target

pa = pytest.importorskip("pyarrow")

from discreet.tables.alignment import IdCodes, check_aligned, encoded  # noqa: E402
from discreet.tables.encoder import Encoder  # noqa: E402
from discreet.tables.reader import BlockReader  # noqa: E402

SCHEMA = Schema(
    {"age": Numeric(0, 100), "city": Categorical(["a", "b", "c"], unseen="other")},
    Target("paid", ["no", "yes"]),
    unit="id",
)
N = 40


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "id": rng.integers(0, 15, N),
            "paid": rng.choice(["no", "yes"], N),
            "city": rng.choice(["a", "b", "c", "d"], N),
            "age": rng.uniform(0, 100, N),
            "note": [f"n{k}" for k in range(N)],
        }
    )


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("labels", [False, True])
def test_a_row_has_the_features_target_and_id_of_its_record(table, sparse, labels):
    encoder = Encoder(SCHEMA, sparse)
    ids = IdCodes("id", ())
    batch = table.combine_chunks().to_batches()[0]
    made = encoded(batch, encoder, target=True, labels=labels, ids=ids, extra=["note"])
    X = made.X.toarray() if sparse else made.X
    for row, record in enumerate(table.to_pylist()):
        assert X[row, 0] == np.float32(record["age"] / 100)
        city = np.flatnonzero(X[row, 1:])
        assert city.tolist() == ["abcd".index(record["city"])]
        expected = record["paid"] if labels else ["no", "yes"].index(record["paid"])
        assert made.y[row] == expected
        assert ids.values[made.groups[row]] == record["id"]
        assert made.extra["note"][row].as_py() == record["note"]
    assert ids.count == len(set(table["id"].to_pylist()))


def test_blocks_are_joined_in_their_order(table, monkeypatch):
    monkeypatch.setattr("discreet.tables.parts.MOST_ROWS", 7)
    monkeypatch.setattr("discreet.tables.parts.FEWEST_ROWS", 7)
    blocks = BlockReader(table.drop_columns(["note"]), SCHEMA, True, unit=True, labels=True)
    X, y, groups = blocks.joined(1 << 30)
    np.testing.assert_array_equal(X[:, 0], (table["age"].to_numpy() / 100).astype(np.float32))
    assert y.tolist() == table["paid"].to_pylist()
    assert [blocks.ids.values[code] for code in groups] == table["id"].to_pylist()


class Shorter(Encoder):
    """An encoder that loses a row, or a target."""

    lost = ""

    def encode(self, batch, out=None):
        found = super().encode(batch, out)
        return found[1:] if self.lost == "row" else found

    def encode_target(self, cells):
        found = super().encode_target(cells)
        return found[1:] if self.lost == "target" else found


class FewerIds(IdCodes):
    """Codes that lose an id."""

    def codes(self, cells):
        return super().codes(cells)[1:]


@pytest.mark.parametrize("lost", ["row", "target", "id"])
def test_results_of_another_length_are_refused(table, lost):
    encoder = Shorter(SCHEMA)
    encoder.lost = lost
    ids = (FewerIds if lost == "id" else IdCodes)("id", ())
    batch = table.combine_chunks().to_batches()[0]
    with pytest.raises(TableError, match="do not belong together"):
        encoded(batch, encoder, target=True, ids=ids)


def test_lengths_are_compared():
    check_aligned(3, np.zeros((3, 2)), np.zeros(3), None)
    for lengths in ((2, 3), (3, 2)):
        with pytest.raises(TableError, match="do not belong together"):
            check_aligned(3, np.zeros((lengths[0], 2)), None, np.zeros(lengths[1]))
