"""Privacy filters, and the account of one fit that opens them.

A filter holds a total in one additive measure and is charged before each private answer. A charge
that does not fit raises `BudgetExceeded` and changes nothing; one that fits is spent at once and
stays spent, whatever happens afterwards. Costs may depend on all earlier answers: that the total
still bounds the whole interaction is the filter theorem for zCDP (Feldman & Zrnic 2021; Whitehouse
et al. 2023), for Gaussian DP (Smith & Thakurta 2022; Koskela et al. 2023) and, for pure privacy,
Rogers et al. 2016.

An account turns a budget into filters; it is opened once in one measure and shared by its fit's
curators. What several fits spend together is counted by a ledger, which an account charges before
it opens its first filter. Proof: docs/proofs/filters.md.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final, Protocol

from discreet.accounting.budget import Budget, Measure
from discreet.accounting.composition import Division
from discreet.accounting.conversions import Conversion
from discreet.accounting.profiles import Mechanism, PlannedStep
from discreet.core.guarantee import Guarantee
from discreet.errors import BudgetExceeded, PrivacyError
from discreet.guarantee_file import Use
from discreet.validate import choice, integer, positive

__all__ = [
    "Account",
    "AccountPart",
    "Charge",
    "Chargeable",
    "Mechanism",
    "PlannedFilter",
    "PlannedStep",
    "PrivacyFilter",
    "Unique",
]

_FIRST = -1  # number of the part that is opened before all others
_UNITS: dict[str, str] = {"pure": "ε", "approximate": "ε", "zcdp": "ρ", "gdp": "μ²"}


class Unique:
    """Base of objects that cannot be copied: a copy could spend the same budget again."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Refuse to be copied or pickled."""
        raise PrivacyError(
            f"A {type(self).__name__} cannot be copied or pickled: both copies could spend its "
            "budget."
        )


class PrivacyFilter(Unique):
    """A budget that is checked before it is spent; safe to share between threads.

    Parameters
    ----------
    measure : {"pure", "approximate", "zcdp", "gdp"}
        Measure of the sum: ε, (ε, δ), ρ, or μ².
    total : Fraction or float
        The budget in that measure's unit (μ², not μ, for Gaussian DP).
    total_delta : Fraction or float
        The budget's δ, for the measure "approximate", and for events but for which a mechanism is
        Gaussian DP; 0 in the other measures.

    Privacy
    -------
    The sum of all charges that ever succeeded is at most ``total`` (and the sum of their δ at most
    ``total_delta``), exactly: sums are rational numbers, so no rounding can let a sequence of small
    charges through.

    Attributes
    ----------
    uses
        Every charge, in order: the mechanism and the number of its uses.
    """

    def __init__(
        self, measure: Measure, total: Fraction | float, total_delta: Fraction | float = Fraction(0)
    ) -> None:
        choice("measure", measure, _UNITS)
        positive("total", total)
        if not 0 <= total_delta < 1 or (total_delta > 0 and measure not in ("approximate", "gdp")):
            raise ValueError(f"a filter in {measure!r} cannot have a δ of {total_delta!r}.")
        self.measure = measure
        self.total = Fraction(total)
        self.total_delta = Fraction(total_delta)
        self._spent = Fraction(0)
        self._spent_delta = Fraction(0)
        self._lock = threading.Lock()
        self.uses: list[tuple[Mechanism, int]] = []
        self._closed = False

    def cost(self, mechanism: Mechanism) -> tuple[Fraction, Fraction]:
        """Return the cost of one use of ``mechanism`` in this filter's unit, and its δ."""
        loss = mechanism.loss
        pure = loss.epsilon if loss.delta == 0 else math.inf
        value, delta = {
            "pure": (pure, 0.0),
            "approximate": (loss.epsilon, loss.delta),
            "zcdp": (loss.rho, loss.delta),
            "gdp": (loss.mu, loss.delta),
        }[self.measure]
        if not (math.isfinite(value) and value >= 0 and 0 <= delta < 1):
            raise PrivacyError(
                f"{mechanism!r} has no guarantee in the measure {self.measure!r} "
                "of this filter, so it cannot be charged to it."
            )
        exact = Fraction(value)
        return (exact * exact if self.measure == "gdp" else exact), Fraction(delta)

    def charge(self, mechanism: Mechanism, times: int = 1) -> None:
        """Spend the cost of ``times`` uses, or raise `BudgetExceeded` and change nothing."""
        self.charge_all([(mechanism, times)])

    def charge_all(self, uses: Sequence[tuple[Mechanism, int]]) -> None:
        """Spend the cost of all uses, or raise `BudgetExceeded` and change nothing."""
        cost = delta = Fraction(0)
        for mechanism, times in uses:
            cost_of_one, delta_of_one = self.cost(mechanism)
            cost += integer("times", times) * cost_of_one
            delta += times * delta_of_one
        with self._lock:
            if self._closed:
                raise PrivacyError("This filter was closed; nothing can be charged to it.")
            spent, spent_delta = self._spent + cost, self._spent_delta + delta
            if spent > self.total or spent_delta > self.total_delta:
                raise BudgetExceeded(self._refusal(cost, delta))
            self._spent, self._spent_delta = spent, spent_delta
            self.uses.extend(uses)

    def close(self) -> bool:
        """Refuse all further charges; returns True if there never was one."""
        with self._lock:
            self._closed = True
            return not self.uses

    def _refusal(self, cost: Fraction, delta: Fraction) -> str:
        of_delta = ""
        if self.measure == "approximate" or delta:
            left = float(self.total_delta - self._spent_delta)
            of_delta = f" (and δ = {float(delta):.6g} of {left:.6g})"
        return (
            f"This request costs {_UNITS[self.measure]} = {float(cost):.6g}, but only "
            f"{float(self.total - self._spent):.6g} of {float(self.total):.6g} is left{of_delta}. "
            "It was not answered and nothing was spent."
        )

    @property
    def spent_share(self) -> float:
        """Charges so far as a share of the total."""
        with self._lock:
            return float(self._spent / self.total)


class PlannedFilter(PrivacyFilter):
    """A budget that was spent in advance on at most ``count`` uses of one mechanism.

    Privacy
    -------
    Only the planned mechanism can be charged, and no more often than planned: whatever the answers
    were, what was run is a prefix of the plan, whose cost the account checked before it opened.
    """

    def __init__(self, step: PlannedStep, count: int) -> None:
        super().__init__("approximate", Fraction(count))
        self.step = step

    def cost(self, mechanism: Mechanism) -> tuple[Fraction, Fraction]:
        """Return the cost of one of the planned uses."""
        if mechanism != self.step:
            raise PrivacyError(
                f"{mechanism!r} is not what this budget was planned for ({self.step!r})."
            )
        return Fraction(1), Fraction(0)

    def _refusal(self, cost: Fraction, delta: Fraction) -> str:
        return (
            f"All {self.total} planned uses of {self.step!r} are spent. The request was not "
            "answered."
        )


# ---- the account


class Charge(Protocol):
    """A charge that was written down before anything was read."""

    def confirm(self) -> None:
        """Note that the release took place."""

    def give_back(self) -> None:
        """Return what was charged: nothing was read."""


class Chargeable(Protocol):
    """Something that counts over fits and is charged before the rows are read: a ledger."""

    def charge(
        self, measure: Measure, total: Fraction, delta: Fraction, budget: Budget, unit: str
    ) -> Charge:
        """Write a charge down durably, or raise and change nothing."""


class Account(Unique):
    """The budget of one fit, opened as filters whose totals add up to no more than it.

    A fit may run several times over the same rows (one model per class): each part opens its own
    filter for a fixed share of the budget, all in the same measure. A part for a preparation of
    the rows may be reserved first; the models then have what is left (`models`). If the caller
    counts fits with a ledger, it is charged for all of the budget before the first filter opens.

    Privacy
    -------
    The shares are fixed before anything is looked at and sum to at most 1, and each measure adds
    up under adaptive composition, so all parts together keep the budget. What a preparation and
    models may spend together is proven in docs/proofs/preparation.md.
    """

    def __init__(self, budget: Budget, ledger: Chargeable | None = None, unit: str = "row") -> None:
        self.budget = budget
        self.unit = unit
        self.models = budget
        self._first: Division | None = None
        self._division: Division | None = None
        self._reserved: dict[int, PrivacyFilter] = {}
        self._ledger = ledger
        self._charge: Charge | None = None
        self._confirmed = False
        self._opened: tuple[Measure, Conversion] | None = None
        self._total = Fraction(0)
        self._shares = Fraction(0)
        self._filters: list[PrivacyFilter] = []
        self._plan: tuple[PlannedStep, int, Fraction] | None = None
        self._forfeited = False
        self._abandoned = False
        self._lock = threading.Lock()

    def open_first(self, division: Division, delta: Fraction) -> PrivacyFilter:
        """Open a filter for what is released before anything else of the fit is chosen.

        It is in Gaussian DP, for all parts of ``division``, and has ``delta`` for events but for
        which they are; the division is one of what is left of the budget. From then on the account
        has the budget of the division's models, all of it in Gaussian DP.

        Privacy
        -------
        What follows may depend on what is released first: in Gaussian DP, μ² adds up whatever is
        chosen later. The division is verified here. Proof: docs/proofs/histogram.md.
        """
        whole = division.whole
        with self._lock:
            if self._opened is not None or self._forfeited or self._abandoned:
                raise PrivacyError("The first part of a budget is opened before any other.")
            if self._first is not None or self._division is not None:
                raise PrivacyError("The first part of a budget is opened once.")
            sound = division.measures == ("gdp",) and delta >= 0
            sound = sound and whole.relation is self.budget.relation
            sound = sound and whole.epsilon <= self.budget.epsilon
            if not sound or Fraction(whole.delta) + delta > Fraction(self.budget.delta):
                raise PrivacyError(
                    f"This is a division of {whole} in {division.measures}, which does not leave "
                    f"δ = {float(delta):g} of {self.budget}. Divide the rest in Gaussian DP."
                )
            division.verify()
            self._charge_ledger("approximate", Fraction(self.budget.epsilon))
            opened = PrivacyFilter("gdp", division.total, delta)
            self._first = division
            self._reserved[_FIRST] = opened
            self.models = division.models
            return opened

    def reserve(self, division: Division) -> Budget:
        """Reserve the preparation's parts of a division of this budget; returns the models' budget.

        It is done once and before anything is opened. Each part is opened with `open_reserved`;
        the models are held to the measures of the division.

        Privacy
        -------
        The division is verified here, whoever made it: its parts together keep this budget.
        """
        with self._lock:
            if self._opened is not None or self._forfeited or self._division is not None:
                raise PrivacyError("A budget is divided once, before any part of it is opened.")
            if division.whole != self.models:
                raise PrivacyError(
                    f"This is a division of {division.whole}, but the account holds {self.models}. "
                    "Divide the budget of the account."
                )
            if self._first is not None and division.measures != ("gdp",):
                raise PrivacyError("What follows a first part composes in Gaussian DP alone.")
            division.verify()
            self._division = division
            self.models = division.models
            return self.models

    def open_reserved(self, part: int) -> PrivacyFilter:
        """Open the filter of one part of the preparation, once and before the models."""
        with self._lock:
            division = self._division
            if division is None or self._abandoned or not 0 <= part < len(division.parts):
                raise PrivacyError("Nothing was reserved for this part of a preparation.")
            if self._opened is not None or self._forfeited or part in self._reserved:
                raise PrivacyError("A part of a preparation is opened once, before the models.")
            self._charge_ledger()
            opened = PrivacyFilter(division.measure, division.total_of(part))
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
                if self._first is not None and measure != "gdp":
                    raise PrivacyError("What follows a first part composes in Gaussian DP alone.")
                total = self.models.total(measure, conversion)
                if self._division is not None:
                    self._division.check(measure, total)
                self._charge_ledger(measure, total)
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
                self._charge_ledger("approximate", self._total)
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
        if self._first is not None:
            raise PrivacyError("What follows a first part composes in Gaussian DP alone.")
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
            if self._opened is not None or self._division is not None or self._first is not None:
                raise PrivacyError("A part of this fit was promised privacy already.")
            if self._ledger is not None:
                raise PrivacyError(
                    "This fit would not be private, so no ledger can count it. Use a private "
                    "solver, or leave ledger=None for a baseline on public data."
                )
            self._forfeited = True

    def _check_share(self, share: Fraction) -> None:
        if self._forfeited:
            raise PrivacyError("This account was forfeited: nothing in it is private.")
        if not 0 < share <= 1 - self._shares:
            raise PrivacyError(
                f"A share of {share} does not fit: {1 - self._shares} of the budget is unopened."
            )

    def _charge_ledger(
        self, measure: Measure = "approximate", total: Fraction = Fraction(0)
    ) -> None:
        """Charge the whole fit, once; with a preparation, what the division says it costs."""
        if self._ledger is None or self._charge is not None:
            return
        delta = Fraction(self.budget.delta) if measure == "approximate" else Fraction(0)
        if self._division is not None:
            measure, total, delta = self._division.charge()
        self._charge = self._ledger.charge(measure, total, delta, self.budget, self.unit)

    @property
    def charge(self) -> Charge | None:
        """The ledger's charge for this fit, once there is one."""
        return self._charge

    def confirm(self) -> None:
        """Confirm the ledger's charge, once: what it paid for is about to be released."""
        with self._lock:
            first, self._confirmed = not self._confirmed, True
        if self._charge is not None and first:
            self._charge.confirm()

    def abandon(self) -> None:
        """End a fit that failed: what the ledger was charged is returned if no row was read.

        Privacy
        -------
        Every read is charged to a filter of this account first. All filters are closed for good;
        only if none of them was ever charged is the ledger's charge given back.
        """
        with self._lock:
            self._shares = Fraction(1)
            unread = [each.close() for each in (*self._reserved.values(), *self._filters)]
            self._abandoned = True
            returned = self._charge is not None and all(unread) and not self._confirmed
            self._confirmed = True
        if self._charge is not None and returned:
            self._charge.give_back()

    def guarantee(
        self,
        *,
        conditions: tuple[str, ...] = (),
        public: tuple[str, ...] = (),
        secure: bool,
        earlier_fits: int = 0,
        rows_per_unit: int = 1,
        n_units: int | None = None,
    ) -> Guarantee:
        """Return the promise of this account, once its filters will not be used again.

        The ledger's charge is confirmed.
        """
        if self._opened is None and not self._forfeited:
            raise PrivacyError("Nothing was opened on this account, so there is nothing to state.")
        if self._ledger is not None:
            self.confirm()
        measure, exact = (self._opened[0] if self._opened else None), self._total
        split: tuple[tuple[str, float], ...] = ()
        if self._division is not None and measure is not None:
            measure, exact, reserved = self._division.stated(measure, exact)
            factor = reserved / self._division.share
            parts = [(name, float(factor * share)) for name, share in self._division.parts]
            split = (*parts, ("model", float(1 - reserved)))
        if self._first is not None and self._opened is not None:
            _, exact, reserved = self._first.stated("gdp", exact)
            factor = reserved / self._first.share
            first = [(name, float(factor * share)) for name, share in self._first.parts]
            rest = split or (("model", 1.0),)
            split = (*first, *((name, float(1 - reserved) * share) for name, share in rest))
            measure = "approximate"  # Gaussian DP holds but for the δ of the first part
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
            n_units=n_units,
        )


class AccountPart(Unique):
    """A share of an account that is opened once, and then charged for each answer.

    Attributes
    ----------
    relation
        Relation that every answer is protected under.
    n_models
        Number of equal shares of the account: one for each model of a fit.
    """

    def __init__(self, account: Account, share: Fraction) -> None:
        self._account = account
        self._share = share
        self._filter: PrivacyFilter | None = None
        self.relation: Final = account.budget.relation
        self.n_models: Final = int(1 / share)

    @property
    def budget(self) -> Budget:
        """Budget of all models of the fit: that of the account, without what was reserved."""
        return self._account.models

    @property
    def spent_share(self) -> float:
        """Share of this part that is spent; a function of earlier answers only."""
        return 0.0 if self._filter is None else self._filter.spent_share

    def open(self, measure: Measure, conversion: Conversion = "tight") -> float:
        """Choose, once, the measure to compose in; returns the total in its unit."""
        self._refuse_opened()
        self._filter = self._account.open(measure, conversion, self._share)
        return float(self._filter.total)

    def open_plan(self, step: PlannedStep, count: int) -> None:
        """Spend this part on at most ``count`` uses of one mechanism, nothing else.

        For mechanisms that only compose well as a whole (amplification by sampling): the account
        checks that all models' steps together keep the budget before it opens.
        """
        self._refuse_opened()
        self._filter = self._account.open_plan(step, count, self._share)

    def open_first(self, division: Division, delta: Fraction) -> None:
        """Open the parts of a division before anything else is; see `Account.open_first`."""
        self._refuse_opened()
        self._filter = self._account.open_first(division, delta)

    def open_reserved(self, part: int) -> tuple[Measure, Fraction]:
        """Open a part of the budget that was reserved; returns its measure and total."""
        self._refuse_opened()
        self._filter = self._account.open_reserved(part)
        return self._filter.measure, self._filter.total

    def _refuse_opened(self) -> None:
        if self._filter is not None:
            raise PrivacyError("This curator's budget is already open.")

    def _charge(self, *uses: tuple[Mechanism, int]) -> None:
        """Charge the filter for all uses of mechanisms, or raise and change nothing."""
        if self._filter is None:
            raise PrivacyError("Call curator.open(measure) before asking for private answers.")
        self._filter.charge_all(uses)
