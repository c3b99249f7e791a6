"""Text files in the publishers' own forms, and what is said of wrong ones."""

import gzip
import lzma
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.errors import TableError
from discreet.tables.columns import Numeric
from discreet_bench import datasets

from .files import ADULT, BANK, kdd_row, plain, small, write, zipped


def test_adult_has_a_comment_and_dots_in_its_test_file(tmp_path):
    write(tmp_path / "adult" / "adult.data.xz", ADULT.format("<=50K") + "\n", lzma.open)
    lines = "|1x3 Cross validator\n" + ADULT.format(">50K.").replace("State-gov", "?") + "\n"
    write(tmp_path / "adult" / "adult.test", lines)
    data = plain("adult", tmp_path)
    assert data.X.shape == (2, 105)
    assert data.y.tolist() == [0, 1]
    assert data.labels == ("<=50K", ">50K")
    assert dict(data.splits) == {"train": slice(0, 1), "test": slice(1, 2)}
    assert data.max_norm == pytest.approx(np.sqrt(14))
    assert data.X[0, 0] == pytest.approx((39 - 17) / 73)
    names = data.schema.feature_names
    assert data.X[0, names.index("workclass=State-gov")] == 1
    assert data.X[0].sum() - data.X[1].sum() == pytest.approx(1)  # "?" is all zeros
    train = plain("adult", tmp_path, split="train")
    np.testing.assert_array_equal(train.X, data.X[:1])


def test_bank_is_one_hot_by_the_public_lists(tmp_path):
    zipped(tmp_path / "bank" / "bank.zip", **{"bank-full__csv": BANK, "bank__csv": "another"})
    data = plain("bank", tmp_path)
    assert data.X.shape == (2, 42)
    assert data.y.tolist() == [0, 1]
    assert data.max_norm == 4.0
    assert data.X[0, 0] == 0.5  # 59 is halfway between 18 and 100
    assert data.X[:, 1:12].sum(axis=1).tolist() == [1.0, 0.0]  # a job that is not listed is zeros
    assert data.X[:, 12:14].tolist() == [[0.0, 1.0], [0.0, 0.0]]  # married is all zeros
    assert data.X[1, 18] == 0.0  # a balance below its bound is cut to it
    assert data.X.min() >= 0
    assert data.X.max() <= 1
    assert isinstance(small("bank", tmp_path).X, sp.csr_array)


def test_credit_has_old_line_ends_and_its_number_is_left_out(tmp_path):
    numbers = [7, 10_000, 2, 0, 3, 18, *[-2] * 6, *[0] * 6, *[1_000_000] * 6]
    fields = [*datasets.schema("credit-default").columns, "default.payment.next.month"]
    lines = [",".join(map(str, row)) for row in (fields, [*numbers, 1], [*numbers, 0])]
    write(tmp_path / "credit-default" / "UCI_Credit_Card.csv.xz", "\r".join(lines), lzma.open)
    data = plain("credit-default", tmp_path)
    assert data.X.shape == (2, 33)
    assert data.y.tolist() == [1, 0]
    assert data.X[0, 1:3].tolist() == [0, 1]
    assert data.X[0, 3:10].argmax() == 0
    assert data.X[0, 10:14].argmax() == 3
    assert (data.X[0, -12:-6] == 0.5).all()  # a bill of nothing, between equal bounds
    assert (data.X[0, -6:] == 1.0).all()


def test_bike_leaves_out_what_adds_up_to_the_target(tmp_path):
    header = ",".join([*datasets.schema("bike-sharing").columns, "cnt"])
    row = "1,2011-01-01,1,0,1,23,0,6,0,4,0.24,0.28,0.81,0,3,13,16"
    zipped(tmp_path / "bike-sharing" / "Bike-Sharing-Dataset.zip", hour__csv=f"{header}\n{row}\n")
    data = plain("bike-sharing", tmp_path)
    assert data.X.shape == (1, 61)
    assert data.y.tolist() == [16.0]
    assert data.X.sum() == pytest.approx(8 + 0.24 + 0.28 + 0.81)
    assert data.X[0, 18 + 23] == 1.0  # after four seasons, two years and twelve months


def test_banknote_by_another_schema(tmp_path):
    path = tmp_path / "banknote" / "data_banknote_authentication.txt"
    write(path, "4,-8,0,10,1\n-8,16,20,-10,0\n")
    data = plain("banknote", tmp_path)
    assert data.X.tolist() == [[0.75, 0.25, 0.5, 1.0], [0.0, 1.0, 1.0, 0.0]]
    own = replace(data.schema, columns={name: Numeric() for name in data.schema.columns})
    as_is = plain("banknote", tmp_path, schema=own)
    assert as_is.X[0].tolist() == [4, -8, 0, 10]
    assert as_is.max_norm is None


def test_kddcup_with_and_without_symbols(tmp_path):
    rows = kdd_row("http", "normal.") + kdd_row("icmp", "buffer_overflow.")
    write(tmp_path / "kddcup99" / "kddcup.data_10_percent.gz", rows, gzip.open)
    data = plain("kddcup99", tmp_path)
    assert data.X.shape == (2, 122)
    assert data.labels == ("attack", "normal")
    assert data.y.tolist() == [1, 0]
    names = data.schema.feature_names
    assert data.X[:, names.index("service=http")].tolist() == [1, 0]
    assert data.X[:, names.index("logged_in")].tolist() == [1, 1]
    continuous = plain("kddcup99-continuous", tmp_path)
    kept = [names.index(name) for name in continuous.schema.feature_names]
    assert len(kept) == 34
    np.testing.assert_array_equal(continuous.X, data.X[:, kept])
    assert data.X[0, -19:].tolist() == [1, 0, *[0.25] * 7, 1, 0, *[0.75] * 8]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("4,-8,0,secret,1\n", "column 'entropy': a cell is not a number"),
        ("4,-8,0,secret\n", "every record must have 5 cells"),
        ("4,-8,0,1,secret\n", "'class'"),
        ("", "empty"),
    ],
)
def test_what_is_wrong_is_told_without_the_cell(tmp_path, content, message):
    path = tmp_path / "banknote" / "data_banknote_authentication.txt"
    write(path, content)
    with pytest.raises(TableError, match=message) as error:
        datasets.load("banknote", data_dir=tmp_path)
    assert "secret" not in str(error.value)
    assert error.value.__cause__ is None
    assert error.value.__context__ is None


def test_a_header_that_is_not_the_publishers_is_refused(tmp_path):
    write(tmp_path / "bank" / "bank-full.csv", BANK.replace('"age"', '"years"'))
    with pytest.raises(TableError, match=r"bank-full\.csv: the columns must be 'age'"):
        datasets.load("bank", data_dir=tmp_path)
