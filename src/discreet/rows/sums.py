"""Clipped sums of gradients and losses over rows.

Every function returns a `Sum`. Its contract is stated there and proved in docs/proofs/summation.md
and, for rows under an affine map, docs/proofs/affine.md: the part of a row is computed from that
row and public arguments alone. The public functions are methods of `discreet.rows.Rows`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import NotSupported
from discreet.objectives import Logistic, Loss, Softmax
from discreet.objectives.compile import KernelModule
from discreet.rows.affine import read_only
from discreet.rows.bounds import (
    BLOCK_ROWS,
    CLIP_RANGE,
    ENTRY_LIFT,
    SMALLEST_MAPPED_CLIP,
    SMALLEST_NORM,
    SMALLEST_PRODUCT_CLIP,
    gradient_error,
    line_error,
    mapped_error,
)
from discreet.rows.data import Line, Point, RowData
from discreet.rows.sparse import SparseTable
from discreet.rows.table import KERNELS, LOSS_KERNELS
from discreet.validate import FloatArray, number, vector

FORMULAS = KernelModule("discreet.objectives.formulas")

CLIP: Any = {"least": CLIP_RANGE[0], "most": CLIP_RANGE[1], "remedy": "A usual choice is 3."}
"""Check of a clip."""

NEAR_ENTRIES = 2**14
"""Entries of X whose gradients are computed at a time: they stay in the nearest caches."""

FEW = 8
"""Columns of a sparse table are looked up one by one if at most one in this many has a weight."""


class Sum(NamedTuple):
    """A sum over rows, and a public bound on its rounding error.

    ``values`` is private. There are c_i, each a function of row i and of public arguments only and
    each within the clip, such that values differs from Σ c_i by at most ``error``, for this table
    and for every table with one row more, fewer or replaced. So the sensitivity of ``values`` is at
    most that of Σ c_i plus 2·error.
    """

    values: FloatArray
    error: float


def one_output(loss: Loss, what: str) -> None:
    """Refuse a loss with several margins per row where only one is supported."""
    if loss.n_outputs > 1:
        raise NotSupported(
            f"{what} need a loss of one margin per row; {loss.name!r} has several outputs "
            f"({loss.n_outputs}). Use a solver that takes gradients only, such as 'gd'."
        )


def carried_back(data: RowData, sums: FloatArray, factor: float) -> Sum:
    """Turn sums over stored rows and their factors, (K, d + 1), into a sum over rows.

    ``factor`` bounds the norm of a row's part; for mapped rows, what a row is multiplied by.
    """
    size, table = data.public_size, data.table
    if data.map.is_identity:
        error = gradient_error(size, table.block_rows, factor)
        return Sum(sums[:, : data.n_parameters].ravel(), error)
    values = data.map.forward(sums)[:, : data.n_parameters]
    error = mapped_error(size, table.block_rows, factor, table.n_features, data.map.bound)
    return Sum(values.ravel(), error)


def gradient_sum(data: RowData, weights: ArrayLike, loss: Loss, clip: float) -> Sum:
    """Sum the rows' loss gradients φ'(margin, target)·x, each clipped to L2 norm ``clip``.

    That limits φ' to ±clip/‖x‖; a slope that is not a number counts as 0. The penalty is not
    included. ``weights`` has n_parameters numbers per output of the loss. Margins at the weights of
    the last call, and at those of the last `line_losses`, are remembered.

    *Privacy.* L2 sensitivity of ``values``: clip + 2·error under add/remove, 2·clip + 2·error
    under replace, by the contract in :class:`Sum` with ‖c_i‖₂ ≤ clip (times the row's weight, in
    this sum and all others). A third-party loss must be elementwise.
    """
    clip = number("clip", clip, **CLIP)
    if not data.map.is_identity and clip < SMALLEST_MAPPED_CLIP:
        raise ValueError(
            f"clip must be at least {SMALLEST_MAPPED_CLIP:g} for rows under an affine map; got "
            f"{clip!r}."
        )
    at = vector("weights", weights, loss.n_outputs * data.n_parameters)
    return clipped_sum(data, at, loss, clip)


def clipped_sum(
    data: RowData,
    weights: FloatArray,
    loss: Loss,
    clip: float,
    sizes: FloatArray | None = None,
    margins: FloatArray | None = None,
    within: float | None = None,
) -> Sum:
    """Sum φ'·x over rows, each φ' limited to ±clip/size of its row: by default its norm N_i.

    Margins at the weights are given, remembered, or computed on the way, piece by piece of X. The
    part of a row is ``within`` a norm, by default the clip.

    With several outputs k, row i contributes c_i = (u_ik·x_i, t_ik). Its slopes are scaled by one
    factor so that ‖t_i‖ ≤ clip/N_i: the computed norm is lifted by 1 + 4(K + 8)u, which outweighs
    its own rounding and that of the factor. The rest is as for one output, for all K·p entries.
    """
    table, form, count = data.table, (loss.parameter,) * loss.code, loss.n_outputs
    shape, softmax = (count, table.n_features + 1), type(loss) is Softmax
    missing = np.empty((count, 0))  # weights of missing margins
    found = data.memory.known(weights) if margins is None else margins
    if found is None and (form or softmax):
        data.memory.point = None  # a vector less while the new one is computed
        missing = np.zeros(shape)
        missing[:, :-1], constants = data.carried(weights, count)
        missing[:, -1] = constants if constants.size else 0.0
        found = np.empty((0, count) if softmax else data.n_rows)
    margins = data.margins_at(weights, count) if found is None else found
    height = min(table.block_rows, table.height)

    def block_sums(at: slice) -> FloatArray:
        rows, given = table.block(at), data.targets[at]
        values = np.zeros((-(-given.size // height), *shape))
        norms = data.bounds(at) if sizes is None else sizes[at]
        norms = np.maximum(norms, data.smallest) if data.smallest else norms
        numbers: Any = (norms, data.scales[at], data.weights[at])
        heights = (NEAR_ENTRIES // table.n_features, height)
        if not form and not softmax:
            with np.errstate(all="ignore"):
                given = np.array(loss.derivative(margins[at], given), dtype=np.float64)
        given, settings = read_only(given), (clip, margins[at], heights)
        if count == 1:
            numbers = (given, *numbers)
            LOSS_KERNELS.gradient(form, rows, missing[0], numbers, *settings, values[:, 0])
        else:
            LOSS_KERNELS.output_gradient(rows, missing, given, numbers, *settings, values)
        return values

    total = data.total(block_sums, shape, entries=count * table.n_entries, stacked=True)
    if missing.size and form:
        data.memory.point = Point(weights, margins)
    return carried_back(data, total, clip if within is None else within)


def line_losses(
    data: RowData,
    weights: ArrayLike,
    direction: ArrayLike,
    steps: ArrayLike,
    loss: Loss,
    clip: float,
) -> Sum:
    """Sum the rows' losses, each clipped at ``clip``, at ``weights - step * direction``.

    One product with X serves all steps. The logistic loss is fastest with steps that start at
    0 and are equally spaced. ``values[k]`` belongs to ``steps[k]``; ``error`` holds for each.

    *Privacy.* By the contract in :class:`Sum` with 0 ≤ c_i ≤ clip, adding a row changes every
    value by a number in [0, clip], up to 2·error. A loss that is not a number counts as clip.
    """
    clip = number("clip", clip, **CLIP)
    one_output(loss, "losses along a line")
    start_weights = vector("weights", weights, data.n_parameters)
    along = vector("direction", direction, data.n_parameters)
    steps = vector("steps", steps)
    at_start, memory, targets = data.margins_at(start_weights), data.memory, data.targets
    if memory.line is not None and np.array_equal(along, memory.line.direction):
        changes = memory.line.changes
    else:
        memory.line = None  # two vectors less while the new one is computed
        changes = data.computed_margins(along)
    memory.line = Line(Point(start_weights, at_start), steps, along, changes)
    form = (loss.parameter,) * loss.code
    compiled = bool(form) and not data.weights.size
    products = type(loss) is Logistic and clip >= SMALLEST_PRODUCT_CLIP and _equally_spaced(steps)
    cap = math.exp(min(clip, 700.0)) * (1.0 - 2.0**-50)  # so that log(cap) <= clip
    group = int(min(64, max(1, 600 / clip)))  # factors whose product cannot overflow

    def block_sum(at: slice) -> FloatArray:
        m, v, y, sums = at_start[at], changes[at], targets[at], np.zeros(steps.size)
        if products and compiled:
            LOSS_KERNELS.logistic_line_sums(m, v, y, steps, clip, cap, group, sums)
        elif compiled:
            LOSS_KERNELS.line_sums(form, m, v, y, steps, clip, sums)
        else:
            with np.errstate(all="ignore"):
                for k, step in enumerate(steps):
                    found = losses(loss, m - step * v, y)
                    sums[k] = LOSS_KERNELS.cut_sum(found, data.weights[at], 0.0, clip)
        return sums

    entries = data.n_rows * steps.size
    values = data.total(block_sum, steps.size, entries=entries, block_rows=BLOCK_ROWS)
    return Sum(values, line_error(data.public_size, BLOCK_ROWS, clip, products=products))


def _equally_spaced(steps: FloatArray) -> bool:
    """Return True if steps are 0, s, 2s, … with s > 0, up to rounding."""
    if steps.size < 2:
        return False
    spaced = steps[1] * np.arange(steps.size)
    return bool(steps[0] == 0 and steps[1] > 0 and (abs(steps - spaced) <= 1e-13 * spaced).all())


def corner_gradient(data: RowData, weights: ArrayLike, loss: Loss, clip: float) -> Sum:
    """Sum the rows' loss gradients, each scaled down until no entry of it exceeds ``clip``.

    That limits φ' to ±clip/max_j|x_j|; the constant of the intercept counts as an entry of the row.
    ``error`` holds for each entry.

    *Privacy.* Each entry of ``values`` moves by at most clip + 2·error under add/remove,
    2·clip + 2·error under replace: the contract in `Sum` with ‖c_i‖_∞ ≤ clip. Proof:
    docs/proofs/frank_wolfe.md.
    """
    data.need_stored("a gradient with bounded entries")
    one_output(loss, "gradients with bounded entries")
    clip = number("clip", clip, **CLIP)
    at = vector("weights", weights, data.n_parameters)
    if data.memory.largest is None:
        bounds = np.empty(data.n_rows)
        data.table.each(lambda at: KERNELS.largest(data.table.block(at), bounds[at]))
        if data.scales.size:
            bounds *= data.scales
        if data.fit_intercept:
            np.maximum(bounds, 1.0, out=bounds)
        with np.errstate(over="ignore"):
            bounds *= ENTRY_LIFT
        data.memory.largest = np.maximum(bounds, SMALLEST_NORM, out=bounds)
    margins, largest = corner_margins(data, at), data.memory.largest
    return clipped_sum(data, at, loss, clip, largest, margins)


def corner_margins(data: RowData, weights: FloatArray) -> FloatArray:
    """Return margins at weights most of which may be zero; how they are computed is public."""
    table = data.table
    used = weights[: data.n_features] != 0
    if not isinstance(table, SparseTable) or FEW * np.count_nonzero(used) > data.n_features:
        return data.margins_at(weights)
    values = np.empty(data.n_rows)
    table.each(lambda at: KERNELS.few_products(table.block(at), weights, used, values[at]))
    data.finish_margins(values, slice(None), weights[data.n_features :])
    return values


def candidate_losses(
    data: RowData, candidates: ArrayLike, parent: ArrayLike, loss: Loss, clip: float
) -> Sum:
    """Sum, for each candidate, the rows' changes of loss from ``parent``, clipped to ±clip.

    ``candidates`` has shape (m, n_parameters), and ``error`` holds for each of ``values``.

    *Privacy.* By the contract in `Sum` with |c_ik| ≤ clip, adding a row moves each value by at
    most clip + 2·error, either way; replacing one, by 2·clip + 2·error. A change that is not
    a number counts as clip. A third-party loss must be elementwise. Proof: docs/proofs/privgene.md.
    """
    one_output(loss, "losses of candidates")
    clip = number("clip", clip, **CLIP)
    points = np.ascontiguousarray(candidates, dtype=np.float64)
    shape = (data.n_parameters,)
    if points.ndim != 2 or points.shape[1:] != shape or not np.isfinite(points).all():
        raise ValueError(
            f"candidates must be finite and have shape (m, {data.n_parameters}); got shape "
            f"{points.shape}."
        )
    parent = vector("parent", parent, data.n_parameters)
    weights = [data.carried(point) for point in (parent, *points)]

    def block_sum(at: slice) -> FloatArray:
        # margins are held for one candidate at a time
        values, targets = np.zeros(len(points) + 1), data.targets[at]
        margins, before = np.empty((2, targets.size))
        for k, carried in enumerate(weights):
            data.block_margins(at, carried, margins)
            with np.errstate(all="ignore"):
                found = losses(loss, margins, targets)
                before = found if k == 0 else before
                change = found - before
                values[k] = LOSS_KERNELS.cut_sum(change, data.weights[at], -clip, clip)
        return values[1:]

    entries = data.table.n_entries * len(points)
    values = data.total(block_sum, len(points), entries=entries, block_rows=BLOCK_ROWS)
    return Sum(values, gradient_error(data.public_size, BLOCK_ROWS, clip))


def losses(loss: Loss, margins: FloatArray, targets: FloatArray) -> FloatArray:
    """Return the losses of rows at their margins."""
    form = (loss.parameter,) * loss.code
    if not form:
        return np.asarray(loss.value(margins, targets), dtype=np.float64)
    out = np.empty(len(margins))
    FORMULAS.losses(form, margins, targets, out)
    return out
