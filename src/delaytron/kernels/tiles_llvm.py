"""The compiled twins of the tiles in `lanes.py`: several rows of lanes, on LLVM's vector type."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

from delaytron.kernels.lanes_llvm import INDEX, Lanes, Typed, load_lanes, pointer_to, total_of, vector


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
    """Return where the four columns of a table stand, for some rows, after one another; kinds: of table and indices."""
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
    """Return rows of lanes as columns: as many as there were lanes in a row, as wide as there were rows."""
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
    """Turn four rows of four lanes, two by two: eight instructions instead of sixteen."""
    a, b, c, d = rows
    even = [mix(builder, x, y, [0, 4, 2, 6]) for x, y in ((a, b), (c, d))]
    odd = [mix(builder, x, y, [1, 5, 3, 7]) for x, y in ((a, b), (c, d))]
    return [mix(builder, x, y, half) for half in ([0, 1, 4, 5], [2, 3, 6, 7]) for x, y in (even, odd)]


def mix(builder: Any, x: Any, y: Any, entries: list[int]) -> Any:
    """Return some of the lanes of two, those of the second counted after those of the first."""
    return builder.shuffle_vector(x, y, ir.Constant(ir.VectorType(INDEX, len(entries)), entries))
