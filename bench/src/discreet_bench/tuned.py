"""List the tuned numbers of all rules: value, module, and what each of them trades.

    python -m discreet_bench.tuned            # print the table
    python -m discreet_bench.tuned --write    # write it to bench/default-numbers.md

A tuned number is a number in a module-level constant of `MODULES`, whose name is in capitals. Its
meaning is the text below it. A constant that is computed from others is not listed.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import discreet

__all__ = ["MODULES", "PAGE", "Number", "main", "numbers", "table"]

MODULES = (
    "estimators/auto.py",
    "estimators/features.py",
    "estimators/classifiers.py",
    "preparation/balance.py",
    "preparation/magnitude.py",
    "preparation/pipeline.py",
    "preparation/steps.py",
    "preparation/support.py",
    "preparation/windows.py",
    "solvers/gd.py",
    "solvers/newton.py",
    "solvers/quasi_newton.py",
    "solvers/second_moment.py",
    "solvers/shrunk_gd.py",
    "inference/rule.py",
    "inference/shares.py",
    "inference/allocation.py",
    "inference/hessian.py",
    "inference/means.py",
    "inference/walk.py",
    "inference/measure.py",
)
"""Modules with rules of a default fit."""

SOURCES = Path(discreet.__file__).parent
PAGE = Path(__file__).parents[2] / "default-numbers.md"


class Number(NamedTuple):
    """A constant: its module, name, value as it is written, meaning and how many numbers it has."""

    module: str
    name: str
    value: str
    meaning: str
    count: int


def numbers(module: str) -> Iterator[Number]:
    """Yield the constants of a module that have numbers, in their order."""
    body = ast.parse((SOURCES / module).read_text(encoding="utf-8")).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        names = [each.id for each in ast.walk(node.targets[0]) if isinstance(each, ast.Name)]
        parts = list(ast.walk(node.value))
        count = sum(isinstance(p, ast.Constant) and type(p.value) in (int, float) for p in parts)
        computed = any(isinstance(part, ast.Call | ast.Dict) for part in parts)
        if not count or computed or not all(name.isupper() for name in names):
            continue
        text = ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            text = " ".join(str(after.value.value).split())
        yield Number(module, ", ".join(names), ast.unparse(node.value), text, count)


def table() -> str:
    """Return the page: a section per module, and the number of numbers."""
    lines = ["# Tuned numbers of the default", ""]
    lines.append("Made by `python -m discreet_bench.tuned --write`.")
    found = [list(numbers(module)) for module in MODULES]
    total = sum(each.count for part in found for each in part)
    lines += [f"There are {total} numbers in {sum(map(len, found))} constants.", ""]
    for module, part in zip(MODULES, found, strict=True):
        lines += [f"## {module}: {sum(each.count for each in part)}", ""]
        lines += ["| name | value | meaning |", "|---|---|---|"]
        lines += [f"| `{n.name}` | {n.value} | {n.meaning.replace('|', '&#124;')} |" for n in part]
        lines.append("")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Print the page, or write it."""
    asked = sys.argv[1:] if arguments is None else arguments
    if asked not in ([], ["--write"]):
        raise SystemExit(f"expected no argument or --write; got {' '.join(asked)}.")
    if asked:
        PAGE.write_text(table(), encoding="utf-8")
    else:
        print(table())


if __name__ == "__main__":
    main()
