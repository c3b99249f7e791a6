"""Exit codes that scripts can rely on, and messages for failures that show no data."""

from __future__ import annotations

import errno
import os
import re
import signal
import traceback
from enum import IntEnum
from pathlib import Path

import typer

import discreet
from discreet.cli import session
from discreet.errors import EngineError, ModelFileError, PrivacyError, TableError

# Options of the command by the keyword of the library that they set; the library's messages name
# the latter. A test reads every message of the library.
_OPTIONS = {
    name: f"--{name.replace('_', '-')}"
    for name in (
        "epsilon", "delta", "relation", "solver", "alpha", "loss", "data_norm", "class_weight",
        "features", "coverage", "task", "unit", "memory", "threshold", "rows_per_unit", "jobs",
        "ledger",
    )
} | {"folder": "--temp-folder"}  # fmt: skip
_NAMES = "|".join(_OPTIONS)
_KEYWORD = re.compile(rf"(?<![\w-])({_NAMES})=(?:['\"]?([\w.+-]*\w)['\"]?)?")
_FIELD = re.compile(r"(?<![\w-])(epsilon|delta|data_norm|class_weight)(?= must| >| is| well)")
_IN_PYTHON = re.compile(r" \((?:[^()]* in Python|\w+=(?:True|False|None))\)")
_ONLY_PYTHON = {
    "groups=ids": "--unit COLUMN",
    "Pass preparation=None": "Leave out --centre, --whiten and private bounds",
    "unsafe=True": "not offered by the command",
    "ledger=None": "no --ledger",
    "ledger=Ledger('visits.sqlite').open('visits')": "--ledger visits.sqlite",
    "Leave random_state=None": "Leave out --test-seed",
    "random_state fixes": "--test-seed fixes",
    "fit_intercept=True": "--intercept",
    "unit_in_one_block=True": "--unit-in-one-block",
}
_LEFT = re.compile(r"(?<![\w-])([a-z]\w*)=(?!=)")
# Texts by which a library that has its own error says that memory ran out; they are not shown.
_NO_MEMORY = re.compile(
    r"cannot allocate|allocate memory|out of memory|failed to map segment", re.I
)


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
    DATA = 3, "the table does not match the schema, or a file cannot be read"
    PRIVACY = 4, "the privacy guarantee cannot be given"
    MODEL = 5, "the model file cannot be trusted"
    REFUTED = 6, "an audit refuted a guarantee"
    LEDGER = 7, "the ledger cannot be used or trusted"
    INTERRUPTED = 130, "interrupted, no file was written"
    TERMINATED = 143, "ended by SIGTERM, no file was written"


class Problem(Exception):
    """A problem that a command found itself; its text is shown as it is."""

    def __init__(self, text: str, code: Exit = Exit.USAGE) -> None:
        super().__init__(text)
        self.code = code


def interrupted() -> Exit:
    """Return the exit code of an interrupt: Ctrl-C or SIGTERM."""
    return Exit.TERMINATED if session.last_signal() == signal.SIGTERM else Exit.INTERRUPTED


def describe_error(error: BaseException) -> tuple[Exit, str]:
    """Return the exit code of an error, and a text that shows no cell of any table.

    Errors of our own are written so that they quote no data. The text of any other could, so it
    is withheld unless ``DISCREET_DEBUG=1`` asks for it. An interrupt after the last output was
    written is no failure: whoever repeats the command would spend its budget twice.
    """
    if isinstance(error, Problem):
        return error.code, str(error)
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        how = "Ended by SIGTERM" if interrupted() is Exit.TERMINATED else "Interrupted"
        if written := session.written():
            return Exit.OK, f"{how}, but {' and '.join(written)} had been written in full."
        return interrupted(), _with_spent(f"{how}. No file was written.")
    if _memory_ran_out(error):
        traceback.clear_frames(error.__traceback__)  # what follows needs some
        return Exit.UNEXPECTED, _with_spent(
            "Memory ran out. A smaller --memory (of fit and evaluate), such as --memory 500MB, "
            "keeps the encoded table in a temporary file."
        )
    if isinstance(error, PrivacyError | TableError | ModelFileError | EngineError):
        return Exit(error.exit_code), as_options(str(error))
    raised = _is_ours(error)
    if isinstance(error, FileNotFoundError | IsADirectoryError | PermissionError):
        return Exit.DATA, f"{error.filename}: {reason(error)}."
    if isinstance(error, OSError) and error.strerror and (raised or _is_of_system(error)):
        text = f"{error.filename or 'the system'}: {as_options(reason(error))}."
        return Exit.UNEXPECTED, _with_spent(text)
    if raised and isinstance(error, ValueError | ImportError):
        return Exit.USAGE, as_options(str(error))
    if os.environ.get("DISCREET_DEBUG") == "1":
        return Exit.UNEXPECTED, _with_spent("".join(traceback.format_exception(error)))
    last = traceback.extract_tb(error.__traceback__)[-1]
    return Exit.UNEXPECTED, _with_spent(
        f"Unexpected {type(error).__name__} in {os.path.basename(last.filename)}, line "
        f"{last.lineno}. Its text is withheld because it could quote the data; run again with "
        "DISCREET_DEBUG=1 to see it."
    )


def _with_spent(text: str) -> str:
    """Return a report of a failure with what was spent."""
    return f"{text} {session.spent()}".rstrip()


def _is_ours(error: BaseException) -> bool:
    """Return True for an error that a ``raise`` of ours made, so that its text is ours.

    A line of ours that calls compiled code is not enough: ``float(cell)`` would quote the cell.
    """
    last = traceback.extract_tb(error.__traceback__)[-1:]
    if not last:
        return False
    ours = Path(last[0].filename).resolve().is_relative_to(Path(discreet.__file__).resolve().parent)
    return ours and (last[0].line or "").startswith("raise ")


def _is_of_system(error: OSError) -> bool:
    return error.errno is not None and error.strerror == os.strerror(error.errno)


def reason(error: OSError) -> str:
    """Return the reason of a failure, to follow a colon; the system's begins with a capital."""
    text = error.strerror or "cannot be read"
    return text[:1].lower() + text[1:] if _is_of_system(error) else text


def _memory_ran_out(error: BaseException) -> bool:
    """Return True if an error, or one that led to it, says that no memory was left."""
    seen: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in seen:
        if isinstance(at, MemoryError) or getattr(at, "errno", None) == errno.ENOMEM:
            return True
        if isinstance(at, OSError | ImportError | RuntimeError) and _NO_MEMORY.search(str(at)):
            return True
        seen.append(at)
        at = at.__cause__ or at.__context__
    return False


def as_options(text: str) -> str:
    """Return a message of the library with the options of the command for Python's keywords.

    A keyword that no option sets is said to be one of Python.
    """
    text = _IN_PYTHON.sub("", text)
    for name, instead in _ONLY_PYTHON.items():
        text = text.replace(name, instead)
    text = _KEYWORD.sub(lambda found: " ".join(filter(None, (_OPTIONS[found[1]], found[2]))), text)
    text = _FIELD.sub(lambda found: _OPTIONS[found[1]], text)
    left = sorted(set(_LEFT.findall(text)))
    if not left:
        return text
    return f"{text} (The command has no option for {', '.join(left)}: use Python to set it.)"
