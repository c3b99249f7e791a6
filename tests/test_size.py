"""The sizes that the documentation promises: what must be read to trust a fit stays readable."""

import ast
import io
import tokenize
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "discreet"

MOST_CORE_CODE = 2_000
"""Lines of code in the trusted core, without blank lines, comments and docstrings."""

MOST_LINES = 28_000
MOST_MODULES = 165
"""Physical lines and modules of the whole library; a feature that raises them says why."""

LAYOUT = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}


def modules(folder):
    return sorted(folder.rglob("*.py"))


def code_lines(text):
    """Count the lines with a token that is neither a comment nor part of a docstring."""
    docstrings = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node.value.value, str)
        for line in range(node.lineno, node.end_lineno + 1)
    }
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in LAYOUT
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(lines - docstrings)


def test_counting_lines_of_code():
    text = '"""Doc\n\nof two lines."""\n\n# comment\nx = (\n    1,\n)\n"""About x."""\n'
    assert code_lines(text) == 3


def test_the_core_can_be_read():
    counted = {path.name: code_lines(path.read_text()) for path in modules(SOURCE / "core")}
    assert sum(counted.values()) <= MOST_CORE_CODE, counted


def test_the_library_stays_small():
    paths = modules(SOURCE)
    assert sum(len(path.read_text().splitlines()) for path in paths) <= MOST_LINES
    assert len(paths) <= MOST_MODULES
