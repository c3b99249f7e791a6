# mypy: ignore-errors
"""Compiled forms of losses, for one margin at a time and for arrays.

The NumPy forms are in ``losses.py`` and ``families.py``.

Each formula is that of the NumPy form, in plain arithmetic, so that loops over rows are vectorised
and a row's number has the same bits wherever the row lies. Results agree with NumPy's to 4 units in
the last place, which tests check. What is not a number stays so.

Kernels know a loss by its code and its parameter.
"""

import math

import numpy as np
from numba import types
from numba.extending import intrinsic

from discreet.objectives.compile import inlined, kernel
from discreet.objectives.families import SMOOTHING, Gamma, Pinball, Poisson, SmoothPinball
from discreet.objectives.losses import Hinge, Huber, HuberHinge, Logistic, Sigmoid, Squared

# The code of each loss; 0 is a loss without kernels.
LOGISTIC = Logistic.code
HINGE = Hinge.code
HUBER_HINGE = HuberHinge.code
HUBER = Huber.code
SQUARED = Squared.code
SIGMOID = Sigmoid.code
POISSON = Poisson.code
GAMMA = Gamma.code
PINBALL = Pinball.code
SMOOTH_PINBALL = SmoothPinball.code

REACH = 300.0
"""Arguments of exponentials are cut to this: nothing overflows (docs/proofs/summation.md)."""


@intrinsic
def _from_bits(_context, bits):
    """Read the bits of a 64-bit integer as a float."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(types.float64))

    return types.float64(types.int64), generate


@kernel
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


@kernel
def _small_exp(z):
    """Return exp(−|z|), cut off at `REACH` (also where z is not a number)."""
    size = abs(z)
    return exp(-size if size < REACH else -REACH)


@kernel
def _cut_exp(z):
    """Return exp(z), with z cut to ±`REACH`."""
    cut = REACH if z > REACH else z
    return exp(-REACH if cut < -REACH else cut)


@kernel
def exponentials(values, out):
    """Write exp of each value to out, each from that value alone, to the last bit."""
    for i in range(out.size):
        out[i] = _cut_exp(values[i])


@kernel
def _cut(value, low, high):
    """Return the value cut to [low, high]; what is not a number stays so."""
    value = high if value > high else value
    return low if value < low else value


@kernel
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


@kernel
def _beyond(limit, margin, target):
    """Return whether a margin is beyond a target at the limit, of the squared loss."""
    above = target >= limit and margin > target
    below = target <= -limit and margin < target
    return above or below


@inlined
def _label_loss(code, parameter, z):
    """Return φ of a classification loss, by the product z of target and margin."""
    if code == LOGISTIC:
        return softplus(-z)
    if code == SIGMOID:
        small = _small_exp(z)
        return (small if z >= 0.0 else 1.0) / (1.0 + small) if z == z else z
    s = 1.0 - z
    if code == HINGE:
        return 0.0 if s <= 0.0 else s
    near = parameter if s > parameter else s
    near = -parameter if near < -parameter else near
    return s if s > parameter else (near + parameter) * ((near + parameter) / (4.0 * parameter))


@inlined
def _log_link_loss(code, parameter, margin, target):
    """Return φ of a loss whose margin is the logarithm of a mean: Poisson and gamma."""
    if code == POISSON:
        y = _cut(target, 0.0, parameter)
        top = math.log(parameter)
        near = top if margin > top else margin
        own = y * math.log(y) if y > 0.0 else 0.0
        rest = (_cut_exp(near) - y) - (y * near - own)
        return (0.0 if rest < 0.0 else rest) + (parameter - y) * (margin - near)
    gap = math.log(target) - margin
    most = math.log1p(parameter)
    near = most if gap > most else gap
    rest = math.expm1(near) - near
    return (0.0 if rest < 0.0 else rest) + parameter * (gap - near)


@kernel
def loss(code, parameter, margin, target):
    """Return φ(margin, target)."""
    if code in (LOGISTIC, HINGE, HUBER_HINGE, SIGMOID):
        return _label_loss(code, parameter, target * margin)
    if code in (POISSON, GAMMA):
        return _log_link_loss(code, parameter, margin, target)
    r = margin - target
    if code == HUBER:
        size = abs(r)
        near = parameter if size > parameter else size
        return near * (size - 0.5 * near)
    if code == PINBALL:
        return (1.0 - parameter) * r if r > 0.0 else -parameter * r
    if code == SMOOTH_PINBALL:
        near = _cut(r, -SMOOTHING, SMOOTHING) + SMOOTHING
        rest = r - SMOOTHING
        rest = 0.0 if rest < 0.0 else rest
        return near * (near / (4.0 * SMOOTHING)) + rest - parameter * r
    return 0.0 if _beyond(parameter, margin, target) else 0.5 * r * r


@kernel
def losses(code, parameter, margins, targets, out):
    """Write φ(margin, target) to out, for arrays."""
    if code == LOGISTIC:
        for i in range(out.size):
            out[i] = softplus(-targets[i] * margins[i])
    else:
        for i in range(out.size):
            out[i] = loss(code, parameter, margins[i], targets[i])


# Slopes: one loop per loss, so that a process compiles those it needs.


@kernel
def logistic_slopes(_parameter, margins, targets, out):
    """Write φ' of the logistic loss to out."""
    for i in range(out.size):
        z = targets[i] * margins[i]
        small = _small_exp(z)
        slope = -targets[i] * (small if z >= 0.0 else 1.0) / (1.0 + small)
        out[i] = slope if z == z else z


@kernel
def sigmoid_slopes(_parameter, margins, targets, out):
    """Write φ' of the sigmoid loss to out."""
    for i in range(out.size):
        z = targets[i] * margins[i]
        small = _small_exp(z)
        below = 1.0 + small
        out[i] = -targets[i] * (small / (below * below)) if z == z else z


@kernel
def hinge_slopes(_parameter, margins, targets, out):
    """Write φ' of the hinge to out, 0 at the kink."""
    for i in range(out.size):
        s = 1.0 - targets[i] * margins[i]
        out[i] = -targets[i] if s > 0.0 else (0.0 if s <= 0.0 else s)


@kernel
def huber_hinge_slopes(h, margins, targets, out):
    """Write φ' of the smoothed hinge to out."""
    for i in range(out.size):
        s = 1.0 - targets[i] * margins[i]
        s = h if s > h else s
        s = -h if s < -h else s
        out[i] = -targets[i] * ((s + h) / (2.0 * h))


@kernel
def huber_slopes(limit, margins, targets, out):
    """Write φ' of the Huber loss to out: that of the squared loss, clipped."""
    for i in range(out.size):
        r = margins[i] - targets[i]
        r = limit if r > limit else r
        out[i] = -limit if r < -limit else r


@kernel
def squared_slopes(limit, margins, targets, out):
    """Write φ' of the squared loss to out."""
    for i in range(out.size):
        beyond = _beyond(limit, margins[i], targets[i])
        out[i] = 0.0 if beyond else margins[i] - targets[i]


@kernel
def poisson_slopes(limit, margins, targets, out):
    """Write φ' of the Poisson loss to out: mean less target, both cut to the limit."""
    top = math.log(limit)
    for i in range(out.size):
        mean = _cut_exp(top if margins[i] > top else margins[i])
        mean = limit if mean > limit else mean
        out[i] = mean - _cut(targets[i], 0.0, limit)


@kernel
def gamma_slopes(threshold, margins, targets, out):
    """Write φ' of the gamma loss to out, clipped from below."""
    for i in range(out.size):
        slope = 1.0 - targets[i] * _cut_exp(-margins[i])
        out[i] = -threshold if slope < -threshold else slope


@kernel
def pinball_slopes(quantile, margins, targets, out):
    """Write φ' of the pinball loss to out, 0 at the kink."""
    for i in range(out.size):
        r = margins[i] - targets[i]
        above = 1.0 if r > 0.0 else (0.0 if r < 0.0 else quantile)
        out[i] = above - quantile if r == r else r


@kernel
def smooth_pinball_slopes(quantile, margins, targets, out):
    """Write φ' of the smoothed pinball loss to out."""
    for i in range(out.size):
        near = _cut(margins[i] - targets[i], -SMOOTHING, SMOOTHING)
        out[i] = (near + SMOOTHING) / (2.0 * SMOOTHING) - quantile


@kernel
def slopes(code, parameter, margins, targets, out):
    """Write φ'(margin, target) to out, for kernels that take any loss."""
    if code == LOGISTIC:
        logistic_slopes(parameter, margins, targets, out)
    elif code == HINGE:
        hinge_slopes(parameter, margins, targets, out)
    elif code == HUBER_HINGE:
        huber_hinge_slopes(parameter, margins, targets, out)
    elif code == HUBER:
        huber_slopes(parameter, margins, targets, out)
    elif code == SIGMOID:
        sigmoid_slopes(parameter, margins, targets, out)
    elif code == POISSON:
        poisson_slopes(parameter, margins, targets, out)
    elif code == GAMMA:
        gamma_slopes(parameter, margins, targets, out)
    elif code == PINBALL:
        pinball_slopes(parameter, margins, targets, out)
    elif code == SMOOTH_PINBALL:
        smooth_pinball_slopes(parameter, margins, targets, out)
    else:
        squared_slopes(parameter, margins, targets, out)


@kernel
def softmax_slopes(margins, targets, out):
    """Write p − e_y to out, K numbers per row, in columns; a target that is no class gives NaN.

    Loops are over rows, which are worked on side by side.
    """
    n_outputs, size = margins.shape
    top = margins[0].copy()
    total = np.zeros(size)
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
