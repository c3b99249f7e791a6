"""Four sites and a coordinator as five users of the machine, and what was on the wire."""

import importlib.util
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "site_capture.py"
PYTHON = os.environ.get("SITES_PYTHON", sys.executable)


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("site_capture", TOOL)
    module = importlib.util.module_from_spec(spec)
    sys.modules["site_capture"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def frame(source, target, number, payload, protocol=6, padding=b""):
    """Return an Ethernet frame with a TCP segment, made by hand."""
    tcp = struct.pack(">HHIIBBHHH", source, target, number, 0, 5 << 4, 0, 0, 0, 0) + payload
    ip = struct.pack(">BBHHHBBH8s", 0x45, 0, 20 + len(tcp), 0, 0, 64, protocol, 0, bytes(8))
    return bytes(12) + b"\x08\x00" + ip + tcp + padding


def test_a_frame_is_read(tool):
    found = tool.segment_of(frame(50_000, 8441, 7, b"hello", padding=b"\0\0"))
    assert found == tool.Segment(50_000, 8441, 7, b"hello")
    assert tool.segment_of(frame(1, 2, 3, b"")) is None  # an acknowledgement
    assert tool.segment_of(frame(1, 2, 3, b"hello", protocol=17)) is None
    assert tool.segment_of(b"short") is None


def test_streams_are_put_together_and_turns_are_counted(tool):
    def segment(to_site, number, payload):
        ends = (50_000, 8441) if to_site else (8441, 50_000)
        return tool.Segment(*ends, number, payload)

    segments = [
        segment(True, 2**32 - 2, b"abcd"),
        segment(True, 2**32 - 2, b"abcd"),  # sent again
        segment(True, 2, b"ef"),
        segment(False, 10, b"reply"),
        segment(True, 2, b"efgh"),  # half of it again
        tool.Segment(1, 2, 3, b"of others"),
    ]
    found = tool.streams_of(segments, {8441})
    assert list(found) == [(8441, 50_000)]
    stream = found[8441, 50_000]
    assert (bytes(stream.sent), bytes(stream.received)) == (b"abcdefgh", b"reply")
    assert stream.turns == 2


def test_bytes_that_are_no_tls_are_seen(tool):
    record = b"\x17\x03\x03\x00\x04abcd"
    assert list(tool.records_of(2 * record)) == [(23, 4), (23, 4)]
    with pytest.raises(ValueError, match="no TLS record"):
        list(tool.records_of(record + b"POST / HTTP/1.1"))


def test_cells_are_found_as_texts_and_as_numbers(tool):
    secrets = tool.secrets_of(["61.123456789", "3"])
    assert tool.seen(secrets, b"..61.123456789..") == [b"61.123456789"]
    number = struct.pack("<d", 61.123456789)
    assert tool.seen(secrets, b"x" + number) == [number]
    assert tool.seen(secrets, bytes(range(256))) == []


def test_without_root_it_says_what_it_needs(tool, monkeypatch, capsys):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert tool.main([]) == 2
    assert "root" in capsys.readouterr().out


@pytest.mark.process
def test_a_session_of_five_users(tmp_path):
    """It fails if a cell is on the wire, a file can be read by others, or bytes do not add up."""
    if os.geteuid() != 0:
        pytest.skip("only root can run programs as other users")
    try:
        able = subprocess.run([PYTHON, "-c", "import discreet"], user=20_001, check=False)
    except PermissionError:
        pytest.skip("other users cannot run this Python; SITES_PYTHON names one that they can")
    if able.returncode:
        pytest.skip("other users cannot import the package with this Python")
    words = [sys.executable, TOOL, "--python", PYTHON, "--output", tmp_path]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "; found: 0;" in done.stdout
    assert "refused" in (tmp_path / "west-site.log").read_text()
    assert (tmp_path / "capture.pcap").stat().st_size > 100_000
