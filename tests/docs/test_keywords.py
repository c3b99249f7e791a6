"""The tables of keywords of other libraries: what they say is what estimators and solvers do."""

import dataclasses
import inspect
import re
from pathlib import Path

import pytest

from discreet import LinearRegression, LogisticRegression, solvers
from discreet.estimators import familiar

DOCS = Path(__file__).parents[2] / "docs"
TUTORIALS = ("09_from_scikit_learn", "10_from_diffprivlib", "11_from_opacus")
PARAMETERS = set(inspect.signature(LogisticRegression).parameters)
OTHERS = {"fit", "sample_weight", "slack"}  # methods, and arguments of something else


def grid_tables(text):
    """Yield the cells of all rows of tables of two columns in reStructuredText."""
    rule = re.compile(r"^(=+)(\s+)=+$")
    width, rules = 0, 0
    for line in text.splitlines():
        if found := rule.match(line):
            width, rules = len(found[1] + found[2]), rules + 1
        elif rules % 3 == 2 and line.strip():
            yield line[:width].strip(), line[width:].strip()


def rows():
    """Return (page, left cell, right cell) of all tables of keywords."""
    found = [
        (name, *cells)
        for name in TUTORIALS
        for cells in grid_tables((DOCS / "tutorials" / f"{name}.py").read_text("utf-8"))
    ]
    text = (DOCS / "pipelines.md").read_text("utf-8").split("## Familiar keywords")[1]
    table = re.findall(r"^\| (.+?) \| (.+?) \|$", text.split("\n## ")[0], re.MULTILINE)
    return found + [("pipelines", *cells) for cells in table if "keyword" not in cells]


ROWS = rows()


def keywords(cell):
    """Return the words of a cell that are keywords: ``C``, or ``secure_mode=True``."""
    literals = re.findall(r"`+([^`]+)`+", cell)
    return [w.split("=")[0] for w in literals if re.fullmatch(r"[a-z_A-Z]\w*(=[^(]*)?", w)]


def test_the_tables_are_found():
    """A table that is not parsed is not checked."""
    assert {page for page, *_ in ROWS} == {*TUTORIALS, "pipelines"}
    assert len(ROWS) > 60


KEYWORDS = [
    pytest.param(word, right, id=f"{page}-{word}")
    for page, left, right in ROWS
    for word in keywords(left)
    if word not in OTHERS and (word.islower() or word == "C" or "_" in word)
]


@pytest.mark.parametrize(("word", "right"), KEYWORDS)
def test_a_keyword_is_accepted_or_refused_with_advice(word, right):
    kept = right.startswith("the same") or word in keywords(right)
    if word in PARAMETERS:
        assert kept, f"{word} is accepted: {right}"
        return
    assert not kept, f"{word} is not a parameter"
    with pytest.raises(TypeError, match=f"has no parameter '{word}'") as error:
        LogisticRegression(1.0, classes=[0, 1], **{word: 1})
    assert word in familiar._ADVICE, f"no advice on {word}: {error.value}"


ALLOWED = PARAMETERS | set(inspect.signature(LinearRegression).parameters)
USED = sorted({right for _, _, right in ROWS})


@pytest.mark.parametrize("cell", USED)
def test_what_to_use_instead_exists(cell):
    for literal in re.findall(r"`+([^`]+)`+", cell):
        if found := re.search(r"\b([A-Z]\w+)\((\w+)=", literal):
            named = getattr(solvers, found[1], None)
            if dataclasses.is_dataclass(named):
                assert found[2] in {field.name for field in dataclasses.fields(named)}, literal
            elif found[1].endswith("Regression"):
                assert found[2] in ALLOWED, literal
        if found := re.fullmatch(r"([a-z_]+)=.*", literal):
            assert found[1] in ALLOWED, literal
        if found := re.fullmatch(r'solver="(.+)"', literal):
            assert found[1] in solvers.names(), literal
