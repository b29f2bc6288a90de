"""NumPy's generator in compiled code: PCG64 (O'Neill 2014). This module imports the compiler.

A state of 128 bits is multiplied and moved on, and a word of 64 bits is folded of it. A word is two numbers of single precision, its lower half first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from onebit.engine.compile import common_entry

_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
_HIGH, _LOW = np.uint64(_MULTIPLIER >> 64), np.uint64(_MULTIPLIER & (2**64 - 1))
_ROTATION, _WORD, _LAST = np.uint64(58), np.uint64(64), np.uint64(63)
_UNUSED = np.uint32(8)  # bits of a half of a word, of which a number of single precision has 24
_UNIT, _ONE = np.float32(2.0**-23), np.float32(1.0)


def state_of(generator: np.random.Generator) -> NDArray[np.uint64] | None:
    """The state of a PCG64 and what is added to it, each as its upper and its lower half; None of another generator, or where half a word is left."""
    held: Any = generator.bit_generator.state
    if held["bit_generator"] != "PCG64" or held["has_uint32"]:
        return None
    numbers = held["state"]["state"], held["state"]["inc"]
    return np.array([half for one in numbers for half in divmod(one, 2**64)], dtype=np.uint64)


# Its code is no part of the name under which machine code is kept: who changes it renames it.
@intrinsic  # type: ignore[untyped-decorator]
def upper_half_of_product(typing: Any, one: Any, other: Any) -> Any:
    """The upper 64 bits of a product of 128, which no type of Numba's can hold."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(*(builder.zext(argument, wide) for argument in arguments))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), code


@cache
def cube_entry() -> Callable[..., int]:
    """`draw_cube`, compiled or loaded."""
    integers = (types.uint64[::1], types.uint64[::1], types.uint32[::1], types.int32[::1])
    return common_entry(draw_cube, (*integers, types.float32[:, ::1], types.int64[::1]))


def draw_cube(state: Any, words: Any, halves: Any, sums: Any, x: Any, lowest: Any) -> int:
    """Draw rows uniform on [-1, 1)^d, and of each which of some groups of coordinates, taken in turn, sums lowest; the state moves on.

    `words` has room for those of a row, and `halves` is the same memory; `sums` has a place for each group.
    """
    high, low, added_high, added_low = state[0], state[1], state[2], state[3]
    for row in range(x.shape[0]):
        for place in range(words.shape[0]):
            product = low * _LOW
            total = product + added_low
            carried = np.uint64(1) if total < product else np.uint64(0)
            high = upper_half_of_product(low, _LOW) + high * _LOW + low * _HIGH + added_high + carried
            low = total
            folded, turn = high ^ low, high >> _ROTATION
            words[place] = (folded >> turn) | (folded << ((_WORD - turn) & _LAST))
        line = x[row]
        for column in range(x.shape[1]):
            line[column] = np.float32(np.int32(halves[column] >> _UNUSED)) * _UNIT - _ONE
        for group in range(sums.shape[0]):
            sums[group] = 0
        for begin in range(0, x.shape[1], sums.shape[0]):
            for group in range(sums.shape[0]):
                sums[group] += np.int32(halves[begin + group] >> _UNUSED)
        least = 0
        for group in range(1, sums.shape[0]):
            if sums[group] < sums[least]:
                least = group
        lowest[row] = least
    state[0], state[1] = high, low
    return int(x.shape[0])
