"""Count the files and functions of discreet that a call passes through.

    python tools/walk.py [--list] [--source ../other-checkout/src]

A reader who wants to know what a fit does has to read these functions. The walks are a default fit
of `LogisticRegression` without and with intervals, one with ``solver="agd"``, and the command
``discreet fit`` on a small table, each after a first call that fills caches and loads compiled
kernels. Functions that run in other threads count as well. Noise decides which functions a fit
needs: each call is repeated, and the numbers are those of the call with the fewest functions, with
the most in brackets. ``--list`` shows its functions by file, both in the order of their first call,
with the number of calls.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import importlib
import io
import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy

import numpy as np

ROOT = Path(__file__).parents[1]

CALLS = 24
"""About four fits in ten refine a draw of noise in high precision, which takes more functions. Of
twenty-four fits, all do with a probability below 1e-8."""

COMMANDS = 40
"""The same for the command. Its model has more columns, and nine fits in ten refine a draw."""

SCHEMA = """\
version = 1

[target]
column = "income"
classes = ["high", "low"]

[columns.age]
kind = "numeric"
low = 18
high = 90

[columns.job]
kind = "categorical"
values = ["clerk", "nurse", "smith"]

[columns.hours]
kind = "numeric"
low = 0
high = 80
"""
"""Schema of the table that the command reads."""

Function = tuple[str, str]
"""A file of the package and the qualified name of a function in it."""

Walk = collections.Counter[Function]
"""Number of calls of each function, in the order of the first call."""


def walk(call: Callable[[], object]) -> Walk:
    """Return the functions of discreet that a call passes through, in all threads it starts.

    Comprehensions and lambdas count as part of the function that they are written in. A
    compiled kernel that Python calls counts as one function.
    """
    package = Path(str(importlib.import_module("discreet").__file__)).parent
    start = f"{package}{os.sep}"
    called: list[Function] = []  # several threads may append to a list, not count in a dict

    def note(frame: Any, event: str, argument: object) -> None:
        path, name = frame.f_code.co_filename, frame.f_code.co_qualname
        if event == "call" and path.startswith(start) and not name.endswith(">"):
            called.append((path.removeprefix(start), name))

    before = sys.getprofile()
    before_in_threads = threading.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
        threading.setprofile(before_in_threads)
    return collections.Counter(called)


def walks(call: Callable[[], object], calls: int = CALLS) -> list[Walk]:
    """Call once to fill caches, then several times; return walks by their number of functions."""
    call()
    return sorted((walk(call) for _ in range(calls)), key=len)


def files_of(functions: Walk) -> list[str]:
    """Return the files of a walk, in the order of their first call."""
    return list(dict.fromkeys(file for file, _ in functions))


# ---- the calls


def fit(solver: str = "auto", *, inference: bool | str = False) -> None:
    """Fit a logistic regression to 5,000 rows of 8 columns, which may have intervals."""
    discreet = importlib.import_module("discreet")
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (5000, 8))
    y = (X[:, 0] + 0.1 * rng.normal(size=5000) > 0).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        about = {"solver": solver, "inference": inference}
        model = discreet.LogisticRegression(epsilon=1.0, delta=1e-6, classes=[0, 1], **about)
        model.fit(X, y)


def write_table(folder: Path) -> None:
    """Write a table of four columns and its schema."""
    rng = np.random.default_rng(0)
    age = rng.integers(18, 90, 5000)
    job = rng.choice(["clerk", "nurse", "smith"], 5000)
    hours = rng.integers(0, 80, 5000)
    high = (age - 54) / 18 + (job == "nurse") + rng.logistic(0, 0.2, 5000) > 0
    income = np.where(high, "high", "low")
    cells = zip(age, job, hours, income, strict=True)
    lines = [",".join(map(str, row)) for row in cells]
    (folder / "people.csv").write_text("\n".join(["age,job,hours,income", *lines]) + "\n", "utf-8")
    (folder / "people.toml").write_text(SCHEMA, "utf-8")


def command(folder: Path) -> None:
    """Run ``discreet fit`` in this process on the table of a folder."""
    app = importlib.import_module("discreet.cli.app")
    arguments = ["fit", str(folder / "people.csv"), "--schema", str(folder / "people.toml")]
    arguments += ["--epsilon", "1", "--delta", "1e-6", "--output", str(folder / "model.json")]
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
        code = app.run([*arguments, "--force"])
    if code:
        raise SystemExit(f"discreet fit ended with the exit code {int(code)}.\n{shown.getvalue()}")


# ---- the report


def show(title: str, found: list[Walk], *, listed: bool) -> None:
    """Print the size of the shortest walk, and its functions if they are to be ``listed``."""
    functions = found[0]
    files = files_of(functions)
    most = f"(at most {len(found[-1])})"
    size = f"{len(files):3} files {len(functions):4} functions {most}"
    print(f"{title:24} {size:40} {functions.total():6} calls")
    if not listed:
        return
    for file in files:
        own = {name: count for (path, name), count in functions.items() if path == file}
        print(f"\n  {file}: {len(own)} functions")
        for name, count in own.items():
            print(f"    {count:6}  {name}")
    print()


def main(arguments: list[str] | None = None) -> None:
    """Print the four walks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--list", action="store_true", help="show the functions of each file")
    parser.add_argument("--source", type=Path, default=ROOT / "src", help="folder of the package")
    given = parser.parse_args(arguments)
    sys.path.insert(0, str(given.source.resolve()))
    show("default fit", walks(fit), listed=given.list)
    with_intervals = walks(partial(fit, inference="auto"))
    show("default fit with intervals", with_intervals, listed=given.list)
    show('fit with solver="agd"', walks(partial(fit, "agd")), listed=given.list)
    with tempfile.TemporaryDirectory() as folder:
        write_table(Path(folder))
        show("discreet fit", walks(partial(command, Path(folder)), COMMANDS), listed=given.list)


if __name__ == "__main__":
    main()
