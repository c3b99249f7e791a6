"""Compiled passes of gradient descent over single rows and small batches."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.core.rows import GridNoise
from discreet.objectives import Loss
from discreet.rows.affine import read_only
from discreet.rows.bounds import SMALLEST_SCALE
from discreet.rows.data import RowData
from discreet.rows.sparse import Table
from discreet.rows.sums import CLIP, clipped_sum, one_output
from discreet.rows.table import LOSS_KERNELS, DenseTable
from discreet.validate import FloatArray, number, vector

GATHERED = 2**17
"""Entries of rows that are gathered at a time, from a table that kernels cannot read in place."""


class Path(NamedTuple):
    """The last weights of a descent, and the sum of the weights after each update."""

    weights: FloatArray
    total: FloatArray


def descend(
    data: RowData,
    weights: ArrayLike,
    loss: Loss,
    *,
    order: ArrayLike,
    steps: ArrayLike,
    clip: float,
    alpha: float = 0.0,
    radius: float | None = None,
    noise: GridNoise | None = None,
) -> Path:
    """Take one step of gradient descent for each batch of rows.

    w ← w − step·(sum/b + alpha·w), where sum adds up the b rows' gradients at w, each clipped
    to norm ``clip``, and noise on a grid if there is any; then the projection to a ball.

    ``order`` has the rows of each batch, shape (updates, b), and ``steps`` the step sizes; weights
    are projected to the ball of ``radius`` after each step. Without ``noise`` the result depends on
    exact rows, and rows that are scaled down by more than 2^-500 take no part (their margins could
    overflow).

    *Privacy.* With noise, the result is a function of the noisy sums and of public arguments.
    Given the weights before it, a batch's sum has L2 sensitivity 2·clip + 2·`batch_error` when
    one of its rows is replaced, by the contract of :class:`discreet.rows.Sum`. Without noise
    the result is private. Proof: docs/proofs/descents.md.
    """
    data.check_batches()
    data.need_stored("descent by batches")
    one_output(loss, "descents by batches")
    clip = number("clip", clip, **CLIP)
    start = vector("weights", weights, data.n_parameters)
    steps = vector("steps", steps)
    index = np.ascontiguousarray(order, dtype=np.int64)
    if index.ndim != 2 or index.shape[1] < 1 or len(index) != steps.size:
        raise ValueError("order must have one row of at least one index for each step.")
    if index.size and not (index.min() >= 0 and index.max() < data.n_rows):
        raise ValueError("order names rows that do not exist.")
    integers, grid, magnitude = np.empty((0, data.n_parameters), dtype=np.int64), 0, 0.0
    if noise is not None:
        integers, grid, magnitude = noise
        if integers.shape != (len(index), data.n_parameters):
            raise ValueError("noise must have one row of n_parameters integers for each step.")
    elif data.scales.size:
        norms = np.where(data.scales < SMALLEST_SCALE, math.inf, data.norm_bounds)
        data = replace(data, norm_bounds=norms)  # whose clip is then 0
    integers = np.ascontiguousarray(integers, dtype=np.int64)
    scaling = ((math.ldexp(1.0, -grid), math.ldexp(1.0, grid)), float(magnitude))
    penalty = (float(alpha), math.inf if radius is None else float(radius))
    path = Path(start, np.zeros(data.n_parameters))
    code, parameter = loss.code, loss.parameter
    with np.errstate(all="ignore"):
        for updates, source, at, rows in _batches(data.table, index) if code else ():
            scales = data.scales[rows] if data.scales.size else data.scales
            arrays = (data.targets[rows], data.norm_bounds[rows], scales)
            drawn = integers[updates] if len(integers) else integers
            numbers = (clip, steps[updates], *penalty, drawn, *scaling, data.fit_intercept)
            LOSS_KERNELS.descent(source, arrays, at, (code, parameter), numbers, tuple(path))
        for t, rows in enumerate(() if code else index):  # calls the derivative for each batch
            batch, room = data.take(rows), np.empty(rows.size)
            total = clipped_sum(batch, room, loss, clip, missing=path.weights)
            step = (rows.size, steps[t], *penalty)
            LOSS_KERNELS.take_step(total.values, integers, t, *scaling, *step, *path)
    return path


def _batches(
    table: Table, order: NDArray[np.int64]
) -> Iterator[tuple[slice, tuple[Any, ...], NDArray[np.int64], Any]]:
    """Yield (updates, rows that kernels read, their batches within these, their places)."""
    everything = slice(None)
    if not isinstance(table, DenseTable):
        yield everything, table.block(0, table.n_rows), order, everything
    elif table.as_stored:
        yield everything, (table.array,), order, everything
    else:
        height = max(1, GATHERED // max(1, order.shape[1] * table.n_features))
        for first in range(0, len(order), height):
            part = order[first : first + height]
            tile = read_only(np.ascontiguousarray(table.array[part.ravel()], dtype=np.float64))
            index = np.arange(part.size, dtype=np.int64).reshape(part.shape)
            yield slice(first, first + height), (tile,), index, part.ravel()
