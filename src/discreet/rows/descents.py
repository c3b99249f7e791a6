"""Compiled passes of gradient descent over single rows and small batches."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.core.rows import GridNoise
from discreet.objectives import Loss, kernel_code
from discreet.objectives.compile import KernelModule
from discreet.rows.bounds import SMALLEST_SCALE
from discreet.rows.data import RowData
from discreet.rows.sums import check_clip, clipped_sum, one_output
from discreet.validate import FloatArray, vector

__all__ = ["Path", "descend"]

KERNELS = KernelModule("discreet.rows.descent_kernels")


class Path(NamedTuple):
    """The last weights of a descent, and the sum of the weights after each update."""

    weights: FloatArray
    total: FloatArray


class Numbers(NamedTuple):
    """Public numbers of a descent that its kernels take, in their order."""

    clip: float
    steps: FloatArray
    alpha: float
    radius: float
    noise: NDArray[np.int64]
    grid: tuple[float, float]
    magnitude: float
    intercept: bool


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

    Parameters
    ----------
    order : integer array of shape (updates, b)
        The rows of each batch.
    steps : array of ``updates`` numbers
        Step sizes.
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
    data.need_stored("descent by batches")
    one_output(loss, "descents by batches")
    clip = check_clip(clip)
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
    numbers = Numbers(
        clip,
        steps,
        float(alpha),
        math.inf if radius is None else float(radius),
        np.ascontiguousarray(integers, dtype=np.int64),
        (math.ldexp(1.0, -grid), math.ldexp(1.0, grid)),
        float(magnitude),
        data.fit_intercept,
    )
    path = Path(start, np.zeros(data.n_parameters))
    with np.errstate(all="ignore"):
        _run(data, loss, index, numbers, path)
    return path


def _run(data: RowData, loss: Loss, order: NDArray[np.int64], numbers: Numbers, path: Path) -> None:
    code, parameter = kernel_code(loss)
    if not code:
        _run_given(data, loss, order, numbers, path)
        return
    for updates, source, index, rows in data.table.batches(order):
        scales = data.scales[rows] if data.scales.size else data.scales
        arrays = (data.targets[rows], data.norm_bounds[rows], scales)
        noise = numbers.noise[updates] if len(numbers.noise) else numbers.noise
        these = numbers._replace(steps=numbers.steps[updates], noise=noise)
        kernel = KERNELS.sparse_descent if len(source) > 1 else KERNELS.dense_descent
        kernel(source, arrays, index, (code, parameter), tuple(these), tuple(path))


def _run_given(
    data: RowData, loss: Loss, order: NDArray[np.int64], numbers: Numbers, path: Path
) -> None:
    """Descend with a loss that is not compiled: its derivative is called once for each batch."""
    size = order.shape[1]
    for t, rows in enumerate(order):
        batch = data.take(rows)
        total = clipped_sum(
            batch, np.empty(size), loss, numbers.clip, batch.norm_bounds, missing=path.weights
        ).values
        grid = (numbers.noise, t, numbers.grid, numbers.magnitude)
        step = (size, numbers.steps[t], numbers.alpha, numbers.radius)
        KERNELS.take_step(total, *grid, *step, *path)
