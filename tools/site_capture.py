"""Run four sites and a coordinator as five users of this machine, and capture their traffic.

    sudo python tools/site_capture.py --output out/sites

Each party has a folder that no other user can read. All packets on loopback are read from the
kernel, not from the programs. A first fit succeeds; the ledger of west refuses the second. The
tool prints both, counts bytes and rounds of the capture, looks for cells and names in it, and exits
with 1 if something is not as docs/sites.md says. It needs Linux, root, and a Python that other
users can run (``--python``).
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from discreet import Budget
from discreet.ledger import Ledger
from discreet.sites.https import make_identity
from discreet.tables import Numeric, Schema, Target

SIZES = {"north": 6000, "south": 2500, "east": 1500, "west": 300}
NAMES = tuple(SIZES)
PARTIES = (*NAMES, "coordinator")
LIMITS = {"north": 9.0, "south": 9.0, "east": 9.0, "west": 1.5}
FIRST_USER = 20_001

ALL_PACKETS = 3
"""Protocol number of Linux for packets of all kinds (ETH_P_ALL)."""

OUTGOING = 4
"""Kind of a packet that leaves; on loopback each comes back, and is counted then."""

APPLICATION = 23
"""Type of TLS records that hold encrypted messages; in TLS 1.3 also encrypted handshakes."""

SETUP_TURNS = 8
"""Most turns of a connection besides the rounds of a fit: TLS, descriptions and the end."""

LEAST_RATIO = 0.99
"""Least ratio of the size that compression leaves: encrypted bytes do not get smaller."""

SCHEMA = Schema(
    {"age": Numeric(18, 95), "emergencies": Numeric(0, 5), "days": Numeric(1, 14)},
    target=Target("readmitted", classes=["no", "yes"]),
)


# ---- what was captured


@dataclass(frozen=True)
class Segment:
    """A TCP segment with a payload."""

    source: int
    target: int
    number: int
    payload: bytes


def segment_of(frame: bytes) -> Segment | None:
    """Return the TCP segment of an Ethernet frame with IPv4, if it has a payload."""
    if len(frame) < 34 or frame[12:14] != b"\x08\x00" or frame[23] != socket.IPPROTO_TCP:
        return None
    packet = frame[14 : 14 + struct.unpack(">H", frame[16:18])[0]]
    tcp = packet[4 * (packet[0] & 15) :]
    source, target, number = struct.unpack(">HHI", tcp[:8])
    payload = tcp[4 * (tcp[12] >> 4) :]
    return Segment(source, target, number, payload) if payload else None


@dataclass
class Stream:
    """Both directions of one connection to a site, in order; ``turns`` counts requests."""

    sent: bytearray = field(default_factory=bytearray)
    received: bytearray = field(default_factory=bytearray)
    turns: int = 0


def streams_of(segments: Sequence[Segment], ports: set[int]) -> dict[tuple[int, int], Stream]:
    """Return the connections to some ports, by (port, port of the coordinator)."""
    found: dict[tuple[int, int], Stream] = {}
    expected: dict[tuple[int, int], int] = {}
    last: dict[tuple[int, int], bool] = {}
    for each in segments:
        to_site = each.target in ports
        if not to_site and each.source not in ports:
            continue
        key = (each.target, each.source) if to_site else (each.source, each.target)
        way = (each.source, each.target)
        next_number = expected.get(way, each.number)
        skip = (next_number - each.number) % 2**32
        if skip >= len(each.payload):
            continue  # sent again
        expected[way] = (each.number + len(each.payload)) % 2**32
        stream = found.setdefault(key, Stream())
        (stream.sent if to_site else stream.received).extend(each.payload[skip:])
        stream.turns += to_site and not last.get(key, False)
        last[key] = to_site
    return found


def records_of(stream: bytes) -> Iterator[tuple[int, int]]:
    """Yield type and length of each TLS record; raise if the bytes are no such records."""
    at = 0
    while at < len(stream):
        kind, major, _, size = struct.unpack(">BBBH", stream[at : at + 5])
        if kind not in range(20, 24) or major != 3:
            raise ValueError("bytes that are no TLS record")
        yield kind, size
        at += 5 + size


def secrets_of(cells: Sequence[str]) -> list[bytes]:
    """Return what must not be on the wire: cells as texts and as numbers, and names."""
    numbers = {float(cell) for cell in cells if len(cell) > 6}
    texts = [cell.encode() for cell in cells if len(cell) > 6]
    names = [b"emergencies", b"readmitted", b"session", b"Gradient", b"GaussianShare"]
    return [*texts, *(struct.pack("<d", number) for number in numbers), *names]


def seen(secrets: Sequence[bytes], text: bytes) -> list[bytes]:
    """Return the secrets that a text has."""
    return [secret for secret in secrets if secret in text]


class Capture:
    """All packets on loopback, read by a raw socket until it is stopped."""

    def __init__(self) -> None:
        self.frames: list[tuple[float, bytes]] = []
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PACKETS))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**26)
        self._socket.bind(("lo", 0))
        self._socket.settimeout(0.5)
        self._going = True
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while self._going:
            try:
                frame, about = self._socket.recvfrom(2**17)
            except TimeoutError:
                continue
            if about[2] != OUTGOING:
                self.frames.append((time.time(), frame))

    def stop(self) -> None:
        """Stop; packets that the kernel dropped are an error."""
        time.sleep(1)
        self._going = False
        self._thread.join()
        statistics = self._socket.getsockopt(263, 6, 8)  # SOL_PACKET, PACKET_STATISTICS
        dropped = struct.unpack("II", statistics)[1]
        if dropped:
            raise RuntimeError(f"the kernel dropped {dropped} packets; run it again")

    def write(self, path: Path, ports: set[int]) -> list[Segment]:
        """Write the packets of some ports as a pcap file, and return their segments."""
        kept = []
        with path.open("wb") as stream:
            stream.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 2**17, 1))
            for when, frame in self.frames:
                each = segment_of(frame)
                if each is None or not {each.source, each.target} & ports:
                    continue
                kept.append(each)
                about = (int(when), int(when % 1 * 1e6), len(frame), len(frame))
                stream.write(struct.pack("<IIII", *about) + frame)
        return kept


# ---- five parties


def write_rows(path: Path, n: int, seed: int) -> list[str]:
    """Write the made-up visits of a clinic; return the cells that name a patient's age."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(18, 95, n)
    emergencies = np.minimum(rng.poisson(0.7, n), 5)
    days = np.clip(rng.poisson(4, n), 1, 14)
    score = 0.02 * (age - 60) + 0.7 * emergencies + 0.1 * (days - 4) - 0.8
    back = np.where(rng.uniform(size=n) < 1 / (1 + np.exp(-score)), "yes", "no")
    cells = [f"{each:.9f}" for each in age]
    with path.open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["age", "emergencies", "days", "readmitted"])
        rows.writerows(zip(cells, emergencies, days, back, strict=True))
    return cells


class Parties:
    """Five folders of five users, and the processes that run in them."""

    def __init__(self, folder: Path, python: str) -> None:
        self.python = python
        self.places = {name: folder / name for name in PARTIES}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.cells: list[str] = []
        for name, place in self.places.items():
            place.mkdir()
            make_identity(name, place)
        for place in self.places.values():  # certificates are given to all
            for name, other in self.places.items():
                if other != place:
                    shutil.copy(other / f"{name}.crt", place)
        for seed, (name, size) in enumerate(SIZES.items()):
            place = self.places[name]
            self.cells += write_rows(place / "visits.csv", size, seed)
            SCHEMA.write(place / "visits.toml")
            limit = Budget(LIMITS[name], 1e-6, "add_remove")
            Ledger(place / "ledger.sqlite").create("visits", limit=limit, unit="row")
        for name in PARTIES:
            self.own(name)

    def own(self, name: str) -> None:
        """Give a folder to its user alone."""
        place = self.places[name]
        for path in (place, *place.iterdir()):
            os.chown(path, self.user(name), self.user(name))
        place.chmod(0o700)

    @staticmethod
    def user(name: str) -> int:
        """Return the number of a party's user."""
        return FIRST_USER + PARTIES.index(name)

    def start(self, name: str, words: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a program as a party's user, in its folder, with what it shows in out.txt."""
        place = self.places[name]
        known = {"PATH": os.environ["PATH"], "HOME": str(place), "OMP_NUM_THREADS": "1"}
        if "PYTHONPATH" in os.environ:
            known["PYTHONPATH"] = os.environ["PYTHONPATH"]
        with (place / "out.txt").open("ab") as out:
            return subprocess.Popen(
                words, cwd=place, env=known, stdout=out, stderr=subprocess.STDOUT,
                user=self.user(name), group=self.user(name), extra_groups=[],
            )  # fmt: skip

    def serve(self, name: str, port: int) -> None:
        """Start a site."""
        peers = [f"--peer={other}.crt" for other in NAMES if other != name]
        self.processes[name] = self.start(
            name,
            [
                self.python, "-m", "discreet", "--log=site.log", "site", "serve", "visits.csv",
                "--schema=visits.toml", "--ledger=ledger.sqlite", f"--key={name}.key",
                f"--certificate={name}.crt", "--coordinator=coordinator.crt",
                "--least-colluding=1", "--record=card.md", f"--listen=127.0.0.1:{port}", *peers,
            ],
        )  # fmt: skip

    def connect(self, ports: dict[str, int]) -> None:
        """Wait until all sites listen, and write the coordinator's file of sites."""
        end = time.monotonic() + 600
        for name in NAMES:
            shown = self.places[name] / "out.txt"
            while "serves" not in shown.read_text():
                if self.processes[name].poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"{name} does not serve: {shown.read_text()}")
                time.sleep(0.5)
        lines = ['key = "coordinator.key"', 'certificate = "coordinator.crt"']
        lines += ['trust = "secure"', "colluding = 1"]
        for name in NAMES:
            lines += ["[[site]]", f'address = "127.0.0.1:{ports[name]}"']
            lines += [f'certificate = "{name}.crt"']
        (self.places["coordinator"] / "sites.toml").write_text("\n".join(lines) + "\n")
        self.own("coordinator")

    def federate(self, output: str) -> tuple[int, str]:
        """Run a fit; return its exit code and what it showed."""
        shown = self.places["coordinator"] / "out.txt"
        before = shown.stat().st_size if shown.exists() else 0
        words = [
            self.python, "-m", "discreet", "--log=fit.log", "federate", "--sites=sites.toml",
            "--target=readmitted", "--epsilon=1", "--delta=1e-6", "-o", output, "--json",
        ]  # fmt: skip
        code = self.start("coordinator", words).wait(900)
        return code, shown.read_text()[before:]

    def stolen(self) -> list[str]:
        """Return which parties can read the rows or the key of another."""
        found = []
        for name in PARTIES:
            for other in NAMES:
                for file in ("visits.csv", f"{other}.key", "ledger.sqlite"):
                    path = str(self.places[other] / file)
                    if name != other and self.start(name, ["cat", path]).wait() == 0:
                        found.append(f"{name} can read {path}")
        return found

    def stop(self) -> None:
        """End all sites."""
        for process in self.processes.values():
            process.terminate()
            process.wait()


# ---- the session


@dataclass
class Findings:
    """What a session showed; ``wrong`` lists what is not as it should be."""

    lines: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def check(self, holds: bool, problem: str) -> None:
        """Note a problem unless something holds."""
        if not holds:
            self.wrong.append(problem)


def free_port() -> int:
    """Return a port that nothing listens at."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
    return port


def control(cell: str) -> int:
    """Send a cell in the clear over loopback, so that the search has something to find."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as near:
            near.sendall(cell.encode())
            server.accept()[0].recv(100)
    return port


def examined(
    streams: dict[tuple[int, int], Stream], traffic: dict[str, Any], found: Findings
) -> None:
    """Count what the connections of the first fit had, against what the coordinator counted."""
    sent = sum(len(each.sent) for each in streams.values())
    received = sum(len(each.received) for each in streams.values())
    turns = max(each.turns for each in streams.values())
    for each in streams.values():
        for way in (each.sent, each.received):
            kinds = [kind for kind, _ in records_of(bytes(way))]
            found.check(kinds.count(APPLICATION) >= len(kinds) - 2, "TLS records in the clear")
    found.lines += [
        f"captured: {len(streams)} connections, {sent:,} bytes to the sites, "
        f"{received:,} back, {turns} turns",
        f"counted:  {traffic['rounds']} rounds, {traffic['questions']} questions, "
        f"{traffic['sent']:,} bytes to the sites, {traffic['received']:,} back",
    ]
    more = turns - traffic["rounds"]  # handshakes, descriptions and the end
    found.check(0 < more <= SETUP_TURNS, f"{more} turns besides the rounds")
    found.check(traffic["sent"] < sent < 1.6 * traffic["sent"] + 50_000, "bytes to the sites")
    found.check(traffic["received"] < received < 1.6 * traffic["received"] + 50_000, "bytes back")


def session(parties: Parties, output: Path) -> Findings:
    """Run both fits and look at what was captured."""
    found = Findings()
    ports = {name: free_port() for name in NAMES}
    for name in NAMES:
        parties.serve(name, ports[name])
    parties.connect(ports)
    capture = Capture()
    open_port = control(parties.cells[0])
    code, shown = parties.federate("model.json")
    capture.stop()
    found.check(code == 0, f"the first fit: {shown}")
    site_ports = set(ports.values())
    segments = capture.write(output / "capture.pcap", site_ports | {open_port})
    streams = streams_of(segments, site_ports)
    if code == 0:
        examined(streams, json.loads(shown[shown.index("{") :])["traffic"], found)
    secrets = secrets_of(parties.cells)
    clear = streams_of(segments, {open_port})
    in_clear = b"".join(bytes(each.sent) for each in clear.values())
    found.check(bool(seen(secrets, in_clear)), "the search does not find a cell in the clear")
    wire = b"|".join(bytes(each.sent) + b"|" + bytes(each.received) for each in streams.values())
    on_wire = seen(secrets, wire)
    ratio = len(zlib.compress(wire, 9)) / max(len(wire), 1)
    found.check(ratio > LEAST_RATIO, f"the bytes can be compressed to {ratio:.2f}")
    found.lines.append(
        f"cells and names looked for: {len(secrets):,}; found: {len(on_wire)}; "
        f"compressed: {100 * ratio:.1f} %"
    )
    found.check(not on_wire, f"on the wire: {on_wire[:3]}")
    code, shown = parties.federate("second.json")
    found.lines.append(f"second fit: exit code {code}: {' '.join(shown.split())}")
    found.check(code != 0 and "'west' refused" in shown, "west did not refuse the second fit")
    stolen = parties.stolen()
    found.lines.append(f"files of others that a user can read: {len(stolen)}")
    found.wrong += stolen
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a session and print what it showed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("out/sites"))
    parser.add_argument("--python", default=sys.executable)
    chosen = parser.parse_args(arguments)
    if sys.platform != "linux" or os.geteuid() != 0:
        print("This needs Linux and root: it runs programs as other users and reads packets.")
        return 2
    chosen.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sites-") as name:
        os.chmod(name, 0o755)  # each user has to get to its own folder in it
        parties = Parties(Path(name), chosen.python)
        try:
            found = session(parties, chosen.output)
        finally:
            parties.stop()
            for party, place in parties.places.items():
                for log in ("site.log", "fit.log", "card.md", "out.txt"):
                    if (place / log).exists():
                        shutil.copy(place / log, chosen.output / f"{party}-{log}")
    print(*found.lines, sep="\n")
    print(*(f"WRONG: {each}" for each in found.wrong), sep="\n")
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
