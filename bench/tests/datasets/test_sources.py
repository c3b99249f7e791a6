"""Files of data sets: found, unpacked, downloaded, or asked for."""

import gzip
import hashlib
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pooch
import pytest

from discreet.errors import TableError
from discreet_bench import datasets
from discreet_bench.datasets import catalogue, loading, sources

from .files import ADULT, BANK, banknote, kdd_row, plain, small, write, zipped

DOWNLOAD = pooch.HTTPDownloader.__call__


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


@pytest.mark.parametrize("name", ["adult", "rcv1", "banknote"])
def test_offline_is_told_with_the_way_out(name):
    with pytest.raises(FileNotFoundError, match=r"To get it by hand, go to https://.*offline"):
        datasets.load(name)
    with pytest.raises(FileNotFoundError, match="Downloads are switched off"):
        datasets.load(name, download=False)


@pytest.fixture
def publisher(monkeypatch, tmp_path):
    """What the publisher would send, by address; the sets' checksums are those of what is sent."""
    sent = {}

    def download(self, url, output_file, pooch):
        Path(output_file).write_bytes(sent[url])

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", download)
    return sent


def with_content(monkeypatch, name, contents):
    """Change an entry so that it expects these contents."""
    known = catalogue.entry(name)
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
    data = datasets.load("banknote")
    assert data.y.tolist() == [1]
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
    data = datasets.load("occupancy", sparse=False)
    assert data.X[:, 0].tolist() == pytest.approx([0, 1 / 24, 2 / 24])
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
    with pytest.raises(
        FileNotFoundError, match=r"To get it by hand, .* \(wrong checksum or damaged\)\.$"
    ):
        datasets.load("banknote")


class Server(BaseHTTPRequestHandler):
    """Answers with the server's codes in turn, then with a line of numbers."""

    def do_GET(self):
        self.server.asked += 1
        if self.server.codes:
            self.send_error(self.server.codes.pop(0))
            return
        body = b"4,-8,0,10,1\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        """Quiet."""


@pytest.mark.parametrize(("codes", "asked"), [([], 1), ([503, 503], 3), ([503] * 9, 4)])
def test_a_busy_server_is_asked_again(monkeypatch, tmp_path, codes, asked):
    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", DOWNLOAD)
    content = {"data_banknote_authentication.txt": b"4,-8,0,10,1\n"}
    known = with_content(monkeypatch, "banknote", content)
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        server.codes, server.asked = list(codes), 0
        url = f"http://127.0.0.1:{server.server_address[1]}/file.txt"
        changed = replace(known, files=(replace(known.files[0], url=url),))
        monkeypatch.setattr(loading, "entry", lambda _: changed)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            if len(codes) < 4:
                assert datasets.load("banknote").y.tolist() == [1]
            else:
                with pytest.raises(FileNotFoundError, match="HTTPError: 503"):
                    datasets.load("banknote")
        finally:
            server.shutdown()
            thread.join()
        assert server.asked == asked


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


def test_the_cache_can_be_named(monkeypatch, tmp_path):
    assert sources.cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("DISCREET_CACHE")
    assert sources.cache_folder().name == "discreet"


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
