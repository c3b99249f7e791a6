"""The example app by ``flwr run``: in Flower's simulation, and over SuperNodes of its own."""

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

import discreet
from discreet.ledger import Ledger

pytestmark = pytest.mark.process
flwr = pytest.importorskip("flwr", reason="Flower is not installed: pip install discreet[flower]")

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower_app"
PROGRAMS = Path(sys.executable).parent
WAIT = 1500  # seconds until a run has ended: SuperNodes start a process for each message


def clinics():
    spec = importlib.util.spec_from_file_location("clinics", EXAMPLE / "clinics.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


class Engine:
    """A SuperLink of its own, which is ended with all that it started."""

    def __init__(self, folder, *more):
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir()
        self.api = free_port()
        self.environment = os.environ | {
            "FLWR_HOME": str(self.home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "OMP_NUM_THREADS": "1",
            "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}",
        }
        (self.home / "config.toml").write_text(
            '[superlink]\ndefault = "own"\n[superlink.own]\ninsecure = true\n'
            f'address = "127.0.0.1:{self.api}"\n'
        )
        self.processes = []
        self.start(
            "flower-superlink", "--insecure", "--isolation=subprocess", "--host=127.0.0.1",
            f"--port={self.api}", *more,
        )  # fmt: skip

    def start(self, program, *words):
        out = (self.folder / "engine.txt").open("ab")
        process = subprocess.Popen(
            [PROGRAMS / program, *words],
            env=self.environment, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        self.processes.append(process)

    def run(self, app, *words):
        """Run an app to its end; return what was shown."""
        end = time.monotonic() + WAIT
        while True:
            done = subprocess.run(
                [PROGRAMS / "flwr", "run", app, "own", "--stream", *words],
                env=self.environment, capture_output=True, text=True, timeout=WAIT, check=False,
            )  # fmt: skip
            shown = done.stdout + done.stderr
            if "Successfully started run" in shown:
                return shown
            assert time.monotonic() < end, shown
            time.sleep(1)  # the SuperLink is starting

    def stop(self):
        for process in reversed(self.processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@pytest.fixture
def folder():
    """A folder with a short name, as sockets need one."""
    with tempfile.TemporaryDirectory(prefix="flwr-") as found:
        yield Path(found)


@contextlib.contextmanager
def served(folder, trust):
    module = clinics()
    place = folder / "clinics"
    place.mkdir()
    servers = module.serve(module.clinics(place, trust), place)
    try:
        yield servers
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


def settings(folder, **more):
    """Return the run's configuration as a file."""
    known = {"sockets": str(folder / "clinics"), "output": str(folder / "model.json"), **more}
    text = [f"{name} = {json.dumps(value)}" for name, value in known.items()]
    path = folder / "run.toml"
    path.write_text("\n".join(text) + "\n")
    return f"--run-config={path}"


WATCHED = '''
import json


class Watched:
    """A grid that notes what the messages of Flower have."""

    def __init__(self, grid):
        self.grid = grid
        self.get_node_ids = grid.get_node_ids
        self.push_messages = lambda messages: self.grid.push_messages(map(self.noted, messages))
        self.pull_messages = lambda keys: map(self.noted, self.grid.pull_messages(keys))

    def noted(self, message):
        records = {}
        for name, record in message.content.items():
            kind = type(record).__name__
            records[name] = {key: [kind, type(value).__name__, len(value)]
                             for key, value in record.items()}
        about = {"records": records, "type": message.metadata.message_type,
                 "reply": bool(message.metadata.reply_to_message_id)}
        with open("OUTPUT", "a") as stream:
            stream.write(json.dumps(about) + "\\n")
        return message
'''
"""What the copy of the example's server has besides."""


@pytest.mark.filterwarnings("ignore")
def test_a_simulation_with_a_trusted_aggregator_is_the_pooled_fit(folder):
    """The app of the example, with a fixed seed at the coordinator."""
    app = folder / "app"
    shutil.copytree(EXAMPLE, app)
    code = app / "several_sites" / "server_app.py"
    text = code.read_text()
    messages = folder / "messages.jsonl"
    changed = text.replace("        delta=", "        random_state=0,\n        delta=")
    changed = changed.replace("        grid,\n", "        Watched(grid),\n")
    changed = changed.replace("\napp =", WATCHED.replace("OUTPUT", str(messages)) + "\n\napp =")
    assert changed.count("Watched") == 2
    assert changed.count("random_state") == 1
    code.write_text(changed)
    engine = Engine(folder, "--simulation")
    try:
        with served(folder, "aggregator") as servers:
            shown = engine.run(
                app,
                "--federation-config=num-supernodes=4 client-resources-num-cpus=1",
                settings(folder, trust="aggregator"),
            )
            assert (folder / "model.json").exists(), shown
            sites = [server.site for server in servers]
    finally:
        engine.stop()
    notes = [json.loads(line) for line in messages.read_text().splitlines()]
    assert len(notes) > 100
    for note in notes:  # nothing but the bytes of the protocol
        assert list(note["records"]) == ["discreet"]
        assert [*note["records"]["discreet"]] == ["message"]
        assert note["records"]["discreet"]["message"][:2] == ["ConfigRecord", "bytes"]
        assert note["type"] == "query"
    module = clinics()
    order = sorted(range(4), key=lambda at: sites[at].name)
    tables = [module.table(list(module.SIZES.values())[at], at) for at in order]
    rows = {name: np.concatenate([each[name] for each in tables]) for name in tables[0]}
    pooled = discreet.fit(None, rows, schema=module.SCHEMA, epsilon=1.0, delta=1e-6, random_state=0)
    found = discreet.load(folder / "model.json")
    np.testing.assert_allclose(found.coef_, pooled.estimator.coef_, rtol=1e-9, atol=1e-9)
    assert [each.record[-1]["trust"] for each in sites] == ["aggregator"] * 4


def test_supernodes_fit_with_secure_aggregation(folder):
    """Two SuperNodes: each knows the socket of its site, and starts a process for each message."""
    engine = Engine(folder)
    try:
        with served(folder, "secure") as servers:
            for at in range(2):
                path = folder / "clinics" / f"{at}.sock"
                engine.start(
                    "flower-supernode", "--insecure", f"--superlink=127.0.0.1:{engine.api}",
                    f"--port={free_port()}", f'--node-config=socket="{path}"',
                )  # fmt: skip
            shown = engine.run(EXAMPLE, settings(folder, sites=2))
            assert (folder / "model.json").exists(), shown
            sites = [server.site for server in servers[:2]]
    finally:
        engine.stop()
    guarantee = json.loads((folder / "model.json").read_text())["guarantee"]
    assert "secure aggregation: each of 2 sites" in " ".join(guarantee["conditions"])
    found = discreet.load(folder / "model.json")
    assert np.isfinite(found.coef_).all()
    for site in sites:
        assert site.record[-1]["trust"] == "secure"
        ledger = Ledger(folder / "clinics" / f"{site.name}.sqlite").open("visits")
        assert ledger.spent == pytest.approx(1.0, rel=1e-3)
