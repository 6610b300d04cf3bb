"""The compiled twins of `lanes.py`: the same expressions on LLVM's vector type.

No flag allows the code generator to contract or reorder, so every lane rounds as the interpreter does.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

INDEX = ir.IntType(32)


class Lanes(types.Type):  # type: ignore[misc]
    """The type of `width` doubles held in vector registers."""

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(name=f"Lanes({width})")


@register_model(Lanes)
class LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    """Lanes are one LLVM vector value."""

    def __init__(self, manager: Any, lanes: Lanes) -> None:
        super().__init__(manager, lanes, ir.VectorType(ir.DoubleType(), lanes.width))


Typed = tuple[Any, Callable[..., Any]]


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
def add_products(_typing: Any, lanes: Any, a: Any, b: Any, start: Any) -> Typed:
    """See `lanes.add_products`."""

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        x = _load(context, builder, lanes, a, args[1], args[3])
        y = _load(context, builder, lanes, b, args[2], args[3])
        return builder.fadd(args[0], builder.fmul(x, y))

    return lanes(lanes, a, b, start), generate


@intrinsic
def add_scaled(_typing: Any, lanes: Any, scale: Any, a: Any, start: Any) -> Typed:
    """See `lanes.add_scaled`."""

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        x = _load(context, builder, lanes, a, args[2], args[3])
        return builder.fadd(args[0], builder.fmul(_everywhere(builder, args[1], x.type), x))

    return lanes(lanes, scale, a, start), generate


@intrinsic
def store(_typing: Any, lanes: Any, out: Any, start: Any) -> Typed:
    """See `lanes.store`."""

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        builder.store(args[0], _pointer(context, builder, lanes, out, args[1], args[2]), align=8)
        return context.get_dummy_value()

    return types.void(lanes, out, start), generate


@intrinsic
def total(_typing: Any, lanes: Any) -> Typed:
    """See `lanes.total`."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        value, width = args[0], lanes.width
        while width > 1:
            width //= 2
            lower = _pick(builder, value, range(width))
            value = builder.fadd(lower, _pick(builder, value, range(width, 2 * width)))
        return builder.extract_element(value, ir.Constant(INDEX, 0))

    return types.float64(lanes), generate


def _pointer(context: Any, builder: Any, lanes: Any, array_type: Any, array: Any, start: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [start]), context.get_value_type(lanes).as_pointer())


def _load(context: Any, builder: Any, lanes: Any, array_type: Any, array: Any, start: Any) -> Any:
    return builder.load(_pointer(context, builder, lanes, array_type, array, start), align=8)


def _pick(builder: Any, value: Any, entries: Any) -> Any:
    mask = ir.Constant(ir.VectorType(INDEX, len(entries)), list(entries))
    return builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), mask)


def _everywhere(builder: Any, scalar: Any, vector_type: Any) -> Any:
    first = builder.insert_element(ir.Constant(vector_type, ir.Undefined), scalar, ir.Constant(INDEX, 0))
    return _pick(builder, first, [0] * vector_type.count)
