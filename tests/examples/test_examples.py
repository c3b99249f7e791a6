"""The examples run: a scheduled job that keeps to its budget, and a prediction service."""

import importlib.util
import json
import logging
import socket
import struct
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from discreet import Budget, Ledger, LogisticRegression, load, save
from discreet.cli.app import run
from discreet.cli.exits import Exit
from discreet.tables import Categorical, Numeric, Schema, Target

EXAMPLES = Path(__file__).parents[2] / "examples"
SECRET = "91.234567"


def example(path):
    spec = importlib.util.spec_from_file_location(Path(path).stem, EXAMPLES / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    """A folder with a table, its schema, and a ledger for a few runs of ε = 0.5."""
    folder = tmp_path_factory.mktemp("visits")
    rng = np.random.default_rng(0)
    age, sex = rng.uniform(20, 90, 5000), rng.integers(0, 2, 5000)
    ill = age + 5 * rng.normal(size=5000) > 55
    lines = [
        f"{a:.1f},{'FM'[s]},{'yes' if i else 'no'}" for a, s, i in zip(age, sex, ill, strict=True)
    ]
    lines[7] = f"{SECRET},F,yes"
    (folder / "visits.csv").write_text("\n".join(["age,sex,ill", *lines]) + "\n")
    schema = Schema(
        {"age": Numeric(0, 120), "sex": Categorical(["F", "M"], unseen="refuse")},
        target=Target("ill", ["no", "yes"]),
    )
    schema.write(folder / "visits.toml")
    Ledger(folder / "visits.sqlite").create("visits", limit=Budget(1.0, 1e-6, "add_remove"))
    return folder


def test_a_scheduled_job_stops_at_the_limit_and_keeps_the_model(visits, caplog):
    refit = example("scheduled_job/refit.py")
    caplog.set_level(logging.INFO)
    arguments = [
        visits / "visits.csv", visits / "visits.toml", visits / "models",
        "--ledger", visits / "visits.sqlite", "--dataset", "visits", "--epsilon", "0.5",
    ]  # fmt: skip
    codes, files = [], []
    for _ in range(5):
        codes.append(refit.main([str(word) for word in arguments]))
        files.append((visits / "models" / "model.json").read_bytes())
    assert codes[0] == 0
    assert codes[-1] == Exit.PRIVACY  # as of the command
    done = codes.count(0)
    assert codes == [0] * done + [Exit.PRIVACY] * (5 - done)
    assert len(set(files)) == done  # a refused run changes nothing
    dataset = Ledger(visits / "visits.sqlite").open("visits")
    assert dataset.entries == done
    assert dataset.spent <= 1.0
    assert dataset.records()[0]["purpose"] == "scheduled refit"
    assert "Privacy card: visits" in (visits / "models" / "card.html").read_text()
    assert "kept the old model" in caplog.text
    assert SECRET not in caplog.text
    assert load(visits / "models" / "model.json").predict({"age": [80], "sex": ["F"]}) == ["yes"]


@pytest.mark.parametrize(
    ("broken", "code"), [("visits.csv", Exit.DATA), ("visits.sqlite", Exit.LEDGER)]
)
def test_exit_codes_of_the_job_are_those_of_the_command(visits, tmp_path, caplog, broken, code):
    refit = example("scheduled_job/refit.py")
    for name in ("visits.csv", "visits.toml"):
        (tmp_path / name).write_bytes((visits / name).read_bytes())
    Ledger(tmp_path / "visits.sqlite").create("visits", limit=Budget(1.0, 1e-6, "add_remove"))
    (tmp_path / broken).write_text(f"age,sex,ill\n{SECRET}x,F,yes\n")
    table = [tmp_path / "visits.csv", tmp_path / "visits.toml"]
    ledger = ["--ledger", tmp_path / "visits.sqlite", "--dataset", "visits", "--epsilon", "0.5"]
    arguments = [str(word) for word in (*table, tmp_path / "models", *ledger)]
    assert refit.main(arguments) == code
    asked = ["--schema", *table[1:], *ledger, "--delta", "1e-6", "-o", tmp_path / "m.json"]
    assert run([str(word) for word in ("fit", table[0], *asked)]) == code
    assert SECRET not in caplog.text
    assert not (tmp_path / "models").exists()


@pytest.fixture(scope="module")
def ask(visits):
    """A function that asks a running service."""
    service = example("prediction_service/service.py")
    schema = Schema.read(visits / "visits.toml")
    X, y, _ = schema.open(visits / "visits.csv")
    model = LogisticRegression(5.0, classes=["no", "yes"]).fit(X, y)
    save(make_pipeline(schema.transformer(), model), visits / "served.json")
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(service, "MOST_SECONDS", 2.0)
    running = service.server(visits / "served.json", port=0)
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()

    def ask(path, body=None):
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        address = f"http://127.0.0.1:{running.server_port}{path}"
        try:
            with urllib.request.urlopen(address, data, timeout=10) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    ask.address = ("127.0.0.1", running.server_port)
    yield ask
    running.shutdown()
    running.server_close()
    thread.join(10)
    monkeypatch.undo()


def test_the_service_predicts_and_states_its_guarantee(ask, visits, capsys):
    rows = [{"age": 85, "sex": "F"}, {"age": 25.5, "sex": "M", "name": "ignored"}]
    status, answer = ask("/predict", {"rows": rows})
    assert status == 200
    assert answer["predictions"] == ["yes", "no"]
    assert answer["probabilities"][0]["yes"] > 0.5 > answer["probabilities"][1]["yes"]
    expected = load(visits / "served.json").predict_proba({"age": [85], "sex": ["F"]})
    assert answer["probabilities"][0]["yes"] == pytest.approx(expected[0, 1])
    assert ask("/health") == (200, {"status": "ready"})
    assert ask("/guarantee")[1]["epsilon"] == 5.0
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "")  # requests are not logged


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"nonsense", 400, "not JSON"),
        ({"rows": []}, 400, "send"),
        ([1], 400, "send"),
        ({"rows": [{"age": 1}]}, 400, "lacks the column 'sex'"),
        ({"rows": [{"age": 1, "sex": SECRET}]}, 400, "sex"),
        ({"rows": [{"age": SECRET + "x", "sex": "F"}]}, 400, "not a number"),
        ({"rows": [{"age": 1, "sex": "F"}] * 1001}, 400, "1,000 rows"),
        (b" " * (2**20 + 1), 413, "bytes"),
    ],
)
def test_a_bad_request_is_refused_without_showing_a_cell(ask, body, status, says):
    found, answer = ask("/predict", body)
    assert found == status
    assert says in answer["error"]
    assert SECRET not in json.dumps(answer)


def raw(ask, request, timeout=30.0):
    """Send bytes as they are, and return the status and the body of the answer."""
    with socket.create_connection(ask.address, timeout=timeout) as client:
        client.sendall(request)
        answer = b"".join(iter(lambda: client.recv(2**16), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


@pytest.mark.parametrize(
    ("length", "status", "says"),
    [
        ("²".encode("latin-1"), 400, "Content-Length"),
        ("²".encode(), 400, "Content-Length"),
        (b"-1", 400, "Content-Length"),
        (b"1_0", 400, "Content-Length"),
        (b"9" * 5000, 413, "bytes"),
        (b"0" * 5000 + b"2", 400, "send"),
    ],
    ids=["latin superscript", "superscript", "negative", "underscore", "long", "zeros"],
)
def test_odd_lengths_are_bad_requests(ask, length, status, says):
    request = b"POST /predict HTTP/1.1\r\nContent-Length: " + length + b"\r\n\r\n{}"
    found, body = raw(ask, request)
    assert found == status
    assert says in body
    assert raw(ask, b"POST /predict HTTP/1.1\r\n\r\n")[0] == 411


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 200_000,
        b'{"rows": ' * 100_000,
        b'{"rows": [{"age": ' + b"9" * 5000 + b', "sex": "F"}]}',
        b'{"rows": [{"age": 1, "sex": "\\ud800"}]}',
        b'{"rows": [{"age": 1, "sex": ' + b"[" * 900 + b"]" * 900 + b"}]}",
        b"\xff\xfe",
    ],
    ids=["brackets", "objects", "digits", "surrogate", "nested cell", "bytes"],
)
def test_odd_json_is_a_bad_request(ask, body):
    status, answer = ask("/predict", body)
    assert status == 400
    assert len(answer["error"]) < 300


def test_clients_that_disconnect_are_not_logged(ask, capfd):
    start = b"POST /predict HTTP/1.1\r\nContent-Length: 99\r\n\r\n{"
    whole = b"POST /predict HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"
    for request in (b"", b"POST", start, whole, b"\xff\r\n\r\n"):
        client = socket.create_connection(ask.address, timeout=10)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.sendall(request)
        client.close()  # with a reset
    assert ask("/health")[0] == 200
    while any("process_request" in thread.name for thread in threading.enumerate()):
        time.sleep(0.05)
    shown = capfd.readouterr()
    assert (shown.out, shown.err) == ("", "")


def test_many_connections_at_once_are_all_answered(ask):
    body = json.dumps({"rows": [{"age": 85.5, "sex": "F"}]}).encode()
    request = b"POST /predict HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    clients = [socket.create_connection(ask.address, timeout=30) for _ in range(100)]
    for client in clients:
        client.sendall(request)
    for client in clients:
        assert b" 200 " in client.recv(100)
        client.close()


def test_slow_clients_neither_hold_others_up_nor_stay(ask):
    slow = [socket.create_connection(ask.address, timeout=30) for _ in range(200)]
    for client in slow:
        client.sendall(b"POST /predict HTTP/1.1\r\nContent-Le")
    assert ask("/health")[0] == 200  # within the 10 s of its own time limit
    for client in slow[1:]:
        client.close()
    # One that sends a byte now and then is ended by the limit on the whole request (2 s here).
    ended = False
    for _ in range(200):
        try:
            slow[0].sendall(b"n")
            slow[0].settimeout(0.1)
            ended = slow[0].recv(1000) == b""
        except TimeoutError:
            continue
        except OSError:
            ended = True
        if ended:
            break
    slow[0].close()
    assert ended


def test_an_unknown_failure_is_named_without_address_or_cell(visits, capfd):
    service = example("prediction_service/service.py")
    running = service.server(visits / "served.json", port=0)
    try:
        raise RuntimeError(SECRET)
    except RuntimeError:
        running.handle_error(None, ("192.0.2.7", 4711))
    running.server_close()
    shown = capfd.readouterr().err
    assert "RuntimeError" in shown
    assert SECRET not in shown
    assert "192.0.2.7" not in shown


def test_other_addresses_are_not_found(ask):
    assert ask("/")[0] == 404
    assert ask("/other", {"rows": []})[0] == 404
