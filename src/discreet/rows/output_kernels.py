"""Compiled loops for losses with several margins a row. Import when a loop is about to run.

As in ``discreet.rows.loss_kernels``, a row's numbers come from that row and public arguments
alone, to the last bit. Margins of all outputs are computed in one pass over X, each in the order
of operations of ``discreet.rows.kernels``: the bits are those of one pass an output.
"""

import math

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from discreet.rows.kernels import OPTIONS, SMALLEST_FACTOR
from discreet.rows.loss_kernels import REACH, _exp

TOGETHER = 4
"""Outputs whose sums are kept in registers together, for each number of a row that is read."""

COLUMNS = 1024
"""Columns of X that are summed before the next ones, so that their sums stay in a near cache."""


@intrinsic
def _eight_sums_each(_context, table, start, vectors, first, width, eighths, sums):
    """Write the eight interleaved dot products of a row with each of four vectors to ``sums``.

    The row starts at entry ``start`` of ``table``, the vectors at entries ``first``, ``first`` +
    ``width``, … of ``vectors``; ``sums`` has 4·8 entries. As ``kernels._eight_sums``, with vector
    instructions in strict arithmetic. All arrays are contiguous and of float64.
    """
    if any(a.layout != "C" or a.dtype != types.float64 for a in (table, vectors, sums)):
        return None  # numba reports that no such function exists

    def generate(context, builder, signature, arguments):
        eight = ir.VectorType(ir.DoubleType(), 8)
        _, start, _, first, width, count, _ = arguments
        data = {
            k: context.make_array(signature.args[k])(context, builder, arguments[k]).data
            for k in (0, 2, 6)
        }

        def at(k, offset):
            return builder.bitcast(builder.gep(data[k], [offset]), eight.as_pointer())

        zero, one = ir.Constant(count.type, 0), ir.Constant(count.type, 1)
        row, vector, offset = at(0, start), [], first
        for _ in range(TOGETHER):
            vector.append(at(2, offset))
            offset = builder.add(offset, width)
        nothing = ir.Constant(eight, [0.0] * 8)
        before = builder.block
        loop, after = builder.append_basic_block("loop"), builder.append_basic_block("after")
        builder.cbranch(builder.icmp_signed(">", count, zero), loop, after)
        builder.position_at_end(loop)
        k, so_far = builder.phi(count.type), [builder.phi(eight) for _ in vector]
        numbers = builder.load(builder.gep(row, [k]), align=8)
        new = [
            builder.fadd(
                total, builder.fmul(numbers, builder.load(builder.gep(weights, [k]), align=8))
            )
            for total, weights in zip(so_far, vector, strict=True)
        ]
        new_k = builder.add(k, one)
        builder.cbranch(builder.icmp_signed("<", new_k, count), loop, after)
        builder.position_at_end(after)
        k.add_incoming(zero, before)
        k.add_incoming(new_k, loop)
        ends = [builder.phi(eight) for _ in vector]
        for total, end, value in zip(so_far, ends, new, strict=True):
            total.add_incoming(nothing, before)
            total.add_incoming(value, loop)
            end.add_incoming(nothing, before)
            end.add_incoming(value, loop)
        for lane, end in enumerate(ends):
            builder.store(end, at(6, ir.Constant(count.type, 8 * lane)), align=8)
        return context.get_dummy_value()

    whole = types.intp
    return types.void(table, whole, vectors, whole, whole, whole, sums), generate


@njit(**OPTIONS)
def dense_output_products(table, weights, out):
    """Write table @ weights.T to out; table is C-contiguous.

    ``weights`` has one row an output and rows of zeros up to a multiple of `TOGETHER`.
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


@njit(**OPTIONS)
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
                c0, c1, c2, c3 = (
                    factors[i, k],
                    factors[i + 1, k],
                    factors[i + 2, k],
                    factors[i + 3, k],
                )
                f0, f1 = factors[i, k + 1], factors[i + 1, k + 1]
                f2, f3 = factors[i + 2, k + 1], factors[i + 3, k + 1]
                target, other = out[k, left:right], out[k + 1, left:right]
                for j in range(right - left):
                    v0, v1, v2, v3 = x0[j], x1[j], x2[j], x3[j]
                    target[j] += (c0 * v0 + c1 * v1) + (c2 * v2 + c3 * v3)
                    other[j] += (f0 * v0 + f1 * v1) + (f2 * v2 + f3 * v3)
            if n_outputs % 2:
                k = n_outputs - 1
                c0, c1, c2, c3 = (
                    factors[i, k],
                    factors[i + 1, k],
                    factors[i + 2, k],
                    factors[i + 3, k],
                )
                target = out[k, left:right]
                for j in range(right - left):
                    target[j] += (c0 * x0[j] + c1 * x1[j]) + (c2 * x2[j] + c3 * x3[j])
    for i in range(whole, n_rows):
        row = table[i]
        for k in range(n_outputs):
            factor, target = factors[i, k], out[k]
            for j in range(n_columns):
                target[j] += factor * row[j]


@njit(**OPTIONS)
def sparse_output_products(indptr, indices, data, weights, out):
    """Write X @ weights to out, for X in CSR; ``weights`` has one column an output."""
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


@njit(**OPTIONS)
def sparse_output_add(indptr, indices, data, start, factors, out):
    """Add X[start : start + len(factors)].T @ factors to out, for X in CSR."""
    n_outputs = factors.shape[1]
    for i in range(factors.shape[0]):
        row = slice(indptr[start + i], indptr[start + i + 1])
        columns, values, own = indices[row], data[row], factors[i]
        for k in range(columns.size):
            value, target = values[k], out[np.uint64(columns[k])]
            for output in range(n_outputs):
                target[output] += own[output] * value


@njit(**OPTIONS)
def finish_margins(margins, scales, constants):
    """Scale the products of each row, if rows are scaled, and add the outputs' constants."""
    for i in range(margins.shape[0]):
        for k in range(margins.shape[1]):
            if scales.size > 0:
                margins[i, k] *= scales[i]
            if constants.size > 0:
                margins[i, k] += constants[k]


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
