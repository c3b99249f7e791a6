"""Rows that a public model scores: exact counts and sums of its errors.

A row's score must depend on that row and the model alone, bit for bit; the position of the row and
the other rows may not change it. Then a row adds to one cell of a histogram, or a term between 0
and 1 to a sum, and so does a unit whose rows have weights that add up to at most 1. Everything is
added up in whole steps of 2^-30. Proof: docs/proofs/scoring.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.rows.bounds import UNIT_ROUNDOFF, WEIGHT_STEPS
from discreet.rows.moments import COUNTED
from discreet.rows.sums import Sum
from discreet.rows.units import RowWeights, Unit, Units
from discreet.validate import FloatArray

EXACT_TOTAL = 2**53 // WEIGHT_STEPS
"""Totals of up to this many units are exact in a double, in steps of 2^-30."""


class ScoredRows:
    """A table with its targets, and the model's score of each row.

    Nothing is scored before a question is answered. Everything that is computed from the rows is
    private.

    Parameters
    ----------
    table : array or CSR matrix of shape (n_rows, n_features)
        Rows that ``score`` takes.
    targets : array of shape (n_rows,)
        Codes of the true classes, 0, 1, …; or numbers.
    score : callable
        ``score(table)`` returns a number for each row: the code of the predicted class, a margin or
        a predicted target. It depends on that row and on public numbers alone, bit for bit.
    weights : RowWeights
        Weights and unit of the rows.
    """

    def __init__(
        self,
        table: Any,
        targets: NDArray[Any],
        score: Callable[[Any], NDArray[Any]],
        weights: RowWeights,
    ) -> None:
        self._table = table
        self._targets = targets
        self._score = score
        self._weights = weights

    # ---- public facts

    @property
    def unit(self) -> Unit:
        """Privacy unit of the rows."""
        return self._weights.unit

    @property
    def grouped(self) -> bool:
        """True if rows may share a unit."""
        return self._weights.grouped

    @property
    def public_size(self) -> int:
        """Number of rows, or of units that share them."""
        return self._weights.size

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self._table.shape[1])

    @property
    def n_parameters(self) -> int:
        """Number of columns: these rows have no constant feature."""
        return self.n_features

    @property
    def row_norm(self) -> None:
        """None: these rows have no public bound on their norm."""
        return None

    # ---- private values

    def answer(self, questions: Sequence[Any]) -> list[Any]:
        """Return the exact answer to each question, in order: what its ``on`` computes."""
        return [question.on(self) for question in questions]

    def scores(self) -> FloatArray:
        """Return the score of each row."""
        return np.asarray(self._score(self._table), dtype=np.float64)

    def weight_of_cells(self, n_classes: int, edges: FloatArray) -> Sum:
        """Add up the weights of rows by true class and bin of the score.

        Bin b has the scores above edge b − 1 and up to edge b; the first and the last bin are open.
        Classes come one after the other; a code beyond them is clipped to the nearest. ``error``
        bounds the L1 norm of all rounding errors.
        """
        n_bins = edges.size + 1
        classes = np.clip(self._targets, 0, n_classes - 1).astype(np.intp)
        cells = classes * n_bins + np.searchsorted(edges, self.scores())
        return self._sum(cells, n_classes * n_bins)

    def correct_weight(self) -> Sum:
        """Add up the weights of the rows whose score is the code of their true class."""
        wrong = (self.scores() != self._targets).astype(np.intp)
        both = self._sum(wrong, 2)
        return Sum(both.values[:1], both.error)

    def error_sums(self, low: float, high: float) -> Sum:
        """Add up absolute and squared differences of score and target, times weights.

        Both are clipped to [low, high], and the difference is divided by its width; a difference
        that is not a number is 1. Each term is rounded down to a step.
        """
        target = np.clip(self._targets, low, high)
        error = np.abs(target - np.clip(self.scores(), low, high)) / (high - low)
        error = np.minimum(np.nan_to_num(error, nan=1.0), 1.0)
        totals = np.array([self._steps(error), self._steps(error * error)], dtype=np.int64)
        return Sum(totals / WEIGHT_STEPS, self._rounding(2))

    def _steps(self, terms: FloatArray) -> int:
        """Add up numbers from 0 to 1 by weight, each rounded down to a whole number of steps."""
        own = self._weights.values
        weighted = terms * own if own.size else terms
        return int(np.floor(weighted * WEIGHT_STEPS).astype(np.int64).sum())

    def _sum(self, cells: NDArray[np.intp], n_cells: int) -> Sum:
        """Add up the weights of the rows in each cell."""
        own = self._weights.values
        if not own.size:
            return Sum(np.bincount(cells, minlength=n_cells).astype(np.float64), 0.0)
        totals = np.zeros(n_cells, dtype=np.int64)
        for start in range(0, len(cells), COUNTED):
            at = slice(start, start + COUNTED)
            steps = np.bincount(cells[at], own[at] * WEIGHT_STEPS, minlength=n_cells)
            totals += steps.astype(np.int64)
        return Sum(totals / WEIGHT_STEPS, self._rounding(n_cells))

    def _rounding(self, n_totals: int) -> float:
        """Bound the L1 norm of the rounding errors of totals as doubles, by public numbers."""
        if self.public_size < EXACT_TOTAL:
            return 0.0
        return n_totals * (self.public_size + 1) * UNIT_ROUNDOFF


def scored_rows(
    table: Any,
    targets: NDArray[Any],
    score: Callable[[Any], NDArray[Any]],
    groups: Any = None,
) -> ScoredRows:
    """Return rows to be scored; ``groups`` has the id of each row's unit, if rows share units."""
    n_rows = int(table.shape[0])
    if groups is None:
        weights = RowWeights(np.empty(0), n_rows)
    else:
        weights = Units.of(groups, n_rows).weights()
    return ScoredRows(table, targets, score, weights)
