"""Clipped sums of gradients and losses over rows.

Every function returns a `Sum`. Its contract is stated there and proved in docs/proofs/summation.md
and, for rows under an affine map, docs/proofs/affine.md: the part of a row is computed from that
row and public arguments alone. `discreet.rows.Rows` says what each sum is for.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import NotSupported
from discreet.objectives import Logistic, Loss, Softmax, kernel_code
from discreet.objectives.compile import KernelModule
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
from discreet.rows.data import Margins, Point, RowData
from discreet.rows.sparse import SparseTable
from discreet.rows.table import add_up, in_parts
from discreet.validate import FloatArray, number, vector

__all__ = [
    "Sum",
    "candidate_losses",
    "check_clip",
    "clipped_sum",
    "corner_gradient",
    "gradient",
    "largest_entries",
    "line_losses",
    "losses",
    "one_output",
]

LOSS_KERNELS = KernelModule("discreet.rows.loss_kernels")
FORMULAS = KernelModule("discreet.objectives.kernels")

FEW = 8
"""Columns of a sparse table are looked up one by one if at most one in this many has a weight."""


class Sum(NamedTuple):
    """A sum over rows, and a public bound on its rounding error.

    Attributes
    ----------
    values : ndarray of float64
        The sum as computed. It depends on the rows: it is private.
    error : float
        There are c_i, each a function of row i and of public arguments only and each within the
        clip, such that values differs from Σ c_i by at most error, for this table and for every
        table with one row more, fewer or replaced. error is computed from public numbers only. So
        the sensitivity of ``values`` is at most that of Σ c_i plus 2·error.
    """

    values: FloatArray
    error: float


def check_clip(clip: float, name: str = "clip") -> float:
    """Return a clip that is in range."""
    low, high = CLIP_RANGE
    return number(name, clip, least=low, most=high, remedy="A usual choice is 3.")


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
    table, public_rows = data.table, data.public_rows
    if data.map.is_identity:
        error = gradient_error(public_rows, table.block_rows, factor)
        return Sum(sums[:, : data.n_parameters].ravel(), error)
    values = data.map.forward(sums)[:, : data.n_parameters]
    error = mapped_error(public_rows, table.block_rows, factor, table.n_features, data.map.bound)
    return Sum(values.ravel(), error)


def gradient(data: RowData, margins: Margins, weights: ArrayLike, loss: Loss, clip: float) -> Sum:
    """Sum the rows' loss gradients, each clipped to L2 norm ``clip``."""
    clip = check_clip(clip)
    if not data.map.is_identity and clip < SMALLEST_MAPPED_CLIP:
        raise ValueError(
            f"clip must be at least {SMALLEST_MAPPED_CLIP:g} for rows under an affine map; got "
            f"{clip!r}."
        )
    at = vector("weights", weights, loss.n_outputs * data.n_parameters)
    if loss.n_outputs > 1:
        return _output_gradient(data, margins.of_outputs(data, at, loss.n_outputs), loss, clip)
    known = margins.known(at)
    if known is not None:
        return clipped_sum(data, known, loss, clip, data.clip_sizes())
    computed = np.empty(data.n_rows)
    total = clipped_sum(data, computed, loss, clip, data.clip_sizes(), missing=at)
    margins.point = Point(at, computed)
    return total


def clipped_sum(
    data: RowData,
    margins: FloatArray,
    loss: Loss,
    clip: float,
    sizes: FloatArray,
    missing: FloatArray | None = None,
) -> Sum:
    """Sum φ'·x over rows, each φ' limited to ±clip/size of its row.

    With ``missing`` weights, margins are computed first, piece by piece of X, and written down.
    """
    table, targets, scales = data.table, data.targets, data.scales
    code, parameter = kernel_code(loss)
    slopes_of, clip_slopes = FORMULAS.SLOPES[code], LOSS_KERNELS.clip_slopes
    if missing is not None:
        rows, constants = data.carried(missing, 1)

    def part(first: int, last: int) -> FloatArray:
        values = np.zeros(table.n_features + 1)
        buffer = np.empty(min(table.block_rows, last - first))
        for start in range(first, last, table.block_rows):
            subtotals, constant = np.zeros(table.n_features), 0.0
            for piece in table.pieces(start, min(start + table.block_rows, last)):
                at = slice(piece.start, piece.stop)
                here, slopes = margins[at], buffer[: piece.stop - piece.start]
                with np.errstate(all="ignore"):
                    if missing is not None:
                        data.piece_margins(piece, rows[0], constants, here)
                    if code:
                        slopes_of(parameter, here, targets[at], slopes)
                    else:
                        slopes[:] = loss.derivative(here, targets[at])
                constant += clip_slopes(sizes[at], scales[at], clip, slopes)
                table.add(piece, slopes, subtotals)
            values[:-1] += subtotals
            values[-1] += constant
        return values

    parts = in_parts(part, data.n_rows, table.n_entries, table.block_rows)
    return carried_back(data, add_up(parts)[None, :], clip)


def _output_gradient(data: RowData, margins: FloatArray, loss: Loss, clip: float) -> Sum:
    """Sum the rows' gradients, K × p numbers each, clipped to L2 norm ``clip``.

    Row i contributes c_i = (u_ik·x_i, t_ik) over outputs k. Its slopes are scaled by one factor so
    that ‖t_i‖ ≤ clip/N_i: the computed norm is lifted by 1 + 4(K + 8)u, which outweighs its own
    rounding and that of the factor. As for one output, |u_ik|·‖x_i‖ ≤ |t_ik|·β_i/(1 + u), so
    ‖c_i‖ ≤ clip. Each of the K·p entries is summed in blocks like the p entries for one output, so
    it has error at most γ·Σ_i |c_i| entrywise and the same bound γ·n·clip in L2 norm.
    """
    table, count, sizes = data.table, loss.n_outputs, data.clip_sizes()

    def part(first: int, last: int) -> FloatArray:
        values = np.zeros((count, table.n_features + 1))
        for start in range(first, last, table.block_rows):
            block = slice(start, min(start + table.block_rows, last))
            slopes = np.empty((block.stop - start, count))
            if type(loss) is Softmax:
                FORMULAS.softmax_slopes(margins[block], data.targets[block], slopes)
            else:
                with np.errstate(all="ignore"):
                    slopes[:] = loss.derivative(margins[block], data.targets[block])
            totals = np.zeros(count)
            LOSS_KERNELS.clip_outputs(slopes, sizes[block], data.scales[block], clip, totals)
            values[:, :-1] += table.output_sum(start, slopes)
            values[:, -1] += totals
        return values

    parts = in_parts(part, data.n_rows, table.n_entries * count, table.block_rows)
    return carried_back(data, add_up(parts), clip)


def line_losses(
    data: RowData,
    margins: Margins,
    weights: ArrayLike,
    direction: ArrayLike,
    steps: ArrayLike,
    loss: Loss,
    clip: float,
) -> Sum:
    """Sum the rows' losses, each clipped at ``clip``, at ``weights - step * direction``."""
    clip = check_clip(clip)
    one_output(loss, "losses along a line")
    start_weights = vector("weights", weights, data.n_parameters)
    along = vector("direction", direction, data.n_parameters)
    steps = vector("steps", steps)
    line = margins.along(data, margins.at(data, start_weights), along, steps)
    at_start, changes, targets = line.start.margins, line.changes, data.targets
    code, parameter = kernel_code(loss)
    products = type(loss) is Logistic and clip >= SMALLEST_PRODUCT_CLIP and _equally_spaced(steps)
    cap = math.exp(min(clip, 700.0)) * (1.0 - 2.0**-50)  # so that log(cap) <= clip
    group = int(min(64, max(1, 600 / clip)))  # factors whose product cannot overflow

    def part(first: int, last: int) -> FloatArray:
        values, sums = np.zeros(steps.size), np.zeros(steps.size)
        for start in range(first, last if steps.size else first, BLOCK_ROWS):
            block = slice(start, min(start + BLOCK_ROWS, last))
            m, v, y = at_start[block], changes[block], targets[block]
            if products:
                LOSS_KERNELS.logistic_line_sums(m, v, y, steps, clip, cap, group, sums)
            elif code:
                LOSS_KERNELS.line_sums(code, parameter, m, v, y, steps, clip, sums)
            else:
                sums = _given_line_sums(loss, m, v, y, steps, clip)
            values += sums
        return values

    values = add_up(in_parts(part, data.n_rows, data.n_rows * steps.size, BLOCK_ROWS))
    return Sum(values, line_error(data.public_rows, BLOCK_ROWS, clip, products=products))


def _given_line_sums(
    loss: Loss,
    margins: FloatArray,
    changes: FloatArray,
    targets: FloatArray,
    steps: FloatArray,
    clip: float,
) -> FloatArray:
    """Sum the clipped losses of one block through the loss's own ``value``."""
    with np.errstate(all="ignore"):
        points = margins - steps[:, None] * changes
        values = np.asarray(loss.value(points, targets[None, :]), dtype=np.float64)
        values = np.where(values < clip, np.maximum(values, 0.0), clip)
    return np.asarray(np.broadcast_to(values, points.shape).sum(axis=1))


def _equally_spaced(steps: FloatArray) -> bool:
    """Return True if steps are 0, s, 2s, … with s > 0, up to rounding."""
    if steps.size < 2:
        return False
    spaced = steps[1] * np.arange(steps.size)
    return bool(steps[0] == 0 and steps[1] > 0 and (abs(steps - spaced) <= 1e-13 * spaced).all())


def corner_gradient(
    data: RowData,
    margins: Margins,
    largest: FloatArray,
    weights: ArrayLike,
    loss: Loss,
    clip: float,
) -> Sum:
    """Sum the rows' loss gradients, each scaled down until no entry of it exceeds ``clip``.

    ``largest`` are the `largest_entries` of the rows.
    """
    data.need_stored("a gradient with bounded entries")
    one_output(loss, "gradients with bounded entries")
    clip = check_clip(clip)
    at = vector("weights", weights, data.n_parameters)
    return clipped_sum(data, corner_margins(data, margins, at), loss, clip, largest)


def largest_entries(data: RowData) -> FloatArray:
    """Return bounds on the largest absolute entry of each (scaled) row, its constant included."""
    bounds = data.table.largest_entries()
    if data.scales.size:
        bounds *= data.scales
    if data.fit_intercept:
        np.maximum(bounds, 1.0, out=bounds)
    with np.errstate(over="ignore"):
        bounds *= ENTRY_LIFT
    return np.maximum(bounds, SMALLEST_NORM, out=bounds)


def corner_margins(data: RowData, margins: Margins, weights: FloatArray) -> FloatArray:
    """Return margins at weights most of which may be zero; how they are computed is public."""
    table = data.table
    used = weights[: data.n_features] != 0
    if not isinstance(table, SparseTable) or FEW * np.count_nonzero(used) > data.n_features:
        return margins.at(data, weights).margins
    values = np.empty(data.n_rows)
    with np.errstate(all="ignore"):
        in_parts(
            lambda start, stop: table.few_products(start, stop, weights, used, values[start:stop]),
            data.n_rows,
            table.n_entries,
            table.block_rows,
        )
        data.finish_margins(values, slice(None), weights[data.n_features :])
    return values


def candidate_losses(
    data: RowData, candidates: ArrayLike, parent: ArrayLike, loss: Loss, clip: float
) -> Sum:
    """Sum, for each candidate, the rows' changes of loss from ``parent``, clipped to ±clip.

    Margins are held for a block of rows and one candidate at a time.
    """
    one_output(loss, "losses of candidates")
    clip = check_clip(clip)
    points = np.ascontiguousarray(candidates, dtype=np.float64)
    shape = (data.n_parameters,)
    if points.ndim != 2 or points.shape[1:] != shape or not np.isfinite(points).all():
        raise ValueError(
            f"candidates must be finite and have shape (m, {data.n_parameters}); got shape "
            f"{points.shape}."
        )
    start_weights = vector("parent", parent, data.n_parameters)
    weights = [data.carried(point, 1) for point in (start_weights, *points)]

    def part(first: int, last: int) -> FloatArray:
        values = np.zeros(len(points))
        buffers = np.empty((3, min(BLOCK_ROWS, last - first)))
        for start in range(first, last, BLOCK_ROWS):
            block = slice(start, min(start + BLOCK_ROWS, last))
            margins, before, after = buffers[:, : block.stop - start]
            with np.errstate(all="ignore"):
                for k, (rows, constants) in enumerate(weights):
                    data.block_margins(start, block.stop, rows[0], constants, margins)
                    losses(loss, margins, data.targets[block], after if k else before)
                    if k:
                        change = LOSS_KERNELS.difference_sum(after, before, clip)
                        values[k - 1] += change
        return values

    entries = data.table.n_entries * len(points)
    values = add_up(in_parts(part, data.n_rows, entries, BLOCK_ROWS))
    return Sum(values, gradient_error(data.public_rows, BLOCK_ROWS, clip))


def losses(loss: Loss, margins: FloatArray, targets: FloatArray, out: FloatArray) -> None:
    """Write the losses of rows at their margins to out."""
    code, parameter = kernel_code(loss)
    if code:
        FORMULAS.losses(code, parameter, margins, targets, out)
    else:
        out[:] = loss.value(margins, targets)
