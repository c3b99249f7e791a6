# mypy: ignore-errors
"""Compiled loops over rows: products, sums, norms, maps and counts.

Privacy rests on one property of every kernel here: what a row contributes (its norm, margin, mapped
row) is computed from that row and public arguments alone, to the last bit, wherever the row lies in
the table. So the arithmetic is strict IEEE (no ``fastmath``: the compiler may not reorder sums),
every row goes through the same operations in the same order, and no kernel depends on the number
of threads. A BLAS product X @ v does not have this property: its rounding changes with the position
of a row, and a loss with a kink turns such a change into a jump of the row's gradient.

``rows`` are a tuple of arrays: one C-contiguous array of float32 or float64; or the arrays indptr,
indices and data of a CSR matrix. Its length is known when a kernel is compiled, so only one branch
is. Margins of several outputs have the bits of one pass per output.

Import through `discreet.objectives.compile.KernelModule`: numba is slow to load. Arrays that are
only read are passed read-only, so that each kernel is compiled for one type of array.
"""

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from discreet.objectives.compile import inlined, kernel, subroutine
from discreet.rows.bounds import SAFE_HIGH, SAFE_LOW, SMALLEST_FACTOR, SMALLEST_NORM
from discreet.rows.vector_kernels import four_products, mapped_square, one_product

LANES = 64
"""Rows that are worked on side by side, so that the compiler can use vector instructions."""

NEAR_ROWS = 256
"""Rows that are read again for each output, from a near cache."""

BITS_OF_ONE = np.uint64(1023 << 53)
"""The bits of ±1, without the sign: exponents are stored plus 1023."""


# Products and sums


@subroutine
def part(rows, start, stop):
    """Return rows start to stop."""
    if len(rows) == 1:
        return (rows[0][start:stop],)
    else:
        return (rows[0][start : stop + 1], rows[1], rows[2])


@subroutine
def entries(rows, i):
    """Return the entries of row i that are stored."""
    if len(rows) == 1:
        return rows[0][i]
    else:
        return rows[2][rows[0][i] : rows[0][i + 1]]


@subroutine
def column(rows, i, k):
    """Return the column of entry k of row i; unsigned: an index is not counted from the end."""
    if len(rows) == 1:
        return np.uint64(k)
    else:
        return np.uint64(rows[1][rows[0][i] + k])


@inlined
def dense_product(table, i, vector):
    """Return table[i] @ vector; table is C-contiguous."""
    return one_product(table, i * table.shape[1], vector, table.shape[1])[0]


@subroutine
def product(rows, i, vector):
    """Return the product of row i with a vector."""
    if len(rows) == 1:
        return dense_product(rows[0], i, vector)
    else:
        at = slice(rows[0][i], rows[0][i + 1])
        columns, values = rows[1][at], rows[2][at]
        whole = columns.size - columns.size % 4
        a0 = a1 = a2 = a3 = 0.0
        for k in range(0, whole, 4):
            a0 += values[k] * vector[np.uint64(columns[k])]
            a1 += values[k + 1] * vector[np.uint64(columns[k + 1])]
            a2 += values[k + 2] * vector[np.uint64(columns[k + 2])]
            a3 += values[k + 3] * vector[np.uint64(columns[k + 3])]
        for k in range(whole, columns.size):
            a0 += values[k] * vector[np.uint64(columns[k])]
        return (a0 + a1) + (a2 + a3)


@inlined
def dense_products(table, vector, out):
    """Write the products of the rows of an array with a vector to out, four rows at a time."""
    width = table.shape[1]
    whole = out.size - out.size % 4
    for i in range(0, whole, 4):
        found = four_products(table, i * width, vector, width)
        out[i], out[i + 1], out[i + 2], out[i + 3] = found
    for i in range(whole, out.size):
        out[i] = one_product(table, i * width, vector, width)[0]


@kernel
def products(rows, vector, out):
    """Write the products of all rows with a vector to out."""
    if len(rows) == 1:
        dense_products(rows[0], vector, out)
    else:
        for i in range(out.size):
            out[i] = product(rows, i, vector)


@kernel
def few_products(rows, vector, used, out):
    """Write X @ vector to out, for X in CSR and a vector that is zero where ``used`` is.

    Values of other columns are not read, which is most of the memory of X.
    """
    indptr, indices, data = rows
    for i in range(out.size):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            at = np.uint64(indices[k])
            if used[at]:
                total += data[k] * vector[at]
        out[i] = total


@subroutine
def add_row(rows, i, factor, out):
    """Add factor times row i to out."""
    if len(rows) == 1:
        for j in range(rows[0].shape[1]):
            out[j] += factor * rows[0][i, j]
    else:
        at = slice(rows[0][i], rows[0][i + 1])
        columns, values = rows[1][at], rows[2][at]
        for k in range(columns.size):
            out[np.uint64(columns[k])] += factor * values[k]


@inlined
def dense_add(table, coefficients, out):
    """Add coefficients @ table to out, four rows of a C-contiguous array at a time."""
    whole = coefficients.size - coefficients.size % 4
    for i in range(0, whole, 4):
        x0, x1, x2, x3 = table[i], table[i + 1], table[i + 2], table[i + 3]
        c0, c1 = coefficients[i], coefficients[i + 1]
        c2, c3 = coefficients[i + 2], coefficients[i + 3]
        for j in range(out.size):
            out[j] += (c0 * x0[j] + c1 * x1[j]) + (c2 * x2[j] + c3 * x3[j])
    for i in range(whole, coefficients.size):
        x0, c0 = table[i], coefficients[i]
        for j in range(out.size):
            out[j] += c0 * x0[j]


@inlined
def zero_lanes():
    """Return interleaved sums of nothing."""
    lanes = np.empty(LANES)
    for i in range(LANES):
        lanes[i] = 0.0
    return lanes


@inlined
def lanes_total(lanes):
    """Return the sum of interleaved sums, in their order."""
    total = 0.0
    for i in range(LANES):
        total += lanes[i]
    return total


@inlined
def lane_sum(values):
    """Return the sum of numbers, in interleaved sums that do not wait for each other."""
    lanes = zero_lanes()
    for start in range(0, values.size, LANES):
        some = values[start : start + LANES]
        for i in range(some.size):
            lanes[i] += some[i]
    return lanes_total(lanes)


@kernel
def scaled_row_sum(rows, scales, factors, out):
    """Add factors @ (scaled rows, 1) to out, as `output_add` does for one output."""
    width = out.size - 1
    out[width] += lane_sum(factors)
    scaled = np.empty(factors.size)
    for i in range(factors.size):
        factor = factors[i] * scales[i] if scales.size > 0 else factors[i]
        scaled[i] = factor if abs(factor) > SMALLEST_FACTOR else 0.0
    if len(rows) == 1:
        dense_add(rows[0], scaled, out[:width])
    else:
        sums = np.zeros(width)
        for i in range(factors.size):
            add_row(rows, i, scaled[i], sums)
        for j in range(width):
            out[j] += sums[j]


@kernel
def output_products(rows, weights, out):
    """Write the products of rows with each row of weights to the columns of out.

    Entries of a CSR matrix are read once for all outputs, and added up as `product` does.
    """
    if len(rows) == 1:
        for start in range(0, out.shape[0], NEAR_ROWS):
            stop = min(start + NEAR_ROWS, out.shape[0])
            for k in range(weights.shape[0]):
                dense_products(rows[0][start:stop], weights[k], out[start:stop, k])
    else:
        turned, sums = weights.T.copy(), np.empty((4, weights.shape[0]))
        for i in range(out.shape[0]):
            at = slice(rows[0][i], rows[0][i + 1])
            columns, values = rows[1][at], rows[2][at]
            whole = columns.size - columns.size % 4
            sums[:] = 0.0
            for k in range(columns.size):
                value, own = values[k], turned[np.uint64(columns[k])]
                target = sums[k % 4 if k < whole else 0]
                for output in range(out.shape[1]):
                    target[output] += value * own[output]
            for output in range(out.shape[1]):
                low = sums[0, output] + sums[1, output]
                out[i, output] = low + (sums[2, output] + sums[3, output])


@kernel
def output_add(rows, scales, factors, out):
    """Add factors @ (scaled rows, 1) to out; ``scales`` may have no entries.

    Scaled factors that are too small to round by u become 0.
    """
    scaled, width, size = np.empty(factors.shape), out.shape[1] - 1, factors.shape[1]
    for k in range(out.shape[0]):
        out[k, width] += lane_sum(factors[k])
        for i in range(size):
            factor = factors[k, i] * scales[i] if scales.size > 0 else factors[k, i]
            scaled[k, i] = factor if abs(factor) > SMALLEST_FACTOR else 0.0
    if len(rows) == 1:
        for start in range(0, size, NEAR_ROWS):
            stop = min(start + NEAR_ROWS, size)
            for k in range(out.shape[0]):
                dense_add(rows[0][start:stop], scaled[k, start:stop], out[k, :width])
    else:
        sums, turned = np.zeros((width, out.shape[0])), scaled.T.copy()
        for i in range(size):
            own = turned[i]
            for k in range(rows[0][i], rows[0][i + 1]):
                value, target = rows[2][k], sums[np.uint64(rows[1][k])]
                for output in range(out.shape[0]):
                    target[output] += own[output] * value
        for k in range(out.shape[0]):
            for j in range(width):
                out[k, j] += sums[j, k]


# Norms and maps


@inlined
def scaled_norm(values):
    """Return (norm, whether all values are finite), without overflow or underflow on the way."""
    largest = 0.0
    for j in range(values.size):
        if not abs(values[j]) < math.inf:
            return math.inf, False
        largest = abs(values[j]) if abs(values[j]) > largest else largest
    if largest == 0.0:
        return 0.0, True
    exponent = math.frexp(largest)[1]
    half = exponent // 2  # in two factors: 2**-exponent itself may overflow
    down, rest = math.ldexp(1.0, -half), math.ldexp(1.0, half - exponent)
    total = 0.0
    for j in range(values.size):
        scaled = values[j] * down * rest
        total += scaled * scaled
    return math.sqrt(total) / down / rest, True


@kernel
def norms(rows, scales, factors, offset, inflation, out):
    """Write upper bounds on the norms of factors·(scale·x) − offset to out.

    Return whether all of them are finite. ``scales`` may have no entries. Rows of a CSR matrix have
    the offset 0 here; for them, ``factors`` may have no entries, either.
    """
    mapped, width, finite = np.empty(offset.size), offset.size, True
    for i in range(out.size):
        scale, total = scales[i] if scales.size > 0 else 1.0, 0.0
        if len(rows) == 1:
            total = mapped_square(rows[0], i * width, scale, factors, offset, width)
        else:
            for k in range(rows[0][i], rows[0][i + 1]):
                value = scale * rows[2][k]
                if factors.size > 0:
                    value *= factors[np.uint64(rows[1][k])]
                total += value * value
        norm = math.sqrt(total)
        if not SAFE_LOW <= total <= SAFE_HIGH:
            values = entries(rows, i)
            for k in range(values.size):
                j = column(rows, i, k)
                value = scale * values[k]
                mapped[k] = (factors[j] * value if factors.size > 0 else value) - offset[j]
            norm, good = scaled_norm(mapped[: values.size])
            finite = finite and good
        bound = norm * inflation
        out[i] = bound if bound > SMALLEST_NORM else SMALLEST_NORM
    return finite


@kernel
def sparse_mapped_squares(rows, scales, factors, offset, square, out):
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
def squares(rows, scales, factors, offset, row_factors, out):
    """Add the squares of row_factor·(factors·(scale·x) − offset) to out, column by column.

    Of a CSR matrix, what entries change in these squares: without them, −offset is left.
    """
    for i in range(row_factors.size):
        scale, weight, values = scales[i], row_factors[i], entries(rows, i)
        for k in range(values.size):
            j = column(rows, i, k)
            value = weight * (factors[j] * (scale * values[k]) - offset[j])
            absent = 0.0 if len(rows) == 1 else weight * offset[j]
            out[j] += value * value - absent * absent


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


@inlined
def cell_of(number, first, last):
    """Return the cell of an entry: that of its exponent, then one for ±1 and one for 0."""
    bits = _bits(number) << np.uint64(1)  # without the sign
    exponent = np.int64(bits >> np.uint64(53)) - 1022
    exponent = first if exponent < first else exponent
    exponent = last if exponent > last else exponent
    cell = last - first + 1 if bits == BITS_OF_ONE else exponent - first
    return last - first + 2 if bits == np.uint64(0) else cell


@kernel
def sparse_values(rows, places, out):
    """Write the entries of some columns of a CSR matrix to out, which has a row for each column.

    ``places`` has the rows of out by column, and -1 for other columns.
    """
    indptr, indices, data = rows
    for i in range(out.shape[1]):
        for k in range(indptr[i], indptr[i + 1]):
            place = places[np.uint64(indices[k])]
            if place >= 0:
                out[place, i] = data[k]


@kernel
def count(rows, n_rows, weights, map, first, last, among, counts):
    """Add each row's weight to the cells of its entries; one row of counts per column.

    If ``among`` has entries, only the largest entry of a row counts: in its column, and in one more
    row of counts. It has the bits 1 for columns that count, else 0.

    ``map`` are scales, factors and offset of rows of an array, which count as `map_rows` has them;
    factors have no entries if rows count as they are. An entry's cell is that of its exponent, from
    first to last (those beyond count as these); after these there are one for ±1 and one for 0.
    ``weights`` are whole numbers, and without entries if all are 1. Cells are found for a whole row
    at a time, by vector instructions.
    """
    scales, factors, offset = map
    numbers = np.empty(counts.shape[0])
    cells = np.empty(counts.shape[0], dtype=np.uint64)
    for i in range(n_rows):
        weight, values = weights[i] if weights.size > 0 else 1, entries(rows, i)
        if factors.size > 0:
            scale = scales[i] if scales.size > 0 else 1.0
            for k in range(values.size):
                numbers[k] = factors[k] * (scale * values[k]) - offset[k]
        else:
            for k in range(values.size):
                numbers[k] = values[k]
        if among.size == 0:
            for k in range(values.size):
                cells[k] = cell_of(numbers[k], first, last)
            for k in range(values.size):
                counts[column(rows, i, k), cells[k]] += weight
            continue
        largest, best = np.uint64(0), 0
        for k in range(values.size):  # bits without the sign are in the order of sizes
            bits = (_bits(numbers[k]) << np.uint64(1)) & among[column(rows, i, k)]
            cells[k] = bits
            largest = bits if bits > largest else largest
        if largest > np.uint64(0):
            while cells[best] != largest:
                best += 1
            cell = np.uint64(cell_of(numbers[best], first, last))
            counts[column(rows, i, best), cell] += weight
            counts[among.size, cell] += weight
