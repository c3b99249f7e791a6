"""The page of the curator has a table of all questions, made from their classes."""

import importlib.util
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from discreet.accounting.budget import Relation
from discreet.core import Account, Curator, questions
from discreet.core.session import Session
from discreet.rows import Rows

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("questions_tool", ROOT / "tools" / "questions.py")
tool = importlib.util.module_from_spec(spec)
sys.modules["questions_tool"] = tool
spec.loader.exec_module(tool)


def test_the_page_is_current(capsys):
    assert tool.main(["--check"]) == 0, capsys.readouterr().err


def test_a_page_that_is_not_current_is_reported_and_written(monkeypatch, tmp_path, capsys):
    page = tmp_path / "curator.md"
    text = tool.PAGE.read_text("utf-8")
    for name in {kind.proof for kind in tool.kinds()}:
        (tmp_path / f"{name}.md").touch()
    page.write_text(text.replace("| `RowSum` | Σ", "| `RowSum` | ∏"), "utf-8")
    monkeypatch.setattr(tool, "PAGE", page)
    assert tool.main(["--check"]) == 1
    assert "--write" in capsys.readouterr().err
    assert tool.main(["--write"]) == 0
    assert page.read_text("utf-8") == text
    assert tool.main(["--check"]) == 0
    page.write_text("no place for a table", "utf-8")
    with pytest.raises(ValueError, match="no place"):
        tool.main(["--write"])


def test_the_table_is_printed_and_other_words_are_refused(capsys):
    assert tool.main([]) == 0
    assert capsys.readouterr().out.strip() == tool.table()
    assert tool.main(["--wrong"]) == 2


def subclasses(kind):
    """All classes below a class."""
    return {kind}.union(*(subclasses(one) for one in kind.__subclasses__()))


def test_every_question_has_a_row():
    """Classes of other modules, as those of tests, have no row."""
    tool.kinds()  # it imports all modules of core and exact
    concrete = {
        kind.__name__
        for kind in subclasses(questions.Question)
        if kind.on is not questions.Question.on and hasattr(kind, "protected")
        if kind.__module__.startswith(("discreet.core.", "discreet.exact."))
        if not kind.__name__.startswith("_")
    }
    names = [kind.__name__ for kind in tool.kinds()]
    assert sorted(names) == sorted(concrete)
    assert len(concrete) >= 17
    for name in concrete:
        assert f"| `{name}` |" in tool.table()


def test_every_question_has_a_lemma_for_units():
    text = (tool.PAGE.parent / "unit.md").read_text("utf-8").split("## Every question")[1]
    rows = [line for line in text.split("\n## ")[0].splitlines() if line.startswith("| `")]
    names = {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    doors = {"refine", "sampled_gradient", "descend", "release", "run"}
    assert names == {kind.__name__ for kind in tool.kinds()} | doors


def test_pages_name_what_exists():
    owners = {"Curator": Curator, "Rows": Rows, "Session": Session, "Account": Account}
    named = [
        (page.name, owner, name)
        for page in [*(ROOT / "docs").rglob("*.md")]
        for owner, name in re.findall(r"`(\w+)\.(\w+)", page.read_text("utf-8"))
        if owner in owners
    ]
    assert len(named) > 5
    assert [one for one in named if not hasattr(owners[one[1]], one[2])] == []


@pytest.mark.parametrize(
    ("name", "added", "replaced"),
    [
        ("Gradient", "C + 2E", "2C + 2E"),
        ("SquareSum", "sC² + 2E", "√2·sC² + 2E"),
        ("ScoreSum", "sC + 2E", "2sC + 2E"),
        ("ClassCounts", "1 + 2E", "√2 + 2E"),
        ("ExponentCounts", "√d + 2E", "√2·√d + 2E"),
        ("EdgeCounts", "√c + 2E", "√2·√c + 2E"),
        ("LineLosses", "C + 4E, monotone", "C + 4E"),
        ("CornerGradient", "C + 2E", "2C + 2E"),
        ("MedianNorm", "1/2", "1"),
    ],
)
def test_formulas_by_hand(name, added, replaced):
    _, question = next(tool.samples(getattr(questions, name)))
    assert tool.sensitivity(question, Relation.ADD_REMOVE) == added
    assert tool.sensitivity(question, Relation.REPLACE_ONE) == replaced


@pytest.mark.parametrize(
    ("bound", "complaint"),
    [
        (lambda clip: clip**3, "no known power of clip"),
        (lambda clip: 1 + clip, "no known power of clip"),
        (lambda clip: 3 * clip, "unknown coefficient"),
    ],
)
def test_a_sensitivity_without_a_formula_is_an_error(bound, complaint):
    class Odd(questions.TargetSum):
        def sensitivity(self, relation):
            return bound(self.clip)

    with pytest.raises(ValueError, match=complaint):
        tool.sensitivity(Odd(clip=8.0), Relation.ADD_REMOVE)


def test_a_release_with_another_sensitivity_than_stated_is_an_error():
    class Less(questions.TargetSum):
        def release(self, exact, mechanism, public, noise):
            half = self.sensitivity(public.relation) / 2
            return mechanism.release(exact.values, sensitivity=half, magnitude=1.0, noise=noise)

    with pytest.raises(ValueError, match=r"states 8\.0 and hands out 4\.0"):
        tool.sensitivity(Less(clip=8.0), Relation.ADD_REMOVE)


def test_a_field_without_a_sample_is_an_error():
    @dataclass(frozen=True, eq=False)
    class Other(questions.TargetSum):
        temperature: float = 1.0
        proof: ClassVar[str] = "gd"

    with pytest.raises(KeyError, match="temperature"):
        next(tool.samples(Other))


def test_a_factor_that_is_no_clip_is_an_error():
    """A sensitivity that depends on a field without a symbol has no formula."""

    class Weighted(questions.TargetMoment):
        def sensitivity(self, relation):
            return self.target_weight * self.bound

    with pytest.raises(ValueError, match="target_weight"):
        tool.sensitivity(Weighted(clip=8.0, target_weight=2.0), Relation.ADD_REMOVE)
