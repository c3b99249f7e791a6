"""Compiled loops over rows that evaluate losses: clipped slopes, and clipped losses along a line.

What a row contributes is a function of its margin, target and norm and of public arguments, to the
last bit, wherever the row stands: see ``discreet.rows.kernels``. What is not a number, after an
overflow, is dealt with row by row: a slope counts as 0, a loss as the clip.
"""

import math

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

from discreet.rows.kernels import OPTIONS, SMALLEST_FACTOR

GIVEN, LOGISTIC, HINGE, HUBER_HINGE, HUBER, SQUARED, SIGMOID = range(7)
"""Loss codes. ``GIVEN``: the slopes were computed elsewhere and stand in place of the margins."""

LANES = 64
"""Rows that are worked on side by side, so that the compiler can use vector instructions."""

REACH = 300.0
"""Rows whose margins go beyond this on the line are summed without powers, which might overflow."""


@intrinsic
def _from_bits(_context, bits):
    """Read the bits of a 64-bit integer as a float."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(types.float64))

    return types.float64(types.int64), generate


@njit(**OPTIONS)
def _exp(x):
    """Return exp(x) for |x| ≤ 700, to about 1e-16 relative.

    Plain arithmetic, so that it is inlined into loops and vectorised, and gives the same bits in
    every lane: with x = k·log 2 + r, the Taylor series of exp(r) to degree 13, times 2ᵏ.
    """
    k = x * 1.4426950408889634 + 6755399441055744.0 - 6755399441055744.0  # rounds to an integer
    r = x - k * 6.93145751953125e-1 - k * 1.42860682030941723212e-6
    s = 1.6059043836821613e-10
    s = s * r + 2.08767569878681e-09
    s = s * r + 2.505210838544172e-08
    s = s * r + 2.755731922398589e-07
    s = s * r + 2.7557319223985893e-06
    s = s * r + 2.48015873015873e-05
    s = s * r + 1.984126984126984e-04
    s = s * r + 1.388888888888889e-03
    s = s * r + 8.333333333333333e-03
    s = s * r + 4.1666666666666664e-02
    s = s * r + 1.6666666666666666e-01
    s = s * r + 0.5
    s = s * r + 1.0
    s = s * r + 1.0
    return s * _from_bits((np.int64(np.int32(k)) + 1023) << 52)


@njit(**OPTIONS)
def _logistic_slope(margin, target):
    z = target * margin
    size = abs(z)
    small = _exp(-size if size < REACH else -REACH)  # also where z is not a number
    slope = -target * (small if z >= 0.0 else 1.0) / (1.0 + small)
    return slope if z == z else z


@njit(**OPTIONS)
def _sigmoid_slope(margin, target):
    z = target * margin
    size = abs(z)
    small = _exp(-size if size < REACH else -REACH)  # also where z is not a number
    below = 1.0 + small
    return -target * (small / (below * below)) if z == z else z


@njit(**OPTIONS)
def _hinge_slope(margin, target):
    s = 1.0 - target * margin
    return -target if s > 0.0 else (0.0 if s <= 0.0 else s)


@njit(**OPTIONS)
def _huber_hinge_slope(margin, target, h):
    s = 1.0 - target * margin
    s = h if s > h else s
    s = -h if s < -h else s
    return -target * ((s + h) / (2.0 * h))


@njit(**OPTIONS)
def _slopes(code, parameter, margins, targets, out):
    """Write φ'(margin, target) to out, before clipping."""
    if code == GIVEN:
        out[:] = margins
    elif code == LOGISTIC:
        for i in range(out.size):
            out[i] = _logistic_slope(margins[i], targets[i])
    elif code == HINGE:
        for i in range(out.size):
            out[i] = _hinge_slope(margins[i], targets[i])
    elif code == HUBER_HINGE:
        for i in range(out.size):
            out[i] = _huber_hinge_slope(margins[i], targets[i], parameter)
    elif code == SIGMOID:
        for i in range(out.size):
            out[i] = _sigmoid_slope(margins[i], targets[i])
    else:  # Huber's slope is that of the squared loss, clipped
        limit = parameter if code == HUBER else math.inf
        for i in range(out.size):
            r = margins[i] - targets[i]
            r = limit if r > limit else r
            out[i] = -limit if r < -limit else r


@njit(**OPTIONS)
def clipped_slopes(code, parameter, margins, targets, norms, scales, clip, out):
    """Write the factors of the rows x_i in their clipped gradients; return the intercept's sum."""
    _slopes(code, parameter, margins, targets, out)
    for i in range(out.size):
        bound = clip / norms[i]
        slope = out[i]
        slope = bound if slope > bound else slope
        slope = -bound if slope < -bound else slope
        out[i] = slope if slope == slope else 0.0
    total = 0.0
    for i in range(out.size):
        total += out[i]
    if scales.size > 0:
        for i in range(out.size):
            out[i] *= scales[i]
    for i in range(out.size):
        out[i] = out[i] if abs(out[i]) > SMALLEST_FACTOR else 0.0
    return total


@njit(**OPTIONS)
def _softplus(z):
    size = abs(z)
    small = _exp(-size if size < REACH else -REACH)  # also where z is not a number
    return max(z, 0.0) + math.log1p(small) if z == z else z


@njit(**OPTIONS)
def _loss(code, parameter, margin, target):
    """Return the loss; what is not a number stays so."""
    if code == LOGISTIC:
        return _softplus(-target * margin)
    if code == HINGE:
        s = 1.0 - target * margin
        return 0.0 if s <= 0.0 else s
    if code == HUBER_HINGE:
        s = 1.0 - target * margin
        near = parameter if s > parameter else s
        near = -parameter if near < -parameter else near
        return s if s > parameter else (near + parameter) * ((near + parameter) / (4.0 * parameter))
    if code == HUBER:
        size = abs(margin - target)
        near = parameter if size > parameter else size
        return near * (size - 0.5 * near)
    if code == SIGMOID:
        z = target * margin
        small = _exp(-min(abs(z), REACH)) if z == z else z
        return (small if z >= 0.0 else 1.0) / (1.0 + small)
    r = margin - target
    return 0.5 * r * r


@njit(**OPTIONS)
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
                loss = _loss(code, parameter, m[i] - step * v[i], y[i])
                sums[i] += loss if loss < clip else clip
    for k in range(steps.size):
        total = 0.0
        for i in range(whole, margins.size):
            loss = _loss(code, parameter, margins[i] - steps[k] * changes[i], targets[i])
            total += loss if loss < clip else clip
        for i in range(LANES):
            total += lanes[k, i]
        out[k] = total


@njit(**OPTIONS)
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
            power[lane] = _exp(power[lane]) if near else 0.0
            ratio[lane] = _exp(ratio[lane] * step) if near else 1.0
        if far > 0:
            for i in range(start, min(start + LANES, margins.size)):
                z, change = targets[i] * margins[i], targets[i] * changes[i]
                if not (abs(z) <= REACH and abs(change) * reach <= REACH):
                    for k in range(n_steps):
                        loss = _softplus(-targets[i] * (margins[i] - steps[k] * changes[i]))
                        out[k] += loss if loss < clip else clip
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


@njit(**OPTIONS)
def _take_logarithms(product, out):
    for k in range(product.shape[0]):
        total = 0.0
        for lane in range(LANES):
            total += math.log(product[k, lane])
            product[k, lane] = 1.0
        out[k] += total
