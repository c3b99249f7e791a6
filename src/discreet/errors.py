"""Everything discreet raises or warns with, in one place."""

__all__ = [
    "BudgetExceeded",
    "ModelFileError",
    "NotSupported",
    "PrivacyError",
    "PrivacyLeakWarning",
    "TableError",
]


class PrivacyError(Exception):
    """A privacy claim would not hold, so nothing was done."""


class BudgetExceeded(PrivacyError):
    """A request costs more than what is left of the budget; it was not answered."""


class NotSupported(PrivacyError):
    """A combination that has no sound answer here (the message names one that does)."""


class PrivacyLeakWarning(UserWarning):
    """Something that depends on the data, or on a fixed seed, was used outside the budget."""


class TableError(ValueError):
    """A file or table does not match its schema; the text names the column, never a cell."""


class ModelFileError(ValueError):
    """A model file is damaged, of another kind, or newer than this version reads."""
