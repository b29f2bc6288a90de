"""What compiled code is made of: every plain function and constant that a function reaches through its global names.

Two uses. Numba compiles a plain function only if it is announced, so everything a rule calls is announced, and rule files need
no decorators. And a cache is stale when anything reachable has changed, so its name is a hash of all of it: of the code as
loaded, not of files on disk, which may have been edited since.
"""

from __future__ import annotations

import hashlib
import types
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any


def reach(functions: Iterable[Callable[..., Any]], beyond: Container[Any] = ()) -> list[types.FunctionType]:
    """The given functions and all plain functions that they use, directly or not, each once; none of those `beyond`."""
    found: dict[int, types.FunctionType] = {}
    waiting = [function for function in functions if isinstance(function, types.FunctionType)]
    while waiting:
        function = waiting.pop()
        if id(function) not in found:
            found[id(function)] = function
            waiting.extend(
                used for used in _globals_of(function) if isinstance(used, types.FunctionType) and used not in beyond
            )
    return list(found.values())


def fingerprint(functions: Iterable[Callable[..., Any]], beyond: Container[Any], *facts: object) -> str:
    """A hash of the code of all that these functions reach, of the constants they use, and of further facts."""
    digest = hashlib.sha256(repr(facts).encode())
    parts = []
    for function in reach(functions, beyond):
        constants = sorted(
            _describe(used) for used in _globals_of(function) if not isinstance(used, types.FunctionType)
        )
        parts.append(
            repr((function.__module__, function.__qualname__, code_of(function), function.__defaults__, constants))
        )
    for part in sorted(parts):
        digest.update(part.encode())
    return digest.hexdigest()[:24]


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _globals_of(function: types.FunctionType) -> list[Any]:
    """The objects behind the global names of a function, one attribute deep for modules other than the libraries'."""
    names = list(_names(function.__code__))
    used = [function.__globals__[name] for name in names if name in function.__globals__]
    for module in [thing for thing in used if isinstance(thing, types.ModuleType)]:
        if module.__name__.split(".")[0] not in ("numpy", "math", "numba"):
            used.extend(getattr(module, name) for name in names if hasattr(module, name))
    closed = function.__closure__ or ()
    return used + [cell.cell_contents for cell in closed]


def code_of(function: Callable[..., Any]) -> tuple[Any, ...]:
    """What a function does, without where it stands."""
    return code_in(function.__code__)


def code_in(code: types.CodeType) -> tuple[Any, ...]:
    """What compiled Python does, and what the functions within it do."""
    constants = tuple(map(_constant, code.co_consts))
    return code.co_code, code.co_names, code.co_varnames, constants


def _constant(one: Any) -> Any:
    if isinstance(one, types.CodeType):
        return code_in(one)
    return sorted(map(repr, one)) if isinstance(one, frozenset) else repr(one)  # whose order is another in each process


def _describe(thing: Any) -> str:
    if isinstance(thing, type):
        fields = getattr(thing, "_fields", None) or getattr(thing, "__members__", None)
        return f"{thing.__module__}.{thing.__qualname__}:{fields!r}"
    if isinstance(thing, types.ModuleType):
        return thing.__name__
    return repr(thing)
