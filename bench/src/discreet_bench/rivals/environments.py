"""Environments for other libraries: where they are, whether they are there, making them.

An environment's folder is named after the library, the wanted packages and the version of Python,
and appears in one step when all is installed. So a folder that is there is complete, and programs
that make the same one side by side do not disturb each other.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from discreet_bench.datasets.places import cache_folder
from discreet_bench.rivals.catalogue import RIVALS, Rival

__all__ = ["RIVALS", "folder", "install", "python_of", "ready"]

PIP_SECONDS = 3600
"""pip is given up after so long; torch is large."""


def folder() -> Path:
    """The folder of environments: DISCREET_RIVALS, or "rivals" in the cache of data sets."""
    if os.environ.get("DISCREET_RIVALS"):
        return Path(os.environ["DISCREET_RIVALS"]).expanduser()
    return cache_folder() / "rivals"


def python_of(rival: Rival) -> Path:
    """The Python that has the library, whether it is there yet or not."""
    return _python(folder() / _place(rival))


def ready(rival: Rival) -> str | None:
    """Why a library cannot be used here, or None if it can. Looks for a file and starts nothing."""
    if python_of(rival).exists():
        return None
    return (
        f"{rival.name} is not installed in {folder()}. "
        "Install it: discreet bench run --install-rivals"
    )


def install(rival: Rival, *, progress: Callable[[str], None] | None = None) -> str | None:
    """Install a library in an environment of its own; nothing is done if it is there.

    Parameters
    ----------
    rival : Rival
        Which one.
    progress : callable, optional
        Called with a line of text before each step.

    Returns
    -------
    str or None
        Why it could not be done, or None. A failure leaves nothing behind.
    """
    if ready(rival) is None:
        return None
    tell = progress or (lambda _: None)
    target = folder() / _place(rival)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            prefix=f".{rival.name}-", dir=target.parent, ignore_cleanup_errors=True
        ) as rough:
            made = Path(rough) / "environment"
            reason = _build(rival, made, tell)
            if reason is None:
                _move(made, target)
    except (OSError, subprocess.SubprocessError) as error:
        return f"{type(error).__name__}: {error}"
    return reason


def _build(rival: Rival, made: Path, tell: Callable[[str], None]) -> str | None:
    python = str(_python(made))
    venv, pip = [sys.executable, "-m", "venv"], [python, "-m", "pip"]
    if importlib.util.find_spec("pip") is not None:  # quicker, and some systems have no other
        venv, pip = [*venv, "--without-pip"], [sys.executable, "-m", "pip", "--python", python]
    pip += ["install", "--quiet", "--disable-pip-version-check", "--no-input"]
    imports = "; ".join(f"import {module}" for module in rival.imports)
    steps = [
        ("making an environment", [*venv, str(made)], ""),
        (f"installing {', '.join(rival.packages)}", [*pip, *rival.packages], ""),
        ("trying it", [python, "-I", "-c", imports], "it was installed but cannot be imported: "),
    ]
    for text, command, what in steps:
        tell(f"{rival.name}: {text}")
        failed = _run(command)
        if failed is not None:
            return what + failed
    return None


def _run(command: Sequence[str]) -> str | None:
    """Run a command: None, or the last line of what it said."""
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False, timeout=PIP_SECONDS
    )
    if done.returncode == 0:
        return None
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]  # pip's, before its hints
    return (errors or lines or [f"it ended with code {done.returncode} and said nothing"])[-1]


def _move(made: Path, target: Path) -> None:
    """Put an environment in its place, unless another program has just done so."""
    if target.exists() and not _python(target).exists():
        shutil.rmtree(target)  # its Python is gone, as after an upgrade of the system
    try:
        made.rename(target)
    except OSError:
        if not _python(target).exists():
            raise


def _place(rival: Rival) -> str:
    wanted = "\n".join((*rival.packages, sys.version.split()[0], sys.platform))
    return f"{rival.name}-{hashlib.sha256(wanted.encode()).hexdigest()[:8]}"


def _python(environment: Path) -> Path:
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
