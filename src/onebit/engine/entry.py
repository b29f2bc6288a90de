"""The loop over one row, entered with arguments that were laid out before.

The words of the loop's arguments (`engine.arguments`) are made anew for every call. Here that is done once, and a call sets the few that differ from
row to row. The machine code is the same, and so is what comes out, bit for bit.

Words hold addresses: whoever replaces an array among the arguments lays them out anew. This module imports the compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, register_jitable

from onebit.engine.arguments import room_of
from onebit.engine.compile import common_entry
from onebit.engine.machine_code import CompiledLoop
from onebit.engine.stream import CHOICE_COLUMNS

# The words in front: where the loop begins, which of its words are the row, the id and the mode, and what it is told.
START, ROW, IDENTITY, MODE, TOLD = range(5)
_FRONT = 5
_WORD = ir.IntType(64)
_NOTHING = np.zeros(0, dtype=np.int64)


class LaidOutLoop:
    """A loop over one row, with its arguments laid out as words, addresses among them.

    `decide(*row, identity, mode)` leaves what was decided in `kept` of the arguments; `learn(*row, made, identity, mode, told)` learns what is told of a choice,
    given by its numbers. A row is the addresses of its values and, if it is sparse, of its columns and starts, else two zeros. Both return 1 where the
    loop did it; if not, nothing has changed.
    """

    __slots__ = ("_referred", "decide", "learn")

    def __init__(self, loop: CompiledLoop, arguments: Mapping[str, Any]) -> None:
        places = [_FRONT + loop.word_of(name) for name in ("rows", "first_id", "mode", "labels")]
        given = np.frombuffer(loop.pack(**arguments, labels=_NOTHING, first_id=0, mode=0), dtype=np.uint64)
        room = np.zeros(room_of(arguments["space"]), dtype=np.uint64)
        words = np.array([loop.address, *places[:3], 0, *given, room.ctypes.data, 0], dtype=np.uint64)
        told = words[TOLD : TOLD + 1].view(np.int64)
        words[places[3]] = id(told)
        self._referred = loop, arguments, told, room  # they live as long as there are addresses of them
        # What the loop may have changed where it refuses a step, and room for what it was before.
        memory, calibration = arguments["memory"], arguments["calibration"]
        before = np.zeros(len(memory) + len(calibration))
        decide, learn = entries()
        self.decide: Callable[..., int] = partial(decide, words)
        self.learn: Callable[..., int] = partial(learn, words, arguments["kept"], memory, calibration, before)


@intrinsic  # type: ignore[untyped-decorator]
def walk_one(typing: Any, words: Any) -> Any:
    """Call what the first word says, with the words behind those in front."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        kind = ir.FunctionType(_WORD, [_WORD.as_pointer()])
        start = builder.inttoptr(builder.load(data), kind.as_pointer())
        return builder.call(start, [builder.gep(data, [_WORD(_FRONT)])])

    return types.int64(words), code


@register_jitable  # type: ignore[untyped-decorator]
def walk_row(words: Any, values: Any, columns: Any, starts: Any, identity: Any, mode: int) -> int:
    """Go through the loop over one row."""
    words[words[ROW]] = values
    if columns != 0:
        words[words[ROW] + 1] = columns
        words[words[ROW] + 2] = starts
    words[words[IDENTITY]] = identity
    words[words[MODE]] = mode
    return walk_one(words)  # type: ignore[no-any-return]


def decide_row(words: Any, values: Any, columns: Any, starts: Any, identity: Any, mode: int) -> int:
    """Decide on a row."""
    return walk_row(words, values, columns, starts, identity, mode)  # type: ignore[no-any-return]


def learn_row(  # noqa: PLR0917 -- called past Numba's dispatcher, as the loop is
    words: Any,
    choice: Any,
    memory: Any,
    calibration: Any,
    before: Any,
    values: Any,
    columns: Any,
    starts: Any,
    made: Any,
    identity: Any,
    mode: int,
    told: int,
) -> int:
    """Learn what is told of a choice on a row; where the loop refuses the step, put back what it has changed."""
    for place in range(CHOICE_COLUMNS):
        choice[0, place] = made[place]
    known = memory.shape[0]
    for place in range(known):
        before[place] = memory[place]
    for place in range(calibration.shape[0]):
        before[known + place] = calibration[place]
    words[TOLD] = told
    walked = walk_row(words, values, columns, starts, identity, mode)
    if walked != 1:
        for place in range(known):
            memory[place] = before[place]
        for place in range(calibration.shape[0]):
            calibration[place] = before[known + place]
    return walked  # type: ignore[no-any-return]


@cache
def entries() -> tuple[Callable[..., int], Callable[..., int]]:
    """`decide_row` and `learn_row`, compiled."""
    words, row = types.uint64[::1], (types.uint64,) * 3
    state = (types.float64[:, ::1], *(types.float64[::1],) * 3)
    made = types.UniTuple(types.float64, CHOICE_COLUMNS)
    return (
        common_entry(decide_row, (words, *row, types.uint64, types.int64)),
        common_entry(learn_row, (words, *state, *row, made, types.uint64, types.int64, types.int64)),
    )
