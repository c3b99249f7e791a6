# mypy: ignore-errors
"""Compiled dot products of twice the working precision.

Each product and each addition is split into its rounded value and its exact error (Dekker 1971,
Knuth 1969), and the errors are added up on the side (Ogita, Rump & Oishi, Accurate Sum and Dot
Product, 2005). The arithmetic is strict IEEE: with ``fastmath`` all of this would be simplified
away. As in ``discreet.rows.kernels``, a row's result depends on that row and the vector alone.
"""

import numpy as np

from discreet.objectives.compile import inlined, kernel

SPLITTER = 2.0**27 + 1.0
"""Times this, a double falls into two halves whose products are exact."""

LANES, COLUMNS = 64, 256
"""Rows that are worked on side by side, and columns that are turned around for it at a time."""


@kernel
def _split(vector, high, low):
    for j in range(vector.size):
        large = SPLITTER * vector[j]
        high[j] = large - (large - vector[j])
        low[j] = vector[j] - high[j]


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
def _add_products(column, factor, high, low, rest, sums, errors):
    """Add column·(factor + rest) to sums, and what rounding takes away to errors."""
    for i in range(LANES):
        product, missing = _two_product(column[i], factor, high, low)
        sums[i], missed = _two_sum(sums[i], product)
        errors[i] += (missed + missing) + column[i] * rest


@kernel
def accurate_dense_products(table, vector, rest, out, lost):
    """Write table @ (vector + rest) to out + lost; table is C-contiguous."""
    n_rows, n_columns = table.shape
    high, low = np.empty(n_columns), np.empty(n_columns)
    _split(vector, high, low)
    turned = np.empty((COLUMNS, LANES))
    sums, errors = np.empty(LANES), np.empty(LANES)
    for start in range(0, n_rows, LANES):
        count = min(LANES, n_rows - start)
        sums[:] = 0.0
        errors[:] = 0.0
        for first in range(0, n_columns, COLUMNS):
            width = min(COLUMNS, n_columns - first)
            for i in range(count):
                for j in range(width):
                    turned[j, i] = table[start + i, first + j]
            for j in range(width):
                at = first + j
                _add_products(turned[j], vector[at], high[at], low[at], rest[at], sums, errors)
        for i in range(count):
            out[start + i] = sums[i]
            lost[start + i] = errors[i]


@kernel
def accurate_sparse_products(indptr, indices, data, vector, rest, out, lost):
    """Write X @ (vector + rest) to out + lost, for X in CSR."""
    high, low = np.empty(vector.size), np.empty(vector.size)
    _split(vector, high, low)
    for i in range(out.size):
        row = slice(indptr[i], indptr[i + 1])
        columns, values = indices[row], data[row]
        sums = errors = 0.0
        for k in range(columns.size):
            j = np.uint64(columns[k])
            value = np.float64(values[k])
            product, missing = _two_product(value, vector[j], high[j], low[j])
            sums, missed = _two_sum(sums, product)
            errors += (missed + missing) + value * rest[j]
        out[i] = sums
        lost[i] = errors


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
