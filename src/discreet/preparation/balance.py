"""Noisy total weight of each class, which class weights and the size of an objective follow from.

Proof: docs/proofs/unit.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from discreet.accounting.budget import Budget, Measure
from discreet.core import Gaussian, L2Norm
from discreet.core.questions import ClassCounts
from discreet.core.session import Session, Stream
from discreet.preparation.steps import Centre, Mechanism
from discreet.rows import Rows
from discreet.validate import FloatArray

__all__ = ["Balance"]

SHARES = (0.005, 0.05)
"""Smallest and largest share of the budget for the balance."""

LINEAR_SHARES = (0.02, 0.1)
"""The same limits for a budget in which ε adds up instead of its square."""

PRECISION = 100.0
"""Between the limits, the noise in a class's frequency is about one over this."""


@dataclass(frozen=True)
class Balance:
    """A part of the budget for the total weight of the rows of each class.

    It is a part of a preparation that transforms no row: it has a ``share`` and a ``mechanism``.
    """

    share: float
    name: ClassVar[str] = "class balance"

    @classmethod
    def of(cls, budget: Budget, size: int, measures: Sequence[Measure]) -> Balance:
        """Return the part for a table of this many units; every argument is public.

        ``measures`` are those that the models compose in.
        """
        if budget.pure:
            share = PRECISION / (size * budget.epsilon)
            limits = LINEAR_SHARES
        elif "approximate" in measures:
            share = PRECISION / (size * budget.to_gdp().mu)
            limits = LINEAR_SHARES
        else:
            share = (PRECISION / (size * budget.to_gdp().mu)) ** 2
            limits = SHARES
        return cls(min(max(share, limits[0]), limits[1]))

    def mechanism(self, measure: Measure, total: Fraction) -> Mechanism:
        """Return the mechanism of one sum, as for every step that asks for one."""
        return Centre().mechanism(measure, total)

    @property
    def condition(self) -> str:
        """Statement of what its privacy rests on."""
        return (
            f"the total weight of each class was released with noise, for {100 * self.share:.3g} % "
            "of the budget; the size of the objective and balanced class weights follow from it"
        )

    @staticmethod
    def measure(
        rows: Rows,
        n_classes: int,
        session: Session,
        part: int,
        mechanism: Gaussian | L2Norm,
        stream: Stream,
    ) -> FloatArray:
        """Release the total weight of the rows of each class, whose codes are the targets."""
        curator = session.curator(rows, stream)
        curator.open_reserved(part)
        noisy = curator.ask(ClassCounts(n_classes), mechanism)
        least = max(1.0, math.sqrt(curator.n_rows))
        return np.clip(noisy.values, least, curator.n_rows)
