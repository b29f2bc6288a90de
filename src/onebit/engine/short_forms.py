"""Arrays and ranges in fewer instructions than Numba writes for them.

Numba puts the record of an array into memory wherever it is indexed, reads every field of it, and builds each `range` and each pair of an iterator
there: more than half of all instructions were of that kind. LLVM finds out that nothing of it is needed, which takes as long as writing it. Here values
stay values, and only what is used is read. What is computed is the same: an index below zero counts from the end, and slices end with the array.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.types import Array, BaseTuple, Integer, SliceType  # type: ignore[attr-defined]
from numba.np.arrayobj import load_item, store_item

_WORD = ir.IntType(64)
_ZERO, _ONE = _WORD(0), _WORD(1)
# The places of an array's fields in its record.
NITEMS, ITEMSIZE, DATA, SHAPE, STRIDES = 2, 3, 4, 5, 6
_POSITION, _STOP, _STEP, _COUNT = range(4)  # those of an iterator over a range


def can_index(array: Any, index: Any) -> bool:
    """Whether something of this type is an array that is indexed by whole numbers and slices without a step."""
    if not isinstance(array, Array) or array.layout != "C":
        return False
    return all(isinstance(one, Integer | SliceType) and not getattr(one, "has_step", False) for one in _kinds(index))


def _kinds(index: Any) -> tuple[Any, ...]:
    return tuple(index) if isinstance(index, BaseTuple) else (index,)


class Indexed:
    """A place in an array, or a part of it."""

    def __init__(self, context: Any, builder: Any, array: Any, value: Any, kind: Any, index: Any) -> None:
        self._context, self._builder, self._array, self._value = context, builder, array, value
        self.lengths: list[Any] = []  # of the part that is meant, none for a single place
        self.strides: list[Any] = []
        lengths = [builder.extract_value(value, (SHAPE, axis)) for axis in range(array.ndim)]
        kinds, begin = _kinds(kind), list[Any]()
        for axis, one in enumerate(kinds):
            given = builder.extract_value(index, axis) if isinstance(kind, BaseTuple) else index
            if isinstance(one, Integer):
                begin.append(self._counted(one, given, lengths[axis]))
            else:
                first, length = self._span(given, lengths[axis])
                begin.append(first)
                self._keep(axis, length)
        for axis in range(len(kinds), array.ndim):
            self._keep(axis, lengths[axis])
        offset = _ZERO
        for axis, first in enumerate(begin):
            step = reduce(builder.mul, lengths[axis + 1 :]) if axis + 1 < array.ndim else None
            part = first if step is None else builder.mul(first, step)
            offset = part if offset is _ZERO else builder.add(offset, part)
        self._place = builder.gep(builder.extract_value(value, DATA), [offset])

    def _keep(self, axis: int, length: Any) -> None:
        self.lengths.append(length)
        self.strides.append(self._builder.extract_value(self._value, (STRIDES, axis)))

    def _counted(self, kind: Any, index: Any, length: Any) -> Any:
        """An index from the beginning."""
        if not kind.signed:
            return self._context.cast(self._builder, index, kind, types.uintp)
        return self._from_end(self._context.cast(self._builder, index, kind, types.intp), length)

    def _from_end(self, index: Any, length: Any) -> Any:
        builder = self._builder
        if isinstance(index, ir.Constant) and index.constant >= 0:
            return index
        below = builder.icmp_signed("<", index, _ZERO)
        return builder.select(below, builder.add(index, length), index)

    def _span(self, part: Any, length: Any) -> tuple[Any, Any]:
        """Where a slice begins, and how long it is."""
        builder = self._builder
        begin, end = (self._bound(builder.extract_value(part, place), length) for place in range(2))
        count = builder.sub(end, begin)
        return begin, builder.select(builder.icmp_signed("<=", count, _ZERO), _ZERO, count)

    def _bound(self, bound: Any, length: Any) -> Any:
        """A bound of a slice within the array."""
        builder = self._builder
        bound = self._from_end(bound, length)
        above = builder.select(builder.icmp_signed("<", bound, _ZERO), _ZERO, bound)
        return builder.select(builder.icmp_signed(">=", bound, length), length, above)

    def load(self) -> Any:
        """What is there."""
        return load_item(self._context, self._builder, self._array, self._place)

    def store(self, kind: Any, value: Any) -> None:
        """Write."""
        value = self._context.cast(self._builder, value, kind, self._array.dtype)
        store_item(self._context, self._builder, self._array, value, self._place)

    def view(self, kind: Any) -> Any:
        """The part as an array, of which nobody counts references."""
        builder = self._builder
        made = ir.Constant(self._context.get_value_type(kind), None)
        made = builder.insert_value(made, reduce(builder.mul, self.lengths), NITEMS)
        made = builder.insert_value(made, builder.extract_value(self._value, ITEMSIZE), ITEMSIZE)
        made = builder.insert_value(made, self._place, DATA)
        for axis, (length, stride) in enumerate(zip(self.lengths, self.strides, strict=True)):
            made = builder.insert_value(made, length, (SHAPE, axis))
            made = builder.insert_value(made, stride, (STRIDES, axis))
        return made


def range_of(builder: Any, bounds: Sequence[Any]) -> Any:
    """A `range` with one bound or two, in steps of 1."""
    begin, end = bounds if len(bounds) == 2 else (_ZERO, *bounds)
    made = ir.Constant.literal_struct([_ZERO, _ZERO, _ONE])
    return builder.insert_value(builder.insert_value(made, begin, 0), end, 1)


def begun(context: Any, builder: Any, kind: Any, given: Any) -> Any:
    """An iterator over a range in steps of 1."""
    begin, end = (builder.extract_value(given, place) for place in range(2))
    count = builder.sub(end, begin)
    count = builder.select(builder.icmp_signed(">", count, _ZERO), count, _ZERO)
    made = ir.Constant(context.get_value_type(kind), None)
    for place, value in ((_POSITION, begin), (_COUNT, count)):
        memory = cgutils.alloca_once(builder, _WORD)
        builder.store(value, memory)
        made = builder.insert_value(made, memory, place)
    return builder.insert_value(builder.insert_value(made, end, _STOP), _ONE, _STEP)


def advanced(context: Any, builder: Any, kind: Any, iterator: Any) -> Any:
    """The number at which an iterator is, and whether there is one; it goes on to the next."""
    position, count = (builder.extract_value(iterator, place) for place in (_POSITION, _COUNT))
    left, number = builder.load(count), builder.load(position)
    there = builder.icmp_signed(">", left, _ZERO)
    with builder.if_then(there):
        builder.store(builder.sub(left, _ONE, flags=["nsw"]), count)
        builder.store(builder.add(number, builder.extract_value(iterator, _STEP)), position)
    made = ir.Constant(context.get_value_type(kind), ir.Undefined)
    return builder.insert_value(builder.insert_value(made, number, 0), there, 1)
