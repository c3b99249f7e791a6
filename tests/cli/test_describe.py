"""`discreet describe`: its forms, its ledger, and what it refuses before a row is read."""

import csv
import json

import pandas as pd
import pytest

from discreet import Budget, Ledger
from discreet.cli.app import run
from discreet.cli.exits import Exit
from discreet.datasets import load_visits

COLUMNS = ["--column", "age=18:100", "--column", "emergencies=0:10"]
LEVELS = ["--column", "sex=f,m", "--column", "readmitted=no,yes"]


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    path = tmp_path_factory.mktemp("describe") / "visits.csv"
    load_visits().to_csv(path, index=False)
    return path


def command(visits, *more):
    return ["describe", str(visits), *COLUMNS, *LEVELS, "--unit", "patient", *map(str, more)]


def test_the_table_fits_on_a_screen_and_its_promise_is_said(visits, capsys):
    assert run(command(visits, "--epsilon", 0.5, "--by", "readmitted")) == 0
    text = capsys.readouterr().out
    table = text.partition("than noise explains.")[0]
    assert max(map(len, table.splitlines())) <= 80
    assert "age\n  mean (SD)" in table
    assert "sex, n (%)\n  f" in table
    assert "ε = 0.5" in text
    assert "ward" not in text  # it was not declared


@pytest.mark.parametrize(
    ("name", "start"), [("t.html", "<style>"), ("t.tex", "\\begin{tabular}"), ("t.csv", "column,")]
)
def test_forms_of_the_file(visits, tmp_path, name, start, capsys):
    path = tmp_path / name
    assert run(command(visits, "--epsilon", 1, "-o", path)) == 0
    assert path.read_text().startswith(start)
    assert str(path) in capsys.readouterr().out
    if name == "t.csv":
        with path.open() as stream:
            rows = list(csv.DictReader(stream))
        people = next(float(row["estimate"]) for row in rows if row["statistic"] == "n")
        # ε = 1: the noise of the count is about 13 people
        assert people == pytest.approx(20_000, abs=500)


def test_json_has_all_numbers(visits, capsys):
    assert run(command(visits, "--epsilon", 1, "--json")) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"entries", "level", "guarantee", "ledger_entry"} == set(found)
    assert found["guarantee"]["epsilon"] == 1.0
    assert {each["statistic"] for each in found["entries"]} >= {"n", "mean", "sd", "q50", "share"}


def test_it_charges_the_ledger_and_stops_at_its_limit(visits, tmp_path, capsys):
    book = Ledger(tmp_path / "team.sqlite")
    data = book.create("visits", limit=Budget(0.5, 1e-5, "add_remove"), unit="patient")
    ledger = ["--ledger", tmp_path / "team.sqlite", "--dataset", "visits"]
    assert run(command(visits, "--epsilon", 0.4, *ledger)) == 0
    spent = data.spent
    assert 0.3 < spent <= 0.4  # at the δ of the limit it is a little less
    capsys.readouterr()
    assert run(command(visits, "--epsilon", 0.4, *ledger)) == Exit.PRIVACY
    assert not capsys.readouterr().out
    assert data.spent == spent


def test_by_schema(visits, tmp_path):
    path = tmp_path / "visits.toml"
    path.write_text(
        'version = 1\nunit = "patient"\nextra = "ignore"\n'
        '[columns.age]\nkind = "numeric"\nlow = 18\nhigh = 100\n'
        '[columns.sex]\nkind = "categorical"\nvalues = ["f", "m"]\n'
    )
    out = tmp_path / "t.csv"
    words = ["describe", str(visits), "--schema", str(path), "--epsilon", "1", "-o", str(out)]
    assert run(words) == 0
    assert set(pd.read_csv(out)["column"]) == {"n", "age", "sex"}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["-o", "t.pdf"], "must end in .html"),
        (["--schema", "x.toml"], "--schema or --column"),
        (["--unit", "nobody"], "no column 'nobody'"),
        (["--by", "age"], "must have listed levels"),
        (["--delta", "0"], "needs --delta > 0"),
    ],
)
def test_wrong_settings_are_refused(visits, tmp_path, monkeypatch, more, words, capsys):
    monkeypatch.chdir(tmp_path)
    assert run([*command(visits, "--epsilon", 1), *more]) != 0
    assert words in capsys.readouterr().err
