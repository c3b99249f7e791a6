# mypy: ignore-errors
"""Compiled norms of rows under a matrix, and products in twice the working precision.

They have the property stated in ``kernels.py``.
"""

import math

import numpy as np

from discreet.objectives.compile import inlined, kernel
from discreet.rows.bounds import SAFE_LOW
from discreet.rows.kernels import column, entries
from discreet.rows.vector_kernels import TOGETHER, eight_rows

SPLITTER = 2.0**27 + 1.0
"""Times this, a double falls into two halves whose products are exact."""


@kernel
def triangle_norms(rows, scales, packed, inflation, out):
    """Write upper bounds on the norms of R·(scale·x, −1) to out, for a triangle R.

    ``packed`` has the rows of R, which end in an offset, four by four, filled up with zeros: entry
    (k, j) at [k // 4, j, k % 4]. ``rows`` is a C-contiguous array of float32 or float64.
    """
    n_rows, n_columns = rows.shape
    turned = np.empty((n_columns + 1, 8))
    sums, squares = np.empty((TOGETHER, 8)), np.empty(8)
    for i in range(8):
        turned[n_columns, i] = -1.0
    height = 2 * packed.shape[2]  # 8, which the compiler does not know: it copies no loop 8 times
    for start in range(0, n_rows, height):
        for i in range(height):
            row = start + i if start + i < n_rows else n_rows - 1
            here, scale = rows[row], scales[row]
            for j in range(n_columns):
                turned[j, i] = scale * here[j]
            squares[i] = 0.0
        for group in range(packed.shape[0]):
            left = TOGETHER * group
            at = (group * (n_columns + 1) + left) * TOGETHER
            eight_rows(packed, at, turned, left, n_columns + 1 - left, sums)
            for k in range(TOGETHER):
                for i in range(8):
                    squares[i] += sums[k, i] * sums[k, i]
        for i in range(height if start + height < n_rows else n_rows - start):
            square = SAFE_LOW if squares[i] < SAFE_LOW else squares[i]
            out[start + i] = math.sqrt(square) * inflation


# Twice the working precision: each product and sum is split into its rounded value and its exact
# error (Dekker 1971, Knuth 1969); errors are added up aside (Ogita, Rump & Oishi, Accurate Sum and
# Dot Product, 2005). With ``fastmath`` all of this would be simplified away.


@inlined
def _two_product(value, factor, high, low):
    """Return value·factor and its rounding error; factor = high + low."""
    product = value * factor
    large = SPLITTER * value
    above = large - (large - value)
    below = value - above
    return product, below * low - (((product - above * high) - below * high) - above * low)


@inlined
def _two_sum(first, second):
    """Return first + second and its rounding error."""
    total = first + second
    part = total - first
    return total, (first - (total - part)) + (second - part)


@kernel
def accurate_products(rows, vector, rest, out, lost):
    """Write rows @ (vector + rest) to out + lost, in eight interleaved sums of each row."""
    high, low = np.empty(vector.size), np.empty(vector.size)
    for j in range(vector.size):
        large = SPLITTER * vector[j]
        high[j] = large - (large - vector[j])
        low[j] = vector[j] - high[j]
    for i in range(out.size):
        values = entries(rows, i)
        sums, errors = np.zeros(8), np.zeros(8)
        for first in range(0, values.size, 8):
            for lane in range(min(8, values.size - first)):
                k = first + lane
                j, value = column(rows, i, k), np.float64(values[k])
                product, missing = _two_product(value, vector[j], high[j], low[j])
                sums[lane], missed = _two_sum(sums[lane], product)
                errors[lane] += (missed + missing) + value * rest[j]
        for lane in range(1, 8):
            sums[0], missed = _two_sum(sums[0], sums[lane])
            errors[0] += missed + errors[lane]
        out[i], lost[i] = sums[0], errors[0]


@kernel
def accurate_margins(sums, errors, scales, constant, rest, offsets, out):
    """Write scale·(sum + error) + constant + rest − offset to out, rounded once but for u².

    ``scales`` and ``offsets`` may have no entries.
    """
    for i in range(out.size):
        value, error = sums[i], errors[i]
        if scales.size > 0:
            large = SPLITTER * scales[i]
            high = large - (large - scales[i])
            value, lost = _two_product(value, scales[i], high, scales[i] - high)
            error = error * scales[i] + lost
        value, lost = _two_sum(value, constant)
        error += lost + rest
        if offsets.size > 0:
            value, lost = _two_sum(value, -offsets[i])
            error += lost
        total = value + error
        out[i] = total if total == total else value  # an offset near overflow
