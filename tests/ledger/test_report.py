"""The report of a ledger: what was spent after each release, as text and as a page."""

import re
from fractions import Fraction

import pytest

from discreet import Budget, Ledger
from discreet.cli.app import run
from discreet.ledger import report

LIMIT = Budget(3.0, 1e-5, "add_remove")


@pytest.fixture
def visits():
    made = Ledger().create("visits <1>", LIMIT)
    made.noting(purpose="first").add(epsilon=0.5)
    made.noting(purpose="<b>second</b>").add(gaussian=10.0)
    return made


def test_the_last_step_is_what_is_spent(visits):
    steps = report.timeline(visits)
    assert [step.entry for step in steps] == [1, 2, 3]
    assert steps[0].spent == 0
    assert steps[1].spent == pytest.approx(0.5)
    assert steps[-1].spent == visits.spent
    assert [step.spent for step in steps] == sorted(step.spent for step in steps)
    assert [record["entry"] for record in visits.records()] == [2, 3]


def test_a_release_that_was_returned_lowers_what_is_spent():
    made = Ledger().create("visits", LIMIT)
    charged = made.charge("pure", Fraction(1), Fraction(0), Budget(1.0, 0.0, "add_remove"))
    charged.give_back()
    first, reserved, returned = (step.spent for step in report.timeline(made))
    assert first == returned == made.spent == 0
    assert reserved > 0.5


def test_blocks_count_by_the_one_that_spent_most():
    made = Ledger().create("visits", LIMIT, unit_in_one_block=True)
    for name, epsilon in (("2026-01", 1.0), ("2026-02", 0.25)):
        made.add_block(name)
        made.in_blocks(name).add(epsilon=epsilon)
    steps = report.timeline(made)
    assert steps[-1].spent == made.spent == pytest.approx(1.0)


def test_the_page_is_inert_and_says_what_is_left(visits):
    page = report.html(visits)
    assert "2 releases have spent" in page
    assert f"up to ε = {visits.remaining:g}" in page
    assert "visits &lt;1&gt;" in page
    assert "&lt;b&gt;second&lt;/b&gt;" in page
    assert "<b>" not in page
    assert "<script" not in page
    assert not re.search(r"(src|href)=", page)
    assert "default-src 'none'" in page
    assert page.count('class="dot"') == 2
    assert "of the limit is spent" not in page  # far from it


def test_a_budget_that_is_nearly_spent_is_said():
    made = Ledger().create("visits", LIMIT)
    made.add(epsilon=2.5)
    assert made.spent == pytest.approx(2.5)
    assert "83% of the limit is spent" in report.html(made)


def test_an_empty_data_set_has_a_report():
    page = report.html(Ledger().create("new", LIMIT))
    assert "0 releases have spent ε = 0 (0%)" in page
    assert "None yet." in page


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    made = Ledger("l.sqlite").create("visits", LIMIT)
    made.noting(purpose="a table").add(epsilon=0.5)
    asked = ["ledger", "report", "visits", "--ledger", "l.sqlite"]
    assert run(asked) == 0
    assert "a table" in capsys.readouterr().out
    assert run([*asked, "--json"]) == 0
    assert '"over_time"' in capsys.readouterr().out
    assert run([*asked, "--html", "b.html"]) == 0
    assert (tmp_path / "b.html").read_text().startswith("<!doctype html>")
    assert run([*asked, "--html", "b.html"]) == 2
    assert "--force" in capsys.readouterr().err
    Ledger("l.sqlite").create("free")
    assert run(["ledger", "report", "free", "--ledger", "l.sqlite"]) == 2
    assert "no limit" in capsys.readouterr().err
