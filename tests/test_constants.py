"""A rounding constant or block size that a proof uses is defined in one place."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "discreet"

HOMES = ("accounting/conversions.py", "rows/bounds.py")
"""Modules that may spell these numbers; all others import them by name."""

NUMBERS = {2.0**-53, 2.0**-52, 2.0**-500, 4096}
"""Unit roundoff, machine epsilon, the smallest scale and the block size of sums over rows."""


def spelled(text):
    """Return (line, source) of every expression that spells one of the numbers."""
    nodes = list(ast.walk(ast.parse(text)))
    caches = {
        node.value for node in nodes if isinstance(node, ast.keyword) if node.arg == "maxsize"
    }
    return [
        (node.lineno, ast.unparse(node))
        for node in nodes
        if isinstance(node, ast.Constant | ast.BinOp) and node not in caches
        if _value(node) in NUMBERS
    ]


def _value(node):
    """Evaluate a number, or a power of two numbers as in ``2.0**-53``."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _value(node.operand)
        return None if value is None else -value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        base, power = _value(node.left), _value(node.right)
        if base in (2, 2.0) and power in (-53, -52, -500):
            return 2.0**power
    return None


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("x = 2.0**-53 * y", 1),
        ("x = y * 2 ** -52 + 4096", 2),
        ("x = 4096 * 2.0**-500", 2),
        ("x = 2**12 + 2.0**-50 + 40.96", 0),
        ("'2.0**-53'", 0),
        ("@lru_cache(maxsize=4096)\ndef f(): ...", 0),
    ],
)
def test_copies_are_seen(text, count):
    assert len(spelled(text)) == count


def test_no_module_has_its_own_copy():
    copies = {
        str(path.relative_to(SOURCE)): found
        for path in sorted(SOURCE.rglob("*.py"))
        if path.relative_to(SOURCE).as_posix() not in HOMES and (found := spelled(path.read_text()))
    }
    assert copies == {}
