"""Numbers that several pages state are the same everywhere, and are those of code and records."""

import csv
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import discreet
from discreet import LogisticRegression, plan
from discreet.card import card
from discreet.card.risk import approximate_bound, budget_success, percent
from discreet.cli.schema_commands import draft

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CHOOSING = DOCS / "choosing-epsilon.md"
PAGES = [
    ROOT / "README.md",
    *sorted(path for path in DOCS.rglob("*.md") if "generated" not in path.parts),
    *sorted((DOCS / "tutorials").glob("*.py")),
    DOCS / "_templates" / "risk.html",
]
FOUND = percent(budget_success(1.0, 1e-6))
STATEMENT = re.compile(
    r"wrongly accuses? (?:1 in 20|one in twenty|5 %)[^.]*? at most (?:<strong>|\*\*)?([\d.]+ %)"
)
ATTACK = re.compile(r"attack|accus|guess", re.IGNORECASE)
SHARE = re.compile(r"[\d.]+ %")


def flat(path):
    """Return the text of a page on one line, without the marks of comments and quotations."""
    mark = "# " if path.suffix == ".py" else "> "
    lines = [line.removeprefix(mark) for line in path.read_text("utf-8").splitlines()]
    return " ".join(" ".join(lines).split())


def stated():
    """Return what pages say that an attacker finds at most, who accuses 1 in 20 wrongly."""
    return {path.name: set(found) for path in PAGES if (found := STATEMENT.findall(flat(path)))}


def test_pages_state_one_meaning_of_epsilon_1():
    assert set(stated()) >= {"README.md", "choosing-epsilon.md", "faq.md", "risk.html"}
    assert set().union(*stated().values()) == {FOUND}


def test_no_sentence_on_attacks_at_epsilon_1_has_another_number():
    """Sentences with other shares belong to the page that explains how they are related."""
    others = {}
    for path in set(PAGES) - {CHOOSING}:
        for sentence in re.split(r"(?<=[.:|]) ", flat(path)):
            if re.search(r"ε = 1(?![\d.e])", sentence) and ATTACK.search(sentence):
                shares = set(SHARE.findall(sentence)) - {FOUND, "5 %"}
                others |= {(path.name, sentence): shares} if shares else {}
            if re.search(r"(two|three|\d) times as good as (a )?guess", sentence):
                others[path.name, sentence] = "times as good as a guess"
    assert others == {}


def test_the_units_page_states_the_bound_of_the_card():
    rows = re.findall(r"^\| one (?:row|person) \| \d+ \|.*\| (.*) \|$", text("units.md"), re.M)
    assert rows == [FOUND, "100 %", FOUND, FOUND]


def text(name):
    return (DOCS / name).read_text("utf-8")


def test_the_table_of_budgets_is_computed():
    row = re.compile(r"^\| ([\d.]+) \| (.*) \| (.*) \| (.*) \|$", re.MULTILINE)
    lines = row.findall(CHOOSING.read_text("utf-8"))
    assert [float(line[0]) for line in lines] == [0.1, 0.3, 1, 3, 10]
    for epsilon, default, alone, even in lines:
        budget = float(epsilon), 1e-6
        odds = np.exp(budget[0])
        assert default == percent(budget_success(*budget))
        assert alone == percent(approximate_bound(*budget, 0.05))
        assert even == percent(odds / (1 + odds))


def test_the_card_of_a_default_fit_states_that_number():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    model = LogisticRegression(epsilon=1.0, delta=1e-6, classes=[0, 1]).fit(X, X[:, 0] > 0)
    told = " ".join(str(card(model)).split())
    assert STATEMENT.findall(told)[0] == FOUND


def test_pages_give_one_rule_for_delta():
    rule = "at most a tenth of 1/n, and at most 1e-6"
    assert [path.name for path in PAGES if rule in flat(path)] == ["choosing-epsilon.md"]
    for name in ("faq.md", "glossary.md", "tutorials/03_choosing_epsilon.py"):
        page = text(name)
        assert "choosing-epsilon" in page, name
        assert not re.search(r"tenth of|1/n²|1e-9", page), name


def test_defaults_keep_the_rule_for_delta():
    most = 1e-6
    assert LogisticRegression().delta <= most
    assert inspect.signature(draft).parameters["delta"].default <= most
    assert plan(1_000, 2, [1.0], repeats=1).delta == most
    assert plan(200_000, 2, [1.0], repeats=1).delta == pytest.approx(0.1 / 200_000)


def test_pages_name_the_versions_of_python_that_the_package_declares():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    declared = [c.rpartition(" ")[2] for c in project["classifiers"] if "Python :: 3." in c]
    first, last = declared[0], declared[-1]
    assert project["requires-python"] == f">={first}"
    tried = re.findall(r"^\| (3\.\d+)\.\d+ \|", text("install.md"), re.MULTILINE)
    assert tried == declared
    for path in (ROOT / "README.md", DOCS / "versioning.md", DOCS / "install.md"):
        named = set(re.findall(r"\b3\.1\d\b", flat(path)))
        assert f"Python {first} to {last} on Linux" in flat(path), path.name
        assert named <= set(declared), path.name


def recorded(epsilon):
    """Return the accuracy on Adult with nothing declared, from the record of the benchmark."""
    with (ROOT / "bench" / "results" / "auto-table.csv").open(encoding="utf-8") as stream:
        (mean,) = (
            row["mean"]
            for row in csv.DictReader(stream)
            if row["data"] == "adult"
            and row["line"] == "auto||private|default"
            and row["measure"] == "accuracy"
            and row["column"] == f"ε = {epsilon}"
            and "add_remove" in row["caption"]
        )
    return f"{100 * float(mean):.1f} %"


def with_curves(epsilon):
    """Return accuracies on Adult with numeric columns declared, private and not, by auto.md."""
    row = rf"^\| adult \| {epsilon} \| ([\d.]+) ± .*?\(([\d.]+)\)"
    found = re.search(row, text("auto.md"), re.MULTILINE)
    return [f"{float(value):.1f} %" for value in found.groups()]


def test_pages_state_one_accuracy_on_adult():
    plain = f"{recorded('0.1')} on UCI Adult at ε = 0.1 and {recorded('1')} at ε = 1"
    (small, ceiling), (large, _) = with_curves("0.1"), with_curves("1")
    declared = f"{small} and {large} ({ceiling} without privacy)"
    for path in (ROOT / "README.md", DOCS / "solvers.md"):
        assert plain in flat(path), path.name
        assert declared in flat(path), path.name


def table(lines):
    """Return rows of numbers and words of a printed plan."""
    rows = [line.split() for line in lines]
    return [row for row in rows if row and re.fullmatch(r"[\d.]+", row[0]) and len(row) >= 7]


def numbers(row):
    """Return ε, μ, both accuracies, width, width without privacy, noise and refused of a row."""
    words = [word for word in row if word != "%"]
    noise = words[6] if len(words) == 8 else "100"
    width = "nan" if words[4] == "none" else words[4]
    return np.array([float(word) for word in (*words[:4], width, words[5], noise, words[-1])])


def test_the_printed_plan_is_what_the_command_prints():
    """Widths of single runs differ by about 1 %, accuracies by 0.002: see the tolerances.

    Where noise decides whether a coefficient has an interval, the share of refusals is of few runs.
    """
    page = CHOOSING.read_text("utf-8")
    command = re.search(r"^    discreet (plan .*?) --figure plan.png$", page, re.MULTILINE)[1]
    run = [sys.executable, "-m", "discreet", *command.split()]
    done = subprocess.run(run, capture_output=True, text=True, check=True, timeout=300)
    printed, shown = table(done.stdout.splitlines()), table(page.splitlines())
    assert len(printed) == len(shown) == 5
    tolerance = [0, 0.001, 0.02, 0.002, 0.01, 0.001, 8, 10]
    for row, other in zip(printed, shown, strict=True):
        differences = np.abs(numbers(row) - numbers(other))
        hint = f"put this into {CHOOSING.name}:\n{done.stdout}"
        decided = numbers(other)[7] in (0, 100)
        assert not decided or np.isnan(numbers(row)[4]) == np.isnan(numbers(other)[4]), hint
        allowed = tolerance if decided else [*tolerance[:4], 0.03, tolerance[5], 100, 100]
        assert (np.nan_to_num(differences) <= allowed).all(), hint


def test_the_table_of_intervals_is_what_estimators_do():
    page = text("inference.md")
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| (yes|slopes|refused) \|", page, re.MULTILINE)
    table = {name: kind for names, kind in rows for name in re.findall(r"`(\w+)`", names)}
    assert len(table) == 9
    for name, kind in table.items():
        assert getattr(discreet, name)._has_intervals == (kind != "refused"), name
    refused = "Ordered classes and survival have no intervals"
    assert refused not in " ".join(page.split())
