"""Outputs that the documentation shows: run the code of a page, and compare or write them.

A block of Python that is followed by a block ``text`` prints that text. In a block ``console``, the
lines after ``$ discreet …`` are what the command prints; other commands are not run. A line ``…``
stands for lines that are left out.

    python tools/outputs.py docs/quickstart.md           # compare
    python tools/outputs.py --write README.md docs/*.md  # write what was printed

The code runs with noise from a fixed seed, so that the same outputs can be made again. The blocks
themselves fix no noise: what a reader runs is private, and has other digits.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
import textwrap
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

BLOCK = re.compile(r"^```([\w{}-]*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)$", re.MULTILINE)
NUMBER = re.compile(r"[-−]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
PASSING = re.compile(r"\b\d+(?:\.\d+)?(?= (?:s|seconds)\b)|\b\d{4}-\d\d-\d\d\b")  # times and days
CUT = "…"  # a line of this alone stands for lines that are left out
WIDEST = 98  # characters of a line; longer sentences are wrapped, and tables keep their lines
NARROW = 78  # characters of a wrapped line
SEED = 1


@dataclass(frozen=True)
class Shown:
    """An output in a page: its place, what the page shows and what was printed."""

    page: str
    start: int
    end: int
    shown: str
    printed: str

    @property
    def matches(self) -> bool:
        """True if the page shows what was printed, but for cuts and the last digits."""
        parts = [part.split() for part in self.shown.split(f"{CUT}\n")]
        words = self.printed.split()
        if len(parts) == 1:
            return same(parts[0], words)
        head, tail = parts[0], parts[-1]
        ends = words[len(words) - len(tail) :]
        return len(parts) == 2 and same(head, words[: len(head)]) and same(tail, ends)

    @property
    def written(self) -> str:
        """What the page has to show, with the same cut as before."""
        if f"{CUT}\n" not in self.shown:
            return self.printed
        before, _, after = self.shown.partition(f"{CUT}\n")
        lines = self.printed.splitlines(keepends=True)
        tail = lines[len(lines) - after.count("\n") :]
        return "".join([*lines[: before.count("\n")], f"{CUT}\n", *tail])


def same(shown: list[str], printed: list[str]) -> bool:
    """Return True if the words agree, and numbers to two units of their last shown digit."""
    one, other = (PASSING.sub("0", " ".join(words)) for words in (shown, printed))
    if _rules(one) != _rules(other):
        return False
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)
    return all(_near(a, b) for a, b in pairs)


def _rules(text: str) -> str:
    """Return a text without its numbers and without the lengths of its rules."""
    return re.sub(r"([=\-─━])\1+", r"\1", NUMBER.sub("#", text))


def _near(shown: str, printed: str) -> bool:
    if shown == printed:
        return True
    digits, _, power = shown.replace(",", "").replace("−", "-").partition("e")
    unit = 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
    value = float(f"{digits}e{power or 0}")
    return abs(value - float(printed.replace(",", "").replace("−", "-"))) <= 2.01 * unit


def wrapped(text: str) -> str:
    """Return a printed text with its sentences wrapped; lines of tables stay as they are."""
    lines = []
    for line in text.rstrip().splitlines():
        indent = " " * (len(line) - len(line.lstrip()))
        if len(line) > WIDEST and "  " not in line.strip() and " " in line.strip():
            lines += textwrap.wrap(line, NARROW, subsequent_indent=indent, break_on_hyphens=False)
        else:
            lines.append(line.rstrip())
    return "".join(f"{line}\n" for line in lines)


@contextlib.contextmanager
def seeded(seed: int = SEED) -> Iterator[None]:
    """Let the noise of fits come from a seed while the block runs."""
    from discreet.core.bits import SystemBits

    fresh = np.random.default_rng
    random = fresh(seed)
    simulated = fresh(seed)  # of its own: results of simulations are kept, and made once only
    lock = threading.Lock()

    def words(self: SystemBits, count: int) -> Any:
        with lock:
            return random.integers(0, 2**64, count, dtype=np.uint64)

    def generator(given: Any = None) -> Any:
        with lock:
            return fresh(simulated.integers(2**32) if given is None else given)

    system = SystemBits.words
    np.random.default_rng = generator  # of simulations that show the size of the noise
    SystemBits.words = words  # type: ignore[method-assign]
    try:
        yield
    finally:
        np.random.default_rng = fresh
        SystemBits.words = system  # type: ignore[method-assign]


def _python(code: str, page: str, names: dict[str, Any]) -> str:
    """Run a block of Python, and return what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, page, "exec"), names)
    return wrapped(printed.getvalue())


def _command(line: str, shown: str) -> str:
    """Run a command of discreet, and return what it printed on both streams.

    It may fail only if the page shows an error.
    """
    from discreet.cli.app import run

    words = shlex.split(line.replace("\\\n", " "), comments=True)
    out, err = io.StringIO(), io.StringIO()
    quiet = (contextlib.redirect_stdout(out), contextlib.redirect_stderr(err))
    with quiet[0], quiet[1], warnings.catch_warnings():
        warnings.simplefilter("default")
        code = run([*words[1:]])
    printed = err.getvalue() + out.getvalue()
    if code and "Error:" not in shown:
        raise AssertionError(f"{line}: exit code {int(code)}: {printed}")
    return wrapped(printed)


def run_page(path: Path, names: dict[str, Any]) -> list[Shown]:
    """Run all blocks of a page in the current folder, in order; return the outputs it shows."""
    text = path.read_text("utf-8")
    blocks = list(BLOCK.finditer(text))
    found = []
    with seeded(), warnings.catch_warnings():
        warnings.simplefilter("error")  # an example that warns is a bad example
        warnings.filterwarnings("ignore", module="statsmodels")  # unless another library warns
        for place, block in enumerate(blocks):
            kind, code = block.groups()
            if kind == "python":
                printed = _python(code, path.name, names)
                after = blocks[place + 1] if place + 1 < len(blocks) else None
                if after is not None and after[1] == "text":
                    between = text[block.end() : after.start()]
                    if not between.strip():
                        found.append(Shown(path.name, *after.span(2), after[2], printed))
            elif kind == "console":
                found += _console(path.name, block.start(2), code)
    return found


def _console(page: str, start: int, code: str) -> list[Shown]:
    """Run the commands of a block of a session; return what the page shows after each."""
    found = []
    commands = list(COMMAND.finditer(code))
    for place, command in enumerate(commands):
        end = commands[place + 1].start() if place + 1 < len(commands) else len(code)
        line = command[1].removeprefix("env/bin/")
        if line.startswith("discreet "):
            begin = min(command.end() + 1, end)
            shown = code[begin:end]
            found.append(Shown(page, start + begin, start + end, shown, _command(line, shown)))
    return found


def rewrite(path: Path, outputs: list[Shown]) -> None:
    """Write the outputs into the page."""
    text = path.read_text("utf-8")
    for each in reversed(outputs):
        if not each.matches:
            text = text[: each.start] + each.written + text[each.end :]
    path.write_text(text, "utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Compare or write the outputs of pages; return 1 if one differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--write", action="store_true", help="write what was printed")
    parser.add_argument("pages", nargs="+", type=Path)
    given = parser.parse_args(arguments)
    different = 0
    here = Path.cwd()
    for page in given.pages:
        path = here / page
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                outputs = run_page(path, {"__name__": "page"})
            finally:
                os.chdir(here)
        wrong = [each for each in outputs if not each.matches]
        if given.write:
            rewrite(path, outputs)
            sys.stdout.write(f"{page}: {len(wrong)} of {len(outputs)} outputs written\n")
            continue
        different += len(wrong)
        for each in wrong:
            sys.stdout.write(f"{page}: shown\n{each.shown}printed\n{each.printed}\n")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
