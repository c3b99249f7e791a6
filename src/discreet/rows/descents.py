"""Compiled passes of gradient descent over single rows and small batches."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import NotSupported
from discreet.rows.bounds import gradient_error
from discreet.rows.checks import Vector, check_clip, check_steps, check_vector

if TYPE_CHECKING:
    from discreet.objectives import Loss

__all__ = ["Descents", "GridNoise", "Path"]

TILE_ENTRIES = 2**17
"""Entries of X (1 MB) gathered at a time, where its own memory cannot be used directly."""

SMALLEST_SCALE = 2.0**-500
"""Rows scaled down further than this take no part in a descent without noise."""


class GridNoise(NamedTuple):
    """Noise for the batches' sums, as `AdditiveMechanism.draw_block` gives it.

    Attributes
    ----------
    integers : ndarray of int64, shape (updates, n_parameters)
        The noise, as multiples of 2^grid.
    grid : int
        The exponent of the grid that sums are rounded to.
    magnitude : float
        Public bound that coordinates of sums are cut to.
    """

    integers: NDArray[np.int64]
    grid: int
    magnitude: float


class Path(NamedTuple):
    """Where a descent led: the last weights, and the sum of the weights after each update."""

    weights: Vector
    total: Vector


class Descents:
    """Descent row by row, in an order that the caller chose."""

    n_rows: int
    n_features: int
    n_parameters: int
    fit_intercept: bool
    _targets: Vector
    _norms: Vector
    _scales: Vector

    @staticmethod
    def batch_error(batch_size: int, clip: float) -> float:
        """Bound the rounding error of the sum of a batch's gradients (docs/proofs/descents.md)."""
        return gradient_error(batch_size, batch_size, clip)

    def descend(
        self,
        weights: ArrayLike,
        loss: Loss,
        *,
        order: NDArray[np.int64],
        steps: ArrayLike,
        clip: float,
        alpha: float = 0.0,
        radius: float | None = None,
        noise: GridNoise | None = None,
    ) -> Path:
        """Take one step of gradient descent for each batch of rows.

        w ← w − step·(sum/b + alpha·w), where sum adds up the b rows' gradients at w, each clipped
        to norm ``clip``, and noise on a grid if there is any; then the projection to a ball.

        Parameters
        ----------
        weights : array of n_parameters numbers
            Where to start.
        loss : Loss
            The loss; the library's own are compiled.
        order : integer array of shape (updates, b)
            The rows of each batch.
        steps : array of ``updates`` numbers
            Step sizes.
        clip : float
            Bound on the norm of a row's gradient.
        alpha : float
            Weight of the penalty alpha/2·‖w‖².
        radius : float or None
            Project to the ball of this radius after each step.
        noise : GridNoise or None
            Noise for each sum. Without it the result depends on exact rows, and rows that are
            scaled down by more than 2^-500 take no part (their margins could overflow).

        Notes
        -----
        *Privacy.* With noise, the result is a function of the noisy sums and of public arguments.
        Given the weights before it, a batch's sum has L2 sensitivity 2·clip + 2·`batch_error` when
        one of its rows is replaced, by the contract of :class:`discreet.rows.Sum`. Without noise
        the result is private. Proof: docs/proofs/descents.md.
        """
        if getattr(loss, "n_outputs", 1) > 1:
            raise NotSupported(f"descent by batches needs a loss of one output; got {loss.name!r}.")
        clip = check_clip(clip)
        start = check_vector("weights", weights, self.n_parameters)
        steps = check_steps(steps)
        order = np.ascontiguousarray(order, dtype=np.int64)
        if order.ndim != 2 or order.shape[1] < 1 or len(order) != steps.size:
            raise ValueError("order must have one row of at least one index for each step.")
        if order.size and not (order.min() >= 0 and order.max() < self.n_rows):
            raise ValueError("order names rows that do not exist.")
        norms = self._norms
        integers, grid, magnitude = np.empty((0, self.n_parameters), dtype=np.int64), 0, 0.0
        if noise is not None:
            integers, grid, magnitude = noise
            if integers.shape != (len(order), self.n_parameters):
                raise ValueError("noise must have one row of n_parameters integers for each step.")
        elif self._scales.size:
            norms = np.where(self._scales < SMALLEST_SCALE, math.inf, norms)
        common = (
            float(alpha),
            math.inf if radius is None else float(radius),
            np.ascontiguousarray(integers, dtype=np.int64),
            (math.ldexp(1.0, -grid), math.ldexp(1.0, grid)),
            float(magnitude),
            self.fit_intercept,
        )
        path = Path(start, np.zeros(self.n_parameters))
        with np.errstate(all="ignore"):
            self._descend(loss, norms, order, clip, steps, common, path)
        return path

    def _descend(
        self,
        loss: Loss,
        norms: Vector,
        order: NDArray[np.int64],
        clip: float,
        steps: Vector,
        common: tuple[Any, ...],
        path: Path,
    ) -> None:
        from discreet.rows import descent_kernels as kernels
        from discreet.rows.base import _compiled

        code, parameter = _compiled(loss)
        alpha, radius, noise, *rest = common
        for updates, source, index, of_rows in self._sources(order):
            data = (self._targets[of_rows], norms[of_rows], self._scales)
            if self._scales.size:
                data = (*data[:2], self._scales[of_rows])
            part = noise[updates] if len(noise) else noise
            numbers = (clip, steps[updates], alpha, radius, part, *rest)
            if not code:
                _descend_slowly(loss, source, data, index, numbers, path)
                continue
            descent = kernels.dense_descent if len(source) == 1 else kernels.sparse_descent
            descent(*source, *data, index, code, parameter, *numbers, *path)

    def _sources(self, order: NDArray[np.int64]) -> Any:
        """Yield (updates, table, order within it, its rows) such that kernels can read the table.

        A table that they cannot read in place is gathered in tiles of whole batches.
        """
        everything = slice(None)
        rows: Any = self
        if hasattr(self, "_indptr"):
            source = (rows._indptr, rows._indices, rows._data, self.n_features)
            yield everything, source, order, everything
            return
        if rows._by_row:
            yield everything, (rows._table,), order, everything
            return
        height = max(1, TILE_ENTRIES // max(1, order.shape[1] * self.n_features))
        for first in range(0, len(order), height):
            part = order[first : first + height]
            tile = np.ascontiguousarray(rows._table[part.ravel()], dtype=np.float64)
            tile.flags.writeable = False  # the type that the kernels are compiled for
            index = np.arange(part.size, dtype=np.int64).reshape(part.shape)
            yield slice(first, first + height), (tile,), index, part.ravel()


def _descend_slowly(
    loss: Loss,
    source: tuple[Any, ...],
    data: tuple[Vector, Vector, Vector],
    order: NDArray[np.int64],
    numbers: tuple[Any, ...],
    path: Path,
) -> None:
    """Descend with a loss that is not compiled: its derivative is called once for each batch."""
    from discreet.rows import descent_kernels as kernels
    from discreet.rows.loss_kernels import GIVEN

    clip, steps, alpha, radius, noise, grid, magnitude, intercept = numbers
    targets, norms, scales = data
    weights, b = path.weights, order.shape[1]
    sparse = len(source) > 1
    margins, factors, work = np.empty(b), np.empty(b), np.empty((3, b))
    add: Callable[..., None] = kernels.sparse_sum if sparse else kernels.dense_sum
    for t, rows in enumerate(order):
        if sparse:
            *table, n_columns = source
            kernels.sparse_margins(*table, rows, weights, n_columns, scales, intercept, margins)
        else:
            table = list(source)
            kernels.dense_margins(*table, rows, weights, scales, intercept, margins)
        slopes = np.empty(b)
        slopes[:] = loss.derivative(margins.copy(), targets[rows])
        constant = kernels.batch_slopes(
            GIVEN, 0.0, slopes, rows, targets, norms, scales, clip, work, factors
        )
        total = np.zeros(weights.size)
        add(*table, rows, factors, total)
        if intercept:
            total[-1] = constant
        drawn = noise[t] if len(noise) else noise[:0].ravel()
        kernels.take_step(
            total, drawn, grid, magnitude, b, steps[t], alpha, radius, weights, path.total
        )
