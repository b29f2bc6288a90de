"""The loop over one row, entered with arguments that were laid out before.

The words of the loop's arguments (`engine.words`) are made anew for every call. Here that is done once, and a call sets the few that differ from
row to row. The machine code is the same, and so is what comes out, bit for bit.

Words hold addresses: whoever replaces an array among the arguments lays them out anew. This module imports the compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.extending import intrinsic, register_jitable
from numpy.typing import NDArray

from onebit.engine.compile import common_entry
from onebit.engine.machine_code import CompiledLoop
from onebit.engine.stream import LABEL, NOTE, PLAYED, RAW, SECOND_NOTE
from onebit.engine.words import room_of
from onebit.spaces.dense import DenseRows
from onebit.spaces.sparse import SparseRows

# The words in front: where the loop begins, which of its words are the id and the mode, and what it is told.
START, IDENTITY, MODE, TOLD = range(4)
_FRONT = 4
_WORD = ir.IntType(64)
_NOTHING = np.zeros(0, dtype=np.int64)


class LaidOutLoop:
    """A loop over one row, with its arguments laid out as words, addresses among them."""

    __slots__ = ("_referred", "_state", "_words", "choice")
    choice: NDArray[np.float64]  # where the loop writes what was decided on the last row, and reads what is learnt from

    def __init__(self, loop: CompiledLoop, arguments: Mapping[str, Any]) -> None:
        identity, mode, labels = (_FRONT + loop.word_of(name) for name in ("first_id", "mode", "labels"))
        given = np.frombuffer(loop.pack(**arguments, labels=_NOTHING, first_id=0, mode=0), dtype=np.uint64)
        kept = np.zeros(room_of(arguments["space"]), dtype=np.uint64)
        self._words = np.array([loop.address, identity, mode, 0, *given, kept.ctypes.data, 0], dtype=np.uint64)
        told = self._words[TOLD : TOLD + 1].view(np.int64)
        self._words[labels] = id(told)
        self._referred = loop, arguments, told, kept  # they live as long as there are addresses of them
        # What the loop may have changed where it refuses a step, and room for what it was before.
        memory, calibration = arguments["memory"], arguments["calibration"]
        self._state = memory, calibration, np.zeros(len(memory) + len(calibration))


class LaidOutDense(LaidOutLoop):
    """That over a dense row.

    `record` is the memory of a round: the choice, and behind it the row. `decide(x, identity, mode)` copies x, which has one axis, to the row and
    decides; `learn(record, identity, mode, told)` takes a record back from bytes and learns. Both give 1 where the loop did it, for a decision with
    notes that are finite; if not, nothing has changed.
    """

    __slots__ = ("decide", "dtype", "learn", "record", "size")

    def __init__(
        self, loop: CompiledLoop, arguments: Mapping[str, Any], columns: int, width: int, dtype: np.dtype[Any]
    ) -> None:
        self.record = np.zeros(8 * columns + width * dtype.itemsize, dtype=np.uint8)
        self.choice = self.record[: 8 * columns].view(np.float64)[None]
        row = self.record[8 * columns :].view(dtype)
        self.size, self.dtype = len(self.record), dtype
        super().__init__(loop, {**arguments, "rows": DenseRows(row[None]), "kept": self.choice})
        decide, learn = dense_entries(dtype)
        self.decide = partial(decide, self._words, row, self.choice)
        self.learn = partial(learn, self._words, self.record, self.choice, *self._state)


class LaidOutSparse(LaidOutLoop):
    """That over a sparse row, which has at most `room` values.

    `walk(columns, values, choice, identity, mode, told)` copies a row and a choice to the memory of a round, and decides or learns; it gives 1 where
    the loop did it; if not, nothing has changed.
    """

    __slots__ = ("room", "walk")

    def __init__(
        self, loop: CompiledLoop, arguments: Mapping[str, Any], columns: int, room: int, dtype: np.dtype[Any]
    ) -> None:
        self.choice, self.room = np.zeros((1, columns)), room
        rows = SparseRows(np.zeros(room, dtype=dtype), np.zeros(room, np.int32), np.zeros(2, np.int64), 0)
        super().__init__(loop, {**arguments, "rows": rows, "kept": self.choice})
        memory = (rows.columns, rows.values, rows.starts, self.choice)
        self.walk = partial(sparse_entry(dtype), self._words, *memory, *self._state)


@intrinsic  # type: ignore[untyped-decorator]
def walk_one(typing: Any, words: Any) -> Any:
    """Call what the first word says, with the words behind those in front."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        kind = ir.FunctionType(_WORD, [_WORD.as_pointer()])
        start = builder.inttoptr(builder.load(data), kind.as_pointer())
        return builder.call(start, [builder.gep(data, [_WORD(_FRONT)])])

    return types.int64(words), code


def decide_row(words: Any, row: Any, choice: Any, x: Any, identity: Any, mode: int) -> int:
    """Decide on x, which is copied to the row; 0 if it is longer or shorter, or what was noted is not finite."""
    if x.shape[0] != row.shape[0]:
        return 0
    for place in range(row.shape[0]):
        row[place] = x[place]
    words[words[IDENTITY]] = identity
    words[words[MODE]] = mode
    walked = walk_one(words)
    if not np.isfinite(choice[0, NOTE] + choice[0, SECOND_NOTE] + choice[0, RAW]):
        return 0
    return walked  # type: ignore[no-any-return]


@register_jitable  # type: ignore[untyped-decorator]
def walk_or_undo(words: Any, memory: Any, calibration: Any, before: Any, identity: Any, mode: int, told: int) -> int:
    """Go through the loop; where it refuses the step, put back what it has changed."""
    known = memory.shape[0]
    for place in range(known):
        before[place] = memory[place]
    for place in range(calibration.shape[0]):
        before[known + place] = calibration[place]
    words[words[IDENTITY]] = identity
    words[words[MODE]] = mode
    words[TOLD] = told
    walked = walk_one(words)
    if walked != 1:
        for place in range(known):
            memory[place] = before[place]
        for place in range(calibration.shape[0]):
            calibration[place] = before[known + place]
    return walked  # type: ignore[no-any-return]


def learn_record(  # noqa: PLR0917 -- called past Numba's dispatcher, as the loop is
    words: Any,
    record: Any,
    choice: Any,
    memory: Any,
    calibration: Any,
    before: Any,
    made: Any,
    identity: Any,
    mode: int,
    told: int,
) -> int:
    """Learn what is told of a round that was made before."""
    for place in range(record.shape[0]):
        record[place] = made[place]
    label = int(choice[0, LABEL]) if told == PLAYED else told
    return walk_or_undo(words, memory, calibration, before, identity, mode, label)  # type: ignore[no-any-return]


def walk_entries(  # noqa: PLR0917 -- as above
    words: Any,
    row_columns: Any,
    row_values: Any,
    starts: Any,
    choice: Any,
    memory: Any,
    calibration: Any,
    before: Any,
    columns: Any,
    values: Any,
    made: Any,
    identity: Any,
    mode: int,
    told: int,
) -> int:
    """Decide on a sparse row, or learn what is told of a choice that was made on it."""
    for place in range(columns.shape[0]):
        row_columns[place] = columns[place]
        row_values[place] = values[place]
    starts[1] = columns.shape[0]
    for place in range(choice.shape[1]):
        choice[0, place] = made[0, place]
    return walk_or_undo(words, memory, calibration, before, identity, mode, told)  # type: ignore[no-any-return]


# The types of what both take: the choice, the state, and the id, the mode and what is told.
_CHOICE = types.float64[:, ::1]
_STATE = (types.float64[::1],) * 3
_NUMBERS = (types.uint64, types.int64, types.int64)


@cache
def dense_entries(dtype: np.dtype[Any]) -> tuple[Callable[..., int], Callable[..., int]]:
    """`decide_row` and `learn_record`, compiled for rows of this dtype; x may lie in memory in any way."""
    words, value = types.uint64[::1], from_dtype(dtype)
    x = types.Array(value, 1, "A", readonly=True, aligned=False)
    made = types.Bytes(types.uint8, 1, "C", readonly=True)
    return (
        common_entry(decide_row, (words, value[::1], _CHOICE, x, types.uint64, types.int64)),
        common_entry(learn_record, (words, types.uint8[::1], _CHOICE, *_STATE, made, *_NUMBERS)),
    )


@cache
def sparse_entry(dtype: np.dtype[Any]) -> Callable[..., int]:
    """`walk_entries`, compiled for rows of this dtype."""
    value = from_dtype(dtype)
    row = (types.int32[::1], value[::1], types.int64[::1])
    given = (types.Array(types.int32, 1, "C", readonly=True), types.Array(value, 1, "C", readonly=True))
    made = types.Array(types.float64, 2, "C", readonly=True)
    return common_entry(walk_entries, (types.uint64[::1], *row, _CHOICE, *_STATE, *given, made, *_NUMBERS))
