"""Getting hold of a data set: own files, downloads, and what is said if neither works."""

import gzip
import hashlib
from dataclasses import replace

import pytest

from discreet_bench import datasets
from discreet_bench.datasets import entries, loading, sources

from .files import ADULT, kdd_row, plain, write, zipped


def test_one_part_needs_only_its_own_files(tmp_path):
    write(tmp_path / "adult" / "adult.data", ADULT.format("<=50K"))
    assert plain("adult", tmp_path, split="train").y.tolist() == [0]
    with pytest.raises(FileNotFoundError, match=r"Put adult\.test "):
        datasets.load("adult", data_dir=tmp_path, download=False)


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


@pytest.mark.parametrize("name", ["adult", "covertype", "rcv1", "banknote", "real-sim"])
def test_offline_is_told_with_the_way_out(name):
    with pytest.raises(FileNotFoundError, match=r"To get it by hand, go to https://.*offline"):
        datasets.load(name)
    with pytest.raises(FileNotFoundError, match="Downloads are switched off"):
        datasets.load(name, download=False)


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
