"""The code stays small, and docs/architecture.md states its counted size."""

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
    listed = [part for parts in sizes.RINGS.values() for part in parts]
    assert len(set(listed)) == len(listed)


def test_the_core_is_small():
    """A feature that needs more raises the number in a change that says why."""
    assert sizes.packages()["core"].code <= 2_000
