"""Compiled passes of gradient descent over single rows and small batches."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.objectives import Loss
from discreet.rows.bounds import SMALLEST_SCALE
from discreet.rows.data import RowData
from discreet.rows.sums import CLIP, clipped_sum, one_output
from discreet.rows.table import LOSS_KERNELS, blocks
from discreet.validate import FloatArray, number, vector


class GridNoise(NamedTuple):
    """Noise for each update of a descent: multiples of 2^grid, for sums cut to ``magnitude``."""

    integers: NDArray[np.int64]
    grid: int
    magnitude: float


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
    to norm ``clip``, and noise on a grid if there is any; then the projection to the ball of
    ``radius``. ``order`` has the rows of each batch, shape (updates, b). Without ``noise``, rows
    that are scaled down by more than 2^-500 take no part (their margins could overflow).

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
    form = (loss.parameter,) * loss.code
    whole = data.table.height >= data.n_rows  # others are gathered, a few batches at a time
    height = len(index) if whole else data.table.height // index.shape[1]
    with np.errstate(all="ignore"):
        for at in blocks(slice(0, len(index) if form else 0), max(1, height)):
            some, batches = data, index[at]
            if not whole:
                some, count = data.take(batches.ravel()), batches.size
                batches = np.arange(count, dtype=np.int64).reshape(batches.shape)
            arrays = (some.targets, some.norm_bounds, some.scales)
            drawn = integers[at] if len(integers) else integers
            numbers = (clip, steps[at], *penalty, drawn, *scaling, data.fit_intercept)
            rows = some.table.block(slice(0, some.n_rows))
            LOSS_KERNELS.descend(rows, arrays, batches, form, numbers, tuple(path))
        for t, batch in enumerate(() if form else index):  # calls the derivative for each batch
            total = clipped_sum(data.take(batch), path.weights, loss, clip)
            step = (batch.size, steps[t], *penalty)
            LOSS_KERNELS.take_step(total.values, integers, t, *scaling, *step, *path)
    return path
