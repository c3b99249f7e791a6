"""People whose rows are in several blocks on workers: each counts once."""

import datetime
import warnings
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet import Budget, Ledger, LinearRegression, LogisticRegression, PrivacyError
from discreet.engines import dask as engine_module
from discreet.engines import open_table
from discreet.engines.blocks import Held, count_rows
from discreet.engines.table import Totals, UnitsOfBlock, sizes_of, weighed
from discreet.errors import NotSupported
from discreet.rows.partitions import Block
from discreet.tables import Numeric, Schema, Target

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

N, D = 2400, 3
NAMES = ["a", "b", "c"]
KEY = bytes(32)
NOON = np.array(["2020-01-05T12", "2020-07-05T12"], dtype="datetime64[ns]")
UTC = datetime.UTC
ZONE = datetime.timezone(datetime.timedelta(hours=-5))


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D))
    y = (X @ [1.0, -1.0, 0.5] + rng.logistic(size=N) > 0).astype(int)
    ids = rng.integers(0, 500, N)
    ids[rng.choice(N, 300, replace=False)] = 7  # one person in every block
    return X, y, ids


def model(**settings):
    return LogisticRegression(**({"delta": 1e-6, "classes": [0, 1], "random_state": 0} | settings))


def fit(X, y, groups=None, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model(**settings).fit(X, y, groups=groups)


def in_blocks(*arrays, size=500):
    return [da.from_array(array, chunks=(size, *array.shape[1:])) for array in arrays]


def frame_of(data, ids):
    X, y, _ = data
    table = pd.DataFrame(X, columns=NAMES).assign(y=y, person=ids)
    return dd.from_pandas(table, npartitions=5)


class TestAgreement:
    @pytest.mark.parametrize("solver", ["auto", "gd", "agd"])
    def test_arrays(self, data, solver):
        alone = fit(*data, solver=solver)
        found = fit(*in_blocks(*data), solver=solver)
        np.testing.assert_allclose(found.coef_, alone.coef_, rtol=1e-9)
        assert found.guarantee_.n_units == alone.guarantee_.n_units < N
        assert "one person with all of their rows" in str(found.guarantee_)
        assert found.size_ == alone.size_

    def test_large_tables(self):
        """Those of rows are prepared by a sample; people are not sampled."""
        rng = np.random.default_rng(1)
        X, ids = rng.normal(size=(60_000, D)), np.arange(60_000) % 50_000
        data = X, (X[:, 0] + rng.logistic(size=len(X)) > 0).astype(int), ids
        alone = fit(*data, epsilon=30.0, inference=False)
        found = fit(*in_blocks(*data, size=20_000), epsilon=30.0)
        np.testing.assert_allclose(found.coef_, alone.coef_, rtol=1e-9)

    def test_standard_errors_need_all_rows_of_a_person_in_one_place(self):
        rng = np.random.default_rng(1)
        X, ids = rng.normal(size=(60_000, D)), np.arange(60_000) % 50_000
        data = X, (X[:, 0] + rng.logistic(size=len(X)) > 0).astype(int), ids
        assert fit(*data, epsilon=30.0).covariances_
        blocks = in_blocks(*data, size=20_000)
        assert not fit(*blocks, epsilon=30.0).covariances_
        ledger = Ledger().create("people", limit=Budget(100.0, 1e-5, "add_remove"), unit="person")
        with pytest.raises(NotSupported, match=r"all rows of a person in one place.*inference=Fal"):
            fit(*blocks, epsilon=30.0, inference=True, ledger=ledger)
        assert ledger.spent == 0.0

    @pytest.mark.parametrize("make", [str, float, lambda id: f"p{id}"], ids=["text", "float", "p"])
    def test_frames_and_kinds_of_ids(self, data, make):
        X, y, ids = data
        frame = frame_of(data, [make(id) for id in ids])
        found = fit(frame[NAMES], frame["y"], frame["person"])
        np.testing.assert_allclose(found.coef_, fit(X, y, ids).coef_, rtol=1e-9)

    def test_regression(self, data):
        X, _, ids = data
        settings = {"delta": 1e-6, "target_bounds": (-5, 5), "random_state": 0}
        alone = LinearRegression(1.0, **settings).fit(X, X[:, 0], groups=ids)
        X, y, ids = in_blocks(X, X[:, 0], ids)
        found = LinearRegression(1.0, **settings).fit(X, y, groups=ids)
        np.testing.assert_allclose(found.coef_, alone.coef_, rtol=1e-9)

    def test_files_by_a_schema(self, data, tmp_path):
        X, y, ids = data
        labels = np.where(y, "yes", "no")
        for k in range(4):
            columns = {name: X[k::4, j] for j, name in enumerate(NAMES)}
            table = pa.table(columns | {"y": labels[k::4], "person": ids[k::4]})
            pq.write_table(table, tmp_path / f"{k}.parquet")
        target = Target("y", classes=["no", "yes"])
        schema = Schema({name: Numeric(-4, 4) for name in NAMES}, target, unit="person")
        blocks, targets, groups = engine_module.open(tmp_path, schema)
        found = fit(blocks, targets, groups, classes=["no", "yes"])
        alone = fit(*schema.open(tmp_path), classes=["no", "yes"])
        np.testing.assert_allclose(found.coef_, alone.coef_, rtol=1e-9)
        with pytest.raises(TypeError, match="third that was opened"):
            fit(blocks, targets)
        plain = replace(schema, unit=None, extra="ignore")
        plain, targets, none = engine_module.open(tmp_path, plain)
        assert none is None
        with pytest.raises(TypeError, match="third that was opened"):
            fit(plain, targets, groups)


class TestWeights:
    def test_the_rows_of_a_person_in_all_blocks_weigh_one(self, data):
        table = open_table(*in_blocks(*data))
        weights = np.concatenate([w for _, w in table.engine.map(_weights, table.parts)])
        totals = np.bincount(data[2], weights)
        assert table.shape[0] == len(np.unique(data[2]))
        np.testing.assert_allclose(totals[totals > 0], 1.0, rtol=1e-9)

    def test_sizes_are_added_up_over_blocks(self):
        blocks = [block_of(["u", "v", "u"]), block_of(["w", "u"])]
        totals = Totals.of(sizes_of("t", block) for block in blocks)
        assert totals.count == 3
        assert totals.rows.tolist() == [3]
        assert [weighed(totals, block).weights.tolist() for block in blocks] == [
            [1 / 3, 1, 1 / 3],
            [1, 1 / 3],
        ]

    def test_ids_are_compared_by_value_within_a_kind(self):
        of = lambda *ids: UnitsOfBlock.of(list(ids), len(ids), KEY).hashes  # noqa: E731
        np.testing.assert_array_equal(of(1, 10**20), of(1.0, 10**20))
        assert of(1) == of(True) == of(np.int8(1)) == of(Decimal(1))
        assert len(np.unique(of(1, 1.5, 2**53, 2**53 + 1))) == 4
        assert of("a") != UnitsOfBlock.of(["a"], 1, bytes(31) + b"1").hashes

    @pytest.mark.parametrize(
        "ways",
        [
            (["1", "x"], ["1.0", "x "], [" 01", "x"]),
            (pd.Series(["1", "x"]), np.array(["1e0", "x"]), pd.Series(["1.", "x"], dtype=object)),
            (NOON.astype("M8[us]"), NOON, pd.Series(NOON), NOON.astype("M8[s]").tolist()),
            (
                pd.Series(NOON).dt.tz_localize("UTC"),
                pd.Series(NOON).dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"),
                [at.replace(tzinfo=UTC).astimezone(ZONE) for at in NOON.astype("M8[us]").tolist()],
            ),
        ],
        ids=["texts", "arrays of texts", "precisions", "zones"],
    )
    def test_ids_that_are_written_differently_in_blocks_are_one_person(self, ways):
        blocks = [block_of(ids) for ids in ways]
        totals = Totals.of(sizes_of("t", block) for block in blocks)
        assert totals.count == 2
        assert totals.rows.tolist() == [len(ways)] * 2
        for block in blocks:
            assert weighed(totals, block).weights.tolist() == [1 / len(ways)] * 2

    def test_one_person_of_a_csv_file_with_two_texts(self, tmp_path):
        """Pandas writes 1 as 1.0 as soon as one id is missing, in one file and not in another."""
        (tmp_path / "0.csv").write_text("a,y,person\n0.1,no,1\n0.2,yes,2\n")
        (tmp_path / "1.csv").write_text("a,y,person\n0.3,no,1.0\n0.4,yes,3.0\n")
        target = Target("y", classes=["no", "yes"])
        schema = Schema({"a": Numeric(0, 1)}, target, unit="person")
        table, _, _ = engine_module.open(tmp_path, schema)
        table = table.by_units()
        assert table.shape[0] == 3
        weights = [w.tolist() for _, w in sorted(table.engine.map(_weights, table.parts))]
        assert weights == [[0.5, 1.0], [0.5, 1.0]]


def _weights(block):
    return block.weights


def block_of(ids, id=0):
    n = len(ids)
    units = UnitsOfBlock.of(list(ids) if isinstance(ids, str) else ids, n, KEY)
    return Block(id, np.zeros((n, 1)), np.zeros(n), units=units)


class TestFaults:
    """A person whose rows in one block were overlooked would weigh more than 1."""

    @pytest.mark.parametrize("fault", ["missing", "twice", "stale"])
    def test_each_block_tells_its_sizes_once(self, data, monkeypatch, fault):
        honest = engine_module.DaskEngine.map

        def faulty(self, task, parts):
            found = honest(self, task, parts)
            if fault == "missing":
                return found[:-1]
            if fault == "twice":
                return [*found, found[0]]
            (id, sizes), *rest = found
            return [(id, sizes._replace(ticket="earlier")), *rest]

        monkeypatch.setattr(engine_module.DaskEngine, "map", faulty)
        with pytest.raises(PrivacyError):
            open_table(*in_blocks(*data))

    def test_a_block_that_is_read_again_must_have_the_same_people(self):
        first, other = (Held.read(0, KEY, lambda ids=ids: block_of(ids)) for ids in ("ab", "aa"))
        assert first.answer(count_rows).mark != other.answer(count_rows).mark

    def test_ids_that_differ_only_in_type(self):
        with pytest.raises(ValueError, match="mixes kinds of ids"):
            Totals.of(sizes_of("t", block_of([id])) for id in (1, "1"))
        with pytest.raises(ValueError, match="mixes kinds of ids"):
            block_of([1, "1"])
        zoned = pd.Series(NOON).dt.tz_localize("UTC")
        with pytest.raises(ValueError, match="with and without a time zone"):
            Totals.of(sizes_of("t", block_of(ids)) for ids in (NOON, zoned))

    def test_bad_groups_are_refused(self, data):
        X, y, ids = data
        missing = ids.astype(float)
        missing[3] = np.nan
        with pytest.raises(ValueError, match="missing ids"):
            fit(*in_blocks(X, y, missing))
        with pytest.raises(ValueError, match="X and groups must have the same rows"):
            fit(*in_blocks(X, y, ids[1:]))
        frame = frame_of(data, ids)
        with pytest.raises(TypeError, match="groups must be a Dask array"):
            fit(frame[NAMES], frame["y"], ids)
        with pytest.raises(ValueError, match="single person"):
            fit(*in_blocks(X, y, np.zeros(N)))
        with pytest.raises(ValueError, match="numbers, texts or dates"):
            block_of([(1, 2)])

    def test_what_workers_cannot_do_is_refused(self, data):
        blocks = in_blocks(*data)
        with pytest.raises(NotSupported, match="one row of each person"):
            fit(*blocks, solver="objpert", data_norm=3.0)
        with pytest.raises(NotSupported, match="rows_per_unit"):
            fit(*blocks, rows_per_unit=2)
        with pytest.raises(NotSupported, match="sample_weight"):
            model().fit(*blocks[:2], sample_weight=np.ones(N))
