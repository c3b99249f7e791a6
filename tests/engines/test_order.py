"""Sources without a fixed order: X, y and groups of a block must come from one reading."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest

from discreet import LogisticRegression, PrivacyError
from discreet.engines import dask as engine_module
from discreet.engines import open_table
from discreet.tables import Numeric, Schema, Target

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

MANY = 400  # rows of one person, and number of the other people, who have one row each
COLUMNS = ["own", "row"]
PARTS = 3


def table():
    """Return rows of which one person has half: ``own`` is 1 there, and 0 in all others."""
    person = np.r_[np.zeros(MANY, int), np.arange(1, MANY + 1)]
    own = (person == 0).astype(float)
    row = np.arange(2.0 * MANY)
    order = np.random.default_rng(0).permutation(2 * MANY)  # in every part, some of the rows
    return pd.DataFrame({"own": own, "row": row, "y": row % 7, "person": person}).iloc[order]


class Unordered:
    """A query without ORDER BY: each call gives the rows of a part in another order."""

    def __init__(self):
        self.calls, self.seeds = [], itertools.count()

    def __call__(self, part):
        self.calls.append(part)
        rows = table()[part::PARTS]
        order = np.random.default_rng(next(self.seeds)).permutation(len(rows))
        return rows.iloc[order].reset_index(drop=True)

    def __dask_tokenize__(self):
        return f"unordered-{id(self)}"

    @property
    def frame(self):
        return dd.from_map(self, range(PARTS), meta=table()[:0])

    @property
    def array(self):
        made = dask.delayed(self, pure=True)
        sizes = [len(table()[part::PARTS]) for part in range(PARTS)]
        parts = [
            da.from_delayed(made(part).to_numpy(), (size, 4), dtype=float)
            for part, size in enumerate(sizes)
        ]
        return da.concatenate(parts)


@pytest.fixture
def source():
    return Unordered()


def checked(found):
    """Return Σ w·own, after a check that the cells of each row are of one row of the source."""
    total = 0.0
    for _, block in found.engine.map(_block, found.parts):
        np.testing.assert_array_equal(block.X[:, 1] % 7, block.y)
        total += block.weights @ block.X[:, 0]
    return total


def _block(block):
    return block


class TestOneReading:
    def check(self, source, X, y, groups):
        found = open_table(X, y, groups)
        assert found.shape[0] == MANY + 1
        assert sorted(source.calls) == list(range(PARTS))  # each part once
        assert checked(found) == pytest.approx(1.0, rel=1e-6)  # this person's share of the sum

    def test_frame(self, source):
        frame = source.frame
        self.check(source, frame[COLUMNS], frame["y"], frame["person"])

    def test_frame_with_steps_in_between(self, source):
        frame = source.frame
        frame = frame[frame["row"] >= 0].assign(y=frame["y"] + 0)
        self.check(source, frame[COLUMNS].astype("float32"), frame[["y"]], frame["person"] + 1)

    def test_array(self, source):
        rows = source.array
        self.check(source, rows[:, :2], rows[:, 2], rows[:, 3])

    def test_array_in_several_column_chunks(self, source):
        rows = source.array.rechunk({1: 1})
        self.check(source, rows[:, :2], rows[:, 2], rows[:, 3])

    def test_only_the_columns_that_are_needed_are_read(self, source):
        asked = []

        def read(part, columns=None):
            asked.append(columns)
            return source(part)[columns]

        frame = dd.from_map(read, range(PARTS), meta=table()[:0].assign(wide=""))
        self.check(source, frame[COLUMNS], frame["y"], frame["person"])
        assert [set(columns) for columns in asked] == [{*COLUMNS, "y", "person"}] * PARTS

    def test_an_optimiser_that_reads_twice_is_not_used(self, source, monkeypatch):
        """Dask might read X and y apart when it optimises them: then tasks stay as they are."""
        frame = source.frame
        real = type(frame).map_partitions
        other = Unordered().frame["y"]
        monkeypatch.setattr(
            type(frame),
            "map_partitions",
            lambda self, make, y, groups, **form: real(self, make, other, groups, **form),
        )
        self.check(source, frame[COLUMNS], frame["y"], frame["person"])


class TestSeveralReadings:
    """X, y and groups that are read apart: the order must be fixed, as a second reading shows."""

    def apart(self, source):
        frame = source.frame
        return (frame[COLUMNS], frame["y"], frame["person"]), (
            frame[COLUMNS].to_dask_array(),
            frame["y"].to_dask_array(),
            frame["person"].to_dask_array(),
        )

    def test_another_order_is_refused_before_a_question(self, source):
        _, arrays = self.apart(source)
        with pytest.raises(PrivacyError, match="Take X, y and groups from one dataframe"):
            open_table(*arrays)

    def test_a_target_of_this_process_does_not_follow_an_unordered_table(self, source):
        with pytest.raises(PrivacyError, match="from one dataframe"):
            open_table(source.array[:, :2], table()["y"].to_numpy())

    def test_two_frames(self, source):
        with pytest.raises(PrivacyError, match="from one dataframe"):
            open_table(source.frame[COLUMNS], Unordered().frame["y"])

    def test_a_fixed_order_is_accepted(self, monkeypatch):
        monkeypatch.setattr(Unordered, "__call__", lambda self, part: table()[part::PARTS])
        source = Unordered()
        for X, y, groups in self.apart(source):
            assert checked(open_table(X, y, groups)) == pytest.approx(1.0, rel=1e-6)
        found = open_table(source.frame[COLUMNS], Unordered().frame["y"], source.frame["person"])
        assert checked(found) == pytest.approx(1.0, rel=1e-6)

    def test_arrays_of_this_process_are_read_once(self, monkeypatch):
        seen = []
        real = engine_module._read
        monkeypatch.setattr(engine_module, "_read", lambda *of: seen.append(of[0]) or real(*of))
        rows = table()
        open_table(da.from_array(rows[COLUMNS].to_numpy(), chunks=(300, 2)), rows["y"].to_numpy())
        assert sorted(seen) == [0, 1, 2]


def test_a_fit_of_an_unordered_source_is_that_of_its_rows(source):
    """The person moves the model no more than another one does."""
    frame = source.frame.assign(label=source.frame["row"] % 2)
    settings = {"classes": [0, 1], "random_state": 0, "solver": "gd", "delta": 1e-6}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = LogisticRegression(**settings).fit(
            frame[COLUMNS], frame["label"], groups=frame["person"]
        )
        rows = table()
        alone = LogisticRegression(**settings).fit(
            rows[COLUMNS], rows["row"] % 2, groups=rows["person"]
        )
    np.testing.assert_allclose(found.coef_, alone.coef_, rtol=1e-6)


def test_a_schema_reads_each_part_once(source):
    schema = Schema(
        {"own": Numeric(0, 1), "row": Numeric(0, 1000)},
        Target("y", low=0, high=7),
        unit="person",
    )
    engine_module.open(source.frame, schema)
    assert sorted(source.calls) == list(range(PARTS))
