"""A table means the same whatever it comes from, and a bad source is refused by name."""

from __future__ import annotations

import gzip
import os
import traceback
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from discreet import LogisticRegression
from discreet.errors import TableError
from discreet.tables import (
    Boolean,
    Categorical,
    Encoded,
    Ignored,
    Numeric,
    Schema,
    Source,
    Target,
    draft,
    draft_private,
    estimate,
    libraries,
    parts,
    read,
    source,
)

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

SECRET = "SECRET-7391"
SCHEMA = Schema(
    {
        "id": Ignored(),
        "age": Numeric(0, 100, missing=True),
        "job": Categorical(["cook", "nurse"], unseen="other", missing=True),
        "member": Boolean(),
    },
    Target("paid", ["no", "yes"]),
)
CELLS = {
    "id": ["a", "b", "c", "d", "e"],
    "age": [25.0, 50.0, None, 200.0, 0.0],
    "job": ["cook", "nurse", "smith", None, "cook"],
    "member": [True, False, False, True, True],
    "paid": ["no", "yes", "yes", "no", "no"],
}
# age, (missing); cook, nurse, (other), (missing); member
X = np.array(
    [
        [0.25, 0, 1, 0, 0, 0, 1],
        [0.5, 0, 0, 1, 0, 0, 0],
        [0.0, 1, 0, 0, 1, 0, 0],
        [1.0, 0, 0, 0, 0, 1, 1],
        [0.0, 0, 1, 0, 0, 0, 1],
    ],
    dtype=np.float32,
)
TABLE = pa.table(CELLS)


def parquet_folder(folder: Path) -> Path:
    """Three files, the columns of each in another order, one of them without rows."""
    folder.mkdir()
    names = TABLE.column_names
    for number, (start, stop) in enumerate([(0, 2), (2, 2), (2, 5)]):
        part = TABLE.slice(start, stop - start).select(names[number:] + names[:number])
        pq.write_table(part, folder / f"part{number}.parquet")
    (folder / "_SUCCESS").touch()
    (folder / ".part.crc").touch()
    return folder


def csv_folder(folder: Path) -> Path:
    folder.mkdir()
    pa.csv.write_csv(TABLE.slice(0, 3), folder / "1.csv")
    pa.csv.write_csv(TABLE.slice(0, 0), folder / "2.csv")
    pa.csv.write_csv(TABLE.slice(3).select(TABLE.column_names[::-1]), folder / "3.csv")
    return folder


def written(path: Path, write: Callable[[pa.Table, Path], None]) -> Path:
    write(TABLE, path)
    return path


def packed(path: Path) -> Path:
    path.write_bytes(gzip.compress(written(path, pa.csv.write_csv).read_bytes()))
    return path


def duck(path: Path, lazily: bool) -> object:
    duckdb = pytest.importorskip("duckdb")
    if lazily:
        return duckdb.read_parquet(os.fspath(written(path / "t.parquet", pq.write_table)))
    people = TABLE  # noqa: F841 (found by its name)
    return duckdb.sql("SELECT * FROM people")


def dask_frame(path: Path) -> object:
    dask = pytest.importorskip("dask.dataframe")
    return dask.from_pandas(TABLE.to_pandas(), npartitions=2)


class Stream:
    """A table of a library of which nothing is known but Arrow's interface."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return TABLE.__arrow_c_stream__(requested_schema)


SOURCES: dict[str, Callable[[Path], object]] = {
    "csv": lambda at: written(at / "t.csv", pa.csv.write_csv),
    "packed csv": lambda at: packed(at / "t.csv.gz"),
    "parquet": lambda at: os.fspath(written(at / "t.parquet", pq.write_table)),
    "feather": lambda at: written(at / "t.feather", pyarrow.feather.write_feather),
    "folder of parquet": lambda at: parquet_folder(at / "parts"),
    "folder of csv": lambda at: csv_folder(at / "parts"),
    "pattern": lambda at: os.fspath(parquet_folder(at / "parts") / "*.parquet"),
    "list": lambda at: sorted(parquet_folder(at / "parts").glob("part*")),
    "list of patterns": lambda at: [os.fspath(csv_folder(at / "parts") / "[1-3].csv")],
    "pyarrow table": lambda at: TABLE,
    "pyarrow batch": lambda at: TABLE.combine_chunks().to_batches()[0],
    "pyarrow reader": lambda at: TABLE.to_reader(2),
    "pyarrow dataset": lambda at: pa.dataset.dataset(
        sorted(map(os.fspath, parquet_folder(at / "parts").glob("part*")))
    ),
    "pyarrow dataset in memory": lambda at: pa.dataset.dataset(TABLE),
    "polars": lambda at: pl.DataFrame(CELLS),
    "polars, lazy": lambda at: pl.DataFrame(CELLS).lazy(),
    "polars, lazy file": lambda at: pl.scan_parquet(written(at / "t.parquet", pq.write_table)),
    "pandas": lambda at: TABLE.to_pandas(),
    "pandas, objects": lambda at: pd.DataFrame(CELLS, dtype=object, index=[3, 3, 2.5, 1, 0]),
    "duckdb": lambda at: duck(at, False),
    "duckdb, file": lambda at: duck(at, True),
    "dask": dask_frame,
    "another library": lambda at: Stream(),
    "dict": lambda at: CELLS,
    "dict of arrays": lambda at: {k: np.array(v, dtype=object) for k, v in CELLS.items()},
    "a source": lambda at: source(TABLE),
}


@pytest.fixture(params=SOURCES.values(), ids=SOURCES)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> object:
    return request.param(tmp_path)


def same(found: Encoded) -> None:
    rows, labels, _ = found
    np.testing.assert_array_equal(rows.toarray() if sp.issparse(rows) else rows, X)
    assert labels.tolist() == CELLS["paid"]
    assert rows.dtype == np.float32


def test_every_source_means_the_same(table: object) -> None:
    shares: list[float] = []
    same(SCHEMA.open(table, progress=shares.append))
    assert shares == sorted(shares)
    assert shares[-1] == 1


@pytest.mark.parametrize("sparse", [False, True])
def test_in_a_file_as_in_memory(table: object, sparse: bool, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    found = SCHEMA.open(table, memory=0, folder=tmp_path, sparse=sparse)
    same(found)
    assert sp.issparse(found.X) == sparse
    assert sorted(tmp_path.rglob("*")) == before  # the file has no name


@pytest.mark.usefixtures("small_blocks")
def test_every_source_in_small_blocks(table: object) -> None:
    blocks = list(SCHEMA.batches(table, target=True))
    assert len(blocks) > 1
    y = np.concatenate([block.y for block in blocks])
    same(Encoded(np.vstack([block.X for block in blocks]), y))


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MOST_ROWS", 2)
    monkeypatch.setattr("discreet.tables.csv_files.FIRST_BLOCK", 64)


def test_every_source_can_be_transformed(table: object) -> None:
    transformer = SCHEMA.transformer(dtype="float32")
    np.testing.assert_array_equal(transformer.transform(table), X)


def test_every_source_can_be_drafted(table: object) -> None:
    found = source(table)
    text = draft(found, target="paid", header=True)
    assert all(f"[columns.{name}]" in text for name in CELLS if name != "paid")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["parquet", "csv", "lazy", "stream"])
def test_private_drafts(kind: str, tmp_path: Path) -> None:
    many = pa.concat_tables([TABLE] * 100)
    for name in "ab":
        pq.write_table(many, tmp_path / f"{name}.parquet")
        pa.csv.write_csv(many, tmp_path / f"{name}.csv")
    table = {
        "parquet": os.fspath(tmp_path / "*.parquet"),
        "csv": os.fspath(tmp_path / "*.csv"),
        "lazy": pl.scan_parquet(tmp_path / "*.parquet"),
        "stream": pa.concat_tables([many, many]).to_reader(300),
    }[kind]
    header = True if kind == "csv" else None
    made = draft_private(
        table, 100.0, 1e-9, "add_remove", target="paid", header=header, random_state=0
    )
    assert made.target.labels == ("no", "yes")
    assert set(made.columns["job"].values) == {"cook", "nurse", "smith"}
    assert isinstance(made.columns["age"], Numeric)


@pytest.mark.filterwarnings("ignore")
def test_texts_of_a_stream_are_limited_though_its_length_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(estimate, "DISTINCT_LIMIT", 100)
    many = pa.table({"name": [str(i) for i in range(3000)], "n": list(range(3000))})
    made = draft_private(many.to_reader(500), 100.0, 1e-9, "add_remove", random_state=0)
    assert "too many distinct texts" in made.columns["name"].reason


@pytest.mark.filterwarnings("ignore::discreet.errors.PrivacyLeakWarning")
def test_an_estimator_fits_rows_in_a_file_as_in_memory() -> None:
    rng = np.random.default_rng(0)
    ages = rng.uniform(0, 100, 3000)
    schema = Schema({"age": Numeric(0, 100)}, Target("rich", ["no", "yes"]))
    table = {"age": ages, "rich": np.where(ages > 50, "yes", "no")}
    models = []
    for memory in (0, "1GB"):
        model = LogisticRegression(
            epsilon=50.0, delta=1e-5, data_norm=1.0, classes=["no", "yes"], random_state=0
        )
        models.append(model.fit(*schema.open(table, memory=memory)))
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    assert models[0].classes_.tolist() == ["no", "yes"]


def test_targets() -> None:
    numbers = Schema({"age": Numeric(0, 100, missing=True)}, Target("n", low=0, high=2))
    found = numbers.open({"age": [1.0], "n": [5]})
    assert found.y.tolist() == [2.0]
    assert Schema({"age": Numeric(0, 100)}).open({"age": [1.0]}, dtype="float64").y is None
    with pytest.raises(ValueError, match="dtype must be"):
        numbers.open({"age": [1.0], "n": [5]}, dtype="float16")


def test_blocks_of_text_of_any_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MOST_ROWS", 3)
    monkeypatch.setattr("discreet.tables.csv_files.FIRST_BLOCK", 64)
    cells = [*range(40), *range(10**8, 10**8 + 9), *range(40), 10**20, *range(40)]
    path = tmp_path / "t.csv"
    path.write_text("n\n" + "".join(f"{cell}\n" for cell in cells))
    found = Schema({"n": Numeric(0, 10**20)}).open(path, dtype="float64")
    np.testing.assert_allclose(found.X[:, 0] * 1e20, np.array(cells, dtype=float))


# Blocks for predictions


def test_extra_columns_pass_through(table: object) -> None:
    blocks = list(SCHEMA.batches(table, extra=["id", "age"]))
    assert [cell for block in blocks for cell in block.extra["id"].to_pylist()] == CELLS["id"]
    ages = [cell for block in blocks for cell in block.extra["age"].to_pylist()]
    assert [None if age in (None, "") else float(age) for age in ages] == CELLS["age"]
    assert all(block.y is None for block in blocks)


def test_extra_columns_need_not_be_in_the_schema_nor_the_target_in_the_table() -> None:
    schema = Schema({"age": Numeric(0, 100)}, Target("paid", ["no", "yes"]))
    table = {"key": [7, 8], "age": [1, 2]}
    (block,) = schema.batches(table, extra=["key"])
    assert block.extra["key"].to_pylist() == [7, 8]
    with pytest.raises(TableError, match="not in the schema: 'key'"):
        next(schema.batches(table))
    with pytest.raises(TableError, match=r"asked for: 'kay'\. Check their names"):
        next(schema.batches(table, extra=["key", "kay"]))
    with pytest.raises(TableError, match="lacks columns of the schema: 'paid'"):
        next(schema.batches(table, extra=["key"], target=True))
    with pytest.raises(ValueError, match="extra must be a list"):
        schema.batches(table, extra="key")


def test_extra_texts_keep_their_spaces(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("age,key\n1, k \n2,\n")
    schema = Schema({"age": Numeric(0, 100)})
    (block,) = schema.batches(path, extra=["key"])
    assert block.extra["key"].to_pylist() == [" k ", ""]


@pytest.mark.usefixtures("small_blocks")
def test_batches_may_be_left_half_read(table: object) -> None:
    blocks = SCHEMA.batches(table)
    next(blocks)
    blocks.close()


# Cells at odd places


@pytest.mark.parametrize(
    "cells",
    [
        pa.array([1, 2, None], pa.int8()),
        pa.array([1.0, 2.0, np.nan], pa.float16()),
        pa.array([Decimal("1.00"), Decimal("2.00"), None]),
        pa.array(["1", " 2 ", ""], pa.large_string()),
        pa.array(["1", "2", None], pa.string_view()),
        pa.array([1.0, 2.0, np.nan]).dictionary_encode(),
        pa.array(["1", "2", None]).dictionary_encode(),
        pa.array([1, 2, None], pa.uint64()),
        pa.chunked_array([pa.array([1]), pa.array([2, None])]),
    ],
    ids=lambda cells: str(cells.type),
)
@pytest.mark.parametrize("write", [None, pq.write_table, pyarrow.feather.write_feather])
def test_types_of_numbers(cells: pa.Array, write: object, tmp_path: Path) -> None:
    schema = Schema(
        {"n": Numeric(0, 10, missing=True), "c": Categorical(["1", "2"], "other", missing=True)}
    )
    table = pa.table({"n": cells, "c": cells})
    if write is not None:
        try:
            write(table, tmp_path / "t")
        except (pa.ArrowException, TypeError):
            pytest.skip("the format has no such type")
    found = schema.open(table if write is None else tmp_path / "t", sparse=False)
    expected = [[0.1, 0, 1, 0, 0, 0], [0.2, 0, 0, 1, 0, 0], [0, 1, 0, 0, 0, 1]]
    np.testing.assert_allclose(found.X, expected, rtol=1e-6)


@pytest.mark.parametrize(
    "cells",
    [
        pa.array([0, 1], pa.timestamp("ms", tz="UTC")),
        pa.array([0, 1], pa.date32()),
        pa.array([0, 1], pa.duration("s")),
        pa.array([b"0", b"1"]),
        pa.array([[0], [1]]),
        pa.array([{SECRET: 0}, {SECRET: 1}]),
    ],
    ids=lambda cells: str(cells.type),
)
def test_types_that_are_no_numbers(cells: pa.Array) -> None:
    text = refused(pa.table({"n": cells}), Schema({"n": Numeric(0, 1)}))
    assert "column 'n' is of type" in text
    assert "convert it" in text


def test_times_are_texts() -> None:
    schema = Schema({"day": Categorical(["1970-01-01", "1970-01-02"], unseen="other")})
    found = schema.open(pa.table({"day": pa.array([0, 1, 2], pa.date32())}))
    np.testing.assert_array_equal(found.X, np.eye(3))


def test_widths_may_differ_between_files(tmp_path: Path) -> None:
    for number, kind in enumerate([pa.int8(), pa.float64(), pa.null(), pa.decimal128(5, 2)]):
        cells = pa.array([None if kind == pa.null() else Decimal(1)]).cast(kind)
        pq.write_table(pa.table({"n": cells}), tmp_path / f"{number}.parquet")
    found = Schema({"n": Numeric(0, 10, missing=True)}).open(tmp_path)
    np.testing.assert_allclose(found.X[:, 0], [0.1, 0.1, 0, 0.1], rtol=1e-6)


# Faults


def refused(data: object, schema: Schema = SCHEMA, **options: object) -> str:
    """The text of the error, no form of which holds a cell."""
    with pytest.raises(TableError) as caught:
        schema.open(data, **options)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    return str(caught.value)


def test_nothing_there(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert (
        refused(empty) == f"{empty}: is a folder without files. Choose the one that holds the "
        "records."
    )
    assert "no file matches this pattern" in refused(os.fspath(tmp_path / "*.parquet"))
    assert "there is no such file" in refused(tmp_path / "none.parquet")
    assert "the list of files is empty" in refused([])
    assert "pyarrow.dataset" in refused("s3://bucket/table.parquet")
    (empty / "year=2020").mkdir()
    assert "holds folders ('year=2020')" in refused(empty)


def test_no_rows_at_all(tmp_path: Path) -> None:
    none = TABLE.slice(0, 0)
    for data in (none, none.to_reader(), pl.DataFrame(none).lazy(), none.to_pandas()):
        assert "has no records" in refused(data)
    for name in "ab":
        pq.write_table(none, tmp_path / f"{name}.parquet")
    text = refused(tmp_path)
    assert "a.parquet: has no records, and 1 more likewise" in text


def test_a_file_is_listed_once(tmp_path: Path) -> None:
    folder = parquet_folder(tmp_path / "parts")
    path = folder / "part0.parquet"
    assert "is the same file as" in refused([path, os.fspath(path)])
    os.link(path, folder / "other.parquet")
    assert "part0.parquet: is the same file as" in refused(folder)


def test_files_of_two_kinds(tmp_path: Path) -> None:
    folder = parquet_folder(tmp_path / "parts")
    pa.csv.write_csv(TABLE, folder / "more.csv")
    assert "part0.parquet: is parquet, but" in refused(folder)


def test_files_with_other_columns(tmp_path: Path) -> None:
    folder = parquet_folder(tmp_path / "parts")
    pq.write_table(TABLE.drop_columns("job"), folder / "part9.parquet")
    assert "part9.parquet: lacks columns of the schema: 'job'" in refused(folder)
    pq.write_table(TABLE.append_column("more", TABLE["id"]), folder / "part9.parquet")
    assert "part9.parquet: has columns that are not in the schema: 'more'" in refused(folder)
    folder = csv_folder(tmp_path / "texts")
    pa.csv.write_csv(TABLE.drop_columns("job"), folder / "9.csv")
    assert "9.csv: lacks columns of the schema: 'job'" in refused(folder)


def test_files_with_other_types(tmp_path: Path) -> None:
    folder = parquet_folder(tmp_path / "parts")
    other = TABLE.set_column(1, "age", pa.array(["1", SECRET, "", "", ""]))
    pq.write_table(other, folder / "part9.parquet")
    text = refused(folder)
    assert "part9.parquet: column 'age' holds texts here, but numbers in" in text
    assert "part0.parquet. Store it with one type" in text


@pytest.mark.parametrize("cut", [0.0, 0.001, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("write", [pq.write_table, pyarrow.feather.write_feather])
def test_a_file_that_was_cut_off(write: Callable[..., None], cut: float, tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    for name in "ab":
        write(pa.table({k: v * 500 for k, v in CELLS.items()}), folder / name)
    content = (folder / "b").read_bytes()
    (folder / "b").write_bytes(content[: int(cut * len(content))])
    assert f"{folder / 'b'}: is " in refused(folder)


def test_a_damaged_page(tmp_path: Path) -> None:
    folder = parquet_folder(tmp_path / "parts")
    path = folder / "part2.parquet"
    content = bytearray(path.read_bytes())
    content[4:60] = b"\xff" * 56
    path.write_bytes(content)
    assert refused(folder) == f"{path}: is cut off or damaged. Copy it again."


def append_row(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"z,1,cook,true,no\n")


def replace_file(path: Path) -> None:
    other = path.with_suffix(".new")
    other.write_bytes(path.read_bytes())
    times = path.stat()
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    other.replace(path)


def touch(path: Path) -> None:
    os.utime(path, ns=(1, 1))


CHANGES = {"grown": append_row, "another file": replace_file, "touched": touch, "gone": os.unlink}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("kind", ["folder of parquet", "folder of csv", "pyarrow dataset", "csv"])
def test_a_file_that_changes_after_it_was_listed(
    kind: str, change: Callable[[Path], None], tmp_path: Path
) -> None:
    found = source(SOURCES[kind](tmp_path))
    last = found.files[-1].path
    change(last)
    said = "disappeared since it was listed" if change is os.unlink else "changed since it was"
    text = refused(found)
    assert os.fspath(last) in text
    assert said in text


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("change", [touch, os.unlink])
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_file_that_changes_while_it_is_read(
    kind: str, change: Callable[[Path], None], tmp_path: Path
) -> None:
    path, write = tmp_path / kind, {"parquet": pq.write_table, "csv": pa.csv.write_csv}[kind]
    write(pa.concat_tables([TABLE] * 100), path)
    blocks = SCHEMA.batches(path)
    next(blocks)  # hundreds of blocks follow, of which at most one has been read
    change(path)
    with pytest.raises(TableError, match="since it was listed"):
        list(blocks)


def test_a_part_that_ends_early() -> None:
    (part,) = source(TABLE).parts
    assert "is cut off or damaged" in refused(Source((replace(part, n_rows=6),)))


def test_a_stream_is_read_once() -> None:
    found = source(TABLE.to_reader())
    same(SCHEMA.open(found))
    assert "can be read once" in refused(found)


def test_an_error_of_another_library_is_not_shown() -> None:
    def fail(values: object) -> object:
        raise RuntimeError(SECRET)

    lazy = pl.DataFrame(CELLS).lazy().map_batches(fail, schema=pl.DataFrame(CELLS).schema)
    text = refused(lazy)
    assert "the LazyFrame: cannot be read" in text
    assert "Save the table as Parquet" in text


def test_a_cell_that_breaks_the_schema_names_its_file(tmp_path: Path) -> None:
    folder = csv_folder(tmp_path / "parts")
    (folder / "3.csv").write_text(f"id,age,job,member,paid\na,{SECRET},cook,true,no\n")
    assert f"{folder / '3.csv'}: column 'age': a cell is not a number" in refused(folder)
    assert "the dict: column 'member'" in refused(CELLS | {"member": [SECRET] * 5})


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (np.zeros((2, 2)), "ndarray has no names of columns"),
        (3, "int has no names of columns"),
        ([1, 2], "list has no names of columns"),
        (pa.chunked_array([[1]]), "ChunkedArray has no names of columns"),
        (CELLS | {"age": [1.0]}, "of one length"),
        (CELLS | {"age": 3}, "column 'age': must be a list"),
        (pa.table([pa.array([1])] * 2, names=["age", "age"]), "more than one column 'age'"),
    ],
)
def test_what_is_no_table(data: object, rule: str) -> None:
    assert rule in refused(data)


class Cluster:
    """A table that is computed elsewhere."""

    def collect(self) -> None:
        raise AssertionError


def test_a_table_elsewhere_has_to_be_saved_first() -> None:
    assert "Save it as Parquet and open the folder" in refused(Cluster())


def test_frames_of_other_libraries_are_recognised_without_importing_them() -> None:
    names = ("polars", "duckdb", "dask", "pyspark", "pandas")
    text = Path(libraries.__file__).read_text()
    assert not any(f"import {name}" in text for name in names)


def test_read_takes_sources_too(tmp_path: Path) -> None:
    found = read(parquet_folder(tmp_path / "parts"), SCHEMA)
    np.testing.assert_array_equal(found.X, X)
    assert found.y.tolist() == [0, 1, 1, 0, 0]
