"""Borders of trust that types and import contracts alone do not show."""

import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "discreet"


def test_rows_have_a_type_and_keep_their_private_attributes():
    found = [
        f"{path.relative_to(SOURCE)}: {line.strip()}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line in path.read_text("utf-8").splitlines()
        if re.search(r"\brows: Any\b|(?<!self)(?<!self\.)\brows\._[a-z]", line)
    ]
    assert found == []
