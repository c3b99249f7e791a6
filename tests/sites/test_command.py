"""Four sites and a coordinator as processes on loopback, over mutual TLS, each with its own folder.

As root, each process runs as another user of the operating system, who can read no other folder, if
other users can run this interpreter; SITES_PYTHON names one that they can.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from discreet import Budget
from discreet.ledger import Ledger
from discreet.sites.https import Certificate, as_address, make_identity, read_federation
from discreet.tables import Categorical, Numeric, Schema, Target

NAMES = ("north", "south", "east", "west")
SIZES = (400, 250, 150, 600)
LIMITS = (9.0, 9.0, 9.0, 1.5)
MARKED = "61.123456"  # a cell that must never leave its site
PYTHON = os.environ.get("SITES_PYTHON", sys.executable)
WARM = 240  # seconds until a site has compiled and listens


def other_users():
    """Return whether processes can run as other users."""
    if os.geteuid() != 0:
        return False
    try:
        return subprocess.run([PYTHON, "-c", "import discreet"], user=20_001).returncode == 0
    except PermissionError:
        return False


USERS = other_users()


def schema(high=100):
    columns = {
        "age": Numeric(0, high),
        "bmi": Numeric(10, 60),
        "ward": Categorical(["A", "B", "C"]),
    }
    return Schema(columns, target=Target("readmitted", classes=["no", "yes"]))


def write_rows(path, n, seed):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 95, n).astype(str)
    age[3] = MARKED
    bmi = np.clip(rng.normal(27, 4, n), 12, 55).round(1)
    ward = rng.choice(list("ABC"), n)
    late = rng.random(n) < 1 / (1 + np.exp(-(age.astype(float) - 60) / 15 - (ward == "B")))
    back = np.where(late, "yes", "no")
    lines = [",".join(map(str, row)) for row in zip(age, bmi, ward, back, strict=True)]
    path.write_text("\n".join(["age,bmi,ward,readmitted", *lines]) + "\n")


class Recorder:
    """Forwards bytes between a coordinator and a site, and keeps a copy of both directions."""

    def __init__(self, port):
        self.target = port
        self.sent = bytearray()
        self.received = bytearray()
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.server.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:  # the site is gone
                near.close()
                continue
            for one, two, copy in ((near, far, self.sent), (far, near, self.received)):
                threading.Thread(target=self._copy, args=(one, two, copy), daemon=True).start()

    def _copy(self, one, two, copy):
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                copy.extend(data)
                two.sendall(data)
        with contextlib.suppress(OSError):
            two.shutdown(socket.SHUT_WR)


class Sites:
    """The processes of four sites, and what the coordinator has."""

    def __init__(self, folder):
        self.folder = folder
        self.places = {name: folder / name for name in (*NAMES, "coordinator")}
        for name, place in self.places.items():
            place.mkdir()
            make_identity(name, place)
        for place in self.places.values():  # certificates are given to all
            for name, other in self.places.items():
                if other != place:
                    shutil.copy(other / f"{name}.crt", place)
        self.processes = {}
        self.ports = {}
        self.recorders = {}

    def start(self, name, n, limit, declared=None, target=None):
        place = self.places[name]
        write_rows(place / "visits.csv", n, len(name))
        (declared or schema()).write(place / "visits.toml")
        Ledger(place / "ledger.sqlite").create(
            "visits", limit=Budget(limit, 1e-6, "add_remove"), unit="row"
        )
        self.own(name)
        peers = [f"--peer={other}.crt" for other in NAMES if other != name]
        command = [
            "--log=site.log", "site", "serve", "visits.csv", "--schema=visits.toml",
            "--ledger=ledger.sqlite", f"--key={name}.key", f"--certificate={name}.crt",
            "--coordinator=coordinator.crt", "--least-colluding=1", "--record=card.md",
            "--listen=127.0.0.1:0", *peers,
        ]  # fmt: skip
        self.processes[name] = self.run(name, command, wait=False)

    def own(self, name):
        """Give a folder to a user of its own, if this process may do so."""
        place = self.places[name]
        if USERS:
            for path in (place, *place.iterdir()):
                os.chown(path, self.user(name), self.user(name))
        place.chmod(0o700)

    @staticmethod
    def user(name):
        return 20_001 + (*NAMES, "coordinator").index(name)

    def run(self, name, words, wait=True):
        """Run a command as the user of a party, in the party's folder."""
        place = self.places[name]
        users = {"user": self.user(name), "group": self.user(name)} if USERS else {}
        environment = os.environ | {"HOME": str(place), "OMP_NUM_THREADS": "1"}
        out = (place / "out.txt").open("ab")
        process = subprocess.Popen(
            [PYTHON, "-m", "discreet", *words],
            cwd=place, env=environment, stdout=out, stderr=subprocess.STDOUT, **users,
        )  # fmt: skip
        if wait:
            process.wait(600)
        return process

    def port(self, name):
        """Return the port at which a site listens, once it does."""
        end = time.monotonic() + WARM
        while time.monotonic() < end:
            text = (self.places[name] / "out.txt").read_text()
            if "127.0.0.1:" in text:
                return int(text.partition("127.0.0.1:")[2].split(".")[0].split("\n")[0])
            assert self.processes[name].poll() is None, text
            time.sleep(0.2)
        raise AssertionError(f"{name} does not listen")

    def connect(self):
        """Write the sites file of the coordinator; traffic passes recorders."""
        lines = ['key = "coordinator.key"', 'certificate = "coordinator.crt"']
        lines += ['trust = "secure"', "colluding = 1"]
        for name in NAMES:
            self.recorders[name] = Recorder(self.port(name))
            address = f"127.0.0.1:{self.recorders[name].port}"
            lines += ["[[site]]", f'address = "{address}"', f'certificate = "{name}.crt"']
        (self.places["coordinator"] / "sites.toml").write_text("\n".join(lines) + "\n")
        self.own("coordinator")

    def federate(self, *words, wait=True):
        """Run a fit; return the process, or its exit code and what it printed."""
        shown = self.places["coordinator"] / "out.txt"
        before = shown.stat().st_size if shown.exists() else 0
        command = ["--log=fit.log", "federate", "--sites=sites.toml", "--delta=1e-6", *words]
        process = self.run("coordinator", command, wait=wait)
        if not wait:
            return process
        return process.returncode, shown.read_text()[before:]

    def spent(self, name):
        return Ledger(self.places[name] / "ledger.sqlite").open("visits").spent

    def stop(self):
        for process in self.processes.values():
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def sites():
    with tempfile.TemporaryDirectory(prefix="sites-") as folder:
        os.chmod(folder, 0o755)  # other users have to get to their own folders in it
        made = Sites(Path(folder))
        try:
            for name, n, limit in zip(NAMES, SIZES, LIMITS, strict=True):
                made.start(name, n, limit)
            made.connect()
            yield made
        finally:
            made.stop()


@pytest.mark.process
def test_a_session_of_four_sites(sites):
    """A fit, a refusal, and a site that is killed, in this order."""
    target = ["--target=readmitted", "--json"]
    code, shown = sites.federate("--epsilon=1", "-o", "model.json", *target)
    assert code == 0, shown
    found = json.loads(shown[shown.index("{") :])
    assert found["traffic"]["questions"] <= 45
    guarantee = json.loads((sites.places["coordinator"] / "model.json").read_text())["guarantee"]
    assert "coordinator together with up to 1 of the sites" in " ".join(guarantee["conditions"])
    for name in NAMES:
        assert sites.spent(name) == pytest.approx(1.0, rel=1e-3)
        card = (sites.places[name] / "card.md").read_text()
        assert "Trust model: secure" in card
        assert "answers to questions about its rows" in card
        recorder = sites.recorders[name]
        assert len(recorder.received) > 10_000
        for kept in (recorder.sent, recorder.received):
            assert MARKED.encode() not in kept
        assert MARKED not in (sites.places[name] / "site.log").read_text()
    total = sum(len(each.sent) + len(each.received) for each in sites.recorders.values())
    counted = found["traffic"]["sent"] + found["traffic"]["received"]
    assert counted < total < 1.5 * counted + 100_000  # TLS and HTTP come on top

    code, shown = sites.federate("--epsilon=1", "-o", "second.json")
    assert code != 0
    assert "Site 'west' refused" in shown
    assert "limit" in shown
    assert not (sites.places["coordinator"] / "second.json").exists()
    assert [sites.spent(name) for name in NAMES] == [pytest.approx(1.0, rel=1e-3)] * 4
    assert "refused a message" in (sites.places["west"] / "site.log").read_text()

    if USERS:  # no site can read the rows of another
        other = ["schema", "draft", str(sites.places["north"] / "visits.csv"), "-o", "stolen.toml"]
        assert sites.run("south", other).returncode != 0


@pytest.mark.process
def test_strangers_and_recorded_messages_are_turned_away(sites, tmp_path):
    """Another certificate, none at all, or bytes of an earlier session."""
    make_identity("coordinator", tmp_path)  # the name of the coordinator, with another key
    shutil.copy(sites.places["coordinator"] / "north.crt", tmp_path)
    shutil.copy(sites.places["coordinator"] / "south.crt", tmp_path)
    lines = ['key = "coordinator.key"', 'certificate = "coordinator.crt"', 'trust = "secure"']
    for name in ("north", "south"):
        address = f"127.0.0.1:{sites.port(name)}"
        lines += ["[[site]]", f'address = "{address}"', f'certificate = "{name}.crt"']
    (tmp_path / "sites.toml").write_text("\n".join(lines))
    with pytest.raises(RuntimeError, match="gave no answer"):
        read_federation(tmp_path / "sites.toml").open()
    before = [sites.spent(name) for name in NAMES]
    recorded = bytes(sites.recorders["north"].sent)
    with socket.create_connection(("127.0.0.1", sites.port("north")), timeout=20) as again:
        again.settimeout(20)
        with contextlib.suppress(OSError):
            again.sendall(recorded)
            while again.recv(65536):
                pass
    with socket.create_connection(("127.0.0.1", sites.port("north")), timeout=20) as plain:
        plain.settimeout(20)
        plain.sendall(b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
        with contextlib.suppress(OSError):
            assert b"200" not in plain.recv(65536)
    assert [sites.spent(name) for name in NAMES] == before


@pytest.mark.process
def test_a_site_that_is_killed_ends_the_fit(sites):
    """It comes last: the site is gone. Ledgers show at least what was released."""
    process = sites.federate("--epsilon=0.4", "-o", "third.json", wait=False)
    log = sites.places["south"] / "site.log"
    count = log.read_text().count("charged fit")
    end = time.monotonic() + WARM
    while log.read_text().count("charged fit") == count:
        assert time.monotonic() < end
        assert process.poll() is None
        time.sleep(0.01)
    sites.processes["south"].send_signal(signal.SIGKILL)
    process.wait(300)
    shown = (sites.places["coordinator"] / "out.txt").read_text()
    assert process.returncode != 0
    assert "Site 'south'" in shown
    assert "gave no answer" in shown
    assert not (sites.places["coordinator"] / "third.json").exists()
    assert sites.spent("south") > 1.01  # it was charged, and nobody gave it back
    code, shown = sites.federate("--epsilon=0.1", "-o", "fourth.json")
    assert code != 0
    assert "gave no answer" in shown


def test_certificates_and_addresses_are_checked(tmp_path):
    private, public = make_identity("north", tmp_path)
    assert private.stat().st_mode & 0o077 == 0
    assert Certificate.read(public).name == "north"
    with pytest.raises(ValueError, match="a key is not replaced"):
        make_identity("north", tmp_path)
    assert as_address("127.0.0.1:8441") == ("127.0.0.1", 8441)
    for wrong in ("8441", ":8441", "host:", "host:70000", "host:x"):
        with pytest.raises(ValueError, match=r"HOST:PORT|port must be"):
            as_address(wrong)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('certificate = "north.crt"', "'key' is missing"),
        ('key = "north.key"\ncertificate = "north.crt"\nsites = 3', "unknown entry 'sites'"),
        (
            'key = "north.key"\ncertificate = "north.crt"\n[[site]]\nurl = "x"',
            "unknown entry 'url'",
        ),
    ],
)
def test_sites_files_are_checked(tmp_path, text, found):
    make_identity("north", tmp_path)
    (tmp_path / "sites.toml").write_text(text)
    with pytest.raises(ValueError, match=found):
        read_federation(tmp_path / "sites.toml")
