"""Exceptions and warnings of discreet.

No message shows a value of a row. Bad arguments raise ``ValueError``.
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


class BudgetExceeded(PrivacyError):
    """A request costs more than the remaining budget; it was not answered."""


class NotSupported(PrivacyError):
    """A combination without a proven guarantee (the message names one that has a proof)."""


class LedgerError(PrivacyError):
    """A ledger cannot be read, written or trusted, so nothing was charged to it."""


class AveragedCellsWarning(UserWarning):
    """Cells of new rows were scored as the average: the fit could not determine their weights."""


class PrivacyLeakWarning(UserWarning):
    """Something that depends on the data, or on a fixed seed, was used outside the budget."""


class TableError(ValueError):
    """A file or table does not match its schema; the message names the column, never a cell."""


class ModelFileError(ValueError):
    """A model file is damaged, of another kind, or newer than this version reads."""


class EngineError(RuntimeError):
    """A cluster gave no answer; nothing was released, and what was charged stays spent."""
