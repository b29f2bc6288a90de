"""Pack the arguments of a compiled loop into machine words, with arrays placed apart in memory.

A number is one word, an array is the address of NumPy's own record of it, and a tuple is the words of its parts. The
first fields of NumPy's record (the data, the number of axes, the lengths and the strides) have not moved since NumPy
1.0, so machine code can unpack arguments without calling Python (`engine.native_entry`).

LLVM compiles a loop that sums while it writes in two forms, vectorised and scalar, which sum in different orders. It
picks one at run time by comparing addresses: an array directly behind another counts as one that may overlap it. With
a gap around every array that is written to, the same form always runs, so learners that have learnt the same do not
differ in their last bits.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Offsets of the fields of NumPy's record of an array; every Python object begins with a header.
DATA = object.__basicsize__
AXIS_COUNT, LENGTHS, STRIDES = DATA + 8, DATA + 16, DATA + 24

CACHE_LINE = 64  # bytes of a cache line, at which arrays begin
GAP_BYTES = 256  # bytes on either side: four of the widest vectors, the most that a loop reads ahead
LARGE_BYTES = 2**20  # bytes from which on an array has memory pages of its own


def make_packer(names: Sequence[str], prototype: Sequence[Any]) -> Callable[..., bytes]:
    """Return a function that packs arguments of these types into words."""
    leaves = [leaf for name, value in zip(names, prototype, strict=True) for leaf in _leaves(name, value)]
    pack = struct.Struct("".join(letter for _, letter in leaves)).pack
    # As generated source, since a walk through the arguments of every call would take three times as long.
    source = f"lambda {', '.join(names)}: pack({', '.join(expression for expression, _ in leaves)})"
    return eval(source, {"pack": pack, "id": id})  # type: ignore[no-any-return]


def word_of(name: str, names: Sequence[str], prototype: Sequence[Any]) -> int:
    """Return the index of the word at which an argument begins."""
    before = zip(names[: names.index(name)], prototype, strict=False)
    return sum(1 for earlier, value in before for _ in _leaves(earlier, value))


def _leaves(expression: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield, for each word of an argument, an expression for its value and its `struct` format letter."""
    if isinstance(value, tuple):
        for place, part in enumerate(value):
            yield from _leaves(f"{expression}[{place}]", part)
    elif isinstance(value, np.ndarray):
        yield f"id({expression})", "Q"
    else:
        yield expression, "d" if isinstance(value, float) else "Q" if isinstance(value, np.uint64) else "q"


def describe_type(value: Any) -> Any:
    """Describe everything about an argument that affects its machine code: types and memory layout."""
    if isinstance(value, tuple):
        kind = type(value)
        parts = [describe_type(part) for part in value]
        return f"{kind.__module__}.{kind.__qualname__}", getattr(kind, "_fields", None), parts
    if isinstance(value, np.ndarray):
        layout = "C" if value.flags.c_contiguous else "F" if value.flags.f_contiguous else "A"
        return value.dtype.str, value.ndim, layout, value.flags.aligned, value.flags.writeable
    return type(value).__name__


def place_apart(value: Any) -> Any:
    """Return an array, or a nested tuple of arrays and numbers, with all small arrays placed apart.

    An array that occurs twice stays one array.
    """
    return _place_apart(value, {})


def _place_apart(value: Any, done: dict[int, NDArray[Any]]) -> Any:
    if isinstance(value, np.ndarray):
        if id(value) not in done:
            done[id(value)] = value if _needs_no_copy(value) else _copy_apart(value)
        return done[id(value)]
    if not isinstance(value, tuple):
        return value
    parts = [_place_apart(part, done) for part in value]
    if all(new is old for new, old in zip(parts, value, strict=True)):
        return value
    return value._make(parts) if hasattr(value, "_make") else tuple(parts)


def _needs_no_copy(array: NDArray[Any]) -> bool:
    """Return True if an array need not be copied: placed apart already, large, empty or not contiguous."""
    if array.nbytes == 0 or array.nbytes > LARGE_BYTES or not array.flags.c_contiguous:
        return True
    around = array.base
    return isinstance(around, np.ndarray) and around.dtype == np.uint8 and around.nbytes >= array.nbytes + 2 * GAP_BYTES


def _copy_apart(array: NDArray[Any]) -> NDArray[Any]:
    memory = np.zeros(array.nbytes + 2 * GAP_BYTES + CACHE_LINE, dtype=np.uint8)
    begin = GAP_BYTES + -(memory.ctypes.data + GAP_BYTES) % CACHE_LINE
    copy = memory[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
