"""Kernels compile where nothing can be written, and never from a cache of other sources."""

import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import discreet
from discreet.objectives import compile as compiling
from discreet.objectives import formulas

GRADIENT = """
import sys, numpy as np
from discreet.objectives import Logistic
from discreet.rows import as_rows
from discreet.rows.sums import gradient_sum
rows = as_rows(np.eye(3), np.ones(3))
print(gradient_sum(rows, np.zeros(4), Logistic(), 1.0).values.sum())
"""


def run(code, home, source, **environment):
    """Run code with a source folder and a home that cannot be written; root needs no permission."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA", "XDG", "HOME"))}
    kept |= {"PYTHONPATH": str(source), "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=kept | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture
def unwritable(tmp_path):
    """A copy of the package and a home in which no file can be made, not even by root."""
    source, home = tmp_path / "source", tmp_path / "home"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(discreet.__file__).parent, source / "discreet", ignore=ignored)
    for folder in (source / "discreet" / "objectives", source / "discreet" / "rows"):
        (folder / "__pycache__").write_text("a file where numba wants a folder")
    home.write_text("a file where a folder is wanted")
    return source, home


@pytest.mark.process
def test_without_a_writable_folder_kernels_are_compiled_anew(unwritable):
    source, home = unwritable
    assert float(run(GRADIENT, home, source).stdout) == pytest.approx(-3.0, abs=1e-9)


@pytest.mark.process
def test_the_variable_names_the_folder_of_the_cache(unwritable, tmp_path):
    source, home = unwritable
    cache = tmp_path / "cache"
    run(GRADIENT, home, source, NUMBA_CACHE_DIR=str(cache))
    assert list(cache.rglob("*.nbc"))


SET_UP = {
    "nothing": ("", "discreet: Compiling numerical code"),
    "logging": (
        "import logging; logging.basicConfig(level=logging.INFO)",
        "WARNING:discreet.compile:Compiling numerical code",
    ),
    "silenced": ("import logging; logging.getLogger('discreet').setLevel(logging.ERROR)", None),
}


@pytest.mark.process
@pytest.mark.parametrize("name", SET_UP)
def test_first_compilation_is_announced_once(name, tmp_path):
    """On standard error, or where the program's log goes; a warm cache has nothing to announce."""
    before, line = SET_UP[name]
    source = Path(discreet.__file__).parent.parent
    environment = {"NUMBA_CACHE_DIR": str(tmp_path)}
    code = before + GRADIENT
    first = run(code, tmp_path, source, **environment).stderr
    assert first.count("Compiling numerical code") == (line is not None)
    assert line is None or first.startswith(line)
    if name == "nothing":
        assert "Compiling" not in run(code, tmp_path, source, **environment).stderr


@pytest.mark.process
def test_the_announcement_comes_before_the_wait_and_is_about_kernels_of_discreet(tmp_path):
    """A function of the user's own is compiled without it."""
    code = (
        """
import numba, sys
from discreet.rows.table import KERNELS
numba.njit(lambda x: x + 1.0)(2.0)
sys.stderr.write("mine;")
from discreet.objectives import announce
announce._announce = lambda text: sys.stderr.write(
    f"announced, {len(KERNELS.norms.signatures)} compiled;"
)
"""
        + GRADIENT
    )
    source = Path(discreet.__file__).parent.parent
    written = run(code, tmp_path, source, NUMBA_CACHE_DIR=str(tmp_path)).stderr
    assert written == "mine;announced, 0 compiled;"


def test_a_cache_is_bound_to_all_sources_of_kernels(monkeypatch, tmp_path):
    """numba looks at the file of a function only, but code of other files is compiled into it."""
    (tmp_path / "objectives").mkdir()
    (tmp_path / "rows").mkdir()
    (tmp_path / "objectives" / "losses.py").write_text("one")
    (tmp_path / "rows" / "some_kernels.py").write_text("one")
    (tmp_path / "rows" / "bounds.py").write_text("one")
    monkeypatch.setattr(compiling, "__file__", str(tmp_path / "objectives" / "compile.py"))
    digests = [compiling._sources.__wrapped__()]
    for name in ("objectives/losses.py", "rows/some_kernels.py", "rows/bounds.py"):
        (tmp_path / name).write_text("another")
        digests.append(compiling._sources.__wrapped__())
    assert len(set(digests)) == 4
    monkeypatch.undo()
    assert formulas.losses._cache._cache_file._source_stamp == compiling._sources()


def test_no_folder_means_no_cache(monkeypatch):
    import numba

    real = numba.njit

    def refuse(function, *, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return real(function, **options)

    monkeypatch.setattr(numba, "njit", refuse)
    assert compiling.kernel(lambda x: x + 1.0)(2.0) == 3.0


def test_importing_a_module_of_kernels_waits():
    module = compiling.KernelModule("no.such.module")
    with pytest.raises(ModuleNotFoundError):
        module.some_kernel  # noqa: B018
    assert logging.getLogger("discreet.compile").level == logging.NOTSET
