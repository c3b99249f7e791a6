"""Files that hold arrays: images, numbers without names, words of texts."""

import bz2
import gzip
import struct

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.errors import TableError
from discreet_bench import datasets

from .files import small, write


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


def test_lines_of_numbers_are_scaled_by_public_bounds_and_the_label_is_last(tmp_path):
    highs = datasets.catalogue.entry("ipums-br-dat").highs
    assert len(highs) == 52
    rows = [[0] * 52 + [1], [int(high) for high in highs] + [0], [10**4] * 52 + [1]]
    lines = "\n".join(" ".join(map(str, row)) for row in rows)
    path = tmp_path / "ipums-br-dat" / "IPUMS-BR.dat"
    write(path, lines)
    data = small("ipums-br-dat", tmp_path, dtype="float64")
    assert data.X.shape == (3, 52)
    assert data.X[0].tolist() == [0.0] * 52
    assert data.X[1].tolist() == data.X[2].tolist() == [1.0] * 52  # clipped to the bounds
    assert data.y.tolist() == [1, 0, 1]
    assert np.linalg.norm(data.X, axis=1).max() <= data.max_norm
    write(path, "1 2 3\n")
    with pytest.raises(TableError, match="53 numbers in a line"):
        small("ipums-br-dat", tmp_path)
