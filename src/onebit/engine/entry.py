"""The loop over one dense row, entered with arguments that were laid out before.

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

# The words in front: where the loop begins, and what differs from row to row.
START, IDENTITY, MODE, TOLD = range(4)
_FRONT = 4
_MOVING = {"first_id": IDENTITY, "mode": MODE}
_ARGUMENTS = stream.__code__.co_varnames[: stream.__code__.co_argcount]
_WORD = ir.IntType(64)
_MOST = 2**64 - 1

_starts: dict[Loop, tuple[int, int]] = {}


class LaidOutLoop:
    """A loop over one row, with its arguments laid out.

    `record` is the memory of a round: the choice, and behind it the row. `decide(words, row, x, identity, mode)` copies x to the row and
    decides; `learn(words, record, made, identity, mode, told)` takes a record back from bytes and learns. Both give 1 where the loop did it.
    """

    __slots__ = ("_arguments", "_referred", "decide", "dtype", "learn", "record", "row", "shape", "size", "words")

    def __init__(self, loop: Loop, arguments: Mapping[str, Any], record: NDArray[np.uint8], row: NDArray[Any]) -> None:
        start, count = _start_of(loop)
        self.words = np.zeros(_FRONT + count, dtype=np.uint64)
        self.words[START] = start
        self.record, self.row = record, row
        self.size, self.shape, self.dtype = len(record), row.shape, row.dtype
        # They live as long as there are addresses of them.
        self._arguments = {**arguments, "labels": self.words[TOLD : TOLD + 1].view(np.int64)}
        self._referred: list[NDArray[np.uint64]] = []
        place = _FRONT
        for name, kind in zip(_ARGUMENTS, compiled[loop].signature.args, strict=True):
            given = [] if name in _MOVING else self._words_of(kind, self._arguments[name])
            self.words[place : place + len(given)] = np.array(given, dtype=np.uint64)
            place += len(given)
        self.decide, self.learn = entries_for(row.dtype)

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


@cache
def entries_for(dtype: np.dtype[Any]) -> tuple[Callable[..., int], Callable[..., int]]:
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
