# mypy: ignore-errors
"""Compiled products and sums for several margins per row, and products of twice the precision.

As in ``discreet.rows.kernels``, a row's numbers come from that row and public arguments alone, to
the last bit. Margins of all outputs are computed in one pass over X, each in the order of
operations of ``discreet.rows.kernels``: the bits are those of one pass per output.

For accurate dot products, each product and each addition is split into its rounded value and its
exact error (Dekker 1971, Knuth 1969), and the errors are added up on the side (Ogita, Rump & Oishi,
Accurate Sum and Dot Product, 2005). With ``fastmath`` all of this would be simplified away.
"""

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from discreet.objectives.compile import inlined, kernel
from discreet.rows.bounds import SAFE_LOW
from discreet.rows.kernels import (
    EIGHT,
    LANES,
    eights,
    loop_over,
    widened,
)

TOGETHER = 4
"""Outputs whose sums are kept in registers together, for each number of a row that is read."""

COLUMNS = 1024
"""Columns of X that are summed before the next ones, so that their sums stay in a near cache."""

SPLITTER = 2.0**27 + 1.0
"""Times this, a double falls into two halves whose products are exact."""

TURNED = 256
"""Columns that are turned around at a time, so that rows are worked on side by side."""


@intrinsic
def _eight_sums_each(_context, table, start, vectors, first, width, eighths, sums):
    """Write the eight interleaved dot products of a row with each of four vectors to ``sums``.

    The row starts at entry ``start`` of ``table``, the vectors at entries ``first``, ``first`` +
    ``width``, … of ``vectors``; ``sums`` has 4·8 entries: sums of terms 0, 8, …, of 1, 9, … etc.,
    ``eighths`` in each. All arrays are contiguous, of float64 or, but for sums, float32.
    """
    if any(a.layout != "C" for a in (table, vectors, sums)) or sums.dtype != types.float64:
        return None  # numba reports that no such function exists

    def generate(context, builder, signature, arguments):
        _, start, _, first, width, count, _ = arguments
        kinds, vectors, offset = signature.args, [], first
        row = eights(context, builder, kinds[0], arguments[0], start)
        for _ in range(TOGETHER):
            vectors.append(eights(context, builder, kinds[2], arguments[2], offset))
            offset = builder.add(offset, width)

        def step(k, totals):
            entries = widened(builder, row, k)
            terms = [builder.fmul(entries, widened(builder, vector, k)) for vector in vectors]
            return [builder.fadd(total, term) for total, term in zip(totals, terms, strict=True)]

        for lane, end in enumerate(loop_over(builder, count, TOGETHER, step)):
            place = ir.Constant(count.type, 8 * lane)
            builder.store(end, eights(context, builder, kinds[6], arguments[6], place), align=8)
        return context.get_dummy_value()

    whole = types.intp
    return types.void(table, whole, vectors, whole, whole, whole, sums), generate


@kernel
def dense_output_products(table, weights, out):
    """Write table @ weights.T to out; table is C-contiguous.

    ``weights`` has one row per output and rows of zeros up to a multiple of `TOGETHER`.
    """
    n_rows, n_columns = table.shape
    n_outputs = out.shape[1]
    whole = n_columns - n_columns % 8
    sums = np.empty((TOGETHER, 8))
    for i in range(n_rows):
        for first in range(0, n_outputs, TOGETHER):
            _eight_sums_each(
                table, i * n_columns, weights, first * n_columns, n_columns, whole // 8, sums
            )
            for k in range(first, min(first + TOGETHER, n_outputs)):
                a = sums[k - first]
                a0 = a[0]
                for j in range(whole, n_columns):
                    a0 += table[i, j] * weights[k, j]
                out[i, k] = ((a0 + a[1]) + (a[2] + a[3])) + ((a[4] + a[5]) + (a[6] + a[7]))


@kernel
def dense_output_add(table, factors, out):
    """Add factors.T @ table to out; table is C-contiguous. Four rows and two outputs at a time."""
    n_rows, n_columns = table.shape
    n_outputs = factors.shape[1]
    whole = n_rows - n_rows % 4
    for left in range(0, n_columns, COLUMNS):
        right = min(left + COLUMNS, n_columns)
        for i in range(0, whole, 4):
            x0, x1 = table[i, left:right], table[i + 1, left:right]
            x2, x3 = table[i + 2, left:right], table[i + 3, left:right]
            for k in range(0, n_outputs - 1, 2):
                c0, c1 = factors[i, k], factors[i + 1, k]
                c2, c3 = factors[i + 2, k], factors[i + 3, k]
                f0, f1 = factors[i, k + 1], factors[i + 1, k + 1]
                f2, f3 = factors[i + 2, k + 1], factors[i + 3, k + 1]
                target, other = out[k, left:right], out[k + 1, left:right]
                for j in range(right - left):
                    v0, v1, v2, v3 = x0[j], x1[j], x2[j], x3[j]
                    target[j] += (c0 * v0 + c1 * v1) + (c2 * v2 + c3 * v3)
                    other[j] += (f0 * v0 + f1 * v1) + (f2 * v2 + f3 * v3)
            if n_outputs % 2:
                k = n_outputs - 1
                c0, c1 = factors[i, k], factors[i + 1, k]
                c2, c3 = factors[i + 2, k], factors[i + 3, k]
                target = out[k, left:right]
                for j in range(right - left):
                    target[j] += (c0 * x0[j] + c1 * x1[j]) + (c2 * x2[j] + c3 * x3[j])
    for i in range(whole, n_rows):
        row = table[i]
        for k in range(n_outputs):
            factor, target = factors[i, k], out[k]
            for j in range(n_columns):
                target[j] += factor * row[j]


@kernel
def sparse_output_products(indptr, indices, data, weights, out):
    """Write X @ weights to out, for X in CSR; ``weights`` has one column per output."""
    n_outputs = out.shape[1]
    sums = np.empty((4, n_outputs))
    for i in range(out.shape[0]):
        row = slice(indptr[i], indptr[i + 1])
        columns, values = indices[row], data[row]
        whole = columns.size - columns.size % 4
        sums[:] = 0.0
        for k in range(columns.size):
            value, own = values[k], weights[np.uint64(columns[k])]
            target = sums[k % 4 if k < whole else 0]
            for output in range(n_outputs):
                target[output] += value * own[output]
        for output in range(n_outputs):
            low = sums[0, output] + sums[1, output]
            out[i, output] = low + (sums[2, output] + sums[3, output])


@kernel
def sparse_output_add(indptr, indices, data, factors, out):
    """Add X.T @ factors to out, for X in CSR."""
    n_outputs = factors.shape[1]
    for i in range(factors.shape[0]):
        row = slice(indptr[i], indptr[i + 1])
        columns, values, own = indices[row], data[row], factors[i]
        for k in range(columns.size):
            value, target = values[k], out[np.uint64(columns[k])]
            for output in range(n_outputs):
                target[output] += own[output] * value


# Norms of rows under a matrix


@intrinsic
def _eight_rows(_context, packed, first, turned, start, count, sums):
    """Write the products of eight rows with four vectors to ``sums``, of 4·8 entries.

    Entry k of the rows is at 8·(start + k) of ``turned`` and on, that of the vectors at ``first`` +
    4·k of ``packed`` and on. Each product is added with one rounding, in the order of k from 0 to
    ``count``: what becomes of a row does not depend on the others. All arrays are contiguous.
    """
    if any(a.layout != "C" or a.dtype != types.float64 for a in (packed, turned, sums)):
        return None  # numba reports that no such function exists

    def generate(context, builder, signature, arguments):
        _, first, _, start, count, _ = arguments
        kinds, eighth = signature.args, ir.Constant(count.type, 8)
        rows = eights(context, builder, kinds[2], arguments[2], builder.mul(start, eighth))
        data = context.make_array(kinds[0])(context, builder, arguments[0]).data
        four = ir.VectorType(ir.DoubleType(), 4).as_pointer()
        vectors = builder.bitcast(builder.gep(data, [first]), four)
        shape = ir.FunctionType(EIGHT, [EIGHT] * 3)
        fma = cgutils.get_or_insert_function(builder.module, shape, "llvm.fma.v8f64")

        def step(k, totals):
            row, numbers = (
                widened(builder, rows, k),
                builder.load(builder.gep(vectors, [k]), align=8),
            )
            for lane, total in enumerate(totals):
                mask = ir.Constant(ir.VectorType(ir.IntType(32), 8), [lane] * 8)
                spread = builder.shuffle_vector(numbers, numbers, mask)
                yield builder.call(fma, [spread, row, total])

        for lane, end in enumerate(loop_over(builder, count, TOGETHER, step)):
            place = ir.Constant(count.type, 8 * lane)
            builder.store(end, eights(context, builder, kinds[5], arguments[5], place), align=8)
        return context.get_dummy_value()

    whole = types.intp
    return types.void(packed, whole, turned, whole, whole, sums), generate


@kernel
def triangle_norms(rows, scales, packed, inflation, out):
    """Write upper bounds on the norms of R·(scale·x, −1) to out, for a triangle R.

    ``packed`` has the rows of R, which end in an offset, four by four, filled up with zeros: entry
    (k, j) at [k // 4, j, k % 4]. ``rows`` is a C-contiguous array of float32 or float64.
    """
    n_rows, n_columns = rows.shape
    turned = np.empty((n_columns + 1, 8))
    turned[n_columns] = -1.0
    sums, squares = np.empty((TOGETHER, 8)), np.empty(8)
    for start in range(0, n_rows, 8):
        count = min(8, n_rows - start)
        for i in range(8):
            here, scale = rows[min(start + i, n_rows - 1)], scales[min(start + i, n_rows - 1)]
            for j in range(n_columns):
                turned[j, i] = scale * here[j]
        squares[:] = 0.0
        for group in range(packed.shape[0]):
            left = TOGETHER * group
            at = (group * (n_columns + 1) + left) * TOGETHER
            _eight_rows(packed, at, turned, left, n_columns + 1 - left, sums)
            for k in range(TOGETHER):
                for i in range(8):
                    squares[i] += sums[k, i] * sums[k, i]
        for i in range(count):
            out[start + i] = math.sqrt(max(squares[i], SAFE_LOW)) * inflation


# Twice the working precision


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
    turned = np.empty((TURNED, LANES))
    sums, errors = np.empty(LANES), np.empty(LANES)
    for start in range(0, n_rows, LANES):
        count = min(LANES, n_rows - start)
        sums[:] = 0.0
        errors[:] = 0.0
        for first in range(0, n_columns, TURNED):
            width = min(TURNED, n_columns - first)
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
