"""Exceptions and warnings of discreet.

No message shows a value of a row. Bad arguments raise ``ValueError``. ``exit_code`` is the code
with which the command ``discreet``, or a job, ends after the error; docs/command.md has the table.
"""

__all__ = [
    "BudgetExceeded",
    "EngineError",
    "LedgerError",
    "ModelFileError",
    "NotSupported",
    "PrivacyError",
    "PrivacyLeakWarning",
    "TableError",
]


class PrivacyError(Exception):
    """A privacy guarantee would not hold, so nothing was done."""

    exit_code = 4


class BudgetExceeded(PrivacyError):
    """A request costs more than the remaining budget; it was not answered."""


class NotSupported(PrivacyError):
    """A combination without a proven guarantee (the message names one that has a proof)."""


class LedgerError(PrivacyError):
    """A ledger cannot be read, written or trusted, so nothing was charged to it."""

    exit_code = 7


class AveragedCellsWarning(UserWarning):
    """Cells of new rows were scored as the average: the fit could not determine their weights."""


class PrivacyLeakWarning(UserWarning):
    """Something that depends on the data, or on a fixed seed, was used outside the budget."""


class TableError(ValueError):
    """A file or table does not match its schema; the message names the column, never a cell."""

    exit_code = 3


class ModelFileError(ValueError):
    """A model file is damaged, of another kind, or newer than this version reads."""

    exit_code = 5


class EngineError(RuntimeError):
    """A cluster gave no answer; nothing was released, and what was charged stays spent."""

    exit_code = 1
