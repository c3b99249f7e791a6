"""The examples run: a scheduled job that keeps to its budget, and a prediction service."""

import importlib.util
import json
import logging
import threading
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

    yield ask
    running.shutdown()
    running.server_close()
    thread.join(10)


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


def test_other_addresses_are_not_found(ask):
    assert ask("/")[0] == 404
    assert ask("/other", {"rows": []})[0] == 404
