"""What machine code depends on: every plain function and constant that a function reaches by its global names, and what compiles them.

Two uses. Numba compiles a plain function only if it is announced, so everything a rule calls is announced, and rule files need
no decorators. And a cache is stale when anything reachable has changed, so its name is a hash of all of it: of the code as
loaded, not of files on disk, which may have been edited since. What compiles (versions, settings, the processor) is part of the hash, and
is found without importing the compiler.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import types
from collections.abc import Callable, Container, Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from onebit.engine.machine_code import host


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


# The versions of Numba whose internals the engine knows; docs/reference/dependencies.md names these.
FIRST_KNOWN, FIRST_UNKNOWN = (0, 63), (0, 69)
_PLAIN = "ONEBIT_PLAIN_NUMBA"  # set to 1, for tests: as with a version that is not known

# All that has a hand in it. They import the compiler, so they are read and not imported.
_MODULES = (
    "compile",
    "lane_code",
    "linking",
    "machine_code",
    "native_entry",
    "overloads",
    "references",
    "shortcuts",
    "arguments",
)
_SETTINGS = ".numba_config.yaml"  # which Numba reads in the folder where a process was started
_OF_OTHER_THINGS = ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS", "NUMBA_THREADING_LAYER", "NUMBA_CUDA_")


def toolchain() -> tuple[object, ...]:
    """The versions, the code, the settings and the processor that machine code depends on."""
    return (*_versions(), knows_numba(), _settings(), host())


@cache
def _versions() -> tuple[object, ...]:
    import llvmlite

    code = [_code_of(f"{__package__}.{name}") for name in _MODULES]
    return sys.version, np.__version__, llvmlite.__version__, numba_version(), code


def _code_of(name: str) -> Any:
    """The code of a module, which need not be imported for that."""
    loader: Any = getattr(find_spec(name), "loader", None)
    return code_in(loader.get_code(name))


def knows_numba() -> bool:
    """Return True if the installed Numba is a version whose internals the engine knows, and may use."""
    if os.environ.get(_PLAIN) == "1":
        return False
    return FIRST_KNOWN <= tuple(map(int, re.findall(r"\d+", numba_version())[:2])) < FIRST_UNKNOWN


@cache
def numba_version() -> str:
    """Return the version of Numba: from the file where it says so, or by importing it."""
    package = find_spec("numba")
    path = Path(package.origin or "").with_name("_version.py") if package else None
    text = path.read_text() if path is not None and path.is_file() else ""
    found = re.search(r'"version": "([^"]+)"', text)
    if found:
        return found[1]
    import numba

    return str(numba.__version__)


def _settings() -> tuple[object, ...]:
    """How Numba was told to compile, by the environment or by a file."""
    names = (name for name in os.environ if name.startswith("NUMBA_") and not name.startswith(_OF_OTHER_THINGS))
    said = sorted((name, os.environ[name]) for name in names)
    file = Path(_SETTINGS)
    return *said, file.read_text() if file.is_file() else ""


def is_switched_off() -> bool:
    """Whether Numba was asked not to compile: how its users look into compiled functions with a debugger."""
    if not any(_settings()):
        return False
    from numba import config

    return bool(config.DISABLE_JIT)
