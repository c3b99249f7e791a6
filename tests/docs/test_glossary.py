"""The glossary: entries are sorted, and each has a definition."""

import re
from pathlib import Path

GLOSSARY = Path(__file__).parents[2] / "docs" / "glossary.md"
ENTRIES = GLOSSARY.read_text("utf-8").split("\n## ")[1:]


def test_entries_are_sorted_and_defined_once():
    headings = [entry.splitlines()[0].lower().replace("é", "e") for entry in ENTRIES]
    assert sorted(set(headings)) == headings
    for entry in ENTRIES:
        assert re.search(r"\w", entry.partition("\n")[2]), entry
