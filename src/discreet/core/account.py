"""The account of one fit, and the accountant that adds up several fits.

An account turns a budget into filters; it is opened once in one measure and shared by its fit's
curators. An accountant counts over fits: cross-validation, a grid search, or a day's work on one
table. Proof: docs/proofs/filters.md.
"""

from __future__ import annotations

import math
import os
import threading
import uuid
import weakref
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from discreet.accounting import conversions
from discreet.accounting.budget import Budget, Measure, Relation
from discreet.accounting.composition import Division, divide
from discreet.accounting.conversions import Conversion
from discreet.core.filters import Mechanism, PlannedFilter, PlannedStep, PrivacyFilter, Unique
from discreet.core.guarantee import Guarantee, Use
from discreet.errors import BudgetExceeded, PrivacyError
from discreet.validate import number

__all__ = ["Account", "Accountant"]

_HERE: weakref.WeakValueDictionary[str, Accountant] = weakref.WeakValueDictionary()


class Account(Unique):
    """The budget of one fit, opened as filters whose totals add up to no more than it.

    A fit may run several times over the same rows (one model per class): each part opens its own
    filter for a fixed share of the budget, all in the same measure. A part for a preparation of
    the rows may be reserved first; the models then have what is left (`models`). If the caller
    counts fits with an `Accountant`, it is charged for all of the budget when the first filter
    opens.

    Privacy
    -------
    The shares are fixed before anything is looked at and sum to at most 1, and each measure adds
    up under adaptive composition, so all parts together keep the budget. What a preparation and
    models may spend together is proven in docs/proofs/preparation.md.
    """

    def __init__(
        self, budget: Budget, accountant: Accountant | None = None, unit: str = "row"
    ) -> None:
        self.budget = budget
        self.unit = unit
        self.models = budget
        self._division: Division | None = None
        self._reserved: dict[int, PrivacyFilter] = {}
        self._reserved_parts: tuple[tuple[str, Fraction], ...] = ()
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
        """Reserve a part of the budget, once and before anything is opened; returns the rest.

        Parameters
        ----------
        parts : sequence of (name, share)
            The parts of the preparation, each opened with `open_reserved`; for the unit of a share
            see `discreet.accounting.composition.divide`.
        measures : sequence of Measure
            Measures that the models may compose in; they are held to it.
        """
        named = tuple((name, Fraction(share)) for name, share in parts)
        if any(not share > 0 for _, share in named):
            raise ValueError("each share of a preparation must be greater than 0.")
        with self._lock:
            if self._opened is not None or self._forfeited or self._division is not None:
                raise PrivacyError("A budget is divided once, before any part of it is opened.")
            total = sum((share for _, share in named), Fraction(0))
            self._division = divide(self.budget, total, measures)
            self._reserved_parts = named
            self.models = self._division.models
            return self.models

    def open_reserved(self, part: int) -> PrivacyFilter:
        """Open the filter of one part of the preparation, once and before the models."""
        with self._lock:
            division = self._division
            if division is None or not 0 <= part < len(self._reserved_parts):
                raise PrivacyError("Nothing was reserved for this part of a preparation.")
            if self._opened is not None or self._forfeited or part in self._reserved:
                raise PrivacyError("A part of a preparation is opened once, before the models.")
            self._charge_accountant()
            share = self._reserved_parts[part][1] / division.share
            opened = PrivacyFilter(division.measure, division.total * share)
            self._reserved[part] = opened
            return opened

    def open(
        self, measure: Measure, conversion: Conversion = "tight", share: Fraction = Fraction(1)
    ) -> PrivacyFilter:
        """Open a filter for ``share`` of the budget in ``measure``."""
        share = Fraction(share)
        with self._lock:
            self._check_share(share)
            if self._opened is None:
                if measure == "profile":
                    raise PrivacyError("A profile does not add up; it is opened as a plan.")
                total = self.models.total(measure, conversion)
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
            opened = PrivacyFilter(measure, self._total * share, delta * share)
            self._shares += share
            self._filters.append(opened)
            return opened

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
            opened = PlannedFilter(step, count)
            self._shares += share
            self._filters.append(opened)
            return opened

    def _check_plan(self, step: PlannedStep, count: int) -> None:
        budget, models = self.budget, self.models
        if step.relation is not budget.relation:
            raise PrivacyError(
                f"The plan is accounted under {str(step.relation)!r}, but this budget is for "
                f"{str(budget.relation)!r}."
            )
        if not hasattr(step, "profile"):
            epsilon, delta = step.epsilon(count, models.delta), models.delta
            if self._division is not None:
                self._division.check("approximate", Fraction(models.epsilon))
        elif self._division is None:
            epsilon, delta = budget.epsilon, step.profile.times(count).delta(budget.epsilon)
        else:
            self._division.check("profile", step.profile.times(count))
            return
        if not (epsilon <= models.epsilon and delta <= models.delta):
            raise BudgetExceeded(
                f"{count} uses of {step!r} are ({epsilon:.6g}, {delta:.6g})-DP; the budget is "
                f"ε = {models.epsilon:.6g}, δ = {models.delta:.6g}. Nothing was spent."
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

    def _check_share(self, share: Fraction) -> None:
        if self._forfeited:
            raise PrivacyError("This account was forfeited: nothing in it is private.")
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
        self._accountant.charge(measure, total, self.budget.relation, delta, self.unit)
        self._charged = True

    def guarantee(
        self,
        *,
        conditions: tuple[str, ...] = (),
        public: tuple[str, ...] = (),
        secure: bool,
        earlier_fits: int = 0,
        rows_per_unit: int = 1,
    ) -> Guarantee:
        """Return the promise of this account, once its filters will not be used again."""
        if self._opened is None and not self._forfeited:
            raise PrivacyError("Nothing was opened on this account, so there is nothing to state.")
        measure, exact = (self._opened[0] if self._opened else None), self._total
        split: tuple[tuple[str, float], ...] = ()
        if self._division is not None and measure is not None:
            measure, exact, reserved = self._division.stated(measure, exact)
            factor = reserved / self._division.share
            parts = [(name, float(factor * share)) for name, share in self._reserved_parts]
            split = (*parts, ("model", float(1 - reserved)))
        total = float(exact)
        counts: Counter[Mechanism] = Counter()  # equal mechanisms, in the order of their first use
        for part in (*self._reserved.values(), *self._filters):
            for mechanism, times in part.uses:
                counts[mechanism] += times
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
            mechanisms=tuple(Use(mechanism, count) for mechanism, count in counts.items()),
            split=split,
            unit=self.unit,
            rows_per_unit=rows_per_unit,
        )


class Accountant:
    """Sum of what every fit that carries it may spend; it can hold them to a limit.

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
        Share of the limit's δ that is reserved for fits whose solver composes in (ε, δ) and so
        has a δ of its own (`objpert`, `amp`, the SGD family). 0 refuses such fits under a limit.

    Privacy
    -------
    Costs are added as approximate zCDP (a pure ε counts as ε²/2, a Gaussian μ as μ²/2, an (ε, δ)
    as ε²/2 with its δ added up apart), which bounds fully adaptive sequences of fits. All fits
    must use one relation and one unit of privacy.
    """

    def __init__(self, limit: Budget | None = None, delta_share: float = 0.0) -> None:
        self.limit = limit
        self.delta_share = number("delta_share", delta_share, least=0.0, below=1.0)
        self._total = self._total_delta = None
        if limit is not None:
            self._total_delta = Fraction(limit.delta) * Fraction(self.delta_share)
            rest = float(Fraction(limit.delta) - self._total_delta)
            self._total = Fraction(replace(limit, delta=rest).to_zcdp().rho)
        self._delta = Fraction(0)
        self._relation = None if limit is None else limit.relation
        self._unit: str | None = None
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
        unit: str = "row",
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
            if self._unit not in (None, unit):
                raise PrivacyError(
                    f"This accountant counts fits that protect one {self._unit}; a fit that "
                    f"protects one {unit} cannot be added to them. Pass groups to all fits or none."
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
                    f"own, but only {float(self._total_delta - self._delta):.6g} is reserved. "
                    "Make the accountant with a larger delta_share, for example 0.5."
                )
            self._relation, self._unit = relation, unit
            self._rho += rho
            self._delta += delta
            self._fits += 1

    @property
    def rho(self) -> float:
        """Total zCDP cost of all fits so far (rounded up)."""
        with self._lock:
            return math.nextafter(float(self._rho), math.inf) if self._rho else 0.0

    @property
    def fits(self) -> int:
        """Number of fits that were counted."""
        with self._lock:
            return self._fits

    def epsilon(self, delta: float) -> float:
        """Return the ε that all fits so far amount to at this δ."""
        rho = self.rho
        with self._lock:
            rest = float(Fraction(delta) - self._delta) * (1 - 2.0**-50)
        if not rho:
            return 0.0
        if rest <= 0:
            return math.inf  # the fits' own δ add up to more
        return conversions.epsilon_from_rho(rho, rest)

    def __copy__(self) -> Accountant:
        """Return the same accountant: a copy would lose count."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Accountant:
        """Return the same accountant: a copy would lose count."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a reference, so that a round trip inside this process keeps counting."""
        return _find, (self._key, self._process, self.limit, self.delta_share)

    def __repr__(self) -> str:
        """Show the count and the limit."""
        return f"Accountant(limit={self.limit!r}) with {self.fits} fits, rho={self.rho:.6g}"


def _find(key: str, process: int, limit: Budget | None, delta_share: float) -> Accountant:
    """Return the accountant of this process with that key, or one that refuses charges."""
    found = _HERE.get(key)
    if found is None:
        found = Accountant(limit, delta_share)
        found._process = process if process != os.getpid() else -1
    return found
