"""Count modules, lines and lines of code per package and per trusted ring.

``python tools/sizes.py`` prints the tables; ``--write`` puts them into docs/architecture.md.
Lines of code are lines without blank lines, comments and docstrings.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "discreet"
PAGE = ROOT / "docs" / "architecture.md"
START, END = "<!-- sizes: tools/sizes.py --write -->", "<!-- end of sizes -->"

RINGS: dict[str, tuple[str, ...]] = {
    "1. core: questions, curator, filter, mechanisms, noise": ("core",),
    "2. accounting: arithmetic without rows": ("accounting",),
    "3. sums over rows: rows, losses, engines": (
        "rows",
        "engines",
        "objectives",
    ),
    "4. methods on exact rows": ("exact",),
    "5. charges that outlive a fit: ledger, tuning": (
        "ledger",
        "tuning/laws.py",
        "tuning/runs.py",
        "tuning/search.py",
    ),
    "6. whose row a row is, and row by row: ids, cells, features": (
        "estimators/units.py",
        "ids.py",
        "preparation/bounds.py",
        "preparation/feature_kernels.py",
        "preparation/features.py",
        "preparation/pair_cells.py",
        "tables/alignment.py",
        "tables/cell_rows.py",
        "tables/cell_rules.py",
        "tables/dates.py",
        "tables/encoder.py",
        "tables/messages.py",
    ),
    "7. sites: shares of noise, masks, messages": ("sites",),
    "checks and errors, used by all": ("validate.py", "errors.py"),
}
"""Trusted code, from the inside out: files and folders of the package."""

UNTRUSTED: dict[str, str] = {
    "accounting/calibration.py": "proposes noise, whose cost a mechanism states",
    "accounting/planning.py": "proposes divisions of a budget, which the account verifies",
    "accounting/recompute.py": "recomputes a guarantee with another accountant: it can only accuse",
    "accounting/subsampling/estimates.py": "proposes grids; the bounds hold for each of them",
    "exact/calibration.py": "proposes noise, whose cost the minimum states and the account checks",
    "exact/minimise.py": "proposes a minimum, which is released only if the certificate accepts it",
    "ledger/balance.py": "describes what was spent and what would still be admitted",
    "ledger/display.py": "shows what a ledger holds",
    "ledger/files.py": "sets modes of files and words errors",
    "ledger/report.py": "shows what was spent over time",
    "ledger/signatures.py": "signs events, so that a verification can accuse",
    "ledger/verification.py": "checks a ledger's chain of entries: it can only accuse",
    "engines/predictions.py": "predicts with a model that was released",
    "objectives/advice.py": "advises solvers, whose questions are bounded and charged",
    "objectives/announce.py": "tells a user that kernels are being compiled",
    "rows/curvature.py": "steers an optimiser, whose point the certificate must accept",
    "sites/flower.py": "carries messages between parties, each of which checks what it gets",
    "sites/flower_node.py": "carries messages between parties, each of which checks what it gets",
    "sites/https.py": "carries messages between parties, each of which checks what it gets",
    "sites/report.py": "shows what a site released",
    "sites/sockets.py": "carries messages between parties, each of which checks what it gets",
    "tuning/candidates.py": "plans runs; their budget is checked when it is made and spent",
    "tuning/recompute.py": "recomputes a guarantee with another accountant: it can only accuse",
}
"""Files in folders of `RINGS`, or beside files of them, that no promise rests on, and why."""

_SKIPPED = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


class Size(NamedTuple):
    """Number of modules, physical lines and lines of code."""

    modules: int = 0
    lines: int = 0
    code: int = 0


def code_lines(source: str) -> int:
    """Count the lines of a module that hold code."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            docstrings.update(range(value.lineno, (value.end_lineno or value.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _SKIPPED:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def size_of(paths: Iterable[Path]) -> Size:
    """Add up the sizes of files and of all modules in folders."""
    total = Size()
    for path in paths:
        for file in path.rglob("*.py") if path.is_dir() else [path]:
            total = Size(*map(sum, zip(total, _size_of_file(file), strict=True)))
    return total


@cache
def _size_of_file(file: Path) -> Size:
    source = file.read_text("utf-8")
    return Size(1, len(source.splitlines()), code_lines(source))


def packages() -> dict[str, Size]:
    """Return the size of each package of discreet, of its top-level modules, and of all."""
    folders = sorted(path for path in SOURCE.iterdir() if any(path.glob("*.py")))
    found = {path.name: size_of([path]) for path in folders}
    found["top-level modules"] = size_of(SOURCE.glob("*.py"))
    return found | {"all": size_of([SOURCE])}


def trusted(parts: Iterable[str]) -> list[Path]:
    """Return the trusted modules among files and folders of the package."""
    found: list[Path] = []
    for part in parts:
        path = SOURCE / part
        if not path.exists():
            raise FileNotFoundError(f"{part} is in a ring, but not in the package.")
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return [path for path in found if path.relative_to(SOURCE).as_posix() not in UNTRUSTED]


def rings() -> dict[str, Size]:
    """Return the size of each trusted ring, and of all of them."""
    found = {name: size_of(trusted(parts)) for name, parts in RINGS.items()}
    return found | {"all trusted code": Size(*map(sum, zip(*found.values(), strict=True)))}


def table(title: str, sizes: dict[str, Size]) -> str:
    """Return sizes as a Markdown table."""
    rows = [f"| {title} | modules | lines | code |", "|---|---:|---:|---:|"]
    rows += [f"| {name} | {s.modules} | {s.lines:,} | {s.code:,} |" for name, s in sizes.items()]
    return "\n".join(rows)


def tables() -> str:
    """Return both tables."""
    return f"{table('trusted ring', rings())}\n\n{table('package', packages())}"


def main() -> None:
    """Print the tables, or write them into the page."""
    if sys.argv[1:] == ["--write"]:
        text = PAGE.read_text("utf-8")
        before, after = text.split(START)[0], text.split(END)[1]
        PAGE.write_text(f"{before}{START}\n\n{tables()}\n\n{END}{after}", "utf-8")
    else:
        print(tables())


if __name__ == "__main__":
    main()
