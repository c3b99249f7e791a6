"""Counting over several fits: cross-validation, a grid search, or a day's work on one table."""

from __future__ import annotations

import math
import os
import threading
import uuid
import weakref
from fractions import Fraction
from typing import Any

from discreet.errors import BudgetExceeded, PrivacyError
from discreet.privacy import conversions
from discreet.privacy.budget import Budget, Relation
from discreet.privacy.filters import Measure

__all__ = ["Accountant"]

_HERE: weakref.WeakValueDictionary[str, Accountant] = weakref.WeakValueDictionary()


class Accountant:
    """Adds up what every fit that carries it may spend, and can hold them to a limit.

    Give the same accountant to estimators that learn from the same people::

        spent = Accountant(limit=Budget(3.0, 1e-6, "add_remove"))
        search = GridSearchCV(LogisticRegression(epsilon=0.1, accountant=spent), ...)

    It is charged when a fit opens its budget: once settings and data are checked, before the
    first private answer, with all that the fit may spend. A copy made by ``clone`` or ``deepcopy``
    is the same accountant. It counts within one process, threads included; a fit in another
    process (``n_jobs=2`` with joblib's default backend) is refused rather than lost: use
    ``joblib.parallel_config(backend="threading")`` there.

    Parameters
    ----------
    limit : Budget, optional
        The most that all fits together may spend.

    Privacy
    -------
    Costs are added as zCDP (a pure ε counts as ε²/2, a Gaussian μ as μ²/2), which bounds fully
    adaptive sequences of fits. All fits must use one relation.
    """

    def __init__(self, limit: Budget | None = None) -> None:
        self.limit = limit
        self._total = None if limit is None else Fraction(limit.to_zcdp().rho)
        self._relation = None if limit is None else limit.relation
        self._rho = Fraction(0)
        self._fits = 0
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._key = uuid.uuid4().hex
        _HERE[self._key] = self

    def charge(self, measure: Measure, total: Fraction, relation: Relation) -> None:
        """Count one fit, or raise and change nothing."""
        if os.getpid() != self._process:
            raise PrivacyError(
                "This accountant counts in another process, where this fit would go unnoticed. "
                'Run with n_jobs=1 or inside joblib.parallel_config(backend="threading").'
            )
        rho = {"pure": total * total / 2, "zcdp": total, "gdp": total / 2}[measure]
        with self._lock:
            if self._relation not in (None, relation):
                raise PrivacyError(
                    f"This accountant counts fits under {str(self._relation)!r}; a fit under "
                    f"{str(relation)!r} cannot be added to them. Use one relation throughout."
                )
            if self._total is not None and self._rho + rho > self._total:
                raise BudgetExceeded(
                    f"This fit costs ρ = {float(rho):.6g}, but the accountant has only "
                    f"{float(self._total - self._rho):.6g} left. No private answer was given and "
                    "nothing was spent."
                )
            self._relation = relation
            self._rho += rho
            self._fits += 1

    @property
    def rho(self) -> float:
        """The zCDP total of all fits so far (rounded up)."""
        with self._lock:
            return math.nextafter(float(self._rho), math.inf) if self._rho else 0.0

    @property
    def fits(self) -> int:
        """How many fits were counted."""
        with self._lock:
            return self._fits

    def epsilon(self, delta: float) -> float:
        """The ε that all fits so far amount to at this δ."""
        rho = self.rho
        return conversions.epsilon_from_rho(rho, delta) if rho else 0.0

    def __copy__(self) -> Accountant:
        """The same accountant: a copy would lose count."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Accountant:
        """The same accountant: a copy would lose count."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a reference, so that a round trip inside this process keeps counting."""
        return _find, (self._key, self._process, self.limit)

    def __repr__(self) -> str:
        """Show the count and the limit."""
        return f"Accountant(limit={self.limit!r}) with {self.fits} fits, rho={self.rho:.6g}"


def _find(key: str, process: int, limit: Budget | None) -> Accountant:
    """The accountant of this process with that key, or one that refuses to be charged."""
    found = _HERE.get(key)
    if found is None:
        found = Accountant(limit)
        found._process = process if process != os.getpid() else -1
    return found
