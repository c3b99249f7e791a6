"""``discreet datasets``: list, describe, schema, table."""

import json
import tomllib
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from discreet.cli.exits import CommandError, Exit
from discreet.tables import Schema, read
from discreet_bench import command
from discreet_bench import datasets as sets

app = typer.Typer()
app.command("datasets")(command.datasets)


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch, tmp_path):
    monkeypatch.delenv("DISCREET_DATA", raising=False)
    monkeypatch.setenv("DISCREET_CACHE", str(tmp_path / "cache"))


def test_both_commands_are_registered():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    entries = project["project"]["entry-points"]["discreet.commands"]
    assert entries == {
        "bench": "discreet_bench.command:app",
        "datasets": "discreet_bench.command:datasets",
    }


def test_all_are_listed_and_one_is_described():
    listed = json.loads(run("--json").stdout)
    assert [one["name"] for one in listed] == list(sets.names())
    assert "UCI Adult" in run("adult").stdout
    assert json.loads(run("adult", "--json").stdout)["licence"] == "CC BY 4.0"


def test_schema_and_table_are_written_and_fit_together(tmp_path):
    folder = tmp_path / "data" / "banknote"
    folder.mkdir(parents=True)
    (folder / "data_banknote_authentication.txt").write_text("4,-8,0,10,1\n-8,16,20,-10,0\n")
    schema, table = tmp_path / "schema.toml", tmp_path / "table.csv"
    given = ["banknote", "--data-dir", str(tmp_path / "data")]
    with pytest.warns(UserWarning, match="checksum"):
        result = run(*given, "--schema", str(schema), "--table", str(table))
    assert result.exit_code == 0
    X, y, _ = read(table, Schema.read(schema))
    assert X.shape == (2, 4)
    assert y.tolist() == [1, 0]
    again = run(*given, "--schema", str(schema))
    assert isinstance(again.exception, CommandError)
    assert "--force" in str(again.exception)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["adlut"], Exit.USAGE, "did you mean 'adult'"),
        (["--fetch"], Exit.USAGE, "need the name"),
        (["adult", "--data-dir", "nowhere"], Exit.USAGE, "nowhere"),
        (["sphere", "--schema", "x.toml"], Exit.USAGE, "needs no schema"),
        (["mnist", "--table", "x.csv"], Exit.USAGE, "not a table"),
        (["ipums-us", "--fetch"], Exit.DATA, "https://international.ipums.org"),
    ],
)
def test_errors_have_a_code_and_a_remedy(arguments, code, text):
    error = run(*arguments).exception
    assert isinstance(error, CommandError)
    assert error.code == code
    assert text in str(error)
