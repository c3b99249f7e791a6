"""Questions about pairs of columns, as data: which pairs have cells with residuals, and how much.

They are asked of rows whose features are cells and whose targets are residuals of a released
model. Shape and rules are those of `discreet.core.questions`. Proof: docs/proofs/pairs.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.budget import Relation
from discreet.core.mechanisms import ExponentialMechanism
from discreet.core.noise import Noise
from discreet.core.questions import NoisySum, Public, SumQuestion
from discreet.rows import Rows
from discreet.rows.pair_sums import LARGEST_SIZE, pair_scores, pair_sums
from discreet.validate import integer

Cells = tuple[NDArray[np.intp], ...]
"""For each column, the cell of each value, all of them counted from 0."""

MOST_CELLS = 2**15
"""Cells of a column, at most: the number of a cell of two columns has 32 bits."""

Pairs = tuple[tuple[int, int], ...]
"""Numbers of two columns each."""


@dataclass(frozen=True, eq=False)
class PairScores(SumQuestion):
    """Scores of some pairs of columns.

    A unit moves each of them by at most 1, which bounds the norm of all its changes.
    """

    cells: Cells
    pairs: Pairs
    protected: ClassVar[str] = "Σ_cells ‖Σ_cell clip(r_i)‖₁, for each of p pairs of columns"
    proof: ClassVar[str] = "pairs"

    @property
    def bound(self) -> float:
        """L2 norm of what a unit that is added or removed can change."""
        return math.sqrt(len(self.pairs))

    def check(self, public: Public, mechanism: Any) -> None:
        """Raise if the cells are not those of the columns of the rows, or too many rows."""
        named = {column for pair in self.pairs for column in pair}
        sound = len(self.cells) == public.n_features and named <= set(range(len(self.cells)))
        sound = sound and all(np.ndim(each) == 1 and np.size(each) > 0 for each in self.cells)
        sound = sound and all(min(each) >= 0 and max(each) < MOST_CELLS for each in self.cells)
        if not (sound and len(self.pairs)):
            raise ValueError(
                "cells must map the values of each column to numbers from 0 to "
                f"{MOST_CELLS - 1:,}, and pairs must name two of the columns each."
            )
        if public.n_rows >= LARGEST_SIZE:
            raise ValueError(f"pairs are scored on fewer than {LARGEST_SIZE:,} rows or people.")
        super().check(public, mechanism)

    def on(self, rows: Rows) -> Any:
        """Return the exact sums of residuals in cells."""
        return pair_sums(rows, self.cells, self.pairs)

    def release(self, exact: Any, mechanism: Any, public: Public, noise: Noise) -> NoisySum:
        """Add noise to the scores; twice their rounding error is part of the sensitivity."""
        return super().release(pair_scores(exact, self.cells, self.pairs), mechanism, public, noise)


@dataclass(frozen=True, eq=False)
class BestPairs(PairScores):
    """Choice of the ``count`` pairs of columns in whose cells residuals add up to most.

    The mechanism is used once for each, on the pairs that are left. The answer has their numbers. A
    row can raise the score of one pair and lower that of another (never monotone).
    """

    count: Annotated[int, partial(integer, least=1)]
    mechanisms: ClassVar[tuple[type, ...]] = (ExponentialMechanism,)
    protected: ClassVar[str] = "Σ_cells ‖Σ_cell clip(r_i)‖₁, for each pair of columns"

    @property
    def uses(self) -> int:  # type: ignore[override]
        """Number of uses of the mechanism that are charged: one for each pair."""
        return self.count

    def check(self, public: Public, mechanism: Any) -> None:
        """Raise if the pairs do not fit the rows."""
        super().check(public, mechanism)
        if self.count > len(self.pairs):
            raise ValueError(f"count must be at most {len(self.pairs)}, the number of pairs.")

    def sensitivity(self, relation: Relation) -> float:
        """Bound the change of any score."""
        return float(relation.rows_changed)

    def release(self, exact: Any, mechanism: Any, public: Public, noise: Noise) -> Any:
        """Choose one pair after the other, each among those that are left."""
        left = list(range(len(self.pairs)))
        scores = pair_scores(exact, self.cells, self.pairs)
        moved = math.nextafter(self.sensitivity(public.relation) + 2 * scores.error, math.inf)
        chosen: list[int] = []
        for _ in range(self.count):
            at = mechanism.select(scores.values[left], sensitivity=moved, noise=noise)
            chosen.append(left.pop(at))
        return chosen
