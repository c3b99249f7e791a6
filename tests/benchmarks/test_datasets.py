"""Loaders of public data sets, on tiny files of the same formats."""

import gzip
import lzma
import struct
import zipfile

import numpy as np
import pytest

from benchmarks import datasets

BANK = """"age";"job";"marital";"education";"default";"balance";"housing";"loan";"contact";"day";\
"month";"duration";"campaign";"pdays";"previous";"poutcome";"y"
59;"admin.";"single";"unknown";"no";0;"yes";"no";"cellular";31;"jan";0;1;-1;0;"unknown";"no"
18;"new job";"married";"tertiary";"yes";-99999;"no";"yes";"unknown";1;"dec";7200;1;5;2;"success";\
"yes"
"""


def text(path, content, opener=open):
    path.parent.mkdir(exist_ok=True)
    with opener(path, "wt", newline="") as file:
        file.write(content)


def zipped(path, member, content):
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, content)


def test_bank_is_one_hot_by_the_public_lists(tmp_path):
    zipped(tmp_path / "bank" / "bank.zip", "bank-full.csv", BANK)
    data = datasets.load("bank", tmp_path)
    assert data.X.shape == (2, 42)
    assert data.X.dtype == np.float64
    assert data.y.tolist() == [-1.0, 1.0]
    assert data.target_bounds is None
    assert data.max_norm == 4.0
    assert data.X[0, 0] == 0.5  # 59 is halfway between 18 and 100
    # admin. is the first of the eleven jobs; a job that is not listed is all zeros
    assert data.X[:, 1:12].sum(axis=1).tolist() == [1.0, 0.0]
    assert data.X[0, 1] == 1.0
    assert data.X[:, 12:14].tolist() == [[0.0, 1.0], [0.0, 0.0]]  # married is all zeros
    assert data.X[1, 18] == 0.0  # a balance below its bound is cut to it
    assert data.X.min() >= 0
    assert data.X.max() <= 1


def test_logarithmic_scale_is_signed_monotone_and_reaches_its_bounds():
    scaled = datasets.Log(-10, 1000).encode(np.array([-50.0, -10, -1, 0, 1, 1000, 5000]))[:, 0]
    assert scaled[[0, 1]].tolist() == [0.0, 0.0]
    assert scaled[[5, 6]].tolist() == [1.0, 1.0]
    assert (np.diff(scaled[1:6]) > 0).all()
    zero = np.log(11) / (np.log(11) + np.log(1001))
    assert scaled[3] == pytest.approx(zero, rel=1e-12)


def test_an_encoding_of_one_row_does_not_depend_on_the_others(tmp_path):
    zipped(tmp_path / "bank" / "bank.zip", "bank-full.csv", BANK)
    both = datasets.load("bank", tmp_path).X
    (tmp_path / "one").mkdir()
    header, _, *rest = BANK.splitlines(keepends=True)
    zipped(tmp_path / "one" / "bank" / "bank.zip", "bank-full.csv", "".join([header, *rest]))
    np.testing.assert_array_equal(datasets.load("bank", tmp_path / "one").X[0], both[1])


def test_credit_has_old_line_ends_and_its_number_is_left_out(tmp_path):
    numbers = [7, 10_000, 2, 0, 3, 18, *[-2] * 6, *[0] * 6, *[1_000_000] * 6]
    names = [f"c{i}" for i in range(25)]
    lines = [",".join(names), ",".join(map(str, [*numbers, 1])), ",".join(map(str, [*numbers, 0]))]
    text(tmp_path / "credit-default" / "UCI_Credit_Card.csv.xz", "\r".join(lines), lzma.open)
    data = datasets.load("credit-default", tmp_path)
    assert data.X.shape == (2, 33)
    assert data.y.tolist() == [1.0, -1.0]
    sex, education, marriage = data.X[0, 1:3], data.X[0, 3:10], data.X[0, 10:14]
    assert sex.tolist() == [0, 1]
    assert education.argmax() == 0
    assert marriage.argmax() == 3
    assert data.X[0, 0] == 0.0
    assert (data.X[0, -12:-6] == 0.5).all()  # a bill of nothing, between equal bounds
    assert (data.X[0, -6:] == 1.0).all()


def test_wine_is_red_then_white_with_the_colour_last(tmp_path):
    row = "16;2;2;100;1;300;500;1.04;4.5;2;15;{}\n"
    for colour, quality in (("red", 3), ("white", 8)):
        path = tmp_path / "wine-quality" / f"winequality-{colour}.csv"
        text(path, '"a"\n' + row.format(quality))
    data = datasets.load("wine-quality", tmp_path)
    assert data.y.tolist() == [3.0, 8.0]
    assert data.target_bounds == (0, 10)
    assert data.X[:, 11].tolist() == [1.0, 0.0]
    np.testing.assert_allclose(data.X[:, :11], 1.0)
    assert data.max_norm == pytest.approx(np.sqrt(12))


def test_bike_leaves_out_what_adds_up_to_the_target(tmp_path):
    row = "1,2011-01-01,1,0,1,23,0,6,0,4,0.24,0.28,0.81,0,3,13,16"
    zipped(
        tmp_path / "bike-sharing" / "Bike-Sharing-Dataset.zip", "hour.csv", "header\n" + row + "\n"
    )
    data = datasets.load("bike-sharing", tmp_path)
    assert data.X.shape == (1, 61)
    assert data.y.tolist() == [16.0]
    assert data.X.sum() == pytest.approx(8 + 0.24 + 0.28 + 0.81)
    assert data.X[0, 18 + 23] == 1.0  # after four seasons, two years and twelve months


def test_banknote_raw_and_scaled(tmp_path):
    path = tmp_path / "banknote" / "data_banknote_authentication.txt"
    text(path, "4,-8,0,10,1\n-8,16,20,-10,0\n")
    data = datasets.load("banknote", tmp_path)
    assert data.X.tolist() == [[0.75, 0.25, 0.5, 1.0], [0.0, 1.0, 1.0, 0.0]]
    raw = datasets.load("banknote", tmp_path, raw=True)
    assert raw.X[0].tolist() == [4, -8, 0, 10]
    assert raw.max_norm == np.inf
    assert raw.y.tolist() == [1.0, -1.0]


def test_occupancy_has_one_field_more_than_names_and_a_clock(tmp_path):
    header = '"date","Temperature","Humidity","Light","CO2","HumidityRatio","Occupancy"\n'
    text(
        tmp_path / "occupancy" / "datatraining.txt.xz",
        header + '"1","2015-02-04 18:00:00",30,50,1000,300,0.01,1\n',
        lzma.open,
    )
    data = datasets.load("occupancy", tmp_path)
    assert data.X.tolist() == [[0.75, 1.0, 0.5, 0.5, 0.0, 0.5]]
    assert data.y.tolist() == [1.0]


def test_kddcup_keeps_the_continuous_columns(tmp_path):
    rates = ["0.25"] * 7 + ["255", "0"] + ["0.75"] * 8
    start = "0,tcp,http,SF,0,999999999,0,0,0,0,0,1" + ",0" * 10 + ",511,0"
    row = f"{start},{','.join(rates)}"
    text(
        tmp_path / "kddcup99" / "kddcup.data_10_percent.gz",
        f"{row},normal.\n{row},buffer_overflow.\n",
        gzip.open,
    )
    data = datasets.load("kddcup99", tmp_path)
    assert data.X.shape == (2, 34)
    assert data.y.tolist() == [1.0, -1.0]
    assert data.X[0, 2] == pytest.approx(1.0)
    assert data.X[0, -19:].tolist() == [1, 0, *[0.25] * 7, 1, 0, *[0.75] * 8]


def test_mnist_is_zero_against_the_rest(tmp_path):
    (tmp_path / "mnist").mkdir()
    pixels = np.zeros((3, 784), dtype=np.uint8)
    pixels[1, 5] = 255
    for name, header, body in (
        ("train-images-idx3-ubyte.gz", struct.pack(">4i", 2051, 3, 28, 28), pixels.tobytes()),
        ("train-labels-idx1-ubyte.gz", struct.pack(">2i", 2049, 3), bytes([0, 7, 0])),
    ):
        with gzip.open(tmp_path / "mnist" / name, "wb") as file:
            file.write(header + body)
    data = datasets.load("mnist", tmp_path)
    assert data.X.shape == (3, 784)
    assert data.X[1, 5] == 1.0
    assert data.X.sum() == 1.0
    assert data.y.tolist() == [1.0, -1.0, 1.0]
    assert datasets.load("mnist", tmp_path, raw=True).X[1, 5] == 255


def test_unknown_names_and_a_missing_folder_say_what_to_do(monkeypatch):
    monkeypatch.delenv("DISCREET_DATA", raising=False)
    with pytest.raises(SystemExit, match="DISCREET_DATA"):
        datasets.load("bank")
    monkeypatch.setenv("DISCREET_DATA", ".")
    with pytest.raises(SystemExit, match="known: bank"):
        datasets.load("bnak")
