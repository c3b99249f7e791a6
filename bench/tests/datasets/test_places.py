"""Where files are looked for, and how packed and damaged ones are opened."""

import gzip

import pytest

from discreet.errors import TableError
from discreet_bench import datasets
from discreet_bench.datasets import places

from .files import ADULT, BANK, banknote, plain, small, write


def test_an_unpacked_member_does_as_well(tmp_path):
    write(tmp_path / "bank" / "bank-full.csv.gz", BANK, gzip.open)
    assert plain("bank", tmp_path).X.shape == (2, 42)


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


def test_a_folder_that_is_not_there_is_told(tmp_path):
    for call in (datasets.load, datasets.describe, datasets.table):
        with pytest.raises(
            FileNotFoundError, match=r"data_dir: there is no folder .*nowhere\. Name"
        ):
            call("banknote", data_dir=tmp_path / "nowhere")
