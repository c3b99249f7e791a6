"""Compiled loops for losses with several margins a row. Import when a loop is about to run.

As in ``discreet.rows.loss_kernels``, a row's numbers come from that row and public arguments
alone, to the last bit.
"""

import math

import numpy as np
from numba import njit

from discreet.rows.kernels import OPTIONS, SMALLEST_FACTOR
from discreet.rows.loss_kernels import REACH, _exp


@njit(**OPTIONS)
def softmax_slopes(margins, targets, out):
    """Write p − e_y to out, one row of K numbers a row; a target that is no class gives NaN."""
    n_outputs = margins.shape[1]
    for i in range(margins.shape[0]):
        top = margins[i, 0]
        for k in range(1, n_outputs):
            top = max(top, margins[i, k])
        total = 0.0
        for k in range(n_outputs):
            gap = top - margins[i, k]
            share = _exp(-gap if gap < REACH else -REACH) if gap == gap else gap
            out[i, k] = share
            total += share
        for k in range(n_outputs):
            out[i, k] /= total
        own = targets[i]
        if own >= 0.0 and own < n_outputs and own == math.floor(own):
            out[i, np.int64(own)] -= 1.0
        else:
            out[i, 0] = math.nan


@njit(**OPTIONS)
def clip_outputs(slopes, norms, scales, clip, totals):
    """Clip each row's slopes to norm clip / ‖x‖; add them to totals; turn them into factors of x.

    Rows with a slope that is not a number count as 0.
    """
    n_outputs = slopes.shape[1]
    inflation = 1.0 + (n_outputs + 8) * 2.0**-52
    for i in range(slopes.shape[0]):
        bound = clip / norms[i]
        square = 0.0
        for k in range(n_outputs):
            square += slopes[i, k] * slopes[i, k]
        size = math.sqrt(square) * inflation
        factor = 1.0 if size <= bound else bound / size
        good = size < math.inf  # False for NaN
        for k in range(n_outputs):
            slope = slopes[i, k] * factor if good else 0.0
            totals[k] += slope
            if scales.size > 0:
                slope *= scales[i]
            slopes[i, k] = slope if abs(slope) > SMALLEST_FACTOR else 0.0
