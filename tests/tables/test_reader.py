"""Files become the rows that their cells say, whatever they are written like."""

from __future__ import annotations

import bz2
import gzip
import lzma
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from discreet.tables import csv_files, storage
from discreet.tables.columns import Boolean, Categorical, Ignored, Numeric, Ordinal
from discreet.tables.reader import Encoded, batches, read
from discreet.tables.schema import FileFormat, Schema, Target
from discreet.tables.storage import GrowingArray, GrowingTable

SCHEMA = Schema(
    {
        "age": Numeric(0, 100, missing=True),
        "job": Categorical(("admin", "baker, café"), unseen="other", missing=True),
        "size": Ordinal(("S", "M", "L")),
        "note": Ignored(),
        "member": Boolean(),
    },
    Target("paid", ("no", "yes")),
    FileFormat(missing=("", "?")),
)
# age, (missing); admin, baker, (other), (missing); size; member
X = np.array(
    [
        [0.25, 0, 1, 0, 0, 0, 0.0, 1],
        [0.5, 0, 0, 1, 0, 0, 0.5, 0],
        [0.0, 1, 0, 0, 1, 0, 1.0, 0],
        [1.0, 0, 0, 0, 0, 1, 1.0, 1],
    ],
    dtype=np.float32,
)
Y = [0, 1, 1, 0]
HEADER = "age,job,size,note,member,paid\n"
RECORDS = (
    '25,admin,S,x,yes,no\n50,"baker, café",M,,no,yes\n?,cook,L,"a ""b""\nc",0,yes\n100,,L,d,1,no\n'
)


@pytest.fixture
def reading(tmp_path: Path) -> Callable[..., Encoded]:
    """Writes a file and reads it."""

    def run(content: str | bytes, schema: Schema = SCHEMA, **options: object) -> Encoded:
        path = tmp_path / "table.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read(path, schema, **options)

    return run


def same(found: Encoded) -> None:
    rows = found.X.toarray() if sp.issparse(found.X) else found.X
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(found.y, Y)


def test_cells_become_numbers(reading: Callable[..., Encoded]) -> None:
    found = reading(HEADER + RECORDS)
    same(found)
    assert found.X.dtype == np.float32
    assert found.y.dtype == np.int8


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sparse", [False, True])
def test_dense_and_sparse(reading: Callable[..., Encoded], sparse: bool, dtype: str) -> None:
    found = reading(HEADER + RECORDS, sparse=sparse, dtype=dtype)
    same(found)
    assert sp.issparse(found.X) == sparse
    assert found.X.dtype == dtype


def test_auto_is_the_smaller_one(reading: Callable[..., Encoded]) -> None:
    wide = Schema(
        {"a": Categorical(tuple("abcdefgh"), unseen="other")}, Target("b", low=0, high=10)
    )
    found = reading("a,b\nh,3\nz,20\n", wide)
    assert sp.issparse(found.X)
    np.testing.assert_array_equal(found.X.toarray(), np.eye(9)[[7, 8]])
    np.testing.assert_array_equal(found.y, [3.0, 10.0])
    assert found.X.indices.dtype == found.X.indptr.dtype == np.int32


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text.rstrip("\n"),
        lambda text: "\n" + text + "\n\n",
        lambda text: text.replace("no\n", "no\n\n"),
        lambda text: text.replace("25,admin", " 25 ,\tadmin ").replace("?", " ? "),
        lambda text: text.replace("25,admin", '"25","admin"'),
        lambda text: text.replace("age,", '"age", '),
        lambda text: text.replace("25,", "2.5e1,"),
    ],
    ids=[
        "crlf",
        "bom",
        "no-end",
        "blank-around",
        "blank-between",
        "spaces",
        "quotes",
        "header-spaces",
        "power",
    ],
)
def test_ways_to_write_the_same(
    reading: Callable[..., Encoded], change: Callable[[str], str]
) -> None:
    same(reading(change(HEADER + RECORDS)))


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_delimiters(reading: Callable[..., Encoded], delimiter: str) -> None:
    text = (HEADER + RECORDS).replace(",", delimiter).replace(f"baker{delimiter}", "baker,")
    same(reading(text, replace(SCHEMA, file=replace(SCHEMA.file, delimiter=delimiter))))


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-8-sig"])
def test_encodings(reading: Callable[..., Encoded], encoding: str) -> None:
    schema = replace(SCHEMA, file=replace(SCHEMA.file, encoding=encoding))
    same(reading((HEADER + RECORDS).encode(encoding), schema))


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_packed_files(reading: Callable[..., Encoded], pack: Callable[..., bytes]) -> None:
    same(reading(pack((HEADER + RECORDS).encode())))


def test_columns_in_another_order(reading: Callable[..., Encoded]) -> None:
    same(
        reading(
            "paid,size,age,member,job\n"
            'no,S,25,yes,admin\nyes,M,50,no,"baker, café"\nyes,L,,0,cook\nno,L,100,1,?\n'
        )
    )


def test_without_header(reading: Callable[..., Encoded]) -> None:
    same(reading(RECORDS, replace(SCHEMA, file=replace(SCHEMA.file, header=False))))


def test_without_header_in_another_order(reading: Callable[..., Encoded]) -> None:
    form = FileFormat(header=False, names=("b", "t", "a"))
    schema = Schema({"a": Numeric(0, 10), "b": Numeric(0, 10)}, Target("t", ("n", "y")), form)
    found = reading("1,y,2\n3,n,4\n", schema)
    np.testing.assert_allclose(found.X, [[0.2, 0.1], [0.4, 0.3]])
    np.testing.assert_array_equal(found.y, [1, 0])


@pytest.mark.parametrize("header", [True, False])
def test_without_target(reading: Callable[..., Encoded], header: bool) -> None:
    form = FileFormat(header=header)
    schema = Schema({"a": Numeric(0, 10)}, Target("t", ("n", "y")), form)
    for text in ("a\n5\n", "a,t\n5,\n"):
        found = reading(text if header else text.split("\n", 1)[1], schema, target=False)
        np.testing.assert_array_equal(found.X, [[0.5]])
        assert found.y is None


def test_quotes_that_mean_nothing(reading: Callable[..., Encoded]) -> None:
    form = FileFormat(quote="")
    schema = Schema(
        {"a": Categorical(('5"', "6"), unseen="other")}, Target("t", low=0, high=1), form
    )
    found = reading('a,t\n5",1\n6,0\n', schema, sparse=False)
    np.testing.assert_array_equal(found.X, np.eye(3)[[0, 1]])


def test_a_listed_text_is_a_value_even_if_it_could_mean_missing(
    reading: Callable[..., Encoded],
) -> None:
    form = FileFormat(missing=("NA",))
    schema = Schema(
        {"a": Categorical(("NA", "EU"), unseen="other")}, Target("t", ("NA", "b")), form
    )
    found = reading("a,t\nNA,NA\nEU,b\n", schema, sparse=False)
    np.testing.assert_array_equal(found.X, np.eye(3)[[0, 1]])
    np.testing.assert_array_equal(found.y, [0, 1])


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "FIRST_BLOCK", 256)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("sparse", [False, True])
def test_many_blocks(reading: Callable[..., Encoded], sparse: bool) -> None:
    found = reading(HEADER + RECORDS * 200, sparse=sparse)
    rows = found.X.toarray() if sparse else found.X
    np.testing.assert_array_equal(rows, np.tile(X, (200, 1)))
    np.testing.assert_array_equal(found.y, np.tile(Y, 200))


@pytest.mark.usefixtures("small_blocks")
def test_letters_of_several_bytes_across_blocks(reading: Callable[..., Encoded]) -> None:
    long = HEADER + RECORDS.replace('"a', '"' + "é€😀" * 333) * 7
    for encoding in ("utf-8", "utf-16"):
        schema = replace(SCHEMA, file=replace(SCHEMA.file, encoding=encoding))
        np.testing.assert_array_equal(reading(long.encode(encoding), schema).y, np.tile(Y, 7))


@pytest.mark.usefixtures("small_blocks")
def test_records_longer_than_a_block_are_read_once(reading: Callable[..., Encoded]) -> None:
    long = RECORDS.replace("x", "y" * 5000)
    found = reading(HEADER + RECORDS * 50 + long + RECORDS * 50)
    np.testing.assert_array_equal(found.X, np.tile(X, (101, 1)))


@pytest.mark.parametrize("header", [True, False])
def test_cells_of_a_million_letters(reading: Callable[..., Encoded], header: bool) -> None:
    schema = replace(SCHEMA, file=replace(SCHEMA.file, header=header))
    text = RECORDS.replace("x", "y" * 10**6).replace("cook", "z" * 3 * 10**6)
    same(reading((HEADER if header else "") + text, schema))


def test_progress_goes_from_0_to_1(reading: Callable[..., Encoded]) -> None:
    for content in (HEADER + RECORDS * 50_000, gzip.compress((HEADER + RECORDS * 9).encode())):
        shares: list[float] = []
        reading(content, progress=shares.append)
        assert shares == sorted(shares)
        assert shares[0] > 0
        assert shares[-1] == 1


def test_only_what_is_needed_is_converted(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(HEADER + RECORDS)
    (batch,) = batches(path, SCHEMA, target=False)
    assert list(batch) == ["age", "job", "size", "member"]
    assert batch["age"].to_pylist() == ["25", "50", None, "100"]
    assert batch["job"].to_pylist() == ["admin", "baker, café", "cook", None]


def test_a_file_may_be_left_half_read(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(HEADER + RECORDS * 100_000)
    for _ in range(3):
        records = batches(path, SCHEMA, target=True)
        next(records)
        records.close()


def parquet(path: Path, **options: object) -> Path:
    cells = {
        "paid": ["no", "yes", "yes", "no"],
        "age": pa.array([25, 50, None, 100], pa.int16()),
        "job": pa.array(["admin", " baker, café", "cook", "?"]).dictionary_encode(),
        "size": pa.array(["S", "M", "L", "L"], pa.large_string()),
        "member": [True, False, False, True],
    }
    table = pa.table(cells)
    pq.write_table(pa.concat_tables([table] * 20), path, **options)
    return path


@pytest.mark.parametrize("group", [80, 7])
def test_parquet(tmp_path: Path, group: int) -> None:
    path = parquet(tmp_path / "table.parquet", row_group_size=group)
    shares: list[float] = []
    found = read(path, SCHEMA, progress=shares.append)
    np.testing.assert_array_equal(found.X, np.tile(X, (20, 1)))
    np.testing.assert_array_equal(found.y, np.tile(Y, 20))
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_parquet_is_known_by_its_content(tmp_path: Path) -> None:
    assert read(parquet(tmp_path / "table.csv"), SCHEMA, target=False).X.shape == (80, 8)


def test_growing_arrays() -> None:
    rng = np.random.default_rng(0)
    blocks = [rng.random(size) for size in rng.integers(0, 50, 40)]
    array = GrowingArray(np.float64)
    for block in blocks:
        array.append(block)
    grown = array.finish()
    np.testing.assert_array_equal(grown, np.concatenate(blocks))
    assert grown.size == array.size
    assert grown.flags.writeable
    with pytest.raises(BufferError):  # the array would be moved from under its owner
        array.append(blocks[0])


def test_growing_rows_of_more_entries_than_32_bits_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "LARGEST_SMALL_INDEX", 25)
    block = sp.csr_array(np.eye(10, dtype=np.float32))
    rows = GrowingTable(10, 1, sparse=True, dtype="float32")
    for _ in range(4):
        rows.append(block)
    found, _, _ = rows.finish()
    np.testing.assert_array_equal(found.toarray(), np.tile(np.eye(10), (4, 1)))
    assert found.indptr.dtype == np.int64


@pytest.mark.process
def test_without_pyarrow_the_module_loads_and_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = sys.modules['pandas'] = None\n"
        "import discreet.tables.reader as reading\n"
        "try: next(reading.batches('x', None, target=False))\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "discreet[tables]"' in done.stdout
