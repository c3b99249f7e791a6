"""Privacy filters: they answer yes or no before anything is looked at.

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
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, Protocol

from discreet.errors import BudgetExceeded, PrivacyError

__all__ = ["Measure", "Mechanism", "PrivacyFilter", "PrivacyLoss", "Unique"]

Measure = Literal["pure", "zcdp", "gdp"]

_UNITS: dict[Measure, str] = {"pure": "ε", "zcdp": "ρ", "gdp": "μ²"}


@dataclass(frozen=True)
class PrivacyLoss:
    """What one use of a mechanism costs in each measure (``inf``: no guarantee in that measure)."""

    epsilon: float
    rho: float
    mu: float


class Mechanism(Protocol):
    """Anything a filter can be charged for."""

    @property
    def name(self) -> str:
        """What it is called in a guarantee."""
        ...

    @property
    def loss(self) -> PrivacyLoss:
        """What one use costs."""
        ...

    def event(self) -> Any:
        """The same as a `dp_accounting` event."""
        ...


class Unique:
    """Something that must not exist twice, because a copy could spend the same budget again."""

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
    measure : {"pure", "zcdp", "gdp"}
        What is added up: ε, ρ, or μ².
    total : Fraction or float
        The budget in that measure's unit (μ², not μ, for Gaussian DP).

    Privacy
    -------
    The sum of all charges that ever succeeded is at most ``total``, exactly: sums are rational
    numbers, so no rounding can let a sequence of small charges through.
    """

    def __init__(self, measure: Measure, total: Fraction | float) -> None:
        if measure not in _UNITS:
            raise ValueError(f"measure must be one of {sorted(_UNITS)}; got {measure!r}.")
        if not (math.isfinite(total) and total > 0):
            raise ValueError(f"the total of a filter must be > 0 and finite; got {total!r}.")
        self.measure = measure
        self.total = Fraction(total)
        self._spent = Fraction(0)
        self._lock = threading.Lock()
        self._charged: list[Mechanism] = []

    def cost(self, mechanism: Mechanism) -> Fraction:
        """The cost of one use of ``mechanism`` in this filter's unit."""
        loss = mechanism.loss
        value = {"pure": loss.epsilon, "zcdp": loss.rho, "gdp": loss.mu}[self.measure]
        if not (math.isfinite(value) and value >= 0):
            raise PrivacyError(
                f"{mechanism!r} has no guarantee in the measure {self.measure!r} "
                "of this filter, so it cannot be charged to it."
            )
        exact = Fraction(value)
        return exact * exact if self.measure == "gdp" else exact

    def charge(self, mechanism: Mechanism) -> None:
        """Spend the cost of ``mechanism``, or raise `BudgetExceeded` and change nothing."""
        cost = self.cost(mechanism)
        with self._lock:
            if self._spent + cost > self.total:
                raise BudgetExceeded(
                    f"This request costs {_UNITS[self.measure]} = {float(cost):.6g}, but only "
                    f"{float(self.total - self._spent):.6g} of {float(self.total):.6g} is left. "
                    "It was not answered and nothing was spent."
                )
            self._spent += cost
            self._charged.append(mechanism)

    @property
    def spent(self) -> float:
        """What was charged so far."""
        with self._lock:
            return float(self._spent)

    @property
    def spent_share(self) -> float:
        """What was charged so far, as a share of the total."""
        with self._lock:
            return float(self._spent / self.total)

    @property
    def charged(self) -> tuple[Mechanism, ...]:
        """Every mechanism that was charged, in order."""
        with self._lock:
            return tuple(self._charged)
