# mypy: ignore-errors
"""Compiled loops over the rows of a dense or sparse table.

Privacy rests on one property of every function here: what a row contributes (its norm, margin,
mapped row) is computed from that row and public arguments alone, to the last bit, wherever the row
lies in the table. So the arithmetic is strict IEEE (no ``fastmath``: the compiler may not reorder
sums), every row goes through the same operations in the same order, and no function depends on the
number of threads. A BLAS product X @ v does not have this property: its rounding changes with the
position of a row, and a loss with a kink turns such a change into a jump of the row's gradient.

Import through `discreet.objectives.compile.KernelModule`: numba is slow to load. Arrays that are
only read are passed read-only, so that each kernel is compiled for one type of array.
"""

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from discreet.objectives.compile import inlined, kernel
from discreet.rows.bounds import SAFE_HIGH, SAFE_LOW, SMALLEST_NORM

# Dense tables: C-contiguous arrays, or F-contiguous ones of float64.


@intrinsic
def eight_sums(_context, table, start, vector, eighths):
    """Return eight interleaved dot products: of entries start + 0, 8, …, start + 1, 9, … etc.

    Written with vector instructions, in strict arithmetic: without ``fastmath`` the compiler finds
    none by itself. ``table`` is a contiguous array of float32 or float64 and ``vector`` one of
    float64; ``eighths`` counts the terms of each sum. Single precision is widened first, exactly.
    """
    known = table.dtype in (types.float32, types.float64) and vector.dtype == types.float64
    if not known or any(a.layout != "C" for a in (table, vector)):
        return None  # numba reports that no such function exists
    single = table.dtype == types.float32
    result = types.UniTuple(types.float64, 8)

    def generate(context, builder, signature, arguments):
        eight = ir.VectorType(ir.DoubleType(), 8)
        index, count = arguments[1], arguments[3]
        left, right = (
            context.make_array(signature.args[k])(context, builder, arguments[k]).data
            for k in (0, 2)
        )
        stored = ir.VectorType(ir.FloatType(), 8) if single else eight
        left = builder.bitcast(builder.gep(left, [index]), stored.as_pointer())
        right = builder.bitcast(right, eight.as_pointer())
        nothing, zero = ir.Constant(eight, [0.0] * 8), ir.Constant(count.type, 0)
        before = builder.block
        loop, after = builder.append_basic_block("loop"), builder.append_basic_block("after")
        builder.cbranch(builder.icmp_signed(">", count, zero), loop, after)
        builder.position_at_end(loop)
        k, sums = builder.phi(count.type), builder.phi(eight)
        entries = builder.load(builder.gep(left, [k]), align=4 if single else 8)
        if single:
            entries = builder.fpext(entries, eight)
        terms = builder.fmul(entries, builder.load(builder.gep(right, [k]), align=8))
        new_sums, new_k = builder.fadd(sums, terms), builder.add(k, ir.Constant(count.type, 1))
        builder.cbranch(builder.icmp_signed("<", new_k, count), loop, after)
        builder.position_at_end(after)
        total = builder.phi(eight)
        for phi, first, later in ((k, zero, new_k), (sums, nothing, new_sums)):
            phi.add_incoming(first, before)
            phi.add_incoming(later, loop)
        total.add_incoming(nothing, before)
        total.add_incoming(new_sums, loop)
        lanes = [ir.Constant(ir.IntType(32), lane) for lane in range(8)]
        parts = [builder.extract_element(total, lane) for lane in lanes]
        return context.make_tuple(builder, result, parts)

    return result(table, types.intp, vector, types.intp), generate


@inlined
def dense_product(table, i, vector):
    """Return table[i] @ vector; table is C-contiguous."""
    n_columns = table.shape[1]
    whole = n_columns - n_columns % 8
    a0, a1, a2, a3, a4, a5, a6, a7 = eight_sums(table, i * n_columns, vector, whole // 8)
    for j in range(whole, n_columns):
        a0 += table[i, j] * vector[j]
    return ((a0 + a1) + (a2 + a3)) + ((a4 + a5) + (a6 + a7))


@kernel
def dense_products(table, vector, out):
    """Write table @ vector to out; table is C-contiguous."""
    for i in range(table.shape[0]):
        out[i] = dense_product(table, i, vector)


@kernel
def dense_add(table, coefficients, out):
    """Add coefficients @ table to out; table is C-contiguous. Four rows at a time."""
    n_rows, n_columns = table.shape
    whole = n_rows - n_rows % 4
    for i in range(0, whole, 4):
        x0, x1, x2, x3 = table[i], table[i + 1], table[i + 2], table[i + 3]
        c0, c1 = coefficients[i], coefficients[i + 1]
        c2, c3 = coefficients[i + 2], coefficients[i + 3]
        for j in range(n_columns):
            out[j] += (c0 * x0[j] + c1 * x1[j]) + (c2 * x2[j] + c3 * x3[j])
    for i in range(whole, n_rows):
        row, factor = table[i], coefficients[i]
        for j in range(n_columns):
            out[j] += factor * row[j]


@kernel
def column_products(table, vector, out):
    """Write table @ vector to out; table is F-contiguous.

    A row's numbers are added in the same order as in ``dense_products``, so the bits are the same:
    a table of one row is contiguous both ways, and its neighbour of two rows may not be.
    """
    n_rows, n_columns = table.shape
    whole = n_columns - n_columns % 8
    tile = 512
    sums = np.empty((8, tile))
    for start in range(0, n_rows, tile):
        stop = min(start + tile, n_rows)
        sums[:] = 0.0
        for j in range(n_columns):
            factor = vector[j]
            column = table[start:stop, j]
            target = sums[j % 8 if j < whole else 0]
            for i in range(stop - start):
                target[i] += column[i] * factor
        for i in range(stop - start):
            low = (sums[0, i] + sums[1, i]) + (sums[2, i] + sums[3, i])
            out[start + i] = low + ((sums[4, i] + sums[5, i]) + (sums[6, i] + sums[7, i]))


@kernel
def _norm(values):
    """Return (norm, whether all values are finite), without overflow or underflow on the way."""
    total = 0.0
    for j in range(values.size):
        value = np.float64(values[j])  # not float(): that leaves float32 as it is
        total += value * value
    if SAFE_LOW <= total <= SAFE_HIGH:
        return math.sqrt(total), True
    largest = 0.0
    for j in range(values.size):
        size = abs(np.float64(values[j]))
        if not size < math.inf:
            return math.inf, False
        largest = max(largest, size)
    if largest == 0.0:
        return 0.0, True
    exponent = math.frexp(largest)[1]
    half = exponent // 2  # in two factors: 2**-exponent itself may overflow
    down, rest = math.ldexp(1.0, -half), math.ldexp(1.0, half - exponent)
    total = 0.0
    for j in range(values.size):
        scaled = np.float64(values[j]) * down * rest
        total += scaled * scaled
    return math.sqrt(total) / down / rest, True


@kernel
def dense_norms(table, inflation, out):
    """Write upper bounds on the norms of rows to out; return whether all entries are finite.

    ``table`` is a contiguous array of float64.
    """
    finite = True
    for i in range(table.shape[0]):
        total = dense_product(table, i, table[i])
        norm = math.sqrt(total)
        if not SAFE_LOW <= total <= SAFE_HIGH:
            norm, good = _norm(table[i])
            finite = finite and good
        bound = norm * inflation
        out[i] = bound if bound > SMALLEST_NORM else SMALLEST_NORM
    return finite


@kernel
def map_rows(rows, scales, factors, offset, out):
    """Write factors·(scale·x) − offset to out, row by row; out may be rows."""
    for i in range(rows.shape[0]):
        scale = scales[i]
        for j in range(rows.shape[1]):
            out[i, j] = factors[j] * (scale * rows[i, j]) - offset[j]


@kernel
def rotate_rows(rows, scales, matrix, out):
    """Write matrix @ (scale·x) to out, row by row; out may be rows."""
    scaled, rotated = np.empty(rows.shape[1]), np.empty(matrix.shape[0])
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            scaled[j] = scales[i] * rows[i, j]
        dense_products(matrix, scaled, rotated)
        for j in range(rotated.size):
            out[i, j] = rotated[j]


@kernel
def dense_square_add(rows, scales, out):
    """Add the squares of the entries of scale·x to out, over rows."""
    for i in range(rows.shape[0]):
        row, scale = rows[i], scales[i]
        for j in range(row.size):
            value = scale * row[j]
            out[j] += value * value


@kernel
def dense_largest(table, out):
    """Write the largest absolute entry of each row to out; table is C-contiguous."""
    for i in range(table.shape[0]):
        largest = 0.0
        for j in range(table.shape[1]):
            largest = max(largest, abs(np.float64(table[i, j])))
        out[i] = largest


# Sparse tables: CSR.


@inlined
def sparse_product(columns, values, vector):
    """Return the product of a sparse row with a vector."""
    whole = columns.size - columns.size % 4
    a0 = a1 = a2 = a3 = 0.0
    for k in range(0, whole, 4):  # unsigned: an index is not counted from the end
        a0 += values[k] * vector[np.uint64(columns[k])]
        a1 += values[k + 1] * vector[np.uint64(columns[k + 1])]
        a2 += values[k + 2] * vector[np.uint64(columns[k + 2])]
        a3 += values[k + 3] * vector[np.uint64(columns[k + 3])]
    for k in range(whole, columns.size):
        a0 += values[k] * vector[np.uint64(columns[k])]
    return (a0 + a1) + (a2 + a3)


@kernel
def sparse_products(indptr, indices, data, vector, out):
    """Write X @ vector to out, for X in CSR."""
    for i in range(out.size):
        row = slice(indptr[i], indptr[i + 1])
        out[i] = sparse_product(indices[row], data[row], vector)


@kernel
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


@kernel
def sparse_add(indptr, indices, data, start, coefficients, out):
    """Add coefficients @ X[start : start + coefficients.size] to out, for X in CSR."""
    for i in range(coefficients.size):
        factor = coefficients[i]
        row = slice(indptr[start + i], indptr[start + i + 1])
        columns, values = indices[row], data[row]
        for k in range(columns.size):
            out[np.uint64(columns[k])] += factor * values[k]


@kernel
def sparse_shape(indptr, indices, n_columns, n_stored):
    """Return 0 for a canonical CSR, 1 for unsorted or repeated entries, 2 for an invalid one."""
    if indptr[0] != 0 or indptr[-1] > n_stored:
        return 2
    verdict = 0
    for i in range(indptr.size - 1):
        if indptr[i] > indptr[i + 1]:
            return 2
    for i in range(indptr.size - 1):
        before = -1
        for k in range(indptr[i], indptr[i + 1]):
            if indices[k] < 0 or indices[k] >= n_columns:
                return 2
            if indices[k] <= before:
                verdict = 1
            before = indices[k]
    return verdict


@kernel
def sparse_norms(indptr, data, inflation, out):
    """Write upper bounds on the norms of rows to out; return whether all entries are finite."""
    finite = True
    for i in range(out.size):
        norm, good = _norm(data[indptr[i] : indptr[i + 1]])
        finite = finite and good
        bound = norm * inflation
        out[i] = bound if bound > SMALLEST_NORM else SMALLEST_NORM
    return finite


@kernel
def sparse_mapped_norms(indptr, indices, data, scales, factors, offset, square, start, stop, out):
    """Write the squared norms of mapped rows start to stop of a CSR matrix, not below 0.

    ``square`` is that of the offset. Columns without an entry are left at minus the offset, so only
    entries change it.
    """
    for i in range(start, stop):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            j = np.uint64(indices[k])
            value = factors[j] * (scales[i] * data[k]) - offset[j]
            total += value * value - offset[j] * offset[j]
        out[i] = max(square + total, 0.0)


@kernel
def sparse_squares(indptr, indices, data, scales, factors, offset, row_factors, start, stop, out):
    """Add to out, column by column, by how much entries change the squares of mapped rows.

    Each row is multiplied by its row factor before squaring.
    """
    for i in range(start, stop):
        weight = row_factors[i] * row_factors[i]
        for k in range(indptr[i], indptr[i + 1]):
            j = np.uint64(indices[k])
            value = factors[j] * (scales[i] * data[k]) - offset[j]
            out[j] += weight * (value * value - offset[j] * offset[j])


@kernel
def sparse_square_add(indptr, indices, data, scales, start, stop, out):
    """Add the squares of the entries of scale·x to out, over rows start to stop of a CSR matrix."""
    for i in range(start, stop):
        for k in range(indptr[i], indptr[i + 1]):
            value = scales[i] * data[k]
            out[np.uint64(indices[k])] += value * value


@kernel
def sparse_outer_add(indptr, indices, data, scales, start, stop, out):
    """Add the upper triangles of yyᵀ, y = scale·x, of rows start to stop of a CSR matrix to out."""
    buffer = np.empty(out.shape[0])
    for i in range(start, stop):
        row = slice(indptr[i], indptr[i + 1])
        columns, values = indices[row], data[row]
        for a in range(columns.size):
            buffer[a] = scales[i] * values[a]
        for a in range(columns.size):
            target, factor = out[np.uint64(columns[a])], buffer[a]
            for b in range(a, columns.size):
                target[np.uint64(columns[b])] += factor * buffer[b]


@kernel
def sparse_largest(indptr, data, out):
    """Write the largest absolute entry of each row to out, for X in CSR."""
    for i in range(out.size):
        largest = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            largest = max(largest, abs(np.float64(data[k])))
        out[i] = largest
