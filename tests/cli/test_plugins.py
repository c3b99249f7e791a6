"""Commands of other packages, by entry points: a broken one breaks nothing else."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import typer

from discreet.cli import app
from discreet.cli.app import run
from discreet.cli.exits import Exit

group = typer.Typer(help="A group of another package.")


@group.command()
def one() -> None:
    """Say one."""
    typer.echo("group says one")


@group.command()
def two(count: int = 2) -> None:
    """Say a number."""
    typer.echo(f"group says {count}")


def single(name: str) -> None:
    """Greet somebody."""
    typer.echo(f"hello {name}")


def odd(what: list[list[int]]) -> None:
    """Take an option of a type that Typer does not know."""


number = 3

FAKES = {
    "group": "group",
    "single": "single",
    "number": "number",
    "odd": "odd",
    "absent": "no_such_name",
    "fit": "single",
}


class FakeEntry:
    """An entry point that loads from this module, whose name depends on the import mode."""

    def __init__(self, name: str, attribute: str) -> None:
        self.name, self.value, self.dist = name, f"another_package:{attribute}", None
        self._attribute = attribute
        self.loaded = 0

    def load(self) -> object:
        self.loaded += 1
        return globals()[self._attribute]


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> dict[str, FakeEntry]:
    made = {name: FakeEntry(name, attribute) for name, attribute in FAKES.items()}
    monkeypatch.setattr(app, "entry_points", lambda group: [*made.values()] * (group == app.GROUP))
    return made


def test_groups_and_functions_become_commands(entries, capsys):
    assert run(["group", "two", "--count", "5"]) == Exit.OK
    assert run(["single", "you"]) == Exit.OK
    out = capsys.readouterr()
    assert out.out == "group says 5\nhello you\n"
    assert out.err == ""  # others are not loaded, so their faults do not matter


def test_help_lists_them_and_warns_of_those_that_are_broken(entries, capsys):
    assert run(["--help"]) == Exit.OK
    shown = capsys.readouterr()
    assert "A group of another package" in shown.out
    assert "Greet somebody" in shown.out
    lines = shown.err.splitlines()
    assert len(lines) == 4
    for name, reason in (
        ("number", "neither a typer.Typer nor a function"),
        ("odd", "cannot be loaded ("),
        ("absent", "cannot be loaded (KeyError"),
        ("fit", "discreet has a command of that name"),
    ):
        (line,) = (line for line in lines if f"the command {name!r}" in line)
        assert line.startswith("Warning: ")
        assert reason in line


@pytest.mark.parametrize("name", ["number", "odd", "absent"])
def test_a_broken_command_that_is_called_fails_with_the_reason(entries, capsys, name):
    assert run([name]) == Exit.UNEXPECTED
    assert f"the command {name!r} of the package another_package" in capsys.readouterr().err


def test_our_own_commands_load_no_other_package(entries, capsys):
    assert run(["solvers", "gd"]) == Exit.OK
    assert run(["fit", "--help"]) == Exit.OK
    assert not any(entry.loaded for entry in entries.values())
    assert "--schema" in capsys.readouterr().out  # ours, not the other one of that name


def test_real_entry_points_have_what_is_used_of_them():
    entry = EntryPoint("demo", "discreet.cli.demo:demo", app.GROUP)
    assert callable(entry.load())
    assert entry.dist is None


def test_every_exit_code_is_documented():
    text = (Path(__file__).parents[2] / "docs" / "command.md").read_text("utf-8")
    for code in Exit:
        assert f"| {int(code)} | {code.meaning} |" in text


def test_help_is_readable_at_80_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["fit", "--help"]) == Exit.OK
    text = capsys.readouterr().out
    assert len(text.splitlines()) < 120
    assert "<bool>" not in text
    assert "Column with the id of the person (or other unit)" in " ".join(text.split())
    assert run(["--help"]) == Exit.OK
    shown = " ".join(capsys.readouterr().out.split())
    for name, command in app._COMMANDS.items():
        text = getattr(command, "__doc__", "") if callable(command) else ""
        text = text if not hasattr(command, "info") else command.info.help
        first = " ".join((text or "").split("\n")[0].split())
        assert f"{name} {first}" in shown
    assert "..." not in shown.replace("ARGS]...", "")
