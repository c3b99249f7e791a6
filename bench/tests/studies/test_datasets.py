"""What the studies choose beyond the named data sets, on tiny files of the same formats."""

import gzip
import lzma
import struct

import numpy as np
import pytest

from benchmarks import adult, datasets
from discreet_bench import datasets as named

pytestmark = pytest.mark.filterwarnings("ignore:.*not the publisher's file")


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch, tmp_path):
    monkeypatch.delenv("DISCREET_DATA", raising=False)
    monkeypatch.setenv("DISCREET_CACHE", str(tmp_path / "cache"))


def text(path, content, opener=open):
    path.parent.mkdir(exist_ok=True)
    with opener(path, "wt", newline="") as file:
        file.write(content)


def load(name, where, **options):
    return datasets.load(name, where, check=False, **options)


def test_banknote_raw_and_scaled(tmp_path):
    path = tmp_path / "banknote" / "data_banknote_authentication.txt"
    text(path, "4,-8,0,10,1\n-8,16,20,-10,0\n")
    data = load("banknote", tmp_path)
    assert data.X.tolist() == [[0.75, 0.25, 0.5, 1.0], [0.0, 1.0, 1.0, 0.0]]
    assert data.X.dtype == np.float64
    assert data.y.tolist() == [1.0, -1.0]
    assert data.max_norm == 2.0
    assert data.target_bounds is None
    raw = load("banknote", tmp_path, raw=True)
    assert raw.X[0].tolist() == [4, -8, 0, 10]
    assert raw.max_norm == np.inf
    assert raw.y.tolist() == [1.0, -1.0]


def test_real_targets_keep_their_bounds_and_rows_are_dense(tmp_path):
    names = list(named.schema("wine-quality").columns)[:-1]
    for colour, quality in (("red", 3), ("white", 8)):
        text(
            tmp_path / "wine-quality" / f"winequality-{colour}.csv",
            f"{';'.join(names)};quality\n16;2;2;100;1;300;500;1.04;4.5;2;15;{quality}\n",
        )
    data = load("wine-quality", tmp_path)
    assert isinstance(data.X, np.ndarray)
    assert data.y.tolist() == [3.0, 8.0]
    assert data.target_bounds == (0, 10)
    raw = load("wine-quality", tmp_path, raw=True)
    assert raw.X[0].tolist() == [16, 2, 2, 100, 1, 300, 500, 1.04, 4.5, 2, 15, 1.0]


def test_occupancy_is_the_training_file(tmp_path):
    header = '"date","Temperature","Humidity","Light","CO2","HumidityRatio","Occupancy"\n'
    text(
        tmp_path / "occupancy" / "datatraining.txt.xz",
        header + '"1","2015-02-04 18:00:00",30,50,1000,300,0.01,1\n',
        lzma.open,
    )
    assert load("occupancy", tmp_path).X.tolist() == [[0.75, 1.0, 0.5, 0.5, 0.0, 0.5]]
    # The time of day is a share of the day in either form.
    assert load("occupancy", tmp_path, raw=True).X[0].tolist() == [0.75, 30, 50, 1000, 300, 0.01]


def test_kddcup_keeps_the_continuous_columns_and_normal_is_positive(tmp_path):
    rates = ["0.25"] * 7 + ["255", "0"] + ["0.75"] * 8
    row = "0,tcp,http,SF,0,999999999,0,0,0,0,0,1" + ",0" * 10 + ",511,0," + ",".join(rates)
    text(
        tmp_path / "kddcup99" / "kddcup.data_10_percent.gz",
        f"{row},normal.\n{row},buffer_overflow.\n",
        gzip.open,
    )
    data = load("kddcup99", tmp_path)
    assert data.X.shape == (2, 34)
    assert data.y.tolist() == [1.0, -1.0]
    assert data.X[0, -19:].tolist() == [1, 0, *[0.25] * 7, 1, 0, *[0.75] * 8]


def test_mnist_is_zero_against_the_rest_of_the_training_images(tmp_path):
    (tmp_path / "mnist").mkdir()
    pixels = np.zeros((3, 784), dtype=np.uint8)
    pixels[1] = np.arange(784) % 256
    for name, header, body in (
        ("train-images-idx3-ubyte.gz", struct.pack(">4i", 2051, 3, 28, 28), pixels.tobytes()),
        ("train-labels-idx1-ubyte.gz", struct.pack(">2i", 2049, 3), bytes([0, 7, 0])),
    ):
        with gzip.open(tmp_path / "mnist" / name, "wb") as file:
            file.write(header + body)
    data = load("mnist", tmp_path)
    np.testing.assert_array_equal(data.X, pixels / 255.0)
    assert data.y.tolist() == [1.0, -1.0, 1.0]
    assert data.max_norm == 28.0
    np.testing.assert_array_equal(load("mnist", tmp_path, raw=True).X, pixels)


def test_adult_insists_on_both_whole_files(tmp_path):
    row = "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, "
    row += "Male, 2174, 0, 40, United-States, "
    text(tmp_path / "adult" / "adult.data", f"{row}<=50K\n")
    text(tmp_path / "adult" / "adult.test", f"|comment\n{row}>50K.\n")
    with pytest.raises(ValueError, match="32,561 rows"):
        adult.load(tmp_path)
    data = load("adult", tmp_path)
    assert data.X.shape == (2, 105)
    assert data.y.tolist() == [-1.0, 1.0]


def test_every_name_is_that_of_a_data_set():
    assert set(datasets.NAMES) <= set(named.names())
    with pytest.raises(SystemExit, match="known: bank"):
        datasets.load("bnak")
