# mypy: ignore-errors
"""Compiled loops over the losses of rows, with the property stated in ``kernels.py``.

What is not a number, after an overflow, counts as 0 for a slope, as the clip for a loss. A ``loss``
is its form, as in ``discreet.objectives.formulas``.
"""

import math

import numpy as np

from discreet.objectives.compile import inlined, kernel, subroutine
from discreet.objectives.formulas import (
    REACH,
    exp,
    slopes,
    softmax_slopes,
    softplus,
    value,
)
from discreet.rows.bounds import SMALLEST_FACTOR, UNIT_ROUNDOFF
from discreet.rows.kernels import (
    LANES,
    add_row,
    dense_add,
    dense_product,
    dense_products,
    lane_sum,
    lanes_total,
    output_add,
    output_products,
    part,
    product,
    products,
    zero_lanes,
)


@inlined
def clip_slopes(norms, scales, weights, clip, slopes):
    """Turn slopes into the factors of the rows x_i in their clipped gradients.

    Return the sum of the clipped slopes: the gradient of the intercept. A slope that is not a
    number counts as 0. ``scales`` and ``weights`` may have no entries.
    """
    for i in range(slopes.size):
        bound = clip / norms[i]
        slope = slopes[i]
        slope = bound if slope > bound else slope
        slope = -bound if slope < -bound else slope
        slopes[i] = slope if slope == slope else 0.0
    if weights.size > 0:
        for i in range(slopes.size):
            slopes[i] *= weights[i]
    total = lane_sum(slopes)
    if scales.size > 0:
        for i in range(slopes.size):
            slopes[i] *= scales[i]
    for i in range(slopes.size):
        slopes[i] = slopes[i] if abs(slopes[i]) > SMALLEST_FACTOR else 0.0
    return total


@kernel
def gradient(loss, rows, weights, numbers, clip, margins, heights, out):
    """Add the clipped gradients of blocks of rows to rows of out, which end in the intercept's.

    ``weights`` has one more entry than rows have columns, a constant; if it has none, margins are
    known, else they are written down. ``numbers`` are the targets, norms, scales and weights of
    rows; for a loss without kernels, whose form is empty, slopes take the place of targets.
    ``heights`` are the rows that are worked on at a time, of an array (at least 64: they are read
    from memory once), and the rows of a block.
    """
    targets, norms, scales, own = numbers
    width, block = out.shape[1] - 1, heights[1]
    height = block
    if len(rows) == 1:
        height = heights[0] if heights[0] > LANES else LANES
    buffer = np.empty(height if height < margins.size else margins.size)
    for start in range(0, margins.size, block):
        stop, total = start + block, out[start // block]
        stop = margins.size if stop > margins.size else stop
        for first in range(start, stop, height):
            last = stop if first + height > stop else first + height
            here, factors = margins[first:last], buffer[: last - first]
            some = part(rows, first, last)
            if weights.size > 0:
                if len(rows) == 1:
                    dense_products(some[0], weights[:width], here)
                else:
                    products(some, weights[:width], here)
                if scales.size > 0:
                    for i in range(here.size):
                        here[i] *= scales[first + i]
                for i in range(here.size):
                    here[i] += weights[width]
            if len(loss) == 0:
                for i in range(factors.size):
                    factors[i] = targets[first + i]
            else:
                slopes(loss, here, targets[first:last], factors)
            limits, scale, weight = norms[first:last], scales[first:last], own[first:last]
            total[width] += clip_slopes(limits, scale, weight, clip, factors)
            if len(rows) == 1:
                dense_add(some[0], factors, total[:width])
            else:
                for i in range(factors.size):
                    add_row(some, i, factors[i], total)


@kernel
def output_gradient(rows, weights, given, numbers, clip, margins, heights, out):
    """Add the clipped gradients of blocks of rows, of K outputs, to out: K rows per block.

    ``given`` are the targets of the softmax loss, or the slopes of another, K per row. Margins that
    are not known have no entries, and are not kept. The rest is as in `gradient`.
    """
    norms, scales, own = numbers
    n_rows, n_outputs, width, block = norms.size, out.shape[1], out.shape[2] - 1, heights[1]
    height = max(heights[0], LANES) if len(rows) == 1 else block
    vectors, buffers = weights[:, :width].copy(), np.empty((2, n_outputs * min(height, n_rows)))
    for start in range(0, n_rows, block):
        stop = min(start + block, n_rows)
        for first in range(start, stop, height):
            at = slice(first, min(first + height, stop))
            some, size = part(rows, at.start, at.stop), at.stop - at.start
            here = buffers[0, : n_outputs * size].reshape(n_outputs, size)  # by output
            slopes = buffers[1, : n_outputs * size].reshape(n_outputs, size)
            if given.ndim == 2:
                slopes[:] = given[at].T
            else:
                if weights.size == 0:
                    here[:] = margins[at].T
                elif len(rows) == 1:
                    for k in range(n_outputs):
                        dense_products(rows[0][at], vectors[k], here[k])
                else:
                    found = np.empty((size, n_outputs))
                    output_products(some, vectors, found)
                    here[:] = found.T
                for k in range(n_outputs if weights.size > 0 else 0):
                    for i in range(size if scales.size > 0 else 0):
                        here[k, i] *= scales[first + i]
                    for i in range(size):
                        here[k, i] += weights[k, width]
                softmax_slopes(here, given[at], slopes)
            clip_outputs(slopes, norms[at], own[at], clip)
            output_add(some, scales[at], slopes, out[start // block])


@subroutine
def clip_outputs(slopes, norms, weights, clip):
    """Clip the slopes of each row, a column, to norm clip / ‖x‖, times its weight, in place.

    Rows with a slope that is not finite, or slopes whose norm is not, count as 0. The largest slope
    is divided out before squaring: the squares of very small ones would vanish, and with them the
    clip of a very long row.
    """
    n_outputs, size = slopes.shape
    inflation = 1.0 + (4 * n_outputs + 32) * UNIT_ROUNDOFF
    largest, factors = np.zeros(size), np.zeros(size)
    for k in range(n_outputs):
        for i in range(size):
            value = abs(slopes[k, i])
            largest[i] = largest[i] if value < largest[i] else value
    for k in range(n_outputs):
        for i in range(size):
            ratio = slopes[k, i] / (largest[i] if largest[i] > 0.0 else 1.0)
            factors[i] += ratio * ratio
    for i in range(size):
        bound, norm = clip / norms[i], largest[i] * math.sqrt(factors[i]) * inflation
        factor = 1.0 if norm <= bound else bound / norm
        factors[i] = factor if norm < math.inf else 0.0  # False for NaN
    if weights.size > 0:
        for i in range(size):
            factors[i] *= weights[i]
    for k in range(n_outputs):
        for i in range(size):
            slopes[k, i] = slopes[k, i] * factors[i] if factors[i] > 0.0 else 0.0


@kernel
def line_sums(loss, margins, changes, targets, steps, clip, out):
    """Write the sums of clipped losses at margins − step·changes to out, for any loss and steps."""
    lanes = np.zeros((steps.size, LANES))
    for start in range(0, margins.size, LANES):
        at = slice(start, min(start + LANES, margins.size))
        m, v, y = margins[at], changes[at], targets[at]
        for k in range(steps.size):
            step, sums = steps[k], lanes[k]
            for i in range(m.size):
                found = value(loss, m[i] - step * v[i], y[i])
                sums[i] += found if found < clip else clip
    for k in range(steps.size):
        out[k] = lanes[k].sum()


@kernel
def logistic_line_sums(margins, changes, targets, steps, clip, cap, group, out):
    """Write the same sums as ``line_sums`` for the logistic loss and equally spaced steps from 0.

    With E = exp(−ym) and R = exp(y·change·step), the loss at step k is log(1 + E·Rᵏ), and its
    clipped value log(min(1 + E·Rᵏ, cap)). ``group`` such factors are multiplied before one
    logarithm is taken.
    """
    n_steps = steps.size
    step = steps[1] if n_steps > 1 else 0.0
    reach = steps[n_steps - 1]
    product = np.ones((n_steps, LANES))
    power = np.empty(LANES)
    ratio = np.empty(LANES)
    out[:] = 0.0
    used = 0
    for start in range(0, margins.size, LANES):
        for lane in range(LANES):
            i = start + lane
            if i < margins.size:
                power[lane] = -targets[i] * margins[i]
                ratio[lane] = targets[i] * changes[i]
            else:
                power[lane] = ratio[lane] = math.nan
        far = 0
        for lane in range(LANES):
            near = abs(power[lane]) <= REACH and abs(ratio[lane]) * reach <= REACH
            far += int(not near)
            # a row that is not near gets factors of exactly 1 here and is summed below
            power[lane] = exp(power[lane]) if near else 0.0
            ratio[lane] = exp(ratio[lane] * step) if near else 1.0
        if far > 0:
            for i in range(start, min(start + LANES, margins.size)):
                z, change = targets[i] * margins[i], targets[i] * changes[i]
                if not (abs(z) <= REACH and abs(change) * reach <= REACH):
                    for k in range(n_steps):
                        value = softplus(-targets[i] * (margins[i] - steps[k] * changes[i]))
                        out[k] += value if value < clip else clip
        for k in range(n_steps):
            products = product[k]
            for lane in range(LANES):
                factor = 1.0 + power[lane]
                products[lane] *= factor if factor < cap else cap
                power[lane] *= ratio[lane]
        used += 1
        if used == group:
            _take_logarithms(product, out)
            used = 0
    if used > 0:
        _take_logarithms(product, out)


@subroutine
def _take_logarithms(product, out):
    for k in range(product.shape[0]):
        total = 0.0
        for lane in range(LANES):
            total += math.log(product[k, lane])
            product[k, lane] = 1.0
        out[k] += total


@kernel
def cut_sum(values, weights, low, high):
    """Return the sum of values cut to [low, high], times weights if there are any; NaN is high."""
    lanes = zero_lanes()
    for start in range(0, values.size, LANES):
        some, own = values[start : start + LANES], weights[start : start + LANES]
        for i in range(some.size):
            value = some[i] if some[i] < high else high
            value = value if value > low else low
            lanes[i] += value * own[i] if own.size > 0 else value
    return lanes_total(lanes)


# Descents over batches: with noise, all that follows a noisy sum is computed from it alone


@kernel
def take_step(total, noise, t, grid, magnitude, batch, step, alpha, radius, weights, path):
    """Move the weights by a batch's sum, which is made noisy on its grid if there is noise.

    ``noise[t]`` belongs to this sum, and ``grid`` is (2^-grid, 2^grid). ``path`` collects the sum
    of the weights.
    """
    size = weights.size
    if noise.shape[0] > 0:
        for j in range(size):
            value = min(max(total[j], -magnitude), magnitude)
            integer = np.int64(np.rint(value * grid[0])) + noise[t, j]
            total[j] = np.float64(integer) * grid[1]
    for j in range(size):
        weights[j] -= step * (total[j] / batch + alpha * weights[j])
    if radius < math.inf:
        squares = 0.0
        for j in range(size):
            squares += weights[j] * weights[j]
        norm = math.sqrt(squares)
        if norm > radius:
            for j in range(size):
                weights[j] *= radius / norm
    for j in range(path.size):
        path[j] += weights[j]


@kernel
def descend(table, arrays, order, loss, numbers, path):
    """Descend over the batches that are the rows of ``order``; weights are updated in place.

    ``table`` are rows, ``arrays`` their targets, norms and scales, ``numbers`` are public, ``path``
    has the weights and their sum.
    """
    targets, norms, scales = arrays
    clip, steps, alpha, radius, noise, grid, magnitude, intercept = numbers
    weights, sums = path
    b, width = order.shape[1], weights.size - (1 if intercept else 0)
    (margins, factors, goals, sizes), total = np.empty((4, b)), np.empty(weights.size)
    own = np.empty(b if scales.size > 0 else 0)
    for t in range(order.shape[0]):
        rows = order[t]
        for k in range(b):
            goals[k], sizes[k] = targets[rows[k]], norms[rows[k]]
        for k in range(own.size):
            own[k] = scales[rows[k]]
        for k in range(b):
            if len(table) == 1:
                margin = dense_product(table[0], rows[k], weights)
            else:
                margin = product(table, rows[k], weights)
            margin = margin * own[k] if own.size > 0 else margin
            margins[k] = margin + weights[width] if intercept else margin
        slopes(loss, margins, goals, factors)
        constant = clip_slopes(sizes, own, own[:0], clip, factors)
        total[:] = 0.0
        for k in range(b):
            add_row(table, rows[k], factors[k], total)
        if intercept:
            total[width] = constant
        take_step(total, noise, t, grid, magnitude, b, steps[t], alpha, radius, weights, sums)
