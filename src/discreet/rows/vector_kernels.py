# mypy: ignore-errors
"""Products in vector instructions, with the property stated in ``kernels.py``.

In strict arithmetic, without ``fastmath``, the compiler finds no vector instructions for a sum by
itself. These are written for eight numbers; the compiler splits them where a machine has fewer.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

TOGETHER = 4
"""Sums of eight that are kept in registers together."""

EIGHT, INDEX = ir.VectorType(ir.DoubleType(), 8), ir.IntType(32)


def eights(context, builder, array, value, offset):
    """Return a pointer to groups of eight numbers, from an offset of an array on."""
    data = context.make_array(array)(context, builder, value).data
    number = ir.FloatType() if array.dtype == types.float32 else ir.DoubleType()
    return builder.bitcast(builder.gep(data, [offset]), ir.VectorType(number, 8).as_pointer())


def widened(builder, pointer, k):
    """Load eight numbers; single precision is widened, exactly."""
    numbers = builder.load(builder.gep(pointer, [k]), align=4)
    return builder.fpext(numbers, EIGHT) if numbers.type != EIGHT else numbers


def load(context, builder, array, value, offset, mask=None):
    """Load eight numbers of an array, from an offset on; with a mask, 0 for those it leaves out."""
    pointer = eights(context, builder, array, value, offset)
    if mask is None:
        return widened(builder, pointer, ir.Constant(offset.type, 0))
    kind, letter = pointer.type.pointee, "f32" if array.dtype == types.float32 else "f64"
    shape = ir.FunctionType(kind, [pointer.type, INDEX, mask.type, kind])
    name = f"llvm.masked.load.v8{letter}.p0v8{letter}"
    function = cgutils.get_or_insert_function(builder.module, shape, name)
    nothing = ir.Constant(kind, [0.0] * 8)
    numbers = builder.call(function, [pointer, ir.Constant(INDEX, 4), mask, nothing])
    return numbers if kind == EIGHT else builder.fpext(numbers, EIGHT)


def lanes(numbers, kind=INDEX):
    """Return a constant vector of integers."""
    return ir.Constant(ir.VectorType(kind, len(numbers)), list(numbers))


def loop_over(builder, count, n_values, step):
    """Build a loop of k from 0 to count, over vectors that start at 0; return the last ones.

    ``step(k, values)`` returns the next ones.
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


def interleaved(builder, width, term):
    """Return eight interleaved sums of ``width`` terms; ``term(k, mask)`` are eight, from k on.

    Of the last ones, those that are left after groups of eight are read, by a mask.
    """
    eight = ir.Constant(width.type, 8)
    room = ir.Constant(ir.VectorType(width.type, 8), ir.Undefined)
    spread = builder.insert_element(room, builder.srem(width, eight), ir.Constant(INDEX, 0))
    spread = builder.shuffle_vector(spread, room, lanes([0] * 8))
    mask = builder.icmp_signed("<", lanes(range(8), width.type), spread)

    def added(k, totals):
        return [builder.fadd(totals[0], term(builder.mul(k, eight)))]

    count = builder.sdiv(width, eight)
    (total,) = loop_over(builder, count, 1, added)
    return builder.fadd(total, term(builder.mul(count, eight), mask))


def added_up(builder, sums):
    """Add up each of one or four vectors of eight, neighbours first, side by side."""
    count = len(sums)
    while len(sums) > 1 or sums[0].type.count > count:
        size = sums[0].type.count * min(2, len(sums))
        pairs = zip(sums[::2], sums[1::2] or sums, strict=True)
        sums = [
            builder.fadd(*(builder.shuffle_vector(a, b, lanes(range(k, size, 2))) for k in (0, 1)))
            for a, b in pairs
        ]
    return [builder.extract_element(sums[0], ir.Constant(INDEX, k)) for k in range(count)]


def row_products(count):
    """Return an intrinsic: the dot products of ``count`` rows, 1 or 4, with a vector.

    ``table`` and ``vector`` are contiguous arrays of float32 or float64; rows have ``width``
    entries, from ``start``, ``start`` + ``width``, … on. Rows are read one after the other (four at
    a time would be slower from memory), and their eight sums added up side by side.
    """

    def typed(_context, table, start, vector, width):
        if any(array.layout != "C" for array in (table, vector)):
            return None  # numba reports that no such function exists
        result = types.UniTuple(types.float64, count)
        return result(table, types.intp, vector, types.intp), generate

    def generate(context, builder, signature, arguments):
        kinds, (_, start, _, width), sums = signature.args, arguments, []
        for _ in range(count):

            def term(k, mask=None, start=start):
                row = load(context, builder, kinds[0], arguments[0], builder.add(start, k), mask)
                return builder.fmul(row, load(context, builder, kinds[2], arguments[2], k, mask))

            sums.append(interleaved(builder, width, term))
            start = builder.add(start, width)
        return context.make_tuple(builder, signature.return_type, added_up(builder, sums))

    return intrinsic(typed)


one_product, four_products = row_products(1), row_products(4)


@intrinsic
def mapped_square(_context, table, start, scale, factors, offset, width):
    """Return the squared norm of factors·(scale·x) − offset, x from ``start`` of ``table`` on.

    All arrays are contiguous, and have at least ``width`` entries.
    """
    if any(array.layout != "C" for array in (table, factors, offset)):
        return None  # numba reports that no such function exists

    def generate(context, builder, signature, arguments):
        kinds, (_, start, scale, _, _, width) = signature.args, arguments
        room = ir.Constant(EIGHT, ir.Undefined)
        spread = builder.insert_element(room, scale, ir.Constant(INDEX, 0))
        spread = builder.shuffle_vector(spread, room, lanes([0] * 8))

        def term(k, mask=None):
            places = (builder.add(start, k), k, k)
            row, factor, shift = (
                load(context, builder, kinds[at], arguments[at], place, mask)
                for at, place in zip((0, 3, 4), places, strict=True)
            )
            value = builder.fsub(builder.fmul(factor, builder.fmul(spread, row)), shift)
            return builder.fmul(value, value)

        return added_up(builder, [interleaved(builder, width, term)])[0]

    numbers = (types.intp, types.float64, factors, offset, types.intp)
    return types.float64(table, *numbers), generate


@intrinsic
def eight_rows(_context, packed, first, turned, start, count, sums):
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
            row = widened(builder, rows, k)
            numbers = builder.load(builder.gep(vectors, [k]), align=8)
            for lane, total in enumerate(totals):
                spread = builder.shuffle_vector(numbers, numbers, lanes([lane] * 8))
                yield builder.call(fma, [spread, row, total])

        for lane, end in enumerate(loop_over(builder, count, TOGETHER, step)):
            place = ir.Constant(count.type, 8 * lane)
            builder.store(end, eights(context, builder, kinds[5], arguments[5], place), align=8)
        return context.get_dummy_value()

    whole = types.intp
    return types.void(packed, whole, turned, whole, whole, sums), generate
