"""The account of one fit: a budget, opened once in one measure and shared by its curators."""

from __future__ import annotations

import math
import threading
from fractions import Fraction
from typing import TypeVar

from discreet.errors import BudgetExceeded, PrivacyError
from discreet.privacy.accountant import Accountant
from discreet.privacy.budget import Budget
from discreet.privacy.conversions import Conversion
from discreet.privacy.filters import (
    Measure,
    PlannedFilter,
    PlannedStep,
    PrivacyFilter,
    Unique,
)
from discreet.privacy.guarantee import Guarantee, tally

__all__ = ["Account"]

AnyFilter = TypeVar("AnyFilter", bound=PrivacyFilter)


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
        self._plan: tuple[PlannedStep, int, Fraction] | None = None
        self._waived = False
        self._lock = threading.Lock()

    def open(
        self, measure: Measure, conversion: Conversion = "tight", share: Fraction = Fraction(1)
    ) -> PrivacyFilter:
        """Open a filter for ``share`` of the budget in ``measure``."""
        share = Fraction(share)
        with self._lock:
            self._check_share(share)
            if self._opened is None:
                total = self._convert(measure, conversion)
                self._charge_accountant(measure, total)
                self._total, self._opened = total, (measure, conversion)
            elif self._opened != (measure, conversion) or self._plan is not None:
                raise PrivacyError(
                    f"This account composes in {self._opened[0]!r} ({self._opened[1]} "
                    f"conversion); a part of it cannot be opened in {measure!r} ({conversion})."
                )
            delta = Fraction(self.budget.delta) if measure == "approximate" else Fraction(0)
            return self._add(PrivacyFilter(measure, self._total * share, delta * share), share)

    def open_plan(
        self, step: PlannedStep, count: int, share: Fraction = Fraction(1)
    ) -> PlannedFilter:
        """Open a filter for ``count`` uses of ``step``, of ``count / share`` in the whole fit."""
        share = Fraction(share)
        with self._lock:
            self._check_share(share)
            plan = (step, count, share)
            if self._opened is None:
                self._check_plan(step, math.ceil(count / share))
                self._total = Fraction(self.budget.epsilon)
                self._charge_accountant("approximate", self._total)
                self._opened = ("approximate", "tight")
                self._plan = plan
            elif self._plan != plan:
                raise PrivacyError("All parts of a planned fit must follow the same plan.")
            return self._add(PlannedFilter(step, count), share)

    def _check_plan(self, step: PlannedStep, count: int) -> None:
        if step.relation is not self.budget.relation:
            raise PrivacyError(
                f"The plan is accounted under {str(step.relation)!r}, but this budget is for "
                f"{str(self.budget.relation)!r}."
            )
        epsilon = step.epsilon(count, self.budget.delta)
        if not epsilon <= self.budget.epsilon:
            raise BudgetExceeded(
                f"{count} uses of {step!r} are ({epsilon:.6g}, {self.budget.delta:g})-DP; the "
                f"budget is ε = {self.budget.epsilon:.6g}. Nothing was spent."
            )

    def waive(self) -> None:
        """Give up all protection: the fit is a baseline, and its guarantee will say so."""
        with self._lock:
            if self._opened is not None:
                raise PrivacyError("A part of this fit was promised privacy already.")
            if self._accountant is not None:
                raise PrivacyError(
                    "This fit would not be private, so no accountant can count it. Use a private "
                    "solver, or leave accountant=None for a baseline on public data."
                )
            self._waived = True

    def _add(self, part: AnyFilter, share: Fraction) -> AnyFilter:
        self._shares += share
        self._filters.append(part)
        return part

    def _check_share(self, share: Fraction) -> None:
        if self._waived:
            raise PrivacyError("This account was waived: nothing in it is private.")
        if not 0 < share <= 1 - self._shares:
            raise PrivacyError(
                f"A share of {share} does not fit: {1 - self._shares} of the budget is unopened."
            )

    def _charge_accountant(self, measure: Measure, total: Fraction) -> None:
        if self._accountant is not None:
            delta = Fraction(self.budget.delta) if measure == "approximate" else Fraction(0)
            self._accountant.charge(measure, total, self.budget.relation, delta)

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
        if self._opened is None and not self._waived:
            raise PrivacyError("Nothing was opened on this account, so there is nothing to state.")
        measure = self._opened[0] if self._opened is not None else None
        total = float(self._total)
        return Guarantee(
            epsilon=math.inf if self._waived else self.budget.epsilon,
            delta=self.budget.delta,
            relation=self.budget.relation,
            measure=measure,
            rho=total if measure == "zcdp" else None,
            mu=total**0.5 if measure == "gdp" else None,
            conditions=conditions,
            public=public,
            secure=secure,
            earlier_fits=earlier_fits,
            mechanisms=tally(use for part in self._filters for use in part.uses),
        )
