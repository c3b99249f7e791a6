"""``discreet ledger``, and commands that charge a ledger."""

import json
import sqlite3

import pytest

from discreet import Ledger
from discreet.cli.app import run
from discreet.cli.exits import Exit


@pytest.fixture(autouse=True)
def apart(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("DISCREET_LEDGER", raising=False)
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def place(tmp_path):
    return str(tmp_path / "people.sqlite")


@pytest.fixture
def created(place):
    line = ["ledger", "create", "people", "--ledger", place, "--epsilon", "2", "--delta", "1e-6"]
    assert run(line) == Exit.OK
    return place


def said(capsys):
    return json.loads(capsys.readouterr().out)


def fit(people, output, *more, epsilon="1"):
    return run(
        [
            *("fit", str(people / "people.csv"), "--schema", str(people / "people.toml")),
            *("--epsilon", epsilon, "--delta", "1e-6", "--output", str(output)),
            *more,
        ]
    )


def test_a_month(people, created, tmp_path, capsys):
    charged = ("--ledger", created, "--dataset", "people")
    assert fit(people, tmp_path / "a.json", *charged, "--purpose", "first") == Exit.OK
    assert "Entry 2 of the ledger; data set 'people': 1 release" in capsys.readouterr().out
    assert fit(people, tmp_path / "b.json", "--ledger", created, "--json") == Exit.OK
    assert said(capsys)["ledger"]["entries"] == 2
    assert fit(people, tmp_path / "c.json", *charged, epsilon="1.9") == Exit.PRIVACY
    assert not (tmp_path / "c.json").exists()
    assert "The largest ε that still fits" in capsys.readouterr().err
    model = str(tmp_path / "a.json")
    line = ["evaluate", model, str(people / "held-out.csv"), "--ledger", created]
    assert run(line) == Exit.USAGE
    assert run([*line, "--epsilon", "0.05"]) == Exit.OK
    capsys.readouterr()
    assert run(["ledger", "history", "people", "--ledger", created, "--json"]) == Exit.OK
    entries = said(capsys)
    assert [(e["status"], e["purpose"]) for e in entries] == [
        ("confirmed", "first"),
        ("confirmed", ""),
        ("confirmed", ""),
    ]
    assert run(["explain", model, "--ledger", created]) == Exit.OK
    card = capsys.readouterr().out
    assert "So far: all" in card
    assert "entry 2 of" in card
    assert run(["ledger", "verify", "--ledger", created]) == Exit.OK
    assert "Verified: 9 events" in capsys.readouterr().out


def test_tampering_is_caught(created, capsys):
    Ledger(created).open("people").add(epsilon=0.5)
    alter = "UPDATE ledger_events SET body = replace(body, '0.5', '0.1') WHERE seq = 2"
    with sqlite3.connect(created) as connection:  # a time may have these digits, too
        assert connection.execute(alter).rowcount == 1
    assert run(["ledger", "verify", "--ledger", created]) == Exit.LEDGER
    assert "event 2: its text does not match its hash" in " ".join(capsys.readouterr().err.split())
    assert run(["ledger", "verify", "--ledger", created, "--json"]) == Exit.LEDGER


def test_verification_promises_no_more_than_it_checks(created, tmp_path, monkeypatch, capsys):
    """Without a mark, the removal of the latest events is not found; the help says so."""
    Ledger(created).open("people").add(epsilon=0.5)
    with sqlite3.connect(created) as connection:
        connection.execute("DELETE FROM ledger_events WHERE seq = 2")
        connection.execute("UPDATE ledger_state SET last = 1")
    assert run(["ledger", "verify", "--ledger", created]) == Exit.LEDGER  # its mark was seen here
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another user"))
    assert run(["ledger", "verify", "--ledger", created]) == Exit.OK
    capsys.readouterr()
    run(["ledger", "verify", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "none but the latest removed" in text
    assert "kept the latest hash" in text
    assert "Prove" not in text


def test_a_draft_is_charged(people, created, tmp_path, capsys):
    assert (
        run(
            [
                *("schema", "draft", str(people / "people.csv"), "--epsilon", "0.3"),
                *("--delta", "1e-9", "--header", "--ledger", created),
                *("--output", str(tmp_path / "s.toml")),
            ]
        )
        == Exit.OK
    )
    (record,) = Ledger(created).open("people").records()
    assert (record["status"], record["measure"]) == ("confirmed", "approximate")
    assert record["solver"] == "private draft of a schema"


def test_a_ledger_is_found_by_environment_and_configuration(created, tmp_path, monkeypatch, capsys):
    assert run(["ledger", "list"]) == Exit.USAGE
    assert "name a ledger" in " ".join(capsys.readouterr().err.split())
    monkeypatch.setenv("DISCREET_LEDGER", created)
    assert run(["ledger", "list", "--json"]) == Exit.OK
    assert [each["dataset"] for each in said(capsys)] == ["people"]
    monkeypatch.delenv("DISCREET_LEDGER")
    (tmp_path / "discreet.toml").write_text('[ledger]\npath = "people.sqlite"\n')
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert run(["ledger", "show", "people", "--json", "--epsilon", "0.5"]) == Exit.OK
    shown = said(capsys)
    assert shown["next"]["fits_left"] == 12
    (tmp_path / "discreet.toml").write_text("[ledger\n")
    assert run(["ledger", "list"]) == Exit.USAGE
    (tmp_path / "discreet.toml").write_text("[ledger]\npath = 3\n")
    assert run(["ledger", "list"]) == Exit.USAGE


def test_the_data_set_of_the_nearest_configuration_is_charged(people, created, tmp_path, capsys):
    Ledger(created).create("other")
    assert fit(people, tmp_path / "a.json", "--ledger", created) == Exit.USAGE
    assert "'people', 'other'" in capsys.readouterr().err
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "t.csv").write_bytes((people / "people.csv").read_bytes())
    text = '[ledger]\npath = "people.sqlite"\ndataset = "other"\n'
    (tmp_path / "discreet.toml").write_text(text)
    line = ["fit", str(folder / "t.csv"), "--schema", str(people / "people.toml")]
    line += ["--epsilon", "1", "--delta", "1e-6", "--output", str(tmp_path / "b.json")]
    assert run(line) == Exit.OK
    assert Ledger(created).open("other").entries == 1
    assert run([*line, "--force", "--dataset", "none"]) == Exit.LEDGER
    (tmp_path / "discreet.toml").unlink()
    assert run([*line, "--force", "--dataset", "other"]) == Exit.USAGE


def test_entering_showing_and_exporting(created, tmp_path, capsys):
    base = ["--ledger", created]
    line = ["ledger", "add", "people", *base, "--gaussian", "20", "--purpose", "SQL"]
    assert run([*line, "--sensitivity", "2", "--json"]) == Exit.OK
    assert run([*line, "--planned", "--times", "10000"]) == Exit.PRIVACY
    assert run(["ledger", "add", "people", *base]) == Exit.USAGE
    capsys.readouterr()
    assert run(["ledger", "show", "people", *base, "--epsilon", "1.8"]) == Exit.OK
    out = capsys.readouterr().out
    assert "1 release, ε = 0.39" in out
    assert "does not fit" not in out
    assert run(["ledger", "history", "people", *base]) == Exit.OK
    assert "SQL" in capsys.readouterr().out
    assert run(["ledger", "list", *base]) == Exit.OK
    assert "ε = 2, δ = 1e-06" in capsys.readouterr().out
    assert run(["ledger", "export", *base]) == Exit.OK
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert run(["ledger", "export", *base, "--output", str(tmp_path / "e.jsonl")]) == Exit.OK
    capsys.readouterr()
    assert run(["ledger", "export", *base, "--to", str(tmp_path / "new.sqlite")]) == Exit.OK
    assert run(line) == Exit.LEDGER
    assert "was moved to" in " ".join(capsys.readouterr().err.split())


def test_blocks(place, capsys):
    base = ["--ledger", place]
    line = ["ledger", "create", "visits", *base, "--epsilon", "2", "--delta", "1e-6"]
    assert run([*line, "--unit", "patient", "--unit-in-one-block"]) == Exit.OK
    assert run(["ledger", "block", "visits", "2026-01", *base]) == Exit.OK
    assert run(["ledger", "block", "visits", "2026-01", *base]) == Exit.USAGE
    add = ["ledger", "add", "visits", *base, "--rho", "0.001"]
    assert run(add) == Exit.PRIVACY
    assert run([*add, "--block", "2026-01"]) == Exit.OK
    capsys.readouterr()
    assert run(["ledger", "show", "visits", *base]) == Exit.OK
    assert "2026-01" in capsys.readouterr().out
    assert run(["ledger", "history", "visits", *base]) == Exit.OK
    assert "2026-01" in capsys.readouterr().out
