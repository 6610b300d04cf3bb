"""The compiled twins of `lanes.py`: the same expressions on LLVM's vector type.

No flag allows the code generator to contract or reorder, so every lane rounds as the interpreter does.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

INDEX = ir.IntType(32)
BYTES = ir.IntType(8).as_pointer()


class Lanes(types.Type):
    """The type of `width` doubles held in vector registers."""

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(name=f"Lanes({width})")


@register_model(Lanes)
class LanesModel(models.PrimitiveModel):
    """Lanes are one LLVM vector value."""

    def __init__(self, manager: Any, lanes: Lanes) -> None:
        super().__init__(manager, lanes, _vector(lanes))


class Tile(types.Type):
    """The type of `rows` times `width` doubles held in vector registers."""

    def __init__(self, rows: int, width: int) -> None:
        self.rows, self.width = rows, width
        super().__init__(name=f"Tile({rows}, {width})")


@register_model(Tile)
class TileModel(models.PrimitiveModel):
    """A tile is an LLVM array of vectors, which the compiler takes apart into registers."""

    def __init__(self, manager: Any, tile: Tile) -> None:
        super().__init__(manager, tile, ir.ArrayType(_vector(tile), tile.rows))


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
def add_scaled(_typing: Any, lanes: Any, scale: Any, a: Any, start: Any) -> Typed:
    """See `lanes.add_scaled`."""

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        x = _load(context, builder, lanes, a, args[2], args[3])
        return builder.fadd(args[0], builder.fmul(_everywhere(builder, args[1], x.type), x))

    return lanes(lanes, scale, a, start), generate


@intrinsic
def store_sum(_typing: Any, lanes: Any, others: Any, out: Any, start: Any) -> Typed:
    """See `lanes.store_sum`."""

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        target = _pointer(context, builder, lanes, out, args[2], args[3])
        builder.store(builder.fadd(args[0], args[1]), target, align=8)
        return context.get_dummy_value()

    return types.void(lanes, others, out, start), generate


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
        part = _load(context, builder, tile, x, vector, begin)
        for r in range(tile.rows):
            row = builder.add(first, ir.Constant(first.type, r))
            at = builder.add(builder.mul(row, d), begin)
            product = builder.fmul(_load(context, builder, tile, W, weights, at), part)
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
            builder.store(_total(builder, builder.extract_value(args[0], r), tile.width), at)
        return context.get_dummy_value()

    return types.void(tile, out, k), generate


def _total(builder: Any, lanes: Any, width: int) -> Any:
    while width > 1:
        width //= 2
        lower = _pick(builder, lanes, range(width))
        lanes = builder.fadd(lower, _pick(builder, lanes, range(width, 2 * width)))
    return builder.extract_element(lanes, ir.Constant(INDEX, 0))


def _vector(lanes: Any) -> ir.VectorType:
    return ir.VectorType(ir.DoubleType(), lanes.width)


def _pointer(context: Any, builder: Any, lanes: Any, array_type: Any, array: Any, start: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [start]), _vector(lanes).as_pointer())


def _load(context: Any, builder: Any, lanes: Any, array_type: Any, array: Any, start: Any) -> Any:
    return builder.load(_pointer(context, builder, lanes, array_type, array, start), align=8)


def _pick(builder: Any, value: Any, entries: Any) -> Any:
    mask = ir.Constant(ir.VectorType(INDEX, len(entries)), list(entries))
    return builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), mask)


def _everywhere(builder: Any, scalar: Any, vector_type: Any) -> Any:
    first = builder.insert_element(ir.Constant(vector_type, ir.Undefined), scalar, ir.Constant(INDEX, 0))
    return _pick(builder, first, [0] * vector_type.count)
