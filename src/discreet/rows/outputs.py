"""Sums of gradients for losses with several margins a row (multi-class)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import NotSupported
from discreet.objectives import Loss, Softmax
from discreet.rows.bounds import gradient_error
from discreet.rows.checks import Vector, check_vector
from discreet.rows.margins import Point
from discreet.rows.parts import in_parts

__all__ = ["Outputs", "refuse_outputs"]


def refuse_outputs(loss: Loss) -> None:
    """Refuse a loss with several margins where only one is supported."""
    if loss.n_outputs > 1:
        raise NotSupported(
            f"losses along a line are not supported for {loss.name!r}, which has "
            f"{loss.n_outputs} outputs. Use a solver that does not search along lines."
        )


class Outputs:
    """Margins and clipped gradients for K outputs: weights are K rows, one after the other."""

    if TYPE_CHECKING:
        n_rows: int
        n_features: int
        n_parameters: int
        fit_intercept: bool
        block_rows: int
        _public_rows: int
        _n_entries: int
        _targets: Vector
        _norms: Vector
        _scales: Vector
        _point: Any
        _line: Any
        _margins: Any
        _tiles: Any
        _data: Any
        _indices: Any
        _indptr: Any

    def _output_margins(self, weights: Vector, n_outputs: int) -> Vector:
        """Return the n × K margins at K rows of weights; remembered like those of one output."""
        from discreet.rows import output_kernels as kernels

        point = self._point
        if point is not None and np.array_equal(weights, point.weights):
            return point.margins
        table = np.empty((self.n_rows, n_outputs))
        rows = weights.reshape(n_outputs, -1)
        product = self._output_product(np.ascontiguousarray(rows[:, : self.n_features]))
        constants = np.ascontiguousarray(rows[:, self.n_features :].ravel())

        def part(start: int, stop: int) -> None:
            product(start, stop, table[start:stop])
            kernels.finish_margins(table[start:stop], self._scales[start:stop], constants)

        in_parts(part, self.n_rows, self._n_entries * n_outputs, self.block_rows)
        self._point = Point(weights, table)
        return table

    def _output_product(self, weights: Vector) -> Callable[[int, int, Vector], None]:
        """Return what writes X[start:stop] @ weights.T to an array, each entry from its row alone.

        The bits are those of ``_products`` for one output after the other.
        """
        from discreet.rows import output_kernels as kernels

        if hasattr(self, "_tiles"):
            padded = np.zeros((-len(weights) % kernels.TOGETHER + len(weights), self.n_features))
            padded[: len(weights)] = weights

            def dense(start: int, stop: int, out: Vector) -> None:
                for first, tile in self._tiles(start, stop):
                    here = out[first - start : first - start + len(tile)]
                    kernels.dense_output_products(tile, padded, here)

            return dense
        columns = np.ascontiguousarray(weights.T)

        def sparse(start: int, stop: int, out: Vector) -> None:
            indptr = self._indptr[start : stop + 1]
            kernels.sparse_output_products(indptr, self._indices, self._data, columns, out)

        return sparse

    def _output_sum(self, start: int, factors: Vector) -> Vector:
        """Return factors.T @ X[start : start + len(factors)]."""
        from discreet.rows import output_kernels as kernels

        if hasattr(self, "_tiles"):
            total = np.zeros((factors.shape[1], self.n_features))
            for first, tile in self._tiles(start, start + len(factors)):
                here = factors[first - start : first - start + len(tile)]
                kernels.dense_output_add(tile, here, total)
            return total
        columns = np.zeros((self.n_features, factors.shape[1]))
        kernels.sparse_output_add(self._indptr, self._indices, self._data, start, factors, columns)
        return columns.T

    def _output_gradients(
        self, weights: ArrayLike, loss: Loss, clip: float
    ) -> tuple[Vector, float]:
        """Sum the rows' gradients, K × p numbers each, clipped to L2 norm ``clip``.

        Notes
        -----
        *Privacy.* The contract of ``Sum``. Row i contributes c_i = (u_ik·x_i, t_ik) over outputs
        k. Its slopes are scaled by one factor so that ‖t_i‖ ≤ clip/N_i: the computed norm is
        lifted by 1 + 4(K + 8)u, which outweighs its own rounding and that of the factor. As for
        one output, |u_ik|·‖x_i‖ ≤ |t_ik|·β_i/(1 + u), so ‖c_i‖ ≤ clip. Each of the K·p entries is
        summed in blocks like the p entries for one output, so it has error at most
        γ·Σ_i |c_i| entrywise and the same bound γ·n·clip in L2 norm (docs/proofs/summation.md).
        """
        from discreet.rows import output_kernels as kernels

        count = loss.n_outputs
        weights = check_vector("weights", weights, count * self.n_parameters)
        margins = self._output_margins(weights, count)

        def part(first: int, last: int) -> Vector:
            values = np.zeros((count, self.n_parameters))
            for start in range(first, last, self.block_rows):
                block = slice(start, min(start + self.block_rows, last))
                slopes = np.empty((block.stop - start, count))
                if type(loss) is Softmax:
                    kernels.softmax_slopes(margins[block], self._targets[block], slopes)
                else:
                    with np.errstate(all="ignore"):
                        slopes[:] = loss.derivative(margins[block], self._targets[block])
                totals = np.zeros(count)
                kernels.clip_outputs(slopes, self._norms[block], self._scales[block], clip, totals)
                values[:, : self.n_features] += self._output_sum(start, slopes)
                if self.fit_intercept:
                    values[:, -1] += totals
            return values

        parts = in_parts(part, self.n_rows, self._n_entries * count, self.block_rows)
        total = parts[0]
        for other in parts[1:]:
            total += other
        return total.ravel(), gradient_error(self._public_rows, self.block_rows, clip)
