"""The machine code of `engine.lanes`, in LLVM vectors; importing this registers it with Numba."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.types import UniTuple  # type: ignore[attr-defined]
from numba.core.typing import signature
from numba.extending import lower_builtin, models, register_model, type_callable

from onebit.engine import lanes
from onebit.engine.lanes import LANES

_FUSED_FLAGS, _ANY_ORDER_FLAGS = ("contract",), ("reassoc",)

Lowering = Callable[[Any, Any, Any, Any], Any]
_lowers: Callable[..., Callable[[Lowering], Lowering]] = lower_builtin


class Lanes(types.Type):
    """The Numba type of a vector of numbers."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(f"Lanes({dtype})")


@register_model(Lanes)
class LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    """The data model of lanes: an LLVM vector."""

    def __init__(self, manager: Any, kind: Lanes) -> None:
        super().__init__(manager, kind, ir.VectorType(manager.lookup(kind.dtype).get_value_type(), LANES))


# The signature of each operation, given the types of its arguments.
_SIGNATURES: dict[Callable[..., Any], Callable[..., Any]] = {
    lanes.load: lambda array, index: signature(Lanes(array.dtype), array, types.intp),
    lanes.store: lambda array, index, value: signature(types.none, array, types.intp, Lanes(array.dtype)),
    lanes.broadcast: lambda number: signature(Lanes(number), number),
    lanes.total: lambda value: signature(value.dtype, value),
    lanes.plus: lambda first, second: signature(first, first, second),
    lanes.fused: lambda first, second, addend: signature(first, first, second, addend),
    lanes.totals: lambda first, second: signature(first.dtype, first, second),
}


for _function, _types_of in _SIGNATURES.items():
    type_callable(_function)(lambda context, types_of=_types_of: types_of)


def _vector_pointer(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    """Return a pointer to a vector of the array's numbers that begins at an index."""
    vector = ir.VectorType(context.get_value_type(kind.dtype), LANES)
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index], inbounds=True), vector.as_pointer())


def _alignment(kind: Any) -> int:
    """Return the alignment of an array's numbers in bytes, which is less than that of a vector."""
    return int(kind.dtype.bitwidth) // 8


@_lowers(lanes.load, types.Array, types.intp)
def _load(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.load(_vector_pointer(context, builder, sig.args[0], *args), align=_alignment(sig.args[0]))


@_lowers(lanes.store, types.Array, types.intp, Lanes)
def _put(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    array, index, value = args
    builder.store(value, _vector_pointer(context, builder, sig.args[0], array, index), align=_alignment(sig.args[0]))
    return context.get_dummy_value()


@_lowers(lanes.broadcast, types.Float)
def _spread(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    nothing = ir.Constant(context.get_value_type(sig.return_type), ir.Undefined)
    first = builder.insert_element(nothing, args[0], ir.Constant(ir.IntType(32), 0))
    return _select_numbers(builder, first, nothing, [0] * LANES)


@_lowers(lanes.plus, Lanes, Lanes)
def _plus(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.fadd(*args)


@_lowers(lanes.fused, Lanes, Lanes, Lanes)
def _fused(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.fadd(builder.fmul(args[0], args[1], flags=_FUSED_FLAGS), args[2], flags=_FUSED_FLAGS)


@_lowers(lanes.total, Lanes)
def _total(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    number = context.get_value_type(sig.return_type)
    name = f"llvm.vector.reduce.fadd.v{LANES}f{sig.return_type.bitwidth}"
    reduce = cgutils.get_or_insert_function(builder.module, ir.FunctionType(number, [number, args[0].type]), name)
    return builder.call(reduce, [ir.Constant(number, 0.0), args[0]], fastmath=_ANY_ORDER_FLAGS)


@_lowers(lanes.totals, UniTuple, UniTuple)
def _totals(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Sum 16 vectors by adding halves of pairs, halving the number of vectors until one is left."""
    vectors = [vector for eight in args for vector in cgutils.unpack_tuple(builder, eight)]
    # For each vector, the source vector that each lane belongs to.
    sources = [[source] * LANES for source in range(LANES)]
    while len(vectors) > 1:
        half = len(vectors) // 2
        low = [
            begin + lane for base in range(0, LANES, 2 * half) for begin in (base, LANES + base) for lane in range(half)
        ]
        high = [lane + half for lane in low]
        pairs = list(zip(vectors[:half], vectors[half:], strict=True))
        vectors = [builder.fadd(*(_select_numbers(builder, *pair, lanes) for lanes in (low, high))) for pair in pairs]
        sources = [[(sources[index] + sources[index + half])[lane] for lane in low] for index in range(half)]
    return _select_numbers(builder, vectors[0], vectors[0], [sources[0].index(source) for source in range(LANES)])


def _select_numbers(builder: Any, first: Any, second: Any, places: Sequence[int]) -> Any:
    """Return a vector of some of the numbers in two vectors."""
    return builder.shuffle_vector(first, second, ir.Constant(ir.VectorType(ir.IntType(32), LANES), list(places)))
