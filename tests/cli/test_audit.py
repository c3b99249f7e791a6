"""The audit command: arguments, output and exit codes."""

import dataclasses
import importlib.util
import json
import math
import re
import subprocess
import sys
import types
from xml.etree import ElementTree

import numpy as np
import pytest

import discreet
from discreet.audit import Attack
from discreet.cli import audit as command
from discreet.cli.app import run
from discreet.cli.audit import attacks_on
from discreet.cli.exits import Exit
from discreet.errors import NotSupported

SUBJECTS = ("auto", "gd", "gd: stopping time", "leaky", "picky")


class Clock:
    """A clock that runs only while an attack draws, so that load of the machine changes nothing."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now


def laplace(subject, pair, epsilon, relation, shift=1.0, delta=0.0, *, clock=None, seconds=0.0):
    """An attack on a count with Laplace noise of scale 1/ε; a shift above 1 breaks the promise."""
    rng = np.random.default_rng(0)

    def draw(world, count):
        if clock is not None:
            clock.now += seconds * count
        return rng.laplace(world * shift, 1 / epsilon, size=(count, 1))

    return Attack(subject, pair, epsilon, delta, relation, draw, learn=False)


@pytest.fixture
def asked(monkeypatch):
    """Cases of known strength in place of the library's; returns what they were asked for."""
    calls = []

    def attacks(subject, *, epsilon, delta, relation=None, jobs=1):
        calls.append((subject, epsilon, delta, jobs))
        if subject == "picky" and delta > 0:
            raise NotSupported("picky takes no delta.")
        if hasattr(subject, "fit"):  # as the library: with an intercept, tables two rows apart
            name, relations = type(subject).__name__, [subject.relation]
            if subject.fit_intercept and subject.relation == "add_remove":
                name, relations, epsilon = f"{name} (two rows apart)", ["replace_one"], 2 * epsilon
        else:
            name = str(getattr(subject, "name", subject))
            relations = ["replace_one"] if name == "auto" else ["add_remove", "replace_one"]
            relations = [each for each in relations if relation in (None, each)]
            if not relations:
                raise NotSupported(f"{name} takes only replace_one.")
        shift = 3.0 if name == "leaky" else 1.0
        return [laplace(name, "an extreme row", epsilon, r, shift, delta) for r in relations]

    cases = types.ModuleType("discreet.audit.cases")
    cases.subjects = lambda: SUBJECTS
    cases.attacks = attacks
    monkeypatch.setitem(sys.modules, "discreet.audit.cases", cases)
    return calls


def said(capsys):
    return json.loads(capsys.readouterr().out)


def test_a_kept_promise_is_consistent(asked, capsys):
    assert run(["audit", "auto", "--delta", "0", "--trials", "5000"]) == Exit.OK
    shown = capsys.readouterr()
    assert "consistent" in shown.out
    assert "An audit cannot prove a guarantee" in shown.out
    assert shown.err == ""
    assert asked == [("auto", 1.0, 0.0, 1)]


def test_a_broken_promise_has_an_exit_code_of_its_own(asked, capsys):
    assert run(["audit", "leaky", "--delta", "0", "--trials", "5000"]) == Exit.REFUTED
    assert "REFUTED: leaky" in capsys.readouterr().out


def test_json_is_one_document_and_nothing_else(asked, capsys):
    line = ["audit", "leaky", "--json", "--epsilon", "2", "--delta", "0", "--trials", "5001"]
    assert run([*line, "--jobs", "2", "--relation", "replace_one"]) == Exit.REFUTED
    shown = capsys.readouterr()
    told = json.loads(shown.out)
    assert shown.err == ""
    assert told["settings"]["epsilon"] == 2
    assert told["settings"]["relation"] == "replace_one"
    assert told["complete"]
    assert [each["verdict"] for each in told["audits"]] == ["refuted"]
    assert told["audits"][0]["trials"] == 5000
    assert asked == [("leaky", 2.0, 0.0, 2)]


def test_all_audits_every_subject(asked, capsys):
    assert run(["audit", "gd", "--delta", "0", "--trials", "1000", "--json"]) == Exit.OK
    assert {each["subject"] for each in said(capsys)["audits"]} == {"gd", "gd: stopping time"}
    assert run(["audit", "all", "--delta", "0", "--trials", "1000", "--json"]) == Exit.REFUTED
    assert {each["subject"] for each in said(capsys)["audits"]} == set(SUBJECTS)


def test_what_cannot_be_attacked_is_named_with_the_reason(asked, capsys):
    assert run(["audit", "all", "--trials", "1000", "--json"]) == Exit.REFUTED
    assert said(capsys)["left_out"] == {"picky": "picky takes no delta."}
    assert run(["audit", "picky"]) == Exit.PRIVACY
    assert "picky takes no delta" in capsys.readouterr().err
    assert run(["audit", "auto", "--relation", "add_remove"]) == Exit.PRIVACY
    assert "takes only replace_one" in capsys.readouterr().err


def test_confidence_is_shared_by_all_attacks(asked, capsys):
    line = ["audit", "gd", "--delta", "0", "--trials", "1000", "--confidence", "0.99", "--json"]
    assert run(line) == Exit.OK
    told = said(capsys)
    wrong = [1 - each["confidence"] for each in told["audits"]]
    assert len(wrong) == 4
    assert sum(wrong) == pytest.approx(0.01)
    assert told["settings"]["confidence_of_each"] == pytest.approx(0.9975)


def test_by_default_there_are_as_many_trials_as_tell(asked, capsys):
    assert run(["audit", "auto", "--delta", "0", "--json"]) == Exit.OK
    few = said(capsys)["audits"][0]
    assert few["sharpness"] <= 2 * few["epsilon"]
    assert run(["audit", "auto", "--delta", "1e-3", "--json"]) == Exit.OK
    many = said(capsys)["audits"][0]
    assert few["trials"] < many["trials"] < command.MOST
    assert many["sharpness"] <= 2 * many["epsilon"]
    hopeless = laplace("x", "y", 0.01, "add_remove", delta=0.5)
    assert command._default_trials(hopeless, 0.999) == command.MOST


def test_an_audit_with_too_few_trials_says_how_many_would_tell(asked, capsys):
    assert run(["audit", "auto", "--trials", "3000"]) == Exit.OK
    out = capsys.readouterr().out
    assert "too weak to tell" in out
    assert "no attack was strong enough to tell" in out


def test_time_is_divided_among_the_attacks(asked, capsys, monkeypatch):
    clock = Clock()
    timed = {"clock": clock, "seconds": 2e-4}
    slow = [laplace("slow", f"pair {k}", 1.0, "add_remove", **timed) for k in range(3)]
    monkeypatch.setattr(sys.modules["discreet.audit.cases"], "attacks", lambda *_, **__: slow)
    monkeypatch.setattr(command, "time", clock)
    assert run(["audit", "auto", "--minutes", "0.05", "--json"]) == Exit.OK
    told = said(capsys)["audits"]
    assert 2.0 < clock.now < 3.5  # seconds; three were asked for
    for each in told:  # 5,000 would fill a third of the time, of which a part is kept for the rest
        assert 3_500 < each["trials"] < 5_000
    assert run(["audit", "auto", "--minutes", "0.05", "--trials", "200", "--json"]) == Exit.OK
    assert [each["trials"] for each in said(capsys)["audits"]] == [200] * 3


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--minutes", "0.02"], "1 attack, under a minute."),
        (["--delta", "1e-3"], "1 attack, under a minute."),
        (["--delta", "1e-3", "--trials", "200"], ""),
    ],
)
def test_the_duration_is_stated_beforehand(asked, capsys, arguments, text):
    assert run(["audit", "auto", *arguments]) == Exit.OK
    assert capsys.readouterr().err.startswith(text)


def test_the_remaining_time_is_divided_evenly_over_the_remaining_attacks(monkeypatch):
    attacks = [laplace("gd", f"pair {k}", 1.0, "add_remove") for k in range(3)]
    screen, notes, done = types.SimpleNamespace(), [], []
    screen.note = notes.append

    def counts(trials):
        clock = iter([0.0, 0.0, 60.0, 200.0])  # at the start, and before each attack
        monkeypatch.setattr(command.time, "perf_counter", lambda: next(clock))
        done.clear()
        command._attack_all(attacks, done, 0.999, trials, 2.0, print, screen)
        return done

    monkeypatch.setattr(command, "_seconds_per_run", lambda _attack: 0.01)
    monkeypatch.setattr("discreet.audit.run", lambda _attack, *, trials, **_: trials)
    share = command.SHARE_OF_TIME
    assert counts(None) == [int(share * 4000), int(share * 3000), command.FEWEST]
    assert counts(500) == [500, 500, command.FEWEST]
    assert notes == ["3 attacks, about 2 minutes. Change it by --minutes."] * 2


def test_time_that_is_spent_on_compiling_is_not_counted(monkeypatch):
    calls, clock = [], Clock()
    monkeypatch.setattr(command, "time", clock)

    def draw(_world, count):
        calls.append(count)
        clock.now += 1e-4 * count if len(calls) > 1 else 0.2
        return np.zeros((count, 1))

    attack = Attack("gd", "pair", 1.0, 0.0, "add_remove", draw)
    assert command._seconds_per_run(attack) == pytest.approx(1e-4)


@pytest.mark.parametrize("name", ["out.svg", "out.html", "out.png"])
def test_a_figure_is_written_when_asked_for(asked, tmp_path, capsys, name):
    path = tmp_path / name
    line = ["audit", "auto", "--delta", "0", "--trials", "1000", "--figure", str(path)]
    assert run(line) == Exit.OK
    assert f"Figure: {path}" in capsys.readouterr().err.replace("\n", "")
    drawn = path.read_bytes()
    if name.endswith("svg"):
        assert ElementTree.fromstring(drawn).tag.endswith("svg")
    elif name.endswith("html"):
        assert b"<h1>Audit of auto</h1>" in drawn
    else:
        assert drawn.startswith(b"\x89PNG")
    assert [each.name for each in tmp_path.iterdir()] == [name]
    asked.clear()
    assert run(line) == Exit.USAGE  # it is there now
    assert "--force" in capsys.readouterr().err
    assert asked == []
    assert run([*line, "--force", "--json"]) == Exit.OK
    assert said(capsys)["figure"] == str(path)


def test_a_figure_without_matplotlib_is_refused_beforehand(asked, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert run(["audit", "auto", "--figure", str(tmp_path / "a.svg")]) == Exit.USAGE
    assert "discreet[report]" in capsys.readouterr().err
    assert asked == []


def test_markdown_is_a_table_and_the_summary(asked, capsys):
    line = ["audit", "gd", "--delta", "0", "--trials", "1000", "--markdown"]
    assert run(line) == Exit.OK
    table, words = capsys.readouterr().out.split("\n\n")
    assert len(table.splitlines()) == 6
    assert words.startswith("No guarantee was refuted")
    assert run([*line, "--json"]) == Exit.USAGE


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["leeky"], Exit.USAGE, "did you mean 'leaky'?"),
        (["zzz"], Exit.USAGE, "known: 'auto', 'gd'"),
        (["models/none.json"], Exit.USAGE, "no such model file"),
        (["nonprivate"], Exit.USAGE, "has no guarantee"),
        (["gd", "--epsilon", "-1"], Exit.USAGE, "epsilon must be a finite number"),
        (["gd", "--delta", "1"], Exit.USAGE, "delta"),
        (["gd", "--confidence", "1"], Exit.USAGE, "--confidence"),
        (["gd", "--minutes", "0"], Exit.USAGE, "--minutes"),
        (["gd", "--minutes", "nan"], Exit.USAGE, "--minutes"),
        (["gd", "--trials", "10"], Exit.USAGE, "--trials"),
        (["gd", "--jobs", "0"], Exit.USAGE, "--jobs"),
        (["gd", "--figure", "out.doc"], Exit.USAGE, ".svg"),
        (["gd", "--figure", "nowhere/out.svg"], Exit.USAGE, "--figure nowhere"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_mistakes_are_found_before_any_work(
    asked, tmp_path, capsys, monkeypatch, arguments, code, text
):
    monkeypatch.chdir(tmp_path)
    assert run(["audit", *arguments, "--json"]) == code
    shown = capsys.readouterr()
    assert text in shown.err
    assert shown.out == ""
    assert asked == []


def test_interrupting_keeps_what_is_done(asked, tmp_path, capsys, monkeypatch):
    first = laplace("gd", "first", 1.0, "add_remove")

    def interrupt(_world, _count):
        raise KeyboardInterrupt

    second = Attack("gd", "second", 1.0, 0.0, "add_remove", interrupt)
    cases = sys.modules["discreet.audit.cases"]
    monkeypatch.setattr(cases, "attacks", lambda *_, **__: [first, second])
    path = tmp_path / "out.svg"
    line = ["audit", "auto", "--trials", "1000", "--json", "--figure", str(path)]
    assert run(line) == Exit.INTERRUPTED
    shown = capsys.readouterr()
    told = json.loads(shown.out)
    assert told["complete"] is False
    assert [each["pair"] for each in told["audits"]] == ["first"]
    assert "after 1 of 2 attacks" in shown.err
    assert path.exists()
    monkeypatch.setattr(cases, "attacks", lambda *_, **__: [second])
    assert run([*line, "--force"]) == Exit.INTERRUPTED
    assert capsys.readouterr().out == ""


def test_an_error_keeps_what_is_done_too(asked, capsys, monkeypatch):
    first = laplace("gd", "first", 1.0, "add_remove")
    broken = Attack("gd", "second", 1.0, 0.0, "add_remove", lambda _world, _count: [] + 1)
    cases = sys.modules["discreet.audit.cases"]
    monkeypatch.setattr(cases, "attacks", lambda *_, **__: [first, broken])
    assert run(["audit", "auto", "--trials", "1000"]) == Exit.UNEXPECTED
    shown = capsys.readouterr()
    assert "first" in shown.out
    assert "TypeError" in shown.err


@pytest.mark.parametrize("width", [60, 80, 150])
def test_a_terminal_gets_a_table_that_fits(asked, capsys, monkeypatch, width):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width))
    assert run(["audit", "leaky", "--delta", "0", "--trials", "1000"]) == Exit.REFUTED
    out = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert "Promised: ε = 1, δ = 0" in out
    assert "Gaussian" in out
    assert "1,000" in out
    assert max(map(len, out.splitlines())) <= width


def save(path, kind=discreet.LogisticRegression, **settings):
    """Fit a model and save it."""
    X = np.random.default_rng(0).normal(size=(200, 3))
    model = kind(**{"epsilon": 3.0, "delta": 1e-3, "solver": "gd", **settings})
    y = np.resize(settings.get("classes", np.arange(20.0, 80.0)), 200)
    discreet.save(model.fit(X, y), path)
    return path


def test_a_model_is_audited_for_its_own_promise(asked, tmp_path, capsys):
    path = save(tmp_path / "m.json", classes=["no", "yes"], relation="replace_one")
    assert run(["audit", str(path), "--trials", "1000"]) == Exit.OK
    shown = capsys.readouterr()
    ((estimator, epsilon, delta, _jobs),) = asked
    assert (estimator.solver, epsilon, delta) == ("gd", 3.0, 1e-3)
    assert "neither the rows" in shown.err
    assert "two rows apart" not in shown.err
    assert "m.json" in shown.out
    assert "add_remove" not in shown.out  # it has no guarantee there
    asked.clear()
    assert run(["audit", str(path), "--epsilon", "1", "--relation", "add_remove"]) == Exit.USAGE
    assert "leave out --epsilon, --relation" in capsys.readouterr().err
    assert asked == []


def test_what_a_model_spent_is_its_guarantee(asked, tmp_path, capsys):
    path = save(tmp_path / "m.json", classes=[0, 1], relation="replace_one")
    estimator = discreet.load(path)
    estimator.guarantee_ = dataclasses.replace(estimator.guarantee_, epsilon=4.5)
    discreet.save(estimator, path)
    assert run(["audit", str(path), "--trials", "1000", "--json"]) == Exit.OK
    assert {each["epsilon"] for each in said(capsys)["audits"]} == {4.5}


def test_on_tables_two_rows_apart_a_model_owes_twice_the_promise(asked, tmp_path, capsys):
    path = save(tmp_path / "m.json", classes=[0, 1], relation="add_remove")
    assert run(["audit", str(path), "--trials", "1000", "--json"]) == Exit.OK
    told = said(capsys)
    (found,) = told["audits"]
    assert told["settings"]["epsilon"] == 3
    assert found["subject"] == "m.json (two rows apart)"
    assert found["epsilon"] == 6
    assert found["delta"] == pytest.approx(1e-3 * (1 + math.exp(3)))
    assert run(["audit", str(path), "--trials", "1000"]) == Exit.OK
    assert "twice the ε" in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.parametrize(
    "settings",
    [
        {"classes": ["high", "low"]},
        {"classes": ["a", "b", "c"]},
        {"kind": discreet.LinearRegression, "target_bounds": (18.0, 90.0)},
        {"classes": [0, 1], "preparation": [discreet.Bounds(columns=[2], share=0.1)]},
        {"classes": [0, 1], "relation": "replace_one", "solver": "auto"},
        {"kind": discreet.PoissonRegressor, "target_bounds": (0.0, 90.0)},
        {"kind": discreet.OrdinalClassifier, "classes": ["a", "b", "c"]},
        {"kind": discreet.DiscreteTimeSurvival, "periods": [30, 50, 70]},
    ],
    ids=[
        *["text labels", "three classes", "numbers", "bounds of a later column", "auto"],
        *["counts", "ordered classes", "survival"],
    ],
)
def test_models_of_all_kinds_can_be_attacked(tmp_path, settings):
    path = save(tmp_path / "m.json", **settings)
    estimator = discreet.load(path)
    attacks = attacks_on(str(path), None, None, None, 1).attacks
    assert len(attacks) >= 2
    for attack in attacks:
        assert attack.subject.startswith("m.json")
        assert attack.epsilon == (3.0 if attack.relation == estimator.relation else 6.0)
        assert np.isfinite(attack.draw(0, 2)).all()
        assert np.isfinite(attack.draw(1, 1)).all()


@pytest.mark.parametrize(
    ("settings", "why"), [({"random_state": 1}, "fixed seed"), ({"solver": "nonprivate"}, "not")]
)
def test_a_model_without_a_promise_cannot_be_refuted(asked, tmp_path, capsys, settings, why):
    X = np.random.default_rng(0).normal(size=(200, 3))
    settings = {"solver": "gd", "epsilon": 1.0, "delta": 1e-6, **settings}
    model = discreet.LogisticRegression(classes=[0, 1], **settings)
    with pytest.warns(discreet.errors.PrivacyLeakWarning):
        model.fit(X, X[:, 0] > 0)
    discreet.save(model, tmp_path / "model.json")
    assert run(["audit", str(tmp_path / "model.json")]) == Exit.USAGE
    shown = capsys.readouterr().err.replace("\n", " ")
    assert "has no guarantee" in shown
    assert why in shown
    assert asked == []


def test_a_damaged_model_file_is_refused(asked, tmp_path, capsys):
    path = save(tmp_path / "m.json", classes=[0, 1])
    path.write_text(path.read_text().replace("gd", "dg", 1))
    assert run(["audit", str(path)]) == Exit.MODEL
    assert asked == []


def test_the_help_has_an_example(capsys):
    assert run(["audit", "--help"]) == Exit.OK
    assert "Example: discreet audit gd" in capsys.readouterr().out


def test_a_solver_without_a_case_of_its_own_is_attacked_as_it_is(asked, capsys):
    assert run(["audit", "objpert", "--delta", "0", "--trials", "1000", "--json"]) == Exit.OK
    assert {each["subject"] for each in said(capsys)["audits"]} == {"objpert"}
    assert asked[0][0] == discreet.solvers.resolve("objpert")


@pytest.mark.process
def test_a_real_solver_from_the_shell():
    line = [sys.executable, "-m", "discreet", "audit", "gd", "--trials", "2000", "--json"]
    line += ["--relation", "add_remove", "--delta", "1e-3", "--confidence", "0.999999"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == Exit.OK, done.stderr
    told = json.loads(done.stdout)
    assert told["complete"]
    assert told["audits"]
    for each in told["audits"]:
        assert each["trials"] == 2000
        assert each["relation"] == "add_remove"
        assert math.isfinite(each["epsilon_bound"])
        assert each["epsilon_bound"] <= each["epsilon"]
