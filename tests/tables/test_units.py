"""The unit of a schema: whose row each row is, and never a feature."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from discreet import Ledger
from discreet.core import Budget
from discreet.errors import PrivacyError, PrivacyLeakWarning, TableError
from discreet.tables import (
    Categorical,
    FileFormat,
    Ignored,
    Numeric,
    Schema,
    Target,
    draft,
    draft_private,
)
from discreet.tables.alignment import IdCodes, OneRowEach
from discreet.tables.reader import read

COLUMNS = {"age": Numeric(0, 100), "note": Ignored()}
SCHEMA = Schema(COLUMNS, Target("paid", ["no", "yes"]), unit="id")
TEXT = "age,id,note,paid\n1,b,,no\n2,a,,yes\n3, b ,,no\n4,c,,yes\n"


def write(path: Path, text: str = TEXT) -> Path:
    path.write_text(text)
    return path


def test_the_unit_is_read_but_no_feature(tmp_path: Path) -> None:
    X, y, groups = SCHEMA.open(write(tmp_path / "t.csv"))
    assert X.shape == (4, 1)
    assert y.tolist() == ["no", "yes", "no", "yes"]
    assert groups.dtype == np.int32
    assert groups.tolist() == [0, 1, 0, 2]  # spaces around a text do not count
    assert "id" not in " ".join(SCHEMA.feature_names)
    assert Schema({"age": Numeric(0, 1)}).open({"age": [1.0]}).groups is None
    assert read(tmp_path / "t.csv", SCHEMA).groups.tolist() == [0, 1, 0, 2]


def test_a_unit_may_lie_in_several_blocks_and_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 5_000, 200_000)  # several blocks of each file
    paid = rng.choice(["no", "yes"], ids.size)
    table = pa.table({"age": np.ones(ids.size), "id": ids, "note": paid, "paid": paid})
    for part, start in enumerate((0, 120_000)):
        pq.write_table(table.slice(start, 120_000), tmp_path / f"{part}.parquet")
    for memory in (None, 0):
        groups = SCHEMA.open(tmp_path, memory=memory, folder=tmp_path.parent).groups
        assert groups.max() + 1 == np.unique(ids).size
        _, first = np.unique(groups, return_index=True)
        np.testing.assert_array_equal(ids[first][groups], ids)  # a one-to-one map


@pytest.mark.parametrize(
    "values",
    [
        pa.array([7, 8, 7], pa.int8()),
        pa.array([7.0, 8.0, 7.0]),
        pa.array(["x", "y", "x"], pa.large_string()),
        pa.array(["x", "y", "x"]).dictionary_encode(),
        pa.array([True, False, True]),
        pa.array([1, 2, 1], pa.date32()),
        pa.array([1, 2, 1], pa.timestamp("ns")),
    ],
    ids=str,
)
def test_ids_of_any_type(values: pa.Array, tmp_path: Path) -> None:
    table = pa.table({"age": [1.0, 2.0, 3.0], "id": values, "paid": ["no", "yes", "no"]})
    schema = Schema({"age": Numeric(0, 9)}, SCHEMA.target, unit="id")
    assert schema.open(table).groups.tolist() == [0, 1, 0]
    feather.write_feather(table, tmp_path / "t.feather")
    assert schema.open(tmp_path / "t.feather").groups.tolist() == [0, 1, 0]


def test_numbers_of_different_width_are_one_id_and_texts_beside_numbers_are_refused(
    tmp_path: Path,
) -> None:
    codes = IdCodes("id", ())
    assert codes.codes(pa.array([3, 4], pa.int64())).tolist() == [0, 1]
    assert codes.codes(pa.array([4.0, 3.0, 5.0])).tolist() == [1, 0, 2]
    rows = {"age": [1.0, 2.0], "paid": ["no", "yes"]}
    schema = Schema({"age": Numeric(0, 9)}, SCHEMA.target, unit="id")
    pq.write_table(pa.table({**rows, "id": [1, 2]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({**rows, "id": ["1", "2"]}), tmp_path / "b.parquet")
    with pytest.raises(TableError, match="'id' holds texts here, but numbers"):
        schema.open(tmp_path)


def test_texts_of_one_number_are_one_id(tmp_path: Path) -> None:
    """Within a file, in several files, and in passes of a draft."""
    schema = Schema({"age": Numeric(0, 9)}, SCHEMA.target, unit="id")
    path = write(tmp_path / "0.csv", "age,id,paid\n1,1,no\n2,2,yes\n3,1.0,no\n")
    assert schema.open(path).groups.tolist() == [0, 1, 0]
    write(tmp_path / "1.csv", "age,id,paid\n4,2.0,no\n5,01,yes\n6, 1 ,no\n7,x1,no\n")
    assert schema.open(tmp_path).groups.tolist() == [0, 1, 0, 1, 0, 0, 2]
    each = OneRowEach(IdCodes("id", ()))
    each.choose([pa.array(["1", "2"]), pa.array(["1.0", "3"])], Bits(0))
    assert each.count == 3


@pytest.mark.parametrize(
    "kinds",
    [
        [pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("s")],
        [pa.timestamp("us", "UTC"), pa.timestamp("ns", "Asia/Tokyo"), pa.timestamp("ms", "-05:00")],
        [pa.timestamp("us"), pa.date32(), pa.date64()],
    ],
    ids=["precisions", "zones", "dates"],
)
def test_equal_instants_of_several_types_are_one_id(kinds: list[pa.DataType]) -> None:
    codes = IdCodes("id", ())
    days = pa.array([18_000, 18_001], pa.date32())
    for kind in kinds:
        cells = days.cast(pa.timestamp("ns")) if pa.types.is_timestamp(kind) else days
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            cells = cells.cast(pa.timestamp("ns", kind.tz))
        assert codes.codes(cells.cast(kind)).tolist() == [0, 1]


def test_times_with_and_without_a_zone_are_refused(tmp_path: Path) -> None:
    schema = Schema({"age": Numeric(0, 9)}, SCHEMA.target, unit="id")
    for name, kind in (("a", pa.timestamp("us")), ("b", pa.timestamp("us", "UTC"))):
        ids = pa.array([10**15, 10**15 + 1], kind)
        table = pa.table({"age": [1.0, 2.0], "paid": ["no", "yes"], "id": ids})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    with pytest.raises(TableError, match=r"column 'id': .*with and without a time zone") as caught:
        schema.open(tmp_path)
    assert "2001" not in str(caught.value)


SECRET = "81726354"


@pytest.mark.parametrize("missing", ["", "?", "-1", "nan"])
def test_missing_ids_are_refused_without_a_cell(tmp_path: Path, missing: str) -> None:
    text = f"age,id,note,paid\n1,{SECRET},,no\n2,{missing},,yes\n"
    schema = Schema(COLUMNS, SCHEMA.target, FileFormat(missing=("", "?", "-1", "nan")), unit="id")
    path = write(tmp_path / "visits.csv", text)
    with pytest.raises(TableError, match=r"visits\.csv: column 'id': an id is missing") as error:
        schema.open(path)
    assert SECRET not in str(error.value)
    for values in ([1.0, None], [1.0, np.nan], [1.0, -1.0], [1, -1], [None, None]):
        with pytest.raises(TableError, match="an id is missing"):
            schema.open({"age": [1.0, 2.0], "note": [1, 2], "id": values, "paid": ["no", "yes"]})


def test_a_table_to_predict_needs_no_unit(tmp_path: Path) -> None:
    path = tmp_path / "new.csv.gz"
    path.write_bytes(gzip.compress(b"age,note\n1,x\n2,y\n"))
    (block,) = SCHEMA.batches(path)
    assert block.X.shape == (2, 1)
    assert block.groups is None
    assert read(path, SCHEMA, target=False).groups is None
    assert SCHEMA.transformer().fit_transform({"age": [1], "note": [2]}).shape == (1, 1)
    with pytest.raises(TableError, match="lacks columns of the schema: 'paid', 'id'"):
        SCHEMA.open(path)
    (block,) = SCHEMA.batches(write(tmp_path / "t.csv"), extra=["id"])
    assert block.extra["id"].to_pylist() == ["b", "a", " b ", "c"]


@pytest.mark.parametrize(
    ("columns", "target", "unit", "problem"),
    [
        (COLUMNS, SCHEMA.target, "age", "'age' .* is also a column"),
        (COLUMNS, SCHEMA.target, "note", "'note' .* is also a column"),
        (COLUMNS, SCHEMA.target, "paid", "'paid' .* is also the target"),
        (COLUMNS, SCHEMA.target, 3, "unit must be a text"),
    ],
)
def test_a_unit_is_nothing_else(columns, target, unit, problem) -> None:
    with pytest.raises(ValueError, match=problem):
        Schema(columns, target, unit=unit)
    plain = Schema(columns, target).to_dict() | {"unit": unit}
    with pytest.raises(TableError, match=problem):
        Schema.from_dict(plain)


def test_files_without_a_header_name_all_columns(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"list all names in \[file\]"):
        Schema(COLUMNS, SCHEMA.target, FileFormat(header=False), unit="id")
    names = ("id", "age", "note", "paid")
    schema = Schema(COLUMNS, SCHEMA.target, FileFormat(header=False, names=names), unit="id")
    found = schema.open(write(tmp_path / "t.csv", "u,1,,no\nv,2,,yes\nu,3,,no\n"))
    assert found.groups.tolist() == [0, 1, 0]
    assert found.X[:, 0].tolist() == pytest.approx([0.01, 0.02, 0.03])


def test_schema_files_keep_the_unit(tmp_path: Path) -> None:
    text = SCHEMA.to_toml()
    assert 'version = 1\nunit = "id"\n' in text
    assert Schema.from_toml(text) == SCHEMA
    assert Schema.from_dict(SCHEMA.to_dict()) == SCHEMA


def test_a_column_becomes_the_unit() -> None:
    columns = {**COLUMNS, "id": Categorical(["a", "b"]), "house": Ignored(), "n": Numeric(0, 9)}
    schema = Schema(columns, SCHEMA.target).with_unit("id")
    assert schema.unit == "id"
    assert list(schema.columns) == ["age", "note", "house", "n"]
    assert schema.with_unit("id") is schema
    other = schema.with_unit("house")
    assert other.unit == "house"
    assert other.columns["id"] == Ignored("was the unit")
    assert schema.with_target("age").unit == "id"
    assert "id" not in schema.with_target("age").columns
    with pytest.raises(ValueError, match="is the target or the unit"):
        schema.with_unit("paid")
    with pytest.raises(ValueError, match="is the target or the unit"):
        schema.with_target("id")
    with pytest.raises(ValueError, match="no column 'hous'"):
        schema.with_unit("hous")


class Bits:
    """Words that are counted up, so that draws are known."""

    def __init__(self, start: int) -> None:
        self.start = start

    def words(self, count: int) -> np.ndarray:
        return np.arange(self.start, self.start + count, dtype=np.uint64)


@pytest.mark.parametrize("start", [0, 1, 5])
def test_one_row_of_each_person_in_every_pass(start: int) -> None:
    rng = np.random.default_rng(start)
    people = np.repeat(np.arange(60), rng.integers(1, 40, 60))
    passes = [rng.permutation(people) for _ in range(3)]
    blocks = [np.array_split(each, [1, 7, 300, 301]) for each in passes]
    each = OneRowEach(IdCodes("id", ()))
    each.choose(map(pa.array, blocks[0]), Bits(start))
    assert each.count == 60
    for cut in blocks:  # also if the order differs from pass to pass
        kept = each.kept()
        used = np.concatenate([block[kept(pa.array(block))] for block in cut])
        assert sorted(used) == list(range(60))
    first = each.kept()
    starts = np.cumsum([0, *map(len, blocks[0][:-1])])
    chosen = np.concatenate(
        [first(pa.array(block)) + at for block, at in zip(blocks[0], starts, strict=True)]
    )
    order = list(dict.fromkeys(passes[0].tolist()))  # ids are numbered as they appear
    for row in chosen:
        person = passes[0][row]
        rows = np.flatnonzero(passes[0] == person)
        assert rows[(start + order.index(person)) % len(rows)] == row
    with pytest.raises(TableError, match="other ids than"):
        each.kept()(pa.array([999]))


def test_a_private_draft_for_people(tmp_path: Path) -> None:
    """One person with most rows, and texts of their own, is one row for the draft."""
    rng = np.random.default_rng(0)
    lines = [f"p{k},{rng.integers(20, 60)},{rng.choice(['x', 'y'])},{k}" for k in range(3000)]
    lines += [f"rich,{10**6 + k},secret,large" for k in range(5000)]
    path = write(tmp_path / "t.csv", "id,age,kind,size\n" + "\n".join(lines) + "\n")
    for unit in (None, "id"):
        settings = {"unit": unit, "header": True, "random_state": 3}
        with pytest.warns(PrivacyLeakWarning):
            made = draft_private(path, 200.0, 1e-6, "add_remove", **settings)
        assert made.unit == made.spent.unit == unit
        assert ("id" in made.columns) == (unit is None)
        by_person = unit is not None
        assert (made.columns["age"].high < 100) == by_person
        assert (made.columns["size"].kind == "numeric") == by_person  # the vote
        assert ("secret" not in made.columns["kind"].values) == by_person
        again = Schema.from_toml(made.to_toml())
        assert again == made
        assert again.open(path).X.shape[0] == 8000


def test_drafts_name_the_unit(tmp_path: Path) -> None:
    text = draft(write(tmp_path / "t.csv"), unit="id", target="paid")
    assert 'unit = "id"' in text
    assert "[columns.id]" not in text
    for unit, problem in (("di", "no column 'di'"), ("paid", "both the target and the unit")):
        with pytest.raises(TableError, match=problem):
            draft(tmp_path / "t.csv", unit=unit, target="paid")
        with pytest.raises(TableError, match=problem):
            draft_private(
                tmp_path / "t.csv", 1.0, 1e-9, "add_remove", unit=unit, target="paid", header=True
            )


def test_missing_ids_are_refused_by_a_private_draft(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", TEXT + "5,,,no\n")
    with pytest.raises(TableError, match="an id is missing"):
        draft_private(path, 1.0, 1e-9, "add_remove", unit="id", header=True)


def test_a_ledger_of_people_takes_drafts_for_people_only(tmp_path: Path) -> None:
    lines = [f"p{k},{k % 40},x,1" for k in range(500)]
    path = write(tmp_path / "t.csv", "id,age,kind,size\n" + "\n".join(lines) + "\n")
    people = Ledger().create("people", Budget(3.0, 1e-5, "add_remove"), unit="person")
    settings = {"header": True, "ledger": people}
    with pytest.raises(PrivacyError, match="person"):
        draft_private(path, 1.0, 1e-6, "add_remove", **settings)
    assert people.entries == 0
    draft_private(path, 1.0, 1e-6, "add_remove", unit="id", **settings)
    assert people.entries == 1


def test_ids_that_python_cannot_hold_are_not_quoted() -> None:
    with pytest.raises(TableError, match="its ids cannot be compared") as caught:
        IdCodes("who", ("",)).codes(pa.array([10**17], pa.timestamp("s")))
    assert caught.value.__context__ is None
