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


def row_products(count):
    """Return an intrinsic: the dot products of ``count`` rows, 1 or 4, with a vector.

    ``table`` and ``vector`` are contiguous arrays of float32 or float64; rows have ``width`` ≥ 8
    entries, from ``start``, ``start`` + ``width``, … on. With a ``step``, each row has a vector of
    its own, that many entries from the one before. Eight interleaved sums are kept for each row,
    then added up pairwise. What is left after groups of eight is added to the last sums: the last
    eight terms, with 0 for those that were counted. Rows are read one after the other (four at a
    time would be slower from memory), and their eight sums added up side by side.
    """

    def typed(_context, table, start, vector, step, width):
        if any(array.layout != "C" for array in (table, vector)):
            return None  # numba reports that no such function exists
        result = types.UniTuple(types.float64, count)
        return result(table, types.intp, vector, types.intp, types.intp), generate

    def generate(context, builder, signature, arguments):
        kinds, (_, start, _, step, width) = signature.args, arguments
        zero, eight = ir.Constant(width.type, 0), ir.Constant(width.type, 8)
        counted = builder.sub(eight, builder.srem(width, eight))
        room = ir.Constant(ir.VectorType(width.type, 8), ir.Undefined)
        spread = builder.insert_element(room, counted, ir.Constant(INDEX, 0))
        spread = builder.shuffle_vector(spread, room, lanes([0] * 8))
        new = builder.icmp_signed(">=", lanes(range(8), width.type), spread)
        sums, at = [], zero
        for _ in range(count):

            def term(offset, k, start=start, at=at):
                places = (builder.add(start, offset), builder.add(at, offset))
                row = eights(context, builder, kinds[0], arguments[0], places[0])
                other = eights(context, builder, kinds[2], arguments[2], places[1])
                return builder.fmul(widened(builder, row, k), widened(builder, other, k))

            def added(k, totals, term=term):
                return [builder.fadd(totals[0], term(zero, k))]

            (total,) = loop_over(builder, builder.sdiv(width, eight), 1, added)
            last = term(builder.sub(width, eight), zero)
            left = builder.select(new, last, ir.Constant(EIGHT, [0.0] * 8))
            sums.append(builder.fadd(total, left))
            start, at = builder.add(start, width), builder.add(at, step)
        while len(sums) > 1 or sums[0].type.count > count:  # add up neighbours
            size = sums[0].type.count * min(2, len(sums))
            pairs = zip(sums[::2], sums[1::2] or sums, strict=True)
            sums = [
                builder.fadd(
                    *(builder.shuffle_vector(a, b, lanes(range(k, size, 2))) for k in (0, 1))
                )
                for a, b in pairs
            ]
        places = [ir.Constant(INDEX, k) for k in range(count)]
        parts = [builder.extract_element(sums[0], place) for place in places]
        return context.make_tuple(builder, signature.return_type, parts)

    return intrinsic(typed)


one_product, four_products = row_products(1), row_products(4)


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
