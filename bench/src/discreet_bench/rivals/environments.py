"""Other libraries: requirements, supported problems, and their virtual environments.

An environment's folder is named after the library, its packages and the version of Python, and is
moved into place when complete, so programs that make the same one side by side do not interfere.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from discreet_bench.datasets.sources import cache_folder

__all__ = ["RIVALS", "Library", "Rival", "folder", "install", "python_of", "ready"]

PIP_SECONDS = 3600
"""Time limit of pip; torch is large."""

_SCRIPTS = Path(__file__).parent / "scripts"


class Library(Protocol):
    """Anything that is installed from packages into an environment of its own."""

    @property
    def name(self) -> str:
        """Name of the environment."""

    @property
    def packages(self) -> tuple[str, ...]:
        """Requirements for pip, with ranges of versions."""

    @property
    def imports(self) -> tuple[str, ...]:
        """Modules that must be importable afterwards."""


@dataclass(frozen=True)
class Rival:
    """Another library and the problems that it supports.

    Attributes
    ----------
    name
        Its name in the benchmark.
    packages
        Requirements for pip, with ranges of versions.
    imports
        Modules that must be importable afterwards.
    script
        File that calls the library; `scripts/worker.py` runs it with the library's Python.
    relations
        Neighbouring relations of its claim.
    why
        Source of the relation, for the reason of a skip.
    losses
        The losses it can minimise.
    max_classes
        The most classes it can tell apart; None for any number.
    needs_delta
        Whether its claim needs δ > 0.
    private
        Whether it claims any privacy.
    """

    name: str
    packages: tuple[str, ...]
    imports: tuple[str, ...]
    script: Path
    relations: tuple[str, ...] = ("add_remove", "replace_one")
    why: str = ""
    losses: tuple[str, ...] = ("logistic",)
    max_classes: int | None = None
    needs_delta: bool = False
    private: bool = True

    def refusal(self, problem: Mapping[str, Any]) -> str | None:
        """Return why a problem cannot be given to this library, or None if it can.

        Parameters
        ----------
        problem : mapping
            ``loss``, ``relation``, ``delta`` and ``n_classes``.
        """
        if problem["loss"] not in self.losses:
            return f"{self.name} has the {' and '.join(self.losses)} loss only"
        classes = problem["n_classes"]
        if classes < 2 or (self.max_classes is not None and classes > self.max_classes):
            return f"{self.name} takes {self.max_classes or '2 or more'} classes, not {classes}"
        if problem["relation"] not in self.relations:
            return f"{self.name} claims {' and '.join(self.relations)} only: {self.why}"
        if self.needs_delta and not problem["delta"] > 0:
            return f"{self.name} needs delta > 0"
        return None


RIVALS: dict[str, Rival] = {
    rival.name: rival
    for rival in (
        Rival(
            "diffprivlib",
            # from scikit-learn 1.8 on, its models cannot be made
            ("diffprivlib>=0.6", "scikit-learn>=1.4,<1.8"),
            ("diffprivlib.models",),
            _SCRIPTS / "diffprivlib.py",
            relations=("replace_one",),
            why="the proof that it cites changes one row and keeps their number",
        ),
        Rival(
            "opacus",
            ("opacus>=1.4", "torch>=2.2,<2.14", "numpy>=1.26"),
            ("opacus", "torch", "numpy"),
            _SCRIPTS / "opacus.py",
            relations=("add_remove",),
            why="its accountants are for Poisson samples, with one row more or less",
            needs_delta=True,
        ),
        Rival(
            "dp-ebm",
            ("interpret-core>=0.6",),
            ("interpret.privacy",),
            _SCRIPTS / "dp_ebm.py",
            relations=("add_remove",),
            why="its documentation names none, and its noise covers the sums of one row only",
            max_classes=2,
            needs_delta=True,
        ),
        Rival(
            "scikit-learn",
            ("scikit-learn>=1.4",),
            ("sklearn.linear_model",),
            _SCRIPTS / "scikit_learn.py",
            private=False,
        ),
        Rival(
            "gradient-boosting",
            ("scikit-learn>=1.4",),
            ("sklearn.ensemble",),
            _SCRIPTS / "gradient_boosting.py",
            private=False,
        ),
    )
}
"""The other libraries by name."""


def folder() -> Path:
    """Return the folder of environments: DISCREET_RIVALS, or "rivals" in the cache of data sets."""
    if os.environ.get("DISCREET_RIVALS"):
        return Path(os.environ["DISCREET_RIVALS"]).expanduser()
    return cache_folder() / "rivals"


def python_of(rival: Library) -> Path:
    """Return the path of the library's Python, whether it exists yet or not."""
    return _python(folder() / _name(rival))


def ready(rival: Library) -> str | None:
    """Return why a library cannot be used here, or None if it can; starts nothing."""
    if python_of(rival).exists():
        return None
    return (
        f"{rival.name} is not installed in {folder()}. "
        "Install it: discreet bench run --install-rivals"
    )


def install(rival: Library) -> str | None:
    """Install a library in an environment of its own, unless it is there.

    Returns why that could not be done, or None. A failure leaves nothing behind.
    """
    if ready(rival) is None:
        return None
    target = folder() / _name(rival)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            prefix=f".{rival.name}-", dir=target.parent, ignore_cleanup_errors=True
        ) as rough:
            made = Path(rough) / "environment"
            venv.create(made, symlinks=os.name != "nt")
            python = str(_python(made))
            pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet",
                   "--disable-pip-version-check", "--no-input"]  # fmt: skip
            reason = _run([*pip, *rival.packages])
            if reason is None:
                imports = "; ".join(f"import {module}" for module in rival.imports)
                reason = _run([python, "-I", "-c", imports])
                if reason is None:
                    _move(made, target)
                else:
                    reason = f"it was installed but cannot be imported: {reason}"
    except (OSError, subprocess.SubprocessError) as error:
        return f"{type(error).__name__}: {error}"
    return reason


def _run(command: list[str]) -> str | None:
    """Run a command; return None, or the last line of its output if it failed."""
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False, timeout=PIP_SECONDS
    )
    if done.returncode == 0:
        return None
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]  # pip's, before its hints
    return (errors or lines or [f"it ended with code {done.returncode} and no message"])[-1]


def _move(made: Path, target: Path) -> None:
    """Move an environment into place, unless another program has just done so."""
    if target.exists() and not _python(target).exists():
        shutil.rmtree(target)  # its Python is gone, as after an upgrade of the system
    try:
        made.rename(target)
    except OSError:
        if not _python(target).exists():
            raise


def _name(rival: Library) -> str:
    wanted = "\n".join((*rival.packages, sys.version.split()[0], sys.platform))
    return f"{rival.name}-{hashlib.sha256(wanted.encode()).hexdigest()[:8]}"


def _python(environment: Path) -> Path:
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
