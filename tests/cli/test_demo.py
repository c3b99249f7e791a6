import math
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
    monkeypatch.setattr(demo, "N_PATIENTS", 3000)
    monkeypatch.setattr(demo, "N_NEW", 1000)
    monkeypatch.setattr(demo, "REPEATS", 1)


@pytest.mark.usefixtures("small")
def test_a_table_a_figure_and_a_page(tmp_path, capsys):
    page = tmp_path / "demo.html"
    assert run(["demo", "--output", str(page)]) == Exit.OK
    out = capsys.readouterr().out
    for text in ("private, ε = 0.1", "private, ε = 3", "no privacy", "odds ratio", "ward=surgery"):
        assert text in out
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    text = page.read_text()
    assert text.startswith("<!doctype html>")
    promise = "differentially private for one person with all of their rows added or removed"
    assert promise in " ".join(text.split())
    assert "discreet example visits.csv" in text
    n_effects = 3 + 3 + 2  # numbers, and levels of ward and insulin that are no reference
    assert text.count("<tr><td>") == len(demo.EPSILONS) + n_effects
    # Self-contained: no address but the names of XML dialects, no script, colours of the page.
    assert not re.search(r"(src|href)=\"(http|/)", text)
    assert "<script" not in text
    assert "var(--private)" in text
    assert not any(colour in text for colour in demo._KINDS)


def test_a_newcomer_sees_results_that_are_true_and_no_box_of_warnings(tmp_path, capsys):
    """Every budget of the demo learns something, and intervals contain the truth or come near it.

    The visits of the report are fixed. A line of the report misses the truth by more than six
    standard errors with a probability below 1e-8, if the model leaves out no confounder; the
    fit leaves out columns that shrink an effect by at most one standard error.
    """
    pytest.importorskip("matplotlib")
    assert run(["demo", "--output", str(tmp_path / "demo.html")]) == Exit.OK
    shown = capsys.readouterr()
    assert shown.err.count("╭") <= 1
    rates = dict(re.findall(r"│ (private, ε = [\d.]+|no privacy) +│ +([\d.]+) │", shown.out))
    assert len(rates) == len(demo.EPSILONS) + 1
    assert min(map(float, rates.values())) > 0.6
    lines = re.findall(r"│ +([\d.]+) │ +([\d.]+) to ([\d.]+) │ ([\d.]+) │", shown.out)
    assert len(lines) == 8
    for ratio, low, high, true in (map(float, line) for line in lines):
        error = math.log((high + 0.005) / (low - 0.005)) / 3.92
        assert abs(math.log(ratio / true)) < 6 * error + 0.01


def test_the_share_of_members_found_is_that_of_the_guarantee():
    account = Account(Budget(3.0, 1e-6, "add_remove"))
    mu = account.open("gdp").total ** 0.5
    outcome = demo.Outcome("", account.guarantee(secure=True), (0.5,))
    exact = norm.cdf(norm.ppf(0.05) + mu)
    assert outcome.caught == percent(exact) == "16 %"  # (ε, δ) alone would allow 96 %
    assert replace(outcome, guarantee=None).caught == ""
