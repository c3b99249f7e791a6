"""Privacy filters: they allow or refuse a charge before anything is looked at.

A filter holds a total in one additive measure and is charged before each private answer. A charge
that does not fit raises `BudgetExceeded` and changes nothing; one that fits is spent at once and
stays spent, whatever happens afterwards. Costs may depend on all earlier answers: that the total
still bounds the whole interaction is the filter theorem for zCDP (Feldman & Zrnic 2021; Whitehouse
et al. 2023), for Gaussian DP (Smith & Thakurta 2022; Koskela et al. 2023) and, for pure privacy,
Rogers et al. 2016. See docs/proofs/filters.md.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from discreet.accounting.budget import Measure
from discreet.accounting.profiles import Mechanism, PlannedStep
from discreet.errors import BudgetExceeded, PrivacyError
from discreet.validate import choice, integer, positive

__all__ = ["Mechanism", "PlannedFilter", "PlannedStep", "PrivacyFilter", "Unique"]

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
        The budget's δ, for the measure "approximate"; 0 in the others.

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
        if not 0 <= total_delta < 1 or (total_delta > 0 and measure != "approximate"):
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
            "zcdp": (loss.rho, 0.0),
            "gdp": (loss.mu, 0.0),
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
        if self.measure == "approximate":
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
