"""The account of one fit: a budget, opened once in one measure and shared by its curators."""

from __future__ import annotations

import threading
from fractions import Fraction

from discreet.errors import PrivacyError
from discreet.privacy.accountant import Accountant
from discreet.privacy.budget import Budget
from discreet.privacy.conversions import Conversion
from discreet.privacy.filters import Measure, PrivacyFilter, Unique
from discreet.privacy.guarantee import Guarantee, tally

__all__ = ["Account"]


class Account(Unique):
    """Turns an (ε, δ) budget into filters whose totals add up to no more than it.

    A fit may run several times over the same rows (one model a class): each part opens its own
    filter for a fixed share of the budget, all in the same measure. If the caller counts fits with
    an `Accountant`, it is charged for all of the budget when the first filter opens.

    Privacy
    -------
    The shares are fixed before anything is looked at and sum to at most 1, and each measure adds
    up under adaptive composition, so all parts together keep the budget.
    """

    def __init__(self, budget: Budget, accountant: Accountant | None = None) -> None:
        self.budget = budget
        self._accountant = accountant
        self._opened: tuple[Measure, Conversion] | None = None
        self._total = Fraction(0)
        self._shares = Fraction(0)
        self._filters: list[PrivacyFilter] = []
        self._lock = threading.Lock()

    def open(
        self, measure: Measure, conversion: Conversion = "tight", share: Fraction = Fraction(1)
    ) -> PrivacyFilter:
        """Open a filter for ``share`` of the budget in ``measure``."""
        share = Fraction(share)
        with self._lock:
            if not 0 < share <= 1 - self._shares:
                raise PrivacyError(
                    f"A share of {share} does not fit: {1 - self._shares} of the budget is "
                    "unopened."
                )
            if self._opened is None:
                total = self._convert(measure, conversion)
                if self._accountant is not None:
                    self._accountant.charge(measure, total, self.budget.relation)
                self._total, self._opened = total, (measure, conversion)
            elif self._opened != (measure, conversion):
                raise PrivacyError(
                    f"This account composes in {self._opened[0]!r} ({self._opened[1]} "
                    f"conversion); a part of it cannot be opened in {measure!r} ({conversion})."
                )
            self._shares += share
            privacy_filter = PrivacyFilter(measure, self._total * share)
            self._filters.append(privacy_filter)
            return privacy_filter

    def _convert(self, measure: Measure, conversion: Conversion) -> Fraction:
        if measure == "zcdp":
            return Fraction(self.budget.to_zcdp(conversion).rho)
        if measure == "gdp":
            return Fraction(self.budget.to_gdp().mu) ** 2
        return Fraction(self.budget.epsilon)

    def guarantee(
        self,
        *,
        conditions: tuple[str, ...] = (),
        public: tuple[str, ...] = (),
        secure: bool,
        earlier_fits: int = 0,
    ) -> Guarantee:
        """What this account promises, once its filters are closed by never being used again."""
        if self._opened is None:
            raise PrivacyError("Nothing was opened on this account, so there is nothing to state.")
        measure, _ = self._opened
        total = float(self._total)
        return Guarantee(
            epsilon=self.budget.epsilon,
            delta=self.budget.delta,
            relation=self.budget.relation,
            measure=measure,
            rho=total if measure == "zcdp" else None,
            mu=total**0.5 if measure == "gdp" else None,
            conditions=conditions,
            public=public,
            secure=secure,
            earlier_fits=earlier_fits,
            mechanisms=tally(m for part in self._filters for m in part.charged),
        )
