# mypy: ignore-errors
"""Compiled loops over rows: products, sums, norms, maps and counts.

Privacy rests on one property of every kernel here: what a row contributes (its norm, margin, mapped
row) is computed from that row and public arguments alone, to the last bit, wherever the row lies in
the table. So the arithmetic is strict IEEE (no ``fastmath``: the compiler may not reorder sums),
every row goes through the same operations in the same order, and no kernel depends on the number
of threads. A BLAS product X @ v does not have this property: its rounding changes with the position
of a row, and a loss with a kink turns such a change into a jump of the row's gradient.

``rows`` are a tuple of arrays: one C-contiguous array of float32 or float64; the arrays indptr,
indices and data of a CSR matrix; or, in `products` and `add`, a C-contiguous array of columns of
float64 and the first row. Its length is known when a kernel is compiled, so only one branch is.

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

LANES = 64
"""Rows that are worked on side by side, so that the compiler can use vector instructions."""

EIGHT = ir.VectorType(ir.DoubleType(), 8)

BITS_OF_ONE = np.uint64(1023 << 53)
"""The bits of ±1, without the sign: exponents are stored plus 1023."""


def eights(context, builder, array, value, offset):
    """Return a pointer to groups of eight numbers, from an offset of an array on."""
    data = context.make_array(array)(context, builder, value).data
    number = ir.FloatType() if array.dtype == types.float32 else ir.DoubleType()
    return builder.bitcast(builder.gep(data, [offset]), ir.VectorType(number, 8).as_pointer())


def widened(builder, pointer, k):
    """Load eight numbers; single precision is widened, exactly."""
    numbers = builder.load(builder.gep(pointer, [k]), align=4)
    return builder.fpext(numbers, EIGHT) if numbers.type != EIGHT else numbers


def loop_over(builder, count, n_values, step):
    """Build a loop of k from 0 to count, over vectors that start at 0; return the last ones.

    ``step(k, values)`` returns the next ones. Vector instructions in strict arithmetic: without
    ``fastmath`` the compiler finds none by itself.
    """
    nothing, zero = ir.Constant(EIGHT, [0.0] * 8), ir.Constant(count.type, 0)
    before = builder.block
    loop, after = builder.append_basic_block("loop"), builder.append_basic_block("after")
    builder.cbranch(builder.icmp_signed(">", count, zero), loop, after)
    builder.position_at_end(loop)
    k, values = builder.phi(count.type), [builder.phi(EIGHT) for _ in range(n_values)]
    later = [builder.add(k, ir.Constant(count.type, 1)), *step(k, values)]
    builder.cbranch(builder.icmp_signed("<", later[0], count), loop, after)
    builder.position_at_end(after)
    ends = [builder.phi(EIGHT) for _ in values]
    firsts = [zero] + [nothing] * 2 * n_values
    for phi, first, last in zip([k, *values, *ends], firsts, later + later[1:], strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(last, loop)
    return ends


@intrinsic
def eight_sums(_context, table, start, vector, eighths):
    """Return eight interleaved dot products: of entries start + 0, 8, …, start + 1, 9, … etc.

    ``table`` and ``vector`` are contiguous arrays of float32 or float64; ``eighths`` counts the
    terms of each sum.
    """
    if any(a.layout != "C" for a in (table, vector)):
        return None  # numba reports that no such function exists
    result = types.UniTuple(types.float64, 8)

    def generate(context, builder, signature, arguments):
        kinds, zero = signature.args, ir.Constant(arguments[1].type, 0)
        row = eights(context, builder, kinds[0], arguments[0], arguments[1])
        along = eights(context, builder, kinds[2], arguments[2], zero)

        def step(k, totals):
            term = builder.fmul(widened(builder, row, k), widened(builder, along, k))
            return [builder.fadd(totals[0], term)]

        (total,) = loop_over(builder, arguments[3], 1, step)
        lanes = [ir.Constant(ir.IntType(32), lane) for lane in range(8)]
        parts = [builder.extract_element(total, lane) for lane in lanes]
        return context.make_tuple(builder, result, parts)

    return result(table, types.intp, vector, types.intp), generate


# Products and sums


@kernel
def height(rows):
    """Return the number of rows."""
    return rows[0].shape[0] - (1 if len(rows) == 3 else 0)


@kernel
def part(rows, start, stop):
    """Return rows start to stop."""
    if len(rows) == 1:
        return (rows[0][start:stop],)
    elif len(rows) == 2:
        return (rows[0], rows[1] + start)
    else:
        return (rows[0][start : stop + 1], rows[1], rows[2])


@kernel
def entries(rows, i):
    """Return the entries of row i that are stored."""
    if len(rows) == 1:
        return rows[0][i]
    else:
        return rows[2][rows[0][i] : rows[0][i + 1]]


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
def product(rows, i, vector):
    """Return the product of row i with a vector."""
    if len(rows) == 1:
        return dense_product(rows[0], i, vector)
    else:
        at = slice(rows[0][i], rows[0][i + 1])
        return sparse_product(rows[1][at], rows[2][at], vector)


@kernel
def products(rows, vector, out):
    """Write the products of all rows with a vector to out."""
    if len(rows) == 2:
        column_products(rows[0], rows[1], vector, out)
    else:
        for i in range(out.size):
            out[i] = product(rows, i, vector)


@kernel
def add_row(rows, i, factor, out):
    """Add factor times row i to out."""
    if len(rows) == 1:
        row = rows[0][i]
        for j in range(row.size):
            out[j] += factor * row[j]
    else:
        at = slice(rows[0][i], rows[0][i + 1])
        columns, values = rows[1][at], rows[2][at]
        for k in range(columns.size):
            out[np.uint64(columns[k])] += factor * values[k]


@kernel
def add(rows, coefficients, out):
    """Add coefficients @ rows to out; of a C-contiguous array, four rows at a time."""
    count = coefficients.size
    if len(rows) == 2:
        column_add(rows[0], rows[1], coefficients, out)
    else:
        whole = count - count % 4 if len(rows) == 1 else 0
        if len(rows) == 1:
            table = rows[0]
            for i in range(0, whole, 4):
                x0, x1, x2, x3 = table[i], table[i + 1], table[i + 2], table[i + 3]
                c0, c1 = coefficients[i], coefficients[i + 1]
                c2, c3 = coefficients[i + 2], coefficients[i + 3]
                for j in range(out.size):
                    out[j] += (c0 * x0[j] + c1 * x1[j]) + (c2 * x2[j] + c3 * x3[j])
        for i in range(whole, count):
            add_row(rows, i, coefficients[i], out)


@kernel
def column_products(columns, start, vector, out):
    """Write the products of rows start and on with a vector to out, from an array of columns.

    A row's numbers are added in the same order as in `dense_product`, so the bits are the same: a
    table of one row is contiguous both ways, and its neighbour of two rows may not be.
    """
    n_columns = columns.shape[0]
    whole = n_columns - n_columns % 8
    tile = 512
    sums = np.empty((8, tile))
    for first in range(0, out.size, tile):
        count = min(tile, out.size - first)
        sums[:] = 0.0
        for j in range(n_columns):
            factor = vector[j]
            column = columns[j, start + first : start + first + count]
            target = sums[j % 8 if j < whole else 0]
            for i in range(count):
                target[i] += column[i] * factor
        for i in range(count):
            low = (sums[0, i] + sums[1, i]) + (sums[2, i] + sums[3, i])
            out[first + i] = low + ((sums[4, i] + sums[5, i]) + (sums[6, i] + sums[7, i]))


@kernel
def column_add(columns, start, coefficients, out):
    """Add columns[:, start : start + coefficients.size] @ coefficients to out; C-contiguous."""
    count = coefficients.size
    whole = count - count % 8
    for j in range(out.size):
        first = j * columns.shape[1] + start
        a0, a1, a2, a3, a4, a5, a6, a7 = eight_sums(columns, first, coefficients, whole // 8)
        for i in range(whole, count):
            a0 += columns[j, start + i] * coefficients[i]
        out[j] += ((a0 + a1) + (a2 + a3)) + ((a4 + a5) + (a6 + a7))


@kernel
def few_products(rows, vector, used, out):
    """Write X @ vector to out, for X in CSR and a vector that is zero where ``used`` is.

    Values of other columns are not read, which is most of the memory of X.
    """
    indptr, indices, data = rows
    for i in range(out.size):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            column = np.uint64(indices[k])
            if used[column]:
                total += data[k] * vector[column]
        out[i] = total


# Norms and maps


@kernel
def safe_norm(values):
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
def dense_norms(rows, scales, factors, offset, inflation, out):
    """Write upper bounds on the norms of factors·(scale·x) − offset to out.

    Return whether all of them are finite. ``rows`` is a C-contiguous array of float32 or float64;
    ``scales`` may have no entries.
    """
    mapped = np.empty((1, rows.shape[1]))
    finite = True
    for i in range(rows.shape[0]):
        scale = scales[i] if scales.size > 0 else 1.0
        for j in range(rows.shape[1]):
            mapped[0, j] = factors[j] * (scale * rows[i, j]) - offset[j]
        total = dense_product(mapped, 0, mapped[0])
        norm = math.sqrt(total)
        if not SAFE_LOW <= total <= SAFE_HIGH:
            norm, good = safe_norm(mapped[0])
            finite = finite and good
        bound = norm * inflation
        out[i] = bound if bound > SMALLEST_NORM else SMALLEST_NORM
    return finite


@kernel
def sparse_norms(rows, inflation, out):
    """Write upper bounds on the norms of rows to out; return whether all entries are finite."""
    finite = True
    for i in range(out.size):
        norm, good = safe_norm(entries(rows, i))
        finite = finite and good
        bound = norm * inflation
        out[i] = bound if bound > SMALLEST_NORM else SMALLEST_NORM
    return finite


@kernel
def sparse_mapped_norms(rows, scales, factors, offset, square, out):
    """Write the squared norms of the mapped rows of a CSR matrix, not below 0.

    ``square`` is that of the offset. Columns without an entry are left at minus the offset, so only
    entries change it.
    """
    indptr, indices, data = rows
    for i in range(scales.size):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            j = np.uint64(indices[k])
            value = factors[j] * (scales[i] * data[k]) - offset[j]
            total += value * value - offset[j] * offset[j]
        out[i] = max(square + total, 0.0)


@kernel
def largest(rows, out):
    """Write the largest absolute entry of each row to out."""
    for i in range(out.size):
        values, size = entries(rows, i), 0.0
        for k in range(values.size):
            size = max(size, abs(np.float64(values[k])))
        out[i] = size


@kernel
def dense_squares(rows, scales, factors, offset, row_factors, out):
    """Add the squares of row_factor·(factors·(scale·x) − offset) to out, column by column."""
    for i in range(rows.shape[0]):
        row, scale, weight = rows[i], scales[i], row_factors[i]
        for j in range(row.size):
            value = weight * (factors[j] * (scale * row[j]) - offset[j])
            out[j] += value * value


@kernel
def sparse_squares(rows, scales, factors, offset, row_factors, out):
    """Add to out, column by column, by how much entries change the squares of mapped rows.

    Each row is multiplied by its row factor before squaring.
    """
    indptr, indices, data = rows
    for i in range(scales.size):
        weight = row_factors[i] * row_factors[i]
        for k in range(indptr[i], indptr[i + 1]):
            j = np.uint64(indices[k])
            value = factors[j] * (scales[i] * data[k]) - offset[j]
            out[j] += weight * (value * value - offset[j] * offset[j])


@kernel
def map_rows(rows, scales, linear, offset, out):
    """Write L·(scale·x) − offset to out, row by row; L is a diagonal or a matrix.

    ``scales`` may have no entries; out may be rows. The columns of a matrix are added up four at a
    time, so that the compiler finds vector instructions.
    """
    if linear.ndim == 1:
        for i in range(rows.shape[0]):
            scale = scales[i] if scales.size > 0 else 1.0
            for j in range(offset.size):
                out[i, j] = linear[j] * (scale * rows[i, j]) - offset[j]
    else:
        columns, mapped = linear.T.copy(), np.empty(offset.size)
        n_columns = rows.shape[1]
        whole = n_columns - n_columns % 4
        for i in range(rows.shape[0]):
            scale = scales[i] if scales.size > 0 else 1.0
            mapped[:] = 0.0
            for j in range(0, whole, 4):
                x0, x1 = scale * rows[i, j], scale * rows[i, j + 1]
                x2, x3 = scale * rows[i, j + 2], scale * rows[i, j + 3]
                c0, c1, c2, c3 = columns[j], columns[j + 1], columns[j + 2], columns[j + 3]
                for k in range(mapped.size):
                    mapped[k] += (x0 * c0[k] + x1 * c1[k]) + (x2 * c2[k] + x3 * c3[k])
            for j in range(whole, n_columns):
                value, column = scale * rows[i, j], columns[j]
                for k in range(mapped.size):
                    mapped[k] += value * column[k]
            for k in range(offset.size):
                out[i, k] = mapped[k] - offset[k]


@kernel
def sparse_outer_add(rows, scales, out):
    """Add the upper triangles of yyᵀ, y = scale·x, of the rows of a CSR matrix to out."""
    indptr, indices, data = rows
    buffer = np.empty(out.shape[0])
    for i in range(scales.size):
        row = slice(indptr[i], indptr[i + 1])
        columns, values = indices[row], data[row]
        for a in range(columns.size):
            buffer[a] = scales[i] * values[a]
        for a in range(columns.size):
            target, factor = out[np.uint64(columns[a])], buffer[a]
            for b in range(a, columns.size):
                target[np.uint64(columns[b])] += factor * buffer[b]


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


# Exponents


@intrinsic
def _bits(_context, number):
    """Return the bits of a double."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.uint64(types.float64), generate


@kernel
def count(rows, weights, first, last, counts):
    """Add each row's weight to the cells of its entries; one row of counts per column.

    An entry's cell is that of its exponent, from first to last (those beyond count as these); after
    these there are one for ±1 and one for 0. ``weights`` are whole numbers, and without entries if
    all are 1. Cells are found for a whole row at a time, by vector instructions.
    """
    one, cells = last - first + 1, np.empty(counts.shape[0], dtype=np.int64)
    for i in range(height(rows)):
        weight, values = weights[i] if weights.size > 0 else 1, entries(rows, i)
        for k in range(values.size):
            bits = _bits(np.float64(values[k])) << np.uint64(1)  # without the sign
            cell = min(max(np.int64(bits >> np.uint64(53)) - 1022, first), last) - first
            cell = one if bits == BITS_OF_ONE else cell
            cells[k] = one + 1 if bits == np.uint64(0) else cell
        for k in range(values.size):
            j = np.uint64(k if len(rows) == 1 else rows[1][rows[0][i] + k])
            counts[j, np.uint64(cells[k])] += weight
