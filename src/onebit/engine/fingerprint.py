"""Find everything that machine code depends on: functions, constants and the tools that compile them.

This has two uses. Numba compiles a plain function only if it has been registered, so every function that a rule
reaches by its global names is registered, and rule files need no decorators. And cached code is stale when anything
reachable has changed, so its name is a hash of all of it: of the code as loaded, not of the files on disk, which may
have been edited since. The hash includes what compiles the code (versions, settings, the processor), which is
determined without importing the compiler.
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
from pkgutil import iter_modules
from typing import Any

import numpy as np

from onebit.engine.machine_code import host


def find_reachable(functions: Iterable[Callable[..., Any]], beyond: Container[Any] = ()) -> list[types.FunctionType]:
    """Return these functions and all plain functions they use, directly or not, each once.

    Functions in `beyond` are left out, and so is what only they use.
    """
    reached: dict[int, types.FunctionType] = {}
    waiting = [function for function in functions if isinstance(function, types.FunctionType)]
    while waiting:
        function = waiting.pop()
        if id(function) not in reached:
            reached[id(function)] = function
            waiting.extend(
                used for used in _globals_of(function) if isinstance(used, types.FunctionType) and used not in beyond
            )
    return list(reached.values())


def fingerprint(functions: Iterable[Callable[..., Any]], beyond: Container[Any], *facts: object) -> str:
    """Return a hash of all code that these functions reach, of the constants it uses, and of `facts`."""
    digest = hashlib.sha256(repr(facts).encode())
    parts = []
    for function in find_reachable(functions, beyond):
        constants = sorted(
            _describe(used) for used in _globals_of(function) if not isinstance(used, types.FunctionType)
        )
        name, code = (function.__module__, function.__qualname__), describe_code(function.__code__)
        parts.append(repr((*name, code, function.__defaults__, constants)))
    for part in sorted(parts):
        digest.update(part.encode())
    return digest.hexdigest()[:24]


def _names_in(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant)


def _globals_of(function: types.FunctionType) -> list[Any]:
    """Return the objects that a function refers to by global names and closures.

    For modules other than NumPy, math and Numba, this includes the attributes that the function uses.
    """
    names = list(_names_in(function.__code__))
    used = [function.__globals__[name] for name in names if name in function.__globals__]
    for module in [thing for thing in used if isinstance(thing, types.ModuleType)]:
        if module.__name__.split(".")[0] not in ("numpy", "math", "numba"):
            used.extend(getattr(module, name) for name in names if hasattr(module, name))
    closed = function.__closure__ or ()
    return used + [cell.cell_contents for cell in closed]


def describe_code(code: types.CodeType) -> tuple[Any, ...]:
    """Return what a code object and the functions nested in it do, independent of where they are defined."""
    constants = tuple(map(_describe_constant, code.co_consts))
    return code.co_code, code.co_names, code.co_varnames, constants


def _describe_constant(constant: Any) -> Any:
    if isinstance(constant, types.CodeType):
        return describe_code(constant)
    # Sorted, since the order of a set differs between processes.
    return sorted(map(repr, constant)) if isinstance(constant, frozenset) else repr(constant)


def _describe(thing: Any) -> str:
    if isinstance(thing, type):
        fields = getattr(thing, "_fields", None) or getattr(thing, "__members__", None)
        return f"{thing.__module__}.{thing.__qualname__}:{fields!r}"
    if isinstance(thing, types.ModuleType):
        return thing.__name__
    return repr(thing)


# The versions of Numba whose internals the engine knows; docs/reference/dependencies.md names these.
FIRST_KNOWN, FIRST_UNKNOWN = (0, 63), (0, 69)
_PLAIN = "ONEBIT_PLAIN_NUMBA"  # set to 1 in tests to act as with an unknown version

_SETTINGS = ".numba_config.yaml"  # Numba reads it from the folder in which a process was started
_UNRELATED_PREFIXES = ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS", "NUMBA_THREADING_LAYER", "NUMBA_CUDA_")


def toolchain() -> tuple[object, ...]:
    """Return the versions, code, settings and processor that machine code depends on."""
    return (*_versions(), knows_numba(), _settings(), host())


@cache
def _versions() -> tuple[object, ...]:
    import llvmlite

    # The modules of the engine, of which some import the compiler, so their code is read without importing them.
    modules = sorted(module.name for module in iter_modules([str(Path(__file__).parent)]) if not module.ispkg)
    code = [_code_of(f"{__package__}.{name}") for name in modules]
    return sys.version, np.__version__, llvmlite.__version__, numba_version(), code


def _code_of(name: str) -> Any:
    """Return the code of a module without importing it."""
    loader: Any = getattr(find_spec(name), "loader", None)
    return describe_code(loader.get_code(name))


def knows_numba() -> bool:
    """Return True if the engine knows the internals of the installed Numba version and may use them."""
    if os.environ.get(_PLAIN) == "1":
        return False
    return FIRST_KNOWN <= tuple(map(int, re.findall(r"\d+", numba_version())[:2])) < FIRST_UNKNOWN


@cache
def numba_version() -> str:
    """Return the version of the installed Numba, if possible without importing it."""
    package = find_spec("numba")
    path = Path(package.origin or "").with_name("_version.py") if package else None
    text = path.read_text() if path is not None and path.is_file() else ""
    match = re.search(r'"version": "([^"]+)"', text)
    if match:
        return match[1]
    import numba

    return str(numba.__version__)


def _settings() -> tuple[object, ...]:
    """Return the settings for Numba in the environment and in its configuration file."""
    names = (name for name in os.environ if name.startswith("NUMBA_") and not name.startswith(_UNRELATED_PREFIXES))
    settings = sorted((name, os.environ[name]) for name in names)
    file = Path(_SETTINGS)
    return *settings, file.read_text() if file.is_file() else ""


def is_switched_off() -> bool:
    """Return True if Numba was asked not to compile, as its users do to debug compiled functions."""
    if not any(_settings()):
        return False
    from numba import config

    return bool(config.DISABLE_JIT)
