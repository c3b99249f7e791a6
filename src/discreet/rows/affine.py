"""Rows that were moved by public numbers, without a copy: y = L·(s·x) − b.

s scales rows longer than a public norm down to it, L is a diagonal or a matrix, b an offset. The
margin of y is linear in x, so weights are carried over to the table as it is stored and sums are
carried back: a sparse table stays sparse, and a large one is not written twice. Only the lengths
of moved rows, by which gradients are clipped, are computed row by row.

Proof: docs/proofs/affine.md.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.blas import one_thread
from discreet.objectives import Loss
from discreet.rows.base import Rows, Sum
from discreet.rows.bounds import SLACK, UNIT_ROUNDOFF, gamma, norm_inflation, sum_depth
from discreet.rows.checks import Vector, check_clip, check_vector
from discreet.rows.moments import OUTER_ROWS, outer_error, triangle
from discreet.rows.parts import in_parts
from discreet.rows.xy_moments import TransformedXYMoments

__all__ = ["AffineMap", "TransformedRows"]

SMALLEST_CLIP = 1e-9
"""Below this clip, factors of rows could be so small that they are rounded to 0."""

LARGEST_BOUND = 1e40
"""Moved rows longer than this are not taken on; no preparation makes such."""

SMALLEST_SCALE = 2.0**-800
"""Rows that were scaled down by more than this count as the longest rows there can be."""


@dataclass(frozen=True, eq=False)
class AffineMap:
    """Public numbers that move rows: x becomes L·(s·x) − b, s = min(1, row_norm/‖x‖).

    Attributes
    ----------
    row_norm
        Norm that longer rows are scaled down to before anything else.
    linear
        L: the diagonal, as a vector, or a matrix.
    offset
        b.
    """

    row_norm: float
    linear: Vector
    offset: Vector

    @classmethod
    def to_norm(cls, row_norm: float, n_features: int) -> Self:
        """The move that only scales longer rows down to a norm."""
        return cls(float(row_norm), np.ones(n_features), np.zeros(n_features))

    def shifted(self, shift: Vector) -> Self:
        """Then subtract a vector."""
        return type(self)(self.row_norm, self.linear, self.offset + shift)

    def scaled(self, weights: Vector | float) -> Self:
        """Then multiply columns by weights."""
        weights = np.broadcast_to(np.asarray(weights, dtype=np.float64), self.offset.shape)
        linear = weights * self.linear if self.linear.ndim == 1 else weights[:, None] * self.linear
        return type(self)(self.row_norm, linear, weights * self.offset)

    def rotated(self, matrix: Vector) -> Self:
        """Then multiply rows by a matrix."""
        linear = matrix * self.linear if self.linear.ndim == 1 else matrix @ self.linear
        return type(self)(self.row_norm, linear, matrix @ self.offset)

    @property
    def bound(self) -> float:
        """A bound on ‖L‖·row_norm + ‖b‖, where ‖L‖ bounds what L and |L| do to a length."""
        size = np.abs(self.linear).max() if self.linear.ndim == 1 else np.linalg.norm(self.linear)
        total = float(size) * self.row_norm + float(np.linalg.norm(self.offset))
        return total * norm_inflation(self.linear.size)

    def adjoint(self, weights: Vector) -> Vector:
        """Weights and constants, (K, d + 1), that give stored rows the margins of moved ones."""
        slopes = weights[:, :-1]
        carried = slopes * self.linear if self.linear.ndim == 1 else slopes @ self.linear
        constants = weights[:, -1] - slopes @ self.offset
        return np.column_stack([carried, constants])

    def forward(self, sums: Vector) -> Vector:
        """Turn sums over stored rows and their factors, (K, d + 1), into sums over moved rows."""
        slopes, totals = sums[:, :-1], sums[:, -1:]
        carried = slopes * self.linear if self.linear.ndim == 1 else slopes @ self.linear.T
        return np.hstack([carried - totals * self.offset, totals])


class TransformedRows(TransformedXYMoments):
    """Rows of a table, moved; what a curator can ask of them is a part of what `Rows` answers.

    Parameters
    ----------
    stored : Rows
        The table with its targets, with a constant feature and the row norm of ``move``.
    move : AffineMap
        What is done to the rows.
    fit_intercept : bool
        Whether moved rows have a constant last feature 1.
    row_norm : float or None
        Norm that longer moved rows are scaled down to in moments. Gradients do not need it: they
        are clipped.
    """

    def __init__(
        self, stored: Rows, move: AffineMap, *, fit_intercept: bool, row_norm: float | None = None
    ) -> None:
        if not stored.fit_intercept or stored.row_norm != move.row_norm:
            raise ValueError("stored rows need a constant feature and the row norm of the move.")
        if not (np.isfinite(move.linear).all() and np.isfinite(move.offset).all()):
            raise ValueError("rows can only be moved by finite numbers.")
        if not move.bound <= LARGEST_BOUND:
            raise ValueError(f"rows can be moved to lengths of at most {LARGEST_BOUND:g}.")
        self.n_rows = stored.n_rows
        self.n_features = move.offset.size
        self.fit_intercept = fit_intercept
        self.row_norm = row_norm
        self._move = move
        self._stored = copy.copy(stored)
        lengths = self._measure()
        if fit_intercept:  # only sizes are asked for then: one number a row less
            lengths *= lengths
            lengths += 1.0
            np.sqrt(lengths, out=lengths)
            lengths *= 1.0 + 2.0**-48
        self._stored._norms = self._lengths = lengths

    @property
    def n_parameters(self) -> int:
        """Number of weights."""
        return self.n_features + int(self.fit_intercept)

    def with_targets(self, y: ArrayLike) -> Self:
        """Return the same rows with other targets. Nothing is computed again or copied."""
        other = copy.copy(self)
        other._stored = self._stored.with_targets(y)
        return other

    def gradient_sum(self, weights: ArrayLike, loss: Loss, clip: float) -> Sum:
        """Sum the loss gradients of moved rows, each clipped to L2 norm ``clip``.

        As `Rows.gradient_sum`, but a row without a constant feature that is shorter than 1 is
        clipped as if its length were 1.

        Notes
        -----
        *Privacy.* The contract of ``Sum`` with ‖c_i‖₂ ≤ clip. Proof: docs/proofs/affine.md.
        """
        clip = check_clip(clip)
        if not self.fit_intercept and self._stored._norms is self._lengths:
            self._stored._norms = np.maximum(self._lengths, 1.0)
        if clip < SMALLEST_CLIP:
            raise ValueError(f"clip must be at least {SMALLEST_CLIP:g} for moved rows.")
        count = loss.n_outputs
        vector = check_vector("weights", weights, count * self.n_parameters)
        given = vector.reshape(count, self.n_parameters)
        if not self.fit_intercept:
            given = np.column_stack([given, np.zeros(count)])
        with np.errstate(all="ignore"):
            carried = self._move.adjoint(given)
        sums = self._stored.gradient_sum(np.nan_to_num(carried.ravel()), loss, clip)
        values = self._move.forward(sums.values.reshape(count, -1))[:, : self.n_parameters]
        return Sum(values.ravel(), self._error(clip, self._stored.block_rows))

    def norms(self) -> Vector:
        """Return upper bounds on the lengths of moved rows, without a constant feature (private).

        Each is computed from its row alone. A constant feature is taken out of them again, which
        rounds short ones.
        """
        if self.fit_intercept:
            return np.sqrt(np.maximum(np.square(self._lengths) - 1.0, 0.0))
        return self._lengths.copy()

    def columns(self, index: NDArray[np.intp], factor: float) -> Self:
        """Return moved rows with the named columns only, multiplied by ``factor``.

        What was done to whole rows stays: their scales are not computed anew.
        """
        move = self._move
        narrow = AffineMap(move.row_norm, factor * move.linear[index], factor * move.offset[index])
        # Each column of rows that were turned is made of all stored ones.
        stored = self._stored._narrowed(index) if move.linear.ndim == 1 else self._stored
        return type(self)(stored, narrow, fit_intercept=self.fit_intercept)

    def row_sum(self) -> Sum:
        """Sum the moved rows, each scaled down to ``row_norm`` where it is longer.

        Notes
        -----
        *Privacy.* The contract of ``Sum`` with ‖c_i‖₂ ≤ row_norm. Proof: docs/proofs/affine.md.
        """
        stored, factors = self._stored, self._factors()

        def part(first: int, last: int) -> Vector:
            values = np.zeros(stored.n_features + 1)
            for start in range(first, last, stored.block_rows):
                block = slice(start, min(start + stored.block_rows, last))
                scaled = factors[block] * stored._scales[block]
                values[:-1] += stored._weighted_sum(start, scaled)
                values[-1] += factors[block].sum()
            return values

        parts = in_parts(part, self.n_rows, stored._n_entries, stored.block_rows)
        values = self._move.forward(np.add.reduce(parts)[None, :])[0, :-1]
        return Sum(values, self._error(1.0, stored.block_rows))

    def square_sum(self) -> Sum:
        """Sum the squares of the entries of moved rows, each row scaled down to ``row_norm``.

        Notes
        -----
        *Privacy.* The contract of ``Sum`` with ‖c_i‖₂ ≤ row_norm². Proof: docs/proofs/affine.md.
        """
        from discreet.rows import affine_kernels as kernels

        stored, move, factors = self._stored, self._move, self._factors()
        sparse = not stored.dense and move.linear.ndim == 1

        def part(first: int, last: int) -> Vector:
            values = np.zeros(self.n_features)
            for start in range(first, last, stored.block_rows):
                stop, block = min(start + stored.block_rows, last), np.zeros(self.n_features)
                if sparse:
                    table = (stored._indptr, stored._indices, stored._data, stored._scales)
                    public = (move.linear, move.offset)
                    kernels.sparse_squares(*table, *public, factors, start, stop, block)
                    block += move.offset**2 * np.sum(factors[start:stop] ** 2)
                else:
                    for row, tile in self._tiles(start, stop):
                        tile *= factors[row : row + len(tile), None]
                        block += np.einsum("ij,ij->j", tile, tile)
                values += block
            return values

        parts = in_parts(part, self.n_rows, stored._n_entries, stored.block_rows)
        error = outer_error(stored._public_rows, stored.block_rows, self._clip())
        if sparse:
            depth = sum_depth(stored._public_rows + 1, stored.block_rows)
            largest = 3.0 * move.bound**2 + self._clip() ** 2
            error = SLACK * gamma(depth + 12) * (stored._public_rows + 1) * largest
        return Sum(np.add.reduce(parts), error)

    def outer_sum(self) -> Sum:
        """Sum the outer products of moved rows, each scaled down to ``row_norm`` if it is longer.

        Returns
        -------
        Sum
            As `Rows.outer_sum`.

        Notes
        -----
        *Privacy.* The contract of ``Sum`` with ‖c_i‖₂ ≤ row_norm². Proof: docs/proofs/affine.md.
        """
        size, factors = self.n_features, self._factors()

        def part(first: int, last: int) -> Vector:
            total = np.zeros((size, size))
            for start in range(first, last, OUTER_ROWS):
                block = np.zeros((size, size))
                for row, tile in self._tiles(start, min(start + OUTER_ROWS, last)):
                    tile *= factors[row : row + len(tile), None]
                    block += tile.T @ tile
                total += block
            return total

        with one_thread():
            entries = self.n_rows * size * size
            parts = in_parts(part, self.n_rows, entries, OUTER_ROWS)
        rows, columns, weights = triangle(size)
        values = np.add.reduce(parts)[rows, columns] * weights
        return Sum(values, outer_error(self._stored._public_rows, OUTER_ROWS, self._clip()))

    def _tiles(self, start: int, stop: int) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """Yield (first row, moved rows); each is a function of its row and the move."""
        from discreet.rows import affine_kernels, moment_kernels

        stored, move = self._stored, self._move
        for first, tile in stored._dense_tiles(start, stop):
            height = max(1, min(len(tile), 2**17 // tile.shape[1]))
            for row in range(first, first + len(tile), height):
                part = tile[row - first : row - first + height]
                scales = stored._scales[row : row + len(part)]
                moved = np.empty((len(part), self.n_features))
                if move.linear.ndim == 1:
                    affine_kernels.move_rows(part, scales, move.linear, move.offset, moved)
                else:
                    moment_kernels.turn_rows(part, scales, move.linear, moved)
                    moved -= move.offset
                yield row, moved

    def _measure(self) -> Vector:
        """Bounds on the lengths of moved rows, each from its row alone."""
        from discreet.rows import affine_kernels, kernels

        stored, move, spread = self._stored, self._move, self._move.bound
        lengths = np.empty(self.n_rows)
        sparse = not stored.dense and move.linear.ndim == 1
        if sparse:
            table = (stored._indptr, stored._indices, stored._data, stored._scales)
            square = float(move.offset @ move.offset)

        def part(first: int, last: int) -> None:
            if sparse:
                public = (move.linear, move.offset, square)
                affine_kernels.sparse_lengths(*table, *public, first, last, lengths)
                return
            for row, tile in self._tiles(first, last):
                inflation = norm_inflation(self.n_features)
                kernels.dense_norms(tile, inflation, lengths[row : row + len(tile)])

        entries = stored._n_entries * (1 if move.linear.ndim == 1 else self.n_features)
        in_parts(part, self.n_rows, entries, stored.block_rows)
        if sparse:  # squares so far, of which differences of large numbers may be left
            lengths += 16 * gamma(2 * stored.n_features + 32) * spread**2
            np.sqrt(lengths, out=lengths)
            lengths *= 1 + 16 * UNIT_ROUNDOFF
        lengths += 4 * gamma(stored.n_features + 16) * spread
        lengths[stored._scales < SMALLEST_SCALE] = 2 * spread + 1
        return lengths

    def _factors(self) -> Vector:
        """What moved rows are multiplied by in moments, so that none is longer than the clip."""
        factors = self._clip() / self._lengths  # lengths are above 0, and with a constant above 1
        return np.minimum(factors, 1.0, out=factors)

    def _clip(self) -> float:
        if self.row_norm is None:
            raise ValueError(
                "moments of rows need a public bound on the norm of a row; pass row_norm."
            )
        return float(self.row_norm)

    def _error(self, factor: float, block_rows: int) -> float:
        """Bound the error of a sum of moved rows whose factors are at most ``factor``."""
        rows = self._stored._public_rows + 1
        depth = gamma(sum_depth(rows, block_rows)) + gamma(self._stored.n_features + 16)
        return SLACK * rows * factor * depth * (self._move.bound + 1.0)
