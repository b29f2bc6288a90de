"""What makes machine code of functions, in words that change when it does, and found without importing the compiler."""

from __future__ import annotations

import os
import re
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from onebit.engine.machine_code import host
from onebit.engine.reach import code_in

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
    "plain",
    "references",
    "shortcuts",
    "words",
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
