"""Questions about rows that a public model scores, as data.

They are asked of `discreet.rows.scored.ScoredRows`. Shape and rules are those of
`discreet.core.questions`. The exact totals are whole steps of 2^-30. Proof: docs/proofs/scoring.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from discreet.accounting.budget import Relation
from discreet.core.mechanisms import AdditiveMechanism, Gaussian, Laplace
from discreet.core.noise import Noise
from discreet.core.questions import NoisySum, Public, Question
from discreet.rows.scored import ScoredRows
from discreet.rows.sums import Sum
from discreet.validate import Vector, integer, number

LARGEST_COUNT = 2.0**40
"""Public bound on the number of correct predictions: larger numbers are clipped to it."""


class TotalQuestion(Question[ScoredRows, NoisySum]):
    """Base of questions for totals over units, each of which adds 0 to 1 in all or to each."""

    proof: ClassVar[str] = "scoring"

    def magnitude(self, public: Public) -> float:
        """Return a public bound on each total; larger totals are clipped to it."""
        return float(max(public.n_rows, 1))

    def release(
        self, exact: Sum, mechanism: AdditiveMechanism, public: Public, noise: Noise
    ) -> NoisySum:
        """Add noise to the totals; twice their rounding error is part of the sensitivity."""
        values, scale = mechanism.release(
            exact.values,
            sensitivity=self.sensitivity(public.relation) + 2 * exact.error,
            magnitude=self.magnitude(public),
            noise=noise,
        )
        if isinstance(mechanism, Laplace):  # its standard deviation is √2 times its scale
            scale *= math.sqrt(2.0)
        return NoisySum(values, scale, mechanism)


@dataclass(frozen=True, eq=False)
class CorrectCount(TotalQuestion):
    """Number of rows whose score is the code of their true class; units are weighted to 1.

    A unit adds a number from 0 to 1, so that both relations move the count by at most 1.
    """

    mechanisms: ClassVar[tuple[type, ...]] = (Gaussian,)
    protected: ClassVar[str] = "number of correct predictions"
    proof: ClassVar[str] = "tuning"

    def sensitivity(self, relation: Relation) -> float:
        """Return 1: numbers from 0 to 1 differ by at most 1."""
        return 1.0

    def magnitude(self, public: Public) -> float:
        """Return a bound that does not depend on the table."""
        return LARGEST_COUNT

    def on(self, rows: ScoredRows) -> Sum:
        """Return the exact count."""
        return rows.correct_weight()


@dataclass(frozen=True, eq=False)
class CellCounts(TotalQuestion):
    """Number of rows of each true class whose score lies in each bin; units are weighted to 1.

    Bin b has the scores above edge b − 1 and up to edge b; the first and the last bin are open.
    ``edges`` are public numbers in increasing order. A unit adds 1 in all, to one cell or several.
    """

    n_classes: Annotated[int, integer]
    edges: Vector
    mechanisms: ClassVar[tuple[type, ...]] = (Laplace,)
    protected: ClassVar[str] = "number of rows by true class and bin of their score, L1 norm"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (np.diff(self.edges) > 0).all():
            raise ValueError("edges must be increasing.")

    @classmethod
    def confusion(cls, n_classes: int) -> CellCounts:
        """Return the question for the confusion matrix, where scores are codes of classes."""
        return cls(n_classes, np.arange(n_classes - 1.0))

    def sensitivity(self, relation: Relation) -> float:
        """Return the L1 sensitivity: one cell changes by 1, or two cells if a unit is replaced."""
        return float(relation.rows_changed)

    def on(self, rows: ScoredRows) -> Sum:
        """Return the exact counts."""
        return rows.weight_of_cells(self.n_classes, self.edges)


@dataclass(frozen=True, eq=False)
class ErrorSums(TotalQuestion):
    """Sums of absolute and of squared errors, in units of the width of the target's bounds.

    Targets and scores are clipped to [low, high]. A unit adds a number from 0 to 1 to each sum, so
    that both relations move each by at most 1.
    """

    low: Annotated[float, number]
    high: Annotated[float, number]
    mechanisms: ClassVar[tuple[type, ...]] = (Laplace,)
    protected: ClassVar[str] = "Σ e_i and Σ e_i², e an error as a share of the width, L1 norm"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.low < self.high:
            raise ValueError(f"high must be above low = {self.low:g}; got {self.high:g}.")

    def sensitivity(self, relation: Relation) -> float:
        """Return the L1 sensitivity of both sums together."""
        return 2.0

    def on(self, rows: ScoredRows) -> Sum:
        """Return the exact sums."""
        return rows.error_sums(self.low, self.high)
