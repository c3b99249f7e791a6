"""Objectives and second derivatives on exact rows, for solvers that minimise inside the curator.

Everything here is private. `objective_sum`, `hessian_sum` and `hessian_product` only steer an
optimiser, so their rounding does not matter; `perturbed_gradient` comes with a proven bound, which
is what privacy rests on.
"""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from discreet.errors import NotSupported, PrivacyError
from discreet.objectives import Loss
from discreet.rows.bounds import UNIT_ROUNDOFF, gamma, gradient_error
from discreet.rows.checks import Vector, check_vector
from discreet.rows.outputs import Outputs
from discreet.rows.parts import in_parts

__all__ = ["Curvature"]

SLOPE_ROUNDINGS = 32
"""A computed slope is off by at most so many u times its bound, at the computed margin."""

SMALLEST_SCALE, LARGEST_WEIGHTS = 2.0**-500, 2.0**300
"""Beyond these a product of a row with weights might overflow before it is scaled, or underflow."""

HESSIAN_ROWS = 4096
"""Rows of X that one matrix product takes."""


class Curvature(Outputs):
    """Sums of losses, products with the Hessian, and certified gradients."""

    if TYPE_CHECKING:
        _tiles: Any
        _data: Any
        _indices: Any
        _indptr: Any
        gradient_sum: Any
        take: Any

    @property
    def dense(self) -> bool:
        """Whether `hessian_sum` can form a matrix."""
        return hasattr(self, "_tiles")

    def within_reach(self) -> Self:
        """Return the rows without those that are scaled down by more than 2^-500.

        Such a row counts as a constant: no loss, no gradient, no curvature. Its products with
        weights could overflow before they are scaled. There are none in sensible units; then these
        are the rows themselves.

        Notes
        -----
        *Privacy.* Whether a row counts depends on that row and public arguments alone, and a
        constant is a convex function within every bound on gradients and curvature. The number of
        rows that are left is private; the public size stays that of the whole table.
        """
        far = self._scales < SMALLEST_SCALE
        return self.take(np.flatnonzero(~far)) if far.any() else self

    def gradient_rounding(self, loss: Loss, clip: float) -> float:
        """Return by how much the bound of `perturbed_gradient` exceeds a norm, from public numbers.

        For margins up to 100; beyond, it may be more.
        """
        longest = clip / loss.slope_bound
        total = gradient_error(self._public_rows, self.block_rows, clip)
        rows = self._public_rows * self._row_rounding(loss, longest, self.n_features, 100.0)
        return total + rows

    def objective_sum(self, weights: ArrayLike, loss: Loss) -> float:
        """Return the sum of the rows' losses at ``weights``; not clipped, without the penalty."""
        from discreet.rows import loss_kernels as kernels
        from discreet.rows.base import _compiled

        margins = self._all_margins(weights, loss)
        code, parameter = _compiled(loss)
        step = np.zeros(1)

        def part(first: int, last: int) -> list[float]:
            sums, out = [], np.zeros(1)
            for start in range(first, last, HESSIAN_ROWS):
                block = slice(start, min(start + HESSIAN_ROWS, last))
                m, y = margins[block], self._targets[block]
                if code == kernels.GIVEN:
                    with np.errstate(all="ignore"):
                        sums.append(float(np.sum(loss.value(m, y))))
                else:
                    kernels.line_sums(code, parameter, m, m, y, step, math.inf, out)
                    sums.append(float(out[0]))
            return sums

        parts = in_parts(part, self.n_rows, self._n_entries, HESSIAN_ROWS)
        return math.fsum(value for sums in parts for value in sums)

    def hessian_sum(self, weights: ArrayLike, loss: Loss) -> Vector:
        """Return the sum of the rows' Hessians, a square matrix; dense tables only."""
        if not self.dense:
            raise NotSupported("a sum of Hessians needs a dense table; use hessian_product.")
        margins = self._all_margins(weights, loss)
        count, size, width = loss.n_outputs, self.n_parameters, self.n_features

        def part(first: int, last: int) -> Vector:
            total = np.zeros((count, size, count, size))
            for start in range(first, last, HESSIAN_ROWS):
                stop = min(start + HESSIAN_ROWS, last)
                curvature = loss.second_derivative(margins[start:stop], self._targets[start:stop])
                curvature = np.asarray(curvature).reshape(stop - start, count, count)
                for row, tile in self._tiles(start, stop):
                    rows = tile
                    if self._scales.size:
                        rows = tile * self._scales[row : row + len(tile), None]
                    here = curvature[row - start : row - start + len(tile)]
                    for k in range(count):
                        for other in range(k + 1):
                            factors = here[:, k, other]
                            block = total[k, :, other]
                            block[:width, :width] += _gram(rows, factors)
                            if self.fit_intercept:
                                block[:width, -1] += factors @ rows
                                block[-1, -1] += factors.sum()
            return total

        with _one_thread():
            parts = in_parts(part, self.n_rows, self._n_entries * size, HESSIAN_ROWS)
        total = np.sum(parts, axis=0)
        for k in range(count):
            for other in range(k + 1):
                block = total[k, :, other]
                if self.fit_intercept:
                    block[-1, :width] = block[:width, -1]
                total[other, :, k] = block.T
        return np.asarray(total.reshape(count * size, count * size))

    def hessian_product(self, weights: ArrayLike, loss: Loss, vector: ArrayLike) -> Vector:
        """Return the sum of the rows' Hessians times ``vector``, without forming a matrix."""
        margins = self._all_margins(weights, loss)
        count, size = loss.n_outputs, self.n_parameters
        along = check_vector("vector", vector, count * size).reshape(count, size)
        changes = np.stack([self._evaluate(part) for part in along], axis=-1)

        def part(first: int, last: int) -> Vector:
            values = np.zeros((count, size))
            for start in range(first, last, self.block_rows):
                block = slice(start, min(start + self.block_rows, last))
                bend = loss.second_derivative(margins[block], self._targets[block])
                if count == 1:
                    factors = np.asarray(bend)[:, None] * changes[block]
                else:
                    factors = np.einsum("ikl,il->ik", bend, changes[block])
                if self.fit_intercept:
                    values[:, -1] += factors.sum(axis=0)
                if self._scales.size:
                    factors = factors * self._scales[block, None]
                for k in range(count):
                    column = np.ascontiguousarray(factors[:, k])
                    values[k, : self.n_features] += self._weighted_sum(start, column)
            return values

        parts = in_parts(part, self.n_rows, self._n_entries, self.block_rows)
        return np.sum(parts, axis=0).ravel()

    def hessian_diagonal(self, weights: ArrayLike, loss: Loss) -> Vector:
        """Return the diagonal of the sum of the rows' Hessians."""
        margins = self._all_margins(weights, loss)
        count, size = loss.n_outputs, self.n_parameters
        bends = np.asarray(loss.second_derivative(margins, self._targets))
        bends = np.einsum("ikk->ik", bends.reshape(self.n_rows, count, count))
        factors = bends * self._scales[:, None] ** 2 if self._scales.size else bends
        values = np.zeros((count, size))
        if self.dense:
            for start in range(0, self.n_rows, HESSIAN_ROWS):
                for row, tile in self._tiles(start, min(start + HESSIAN_ROWS, self.n_rows)):
                    part = factors[row : row + len(tile)]
                    values[:, : self.n_features] += part.T @ (tile * tile)
        else:
            squares = np.asarray(self._data, dtype=np.float64) ** 2
            parts = (squares, self._indices, self._indptr)
            table = sp.csr_array(parts, shape=(self.n_rows, self.n_features))
            values[:, : self.n_features] = (table.T @ factors).T
        if self.fit_intercept:
            values[:, -1] = bends.sum(axis=0)
        return values.ravel()

    def perturbed_gradient(
        self, weights: ArrayLike, loss: Loss, clip: float, ridge: float, linear: Vector
    ) -> tuple[Vector, float]:
        """Return the gradient of Σℓ(w) + ridge/2·‖w‖² + linear·w, and a bound on its true norm.

        Parameters
        ----------
        weights : array
            Where.
        loss : Loss
            A loss of bounded slope and curvature.
        clip : float
            Bound on the norm of every row's gradient, with some room: gradients are not clipped.
        ridge : float
            Strength of the penalty on the sum.
        linear : ndarray
            The linear term.

        Returns
        -------
        gradient : ndarray
            As computed.
        bound : float
            At least the norm of the exact gradient: of real arithmetic on the doubles that are
            given, for rows that are the stored rows times their stored scales. Infinite if weights
            are so large that nothing can be certified.

        Notes
        -----
        *Privacy.* Proof in docs/proofs/objective_perturbation.md. The bound is private. For rows
        `within_reach` only: of others an exact gradient is not certified.
        """
        if (self._scales < SMALLEST_SCALE).any():
            raise PrivacyError("Gradients are certified for rows within reach only.")
        longest = float(self._norms.max(initial=0.0))
        if loss.curvature_bound is None or not loss.slope_bound * longest <= clip:
            raise PrivacyError("Rows are longer than the problem says; nothing was released.")
        weights = np.asarray(weights, dtype=np.float64)
        size = float(np.linalg.norm(weights))
        if self._line is not None:  # margins must be those of products, not moved along a line
            self._point = self._line = None
        total = self.gradient_sum(weights, loss, clip)
        gradient = total.values + ridge * weights + linear
        entries = self._entries_of_a_row()
        rows = self.n_rows * self._row_rounding(loss, longest, entries, longest * size)
        terms = float(np.linalg.norm(total.values)) + ridge * size + float(np.linalg.norm(linear))
        addition = 4 * UNIT_ROUNDOFF * terms
        norm = float(np.linalg.norm(gradient))
        bound = norm + total.error + 1.01 * (rows + addition)
        if not (size <= LARGEST_WEIGHTS and math.isfinite(bound)):
            return gradient, math.inf
        return gradient, bound * (1 + 2 * gamma(weights.size + 16))

    @staticmethod
    def _row_rounding(loss: Loss, longest: float, entries: int, margin: float) -> float:
        """Bound the error of a row's gradient: by its margin's rounding, and by its slope's."""
        if loss.curvature_bound is None:
            raise NotSupported(f"gradients are certified for smooth losses; {loss.name!r} is not.")
        products = loss.curvature_bound * gamma(entries // 4 + 24) * margin
        roundings = SLOPE_ROUNDINGS + 2 * loss.n_outputs
        return longest * (products + roundings * UNIT_ROUNDOFF * loss.slope_bound)

    def _entries_of_a_row(self) -> int:
        """How many products a margin is at most a sum of."""
        indptr = getattr(self, "_indptr", None)
        if indptr is None:
            return self.n_features
        return int(np.diff(indptr).max(initial=0))

    def _all_margins(self, weights: ArrayLike, loss: Loss) -> Vector:
        count = loss.n_outputs
        vector = check_vector("weights", weights, count * self.n_parameters)
        return self._margins(vector) if count == 1 else self._output_margins(vector, count)


def _gram(rows: Vector, factors: Vector) -> Vector:
    """Return Σ factor·xxᵀ; for factors that are not negative by a product that is symmetric."""
    if factors.min(initial=0.0) < 0:
        return np.asarray((rows * factors[:, None]).T @ rows)
    weighted = rows * np.sqrt(factors)[:, None]
    return np.asarray(weighted.T @ weighted)


def _one_thread() -> Any:
    """Keep BLAS to one thread, where that can be asked for: its own wait for each other.

    Rows are split among threads here anyway.
    """
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return contextlib.nullcontext()
    return threadpool_limits(limits=1, user_api="blas")
