import re
from dataclasses import replace

import pytest
from scipy.stats import norm

from discreet.card.risk import percent
from discreet.cli import demo
from discreet.cli.app import run
from discreet.cli.exits import Exit
from discreet.core import Account, Budget


@pytest.fixture
def small(monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(demo, "N_TRAIN", 1000)
    monkeypatch.setattr(demo, "N_TEST", 2000)
    monkeypatch.setattr(demo, "REPEATS", 2)


@pytest.mark.usefixtures("small")
def test_a_table_a_figure_and_a_page(tmp_path, capsys):
    page = tmp_path / "demo.html"
    assert run(["demo", "--output", str(page)]) == Exit.OK
    out = capsys.readouterr().out
    for text in ("private, ε = 0.1", "private, ε = 3", "no privacy", "most frequent label"):
        assert text in out
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    text = page.read_text()
    assert text.startswith("<!doctype html>")
    assert "differentially private for one row added or removed" in " ".join(text.split())
    assert "discreet schema draft" in text
    assert text.count("<tr><td>") == len(demo.EPSILONS)
    # Self-contained: no address but the names of XML dialects, no script, colours of the page.
    assert not re.search(r"(src|href)=\"(http|/)", text)
    assert "<script" not in text
    assert "var(--private)" in text
    assert not any(colour in text for colour in demo._COLOURS.values())


def test_a_newcomer_sees_no_box_of_warnings(tmp_path, capsys):
    """At each budget of the demo, with its own sizes, something can be learned."""
    pytest.importorskip("matplotlib")
    assert run(["demo", "--output", str(tmp_path / "demo.html")]) == Exit.OK
    shown = capsys.readouterr()
    boxes = shown.err.count("╭")
    assert boxes <= 1
    rates = {
        name.strip(): float(rate) for name, rate in re.findall(r"│ (.*?) │ +([\d.]+)%", shown.out)
    }
    lowest = rates.pop("always the most frequent label")
    assert len(rates) == len(demo.EPSILONS) + 1
    assert min(rates.values()) > lowest + 5  # in per cent of new rows


def test_the_share_of_members_found_is_that_of_the_guarantee():
    account = Account(Budget(3.0, 1e-6, "add_remove"))
    mu = account.open("gdp").total ** 0.5
    outcome = demo.Outcome("", account.guarantee(secure=True), (0.5,))
    exact = norm.cdf(norm.ppf(0.05) + mu)
    assert outcome.caught == percent(exact) == "16 %"  # (ε, δ) alone would allow 96 %
    assert replace(outcome, guarantee=None).caught == ""
