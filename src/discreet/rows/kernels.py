# mypy: ignore-errors
"""Compiled loops over the rows of a dense table, and over their losses.

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
from discreet.objectives.kernels import REACH, exp, loss, slopes, softplus
from discreet.rows.bounds import SAFE_HIGH, SAFE_LOW, SMALLEST_FACTOR, SMALLEST_NORM, UNIT_ROUNDOFF

LANES = 64
"""Rows that are worked on side by side, so that the compiler can use vector instructions."""

EIGHT = ir.VectorType(ir.DoubleType(), 8)

BITS_OF_ONE = np.uint64(1023 << 53)
"""The bits of ±1, without the sign: exponents are stored plus 1023."""

# Dense tables: C-contiguous arrays, or F-contiguous ones of float64.


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
def dense_squares(rows, scales, factors, offset, row_factors, out):
    """Add the squares of row_factor·(factors·(scale·x) − offset) to out, column by column."""
    for i in range(rows.shape[0]):
        row, scale, weight = rows[i], scales[i], row_factors[i]
        for j in range(row.size):
            value = weight * (factors[j] * (scale * row[j]) - offset[j])
            out[j] += value * value


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
def dense_largest(table, out):
    """Write the largest absolute entry of each row to out; table is C-contiguous."""
    for i in range(table.shape[0]):
        largest = 0.0
        for j in range(table.shape[1]):
            largest = max(largest, abs(np.float64(table[i, j])))
        out[i] = largest


# Losses. What is not a number, after an overflow, counts as 0 for a slope, as the clip for a loss.


@kernel
def clip_slopes(norms, scales, weights, clip, slopes):
    """Turn slopes into the factors of the rows x_i in their clipped gradients.

    Return the sum of the clipped slopes: the gradient of the intercept. A slope that is not a
    number counts as 0. ``scales`` and ``weights`` may have no entries.
    """
    for i in range(slopes.size):
        bound = clip / norms[i]
        slope = slopes[i]
        slope = bound if slope > bound else slope
        slope = -bound if slope < -bound else slope
        slopes[i] = slope if slope == slope else 0.0
    if weights.size > 0:
        for i in range(slopes.size):
            slopes[i] *= weights[i]
    total = 0.0
    for i in range(slopes.size):
        total += slopes[i]
    if scales.size > 0:
        for i in range(slopes.size):
            slopes[i] *= scales[i]
    for i in range(slopes.size):
        slopes[i] = slopes[i] if abs(slopes[i]) > SMALLEST_FACTOR else 0.0
    return total


@kernel
def dense_gradient(loss_code, parameter, table, weights, rows, clip, margins, height, out):
    """Add the clipped gradients of rows to out, whose last entry is the intercept's.

    ``weights`` has one more entry than ``table`` has columns, a constant; if it has none, margins
    are known, else they are written down. ``rows`` has the targets, norms, scales and weights of
    rows; ``height`` rows, or 64 at least, are worked on at a time, so that they are read from
    memory once.
    """
    height = max(height, LANES)
    targets, norms, scales, own = rows
    width = table.shape[1]
    buffer = np.empty(height)
    for start in range(0, margins.size, height):
        at = slice(start, min(start + height, margins.size))
        here = margins[at]
        if weights.size > 0:
            dense_products(table[at], weights[:width], here)
            if scales.size > 0:
                for i in range(here.size):
                    here[i] *= scales[start + i]
            for i in range(here.size):
                here[i] += weights[width]
        factors = buffer[: here.size]
        slopes(loss_code, parameter, here, targets[at], factors)
        out[width] += clip_slopes(norms[at], scales[at], own[at], clip, factors)
        dense_add(table[at], factors, out[:width])


@kernel
def clip_outputs(slopes, norms, scales, weights, clip, totals):
    """Clip each row's slopes to norm clip / ‖x‖; add them to totals; turn them into factors of x.

    Rows with a slope that is not finite, or slopes whose norm is not, count as 0. The largest slope
    is divided out before squaring: the squares of very small ones would vanish, and with them the
    clip of a very long row.
    """
    n_outputs = slopes.shape[1]
    inflation = 1.0 + (4 * n_outputs + 32) * UNIT_ROUNDOFF
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
        if weights.size > 0:
            factor *= weights[i]
        for k in range(n_outputs):
            slope = slopes[i, k] * factor if good else 0.0
            totals[k] += slope
            if scales.size > 0:
                slope *= scales[i]
            slopes[i, k] = slope if abs(slope) > SMALLEST_FACTOR else 0.0


@kernel
def line_sums(code, parameter, margins, changes, targets, steps, clip, out):
    """Write the sums of clipped losses at margins − step·changes to out, for any loss and steps.

    A loss that is not a number counts as clip.
    """
    lanes = np.zeros((steps.size, LANES))
    whole = margins.size - margins.size % LANES
    for start in range(0, whole, LANES):
        m = margins[start : start + LANES]
        v = changes[start : start + LANES]
        y = targets[start : start + LANES]
        for k in range(steps.size):
            step = steps[k]
            sums = lanes[k]
            for i in range(LANES):
                value = loss(code, parameter, m[i] - step * v[i], y[i])
                sums[i] += value if value < clip else clip
    for k in range(steps.size):
        total = 0.0
        for i in range(whole, margins.size):
            value = loss(code, parameter, margins[i] - steps[k] * changes[i], targets[i])
            total += value if value < clip else clip
        for i in range(LANES):
            total += lanes[k, i]
        out[k] = total


@kernel
def logistic_line_sums(margins, changes, targets, steps, clip, cap, group, out):
    """Write the same sums as ``line_sums`` for the logistic loss and equally spaced steps from 0.

    With E = exp(−ym) and R = exp(y·change·step), the loss at step k is log(1 + E·Rᵏ), and its
    clipped value log(min(1 + E·Rᵏ, cap)). ``group`` such factors are multiplied before one
    logarithm is taken.
    """
    n_steps = steps.size
    step = steps[1] if n_steps > 1 else 0.0
    reach = steps[n_steps - 1]
    product = np.ones((n_steps, LANES))
    power = np.empty(LANES)
    ratio = np.empty(LANES)
    out[:] = 0.0
    used = 0
    for start in range(0, margins.size, LANES):
        for lane in range(LANES):
            i = start + lane
            if i < margins.size:
                power[lane] = -targets[i] * margins[i]
                ratio[lane] = targets[i] * changes[i]
            else:
                power[lane] = ratio[lane] = math.nan
        far = 0
        for lane in range(LANES):
            near = abs(power[lane]) <= REACH and abs(ratio[lane]) * reach <= REACH
            far += 0 if near else 1
            # a row that is not near gets factors of exactly 1 here and is summed below
            power[lane] = exp(power[lane]) if near else 0.0
            ratio[lane] = exp(ratio[lane] * step) if near else 1.0
        if far > 0:
            for i in range(start, min(start + LANES, margins.size)):
                z, change = targets[i] * margins[i], targets[i] * changes[i]
                if not (abs(z) <= REACH and abs(change) * reach <= REACH):
                    for k in range(n_steps):
                        value = softplus(-targets[i] * (margins[i] - steps[k] * changes[i]))
                        out[k] += value if value < clip else clip
        for k in range(n_steps):
            products = product[k]
            for lane in range(LANES):
                factor = 1.0 + power[lane]
                products[lane] *= factor if factor < cap else cap
                power[lane] *= ratio[lane]
        used += 1
        if used == group:
            _take_logarithms(product, out)
            used = 0
    if used > 0:
        _take_logarithms(product, out)


@kernel
def _take_logarithms(product, out):
    for k in range(product.shape[0]):
        total = 0.0
        for lane in range(LANES):
            total += math.log(product[k, lane])
            product[k, lane] = 1.0
        out[k] += total


@kernel
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


@intrinsic
def _bits(_context, number):
    """Return the bits of a double."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.uint64(types.float64), generate


@inlined
def _cells(first, last):
    """Return the cell of each exponent as it is stored; those beyond the outermost are theirs."""
    nearest = np.minimum(np.maximum(np.arange(2048) - 1022, first), last)
    return (nearest - first).astype(np.uint64)


@inlined
def _cell(entry, cells, one):
    """Return the cell of an entry: that of its exponent, or the one for ±1; and 1, or 0 for 0."""
    bits = _bits(entry) << np.uint64(1)  # without the sign
    cell = cells[bits >> np.uint64(53)]
    return one if bits == BITS_OF_ONE else cell, 1 if bits != np.uint64(0) else 0


@kernel
def count_dense(tile, weights, first, last, counts):
    """Add each row's weight to the cells of its entries but 0; one row of counts per column.

    ``weights`` are whole numbers, and without entries if all are 1.
    """
    cells, one = _cells(first, last), np.uint64(last - first + 1)
    for i in range(tile.shape[0]):
        weight, row = weights[i] if weights.size > 0 else 1, tile[i]
        for j in range(row.size):
            cell, counted = _cell(np.float64(row[j]), cells, one)
            counts[np.uint64(j), cell] += counted * weight


@kernel
def count_sparse(indptr, indices, data, weights, first, last, counts):
    """Do the same for rows of a CSR table."""
    cells, one = _cells(first, last), np.uint64(last - first + 1)
    for i in range(indptr.size - 1):
        weight = weights[i] if weights.size > 0 else 1
        for k in range(indptr[i], indptr[i + 1]):
            cell, counted = _cell(np.float64(data[k]), cells, one)
            counts[np.uint64(indices[k]), cell] += counted * weight
