# mypy: ignore-errors
"""Compiled products of rows with several vectors, and products in twice the working precision.

They have the property stated in ``kernels.py``. Margins of all outputs are computed in one pass,
each in the order of operations of `kernels.product`: the bits are those of one pass per output.
"""

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from discreet.objectives.compile import inlined, kernel
from discreet.rows.bounds import SAFE_LOW
from discreet.rows.kernels import EIGHT, add_row, eights, entries, loop_over, widened

TOGETHER = 4
"""Vectors whose sums are kept in registers together, for each number of a row that is read."""

COLUMNS = 1024
"""Columns of X that are summed before the next ones, so that their sums stay in a near cache."""

SPLITTER = 2.0**27 + 1.0
"""Times this, a double falls into two halves whose products are exact."""


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
def output_products(rows, weights, out):
    """Write the products of rows with each row of weights to the columns of out."""
    n_outputs, n_columns = weights.shape
    if len(rows) == 1:
        table, whole = rows[0], n_columns - n_columns % 8
        padded = np.zeros((n_outputs + -n_outputs % TOGETHER, n_columns))
        padded[:n_outputs] = weights
        sums = np.empty((TOGETHER, 8))
        for i in range(out.shape[0]):
            for first in range(0, n_outputs, TOGETHER):
                start = first * n_columns
                _eight_sums_each(table, i * n_columns, padded, start, n_columns, whole // 8, sums)
                for k in range(first, min(first + TOGETHER, n_outputs)):
                    a = sums[k - first]
                    a0 = a[0]
                    for j in range(whole, n_columns):
                        a0 += table[i, j] * weights[k, j]
                    out[i, k] = ((a0 + a[1]) + (a[2] + a[3])) + ((a[4] + a[5]) + (a[6] + a[7]))
    else:
        indptr, indices, data = rows
        turned, sums = weights.T.copy(), np.empty((4, n_outputs))
        for i in range(out.shape[0]):
            at = slice(indptr[i], indptr[i + 1])
            columns, values = indices[at], data[at]
            whole = columns.size - columns.size % 4
            sums[:] = 0.0
            for k in range(columns.size):
                value, own = values[k], turned[np.uint64(columns[k])]
                target = sums[k % 4 if k < whole else 0]
                for output in range(n_outputs):
                    target[output] += value * own[output]
            for output in range(n_outputs):
                low = sums[0, output] + sums[1, output]
                out[i, output] = low + (sums[2, output] + sums[3, output])


@kernel
def output_add(rows, factors, out):
    """Add factors.T @ rows to out; of a C-contiguous array, four rows and two outputs at a time."""
    n_outputs, n_columns = out.shape
    if len(rows) == 1:
        table, whole = rows[0], len(factors) - len(factors) % 4
        for left in range(0, n_columns, COLUMNS):
            right = min(left + COLUMNS, n_columns)
            for i in range(0, whole, 4):
                x0, x1 = table[i, left:right], table[i + 1, left:right]
                x2, x3 = table[i + 2, left:right], table[i + 3, left:right]
                c0, c1, c2, c3 = factors[i], factors[i + 1], factors[i + 2], factors[i + 3]
                for k in range(0, n_outputs - 1, 2):
                    a0, a1, a2, a3 = c0[k], c1[k], c2[k], c3[k]
                    b0, b1, b2, b3 = c0[k + 1], c1[k + 1], c2[k + 1], c3[k + 1]
                    target, other = out[k, left:right], out[k + 1, left:right]
                    for j in range(right - left):
                        v0, v1, v2, v3 = x0[j], x1[j], x2[j], x3[j]
                        target[j] += (a0 * v0 + a1 * v1) + (a2 * v2 + a3 * v3)
                        other[j] += (b0 * v0 + b1 * v1) + (b2 * v2 + b3 * v3)
                if n_outputs % 2:
                    a0, a1, a2, a3 = c0[-1], c1[-1], c2[-1], c3[-1]
                    target = out[n_outputs - 1, left:right]
                    for j in range(right - left):
                        target[j] += (a0 * x0[j] + a1 * x1[j]) + (a2 * x2[j] + a3 * x3[j])
        for i in range(whole, len(factors)):
            for k in range(n_outputs):
                add_row(rows, i, factors[i, k], out[k])
    else:
        turned = np.zeros((n_columns, n_outputs))
        for i in range(len(factors)):
            own = factors[i]
            for k in range(rows[0][i], rows[0][i + 1]):
                value, target = rows[2][k], turned[np.uint64(rows[1][k])]
                for output in range(n_outputs):
                    target[output] += own[output] * value
        out += turned.T


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
                j = np.uint64(k if len(rows) == 1 else rows[1][rows[0][i] + k])
                value = np.float64(values[k])
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
