"""Sites at sockets of their machine, and the messages that Flower carries to them."""

import importlib.util
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from discreet import LogisticRegression
from discreet.cli.app import run
from discreet.sites import Federation, Policy, Site, SiteError, wire
from discreet.sites.sockets import LARGEST_MESSAGE, SocketServer, exchanged


@dataclass
class AtSocket:
    """A way to a site at a socket."""

    name: str
    path: Path

    def send(self, message):
        return exchanged(self.path, message)


def site(name, n, seed, **about):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = (X[:, 0] + rng.logistic(size=n) > 0).astype(int)
    return Site(name, X, y, policy=Policy(accepts=("aggregator", "local")), **about)


def classifier():
    return LogisticRegression(epsilon=1.0, delta=1e-6, classes=[0, 1], random_state=0)


@pytest.fixture
def served(tmp_path):
    """Three sites at sockets; their folder."""
    sites = [site(name, 300 + 100 * at, at) for at, name in enumerate(("east", "north", "west"))]
    servers = [SocketServer(each, tmp_path / f"{at}.sock") for at, each in enumerate(sites)]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    yield SimpleNamespace(folder=tmp_path, sites=sites, servers=servers)
    for server in servers:
        server.shutdown()
        server.server_close()


def pooled(sites):
    return classifier().fit(
        np.concatenate([each._X for each in sites]), np.concatenate([each._y for each in sites])
    )


@pytest.mark.filterwarnings("ignore")
def test_a_fit_over_sockets_is_the_pooled_fit(served):
    channels = [
        AtSocket(each.name, served.folder / f"{at}.sock") for at, each in enumerate(served.sites)
    ]
    federation = Federation(channels, trust="aggregator")
    found = classifier().fit(*federation.open())
    np.testing.assert_allclose(found.coef_, pooled(served.sites).coef_, rtol=1e-9, atol=1e-9)
    assert [each.record[-1]["end"] for each in served.sites] == ["ended by the coordinator"] * 3


def test_a_socket_is_for_its_owner_and_group(served, tmp_path):
    path = served.folder / "0.sock"
    assert path.stat().st_mode & 0o777 == 0o660
    with pytest.raises(ValueError, match="exists"):
        SocketServer(served.sites[0], path)
    with pytest.raises(OSError, match="No such file"):
        exchanged(tmp_path / "nowhere.sock", b"")


def test_a_socket_reads_no_message_that_is_too_large_or_cut_short(served):
    import socket

    asked = []
    served.sites[0].handle = lambda message: asked.append(message) or b"reply"
    for size in (LARGEST_MESSAGE + 1, 10):
        with socket.socket(socket.AF_UNIX) as near:
            near.settimeout(20)
            near.connect(str(served.folder / "0.sock"))
            near.sendall(size.to_bytes(8, "big") + b"short")
            near.shutdown(socket.SHUT_WR)
            assert near.recv(10) == b""
    assert asked == []
    served.sites[0].handle = lambda message: b""
    assert exchanged(served.folder / "0.sock", b"message") == b""


def test_a_server_that_ends_removes_its_socket(tmp_path):
    server = SocketServer(site("east", 10, 0), tmp_path / "east.sock")
    server.server_close()
    assert not (tmp_path / "east.sock").exists()


def test_the_command_needs_a_coordinator_or_a_socket(capsys):
    words = ["site", "serve", "visits.csv", "--schema=visits.toml", "--key=a.key"]
    for more in ([], ["--coordinator=c.crt", "--socket=a.sock"]):
        assert run([*words, "--certificate=a.crt", *more]) != 0
        assert "--socket" in capsys.readouterr().err


# ---- Flower, without its engine


class Grid:
    """A grid that hands each message to a ClientApp, as a run of Flower does."""

    def __init__(self, app, folder, count):
        from flwr.app import Context, RecordDict

        self.app = app
        self.replies = {}
        self.sent = []
        self.contexts = {
            100 + at: Context(
                run_id=1,
                node_id=100 + at,
                node_config={"partition-id": at, "num-partitions": count},
                state=RecordDict(),
                run_config={"sockets": str(folder)},
            )
            for at in range(count)
        }

    def get_node_ids(self):
        return list(self.contexts)

    def push_messages(self, messages):
        from flwr.app import Error, Message

        for message in messages:
            self.sent.append(message)
            key = str(len(self.sent))
            try:
                reply = self.app(message, self.contexts[message.metadata.dst_node_id])
            except OSError:
                reply = Message(Error(code=2, reason="the app failed"), reply_to=message)
            self.replies[key] = reply
            yield key

    def pull_messages(self, keys):
        for key in keys:
            if key in self.replies:
                yield self.replies.pop(key)


@pytest.fixture
def flower(monkeypatch):
    pytest.importorskip("flwr", reason="Flower is not installed: pip install discreet[flower]")
    from flwr.supercore.task_identity import TaskIdentity

    from discreet.sites import flower, flower_node

    for name in ("_task_id", "_run_id", "_node_id"):  # an engine sets them in the app's process
        monkeypatch.setattr(TaskIdentity, name, 1)
    return SimpleNamespace(
        federation_of=flower.federation_of,
        nodes_of=flower.nodes_of,
        module=flower,
        node=flower_node,
    )


@pytest.mark.filterwarnings("ignore")
def test_flower_carries_a_fit(served, flower):
    grid = Grid(flower.node.client_app(), served.folder, 3)
    federation = flower.federation_of(grid, sites=3, trust="aggregator")
    assert federation.names == ("east", "north", "west")
    found = classifier().fit(*federation.open())
    np.testing.assert_allclose(found.coef_, pooled(served.sites).coef_, rtol=1e-9, atol=1e-9)
    for message in grid.sent:
        assert list(message.content) == ["discreet"]
        assert list(message.content["discreet"]) == ["message"]
        assert wire.decode(message.content["discreet"]["message"])["do"]
    described = 2 * 3  # to learn the names, and to open
    assert len(grid.sent) == federation.traffic.messages + described + 3  # and the end


def test_a_node_whose_site_is_gone_ends_the_fit(served, flower):
    grid = Grid(flower.node.client_app(), served.folder, 3)
    federation = flower.federation_of(grid, sites=3, trust="aggregator")
    table = federation.open()
    served.servers[2].server_close()
    with pytest.raises(SiteError, match=r"'west' at Flower's node 102 gave no answer .*error 2"):
        classifier().fit(*table)
    assert [each.record for each in served.sites[:2]] != [[], []]


def test_nodes_that_do_not_come_or_answer_are_named(served, flower, monkeypatch):
    grid = Grid(flower.node.client_app(), served.folder, 3)
    with pytest.raises(SiteError, match="3 of 4 nodes"):
        flower.nodes_of(grid, 4, wait=0.0)
    grid.pull_messages = lambda keys: []
    monkeypatch.setattr(flower.module, "WAIT", 0.05)
    with pytest.raises(SiteError, match="gave no answer \\(TimeoutError\\)"):
        flower.nodes_of(grid, 3)


def test_the_socket_of_a_node_is_its_own_configuration(flower):
    from flwr.app import Context, RecordDict

    own = {"partition-id": 4, "socket": "/run/site/north.sock"}
    context = Context(1, 2, own, RecordDict(), {"sockets": "/other"})
    assert flower.node.socket_of(context) == Path("/run/site/north.sock")
    context = Context(1, 2, {"partition-id": 4}, RecordDict(), {"sockets": "/other"})
    assert flower.node.socket_of(context) == Path("/other/4.sock")


def test_the_app_at_a_node_starts_without_the_library(flower):
    """It is started for each message."""
    code = "import sys, discreet.sites.flower_node as _; print('numpy.linalg' in sys.modules, "
    code += "'numba' in sys.modules, 'discreet.core' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.split()[1:] == ["False", "False"]


def test_the_example_has_four_clinics(tmp_path):
    path = Path(__file__).parents[2] / "examples" / "flower_app" / "clinics.py"
    spec = importlib.util.spec_from_file_location("clinics", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sites = module.clinics(tmp_path)
    servers = module.serve(sites, tmp_path)
    channels = [AtSocket(each.name, tmp_path / f"{at}.sock") for at, each in enumerate(sites)]
    federation = Federation(channels)
    assert federation.schema == module.SCHEMA
    for server in servers:
        server.shutdown()
        server.server_close()
