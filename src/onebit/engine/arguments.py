"""Pack the arguments of a compiled loop into machine words, with arrays placed apart in memory.

A number is one word, an array is the address of NumPy's own record of it, and a tuple is the words of its parts. The
first fields of NumPy's record (the data, the number of axes, the lengths and the strides) have not moved since NumPy
1.0, so machine code can unpack arguments without calling Python. Two more words follow the last argument; they hold
what is kept from call to call (`engine.native_entry`).

LLVM compiles a loop that sums while it writes in two forms, vectorised and scalar, which sum in different orders. It
picks one at run time by comparing addresses: an array directly behind another counts as one that may overlap it. With
a gap around every array that is written to, the same form always runs, so learners that have learnt the same do not
differ in their last bits.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onebit.engine.stream import CHOICE_COLUMNS
from onebit.spaces.sparse import SparseRows

if TYPE_CHECKING:
    from onebit.engine.machine_code import CompiledLoop

# Offsets of the fields of NumPy's record of an array; every Python object begins with a header.
DATA = object.__basicsize__
AXES, LENGTHS, STRIDES = DATA + 8, DATA + 16, DATA + 24
NOTHING_KEPT = bytes(16)
_CHOICE = struct.Struct(f"{CHOICE_COLUMNS}d")

LINE = 64  # bytes of a cache line, at which arrays begin
GAP = 256  # bytes on either side: four of the widest vectors, the most that a loop reads ahead
LARGE = 2**20  # bytes from which on an array has memory pages of its own


def packer(names: Sequence[str], prototype: Sequence[Any]) -> Callable[..., bytes]:
    """Return a function that packs arguments of these types into words."""
    leaves = [leaf for name, value in zip(names, prototype, strict=True) for leaf in _leaves(name, value)]
    pack = struct.Struct("".join(letter for _, letter in leaves)).pack
    # As generated source, since a walk through the arguments of every call would take three times as long.
    source = f"lambda {', '.join(names)}: pack({', '.join(expression for expression, _ in leaves)})"
    return eval(source, {"pack": pack, "id": id})  # type: ignore[no-any-return]


def room_of(value: Any) -> int:
    """Return the most words that compiled code needs to keep an argument.

    An array takes five words, and two more for each axis.
    """
    if isinstance(value, tuple):
        return sum(map(room_of, value))
    return 5 + 2 * value.ndim if isinstance(value, np.ndarray) else 1


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


class LaidOutLoop:
    """A loop over one row whose arguments are packed once; each call sets only the few that change.

    `decide` writes the decision to the `kept` argument, and `learn` learns from the feedback on a choice, which is
    given by its numbers. Both return False, and change nothing, if the loop refuses the row or the row has another
    form or too many columns.

    The words hold addresses: whoever replaces an array among the arguments must create a new object.
    """

    __slots__ = ("_at", "_choice", "_enter", "_first_id", "_mode", "_referred", "_room", "_row", "_state", "_told", "_words")

    def __init__(self, loop: CompiledLoop, arguments: Mapping[str, Any], room: int) -> None:
        told = np.zeros(1, dtype=np.int64)
        given = np.frombuffer(loop.pack(**arguments, labels=told, first_id=0, mode=0), dtype=np.uint64)
        kept = np.zeros(room_of(arguments["space"]), dtype=np.uint64)
        words = np.array([*given, kept.ctypes.data, 0], dtype=np.uint64)
        self._enter, self._at = loop.enter, ctypes.c_char_p(words.ctypes.data)
        self._row, self._first_id, self._mode = (loop.word_of(name) for name in ("rows", "first_id", "mode"))
        self._words, self._told, self._choice = words.data, told.data, arguments["kept"].data
        self._room = room if isinstance(arguments["rows"], SparseRows) else None
        # The loop may have changed these before it refuses a step.
        self._state = arguments["memory"], arguments["calibration"]
        self._referred = loop, arguments, kept  # keep alive what the words point to

    def decide(self, row: NDArray[Any] | SparseRows, identity: int, mode: int) -> bool:
        """Walk over one row: a matrix of one line, or sparse rows with a single row."""
        words, at, room = self._words, self._row, self._room
        if room is None and type(row) is np.ndarray:
            words[at] = id(row)
        elif room is not None and type(row) is SparseRows and row.width <= room:
            words[at], words[at + 1], words[at + 2] = id(row.values), id(row.columns), id(row.starts)
        else:
            return False
        words[self._first_id], words[self._mode] = identity, mode
        walked: int = self._enter(self._at)
        return walked == 1

    def learn(
        self, row: NDArray[Any] | SparseRows, choice: Sequence[float], identity: int, mode: int, told: int
    ) -> bool:
        """Learn from the feedback on a choice; if the loop refuses the step, restore the state it changed."""
        memory, calibration = self._state
        before = memory.tobytes(), calibration.tobytes()
        _CHOICE.pack_into(self._choice, 0, *choice)
        self._told[0] = told
        if self.decide(row, identity, mode):
            return True
        for array, content in zip(self._state, before, strict=True):
            array[:] = np.frombuffer(content)
        return False


def described(value: Any) -> Any:
    """Describe everything about an argument that affects its machine code: types and memory layout."""
    if isinstance(value, tuple):
        kind = type(value)
        parts = [described(part) for part in value]
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
            done[id(value)] = value if _stays(value) else _copy_apart(value)
        return done[id(value)]
    if not isinstance(value, tuple):
        return value
    parts = [_place_apart(part, done) for part in value]
    if all(new is old for new, old in zip(parts, value, strict=True)):
        return value
    return value._make(parts) if hasattr(value, "_make") else tuple(parts)


def _stays(array: NDArray[Any]) -> bool:
    """Return True if an array need not be copied: placed apart already, large, empty or not contiguous."""
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
