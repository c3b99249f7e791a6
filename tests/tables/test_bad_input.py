"""Files that cannot be read as they should: what is said, and that no cell is said."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
import traceback
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet.errors import TableError
from discreet.tables import csv_files
from discreet.tables.columns import Boolean, Categorical, Ignored, Numeric, Ordinal
from discreet.tables.reader import read
from discreet.tables.schema import FileFormat, Schema, Target

SECRET = "SECRET-7391"

COLUMNS = {
    "age": Numeric(0, 100),
    "job": Categorical(("admin", "baker"), unseen="refuse"),
    "size": Ordinal(("S", "M", "L")),
    "note": Ignored("free text"),
}
GOOD = "age,job,size,note,paid\n30,admin,S,fine,no\n40,baker,L,,yes\n"


def schema(**file: object) -> Schema:
    return Schema(COLUMNS, Target("paid", ("no", "yes")), FileFormat(**file))


@pytest.fixture
def refused(tmp_path: Path) -> Callable[..., str]:
    """Writes a file, expects it to be refused, and returns the message."""

    def run(content: bytes | str, name: str = "table.csv", using: Schema | None = None) -> str:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return message(path, using or schema())

    return run


def message(path: Path, using: Schema) -> str:
    """The text of the error; it names the file, and no form of it holds the secret."""
    with pytest.raises(TableError) as caught:
        read(path, using)
    text = str(caught.value)
    assert path.name in text
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    return text


def test_the_good_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(GOOD)
    assert read(path, schema()).X.shape == (2, 4)


def test_a_wrong_delimiter_is_named(refused: Callable[..., str]) -> None:
    text = refused(GOOD.replace(",", ";"))
    assert 'It has 5 fields when split at ";": write delimiter = ";" under [file]' in text
    assert 'delimiter = "\\t"' in refused(GOOD.replace(",", "\t"))
    assert 'delimiter = " "' in refused(GOOD.replace(",", " "))
    assert "when split at ';'" not in refused(f"{SECRET}\n1\n")


def test_a_wrong_delimiter_is_named_even_if_no_name_is_the_schemas(
    refused: Callable[..., str],
) -> None:
    text = refused('"x1";"x2";"x 3"\n1;2;3\n')
    assert 'It has 3 fields when split at ";"' in text
    text = refused(f"{SECRET} and more\n1\n")
    assert "Write the file's delimiter under [file]" in text  # a space may be part of a name


def test_missing_columns_are_named(refused: Callable[..., str]) -> None:
    text = refused("age,size,note,paid\n30,S,,no\n")
    assert "lacks columns of the schema: 'job'. Add them to the file, or take them out" in text


def test_extra_columns_are_named(refused: Callable[..., str]) -> None:
    text = refused(GOOD.replace("note", "note,postcode", 1))
    assert "'postcode'" in text
    assert "ignored" in text


def test_a_record_in_place_of_the_header_is_not_shown(refused: Callable[..., str]) -> None:
    text = refused(f"30,admin,S,{SECRET},no\n40,baker,L,,yes\n")
    assert "header = false" in text
    assert "admin" not in text


def test_repeated_columns_are_named(refused: Callable[..., str]) -> None:
    text = refused(GOOD.replace("note", "age", 1))
    assert "same name" in text
    assert "'age'" in text


def test_text_in_a_numeric_column(refused: Callable[..., str]) -> None:
    assert "'age'" in refused(GOOD.replace("40", SECRET))


@pytest.mark.parametrize("cell", ["", "  ", "NA"])
def test_a_missing_cell_that_is_not_allowed(refused: Callable[..., str], cell: str) -> None:
    assert "'age'" in refused(GOOD.replace("40", cell), using=schema(missing=("", "NA")))


def test_unlisted_texts(refused: Callable[..., str]) -> None:
    assert "'job'" in refused(GOOD.replace("baker", SECRET))
    assert "'size'" in refused(GOOD.replace("L", SECRET))
    assert "'paid'" in refused(GOOD.replace("yes", SECRET))
    assert "'paid'" in refused(GOOD.replace("yes", ""))


def test_advice_names_the_file_and_the_schema(refused: Callable[..., str]) -> None:
    # A schema inside a model file cannot be changed, so what to do about the file is said as well.
    for old, new in (("40", SECRET), ("baker", SECRET), ("L", SECRET), ("yes", SECRET), ("40", "")):
        text = refused(GOOD.replace(old, new))
        assert re.search("correct|fill such cells in", text, re.IGNORECASE)
        assert "schema" in text


def test_unlisted_truth_value(refused: Callable[..., str]) -> None:
    using = Schema({"a": Boolean()}, Target("b", low=0.0, high=1.0))
    assert "'a'" in refused(f"a,b\n{SECRET},1\n", using=using)
    assert "'b'" in refused(f"a,b\nyes,{SECRET}\n", using=using)


@pytest.mark.parametrize("row", [f"50,baker,{SECRET}", f"50,baker,L,,no,{SECRET}"])
def test_a_row_of_another_length(refused: Callable[..., str], row: str) -> None:
    text = refused(f"{GOOD}{row}\n{GOOD.split(chr(10))[1]}\n")
    assert "a row has another number of fields than the header" in text
    assert not re.search(r"\d", text.split("table.csv")[1])


def test_an_empty_file(refused: Callable[..., str]) -> None:
    assert "is empty" in refused("")
    assert "is empty" in refused("\n\n")
    assert "is empty" in refused(gzip.compress(b""), "table.csv.gz")


def test_a_header_without_rows(refused: Callable[..., str]) -> None:
    header = GOOD.split("\n")[0]
    for text in (header, f"{header}\n", f"{header}\r\n\r\n"):
        assert "has no records. Choose the file that holds them" in refused(text)


def test_a_file_cut_off_inside_a_quote(refused: Callable[..., str]) -> None:
    assert "inside a quoted cell" in refused(GOOD + f'50,baker,L,,"{SECRET}')
    assert "inside a quoted cell" in refused(GOOD + f'50,baker,L,,"{SECRET}\n40,baker,L,,no\n')
    assert "inside a quoted cell" in refused(GOOD + '50,baker,L,,"')
    assert "another number of fields" in refused(GOOD + f'50,"{SECRET}\n40,baker,L,,no\n')


def test_a_file_cut_off_inside_a_row(refused: Callable[..., str]) -> None:
    assert "another number of fields" in refused(GOOD + f"50,{SECRET}")


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_a_packed_file_cut_off(refused: Callable[..., str], pack: Callable[..., bytes]) -> None:
    packed = pack((GOOD + GOOD.split("\n", 1)[1] * 5000).encode())
    assert "cut off or damaged" in refused(packed[: len(packed) // 2], "table.csv.gz")


def test_a_packed_file_damaged(refused: Callable[..., str]) -> None:
    packed = bytearray(gzip.compress(GOOD.encode()))
    packed[20:30] = bytes(10)
    assert "cut off or damaged" in refused(bytes(packed), "table.csv.gz")


def test_a_record_longer_than_any(
    refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_files, "FIRST_BLOCK", 1 << 10)
    monkeypatch.setattr(csv_files, "LONGEST_RECORD", 1 << 16)
    text = refused(GOOD + f'50,baker,L,"{SECRET * 20_000}",no\n')
    assert "a record is longer than" in text


def test_a_cell_of_a_million_letters_in_the_header(refused: Callable[..., str]) -> None:
    assert "too long to be a header" in refused(f'age,"{SECRET * 100_000}",size\n1,2,3\n')


def test_latin_1_under_utf_8(refused: Callable[..., str]) -> None:
    text = refused(GOOD.replace("fine", f"café {SECRET}").encode("latin-1"))
    assert (
        'not valid UTF-8; if a program on Windows wrote it, set encoding = "cp1252" in [file]'
        in text
    )
    assert "not valid UTF-8" in refused("agé,job\n".encode("latin-1"))
    assert "not valid UTF-8" in refused((GOOD + "50,baker,L,é").encode()[:-1])


def test_nul_bytes(refused: Callable[..., str]) -> None:
    assert "NUL bytes" in refused(GOOD.replace("fine", f"{SECRET}\x00"))
    assert 'encoding = "utf-16"' in refused(GOOD.encode("utf-16-le"))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_mark_of_another_encoding_is_believed(
    refused: Callable[..., str], pack: Callable[..., bytes], encoding: str
) -> None:
    content = pack(GOOD.encode(encoding))
    for using in (schema(), schema(encoding="latin-1")):
        text = refused(content, using=using)
        assert f"is text in {encoding.upper()}, by its first bytes" in text
        assert f'set encoding = "{encoding}" in [file]' in text
        assert "Latin-1" not in text
    assert "UTF-16" in refused(b"\xfe\xff" + GOOD.encode("utf-16-be"))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-16-le"])
def test_the_encoding_that_is_advised_works(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "table.csv"
    rows = "30,admin,S,größer 漢字,no\n40,baker,L,,yes\n" * 20_000
    path.write_text("age,job,size,note,paid\n" + rows, encoding="utf-8")
    plain = read(path, schema())
    path.write_text("\ufeff" * (encoding == "utf-16-le") + path.read_text("utf-8"), encoding)
    other = read(path, schema(encoding=encoding))
    assert (plain.X == other.X).all()
    assert (plain.y == other.y).all()


def test_utf_16_that_is_none(refused: Callable[..., str]) -> None:
    text = refused(b"\xff\xfe\x00\xd8a,", using=schema(encoding="utf-16"))
    assert 'not valid UTF-16; if it is UTF-8, set encoding = "utf-8" in [file]' in text


def test_an_old_workbook(refused: Callable[..., str]) -> None:
    content = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + SECRET.encode()
    assert "old Excel workbook (.xls). Save the sheet as CSV" in refused(content, "table.xls")


def test_names_where_no_header_should_be(refused: Callable[..., str]) -> None:
    for content in (GOOD, GOOD.replace("note", '" note "', 1), GOOD.replace("note", "x,y", 1)):
        text = refused(content, using=schema(header=False))
        assert "the first line holds the names of the columns: write header = true" in text


def test_a_record_with_a_name_in_it_is_still_a_record(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("30,admin,S,note,no\n")
    assert read(path, schema(header=False)).X.shape[0] == 1


@pytest.mark.parametrize(
    ("content", "seems"),
    [
        (f'{{"age": 30, "note": "{SECRET}"}}\n', "JSON"),
        (f'[\n  {{"age": "{SECRET}"}}\n]\n', "JSON"),
        (f"<!DOCTYPE html>\n<p>{SECRET}</p>\n", "HTML or XML"),
        (f'\n<?xml version="1.0"?>\n<a>{SECRET}</a>\n', "HTML or XML"),
    ],
)
def test_files_of_another_form(refused: Callable[..., str], content: str, seems: str) -> None:
    for using in (schema(), schema(header=False)):
        text = refused(content, using=using)
        assert f"seems to be {seems}, not a table. Convert it to CSV or Parquet" in text


def test_a_pipe_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    assert "is not a regular file (a pipe or a device); save it to a file first" in message(
        path, schema()
    )
    assert "not a regular file" in message(Path(os.devnull), schema())


def test_a_quote_after_a_space(refused: Callable[..., str]) -> None:
    text = refused(GOOD.replace(",baker,", ', "baker",'))
    assert "spaces before a quote" in text
    assert "'job'" in text


def test_a_file_without_header_of_another_width(refused: Callable[..., str]) -> None:
    text = refused(f"30,admin,{SECRET}\n", using=schema(header=False))
    assert "3 fields" in text
    assert "5 columns" in text


def test_a_zip_file(refused: Callable[..., str]) -> None:
    assert "zip archive" in refused(b"PK\x03\x04" + SECRET.encode(), "table.xlsx")


def test_a_folder_and_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "is a folder" in message(tmp_path, schema())
    assert "no such file" in message(tmp_path / "nothing.csv", schema())


def test_a_schema_without_target(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("age\n1\n")
    using = Schema({"age": Numeric(0, 1)})
    assert read(path, using).y is None
    with pytest.raises(TableError, match="names no target"):
        read(path, using, target=True)


def test_one_declared_class() -> None:
    with pytest.raises(ValueError, match="two classes"):
        Target("paid", ("yes",))


def test_an_unknown_dtype(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="float32"):
        read(tmp_path, schema(), dtype="int8")


def write_parquet(path: Path, **changes: pa.Array) -> Path:
    cells = {
        "age": pa.array([30, 40]),
        "job": pa.array(["admin", "baker"]),
        "size": pa.array(["S", "L"]),
        "paid": pa.array(["no", "yes"]),
    }
    pq.write_table(pa.table(cells | changes), path)
    return path


def test_parquet_that_was_cut_off(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "table.parquet")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert "cut off or damaged" in message(path, schema())
    path.write_bytes(SECRET.encode())
    assert "is no Parquet file" in message(path, schema())


def test_parquet_that_is_damaged(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "table.parquet")
    whole = bytearray(path.read_bytes())
    whole[4:60] = bytes(56)
    path.write_bytes(bytes(whole))
    assert "cut off or damaged" in message(path, schema())


def test_parquet_without_rows(tmp_path: Path) -> None:
    none = {name: pa.array([], pa.string()) for name in ("age", "job", "size", "paid")}
    assert "has no records" in message(write_parquet(tmp_path / "t.parquet", **none), schema())


@pytest.mark.parametrize(
    "cells",
    [
        pa.array([[1.0], [2.0]]),
        pa.array([{"a": 1}, {"a": 2}]),
        pa.array([SECRET.encode(), b""]),
        pa.array([1, 2], pa.timestamp("s")),
    ],
    ids=lambda cells: str(cells.type),
)
def test_parquet_columns_of_other_types(tmp_path: Path, cells: pa.Array) -> None:
    path = write_parquet(tmp_path / "table.parquet", age=cells)
    text = message(path, schema())
    assert "'age' is of type" in text
    assert "ignored" in text


def test_parquet_cells_that_do_not_fit(tmp_path: Path) -> None:
    for name in ("age", "job", "size", "paid"):
        path = write_parquet(tmp_path / "table.parquet", **{name: pa.array([SECRET, SECRET])})
        assert repr(name) in message(path, schema())


def test_parquet_columns_are_checked_by_name(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "table.parquet", postcode=pa.array([SECRET, SECRET]))
    assert "'postcode'" in message(path, schema())
