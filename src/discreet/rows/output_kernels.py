# mypy: ignore-errors
"""Compiled products and sums for losses with several margins per row.

As in ``discreet.rows.kernels``, a row's numbers come from that row and public arguments alone, to
the last bit. Margins of all outputs are computed in one pass over X, each in the order of
operations of ``discreet.rows.kernels``: the bits are those of one pass per output.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from discreet.objectives.compile import kernel

TOGETHER = 4
"""Outputs whose sums are kept in registers together, for each number of a row that is read."""

COLUMNS = 1024
"""Columns of X that are summed before the next ones, so that their sums stay in a near cache."""


@intrinsic
def _eight_sums_each(_context, table, start, vectors, first, width, eighths, sums):
    """Write the eight interleaved dot products of a row with each of four vectors to ``sums``.

    The row starts at entry ``start`` of ``table``, the vectors at entries ``first``, ``first`` +
    ``width``, … of ``vectors``; ``sums`` has 4·8 entries. As ``kernels.eight_sums``, with vector
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


@kernel
def finish_margins(margins, scales, constants):
    """Scale the products of each row, if rows are scaled, and add the outputs' constants."""
    for i in range(margins.shape[0]):
        for k in range(margins.shape[1]):
            if scales.size > 0:
                margins[i, k] *= scales[i]
            if constants.size > 0:
                margins[i, k] += constants[k]
