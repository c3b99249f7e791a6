"""Exit codes that scripts can rely on, and messages for failures that show no data."""

from __future__ import annotations

import os
import re
import traceback
from enum import IntEnum
from pathlib import Path

import typer

import discreet
from discreet.errors import LedgerError, ModelFileError, PrivacyError, TableError

_OPTIONS = (
    "epsilon|delta|relation|solver|alpha|loss|data_norm|class_weight|features|coverage|task|unit|"
    "memory|threshold"
)
_KEYWORD = re.compile(rf"(?<![\w-])({_OPTIONS})=['\"]?([\w.+-]*\w)['\"]?")
_FIELD = re.compile(r"(?<![\w-])(epsilon|delta|data_norm|class_weight)(?= must| >| is| well)")
_IN_PYTHON = re.compile(r" \((?:[^()]* in Python|\w+=(?:True|False|None))\)")
_ONLY_PYTHON = {
    "groups=ids": "--unit COLUMN",
    "Pass preparation=None": "Leave out --centre, --whiten and private bounds",
    "unsafe=True": "not offered by the command",
    "ledger=None": "no --ledger",
}


class Exit(IntEnum):
    """Exit codes of the command; ``meaning`` is shown by ``discreet --help``."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Exit:
        """Make a member of a code and its meaning."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    OK = 0, "done"
    UNEXPECTED = 1, "any other failure"
    USAGE = 2, "wrong usage"
    DATA = 3, "the data or the schema does not fit"
    PRIVACY = 4, "the privacy guarantee cannot be given"
    MODEL = 5, "the model file cannot be trusted"
    REFUTED = 6, "an audit refuted a guarantee"
    LEDGER = 7, "the ledger cannot be used or trusted"
    INTERRUPTED = 130, "interrupted, no file was written"


_CODES = {
    ModelFileError: Exit.MODEL,
    TableError: Exit.DATA,
    LedgerError: Exit.LEDGER,
    PrivacyError: Exit.PRIVACY,
}


class Problem(Exception):
    """A problem that a command found itself; its text is shown as it is."""

    def __init__(self, text: str, code: Exit = Exit.USAGE) -> None:
        super().__init__(text)
        self.code = code


# Output files of the running command, each with its identity before it was written.
_watched: dict[Path, tuple[int, ...] | None] = {}


def watch_outputs(*paths: Path) -> None:
    """Remember output files as they are now; without any, forget all others."""
    if not paths:
        _watched.clear()
    _watched.update({path: _identity(path) for path in paths})


def _identity(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def describe_error(error: BaseException) -> tuple[Exit, str]:
    """Return the exit code of an error, and a text that shows no cell of any table.

    Errors of our own are written so that they quote no data. The text of any other could, so it
    is withheld unless ``DISCREET_DEBUG=1`` asks for it. An interrupt after the last output was
    written is no failure: whoever repeats the command would spend its budget twice.
    """
    if isinstance(error, Problem):
        return error.code, str(error)
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        written = [str(path) for path, before in _watched.items() if _identity(path) != before]
        if written:
            return Exit.OK, f"Interrupted, but {' and '.join(written)} had been written in full."
        return Exit.INTERRUPTED, "Interrupted. No file was written."
    for kind, code in _CODES.items():
        if isinstance(error, kind):
            return code, as_options(str(error))
    if isinstance(error, FileNotFoundError | IsADirectoryError | PermissionError):
        return Exit.DATA, f"{error.filename}: {(error.strerror or 'cannot be read').lower()}."
    if isinstance(error, OSError) and error.strerror:
        return Exit.UNEXPECTED, f"{error.filename or 'the system'}: {error.strerror.lower()}."
    last = traceback.extract_tb(error.__traceback__)[-1]
    ours = Path(last.filename).resolve().is_relative_to(Path(discreet.__file__).resolve().parent)
    # A line of ours that calls compiled code is not enough: ``float(cell)`` would quote the cell.
    raised = ours and (last.line or "").startswith("raise ")
    if raised and isinstance(error, ValueError | ImportError):
        return Exit.USAGE, as_options(str(error))
    if os.environ.get("DISCREET_DEBUG") == "1":
        return Exit.UNEXPECTED, "".join(traceback.format_exception(error))
    return Exit.UNEXPECTED, (
        f"Unexpected {type(error).__name__} in {os.path.basename(last.filename)}, line "
        f"{last.lineno}. Its text is withheld because it could quote the data; run again with "
        "DISCREET_DEBUG=1 to see it."
    )


def as_options(text: str) -> str:
    """Return a message of the library with the options of the command for Python's keywords."""
    text = _IN_PYTHON.sub("", text)
    for name, instead in _ONLY_PYTHON.items():
        text = text.replace(name, instead)
    text = _KEYWORD.sub(lambda found: f"--{found[1].replace('_', '-')} {found[2]}", text)
    return _FIELD.sub(lambda found: f"--{found[1].replace('_', '-')}", text)
