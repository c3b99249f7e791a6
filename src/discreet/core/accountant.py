"""Counting over several fits: cross-validation, a grid search, or a day's work on one table."""

from __future__ import annotations

import math
import os
import threading
import uuid
import weakref
from dataclasses import replace
from fractions import Fraction
from typing import Any

from discreet.accounting import conversions
from discreet.accounting.budget import Budget, Measure, Relation
from discreet.errors import BudgetExceeded, PrivacyError

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
    delta_share : float
        Share of the limit's δ that is set aside for fits whose solver composes in (ε, δ) and so
        has a δ of its own (`objpert`, `amp`, the SGD family). 0 refuses such fits under a limit.

    Privacy
    -------
    Costs are added as approximate zCDP (a pure ε counts as ε²/2, a Gaussian μ as μ²/2, an (ε, δ)
    as ε²/2 with its δ added up apart), which bounds fully adaptive sequences of fits. All fits
    must use one relation.
    """

    def __init__(self, limit: Budget | None = None, delta_share: float = 0.0) -> None:
        if not 0 <= delta_share < 1:
            raise ValueError(f"delta_share must be in [0, 1); got {delta_share!r}.")
        self.limit = limit
        self.delta_share = float(delta_share)
        self._total = self._total_delta = None
        if limit is not None:
            self._total_delta = Fraction(limit.delta) * Fraction(self.delta_share)
            rest = float(Fraction(limit.delta) - self._total_delta)
            self._total = Fraction(replace(limit, delta=rest).to_zcdp().rho)
        self._delta = Fraction(0)
        self._relation = None if limit is None else limit.relation
        self._rho = Fraction(0)
        self._fits = 0
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._key = uuid.uuid4().hex
        _HERE[self._key] = self

    def charge(
        self,
        measure: Measure,
        total: Fraction,
        relation: Relation,
        delta: Fraction = Fraction(0),
    ) -> None:
        """Count one fit, or raise and change nothing."""
        if os.getpid() != self._process:
            raise PrivacyError(
                "This accountant counts in another process, where this fit would go unnoticed. "
                'Run with n_jobs=1 or inside joblib.parallel_config(backend="threading").'
            )
        squared = total * total / 2
        rho = {"pure": squared, "approximate": squared, "zcdp": total, "gdp": total / 2}[measure]
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
            if self._total_delta is not None and self._delta + delta > self._total_delta:
                raise BudgetExceeded(
                    f"This fit's solver composes in (ε, δ) and needs δ = {float(delta):.6g} of its "
                    f"own, but only {float(self._total_delta - self._delta):.6g} is set aside. "
                    "Make the accountant with a larger delta_share, for example 0.5."
                )
            self._relation = relation
            self._rho += rho
            self._delta += delta
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
        with self._lock:
            rest = float(Fraction(delta) - self._delta) * (1 - 2.0**-50)
        if not rho:
            return 0.0
        if rest <= 0:
            return math.inf  # the fits' own δ add up to more
        return conversions.epsilon_from_rho(rho, rest)

    def __copy__(self) -> Accountant:
        """The same accountant: a copy would lose count."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Accountant:
        """The same accountant: a copy would lose count."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a reference, so that a round trip inside this process keeps counting."""
        return _find, (self._key, self._process, self.limit, self.delta_share)

    def __repr__(self) -> str:
        """Show the count and the limit."""
        return f"Accountant(limit={self.limit!r}) with {self.fits} fits, rho={self.rho:.6g}"


def _find(key: str, process: int, limit: Budget | None, delta_share: float) -> Accountant:
    """The accountant of this process with that key, or one that refuses to be charged."""
    found = _HERE.get(key)
    if found is None:
        found = Accountant(limit, delta_share)
        found._process = process if process != os.getpid() else -1
    return found
