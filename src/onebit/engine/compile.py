"""Compile the loop once for each pair of rule and space, and cache the machine code on disk.

Each pair has its own folder in the user's cache, named by a hash of all the code that goes into it and of everything
that compiles it, so stale code is never found. Numba is imported only when something must be compiled, not when
cached code is loaded (`engine.machine_code`). With an unknown version of Numba (`PlainLoop`) everything works and
decides the same, but compiling takes several times as long, and so does a step called from Python.

Machine code trusts its callers: they must pass exactly the types of `_prototype`, with contiguous arrays of the
dtypes given there.
"""

from __future__ import annotations

import gc
import logging
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from onebit.contract.rule import Rule
from onebit.engine.arguments import describe_type
from onebit.engine.code_cache import folder_for, holds_code, prune, read_code, root, write_code
from onebit.engine.fingerprint import fingerprint, is_switched_off, knows_numba, numba_version, toolchain
from onebit.engine.machine_code import CompiledLoop
from onebit.engine.overloads import GENERIC, OPTIONS, announce, describe_sum_orders, rule_functions, space_functions
from onebit.engine.stream import CHOICE_COLUMNS, Tally, lessons, stream
from onebit.errors import InputError, clean_lines
from onebit.rules import registry, rule_named
from onebit.spaces import choose
from onebit.spaces.dense import DenseRows
from onebit.spaces.space import Space
from onebit.spaces.sparse import SparseRows

if TYPE_CHECKING:
    from onebit.engine.processes import CompilingProcesses

LOG = logging.getLogger("onebit.engine")

# A `CompiledLoop` or `PlainLoop`, or the plain function if Numba was asked not to compile.
Loop = Callable[..., int]

_CAUSE = re.compile(
    r"unify|Unknown attribute|Untyped|not defined|[Uu]nsupported|not support|No conversion|Invalid use|only support"
)

_PLAIN_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}

_lock = threading.RLock()  # for Numba, which compiles one thing at a time
_loops: dict[tuple[Any, ...], Loop] = {}
# One lock per loop: a thread that needs a loop waits while another one builds it.
_loop_locks: dict[tuple[Any, ...], threading.Lock] = {}
_helpers: ContextVar[CompilingProcesses | None] = ContextVar("helpers", default=None)


def loop_for(rule: Rule, space: Any, loop: Callable[..., int] = stream) -> Loop:
    """Return the loop for a rule and a space, compiling or loading it on first use.

    The space is an instance, of which only the type and the dtype matter.
    """
    key = _loop_key(rule, space, loop)
    if key not in _loops:
        with _loop_locks.setdefault(key, threading.Lock()):
            if key not in _loops:
                _loops[key] = _build(rule, space, loop)
    return _loops[key]


def _loop_key(rule: Rule, space: Any, loop: Callable[..., int]) -> tuple[Any, ...]:
    return loop, rule.record, form_of(space), str(space.weights.dtype)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause garbage collection, which would take a tenth to a fifth of Numba's compile time.

    Numba creates millions of objects but little garbage.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def cache_folder(rule: Rule, space: Any, loop: Callable[..., int] = stream) -> Path | None:
    """Return the folder for the machine code of this pair, or None if it cannot be cached.

    That is the case if the rule does not come from a file, or if no folder is writable.
    """
    if not getattr(sys.modules.get(rule.record.__module__), "__file__", None):
        return None
    functions = [loop, *rule_functions(rule, loop), *space_functions(type(space))]
    arguments = describe_type(_prototype(rule, space, loop))
    facts = (*toolchain(), describe_sum_orders(type(space)), dict(rule.kinds), arguments)
    name = fingerprint(functions, GENERIC, *facts)
    return folder_for(name, f"{rule.name}-{form_of(space).replace(' ', '-')}-{space.weights.dtype}-{loop.__name__}")


@cache
def code_mark(rule: Rule) -> str:
    """Return a hash of all code that a run with this rule executes; results are valid while it is equal."""
    spaces = spaces_of(rule)
    of_spaces = [function for space in spaces for function in space_functions(space)]
    functions: list[Callable[..., Any]] = [stream, *rule_functions(rule, stream), *of_spaces]
    if rule.composite:
        functions.append(choose.form_for)
    return fingerprint(functions, GENERIC, dict(rule.kinds), *map(describe_sum_orders, spaces))


def spaces_of(rule: Rule) -> list[type[Space]]:
    """Return the spaces that a learner with this rule may have, from the module that chooses one."""
    module = choose if rule.composite is None else sys.modules[rule.record.__module__]
    return [kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, Space)]


def is_compiled(rule: Rule, space: Any, loop: Callable[..., int] = stream) -> bool:
    """Return True if using this pair now needs no compilation."""
    return _loop_key(rule, space, loop) in _loops or holds_code(cache_folder(rule, space, loop))


def _build(rule: Rule, space: Any, loop: Callable[..., int]) -> Loop:
    if is_switched_off():
        return loop
    title = f"{rule.title}, {form_of(space)} {space.weights.dtype}" + (", for teaching" if loop is lessons else "")
    folder = cache_folder(rule, space, loop)
    if not knows_numba():
        return _plain_loop(rule, space, loop, folder, title)
    code = read_code(folder)
    if code is None:
        _announce_work(f"compiling {title}, once")
        prune(root())
        code = _compile_or_call(rule, space, loop, folder, title)
    names = loop.__code__.co_varnames[: loop.__code__.co_argcount]
    return CompiledLoop(code, title, names, _prototype(rule, space, loop))


def _announce_work(message: str) -> None:
    """Log `message`, and print it to a watching user if the program has not configured its logging."""
    LOG.info("%s", message, extra={"event": "compiling"})
    handlers = (*logging.getLogger("onebit").handlers, *logging.getLogger().handlers)
    watched = hasattr(sys, "ps1") or (sys.stderr is not None and sys.stderr.isatty())
    if watched and all(isinstance(handler, logging.NullHandler) for handler in handlers):
        print(f"onebit: {message}", file=sys.stderr, flush=True)


def _plain_loop(rule: Rule, space: Any, loop: Callable[..., int], folder: Path | None, title: str) -> Loop:
    """Compile using only Numba's documented interface, or load what was compiled that way."""
    if not holds_code(folder):
        _announce_work(f"compiling {title}, once, by plain Numba {numba_version()}, which takes longer")
        prune(root())
    with _lock, _collector_paused(), _errors_explained(rule):
        announce(rule, type(space), loop)
        return PlainLoop(loop, _prototype(rule, space, loop), folder)


def _compile_or_call(rule: Rule, space: Any, loop: Callable[..., int], folder: Path | None, title: str) -> bytes:
    """Return machine code, compiled here or by a helper process.

    A helper process is used if this process has some and is compiling something else already.
    """
    helpers = helpers_for(rule)
    if helpers is None or folder is None:
        return _compile_here(rule, space, loop, folder)
    if _lock.acquire(blocking=False):
        try:
            return _compile_here(rule, space, loop, folder)
        finally:
            _lock.release()
    helpers.call(compile_known, rule.name, _with_tiny_arrays(space), loop, what=title)
    return read_code(folder) or _compile_here(rule, space, loop, folder)


@contextmanager
def helped_by(processes: CompilingProcesses | None) -> Iterator[None]:
    """Let helper processes compile for this thread while this process compiles something else."""
    before = _helpers.set(processes)
    try:
        yield
    finally:
        _helpers.reset(before)


def helpers_for(rule: Rule) -> CompilingProcesses | None:
    """Return the processes that may compile a loop of this rule for this thread, or None."""
    return _helpers.get() if is_known(rule) else None


def is_known(rule: Rule) -> bool:
    """Return True if another process can find the same rule by name, as it is one of onebit's own."""
    return registry().get(rule.name) is rule


def compile_known(name: str, space: Any, loop: Callable[..., int]) -> None:
    """Compile a loop of the rule with this name into the cache."""
    loop_for(rule_named(name), space, loop)


def _with_tiny_arrays(value: Any) -> Any:
    """Return a space of the same kind with arrays of one element, which takes no time to send."""
    if isinstance(value, np.ndarray):
        return np.zeros((1,) * value.ndim, dtype=value.dtype)
    return value._make(map(_with_tiny_arrays, value)) if hasattr(value, "_make") else value


def _compile_here(rule: Rule, space: Any, loop: Callable[..., int], folder: Path | None) -> bytes:
    """Compile in this process and write the machine code to the cache."""
    with _lock, _collector_paused():
        code = _machine_code(rule, space, loop)
    write_code(folder, code)
    return code


def _machine_code(rule: Rule, space: Any, loop: Callable[..., int]) -> bytes:
    import numba

    from onebit.engine.linking import LoopCompiler

    announce(rule, type(space), loop)
    dispatcher: Any = numba.njit(pipeline_class=LoopCompiler, **OPTIONS)(loop)
    signature = _signature(rule, space, loop)
    with _errors_explained(rule):
        dispatcher.compile(signature)
    return dispatcher.overloads[signature].library.machine_code  # type: ignore[no-any-return]


@contextmanager
def _errors_explained(rule: Rule) -> Iterator[None]:
    """Turn a compiler error into one sentence about the rule, raised as InputError."""
    from numba import NumbaError

    try:
        yield
    except NumbaError as error:
        raise InputError(f"{rule.title} cannot be compiled: {_gist(str(error), rule)}") from error


def _signature(rule: Rule, space: Any, loop: Callable[..., int]) -> tuple[Any, ...]:
    """Return the types of the loop's arguments; a space whose functions are called is passed by reference."""
    import numba

    from onebit.engine.linking import is_called
    from onebit.engine.references import Reference

    prototype = _prototype(rule, space, loop)
    kinds = (numba.typeof(argument) for argument in prototype)
    by_reference = is_called(type(space))
    pairs = zip(prototype, kinds, strict=True)
    return tuple(Reference(kind) if value is space and by_reference else kind for value, kind in pairs)


def _gist(message: str, rule: Rule) -> str:
    """Return the cause of a compiler error and the line in the rule's file."""
    lines = clean_lines(message)
    cause = next((line for line in lines if _CAUSE.search(line)), lines[0])
    if "unify" in cause and "Choice" in cause:
        cause += "; label and greedy of a Choice are whole numbers, the rest are floats: write 1.0, not 1"
    own = Path(getattr(sys.modules.get(rule.record.__module__), "__file__", "") or "?").name
    own_lines = [line.rstrip(":") for line in lines if line.startswith("File ") and own in line]
    return f"{cause} ({own_lines[-1]})" if own_lines else cause


def _prototype(rule: Rule, space: Any, loop: Callable[..., int]) -> tuple[Any, ...]:
    record = rule.record(*(kind(0) for kind in rule.kinds.values()))
    integers, vector = np.zeros(1, dtype=np.int64), np.zeros(1)
    floats = np.zeros((1, CHOICE_COLUMNS))
    words = np.zeros(1, dtype=np.uint64)
    rows = space.example_rows(space.weights.dtype)
    given = (record, space, rows)
    if loop is lessons:
        arrays: tuple[Any, ...] = (integers, integers, vector, vector, floats, floats)
        return (*given, *arrays, words[0], words, words[0], 0, 0, 0.0)
    arrays = (*(integers,) * 4, floats, vector, vector, floats, floats, Tally.empty(integers))
    return (*given, *arrays, words[0], words, words[0], 0, 0, 0, 0, *(0.0,) * 5)


def form_of(space: Any) -> str:
    """Return the kind of a space in words, such as `diagonal dense`; it identifies the machine code."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in type(space).__name__).strip()


# --- for unknown versions of Numba: by what Numba documents alone -------------------------------------------------------


class PlainLoop:
    """A loop compiled through Numba's documented interface, called like the original function."""

    def __init__(self, loop: Callable[..., int], prototype: Sequence[Any], folder: Path | None) -> None:
        """Compile the loop, or load it from the folder; arguments must have the types of the prototype."""
        import numba

        self._kinds = [type(value) for value in prototype]
        signature = tuple(map(numba.typeof, self._as_compiled(prototype)))
        placed = loop if folder is None else _in_folder(loop, folder)
        self._enter: Callable[..., int] = numba.njit(signature, cache=folder is not None, **_PLAIN_OPTIONS)(placed)

    def __call__(self, *arguments: Any) -> int:
        return self._enter(*self._as_compiled(arguments))

    def _as_compiled(self, arguments: Sequence[Any]) -> list[Any]:
        """Return the arguments with the types that were compiled for: rows read-only, other arrays writable."""
        return [_fit_argument(kind, value) for kind, value in zip(self._kinds, arguments, strict=True)]


def _in_folder(function: Callable[..., Any], folder: Path) -> Callable[..., Any]:
    """Return a copy of a function that appears to be defined in a file in the folder.

    Numba keeps machine code beside that file.
    """
    file = folder / f"{function.__name__}.py"
    if not file.is_file():  # Numba compares its time and size
        file.touch()
    code = function.__code__.replace(co_filename=str(file))
    return FunctionType(code, function.__globals__, function.__name__)


def _fit_argument(kind: type[Any], value: Any) -> Any:
    if kind in (DenseRows, SparseRows):  # broadcasting makes arrays read-only
        return kind(*(np.broadcast_to(part, part.shape) if isinstance(part, np.ndarray) else part for part in value))
    if isinstance(value, np.ndarray):
        return value if value.flags.writeable else value.copy()
    return value if isinstance(value, tuple) else kind(value)
