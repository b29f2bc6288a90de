"""The arguments of a loop: handed over as words, with arrays that lie apart in memory.

A number is a word, and an array is the address of NumPy's own record of it, whose first fields (the data, the number of axes, the
lengths and the strides) have been where they are since NumPy 1.0 and are read by every extension module. A tuple is the words of its
parts. So handing over an array costs no more than naming it, and machine code needs nothing of Python to take it apart. Behind the last
there are two words for what is kept from call to call (`engine.native_entry`).

Arrays that machine code writes to lie apart from all others. A loop that sums along with what it writes has two forms: in vectors, and one
after the other for the case that what it writes may be what it reads next. Which of them runs is decided by addresses, and where few numbers
are to be summed an array that lies right behind another counts as that case. The two sum in another order. So two learners that had learnt
the same could differ in their last bits, by where their arrays happened to be. With a gap around every array it is always the same form.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# NumPy's record of an array, behind what every object of Python begins with.
DATA = object.__basicsize__
AXES, LENGTHS, STRIDES = DATA + 8, DATA + 16, DATA + 24
NOTHING_KEPT = bytes(16)

LINE = 64  # bytes of a line of the cache, at which an array begins
GAP = 256  # bytes on either side: four vectors of the widest kind, which is as far as a loop looks ahead
LARGE = 2**20  # bytes from which on an array has pages of its own


def packer(names: Sequence[str], prototype: Sequence[Any]) -> Callable[..., bytes]:
    """A function of arguments that are like these: their words, one after the other."""
    leaves = [leaf for name, value in zip(names, prototype, strict=True) for leaf in _leaves(name, value)]
    pack = struct.Struct("".join(letter for _, letter in leaves)).pack
    # Written out, since walking through the arguments of every call would take three times as long.
    source = f"lambda {', '.join(names)}: pack({', '.join(expression for expression, _ in leaves)})"
    return eval(source, {"pack": pack, "id": id})  # type: ignore[no-any-return]


def room_of(value: Any) -> int:
    """How many words compiled code takes for an argument that it keeps, at most: of an array its data, its size and two numbers for each axis, and two that it does not need."""
    if isinstance(value, tuple):
        return sum(map(room_of, value))
    return 5 + 2 * value.ndim if isinstance(value, np.ndarray) else 1


def word_of(name: str, names: Sequence[str], prototype: Sequence[Any]) -> int:
    """Which word an argument is, or begins with."""
    before = zip(names[: names.index(name)], prototype, strict=False)
    return sum(1 for earlier, value in before for _ in _leaves(earlier, value))


def _leaves(expression: str, value: Any) -> Iterator[tuple[str, str]]:
    """How each word of an argument is reached, and its letter in the language of `struct`."""
    if isinstance(value, tuple):
        for place, part in enumerate(value):
            yield from _leaves(f"{expression}[{place}]", part)
    elif isinstance(value, np.ndarray):
        yield f"id({expression})", "Q"
    else:
        yield expression, "d" if isinstance(value, float) else "Q" if isinstance(value, np.uint64) else "q"


def described(value: Any) -> Any:
    """All that decides what machine code an argument needs: types, and how arrays lie in memory."""
    if isinstance(value, tuple):
        kind = type(value)
        parts = [described(part) for part in value]
        return f"{kind.__module__}.{kind.__qualname__}", getattr(kind, "_fields", None), parts
    if isinstance(value, np.ndarray):
        layout = "C" if value.flags.c_contiguous else "F" if value.flags.f_contiguous else "A"
        return value.dtype.str, value.ndim, layout, value.flags.aligned, value.flags.writeable
    return type(value).__name__


def place_apart(value: Any) -> Any:
    """Return an array, or a tuple of arrays, tuples and numbers, with arrays that lie apart; one that is there twice stays one."""
    return _place_apart(value, {})


def _place_apart(value: Any, done: dict[int, NDArray[Any]]) -> Any:
    if isinstance(value, np.ndarray):
        if id(value) not in done:
            done[id(value)] = value if _stays(value) else _copy_apart(value)
        return done[id(value)]
    if not isinstance(value, tuple):
        return value
    parts = [_place_apart(part, done) for part in value]
    if all(new is old for new, old in zip(parts, value, strict=True)):
        return value
    return value._make(parts) if hasattr(value, "_make") else tuple(parts)


def _stays(array: NDArray[Any]) -> bool:
    """Whether an array lies apart already, or is large, empty, or a part of something else."""
    if array.nbytes == 0 or array.nbytes > LARGE or not array.flags.c_contiguous:
        return True
    around = array.base
    return isinstance(around, np.ndarray) and around.dtype == np.uint8 and around.nbytes >= array.nbytes + 2 * GAP


def _copy_apart(array: NDArray[Any]) -> NDArray[Any]:
    memory = np.zeros(array.nbytes + 2 * GAP + LINE, dtype=np.uint8)
    begin = GAP + -(memory.ctypes.data + GAP) % LINE
    made = memory[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made
