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


def functions_in(module: types.ModuleType) -> list[types.FunctionType]:
    """The functions that are written in a module, and the methods of its classes, in the order of their names."""
    own = [thing for thing in vars(module).values() if getattr(thing, "__module__", None) == module.__name__]
    written = [*own, *(part for thing in own if isinstance(thing, type) for part in vars(thing).values())]
    bare = [part.fget if isinstance(part, property) else part for part in written]
    return sorted((part for part in bare if isinstance(part, types.FunctionType)), key=lambda part: part.__qualname__)


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
    return _code(function.__code__)


def _code(code: types.CodeType) -> tuple[Any, ...]:
    constants = tuple(_code(one) if isinstance(one, types.CodeType) else repr(one) for one in code.co_consts)
    return code.co_code, code.co_names, code.co_varnames, constants


def _describe(thing: Any) -> str:
    if isinstance(thing, type):
        fields = getattr(thing, "_fields", None) or getattr(thing, "__members__", None)
        return f"{thing.__module__}.{thing.__qualname__}:{fields!r}"
    if isinstance(thing, types.ModuleType):
        return thing.__name__
    return repr(thing)
