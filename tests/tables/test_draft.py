"""Drafts of a schema: what is read of a file, and what is left open."""

import os
import tomllib

import pytest

from discreet.errors import TableError
from discreet.tables.schema import Schema

pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")

from discreet.tables.draft import draft, layout
from discreet.tables.reader import read

from .drafts import N, private


class TestDraft:
    def test_gaps_are_listed_until_they_are_filled_in(self, csv_file):
        text = draft(csv_file, target="label")
        data = tomllib.loads(text)
        assert data["file"] == {"delimiter": ";", "decimal": ",", "thousands": "."}
        assert data["target"] == {"column": "label"}
        kinds = {name: column["kind"] for name, column in data["columns"].items()}
        assert kinds == {
            "age": "numeric",
            "income": "numeric",
            "city": "categorical",
            "person": "ignored",  # another text in each of the first records
        }
        with pytest.raises(TableError, match="4 problems") as caught:
            Schema.from_toml(text)
        assert str(caught.value).count("fill in") == 4

    def test_filled_in_it_reads_the_file(self, csv_file):
        text = draft(csv_file, target="label")
        text = text.replace('# classes = ["", ""]', 'classes = ["no", "yes"]')
        numbers, rest = text.split("[columns.city]")
        target, numbers = numbers.split("[columns.age]")
        numbers = numbers.replace("# low =", "low = 0").replace("# high =", "high = 100")
        rest = rest.replace('# values = ["", ""]', 'values = ["Bern", "Graz"]')
        schema = Schema.from_toml(f"{target}[columns.age]{numbers}[columns.city]{rest}")
        found = read(csv_file, schema)
        assert found.X.shape == (N, schema.width)

    def test_no_cell_of_the_file_is_in_it(self, csv_file, parquet_file):
        for path in (csv_file, parquet_file):
            text = draft(path, target="label")
            for cell in ("Bern", "Nowhere", "9900", "P0000", "yes", "69"):
                assert cell not in text

    def test_it_says_that_kinds_were_guessed_from_records(self, csv_file, parquet_file):
        assert "look at the data" in " ".join(draft(csv_file).replace("#", "").split())
        assert "guessed" not in draft(parquet_file)

    def test_names_only_reads_the_header_alone(self, tmp_path):
        path = tmp_path / "header.csv"
        path.write_text("a|b c|d\n1|2|3|4|not a table at all\n")
        text = draft(path, names_only=True)
        data = tomllib.loads(text)
        assert data["columns"] == {"a": {}, "b c": {}, "d": {}}
        assert data["file"]["delimiter"] == "|"
        with pytest.raises(TableError, match="kind"):
            Schema.from_toml(text)
        with pytest.raises(TableError, match="number of fields"):
            draft(path)

    def test_later_records_do_not_change_a_kind(self, tmp_path):
        path = tmp_path / "late.csv"
        path.write_text("a\n" + "1\n" * 1000 + "text\n")
        assert tomllib.loads(draft(path))["columns"]["a"]["kind"] == "numeric"
        path.write_text("a\n" + "1\n" * 999 + "text\n")
        assert tomllib.loads(draft(path))["columns"]["a"]["kind"] == "categorical"

    def test_an_empty_column_is_not_called_numeric(self, tmp_path):
        path = tmp_path / "empty.csv"
        path.write_text("a,b\n,1\n,2\n")
        kinds = tomllib.loads(draft(path))["columns"]
        assert kinds["a"]["kind"] == "categorical"
        assert kinds["b"]["kind"] == "numeric"

    @pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
    def test_delimiters_come_from_the_header_line(self, tmp_path, delimiter):
        path = tmp_path / "file.txt"
        path.write_text(delimiter.join(["a", '"b"', "c"]) + "\n1,1;1|1\t1\n")
        assert layout(path).names == ("a", "b", "c")
        assert layout(path).file.delimiter == delimiter

    def test_types_come_from_parquet_metadata(self, parquet_file):
        kinds = tomllib.loads(draft(parquet_file))["columns"]
        assert kinds["age"]["kind"] == "numeric"
        assert kinds["city"]["kind"] == "categorical"
        assert kinds["member"]["kind"] == "boolean"
        assert kinds["when"]["kind"] == "date"
        assert "# low = 2000-01-01 " in draft(parquet_file)

    def test_a_file_without_header_needs_names(self, tmp_path):
        path = tmp_path / "bare.csv"
        path.write_text("1,x\n2,y\n")
        with pytest.raises(TableError, match=r"--names .*names=\["):
            draft(path)
        with pytest.raises(TableError, match="2 fields, but names lists 3"):
            draft(path, names=["a", "b", "c"])
        for delimiter in (",", ";"):
            path.write_text(f"1{delimiter}x\n2{delimiter}y\n")
            data = tomllib.loads(draft(path, names=["a", "b"]))
            assert data["columns"]["a"]["kind"] == "numeric"
            assert data["file"]["names"] == ["a", "b"]
            assert data["file"].get("delimiter", ",") == delimiter

    def test_a_first_line_with_numbers_is_not_taken_for_names(self, tmp_path):
        path = tmp_path / "bare.csv"
        path.write_text("39,SECRET-7391,77516\n50,Private,83311\n")
        with pytest.raises(TableError, match="seems to be a record") as caught:
            draft(path)
        assert "SECRET" not in str(caught.value)

    @pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
    def test_with_an_encoding_the_delimiter_is_still_guessed(self, tmp_path, encoding):
        path = tmp_path / "file.csv"
        path.write_text("größe;b,c;d\n1,2;ü;3\n", encoding)
        data = tomllib.loads(draft(path, encoding=encoding))
        signs = {"decimal": ",", "thousands": "."}  # as where semicolons separate cells
        assert data["file"] == {"delimiter": ";", "encoding": encoding} | signs
        assert list(data["columns"]) == ["größe", "b,c", "d"]
        data = tomllib.loads(draft(path, encoding=encoding, delimiter=","))
        assert list(data["columns"]) == ["größe;b", "c;d"]

    def test_how_a_file_is_written_is_checked_before_it_is_opened(self, tmp_path):
        with pytest.raises(ValueError, match="delimiter must be one character"):
            draft(tmp_path / "none.csv", delimiter="ab")
        with pytest.raises(ValueError, match="encoding must be one"):
            private(tmp_path / "none.csv", encoding="morse")

    @pytest.mark.parametrize("content", ["a,ü\n1,2\n", "a,b\n1,ü\n"])
    def test_text_in_another_encoding_is_told_with_the_option(self, tmp_path, content):
        path = tmp_path / "file.csv"
        path.write_text(content, "latin-1")
        option = r'pass --encoding cp1252 \(encoding="cp1252" in Python\)'
        for make in (draft, private):
            with pytest.raises(TableError, match=option) as caught:
                make(path)
            assert "[file]" not in str(caught.value)

    def test_a_private_draft_keeps_the_encoding(self, tmp_path):
        path = tmp_path / "file.csv"
        path.write_text("a;b\n" + "1;ü\n" * 2000, "latin-1")
        schema = private(path, encoding="latin-1")
        assert (schema.file.encoding, schema.file.delimiter) == ("latin-1", ";")
        assert schema.columns["b"].values == ("ü",)

    def test_the_kinds_are_named_once_at_the_top(self, csv_file, parquet_file):
        for text in (draft(csv_file), draft(parquet_file), draft(csv_file, names_only=True)):
            top = text.split("version = 1")[0]
            for word in ("numeric", "categorical", "boolean", "ordinal", "ignored"):
                assert top.count(f'"{word}"') == 1
            assert 'bounds = "private"' in top
            assert "unseen" in top
            assert "unseen" not in text.removeprefix(top)

    def test_pipes_are_refused(self, tmp_path):
        path = tmp_path / "pipe"
        os.mkfifo(path)
        for make in (draft, private):
            with pytest.raises(TableError, match=r"not a regular file .*; save it to a file first"):
                make(path)

    def test_odd_names_survive(self, tmp_path):
        path = tmp_path / "odd.csv"
        path.write_text('"a ""b"" [c]",größe,x.y\n1,2,3\n')
        assert list(tomllib.loads(draft(path))["columns"]) == ['a "b" [c]', "größe", "x.y"]

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "empty"),
            (b"a,a\n1,2\n", "same name"),
            (b"PK\x03\x04rest", "zip"),
            (b"a,b\n", "no records"),
            (b"\xfa,b\n1,2\n", "not valid UTF-8"),
            ("a,b\n1,2\n".encode("utf-16"), "pass --encoding utf-16"),
            (b"\xd0\xcf\x11\xe0\xa1\xb1", "old Excel"),
            (b'{"a": 1, "b": 2}\n', "seems to be JSON"),
            (b"<html><head>\n", "seems to be HTML"),
            (b"\n\n", "empty"),
            (b"PAR1 and then nothing", "damaged"),
        ],
    )
    def test_bad_files_are_refused_as_the_reader_refuses_them(self, tmp_path, content, message):
        path = tmp_path / "bad.csv"
        path.write_bytes(content)
        with pytest.raises(TableError, match=message):
            draft(path)
        with pytest.raises(TableError, match=message):
            private(path)

    def test_an_unknown_target_is_named_with_the_nearest(self, csv_file, parquet_file):
        with pytest.raises(TableError, match="did you mean 'label'"):
            draft(csv_file, target="lable", header=True)
        with pytest.raises(TableError, match="did you mean 'label'"):
            private(parquet_file, target="lable")
        with pytest.raises(TableError, match="cannot be predicted"):
            private(parquet_file, target="when")

    def test_a_file_of_columns_of_one_name_shows_it_if_it_is_public(self, tmp_path):
        path = tmp_path / "twice.csv"
        path.write_text("SECRET,SECRET\nx,y\n")
        for make in (draft, private):
            with pytest.raises(TableError, match="columns of the same name") as caught:
                make(path)
            assert "SECRET" not in str(caught.value)


class TestHeader:
    """The first line of a text file is a record if nobody says that it holds names."""

    @pytest.fixture
    def records(self, tmp_path):
        path = tmp_path / "records.csv"
        path.write_text("SECRET,no\n" + "alice,yes\nbob,no\n" * 500)
        return path

    def test_a_private_draft_needs_the_callers_word(self, records):
        with pytest.raises(ValueError, match=r"pass --header .*--no-header") as caught:
            private(records, header=None)
        assert "SECRET" not in str(caught.value)

    def test_no_header_makes_names_up_and_counts_the_first_record(self, records):
        schema = private(records, header=False)
        assert schema.file_names == ("column_1", "column_2")
        assert "SECRET" not in schema.to_toml()
        assert read(records, schema, target=False).X.shape[0] == 1001

    def test_names_may_be_given(self, records):
        schema = private(records, names=["who", "paid"], target="paid")
        assert schema.target.labels == ("no", "yes")
        assert schema.columns["who"].values == ("alice", "bob")
        with pytest.raises(TableError, match="did you mean 'paid'"):
            private(records, names=["who", "paid"], target="pad")
        with pytest.raises(ValueError, match="without a header"):
            private(records, names=["who", "paid"], header=True)

    def test_an_unknown_target_does_not_show_the_first_line(self, records):
        for make, header in ((draft, None), (draft, False), (private, True), (private, False)):
            with pytest.raises(TableError, match="no column 'y'") as caught:
                make(records, target="y", header=header)
            assert "SECRET" not in str(caught.value)

    def test_the_text_says_that_the_first_line_is_public(self, csv_file, parquet_file, records):
        said = "first line of the file, which becomes public"
        assert said in draft(csv_file)
        assert said not in draft(parquet_file)
        assert said not in draft(records, header=False)
        assert "names of the columns are public" in private(csv_file).to_toml()

    def test_names_may_be_numbers_if_the_caller_says_so(self, tmp_path):
        path = tmp_path / "years.csv"
        path.write_text("2001,2002\n1,2\n")
        with pytest.raises(TableError, match="seems to be a record"):
            draft(path)
        assert list(tomllib.loads(draft(path, header=True))["columns"]) == ["2001", "2002"]
