"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CheckResult"]


@dataclass(frozen=True)
class CheckResult:
    """What one check saw.

    Attributes
    ----------
    check
        What was checked.
    passed
        Whether nothing was found wrong.
    words
        What was seen and, if the check failed, what it means.
    """

    check: str
    passed: bool
    words: str

    def __str__(self) -> str:
        """One line."""
        return f"{'passed' if self.passed else 'FAILED'}: {self.check}: {self.words}"
