"""The code of docs/ledger.md runs."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "ledger.md"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.filterwarnings("error")
def test_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 4))
    given = {"X": X, "y": (X[:, 0] > 0).astype(int), "patients": np.arange(1500) // 2}
    blocks = FENCE.findall(PAGE.read_text("utf-8"))
    (code,) = [text for kind, text in blocks if kind == "python"]
    exec(compile(code, str(PAGE), "exec"), given)
    (record,) = given["visits"].records()
    assert (record["unit"], record["steps"]) == ("person", 1)
    (settings,) = [text for kind, text in blocks if kind == "toml"]
    assert set(tomllib.loads(settings)["ledger"]) == {"path", "dataset"}


def test_the_commands_of_the_page_exist():
    from discreet.cli.ledger import app

    known = {command.name or command.callback.__name__ for command in app.registered_commands}
    named = set(re.findall(r"discreet ledger (\w+)", PAGE.read_text("utf-8")))
    assert named == known
