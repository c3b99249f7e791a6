"""README and docs: local links resolve, lines are wrapped. Code is run by test_outputs.py."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "tests/example_package/*.md", "bench/*.md")
    for path in ROOT.glob(pattern)
)
CHECKED = [pytest.param(path, id=str(path.relative_to(ROOT))) for path in PAGES]
FENCE = re.compile(r"^```([\w{}-]*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def prose(path):
    """Return the text without fenced code, each line of code left empty."""
    return FENCE.sub(lambda found: "\n" * found.group().count("\n"), path.read_text("utf-8"))


def anchors(path):
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", prose(path), re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
    return set(plain)


@pytest.mark.parametrize("path", CHECKED)
def test_local_links_resolve(path):
    broken = []
    for target in LINK.findall(prose(path)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        page = (path.parent / name).resolve() if name else path
        if not page.exists() or (anchor and anchor not in anchors(page)):
            broken.append(target)
    assert not broken


def long_lines(path):
    """Return the numbers of lines above 100 characters that are no table, link, or code."""
    found = []
    for number, line in enumerate(prose(path).splitlines(), start=1):
        exempt = line.startswith(("|", "    ")) or re.search(r"\]\(|https?://", line)
        if len(line) > 100 and not exempt:
            found.append(number)
    return found


def long_paragraphs(path):
    """Return the first lines of paragraphs and list items of more than six lines."""
    found, start, length = [], 0, 0
    for number, line in enumerate([*prose(path).splitlines(), ""], start=1):
        item = re.match(r"\s*([-*]|\d+\.) ", line)
        if item or not line.strip() or line.startswith(("|", "#", "    ")):
            if length > 6:
                found.append(start)
            start, length = number, int(bool(item))
        else:
            start = start if length else number
            length += 1
    return found


@pytest.mark.parametrize("path", CHECKED)
def test_lines_are_wrapped(path):
    assert long_lines(path) == []


@pytest.mark.parametrize("path", CHECKED)
def test_paragraphs_are_short(path):
    if path.name == "CHANGELOG.md":
        return
    assert long_paragraphs(path) == []
