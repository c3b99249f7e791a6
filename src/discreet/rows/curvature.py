"""Objectives and second derivatives on exact rows, for solvers that minimise inside the curator.

Everything here is private. `objective_sum`, `hessian_sum` and `hessian_product` only steer an
optimiser, so their rounding does not matter; `perturbed_gradient` comes with a proven bound, which
is what privacy rests on.
"""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from discreet.blas import one_thread
from discreet.errors import NotSupported, PrivacyError
from discreet.objectives import Huber, Loss
from discreet.rows.bounds import UNIT_ROUNDOFF, certificate_allowance, gamma
from discreet.rows.checks import Vector, check_vector
from discreet.rows.margins import Point
from discreet.rows.outputs import Outputs
from discreet.rows.parts import in_parts

__all__ = ["Curvature"]

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
        with_targets: Any

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

    def certifiable_norm(
        self, loss: Loss, clip: float, ridge: float, weights: float, linear: float
    ) -> float:
        """Return a gradient norm that can be certified whatever the rows are, from public numbers.

        Parameters
        ----------
        loss, clip, ridge
            As in `perturbed_gradient`.
        weights, linear : float
            Bounds on the norm of the minimum and on that of the linear term.

        Notes
        -----
        With e the certificate's allowance for rounding, Newton's method ends where the exact
        gradient is about e, so the computed one is at most 2e and its certificate at most 3e. The
        rest is room for the solution of linear systems.
        """
        terms = self._public_rows * clip + ridge * weights + linear
        return 3.5 * self._allowance(loss, clip, weights, terms)

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

        with one_thread():
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
        self,
        weights: ArrayLike,
        loss: Loss,
        clip: float,
        ridge: float,
        linear: Vector,
        rest: Vector | None = None,
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
        rest : ndarray, optional
            Where, more precisely: at ``weights + rest``, each at most a rounding of ``weights``.
            Large weights need it, as a rounding of theirs would change a gradient too much.

        Returns
        -------
        gradient : ndarray
            As computed.
        bound : float
            At least the norm of the exact gradient: of real arithmetic on the doubles that are
            given, for rows that are the stored rows times their stored scales. It exceeds the
            computed norm by an allowance that depends on public numbers and the norms of the
            three terms and of ``weights``. Infinite if weights are too large to certify anything.

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
        vector = check_vector("weights", weights, loss.n_outputs * self.n_parameters)
        size = float(np.linalg.norm(vector))
        if not size <= LARGEST_WEIGHTS:
            return self.plain_gradient(vector, loss, clip, ridge, linear), math.inf
        rest = np.zeros(vector.size) if rest is None else check_vector("rest", rest, vector.size)
        if not (np.abs(rest) <= UNIT_ROUNDOFF * 2 * np.abs(vector)).all():
            return self.plain_gradient(vector, loss, clip, ridge, linear), math.inf
        rows = self._with_accurate_margins(vector, rest, loss)
        values = rows.gradient_sum(vector, loss, clip).values
        gradient = ((values + ridge * vector) + linear) + ridge * rest
        terms = float(np.linalg.norm(values)) + ridge * size + float(np.linalg.norm(linear))
        bound = float(np.linalg.norm(gradient)) + self._allowance(loss, clip, size, terms)
        bound *= 1 + 2 * gamma(vector.size + 16)
        return gradient, bound if math.isfinite(bound) else math.inf

    def plain_gradient(
        self, weights: ArrayLike, loss: Loss, clip: float, ridge: float, linear: Vector
    ) -> Vector:
        """Return the same gradient faster, without a bound: only to steer an optimiser."""
        values = self.gradient_sum(weights, loss, clip).values
        return np.asarray(values + ridge * np.asarray(weights) + linear)

    def _allowance(self, loss: Loss, clip: float, weights: float, terms: float) -> float:
        """Bound the rounding of a gradient, from public numbers and the sizes that are given.

        ``weights`` is the norm of the weights, ``terms`` the sum of the norms of the three terms.
        """
        return certificate_allowance(
            loss,
            clip=clip,
            weights=weights,
            terms=terms,
            n_rows=self._public_rows,
            n_features=self.n_features,
            block_rows=self.block_rows,
        )

    def _with_accurate_margins(self, weights: Vector, rest: Vector, loss: Loss) -> Self:
        """Return rows that remember margins of twice the working precision, rounded.

        For Huber's loss residuals: their targets are 0.
        """
        count, residuals = loss.n_outputs, type(loss) is Huber
        rows = self.with_targets(np.zeros(self.n_rows)) if residuals else copy.copy(self)
        offsets = self._targets if residuals else np.empty(0)
        margins = np.empty((count, self.n_rows))
        halves = zip(weights.reshape(count, -1), rest.reshape(count, -1), strict=True)
        for k, (vector, small) in enumerate(halves):
            self._accurate_margins(vector, small, offsets, margins[k])
        rows._line = None  # margins must be those of products, not moved along a line
        rows._point = Point(weights, margins[0] if count == 1 else margins.T.copy())
        return rows

    def _accurate_margins(self, vector: Vector, rest: Vector, offsets: Vector, out: Vector) -> None:
        from discreet.rows import curvature_kernels as kernels

        large = np.ascontiguousarray(vector[: self.n_features])
        small = np.ascontiguousarray(rest[: self.n_features])
        last = (vector[-1], rest[-1]) if self.fit_intercept else (0.0, 0.0)
        sums, errors = np.empty(self.n_rows), np.empty(self.n_rows)

        def part(start: int, stop: int) -> None:
            if self.dense:
                for first, tile in self._tiles(start, stop):
                    block = slice(first, first + len(tile))
                    kernels.accurate_dense_products(tile, large, small, sums[block], errors[block])
            else:
                table = self._indptr[start : stop + 1], self._indices, self._data
                block = slice(start, stop)
                kernels.accurate_sparse_products(*table, large, small, sums[block], errors[block])

        in_parts(part, self.n_rows, self._n_entries, HESSIAN_ROWS)
        kernels.accurate_margins(sums, errors, self._scales, *last, offsets, out)

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
