"""The code stays small, and docs/architecture.md states its counted size."""

import ast
import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("sizes", ROOT / "tools" / "sizes.py")
sizes = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sizes)


def stated():
    """Return the sizes that the page states, by name."""
    page = sizes.PAGE.read_text("utf-8").split(sizes.START)[1].split(sizes.END)[0]
    rows = re.findall(r"^\| (.+?) \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$", page, re.MULTILINE)
    return {name: tuple(int(n.replace(",", "")) for n in numbers) for name, *numbers in rows}


def test_the_page_states_the_counted_sizes():
    """Within 5 %, and 2 modules or 20 lines for the smallest."""
    counted = sizes.rings() | sizes.packages()
    page = stated()
    assert set(page) == set(counted), "run: python tools/sizes.py --write"
    for name, size in counted.items():
        for found, expected, least in zip(page[name], size, (2, 20, 20), strict=True):
            allowed = max(least, 0.05 * expected)
            assert abs(found - expected) <= allowed, f"{name}: run python tools/sizes.py --write"


def test_code_lines_by_hand():
    lines = [
        '"""Doc."""', "# comment", "x = 1  # a", "", "def f():",
        '    """Doc', '    more."""', "    return (", "        1", "    )",
    ]  # fmt: skip
    source = "\n".join(lines)
    assert sizes.code_lines(source) == 5


def test_every_package_is_counted_and_rings_are_disjoint():
    whole = sizes.packages()
    parts = [size for name, size in whole.items() if name != "all"]
    assert tuple(map(sum, zip(*parts, strict=True))) == whole["all"]
    listed = [path for parts in sizes.RINGS.values() for path in sizes.trusted(parts)]
    assert len(set(listed)) == len(listed)
    for name, reason in sizes.UNTRUSTED.items():
        assert (sizes.SOURCE / name).exists(), name
        assert len(reason.split()) > 3


def test_the_core_and_all_trusted_code_are_small():
    """A feature that needs more raises the number in a change that says why."""
    assert sizes.packages()["core"].code <= 2_000
    sites = sizes.rings()["7. sites: shares of noise, masks, messages"].code
    assert sizes.rings()["all trusted code"].code - sites <= 11_850
    assert sites <= 1_200  # a fit of one table rests on none of them


ROWS = {"discreet.rows", "discreet.ids", "discreet.core.account", "discreet.core.noise"}
"""Packages and modules that hold exact rows, ids, accounts or noise."""

PUBLIC = {"AffineMap", "EXPONENTS", "OCTAVES", "Unit"}
"""Names of `discreet.rows` that hold nothing about rows."""

BY_CONSTRUCTION = {
    "estimators/pair_rows.py": "maps each row by itself; rows keep their weights and unit",
    "estimators/pairs.py": "asks curators, which refuse rows of another unit or public size",
    "estimators/refinement.py": "hands prepared rows to a session, which refuses another unit",
    "estimators/scoring.py": "hands rows and a public model to rows/scored.py, which has the unit",
    "preparation/balance.py": "asks a curator for totals of classes; rows pass through",
    "preparation/pipeline.py": "maps rows by an affine map, which keeps their weights and unit",
}
"""Untrusted modules that pass rows on, and what makes a mistake there an error, not a leak."""


def imported(path):
    """Yield the module and the name of each import from `ROWS`."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
        if module in ROWS or module.startswith("discreet.rows."):
            yield from (alias.name for alias in node.names)


def test_the_list_of_trusted_code_is_complete():
    """A module that touches rows, ids, accounts or noise is in a ring, or says why not."""
    rings = {path for parts in sizes.RINGS.values() for path in sizes.trusted(parts)}
    found = {
        path.relative_to(sizes.SOURCE).as_posix()
        for path in sizes.SOURCE.rglob("*.py")
        if path not in rings and set(imported(path)) - PUBLIC
    }
    found = {name for name in found if not name.startswith("audit/")}  # it can only accuse
    assert found - set(sizes.UNTRUSTED) == set(BY_CONSTRUCTION)


BESIDE = {
    "estimators/classifiers.py": "makes the target of a row from that row's own label",
    "estimators/engine.py": "numbers fits; the fit itself is charged by its own account",
    "estimators/scoring.py": "hands rows and a public model to rows/scored.py, which has the unit",
    "estimators/regressors.py": "makes the target of a row from that row's own number",
    "guarantee_file.py": "writes a guarantee as plain data and reads it",
    "inference/__init__.py": "names what the package has for estimators",
    "inference/checks.py": "has functions of a margin and a target, whose sums clip each slope",
    "log.py": "notes events for people",
    "page.py": "writes pages for people",
    "preparation/__init__.py": "names steps and features; those that make rows are trusted",
    "preparation/pipeline.py": "writes rows under an affine map, each from one row",
    "preparation/steps.py": "has the base classes of steps, which ask a curator",
    "solvers/__init__.py": "names solvers, which ask a curator and never see rows",
    "statement.py": "words a guarantee for people",
    "tables/__init__.py": "names what the package has for users",
    "tables/columns.py": "declares public rules, which the encoder follows",
    "tables/parts.py": "finds and checks the files of a table",
    "tables/reader.py": "hands batches of a table to the encoder, in their order",
    "tables/schema.py": "declares public rules, which the encoder follows",
    "tables/source.py": "finds and opens the files of a table",
    "tables/storage.py": "keeps encoded rows, in memory or in a file",
}
"""Modules outside the rings that trusted ones import, and what is taken from them."""


def imports(path):
    """Yield the modules of the package that a module imports, also within functions."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("discreet"):
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            at = sizes.SOURCE.joinpath(*name.split(".")[1:])
            for file in (at.with_suffix(".py"), at / "__init__.py"):
                if name != "discreet" and file.exists():
                    yield file


def test_trusted_code_imports_what_is_trusted_or_has_a_reason():
    rings = {path for parts in sizes.RINGS.values() for path in sizes.trusted(parts)}
    found = {file.relative_to(sizes.SOURCE).as_posix() for path in rings for file in imports(path)}
    found -= {path.relative_to(sizes.SOURCE).as_posix() for path in rings}
    assert found - set(sizes.UNTRUSTED) == set(BESIDE)
