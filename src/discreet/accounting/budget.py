"""Budgets, and the neighbouring relation that they hold for.

A privacy promise means nothing without its *relation*: which two data sets are neighbouring. Under
``add_remove`` one table has one row more than the other; under ``replace_one`` one row has other
values. A sum of vectors of norm at most C changes by at most C under the first and by at most 2C
under the second, so every number in this package names the relation it holds for.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from typing import Literal, NoReturn, Self

from discreet.accounting import conversions
from discreet.errors import NotSupported
from discreet.validate import number, positive

# Measure that parts compose in. "profile" has no total that adds up, so no filter can be opened in
# it, only a plan: its steps have a bound on δ for every ε (`Profile`), which composes with others.
Measure = Literal["pure", "approximate", "zcdp", "gdp", "profile"]

_EPSILON = "Typical values: 0.1 to 10. For a run without privacy use scikit-learn."
_DELTA = "Use a value well below 1/n, for example 1e-6; 0 asks for pure privacy."
_PURE = (
    "delta=0 asks for pure privacy, which no {} budget implies. "
    "Give a delta > 0, for example 1e-6, or use a solver with a pure guarantee."
)


class Relation(StrEnum):
    """Relation between neighbouring data sets.

    ``rows_changed`` is the number of clipped terms of a sum that differ between neighbouring data
    sets, ``text`` their difference, for people.
    """

    rows_changed: int
    text: str

    ADD_REMOVE = ("add_remove", 1, "one row added or removed")
    REPLACE_ONE = ("replace_one", 2, "one row replaced by another")

    def __new__(cls, name: str, rows_changed: int = 0, text: str = "") -> Self:
        """Make a member, a string with what follows from it; ``Relation(name)`` finds one."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.rows_changed = rows_changed
        member.text = text
        return member

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        known = ", ".join(repr(str(member)) for member in cls)
        raise ValueError(f"relation must be one of {known}; got {value!r}.")


@dataclass(frozen=True, init=False)
class Budget:
    """An (ε, δ) budget under a relation; ``delta=0`` is pure differential privacy.

    Parameters
    ----------
    epsilon : float
        Greater than 0 and finite.
    delta : float
        In [0, 1). Choose it well below 1/n.
    relation : Relation or str
        ``"add_remove"`` or ``"replace_one"``.

    Attributes
    ----------
    pure : bool
        True for pure ε-differential privacy.
    """

    epsilon: float
    delta: float
    relation: Relation
    pure: bool = field(init=False, repr=False, compare=False)

    def __init__(self, epsilon: float, delta: float, relation: Relation | str) -> None:
        delta = number("delta", delta, least=0.0, below=1.0, remedy=_DELTA)
        object.__setattr__(self, "epsilon", positive("epsilon", epsilon, remedy=_EPSILON))
        object.__setattr__(self, "delta", delta)
        object.__setattr__(self, "relation", Relation(relation))
        object.__setattr__(self, "pure", delta == 0)

    @classmethod
    def zcdp(cls, rho: float, delta: float, relation: Relation | str = "add_remove") -> Budget:
        """Return the (ε, δ) budget that ρ-zero-concentrated differential privacy implies at δ.

        Parameters
        ----------
        rho : float
            Greater than 0.
        delta : float
            Between 0 and 1; the δ at which the guarantee is stated.
        relation : Relation or str
            As in the constructor.

        Privacy
        -------
        A solver that composes in zCDP (``"agd"``) spends at most ρ and is ρ-zCDP; with published
        constants it spends less, as the published conversion is looser. Other solvers keep (ε, δ),
        which does not imply ρ-zCDP.
        """
        made = cls(conversions.epsilon_from_rho(positive("rho", rho), delta), delta, relation)
        while made.to_zcdp().rho > rho:  # ε was rounded up, and ρ must not be exceeded
            made = replace(made, epsilon=made.epsilon * (1 - 2.0**-40))
        return made

    def to_zcdp(self, conversion: conversions.Conversion = "tight") -> ZCDPBudget:
        """Return the largest zCDP budget that implies this one.

        Privacy
        -------
        Everything that is ρ-zCDP for the returned ρ is (ε, δ)-DP under the same relation
        (docs/proofs/conversions.md). Pure budgets are refused: zCDP never implies δ = 0.
        """
        if self.pure:
            raise NotSupported(_PURE.format("zCDP"))
        rho = conversions.rho_from_epsilon(self.epsilon, self.delta, conversion)
        return ZCDPBudget(rho, self.relation)

    def to_gdp(self) -> GDPBudget:
        """Return the largest Gaussian-DP budget that implies this one; refuses pure budgets."""
        if self.pure:
            raise NotSupported(_PURE.format("Gaussian DP"))
        return GDPBudget(conversions.mu_from_epsilon(self.epsilon, self.delta), self.relation)

    def total(self, measure: Measure, conversion: conversions.Conversion = "tight") -> Fraction:
        """Return the largest total in a measure that keeps this budget: ρ, μ² or ε."""
        if measure == "zcdp":
            return Fraction(self.to_zcdp(conversion).rho)
        if measure in ("gdp", "profile"):
            return Fraction(self.to_gdp().mu) ** 2
        return Fraction(self.epsilon)


@dataclass(frozen=True)
class ZCDPBudget:
    """A zero-concentrated DP budget ρ under a relation."""

    rho: float
    relation: Relation


@dataclass(frozen=True)
class GDPBudget:
    """A Gaussian-DP budget μ under a relation."""

    mu: float
    relation: Relation


@dataclass(frozen=True)
class PrivacyLoss:
    """Cost of one use of a mechanism in each measure (``inf``: no guarantee in that measure).

    ``epsilon`` and ``delta`` belong together: the use is (ε, δ)-DP. Where ``delta`` is positive,
    ``rho`` and ``mu`` hold but for events of that probability (docs/proofs/histogram.md).
    """

    epsilon: float
    rho: float
    mu: float
    delta: float = 0.0
