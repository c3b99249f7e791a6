"""What scikit-learn's fetchers give, brought into the publishers' form."""

import socket
import urllib.error
import urllib.request
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.datasets

from discreet_bench import datasets
from discreet_bench.datasets import entries, fetching, loading

from .files import ADULT, FETCHERS, kdd_row

URLOPEN = urllib.request.urlopen


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
