"""Loading by name: wrong arguments, wrong counts, generated sets, and the real files."""

import os

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.errors import TableError
from discreet_bench import datasets

from .files import banknote

FOLDER = os.environ.get("DISCREET_DATA")


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


@pytest.mark.parametrize("name", ["synthetic-l", "sphere"])
def test_generated_sets_are_within_their_bound(name):
    data = datasets.load(name, dtype="float64")
    assert data.X.shape == (10_000, datasets.describe(name).features)
    assert np.linalg.norm(data.X, axis=1).max() <= data.max_norm * (1 + 1e-12)
    assert np.unique(data.y).tolist() == [0, 1]


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
