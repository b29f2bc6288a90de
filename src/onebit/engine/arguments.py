"""The arguments of a loop: handed over as words, with arrays that lie apart in memory.

A number is a word, an array the address of NumPy's own record of it, whose first fields (the data, the number of axes, the lengths and the
strides) have been where they are since NumPy 1.0, and a tuple the words of its parts. So machine code needs nothing of Python to take them apart. Behind
the last there are two words for what is kept from call to call (`engine.native_entry`).

A loop that sums along with what it writes has two forms, in vectors and one number after the other, which sum in another order. Addresses decide
which of them runs: an array right behind another counts as one that may overlap it. With a gap around every array that is written to it
is always the same form, so that learners that have learnt the same do not differ in their last bits.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onebit.engine.stream import CHOICE_COLUMNS

if TYPE_CHECKING:
    from onebit.engine.machine_code import CompiledLoop

# NumPy's record of an array, behind what every object of Python begins with.
DATA = object.__basicsize__
AXES, LENGTHS, STRIDES = DATA + 8, DATA + 16, DATA + 24
NOTHING_KEPT = bytes(16)
_CHOICE = struct.Struct(f"{CHOICE_COLUMNS}d")

LINE = 64  # bytes of a line of the cache, at which an array begins
GAP = 256  # bytes on either side: four vectors of the widest kind, which is as far as a loop looks ahead
LARGE = 2**20  # bytes from which on an array has pages of its own


def packer(names: Sequence[str], prototype: Sequence[Any]) -> Callable[..., bytes]:
    """Return a function that packs arguments like these into words."""
    leaves = [leaf for name, value in zip(names, prototype, strict=True) for leaf in _leaves(name, value)]
    pack = struct.Struct("".join(letter for _, letter in leaves)).pack
    # Written out, since walking through the arguments of every call would take three times as long.
    source = f"lambda {', '.join(names)}: pack({', '.join(expression for expression, _ in leaves)})"
    return eval(source, {"pack": pack, "id": id})  # type: ignore[no-any-return]


def room_of(value: Any) -> int:
    """Return how many words compiled code needs at most to keep an argument: of an array five, and two for each axis."""
    if isinstance(value, tuple):
        return sum(map(room_of, value))
    return 5 + 2 * value.ndim if isinstance(value, np.ndarray) else 1


def word_of(name: str, names: Sequence[str], prototype: Sequence[Any]) -> int:
    """Return the number of the word that an argument is, or begins with."""
    before = zip(names[: names.index(name)], prototype, strict=False)
    return sum(1 for earlier, value in before for _ in _leaves(earlier, value))


def _leaves(expression: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield for each word of an argument how it is reached, and its letter in the language of `struct`."""
    if isinstance(value, tuple):
        for place, part in enumerate(value):
            yield from _leaves(f"{expression}[{place}]", part)
    elif isinstance(value, np.ndarray):
        yield f"id({expression})", "Q"
    else:
        yield expression, "d" if isinstance(value, float) else "Q" if isinstance(value, np.uint64) else "q"


class LaidOutLoop:
    """A loop over one row whose arguments are laid out as words once; a call sets the few that differ from row to row.

    A row is the addresses of its values and, if it is sparse, of its columns and starts, else two zeros. `decide` leaves what was decided in `kept` of
    the arguments, and `learn` learns what is told of a choice, given by its numbers. Both return 1 where the loop did it; if not, nothing has changed.

    Words hold addresses: whoever replaces an array among the arguments lays them out anew.
    """

    __slots__ = ("_at", "_choice", "_enter", "_first_id", "_mode", "_referred", "_row", "_state", "_told", "_words")

    def __init__(self, loop: CompiledLoop, arguments: Mapping[str, Any]) -> None:
        told = np.zeros(1, dtype=np.int64)
        given = np.frombuffer(loop.pack(**arguments, labels=told, first_id=0, mode=0), dtype=np.uint64)
        room = np.zeros(room_of(arguments["space"]), dtype=np.uint64)
        words = np.array([*given, room.ctypes.data, 0], dtype=np.uint64)
        self._enter, self._at = loop.enter, ctypes.c_char_p(words.ctypes.data)
        self._row, self._first_id, self._mode = (loop.word_of(name) for name in ("rows", "first_id", "mode"))
        self._words, self._told = words.data, told.data
        self._choice = arguments["kept"]
        self._state = (
            arguments["memory"],
            arguments["calibration"],
        )  # which the loop may have changed where it refuses a step
        self._referred = loop, arguments, room  # they live as long as there are addresses of them

    def decide(self, values: int, columns: int, starts: int, identity: int, mode: int) -> int:
        words, row = self._words, self._row
        words[row] = values
        if columns:
            words[row + 1], words[row + 2] = columns, starts
        words[self._first_id], words[self._mode] = identity, mode
        walked: int = self._enter(self._at)
        return walked

    def learn(
        self, values: int, columns: int, starts: int, made: Sequence[float], identity: int, mode: int, told: int
    ) -> int:
        """Learn what is told of a choice on a row; where the loop refuses the step, put back what it has changed."""
        memory, calibration = self._state
        before = memory.tobytes(), calibration.tobytes()
        _CHOICE.pack_into(self._choice, 0, *made)
        self._told[0] = told
        walked = self.decide(values, columns, starts, identity, mode)
        if walked != 1:
            for array, content in zip(self._state, before, strict=True):
                array[:] = np.frombuffer(content)
        return walked


def described(value: Any) -> Any:
    """Return all that decides what machine code an argument needs: types, and how arrays lie in memory."""
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
    """Return True if an array lies apart already, or is large, empty, or a part of something else."""
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
