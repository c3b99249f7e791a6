"""Exit codes that scripts can rely on, and what a person reads when a command fails."""

from __future__ import annotations

import os
import traceback
from enum import IntEnum
from pathlib import Path

import discreet
from discreet.errors import ModelFileError, PrivacyError, TableError

__all__ = ["Exit", "Problem", "explain"]


class Exit(IntEnum):
    """What the command's exit code says."""

    OK = 0
    UNEXPECTED = 1
    USAGE = 2
    DATA = 3
    PRIVACY = 4
    MODEL = 5
    REFUTED = 6
    INTERRUPTED = 130


class Problem(Exception):
    """Something is wrong that a command found out itself; its text is shown as it is."""

    def __init__(self, code: Exit, text: str) -> None:
        super().__init__(text)
        self.code = code


def explain(error: BaseException) -> tuple[Exit, str]:
    """The exit code of an error, and a text that shows no cell of any table.

    Errors of our own are written so that they quote no data. The text of any other could, so it
    is withheld unless ``DISCREET_DEBUG=1`` asks for it.
    """
    if isinstance(error, Problem):
        return error.code, str(error)
    if isinstance(error, KeyboardInterrupt):
        return Exit.INTERRUPTED, "Interrupted. Nothing was written."
    if isinstance(error, ModelFileError):
        return Exit.MODEL, str(error)
    if isinstance(error, TableError):
        return Exit.DATA, str(error)
    if isinstance(error, PrivacyError):
        return Exit.PRIVACY, str(error)
    if isinstance(error, FileNotFoundError | IsADirectoryError | PermissionError):
        return Exit.DATA, f"{error.filename}: {(error.strerror or 'cannot be read').lower()}."
    if isinstance(error, OSError) and error.strerror:
        return Exit.UNEXPECTED, f"{error.filename or 'the system'}: {error.strerror.lower()}."
    if isinstance(error, ValueError | ImportError) and _is_ours(error):
        return Exit.USAGE, str(error)
    return Exit.UNEXPECTED, _unexpected(error)


def _is_ours(error: BaseException) -> bool:
    """Whether a ``raise`` in discreet made the error, so that its text quotes no data.

    A line that calls compiled code is not enough: ``float(cell)`` would quote the cell.
    """
    last = traceback.extract_tb(error.__traceback__)[-1]
    ours = Path(last.filename).resolve().is_relative_to(Path(discreet.__file__).resolve().parent)
    return ours and (last.line or "").startswith("raise ")


def _unexpected(error: BaseException) -> str:
    if os.environ.get("DISCREET_DEBUG") == "1":
        return "".join(traceback.format_exception(error))
    last = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"Unexpected {type(error).__name__} in {os.path.basename(last.filename)}, line "
        f"{last.lineno}. Its text is withheld because it could quote the data; run again with "
        "DISCREET_DEBUG=1 to see it."
    )
