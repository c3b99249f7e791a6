"""Settings and commands of docs/ledger.md; tests/docs/test_outputs.py runs its code."""

import re
import tomllib
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "ledger.md"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_settings_of_the_page_are_those_of_a_file():
    (settings,) = [text for kind, text in FENCE.findall(PAGE.read_text("utf-8")) if kind == "toml"]
    assert set(tomllib.loads(settings)["ledger"]) == {"path", "dataset"}


def test_the_commands_of_the_page_exist():
    from discreet.cli.ledger import app

    known = {command.name or command.callback.__name__ for command in app.registered_commands}
    named = set(re.findall(r"discreet ledger (\w+)", PAGE.read_text("utf-8")))
    assert named == known
