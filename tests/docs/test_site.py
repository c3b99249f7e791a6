"""The documentation site: every page and public name has its place; the checker finds faults.

``make docs`` builds the site, runs the tutorials and checks the result; these tests are its cheap
part.
"""

import importlib
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "generated" not in path.parts)
TUTORIALS = sorted((DOCS / "tutorials").glob("*.py"))
PACKAGES = (
    "discreet", "discreet.audit", "discreet.card", "discreet.core", "discreet.datasets",
    "discreet.engines", "discreet.errors", "discreet.estimators", "discreet.exact",
    "discreet.ledger", "discreet.objectives", "discreet.preparation", "discreet.rows",
    "discreet.sites", "discreet.solvers", "discreet.tables", "discreet.tuning",
)  # fmt: skip

spec = importlib.util.spec_from_file_location("check_site", ROOT / "tools" / "check_site.py")
check_site = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_site)


def entries(page):
    """Return the files that the tables of contents of a page list."""
    found = set()
    for block in re.findall(r"^```\{toctree\}\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S):
        for line in block.splitlines():
            name = line.partition("<")[2].rstrip(">") if "<" in line else line.strip()
            if name == "*":
                found |= set(page.parent.glob("*.md")) - {page}
            elif name and not name.startswith((":", "generated/")):
                found.add(page.parent / f"{name}.md")
    return found


def test_every_page_is_in_a_table_of_contents():
    reached, new = set(), {DOCS / "index.md"}
    while new:
        reached |= new
        new = set().union(*map(entries, new)) - reached
    assert reached == set(PAGES)


def listed():
    """Return the objects that the API reference lists, by their dotted names."""
    found = {}
    for page in (DOCS / "api").glob("*.md"):
        for name in re.findall(r"^   ([\w.]+)$", page.read_text("utf-8"), re.MULTILINE):
            module, _, attribute = f"discreet.{name}".rpartition(".")
            found[f"discreet.{name}"] = getattr(importlib.import_module(module), attribute)
    return found


def test_the_api_reference_lists_every_public_name():
    known = {id(value) for value in listed().values()}
    missing = []
    for package in map(importlib.import_module, PACKAGES):
        public = {name: getattr(package, name) for name in package.__all__}
        missing += [
            f"{package.__name__}.{name}"
            for name, value in public.items()
            if id(value) not in known and not isinstance(value, ModuleType)
        ]
    assert missing == []


def test_the_api_reference_lists_nothing_twice():
    names = re.findall(
        r"^   ([\w.]+)$", "\n".join(p.read_text("utf-8") for p in (DOCS / "api").glob("*.md")), re.M
    )
    assert len(names) == len(set(names))


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.name)
def test_tutorials_link_to_pages_and_fix_no_noise(path):
    text = path.read_text("utf-8")
    for name in re.findall(r":doc:`/([\w/-]+)`", text):
        assert (DOCS / f"{name}.md").exists(), name
    assert not re.search(r"random_state|seed\(", re.sub(r"``.*?``", "", text))  # no fixed noise


def site(folder, body, name="index.html"):
    (folder / name).write_text(f"<html><body>{body}</body></html>", encoding="utf-8")
    return list(check_site.problems(folder))


def test_the_checker_accepts_a_sound_page(tmp_path):
    assert site(tmp_path, '<h1 id="a">A</h1><a href="#a">a</a><a href="https://x.org">x</a>') == []


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ('<a href="missing.html">x</a>', "does not exist"),
        ('<a href="#nowhere">x</a>', "no such anchor"),
        ('<script src="https://cdn.example.org/x.js"></script>', "another host"),
        ('<link rel="stylesheet" href="//cdn.example.org/x.css">', "another host"),
        ('<img src="data:image/png;base64,AA">', "without a text"),
        ('<img src="data:image/png;base64,AA" alt=" ">', "without a text"),
    ],
)
def test_the_checker_finds_faults(tmp_path, body, complaint):
    found = site(tmp_path, body)
    assert len(found) == 1
    assert complaint in found[0]


def test_the_checker_reads_styles_and_wants_pages(tmp_path):
    assert "no pages" in next(check_site.problems(tmp_path))
    (tmp_path / "x.css").write_text("@import url(https://fonts.example.org/x.css);")
    assert "another host" in site(tmp_path, "")[0]


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Return docs/conf.py as a module; the variables that it sets are restored."""
    pytest.importorskip("sphinx_gallery")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("DISCREET_LEDGER", raising=False)
    spec = importlib.util.spec_from_file_location("conf_of_docs", DOCS / "conf.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_printed_sentences_wrap_and_tables_do_not(settings):
    sentence = "word " * 30 + "end."
    shorter = "text " * 15 + "of a summary."
    table = "age    " + "1.0   " * 20
    code = f"x = [{', '.join('12345' for _ in range(20))}]"
    printed = f"\n .. code-block:: none\n\n    {sentence}\n    {table}\n    {shorter}\n\n\n"
    page = f"{printed}.. code-block:: Python\n\n    {code}\n"
    content = [page]
    settings.wrap_printed_sentences(None, "generated/tutorials/05", content)
    lines = content[0].splitlines()
    assert f"    {sentence}" not in lines
    words = [line for line in lines if "word" in line]
    assert max(map(len, words)) <= 100
    assert all(re.match(r"    \w", line) for line in words)
    assert " ".join(content[0].split()) == " ".join(page.split())
    assert f"    {table}" in lines
    assert f"    {shorter}" in lines
    assert f"    {code}" in lines


WIDTH = 75
"""Characters of a line of code that are visible on a page 1280 px wide."""

WIDER = {
    "architecture.md": 2,
    "command.md": 2,
    "deployment.md": 1,
    "families.md": 3,
    "ledger.md": 26,
    "pipelines.md": 1,
    "scale.md": 3,
    "tables.md": 1,
    "walkthrough.md": 46,
}
"""Pages with wider lines of code, which scroll, and their largest number. It may only shrink."""


def wide_lines(page):
    """Return the lines of code blocks, fenced or indented, that are wider than `WIDTH`.

    Printed outputs, of Python in a block ``text`` and of commands in a ``console``, scroll.
    """
    found, kind, fenced = [], "", False
    for line in page.read_text("utf-8").splitlines():
        if line.startswith("```"):
            fenced = not fenced
            kind = line[3:]
        elif kind == "text" or (kind == "console" and not line.startswith("$")):
            continue
        elif fenced or line.startswith("    "):
            code = line if fenced else line[4:]
            found += [code] if len(code) > WIDTH else []
    return found


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *DOCS.glob("*.md")], ids=lambda page: page.name
)
def test_code_fits_the_page(page):
    wide = wide_lines(page)
    assert len(wide) <= WIDER.get(page.name, 0), wide


def test_output_keeps_its_lines():
    style = (DOCS / "_static" / "site.css").read_text("utf-8")
    rule = re.search(r"div\.highlight pre, div\.sphx-glr-script-out[^{]*\{([^}]*)\}", style)[1]
    assert "white-space: pre;" in rule
    assert "overflow: auto" in rule
    assert "pre-wrap" not in style
