"""A schema from answers: each question once, proposals on Enter, mistakes asked again."""

import pytest

from discreet.cli.app import run
from discreet.cli.ask import Questions
from discreet.cli.exits import Exit
from discreet.datasets import write_visits
from discreet.tables import Categorical, Date, Ignored, Numeric, Schema, draft


@pytest.fixture
def visits(tmp_path):
    write_visits(tmp_path / "visits.csv", 300)
    return tmp_path / "visits.csv"


ANSWERS = [
    "",  # the unit: patient is proposed
    "readmited",  # no such column
    "readmitted",
    "no",  # one class is too few
    "no, yes",
    "", "2023-01-01", "2024-12-31",  # admitted: a date
    "", "18", "x",  # age: its highest number is none
    "", "18", "100",
    "b",  # sex: boolean
    "i",  # ward
    "hashed",  # diagnosis
    "", "no, steady, changed",  # insulin
    "", "-",  # bmi
    "", "12", "0",  # emergencies, the wrong way round
    "", "0", "12",
    "", "",  # days
    "nothing", "ignored",  # cost
]  # fmt: skip


def asked(text, answers):
    left, told = list(answers), []

    def prompt(question, proposed):
        answer = left.pop(0)
        told.append(question)
        return answer or proposed

    return Questions(text, prompt, told.append).schema(), told, left


def test_answers_become_a_schema(visits):
    schema, told, left = asked(draft(visits), ANSWERS)
    assert left == []
    assert schema.unit == "patient"
    assert schema.target.labels == ("no", "yes")
    columns = schema.columns
    assert columns["admitted"] == Date("2023-01-01", "2024-12-31", gaps="average")
    assert columns["age"] == Numeric(18, 100, gaps="average", integer=True)
    assert columns["sex"].kind == "boolean"
    assert isinstance(columns["ward"], Ignored)
    assert columns["diagnosis"].kind == "hashed"
    assert columns["insulin"] == Categorical(["no", "steady", "changed"], unseen="average")
    assert columns["bmi"] == Numeric(gaps="average")
    assert columns["emergencies"] == Numeric(0, 12, gaps="average", integer=True)
    assert columns["days"] == Numeric(gaps="average", integer=True)
    assert isinstance(columns["cost"], Ignored)
    said = "\n".join(told)
    for text in ("no column 'readmited'", "two classes at least", "low must be below high"):
        assert text in said
    assert "'nothing' is no kind" in said
    assert "Column 1 of 10: admitted." in said
    assert Schema.from_toml(schema.to_toml()) == schema


def test_what_was_stated_is_not_asked(visits):
    text = draft(visits, target="readmitted", unit="patient")
    answers = ["0:1", *["i"] * 9, "", "-"]
    schema, told, left = asked(text, answers)
    assert left == []
    assert schema.target.low == 0
    assert not any("Column to predict" in question for question in told)
    assert list(schema.used) == ["cost"]


def test_the_command_writes_a_schema_that_fits(visits, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    left = ["no,yes", *["i"] * 9, "n", "-"]
    monkeypatch.setattr("typer.prompt", lambda text, default="", **_: left.pop(0) or default)
    line = ["schema", "draft", "visits.csv", "--target", "readmitted", "--unit", "patient"]
    assert run([*line, "--ask", "--epsilon", "1"]) == Exit.USAGE
    assert "--ask and --epsilon exclude each other" in capsys.readouterr().err
    assert run([*line, "--ask", "-o", "v.toml"]) == Exit.OK
    assert left == []
    assert run(["schema", "check", "v.toml"]) == Exit.OK
