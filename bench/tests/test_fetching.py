"""Downloads, from a server that this test starts: whole, cut off, wrong, absent."""

import hashlib
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from discreet_bench.datasets import fetching

BODY = bytes(range(256)) * 1000
SHA256 = hashlib.sha256(BODY).hexdigest()


class Server(BaseHTTPRequestHandler):
    """Paths say how to behave; ``asked`` remembers what came in."""

    def do_GET(self):
        asked, faults = self.server.asked, self.server.faults
        wanted = self.headers.get("Range")
        asked.append((self.path, wanted))
        if self.path == "/absent":
            self.send_error(404)
            return
        fault = faults.pop(0) if faults else None
        if fault == "busy":
            self.send_error(503)
            return
        start = 0
        if wanted and self.path != "/no-ranges":
            start = int(re.fullmatch(r"bytes=(\d+)-", wanted).group(1))
            if start >= len(BODY):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(BODY)}")
                self.end_headers()
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(BODY) - 1}/{len(BODY)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(BODY) - start))
        self.end_headers()
        self.wfile.write(BODY[start : start + fault] if isinstance(fault, int) else BODY[start:])

    def log_message(self, *arguments):
        """Quiet."""


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as running:
        running.asked, running.faults = [], []
        running.url = f"http://127.0.0.1:{running.server_address[1]}"
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def right(path):
    return hashlib.sha256(path.read_bytes()).hexdigest() == SHA256


def get(server, path, name="/file", **options):
    fetching.download(f"{server.url}{name}", path, check=right, pause=0.0, **options)


def test_a_whole_file_gets_its_name_and_progress_ends_at_one(server, tmp_path):
    shares = []
    get(server, tmp_path / "set" / "file", progress=shares.append)
    assert (tmp_path / "set" / "file").read_bytes() == BODY
    assert [path.name for path in (tmp_path / "set").iterdir()] == ["file"]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert len(shares) > 1


def test_a_download_that_is_cut_off_goes_on_where_it_stopped(server, tmp_path):
    server.faults = [1000, 500]
    get(server, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == BODY
    assert [wanted for _, wanted in server.asked] == [None, "bytes=1000-", "bytes=1500-"]


def test_the_next_call_goes_on_after_all_attempts_were_cut_off(server, tmp_path):
    server.faults = [100] * fetching.ATTEMPTS
    with pytest.raises(OSError, match=r"broke off.*file\.part; call again"):
        get(server, tmp_path / "file")
    assert not (tmp_path / "file").exists()
    part = tmp_path / "file.part"
    assert part.read_bytes() == BODY[: 100 * fetching.ATTEMPTS]
    get(server, tmp_path / "file")
    assert server.asked[-1][1] == f"bytes={100 * fetching.ATTEMPTS}-"
    assert (tmp_path / "file").read_bytes() == BODY
    assert not part.exists()


def test_a_server_without_ranges_sends_it_all_again(server, tmp_path):
    (tmp_path / "file.part").write_bytes(b"begun")
    get(server, tmp_path / "file", "/no-ranges")
    assert (tmp_path / "file").read_bytes() == BODY


def test_a_part_that_is_already_whole_is_taken(server, tmp_path):
    (tmp_path / "file.part").write_bytes(BODY)
    get(server, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == BODY


def test_a_part_that_is_longer_than_the_file_is_thrown_away(server, tmp_path):
    (tmp_path / "file.part").write_bytes(BODY + b"more")
    get(server, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == BODY


def test_a_wrong_checksum_removes_the_file(server, tmp_path):
    (tmp_path / "file.part").write_bytes(b"of another file")
    with pytest.raises(OSError, match=r"wrong checksum.*removed"):
        get(server, tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_an_absent_file_is_asked_for_once(server, tmp_path):
    with pytest.raises(OSError, match=r"404.*by hand"):
        get(server, tmp_path / "file", "/absent")
    assert len(server.asked) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_busy_server_is_asked_again(server, tmp_path):
    server.faults = ["busy", "busy"]
    get(server, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == BODY
    server.faults = ["busy"] * fetching.ATTEMPTS
    with pytest.raises(OSError, match="503"):
        get(server, tmp_path / "again")


def test_no_connection_is_told_at_once(server, tmp_path, monkeypatch):
    monkeypatch.setattr(fetching.time, "sleep", lambda seconds: pytest.fail("waited"))
    closed = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    port = closed.server_address[1]
    closed.server_close()
    with pytest.raises(OSError, match=r"no connection.*by hand"):
        fetching.download(f"http://127.0.0.1:{port}/file", tmp_path / "file")
