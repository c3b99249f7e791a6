"""Numbers of text files in the forms of other countries, each cell by its own content."""

import tomllib
import warnings

import numpy as np
import pytest

from discreet.datasets import load_visits, write_visits
from discreet.errors import TableError
from discreet.tables import Categorical, Ignored, Numeric, Schema, draft, read
from discreet.tables.schema import FileFormat

GERMAN = FileFormat(delimiter=";", decimal=",", thousands=".")


def numbers(tmp_path, texts, form, **settings):
    """Return the numbers that texts are in a file of this form."""
    path = tmp_path / "t.csv"
    lines = [f"{text}{form.delimiter}x" for text in texts]
    path.write_text("\n".join([f"a{form.delimiter}b", *lines]) + "\n", form.encoding)
    schema = Schema({"a": Numeric(**settings), "b": Ignored()}, file=form)
    return read(path, schema, dtype="float64").X[:, 0].tolist()


@pytest.mark.parametrize(
    ("form", "texts", "values"),
    [
        (
            GERMAN,
            [
                "28,7",
                "4.658,15",
                "1.234",
                "1.234.567",
                "-0,5",
                "+3",
                "7",
                " 2,5 ",
                "1,5e3",
                "28.41",
            ],
            [28.7, 4658.15, 1234.0, 1234567.0, -0.5, 3.0, 7.0, 2.5, 1500.0, 28.41],
        ),
        (
            FileFormat(delimiter=";", decimal=",", thousands=" "),
            ["1 234,5", "1\u00a0234,5", "1\u202f234 567", "12,25"],
            [1234.5, 1234.5, 1234567.0, 12.25],
        ),
        (
            FileFormat(delimiter="\t", thousands=","),
            ["1,234.50", "1,234,567", "12.5", "999"],
            [1234.5, 1234567.0, 12.5, 999.0],
        ),
        (
            FileFormat(delimiter="\t", thousands="'"),
            ["1'234.50", "12.5"],
            [1234.5, 12.5],
        ),
        (FileFormat(delimiter=";", decimal=","), ["1,5", "-2,25"], [1.5, -2.25]),
    ],
    ids=["german", "french", "english", "swiss", "comma"],
)
def test_numbers_are_read_in_their_form(tmp_path, form, texts, values):
    assert numbers(tmp_path, texts, form) == values


@pytest.mark.parametrize("text", ["1.23,5", "12.34.567", "1,2,3", "1 234,5", "k.A."])
def test_what_is_no_number_in_the_form_is_refused(tmp_path, text):
    with pytest.raises(TableError, match="a cell is not a number"):
        numbers(tmp_path, ["1,5", text], GERMAN)


def test_a_plain_file_has_no_decimal_commas(tmp_path):
    with pytest.raises(TableError, match="a cell is not a number"):
        numbers(tmp_path, ["1,5"], FileFormat(delimiter=";"))


def test_levels_that_are_no_numbers_stay_as_they_are(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a;b\nE11,9;1\nx.y;2\nE11,9;1,5\n")
    columns = {"a": Categorical(["E11,9", "x.y"], unseen="refuse"), "b": Numeric(0, 2)}
    X = read(path, Schema(columns, file=GERMAN), dtype="float64").X
    assert X.tolist() == [[1, 0, 0.5], [0, 1, 1.0], [1, 0, 0.75]]


def test_a_cell_means_the_same_in_every_block(tmp_path):
    """Numbers that are written in two ways are one level, whatever else is in the block."""
    path = tmp_path / "t.csv"
    path.write_text("a\n" + "1.000\n1000\n0,5\n" * 3)
    levels = Categorical(["1000", "0.5"], unseen="refuse")
    form = FileFormat(decimal=",", thousands=".", delimiter=";")
    X = read(path, Schema({"a": levels}, file=form), dtype="float64").X
    assert X.tolist() == [[1, 0], [1, 0], [0, 1]] * 3


def test_signs_must_differ():
    with pytest.raises(ValueError, match="decimal and thousands must differ"):
        FileFormat(decimal=",", thousands=",")


@pytest.mark.parametrize(("delimiter", "given", "decimal"), [
    (";", None, ","), (",", None, "."), (";", ".", "."), ("\t", ",", ","),
])  # fmt: skip
def test_a_draft_takes_semicolons_for_decimal_commas(tmp_path, delimiter, given, decimal):
    path = tmp_path / "t.csv"
    path.write_text(f"a{delimiter}b\n1{delimiter}2\n")
    text = draft(path, decimal=given)
    assert ('decimal = ","' in text) == (decimal == ",")
    with pytest.raises(ValueError, match="decimal must be"):
        draft(path, decimal="x")


def test_windows_1252_is_told_from_latin_1(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("a,cost €\n1,2\n".encode("cp1252"))
    with pytest.raises(TableError, match="on Windows wrote it, pass --encoding cp1252"):
        draft(path)
    with pytest.raises(TableError, match="probably Windows-1252: pass --encoding cp1252"):
        draft(path, encoding="latin-1")
    assert "cost €" in draft(path, encoding="cp1252")


def test_a_european_export_is_the_same_table(tmp_path):
    """All numbers of the example table, and a guess of its kinds without a statement but dates."""
    write_visits(tmp_path / "v.csv", 300, european=True)
    settings = {"encoding": "cp1252", "dates": "%d.%m.%Y", "unit": "patient"}
    text = draft(tmp_path / "v.csv", target="readmitted", **settings)
    kinds = {name: column.get("kind") for name, column in tomllib.loads(text)["columns"].items()}
    numeric = {"age", "bmi", "emergencies", "days", "cost €"}
    assert {name for name, kind in kinds.items() if kind == "numeric"} == numeric
    assert kinds["admitted"] == "date"
    cells = load_visits(300, form="columns")
    form = FileFormat(";", "cp1252", decimal=",", thousands=".")
    columns = {name: Ignored() for name in cells if name != "cost"}
    columns |= {"cost €": Numeric(), "bmi": Numeric(missing=True)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        X = read(tmp_path / "v.csv", Schema(columns, file=form), dtype="float64").X
    np.testing.assert_array_equal(X[:, -1], cells["cost"])
    np.testing.assert_array_equal(X[:, 0], np.nan_to_num(cells["bmi"]))
