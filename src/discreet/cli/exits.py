"""Exit codes that scripts can rely on, errors of the command, and messages in its own words."""

from __future__ import annotations

import os
import re
import signal
from enum import IntEnum

from discreet import cli

# Options of the command by the keyword of the library that they set; the library's messages name
# the latter. A test reads every message of the library.
_OPTIONS = {
    name: f"--{name.replace('_', '-')}"
    for name in (
        "epsilon", "delta", "relation", "solver", "alpha", "loss", "data_norm", "class_weight",
        "features", "coverage", "task", "unit", "memory", "threshold", "rows_per_unit", "jobs",
        "ledger", "quantile", "schema",
    )
} | {"folder": "--temp-folder"}  # fmt: skip
_NAMES = "|".join(_OPTIONS)
_KEYWORD = re.compile(rf"(?<![\w-])({_NAMES})=(?:['\"]?([\w.+-]*\w)['\"]?)?")
_FIELD = re.compile(
    r"(?<![\w-])(epsilon|delta|data_norm|class_weight|threshold)(?= must| >| is| well)|^unit(?=: )"
)
_IN_PYTHON = re.compile(r" \((?:[^()]* in Python|\w+=(?:True|False|None))\)")
_ONLY_PYTHON = {
    "groups=ids": "--unit COLUMN",
    "fit('COLUMN', …)": "--target COLUMN",
    "probabilities=True": "--probabilities",
    "Pass preparation=None": "Leave out --centre, --whiten and private bounds",
    "unsafe=True": "not offered by the command",
    "ledger=None": "no --ledger",
    "ledger=Ledger('visits.sqlite').open('visits')": "--ledger visits.sqlite",
    "Leave random_state=None": "Leave out --test-seed",
    "random_state fixes": "--test-seed fixes",
    "fit_intercept=True": "--intercept",
    "unit_in_one_block=True": "--unit-in-one-block",
    "eave inference=False": "eave out --inference",
    "pass inference=False": "leave out --inference",
    "inference=True": "--inference",
    "Pass odds_ratios=False for this one": "Leave out --odds-ratios",
    "(low, high) or None for numbers": "LOW:HIGH or number for numbers",
    '["…", "…"] for texts': "TEXT,TEXT for texts",
    "Ignored() of discreet.tables for those": "ignored for those",
    "pass a schema, which discreet.tables.draft(table) writes to be filled in": (
        "pass --schema FILE, which discreet schema draft writes to be filled in"
    ),
    "discreet.tables.draft_private(table, epsilon, delta)": "discreet schema draft --epsilon",
}
_VALUES = (
    (re.compile(r"(?<![\w-])classes=(\[[^\]]*\])?"), "--classes LABEL,LABEL"),
    (re.compile(r"(?<![\w-])target_bounds=(\([^)]*\))?"), "--target-bounds LOW:HIGH"),
    (re.compile(r"(?<![\w-])by=(\([^)]*\))?"), "--by COLUMN=LEVEL,LEVEL"),
)
_COLUMNS = re.compile(r"columns=\{([^}]*)\}")
_KINDS = re.compile(r"A column of many texts can be hashed, .* by its type\.")
_PROPOSED = re.compile(r"--column \S+=\S+")
_COLUMN = re.compile(r"'([^']*)': (\[[^\]]*\]|…|Ignored\(\))")
_LEFT = re.compile(r"(?<![\w-])([a-z]\w*)=(?!=)")


class Exit(IntEnum):
    """Exit codes of the command; ``meaning`` is shown by ``discreet --help``."""

    meaning: str

    def __new__(cls, code: int, meaning: str = "") -> Exit:
        """Make a member of a code and its meaning; ``Exit(code)`` finds one."""
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


class CommandError(Exception):
    """An error that a command found itself; its text is shown unchanged."""

    def __init__(self, text: str, code: Exit = Exit.USAGE) -> None:
        super().__init__(text)
        self.code = code


def interrupted() -> Exit:
    """Return the exit code of an interrupt: Ctrl-C or SIGTERM."""
    return Exit.TERMINATED if cli.last_signal() == signal.SIGTERM else Exit.INTERRUPTED


def is_of_system(error: OSError) -> bool:
    """Return True if the text of an error is the system's own, which quotes no data."""
    return error.errno is not None and error.strerror == os.strerror(error.errno)


def reason(error: OSError) -> str:
    """Return the reason of a failure, to follow a colon; the system's begins with a capital."""
    text = error.strerror or "cannot be read"
    return text[:1].lower() + text[1:] if is_of_system(error) else text


def as_options(text: str) -> str:
    """Return a message of the library with the options of the command for Python's keywords.

    A keyword that no option sets is said to be one of Python.
    """
    text = _IN_PYTHON.sub("", text)
    text = _COLUMNS.sub(lambda found: _declared(found[1]), text)
    text = _KINDS.sub("A column that is not to be used is declared as --column NAME=ignored.", text)
    for name, instead in _ONLY_PYTHON.items():
        text = text.replace(name, instead)
    for pattern, instead in _VALUES:
        text = pattern.sub(instead, text)
    text = _KEYWORD.sub(lambda found: " ".join(filter(None, (_OPTIONS[found[1]], found[2]))), text)
    text = _FIELD.sub(lambda found: _OPTIONS[found[0]], text)
    left = sorted(set(_LEFT.findall(_PROPOSED.sub("", text))))
    if not left:
        return text
    return f"{text} (The command has no option for {', '.join(left)}: use Python to set it.)"


def _declared(entries: str) -> str:
    """Return the options for a line of declarations that a message of the library proposes."""
    names = [found[1] for found in _COLUMN.finditer(entries)]
    return " ".join(f"--column {name}=…" for name in names or ["NAME"])
