# mypy: ignore-errors
"""Compiled forms of losses, for one margin at a time and for arrays.

The NumPy forms are in ``losses.py`` and ``families.py``.

Each formula is that of the NumPy form, in plain arithmetic, so that loops over rows are vectorised
and a row's number has the same bits wherever the row lies. Results agree with NumPy's to 4 units in
the last place, which tests check. What is not a number stays so.

Kernels know a loss by its form: a tuple of its parameter, as many times as its code says. The
length of a tuple is known when a kernel is compiled, so only the formula of this loss is compiled
into it. A loss without kernels has an empty form.
"""

import math

import numpy as np
from numba import types
from numba.extending import intrinsic

from discreet.objectives.compile import inlined, kernel, subroutine
from discreet.objectives.families import SMOOTHING

REACH = 300.0
"""Arguments of exponentials are cut to this: nothing overflows (docs/proofs/summation.md)."""

# The ``code`` of each loss; 0 is a loss without kernels.
LOGISTIC = 1
HINGE = 2
HUBER_HINGE = 3
HUBER = 4
SQUARED = 5
SIGMOID = 6
POISSON = 7
GAMMA = 8
PINBALL = 9
SMOOTH_PINBALL = 10


@intrinsic
def _from_bits(_context, bits):
    """Read the bits of a 64-bit integer as a float."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(types.float64))

    return types.float64(types.int64), generate


@inlined
def exp(x):
    """Return exp(x) for |x| ≤ 700, to about 1e-16 relative.

    Plain arithmetic, so that it is inlined into loops and vectorised, and gives the same bits in
    every lane: with x = k·log 2 + r, the Taylor series of exp(r) to degree 13, times 2ᵏ.
    """
    k = x * 1.4426950408889634 + 6755399441055744.0 - 6755399441055744.0  # rounds to an integer
    r = x - k * 6.93145751953125e-1 - k * 1.42860682030941723212e-6
    s = 1.6059043836821613e-10
    s = (s * r + 2.08767569878681e-09) * r + 2.505210838544172e-08
    s = (s * r + 2.755731922398589e-07) * r + 2.7557319223985893e-06
    s = (s * r + 2.48015873015873e-05) * r + 1.984126984126984e-04
    s = (s * r + 1.388888888888889e-03) * r + 8.333333333333333e-03
    s = (s * r + 4.1666666666666664e-02) * r + 1.6666666666666666e-01
    s = (s * r + 0.5) * r + 1.0
    s = s * r + 1.0
    return s * _from_bits((np.int64(np.int32(k)) + 1023) << 52)


@inlined
def _small_exp(z):
    """Return exp(−|z|), cut off at `REACH` (also where z is not a number)."""
    size = abs(z)
    return exp(-size if size < REACH else -REACH)


@inlined
def _cut_exp(z):
    """Return exp(z), with z cut to ±`REACH`."""
    cut = REACH if z > REACH else z
    return exp(-REACH if cut < -REACH else cut)


@kernel
def exponentials(values, out):
    """Write exp of each value to out, each from that value alone, to the last bit."""
    for i in range(out.size):
        out[i] = _cut_exp(values[i])


@inlined
def _cut(value, low, high):
    """Return the value cut to [low, high]; what is not a number stays so."""
    value = high if value > high else value
    return low if value < low else value


@inlined
def softplus(z):
    """Return log(1 + exp(z)), to about 1e-15.

    log(1 + e) = 2·artanh(e/(2 + e)), whose series in powers of at most 1/9 ends after 17 terms.
    """
    small = _small_exp(z)
    ratio = small / (2.0 + small)
    square = ratio * ratio
    series = 1.0 / 33.0
    series = (series * square + 1.0 / 31.0) * square + 1.0 / 29.0
    series = (series * square + 1.0 / 27.0) * square + 1.0 / 25.0
    series = (series * square + 1.0 / 23.0) * square + 1.0 / 21.0
    series = (series * square + 1.0 / 19.0) * square + 1.0 / 17.0
    series = (series * square + 1.0 / 15.0) * square + 1.0 / 13.0
    series = (series * square + 1.0 / 11.0) * square + 1.0 / 9.0
    series = (series * square + 1.0 / 7.0) * square + 1.0 / 5.0
    series = (series * square + 1.0 / 3.0) * square + 1.0
    result = (z if z > 0.0 else 0.0) + 2.0 * ratio * series
    return result if z == z else z


@inlined
def _beyond(limit, margin, target):
    """Return whether a margin is beyond a target at the limit, of the squared loss."""
    above = target >= limit and margin > target
    below = target <= -limit and margin < target
    return above or below


# Values: one function per loss, so that a process compiles those it needs.


@inlined
def logistic_loss(_parameter, margin, target):
    """Return φ of the logistic loss."""
    return softplus(-target * margin)


@inlined
def hinge_loss(_parameter, margin, target):
    """Return φ of the hinge."""
    s = 1.0 - target * margin
    return 0.0 if s <= 0.0 else s


@inlined
def huber_hinge_loss(h, margin, target):
    """Return φ of the smoothed hinge."""
    s = 1.0 - target * margin
    near = h if s > h else s
    near = -h if near < -h else near
    return s if s > h else (near + h) * ((near + h) / (4.0 * h))


@inlined
def huber_loss(limit, margin, target):
    """Return φ of the Huber loss."""
    size = abs(margin - target)
    near = limit if size > limit else size
    return near * (size - 0.5 * near)


@inlined
def sigmoid_loss(_parameter, margin, target):
    """Return φ of the sigmoid loss."""
    z = target * margin
    small = _small_exp(z)
    return (small if z >= 0.0 else 1.0) / (1.0 + small) if z == z else z


@inlined
def poisson_loss(limit, margin, target):
    """Return φ of the Poisson loss."""
    y = _cut(target, 0.0, limit)
    top = math.log(limit)
    near = top if margin > top else margin
    own = y * math.log(y) if y > 0.0 else 0.0
    rest = (_cut_exp(near) - y) - (y * near - own)
    return (0.0 if rest < 0.0 else rest) + (limit - y) * (margin - near)


@inlined
def gamma_loss(threshold, margin, target):
    """Return φ of the gamma loss."""
    gap = math.log(target) - margin
    most = math.log1p(threshold)
    near = most if gap > most else gap
    rest = math.expm1(near) - near
    return (0.0 if rest < 0.0 else rest) + threshold * (gap - near)


@inlined
def pinball_loss(quantile, margin, target):
    """Return φ of the pinball loss."""
    r = margin - target
    return (1.0 - quantile) * r if r > 0.0 else -quantile * r


@inlined
def smooth_pinball_loss(quantile, margin, target):
    """Return φ of the smoothed pinball loss."""
    r = margin - target
    near = _cut(r, -SMOOTHING, SMOOTHING) + SMOOTHING
    rest = r - SMOOTHING
    rest = 0.0 if rest < 0.0 else rest
    return near * (near / (4.0 * SMOOTHING)) + rest - quantile * r


@inlined
def squared_loss(limit, margin, target):
    """Return φ of the squared loss."""
    r = margin - target
    return 0.0 if _beyond(limit, margin, target) else 0.5 * r * r


@subroutine
def value(form, margin, target):
    """Return φ(margin, target) of the loss that has this form."""
    if len(form) == LOGISTIC:
        return logistic_loss(form[0], margin, target)
    elif len(form) == HINGE:
        return hinge_loss(form[0], margin, target)
    elif len(form) == HUBER_HINGE:
        return huber_hinge_loss(form[0], margin, target)
    elif len(form) == HUBER:
        return huber_loss(form[0], margin, target)
    elif len(form) == SIGMOID:
        return sigmoid_loss(form[0], margin, target)
    elif len(form) == POISSON:
        return poisson_loss(form[0], margin, target)
    elif len(form) == GAMMA:
        return gamma_loss(form[0], margin, target)
    elif len(form) == PINBALL:
        return pinball_loss(form[0], margin, target)
    elif len(form) == SMOOTH_PINBALL:
        return smooth_pinball_loss(form[0], margin, target)
    else:
        return squared_loss(form[0], margin, target)


@kernel
def losses(form, margins, targets, out):
    """Write φ(margin, target) of the loss that has this form to out, for arrays."""
    for i in range(out.size):
        out[i] = value(form, margins[i], targets[i])


# Slopes: one loop per loss, so that a process compiles those it needs.


@inlined
def logistic_slopes(_parameter, margins, targets, out):
    """Write φ' of the logistic loss to out."""
    for i in range(out.size):
        z = targets[i] * margins[i]
        small = _small_exp(z)
        slope = -targets[i] * (small if z >= 0.0 else 1.0) / (1.0 + small)
        out[i] = slope if z == z else z


@inlined
def sigmoid_slopes(_parameter, margins, targets, out):
    """Write φ' of the sigmoid loss to out."""
    for i in range(out.size):
        z = targets[i] * margins[i]
        small = _small_exp(z)
        below = 1.0 + small
        out[i] = -targets[i] * (small / (below * below)) if z == z else z


@inlined
def hinge_slopes(_parameter, margins, targets, out):
    """Write φ' of the hinge to out, 0 at the kink."""
    for i in range(out.size):
        s = 1.0 - targets[i] * margins[i]
        out[i] = -targets[i] if s > 0.0 else (0.0 if s <= 0.0 else s)


@inlined
def huber_hinge_slopes(h, margins, targets, out):
    """Write φ' of the smoothed hinge to out."""
    for i in range(out.size):
        s = 1.0 - targets[i] * margins[i]
        s = h if s > h else s
        s = -h if s < -h else s
        out[i] = -targets[i] * ((s + h) / (2.0 * h))


@inlined
def huber_slopes(limit, margins, targets, out):
    """Write φ' of the Huber loss to out: that of the squared loss, clipped."""
    for i in range(out.size):
        r = margins[i] - targets[i]
        r = limit if r > limit else r
        out[i] = -limit if r < -limit else r


@inlined
def squared_slopes(limit, margins, targets, out):
    """Write φ' of the squared loss to out."""
    for i in range(out.size):
        beyond = _beyond(limit, margins[i], targets[i])
        out[i] = 0.0 if beyond else margins[i] - targets[i]


@inlined
def poisson_slopes(limit, margins, targets, out):
    """Write φ' of the Poisson loss to out: mean less target, both cut to the limit."""
    top = math.log(limit)
    for i in range(out.size):
        mean = _cut_exp(top if margins[i] > top else margins[i])
        mean = limit if mean > limit else mean
        out[i] = mean - _cut(targets[i], 0.0, limit)


@inlined
def gamma_slopes(threshold, margins, targets, out):
    """Write φ' of the gamma loss to out, clipped from below."""
    for i in range(out.size):
        slope = 1.0 - targets[i] * _cut_exp(-margins[i])
        out[i] = -threshold if slope < -threshold else slope


@inlined
def pinball_slopes(quantile, margins, targets, out):
    """Write φ' of the pinball loss to out, 0 at the kink."""
    for i in range(out.size):
        r = margins[i] - targets[i]
        above = 1.0 if r > 0.0 else (0.0 if r < 0.0 else quantile)
        out[i] = above - quantile if r == r else r


@inlined
def smooth_pinball_slopes(quantile, margins, targets, out):
    """Write φ' of the smoothed pinball loss to out."""
    for i in range(out.size):
        near = _cut(margins[i] - targets[i], -SMOOTHING, SMOOTHING)
        out[i] = (near + SMOOTHING) / (2.0 * SMOOTHING) - quantile


@kernel
def slopes(form, margins, targets, out):
    """Write φ'(margin, target) of the loss that has this form to out, for arrays."""
    if len(form) == LOGISTIC:
        logistic_slopes(form[0], margins, targets, out)
    elif len(form) == HINGE:
        hinge_slopes(form[0], margins, targets, out)
    elif len(form) == HUBER_HINGE:
        huber_hinge_slopes(form[0], margins, targets, out)
    elif len(form) == HUBER:
        huber_slopes(form[0], margins, targets, out)
    elif len(form) == SIGMOID:
        sigmoid_slopes(form[0], margins, targets, out)
    elif len(form) == POISSON:
        poisson_slopes(form[0], margins, targets, out)
    elif len(form) == GAMMA:
        gamma_slopes(form[0], margins, targets, out)
    elif len(form) == PINBALL:
        pinball_slopes(form[0], margins, targets, out)
    elif len(form) == SMOOTH_PINBALL:
        smooth_pinball_slopes(form[0], margins, targets, out)
    else:
        squared_slopes(form[0], margins, targets, out)


@kernel
def softmax_slopes(margins, targets, out):
    """Write p − e_y to out, K numbers per row, in columns; a target that is no class gives NaN.

    Loops are over rows, which are worked on side by side.
    """
    n_outputs, size = margins.shape
    top, total = margins[0].copy(), np.zeros(size)
    for k in range(1, n_outputs):
        for i in range(size):
            top[i] = margins[k, i] if margins[k, i] > top[i] else top[i]
    for k in range(n_outputs):
        for i in range(size):
            gap = top[i] - margins[k, i]
            share = exp(-gap if gap < REACH else -REACH)
            share = share if gap == gap else gap
            out[k, i] = share
            total[i] += share
    for k in range(n_outputs):
        for i in range(size):
            share = out[k, i] / total[i]
            out[k, i] = share - 1.0 if targets[i] == k else share
    for i in range(size):
        own = targets[i]
        if not (own >= 0.0 and own < n_outputs and own == math.floor(own)):
            out[0, i] = math.nan
