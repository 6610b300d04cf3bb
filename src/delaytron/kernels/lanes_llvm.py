"""The compiled twins of `lanes.py`: the same expressions on LLVM's vector type, single and in tiles of several rows.

No fast-math flag lets the code generator contract or reorder, so every lane rounds as the interpreter does.
"""

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

from delaytron.kernels.lanes import EXPONENT

INDEX = ir.IntType(32)
BYTES = ir.IntType(8).as_pointer()
BITS = ir.IntType(64)
FLOAT = types.float64


class Lanes(types.Type):
    """The type of `width` doubles held in vector registers."""

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(name=f"Lanes({width})")


@register_model(Lanes)
class LanesModel(models.PrimitiveModel):
    """Lanes are one LLVM vector value."""

    def __init__(self, manager: Any, lanes: Lanes) -> None:
        super().__init__(manager, lanes, vector(lanes))


Typed = tuple[Any, Callable[..., Any]]


@intrinsic
def prefetch(_typing: Any, a: Any, i: Any) -> Typed:
    """See `lanes.prefetch`."""

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        data = context.make_array(a)(context, builder, args[0]).data
        address = builder.bitcast(builder.gep(data, [args[1]]), BYTES)
        kind = ir.FunctionType(ir.VoidType(), [BYTES, INDEX, INDEX, INDEX])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [address, *(ir.Constant(INDEX, flag) for flag in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(a, i), generate


@intrinsic
def zeros(_typing: Any, width: Any) -> Typed | None:
    """See `lanes.zeros`; the width is known when the kernel is compiled."""
    if not isinstance(width, types.IntegerLiteral):
        return None
    lanes = Lanes(width.literal_value)

    def generate(context: Any, _builder: Any, _signature: Any, _args: Any) -> Any:
        return ir.Constant(context.get_value_type(lanes), [0.0] * lanes.width)

    return lanes(width), generate


@intrinsic
def load(_typing: Any, a: Any, start: Any, width: Any) -> Typed | None:
    """See `lanes.load`; the width is known when the kernel is compiled."""
    if not isinstance(width, types.IntegerLiteral):
        return None
    lanes = Lanes(width.literal_value)

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return load_lanes(context, builder, lanes, a, args[0], args[1])

    return lanes(a, start, width), generate


@intrinsic
def store(_typing: Any, lanes: Any, out: Any, start: Any) -> Typed:
    """See `lanes.store`."""

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        builder.store(args[0], pointer_to(context, builder, lanes, out, args[1], args[2]), align=8)
        return context.get_dummy_value()

    return types.void(lanes, out, start), generate


@intrinsic
def where_below(_typing: Any, lanes: Any, limit: Any, then: Any, otherwise: Any) -> Typed:
    """See `lanes.where_below`."""
    signature = lanes(lanes, limit, then, otherwise)

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        below, line, yes, no = as_lanes(context, builder, signature, args)
        return builder.select(builder.fcmp_ordered("<", below, line), yes, no)

    return signature, generate


@intrinsic
def replace_lane(_typing: Any, lanes: Any, i: Any, value: Any) -> Typed:
    """See `lanes.replace_lane`."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        kind = ir.VectorType(args[1].type, lanes.width)
        numbers = ir.Constant(kind, list(range(lanes.width)))
        is_it = builder.icmp_signed("==", numbers, everywhere(builder, args[1], kind))
        return builder.select(is_it, everywhere(builder, args[2], args[0].type), args[0])

    return lanes(lanes, i, value), generate


@intrinsic
def total(_typing: Any, lanes: Any) -> Typed:
    """See `lanes.total`."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return total_of(builder, args[0], lanes.width)

    return types.float64(lanes), generate


@intrinsic
def largest(_typing: Any, lanes: Any) -> Typed:
    """See `lanes.largest`."""

    def larger(builder: Any, a: Any, b: Any) -> Any:
        return builder.select(builder.fcmp_ordered("<", a, b), b, a)

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return halve(builder, args[0], lanes.width, larger)

    return types.float64(lanes), generate


@intrinsic
def add_to_exponent(_typing: Any, lanes: Any, integers: Any) -> Typed:
    """See `lanes.add_to_exponent`."""
    kind = ir.VectorType(BITS, lanes.width)

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        bits, n = (builder.bitcast(value, kind) for value in args)
        shifted = builder.shl(n, ir.Constant(kind, [EXPONENT] * lanes.width))
        return builder.bitcast(builder.add(bits, shifted), vector(lanes))

    return lanes(lanes, integers), generate


def define_operator(operation: Callable[[Any, Any], Any], instruction: str) -> None:
    """Let compiled code add, subtract, multiply or divide lanes, by lanes or by one number."""

    @type_callable(operation)
    def type_operation(_context: Any) -> Any:
        def result(a: Any, b: Any) -> Any:
            if isinstance(a, Lanes) and (a == b or isinstance(b, types.Number)):
                return a
            return b if isinstance(b, Lanes) and isinstance(a, types.Number) else None

        return result

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return getattr(builder, instruction)(*as_lanes(context, builder, signature, args))

    for kinds in ((Lanes, Lanes), (Lanes, types.Number), (types.Number, Lanes)):
        lower_builtin(operation, *kinds)(generate)


def as_lanes(context: Any, builder: Any, signature: Any, args: Any) -> list[Any]:
    """Return the arguments as lanes like the result, a number as lanes that are all the same."""
    kind = vector(signature.return_type)
    return [
        value if isinstance(given, Lanes) else everywhere(builder, context.cast(builder, value, given, FLOAT), kind)
        for value, given in zip(args, signature.args, strict=True)
    ]


def vector(lanes: Any) -> ir.VectorType:
    """Return the LLVM type of lanes."""
    return ir.VectorType(ir.DoubleType(), lanes.width)


def pick_lanes(builder: Any, value: Any, entries: Any) -> Any:
    """Return some of the lanes, in this order."""
    mask = ir.Constant(ir.VectorType(INDEX, len(entries)), list(entries))
    return builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), mask)


def everywhere(builder: Any, scalar: Any, vector_type: Any) -> Any:
    """Return lanes that are all the same."""
    first = builder.insert_element(ir.Constant(vector_type, ir.Undefined), scalar, ir.Constant(INDEX, 0))
    return pick_lanes(builder, first, [0] * vector_type.count)


define_operator(operator.add, "fadd")
define_operator(operator.sub, "fsub")
define_operator(operator.mul, "fmul")
define_operator(operator.truediv, "fdiv")


@intrinsic
def add_scaled(_typing: Any, lanes: Any, scale: Any, a: Any, start: Any) -> Typed:
    """See `lanes.add_scaled`."""

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        x = load_lanes(context, builder, lanes, a, args[2], args[3])
        return builder.fadd(args[0], builder.fmul(everywhere(builder, args[1], x.type), x))

    return lanes(lanes, scale, a, start), generate


@intrinsic
def store_sum(_typing: Any, lanes: Any, others: Any, out: Any, start: Any) -> Typed:
    """See `lanes.store_sum`."""

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        target = pointer_to(context, builder, lanes, out, args[2], args[3])
        builder.store(builder.fadd(args[0], args[1]), target, align=8)
        return context.get_dummy_value()

    return types.void(lanes, others, out, start), generate


def halve(builder: Any, lanes: Any, width: int, combine: Callable[[Any, Any, Any], Any]) -> Any:
    """Combine the upper half of the lanes with the lower, until one is left."""
    while width > 1:
        width //= 2
        lower = pick_lanes(builder, lanes, range(width))
        lanes = combine(builder, lower, pick_lanes(builder, lanes, range(width, 2 * width)))
    return builder.extract_element(lanes, ir.Constant(INDEX, 0))


def total_of(builder: Any, lanes: Any, width: int) -> Any:
    """Return the sum of all lanes."""
    return halve(builder, lanes, width, lambda b, lower, upper: b.fadd(lower, upper))


def pointer_to(context: Any, builder: Any, lanes: Any, array_type: Any, array: Any, start: Any) -> Any:
    """Return the place of array[start] as that of lanes; `start` counts all numbers of the array."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [start]), vector(lanes).as_pointer())


def load_lanes(context: Any, builder: Any, lanes: Any, array_type: Any, array: Any, start: Any) -> Any:
    """Load lanes from array[start] on."""
    return builder.load(pointer_to(context, builder, lanes, array_type, array, start), align=8)


class Tile(types.Type):
    """The type of `rows` times `width` doubles held in vector registers."""

    def __init__(self, rows: int, width: int) -> None:
        self.rows, self.width = rows, width
        super().__init__(name=f"Tile({rows}, {width})")


@register_model(Tile)
class TileModel(models.PrimitiveModel):
    """A tile is an LLVM array of vectors, which the compiler takes apart into registers."""

    def __init__(self, manager: Any, tile: Tile) -> None:
        super().__init__(manager, tile, ir.ArrayType(vector(tile), tile.rows))


@intrinsic
def zero_tile(_typing: Any, rows: Any, width: Any) -> Typed | None:
    """See `lanes.zero_tile`; rows and width are known when the kernel is compiled."""
    if not (isinstance(rows, types.IntegerLiteral) and isinstance(width, types.IntegerLiteral)):
        return None
    tile = Tile(rows.literal_value, width.literal_value)

    def generate(context: Any, _builder: Any, _signature: Any, _args: Any) -> Any:
        return ir.Constant(context.get_value_type(tile), None)

    return tile(rows, width), generate


@intrinsic
def add_products(_typing: Any, tile: Any, W: Any, k: Any, x: Any, start: Any) -> Typed:
    """See `lanes.add_products`."""

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        sums, weights, first, vector, begin = args
        d = builder.extract_value(context.make_array(W)(context, builder, weights).shape, 1)
        part = load_lanes(context, builder, tile, x, vector, begin)
        for r in range(tile.rows):
            row = builder.add(first, ir.Constant(first.type, r))
            at = builder.add(builder.mul(row, d), begin)
            product = builder.fmul(load_lanes(context, builder, tile, W, weights, at), part)
            sums = builder.insert_value(sums, builder.fadd(builder.extract_value(sums, r), product), r)
        return sums

    return tile(tile, W, k, x, start), generate


@intrinsic
def store_totals(_typing: Any, tile: Any, out: Any, k: Any) -> Typed:
    """See `lanes.store_totals`."""

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        data = context.make_array(out)(context, builder, args[1]).data
        for r in range(tile.rows):
            at = builder.gep(data, [builder.add(args[2], ir.Constant(args[2].type, r))])
            builder.store(total_of(builder, builder.extract_value(args[0], r), tile.width), at)
        return context.get_dummy_value()

    return types.void(tile, out, k), generate


@intrinsic
def columns(_typing: Any, table: Any, first: Any, indices: Any, i: Any, width: Any) -> Typed | None:
    """See `lanes.columns`; the width, 1 or 4, is known when the kernel is compiled."""
    if not isinstance(width, types.IntegerLiteral):
        return None
    lanes = Lanes(width.literal_value)
    result = types.UniTuple(lanes, 4)

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        places = row_places(context, builder, lanes.width, (table, indices), args[:4])
        rows = [builder.load(place, align=8) for place in places]
        return context.make_tuple(builder, result, turn(builder, rows))

    return result(table, first, indices, i, width), generate


@intrinsic
def add_to_columns(_typing: Any, table: Any, first: Any, indices: Any, i: Any, a: Any, b: Any, c: Any, d: Any) -> Typed:
    """See `lanes.add_to_columns`."""

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        places = row_places(context, builder, a.width, (table, indices), args[:4])
        for place, change in zip(places, turn(builder, args[4:]), strict=True):
            builder.store(builder.fadd(builder.load(place, align=8), change), place, align=8)
        return context.get_dummy_value()

    return types.void(table, first, indices, i, a, b, c, d), generate


def row_places(context: Any, builder: Any, count: int, kinds: Any, args: Any) -> list[Any]:
    """Return pointers to four columns of a table for some rows, one after another; kinds: of table and indices."""
    table, first, indices, i = args
    stride = builder.extract_value(context.make_array(kinds[0])(context, builder, table).shape, 1)
    data = context.make_array(kinds[1])(context, builder, indices).data
    places = []
    for r in range(count):
        row = builder.load(builder.gep(data, [builder.add(i, ir.Constant(i.type, r))]))
        at = builder.add(builder.mul(builder.zext(row, stride.type), stride), first)
        places.append(pointer_to(context, builder, Lanes(4), kinds[0], table, at))
    return places


def turn(builder: Any, rows: Any) -> list[Any]:
    """Return the transpose of some rows of lanes: one vector for each lane, as wide as there were rows."""
    if len(rows) == rows[0].type.count == 4:
        return turn_square(builder, rows)
    kind = ir.VectorType(ir.DoubleType(), len(rows))
    columns = [ir.Constant(kind, ir.Undefined) for _ in range(rows[0].type.count)]
    for r, row in enumerate(rows):
        for c, column in enumerate(columns):
            entry = builder.extract_element(row, ir.Constant(INDEX, c))
            columns[c] = builder.insert_element(column, entry, ir.Constant(INDEX, r))
    return columns


def turn_square(builder: Any, rows: Any) -> list[Any]:
    """Transpose four rows of four lanes, two by two: eight instructions instead of sixteen."""
    a, b, c, d = rows
    even = [mix(builder, x, y, [0, 4, 2, 6]) for x, y in ((a, b), (c, d))]
    odd = [mix(builder, x, y, [1, 5, 3, 7]) for x, y in ((a, b), (c, d))]
    return [mix(builder, x, y, half) for half in ([0, 1, 4, 5], [2, 3, 6, 7]) for x, y in (even, odd)]


def mix(builder: Any, x: Any, y: Any, entries: list[int]) -> Any:
    """Return some lanes of two vectors; those of the second are numbered after those of the first."""
    return builder.shuffle_vector(x, y, ir.Constant(ir.VectorType(INDEX, len(entries)), entries))
