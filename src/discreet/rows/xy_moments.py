"""Sums of outer products of rows with their targets: what least squares needs of a table.

The sum has the contract of every sum here (docs/proofs/summation.md). A row, its constant and its
weighted target are scaled down *together* where they are too long: that leaves a linear relation
between them as it is, and only takes weight from the row. Proof: docs/proofs/newton.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.blas import one_thread
from discreet.rows.bounds import gradient_error
from discreet.rows.checks import Vector, check_clip
from discreet.rows.moments import OUTER_ROWS, outer_error, triangle
from discreet.rows.parts import in_parts

__all__ = ["TransformedXYMoments", "XYMomentSums"]

ROUNDING_ROOM = 1.0 - 2.0**-40
"""Rows are scaled down to this share of the clip: far more room than all roundings need."""

LARGEST_TARGET = 1e100
"""Weighted targets are cut to this, so that they stay finite; they are clipped further anyway."""

SMALLEST_FACTOR = 2.0**-900
"""Factors below it count as 0: products with them could be rounded by more than a share."""


class XYMomentSums:
    """The second moment of rows and targets, together."""

    if TYPE_CHECKING:
        n_rows: int
        n_features: int
        n_parameters: int
        fit_intercept: bool
        _norms: Vector
        _scales: Vector
        _targets: Vector
        _public_rows: int
        _dense_tiles: Any

    def xy_moment_sum(
        self,
        clip: float,
        target_weight: float = 1.0,
        target_centre: float = 0.0,
        *,
        features: bool = True,
    ) -> Any:
        """Sum vvᵀ over rows, v = (x, 1, t·(y − c)), scaled down to norm ``clip`` if it is longer.

        Without a constant feature v has no 1; without ``features`` it is (1, t·(y − c)), constant
        or not. With ``row_norm``, x is scaled down to it first.

        Parameters
        ----------
        clip : float
            Bound on the norm of v, between 1e-100 and 1e100.
        target_weight, target_centre : float
            t and c.
        features : bool
            Whether x is a part of v.

        Returns
        -------
        Sum
            ``values`` is the upper triangle of the matrix, row by row, with off-diagonal numbers
            times √2 (see `triangle`): its L2 norm is the matrix's Frobenius norm.

        Notes
        -----
        *Privacy.* The contract of ``Sum`` with c_i the weighted triangle of vvᵀ: ‖c_i‖₂ ≤ clip².
        Proof: docs/proofs/newton.md.
        """
        from discreet.rows.base import Sum

        clip = check_clip(clip)
        constant = self.fit_intercept or not features
        width = self.n_features if features else 0
        size = width + int(constant) + 1
        with np.errstate(all="ignore"):
            targets = (self._xy_targets() - float(target_centre)) * float(target_weight)
            targets = np.clip(targets, -LARGEST_TARGET, LARGEST_TARGET)
            norms = self._xy_norms() if features else 1.0
            lengths = np.sqrt(np.square(norms) + np.square(targets))  # each rounded correctly
            factors = np.where(lengths > ROUNDING_ROOM * clip, ROUNDING_ROOM * clip / lengths, 1.0)
        factors[factors < SMALLEST_FACTOR] = 0.0
        scales = self._xy_scales(factors) if features else factors

        def part(first: int, last: int) -> Vector:
            total = np.zeros((size, size))
            for start in range(first, last, OUTER_ROWS):
                block = np.zeros((size, size))
                stop = min(start + OUTER_ROWS, last)
                for row, tile in self._xy_tiles(start, stop) if features else _empty(start, stop):
                    at = slice(row, row + len(tile))
                    joint = np.empty((len(tile), size))
                    np.multiply(tile, scales[at, None], out=joint[:, :width])
                    if constant:
                        joint[:, width] = factors[at]
                    np.multiply(targets[at], factors[at], out=joint[:, -1])
                    block += joint.T @ joint
                total += block
            return total

        with one_thread():
            parts = in_parts(part, self.n_rows, self.n_rows * size * size, OUTER_ROWS)
        rows, columns, weights = triangle(size)
        values = np.add.reduce(parts)[rows, columns] * weights
        return Sum(values, outer_error(self._xy_public_rows(), OUTER_ROWS, clip))

    def target_sum(self, bound: float) -> Any:
        """Sum the targets, each cut to [-bound, bound].

        Returns
        -------
        Sum
            ``values`` has one entry.

        Notes
        -----
        *Privacy.* The contract of ``Sum`` with |c_i| ≤ bound: the cut target itself, summed in
        blocks like an entry of a gradient. Proof: docs/proofs/gd.md.
        """
        from discreet.rows.base import BLOCK_ROWS, Sum

        bound = check_clip(bound)
        cut = np.clip(self._xy_targets(), -bound, bound)
        blocks = np.add.reduceat(cut, np.arange(0, cut.size, BLOCK_ROWS)) if cut.size else cut
        error = gradient_error(self._xy_public_rows(), BLOCK_ROWS, bound)
        return Sum(np.array([blocks.sum()]), error)

    # What the sum needs to know of rows; rows that are moved know it by other names.

    def _xy_targets(self) -> Vector:
        return self._targets

    def _xy_norms(self) -> Vector:
        """Bounds on the norm of each row with its constant, as it is after scaling."""
        return self._norms

    def _xy_scales(self, factors: Vector) -> Vector:
        """What each row of a tile is multiplied by, in all."""
        if not self._scales.size:
            return factors
        scales = factors * self._scales
        scales[scales < SMALLEST_FACTOR] = 0.0
        return scales

    def _xy_tiles(self, start: int, stop: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (first row, rows as a dense array of float64)."""
        yield from self._dense_tiles(start, stop)

    def _xy_public_rows(self) -> int:
        return self._public_rows


class TransformedXYMoments(XYMomentSums):
    """The same of moved rows (`discreet.rows.affine.TransformedRows`)."""

    if TYPE_CHECKING:
        _stored: Any
        _lengths: Vector
        _tiles: Any

    def _xy_targets(self) -> Vector:
        targets: Vector = self._stored._targets
        return targets

    def _xy_norms(self) -> Vector:
        return self._lengths

    def _xy_scales(self, factors: Vector) -> Vector:
        return factors

    def _xy_tiles(self, start: int, stop: int) -> Iterator[tuple[int, NDArray[Any]]]:
        yield from self._tiles(start, stop)

    def _xy_public_rows(self) -> int:
        public: int = self._stored._public_rows
        return public


def _empty(start: int, stop: int) -> Iterator[tuple[int, NDArray[Any]]]:
    """One tile without columns."""
    yield start, np.empty((stop - start, 0))
