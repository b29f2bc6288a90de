"""The loop over one row, entered with arguments that were laid out before.

The compiled loop's own entry point takes its arguments apart on every call: an array is seven numbers or more, and the space of `auto`
has a hundred arrays. Here that is done once. The arguments lie in memory as words, in the order in which the machine code takes them;
a call sets the few that differ from row to row. The machine code is the same, and so is what comes out, bit for bit.

Words hold addresses: whoever replaces an array among the arguments lays them out anew. This module imports the compiler.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
from llvmlite import binding as llvm
from llvmlite import ir
from numba import types
from numba.core.compiler_lock import global_compiler_lock
from numba.extending import intrinsic
from numba.np.numpy_support import from_dtype
from numpy.typing import NDArray

from onebit.engine.compile import Loop, common_entry, compiled
from onebit.engine.references import Reference
from onebit.engine.stream import stream
from onebit.spaces.dense import DenseRows
from onebit.spaces.sparse import SparseRows

# The words in front: where the loop begins, and what differs from row to row.
START, IDENTITY, MODE, TOLD = range(4)
_FRONT = 4
_MOVING = {"first_id": IDENTITY, "mode": MODE}
_ARGUMENTS = stream.__code__.co_varnames[: stream.__code__.co_argcount]
_WORD = ir.IntType(64)
_MOST = 2**64 - 1

_starts: dict[Loop, tuple[int, int]] = {}


class LaidOutLoop:
    """A loop over one row, with its arguments laid out as words, addresses among them."""

    __slots__ = ("_arguments", "_referred", "words")

    def __init__(self, loop: Loop, arguments: Mapping[str, Any]) -> None:
        start, count = _start_of(loop)
        self.words = np.zeros(_FRONT + count, dtype=np.uint64)
        self.words[START] = start
        # They live as long as there are addresses of them.
        self._arguments = {**arguments, "labels": self.words[TOLD : TOLD + 1].view(np.int64)}
        self._referred: list[NDArray[np.uint64]] = []
        place = _FRONT
        for name, kind in zip(_ARGUMENTS, compiled[loop].signature.args, strict=True):
            given = [] if name in _MOVING else self._words_of(kind, self._arguments[name])
            self.words[place : place + len(given)] = np.array(given, dtype=np.uint64)
            place += len(given)

    def _words_of(self, kind: Any, value: Any) -> list[int]:
        """An argument as the words in which Numba hands it over."""
        if isinstance(kind, types.Array):
            return [0, 0, value.size, value.itemsize, value.ctypes.data, *value.shape, *value.strides]
        if isinstance(kind, types.BaseTuple):
            return [word for part, one in zip(kind, value, strict=True) for word in self._words_of(part, one)]
        if isinstance(kind, Reference):
            fields = np.array(self._words_of(kind.value, value), dtype=np.uint64)
            self._referred.append(fields)
            return [fields.ctypes.data]
        if isinstance(kind, types.Float):
            return list(struct.unpack("Q", struct.pack("d", value)))
        return [int(value) & _MOST]


class LaidOutDense(LaidOutLoop):
    """That over a dense row.

    `record` is the memory of a round: the choice, and behind it the row. `decide(words, row, x, identity, mode)` copies x to the row and
    decides; `learn(words, record, made, identity, mode, told)` takes a record back from bytes and learns. Both give 1 where the loop did it.
    """

    __slots__ = ("choice", "decide", "dtype", "learn", "record", "row", "shape", "size")

    def __init__(
        self, loop: Loop, arguments: Mapping[str, Any], columns: int, width: int, dtype: np.dtype[Any]
    ) -> None:
        self.record = np.zeros(8 * columns + width * dtype.itemsize, dtype=np.uint8)
        self.choice = self.record[: 8 * columns].view(np.float64)[None]
        self.row = self.record[8 * columns :].view(dtype)
        self.size, self.shape, self.dtype = len(self.record), self.row.shape, dtype
        self.decide, self.learn = dense_entries(dtype)
        super().__init__(loop, {**arguments, "rows": DenseRows(self.row[None]), "kept": self.choice})


class LaidOutSparse(LaidOutLoop):
    """That over a sparse row, which has at most `room` values.

    `walk(words, *memory, columns, values, made, identity, mode, told)` copies a row and a choice to the memory of a round, and decides or learns;
    it gives 1 where the loop did it.
    """

    __slots__ = ("choice", "memory", "room", "walk")

    def __init__(self, loop: Loop, arguments: Mapping[str, Any], columns: int, room: int, dtype: np.dtype[Any]) -> None:
        self.choice, self.room = np.zeros((1, columns)), room
        rows = SparseRows(np.zeros(room, dtype=dtype), np.zeros(room, np.int32), np.zeros(2, np.int64), 0)
        self.memory = (rows.columns, rows.values, rows.starts, self.choice)
        self.walk = sparse_entry(dtype)
        super().__init__(loop, {**arguments, "rows": rows, "kept": self.choice})


def _start_of(loop: Loop) -> tuple[int, int]:
    """Where the function begins that takes words and calls the loop with them, and how many words there are behind those in front."""
    with global_compiler_lock:
        if loop not in _starts:
            _starts[loop] = _built(loop)
        return _starts[loop]


def _built(loop: Loop) -> tuple[int, int]:
    """Make that function: it loads each argument from its word, and gives -1 where the loop has failed."""
    found = compiled[loop]
    context = found.target_context
    loads: list[str] = []
    arguments: list[str] = []
    place = _FRONT
    for argument, kind in zip(_ARGUMENTS, found.signature.args, strict=True):
        assert not isinstance(kind, Reference) or _is_made_of_words(context, kind.value)
        for leaf in context.get_arg_packer([kind]).argument_types:
            number, form = len(arguments), "ptr" if leaf.is_pointer else str(leaf)
            loads.append(f"%w{number} = getelementptr i64, ptr %words, i64 {_MOVING.get(argument, place)}")
            loads.append(f"%a{number} = load {form}, ptr %w{number}")
            arguments.append(f"{form} %a{number}")
            place += argument not in _MOVING
    address = found.library.get_pointer_to_function(found.fndesc.llvm_func_name)
    name = f"words_to_{address}"
    call = f"call i32 inttoptr (i64 {address} to ptr)(ptr %result, ptr %failure, {', '.join(arguments)})"
    lines = [
        f"define i64 @{name}(ptr %words) {{",
        *("%result = alloca i64", "%failure = alloca ptr", *loads, f"%status = {call}"),
        *("%failed = icmp ne i32 %status, 0", "%walked = load i64, ptr %result"),
        *("%answer = select i1 %failed, i64 -1, i64 %walked", "ret i64 %answer", "}"),
    ]
    engine = context.codegen()._engine
    engine.add_module(llvm.parse_assembly("\n".join(lines)))
    engine.finalize_object()
    return engine.get_function_address(name), place - _FRONT


def _is_made_of_words(context: Any, kind: Any) -> bool:
    """Whether a tuple lies in memory as its fields one after the other, a word each."""
    leaves = context.get_arg_packer([kind]).argument_types
    return bool(context.get_abi_sizeof(context.get_value_type(kind)) == 8 * len(leaves))


@intrinsic  # type: ignore[untyped-decorator]
def walk_one(typing: Any, words: Any) -> Any:
    """Call what the first word says, with the words."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        kind = ir.FunctionType(_WORD, [_WORD.as_pointer()])
        return builder.call(builder.inttoptr(builder.load(data), kind.as_pointer()), [data])

    return types.int64(words), code


def decide_row(words: Any, row: Any, x: Any, identity: Any, mode: int) -> int:
    """Decide on x, which is copied to the row."""
    for place in range(row.shape[0]):
        row[place] = x[place]
    words[IDENTITY] = identity
    words[MODE] = mode
    return walk_one(words)  # type: ignore[no-any-return]


def learn_record(words: Any, record: Any, made: Any, identity: Any, mode: int, told: int) -> int:
    """Learn what is told of a round that was made before."""
    for place in range(record.shape[0]):
        record[place] = made[place]
    words[IDENTITY] = identity
    words[MODE] = mode
    words[TOLD] = told
    return walk_one(words)  # type: ignore[no-any-return]


def walk_entries(  # noqa: PLR0917 -- called past Numba's dispatcher, as the loop is
    words: Any,
    row_columns: Any,
    row_values: Any,
    starts: Any,
    choice: Any,
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
    words[IDENTITY] = identity
    words[MODE] = mode
    words[TOLD] = told
    return walk_one(words)  # type: ignore[no-any-return]


@cache
def dense_entries(dtype: np.dtype[Any]) -> tuple[Callable[..., int], Callable[..., int]]:
    """`decide_row` and `learn_record`, compiled for rows of this dtype; x may lie in memory in any way."""
    words, value = types.uint64[::1], from_dtype(dtype)
    x = types.Array(value, 1, "A", readonly=True, aligned=False)
    memory = types.uint8[::1]
    return (
        common_entry(decide_row, (words, value[::1], x, types.uint64, types.int64)),
        common_entry(
            learn_record,
            (words, memory, types.Bytes(types.uint8, 1, "C", readonly=True), types.uint64, types.int64, types.int64),
        ),
    )


@cache
def sparse_entry(dtype: np.dtype[Any]) -> Callable[..., int]:
    """`walk_entries`, compiled for rows of this dtype."""
    value, choice = from_dtype(dtype), types.float64[:, ::1]
    row = (types.int32[::1], value[::1])
    given = (types.Array(types.int32, 1, "C", readonly=True), types.Array(value, 1, "C", readonly=True))
    made = types.Array(types.float64, 2, "C", readonly=True)
    numbers = (types.uint64, types.int64, types.int64)
    return common_entry(walk_entries, (types.uint64[::1], *row, types.int64[::1], choice, *given, made, *numbers))
