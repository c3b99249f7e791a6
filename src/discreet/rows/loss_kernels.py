# mypy: ignore-errors
"""Compiled loops that evaluate losses of rows: clipped slopes, losses along a line, and changes.

What a row contributes is a function of its margin, target and norm and of public arguments, to the
last bit, wherever the row lies: see ``discreet.rows.kernels``. What is not a number, after an
overflow, is dealt with row by row: a slope counts as 0, a loss as the clip.
"""

import math

import numpy as np

from discreet.objectives.compile import kernel
from discreet.objectives.kernels import REACH, exp, loss, softplus
from discreet.rows.bounds import SMALLEST_FACTOR

LANES = 64
"""Rows that are worked on side by side, so that the compiler can use vector instructions."""


@kernel
def clip_slopes(norms, scales, clip, slopes):
    """Turn slopes into the factors of the rows x_i in their clipped gradients.

    Return the sum of the clipped slopes: the gradient of the intercept. A slope that is not a
    number counts as 0. ``scales`` may have no entries.
    """
    for i in range(slopes.size):
        bound = clip / norms[i]
        slope = slopes[i]
        slope = bound if slope > bound else slope
        slope = -bound if slope < -bound else slope
        slopes[i] = slope if slope == slope else 0.0
    total = 0.0
    for i in range(slopes.size):
        total += slopes[i]
    if scales.size > 0:
        for i in range(slopes.size):
            slopes[i] *= scales[i]
    for i in range(slopes.size):
        slopes[i] = slopes[i] if abs(slopes[i]) > SMALLEST_FACTOR else 0.0
    return total


@kernel
def clip_outputs(slopes, norms, scales, clip, totals):
    """Clip each row's slopes to norm clip / ‖x‖; add them to totals; turn them into factors of x.

    Rows with a slope that is not finite, or slopes whose norm is not, count as 0. The largest slope
    is divided out before squaring: the squares of very small ones would vanish, and with them the
    clip of a very long row.
    """
    n_outputs = slopes.shape[1]
    inflation = 1.0 + (2 * n_outputs + 16) * 2.0**-52
    for i in range(slopes.shape[0]):
        bound = clip / norms[i]
        largest = 0.0
        for k in range(n_outputs):
            largest = max(largest, abs(slopes[i, k]))
        square = 0.0
        if largest > 0.0:
            for k in range(n_outputs):
                ratio = slopes[i, k] / largest
                square += ratio * ratio
        size = largest * math.sqrt(square) * inflation
        for k in range(n_outputs):
            if math.isnan(slopes[i, k]):
                size = math.nan
        factor = 1.0 if size <= bound else bound / size
        good = size < math.inf  # False for NaN
        for k in range(n_outputs):
            slope = slopes[i, k] * factor if good else 0.0
            totals[k] += slope
            if scales.size > 0:
                slope *= scales[i]
            slopes[i, k] = slope if abs(slope) > SMALLEST_FACTOR else 0.0


@kernel
def line_sums(code, parameter, margins, changes, targets, steps, clip, out):
    """Write the sums of clipped losses at margins − step·changes to out, for any loss and steps.

    A loss that is not a number counts as clip.
    """
    lanes = np.zeros((steps.size, LANES))
    whole = margins.size - margins.size % LANES
    for start in range(0, whole, LANES):
        m = margins[start : start + LANES]
        v = changes[start : start + LANES]
        y = targets[start : start + LANES]
        for k in range(steps.size):
            step = steps[k]
            sums = lanes[k]
            for i in range(LANES):
                value = loss(code, parameter, m[i] - step * v[i], y[i])
                sums[i] += value if value < clip else clip
    for k in range(steps.size):
        total = 0.0
        for i in range(whole, margins.size):
            value = loss(code, parameter, margins[i] - steps[k] * changes[i], targets[i])
            total += value if value < clip else clip
        for i in range(LANES):
            total += lanes[k, i]
        out[k] = total


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
            far += 0 if near else 1
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


@kernel
def _take_logarithms(product, out):
    for k in range(product.shape[0]):
        total = 0.0
        for lane in range(LANES):
            total += math.log(product[k, lane])
            product[k, lane] = 1.0
        out[k] += total


@kernel
def difference_sum(losses, others, clip):
    """Return the sum of losses − others, each clipped to ±clip; one that is no number is clip."""
    sums = np.zeros(LANES)
    whole = losses.size - losses.size % LANES
    for start in range(0, whole, LANES):
        for i in range(LANES):
            change = losses[start + i] - others[start + i]
            change = change if change < clip else clip
            sums[i] += change if change > -clip else -clip
    total = 0.0
    for i in range(whole, losses.size):
        change = losses[i] - others[i]
        change = change if change < clip else clip
        total += change if change > -clip else -clip
    for i in range(LANES):
        total += sums[i]
    return total
