"""Compiled loops for scores of candidates: largest entries of rows, and differences of losses.

What a row contributes is a function of its own numbers and of public arguments, wherever the row
stands: see ``discreet.rows.kernels``.
"""

import numpy as np
from numba import njit

from discreet.rows.kernels import OPTIONS, SMALLEST_NORM
from discreet.rows.loss_kernels import LANES, LOGISTIC, REACH, _exp, _loss


@njit(**OPTIONS)
def dense_largest(table, out):
    """Write the largest absolute entry of each row to out; table is C-contiguous."""
    for i in range(table.shape[0]):
        largest = 0.0
        for j in range(table.shape[1]):
            largest = max(largest, abs(np.float64(table[i, j])))
        out[i] = largest


@njit(**OPTIONS)
def sparse_largest(indptr, data, out):
    """Write the largest absolute entry of each row to out, for X in CSR."""
    for i in range(out.size):
        largest = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            largest = max(largest, abs(np.float64(data[k])))
        out[i] = largest


@njit(**OPTIONS)
def few_products(indptr, indices, data, vector, used, out):
    """Write X @ vector to out, for X in CSR and a vector that is zero where ``used`` is.

    Values of other columns are not read, which is most of the memory of X.
    """
    for i in range(out.size):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            column = np.uint64(indices[k])
            if used[column]:
                total += data[k] * vector[column]
        out[i] = total


@njit(**OPTIONS)
def bound_entries(largest, intercept, scales):
    """Turn largest entries into bounds on those of the scaled row with its constant."""
    for i in range(largest.size):
        bound = largest[i] * scales[i] if scales.size > 0 else largest[i]
        if intercept:
            bound = max(bound, 1.0)
        largest[i] = max(bound * (1.0 + 2.0**-50), SMALLEST_NORM)


@njit(**OPTIONS)
def _softplus(z):
    """Return log(1 + exp(z)), to about 1e-15, in plain arithmetic: the same bits in every lane.

    log(1 + e) = 2·artanh(e/(2 + e)), whose series in powers of at most 1/9 ends after 17 terms.
    """
    size = abs(z)
    small = _exp(-size if size < REACH else -REACH)  # also where z is not a number
    ratio = small / (2.0 + small)
    square = ratio * ratio
    series = 1.0 / 33.0
    series = series * square + 1.0 / 31.0
    series = series * square + 1.0 / 29.0
    series = series * square + 1.0 / 27.0
    series = series * square + 1.0 / 25.0
    series = series * square + 1.0 / 23.0
    series = series * square + 1.0 / 21.0
    series = series * square + 1.0 / 19.0
    series = series * square + 1.0 / 17.0
    series = series * square + 1.0 / 15.0
    series = series * square + 1.0 / 13.0
    series = series * square + 1.0 / 11.0
    series = series * square + 1.0 / 9.0
    series = series * square + 1.0 / 7.0
    series = series * square + 1.0 / 5.0
    series = series * square + 1.0 / 3.0
    series = series * square + 1.0
    result = (z if z > 0.0 else 0.0) + 2.0 * ratio * series
    return result if z == z else z


@njit(**OPTIONS)
def losses(code, parameter, margins, targets, out):
    """Write φ(margin, target) to out; what is not a number stays so."""
    if code == LOGISTIC:
        for i in range(out.size):
            out[i] = _softplus(-targets[i] * margins[i])
    else:
        for i in range(out.size):
            out[i] = _loss(code, parameter, margins[i], targets[i])


@njit(**OPTIONS)
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
