"""Attacks by auditing tools of others: what they are given, and what their answers lead to."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from discreet.audit.statistics import epsilon_bound
from discreet.core.questions import SumQuestion
from discreet.rows import sums
from discreet_bench import outsiders
from discreet_bench.outsiders import CASES, TOOLS, Case, Tool

ALPHA = 1e-5

COUNTING = """
import json, sys
import numpy as np

print(json.dumps("1.0"))
for path in sys.argv[1:]:
    case = np.load(path)
    hits = [int((case[n] > case["threshold"]).sum()) for n in ("likely_scores", "other_scores")]
    print(json.dumps({"bound": 0.0, "refuted": False, "hits": hits, "size": len(case["likely"])}))
"""


@pytest.fixture
def tool(tmp_path):
    """A tool that is run by this Python and counts the event that it is given."""

    def make(script=COUNTING):
        path = tmp_path / "script.py"
        path.write_text(script)
        return Tool("fake", (), (), path)

    return make


def case(name):
    return next(one for one in CASES if one.name == name)


def handed(name, tmp_path, trials):
    attack, outputs = outsiders.draw(case(name), trials)
    path = tmp_path / "case.npz"
    outsiders.save(path, attack, outputs, ALPHA)
    return attack, outputs, path


def test_a_tool_gets_runs_that_did_not_select_the_event(tool, tmp_path):
    _, outputs, path = handed("gd", tmp_path, 4_000)
    version, (answer,) = outsiders.bounds(tool(), [path], python=Path(sys.executable))
    assert version == "1.0"
    assert answer["size"] == 0.8 * len(outputs[0])
    saved = np.load(path)
    assert saved["epsilon"] == 1.0
    assert saved["delta"] == 1e-3
    assert saved["alpha"] == ALPHA
    assert np.abs(saved["likely"]).max() <= outsiders.WIDEST


def test_the_event_is_likelier_in_the_likely_world(tool, tmp_path):
    _, _, path = handed("bug: rows that are not clipped", tmp_path, 4_000)
    _, (answer,) = outsiders.bounds(tool(), [path], python=Path(sys.executable))
    likely, other = answer["hits"]
    found = epsilon_bound(likely, other, answer["size"], delta=1e-3, alpha=ALPHA)
    assert found > 1.5  # 4.7 with more runs


def test_our_bound_rests_on_the_same_runs(tmp_path):
    attack, outputs, _ = handed("outpert, pure ε", tmp_path, 4_000)
    first = outsiders.ours(attack, outputs, ALPHA)
    assert first == outsiders.ours(attack, outputs, ALPHA)
    assert 0 < first < 1
    swapped = outsiders.ours(attack, (outputs[1], outputs[0]), ALPHA)
    assert swapped == pytest.approx(first, abs=0.2)


@pytest.mark.parametrize("bug", [one for one in CASES if one.bug], ids=lambda one: one.name)
def test_a_bug_is_planted_only_while_its_fits_run(bug):
    sound = SumQuestion.sensitivity, sums.gradient_sum
    with bug.bug():
        assert (SumQuestion.sensitivity, sums.gradient_sum) != sound
    assert (SumQuestion.sensitivity, sums.gradient_sum) == sound


def test_refuted_fits_and_missed_bugs_are_counted():
    sound, bug = case("gd"), case("bug: half of the noise")
    yes, no = {"refuted": True}, {"refuted": False}
    assert outsiders.verdict([sound, bug], [[no, yes], [no, yes]]) == (0, 0)
    assert outsiders.verdict([sound, bug], [[yes, yes], [no, yes]]) == (1, 0)
    assert outsiders.verdict([sound, bug], [[no, yes], [no, no]]) == (0, 1)


def test_a_tool_that_fails_or_answers_too_little_is_an_error(tool, tmp_path):
    python, files = Path(sys.executable), [tmp_path / "none.npz"]
    with pytest.raises(RuntimeError, match=r"fake failed: FileNotFoundError"):
        outsiders.bounds(tool(), files, python=python)
    with pytest.raises(RuntimeError, match="fake answered 0 of 1 cases"):
        outsiders.bounds(tool("print('1')"), files, python=python)


def test_every_tool_has_its_script_and_every_case_its_attack():
    assert all(tool.script.is_file() for tool in TOOLS)
    for one in CASES:
        attack = one.attack()
        assert (attack.epsilon, attack.delta) == (1.0, one.delta), one.name
    assert isinstance(CASES[0], Case)


def test_the_command_prints_all_bounds_and_ends_with_the_verdict(tool, monkeypatch, capsys):
    last = replace(tool(), name="needs a folder")
    monkeypatch.setattr(outsiders, "TOOLS", (tool(), last))
    monkeypatch.setattr(outsiders, "install", lambda tool: None)
    monkeypatch.setattr(outsiders, "python_of", lambda tool: Path(sys.executable))
    assert outsiders.main(["--trials", "2000", "outpert"]) == 0
    shown = capsys.readouterr().out
    assert "| outpert, pure ε | 1, 0 | 2,000 |" in shown
    assert "0 sound fits refuted, 0 planted bugs missed" in shown
    assert outsiders.main(["--trials", "2000", "half"]) == 1  # this tool finds nothing
