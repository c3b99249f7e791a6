"""Named data sets: small files in the publishers' formats, and the real ones where they are."""

import bz2
import gzip
import hashlib
import lzma
import os
import socket
import struct
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.datasets

from discreet.errors import TableError
from discreet.tables import datasets
from discreet.tables.columns import Numeric
from discreet.tables.datasets import entries, fetching, loading, places, sources

FOLDER = os.environ.get("DISCREET_DATA")
FETCHERS = {
    name: getattr(sklearn.datasets, name)
    for name in ("fetch_openml", "fetch_covtype", "fetch_kddcup99", "fetch_rcv1")
}
WIDTHS = {
    "adult": 105,
    "bank": 42,
    "credit-default": 33,
    "wine-quality": 12,
    "bike-sharing": 61,
    "banknote": 4,
    "occupancy": 6,
    "covertype": 54,
    "kddcup99": 122,
    "kddcup99-full": 122,
    "kddcup99-continuous": 34,
    "mnist": 784,
    "gisette": 5000,
}
ADULT = "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, \
Male, 2174, 0, 40, United-States, {}\n"
BANK = """"age";"job";"marital";"education";"default";"balance";"housing";"loan";"contact";"day";\
"month";"duration";"campaign";"pdays";"previous";"poutcome";"y"
59;"admin.";"single";"unknown";"no";0;"yes";"no";"cellular";31;"jan";0;1;-1;0;"unknown";"no"
18;"new job";"married";"tertiary";"yes";-99999;"no";"yes";"unknown";1;"dec";7200;1;5;2;"success";\
"yes"
"""

URLOPEN = urllib.request.urlopen


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch, tmp_path):
    """No folder of the machine's is looked into, and nothing can be downloaded."""
    monkeypatch.delenv("DISCREET_DATA", raising=False)
    monkeypatch.setenv("DISCREET_CACHE", str(tmp_path / "cache"))

    def offline(*arguments, **options):
        raise urllib.error.URLError("offline")

    for name in FETCHERS:
        monkeypatch.setattr(sklearn.datasets, name, offline)
    monkeypatch.setattr(fetching.urllib.request, "urlopen", offline)
    monkeypatch.setattr(fetching.time, "sleep", lambda seconds: None)


def write(path, content, opener=open):
    path.parent.mkdir(exist_ok=True, parents=True)
    data = content.encode() if isinstance(content, str) else content
    with opener(path, "wb") as file:
        file.write(data)


def zipped(path, **members):
    path.parent.mkdir(exist_ok=True, parents=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "."), content)


def small(name, folder, **options):
    """Load a small copy: neither its checksum nor its counts are the publisher's."""
    with pytest.warns(UserWarning, match="checksum"):
        return datasets.load(name, data_dir=folder, check=False, **options)


def plain(name, folder, **options):
    return small(name, folder, sparse=False, dtype="float64", **options)


# --- the catalogue -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", datasets.names())
def test_every_entry_is_complete(name):
    known = entries.entry(name)
    about = datasets.describe(name)
    for text in (about.title, about.about, about.licence, about.source, about.citation):
        assert text
        assert "\n" not in text
    assert about.place in ("generated", "download", "by hand")
    assert about.available is (about.place == "generated")
    assert about.rows > 0
    assert about.licence in str(about)
    assert f"{about.rows:,} rows × {about.features:,} columns" in str(about)
    assert known.derivation == "" or known.format == "text"
    for file in known.files:
        assert file.url == "" or file.url.startswith("https://")
        assert file.sha256 == "" or len(file.sha256) == 64
        assert file.split in (*known.splits, "all")
    for split, counts in known.counts.items():
        total = sum(known.rows.values()) if split == "all" else known.rows[split]
        assert sum(counts.values()) == total
        schema = datasets.schema(name)
        assert set(counts) == set(schema.target.labels if schema else known.labels)


@pytest.mark.parametrize(("name", "width"), WIDTHS.items())
def test_widths(name, width):
    schema = datasets.schema(name)
    assert schema.width == width
    assert not schema.unbounded
    assert datasets.describe(name).features == width


def test_every_set_of_the_papers_has_a_name():
    assert set(datasets.names()) >= {*WIDTHS, "ipums-us", "ipums-br", "real-sim", "rcv1"} | {
        "reuters",
        "synthetic-l",
        "synthetic-h",
        "sphere",
    }


def test_unknown_names_say_what_was_meant(tmp_path):
    with pytest.raises(ValueError, match="did you mean 'adult'"):
        datasets.load("adlut")
    with pytest.raises(ValueError, match="no part 'tset'; did you mean 'test'"):
        datasets.load("adult", split="tset")
    with pytest.raises(ValueError, match="float16"):
        datasets.load("adult", dtype="float16")
    with pytest.raises(ValueError, match="not a table"):
        datasets.table("mnist")
    with pytest.raises(ValueError, match="another schema"):
        datasets.load("mnist", schema=datasets.schema("bank"))


def test_optional_packages_are_asked_for_when_a_table_is_read(tmp_path):
    banknote(tmp_path)
    code = (
        "import sys\n"
        "sys.modules.update(pyarrow=None, pandas=None)  # as if they were not installed\n"
        "from discreet.tables import datasets\n"
        "assert 'sklearn.datasets' not in sys.modules\n"
        "assert datasets.load('sphere').X.shape == (10_000, 5)\n"
        "datasets.load('banknote', data_dir=sys.argv[1])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert run.stderr.splitlines()[-1].startswith("ImportError: Reading tables needs pyarrow")


# --- text files ----------------------------------------------------------------------------------


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


def test_one_part_needs_only_its_own_files(tmp_path):
    write(tmp_path / "adult" / "adult.data", ADULT.format("<=50K"))
    assert plain("adult", tmp_path, split="train").y.tolist() == [0]
    with pytest.raises(FileNotFoundError, match=r"Put adult\.test "):
        datasets.load("adult", data_dir=tmp_path, download=False)


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


def test_an_unpacked_member_does_as_well(tmp_path):
    write(tmp_path / "bank" / "bank-full.csv.gz", BANK, gzip.open)
    assert plain("bank", tmp_path).X.shape == (2, 42)


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


def test_wine_is_red_then_white_with_the_colour_last(tmp_path):
    names = list(datasets.schema("wine-quality").columns)[:-1]
    header = ";".join(f'"{name}"' for name in [*names, "quality"])
    for colour, quality in (("red", 3), ("white", 11)):
        path = tmp_path / "wine-quality" / f"winequality-{colour}.csv"
        write(path, f"{header}\n16;2;2;100;1;300;500;1.04;4.5;2;15;{quality}\n")
    data = plain("wine-quality", tmp_path)
    assert data.y.tolist() == [3.0, 10.0]  # grades end at 10
    assert data.labels == ()
    assert data.target_bounds == (0, 10)
    assert data.X[:, 11].tolist() == [1.0, 0.0]
    np.testing.assert_allclose(data.X[:, :11], 1.0)
    with pytest.warns(UserWarning, match="checksum"):
        cells = datasets.table("wine-quality", data_dir=tmp_path)
    assert cells["colour"].to_pylist() == ["red", "white"]
    assert cells["pH"].to_pylist() == [4.5, 4.5]
    again = data.schema.transformer(sparse=False).fit(cells).transform(cells)
    np.testing.assert_array_equal(again, data.X)


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


def test_occupancy_has_one_field_more_than_names_and_a_clock(tmp_path):
    header = '"date","Temperature","Humidity","Light","CO2","HumidityRatio","Occupancy"\n'
    path = tmp_path / "occupancy" / "datatraining.txt.xz"
    write(path, header + '"1","2015-02-04 18:00:00",30,50,1000,300,0.01,1\n', lzma.open)
    data = plain("occupancy", tmp_path, split="train")
    assert data.X.tolist() == [[0.75, 1.0, 0.5, 0.5, 0.0, 0.5]]
    assert data.y.tolist() == [1]
    write(path, header + '"1","4 February",30,50,1000,300,0.01,1\n', lzma.open)
    with pytest.raises(TableError, match=r"datatraining.*'date'") as error:
        datasets.load("occupancy", split="train", data_dir=tmp_path)
    assert "4 February" not in str(error.value)


def kdd_row(service, label):
    rates = ["0.25"] * 7 + ["255", "0"] + ["0.75"] * 8
    start = f"0,tcp,{service},SF,0,999999999,0,0,0,0,0,1" + ",0" * 10 + ",511,0"
    return f"{start},{','.join(rates)},{label}\n"


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


def test_covertype_turns_runs_of_flags_into_categories(tmp_path):
    def row(area, soil, kind):
        flags = [int(i == area) for i in range(4)] + [int(i == soil) for i in range(40)]
        return ",".join(map(str, [3000, 0, 90, 0, -500, 10_000, 255, 0, 51, 0, *flags, kind]))

    path = tmp_path / "covertype" / "covtype.data.bz2"
    write(path, f"{row(0, 39, 7)}\n{row(3, 0, 1)}\n", bz2.open)
    data = plain("covertype", tmp_path)
    assert data.X.shape == (2, 54)
    assert data.max_norm == pytest.approx(np.sqrt(12))
    assert data.X[0, :10].tolist() == [0.5, 0, 1, 0, 0, 1, 1, 0, 0.2, 0]
    assert data.X[:, 10:].nonzero()[1].tolist() == [0, 43, 3, 4]
    assert data.y.tolist() == [6, 0]
    write(path, row(5, 39, 7), bz2.open)  # no area at all
    with pytest.raises(TableError, match="Wilderness_Area_1 to Wilderness_Area_4"):
        datasets.load("covertype", data_dir=tmp_path)


def test_ipums_extracts_may_have_more_columns_in_any_order(tmp_path):
    names = [*datasets.schema("ipums-us").columns]
    cells = dict.fromkeys(names, "1") | {"AGE": "50", "OCCISCO": "97"}
    lines = ["INCTOT,SERIAL," + ",".join(names)]
    for income in (25_001, 25_000, 9_999_999):
        lines.append(f"{income},77," + ",".join(cells[name] for name in names))
    write(tmp_path / "ipums-us" / "ipums-us.csv.gz", "\n".join(lines), gzip.open)
    data = datasets.load("ipums-us", data_dir=tmp_path, sparse=False)
    assert data.labels == ("high", "low")
    assert data.y.tolist() == [0, 1]  # whose income is not known is left out
    assert data.X[0, 0] == 0.5
    assert data.X[0, data.schema.feature_names.index("OCCISCO=(other)")] == 1
    write(tmp_path / "ipums-br" / "ipums-br.csv", "\n".join(lines))
    with pytest.raises(TableError, match=r"ipums-br\.csv: the columns must be, among others"):
        datasets.load("ipums-br", data_dir=tmp_path)


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


# --- arrays --------------------------------------------------------------------------------------


def mnist_files(folder, split, pixels, digits):
    start = {"train": "train", "test": "t10k"}[split]
    for name, header, body in (
        ("images-idx3-ubyte", struct.pack(">4i", 2051, len(pixels), 28, 28), pixels.tobytes()),
        ("labels-idx1-ubyte", struct.pack(">2i", 2049, len(digits)), bytes(digits)),
    ):
        write(folder / "mnist" / f"{start}-{name}.gz", header + body, gzip.open)


def test_mnist_grey_levels_are_shares_of_255(tmp_path):
    pixels = np.zeros((3, 784), dtype=np.uint8)
    pixels[1, 5] = 255
    pixels[2, 6] = 51
    mnist_files(tmp_path, "train", pixels, [0, 7, 9])
    mnist_files(tmp_path, "test", pixels[:1], [4])
    data = small("mnist", tmp_path)
    assert data.X.shape == (4, 784)
    assert data.X.dtype == np.float32
    assert data.X[1, 5] == 1.0
    assert data.X[2, 6] == np.float32(0.2)
    assert data.y.tolist() == [0, 7, 9, 4]
    assert data.max_norm == 28.0
    assert data.splits["test"] == slice(3, 4)
    assert small("mnist", tmp_path, sparse=True).X.nnz == 2
    mnist_files(tmp_path, "train", pixels, [0, 7])
    with pytest.raises(TableError, match="one label for each"):
        small("mnist", tmp_path)
    whole = tmp_path / "mnist" / "train-images-idx3-ubyte"
    whole.write_bytes(struct.pack(">4i", 2051, 3, 28, 28) + b"too short")
    with pytest.raises(TableError, match="not a whole IDX file"):
        small("mnist", tmp_path)


def test_gisette_is_scaled_by_its_largest_possible_value(tmp_path):
    rows = np.zeros((2, 5000), dtype=int)
    rows[0, 0], rows[1, -1] = 999, 333
    lines = "\n".join(" ".join(map(str, row)) + " " for row in rows)
    write(tmp_path / "gisette" / "gisette_train.data", lines)
    write(tmp_path / "gisette" / "gisette_train.labels", "1\n-1\n")
    data = datasets.load("gisette", data_dir=tmp_path, check=False, dtype="float64")
    assert data.X[[0, 1], [0, -1]].tolist() == pytest.approx([1.0, 1 / 3])
    assert data.X.sum() == pytest.approx(4 / 3)
    assert data.labels == ("-1", "1")
    assert data.y.tolist() == [1, 0]
    write(tmp_path / "gisette" / "gisette_train.labels", "1\n0\n")
    with pytest.raises(TableError, match="every label must be one of -1, 1"):
        datasets.load("gisette", data_dir=tmp_path, check=False)


def test_svmlight_files_count_columns_from_one(tmp_path):
    write(tmp_path / "reuters" / "reuters.trn.bz2", "-1 1:0.6 8315:0.8\n+1 2:1\n", bz2.open)
    write(tmp_path / "reuters" / "reuters.tst", "+1 1:1.0E+00\n")
    data = small("reuters", tmp_path)
    assert isinstance(data.X, sp.csr_array)
    assert data.X.shape == (3, 8315)
    assert data.X.dtype == np.float32
    assert data.X[[0], [8314]] == np.float32(0.8)
    assert data.y.tolist() == [0, 1, 1]
    assert data.schema is None
    assert small("reuters", tmp_path, sparse=False).X[1, 1] == 1.0
    write(tmp_path / "reuters" / "reuters.tst", "+1 8316:1\n")
    with pytest.raises(TableError, match="from 1 to 8,315"):
        small("reuters", tmp_path)


def test_rcv1_files_begin_with_the_number_of_a_document(tmp_path):
    folder = tmp_path / "rcv1"
    write(folder / "lyrl2004_vectors_train.dat.gz", "2286  5:1\n2287  47236:1\n", gzip.open)
    for i in range(4):
        write(folder / f"lyrl2004_vectors_test_pt{i}.dat", f"{26_000 + i}  1:1\n")
    write(folder / "rcv1v2.topics.qrels", "E11 2286 1\nCCAT 2287 1\nCCAT 26003 1\nC15 26003 1\n")
    data = datasets.load("rcv1", data_dir=tmp_path, check=False)
    assert data.X.shape == (6, 47_236)
    assert [data.labels[code] for code in data.y] == ["other", "CCAT", *["other"] * 3, "CCAT"]
    assert data.splits["train"] == slice(0, 2)
    train = datasets.load("rcv1", data_dir=tmp_path, check=False, split="train")
    assert train.X.shape == (2, 47_236)


@pytest.mark.parametrize("name", ["synthetic-l", "sphere"])
def test_generated_sets_are_within_their_bound(name):
    data = datasets.load(name, dtype="float64")
    assert data.X.shape == (10_000, datasets.describe(name).features)
    assert np.linalg.norm(data.X, axis=1).max() <= data.max_norm * (1 + 1e-12)
    assert np.unique(data.y).tolist() == [0, 1]


# --- where they come from ------------------------------------------------------------------------


def banknote(folder, rows="4,-8,0,10,1\n"):
    write(folder / "banknote" / "data_banknote_authentication.txt", rows)


def test_the_callers_folder_comes_before_the_environment_and_the_cache(tmp_path, monkeypatch):
    for place, rows in (("cache", 1), ("environment", 2), ("given", 3)):
        banknote(tmp_path / place, "4,-8,0,10,1\n" * rows)
    assert len(small("banknote", None).y) == 1
    monkeypatch.setenv("DISCREET_DATA", str(tmp_path / "environment"))
    assert len(small("banknote", None).y) == 2
    assert len(small("banknote", tmp_path / "given").y) == 3
    described = datasets.describe("banknote")
    assert described.available
    assert described.place == str(tmp_path / "environment" / "banknote")


def test_the_cache_is_where_the_platform_has_it(monkeypatch, tmp_path):
    assert places.cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("DISCREET_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr(places.sys, "platform", "linux")
    assert places.cache_folder() == tmp_path / "xdg" / "discreet"
    monkeypatch.setattr(places.sys, "platform", "darwin")
    assert places.cache_folder().parts[-3:] == ("Library", "Caches", "discreet")


def test_counts_that_are_not_the_publishers_are_refused(tmp_path):
    banknote(tmp_path)
    with (
        pytest.warns(UserWarning, match="data_banknote_authentication.txt is not the publisher's"),
        pytest.raises(TableError, match="1,372 rows; this copy has 1"),
    ):
        datasets.load("banknote", data_dir=tmp_path)
    banknote(tmp_path, "4,-8,0,10,1\n" * 1372)
    with (
        pytest.warns(UserWarning, match="checksum"),
        pytest.raises(TableError, match="do not occur as often"),
    ):
        datasets.load("banknote", data_dir=tmp_path)


def test_a_damaged_copy_is_refused(tmp_path):
    path = tmp_path / "adult" / "adult.data.gz"
    write(path, ADULT.format("<=50K") * 5000, gzip.open)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(TableError, match=r"adult\.data\.gz.* damaged or cut off"):
        datasets.load("adult", data_dir=tmp_path, split="train")
    (tmp_path / "bank").mkdir()
    (tmp_path / "bank" / "bank.zip").write_bytes(b"PK\3\4 and no more")
    with pytest.raises(TableError, match=r"bank\.zip is damaged"):
        datasets.load("bank", data_dir=tmp_path)


def test_what_cannot_be_had_says_where_to_get_it_and_where_to_put_it(tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        datasets.load("ipums-us", data_dir=tmp_path)
    text = str(error.value)
    assert "https://international.ipums.org: register there" in text
    assert (
        f"Put ipums-us.csv (plain, or packed as .gz, .xz or .bz2) into the folder {tmp_path}"
        in (text)
    )
    assert "DISCREET_DATA" in text


def test_archives_are_not_to_be_packed_again(tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        datasets.load("bank", data_dir=tmp_path, download=False)
    assert f"Put bank.zip into the folder {tmp_path}" in str(error.value)


def test_a_folder_that_is_not_there_is_told(tmp_path):
    for call in (datasets.load, datasets.describe, datasets.table):
        with pytest.raises(
            FileNotFoundError, match=r"data_dir: there is no folder .*nowhere\. Name"
        ):
            call("banknote", data_dir=tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["adult", "covertype", "rcv1", "banknote", "real-sim"])
def test_offline_is_told_with_the_way_out(name):
    with pytest.raises(FileNotFoundError, match=r"To get it by hand, go to https://.*offline"):
        datasets.load(name)
    with pytest.raises(FileNotFoundError, match="Downloads are switched off"):
        datasets.load(name, download=False)


@pytest.mark.parametrize(
    "name", ["adult", "bank", "credit-default", "mnist", "covertype", "kddcup99", "rcv1"]
)
def test_scikit_learns_own_fetchers_are_called_as_they_want_to_be(name, monkeypatch):
    def no_address(*arguments, **options):
        raise socket.gaierror(-2, "no such name")

    for fetcher, function in FETCHERS.items():
        monkeypatch.setattr(sklearn.datasets, fetcher, function)
    monkeypatch.setattr(socket, "getaddrinfo", no_address)
    monkeypatch.setattr(fetching.urllib.request, "urlopen", URLOPEN)
    with pytest.raises(FileNotFoundError, match=r"could not fetch it \(URLError: .*no such name"):
        datasets.load(name)


@pytest.fixture
def publisher(monkeypatch, tmp_path):
    """What the publisher would send, by address; the sets' checksums are those of what is sent."""
    sent = {}

    def download(url, path, *, check, progress):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name("part").write_bytes(sent[url])
        progress(0.5)
        progress(1.0)
        if not check(path.with_name("part")):
            raise OSError("wrong checksum.")
        path.with_name("part").rename(path)

    monkeypatch.setattr(sources, "download", download)
    return sent


def with_content(monkeypatch, name, contents):
    """Change an entry so that it expects these contents."""
    known = entries.entry(name)
    files = tuple(
        replace(file, sha256=hashlib.sha256(contents[file.name]).hexdigest())
        for file in known.files
    )
    changed = replace(known, files=files, rows=dict.fromkeys(known.rows, 1), counts={})
    monkeypatch.setattr(loading, "entry", lambda _: changed)
    return changed


def test_publishers_files_are_downloaded_once_and_kept(monkeypatch, tmp_path, publisher):
    contents = {"data_banknote_authentication.txt": b"4,-8,0,10,1\n"}
    known = with_content(monkeypatch, "banknote", contents)
    publisher[known.files[0].url] = contents[known.files[0].name]
    shares = []
    data = datasets.load("banknote", progress=shares.append)
    assert data.y.tolist() == [1]
    assert shares == [0.5, 1.0]
    publisher.clear()
    assert datasets.load("banknote", download=False).y.tolist() == [1]
    assert (tmp_path / "cache" / "banknote" / known.files[0].name).is_file()


def test_downloads_that_are_not_to_be_kept_are_gone(monkeypatch, tmp_path, publisher):
    contents = {"data_banknote_authentication.txt": b"4,-8,0,10,1\n"}
    known = with_content(monkeypatch, "banknote", contents)
    publisher[known.files[0].url] = contents[known.files[0].name]
    assert datasets.load("banknote", cache=False).y.tolist() == [1]
    assert not (tmp_path / "cache").exists()


def test_one_archive_serves_several_files(monkeypatch, tmp_path, publisher):
    header = b'"date","Temperature","Humidity","Light","CO2","HumidityRatio","Occupancy"\n'
    contents = {
        name: header + f'"1","2015-02-04 0{i}:00:00",30,50,1000,300,0.01,0\n'.encode()
        for i, name in enumerate(("datatraining.txt", "datatest.txt", "datatest2.txt"))
    }
    known = with_content(monkeypatch, "occupancy", contents)
    zipped(tmp_path / "made.zip", **contents)
    publisher[known.files[0].url] = (tmp_path / "made.zip").read_bytes()
    shares = []
    data = datasets.load("occupancy", sparse=False, progress=shares.append)
    assert data.X[:, 0].tolist() == pytest.approx([0, 1 / 24, 2 / 24])
    assert shares == [0.5, 1.0]
    assert [path.name for path in (tmp_path / "cache" / "occupancy").iterdir()] == [
        "occupancy_data.zip"
    ]


def test_packed_downloads_are_kept_as_they_come(monkeypatch, tmp_path, publisher):
    contents = {"kddcup.data_10_percent": kdd_row("http", "normal.").encode()}
    known = with_content(monkeypatch, "kddcup99", contents)
    publisher[known.files[0].url] = gzip.compress(contents["kddcup.data_10_percent"])
    assert datasets.load("kddcup99").y.tolist() == [1]
    assert (tmp_path / "cache" / "kddcup99" / "kddcup.data_10_percent.gz").is_file()


def test_a_download_of_other_content_is_refused(monkeypatch, publisher):
    contents = {"data_banknote_authentication.txt": b"4,-8,0,10,1\n"}
    known = with_content(monkeypatch, "banknote", contents)
    publisher[known.files[0].url] = b"an error page"
    with pytest.raises(FileNotFoundError, match=r"To get it by hand, .* Wrong checksum\.$"):
        datasets.load("banknote")


# --- scikit-learn's fetchers ---------------------------------------------------------------------


def openml(monkeypatch, number, frame):
    def fetch_openml(*, data_id, as_frame, **options):
        assert data_id == number
        assert as_frame is True
        return SimpleNamespace(frame=frame)

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)


def test_adult_of_openml_has_the_test_part_first(monkeypatch):
    cells = [cell.strip() for cell in ADULT.format(">50K").split(",")]
    rows = [[int(cell) if cell.isdigit() else cell for cell in cells] for _ in range(3)]
    rows[0][0], rows[0][-1], rows[1][1] = 90, "<=50K", None
    frame = pd.DataFrame(rows, columns=[f"c{i}" for i in range(15)])
    for place in (1, 14):
        frame[f"c{place}"] = frame[f"c{place}"].astype("category")
    openml(monkeypatch, 1590, frame)
    monkeypatch.setattr(
        loading, "entry", lambda _: replace(entries.entry("adult"), rows={"train": 2, "test": 1})
    )
    data = datasets.load("adult", sparse=False, check=False)
    assert data.y.tolist() == [1, 1, 0]
    assert data.X[2, 0] == 1.0
    assert data.X[0].sum() == pytest.approx(data.X[1].sum() - 1)  # one class of work is unknown
    assert datasets.load("adult", split="test", check=False).y.tolist() == [0]


def test_bank_of_openml_has_numbers_for_labels(monkeypatch):
    row = [58, "management", "married", "tertiary", "no", 2143, "yes", "no", "unknown", 5, "may"]
    row += [261, 1, -1, 0, "unknown"]
    frame = pd.DataFrame([[*row, "1"], [*row, "2"]])
    openml(monkeypatch, 1461, frame)
    data = datasets.load("bank", check=False, sparse=False)
    assert data.y.tolist() == [0, 1]
    assert data.X[0, 3] == 1.0  # management
    openml(monkeypatch, 1461, frame.iloc[:, 1:])
    with pytest.raises(FileNotFoundError, match="must have 17 columns"):
        datasets.load("bank", check=False)


def test_credit_of_openml_has_no_running_number(monkeypatch):
    numbers = [10_000, 2, 0, 3, 18, *[-2] * 6, *[0] * 6, *[1_000_000] * 6]
    frame = pd.DataFrame([[*map(float, numbers), "1"]])
    openml(monkeypatch, 42477, frame)
    data = datasets.load("credit-default", check=False, sparse=False)
    assert data.y.tolist() == [1]
    assert data.X[0, 1:3].tolist() == [0, 1]
    assert (data.X[0, -6:] == 1.0).all()


def test_mnist_of_openml(monkeypatch):
    frame = pd.DataFrame(np.full((2, 784), 51), columns=[f"pixel{i}" for i in range(1, 785)])
    openml(monkeypatch, 554, frame.assign(**{"class": pd.Categorical(["5", "0"])}))
    known = replace(entries.entry("mnist"), rows={"train": 1, "test": 1})
    monkeypatch.setattr(loading, "entry", lambda _: known)
    data = datasets.load("mnist", check=False)
    assert data.y.tolist() == [5, 0]
    assert data.X.shape == (2, 784)
    np.testing.assert_allclose(data.X, 0.2, rtol=1e-6)


def test_covertype_of_scikit_learn(monkeypatch):
    values = np.zeros((2, 54))
    values[:, 0] = 3000
    values[[0, 1], [10, 13]] = 1
    values[[0, 1], [14, 53]] = 1
    fetched = SimpleNamespace(data=values, target=np.array([7, 1], dtype=np.int32))
    monkeypatch.setattr(sklearn.datasets, "fetch_covtype", lambda **options: fetched)
    data = datasets.load("covertype", check=False, sparse=False)
    assert data.y.tolist() == [6, 0]
    assert data.X[:, 10:].nonzero()[1].tolist() == [0, 4, 3, 43]


@pytest.mark.parametrize(("name", "percent10"), [("kddcup99", True), ("kddcup99-full", False)])
def test_kddcup_of_scikit_learn_has_bytes(monkeypatch, name, percent10):
    cells = kdd_row("http", "smurf.").strip().split(",")
    symbols = (1, 2, 3, 41)
    row = [c.encode() if i in symbols else float(c) for i, c in enumerate(cells)]
    table = np.array([row], dtype=object)

    def fetch(**options):
        assert options["percent10"] is percent10
        return SimpleNamespace(data=table[:, :-1], target=table[:, -1])

    monkeypatch.setattr(sklearn.datasets, "fetch_kddcup99", fetch)
    data = datasets.load(name, check=False, sparse=False)
    assert data.y.tolist() == [0]
    assert data.X[0, data.schema.feature_names.index("service=http")] == 1
    assert data.X[0, data.schema.feature_names.index("logged_in")] == 1


def test_rcv1_of_scikit_learn(monkeypatch):
    topics = sp.csr_matrix(np.array([[0, 1], [1, 0], [1, 1]], dtype=np.uint8))
    fetched = SimpleNamespace(
        data=sp.csr_matrix(([1.0, 0.5], ([0, 2], [0, 47_235])), shape=(3, 47_236)),
        target=topics,
        target_names=np.array(["C15", "CCAT"]),
    )
    monkeypatch.setattr(sklearn.datasets, "fetch_rcv1", lambda **options: fetched)
    known = replace(entries.entry("rcv1"), rows={"train": 1, "test": 2})
    monkeypatch.setattr(loading, "entry", lambda _: known)
    data = datasets.load("rcv1", check=False)
    assert isinstance(data.X, sp.csr_array)
    assert [data.labels[code] for code in data.y] == ["CCAT", "other", "CCAT"]
    assert datasets.load("rcv1", check=False, split="test").X.shape == (2, 47_236)


# --- the real files ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(not FOLDER, reason="set DISCREET_DATA to a folder with the data sets")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("adult", (48_842, 105)),
        ("bank", (45_211, 42)),
        ("kddcup99", (494_021, 122)),
        ("kddcup99-continuous", (494_021, 34)),
        ("covertype", (581_012, 54)),
        ("mnist", (70_000, 784)),
        ("credit-default", (30_000, 33)),
        ("wine-quality", (6_497, 12)),
        ("bike-sharing", (17_379, 61)),
        ("banknote", (1_372, 4)),
        ("occupancy", (20_560, 6)),
        ("reuters", (11_069, 8_315)),
    ],
)
def test_real_files_have_the_publishers_counts_and_checksums(name, shape):
    data = datasets.load(name, data_dir=FOLDER, download=False)  # counts are checked in it
    assert data.X.shape == shape
    if data.schema is not None:
        assert data.X.min() >= 0
        assert data.X.max() <= 1
    squares = data.X.multiply(data.X) if sp.issparse(data.X) else data.X * data.X
    norms = np.sqrt(np.asarray(squares.sum(axis=1)).ravel())
    assert norms.max() <= data.max_norm * (1 + 1e-6)
    if name == "bike-sharing":
        assert data.y.sum() == 3_292_679
