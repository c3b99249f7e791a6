"""Code blocks of the README and of guides run, and what they show is what they print.

The noise has a fixed seed here (tools/outputs.py); the pages fix none.
"""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("outputs", ROOT / "tools" / "outputs.py")
outputs = importlib.util.module_from_spec(spec)
sys.modules["outputs"] = outputs
spec.loader.exec_module(outputs)

PAGES = [
    "README.md",
    "docs/quickstart.md",
    "docs/solvers.md",
    "docs/guarantee.md",
    "docs/families.md",
    "docs/evaluate.md",
    "docs/fit.md",
    "docs/formulas.md",
    "docs/from-statsmodels.md",
    "docs/features.md",
    "docs/pairs.md",
    "docs/units.md",
    "docs/ledger.md",
    "docs/pipelines.md",
    "docs/inference.md",
    "docs/tables.md",
    "docs/index.md",
]
SHOWN = {"README.md": 4, "docs/quickstart.md": 13, "docs/pairs.md": 2}
"""Pages that show outputs, and how many at least."""


@pytest.fixture
def given():
    """Names that the blocks of some pages take as given."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 4))
    y = (X @ [1.0, -1.0, 0.5, 0.0] > 0).astype(int)
    return {"X": X, "y": y, "X_new": X[:5], "__name__": "page"}


@pytest.mark.parametrize("page", PAGES)
def test_blocks_run_in_order_and_print_what_the_page_shows(page, given, tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    found = outputs.run_page(ROOT / page, given)
    wrong = [f"shown:\n{each.shown}printed:\n{each.printed}" for each in found if not each.matches]
    assert not wrong, "\n".join([f"run: python tools/outputs.py --write {page}", *wrong])
    assert len(found) >= SHOWN.get(page, 0)


def test_the_audits_of_the_page_run():
    """With fewer trials, which find less."""
    text = (ROOT / "docs" / "audit.md").read_text("utf-8")
    (code,) = [each[2] for each in outputs.BLOCK.finditer(text) if each[1] == "python"]
    fewer = code.replace("400_000", "2_000").replace("30_000", "200")
    assert fewer != code
    names = {}
    exec(compile(fewer, "audit.md", "exec"), names)
    assert names["model"].epsilon == 2.0


def write(folder, *blocks):
    path = folder / "page.md"
    path.write_text("\n\n".join(f"```{kind}\n{code}```" for kind, code in blocks) + "\n")
    return path


def test_a_page_that_shows_something_else_is_found_and_can_be_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "for k in range(9):\n    print(k, 'is', k / 3)\n"
    shown = "0 is 0.0\n…\n8 is 2.0\n"
    path = write(tmp_path, ("python", code), ("text", shown))
    [wrong] = outputs.run_page(path, {})
    assert not wrong.matches
    assert outputs.main(["page.md"]) == 1
    assert outputs.main(["--write", "page.md"]) == 0
    assert "0 is 0.0\n…\n8 is 2.6666666666666665\n" in path.read_text()
    assert outputs.main(["page.md"]) == 0


def test_numbers_may_differ_in_the_last_digit_and_times_in_all(tmp_path):
    def same(shown, printed):
        return outputs.same(shown.split(), printed.split())

    assert same("coef 0.1234 (3,400 rows)", "coef 0.1236 (3,400 rows)")
    assert not same("coef 0.1234", "coef 0.1244")
    assert not same("coef 0.1234", "coefs 0.1234")
    assert same("fitted in 0.3 s", "fitted in 12.1 s")
    assert same("Date 2026-01-01", "Date 2027-12-31")
    assert same("1e-06 and −2.5", "1e-06 and −2.6")
    assert not same("1e-06", "1e-04")
    assert not same("3,400", "3,403")


def test_commands_run_and_fail_only_where_the_page_shows_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = "$ discreet example t.csv --patients 5\nThe visits of 5 generated patients: t.csv. "
    path = write(tmp_path, ("console", f"{page}Nobody is in it.\n$ pip install .\n"))
    assert [each.matches for each in outputs.run_page(path, {})] == [True]
    with pytest.raises(AssertionError, match="exit code 2"):
        outputs.run_page(path, {})  # the file exists now
    path = write(
        tmp_path, ("console", "$ discreet example \\\n    t.csv\nError: t.csv exists; …\n")
    )
    [found] = outputs.run_page(path, {})
    assert "pass --force" in found.printed


def test_the_noise_has_its_seed_in_the_block_alone():
    from discreet.core.bits import SystemBits

    with outputs.seeded(3):
        first = SystemBits().words(2)
    with outputs.seeded(3):
        assert (SystemBits().words(2) == first).all()
    assert (SystemBits().words(2) != first).any()
