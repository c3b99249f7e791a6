"""The account of one fit: a budget, opened once in one measure and shared by its curators."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeVar

from discreet.accounting.budget import Budget, Measure
from discreet.accounting.composition import Division, divide
from discreet.accounting.conversions import Conversion
from discreet.accounting.profiles import Profile
from discreet.core.accountant import Accountant
from discreet.core.filters import PlannedFilter, PlannedStep, PrivacyFilter, Unique
from discreet.core.guarantee import Guarantee, tally
from discreet.errors import BudgetExceeded, PrivacyError

__all__ = ["Account"]

AnyFilter = TypeVar("AnyFilter", bound=PrivacyFilter)


class Account(Unique):
    """Turns an (ε, δ) budget into filters whose totals add up to no more than it.

    A fit may run several times over the same rows (one model a class): each part opens its own
    filter for a fixed share of the budget, all in the same measure. A preparation of the rows may
    be set aside first; the models then have what is left (`models`). If the caller counts fits
    with an `Accountant`, it is charged for all of the budget when the first filter opens.

    Privacy
    -------
    The shares are fixed before anything is looked at and sum to at most 1, and each measure adds
    up under adaptive composition, so all parts together keep the budget. What a preparation and
    models may spend together is proven in docs/proofs/preparation.md.
    """

    def __init__(self, budget: Budget, accountant: Accountant | None = None) -> None:
        self.budget = budget
        self.models = budget
        self._division: Division | None = None
        self._aside: dict[int, PrivacyFilter] = {}
        self._aside_parts: tuple[tuple[str, Fraction], ...] = ()
        self._charged = False
        self._accountant = accountant
        self._opened: tuple[Measure, Conversion] | None = None
        self._total = Fraction(0)
        self._shares = Fraction(0)
        self._filters: list[PrivacyFilter] = []
        self._plan: tuple[PlannedStep, int, Fraction] | None = None
        self._forfeited = False
        self._lock = threading.Lock()

    def reserve(self, parts: Sequence[tuple[str, float]], measures: Sequence[Measure]) -> Budget:
        """Divide the budget, once and before anything is opened; returns what the models have.

        Parameters
        ----------
        parts : sequence of (name, share)
            The parts of the preparation, each opened with `open_reserved`; what a share is of, says
            `discreet.accounting.composition.divide`.
        measures : sequence of Measure
            In which the models may compose; they are held to it.
        """
        named = tuple((name, Fraction(share)) for name, share in parts)
        if any(not share > 0 for _, share in named):
            raise ValueError("each share of a preparation must be greater than 0.")
        with self._lock:
            if self._opened is not None or self._forfeited or self._division is not None:
                raise PrivacyError("A budget is divided once, before any part of it is opened.")
            total = sum((share for _, share in named), Fraction(0))
            self._division = divide(self.budget, total, measures)
            self._aside_parts = named
            self.models = self._division.models
            return self.models

    def open_reserved(self, part: int) -> PrivacyFilter:
        """Open the filter of one part of the preparation, once and before the models."""
        with self._lock:
            division = self._division
            if division is None or not 0 <= part < len(self._aside_parts):
                raise PrivacyError("Nothing was set aside for this part of a preparation.")
            if self._opened is not None or self._forfeited or part in self._aside:
                raise PrivacyError("A part of a preparation is opened once, before the models.")
            self._charge_accountant()
            share = self._aside_parts[part][1] / division.share
            opened = PrivacyFilter(division.measure, division.total * share)
            self._aside[part] = opened
            return opened

    def open(
        self, measure: Measure, conversion: Conversion = "tight", share: Fraction = Fraction(1)
    ) -> PrivacyFilter:
        """Open a filter for ``share`` of the budget in ``measure``."""
        share = Fraction(share)
        with self._lock:
            self._check_share(share)
            if self._opened is None:
                total = self._convert(measure, conversion)
                if self._division is not None:
                    self._division.check(measure, total)
                self._charge_accountant(measure, total)
                self._total, self._opened = total, (measure, conversion)
            elif self._opened != (measure, conversion) or self._plan is not None:
                raise PrivacyError(
                    f"This account composes in {self._opened[0]!r} ({self._opened[1]} "
                    f"conversion); a part of it cannot be opened in {measure!r} ({conversion})."
                )
            delta = Fraction(self.models.delta) if measure == "approximate" else Fraction(0)
            return self._add(PrivacyFilter(measure, self._total * share, delta * share), share)

    def open_plan(
        self, step: PlannedStep, count: int, share: Fraction = Fraction(1)
    ) -> PlannedFilter:
        """Open a filter for ``count`` uses of ``step``, of ``count / share`` in the whole fit.

        Privacy
        -------
        A step with a profile is composed with the preparation here, before it opens. That holds
        for a plan that does not depend on what the preparation released: solvers are given
        nothing of it before they open (docs/proofs/preparation.md).
        """
        share = Fraction(share)
        with self._lock:
            self._check_share(share)
            plan = (step, count, share)
            if self._opened is None:
                self._check_plan(step, math.ceil(count / share))
                self._total = Fraction(self.models.epsilon)
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
        if hasattr(step, "profile"):
            self._check_profile(step.profile.times(count))
            return
        epsilon = step.epsilon(count, self.models.delta)
        if not epsilon <= self.models.epsilon:
            raise BudgetExceeded(
                f"{count} uses of {step!r} are ({epsilon:.6g}, {self.models.delta:g})-DP; the "
                f"budget is ε = {self.models.epsilon:.6g}. Nothing was spent."
            )
        if self._division is not None:
            self._division.check("approximate", Fraction(self.models.epsilon))

    def _check_profile(self, models: Profile) -> None:
        if self._division is not None:
            self._division.check_profile(models)
            return
        delta = models.delta(self.budget.epsilon)
        if not delta <= self.budget.delta:
            raise BudgetExceeded(
                f"This plan is ({self.budget.epsilon:.6g}, {delta:.6g})-DP; the budget's δ is "
                f"{self.budget.delta:.6g}. Nothing was spent."
            )

    def forfeit(self) -> None:
        """Give up all protection: the fit is a baseline, and its guarantee will say so."""
        with self._lock:
            if self._opened is not None or self._division is not None:
                raise PrivacyError("A part of this fit was promised privacy already.")
            if self._accountant is not None:
                raise PrivacyError(
                    "This fit would not be private, so no accountant can count it. Use a private "
                    "solver, or leave accountant=None for a baseline on public data."
                )
            self._forfeited = True

    def _add(self, part: AnyFilter, share: Fraction) -> AnyFilter:
        self._shares += share
        self._filters.append(part)
        return part

    def _check_share(self, share: Fraction) -> None:
        if self._forfeited:
            raise PrivacyError("This account was waived: nothing in it is private.")
        if not 0 < share <= 1 - self._shares:
            raise PrivacyError(
                f"A share of {share} does not fit: {1 - self._shares} of the budget is unopened."
            )

    def _charge_accountant(
        self, measure: Measure = "approximate", total: Fraction = Fraction(0)
    ) -> None:
        """Charge the whole fit, once; with a preparation, what the division says it costs."""
        if self._accountant is None or self._charged:
            return
        delta = Fraction(self.budget.delta) if measure == "approximate" else Fraction(0)
        if self._division is not None:
            measure, total, delta = self._division.charge()
        self._accountant.charge(measure, total, self.budget.relation, delta)
        self._charged = True

    def _convert(self, measure: Measure, conversion: Conversion) -> Fraction:
        if measure == "profile":
            raise PrivacyError("A profile does not add up; it is opened as a plan.")
        if measure == "zcdp":
            return Fraction(self.models.to_zcdp(conversion).rho)
        if measure == "gdp":
            return Fraction(self.models.to_gdp().mu) ** 2
        return Fraction(self.models.epsilon)

    def _stated(self) -> tuple[Measure | None, Fraction]:
        """The measure that holds for all parts together, and their total in it."""
        if self._opened is None:
            return None, Fraction(0)
        measure, division = self._opened[0], self._division
        if division is None:
            return measure, self._total
        if measure == "zcdp":
            return measure, division.preparation_rho + self._total
        if measure == "gdp" or self.budget.pure:
            return measure, division.total + self._total
        return "approximate", Fraction(self.budget.epsilon)

    def _split(self) -> tuple[tuple[str, float], ...]:
        """The parts of the budget by name; none if it was not divided.

        Shares of what adds up (ρ, μ², or ε of a pure budget); where nothing does, of what was
        asked for: μ² before models with a profile, else ε.
        """
        division = self._division
        if division is None:
            return ()
        measure, whole = self._stated()
        aside = division.share
        if measure == "zcdp":
            aside = division.preparation_rho / whole
        elif measure == "gdp" or self.budget.pure:
            aside = division.total / whole
        parts = tuple(
            (name, float(aside * share / division.share)) for name, share in self._aside_parts
        )
        return (*parts, ("model", float(1 - aside)))

    def guarantee(
        self,
        *,
        conditions: tuple[str, ...] = (),
        public: tuple[str, ...] = (),
        secure: bool,
        earlier_fits: int = 0,
    ) -> Guarantee:
        """What this account promises, once its filters are closed by never being used again."""
        if self._opened is None and not self._forfeited:
            raise PrivacyError("Nothing was opened on this account, so there is nothing to state.")
        measure, exact = self._stated()
        total = float(exact)
        return Guarantee(
            epsilon=math.inf if self._forfeited else self.budget.epsilon,
            delta=self.budget.delta,
            relation=self.budget.relation,
            measure=measure,
            rho=total if measure == "zcdp" else None,
            mu=total**0.5 if measure == "gdp" else None,
            conditions=conditions,
            public=public,
            secure=secure,
            earlier_fits=earlier_fits,
            mechanisms=tally(
                use for part in (*self._aside.values(), *self._filters) for use in part.uses
            ),
            split=self._split(),
        )
